"""Common mistakes in attention, each with what goes wrong; to be looked at, never to be used.

They are rows of their own, apart from the variants: `attnviz run` cannot choose one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

# The scores as they should be scaled, what is visible, and √(model width) over √(head width).
Numbers = Callable[["Tensor", "Tensor", float], "Tensor"]
Over = Literal["row", "column", "matrix"]


@dataclass(frozen=True)
class Mistake:
    """A softmax of the wrong numbers, over the wrong ones of them, or spoiled afterwards."""

    name: str
    about: str
    numbers: Numbers  # what exp is taken of; -inf gets no weight
    over: Over = "row"  # what sums to 1
    masked: bool = True  # what is hidden is -inf before the softmax, as it should be
    zeroed: bool = False  # what is hidden is zeroed after it

    def weigh(self, scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
        """The weights that the mistake gives."""
        weights = _SHARED_OUT[self.over](self.numbers(scores, visible, ratio))
        return weights.masked_fill(~visible, 0) if self.zeroed else weights


def _shares(numbers: Tensor, side: int) -> Tensor:
    from attnviz.attention.arithmetic import shares  # torch is there, for there are scores

    found: Tensor = shares(numbers, side)
    return found


_SHARED_OUT: dict[Over, Callable[[Tensor], Tensor]] = {
    "row": lambda numbers: _shares(numbers, -1),
    "column": lambda numbers: _shares(numbers, -2),
    "matrix": lambda numbers: _shares(numbers.flatten(-2), -1).view_as(numbers),
}


def _right(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, -inf)


def _with_zeros(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, 0)


def _unmasked(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores


def _weights(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return _shares(_right(scores, visible, ratio), -1)


def _too_small(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return _right(scores / ratio, visible, ratio)


MISTAKES = {
    mistake.name: mistake
    for mistake in (
        Mistake(
            "zero-scores",
            "0 written into the scores instead of -inf: exp(0) is 1, so the future keeps weight",
            _with_zeros,
            masked=False,
        ),
        Mistake(
            "zero-weights",
            "0 written into the weights after the softmax: rows no longer sum to 1",
            _unmasked,
            masked=False,
            zeroed=True,
        ),
        Mistake(
            "softmax-twice",
            "softmax taken twice: the second one flattens the rows and revives what was hidden",
            _weights,
        ),
        Mistake(
            "softmax-all",
            "softmax over the whole matrix instead of each row: the matrix sums to 1, not the rows",
            _right,
            over="matrix",
        ),
        Mistake(
            "softmax-columns",
            "softmax over the wrong axis: columns sum to 1 instead of rows",
            _right,
            over="column",
        ),
        Mistake(
            "model-scale",
            "scores divided by √(model width) instead of √(head width): rows come out too flat",
            _too_small,
        ),
    )
}
