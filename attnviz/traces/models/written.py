"""The file of a model by hand, with its tables checked: every error names the file and the line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.lined import LinedFile
from attnviz.traces.texts import line_of

Row = Mapping[str, float]  # a number of each thing that has a name
Rows = Mapping[str, Row]

LARGEST = 1e30  # float32 holds what is made of it
MOST_NAMES = 10_000  # in a list


@dataclass(frozen=True)
class Part:
    """A table of the file: the whole of it, or one of several that have the same heading."""

    file: LinedFile
    table: Mapping[str, Any]
    heading: str = ""
    number: int = 0
    within: tuple[str, ...] = ()  # headings of tables in it, after that of it

    def line(self, key: str) -> int | None:
        """The line of a key of this table."""
        start = self.file.line("", self.heading, self.number) if self.heading else 1
        if start is None:
            return None
        lines = self.file.lines[start - 1 :]
        for heading in self.within:
            place = next((n for n, line in enumerate(lines) if line.strip() == heading), None)
            if place is not None:
                start, lines = start + place, lines[place:]
        found = line_of("\n".join(lines), key) or _line_of_heading(lines, key)
        return start if found is None else start + found - 1

    def error(self, key: str, problem: str, hint: str) -> AttnvizError:
        return self.file.error(problem, hint, self.line(key))

    def refuse_unknown(self, kind: str, name: str, known: Collection[str], key: str = "") -> None:
        """Refuse a name that is none of those that are known; it is, or stands behind, a key."""
        if name not in known:
            error = unknown(kind, name, known)
            raise self.error(key or name, str(error), error.hint)

    def refuse_unless(self, fits: bool, key: str, wanted: str) -> None:
        """Refuse a value of another kind than is wanted."""
        if not fits:
            raise self.error(key, f"'{key}' is not {wanted}", "change its value")

    def text(self, key: str) -> str:
        value = self.table.get(key, "")
        self.refuse_unless(isinstance(value, str), key, "text in quotes")
        return str(value).strip()

    def one_of(self, key: str, known: Sequence[str]) -> str:
        """One word of several, of which the first is what is meant where none is given."""
        value = self.table.get(key, known[0])
        self.refuse_unless(value in known, key, f"one of {', '.join(known)}")
        return str(value)

    def whole(self, key: str, default: int, most: int) -> int:
        value = self.table.get(key, default)
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        self.refuse_unless(fits, key, f"a whole number from 0 to {most}")
        return int(value)

    def number_from_0(self, key: str) -> float:
        value = self.table.get(key, 0.0)
        self.refuse_unless(is_number(value, 0), key, "a number from 0, such as 0.5")
        return float(value)

    def names(self, key: str) -> tuple[str, ...]:
        """Names, of which no two are alike."""
        value = self.table.get(key)
        wanted = f'{key} = ["animal", "place"]'
        if value is None:
            raise self.error("", f"there is no '{key}'", f"write {wanted}")
        words = isinstance(value, list) and all(isinstance(each, str) and each for each in value)
        self.refuse_unless(words and bool(value), key, f"a list of names: {wanted}")
        if len(value) > MOST_NAMES:
            problem = f"'{key}' has {len(value):,} names"
            raise self.error(key, problem, f"give at most {MOST_NAMES:,}")
        twice, times = Counter(value).most_common(1)[0]
        if times > 1:
            raise self.error(key, f"'{twice}' is in '{key}' twice", "leave one of them out")
        return tuple(value)

    def part(self, key: str) -> Part:
        """A table that is in this one; of one that is not there nothing is given."""
        value = self.table.get(key, {})
        heading = f"[{self.heading.strip('[]')}.{key}]" if self.heading else f"[{key}]"
        self.refuse_unless(isinstance(value, dict), key, f"a table: write {heading}")
        if not self.heading:
            return Part(self.file, value, heading)
        return Part(self.file, value, self.heading, self.number, (*self.within, heading))

    def rows(self, columns: Collection[str], known: Collection[str] = ()) -> Rows:
        """A row of numbers for each key: one of those that are known, if that is said."""
        columns, known = dict.fromkeys(columns), dict.fromkeys(known)  # where a name is found fast
        for key, row in self.table.items():
            if known:
                self.refuse_unknown("row", key, known)
            wanted = 'a table of numbers: { animal = 1, "refers back" = 0.5 }'
            self.refuse_unless(isinstance(row, dict), key, wanted)
            for name, number in row.items():
                self.refuse_unknown("column", name, columns, key)
                self.refuse_unless(is_number(number), key, wanted)
        return self.table


def _line_of_heading(lines: Sequence[str], key: str) -> int | None:
    """The line, from 1, of the heading that a table has by itself."""
    headings = (f"[{key}]", f"[[{key}]]")
    return next((n for n, line in enumerate(lines, start=1) if line.strip() in headings), None)


def is_number(value: Any, least: float = -LARGEST) -> bool:
    """Whether it is a number that float32 has room for; true and false are none."""
    there = isinstance(value, int | float) and not isinstance(value, bool)
    return there and least <= value <= LARGEST
