"""Notes on rows of weights: what they sum to, and which are 0 because every key is masked."""

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
    """The note on all weights of a trace: said once, so it must hold for each of its tables.

    `whole` says whether each row of a table sums to 1.
    """
    blind = note_on_blind(trace)
    if not blind:
        return SUM_TO_ONE if whole else ""
    others = mixed_by == "softmax" and any(bool(each.visible.any()) for each in trace.attentions)
    return f"{blind} · {OTHERS_SUM}" if others else blind


def note_on_blind(trace: Trace) -> str:
    """Which rows read nothing, if there are any."""
    count = len(trace.blind)
    if not count:
        return ""
    few = count <= MOST_NAMED
    named = listed([*_names(trace)]) if few else f"{count:,} rows"
    return f"{named} {'reads' if count == 1 else 'read'} {NOTHING}"


def _names(trace: Trace) -> Iterator[str]:
    """`row 2`; of which head or layer, where they are not alike."""
    for layer, head, row in trace.blind:
        of_layer = "" if alone(trace) else f" of {layer.name}"
        by_head = layer.visible.ndim == 3
        of = f" of {name_of_head(trace, layer, head)}" if by_head else of_layer
        yield f"row {row + 1}{of}"
