"""The text of a command: an argument, standard input, or a file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from attnviz.cli.messages import print_message
from attnviz.errors import AttnvizError, opt
from attnviz.learning.task_names import TASKS
from attnviz.machine import environment, files
from attnviz.options.heads import SegmentOptions
from attnviz.options.traces import SourceOptions
from attnviz.tokens.segments import OWN_NAMES
from attnviz.traces.models.shipped import load_card
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.commands import shell_quote
from attnviz.wording.words import and_list

if TYPE_CHECKING:
    from attnviz.traces.models.card import Card
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace

TRAINED_MODEL_SENTENCE = "The animal did not cross the street because it was too tired"
QUESTION = "question"  # the segment behind the documents
EXAMPLE_WORD_COUNT = 3  # words, of those that a model knows


def read_text_if_needed(
    source: SourceOptions,
    settings: Settings,
    command: str,
    documents: Mapping[str, str] = MappingProxyType({}),
) -> str | None:
    """Return the text of a command; None if only --given is there, whose file may name the tokens.

    The text is the argument, the file of --file, or standard input, without the last line break;
    the documents stand before it. Refuses a text beside --file, a missing text, and bytes that are
    not UTF-8.
    """
    if settings.given is not None and source.text is None and source.file is None:
        return None
    return f"{_joined(documents)}{_read_text_source(source, settings.model, command)}"


def read_documents(source: SegmentOptions) -> dict[str, str]:
    """Return the texts of --document by the names of their files, numbered where they are equal.

    Each is read here alone: what a pipe holds can be read once.
    """
    names, texts = [path.name for path in source.document], dict[str, str]()
    for index, path in enumerate(source.document):
        is_taken = names.count(path.name) > 1 or path.name in (QUESTION, *OWN_NAMES)
        number = f" {names[: index + 1].count(path.name)}" * is_taken
        text = texts[f"{path.name}{number}"] = files.read_text(path)
        if not text.strip():
            raise AttnvizError(f"the document '{path}' is empty", "leave it out", about="document")
    return texts


def _joined(documents: Mapping[str, str]) -> str:
    return "".join(f"{text}\n\n" for text in documents.values())


def without_documents(documents: Mapping[str, str], text: str) -> str:
    """Return what stands behind the documents of a text."""
    return text.removeprefix(_joined(documents))


def chosen_segments(
    source: SegmentOptions, documents: Mapping[str, str], text: str
) -> str | dict[str, str] | None:
    """Return the kind of segments that is asked for; without one the documents of a text, and what
    stands behind them, by name; None without any."""
    if source.segments is not None or not documents:
        return source.segments
    return {**documents, QUESTION: without_documents(documents, text)}


def _read_text_source(source: SourceOptions, model: str | None, command: str) -> str:
    """Return the argument, the content of --file, or standard input, without a last line break.

    Refuses two sources, none, and bytes that are not UTF-8. `model`, `command`: for the hint.
    """
    if source.text is not None and source.file is not None:
        raise AttnvizError(f"a text and {opt.file} are both given", "give one of them")
    if source.file is not None:
        return files.read_text(source.file)
    if source.text is not None and source.text != "-":
        return _read_messages(source) or source.text
    input_bytes = b"" if source.text is None and sys.stdin.isatty() else _standard_input()
    if source.text is None and not input_bytes:
        raise AttnvizError(
            "there is no text",
            f"give a sentence, such as: {command} {_example_sentence_for(model)}",
        )
    return files.without_last_break(files.decode_utf8(input_bytes, "standard input"))


def _read_messages(source: SourceOptions) -> str | None:
    """Return the content of a .json file that stands in the place of a chat's text; None if none
    does."""
    name = source.text or ""
    if not getattr(source, "chat", False) or not name.endswith(".json") or not _is_file(name):
        return None
    from attnviz.traces.trained.conversation import read_messages  # imports torch

    text = files.read_text(Path(name))
    read_messages(text, name)  # which refuses another shape
    return text


def _example_sentence_for(model: str | None) -> str:
    """Return an example sentence, quoted for a shell, in words that the model knows.

    If a model is given, the option --model follows.
    """
    if model is None:
        return '"I am learning this"'
    if is_trained(model):
        return f"{shell_quote(TRAINED_MODEL_SENTENCE)} --model {shell_quote(model)}"
    card = load_card(model)
    task = TASKS.get(str(card.facts.get("task")))
    separator = "" if card.vocabulary.tokenizer in ("chars", "bytes") else " "
    first_words = separator.join(card.vocabulary.words[:EXAMPLE_WORD_COUNT])
    words = task.watch if task is not None and _knows_all_words(card, task.watch) else first_words
    return f"{shell_quote(words)} --model {shell_quote(model)}"


def _knows_all_words(card: Card, text: str) -> bool:
    """Return whether a model's vocabulary holds all words of a text.

    A model of lines may bear a task's name, but not know its words.
    """
    try:
        return bool(card.cut(text))
    except AttnvizError:
        return False


def _standard_input() -> bytes:
    """Return the bytes of standard input; refuse input that cannot be read or is too large, or that
    several processes would share.
    """
    if environment.is_shared():
        raise AttnvizError(
            "several processes cannot all read standard input", f"try {opt.file:book.txt}"
        )
    try:
        return files.read_stream(sys.stdin.buffer, "standard input", "text")
    except OSError as error:
        raise AttnvizError(
            f"standard input cannot be read: {files.error_reason(error)}",
            f"give a text, or a file with {opt.file}",
        ) from None


def note_text_names_file(text: str | None, *, quiet: bool) -> None:
    if text is not None and _is_file(text):
        _print_note(f"there is a file of this name: did you mean --file {text}?", quiet)


def note_two_texts(first: str | None, second: str | None, *, quiet: bool) -> None:
    """Print a note that contents may be meant, if one of two sentences is the name of a file; or
    that one quoted sentence may be, if both are single words."""
    file_names = [text for text in (first, second) if text is not None and _is_file(text)]
    words = [text for text in (first, second) if text and len(text.split()) == 1]
    if first is None or second is None:
        note_text_names_file(first, quiet=quiet)
    elif file_names:
        _print_note(
            f"the words {and_list(file_names)} are compared, not the contents of the files of that "
            f"name: {_file_contents_hint(first, second)}",
            quiet,
        )
    elif len(words) == 2:
        _print_note(
            f'did you mean one sentence, in quotes? attnviz compare "{first} {second}"; as '
            "written, two sentences of one word are compared",
            quiet,
        )


@contextmanager
def suggesting_file_contents(first: str | None, second: str | None) -> Iterator[None]:
    """Give an AttnvizError of the block another hint, if one of two sentences names a file."""
    try:
        yield
    except AttnvizError as error:
        if first is None or second is None or not any(map(_is_file, (first, second))):
            raise
        raise AttnvizError(str(error), _file_contents_hint(first, second)) from None


def _file_contents_hint(*texts: str) -> str:
    """Return a hint: the arguments, with `$(cat file)` in place of each name of a file."""
    arguments = [
        f'"$(cat {shlex.quote(text)})"' if _is_file(text) else shlex.quote(text) for text in texts
    ]
    return f"did you mean {' '.join(arguments)}?"


def note_first_item(trace: Trace | None, item: int | None, *, quiet: bool) -> None:
    if item is None and trace is not None and trace.items != 1:
        _print_note(f"a batch of {trace.items}: item 1 is shown (the next with --item 2)", quiet)


def _print_note(note: str, quiet: bool) -> None:
    if not quiet:
        print_message(f"note: {note}")


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False
