"""How the last vectors of a trained model change when heads are switched off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnviz.analysis.measures import changes_of
from attnviz.cells import EVERYTHING, unmasked
from attnviz.traces.trace import Trace
from attnviz.traces.weights import array
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale, colorless, rounded_up
from attnviz.views.notes import names_off, without_heads
from attnviz.views.reading import in_quotes, token_axis
from attnviz.wording.numbers import fixed_text, percent, share_text

NOTE = (
    "change = length of the difference / length of the last vector with all heads on · cosine = "
    "that of the angle between the two vectors"
)
STILL = 5e-4  # of its length: a smaller change counts as none


def moved_table(trace: Trace) -> Grid | None:
    """How much the last vector of each token changes and turns; None where all heads are on."""
    made = trace.outputs
    if made is None or made.with_all_heads is None:
        return None
    changes, cosines = changes_of(made.with_all_heads, made.vectors)
    return Grid(
        f"last vectors{without_heads(trace)}",
        token_axis("token", trace.tokens),
        plain_axis("measure", ["change", "cosine"]),
        unmasked(np.stack([array(changes), array(cosines)], axis=1)),
        colorless("change"),
        note=NOTE,
        decimals=2,
    )


def moved_ranked(trace: Trace) -> Ranked | None:
    """The same as bars, the token whose vector changes most first."""
    table = moved_table(trace)
    if table is None:
        return None
    numbers = table.cells.window(EVERYTHING, EVERYTHING).values
    order = (-numbers[:, 0]).argsort(kind="stable")
    changes, cosines = numbers[order].T
    reach = rounded_up(float(changes[0]))
    grid = replace(
        table,
        rows=plain_axis("token", [table.rows.names[place] for place in order]),
        columns=plain_axis("measure", ["change"]),
        cells=unmasked(changes[:, None]),
        scale=Scale("change", 0.0, reach),
    )
    return Ranked(grid, tuple(f"cosine {fixed_text(cosine, 2)}" for cosine in cosines))


def moved(trace: Trace) -> tuple[str, ...]:
    """The same in a sentence, for a model without answers."""
    made = trace.outputs
    if made is None or made.with_all_heads is None or trace.prediction is not None:
        return ()
    changes, cosines = changes_of(made.with_all_heads, made.vectors)
    start, most = f"Without {names_off(trace)}", int(changes.argmax())
    if float(changes[most]) < STILL:
        return (f"{start} no last vector changes",)
    if len(changes) == 1:
        return (f"{start} the last vector changes by {percent(float(changes[0]))} of its length",)
    return (
        f"{start} the last vectors change by {percent(float(changes.mean()))} of their length on "
        f"average, that of {in_quotes(trace.tokens, most)} most ({percent(float(changes[most]))}); "
        f"their mean cosine with the original vectors is {share_text(float(cosines.mean()))}",
    )
