"""What a page keeps of each head: all of it, where there is room for all of all heads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from attnviz.cells import Cells, Changed, Patch, Whole
from attnviz.renderers.page.packing import EXACT, Packed, packed, whole
from attnviz.renderers.page.thumbnails import small
from attnviz.views.grids.explored import HeadMap
from attnviz.views.grids.scales import Scale

Anything = TypeVar("Anything")
AT_HAND = 2**20  # cells of a head
THREADS = 4  # at most: each has the numbers of a head in memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept:
    """A head, as a page has it."""

    tables: Mapping[str, Packed]
    scale: Scale  # what the colours of its cells stand for,
    of_rows: Scale | None = None  # those of single rows, where cells stand for blocks of tokens,
    small: Whole
    of_small: Scale  # and those of the head in few cells
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(each.block) for each in self.tables.values())


def kept_whole(head: HeadMap, bits: int) -> Kept:
    """All its numbers; scores as they are where weights are, else what makes them of weights."""
    weights = at_hand(head.weights)
    tables = {"weights": packed(weights, bits, head.scores)}
    if head.scores is not None and bits == EXACT:
        tables["scores"] = packed(head.scores, bits)
    few = small(weights, share=head.share)
    return Kept(
        tables=tables, scale=scale_of(head, weights), small=few, of_small=scale_of(head, few)
    )


def at_hand(cells: Cells) -> Cells:
    """A table that is gone through several times: in memory, but for a very large one."""
    rows, columns = cells.shape
    return whole(cells) if rows * columns <= AT_HAND else cells


def scale_of(head: HeadMap, cells: Cells) -> Scale:
    """What colours stand for, of numbers of a head that are seen."""
    return head.scale(Changed(cells, _seen))


def _seen(patch: Patch) -> Patch:
    seen = ~patch.hidden & np.isfinite(patch.values)
    return Patch(np.where(seen, patch.values, 0), ~seen)


def in_turn(each: Sequence[Anything], keep: Callable[[Anything], Kept]) -> Iterator[Kept]:
    """Each in its order, a few of them at once: whoever wants no more ends the rest."""
    threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1))
    try:
        yield from threads.map(keep, each)
    finally:
        threads.shutdown(cancel_futures=True)


def within(kept: Iterable[Kept], size: int) -> list[Kept] | None:
    """All of them; none if they come to more bytes."""
    found, left = [], size
    for each in kept:
        found.append(each)
        left -= each.size
        if left < 0:
            return None
    return found
