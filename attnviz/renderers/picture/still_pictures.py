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
from attnviz.renderers.picture.draw import NotebookFigure, draw_layout
from attnviz.renderers.picture.glyphs import fixed_settings, with_glyphs
from attnviz.renderers.picture.page_frame import NOTE_SEPARATOR, Captions, make_frame
from attnviz.renderers.picture.page_kinds import build_drawing, page_layout, sections_fit
from attnviz.renderers.picture.panel_rows import panel_orders
from attnviz.renderers.picture.panels import fill_page, least_label_count
from attnviz.renderers.picture.section import count_fitting_sums
from attnviz.renderers.picture.text import SLIDE, lettering
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.description import has_masked_cells, panel_notes
from attnviz.views.grids.grid import Grid, block_size, pool_grid, with_common_scales
from attnviz.views.grids.section import Drawable, Section, open_panels
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import Group, View, build_page
from attnviz.wording.keywords import replace_choices

PICTURE_DPI = 200
PNG_COMPRESSION = 3  # of 9: more takes long, and saves little
WIDEST_PANEL_INCHES = 4  # inches: so many pixels a grid of many cells is pooled to
HATCHED_NOTE = "hatched = hidden by the mask"


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
    svg = _picture_bytes(view, look, "svg", metadata).decode()
    start = svg.index("<svg ")
    suffix = blake2b(svg.encode(), digest_size=4).hexdigest()  # ids differ where two are inlined
    elements = (
        f'<title id="title-{suffix}">{html.escape(view.headline)}</title>\n'
        f'<desc id="description-{suffix}">{html.escape(view.picture.description)}</desc>\n'
    )
    opening = f'<svg role="img" aria-labelledby="title-{suffix} description-{suffix}" '
    labelled = svg[start:].replace("<svg ", opening, 1)
    head, end, body = labelled.partition(">\n")
    return [f"{svg[:start]}{head}{end} {elements}{body}".encode()]


def pdf_picture(view: View, look: Look) -> list[bytes]:
    """Return a view as a PDF, with title, description and provenance in its metadata,
    and no date.
    """
    return [_picture_bytes(view, look, "pdf", pdf_metadata(view, view.picture.description))]


def pdf_metadata(view: View, subject: str) -> dict[str, Any]:
    texts = {
        "Title": view.headline,
        "Subject": subject,
        "Keywords": view.provenance_text,
        "Creator": "attnviz",
    }
    return {**{key: text for key, text in texts.items() if text}, "CreationDate": None}


def view_captions(view: View, look: Look) -> Captions:
    """Return what is written around the panels of a view; what stands on their axes is not said
    again.
    """
    on_axes = AXES_NOTE.split(NOTE_SEPARATOR)
    panels = view.picture.panels
    reading_notes = [note for note in panel_notes(panels) if note not in on_axes]
    explained = build_drawing(view.picture.groups) is not None  # by the picture itself
    masked = [HATCHED_NOTE] if has_masked_cells(panels) and not explained else []
    caveat = [view.picture.caveat] if view.picture.caveat else []
    notes = NOTE_SEPARATOR.join([*reading_notes, *masked, *caveat])
    footnote = view.settings if look.has_footnote else ""
    return Captions(view.headline, notes, footnote, view.has_chosen_title)


def figure(view: View, **looks: Any) -> Figure:
    """Return the picture of a view as a matplotlib figure that no window knows of.

    `looks` are settings of `Look` by name, such as `theme`; unknown ones are refused.
    """
    look = replace_choices(Look(), looks)
    captions = view_captions(view, look)
    with view_figure(view, look, captions) as picture:
        picture.description = view.picture.description
    return picture


@contextmanager
def view_figure(view: View, look: Look, captions: Captions) -> Iterator[NotebookFigure]:
    """Yield the picture of a view as a figure, which must be saved while the block lasts."""
    with fixed_settings(view.picture.panels, captions, look.font):  # matplotlib's own settings
        groups = with_glyphs(view.picture.groups)  # only characters that some font here has
        pooled = pool_groups(groups, look)  # no more cells than there are pixels
        layout = page_layout(pooled, look, with_glyphs(captions))  # what stands where, in inches
        yield draw_layout(layout, look)  # in ink, and in colours


def crop_picture(view: View, look: Look, above: float, below: float) -> bytes:
    """Return as a PNG what a page shows between its top and its foot, cut out of the page.

    `above` and `below` are the inches that are left to others there; no captions are drawn.
    """
    look = replace(look, dpi=look.dpi or PICTURE_DPI)
    captions, raw = Captions(above=above, below=below), io.BytesIO()
    with view_figure(view, look, captions) as page:
        page.set_dpi(look.dpi or 0)
        wide, high = page.canvas.get_width_height()
        page.savefig(raw, format="raw", dpi=look.dpi, transparent=look.transparent)
    pixels = np.frombuffer(raw.getvalue(), np.uint8).reshape(high, wide, 4)
    top, foot = round(above * page.dpi), high - round(below * page.dpi)
    part = pixels[top:foot, :, : 4 if look.transparent else 3]
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(part)).save(file, "PNG", compress_level=PNG_COMPRESSION)
    return file.getvalue()


def _picture_bytes(view: View, look: Look, kind: str, metadata: dict[str, Any]) -> bytes:
    """Return a view drawn as a file of a kind ('png', 'svg' or 'pdf') with this metadata."""
    file = io.BytesIO()
    look = replace(look, dpi=look.dpi or PICTURE_DPI)
    with view_figure(view, look, view_captions(view, look)) as page:
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
    pixels = int(WIDEST_PANEL_INCHES * (look.dpi or PICTURE_DPI))
    panels = [panel for group in groups for panel in group.all_panels]
    pooled_panels = [part for part in panels if not isinstance(part, Arcs | Sentence | RankedBars)]
    grids = [part for part in open_panels(pooled_panels) if isinstance(part, Grid)]
    sides = [[block_size(n, math.ceil(n / pixels)) for n in grid.cells.shape] for grid in grids]
    pooled = [pool_grid(grid, *blocks) for grid, blocks in zip(grids, sides, strict=True)]
    scaled_grids = iter(with_common_scales(pooled))

    def pooled_panel(panel: Drawable) -> Drawable:
        if isinstance(panel, Section):
            return replace(panel, grids=tuple([next(scaled_grids) for _ in panel.grids]))
        return next(scaled_grids) if isinstance(panel, Grid) else panel

    return [group.with_panels(pooled_panel) for group in groups]


def divide_pages(view: View, look: Look) -> list[View]:
    """Return a view on as many pages as each panel needs to keep the labels it would have alone.

    Headlines then say which page it is, as in (1 of 3). A view that fits one page, or has one
    panel, comes back as it is; steps are divided by what can be read of them.
    """
    panels = view.picture.panels
    sections = [part for part in panels if isinstance(part, Section)]
    if sections and len(sections) == len(panels):
        divided = [[group] for group in _section_groups(sections, view, look)]
    elif len(panels) == 1 or sections:
        return [view]
    else:
        count = len(_all_units(view.picture.groups))
        for max_units in dict.fromkeys(-(-count // number) for number in range(1, count + 1)):
            divided = list(_divided_groups(view.picture.groups, max_units))
            if all(_is_as_legible(groups, view, look) for groups in divided):
                break
        if len(divided) == 1:
            return [view]
    return [
        _numbered_page(view, groups, page, len(divided)) for page, groups in enumerate(divided, 1)
    ]


def _section_groups(sections: Sequence[Section], view: View, look: Look) -> Iterator[Group]:
    """Yield a group for each page, with as many steps as can be read there.

    A step that is alone is divided if it has too many sums; moments of a walk are left out.
    """
    size, page_sections = look.size or SLIDE, list[Section]()
    captions = view_captions(view, look)
    with fixed_settings(view.picture.panels, captions, look.font):
        printed = with_glyphs(captions)
        for section in sections:
            candidate = [*page_sections, replace(section, moments=())]
            if page_sections and not sections_fit(with_glyphs(candidate), size, look, printed):
                yield from _split_by_sums(page_sections, look, printed)
                page_sections = candidate[-1:]
            else:
                page_sections = candidate
        yield from _split_by_sums(page_sections, look, printed)


def _split_by_sums(sections: list[Section], look: Look, captions: Captions) -> Iterator[Group]:
    """Yield some steps as one page; or as several, if it is a single step whose sums do not all
    fit.
    """
    if len(sections) > 1:
        yield Group("steps", tuple(sections))
        return
    (section,) = sections
    sums = section.sums
    (typeset,) = with_glyphs(sections)
    max_sums = max(count_fitting_sums(typeset, replace(look, size=look.size or SLIDE), captions), 1)
    for start in range(0, max(len(sums), 1), max_sums):
        yield Group("steps", (replace(section, sums=sums[start : start + max_sums]),))


def _is_as_legible(groups: Sequence[Group], view: View, look: Look) -> bool:
    """Return whether a page is as legible as its first equation, or panel, would be alone."""
    units = [unit for _, unit in _all_units(groups)]
    first = next((unit for unit in units if unit.kind == "product"), units[0])
    return len(units) == 1 or _page_legibility(groups, view, look) >= _page_legibility(
        [first], view, look
    )


def _page_legibility(groups: Sequence[Group], view: View, look: Look) -> int:
    """Return how much of a page can be read, as a number to compare: above all its labels."""
    captions = view_captions(view, look)
    with fixed_settings(view.picture.panels, captions, look.font):
        pooled = pool_groups(with_glyphs(groups), look)
        size, printed = look.size or SLIDE, with_glyphs(captions)
        if drawing := build_drawing(pooled):
            letters = lettering(size, look.text)
            return drawing.legibility(make_frame(printed, size, letters).room, letters)
        return least_label_count(fill_page(panel_orders(pooled), size, printed, look.text))


def _divided_groups(groups: Sequence[Group], max_units: int) -> Iterator[list[Group]]:
    """Yield the groups of each page, with at most `max_units` panels and what is below them, in
    their order.
    """
    units = _all_units(groups)
    for start in range(0, len(units), max_units):
        runs = groupby(units[start : start + max_units], key=itemgetter(0))
        yield [_join_units([unit for _, unit in run]) for _, run in runs]


def _all_units(groups: Sequence[Group]) -> list[tuple[int, Group]]:
    """Return what is never divided, with the number of its group: a panel with what is below it, or
    an equation.
    """
    return [(index, unit) for index, group in enumerate(groups) for unit in _group_units(group)]


def _group_units(group: Group) -> Iterator[Group]:
    """Yield a group for each panel with what is below it; an equation as the whole that it is."""
    if group.kind == "product":
        yield group
        return
    for panel, below in zip_longest(group.panels, group.below):
        yield replace(group, panels=(panel,), below=() if below is None else (below,))


def _join_units(units: Sequence[Group]) -> Group:
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
