"""MISTAKES: common mistakes in attention and their effects, for demonstration only.

They are kept apart from the variants, so that `attnviz run` cannot choose one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

# The correctly scaled scores, the visible keys, and √(model width) / √(head width).
MistakenScores = Callable[["Tensor", "Tensor", float], "Tensor"]
SoftmaxAxis = Literal["row", "column", "matrix"]
# Masked keys get weight; rows do not sum to 1; rows are more even than they should be.
Symptom = Literal["leaks", "breaks", "flattens"]


@dataclass(frozen=True)
class Mistake:
    """A softmax of the wrong numbers, along the wrong axis, or changed afterwards."""

    name: str
    cause: str
    effect: str
    symptoms: tuple[Symptom, ...]  # the effect names all of them
    softmax_inputs: MistakenScores  # -inf gets no weight
    softmax_axis: SoftmaxAxis = "row"  # what sums to 1
    masked: bool = True  # whether masked scores are -inf before the softmax, as is right
    zeroed: bool = False  # whether masked weights are set to 0 after the softmax

    @property
    def about(self) -> str:
        return f"{self.cause}: {self.effect}"

    def weigh(self, scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
        """Return the attention weights that the mistake makes of correctly scaled scores.

        `visible`: True where a query may attend to a key; `ratio`: √(model width) / √(head width).
        """
        weights = _SOFTMAX_BY_AXIS[self.softmax_axis](self.softmax_inputs(scores, visible, ratio))
        return weights.masked_fill(~visible, 0) if self.zeroed else weights


def _softmax_along(numbers: Tensor, side: int) -> Tensor:
    """Return the softmax along the axis `side` (-1: rows); 0 where all numbers are -inf."""
    from attnviz.attention.arithmetic import softmax_or_zeros  # not at the start: it needs torch

    return softmax_or_zeros(numbers, side)


_SOFTMAX_BY_AXIS: dict[SoftmaxAxis, Callable[[Tensor], Tensor]] = {
    "row": lambda numbers: _softmax_along(numbers, -1),
    "column": lambda numbers: _softmax_along(numbers, -2),
    "matrix": lambda numbers: _softmax_along(numbers.flatten(-2), -1).view_as(numbers),
}


def _masked_scores(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    """Return the scores with -inf for masked keys, as is right; `ratio` is not used."""
    return scores.masked_fill(~visible, -inf)


MISTAKES = {
    mistake.name: mistake
    for mistake in (
        Mistake(
            "zero-scores",
            "0 written into the scores instead of -inf",
            "exp(0) is 1, so the future keeps weight",
            ("leaks",),
            lambda scores, visible, ratio: scores.masked_fill(~visible, 0),
            masked=False,
        ),
        Mistake(
            "zero-weights",
            "0 written into the weights after the softmax",
            "rows no longer sum to 1",
            ("breaks",),
            lambda scores, visible, ratio: scores,
            masked=False,
            zeroed=True,
        ),
        Mistake(
            "softmax-twice",
            "softmax taken twice",
            "the second one flattens the rows and revives what was hidden",
            ("leaks", "flattens"),
            lambda *numbers: _softmax_along(_masked_scores(*numbers), -1),
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
            lambda scores, visible, ratio: _masked_scores(scores / ratio, visible, ratio),
        ),
    )
}
