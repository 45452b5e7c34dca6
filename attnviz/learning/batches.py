"""The sentences that are learned from at each step, out of a seed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnviz.learning.task import Examples, Task, examples_of

DRAWN_AT_ONCE = 4096  # sentences that are learned from before others are drawn


class Batches:
    """So many sentences for each step; which they are depends on the seed and the step alone."""

    def __init__(self, task: Task, seed: int, size: int) -> None:
        self._task, self._seed, self._size = task, seed, size
        self._steps = max(1, DRAWN_AT_ONCE // size)
        self._number = -1

    def at(self, step: int) -> Examples:
        """Those of a step, counted from 0."""
        number, place = divmod(step, self._steps)
        if number != self._number:
            seed = self._seed * 1_000_003 + number
            self._drawn = examples_of(self._task, seed, self._steps * self._size)
            self._number = number
        return self._drawn.part(slice(place * self._size, (place + 1) * self._size))


def stacked(several: Sequence[Examples]) -> Examples:
    """As many sentences of each of several models, side by side."""
    readings = several[0].readings
    return Examples(
        torch.stack([each.ids for each in several]),
        torch.stack([each.answers for each in several]),
        {name: torch.stack([each.readings[name] for each in several]) for name in readings},
    )
