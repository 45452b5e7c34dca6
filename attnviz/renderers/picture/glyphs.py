"""Which font has each character, and code points for characters that no font has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import matplotlib
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from attnviz.errors import unknown_name_error, warn_with_note
from attnviz.machine.environment import without_variables
from attnviz.renderers.look import GENERIC_FONTS
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.text import typeset_names
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.exercise import Exercise
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Arrow, ColumnChart, Drawable, Plane, Section
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import Group
from attnviz.wording.numbers import typeset
from attnviz.wording.sums import Sum

FIRST_FONT = "DejaVu Sans"  # comes with matplotlib, so every machine draws the same
WIDEST_LETTER = "W"
# Letters of formulas that go with a family; those of others are made of the family itself.
MATH_FONTS = {"DejaVu Sans": "dejavusans", "DejaVu Serif": "dejavuserif", "STIXGeneral": "stix",
              "cmr10": "cm"}  # fmt: skip
TRUETYPE_SIGNATURES = (b"\0\1\0\0", b"true")


@contextmanager
def fixed_settings(
    panels: Sequence[Drawable | Exercise], captions: Captions, font: str | None = None
) -> Iterator[None]:
    """Have matplotlib draw alike everywhere while the block runs: whatever a matplotlibrc says.

    Fonts are the chosen one and those that these texts need besides, and files hold nothing random.
    A note names characters that no font has.
    """
    texts = texts_in([*panels, captions])
    warn_of_missing_glyphs(texts)
    family = find_family(font)
    fonts = [*dict.fromkeys([family, *font_families(texts)])]
    settings: Any = {
        "font.family": [*fonts, "sans-serif"],
        **math_settings(family),
        "text.parse_math": False,  # a token such as $x$ is text
        "svg.fonttype": "none",
        "svg.hashsalt": "attnviz",
        # TrueType, as publishers want it; a font of another kind cannot be, and becomes outlines.
        "pdf.fonttype": 42 if all(map(_is_truetype, fonts)) else 3,
        "hatch.linewidth": 0.6,
    }
    # It would tell that a font for Chinese has no bold.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    defaults = {key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"}
    # A date of a build, which no file here has, would have to be one.
    with matplotlib.rc_context(defaults | settings), without_variables("SOURCE_DATE_EPOCH"):
        yield


def find_family(font: str | None) -> str:
    """Return the family of a generic name ('serif'), or of a family's own name in any letters; that
    of sans for None. Refuses a family that is not installed.

    >>> find_family("serif"), find_family("stixgeneral"), find_family(None)
    ('DejaVu Serif', 'STIXGeneral', 'DejaVu Sans')
    """
    if font is None or font in GENERIC_FONTS:
        return GENERIC_FONTS[font or "sans"]
    families = {each.name.lower(): each.name for each in font_manager.fontManager.ttflist}
    if font.lower() not in families:
        raise unknown_name_error("font", font, [*GENERIC_FONTS, *sorted(families.values())])
    return families[font.lower()]


def math_settings(family: str) -> dict[str, str]:
    """Return matplotlib's settings for letters of formulas beside text of this family."""
    if family in MATH_FONTS:
        return {"mathtext.fontset": MATH_FONTS[family]}
    styles = {"rm": "", "it": ":italic", "bf": ":bold"}
    letters = {f"mathtext.{style}": f"{family}{suffix}" for style, suffix in styles.items()}
    return {"mathtext.fontset": "custom", **letters}


def _is_truetype(family: str) -> bool:
    with Path(font_manager.findfont(family)).open("rb") as file:
        return file.read(4) in TRUETYPE_SIGNATURES


def _typeset_text(text: str) -> str:
    """Return attnviz's own words as they are typeset, in characters that can be drawn."""
    return drawable_text(typeset(text))


def _typeset_matrix_names(text: str) -> str:
    """Return attnviz's own words, which may name matrices, with these names as in a formula."""
    return typeset_names(_typeset_text(text))


def drawable_text(text: str) -> str:
    """Return a text with `U+1F389` in place of a character that no font here can draw."""
    return "".join(
        character if _font_file(character) is not None else f"U+{ord(character):04X}"
        for character in text
    )


# The fields that hold texts, and how these are set; None: what is in it has fields of its own.
TextSetter = Callable[[str], str] | None
TEXT_FIELDS: dict[type, dict[str, TextSetter]] = {
    Group: {"panels": None, "below": None},
    Section: {
        **dict.fromkeys(("title", "finding", "about"), _typeset_text),
        **dict.fromkeys(("shapes", "formula"), _typeset_matrix_names),
        **dict.fromkeys(("sums", "grids", "stage_grids", "moments", "planes", "bars"), None),
    },
    Exercise: {
        **dict.fromkeys(("question", "solution"), None),
        **dict.fromkeys(("options", "replies"), _typeset_text),
        "context": drawable_text,
    },
    Sum: dict.fromkeys(("left", "right", "result"), _typeset_text),
    Plane: {"arrows": None, "angle": _typeset_text, "projection": _typeset_text},
    Arrow: dict.fromkeys(("name", "length_text"), _typeset_text),
    ColumnChart: {"names": drawable_text},
    Arcs: {"grid": None},
    Sentence: {"grid": None},
    RankedBars: {"grid": None, "remarks": _typeset_text},
    Overview: {"title": _typeset_text, "query_axis": None, "key_axis": None},
    Curves: {"title": _typeset_text, "x_title": _typeset_text, "lines": None},
    Curve: {"name": _typeset_text},
    Grid: {"title": _typeset_matrix_names, "rows": None, "columns": None, "words": drawable_text},
    Axis: {"labels": drawable_text},
    Captions: dict.fromkeys(("title", "notes", "origin"), _typeset_text),
}
Anything = TypeVar("Anything")


def with_glyphs(value: Anything) -> Anything:
    """Return groups, panels or captions with every text typeset and in characters that can be
    drawn.
    """
    changed: Anything = _set_texts(value, None, lambda text, setting: setting(text))
    return changed


def texts_in(value: Any) -> list[str]:
    """Return every text in groups, panels or captions that will be drawn."""
    texts = list[str]()

    def collect(text: str, setting: Callable[[str], str]) -> str:
        texts.append(text)
        return text

    _set_texts(value, None, collect)
    return texts


def _set_texts(value: Any, setting: TextSetter, change: Callable[..., str]) -> Any:
    """Return a value with `change(text, setting)` in place of each of the texts in it, at any
    depth. The table TEXTS says which fields hold texts; a value of a type it lacks stays as it
    is.
    """
    if isinstance(value, tuple | list):
        return type(value)([_set_texts(part, setting, change) for part in value])
    if setting is not None:
        return change(value, setting)
    fields = TEXT_FIELDS.get(type(value), {})
    parts = {name: _set_texts(getattr(value, name), rule, change) for name, rule in fields.items()}
    return replace(value, **parts) if parts else value


def font_families(texts: Iterable[str]) -> list[str]:
    paths = (_font_file(character) for character in _unique_characters(texts))
    return list(dict.fromkeys([FIRST_FONT, *(_font_family(path) for path in paths if path)]))


def measurable_text(text: str) -> str:
    """Return a text with `W` in place of each character that DejaVu Sans does not have."""
    return "".join(char if _font_file(char) == "" else WIDEST_LETTER for char in text)


def warn_of_missing_glyphs(texts: Iterable[str]) -> None:
    """Note once which characters no font has and are drawn as code points: up to eight
    are listed.
    """
    missing = [char for char in _unique_characters(texts) if _font_file(char) is None]
    if missing:
        listing = " ".join(missing[:8]) + (" …" if len(missing) > 8 else "")
        warn_with_note(f"no installed font has {listing}: drawn as code points")


def _unique_characters(texts: Iterable[str]) -> list[str]:
    return sorted({character for text in texts for character in text})


@cache
def _font_file(character: str) -> str | None:
    """Return the file of the first font that has a character: "" for DejaVu Sans, None if no font
    has it.
    """
    code = ord(character)
    if _has_glyph(_first_font_file(), code):
        return ""
    return next((path for path in _installed_fonts() if _has_glyph(path, code)), None)


@cache
def _first_font_file() -> str:
    return str(font_manager.findfont(FIRST_FONT))


@cache
def _installed_fonts() -> list[str]:
    """Return every installed font file, plain ones first; matplotlib's own list may
    lack new ones.
    """
    paths = map(Path, font_manager.findSystemFonts())
    return [str(path) for path in sorted(paths, key=_plainness)]


def _plainness(path: Path) -> tuple[bool, bool, bool, str]:
    """Return a key that sorts plain fonts first: no bold or italic ones, then sans,
    then regular.
    """
    name = path.stem.lower()
    styled = any(word in name for word in ("bold", "italic", "oblique", "light", "black", "thin"))
    return styled, "sans" not in name, "regular" not in name, str(path)


def _has_glyph(path: str, code: int) -> bool:
    font = _open_font(path)
    return font is not None and font.get_char_index(code) != 0


@cache
def _open_font(path: str) -> FT2Font | None:
    """Return the font of a file; None if it cannot be read, or holds bitmaps, which cannot be
    scaled.
    """
    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):
        return None
    return font if font.scalable else None


@cache
def _font_family(path: str) -> str:
    """Register a font file with matplotlib, and return the name of its family."""
    font_manager.fontManager.addfont(path)
    font = _open_font(path)
    assert font is not None
    return font.family_name
