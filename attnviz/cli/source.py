"""The text of a command: an argument, standard input, or a file."""

from __future__ import annotations

import sys
from pathlib import Path

from attnviz.cli.options import Source
from attnviz.errors import AttnvizError


def read_or_given(source: Source, given: str | None) -> str | None:
    """The text; None if there is none and a file of matrices can say what it is about."""
    if given is not None and source.text is None and source.file is None:
        return None
    return read(source)


def read(source: Source) -> str:
    """The text, without the line break that ends a file."""
    if source.text is not None and source.file is not None:
        raise AttnvizError("a text and --file are both given", "give one of them")
    if source.file is not None:
        return _decoded(_content(source.file), f"'{source.file}'")
    if source.text is not None and source.text != "-":
        return source.text
    if source.text is None and sys.stdin.isatty():
        raise AttnvizError(
            "there is no text", 'give a sentence, such as: attnviz run "I am learning this"'
        )
    return _decoded(sys.stdin.buffer.read(), "standard input")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise AttnvizError(f"there is no file '{path}'", "check its name and folder") from None
    except IsADirectoryError:
        raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AttnvizError(f"'{path}' cannot be read: {reason}", "check its permissions") from None


def _decoded(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttnvizError(
            f"{name} is not UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}",
            "save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
        ) from None
    return text.removesuffix("\n").removesuffix("\r")
