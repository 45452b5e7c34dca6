"""A file of TOML that people write, with what its errors need: each names the file and the line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnviz.attention.variants import VARIANTS
from attnviz.errors import AttnvizError, unknown
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.meant import meant
from attnviz.traces.settings import NAMES
from attnviz.traces.texts import line_of

OPTION = re.compile(r"--(no-)?([a-z]+(?:-[a-z]+)*)(?: (\d[\d.]*|\w+))?")
NO_KEYS = ("limit",)  # what only a command can be told
VALUES = {*VARIANTS, *TOKENIZERS, *(name for _, known in NAMES.values() for name in known)}


def in_keys(error: AttnvizError, *, but: Collection[str] = ()) -> AttnvizError:
    """An error in the words of a file, which has keys where a command has options.

    >>> in_keys(AttnvizError("--dim is 0", "try --head-dim 4, --no-scale or --variant plain")).hint
    "try head_dim = 4, scale = false or variant = 'plain'"
    """

    def key(found: re.Match[str]) -> str:
        no, option, value = found[1], found[2], found[3] or ""
        if option in (*NO_KEYS, *but):
            return found[0]
        name = option.replace("-", "_")
        if no:
            return f"{name} = false{value and ' ' + value}"
        if value[:1].isdigit():
            return f"{name} = {value}"
        return f"{name} = '{value}'" if value in VALUES else f"{name}{value and ' ' + value}"

    problem, hint = (OPTION.sub(key, text) for text in (str(error), error.hint))
    return AttnvizError(problem, hint, about=error.about, file=error.file)


@dataclass(frozen=True)
class LinedFile:
    """A file that is read."""

    path: Path
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def _headings(self) -> Mapping[str, list[int]]:
        """Where each heading stands, as often as it does."""
        found: dict[str, list[int]] = {}
        for place, line in enumerate(self.lines):
            if line.lstrip().startswith("["):
                found.setdefault(line.strip(), []).append(place)
        return found

    def line(self, key: str, after: str = "", number: int = 0) -> int | None:
        """The line of a key, the first in the file or after a heading; `number` counts headings.

        After one of several headings the key is looked for until the next one.
        """
        places = self._headings.get(after, [])[number : number + 2] if after else []
        start, end = (*places, None, None)[:2]
        if not key:
            return (start or 0) + 1
        if (start, end, key) not in self._found:
            self._found[start, end, key] = line_of("\n".join(self.lines[start:end]), key)
        found = self._found[start, end, key]
        return None if found is None else found + (start or 0)

    @cached_property
    def _found(self) -> dict[tuple[int | None, int | None, str], int | None]:
        """The line of each key that was looked for between two others: asked for many times."""
        return {}

    def error(self, problem: str, hint: str, line: int | None = None) -> AttnvizError:
        where = f"'{self.path}'" if line is None else f"line {line} of '{self.path}'"
        return AttnvizError(f"{where}: {problem}", hint, file=str(self.path))

    def refuse_unknown(
        self, kind: str, keys: Iterable[str], known: Iterable[str], after: str = "", number: int = 0
    ) -> None:
        """Refuse the first key that is none of those that are known."""
        for key in keys:
            if key not in known:
                error = unknown(kind, key, known)
                hint = meant(key) if "matrix" in kind else ""
                raise self.error(str(error), hint or error.hint, self.line(key, after, number))
