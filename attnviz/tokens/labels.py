"""Labels for pieces of text that are safe and readable everywhere."""

from __future__ import annotations

import codecs
import re
import unicodedata

from attnviz.wording.printable import SPACE, visible

_BETWEEN_WORDS = re.compile(rf"(?<=\w){SPACE}(?=\w)")  # `Input 1` is read as it is written


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


def _bytes_in_brackets(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    broken = error.object[error.start : error.end]
    return "".join(f"⟨{byte:02x}⟩" for byte in broken), error.end


codecs.register_error("attnviz.bytes", _bytes_in_brackets)
