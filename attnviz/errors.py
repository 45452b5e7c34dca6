"""The one kind of error that is meant for people: what is wrong, and what to try.

Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from types import FrameType, MappingProxyType

from attnviz.wording.printable import printable_text

NOTEBOOK_PACKAGES = ("IPython", "ipykernel")  # what runs the cells of a notebook

MAX_ERROR_LETTERS = 2000  # letters of a problem, or of a hint
MAX_QUOTED_NAME_LETTERS, MAX_QUOTED_PATH_LETTERS = 80, 400  # letters of what a problem quotes
MAX_HINT_NAMES = 200  # names that a hint lists
QUOTED_WORD = re.compile(r"(?<!\w)'((?:[^']|'(?=\w))*)'(?!\w)")


class AttnvizError(Exception):
    """A problem that the reader of the message can mend.

    `about` is the setting or the matrix that it is about, and `file` the file that the message
    names, so that whoever knows a line of that file can add it without reading the message.

    >>> from attnviz import AttnvizError, trace
    >>> try:
    ...     trace("I am", variant="casual")
    ... except AttnvizError as error:
    ...     print(f"{error}: {error.hint.partition('?')[0]}?")
    there is no variant 'casual': did you mean 'causal'?
    """

    def __init__(self, problem: str, hint: str, *, about: str = "", file: str = "") -> None:
        problem = printable_text(
            QUOTED_WORD.sub(_shorten_quoted, shorten_text(problem, MAX_ERROR_LETTERS))
        )
        hint = printable_text(shorten_text(hint, MAX_ERROR_LETTERS))
        super().__init__(problem)
        if hasattr(self, "add_note"):  # which a traceback ends with, since Python 3.11
            self.add_note(hint)
        self.hint = hint
        self.about = about
        self.file = file

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: which of one's own lines it was, what is wrong, what to try."""
        lines = takewhile(lambda entry: not _is_frame_of(entry[0], __name__), self._lines())
        own = [
            _format_frame(*entry)
            for entry in lines
            if not _is_frame_of(entry[0], *NOTEBOOK_PACKAGES)
        ]
        return [*own, f"{type(self).__name__}: {self}", self.hint]

    def _lines(self) -> Iterator[tuple[FrameType, int]]:
        return traceback.walk_tb(self.__traceback__)

    def told(self, problem: str) -> AttnvizError:
        """The same error in other words."""
        return AttnvizError(problem, self.hint, about=self.about, file=self.file)


def shorten_text(text: str, max_letters: int) -> str:
    """A text of at most so many letters: its beginning and its end.

    >>> shorten_text("abcdefghijkl", 8), shorten_text("abc", 8)
    ('abcde…kl', 'abc')
    """
    end = max_letters // 4
    return text if len(text) <= max_letters else f"{text[: max_letters - end - 1]}…{text[-end:]}"


def _shorten_quoted(match: re.Match[str]) -> str:
    """A name that may come from a stranger's file; a path, which people type, stays longer."""
    return f"'{shorten_text(match[1], MAX_QUOTED_PATH_LETTERS if '/' in match[1] else MAX_QUOTED_NAME_LETTERS)}'"


def _is_frame_of(frame: FrameType, *packages: str) -> bool:
    """Whether a line is in one of some packages, whatever their modules are."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in {package.partition(".")[0] for package in packages}


def _format_frame(frame: FrameType, number: int) -> str:
    """`line 3: inspect(story, source="it")`; of a cell, which is no file, without its name."""
    [line] = traceback.StackSummary.extract([(frame, number)])
    where = f"{line.filename}, " if Path(line.filename).exists() else ""
    return f"{where}line {number}: {line.line}"


class Note(UserWarning):
    """Something worth saying about a result that is all right; the command line prints it."""

    def __init__(self, text: str) -> None:
        super().__init__(printable_text(text))


def warn_with_note(text: str) -> None:
    """Say it as a warning of the line, outside of here, that asked for the result."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _is_frame_of(frame, __name__):
        frame, level = frame.f_back, level + 1
    warnings.warn(Note(text), stacklevel=level)


def unknown_name_error(
    kind: str,
    name: object,
    known_names: Iterable[str],
    *,
    about: str = "",
    other_names: Mapping[str, str] = MappingProxyType({}),
) -> AttnvizError:
    """A name that is in no table, with the one that is meant by it elsewhere, or the nearest.

    >>> print(unknown_name_error("variant", "casual", ["causal", "plain"]).hint)
    did you mean 'causal'? known: causal, plain
    """
    name, names = str(name), list(known_names)  # a caller of the library may give anything
    short_names = [candidate for candidate in names if len(candidate) <= MAX_QUOTED_NAME_LETTERS]
    looked_for = name.lower() if len(name) <= MAX_QUOTED_NAME_LETTERS else ""
    alias = other_names.get(looked_for)
    nearest = [alias] if alias else get_close_matches(looked_for, short_names, n=1, cutoff=0.5)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    listed_names = [
        shorten_text(candidate, MAX_QUOTED_NAME_LETTERS) for candidate in names[:MAX_HINT_NAMES]
    ]
    listed_names += ["…"] * (len(names) > MAX_HINT_NAMES)
    hint = f"{question}known: {', '.join(listed_names)}" if names else "there is none to choose"
    return AttnvizError(f"there is no {kind} '{name}'", hint, about=about)
