"""The page of a View in a cell of a notebook: in a frame that nothing else in it can reach."""

from __future__ import annotations

from html import escape

from attnviz.renderers import render
from attnviz.views.view import View

# Its scripts run, and what one copies may be saved; but it is of no origin: two cells, and the
# notebook around them, are strangers to each other.
IFRAME_SANDBOX = "allow-scripts allow-downloads"
IFRAME_PERMISSIONS = "clipboard-write; fullscreen"
FRAME_HEIGHT, WORDS_FRAME_HEIGHT = 760, 600  # pixels: with heads to look around in, and without
# Below the frame, and so hidden by it: notebooks that nobody trusts yet are shown without frames.
NO_FRAME_HINT = "an interactive page: if it does not appear, trust this notebook, or run the cell"
SHARED_CELL_STYLE = "grid-area: 1 / 1"
RESIZE_STYLE = (
    "resize: vertical; padding-bottom: 12px"  # of a corner in a frame the frame would hear
)


def framed_page(view: View) -> str:
    """The page in a frame; whoever wants it higher pulls the corner below it."""
    page = _escape_attribute(render(view, ".html").decode())
    title = escape(f"attnviz: {view.headline or view.title}")
    height = FRAME_HEIGHT if view.heads else WORDS_FRAME_HEIGHT
    box = f"display: grid; height: {height}px; {RESIZE_STYLE}; overflow: hidden; max-width: 100%"
    return (
        f'<div style="{box}"><p style="{SHARED_CELL_STYLE}; margin: 1em">{title}<br>({NO_FRAME_HINT})</p>'
        f'<iframe srcdoc="{page}" title="{title}" sandbox="{IFRAME_SANDBOX}" allow="{IFRAME_PERMISSIONS}" '
        f'loading="lazy" style="{SHARED_CELL_STYLE}; width: 100%; height: 100%; border: 0"></iframe></div>'
    )


def _escape_attribute(page: str) -> str:
    """As the value of an attribute, where no other letters need an escape."""
    return page.replace("&", "&amp;").replace('"', "&quot;")
