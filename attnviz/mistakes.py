"""Common mistakes in attention, each with what goes wrong; to be looked at, never to be used.

They are rows of their own, apart from the variants: `attnviz run` cannot choose one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# The scores as they should be scaled, what is visible, and √(model width) over √(head width).
Weigh = Callable[["Tensor", "Tensor", float], "Tensor"]


@dataclass(frozen=True)
class Mistake:
    name: str
    about: str
    weigh: Weigh


def _zero_scores(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, 0).softmax(-1)


def _zero_weights(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.softmax(-1).masked_fill(~visible, 0)


def _softmax_twice(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, -inf).softmax(-1).softmax(-1)


def _softmax_all(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    masked = scores.masked_fill(~visible, -inf)
    return masked.flatten(-2).softmax(-1).view_as(scores)


def _softmax_columns(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return scores.masked_fill(~visible, -inf).softmax(-2)


def _model_scale(scores: Tensor, visible: Tensor, ratio: float) -> Tensor:
    return (scores / ratio).masked_fill(~visible, -inf).softmax(-1)


MISTAKES = {
    mistake.name: mistake
    for mistake in (
        Mistake(
            "zero-scores",
            "0 written into the scores instead of -inf: exp(0) is 1, so the future keeps weight",
            _zero_scores,
        ),
        Mistake(
            "zero-weights",
            "0 written into the weights after the softmax: rows no longer sum to 1",
            _zero_weights,
        ),
        Mistake(
            "softmax-twice",
            "softmax taken twice: the second one flattens the rows and revives what was hidden",
            _softmax_twice,
        ),
        Mistake(
            "softmax-all",
            "softmax over the whole matrix instead of each row: the matrix sums to 1, not the rows",
            _softmax_all,
        ),
        Mistake(
            "softmax-columns",
            "softmax over the wrong axis: columns sum to 1 instead of rows",
            _softmax_columns,
        ),
        Mistake(
            "model-scale",
            "scores divided by √(model width) instead of √(head width): rows come out too flat",
            _model_scale,
        ),
    )
}
