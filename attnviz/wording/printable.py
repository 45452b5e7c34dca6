"""Text that can be printed anywhere: what nobody sees, or a terminal obeys, is spelled out."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import zip_longest
from typing import Any

SPACE_SIGN = "␣"
PERCENT = "\u00a0%"  # behind a number, so that no line ends between the two
FIGURE_SPACE = "\u2007"  # as wide as a digit
_SPECIAL_SPACES = re.compile(f"({PERCENT}|{FIGURE_SPACE})")  # spaces that are shown as they are
_VISIBLE_SIGNS = {" ": SPACE_SIGN, "\n": "↵", "\t": "⇥", "\r": "\\r"}
# Categories of characters that nobody sees, or that do something to a terminal: controls,
# formats (bidirectional overrides among them), surrogates, private use, unassigned, separators.
# What XML does not know (U+FFFE, and controls) is among them.
_UNSEEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
# Inside a piece these change the look of their neighbours, and on many terminals the width.
_JOINERS = {"\u200d", *map(chr, range(0xFE00, 0xFE10))}
_VARIATION_SELECTOR = re.compile("[\ufe00-\ufe0f]")  # of those that Python takes for printable
SURROGATE = re.compile("[\ud800-\udfff]")  # of a character; a byte that is no UTF-8 becomes one
_ANSI_C_ESCAPE = re.compile(
    r"\\([ntr\\]|[0-7]{3}|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})"
)
ANSI_C_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\047"}


def visible_text(text: str) -> str:
    """The same text with everything that cannot be seen, or must not be printed, spelled out."""
    return _spelled_out(text, _VISIBLE_SIGNS)


def printable_text(text: str) -> str:
    """The same text with its spaces kept and everything else that is unsafe spelled out.

    A space at which no line ends is kept before a sign of per cent, and one that is as wide as a
    digit.

    >>> printable_text("a b"), printable_text("\\x1b[31m"), printable_text("a\\u202eb")
    ('a b', '\\\\u001b[31m', 'a\\\\u202eb')
    """
    if is_printable(text):
        return text
    parts = _SPECIAL_SPACES.split(text)
    escaped = [_spelled_out(part, {**_VISIBLE_SIGNS, " ": " "}) for part in parts[::2]]
    return "".join(
        part for pair in zip_longest(escaped, parts[1::2], fillvalue="") for part in pair
    )


def is_printable(text: str) -> bool:
    """Whether there is nothing in it to spell out; asked of thousands of labels at once."""
    printed = text.isprintable() or _SPECIAL_SPACES.sub("", text).isprintable()
    return printed and (text.isascii() or not _VARIATION_SELECTOR.search(text))


def exact_json(value: Any) -> str:
    """JSON that says exactly what a text is, in characters that can be printed.

    Only half a character, which no JSON may hold, stands spelled out in a text.

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


def ansi_quoted(word: str) -> str:
    """A word that no line can show as it is, as bash, zsh and ksh read it: to the byte.

    >>> ansi_quoted("caf\\udce9.toml"), ansi_quoted("a\\u202eb")
    ("$'caf\\\\xe9.toml'", "$'a\\\\u202eb'")
    """
    return f"$'{''.join(map(_escaped_character, word))}'"


def ansi_unquoted(quoted: str) -> str:
    """The word that `in_quotes` spelled.

    >>> ansi_unquoted("$'a\\u202eb'") == "a\u202eb"
    True
    """
    return _ANSI_C_ESCAPE.sub(_unescape_ansi, quoted[2:-1])


def _unescape_ansi(escape: re.Match[str]) -> str:
    code = escape[1]
    if code in "ntr\\":
        return {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)
    if code[0] == "x":
        return chr(0xDC00 + int(code[1:], 16))
    return chr(int(code[1:], 16) if code[0] in "uU" else int(code, 8))


def _escaped_character(character: str) -> str:
    code = ord(character)
    if character in ANSI_C_ESCAPES:
        return ANSI_C_ESCAPES[character]
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as Python has it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\{code:03o}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _spelled_out(text: str, spellings: dict[str, str]) -> str:
    return "".join(
        _visible_character(character, spellings)
        for position, character in enumerate(text)
        if position == 0 or character not in _JOINERS
    )


def _visible_character(character: str, spellings: dict[str, str]) -> str:
    if character in spellings:
        return spellings[character]
    if unicodedata.category(character) in _UNSEEN_CATEGORIES or character in _JOINERS:
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character
