"""Questions about one token: all that it attends to, or how much it attends to another.

A link is one token that reads and one that is read. Its lift in a map is its weight minus the mean
weight that other tokens give the same key: all that can see the key, but for the key itself and
what the tokenizer added. Where there are no others, the lift is the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np
from jaxtyping import Bool

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side, mean_of
from attnviz.analysis.inspection.patterns import attended_most, every_nth, is_most
from attnviz.analysis.inspection.regrouped import hidden_by, whole_side, words_side
from attnviz.cells import CELLS_AT_ONCE, EVERYTHING, Patch
from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.wording.commands import option
from attnviz.wording.numbers import ROUNDING
from attnviz.wording.words import listed


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


@dataclass(frozen=True)
class Others:
    """What other tokens give the key of a link, in one map."""

    count: int  # of those that can see it
    mean: float  # weight that they give it; 0 where there are none
    most: int  # of them, whose largest weight is on it and on no other key

    @property
    def attend_most(self) -> bool:
        """Whether the key is what most tokens attend to."""
        return bool(is_most(self.most, self.count))


@dataclass(frozen=True, eq=False)
class MapLink:
    """A link in one map: its weight, and what other tokens give the same key."""

    reading: Reading
    column: int
    others: Others

    @property
    def map(self) -> Map:
        return self.reading.map

    @property
    def weight(self) -> float:
        return self.reading.of(self.column)

    @property
    def lift(self) -> float:
        """The weight, minus the mean of what other tokens give the same key."""
        return self.weight - self.others.mean

    @property
    def sees(self) -> bool:
        return self.reading.sees(self.column)

    @property
    def rank(self) -> int | None:
        """Its place among all weights of its row."""
        return self.reading.rank(self.column) if self.sees else None


@dataclass(frozen=True, eq=False)
class Link:
    """A token that reads and one that is read, in each map."""

    asked: Asked
    column: int

    @property
    def looking(self) -> Looking:
        return self.asked.looking

    @cached_property
    def ranked(self) -> list[MapLink]:
        """Those maps first that link the two most; last those that hide the key."""
        others = self._other_queries
        found = [
            MapLink(each, self.column, _others(each.map, self.column, others))
            for each in self.asked.readings
        ]
        return sorted(found, key=lambda each: (each.sees, self.score(each)), reverse=True)

    def score(self, each: MapLink) -> float:
        """What maps are ranked by; gradients, which may be below 0, by how far from 0 that is."""
        found = each.lift if self.looking.rank == "lift" else each.weight
        return abs(found) if self.looking.weigh == "gradient" else found

    @cached_property
    def seeing(self) -> list[MapLink]:
        """Those that do not hide it."""
        return [each for each in self.ranked if each.sees]

    @property
    def first(self) -> list[MapLink]:
        """The map that links the two most; or several that do so alike."""
        best = self.seeing[0]
        alike = (best.weight, best.others.mean)
        return list(takewhile(lambda each: (each.weight, each.others.mean) == alike, self.seeing))

    @property
    def mean(self) -> float:
        return float(np.mean([each.of(self.column) for each in self.asked.readings]))

    @property
    def even(self) -> float:
        """What it would get if all that can be seen were read alike."""
        return 1 / int((~self.seeing[0].reading.patch.hidden).sum())

    @property
    def links(self) -> bool:
        """Whether any map gives the key more of this token than of others."""
        signed = self.looking.weigh == "gradient"
        return signed or max(each.lift for each in self.seeing) > ROUNDING

    @cached_property
    def _other_queries(self) -> Bool[np.ndarray, "query"]:
        """Which rows count as other tokens; of a long text every so many of them."""
        found = self.asked.readings[0].map
        keys, own = found.columns, found.columns.groups[self.column]
        within = found.rows.tokens is keys.tokens
        counted = ~np.array(found.rows.special, dtype=bool)
        counted[self.asked.row] = False
        counted &= [not within or group != own for group in found.rows.groups]
        return counted


def _others(found: Map, column: int, counted: Bool[np.ndarray, "query"]) -> Others:
    """Over the rows that count and can see a key: how much they give it, a band at a time."""
    queries = every_nth(len(counted))
    together = max(1, CELLS_AT_ONCE // max(1, len(found.columns))) * queries.step
    count, added, most = 0, 0.0, 0
    for start in range(0, len(counted), together):
        rows = slice(start, start + together, queries.step)
        patch = found.cells.window(rows, EVERYTHING)
        seeing = counted[rows] & ~patch.hidden[:, column]
        values = patch.values[seeing]
        count += len(values)
        added += float(values[:, column].sum(dtype=np.float64))
        most += int((attended_most(values) == column).sum())
    return Others(count, added / count if count else 0.0, most)


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
            f"'{reader}' ({found.rows.numbers[asked.row]}) cannot attend to '{read}' "
            f"({found.columns.numbers[column]}): a mask hides it in every head",
            f"try the other direction: --from '{looking.to}' --to '{looking.source}'",
            about="from",
        )
    return link


@dataclass(frozen=True, eq=False)
class Reading:
    """A row of a map: what one token reads there."""

    map: Map
    row: int

    @cached_property
    def patch(self) -> Patch:
        return self.map.cells.row(self.row)

    def of(self, column: int) -> float:
        return float(self.patch.values[0, column])

    def sees(self, column: int) -> bool:
        return not bool(self.patch.hidden[0, column])

    @cached_property
    def most(self) -> int:
        """What it reads most; the first of several that it reads alike."""
        return int(np.abs(self.patch.values[0]).argmax())

    @property
    def peak(self) -> float:
        return self.of(self.most)

    def rank(self, column: int) -> int:
        """How many places it reads more, and one."""
        sizes = np.abs(self.patch.values[0])
        return int((sizes > sizes[column]).sum()) + 1


def by_peak(readings: Sequence[Reading]) -> list[Reading]:
    """Those first that put most on one token."""
    return sorted(readings, key=lambda each: abs(each.peak), reverse=True)


def place_in(side: Side, looking: Looking, wanted: str, name: str) -> int:
    """The place of a token that somebody names, on a side of which some may be left out."""
    whole = whole_side(side.tokens, looking)
    _refuse_pieces(whole, wanted, looking, name)
    group = whole.groups[find_query(_named(whole), wanted, option(name))]
    found = [place for place, each in enumerate(side.groups) if set(each) & set(group)]
    if not found:
        label = whole.labels[whole.groups.index(group)]
        hides = hidden_by(side.tokens, looking)
        out = listed([option for option, places in hides.items() if places & set(group)])
        raise AttnvizError(
            f"'{label}' is left out ({out})",
            f"leave {out} out, or ask for another token",
            about=name,
        )
    return found[0]


def _refuse_pieces(whole: Side, wanted: str, looking: Looking, name: str) -> None:
    """A word that the model's tokenizer cuts up has no place of its own, unless words are shown."""
    words = words_side(whole.tokens)
    if looking.words or wanted in whole.labels or wanted not in words.labels:
        return
    group = words.groups[words.labels.index(wanted)]
    pieces = " ".join(whole.labels[token] for token in group)
    raise AttnvizError(
        f"'{wanted}' is {len(group)} tokens here: {pieces}",
        f"use --words to combine them, or give the number of one: {option(name)} {group[0] + 1}",
        about=name,
    )


def _named(side: Side) -> Tokens:
    """The places of a side as tokens, so that they are found as those are."""
    tokens = side.tokens
    return replace(
        tokens,
        pieces=tuple(b"".join(tokens.pieces[each] for each in group) for group in side.groups),
        ids=tuple(tokens.ids[group[0]] for group in side.groups),
        spaced=side.spaced,
        words=side.labels,
        special=frozenset(),
    )
