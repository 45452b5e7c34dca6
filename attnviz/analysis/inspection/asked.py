"""What somebody asks of one token: all that it reads, or how much of another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.merged import mean_of
from attnviz.analysis.inspection.reads import Reading, by_peak, by_weight, place_in
from attnviz.errors import AttnvizError


@dataclass(frozen=True, eq=False)
class Asked:
    """One token, and what it reads in each map."""

    looking: Looking
    row: int
    readings: tuple[Reading, ...]

    @cached_property
    def mean(self) -> Reading:
        """The same in the mean of all maps; where there is one alone, that."""
        maps = tuple(each.map for each in self.readings)
        return self.readings[0] if len(maps) == 1 else Reading(mean_of(maps), self.row)

    @cached_property
    def by_peak(self) -> list[Reading]:
        """Those maps first in which it puts most on one token."""
        return by_peak(self.readings)

    @property
    def own_place(self) -> int | None:
        """Where the token itself stands among those that are read, if it does."""
        found = self.readings[0].map
        group = found.rows.groups[self.row]
        same = found.rows.tokens is found.columns.tokens and group in found.columns.groups
        return found.columns.groups.index(group) if same else None

    def strongest(self, column: int) -> Reading:
        """The map in which it reads most of a token."""
        return max(self.readings, key=lambda each: abs(each.of(column)))


@dataclass(frozen=True, eq=False)
class Link:
    """A token that reads and one that is read, and how much of it in each map."""

    asked: Asked
    column: int

    @cached_property
    def ranked(self) -> list[Reading]:
        """Those maps first in which most is read of it; last those that hide it."""
        return by_weight(self.asked.readings, self.column)

    @cached_property
    def seeing(self) -> list[Reading]:
        """Those that do not hide it."""
        return [each for each in self.ranked if each.sees(self.column)]

    @property
    def first(self) -> list[Reading]:
        """The one in which most is read of it; or several, alike."""
        most = abs(self.seeing[0].of(self.column))
        alike = takewhile(lambda each: abs(each.of(self.column)) == most, self.seeing)
        return list(alike)

    @property
    def mean(self) -> float:
        return float(np.mean([each.of(self.column) for each in self.asked.readings]))

    @property
    def even(self) -> float:
        """What it would get if all that can be seen were read alike."""
        return 1 / int((~self.seeing[0].patch.hidden).sum())


def asked_of(inspection: Inspection, wanted: str, name: str = "query") -> Asked:
    """The token that somebody names, with all that it reads."""
    looking, maps = inspection.looking, inspection.maps
    row = place_in(maps[0].rows, looking, wanted, name)
    return Asked(looking, row, tuple(Reading(each, row) for each in maps))


def link_of(inspection: Inspection) -> Link:
    """The two tokens of --from and --to; refused where no map lets one see the other."""
    looking = inspection.looking
    assert looking.source is not None
    assert looking.to is not None
    asked = asked_of(inspection, looking.source, "from")
    column = place_in(inspection.maps[0].columns, looking, looking.to, "to")
    link = Link(asked, column)
    if not link.seeing:
        found = inspection.maps[0]
        reader, read = found.rows.labels[asked.row], found.columns.labels[column]
        raise AttnvizError(
            f"'{reader}' ({found.rows.numbers[asked.row]}) cannot read '{read}' "
            f"({found.columns.numbers[column]}): a mask hides it in every head",
            f"ask the other way round: --from '{looking.to}' --to '{looking.source}'",
            about="from",
        )
    return link
