"""What one token reads, map by map: and maps ranked by it, or by how much they read of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnviz.analysis.inspection.hidden import hidden_by
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.analysis.inspection.words import whole_side, words_side
from attnviz.cells import Patch
from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.wording.commands import option
from attnviz.wording.words import listed


@dataclass(frozen=True, eq=False)
class Reading:
    """A row of a map: what one token reads there."""

    map: Map
    row: int

    @cached_property
    def patch(self) -> Patch:
        return self.map.cells.row(self.row)

    def of(self, column: int) -> float:
        return float(self.patch.values[0, column])

    def sees(self, column: int) -> bool:
        return not bool(self.patch.hidden[0, column])

    @cached_property
    def most(self) -> int:
        """What it reads most; the first of several that it reads alike."""
        return int(np.abs(self.patch.values[0]).argmax())

    @property
    def peak(self) -> float:
        return self.of(self.most)

    def rank(self, column: int) -> int:
        """How many places it reads more, and one."""
        sizes = np.abs(self.patch.values[0])
        return int((sizes > sizes[column]).sum()) + 1


def by_peak(readings: Sequence[Reading]) -> list[Reading]:
    """Those first that put most on one token."""
    return sorted(readings, key=lambda each: abs(each.peak), reverse=True)


def place_in(side: Side, looking: Looking, wanted: str, name: str) -> int:
    """The place of a token that somebody names, on a side of which some may be left out."""
    whole = whole_side(side.tokens, looking)
    _refuse_pieces(whole, wanted, looking, name)
    group = whole.groups[find_query(_named(whole), wanted, option(name))]
    found = [place for place, each in enumerate(side.groups) if set(each) & set(group)]
    if not found:
        label = whole.labels[whole.groups.index(group)]
        hides = hidden_by(side.tokens, looking)
        out = listed([option for option, places in hides.items() if places & set(group)])
        raise AttnvizError(
            f"'{label}' is left out ({out})",
            f"leave {out} out, or ask for another token",
            about=name,
        )
    return found[0]


def _refuse_pieces(whole: Side, wanted: str, looking: Looking, name: str) -> None:
    """A word that the model's tokenizer cuts up has no place of its own, unless words are shown."""
    words = words_side(whole.tokens)
    if looking.words or wanted in whole.labels or wanted not in words.labels:
        return
    group = words.groups[words.labels.index(wanted)]
    pieces = " ".join(whole.labels[token] for token in group)
    raise AttnvizError(
        f"'{wanted}' is {len(group)} tokens here: {pieces}",
        f"use --words to combine them, or give the number of one: {option(name)} {group[0] + 1}",
        about=name,
    )


def _named(side: Side) -> Tokens:
    """The places of a side as tokens, so that they are found as those are."""
    tokens = side.tokens
    return replace(
        tokens,
        pieces=tuple(b"".join(tokens.pieces[each] for each in group) for group in side.groups),
        ids=tuple(tokens.ids[group[0]] for group in side.groups),
        spaced=side.spaced,
        words=side.labels,
        special=frozenset(),
    )
