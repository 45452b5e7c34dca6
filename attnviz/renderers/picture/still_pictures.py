"""Views as still pictures: PNG, SVG and PDF, on one page or several."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attnviz.renderers import Look
from attnviz.renderers.picture.draw import ShownFigure, draw_layout
from attnviz.renderers.picture.glyphs import hermetic, with_glyphs
from attnviz.renderers.picture.page_frame import BETWEEN_NOTES, Captions, make_frame
from attnviz.renderers.picture.page_kinds import drawing_of, page_layout, sections_fit
from attnviz.renderers.picture.panel_rows import panel_orders
from attnviz.renderers.picture.panels import count_labels, fill_page
from attnviz.renderers.picture.section import count_fitting_sums
from attnviz.renderers.picture.text import SLIDE, lettering
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.description import has_masked_cells, panel_notes
from attnviz.views.grids.grid import Grid, block_size, pool_grid, with_common_scales
from attnviz.views.grids.section import Drawable, Section, open_panels
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import Group, View, build_page
from attnviz.wording.keywords import replace_choices

PIXELS_PER_INCH = 200
PNG_COMPRESSION = 3  # of 9: more takes long, and saves little
WIDEST_PANEL_INCHES = 4  # inches: so many pixels a grid of many cells is pooled to


def png_picture(view: View, look: Look) -> list[bytes]:
    """Return a view as a PNG, with title, description and provenance in its metadata."""
    texts = {
        "Title": view.headline,
        "Description": view.picture.description,
        "Software": "attnviz",
        "attnviz": view.provenance_text,
    }
    return [_picture_bytes(view, look, "png", {key: text for key, text in texts.items() if text})]


def svg_picture(view: View, look: Look) -> list[bytes]:
    """Return a view as an SVG whose text stays text, and whose title and description say what it
    shows.
    """
    metadata = {"Date": None, "Creator": "attnviz", "Description": view.provenance_text or None}
    drawn = _picture_bytes(view, look, "svg", metadata).decode()
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


def pdf_picture(view: View, look: Look) -> list[bytes]:
    """Return a view as a PDF, with title, description and provenance in its metadata,
    and no date.
    """
    texts = {
        "Title": view.headline,
        "Subject": view.picture.description,
        "Keywords": view.provenance_text,
        "Creator": "attnviz",
    }
    metadata = {key: text for key, text in texts.items() if text}
    return [_picture_bytes(view, look, "pdf", {**metadata, "CreationDate": None})]


def view_captions(view: View, look: Look) -> Captions:
    """Return what is written around the panels of a view; what stands on their axes is not said
    again.
    """
    on_axes = AXES_NOTE.split(BETWEEN_NOTES)
    panels = view.picture.panels
    reading = [note for note in panel_notes(panels) if note not in on_axes]
    explained = drawing_of(view.picture.groups) is not None  # by the picture itself
    hatched = ["hatched = hidden by the mask"] if has_masked_cells(panels) and not explained else []
    random = [view.picture.caveat] if view.picture.caveat else []
    footnote = view.settings if look.has_footnote else ""
    return Captions(
        view.headline,
        BETWEEN_NOTES.join([*reading, *hatched, *random]),
        footnote,
        view.has_chosen_title,
    )


def figure(view: View, **looks: Any) -> Figure:
    """Return the picture of a view as a matplotlib figure that no window knows of.

    `looks` are settings of `Look` by name, such as `theme`; unknown ones are refused.
    """
    look = replace_choices(Look(), looks)
    captions = view_captions(view, look)
    with drawn_view(view, look, captions) as drawn:
        drawn.description = view.picture.description
    return drawn


@contextmanager
def drawn_view(view: View, look: Look, captions: Captions) -> Iterator[ShownFigure]:
    """Yield the picture of a view as a figure, which must be saved while the block lasts."""
    with hermetic(view.picture.panels, captions):  # matplotlib's own settings, and our fonts
        groups = with_glyphs(view.picture.groups)  # only characters that some font here has
        pooled = pool_groups(groups, look)  # no more cells than there are pixels
        layout = page_layout(pooled, look, with_glyphs(captions))  # what stands where, in inches
        yield draw_layout(layout, look)  # in ink, and in colours


def picture_between(view: View, look: Look, above: float, below: float) -> bytes:
    """Return as a PNG what a page shows between its top and its foot, cut out of the page.

    `above` and `below` are the inches that are left to others there; no captions are drawn.
    """
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH)
    captions, drawn = Captions(above=above, below=below), io.BytesIO()
    with drawn_view(view, look, captions) as page:
        page.set_dpi(look.dpi or 0)
        wide, high = page.canvas.get_width_height()
        page.savefig(drawn, format="raw", dpi=look.dpi, transparent=look.transparent)
    pixels = np.frombuffer(drawn.getvalue(), np.uint8).reshape(high, wide, 4)
    top, foot = round(above * page.dpi), high - round(below * page.dpi)
    part = pixels[top:foot, :, : 4 if look.transparent else 3]
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(part)).save(file, "PNG", compress_level=PNG_COMPRESSION)
    return file.getvalue()


def _picture_bytes(view: View, look: Look, kind: str, metadata: dict[str, Any]) -> bytes:
    """Return a view drawn as a file of a kind ('png', 'svg' or 'pdf') with this metadata."""
    file = io.BytesIO()
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH)
    with drawn_view(view, look, view_captions(view, look)) as page:
        page.savefig(
            file,
            format=kind,
            dpi=look.dpi,
            transparent=look.transparent,
            metadata=metadata,
            **({"pil_kwargs": {"compress_level": PNG_COMPRESSION}} if kind == "png" else {}),
        )
    return file.getvalue()


def pool_groups(groups: Sequence[Group], look: Look) -> list[Group]:
    """Return groups with any grid of more cells than pixels in blocks of cells; no cell is left
    out.

    Pooled grids of one kind have one scale, wherever they stand.
    """
    pixels = int(WIDEST_PANEL_INCHES * (look.dpi or PIXELS_PER_INCH))
    panels = [panel for group in groups for panel in group.all_panels]
    cells = [each for each in panels if not isinstance(each, Arcs | Sentence | RankedBars)]
    grids = [each for each in open_panels(cells) if isinstance(each, Grid)]
    sides = [[block_size(n, math.ceil(n / pixels)) for n in grid.cells.shape] for grid in grids]
    pooled = [pool_grid(grid, *blocks) for grid, blocks in zip(grids, sides, strict=True)]
    scaled = iter(with_common_scales(pooled))
    return [
        replace(
            group,
            panels=tuple([_with_grids(each, scaled) for each in group.panels]),
            below=tuple([each and next(scaled) for each in group.below]),
        )
        for group in groups
    ]


def _with_grids(each: Drawable, grids: Iterator[Grid]) -> Drawable:
    """Return a panel with the next of these grids in place of its own; other panels stay as they
    are.
    """
    if isinstance(each, Section):
        return replace(each, grids=tuple([next(grids) for _ in each.grids]))
    return next(grids) if isinstance(each, Grid) else each


def divide_pages(view: View, look: Look) -> list[View]:
    """Return a view on as many pages as each panel needs to keep the labels it would have alone.

    Headlines then say which page it is, as in (1 of 3). A view that fits one page, or has one
    panel, comes back as it is; steps are divided by what can be read of them.
    """
    panels = view.picture.panels
    sections = [each for each in panels if isinstance(each, Section)]
    if sections and len(sections) == len(panels):
        groups = list(_section_groups(sections, view, look))
        return [
            _numbered_page(view, [each], place, len(groups)) for place, each in enumerate(groups, 1)
        ]
    if len(panels) == 1 or sections:
        return [view]
    count = len(_all_units(view.picture.groups))
    for most in dict.fromkeys(-(-count // number) for number in range(1, count + 1)):
        divided = list(_divided_groups(view.picture.groups, most))
        if all(_is_as_legible(groups, view, look) for groups in divided):
            break
    if len(divided) == 1:
        return [view]
    return [
        _numbered_page(view, groups, place, len(divided)) for place, groups in enumerate(divided, 1)
    ]


def _section_groups(sections: Sequence[Section], view: View, look: Look) -> Iterator[Group]:
    """Yield a group for each page, with as many steps as can be read there.

    A step that is alone is divided if it has too many sums; moments of a walk are left out.
    """
    size, together = look.size or SLIDE, list[Section]()
    captions = view_captions(view, look)
    with hermetic(view.picture.panels, captions):
        around = with_glyphs(captions)
        for section in sections:
            longer = [*together, replace(section, moments=())]
            if together and not sections_fit(with_glyphs(longer), size, look, around):
                yield from _sum_parts(together, look, around)
                together = longer[-1:]
            else:
                together = longer
        yield from _sum_parts(together, look, around)


def _sum_parts(sections: list[Section], look: Look, captions: Captions) -> Iterator[Group]:
    """Yield some steps as one page; or as several, if it is a single step whose sums do not all
    fit.
    """
    if len(sections) > 1:
        yield Group("steps", tuple(sections))
        return
    (section,) = sections
    left = section.sums
    (drawn,) = with_glyphs(sections)
    most = max(count_fitting_sums(drawn, replace(look, size=look.size or SLIDE), captions), 1)
    for start in range(0, max(len(left), 1), most):
        yield Group("steps", (replace(section, sums=left[start : start + most]),))


def _is_as_legible(groups: Sequence[Group], view: View, look: Look) -> bool:
    """Return whether a page is as legible as its first equation, or panel, would be alone."""
    units = [unit for _, unit in _all_units(groups)]
    first = next((unit for unit in units if unit.kind == "product"), units[0])
    return len(units) == 1 or _legible_labels(groups, view, look) >= _legible_labels(
        [first], view, look
    )


def _legible_labels(groups: Sequence[Group], view: View, look: Look) -> int:
    """Return how much of a page can be read, as a number to compare: above all its labels."""
    captions = view_captions(view, look)
    with hermetic(view.picture.panels, captions):
        drawn = pool_groups(with_glyphs(groups), look)
        size, around = look.size or SLIDE, with_glyphs(captions)
        if drawing := drawing_of(drawn):
            letters = lettering(size, look.text_size)
            return drawing.legible(make_frame(around, size, letters).room, letters)
        return count_labels(fill_page(panel_orders(drawn), size, around, look.text_size))


def _divided_groups(groups: Sequence[Group], most: int) -> Iterator[list[Group]]:
    """Yield the groups of each page, with `most` panels on one in their order, and what is below
    them.
    """
    units = _all_units(groups)
    for start in range(0, len(units), most):
        runs = groupby(units[start : start + most], key=itemgetter(0))
        yield [_joined_units([unit for _, unit in run]) for _, run in runs]


def _all_units(groups: Sequence[Group]) -> list[tuple[int, Group]]:
    """Return what is never divided, with the number of its group: a panel with what is below it, or
    an equation.
    """
    return [(place, unit) for place, group in enumerate(groups) for unit in _group_units(group)]


def _group_units(group: Group) -> Iterator[Group]:
    """Yield a group for each panel with what is below it; an equation as the whole that it is."""
    if group.kind == "product":
        yield group
        return
    for panel, below in zip_longest(group.panels, group.below):
        yield replace(group, panels=(panel,), below=() if below is None else (below,))


def _joined_units(units: Sequence[Group]) -> Group:
    """Return parts of one group as one group again."""
    panels = tuple(panel for unit in units for panel in unit.panels)
    below = tuple(grid for unit in units for grid in unit.below)
    return replace(units[0], panels=panels, below=below)


def _numbered_page(view: View, groups: Sequence[Group], number: int, count: int) -> View:
    """Return one of several pages of a view, with `(number of count)` in its headline."""
    headline = f"{view.headline} ({number} of {count})"
    return replace(
        view, picture=build_page(groups, view.settings, view.picture.caveat), headline=headline
    )
