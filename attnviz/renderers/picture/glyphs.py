"""Draws only characters that some font here has, and finds that font."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from attnviz.errors import warn_with_note
from attnviz.machine.environment import without_variables
from attnviz.renderers.picture import glyphs
from attnviz.renderers.picture.frame import Captions
from attnviz.renderers.picture.lettering import typeset, with_names
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.section import ColumnChart, Drawable, Plane, Section, panel_table
from attnviz.views.view import Group
from attnviz.wording.sums import Sum


@contextmanager
def hermetic(panels: Sequence[Drawable], captions: Captions) -> Iterator[None]:
    """Matplotlib's defaults, whatever a matplotlibrc says, and files without chance in them."""
    texts = [*_texts(panels), captions.title, captions.notes, captions.made]
    glyphs.warn_of_missing(texts)
    families = glyphs.families(texts)
    ours: Any = {
        "font.family": [*families, "sans-serif"],
        "text.parse_math": False,  # a token such as $x$ is text
        "svg.fonttype": "none",
        "svg.hashsalt": "attnviz",
        # TrueType, as publishers want it; fonts for other scripts are often not, and are outlines.
        "pdf.fonttype": 42 if families == [glyphs.FIRST] else 3,
        "hatch.linewidth": 0.6,
    }
    # It would tell that a font for Chinese has no bold.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    defaults = {key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"}
    # A date of a build, which no file here has, would have to be one.
    with matplotlib.rc_context(defaults | ours), without_variables("SOURCE_DATE_EPOCH"):
        yield


def groups_with_glyphs(groups: Iterable[Group]) -> list[Group]:
    """The same in characters that can be drawn."""
    return [
        replace(
            group,
            panels=tuple(map(with_glyphs, group.panels)),
            below=tuple(each and _grid_with_glyphs(each) for each in group.below),
        )
        for group in groups
    ]


def captions_with_glyphs(captions: Captions) -> Captions:
    """The same for what is written around a picture; in its metadata words stay as they are."""
    title, notes, made = map(_set, (captions.title, captions.notes, captions.made))
    return replace(captions, title=title, notes=notes, made=made)


def with_glyphs(each: Drawable) -> Drawable:
    """A panel in characters that can be drawn."""
    if isinstance(each, Section):
        return _section_with_glyphs(each)
    if isinstance(each, (Arcs, Sentence)):
        return replace(each, grid=_grid_with_glyphs(each.grid))
    if isinstance(each, RankedBars):
        remarks = tuple(map(_set, each.remarks))
        return replace(each, grid=_grid_with_glyphs(each.grid), remarks=remarks)
    if isinstance(each, Overview):
        return _overview_with_glyphs(each)
    return _grid_with_glyphs(each) if isinstance(each, Grid) else _curves_with_glyphs(each)


def _grid_with_glyphs(grid: Grid) -> Grid:
    rows, columns = _axis_with_glyphs(grid.rows), _axis_with_glyphs(grid.columns)
    words = tuple(tuple(map(glyphs.drawable, each)) for each in grid.words)
    return replace(grid, title=_named(grid.title), rows=rows, columns=columns, words=words)


def _overview_with_glyphs(overview: Overview) -> Overview:
    reads, read = _axis_with_glyphs(overview.query_axis), _axis_with_glyphs(overview.key_axis)
    return replace(overview, title=_set(overview.title), query_axis=reads, key_axis=read)


def _curves_with_glyphs(curves: Curves) -> Curves:
    lines = tuple([replace(line, name=_set(line.name)) for line in curves.lines])
    return replace(curves, title=_set(curves.title), x_title=_set(curves.x_title), lines=lines)


def _set(text: str) -> str:
    """Words of ours, as they are set in print, in characters that can be drawn."""
    return glyphs.drawable(typeset(text))


def _named(text: str) -> str:
    """Words that name matrices, and no token."""
    return with_names(_set(text))


def _axis_with_glyphs(axis: Axis) -> Axis:
    return replace(axis, labels=tuple(map(glyphs.drawable, axis.labels)))


def _section_with_glyphs(section: Section) -> Section:
    return replace(
        section,
        title=_set(section.title),
        finding=_set(section.finding),
        about=_set(section.about),
        shapes=_named(section.shapes),
        formula=_named(section.formula),
        sums=tuple(map(_sum_with_glyphs, section.sums)),
        grids=tuple(map(_grid_with_glyphs, section.grids)),
        stage_grids=tuple(map(_grid_with_glyphs, section.stage_grids)),
        moments=tuple(map(_section_with_glyphs, section.moments)),
        planes=tuple(map(_plane_with_glyphs, section.planes)),
        bars=section.bars and _columns_with_glyphs(section.bars),
    )


def _columns_with_glyphs(columns: ColumnChart) -> ColumnChart:
    return replace(columns, names=tuple(map(glyphs.drawable, columns.names)))


def _plane_with_glyphs(plane: Plane) -> Plane:
    first, second = (
        replace(arrow, name=_set(arrow.name), length_text=_set(arrow.length_text))
        for arrow in plane.arrows
    )
    return replace(plane, arrows=(first, second), angle=_set(plane.angle))


def _sum_with_glyphs(each: Sum) -> Sum:
    left, right, result = map(_set, (each.left, each.right, each.result))
    return replace(each, left=left, right=right, result=result)


def _texts(panels: Iterable[Drawable]) -> Iterator[str]:
    """Everything that will be written."""
    for each in panels:
        if isinstance(each, Section):
            yield from (each.number, each.title, each.about, each.shapes, each.formula)
            yield from (line.text for line in each.sums)
            yield from (arrow.name for plane in each.planes for arrow in plane.arrows)
            yield from each.bars.names if each.bars else ()
            yield from _texts([*each.grids, *each.moments])
        elif isinstance(each, Curves):
            yield from (each.title, each.x_title, *(line.name for line in each.lines))
        elif isinstance(each, RankedBars):
            yield from (*_texts_of_table(each.grid), *each.remarks)
        elif isinstance(each, Overview):
            yield from (each.title, *each.query_axis.labels, *each.key_axis.labels)
        else:
            yield from _texts_of_table(panel_table(each))


def _texts_of_table(grid: Grid) -> Iterator[str]:
    yield grid.title
    for axis in (grid.rows, grid.columns):
        yield from (axis.title, *axis.labels)
    for words in grid.words:
        yield from words


FIRST = "DejaVu Sans"  # comes with matplotlib, so every machine draws the same
WIDEST = "W"


def families(texts: Iterable[str]) -> list[str]:
    """The families that have all the characters that any font here has, the first one first."""
    found = (_font_of(character) for character in _characters(texts))
    return list(dict.fromkeys([FIRST, *(_family(path) for path in found if path)]))


def drawable(text: str) -> str:
    """The same text with `U+1F389` for a character that no font here can draw."""
    return "".join(
        character if _font_of(character) is not None else f"U+{ord(character):04X}"
        for character in text
    )


def measurable(text: str) -> str:
    """Letter for letter in those of the first font: one that it has not is as wide as any."""
    return "".join(each if _font_of(each) == "" else WIDEST for each in text)


def warn_of_missing(texts: Iterable[str]) -> None:
    """Say once which characters are drawn as code points."""
    missing = [each for each in _characters(texts) if _font_of(each) is None]
    if missing:
        some = " ".join(missing[:8]) + (" …" if len(missing) > 8 else "")
        warn_with_note(f"no installed font has {some}: drawn as code points")


def _characters(texts: Iterable[str]) -> list[str]:
    return sorted({character for text in texts for character in text})


@cache
def _font_of(character: str) -> str | None:
    """The file of the first font that has a glyph; "" if matplotlib's own has it."""
    code = ord(character)
    if _has(_path_of_first(), code):
        return ""
    return next((path for path in _installed() if _has(path, code)), None)


@cache
def _path_of_first() -> str:
    return str(font_manager.findfont(FIRST))


@cache
def _installed() -> list[str]:
    """Every font file, the plain ones first; matplotlib's own list may be older than some."""
    paths = map(Path, font_manager.findSystemFonts())
    return [str(path) for path in sorted(paths, key=_plainness)]


def _plainness(path: Path) -> tuple[bool, bool, bool, str]:
    name = path.stem.lower()
    styled = any(word in name for word in ("bold", "italic", "oblique", "light", "black", "thin"))
    return styled, "sans" not in name, "regular" not in name, str(path)


def _has(path: str, code: int) -> bool:
    font = _open(path)
    return font is not None and font.get_char_index(code) != 0


@cache
def _open(path: str) -> FT2Font | None:
    """The font, if its glyphs are outlines; bitmaps, as in colour emoji, cannot be scaled."""
    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):
        return None
    return font if font.scalable else None


@cache
def _family(path: str) -> str:
    font_manager.fontManager.addfont(path)
    font = _open(path)
    assert font is not None
    return font.family_name
