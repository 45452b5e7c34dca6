"""Views as pictures: PNG, SVG and PDF, ready for a slide as they come out."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attnviz.renderers import Look
from attnviz.renderers.picture.drawing import ShownFigure, draw_layout
from attnviz.renderers.picture.drawings import drawing_of
from attnviz.renderers.picture.frame import BETWEEN, Captions
from attnviz.renderers.picture.glyphs import captions_with_glyphs, groups_with_glyphs, hermetic
from attnviz.renderers.picture.pages import page
from attnviz.renderers.provenance import provenance_of
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.description import has_masked_cells, panel_notes
from attnviz.views.grids.grid import Grid, block_size, pool_grid, with_common_scales
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.section import Drawable, Section, open_panels
from attnviz.views.view import Group, View
from attnviz.wording.keywords import replace_choices

PIXELS_PER_INCH = 200
COMPRESSED = 3  # of 9: more takes long, and saves little
WIDEST_PANEL = 4  # inches: so many pixels a grid of many cells is pooled to


def png(view: View, look: Look) -> list[bytes]:
    texts = {
        "Title": view.headline,
        "Description": view.picture.description,
        "Software": "attnviz",
        "attnviz": provenance_of(view),
    }
    return [_saved(view, look, "png", {key: text for key, text in texts.items() if text})]


def svg(view: View, look: Look) -> list[bytes]:
    """Text stays text, and a title and a description say what is to be seen."""
    metadata = {"Date": None, "Creator": "attnviz", "Description": provenance_of(view) or None}
    drawn = _saved(view, look, "svg", metadata).decode()
    start = drawn.index("<svg ")
    mark = blake2b(drawn.encode(), digest_size=4).hexdigest()  # ids differ where two are inlined
    words = (
        f'<title id="title-{mark}">{html.escape(view.headline)}</title>\n'
        f'<desc id="description-{mark}">{html.escape(view.picture.description)}</desc>\n'
    )
    opening = f'<svg role="img" aria-labelledby="title-{mark} description-{mark}" '
    described = drawn[start:].replace("<svg ", opening, 1)
    head, end, body = described.partition(">\n")
    return [f"{drawn[:start]}{head}{end} {words}{body}".encode()]


def pdf(view: View, look: Look) -> list[bytes]:
    texts = {
        "Title": view.headline,
        "Subject": view.picture.description,
        "Keywords": provenance_of(view),
        "Creator": "attnviz",
    }
    metadata = {key: text for key, text in texts.items() if text}
    return [_saved(view, look, "pdf", {**metadata, "CreationDate": None})]


def captions_of(view: View, look: Look) -> Captions:
    """What is written around panels; what stands on their axes is not said again."""
    on_axes = AXES_NOTE.split(BETWEEN)
    panels = view.picture.panels
    said = [note for note in panel_notes(panels) if note not in on_axes]
    told = drawing_of(view.picture.groups) is not None  # by the picture itself
    hatched = ["hatched = hidden by the mask"] if has_masked_cells(panels) and not told else []
    random = [view.picture.caveat] if view.picture.caveat else []
    made = view.settings if look.has_footnote else ""
    return Captions(view.headline, BETWEEN.join([*said, *hatched, *random]), made, view.titled)


def figure(view: View, **looks: Any) -> Figure:
    """The picture, for those who go on with it in matplotlib; no window knows of it."""
    look = replace_choices(Look(), looks)
    captions = captions_of(view, look)
    with hermetic(view.picture.panels, captions):
        drawn = _drawn(view, look, captions)
    drawn.description = view.picture.description
    return drawn


def _drawn(view: View, look: Look, captions: Captions) -> ShownFigure:
    """In letters that can be drawn."""
    groups = groups_with_glyphs(view.picture.groups)
    return draw(groups, look, captions_with_glyphs(captions))


def between(view: View, look: Look, above: float, below: float) -> bytes:
    """A PNG of what stands on a page between words of somebody else, cut out of it."""
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH)
    captions, drawn = Captions(above=above, below=below), io.BytesIO()
    with hermetic(view.picture.panels, captions):
        made = _drawn(view, look, captions)
        made.set_dpi(look.dpi or 0)
        wide, high = made.canvas.get_width_height()
        made.savefig(drawn, format="raw", dpi=look.dpi, transparent=look.transparent)
    pixels = np.frombuffer(drawn.getvalue(), np.uint8).reshape(high, wide, 4)
    top, foot = round(above * made.dpi), high - round(below * made.dpi)
    part = pixels[top:foot, :, : 4 if look.transparent else 3]
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(part)).save(file, "PNG", compress_level=COMPRESSED)
    return file.getvalue()


def _saved(view: View, look: Look, kind: str, metadata: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH)
    captions = captions_of(view, look)
    with hermetic(view.picture.panels, captions):
        _drawn(view, look, captions).savefig(
            file,
            format=kind,
            dpi=look.dpi,
            transparent=look.transparent,
            metadata=metadata,
            **({"pil_kwargs": {"compress_level": COMPRESSED}} if kind == "png" else {}),
        )
    return file.getvalue()


def draw(groups: Sequence[Group], look: Look, captions: Captions) -> ShownFigure:
    """A figure with a panel for each grid, and a colour bar for each scale."""
    return draw_layout(page(pooled(groups, look), look, captions), look)


def pooled(groups: Sequence[Group], look: Look) -> list[Group]:
    """Grids with more cells than there are pixels, in blocks of cells; no cell is left out.

    Of one kind they have one scale, wherever they stand.
    """
    pixels = int(WIDEST_PANEL * (look.dpi or PIXELS_PER_INCH))
    panels = [panel for group in groups for panel in group.all_panels]
    cells = [each for each in panels if not isinstance(each, Arcs | Sentence | RankedBars)]
    grids = [each for each in open_panels(cells) if isinstance(each, Grid)]
    scaled = iter(with_common_scales([_pooled_to(grid, pixels) for grid in grids]))
    return [
        replace(
            group,
            panels=tuple([_with_grids(each, scaled) for each in group.panels]),
            below=tuple([each and next(scaled) for each in group.below]),
        )
        for group in groups
    ]


def _with_grids(each: Drawable, grids: Iterator[Grid]) -> Drawable:
    if isinstance(each, Section):
        return replace(each, grids=tuple([next(grids) for _ in each.grids]))
    return next(grids) if isinstance(each, Grid) else each


def _pooled_to(grid: Grid, pixels: int) -> Grid:
    down, across = (block_size(count, math.ceil(count / pixels)) for count in grid.cells.shape)
    return pool_grid(grid, down, across)
