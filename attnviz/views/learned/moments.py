"""Which moments are shown: a few on a page, and those of a film."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from attnviz.learning.training import Moment

HALVINGS = 2.0  # from one moment of a page to the one before it
MOST_ROUND = 4  # steps between numbers of a side
BY_STEPS = 0.5  # of a film's way is measured in steps, the rest in what becomes of weights


def few(moments: Sequence[Moment], most: int) -> list[int]:
    """The first and the last, and between them each at about half the steps of the next.

    >>> from types import SimpleNamespace
    >>> few([SimpleNamespace(step=step) for step in range(101)], 5)
    [0, 12, 25, 50, 100]
    """
    steps = np.array([moment.step for moment in moments])
    wanted = steps[-1] / HALVINGS ** np.arange(most - 1)
    nearest = {int(abs(steps - each).argmin()) for each in wanted[: max(most - 1, 1)]}
    return sorted({0} | nearest)


def filmed(moments: Sequence[Moment], most: int) -> list[int]:
    """So many that the picture changes about as much from each to the next.

    Where nothing happens for a thousand steps, some of them are still shown.
    """
    if len(moments) <= most:
        return list(range(len(moments)))
    way = _way(moments)
    places = np.searchsorted(way, np.linspace(0.0, way[-1], most))
    return sorted({0, len(moments) - 1} | {min(int(each), len(moments) - 1) for each in places})


def round_steps(last: int) -> tuple[float, ...]:
    """Round numbers from 0 on, for the side that counts steps.

    >>> round_steps(633), round_steps(60)
    ((0.0, 200.0, 400.0, 600.0), (0.0, 20.0, 40.0, 60.0))
    """
    step = next(
        factor * 10**power
        for power in range(9)
        for factor in (1, 2, 5)
        if last / (factor * 10**power) <= MOST_ROUND
    )
    return tuple(float(each) for each in range(0, last + 1, step))


def _way(moments: Sequence[Moment]) -> Float[np.ndarray, "moment"]:
    """How far each moment is on the way to the last, from 0 to 1."""
    steps = np.array([moment.step for moment in moments], dtype=float)
    changes = [0.0]
    for before, moment in pairwise(moments):
        pairs = zip(before.weights, moment.weights, strict=True)
        changes.append(float(sum(abs(after - one).mean() for one, after in pairs)))
    changed = np.cumsum(changes)
    by_change = changed / (changed[-1] or 1.0)
    by_steps = (steps - steps[0]) / ((steps[-1] - steps[0]) or 1.0)
    way: Float[np.ndarray, "moment"] = BY_STEPS * by_steps + (1 - BY_STEPS) * by_change
    return way
