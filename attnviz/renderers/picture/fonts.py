"""Fonts that have the glyphs: matplotlib's own first, then whatever this machine has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from attnviz.errors import mention

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
        mention(f"no installed font has {some}: drawn as code points")


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
