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
MistakenScores = Callable[["Tensor", "Tensor", float], "Tensor"]
SoftmaxAxis = Literal["row", "column", "matrix"]
# Hidden tokens get weight; rows do not sum to 1; they are more even than they should be.
Symptom = Literal["leaks", "breaks", "flattens"]


@dataclass(frozen=True)
class Mistake:
    """A softmax of the wrong numbers, over the wrong ones of them, or spoiled afterwards."""

    name: str
    cause: str
    effect: str
    symptoms: tuple[Symptom, ...]  # all of which the effect says
    softmax_inputs: MistakenScores  # what exp is taken of; -inf gets no weight
    softmax_axis: SoftmaxAxis = "row"  # what sums to 1
    masked: bool = True  # what is hidden is -inf before the softmax, as it should be
    zeroed: bool = False  # what is hidden is zeroed after it

    @property
    def about(self) -> str:
        """What is done, and what comes of it where it shows."""
        return f"{self.cause}: {self.effect}"

    def weigh(self, scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
        """The weights that the mistake gives."""
        weights = _SOFTMAX_OVER[self.softmax_axis](self.softmax_inputs(scores, visible, ratio))
        return weights.masked_fill(~visible, 0) if self.zeroed else weights


def _softmax_along(numbers: Tensor, side: int) -> Tensor:
    from attnviz.attention.arithmetic import (
        softmax_or_zeros,  # torch is there, for there are scores
    )

    weights: Tensor = softmax_or_zeros(numbers, side)
    return weights


_SOFTMAX_OVER: dict[SoftmaxAxis, Callable[[Tensor], Tensor]] = {
    "row": lambda numbers: _softmax_along(numbers, -1),
    "column": lambda numbers: _softmax_along(numbers, -2),
    "matrix": lambda numbers: _softmax_along(numbers.flatten(-2), -1).view_as(numbers),
}


def _masked_scores(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, -inf)


def _zero_masked_scores(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, 0)


def _unmasked_scores(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores


def _softmax_weights(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return _softmax_along(_masked_scores(scores, visible, ratio), -1)


def _overdivided_scores(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return _masked_scores(scores / ratio, visible, ratio)


MISTAKES = {
    mistake.name: mistake
    for mistake in (
        Mistake(
            "zero-scores",
            "0 written into the scores instead of -inf",
            "exp(0) is 1, so the future keeps weight",
            ("leaks",),
            _zero_masked_scores,
            masked=False,
        ),
        Mistake(
            "zero-weights",
            "0 written into the weights after the softmax",
            "rows no longer sum to 1",
            ("breaks",),
            _unmasked_scores,
            masked=False,
            zeroed=True,
        ),
        Mistake(
            "softmax-twice",
            "softmax taken twice",
            "the second one flattens the rows and revives what was hidden",
            ("leaks", "flattens"),
            _softmax_weights,
        ),
        Mistake(
            "softmax-all",
            "softmax over the whole matrix instead of each row",
            "the matrix sums to 1, not the rows",
            ("breaks",),
            _masked_scores,
            softmax_axis="matrix",
        ),
        Mistake(
            "softmax-columns",
            "softmax over the wrong axis",
            "columns sum to 1 instead of rows",
            ("breaks",),
            _masked_scores,
            softmax_axis="column",
        ),
        Mistake(
            "model-scale",
            "scores divided by √(model width) instead of √(head width)",
            "rows come out too flat",
            ("flattens",),
            _overdivided_scores,
        ),
    )
}
