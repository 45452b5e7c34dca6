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

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.map_regrouping import full_side, tokens_hidden_by_option, word_side
from attnviz.analysis.inspection.maps import Map, MapSide, mean_map
from attnviz.analysis.inspection.patterns import is_most, most_attended_keys, sampled_queries
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE, Patch
from attnviz.errors import AttnvizError
from attnviz.tokens.token_lookup import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.wording.commands import option_name
from attnviz.wording.numbers import SUM_ROUNDING
from attnviz.wording.words import and_list


@dataclass(frozen=True, eq=False)
class TokenQuery:
    """One token, and what it reads in each map."""

    options: InspectOptions
    row: int
    map_rows: tuple[MapRow, ...]

    @cached_property
    def mean(self) -> MapRow:
        """The same in the mean of all maps; where there is one alone, that."""
        maps = tuple(map_row.map for map_row in self.map_rows)
        return self.map_rows[0] if len(maps) == 1 else MapRow(mean_map(maps), self.row)

    @cached_property
    def by_peak(self) -> list[MapRow]:
        """Those maps first in which it puts most on one token."""
        return sort_by_peak(self.map_rows)

    @property
    def own_column(self) -> int | None:
        """Where the token itself stands among those that are read, if it does."""
        head_map = self.map_rows[0].map
        group = head_map.rows.groups[self.row]
        same = head_map.rows.tokens is head_map.columns.tokens and group in head_map.columns.groups
        return head_map.columns.groups.index(group) if same else None

    def strongest(self, column: int) -> MapRow:
        """The map in which it reads most of a token."""
        return max(self.map_rows, key=lambda map_row: abs(map_row.weight(column)))


@dataclass(frozen=True)
class OtherTokens:
    """What other tokens give the key of a link, in one map."""

    count: int  # of those that can see it
    mean: float  # weight that they give it; 0 where there are none
    attend_most_count: int  # of them, whose largest weight is on it and on no other key

    @property
    def attend_most(self) -> bool:
        """Whether the key is what most tokens attend to."""
        return bool(is_most(self.attend_most_count, self.count))


@dataclass(frozen=True, eq=False)
class MapLink:
    """A link in one map: its weight, and what other tokens give the same key."""

    map_row: MapRow
    column: int
    others: OtherTokens

    @property
    def map(self) -> Map:
        return self.map_row.map

    @property
    def weight(self) -> float:
        return self.map_row.weight(self.column)

    @property
    def lift(self) -> float:
        """The weight, minus the mean of what other tokens give the same key."""
        return self.weight - self.others.mean

    @property
    def sees(self) -> bool:
        return self.map_row.sees(self.column)

    @property
    def rank(self) -> int | None:
        """Its place among all weights of its row."""
        return self.map_row.rank(self.column) if self.sees else None


@dataclass(frozen=True, eq=False)
class TokenLink:
    """A token that reads and one that is read, in each map."""

    token_query: TokenQuery
    column: int

    @property
    def options(self) -> InspectOptions:
        return self.token_query.options

    @cached_property
    def ranked(self) -> list[MapLink]:
        """Those maps first that link the two most; last those that hide the key."""
        other_queries = self._other_queries
        links = [
            MapLink(each, self.column, _measure_others(each.map, self.column, other_queries))
            for each in self.token_query.map_rows
        ]
        return sorted(links, key=lambda each: (each.sees, self.score(each)), reverse=True)

    def score(self, link: MapLink) -> float:
        """What maps are ranked by; gradients, which may be below 0, by how far from 0 that is."""
        score = link.lift if self.options.rank == "lift" else link.weight
        return abs(score) if self.options.weigh == "gradient" else score

    @cached_property
    def seeing(self) -> list[MapLink]:
        """Those that do not hide it."""
        return [link for link in self.ranked if link.sees]

    @property
    def first(self) -> list[MapLink]:
        """The map that links the two most; or several that do so alike."""
        best = self.seeing[0]
        alike = (best.weight, best.others.mean)
        return list(takewhile(lambda link: (link.weight, link.others.mean) == alike, self.seeing))

    @property
    def mean(self) -> float:
        return float(
            np.mean([map_row.weight(self.column) for map_row in self.token_query.map_rows])
        )

    @property
    def even(self) -> float:
        """What it would get if all that can be seen were read alike."""
        return 1 / int((~self.seeing[0].map_row.patch.hidden).sum())

    @property
    def links(self) -> bool:
        """Whether any map gives the key more of this token than of others."""
        signed = self.options.weigh == "gradient"
        return signed or max(link.lift for link in self.seeing) > SUM_ROUNDING

    @cached_property
    def _other_queries(self) -> Bool[np.ndarray, "query"]:
        """Which rows count as other tokens; of a long text every so many of them."""
        head_map = self.token_query.map_rows[0].map
        keys, key_group = head_map.columns, head_map.columns.groups[self.column]
        within = head_map.rows.tokens is keys.tokens
        is_counted = ~np.array(head_map.rows.special, dtype=bool)
        is_counted[self.token_query.row] = False
        is_counted &= [not within or group != key_group for group in head_map.rows.groups]
        return is_counted


def _measure_others(
    head_map: Map, column: int, is_counted: Bool[np.ndarray, "query"]
) -> OtherTokens:
    """Over the rows that count and can see a key: how much they give it, a band at a time."""
    queries = sampled_queries(len(is_counted))
    rows_at_once = max(1, CELLS_PER_BAND // max(1, len(head_map.columns))) * queries.step
    count, total, most = 0, 0.0, 0
    for start in range(0, len(is_counted), rows_at_once):
        rows = slice(start, start + rows_at_once, queries.step)
        patch = head_map.cells.window(rows, FULL_SLICE)
        seeing = is_counted[rows] & ~patch.hidden[:, column]
        values = patch.values[seeing]
        count += len(values)
        total += float(values[:, column].sum(dtype=np.float64))
        most += int((most_attended_keys(values) == column).sum())
    return OtherTokens(count, total / count if count else 0.0, most)


def build_token_query(
    inspection: Inspection, token_name: str, option_key: str = "query"
) -> TokenQuery:
    """The token that somebody names, with all that it reads."""
    options, maps = inspection.looking, inspection.maps
    row = find_in_side(maps[0].rows, options, token_name, option_key)
    return TokenQuery(options, row, tuple(MapRow(head_map, row) for head_map in maps))


def build_link(inspection: Inspection) -> TokenLink:
    """The two tokens of --from and --to; refused where no map lets one see the other."""
    options = inspection.looking
    assert options.source is not None
    assert options.to is not None
    token_query = build_token_query(inspection, options.source, "from")
    column = find_in_side(inspection.maps[0].columns, options, options.to, "to")
    link = TokenLink(token_query, column)
    if not link.seeing:
        head_map = inspection.maps[0]
        query_label, key_label = (
            head_map.rows.labels[token_query.row],
            head_map.columns.labels[column],
        )
        raise AttnvizError(
            f"'{query_label}' ({head_map.rows.numbers[token_query.row]}) cannot attend to '{key_label}' "
            f"({head_map.columns.numbers[column]}): a mask hides it in every head",
            f"try the other direction: --from '{options.to}' --to '{options.source}'",
            about="from",
        )
    return link


@dataclass(frozen=True, eq=False)
class MapRow:
    """A row of a map: what one token reads there."""

    map: Map
    row: int

    @cached_property
    def patch(self) -> Patch:
        return self.map.cells.row(self.row)

    def weight(self, column: int) -> float:
        return float(self.patch.values[0, column])

    def sees(self, column: int) -> bool:
        return not bool(self.patch.hidden[0, column])

    @cached_property
    def most(self) -> int:
        """What it reads most; the first of several that it reads alike."""
        return int(np.abs(self.patch.values[0]).argmax())

    @property
    def peak(self) -> float:
        return self.weight(self.most)

    def rank(self, column: int) -> int:
        """How many places it reads more, and one."""
        sizes = np.abs(self.patch.values[0])
        return int((sizes > sizes[column]).sum()) + 1


def sort_by_peak(map_rows: Sequence[MapRow]) -> list[MapRow]:
    """Those first that put most on one token."""
    return sorted(map_rows, key=lambda map_row: abs(map_row.peak), reverse=True)


def find_in_side(side: MapSide, options: InspectOptions, token_name: str, option_key: str) -> int:
    """The place of a token that somebody names, on a side of which some may be left out."""
    full = full_side(side.tokens, options)
    _refuse_cut_word(full, token_name, options, option_key)
    group = full.groups[find_query(_tokens_of_side(full), token_name, option_name(option_key))]
    indices = [index for index, members in enumerate(side.groups) if set(members) & set(group)]
    if not indices:
        label = full.labels[full.groups.index(group)]
        hidden_by_option = tokens_hidden_by_option(side.tokens, options)
        hiding_options = and_list(
            [option for option, positions in hidden_by_option.items() if positions & set(group)]
        )
        raise AttnvizError(
            f"'{label}' is left out ({hiding_options})",
            f"leave {hiding_options} out, or ask for another token",
            about=option_key,
        )
    return indices[0]


def _refuse_cut_word(
    full: MapSide, token_name: str, options: InspectOptions, option_key: str
) -> None:
    """A word that the model's tokenizer cuts up has no place of its own, unless words are shown."""
    words = word_side(full.tokens)
    if options.words or token_name in full.labels or token_name not in words.labels:
        return
    group = words.groups[words.labels.index(token_name)]
    pieces = " ".join(full.labels[token] for token in group)
    raise AttnvizError(
        f"'{token_name}' is {len(group)} tokens here: {pieces}",
        f"use --words to combine them, or give the number of one: {option_name(option_key)} {group[0] + 1}",
        about=option_key,
    )


def _tokens_of_side(side: MapSide) -> Tokens:
    """The places of a side as tokens, so that they are found as those are."""
    tokens = side.tokens
    return replace(
        tokens,
        pieces=tuple(b"".join(tokens.pieces[token] for token in group) for group in side.groups),
        ids=tuple(tokens.ids[group[0]] for group in side.groups),
        spaced=side.spaced,
        words=side.labels,
        special=frozenset(),
    )
