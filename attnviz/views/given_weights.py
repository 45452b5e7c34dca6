"""What is said of weights that were computed elsewhere: what they are, and what they sum to."""

from __future__ import annotations

from collections.abc import Iterator

from attnviz.traces.origin import FromWeights
from attnviz.traces.trace import Trace
from attnviz.views.facts import ROUNDING
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted

BY_ITS_ZEROS = (
    "every weight above the diagonal is exactly 0, and none below it in all heads: that is taken "
    "for a causal mask"
)


def given_parts(trace: Trace, given: FromWeights) -> dict[str, str]:
    """What the settings line says of them, by what each part is about."""
    heads = sorted({layer.heads for layer in trace.layers})
    of_each = " or ".join(map(str, heads))
    across = trace.keys is not trace.tokens
    other = given.stored_as != trace.provenance.dtype
    return {
        "heads": f"{counted(len(trace.layers), 'layer')} × {of_each} "
        f"head{'' if heads == [1] else 's'}",
        "which": f"reads {counted(len(trace.keys), 'token')}" if across else "",
        "mask": "causal" if trace.variant.causal else "",
        "stored": f"given as {given.stored_as}" if other else "",
    }


def on_given_weights(trace: Trace) -> Iterator[str]:
    """What was concluded of their zeros, and which rows are no shares."""
    if trace.handed is None:
        return
    if trace.variant.causal:
        yield BY_ITS_ZEROS
    sums = [row for layer in trace.layers for row in _sums(layer.attended.weights)]
    odd = [each for each in sums if abs(each - 1) >= ROUNDING]
    if odd:
        low, high = share_text(min(odd)), share_text(max(odd))
        to = low if low == high else f"from {low} to {high}"
        which = counted(len(sums), "row") if len(odd) == len(sums) else (
            f"{len(odd):,} of {counted(len(sums), 'row')}"
        )
        yield f"{which} do{'es' * (len(odd) == 1)} not sum to 1: {to}"


def _sums(weights):
    return weights.sum(-1, dtype=torch.float64).flatten().tolist()
