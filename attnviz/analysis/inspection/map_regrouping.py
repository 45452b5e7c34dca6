"""Which tokens of a map are left out or joined to words, and what remains for the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
import regex
from jaxtyping import Int

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import Map, MapSide, token_side
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, piece_phrase
from attnviz.traces.trace import Trace
from attnviz.wording.words import and_list

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class RegroupedCells(Cells):
    """Several rows and columns as one: the sum over keys, and the mean over queries."""

    cells: Cells
    rows: Groups  # rows of the cells; those of a group, and the groups, in their order
    columns: Groups

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        row_groups, column_groups = self.rows[rows], self.columns[columns]
        if not row_groups or not column_groups:
            return Patch(
                np.zeros((len(row_groups), len(column_groups))),
                np.ones((len(row_groups), len(column_groups)), bool),
            )
        first, last = row_groups[0][0], row_groups[-1][-1]
        inner = self.cells.window(slice(first, last + 1), FULL_SLICE)
        inner_cells = np.ix_(_flatten_groups(row_groups) - first, _flatten_groups(column_groups))
        heights = np.array([len(group) for group in row_groups])[:, None]
        values = (
            _sum_groups(inner.values[inner_cells].astype(np.float64), row_groups, column_groups)
            / heights
        )
        return Patch(
            values, _sum_groups(~inner.hidden[inner_cells], row_groups, column_groups) == 0
        )


@dataclass(frozen=True, eq=False, repr=False)
class NormalizedCells(Cells):
    """The same, each row divided by its sum; a row of zeros stays one."""

    cells: Cells

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, FULL_SLICE)
        sums = patch.values.sum(axis=1, keepdims=True, dtype=np.float64)
        values = patch.values / np.where(sums, sums, 1)
        return Patch(values[:, columns], patch.hidden[:, columns])


def _flatten_groups(groups: Groups) -> Int[np.ndarray, "place"]:
    return np.array([index for group in groups for index in group])


def _sum_groups(numbers: np.ndarray, row_groups: Groups, column_groups: Groups) -> np.ndarray:
    """Sums over groups that stand side by side; each alone is its own sum."""
    if numbers.shape == (len(row_groups), len(column_groups)):
        return numbers
    rows, columns = (
        np.cumsum([0, *map(len, groups)])[:-1] for groups in (row_groups, column_groups)
    )
    column_sums = np.add.reduceat(numbers, columns, axis=1, dtype=np.float64)
    sums: np.ndarray = np.add.reduceat(column_sums, rows, axis=0)
    return sums


def hide_tokens(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """Maps without the tokens that are left out, as readers and as what is read."""
    if not options.hides:
        return maps
    return tuple(_hide_in_map(head_map, options) for head_map in maps)


def _hide_in_map(head_map: Map, options: InspectOptions) -> Map:
    rows, columns = (_remaining_side(side, options) for side in (head_map.rows, head_map.columns))
    group_indices = (
        _remaining_indices(head_map.rows, rows),
        _remaining_indices(head_map.columns, columns),
    )
    cells = RegroupedCells(head_map.cells, *group_indices)
    return replace(
        head_map,
        cells=NormalizedCells(cells) if options.renormalise else cells,
        rows=rows,
        columns=columns,
    )


def _remaining_side(side: MapSide, options: InspectOptions) -> MapSide:
    hidden_tokens = find_hidden_tokens(side.tokens, options)
    if len(hidden_tokens) == len(side.tokens):
        raise AttnvizError(
            "no tokens are left when these are hidden",
            f"give a longer text, or leave {and_list(list(tokens_hidden_by_option(side.tokens, options)))} out",
        )
    return keep_tokens(side, set(range(len(side.tokens))) - hidden_tokens)


def _remaining_indices(before: MapSide, after: MapSide) -> tuple[tuple[int, ...], ...]:
    index_by_group = {group: index for index, group in enumerate(before.groups)}
    return tuple((index_by_group[group],) for group in after.groups)


def tokens_hidden_by_option(tokens: Tokens, options: InspectOptions) -> dict[str, frozenset[int]]:
    """The tokens that each option hides, of those options that are given."""
    tokens_by_option = {
        "--hide-special": tokens.special if options.hide_special else frozenset(),
        "--hide-first": frozenset((0,)) if options.hide_first else frozenset(),
    }
    return {option: positions for option, positions in tokens_by_option.items() if positions}


def find_hidden_tokens(tokens: Tokens, options: InspectOptions) -> frozenset[int]:
    """The tokens that are hidden."""
    return frozenset[int]().union(*tokens_hidden_by_option(tokens, options).values())


def measure_hidden_shares(
    maps: Sequence[Map], options: InspectOptions, queries: tuple[int, ...] | None = None
) -> list[float]:
    """Of each map, how much of what is read goes to tokens that are left out.

    By the tokens that are not, in the mean; or by some of them. Of a sum: rows may have any.
    """
    return [_measure_hidden_share(head_map, options, queries) for head_map in maps]


def _measure_hidden_share(
    head_map: Map, options: InspectOptions, queries: tuple[int, ...] | None
) -> float:
    hidden_columns = sorted(find_hidden_tokens(head_map.columns.tokens, options))
    bands = head_map.cells.bands() if queries is None else map(head_map.cells.row, queries)
    sums = np.concatenate([
        np.stack([band.values[:, hidden_columns].sum(axis=1), band.values.sum(axis=1)], axis=1)
        for band in bands
    ])  # fmt: skip
    if queries is None:
        sums = sums[
            sorted(set(range(len(sums))) - find_hidden_tokens(head_map.rows.tokens, options))
        ]
    shares = sums[:, 0] / np.where(sums[:, 1], sums[:, 1], 1)
    return float(shares.mean())


# A word with its apostrophes; a sign of Chinese or Japanese, which has no spaces; any other sign.
WORD = regex.compile(
    r"\p{Han}|[^\W\p{Han}][\w\p{M}--\p{Han}]*(?:['’][\w\p{M}--\p{Han}]+)*|\X", regex.V1
)


def merge_into_words(
    maps: tuple[Map, ...], trace: Trace, options: InspectOptions
) -> tuple[Map, ...]:
    """Maps with a place for each word; what is left out of them stays out."""
    if not options.words:
        return maps
    return tuple(_merge_map_into_words(head_map) for head_map in maps)


def _merge_map_into_words(head_map: Map) -> Map:
    rows, columns = (_remaining_words(side) for side in (head_map.rows, head_map.columns))
    cells = RegroupedCells(
        head_map.cells,
        _member_indices(head_map.rows, rows),
        _member_indices(head_map.columns, columns),
    )
    return replace(head_map, cells=cells, rows=rows, columns=columns)


def _member_indices(before: MapSide, after: MapSide) -> Groups:
    """The places of one side that each place of the other is made of."""
    index_by_token = {token: index for index, group in enumerate(before.groups) for token in group}
    return tuple(tuple(index_by_token[token] for token in group) for group in after.groups)


def _remaining_words(side: MapSide) -> MapSide:
    """The words of a side, numbered as in the whole sentence."""
    tokens_present = {token for group in side.groups for token in group}
    return keep_tokens(word_side(side.tokens), tokens_present)


def keep_tokens(side: MapSide, tokens: set[int]) -> MapSide:
    """A side without the tokens that are left out."""
    groups = [tuple(token for token in group if token in tokens) for group in side.groups]
    kept_indices = [index for index, group in enumerate(groups) if group]
    return MapSide(
        side.tokens,
        tuple(groups[index] for index in kept_indices),
        tuple(side.labels[index] for index in kept_indices),
        tuple(side.numbers[index] for index in kept_indices),
    )


@lru_cache(maxsize=4)  # asked for again for each head
def word_side(tokens: Tokens) -> MapSide:
    """A place for each word."""
    groups = group_by_word(tokens)
    labels = tuple(_word_label(tokens, group) for group in groups)
    return MapSide(tokens, groups, labels, tuple(range(1, len(groups) + 1)))


def full_side(tokens: Tokens, options: InspectOptions) -> MapSide:
    """Every place that there is before any is left out."""
    return word_side(tokens) if options.words else token_side(tokens)


def group_by_word(tokens: Tokens) -> Groups:
    """The tokens of each word: what no space parts, and no punctuation but an apostrophe.

    >>> from attnviz.tokens.tokens import Tokens
    >>> pieces = (b"I", b"didn", b"'", b"t", b".")
    >>> group_by_word(Tokens("I didn't.", pieces, (1, 2, 3, 4, 5), (True, True, False, False, False)))
    ((0,), (1, 2, 3), (4,))
    """
    return tuple(word for run in _unspaced_runs(tokens) for word in _words_of_run(tokens, run))


def _unspaced_runs(tokens: Tokens) -> Iterator[list[int]]:
    """Tokens that no space parts; one that the tokenizer added stands alone.

    A space that is a token of its own belongs to what it stands before.
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
    """A token belongs to the word in which it begins."""
    pieces = [tokens.pieces[position].strip() for position in run]
    text = b"".join(pieces).decode(errors="surrogateescape")
    lengths = [len(match.group().encode(errors="surrogateescape")) for match in WORD.finditer(text)]
    ends, starts = [*accumulate(lengths)], [0, *accumulate(map(len, pieces))]
    words: dict[int, list[int]] = {}
    for position, start in zip(run, starts, strict=False):
        word = sum(end <= start for end in ends)
        words.setdefault(word, []).append(position)
    yield from map(tuple, words.values())


def _word_label(tokens: Tokens, group: tuple[int, ...]) -> str:
    if len(group) == 1:
        return tokens.labels[group[0]]
    return piece_phrase(b"".join(tokens.pieces[position] for position in group).strip())
