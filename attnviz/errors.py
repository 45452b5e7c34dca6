"""AttnvizError: what is wrong, and what to try; any other exception is a bug."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from types import FrameType, MappingProxyType

from attnviz.wording.printable import printable_text
from attnviz.wording.surfaces import Surface, current_surface, in_words
from attnviz.wording.surfaces import cmd as cmd  # with these every message is written
from attnviz.wording.surfaces import opt as opt

NOTEBOOK_PACKAGES = ("IPython", "ipykernel")
MAX_ERROR_LETTERS = 2000  # of a problem, or of a hint
MAX_QUOTED_NAME_LETTERS, MAX_QUOTED_PATH_LETTERS = 80, 400
MAX_HINT_NAMES = 200
QUOTED_WORD = re.compile(r"(?<!\w)'((?:[^']|'(?=\w))*)'(?!\w)")


class AttnvizError(Exception):
    """A problem that the reader of the message can fix.

    `about` names the setting or matrix that is wrong, and `file` the file that the message names,
    so that a caller who knows the line in that file can add it without parsing the message.
    Marks of options and commands (wording/surfaces.py) become words of the surface on which the
    error is created; `python_hint` is the hint in Python, where the advice itself differs.

    >>> from attnviz import AttnvizError, trace
    >>> try:
    ...     trace("I am", variant="casual")
    ... except AttnvizError as error:
    ...     print(f"{error}: {error.hint.partition('?')[0]}?")
    there is no variant 'casual': did you mean 'causal'?
    """

    word = ""  # of the text, if that is what is wrong

    def __init__(
        self, problem: str, hint: str, *, about: str = "", file: str = "", python_hint: str = ""
    ) -> None:
        if python_hint and current_surface() is Surface.PYTHON:
            hint = python_hint
        problem, hint = (
            shorten_text(in_words(each), MAX_ERROR_LETTERS) for each in (problem, hint)
        )
        problem = printable_text(QUOTED_WORD.sub(_shorten_quoted, problem))
        hint = printable_text(hint)
        super().__init__(problem)
        if hasattr(self, "add_note"):  # since Python 3.11; tracebacks end with it
            self.add_note(hint)
        self.hint = hint
        self.about = about
        self.file = file

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook shows: the user's own lines, the problem and the
        hint."""
        frames = traceback.walk_tb(self.__traceback__)
        lines = takewhile(lambda entry: not _is_frame_of(entry[0], __name__), frames)
        own = [
            _format_frame(*entry)
            for entry in lines
            if not _is_frame_of(entry[0], *NOTEBOOK_PACKAGES)
        ]
        return [*own, f"{type(self).__name__}: {self}", self.hint]

    def give_hint(self, hint: str) -> None:
        """Change the hint, in place: the traceback stays."""
        notes = getattr(self, "__notes__", [])
        notes[:1] = [hint] * len(notes[:1])
        self.hint = hint

    def with_problem(self, problem: str) -> AttnvizError:
        """Return a copy of this error with another problem text, and the same hint."""
        return AttnvizError(problem, self.hint, about=self.about, file=self.file)


@contextmanager
def naming_in_errors(name: str) -> Iterator[None]:
    """Put a name before the AttnvizError of a block, unless its text contains the name already."""
    try:
        yield
    except AttnvizError as error:
        raise error if name in str(error) else error.with_problem(f"{name}: {error}") from None


def shorten_text(text: str, max_letters: int) -> str:
    """Return the text, or if it is longer than `max_letters` its beginning and end with … between.

    >>> shorten_text("abcdefghijkl", 8), shorten_text("abc", 8)
    ('abcde…kl', 'abc')
    """
    end = max_letters // 4
    return text if len(text) <= max_letters else f"{text[: max_letters - end - 1]}…{text[-end:]}"


def _shorten_quoted(match: re.Match[str]) -> str:
    """Return a quoted name, shortened; paths, which users type themselves, may be longer."""
    limit = MAX_QUOTED_PATH_LETTERS if "/" in match[1] else MAX_QUOTED_NAME_LETTERS
    return f"'{shorten_text(match[1], limit)}'"


def _is_frame_of(frame: FrameType, *packages: str) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in {package.partition(".")[0] for package in packages}


def _format_frame(frame: FrameType, number: int) -> str:
    """Return `line 3: inspect(story, source="it")`, after the file name if it is not a notebook
    cell."""
    [line] = traceback.StackSummary.extract([(frame, number)])
    where = f"{line.filename}, " if Path(line.filename).exists() else ""
    return f"{where}line {number}: {line.line}"


class Note(UserWarning):
    """A remark about a result that is otherwise fine; the command line prints it."""

    def __init__(self, text: str) -> None:
        super().__init__(printable_text(in_words(text)))


def warn_with_note(text: str) -> None:
    """Issue a note as a warning that points to the first line outside attnviz."""
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and frame.f_back is not None and _is_frame_of(frame, __name__):
        level += 1
        frame = frame.f_back
    warnings.warn(Note(text), stacklevel=level)


def model_error(problem: str, hint: str) -> AttnvizError:
    """Return the error for a model that cannot be used, or not for this."""
    return AttnvizError(problem, hint, about="model")


def is_one_word(name: str) -> bool:
    """Return whether a name may be in a hint: a file's name of several words may be an order.

    >>> is_one_word("h.0.attn"), is_one_word("run this"), is_one_word("a" * 100)
    (True, False, False)
    """
    return len(name) <= MAX_QUOTED_NAME_LETTERS and len(name.split()) == 1


def unknown_name_error(
    kind: str,
    name: object,
    known_names: Iterable[str],
    *,
    about: str = "",
    other_names: Mapping[str, str] = MappingProxyType({}),
    from_file: bool = False,
    lists_all: bool = True,
) -> AttnvizError:
    """Return the error for an unknown name; the hint suggests one name and lists the known names.

    It suggests the name's alias in `other_names`, otherwise the closest known name if any is close;
    unless it `lists_all`, it lists the known names only where none is. `kind` is what the name
    should be ("variant"). Names that are `from_file` are listed only if
    they are one word.

    >>> print(unknown_name_error("variant", "casual", ["causal", "plain"]).hint)
    did you mean 'causal'? known: causal, plain
    """
    name = str(name)  # a caller of the library may give anything
    names = [known for known in known_names if not from_file or is_one_word(known)]
    lower_name = name.lower() if len(name) <= MAX_QUOTED_NAME_LETTERS else ""
    alias = other_names.get(lower_name)
    nearest = [alias] if alias else get_close_matches(lower_name, names, n=1)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    listed = [*names[:MAX_HINT_NAMES], *["…"] * (len(names) > MAX_HINT_NAMES)]
    known = f"known: {', '.join(listed)}" if lists_all or not question else ""
    hint = f"{question}{known}".rstrip() if names else "there is none to choose"
    return AttnvizError(f"there is no {kind} '{name}'", hint, about=about)


def refuse_unknown_name(
    kind: str,
    name: object,
    known_names: Collection[str],
    *,
    about: str = "",
    from_file: bool = False,
) -> None:
    """Refuse a name that is none of the known ones, as `unknown_name_error` says."""
    if name not in known_names:
        raise unknown_name_error(kind, name, known_names, about=about, from_file=from_file)
