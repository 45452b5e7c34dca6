"""Makes text safe to print: escapes invisible characters and terminal controls."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from attnviz.wording.words import bidi_isolated

SPACE_SIGN = "␣"
PERCENT = "\u00a0%"  # a no-break space keeps the sign on the line of its number
FIGURE_SPACE = "\u2007"  # as wide as a digit
_SPECIAL_SPACES = re.compile(f"({PERCENT}|{FIGURE_SPACE})")  # spaces that are kept
# A word that runs from right to left, between two marks that keep what stands beside it in place.
_ISOLATED_WORD = re.compile("\u200e([^\u200e]+)\u200e")
_VISIBLE_SIGNS = {" ": SPACE_SIGN, "\n": "↵", "\t": "⇥", "\r": "\\r"}
# Categories of characters that are invisible or control a terminal: controls, formats (with the
# bidirectional overrides), surrogates, private use, unassigned, separators. They include all
# characters that XML does not allow.
_UNSEEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
# Inside a word these change how their neighbours look, and on many terminals how wide they are.
_JOINERS = {"\u200d", *map(chr, range(0xFE00, 0xFE10))}
_VARIATION_SELECTOR = re.compile("[\ufe00-\ufe0f]")  # isprintable() accepts these
SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is not UTF-8 is read as one
_ANSI_C_ESCAPE = re.compile(
    r"\\([ntr\\]|[0-7]{3}|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})"
)
ANSI_C_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\047"}


def visible_text(text: str) -> str:
    """Return the text with visible signs for everything invisible or unsafe, spaces included:
    `a␣b`.
    """
    return _spell_characters(text, _VISIBLE_SIGNS)


def printable_text(text: str) -> str:
    """Return the text with everything unsafe or invisible escaped, and lines and tabs as visible
    signs.

    Ordinary spaces, the no-break space before a per cent sign, the figure space and the marks that
    `bidi_isolated` adds are kept.

    >>> printable_text("a b"), printable_text("\\x1b[31m"), printable_text("a\\u202eb")
    ('a b', '\\\\u001b[31m', 'a\\\\u202eb')
    """
    if is_printable(text):
        return text
    before, *words = _ISOLATED_WORD.split(text)
    isolated = map(_printable_isolated, words[::2])
    after = map(_escape_unseen, words[1::2])
    pairs = zip(isolated, after, strict=True)
    return _escape_unseen(before) + "".join(part for pair in pairs for part in pair)


def _printable_isolated(word: str) -> str:
    """Return a word between two marks, which are escaped where the word does not need them."""
    escaped = _escape_unseen(word)
    isolated = bidi_isolated(escaped)
    mark = _escape_unseen("\u200e")
    return isolated if isolated != escaped else f"{mark}{escaped}{mark}"


def _escape_unseen(text: str) -> str:
    """Return the text with everything invisible escaped, except the special spaces."""
    parts = enumerate(_SPECIAL_SPACES.split(text))  # every other part is a space that is kept
    signs = {**_VISIBLE_SIGNS, " ": " "}
    return "".join(part if place % 2 else _spell_characters(part, signs) for place, part in parts)


def is_printable(text: str) -> bool:
    """Return whether `printable_text` would change nothing; cheap enough for thousands of
    labels.
    """
    printed = text.isprintable() or _SPECIAL_SPACES.sub("", text).isprintable()
    return printed and (text.isascii() or not _VARIATION_SELECTOR.search(text))


def exact_json(value: Any) -> str:
    """Return a value as JSON that represents its texts exactly, in printable characters only.

    A lone surrogate, which JSON cannot represent, is escaped inside the text.

    >>> exact_json({"a": "è\\u202e"})
    '{"a": "è\\\\u202e"}'
    """
    json_text = json.dumps(value, ensure_ascii=False)
    if json_text.isprintable():
        return json_text
    json_without_surrogates = SURROGATE.sub(lambda half: f"\\\\u{ord(half[0]):04x}", json_text)
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1]
        for character in json_without_surrogates
    )


def ansi_quote(word: str) -> str:
    """Quote a word with unprintable characters as `$'…'`, which bash, zsh and ksh read byte for
    byte.

    >>> ansi_quote("caf\\udce9.toml"), ansi_quote("a\\u202eb")
    ("$'caf\\\\xe9.toml'", "$'a\\\\u202eb'")
    """
    return f"$'{''.join(map(_escaped_character, word))}'"


def ansi_unquote(quoted: str) -> str:
    """Return the word that `ansi_quote` quoted.

    >>> ansi_unquote("$'a\\u202eb'") == "a\u202eb"
    True
    """
    return _ANSI_C_ESCAPE.sub(_unescape_ansi, quoted[2:-1])


def _unescape_ansi(escape: re.Match[str]) -> str:
    """Return the character that an escape inside `$'…'` stands for; a byte in hexadecimal stands
    for the surrogate of a byte that is not UTF-8.
    """
    code = escape[1]
    if code in "ntr\\":
        return {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)
    if code[0] == "x":
        return chr(0xDC00 + int(code[1:], 16))
    return chr(int(code[1:], 16) if code[0] in "uU" else int(code, 8))


def _escaped_character(character: str) -> str:
    """Return the character, or the escape for it inside `$'…'` if it is a quote, a backslash or
    unprintable.
    """
    code = ord(character)
    if character in ANSI_C_ESCAPES:
        return ANSI_C_ESCAPES[character]
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # the surrogate of a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\{code:03o}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _spell_characters(text: str, spellings: dict[str, str]) -> str:
    """Return the text with invisible characters escaped and those in `spellings` replaced; joiners
    after the first character are left out.
    """
    return "".join(
        _visible_character(character, spellings)
        for position, character in enumerate(text)
        if position == 0 or character not in _JOINERS
    )


def _visible_character(character: str, spellings: dict[str, str]) -> str:
    """Return the spelling of a character if it has one, a `u` escape if it is invisible, else the
    character.
    """
    if character in spellings:
        return spellings[character]
    if unicodedata.category(character) in _UNSEEN_CATEGORIES or character in _JOINERS:
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character
