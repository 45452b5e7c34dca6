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

    def apart(
        self, query: Int[np.ndarray, "query 1"], key: Int[np.ndarray, "1 key"]
    ) -> Bool[np.ndarray, "query key"]:
        """Whether these are two places; those of two texts always are."""
        found: Bool[np.ndarray, "query key"] = (key != query) | (not self.within)
        return found

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
        found &= self.repeats[query] & (key > 0) & (key < query)
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
        repeats=_repeated(rows, added),
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
    rows: Int[np.ndarray, "place"], added: Bool[np.ndarray, "place"]
) -> Bool[np.ndarray, "place"]:
    """Whether each place is part of two neighbouring tokens that stand elsewhere, too."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for place in range(len(rows) - 1):
        if not added[place] and not added[place + 1]:
            pairs.setdefault((int(rows[place]), int(rows[place + 1])), []).append(place)
    found = np.zeros(len(rows), dtype=bool)
    for each in pairs.values():
        if len(each) > 1:
            found[each] = found[np.array(each) + 1] = True
    return found
