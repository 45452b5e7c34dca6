"""Hides tokens of a map, and merges its tokens into words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, chain

import numpy as np
import regex

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import Map, MapSide, token_side
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, piece_phrase
from attnviz.traces.trace import Trace
from attnviz.wording.words import and_list

Groups = tuple[tuple[int, ...], ...]
# A word with its apostrophes; a Chinese character (no spaces between them); any other character.
WORD_REGEX = regex.compile(
    r"\p{Han}|[^\W\p{Han}][\w\p{M}--\p{Han}]*(?:['’][\w\p{M}--\p{Han}]+)*|\X", regex.V1
)


@dataclass(frozen=True, eq=False, repr=False)
class RegroupedCells(Cells):
    """Cells merged by groups of rows and columns: summed over keys, averaged over queries.

    A merged cell is hidden if all its cells are.
    """

    cells: Cells
    rows: Groups  # in ascending order
    columns: Groups

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        row_groups, column_groups = self.rows[rows], self.columns[columns]
        shape = len(row_groups), len(column_groups)
        if 0 in shape:
            return Patch(np.zeros(shape), np.ones(shape, bool))
        first, last = row_groups[0][0], row_groups[-1][-1]
        inner = self.cells.window(slice(first, last + 1), FULL_SLICE)
        row_indices, column_indices = (
            np.array([*chain.from_iterable(groups)]) for groups in (row_groups, column_groups)
        )
        members = np.ix_(row_indices - first, column_indices)
        heights = np.array([len(group) for group in row_groups])[:, None]
        values = _sum_groups(inner.values[members].astype(np.float64), row_groups, column_groups)
        visible = _sum_groups(~inner.hidden[members], row_groups, column_groups)
        return Patch(values / heights, visible == 0)


@dataclass(frozen=True, eq=False, repr=False)
class NormalizedCells(Cells):
    """Cells with each row divided by its sum; a row of zeros stays zero."""

    cells: Cells

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, FULL_SLICE)
        sums = patch.values.sum(axis=1, keepdims=True, dtype=np.float64)
        values = patch.values / np.where(sums, sums, 1)
        return Patch(values[:, columns], patch.hidden[:, columns])


def _sum_groups(numbers: np.ndarray, row_groups: Groups, column_groups: Groups) -> np.ndarray:
    """Return the sums over groups of adjacent rows and columns; the numbers themselves if every
    group has one."""
    if numbers.shape == (len(row_groups), len(column_groups)):
        return numbers
    rows, columns = (np.cumsum([0, *map(len, side)])[:-1] for side in (row_groups, column_groups))
    column_sums = np.add.reduceat(numbers, columns, axis=1, dtype=np.float64)
    sums: np.ndarray = np.add.reduceat(column_sums, rows, axis=0)
    return sums


def hide_tokens(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """Return the maps without the tokens that the options hide, both as queries and as keys.

    Rows are scaled to sum to 1 again only with `options.renormalise`. Refuses to hide all tokens.
    """
    if not options.hides:
        return maps
    return tuple(_hide_in_map(head_map, options) for head_map in maps)


def _hide_in_map(head_map: Map, options: InspectOptions) -> Map:
    """Return one map without the tokens that the options hide; rows sum to 1 with `renormalise`."""
    rows, columns = (remaining_side(side, options) for side in (head_map.rows, head_map.columns))
    regrouped = _regroup_map(head_map, rows, columns)
    if options.renormalise:
        return replace(regrouped, cells=NormalizedCells(regrouped.cells))
    return regrouped


def _regroup_map(head_map: Map, rows: MapSide, columns: MapSide) -> Map:
    """Return the map with new rows and columns, which stand for groups of the old ones."""
    cells = RegroupedCells(
        head_map.cells,
        _member_indices(head_map.rows, rows),
        _member_indices(head_map.columns, columns),
    )
    return replace(head_map, cells=cells, rows=rows, columns=columns)


def remaining_side(side: MapSide, options: InspectOptions) -> MapSide:
    """Return the rows or columns without the tokens that the options hide; refuse if none are
    left."""
    hidden_tokens = find_hidden_tokens(side.tokens, options)
    if len(hidden_tokens) == len(side.tokens):
        hiding_options = and_list(list(tokens_hidden_by_option(side.tokens, options)))
        raise AttnvizError(
            "no tokens are left when these are hidden",
            f"give a longer text, or leave {hiding_options} out",
        )
    return keep_tokens(side, set(range(len(side.tokens))) - hidden_tokens)


def tokens_hidden_by_option(tokens: Tokens, options: InspectOptions) -> dict[str, frozenset[int]]:
    """Return the positions of the tokens that each given option hides, such as `--hide-first`.

    Options that hide nothing are left out.
    """
    tokens_by_option = {
        "--hide-special": tokens.special if options.hide_special else frozenset(),
        "--hide-first": frozenset((0,)) if options.hide_first else frozenset(),
    }
    return {option: positions for option, positions in tokens_by_option.items() if positions}


def find_hidden_tokens(tokens: Tokens, options: InspectOptions) -> frozenset[int]:
    return frozenset[int]().union(*tokens_hidden_by_option(tokens, options).values())


def measure_hidden_shares(
    maps: Sequence[Map], options: InspectOptions, queries: tuple[int, ...] | None = None
) -> list[float]:
    """Return for each map the mean share of attention that goes to the tokens that the options
    hide. The mean is over tokens that are not hidden, or over `queries`; rows may have any sum."""
    return [_measure_hidden_share(head_map, options, queries) for head_map in maps]


def _measure_hidden_share(
    head_map: Map, options: InspectOptions, queries: tuple[int, ...] | None
) -> float:
    """Return the mean share of attention to hidden tokens in one map, over `queries` or over all
    queries that are not hidden."""
    hidden_columns = sorted(find_hidden_tokens(head_map.columns.tokens, options))
    bands = head_map.cells.bands() if queries is None else map(head_map.cells.row, queries)
    sums = np.concatenate([
        np.stack([band.values[:, hidden_columns].sum(axis=1), band.values.sum(axis=1)], axis=1)
        for band in bands
    ])  # fmt: skip
    if queries is None:
        hidden_rows = find_hidden_tokens(head_map.rows.tokens, options)
        sums = sums[sorted(set(range(len(sums))) - hidden_rows)]
    shares = sums[:, 0] / np.where(sums[:, 1], sums[:, 1], 1)
    return float(shares.mean())


def merge_into_words(
    maps: tuple[Map, ...], trace: Trace, options: InspectOptions
) -> tuple[Map, ...]:
    """Return the maps with one row and column per word, if `options.words`; otherwise as they are.

    Tokens that were hidden before stay hidden.
    """
    if not options.words:
        return maps
    return tuple(
        _regroup_map(head_map, _remaining_words(head_map.rows), _remaining_words(head_map.columns))
        for head_map in maps
    )


def _member_indices(before: MapSide, after: MapSide) -> Groups:
    """Return for each row (or column) after regrouping the indices of the old ones that it consists
    of."""
    index_by_token = {token: index for index, group in enumerate(before.groups) for token in group}
    return tuple(tuple(index_by_token[token] for token in group) for group in after.groups)


def _remaining_words(side: MapSide) -> MapSide:
    """Return one row or column per word, from the tokens that are not hidden.

    Words keep their numbers and labels of the whole sentence.
    """
    tokens_present = {token for group in side.groups for token in group}
    return keep_tokens(word_side(side.tokens), tokens_present)


def keep_tokens(side: MapSide, tokens: set[int]) -> MapSide:
    """Return the rows or columns with only these token positions; groups that lose all tokens are
    dropped."""
    groups = [tuple(token for token in group if token in tokens) for group in side.groups]
    kept_indices = [index for index, group in enumerate(groups) if group]
    return MapSide(
        side.tokens,
        tuple(groups[index] for index in kept_indices),
        tuple(side.labels[index] for index in kept_indices),
        tuple(side.numbers[index] for index in kept_indices),
    )


@lru_cache(maxsize=4)  # called for each head
def word_side(tokens: Tokens) -> MapSide:
    """Return rows or columns that stand for one word each, numbered from 1."""
    groups = group_by_word(tokens)
    labels = tuple(_word_label(tokens, group) for group in groups)
    return MapSide(tokens, groups, labels, tuple(range(1, len(groups) + 1)))


def word_tokens(tokens: Tokens) -> Tokens:
    """Return the words of a text as Tokens, numbered from 0 in place of ids."""
    side = word_side(tokens)
    return Tokens(
        tokens.text,
        tuple(b"".join(tokens.pieces[position] for position in group) for group in side.groups),
        tuple(range(len(side))),
        side.spaced,
        side.labels,
        frozenset(index for index, is_special in enumerate(side.special) if is_special),
    )


def full_side(tokens: Tokens, options: InspectOptions) -> MapSide:
    """Return the rows or columns before any are hidden: words with `options.words`, otherwise
    tokens."""
    return word_side(tokens) if options.words else token_side(tokens)


def group_by_word(tokens: Tokens) -> Groups:
    """Return the token positions of each word; spaces and punctuation other than apostrophes
    separate words.

    >>> from attnviz.tokens.tokens import Tokens
    >>> pieces = (b"I", b"didn", b"'", b"t", b".")
    >>> spaced = (True, True, False, False, False)
    >>> group_by_word(Tokens("I didn't.", pieces, (1, 2, 3, 4, 5), spaced))
    ((0,), (1, 2, 3), (4,))
    """
    return tuple(word for run in _unspaced_runs(tokens) for word in _words_of_run(tokens, run))


def _unspaced_runs(tokens: Tokens) -> Iterator[list[int]]:
    """Yield runs of token positions without spaces between them; a special token is its own run.

    A token that is only a space belongs to the run after it.
    """
    run: list[int] = []
    for position, spaced in enumerate(tokens.spaced):
        stands_alone = position in tokens.special or position - 1 in tokens.special
        only_spaces = all(tokens.pieces[token].strip(b" ") == b"" for token in run)
        if run and (stands_alone or (spaced and not only_spaces)):
            yield run
            run = []
        run.append(position)
    if run:
        yield run


def _words_of_run(tokens: Tokens, run: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the token positions of each word of a run; a token belongs to the word in which it
    begins."""
    pieces = [tokens.pieces[position].strip() for position in run]
    text = b"".join(pieces).decode(errors="surrogateescape")
    lengths = [
        len(match.group().encode(errors="surrogateescape")) for match in WORD_REGEX.finditer(text)
    ]
    ends, starts = [*accumulate(lengths)], [0, *accumulate(map(len, pieces))]
    words: dict[int, list[int]] = {}
    for position, start in zip(run, starts, strict=False):
        word = sum(end <= start for end in ends)
        words.setdefault(word, []).append(position)
    yield from map(tuple, words.values())


def _word_label(tokens: Tokens, group: tuple[int, ...]) -> str:
    """Return the label of a word: that of its only token, or the text of all its tokens."""
    if len(group) == 1:
        return tokens.labels[group[0]]
    text = b"".join(tokens.pieces[position] for position in group)
    return piece_phrase(text.strip() or text)
