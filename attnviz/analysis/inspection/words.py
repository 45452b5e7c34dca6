"""Pieces of a word, put together: the sum over keys, the mean over queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

import regex  # which knows scripts, and the marks of letters

from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side, side_of
from attnviz.analysis.inspection.regrouped import Groups, Regrouped
from attnviz.tokens.labels import phrase
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Trace

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
