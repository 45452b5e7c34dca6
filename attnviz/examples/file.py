"""The file of an example, with what its errors need: every one names the file and the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError, unknown
from attnviz.examples.kinds import Kind
from attnviz.traces.texts import line_of


@dataclass(frozen=True)
class ExampleFile:
    """A file that is read."""

    path: Path
    text: str

    def line(self, key: str, after: str = "", number: int = 0) -> int | None:
        """The line of a key, the first in the file or after a heading; `number` counts headings."""
        lines = self.text.splitlines()
        heads = [place for place, line in enumerate(lines) if line.strip() == after]
        start = heads[number] if after and number < len(heads) else 0
        found = line_of("\n".join(lines[start:]), key) if key else 1
        return None if found is None else found + start

    def line_of_text(self, word: str) -> int | None:
        """The first line that holds a word in quotes."""
        pattern = re.compile(rf"""["']{re.escape(word)}["']""")
        lines = enumerate(self.text.splitlines(), start=1)
        return next((number for number, line in lines if pattern.search(line)), None)

    def error(self, problem: str, hint: str, line: int | None = None) -> AttnvizError:
        where = f"'{self.path}'" if line is None else f"line {line} of '{self.path}'"
        return AttnvizError(f"{where}: {problem}", hint, file=str(self.path))

    def refuse_other_kinds(
        self, table: Mapping[str, Any], known: Mapping[str, Kind], after: str = "", number: int = 0
    ) -> None:
        for key, value in table.items():
            if key in known and not known[key].fits(value):
                line = self.line(key, after, number)
                raise self.error(f"'{key}' is not {known[key].wanted}", "write it so", line)

    def refuse_unknown(
        self, kind: str, keys: Iterable[str], known: Iterable[str], after: str = "", number: int = 0
    ) -> None:
        for key in keys:
            if key not in known:
                error = unknown(kind, key, known)
                raise self.error(str(error), error.hint, self.line(key, after, number))
