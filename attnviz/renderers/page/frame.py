"""The page of a View in a cell of a notebook: in a frame that is isolated from the rest."""

from __future__ import annotations

from html import escape

from attnviz.renderers import render
from attnviz.views.view import View

# Scripts and downloads are allowed, but the frame has no origin of its own: it can reach neither
# the notebook nor other cells.
IFRAME_SANDBOX = "allow-scripts allow-downloads"
IFRAME_PERMISSIONS = "clipboard-write; fullscreen"
FRAME_HEIGHT, WORDS_FRAME_HEIGHT = 760, 600  # in pixels, with heads to explore and without
# The frame covers this hint; untrusted notebooks are shown without frames.
NO_FRAME_HINT = "an interactive page: if it does not appear, trust this notebook, or run the cell"
SHARED_CELL_STYLE = "grid-area: 1 / 1"
RESIZE_STYLE = "resize: vertical; padding-bottom: 12px"  # outside the frame, which takes the mouse


def framed_page(view: View) -> str:
    """Return the page in a frame, with a corner below it to pull it higher."""
    page = render(view, ".html").decode().replace("&", "&amp;").replace('"', "&quot;")
    title = escape(f"attnviz: {view.headline or view.title}")
    height = FRAME_HEIGHT if view.heads else WORDS_FRAME_HEIGHT
    box = f"display: grid; height: {height}px; {RESIZE_STYLE}; overflow: hidden; max-width: 100%"
    return (
        f'<div style="{box}"><p style="{SHARED_CELL_STYLE}; margin: 1em">{title}<br>'
        f'({NO_FRAME_HINT})</p><iframe srcdoc="{page}" title="{title}" sandbox="{IFRAME_SANDBOX}" '
        f'allow="{IFRAME_PERMISSIONS}" loading="lazy" style="{SHARED_CELL_STYLE}; width: 100%; '
        'height: 100%; border: 0"></iframe></div>'
    )
