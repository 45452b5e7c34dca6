"""What is computed here, held against the model's own eager attention, at the start of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from torch import Tensor

from attnviz.traces.settings import Which
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import Passed, Reading, passed, run

ATTENTIONS: dict[Which, str] = {
    "self": "attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
TOLERANCE = {"float64": 1e-5, "float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}
SUMS = 10  # times as much, where many layers add to it


@dataclass(frozen=True)
class Apart:
    """The largest differences from what the model computes with its own eager attention."""

    weights: float | None  # None: it hands none back
    vectors: float  # of the last layer, relative to the largest number there
    tokens: int  # that were compared

    def by_rounding(self, dtype: str) -> bool:
        """Whether it is no more than rounding makes it."""
        least = TOLERANCE[dtype]
        return (self.weights or 0.0) <= least and self.vectors <= SUMS * least


def apart(model: Loaded, reading: Reading, done: Passed) -> Apart | None:
    """How far a pass that was listened to is from one with eager attention."""
    probe = reading.probe
    ours = done if probe == reading and not done.off else passed(model, probe)
    if ours is None:
        return None
    made, outputs = run(model, probe, output_attentions=True)
    theirs = own_weights(outputs, reading.which)
    weights = _of_weights(ours, theirs) if theirs else None
    vectors = _of_vectors(ours.ending.vectors, made.vectors)
    return Apart(weights, vectors, len(probe.written or probe.ids))


def own_weights(outputs: Any, which: Which) -> Sequence[Tensor]:
    """The weights that a model hands back itself; of a layer that does not attend there are none.

    An encoder that runs on its own calls them its attentions.
    """
    found = getattr(outputs, ATTENTIONS[which], None) or ()
    return [each for each in found if each is not None]


def _of_weights(ours: Passed, theirs: Sequence[Tensor]) -> float:
    if len(theirs) != len(ours.numbers):
        return inf
    by_number = dict(zip(ours.numbers, theirs, strict=True))
    pairs = [(each.whole.weights, by_number[each.layer][0]) for each in ours.heard]
    return max((difference(*pair) for pair in pairs), default=0.0)


def _of_vectors(ours: Tensor | None, theirs: Tensor | None) -> float:
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else inf
    return difference(ours, theirs) / max(1.0, float(theirs.abs().max()))


def difference(one: Tensor, other: Tensor) -> float:
    """Between numbers of the same shape; where something is no number, everything is."""
    if one.shape != other.shape:
        return inf
    found = float((one - other).abs().max())
    return inf if found != found else found
