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


def framed(view: View) -> str:
    """The page in a frame; whoever wants it higher pulls it at its lower edge."""
    page = escape(render(view, ".html").decode())
    title = escape(f"attnviz: {view.headline or view.title}")
    height = HEIGHT if view.heads else HEIGHT_OF_WORDS
    box = f"height: {height}px; resize: vertical; overflow: hidden; max-width: 100%"
    return (
        f'<div style="{box}"><iframe srcdoc="{page}" title="{title}" sandbox="{SANDBOX}" '
        f'allow="{ALLOWED}" loading="lazy" style="width: 100%; height: 100%; border: 0"></iframe>'
        "</div>"
    )
