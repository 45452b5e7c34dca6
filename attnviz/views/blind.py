"""What is said of rows of weights: what they sum to, and which read nothing, all being hidden."""

from __future__ import annotations

from collections.abc import Iterator

from attnviz.attention.arithmetic import MixedBy
from attnviz.traces.trace import Trace
from attnviz.views.grids.axes import NOTHING, SUM_TO_ONE
from attnviz.views.reading import alone, name_of_head
from attnviz.wording.words import listed

MOST_NAMED = 8  # rows; more are counted
OTHERS_SUM = "every other row sums to 1"


def note_on_rows(trace: Trace, mixed_by: MixedBy, whole: bool) -> str:
    """Of all weights of a trace, for what is said once must hold for each of its tables.

    `whole` says whether each row of a table sums to 1.
    """
    blind = note_on_blind(trace)
    if not blind:
        return SUM_TO_ONE if whole else ""
    others = mixed_by == "softmax" and any(bool(each.visible.any()) for each in trace.attentions)
    return f"{blind} · {OTHERS_SUM}" if others else blind


def note_on_blind(trace: Trace) -> str:
    """Which rows read nothing, if any do."""
    blind = list(_blind(trace))
    if not blind:
        return ""
    named = listed(blind) if len(blind) <= MOST_NAMED else f"{len(blind):,} rows"
    return f"{named} {'reads' if len(blind) == 1 else 'read'} {NOTHING}"


def _blind(trace: Trace) -> Iterator[str]:
    """`row 2`; of which head or layer, where they are not alike."""
    for layer in trace.attentions:
        by_head = layer.visible.ndim == 3
        of_layer = "" if alone(trace) else f" of {layer.name}"
        for head in range(layer.heads if by_head else 1):
            of = f" of {name_of_head(trace, layer, head)}" if by_head else of_layer
            yield from (f"row {row + 1}{of}" for row in layer.blind_rows(head))
