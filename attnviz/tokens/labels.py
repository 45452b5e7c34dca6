"""Labels for pieces of text that are safe and readable everywhere."""

from __future__ import annotations

import codecs
import re
import unicodedata

SPACE = "␣"
_VISIBLE = {" ": SPACE, "\n": "↵", "\t": "⇥", "\r": "\\r"}
# Categories of characters that nobody sees, or that do something to a terminal: controls,
# formats (bidirectional overrides among them), surrogates, private use, unassigned, separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
_BETWEEN_WORDS = re.compile(rf"(?<=\w){SPACE}(?=\w)")  # `Input 1` is read as it is written
# Inside a piece these change the look of their neighbours, and on many terminals the width.
_JOINERS = {"\u200d", *map(chr, range(0xFE00, 0xFE10))}


def label(piece: bytes) -> str:
    """What people see of a piece: never empty, never a control character, never mojibake.

    >>> label(b" learning"), label(b"  "), label(b"a\\n"), label(b" \\xe6\\x97"), label(b"\\x1b")
    ('learning', '␣', 'a↵', '⟨e6⟩⟨97⟩', '\\\\u001b')
    """
    text = piece.decode(errors="attnviz.bytes")
    shown = visible(text[1:] if text.startswith(" ") and len(text) > 1 else text)
    # A combining mark of its own would climb onto whatever is printed before it.
    return f"◌{shown}" if unicodedata.category(shown[0]).startswith("M") else shown


def phrase(piece: bytes) -> str:
    """A label in which spaces between words are spaces.

    >>> phrase(b"Input 1")
    'Input 1'
    """
    return _BETWEEN_WORDS.sub(" ", label(piece))


def visible(text: str) -> str:
    """The same text with everything that cannot be seen, or must not be printed, spelled out."""
    return "".join(
        _seen(character)
        for position, character in enumerate(text)
        if position == 0 or character not in _JOINERS
    )


def printable(text: str) -> str:
    """The same text with its spaces kept and everything else that is unsafe spelled out."""
    return visible(text).replace(SPACE, " ")


def _seen(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    if unicodedata.category(character) in _UNSEEN or character in _JOINERS:
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character


def _bytes_in_brackets(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    broken = error.object[error.start : error.end]
    return "".join(f"⟨{byte:02x}⟩" for byte in broken), error.end


codecs.register_error("attnviz.bytes", _bytes_in_brackets)
