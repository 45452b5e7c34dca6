"""TokenQuery: what one token attends to; TokenLink: how much it attends to another.

A link is a query token and a key token. Its lift in a map is its weight minus the larger of two
means: the weight that other tokens give the same key, and the weight that they give the key at the
same distance from them. Others are all that can see the key, except the key itself and special
tokens; a special key, or the first, is no example of a distance. If there are no others, the lift
is the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from attnviz.analysis.base_weights import BaseWeights
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import full_side, remaining_side, tokens_hidden_by_option
from attnviz.analysis.inspection.patterns import is_majority, most_attended_keys, sampled_queries
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE, Patch
from attnviz.errors import AttnvizError, opt
from attnviz.heads.changes import mean_head
from attnviz.heads.head import Head
from attnviz.heads.side import Side
from attnviz.tokens.grouping import words_of_text
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Trace
from attnviz.traces.trained.answers import answer_token_ids
from attnviz.traces.trained.forward_pass import PreparedInput
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.tracing import checking_input
from attnviz.wording.commands import changed_options
from attnviz.wording.numbers import SUM_ROUNDING, share_text
from attnviz.wording.words import and_list

MIN_TELLING_LIFT = 0.1  # a weight above its base by less says little of its own query and key,
CLEAR_LIFT = 0.5  # and one that is above it by more says much


@dataclass(frozen=True, eq=False)
class TokenQuery:
    """One query token's row in each map."""

    options: InspectOptions
    row: int
    map_rows: tuple[MapRow, ...]

    @cached_property
    def mean(self) -> MapRow:
        maps = tuple(map_row.map for map_row in self.map_rows)
        return self.map_rows[0] if len(maps) == 1 else MapRow(mean_head(maps), self.row)

    @cached_property
    def by_peak(self) -> list[MapRow]:
        return sorted(self.map_rows, key=lambda map_row: abs(map_row.peak), reverse=True)

    @cached_property
    def peaks(self) -> list[MapLink]:
        """In each map the link with the largest score, highest first: with `ranks_by_lift` the
        largest lift on another token that is no sink, otherwise the largest absolute weight.
        """
        if not self.ranks_by_lift:
            return [TokenLink(self, row.top_column).in_map(row) for row in self.by_peak]
        # other tokens' weight on the token itself is no measure of how much it gives itself
        keys = [self._telling_key(row) for row in self.map_rows]
        links = [
            TokenLink(self, key).in_map(row) for key, row in zip(keys, self.map_rows, strict=True)
        ]
        return sorted(links, key=lambda link: link.lift, reverse=True)

    @cached_property
    def lifted_link(self) -> TokenLink:
        """The link of the first of `peaks`."""
        return TokenLink(self, self.peaks[0].column)

    def _telling_key(self, row: MapRow) -> int:
        """Return the key with the largest lift, of those that are neither the token itself nor a
        sink; of all others than the token where it sees no more."""
        lifts = row.lifts.copy()
        if self.own_column is not None:
            lifts[self.own_column] = -np.inf
        beside_sinks = lifts.copy()
        beside_sinks[self.sink_keys] = -np.inf
        return int((beside_sinks if np.isfinite(beside_sinks).any() else lifts).argmax())

    @cached_property
    def sink_keys(self) -> list[int]:
        """The key with the token's largest weight in each map where that is a special token; or, if
        these are not most maps, where it is the first token.

        Empty if neither are most of several maps, and for a token that sees only one key.
        """
        columns = self.map_rows[0].map.columns
        tops = [row.top_column for row in self.map_rows]
        special = [key for key in tops if columns.special[key]]
        first = [key for key in tops if 0 in columns.groups[key]]
        most = (keys for keys in (special, first) if 2 * len(keys) > len(tops) > 1)
        return [] if self.mean.is_only_key else next(most, [])

    @property
    def ranks_by_lift(self) -> bool:
        """Whether maps and keys are ranked by lift, because most maps attend most to a sink."""
        return self.options.weigh == "weight" and bool(self.sink_keys)

    @property
    def names_head(self) -> bool:
        """Whether a title names one head of several: that with the largest lift."""
        return self.ranks_by_lift and self.peaks[0].lift > SUM_ROUNDING

    @property
    def own_column(self) -> int | None:
        """The index of the token's own column; None if it is not among the keys."""
        head_map = self.map_rows[0].map
        group = head_map.rows.groups[self.row]
        same = head_map.rows.tokens is head_map.columns.tokens and group in head_map.columns.groups
        return head_map.columns.groups.index(group) if same else None

    def strongest(self, column: int) -> MapRow:
        """Return the row of the map in which the token gives this key (a column) its largest
        absolute weight, or with `ranks_by_lift` its largest lift."""
        if self.ranks_by_lift:
            return max(self.map_rows, key=lambda map_row: float(map_row.lifts[column]))
        return max(self.map_rows, key=lambda map_row: abs(map_row.weight(column)))


@dataclass(frozen=True)
class OtherTokens:
    """The attention of all other tokens to the key of a link, in one map."""

    count: int  # how many can see the key
    mean: float  # the weight they give it; 0 if there are none
    attend_most_count: int  # how many give it alone their largest weight

    @property
    def attend_most(self) -> bool:
        return bool(is_majority(self.attend_most_count, self.count))


@dataclass(frozen=True, eq=False, repr=False)
class MapLink:
    """A link in one map: its weight, and the attention of other tokens."""

    map_row: MapRow
    column: int
    others: OtherTokens  # their attention to the same key
    base: float  # what others give on average to the key or at its distance, the larger; or NaN

    def __repr__(self) -> str:
        """Return a line like `<L5H11: "it" gives "animal" .65, other tokens .36>`."""
        rows, columns = self.map.rows.labels, self.map.columns.labels
        query, key = rows[self.map_row.row], columns[self.column]
        return (
            f'<{self.name}: "{query}" gives "{key}" {share_text(self.weight)}, '
            f"other tokens {share_text(self.others.mean)}>"
        )

    @property
    def name(self) -> str:
        return self.map.name

    @property
    def map(self) -> Head:
        return self.map_row.map

    @property
    def weight(self) -> float:
        return self.map_row.weight(self.column)

    @property
    def lift(self) -> float:
        return self.weight - float(np.nan_to_num(self.base))

    @property
    def sees(self) -> bool:
        return self.map_row.sees(self.column)

    @property
    def rank(self) -> int | None:
        """The rank of the absolute weight in its row, 1 for the largest; None if the key is
        masked."""
        return self.map_row.rank(self.column) if self.sees else None


@dataclass(frozen=True, eq=False)
class TokenLink:
    """A link between two tokens in every map."""

    token_query: TokenQuery
    column: int

    @property
    def options(self) -> InspectOptions:
        return self.token_query.options

    @cached_property
    def ranked_links(self) -> list[MapLink]:
        """The link in each map, highest score first; maps in which the key is masked come last."""
        links = [self.in_map(row) for row in self.token_query.map_rows]
        return sorted(links, key=lambda link: (link.sees, self.score(link)), reverse=True)

    def in_map(self, row: MapRow) -> MapLink:
        others = _measure_others(row.map, self.column, self._other_queries)
        return MapLink(row, self.column, others, bases_of_key(self.options, row, self.column)[0])

    def score(self, link: MapLink) -> float:
        """Return what maps are ranked by: the link's lift or its weight, as `options.rank` says;
        for gradients the absolute value."""
        score = link.lift if self.options.rank == "lift" else link.weight
        return abs(score) if self.options.weigh == "gradient" else score

    @cached_property
    def visible(self) -> list[MapLink]:
        return [link for link in self.ranked_links if link.sees]

    @property
    def top_links(self) -> list[MapLink]:
        """The strongest link, and the links of the next maps with exactly the same weight and
        others' mean."""
        best = self.visible[0]
        alike = (best.weight, best.others.mean)
        return list(takewhile(lambda link: (link.weight, link.others.mean) == alike, self.visible))

    @property
    def mean(self) -> float:
        return float(np.mean([row.weight(self.column) for row in self.token_query.map_rows]))

    @property
    def even_weight(self) -> float:
        """The weight that even attention to all visible keys would give, in the map of the
        strongest link."""
        return 1 / int((~self.visible[0].map_row.patch.hidden).sum())

    @property
    def is_preferred(self) -> bool:
        """Whether any map gives the key more weight from this token than from others; always for
        gradients."""
        signed = self.options.weigh == "gradient"
        return signed or max(link.weight - link.others.mean for link in self.visible) > SUM_ROUNDING

    @property
    def is_usual(self) -> bool:
        """Whether the whole row of the strongest link is like those of other tokens."""
        return self.top_links[0].map_row.is_like_others

    @cached_property
    def _other_queries(self) -> Bool[np.ndarray, "query"]:
        """For each row whether it counts as another token: not the query, the key, or a special
        token."""
        head_map = self.token_query.map_rows[0].map
        keys, key_group = head_map.columns, head_map.columns.groups[self.column]
        within = head_map.rows.tokens is keys.tokens
        is_counted: Bool[np.ndarray, "query"] = ~np.array(head_map.rows.special, dtype=bool)
        is_counted[self.token_query.row] = False
        is_counted &= [not within or group != key_group for group in head_map.rows.groups]
        return is_counted


def _measure_others(
    head_map: Head, column: int, is_counted: Bool[np.ndarray, "query"]
) -> OtherTokens:
    """Return the attention to a key (a column) from the rows that are counted and can see it.

    Of long texts evenly spaced rows are measured.
    """
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
    maps: Sequence[Head], options: InspectOptions, token_name: int | str, option_key: str = "query"
) -> TokenQuery:
    """Return the rows of one token in all maps; `token_name` is its position from 0, or
    its text or its number from 1 as text.

    Refuses a token that is unknown, ambiguous or hidden; `option_key` ("query", "source") names
    the option in errors.
    """
    row = find_in_side(maps[0].rows, options, token_name, option_key)
    return TokenQuery(options, row, tuple(MapRow(head_map, row) for head_map in maps))


def most_telling_link(
    maps: Sequence[Head], options: InspectOptions, query: int | None = None
) -> TokenLink | None:
    """Return the link whose weight exceeds its base most, in the map where it does: of all tokens
    that see several keys, or of the query; no link to a special token. Of those that exceed it by
    half, the longest: to tokens nearby much attention goes in any text. If none exceeds it by much,
    return the largest weight of the query, or None.
    """
    best, telling = MIN_TELLING_LIFT, None
    for head_map in maps:
        row = MapRow(head_map, query or 0)
        rows = FULL_SLICE if query is None else row.own_slice
        patch = head_map.cells.window(rows, FULL_SLICE)
        lifts = patch.values - np.nan_to_num(row.base.larger(rows))
        has_choice = (~patch.hidden).sum(1, keepdims=True) > 1
        is_example = has_choice & ~patch.hidden & ~row.base.special_keys
        lifts = np.where(is_example, lifts, -np.inf)
        lengths = abs(np.arange(lifts.shape[1]) - row.base.own_columns[rows, None])
        worths = lifts + np.where(lifts >= CLEAR_LIFT, lengths, 0)
        if worths.max(initial=-np.inf) > best:
            best = float(worths.max())
            place, column = divmod(int(worths.argmax()), worths.shape[1])
            row = replace(row, row=row.row + place)
            telling = TokenLink(TokenQuery(options, row.row, (row,)), column)
    if telling is None and query is not None:
        row = max((MapRow(head_map, query) for head_map in maps), key=lambda each: each.peak)
        telling = TokenLink(TokenQuery(options, query, (row,)), row.top_column)
    return telling


def build_link(maps: Sequence[Head], options: InspectOptions) -> TokenLink:
    """Return the link from the token of `--from` to the token of `--to`; refuse it if every map
    masks it."""
    assert options.source is not None
    assert options.to is not None
    token_query = build_token_query(maps, options, options.source, "source")
    column = find_in_side(maps[0].columns, options, options.to, "to")
    if not any(row.sees(column) for row in token_query.map_rows):
        rows, columns = maps[0].rows, maps[0].columns
        query, key = rows.labels[token_query.row], columns.labels[column]
        raise AttnvizError(
            f"'{query}' cannot attend to '{key}': a mask hides it in every head",
            f"try the other direction: {opt.source:'{options.to}'} {opt.to:'{options.source}'}",
            about="from",
            python_hint=f"try the other direction: source={options.to!r}, to={options.source!r}",
        )
    return TokenLink(token_query, column)


@dataclass(frozen=True, eq=False)
class MapRow:
    """A row of a map: the weights that one token gives to each key."""

    map: Head
    row: int

    @cached_property
    def patch(self) -> Patch:
        return self.map.cells.row(self.row)

    def weight(self, column: int) -> float:
        return float(self.patch.values[0, column])

    def sees(self, column: int) -> bool:
        return not bool(self.patch.hidden[0, column])

    @cached_property
    def top_column(self) -> int:
        return int(np.abs(self.patch.values[0]).argmax())

    @property
    def peak(self) -> float:
        """The weight with the largest absolute value, with its sign."""
        return self.weight(self.top_column)

    @cached_property
    def other_weights(self) -> Float[np.ndarray, "key"]:
        """The mean weight that other tokens give each key: all that can see it, except the token
        itself, the key and special tokens; NaN where there are none.

        It is `others.mean` of each link. Of long texts evenly spaced rows are measured.
        """
        return np.asarray(self.base.of_same_key(self.own_slice)[0])

    @cached_property
    def base_weights(self) -> Float[np.ndarray, "key"]:
        """The larger mean weight from other tokens: to each key, or at its distance; NaN where
        there are none."""
        return np.asarray(self.base.larger(self.own_slice)[0])

    @property
    def own_slice(self) -> slice:
        return slice(self.row, self.row + 1)

    @cached_property
    def base(self) -> BaseWeights:
        rows, columns = self.map.rows, self.map.columns
        own_columns = np.full(len(rows), -1)
        if rows.tokens is columns.tokens:
            column_of_group = {group: column for column, group in enumerate(columns.groups)}
            own_columns = np.array([column_of_group.get(group, -1) for group in rows.groups])
        return BaseWeights(
            self.map.cells,
            counted=~np.array(rows.special, dtype=bool),
            own_columns=own_columns,
            special_keys=np.array(columns.special, dtype=bool),
            step=sampled_queries(len(rows)).step,
        )

    @cached_property
    def lifts(self) -> Float[np.ndarray, "key"]:
        lifts = self.patch.values[0] - np.nan_to_num(self.base_weights)
        return np.where(self.patch.hidden[0], -np.inf, lifts)

    @cached_property
    def is_like_others(self) -> bool:
        """Whether each weight is near what others give the key, or the key at its distance."""
        at = self.own_slice
        bases = np.nan_to_num((self.base.of_same_key(at)[0], self.base.at_same_distance(at)[0]))
        values = self.patch.values[0]
        gaps = np.maximum(values - bases.max(0), bases.min(0) - values)
        return bool((gaps < MIN_TELLING_LIFT).all(where=~self.patch.hidden[0]))

    @property
    def is_only_key(self) -> bool:
        return int((~self.patch.hidden).sum()) < 2

    def rank(self, column: int) -> int:
        """Return the rank of the absolute weight in this column: 1 for the largest, the same for
        equal ones."""
        sizes = np.abs(self.patch.values[0])
        return int((sizes > sizes[column]).sum()) + 1


def bases_of_key(options: InspectOptions, row: MapRow, key: int) -> tuple[float, float]:
    """Return what a weight is compared with, and the mean weight that others give the same key.

    Of gradients, which may be below 0, both are the same: no mean of them is the larger.
    """
    others = float(row.other_weights[key])
    return others if options.weigh == "gradient" else float(row.base_weights[key]), others


def checking_words_of(options: InspectOptions) -> AbstractContextManager[None]:
    """Return a context in which a trained model does not read a text that lacks the tokens of these
    options, or without knowing their answers (--toward, --instead-of)."""

    def refuse_missing_words(model: LoadedTransformer, prepared: PreparedInput) -> None:
        for name in ("query", "source", "to"):
            if (token_name := getattr(options, name)) is not None:
                tokens = prepared.keys if name == "to" else prepared.tokens
                side = remaining_side(full_side(tokens, options), options)
                find_in_side(side, options, token_name, name)
        for name in ("toward", "instead_of"):
            if (word := getattr(options, name)) is not None:
                answer_token_ids(model, word, name)

    return checking_input(refuse_missing_words)


def find_in_side(
    side: Side, options: InspectOptions, token_name: int | str, option_key: str
) -> int:
    """Return the index of a token among the rows or columns of a map.

    `token_name` is its position from 0, also where words are shown, or its text or its number from
    1 as text. Refuses a token that is unknown, ambiguous or hidden, and a word that is split into
    several tokens; `option_key` ("source") names the option in errors.
    """
    full = full_side(side.tokens, options)
    group = full.groups[_find_group(full, token_name, options, option_key)]
    indices = [index for index, members in enumerate(side.groups) if set(members) & set(group)]
    if not indices:
        label = full.labels[full.groups.index(group)]
        by_option = tokens_hidden_by_option(side.tokens, options).items()
        hiding = and_list([option for option, positions in by_option if positions & set(group)])
        raise AttnvizError(
            f"'{label}' is left out ({hiding})",
            f"leave {hiding} out, or ask for another token",
            about=option_key,
        )
    return indices[0]


def _find_group(full: Side, token_name: int | str, options: InspectOptions, option_key: str) -> int:
    """Return the index of a token, or of the word that it is in, before any tokens are hidden."""
    if isinstance(token_name, int):
        position = full.tokens.index(token_name, option_key)
        return next(index for index, group in enumerate(full.groups) if position in group)
    _refuse_cut_word(full, token_name, options, option_key)
    return _tokens_of_side(full).index(token_name, option_key)


def command_options(trace: Trace, options: InspectOptions) -> dict[str, Any]:
    """Return the options that were changed, with tokens as a command takes them: positions, which
    it counts from 1, as text."""
    changed = changed_options(options)
    for name in ("query", "source", "to"):
        if isinstance(changed.get(name), int):
            full = full_side(trace.keys if name == "to" else trace.tokens, options)
            index = _find_group(full, changed[name], options, name)
            changed[name] = _tokens_of_side(full).as_typed(index)
    return changed


def _refuse_cut_word(full: Side, token_name: str, options: InspectOptions, option_key: str) -> None:
    """Refuse a word that the tokenizer splits into several tokens, unless words are shown."""
    words = words_of_text(full.tokens)
    if options.words or token_name in full.labels or token_name not in words.labels:
        return
    group = words.groups[words.labels.index(token_name)]
    pieces = " ".join(full.labels[token] for token in group)
    raise AttnvizError(
        f"'{token_name}' is {len(group)} tokens here: {pieces}",
        f"use {opt.words} to combine them, or give the number of one: "
        f"{opt[option_key]:{group[0] + 1}}",
        about=option_key,
    )


def _tokens_of_side(side: Side) -> Tokens:
    """Return the rows or columns of a map as tokens, so that words can be found by name like
    tokens."""
    tokens = side.tokens
    return replace(
        tokens,
        pieces=tuple(b"".join(tokens.pieces[token] for token in group) for group in side.groups),
        ids=tuple(tokens.ids[group[0]] for group in side.groups),
        spaced=side.spaced,
        words=side.labels,
        special=frozenset(),
    )
