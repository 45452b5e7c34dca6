"""The kinds of attention that heads show (previous, first, itself, …), scored by position.

A kind of reading is a predicate on two places, as a mask is. A head's score is the share of what a
token reads that lies on such keys, averaged over the tokens that have any, and have a choice. One
kind depends on the weights: a column is a key, neither the first nor a separator, that most of the
tokens with a choice give their largest weight; its score is the mean over all that can see it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from attnviz.analysis.inspection.maps import Map, MapSide
from attnviz.cells import FULL_SLICE

MARK_CATEGORIES = ("P", "S")  # categories of Unicode: punctuation, and signs


@dataclass(frozen=True, eq=False)
class PatternTokens:
    """The two sides of a map, as far as it is asked who reads what kind of token."""

    rows: Int[np.ndarray, "query"]  # a number for what stands there: the same, the same number
    columns: Int[np.ndarray, "key"]
    within: bool  # whether both are the places of one text
    is_special: Bool[np.ndarray, "query"]  # what a tokenizer added
    separates: Bool[np.ndarray, "key"]  # that, punctuation, and new lines
    repeats: Bool[np.ndarray, "query"]  # whether two tokens or more occur here and elsewhere
    query_numbers: Int[
        np.ndarray, "query"
    ]  # their numbers in the text, of which some may be left out,
    key_numbers: Int[np.ndarray, "key"]  # and those of what is read

    def steps(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Int[np.ndarray, "query key"]:
        """How far a key stands behind a query; of two texts that means nothing."""
        distances: Int[np.ndarray, "query key"] = self.key_numbers[key] - self.query_numbers[query]
        return distances

    def first(self, key: Int[np.ndarray, "1 key"]) -> Bool[np.ndarray, "1 key"]:
        """Whether it is the first of the text, and not only of what is left of it."""
        is_first: Bool[np.ndarray, "1 key"] = self.key_numbers[key] == 1
        return is_first

    def apart(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether these are two places; those of two texts always are."""
        is_elsewhere: Bool[np.ndarray, "query key"] = self.steps(query, key) != 0
        return is_elsewhere | (not self.within)

    def same(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether the same stands at both; what a tokenizer added is the same as nothing."""
        is_same: Bool[np.ndarray, "query key"] = self.rows[query] == self.columns[key]
        is_same &= ~self.is_special[query]
        return is_same

    def continues(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether the key comes after the same token earlier on, in what is repeated."""
        is_continuation = self.same(query, np.maximum(key - 1, 0))
        numbers_before = self.key_numbers[np.maximum(key - 1, 0)]
        is_continuation &= self.repeats[query] & (self.key_numbers[key] - numbers_before == 1)
        is_continuation &= self.steps(query, key) < 0
        return is_continuation


def read_pattern_tokens(head_map: Map) -> PatternTokens:
    """Of a map of tokens, or of words."""
    numbers_by_ids: dict[tuple[int, ...], int] = {}
    rows = _group_numbers(head_map.rows, numbers_by_ids)
    columns = _group_numbers(head_map.columns, numbers_by_ids)
    is_special = np.array(head_map.rows.special, dtype=bool)
    within = head_map.rows.tokens == head_map.columns.tokens and _is_self_attention(head_map)
    return PatternTokens(
        rows=rows,
        columns=columns,
        within=within,
        is_special=is_special,
        separates=np.array([*_find_separators(head_map.columns)], dtype=bool),
        repeats=_find_repeated(rows, is_special, head_map.rows.numbers),
        query_numbers=np.array(head_map.rows.numbers, dtype=int),
        key_numbers=np.array(head_map.columns.numbers, dtype=int),
    )


def _is_self_attention(head_map: Map) -> bool:
    layer = head_map.layer
    return layer is None or (layer.key_inputs is None and layer.memory is None)


def _group_numbers(
    side: MapSide, numbers_by_ids: dict[tuple[int, ...], int]
) -> Int[np.ndarray, "place"]:
    """The same number for the same tokens, on both sides."""
    ids = side.tokens.ids
    group_ids = [tuple(ids[position] for position in group) for group in side.groups]
    return np.array(
        [
            numbers_by_ids.setdefault(ids_of_group, len(numbers_by_ids))
            for ids_of_group in group_ids
        ],
        dtype=int,
    )


def _find_separators(side: MapSide) -> Iterator[bool]:
    """What was added, new lines, and punctuation; but not a mark inside a word, as in `didn't`."""
    spaced = side.spaced
    marks = [_is_mark(side, position) for position in range(len(side))]
    for position, special in enumerate(side.special):
        after = position + 1
        glued = (
            after < len(side) and not spaced[position] and not spaced[after] and not marks[after]
        )
        yield special or (marks[position] and not glued)


def _is_mark(side: MapSide, position: int) -> bool:
    """Whether all that stands there is punctuation, or a new line."""
    pieces = b"".join(side.tokens.pieces[token] for token in side.groups[position])
    text = pieces.decode(errors="replace")
    if not text.strip():
        return "\n" in text
    return all(unicodedata.category(letter)[0] in MARK_CATEGORIES for letter in text.strip())


def _find_repeated(
    rows: Int[np.ndarray, "place"], is_special: Bool[np.ndarray, "place"], numbers: tuple[int, ...]
) -> Bool[np.ndarray, "place"]:
    """Whether each place is part of two neighbouring tokens that stand elsewhere, too."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for position in range(len(rows) - 1):
        side_by_side = numbers[position + 1] - numbers[position] == 1
        if side_by_side and not is_special[position] and not is_special[position + 1]:
            pairs.setdefault((int(rows[position]), int(rows[position + 1])), []).append(position)
    is_repeated = np.zeros(len(rows), dtype=bool)
    for positions in pairs.values():
        if len(positions) > 1:
            is_repeated[positions] = is_repeated[np.array(positions) + 1] = True
    return is_repeated


Queries = Int[np.ndarray, "query 1"]
Keys = Int[np.ndarray, "1 key"]
KeyPredicate = Callable[[Queries, Keys, PatternTokens], Bool[np.ndarray, "query key"]]
PatternScores = Float[np.ndarray, "head kind"]
BandCells = Float[np.ndarray, "query key"]  # of a map: some of its rows
LargestKeys = Int[np.ndarray, "query"]  # the key that each gives its largest weight

PATTERN_CELLS_AT_ONCE = 2**19
MAX_SAMPLED_QUERIES = 1024  # of a longer text every so many tokens are asked
MIN_SHOWING_TOKENS = (
    4  # tokens that must be able to show a kind for a head to be called one; or half of few
)
MIN_PATTERN_EXCESS = (
    0.25  # of the way from what even attention would give to all: then a head has a kind
)
MIN_BROAD_ENTROPY = 0.8  # of the largest entropy


@dataclass(frozen=True)
class PatternKind:
    """One thing that a head may do."""

    name: str  # in tables
    short: str  # where there is little room
    read: str  # "L0H2 attends to the previous token"
    about: str  # what its number is
    absent: str  # why a text cannot show it
    one_key: bool = False  # whether it is the same key for every token


@dataclass(frozen=True)
class KeyPattern(PatternKind):
    """To read certain keys."""

    reads: KeyPredicate = field(kw_only=True)  # which they are
    within: bool = False  # whether it is about places of one text


KEY_PATTERNS: tuple[KeyPattern, ...] = (
    KeyPattern(
        "previous token",
        "previous",
        "the previous token",
        "the share of a token's attention that goes to the token before it",
        "no token has both a token before it and a choice",
        reads=lambda query, key, places: places.steps(query, key) == -1,
        within=True,
    ),
    KeyPattern(
        "next token",
        "next",
        "the next token",
        "the share that goes to the token after it",
        "no token can see the one after it",
        reads=lambda query, key, places: places.steps(query, key) == 1,
        within=True,
    ),
    KeyPattern(
        "first token (sink)",
        "first",
        "the first token",
        "the share that goes to the first token, of all others",
        "no token can attend to the first and has a choice",
        one_key=True,
        reads=lambda query, key, places: places.first(key) & places.apart(query, key),
    ),
    KeyPattern(
        "itself",
        "itself",
        "the token itself",
        "the share that goes to the token itself",
        "no token sees itself and others",
        reads=lambda query, key, places: places.steps(query, key) == 0,
        within=True,
    ),
    KeyPattern(
        "separators",
        "separators",
        "separators",
        "the share that goes to punctuation, new lines and tokens that the tokenizer added, "
        "except the first token and the token itself",
        "there are no separators after the first token",
        reads=lambda query, key, places: (
            places.separates[key] & ~places.first(key) & places.apart(query, key)
        ),
    ),
    KeyPattern(
        "same token",
        "same",
        "the same token elsewhere",
        "the share that goes to the same token elsewhere",
        "no token occurs twice",
        reads=lambda query, key, places: places.same(query, key) & places.apart(query, key),
    ),
    KeyPattern(
        "induction",
        "induction",
        "what followed the same token before",
        "where two tokens or more are repeated: the share that goes to the token that followed "
        "the same token earlier",
        "no two tokens are repeated",
        reads=lambda query, key, places: places.continues(query, key),
        within=True,
    ),
)
BROAD_PATTERN = PatternKind(
    "broad",
    "broad",
    "broadly",
    "the entropy of a token's attention, as a share of the largest possible: 1 if it attends to "
    "all tokens equally",
    "no token has a choice",
)
COLUMN_PATTERN = PatternKind(
    "one token (column)",
    "column",
    "one token",
    "the share that goes to one token, neither the first nor a separator, to which most tokens "
    "give their largest weight",
    "in no head do most tokens attend to one token, other than the first and separators",
    one_key=True,
)
PATTERN_KINDS: tuple[PatternKind, ...] = (*KEY_PATTERNS, COLUMN_PATTERN, BROAD_PATTERN)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadPatterns:
    """What each of some heads does: a row for each, a column for each kind."""

    names: tuple[str, ...]
    scores: PatternScores  # NaN where the text cannot show a kind
    even: PatternScores  # what a head would have that reads all that it sees alike
    showing_counts: Int[
        np.ndarray, "kind"
    ]  # how many of the tokens that were asked can show a kind
    most: Bool[
        np.ndarray, "head kind"
    ]  # whether most of these give such a key their largest weight
    columns: tuple[int | None, ...]  # of each head, the place of the key that is its column
    keys: MapSide
    sampled_count: int  # tokens,
    tokens: int  # of so many

    @property
    def excess(self) -> PatternScores:
        """How far a head is from even attention: 1 where it does nothing else; broad has none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            excess: PatternScores = (self.scores - self.even) / (1 - self.even)
        excess[:, PATTERN_KINDS.index(BROAD_PATTERN)] = np.nan
        return excess

    def score(self, head: int, kind: PatternKind) -> float:
        """How much a head does something."""
        return float(self.scores[head, PATTERN_KINDS.index(kind)])

    @cached_property
    def kinds(self) -> tuple[PatternKind | None, ...]:
        """What each head does most, if it does anything much."""
        can_show = self.showing_counts >= min(MIN_SHOWING_TOKENS, self.sampled_count // 2)
        return tuple(map(_strongest_kind, np.where(can_show, self.excess, np.nan), self.scores))

    def strongest(self, kind: PatternKind) -> list[int]:
        """The heads by how much they do something, the one that does it most first."""
        scores = self.scores[:, PATTERN_KINDS.index(kind)]
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        return [head for head in order if not np.isnan(scores[head])]

    def heads_of_kind(self, kind: PatternKind) -> list[int]:
        """The heads that do this more than anything else, the strongest first."""
        return [head for head in self.strongest(kind) if self.kinds[head] is kind]

    def is_most_attended(self, head: int, kind: PatternKind) -> bool:
        """Whether most tokens give such a key their largest weight."""
        return bool(self.most[head, PATTERN_KINDS.index(kind)])


def find_patterns(maps: Sequence[Map]) -> HeadPatterns:
    """What the heads do whose maps these are, all of one text."""
    pattern_tokens = read_pattern_tokens(maps[0])
    queries = sampled_queries(len(pattern_tokens.rows))
    totals = np.zeros((len(maps), 4, len(PATTERN_KINDS)))
    by_key = np.zeros((len(maps), 4, len(pattern_tokens.columns)))
    for band in _query_bands(
        np.arange(len(pattern_tokens.rows))[queries], len(pattern_tokens.columns)
    ):
        pattern_masks = _pattern_masks(band, pattern_tokens)
        rows = slice(band[0], band[-1] + 1, queries.step)
        for total, key_totals, each in zip(totals, by_key, maps, strict=True):
            patch = each.cells.window(rows, FULL_SLICE)
            values, visible = patch.values.astype(np.float32), (~patch.hidden).astype(np.float32)
            largest = most_attended_keys(values)
            total[:, : len(KEY_PATTERNS)] += _pattern_totals(
                values, visible, largest, pattern_masks
            )
            total[:3, PATTERN_KINDS.index(BROAD_PATTERN)] += _breadth_totals(values, visible)
            key_totals += _key_totals(values, visible, largest)
    columns = tuple(_find_column(each, pattern_tokens) for each in by_key)
    for total, key_totals, key in zip(totals, by_key, columns, strict=True):
        if key is not None:
            total[:, PATTERN_KINDS.index(COLUMN_PATTERN)] = key_totals[:, key]
    with np.errstate(invalid="ignore"):
        scores, even = totals[:, 0] / totals[:, 2], totals[:, 1] / totals[:, 2]
    most = is_most(totals[:, 3], totals[:, 2])
    most[:, PATTERN_KINDS.index(COLUMN_PATTERN)] = [key is not None for key in columns]
    return HeadPatterns(
        names=tuple(each.name for each in maps),
        scores=scores,
        even=even,
        showing_counts=totals[:, 2].max(0).astype(int),
        most=most,
        columns=columns,
        keys=maps[0].columns,
        sampled_count=len(range(len(pattern_tokens.rows))[queries]),
        tokens=len(pattern_tokens.rows),
    )


def sampled_queries(count: int) -> slice:
    """The tokens that are asked: all, and of a long text every so many."""
    return slice(0, count, max(1, -(-count // MAX_SAMPLED_QUERIES)))


def most_attended_keys(values: BandCells) -> LargestKeys:
    """The key that each query gives its largest weight; -1 where several are as large.

    >>> most_attended_keys(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, -1]
    """
    sizes = np.abs(values)
    has_one_largest = (sizes == sizes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    largest_keys: LargestKeys = np.where(has_one_largest, sizes.argmax(axis=1), -1)
    return largest_keys


def is_most(count: Any, total: Any) -> Any:
    """Whether so many tokens are most of them: more than half, and more than one.

    >>> is_most(2, 3), is_most(2, 4), is_most(1, 1)
    (True, False, False)
    """
    return (2 * count > total) & (count > 1)


def _strongest_kind(
    beyond: Shaped[np.ndarray, "kind"], scores: Shaped[np.ndarray, "kind"]
) -> PatternKind | None:
    best = int(np.argmax(np.nan_to_num(beyond, nan=-1.0)))
    if beyond[best] >= MIN_PATTERN_EXCESS:
        return PATTERN_KINDS[best]
    return (
        BROAD_PATTERN if scores[PATTERN_KINDS.index(BROAD_PATTERN)] >= MIN_BROAD_ENTROPY else None
    )


def _query_bands(queries: Int[np.ndarray, "query"], keys: int) -> list[Int[np.ndarray, "query"]]:
    queries_at_once = max(1, PATTERN_CELLS_AT_ONCE // max(1, keys * len(PATTERN_KINDS)))
    return [
        queries[first : first + queries_at_once]
        for first in range(0, len(queries), queries_at_once)
    ]


def _pattern_masks(
    band: Int[np.ndarray, "query"], pattern_tokens: PatternTokens
) -> Float[np.ndarray, "query key reading"]:
    """Which keys count for each query, for each kind that is about certain keys."""
    query, key = band[:, None], np.arange(len(pattern_tokens.columns))[None, :]
    no_keys = np.zeros((len(band), key.size), dtype=bool)
    masks = [
        no_keys
        if pattern.within and not pattern_tokens.within
        else pattern.reads(query, key, pattern_tokens) | no_keys
        for pattern in KEY_PATTERNS
    ]
    return np.stack(masks, axis=-1).astype(np.float32)


def _pattern_totals(
    values: BandCells,
    visible: BandCells,
    largest: LargestKeys,
    pattern_masks: Float[np.ndarray, "query key reading"],
) -> Float[np.ndarray, "4 reading"]:
    """Over some queries: what they read of each kind, even attention would, and how many can.

    And how many give their largest weight to such a key.
    """
    visible_count, row_sums = visible.sum(1), values.sum(1)
    matching_sums, matching_count = (np.stack([values, visible], axis=1) @ pattern_masks).transpose(
        1, 2, 0
    )
    has_choice = (matching_count > 0) & (matching_count < visible_count) & (row_sums > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares, chance = (
            np.where(has_choice, matching_sums / row_sums, 0),
            np.where(has_choice, matching_count / visible_count, 0),
        )
    largest_matches = pattern_masks[np.arange(len(values)), largest].T * (largest >= 0)
    return np.stack(
        [amounts.sum(1) for amounts in (shares, chance, has_choice, largest_matches * has_choice)]
    )


def _key_totals(
    values: BandCells, visible: BandCells, largest: LargestKeys
) -> Float[np.ndarray, "4 key"]:
    """Over the queries that have a choice: what they give each key, even attention would give it,
    how many see it, and how many give it their largest weight."""
    visible_count, row_sums = visible.sum(axis=1), values.sum(axis=1)
    has_choice = (visible_count > 1) & (row_sums > 0)
    share, even = (
        has_choice / np.where(has_choice, divisor, 1) for divisor in (row_sums, visible_count)
    )
    votes = np.bincount(largest[has_choice & (largest >= 0)], minlength=values.shape[1])
    return np.stack([share @ values, even @ visible, has_choice @ visible, votes])


def _find_column(
    key_totals: Float[np.ndarray, "4 key"], pattern_tokens: PatternTokens
) -> int | None:
    """The key that most of the tokens with a choice give their largest weight."""
    _, even, _, votes = key_totals
    queries = round(even.sum())  # even attention gives each query's keys 1 in all
    is_candidate = ~(
        pattern_tokens.separates | pattern_tokens.first(np.arange(len(votes))[None, :])[0]
    )
    key = int(np.where(is_candidate, votes, -1).argmax())
    return key if is_candidate[key] and is_most(votes[key], queries) else None


def _breadth_totals(values: BandCells, visible: BandCells) -> Float[np.ndarray, "3"]:
    """The entropy of rows as a share of the largest, added; that of even ones; how many rows."""
    visible_count, row_sums = visible.sum(axis=1), values.sum(axis=1)
    rows = (visible_count > 1) & (row_sums > 0)
    shares = values[rows] / row_sums[rows, None]
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    entropy = -(shares * logs).sum(1) / np.log(visible_count[rows])
    return np.array([entropy.sum(), rows.sum(), rows.sum()])
