"""How the last vectors of a trained model change when heads are switched off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnviz.analysis.measures import vector_changes
from attnviz.cells import FULL_SLICE, unmasked_cells
from attnviz.traces.trace import Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.scales import Scale, colorless_scale, round_up
from attnviz.views.notes import heads_off_names, heads_off_suffix
from attnviz.views.reading import quoted_token, token_axis
from attnviz.wording.numbers import fixed_text, percent_text, share_text

VECTOR_SHIFT_NOTE = (
    "change = length of the difference / length of the last vector with all heads on · cosine = "
    "that of the angle between the two vectors"
)
MIN_VECTOR_CHANGE = 5e-4  # relative to its length: a smaller change counts as none


def vector_shift_table(trace: Trace) -> Grid | None:
    """How much the last vector of each token changes and turns; None where all heads are on."""
    outputs = trace.outputs
    if outputs is None or outputs.with_all_heads is None:
        return None
    changes, cosines = vector_changes(outputs.with_all_heads, outputs.vectors)
    return Grid(
        f"last vectors{heads_off_suffix(trace)}",
        token_axis("token", trace.tokens),
        plain_axis("measure", ["change", "cosine"]),
        unmasked_cells(np.stack([tensor_to_numpy(changes), tensor_to_numpy(cosines)], axis=1)),
        colorless_scale("change"),
        note=VECTOR_SHIFT_NOTE,
        decimals=2,
    )


def vector_shift_bars(trace: Trace) -> RankedBars | None:
    """The change of each token's last vector as bars, the largest first; None where all heads are
    on.
    """
    table = vector_shift_table(trace)
    if table is None:
        return None
    numbers = table.cells.window(FULL_SLICE, FULL_SLICE).values
    order = (-numbers[:, 0]).argsort(kind="stable")
    changes, cosines = numbers[order].T
    grid = replace(
        table,
        rows=plain_axis("token", [table.rows.names[row] for row in order]),
        columns=plain_axis("measure", ["change"]),
        cells=unmasked_cells(changes[:, None]),
        scale=Scale("change", 0.0, round_up(float(changes[0]))),
    )
    return RankedBars(grid, tuple(f"cosine {fixed_text(cosine, 2)}" for cosine in cosines))


def vector_shift_sentences(trace: Trace) -> tuple[str, ...]:
    """The mean and the largest change in a sentence, for a model without answers."""
    outputs = trace.outputs
    if outputs is None or outputs.with_all_heads is None or trace.prediction is not None:
        return ()
    changes, cosines = vector_changes(outputs.with_all_heads, outputs.vectors)
    start, most_changed = f"Without {heads_off_names(trace)}", int(changes.argmax())
    if float(changes[most_changed]) < MIN_VECTOR_CHANGE:
        return (f"{start} no last vector changes",)
    mean, largest = (percent_text(float(each)) for each in (changes.mean(), changes[most_changed]))
    if len(changes) == 1:
        return (f"{start} the last vector changes by {largest} of its length",)
    return (
        f"{start} the last vectors change by {mean} of their length on average, "
        f"that of {quoted_token(trace.tokens, most_changed)} most ({largest}); "
        f"their mean cosine with the original vectors is {share_text(float(cosines.mean()))}",
    )
