"""The file of an example, whose errors name the file and the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnviz.examples.kinds import Kind
from attnviz.traces.lined import LinedFile

QUOTED = re.compile(r""""([^"]*)"|'([^']*)'""")


@dataclass(frozen=True)
class ExampleFile(LinedFile):
    """A file that is read."""

    @cached_property
    def _quoted(self) -> Mapping[str, int]:
        """The first line that holds each word that stands in quotes."""
        found: dict[str, int] = {}
        for number, line in enumerate(self.lines, start=1):
            for each in QUOTED.finditer(line):
                found.setdefault(each[each.lastindex or 0], number)
        return found

    def line_of_text(self, word: str) -> int | None:
        """The first line that holds a word in quotes."""
        return self._quoted.get(word)

    def refuse_other_kinds(
        self, table: Mapping[str, Any], known: Mapping[str, Kind], after: str = "", number: int = 0
    ) -> None:
        for key, value in table.items():
            if key in known and not known[key].fits(value):
                line = self.line(key, after, number)
                raise self.error(f"'{key}' is not {known[key].wanted}", "change its value", line)
