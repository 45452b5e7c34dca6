"""The page of a View in a cell of a notebook: in a frame that nothing else in it can reach."""

from __future__ import annotations

from html import escape

from attnviz.renderers import render
from attnviz.views.view import View

# Its scripts run, and what one copies may be saved; but it is of no origin: two cells, and the
# notebook around them, are strangers to each other.
SANDBOX = "allow-scripts allow-downloads"
ALLOWED = "clipboard-write; fullscreen"
HEIGHT, HEIGHT_OF_WORDS = 760, 600  # pixels: with heads to look around in, and without
# Below the frame, and so hidden by it: notebooks that nobody trusts yet are shown without frames.
WITHOUT_FRAME = "an interactive page: if it does not appear, trust this notebook, or run the cell"
ONE_PLACE = "grid-area: 1 / 1"
TO_PULL = "resize: vertical; padding-bottom: 12px"  # of a corner in a frame the frame would hear


def framed(view: View) -> str:
    """The page in a frame; whoever wants it higher pulls the corner below it."""
    page = _quoted(render(view, ".html").decode())
    title = escape(f"attnviz: {view.headline or view.title}")
    height = HEIGHT if view.heads else HEIGHT_OF_WORDS
    box = f"display: grid; height: {height}px; {TO_PULL}; overflow: hidden; max-width: 100%"
    return (
        f'<div style="{box}"><p style="{ONE_PLACE}; margin: 1em">{title}<br>({WITHOUT_FRAME})</p>'
        f'<iframe srcdoc="{page}" title="{title}" sandbox="{SANDBOX}" allow="{ALLOWED}" '
        f'loading="lazy" style="{ONE_PLACE}; width: 100%; height: 100%; border: 0"></iframe></div>'
    )


def _quoted(page: str) -> str:
    """As the value of an attribute, where no other letters need an escape."""
    return page.replace("&", "&amp;").replace('"', "&quot;")
