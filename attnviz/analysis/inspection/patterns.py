"""What heads do: how much each reads the token before, the first one, itself, and so on.

A kind of reading is a predicate on two places, as a mask is. A head's score is the share of what a
token reads that lies on such keys, averaged over the tokens that have any, and have a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.places import Places, places_of
from attnviz.cells import EVERYTHING, Patch

Queries = Int[np.ndarray, "query 1"]
Keys = Int[np.ndarray, "1 key"]
Reads = Callable[[Queries, Keys, Places], Bool[np.ndarray, "query key"]]
Scores = Float[np.ndarray, "head kind"]

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
    read: str  # "L0H2 reads the token before"
    about: str  # what its number is
    absent: str  # why a text cannot show it
    one: bool = True  # whether what is read is one thing


@dataclass(frozen=True)
class Reading(Kind):
    """To read certain keys."""

    reads: Reads = field(kw_only=True)  # which they are
    within: bool = False  # whether it is about places of one text


READINGS: tuple[Reading, ...] = (
    Reading(
        "previous token",
        "previous",
        "the token before",
        "the share of what a token reads that goes to the token before it",
        "no token has one before it and a choice",
        reads=lambda query, key, places: places.steps(query, key) == -1,
        within=True,
    ),
    Reading(
        "next token",
        "next",
        "the token after",
        "the share that goes to the token after it",
        "no token sees the one after it",
        reads=lambda query, key, places: places.steps(query, key) == 1,
        within=True,
    ),
    Reading(
        "first token (sink)",
        "first",
        "the first token",
        "the share that goes to the first token, of all others",
        "no token has the first to read, and a choice",
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
        "the share that goes to punctuation, new lines and what the tokenizer added, but for the "
        "first token and the token itself",
        "there are no separators after the first token",
        one=False,
        reads=lambda query, key, places: (
            places.separates[key] & ~places.first(key) & places.apart(query, key)
        ),
    ),
    Reading(
        "same token",
        "same",
        "the same token elsewhere",
        "the share that goes to the same token elsewhere",
        "no token is there twice",
        reads=lambda query, key, places: places.same(query, key) & places.apart(query, key),
    ),
    Reading(
        "induction",
        "induction",
        "what came after the same token before",
        "where two tokens or more are repeated: the share that goes to the token after the same "
        "token earlier on",
        "no two tokens are repeated",
        reads=lambda query, key, places: places.continues(query, key),
        within=True,
    ),
)
BROADLY = Kind(
    "broad",
    "broad",
    "broadly",
    "the entropy of what a token reads, as a share of the largest possible: 1 if it reads all "
    "tokens alike",
    "no token has a choice",
)
KINDS: tuple[Kind, ...] = (*READINGS, BROADLY)


@dataclass(frozen=True, eq=False, kw_only=True)
class Patterns:
    """What each of some heads does: a row for each, a column for each kind."""

    names: tuple[str, ...]
    scores: Scores  # NaN where the text cannot show a kind
    even: Scores  # what a head would have that reads all that it sees alike
    showing: Int[np.ndarray, "kind"]  # how many of the tokens that were asked can show a kind
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


def patterns_of(maps: Sequence[Map]) -> Patterns:
    """What the heads do whose maps these are, all of one text."""
    places = places_of(maps[0])
    totals = np.zeros((len(maps), 3, len(KINDS)))
    queries = np.arange(0, len(places.rows), max(1, -(-len(places.rows) // MOST_QUERIES)))
    for band in _bands(queries, len(places.columns)):
        counted = _counted(band, places)
        rows = slice(band[0], band[-1] + 1, _step(queries))
        for total, each in zip(totals, maps, strict=True):
            total += _added(each.cells.window(rows, EVERYTHING), counted)
    with np.errstate(invalid="ignore"):
        scores, even = totals[:, 0] / totals[:, 2], totals[:, 1] / totals[:, 2]
    return Patterns(
        names=tuple(each.name for each in maps),
        scores=scores,
        even=even,
        showing=totals[:, 2].max(0).astype(int),
        asked=len(queries),
        tokens=len(places.rows),
    )


def _kind_of(beyond: Shaped[np.ndarray, "kind"], scores: Shaped[np.ndarray, "kind"]) -> Kind | None:
    best = int(np.argmax(np.nan_to_num(beyond, nan=-1.0)))
    if beyond[best] >= STANDS_OUT:
        return KINDS[best]
    return BROADLY if scores[KINDS.index(BROADLY)] >= BROAD else None


def _step(queries: Int[np.ndarray, "query"]) -> int:
    return int(queries[1] - queries[0]) if len(queries) > 1 else 1


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
    patch: Patch, counted: Float[np.ndarray, "query key reading"]
) -> Float[np.ndarray, "3 kind"]:
    """Over some queries: what they read of each kind, even attention would, and how many can."""
    seen = (~patch.hidden).astype(np.float32)
    values = patch.values.astype(np.float32)
    there, of_all = seen.sum(1), values.sum(1)
    read, could = (np.stack([values, seen], axis=1) @ counted).transpose(1, 2, 0)
    choice = (could > 0) & (could < there) & (of_all > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares, chance = np.where(choice, read / of_all, 0), np.where(choice, could / there, 0)
    readings = np.stack([shares.sum(1), chance.sum(1), choice.sum(1)])
    return np.column_stack([readings, _breadth(values, there, of_all)])


def _breadth(
    values: Float[np.ndarray, "query key"],
    there: Float[np.ndarray, "query"],
    of_all: Float[np.ndarray, "query"],
) -> Float[np.ndarray, "3"]:
    """The entropy of rows as a share of the largest, added; that of even ones; how many rows."""
    rows = (there > 1) & (of_all > 0)
    shares = values[rows] / of_all[rows, None]
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    entropy = -(shares * logs).sum(1) / np.log(there[rows])
    return np.array([entropy.sum(), rows.sum(), rows.sum()])
