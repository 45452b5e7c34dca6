"""What a notebook stores of a View: its page in a frame, over a still picture.

Viewers take one kind of a bundle, mostly HTML, and many then drop frames: the page of a code host,
mail, a notebook that is not trusted. So the picture is in the HTML, too, under the frame. Viewers
without HTML, such as an export to PDF, take it as PNG.
"""

from __future__ import annotations

import base64
import io
import warnings
from html import escape
from typing import Any

from attnviz.errors import AttnvizError, Note
from attnviz.renderers import render
from attnviz.views.view import View

# Scripts and downloads are allowed, but the frame has no origin of its own: it can reach neither
# the notebook nor other cells.
IFRAME_SANDBOX = "allow-scripts allow-downloads"
IFRAME_PERMISSIONS = "clipboard-write; fullscreen"
FRAME_HEIGHT, WORDS_FRAME_HEIGHT = 760, 600  # in pixels, with heads to explore and without
NO_FRAME_HINT = "an interactive page: to use it, trust this notebook or run the cell"
RESIZE_PIXELS = 12  # below the frame, which takes the mouse
BOX_STYLE = (
    f"position: relative; resize: vertical; overflow: hidden; padding-bottom: {RESIZE_PIXELS}px; "
    "max-width: 100%"
)
FRAME_STYLE = (
    "position: absolute; top: 0; left: 0; width: 100%; "
    f"height: calc(100% - {RESIZE_PIXELS}px); border: 0"
)
STILL_STYLE = "display: block; max-width: 100%; max-height: 80%"  # of the box: words stand below
STILL_INCHES, STILL_DPI = (40 / 3, 7.5), 72  # 960 × 540 pixels, with the letters of a slide
MAX_STILL_PANELS = 150  # of more than these nothing is seen, and drawing them takes seconds
STILL_COLORS = 128  # a palette takes a third of the bytes, and no difference is seen


def notebook_bundle(view: View) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the page and the picture by MIME type, and the picture's alternative text."""
    still = still_picture(view)
    bundle, metadata = {"text/html": _framed_page(view, still)}, dict[str, Any]()
    if still:
        bundle["image/png"] = base64.b64encode(still).decode()
        metadata["image/png"] = {"alt": view.picture.description}
    return bundle, metadata


def notebook_html(view: View) -> str:
    """Return the page as HTML for a notebook: in a sandboxed frame whose height can be dragged,
    over a still picture of the view.
    """
    return _framed_page(view, still_picture(view))


def still_picture(view: View) -> bytes:
    """Return a small PNG of the view; empty if it has too many panels, or cannot be drawn."""
    if len(view.picture.panels) > MAX_STILL_PANELS:
        return b""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)  # about letters: the page has them all
            return quantize_png(render(view, ".png", size=STILL_INCHES, dpi=STILL_DPI))
    except AttnvizError:
        return b""


def quantize_png(picture: bytes) -> bytes:
    """Return a PNG with `STILL_COLORS` colours."""
    from PIL import Image

    file = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        few_colors = image.convert("RGB").quantize(STILL_COLORS, dither=Image.Dither.NONE)
        few_colors.save(file, "png", optimize=True)
    return file.getvalue()


def _framed_page(view: View, still: bytes) -> str:
    """Return HTML in which the frame covers the picture and the hint, where it is shown."""
    page = render(view, ".html").decode().replace("&", "&amp;").replace('"', "&quot;")
    title = escape(f"attnviz: {view.headline or view.title}")
    height = FRAME_HEIGHT if view.heads else WORDS_FRAME_HEIGHT
    return (
        f'<div style="height: {height}px; {BOX_STYLE}">{_image(view, still)}'
        f'<p style="margin: 1em">{title}<br>({NO_FRAME_HINT})</p>'
        f'<iframe srcdoc="{page}" title="{title}" sandbox="{IFRAME_SANDBOX}" '
        f'allow="{IFRAME_PERMISSIONS}" loading="lazy" style="{FRAME_STYLE}"></iframe></div>'
    )


def _image(view: View, still: bytes) -> str:
    """Return the picture as an element; nothing without a picture."""
    if not still:
        return ""
    source = base64.b64encode(still).decode()
    description = escape(view.picture.description)
    return f'<img src="data:image/png;base64,{source}" alt="{description}" style="{STILL_STYLE}">'
