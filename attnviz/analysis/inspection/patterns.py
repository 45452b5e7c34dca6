"""Attention patterns (previous token, first token, itself, …), and each head's score for them.

A pattern is a predicate on a query and a key, like a mask. A head's score is the share of a token's
attention that goes to such keys, averaged over tokens that see such keys and others. The column
pattern depends on the weights: a column is a key, neither the first nor a separator, to which most
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

MARK_CATEGORIES = ("P", "S")  # Unicode categories: punctuation and symbols
PATTERN_CELLS_AT_ONCE = 2**19
MAX_SAMPLED_QUERIES = 1024  # of a longer text evenly spaced tokens are measured
MIN_SHOWING_TOKENS = 4  # tokens (or half of few) that must be able to show a pattern
MIN_PATTERN_EXCESS = 0.25  # of the distance from the score of even attention to 1
MIN_BROAD_ENTROPY = 0.8  # of the largest entropy

Queries = Int[np.ndarray, "query 1"]
Keys = Int[np.ndarray, "1 key"]
PairFlags = Bool[np.ndarray, "query key"]
PatternScores = Float[np.ndarray, "head kind"]
BandCells = Float[np.ndarray, "query key"]  # some rows of a map
LargestKeys = Int[np.ndarray, "query"]  # the key to which each query gives its largest weight


@dataclass(frozen=True, eq=False)
class PatternTokens:
    """The queries and keys of a map, with the facts about them that patterns are defined by."""

    rows: Int[np.ndarray, "query"]  # equal numbers for equal tokens, on both sides
    columns: Int[np.ndarray, "key"]
    same_text: bool  # whether queries and keys are tokens of the same text
    is_special: Bool[np.ndarray, "query"]  # added by the tokenizer
    is_separator: Bool[np.ndarray, "key"]  # special tokens, punctuation and new lines
    is_repeated: Bool[np.ndarray, "query"]  # part of two or more tokens that occur elsewhere, too
    query_numbers: Int[np.ndarray, "query"]  # from 1, as in the text; hidden tokens count
    key_numbers: Int[np.ndarray, "key"]

    def steps(self, query: Queries, key: Keys) -> Int[np.ndarray, "query key"]:
        """Return the key's position minus the query's, such as −1 for the previous token."""
        distances: Int[np.ndarray, "query key"] = self.key_numbers[key] - self.query_numbers[query]
        return distances

    def is_first(self, key: Keys) -> Bool[np.ndarray, "1 key"]:
        """Return for each key whether it is the first token of the whole text, hidden tokens
        included."""
        is_first: Bool[np.ndarray, "1 key"] = self.key_numbers[key] == 1
        return is_first

    def is_apart(self, query: Queries, key: Keys) -> PairFlags:
        """Return for each pair whether query and key are at different positions, or in different
        texts."""
        is_elsewhere: PairFlags = self.steps(query, key) != 0
        return is_elsewhere | (not self.same_text)

    def is_same(self, query: Queries, key: Keys) -> PairFlags:
        """Return for each pair whether query and key are the same token, and not a special one.

        A token is the same as itself, too.
        """
        is_same: PairFlags = self.rows[query] == self.columns[key]
        is_same &= ~self.is_special[query]
        return is_same

    def is_continuation(self, query: Queries, key: Keys) -> PairFlags:
        """Return for each pair whether the key directly follows an earlier copy of the query's
        token, where the query is part of a repeated passage."""
        is_continuation = self.is_same(query, np.maximum(key - 1, 0))
        numbers_before = self.key_numbers[np.maximum(key - 1, 0)]
        is_continuation &= self.is_repeated[query] & (self.key_numbers[key] - numbers_before == 1)
        is_continuation &= self.steps(query, key) < 0
        return is_continuation


def read_pattern_tokens(head_map: Map) -> PatternTokens:
    """Return the facts that patterns are defined by, of the tokens or words of a map."""
    numbers_by_ids: dict[tuple[int, ...], int] = {}
    rows = _group_numbers(head_map.rows, numbers_by_ids)
    columns = _group_numbers(head_map.columns, numbers_by_ids)
    is_special, layer = np.array(head_map.rows.special, dtype=bool), head_map.layer
    is_self_attention = layer is None or (layer.key_inputs is None and layer.memory is None)
    return PatternTokens(
        rows=rows,
        columns=columns,
        same_text=head_map.rows.tokens == head_map.columns.tokens and is_self_attention,
        is_special=is_special,
        is_separator=np.array([*_find_separators(head_map.columns)], dtype=bool),
        is_repeated=_find_repeated(rows, is_special, head_map.rows.numbers),
        query_numbers=np.array(head_map.rows.numbers, dtype=int),
        key_numbers=np.array(head_map.columns.numbers, dtype=int),
    )


def _group_numbers(
    side: MapSide, numbers_by_ids: dict[tuple[int, ...], int]
) -> Int[np.ndarray, "position"]:
    """Return a number for each row or column of a map, equal for equal tokens.

    New tokens are added to `numbers_by_ids`, so that rows and columns share one numbering.
    """
    ids = side.tokens.ids
    keys = [tuple(ids[position] for position in group) for group in side.groups]
    return np.array([numbers_by_ids.setdefault(key, len(numbers_by_ids)) for key in keys], int)


def _find_separators(side: MapSide) -> Iterator[bool]:
    """Yield for each row or column whether it is a special token, a new line, or punctuation not
    inside a word."""
    spaced = side.spaced
    marks = [_is_mark(side, position) for position in range(len(side))]
    for index, special in enumerate(side.special):
        after = index + 1
        glued = after < len(side) and not (spaced[index] or spaced[after] or marks[after])
        yield special or (marks[index] and not glued)


def _is_mark(side: MapSide, position: int) -> bool:
    """Return whether the text of a row or column (number `position`) is only punctuation, symbols,
    or a new line."""
    pieces = b"".join(side.tokens.pieces[token] for token in side.groups[position])
    text = pieces.decode(errors="replace")
    if not text.strip():
        return "\n" in text
    return all(unicodedata.category(letter)[0] in MARK_CATEGORIES for letter in text.strip())


def _find_repeated(
    rows: Int[np.ndarray, "query"],
    is_special: Bool[np.ndarray, "query"],
    numbers: tuple[int, ...],
) -> Bool[np.ndarray, "query"]:
    """Return for each row whether it is part of two neighbouring tokens that occur elsewhere, too.

    `rows` has equal numbers for equal tokens, and `numbers` their positions in the text.
    """
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


@dataclass(frozen=True)
class PatternKind:
    """An attention pattern that a head may show."""

    name: str  # in tables
    short: str  # in narrow columns
    target_phrase: str  # the object of "L0H2 attends to the previous token"
    about: str  # what its score means
    why_absent: str  # why a text cannot show it
    one_key: bool = False  # whether it is the same key for every token


@dataclass(frozen=True)
class KeyPattern(PatternKind):
    """The pattern of attending to certain keys; `matches` tells which query-key pairs belong to
    it."""

    matches: Callable[[Queries, Keys, PatternTokens], PairFlags] = field(kw_only=True)
    same_text: bool = False  # whether it needs queries and keys of the same text


KEY_PATTERNS: tuple[KeyPattern, ...] = (
    KeyPattern(
        "previous token",
        "previous",
        "the previous token",
        "the share of a token's attention that goes to the token before it",
        "no token has both a token before it and a choice",
        matches=lambda query, key, tokens: tokens.steps(query, key) == -1,
        same_text=True,
    ),
    KeyPattern(
        "next token",
        "next",
        "the next token",
        "the share that goes to the token after it",
        "no token can see the one after it",
        matches=lambda query, key, tokens: tokens.steps(query, key) == 1,
        same_text=True,
    ),
    KeyPattern(
        "first token (sink)",
        "first",
        "the first token",
        "the share that goes to the first token, of all others",
        "no token can attend to the first and has a choice",
        one_key=True,
        matches=lambda query, key, tokens: tokens.is_first(key) & tokens.is_apart(query, key),
    ),
    KeyPattern(
        "itself",
        "itself",
        "the token itself",
        "the share that goes to the token itself",
        "no token sees itself and others",
        matches=lambda query, key, tokens: tokens.steps(query, key) == 0,
        same_text=True,
    ),
    KeyPattern(
        "separators",
        "separators",
        "separators",
        "the share that goes to punctuation, new lines and tokens that the tokenizer added, "
        "except the first token and the token itself",
        "there are no separators after the first token",
        matches=lambda query, key, tokens: (
            tokens.is_separator[key] & ~tokens.is_first(key) & tokens.is_apart(query, key)
        ),
    ),
    KeyPattern(
        "same token",
        "same",
        "the same token elsewhere",
        "the share that goes to the same token elsewhere",
        "no token occurs twice",
        matches=lambda query, key, tokens: tokens.is_same(query, key) & tokens.is_apart(query, key),
    ),
    KeyPattern(
        "induction",
        "induction",
        "what followed the same token before",
        "where two tokens or more are repeated: the share that goes to the token that followed "
        "the same token earlier",
        "no two tokens are repeated",
        matches=lambda query, key, tokens: tokens.is_continuation(query, key),
        same_text=True,
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
    """The scores of heads for each pattern: a row for each head, a column for each pattern kind."""

    names: tuple[str, ...]
    scores: PatternScores  # NaN where the text cannot show a kind
    even_scores: PatternScores  # the scores of a head that attends evenly to all visible keys
    showing_counts: Int[np.ndarray, "kind"]  # how many sampled tokens can show a kind
    majority: Bool[
        np.ndarray, "head kind"
    ]  # whether most of these give such a key the largest weight
    columns: tuple[int | None, ...]  # for each head the key of its column pattern
    keys: MapSide
    sampled_count: int
    tokens: int

    @property
    def excess(self) -> PatternScores:
        """The score beyond that of even attention, as a share of the most possible: 1 at most, NaN
        for the broad pattern and where the text cannot show a pattern."""
        with np.errstate(invalid="ignore", divide="ignore"):
            excess: PatternScores = (self.scores - self.even_scores) / (1 - self.even_scores)
        excess[:, PATTERN_KINDS.index(BROAD_PATTERN)] = np.nan
        return excess

    def score(self, head: int, kind: PatternKind) -> float:
        """Return a head's score for a pattern, from 0 to 1; NaN if the text cannot show it."""
        return float(self.scores[head, PATTERN_KINDS.index(kind)])

    @cached_property
    def kinds(self) -> tuple[PatternKind | None, ...]:
        """Each head's main pattern: the one with the largest excess over even attention, otherwise
        broad attention; None if neither is clear."""
        can_show = self.showing_counts >= min(MIN_SHOWING_TOKENS, self.sampled_count // 2)
        return tuple(map(_strongest_kind, np.where(can_show, self.excess, np.nan), self.scores))

    def strongest(self, kind: PatternKind) -> list[int]:
        """Return the heads by their score for a pattern, highest first; heads without a score are
        left out."""
        scores = self.scores[:, PATTERN_KINDS.index(kind)]
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        return [head for head in order if not np.isnan(scores[head])]

    def heads_of_kind(self, kind: PatternKind) -> list[int]:
        """Return the heads whose main pattern this is, highest score first."""
        return [head for head in self.strongest(kind) if self.kinds[head] is kind]

    def is_most_attended(self, head: int, kind: PatternKind) -> bool:
        """Return whether in this head most tokens give a key of this pattern their largest
        weight."""
        return bool(self.majority[head, PATTERN_KINDS.index(kind)])


def find_patterns(maps: Sequence[Map]) -> HeadPatterns:
    """Return the pattern scores of the heads of these maps, all of the same text.

    Of a text of more than MAX_SAMPLED_QUERIES tokens evenly spaced queries are measured.
    """
    pattern_tokens = read_pattern_tokens(maps[0])
    tokens, keys = len(pattern_tokens.rows), len(pattern_tokens.columns)
    sampled = np.arange(tokens)[sampled_queries(tokens)]
    totals = np.zeros((len(maps), 4, len(PATTERN_KINDS)))
    by_key = np.zeros((len(maps), 4, keys))
    size = max(1, PATTERN_CELLS_AT_ONCE // max(1, keys * len(PATTERN_KINDS)))
    for band in (sampled[first : first + size] for first in range(0, len(sampled), size)):
        masks = _pattern_masks(band, pattern_tokens)
        rows = slice(band[0], band[-1] + 1, sampled_queries(tokens).step)
        for total, key_totals, head_map in zip(totals, by_key, maps, strict=True):
            patch = head_map.cells.window(rows, FULL_SLICE)
            values, visible = patch.values.astype(np.float32), (~patch.hidden).astype(np.float32)
            largest = most_attended_keys(values)
            total[:, : len(KEY_PATTERNS)] += _pattern_totals(values, visible, largest, masks)
            total[:3, PATTERN_KINDS.index(BROAD_PATTERN)] += _breadth_totals(values, visible)
            key_totals += _key_totals(values, visible, largest)
    columns = tuple(_find_column(key_totals, pattern_tokens) for key_totals in by_key)
    for total, key_totals, key in zip(totals, by_key, columns, strict=True):
        if key is not None:
            total[:, PATTERN_KINDS.index(COLUMN_PATTERN)] = key_totals[:, key]
    with np.errstate(invalid="ignore"):
        scores, even = totals[:, 0] / totals[:, 2], totals[:, 1] / totals[:, 2]
    most = is_majority(totals[:, 3], totals[:, 2])
    most[:, PATTERN_KINDS.index(COLUMN_PATTERN)] = [key is not None for key in columns]
    return HeadPatterns(
        names=tuple(head_map.name for head_map in maps),
        scores=scores,
        even_scores=even,
        showing_counts=totals[:, 2].max(0).astype(int),
        majority=most,
        columns=columns,
        keys=maps[0].columns,
        sampled_count=len(sampled),
        tokens=tokens,
    )


def sampled_queries(count: int) -> slice:
    """Return which of `count` queries are measured: all, or MAX_SAMPLED_QUERIES evenly spaced ones
    at most."""
    return slice(0, count, max(1, -(-count // MAX_SAMPLED_QUERIES)))


def most_attended_keys(values: BandCells) -> LargestKeys:
    """Return for each query the key with the largest absolute weight; -1 if several are largest.

    >>> most_attended_keys(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, -1]
    """
    sizes = np.abs(values)
    has_one_largest = (sizes == sizes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    largest_keys: LargestKeys = np.where(has_one_largest, sizes.argmax(axis=1), -1)
    return largest_keys


def is_majority(count: Any, total: Any) -> Any:
    """Return whether `count` is more than half of `total`, and more than one.

    Both may be arrays.

    >>> is_majority(2, 3), is_majority(2, 4), is_majority(1, 1)
    (True, False, False)
    """
    return (2 * count > total) & (count > 1)


def _strongest_kind(
    beyond: Shaped[np.ndarray, "kind"], scores: Shaped[np.ndarray, "kind"]
) -> PatternKind | None:
    """Return the pattern with the largest excess over even attention (`beyond`) if that is clear,
    otherwise the broad pattern if its score is high, otherwise None."""
    best = int(np.argmax(np.nan_to_num(beyond, nan=-1.0)))
    if beyond[best] >= MIN_PATTERN_EXCESS:
        return PATTERN_KINDS[best]
    is_broad = scores[PATTERN_KINDS.index(BROAD_PATTERN)] >= MIN_BROAD_ENTROPY
    return BROAD_PATTERN if is_broad else None


def _pattern_masks(
    band: Int[np.ndarray, "query"], pattern_tokens: PatternTokens
) -> Float[np.ndarray, "query key reading"]:
    """Return for each key pattern which query-key pairs belong to it, as 1 or 0, for the queries
    `band`."""
    query, key = band[:, None], np.arange(len(pattern_tokens.columns))[None, :]
    no_keys = np.zeros((len(band), key.size), dtype=bool)
    masks = [
        no_keys
        if pattern.same_text and not pattern_tokens.same_text
        else pattern.matches(query, key, pattern_tokens) | no_keys
        for pattern in KEY_PATTERNS
    ]
    return np.stack(masks, axis=-1).astype(np.float32)


def _pattern_totals(
    values: BandCells,
    visible: BandCells,
    largest: LargestKeys,
    pattern_masks: Float[np.ndarray, "query key reading"],
) -> Float[np.ndarray, "4 reading"]:
    """Return totals over some queries for each key pattern, counting only queries that see keys of
    the pattern and other keys. The rows of the result: shares of attention; shares that even
    attention would give; how many queries were counted; how many of them give a key of the pattern
    their largest weight."""
    visible_count, row_sums = visible.sum(1), values.sum(1)
    products = np.stack([values, visible], axis=1) @ pattern_masks
    matching_sums, matching_count = products.transpose(1, 2, 0)
    has_choice = (matching_count > 0) & (matching_count < visible_count) & (row_sums > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(has_choice, matching_sums / row_sums, 0)
        chance = np.where(has_choice, matching_count / visible_count, 0)
    matches = pattern_masks[np.arange(len(values)), largest].T * (largest >= 0) * has_choice
    return np.stack([amounts.sum(1) for amounts in (shares, chance, has_choice, matches)])


def _key_totals(
    values: BandCells, visible: BandCells, largest: LargestKeys
) -> Float[np.ndarray, "4 key"]:
    """Return totals for each key over the queries that see more than one key.

    The rows of the result: shares of attention; shares that even attention would give; how many
    queries see the key; how many give it their largest weight.
    """
    visible_count, row_sums = visible.sum(axis=1), values.sum(axis=1)
    has_choice = (visible_count > 1) & (row_sums > 0)
    share = has_choice / np.where(has_choice, row_sums, 1)
    even = has_choice / np.where(has_choice, visible_count, 1)
    votes = np.bincount(largest[has_choice & (largest >= 0)], minlength=values.shape[1])
    return np.stack([share @ values, even @ visible, has_choice @ visible, votes])


def _find_column(
    key_totals: Float[np.ndarray, "4 key"], pattern_tokens: PatternTokens
) -> int | None:
    """Return the key, neither the first token nor a separator, to which most queries with a choice
    give their largest weight; None if there is none."""
    _, even, _, votes = key_totals
    queries = round(even.sum())  # each query's even attention sums to 1
    is_first = pattern_tokens.is_first(np.arange(len(votes))[None, :])[0]
    is_candidate = ~(pattern_tokens.is_separator | is_first)
    key = int(np.where(is_candidate, votes, -1).argmax())
    return key if is_candidate[key] and is_majority(votes[key], queries) else None


def _breadth_totals(values: BandCells, visible: BandCells) -> Float[np.ndarray, "3"]:
    """Return over the queries that see more than one key the sum of entropy / largest entropy, and
    twice the number of these queries."""
    visible_count, row_sums = visible.sum(axis=1), values.sum(axis=1)
    rows = (visible_count > 1) & (row_sums > 0)
    shares = values[rows] / row_sums[rows, None]
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    entropy = -(shares * logs).sum(1) / np.log(visible_count[rows])
    return np.array([entropy.sum(), rows.sum(), rows.sum()])
