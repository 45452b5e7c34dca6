"""What stands at the places of a map: which are the same, which separate, which repeat."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from attnviz.analysis.inspection.maps import Map, Side

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
