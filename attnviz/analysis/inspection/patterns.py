"""Attention patterns (previous token, first token …), and each head's score for them.

A pattern is a predicate on a query and a key, like a mask. A head's score is the share of a token's
attention that goes to such keys, averaged over tokens that see such keys and others. The column
pattern depends on the weights: a column is a key, neither the first nor a separator, to which most
tokens with a choice give their largest weight; its score is the mean over all that can see it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from attnviz.cells import FULL_SLICE
from attnviz.heads.head import Head
from attnviz.heads.side import Side
from attnviz.wording.numbers import share_text
from attnviz.wording.words import with_summary

MARK_CATEGORIES = ("P", "S")  # Unicode categories: punctuation and symbols
PATTERN_CELLS_AT_ONCE = 2**19
MAX_SAMPLED_CELLS = 2**20  # of a head; of a longer text evenly spaced tokens are measured,
MIN_SAMPLED_QUERIES = 64  # but no fewer than about so many
MIN_SHOWING_TOKENS = 4  # tokens (or half of few) that must be able to show a pattern
MIN_PATTERN_EXCESS = 0.25  # of the distance from the score of even attention to 1
SMALLEST_SHARE = np.float32(1e-30)  # in place of 0, which has no logarithm
MIN_BROAD_ENTROPY = 0.8  # of the largest entropy

Queries = Int[np.ndarray, "query 1"]
Keys = Int[np.ndarray, "1 key"]
PairFlags = Bool[np.ndarray, "query key"]
PatternScores = Float[np.ndarray, "head kind"]
# Some rows of a map, or the rows of several heads, of one text or of the texts of a batch:
BandCells = Float[np.ndarray, "*item query head key"]
VisibleCells = Float[np.ndarray, "*item query #head key"]  # 1 or 0
LargestKeys = Int[np.ndarray, "*item query head"]  # the key to which each gives its largest weight
KeyMasks = Float[np.ndarray, "*item query key mask"]  # which pairs belong to each pattern: 1 or 0


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
        return np.asarray(self.key_numbers[key] - self.query_numbers[query])

    def is_first(self, key: Keys) -> Bool[np.ndarray, "1 key"]:
        """Return for each key whether it is the first token of the whole text, hidden tokens
        included."""
        return np.asarray(self.key_numbers[key] == 1)

    def is_apart(self, query: Queries, key: Keys) -> PairFlags:
        """Return for each pair whether query and key are at different positions, or in different
        texts."""
        return np.asarray((self.steps(query, key) != 0) | (not self.same_text))

    @property
    def may_be_column(self) -> Bool[np.ndarray, "key"]:
        """For each key whether it may be a column: not the first token, and no separator."""
        is_first = self.is_first(np.arange(len(self.columns))[None, :])[0]
        return np.asarray(~(self.is_separator | is_first))

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


def read_pattern_tokens(head_map: Head) -> PatternTokens:
    """Return the facts that patterns are defined by, of the tokens or words of a map."""
    layer, queries, keys = head_map.layer, head_map.rows, head_map.columns
    is_self_attention = layer.key_inputs is None and layer.memory is None
    same_text = queries.tokens == keys.tokens and is_self_attention
    return pattern_tokens_of_sides(queries, keys, same_text=same_text)


def pattern_tokens_of_sides(queries: Side, keys: Side, *, same_text: bool) -> PatternTokens:
    """Return the facts that patterns are defined by, of the rows and columns of a map; `same_text`:
    whether they are tokens of the same text."""
    numbers_by_ids: dict[tuple[int, ...], int] = {}
    rows = _group_numbers(queries, numbers_by_ids)
    columns = rows if keys is queries else _group_numbers(keys, numbers_by_ids)
    is_special = np.array(queries.special, dtype=bool)
    return PatternTokens(
        rows=rows,
        columns=columns,
        same_text=same_text,
        is_special=is_special,
        is_separator=np.array([*_find_separators(keys)], dtype=bool),
        is_repeated=_find_repeated(rows, is_special, queries.numbers),
        query_numbers=np.array(queries.numbers, dtype=int),
        key_numbers=np.array(keys.numbers, dtype=int),
    )


def _group_numbers(
    side: Side, numbers_by_ids: dict[tuple[int, ...], int]
) -> Int[np.ndarray, "position"]:
    """Return a number for each row or column of a map, equal for equal tokens.

    New tokens are added to `numbers_by_ids`, so that rows and columns share one numbering.
    """
    ids = side.tokens.ids
    keys = [tuple(ids[position] for position in group) for group in side.groups]
    return np.array([numbers_by_ids.setdefault(key, len(numbers_by_ids)) for key in keys], int)


def _find_separators(side: Side) -> Iterator[bool]:
    """Yield for each row or column whether it is a special token, a new line, or punctuation not
    inside a word."""
    spaced = side.spaced
    pieces = side.tokens.pieces
    marks = [_are_marks(b"".join(pieces[token] for token in group)) for group in side.groups]
    for index, special in enumerate(side.special):
        after = index + 1
        glued = after < len(side) and not (spaced[index] or spaced[after] or marks[after])
        yield special or (marks[index] and not glued)


@lru_cache(maxsize=2**14)
def _are_marks(pieces: bytes) -> bool:
    """Return whether a text is only punctuation, symbols, or a new line."""
    text = pieces.decode(errors="replace")
    if not text.strip():
        return "\n" in text
    return all(unicodedata.category(letter)[0] in MARK_CATEGORIES for letter in text.strip())


def _find_repeated(
    rows: Int[np.ndarray, "query"], is_special: Bool[np.ndarray, "query"], numbers: tuple[int, ...]
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
        "the share that all other tokens give the first token",
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


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class HeadPatterns:
    """The scores of heads for each pattern: a row for each head, a column for each pattern kind."""

    names: tuple[str, ...]
    scores: PatternScores  # NaN where the text cannot show a kind
    even_scores: PatternScores  # the scores of a head that attends evenly to all visible keys
    showing_counts: Int[np.ndarray, "kind"]  # how many sampled tokens can show a kind
    majority: Bool[np.ndarray, "head kind"]  # whether most of these give such a key most weight
    columns: tuple[int | None, ...]  # for each head the key of its column pattern
    keys: Side
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
        can_show = enough_showing(self.showing_counts, self.sampled_count)
        best = strongest_kinds(np.where(can_show, self.excess, np.nan), self.scores)
        return tuple(None if kind < 0 else PATTERN_KINDS[kind] for kind in best)

    @property
    def ranked(self) -> list[HeadPattern]:
        """The main pattern of each head: the clearest first, heads without a clear one last."""
        rows = []
        for head, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True)):
            column = 0 if kind is None else PATTERN_KINDS.index(kind)
            excess = -1.0 if kind is None else float(np.nan_to_num(self.excess[head, column]))
            score, even = float(self.scores[head, column]), float(self.even_scores[head, column])
            rows.append((excess, HeadPattern(name, kind.name if kind else "", score, even)))
        return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]

    def strongest(self, kind: PatternKind) -> list[int]:
        """Return the heads by their score for a pattern, highest first; heads without a score are
        left out."""
        scores = self.scores[:, PATTERN_KINDS.index(kind)]
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        return [head for head in order if not np.isnan(scores[head])]

    def heads_of_kind(self, kind: PatternKind) -> list[int]:
        return [head for head in self.strongest(kind) if self.kinds[head] is kind]

    def is_most_attended(self, head: int, kind: PatternKind) -> bool:
        """Return whether in this head most tokens give a key of this pattern their largest
        weight."""
        return bool(self.majority[head, PATTERN_KINDS.index(kind)])


@dataclass(frozen=True, repr=False)
class HeadPattern:
    """The main pattern of one head, its score, and the score of even attention to all tokens."""

    name: str  # of the head, such as L4H11
    kind: str  # "" if no pattern is clear
    score: float
    even: float

    def __repr__(self) -> str:
        """Return a line like `<L4H11: previous token .98, evenly .14>`."""
        scores = f"{share_text(self.score)}, evenly {share_text(self.even)}"
        return f"<{self.name}: {f'{self.kind} {scores}' if self.kind else 'no clear pattern'}>"


def find_patterns(maps: Sequence[Head]) -> HeadPatterns:
    """Return the pattern scores of the heads of these maps, all of the same text.

    Of a text of more than about 1,000 tokens evenly spaced queries are measured.
    """
    pattern_tokens = read_pattern_tokens(maps[0])
    tokens, keys = len(pattern_tokens.rows), len(pattern_tokens.columns)
    sampled = np.arange(tokens)[sampled_queries(tokens)]
    by_pattern, by_key = (np.zeros((4, len(maps), count)) for count in (len(KEY_PATTERNS), keys))
    breadth = np.zeros((3, len(maps)))
    size = max(1, PATTERN_CELLS_AT_ONCE // max(1, keys * len(PATTERN_KINDS)))
    for band in (sampled[first : first + size] for first in range(0, len(sampled), size)):
        masks = key_masks(band, pattern_tokens)
        rows = slice(band[0], band[-1] + 1, sampled_queries(tokens).step)
        for number, head_map in enumerate(maps):
            patch = head_map.cells.window(rows, FULL_SLICE)
            values = patch.values.astype(np.float32)[:, None]
            visible = (~patch.hidden).astype(np.float32)[:, None]
            largest = most_attended_keys(values)
            by_pattern[:, number] += pattern_totals(values, visible, largest, masks)[:, 0]
            breadth[:, number] += breadth_totals(values, visible)[:, 0]
            by_key[:, number] += key_totals(values, visible, largest)[:, 0]
    columns = find_columns(by_key, pattern_tokens.may_be_column)
    totals = join_totals(by_pattern, breadth, by_key, columns)
    with np.errstate(invalid="ignore"):
        scores, even = totals[0] / totals[2], totals[1] / totals[2]
    most = is_majority(totals[3], totals[2])
    most[:, PATTERN_KINDS.index(COLUMN_PATTERN)] = columns >= 0
    return HeadPatterns(
        names=tuple(head_map.name for head_map in maps),
        scores=scores,
        even_scores=even,
        showing_counts=totals[2].max(0).astype(int),
        majority=most,
        columns=tuple(None if key < 0 else key for key in columns.tolist()),
        keys=maps[0].columns,
        sampled_count=len(sampled),
        tokens=tokens,
    )


def sampled_queries(count: int) -> slice:
    """Return which of `count` queries are measured: all, or evenly spaced ones with at most
    MAX_SAMPLED_CELLS weights, or MIN_SAMPLED_QUERIES."""
    most = max(MIN_SAMPLED_QUERIES, MAX_SAMPLED_CELLS // max(1, count))
    return slice(0, count, max(1, -(-count // most)))


def most_attended_keys(values: Float[np.ndarray, "*rows key"]) -> Int[np.ndarray, "*rows"]:
    """Return for each query the key with the largest absolute weight; -1 if several are largest.

    >>> most_attended_keys(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, -1]
    """
    sizes = np.abs(values)
    first_largest = sizes.argmax(axis=-1)
    largest = np.take_along_axis(sizes, first_largest[..., None], axis=-1)
    has_one_largest = (sizes == largest).sum(axis=-1) == 1
    return np.where(has_one_largest, first_largest, -1)


def sum_rows(cells: Float[np.ndarray, "*rows key"]) -> Float[np.ndarray, "*rows"]:
    """Return the sum of each row: of many short rows by a product, which is twice as fast."""
    return cells @ np.ones(cells.shape[-1], dtype=cells.dtype)


def is_majority(count: Any, total: Any) -> Any:
    """Return whether `count` is more than half of `total`, and more than one.

    Both may be arrays.

    >>> is_majority(2, 3), is_majority(2, 4), is_majority(1, 1)
    (True, False, False)
    """
    return (2 * count > total) & (count > 1)


def enough_showing(showing: Any, tokens: Any) -> Any:
    """Return whether so many of a text's tokens can show a pattern that it may be a main one.

    Both may be arrays.

    >>> enough_showing(np.array([3, 4]), 20).tolist()
    [False, True]
    """
    return showing >= np.minimum(MIN_SHOWING_TOKENS, np.asarray(tokens) // 2)


def strongest_kinds(
    excess: Shaped[np.ndarray, "*item kind"], scores: Shaped[np.ndarray, "*item kind"]
) -> Int[np.ndarray, "*item"]:
    """Return the index in PATTERN_KINDS of the pattern with the largest excess over even attention
    if that is clear, otherwise of the broad pattern if its score is high, otherwise -1."""
    known_excess = np.nan_to_num(excess, nan=-1.0)
    best, broad = known_excess.argmax(-1), PATTERN_KINDS.index(BROAD_PATTERN)
    without = np.where(scores[..., broad] >= MIN_BROAD_ENTROPY, broad, -1)
    return np.where(known_excess.max(-1) >= MIN_PATTERN_EXCESS, best, without)


def key_masks(band: Int[np.ndarray, "query"], pattern_tokens: PatternTokens) -> KeyMasks:
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


def pattern_totals(
    values: BandCells, visible: VisibleCells, largest: LargestKeys, masks: KeyMasks
) -> Float[np.ndarray, "4 *item head mask"]:
    """Return totals over queries for each mask, counting only queries that see keys of the pattern
    and other keys. First in the result: shares of attention; shares that even attention would give;
    how many queries were counted; how many of them give a key of the pattern their largest
    weight."""
    visible_count, row_sums = sum_rows(visible)[..., None], sum_rows(values)[..., None]
    matching_sums, matching_count = values @ masks, visible @ masks
    has_choice = (matching_count > 0) & (matching_count < visible_count) & (row_sums > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(has_choice, matching_sums / row_sums, 0)
        chance = np.where(has_choice, matching_count / visible_count, 0)
    at_largest = np.take_along_axis(masks, np.maximum(largest, 0)[..., None], axis=-2)
    matches = at_largest * (largest >= 0)[..., None] * has_choice
    return np.stack([amounts.sum(-3) for amounts in (shares, chance, has_choice, matches)])


def key_totals(
    values: BandCells, visible: VisibleCells, largest: LargestKeys
) -> Float[np.ndarray, "4 *item head key"]:
    """Return totals for each key over the queries that see more than one key.

    First in the result: shares of attention; shares that even attention would give; how many
    queries see the key; how many give it their largest weight.
    """
    visible_count, row_sums = sum_rows(visible), sum_rows(values)
    has_choice = (visible_count > 1) & (row_sums > 0)
    share = has_choice / np.where(has_choice, row_sums, 1)
    even = has_choice / np.where(has_choice, visible_count, 1)
    return np.stack([
        _sum_over_queries(share, values),
        _sum_over_queries(even, visible),
        _sum_over_queries(has_choice.astype(np.float32), visible),
        _count_votes(np.where(has_choice, largest, -1), values.shape[-1]),
    ])  # fmt: skip


def _sum_over_queries(
    factors: Float[np.ndarray, "*item query head"], cells: VisibleCells
) -> Float[np.ndarray, "*item head key"]:
    """Return the sum of cells times the factor of their query and head, for each head and key."""
    if cells.shape[-2] == 1:  # the same cells for all heads
        return np.asarray(factors.swapaxes(-1, -2) @ cells[..., 0, :])
    return np.asarray(np.einsum("...qh,...qhk->...hk", factors, cells))


def _count_votes(largest: LargestKeys, keys: int) -> Int[np.ndarray, "*item head key"]:
    """Return how many queries of each head give each key their largest weight (-1: none)."""
    by_head = largest.swapaxes(-1, -2)
    heads = np.arange(by_head[..., 0].size).reshape(*by_head.shape[:-1], 1)
    numbers = (heads * keys + by_head)[by_head >= 0]
    counts = np.bincount(numbers, minlength=heads.size * keys)
    return counts.reshape(*by_head.shape[:-1], keys)


def find_columns(
    key_sums: Float[np.ndarray, "4 *item head key"], may_be_column: Bool[np.ndarray, "*item key"]
) -> Int[np.ndarray, "*item head"]:
    """Return for each head the key, neither the first token nor a separator, to which most queries
    with a choice give their largest weight; -1 if there is none."""
    _, even, _, votes = key_sums
    queries = np.round(even.sum(-1))  # each query's even attention sums to 1
    candidate_votes = np.where(may_be_column[..., None, :], votes, -1)
    is_column = is_majority(candidate_votes.max(-1), queries)
    return np.where(is_column, candidate_votes.argmax(-1), -1)


def breadth_totals(values: BandCells, visible: VisibleCells) -> Float[np.ndarray, "3 *item head"]:
    """Return over the queries that see more than one key the sum of entropy / largest entropy, the
    sum of entropy in bits, and the number of these queries."""
    visible_count, row_sums = sum_rows(visible), sum_rows(values)
    rows = (visible_count > 1) & (row_sums > 0)
    shares = np.maximum(values / np.where(rows, row_sums, 1)[..., None], SMALLEST_SHARE)
    bits = np.where(rows, -np.einsum("...k,...k->...", shares, np.log2(shares)), 0)
    largest = np.log2(np.where(rows, visible_count, 2))
    return np.stack([amounts.sum(-2) for amounts in (bits / largest, bits, rows)])


def join_totals(
    by_pattern: Float[np.ndarray, "4 *item head pattern"],
    breadth: Float[np.ndarray, "3 *item head"],
    by_key: Float[np.ndarray, "4 *item head key"],
    columns: Int[np.ndarray, "*item head"],
) -> Float[np.ndarray, "4 *item head kind"]:
    """Return the totals of all PATTERN_KINDS as those of key patterns are: the broad pattern's from
    `breadth`, the column pattern's from `by_key` at `columns` (0 where there is none)."""
    totals = np.zeros((*by_pattern.shape[:-1], len(PATTERN_KINDS)))
    totals[..., : len(KEY_PATTERNS)] = by_pattern
    broad_sums, _, queries = breadth
    totals[:3, ..., PATTERN_KINDS.index(BROAD_PATTERN)] = np.stack([broad_sums, queries, queries])
    at_column = np.take_along_axis(by_key, np.maximum(columns, 0)[None, ..., None], axis=-1)[..., 0]
    totals[..., PATTERN_KINDS.index(COLUMN_PATTERN)] = at_column * (columns >= 0)
    return totals
