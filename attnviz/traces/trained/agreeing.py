"""What is computed here, held against the model's own eager attention, at the start of a text."""

from __future__ import annotations

from collections.abc import Sequence
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


def apart(model: Loaded, reading: Reading, done: Passed) -> float | None:
    """The largest difference of a weight from those of the model's own eager attention.

    None where nothing can be compared, or where what comes out of the model is another.
    """
    probe = reading.probe
    ours = done if probe == reading and not done.off else passed(model, probe)
    made, theirs = run(model, probe, output_attentions=True)
    weights = own_weights(theirs, reading.which)
    if ours is None or not _same(ours.ending.vectors, made.vectors):
        return None
    if len(weights) != len(ours.numbers):
        return None
    by_number = dict(zip(ours.numbers, weights, strict=True))
    pairs = [(each.whole.weights, by_number[each.layer][0]) for each in ours.heard]
    if any(one.shape != other.shape for one, other in pairs):
        return None
    return max((float((one - other).abs().max()) for one, other in pairs), default=0.0)


def agrees(found: float | None, dtype: str) -> bool:
    """Whether so small a difference comes from rounding."""
    return found is not None and found <= TOLERANCE[dtype]


def own_weights(outputs: Any, which: Which) -> Sequence[Tensor]:
    """The weights that a model hands back itself; of a layer that does not attend there are none.

    An encoder that runs on its own calls them its attentions.
    """
    found = getattr(outputs, ATTENTIONS[which], None) or ()
    return [each for each in found if each is not None]


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two results differ by no more than rounding, which many layers add up."""
    if one is None or other is None:
        return one is other
    dtype = str(one.dtype).removeprefix("torch.")
    largest = max(1.0, float(other.abs().max()))
    return float((one - other).abs().max()) <= 10 * TOLERANCE[dtype] * largest
