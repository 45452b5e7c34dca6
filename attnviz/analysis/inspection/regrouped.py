"""Which tokens of a map are left out or joined to words, and what remains for the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
import regex
from jaxtyping import Int

from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side, side_of
from attnviz.cells import EVERYTHING, Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, phrase
from attnviz.traces.trace import Trace
from attnviz.wording.words import listed

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Regrouped(Cells):
    """Several rows and columns as one: the sum over keys, and the mean over queries."""

    cells: Cells
    rows: Groups  # rows of the cells; those of a group, and the groups, in their order
    columns: Groups

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        down, across = self.rows[rows], self.columns[columns]
        if not down or not across:
            return Patch(
                np.zeros((len(down), len(across))), np.ones((len(down), len(across)), bool)
            )
        first, last = down[0][0], down[-1][-1]
        inner = self.cells.window(slice(first, last + 1), EVERYTHING)
        places = np.ix_(_flat(down) - first, _flat(across))
        heights = np.array([len(group) for group in down])[:, None]
        values = _added(inner.values[places].astype(np.float64), down, across) / heights
        return Patch(values, _added(~inner.hidden[places], down, across) == 0)


@dataclass(frozen=True, eq=False, repr=False)
class Divided(Cells):
    """The same, each row divided by its sum; a row of zeros stays one."""

    cells: Cells

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, EVERYTHING)
        sums = patch.values.sum(axis=1, keepdims=True, dtype=np.float64)
        values = patch.values / np.where(sums, sums, 1)
        return Patch(values[:, columns], patch.hidden[:, columns])


def _flat(groups: Groups) -> Int[np.ndarray, "place"]:
    return np.array([place for group in groups for place in group])


def _added(numbers: np.ndarray, down: Groups, across: Groups) -> np.ndarray:
    """Sums over groups that stand side by side; each alone is its own sum."""
    if numbers.shape == (len(down), len(across)):
        return numbers
    rows, columns = (np.cumsum([0, *map(len, groups)])[:-1] for groups in (down, across))
    added = np.add.reduceat(numbers, columns, axis=1, dtype=np.float64)
    sums: np.ndarray = np.add.reduceat(added, rows, axis=0)
    return sums


def hidden(maps: tuple[Map, ...], trace: Trace, looking: Looking) -> tuple[Map, ...]:
    """Maps without the tokens that are left out, as readers and as what is read."""
    if not looking.hides:
        return maps
    return tuple(_without(each, looking) for each in maps)


def _without(found: Map, looking: Looking) -> Map:
    rows, columns = (_left(side, looking) for side in (found.rows, found.columns))
    places = (_where(found.rows, rows), _where(found.columns, columns))
    cells = Regrouped(found.cells, *places)
    return replace(
        found,
        cells=Divided(cells) if looking.renormalise else cells,
        rows=rows,
        columns=columns,
    )


def _left(side: Side, looking: Looking) -> Side:
    out = left_out(side.tokens, looking)
    if len(out) == len(side.tokens):
        raise AttnvizError(
            "no tokens are left when these are hidden",
            f"give a longer text, or leave {listed(list(hidden_by(side.tokens, looking)))} out",
        )
    return kept(side, set(range(len(side.tokens))) - out)


def _where(before: Side, after: Side) -> tuple[tuple[int, ...], ...]:
    at = {group: place for place, group in enumerate(before.groups)}
    return tuple((at[group],) for group in after.groups)


def hidden_by(tokens: Tokens, looking: Looking) -> dict[str, frozenset[int]]:
    """The tokens that each option hides, of those options that are given."""
    options = {
        "--hide-special": tokens.special if looking.hide_special else frozenset(),
        "--hide-first": frozenset((0,)) if looking.hide_first else frozenset(),
    }
    return {option: places for option, places in options.items() if places}


def left_out(tokens: Tokens, looking: Looking) -> frozenset[int]:
    """The tokens that are hidden."""
    return frozenset[int]().union(*hidden_by(tokens, looking).values())


def taken(
    maps: Sequence[Map], looking: Looking, queries: tuple[int, ...] | None = None
) -> list[float]:
    """Of each map, how much of what is read goes to tokens that are left out.

    By the tokens that are not, in the mean; or by some of them. Of a sum: rows may have any.
    """
    return [_taken(each, looking, queries) for each in maps]


def _taken(found: Map, looking: Looking, queries: tuple[int, ...] | None) -> float:
    out = sorted(left_out(found.columns.tokens, looking))
    bands = found.cells.bands() if queries is None else map(found.cells.row, queries)
    sums = np.concatenate([
        np.stack([band.values[:, out].sum(axis=1), band.values.sum(axis=1)], axis=1)
        for band in bands
    ])  # fmt: skip
    if queries is None:
        sums = sums[sorted(set(range(len(sums))) - left_out(found.rows.tokens, looking))]
    shares = sums[:, 0] / np.where(sums[:, 1], sums[:, 1], 1)
    return float(shares.mean())


# A word with its apostrophes; a sign of Chinese or Japanese, which has no spaces; any other sign.
WORD = regex.compile(
    r"\p{Han}|[^\W\p{Han}][\w\p{M}--\p{Han}]*(?:['’][\w\p{M}--\p{Han}]+)*|\X", regex.V1
)


def in_words(maps: tuple[Map, ...], trace: Trace, looking: Looking) -> tuple[Map, ...]:
    """Maps with a place for each word; what is left out of them stays out."""
    if not looking.words:
        return maps
    return tuple(_in_words(each) for each in maps)


def _in_words(found: Map) -> Map:
    rows, columns = (_grouped(side) for side in (found.rows, found.columns))
    cells = Regrouped(found.cells, _places(found.rows, rows), _places(found.columns, columns))
    return replace(found, cells=cells, rows=rows, columns=columns)


def _places(before: Side, after: Side) -> Groups:
    """The places of one side that each place of the other is made of."""
    at = {token: place for place, group in enumerate(before.groups) for token in group}
    return tuple(tuple(at[token] for token in group) for group in after.groups)


def _grouped(side: Side) -> Side:
    """The words of a side, numbered as in the whole sentence."""
    there = {token for group in side.groups for token in group}
    return kept(words_side(side.tokens), there)


def kept(side: Side, tokens: set[int]) -> Side:
    """A side without the tokens that are left out."""
    groups = [tuple(token for token in group if token in tokens) for group in side.groups]
    left = [place for place, group in enumerate(groups) if group]
    return Side(
        side.tokens,
        tuple(groups[place] for place in left),
        tuple(side.labels[place] for place in left),
        tuple(side.numbers[place] for place in left),
    )


@lru_cache(maxsize=4)  # asked for again for each head
def words_side(tokens: Tokens) -> Side:
    """A place for each word."""
    groups = words_of(tokens)
    labels = tuple(_label(tokens, group) for group in groups)
    return Side(tokens, groups, labels, tuple(range(1, len(groups) + 1)))


def whole_side(tokens: Tokens, looking: Looking) -> Side:
    """Every place that there is before any is left out."""
    return words_side(tokens) if looking.words else side_of(tokens)


def words_of(tokens: Tokens) -> Groups:
    """The tokens of each word: what no space parts, and no punctuation but an apostrophe.

    >>> from attnviz.tokens.tokens import Tokens
    >>> pieces = (b"I", b"didn", b"'", b"t", b".")
    >>> words_of(Tokens("I didn't.", pieces, (1, 2, 3, 4, 5), (True, True, False, False, False)))
    ((0,), (1, 2, 3), (4,))
    """
    return tuple(word for run in _runs(tokens) for word in _words_in(tokens, run))


def _runs(tokens: Tokens) -> Iterator[list[int]]:
    """Tokens that no space parts; one that the tokenizer added stands alone.

    A space that is a token of its own belongs to what it stands before.
    """
    run: list[int] = []
    for place, spaced in enumerate(tokens.spaced):
        alone = place in tokens.special or place - 1 in tokens.special
        only_spaces = all(tokens.pieces[each].strip(b" ") == b"" for each in run)
        if run and (alone or (spaced and not only_spaces)):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _words_in(tokens: Tokens, run: list[int]) -> Iterator[tuple[int, ...]]:
    """A token belongs to the word in which it begins."""
    pieces = [tokens.pieces[place].strip() for place in run]
    text = b"".join(pieces).decode(errors="surrogateescape")
    lengths = [len(each.group().encode(errors="surrogateescape")) for each in WORD.finditer(text)]
    ends, starts = [*accumulate(lengths)], [0, *accumulate(map(len, pieces))]
    words: dict[int, list[int]] = {}
    for place, start in zip(run, starts, strict=False):
        word = sum(end <= start for end in ends)
        words.setdefault(word, []).append(place)
    yield from map(tuple, words.values())


def _label(tokens: Tokens, group: tuple[int, ...]) -> str:
    if len(group) == 1:
        return tokens.labels[group[0]]
    return phrase(b"".join(tokens.pieces[place] for place in group).strip())
