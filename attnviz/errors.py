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

from attnviz.wording.printable import printable

NOTEBOOKS = ("IPython", "ipykernel")  # what runs the cells of a notebook

LONGEST = 2000  # letters of a problem, or of a hint
LONGEST_NAME, LONGEST_PATH = 80, 400  # letters of what a problem quotes
MOST_KNOWN = 200  # names that a hint lists
QUOTED = re.compile(r"(?<!\w)'((?:[^']|'(?=\w))*)'(?!\w)")


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
        problem = printable(QUOTED.sub(_in_short_quotes, shortened(problem, LONGEST)))
        hint = printable(shortened(hint, LONGEST))
        super().__init__(problem)
        if hasattr(self, "add_note"):  # which a traceback ends with, since Python 3.11
            self.add_note(hint)
        self.hint = hint
        self.about = about
        self.file = file

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: which of one's own lines it was, what is wrong, what to try."""
        lines = takewhile(lambda each: not _is_of(each[0], __name__), self._lines())
        own = [_told(*each) for each in lines if not _is_of(each[0], *NOTEBOOKS)]
        return [*own, f"{type(self).__name__}: {self}", self.hint]

    def _lines(self) -> Iterator[tuple[FrameType, int]]:
        return traceback.walk_tb(self.__traceback__)

    def told(self, problem: str) -> AttnvizError:
        """The same error in other words."""
        return AttnvizError(problem, self.hint, about=self.about, file=self.file)


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters: its beginning and its end.

    >>> shortened("abcdefghijkl", 8), shortened("abc", 8)
    ('abcde…kl', 'abc')
    """
    end = most // 4
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def _in_short_quotes(quoted: re.Match[str]) -> str:
    """A name that may come from a stranger's file; a path, which people type, stays longer."""
    return f"'{shortened(quoted[1], LONGEST_PATH if '/' in quoted[1] else LONGEST_NAME)}'"


def _is_of(frame: FrameType, *packages: str) -> bool:
    """Whether a line is in one of some packages, whatever their modules are."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in {each.partition(".")[0] for each in packages}


def _told(frame: FrameType, number: int) -> str:
    """`line 3: inspect(story, source="it")`; of a cell, which is no file, without its name."""
    [line] = traceback.StackSummary.extract([(frame, number)])
    where = f"{line.filename}, " if Path(line.filename).exists() else ""
    return f"{where}line {number}: {line.line}"


class Note(UserWarning):
    """Something worth saying about a result that is all right; the command line prints it."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


def mention(text: str) -> None:
    """Say it as a warning of the line, outside of here, that asked for the result."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _is_of(frame, __name__):
        frame, level = frame.f_back, level + 1
    warnings.warn(Note(text), stacklevel=level)


def unknown(
    kind: str,
    name: object,
    known: Iterable[str],
    *,
    about: str = "",
    other_names: Mapping[str, str] = MappingProxyType({}),
) -> AttnvizError:
    """A name that is in no table, with the one that is meant by it elsewhere, or the nearest.

    >>> print(unknown("variant", "casual", ["causal", "plain"]).hint)
    did you mean 'causal'? known: causal, plain
    """
    name, names = str(name), list(known)  # a caller of the library may give anything
    short = [each for each in names if len(each) <= LONGEST_NAME]
    looked_for = name.lower() if len(name) <= LONGEST_NAME else ""
    elsewhere = other_names.get(looked_for)
    nearest = [elsewhere] if elsewhere else get_close_matches(looked_for, short, n=1, cutoff=0.5)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    told = [shortened(each, LONGEST_NAME) for each in names[:MOST_KNOWN]]
    told += ["…"] * (len(names) > MOST_KNOWN)
    hint = f"{question}known: {', '.join(told)}" if names else "there is none to choose"
    return AttnvizError(f"there is no {kind} '{name}'", hint, about=about)
