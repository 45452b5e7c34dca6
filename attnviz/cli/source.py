"""The text of a command: an argument, standard input, or a file."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from attnviz import files
from attnviz.cli.making import TextOptions
from attnviz.errors import AttnvizError
from attnviz.tokens.labels import printable


def read_or_given(source: TextOptions, given: str | None) -> str | None:
    """The text; None if there is none and a file of matrices can say what it is about."""
    if given is not None and source.text is None and source.file is None:
        return None
    return read(source)


def read(source: TextOptions) -> str:
    """The text, without the line break that ends a file."""
    if source.text is not None and source.file is not None:
        raise AttnvizError("a text and --file are both given", "give one of them")
    if source.file is not None:
        return _without_last_break(files.decoded(files.read(source.file), f"'{source.file}'"))
    if source.text is not None and source.text != "-":
        return source.text
    if source.text is None and sys.stdin.isatty():
        raise AttnvizError(
            "there is no text", 'give a sentence, such as: attnviz run "I am learning this"'
        )
    return _without_last_break(files.decoded(sys.stdin.buffer.read(), "standard input"))


def ask_about_a_file(text: str | None, *, quiet: bool) -> None:
    """A text that is the name of a file is shown as the words that it is, and asked about."""
    if text is not None and not quiet and _is_file(text):
        asked = f"note: there is a file of this name: did you mean --file {text}?"
        typer.echo(printable(asked), err=True)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _without_last_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
