"""The text of a command: an argument, standard input, or a file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.cli.messages import tell
from attnviz.cli.trace_options import TextOptions
from attnviz.errors import AttnvizError
from attnviz.learning.names import TASKS
from attnviz.machine import files
from attnviz.traces.models.shipped import card_of
from attnviz.traces.trained.place import is_trained
from attnviz.wording.commands import quoted
from attnviz.wording.words import listed

if TYPE_CHECKING:
    from attnviz.traces.models.card import Card
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace

OF_A_TRAINED_MODEL = "The animal did not cross the street because it was too tired"
FEW = 3  # words, of those that a model knows


def read_or_given(source: TextOptions, settings: Settings, command: str) -> str | None:
    """The text; None if there is none and a file of matrices can say what it is about."""
    if settings.given is not None and source.text is None and source.file is None:
        return None
    return _read(source, settings.model, command)


def _read(source: TextOptions, model: str | None, command: str) -> str:
    """The text, without the line break that ends a file."""
    if source.text is not None and source.file is not None:
        raise AttnvizError("a text and --file are both given", "give one of them")
    if source.file is not None:
        return _without_last_break(files.decoded(files.read(source.file), f"'{source.file}'"))
    if source.text is not None and source.text != "-":
        return source.text
    written = b"" if source.text is None and sys.stdin.isatty() else _standard_input()
    if source.text is None and not written:
        raise AttnvizError(
            "there is no text", f"give a sentence, such as: {command} {_sentence_for(model)}"
        )
    return _without_last_break(files.decoded(written, "standard input"))


def _sentence_for(model: str | None) -> str:
    """A sentence as it is typed, of words that a model knows if there is one."""
    if model is None:
        return '"I am learning this"'
    if is_trained(model):
        return f"{quoted(OF_A_TRAINED_MODEL)} --model {quoted(model)}"
    card = card_of(model)
    task = TASKS.get(str(card.facts.get("task")))
    between = "" if card.vocabulary.tokenizer in ("chars", "bytes") else " "
    few = between.join(card.vocabulary.words[:FEW])
    words = task.watch if task is not None and _knows(card, task.watch) else few
    return f"{quoted(words)} --model {quoted(model)}"


def _knows(card: Card, text: str) -> bool:
    """Whether a model has all words of a text: lines of text may have the name of a task, too."""
    try:
        return bool(card.cut(text))
    except AttnvizError:
        return False


def _standard_input() -> bytes:
    try:
        return files.whole(sys.stdin.buffer, "standard input", "text")
    except OSError as error:
        raise AttnvizError(
            f"standard input cannot be read: {files.reason(error)}",
            "give a text, or a file with --file",
        ) from None


def ask_about_a_file(text: str | None, *, quiet: bool) -> None:
    """A text that is the name of a file is shown as the words that it is, and asked about."""
    if text is not None and _is_file(text):
        _note(f"there is a file of this name: did you mean --file {text}?", quiet)


def ask_about_files(first: str | None, second: str | None, *, quiet: bool) -> None:
    """The same of two sentences, of which either may be the name of a file."""
    files = [each for each in (first, second) if each is not None and _is_file(each)]
    if first is None or second is None:
        ask_about_a_file(first, quiet=quiet)
    elif files:
        _note(
            f"the words {listed(files)} are compared, not the contents of the files of that name: "
            f"{_meant(first, second)}",
            quiet,
        )


@contextmanager
def asking_about_files(first: str | None, second: str | None) -> Iterator[None]:
    """Where names of files cannot be compared, what is in the files may well be."""
    try:
        yield
    except AttnvizError as error:
        if first is None or second is None or not any(map(_is_file, (first, second))):
            raise
        raise AttnvizError(str(error), _meant(first, second)) from None


def _meant(*texts: str) -> str:
    """Each that is the name of a file as what is in the file."""
    meant = [
        f'"$(cat {shlex.quote(each)})"' if _is_file(each) else shlex.quote(each) for each in texts
    ]
    return f"did you mean {' '.join(meant)}?"


def ask_about_words(first: str | None, second: str | None, *, quiet: bool) -> None:
    """Two single words, that are no names of files, may be meant as one sentence."""
    words = [each for each in (first, second) if each and len(each.split()) == 1]
    if len(words) == 2 and not any(map(_is_file, words)):
        _note(
            f'did you mean one sentence, in quotes? attnviz compare "{first} {second}"; as '
            "written, two sentences of one word are compared",
            quiet,
        )


def tell_of_items(trace: Trace | None, item: int | None, *, quiet: bool) -> None:
    """Who reads a batch, and does not say which of it, hears which is shown."""
    if item is not None or trace is None or trace.items == 1:
        return
    _note(f"a batch of {trace.items}: item 1 is shown (the next with --item 2)", quiet)


def _note(told: str, quiet: bool) -> None:
    if not quiet:
        tell(f"note: {told}")


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _without_last_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
