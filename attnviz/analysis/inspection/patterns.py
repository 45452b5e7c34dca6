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

from attnviz.analysis.inspection.maps import Map, Side
from attnviz.cells import EVERYTHING

MARKS = ("P", "S")  # categories of Unicode: punctuation, and signs


@dataclass(frozen=True, eq=False)
class Places:
    """The two sides of a map, as far as it is asked who reads what kind of token."""

    rows: Int[np.ndarray, "query"]  # a number for what stands there: the same, the same number
    columns: Int[np.ndarray, "key"]
    within: bool  # whether both are the places of one text
    added: Bool[np.ndarray, "query"]  # what a tokenizer added
    separates: Bool[np.ndarray, "key"]  # that, punctuation, and new lines
    repeats: Bool[np.ndarray, "query"]  # whether two tokens or more occur here and elsewhere
    asking: Int[np.ndarray, "query"]  # their numbers in the text, of which some may be left out,
    asked: Int[np.ndarray, "key"]  # and those of what is read

    def steps(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Int[np.ndarray, "query key"]:
        """How far a key stands behind a query; of two texts that means nothing."""
        found: Int[np.ndarray, "query key"] = self.asked[key] - self.asking[query]
        return found

    def first(self, key: Int[np.ndarray, "1 key"]) -> Bool[np.ndarray, "1 key"]:
        """Whether it is the first of the text, and not only of what is left of it."""
        found: Bool[np.ndarray, "1 key"] = self.asked[key] == 1
        return found

    def apart(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether these are two places; those of two texts always are."""
        found: Bool[np.ndarray, "query key"] = self.steps(query, key) != 0
        return found | (not self.within)

    def same(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether the same stands at both; what a tokenizer added is the same as nothing."""
        found: Bool[np.ndarray, "query key"] = self.rows[query] == self.columns[key]
        found &= ~self.added[query]
        return found

    def continues(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether the key comes after the same token earlier on, in what is repeated."""
        found = self.same(query, np.maximum(key - 1, 0))
        before = self.asked[np.maximum(key - 1, 0)]
        found &= self.repeats[query] & (self.asked[key] - before == 1)
        found &= self.steps(query, key) < 0
        return found


def places_of(found: Map) -> Places:
    """Of a map of tokens, or of words."""
    known: dict[tuple[int, ...], int] = {}
    rows = _numbers(found.rows, known)
    columns = _numbers(found.columns, known)
    added = np.array(found.rows.special, dtype=bool)
    within = found.rows.tokens == found.columns.tokens and _reads_itself(found)
    return Places(
        rows=rows,
        columns=columns,
        within=within,
        added=added,
        separates=np.array([*_separators(found.columns)], dtype=bool),
        repeats=_repeated(rows, added, found.rows.numbers),
        asking=np.array(found.rows.numbers, dtype=int),
        asked=np.array(found.columns.numbers, dtype=int),
    )


def _reads_itself(found: Map) -> bool:
    layer = found.layer
    return layer is None or (layer.key_inputs is None and layer.memory is None)


def _numbers(side: Side, known: dict[tuple[int, ...], int]) -> Int[np.ndarray, "place"]:
    """The same number for the same tokens, on both sides."""
    ids = side.tokens.ids
    named = [tuple(ids[place] for place in group) for group in side.groups]
    return np.array([known.setdefault(name, len(known)) for name in named], dtype=int)


def _separators(side: Side) -> Iterator[bool]:
    """What was added, new lines, and punctuation; but not a mark inside a word, as in `didn't`."""
    spaced = side.spaced
    marks = [_is_mark(side, place) for place in range(len(side))]
    for place, special in enumerate(side.special):
        after = place + 1
        glued = after < len(side) and not spaced[place] and not spaced[after] and not marks[after]
        yield special or (marks[place] and not glued)


def _is_mark(side: Side, place: int) -> bool:
    """Whether all that stands there is punctuation, or a new line."""
    pieces = b"".join(side.tokens.pieces[each] for each in side.groups[place])
    text = pieces.decode(errors="replace")
    if not text.strip():
        return "\n" in text
    return all(unicodedata.category(letter)[0] in MARKS for letter in text.strip())


def _repeated(
    rows: Int[np.ndarray, "place"], added: Bool[np.ndarray, "place"], numbers: tuple[int, ...]
) -> Bool[np.ndarray, "place"]:
    """Whether each place is part of two neighbouring tokens that stand elsewhere, too."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for place in range(len(rows) - 1):
        side_by_side = numbers[place + 1] - numbers[place] == 1
        if side_by_side and not added[place] and not added[place + 1]:
            pairs.setdefault((int(rows[place]), int(rows[place + 1])), []).append(place)
    found = np.zeros(len(rows), dtype=bool)
    for each in pairs.values():
        if len(each) > 1:
            found[each] = found[np.array(each) + 1] = True
    return found


Queries = Int[np.ndarray, "query 1"]
Keys = Int[np.ndarray, "1 key"]
Reads = Callable[[Queries, Keys, Places], Bool[np.ndarray, "query key"]]
Scores = Float[np.ndarray, "head kind"]
Part = Float[np.ndarray, "query key"]  # of a map: some of its rows
Largest = Int[np.ndarray, "query"]  # the key that each gives its largest weight

CELLS_AT_ONCE = 2**19
MOST_QUERIES = 1024  # of a longer text every so many tokens are asked
FEWEST = 4  # tokens that must be able to show a kind for a head to be called one; or half of few
STANDS_OUT = 0.25  # of the way from what even attention would give to all: then a head has a kind
BROAD = 0.8  # of the largest entropy


@dataclass(frozen=True)
class Kind:
    """One thing that a head may do."""

    name: str  # in tables
    short: str  # where there is little room
    read: str  # "L0H2 attends to the previous token"
    about: str  # what its number is
    absent: str  # why a text cannot show it
    one_key: bool = False  # whether it is the same key for every token


@dataclass(frozen=True)
class Reading(Kind):
    """To read certain keys."""

    reads: Reads = field(kw_only=True)  # which they are
    within: bool = False  # whether it is about places of one text


READINGS: tuple[Reading, ...] = (
    Reading(
        "previous token",
        "previous",
        "the previous token",
        "the share of a token's attention that goes to the token before it",
        "no token has both a token before it and a choice",
        reads=lambda query, key, places: places.steps(query, key) == -1,
        within=True,
    ),
    Reading(
        "next token",
        "next",
        "the next token",
        "the share that goes to the token after it",
        "no token can see the one after it",
        reads=lambda query, key, places: places.steps(query, key) == 1,
        within=True,
    ),
    Reading(
        "first token (sink)",
        "first",
        "the first token",
        "the share that goes to the first token, of all others",
        "no token can attend to the first and has a choice",
        one_key=True,
        reads=lambda query, key, places: places.first(key) & places.apart(query, key),
    ),
    Reading(
        "itself",
        "itself",
        "the token itself",
        "the share that goes to the token itself",
        "no token sees itself and others",
        reads=lambda query, key, places: places.steps(query, key) == 0,
        within=True,
    ),
    Reading(
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
    Reading(
        "same token",
        "same",
        "the same token elsewhere",
        "the share that goes to the same token elsewhere",
        "no token occurs twice",
        reads=lambda query, key, places: places.same(query, key) & places.apart(query, key),
    ),
    Reading(
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
BROADLY = Kind(
    "broad",
    "broad",
    "broadly",
    "the entropy of a token's attention, as a share of the largest possible: 1 if it attends to "
    "all tokens equally",
    "no token has a choice",
)
COLUMN = Kind(
    "one token (column)",
    "column",
    "one token",
    "the share that goes to one token, neither the first nor a separator, to which most tokens "
    "give their largest weight",
    "in no head do most tokens attend to one token, other than the first and separators",
    one_key=True,
)
KINDS: tuple[Kind, ...] = (*READINGS, COLUMN, BROADLY)


@dataclass(frozen=True, eq=False, kw_only=True)
class Patterns:
    """What each of some heads does: a row for each, a column for each kind."""

    names: tuple[str, ...]
    scores: Scores  # NaN where the text cannot show a kind
    even: Scores  # what a head would have that reads all that it sees alike
    showing: Int[np.ndarray, "kind"]  # how many of the tokens that were asked can show a kind
    most: Bool[
        np.ndarray, "head kind"
    ]  # whether most of these give such a key their largest weight
    columns: tuple[int | None, ...]  # of each head, the place of the key that is its column
    keys: Side
    asked: int  # tokens,
    tokens: int  # of so many

    @property
    def beyond(self) -> Scores:
        """How far a head is from even attention: 1 where it does nothing else; broad has none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Scores = (self.scores - self.even) / (1 - self.even)
        found[:, KINDS.index(BROADLY)] = np.nan
        return found

    def score(self, head: int, kind: Kind) -> float:
        """How much a head does something."""
        return float(self.scores[head, KINDS.index(kind)])

    @cached_property
    def kinds(self) -> tuple[Kind | None, ...]:
        """What each head does most, if it does anything much."""
        shown = self.showing >= min(FEWEST, self.asked // 2)
        return tuple(map(_kind_of, np.where(shown, self.beyond, np.nan), self.scores))

    def strongest(self, kind: Kind) -> list[int]:
        """The heads by how much they do something, the one that does it most first."""
        scores = self.scores[:, KINDS.index(kind)]
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        return [head for head in order if not np.isnan(scores[head])]

    def of_kind(self, kind: Kind) -> list[int]:
        """The heads that do this more than anything else, the strongest first."""
        return [head for head in self.strongest(kind) if self.kinds[head] is kind]

    def mostly(self, head: int, kind: Kind) -> bool:
        """Whether most tokens give such a key their largest weight."""
        return bool(self.most[head, KINDS.index(kind)])


def patterns_of(maps: Sequence[Map]) -> Patterns:
    """What the heads do whose maps these are, all of one text."""
    places = places_of(maps[0])
    queries = every_nth(len(places.rows))
    totals = np.zeros((len(maps), 4, len(KINDS)))
    by_key = np.zeros((len(maps), 4, len(places.columns)))
    for band in _bands(np.arange(len(places.rows))[queries], len(places.columns)):
        counted = _counted(band, places)
        rows = slice(band[0], band[-1] + 1, queries.step)
        for total, of_keys, each in zip(totals, by_key, maps, strict=True):
            patch = each.cells.window(rows, EVERYTHING)
            values, seen = patch.values.astype(np.float32), (~patch.hidden).astype(np.float32)
            largest = attended_most(values)
            total[:, : len(READINGS)] += _added(values, seen, largest, counted)
            total[:3, KINDS.index(BROADLY)] += _breadth(values, seen)
            of_keys += _added_by_key(values, seen, largest)
    columns = tuple(_column(each, places) for each in by_key)
    for total, of_keys, key in zip(totals, by_key, columns, strict=True):
        if key is not None:
            total[:, KINDS.index(COLUMN)] = of_keys[:, key]
    with np.errstate(invalid="ignore"):
        scores, even = totals[:, 0] / totals[:, 2], totals[:, 1] / totals[:, 2]
    most = is_most(totals[:, 3], totals[:, 2])
    most[:, KINDS.index(COLUMN)] = [key is not None for key in columns]
    return Patterns(
        names=tuple(each.name for each in maps),
        scores=scores,
        even=even,
        showing=totals[:, 2].max(0).astype(int),
        most=most,
        columns=columns,
        keys=maps[0].columns,
        asked=len(range(len(places.rows))[queries]),
        tokens=len(places.rows),
    )


def every_nth(count: int) -> slice:
    """The tokens that are asked: all, and of a long text every so many."""
    return slice(0, count, max(1, -(-count // MOST_QUERIES)))


def attended_most(values: Part) -> Largest:
    """The key that each query gives its largest weight; -1 where several are as large.

    >>> attended_most(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, -1]
    """
    sizes = np.abs(values)
    single = (sizes == sizes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    found: Largest = np.where(single, sizes.argmax(axis=1), -1)
    return found


def is_most(count: Any, of: Any) -> Any:
    """Whether so many tokens are most of them: more than half, and more than one.

    >>> is_most(2, 3), is_most(2, 4), is_most(1, 1)
    (True, False, False)
    """
    return (2 * count > of) & (count > 1)


def _kind_of(beyond: Shaped[np.ndarray, "kind"], scores: Shaped[np.ndarray, "kind"]) -> Kind | None:
    best = int(np.argmax(np.nan_to_num(beyond, nan=-1.0)))
    if beyond[best] >= STANDS_OUT:
        return KINDS[best]
    return BROADLY if scores[KINDS.index(BROADLY)] >= BROAD else None


def _bands(queries: Int[np.ndarray, "query"], keys: int) -> list[Int[np.ndarray, "query"]]:
    together = max(1, CELLS_AT_ONCE // max(1, keys * len(KINDS)))
    return [queries[first : first + together] for first in range(0, len(queries), together)]


def _counted(
    band: Int[np.ndarray, "query"], places: Places
) -> Float[np.ndarray, "query key reading"]:
    """Which keys count for each query, for each kind that is about certain keys."""
    query, key = band[:, None], np.arange(len(places.columns))[None, :]
    nowhere = np.zeros((len(band), key.size), dtype=bool)
    masks = [
        nowhere if each.within and not places.within else each.reads(query, key, places) | nowhere
        for each in READINGS
    ]
    return np.stack(masks, axis=-1).astype(np.float32)


def _added(
    values: Part, seen: Part, largest: Largest, counted: Float[np.ndarray, "query key reading"]
) -> Float[np.ndarray, "4 reading"]:
    """Over some queries: what they read of each kind, even attention would, and how many can.

    And how many give their largest weight to such a key.
    """
    there, of_all = seen.sum(1), values.sum(1)
    read, could = (np.stack([values, seen], axis=1) @ counted).transpose(1, 2, 0)
    choice = (could > 0) & (could < there) & (of_all > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares, chance = np.where(choice, read / of_all, 0), np.where(choice, could / there, 0)
    of_kind = counted[np.arange(len(values)), largest].T * (largest >= 0)
    return np.stack([each.sum(1) for each in (shares, chance, choice, of_kind * choice)])


def _added_by_key(values: Part, seen: Part, largest: Largest) -> Float[np.ndarray, "4 key"]:
    """Over the queries that have a choice: what they give each key, even attention would give it,
    how many see it, and how many give it their largest weight."""
    there, of_all = seen.sum(axis=1), values.sum(axis=1)
    choice = (there > 1) & (of_all > 0)
    share, even = (choice / np.where(choice, each, 1) for each in (of_all, there))
    votes = np.bincount(largest[choice & (largest >= 0)], minlength=values.shape[1])
    return np.stack([share @ values, even @ seen, choice @ seen, votes])


def _column(by_key: Float[np.ndarray, "4 key"], places: Places) -> int | None:
    """The key that most of the tokens with a choice give their largest weight."""
    _, even, _, most = by_key
    queries = round(even.sum())  # even attention gives each query's keys 1 in all
    may_be = ~(places.separates | places.first(np.arange(len(most))[None, :])[0])
    key = int(np.where(may_be, most, -1).argmax())
    return key if may_be[key] and is_most(most[key], queries) else None


def _breadth(values: Part, seen: Part) -> Float[np.ndarray, "3"]:
    """The entropy of rows as a share of the largest, added; that of even ones; how many rows."""
    there, of_all = seen.sum(axis=1), values.sum(axis=1)
    rows = (there > 1) & (of_all > 0)
    shares = values[rows] / of_all[rows, None]
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    entropy = -(shares * logs).sum(1) / np.log(there[rows])
    return np.array([entropy.sum(), rows.sum(), rows.sum()])
