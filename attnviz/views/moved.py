"""What heads that are off change of the vectors that a trained model makes in the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnviz.analysis.moved import changes_of
from attnviz.cells import EVERYTHING, unmasked
from attnviz.traces.trace import Trace
from attnviz.traces.weights import array
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale, colorless, rounded_up
from attnviz.views.reading import token_axis
from attnviz.views.switched_off import names_off, without_heads
from attnviz.wording.numbers import fixed_text, percent, share_text
from attnviz.wording.words import isolated

NOTE = (
    "change = length of the difference / length of the last vector with all heads · cosine = of "
    "both"
)
STILL = 5e-4  # of its length: a vector that moves less is not said to move


def moved_table(trace: Trace) -> Grid | None:
    """How far the last vector of each token moves, and turns; None where all heads are on."""
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
    """The same as bars, the token first whose vector moves most."""
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
    """The same in a sentence, of a model that makes vectors and answers nothing."""
    made = trace.outputs
    if made is None or made.with_all_heads is None or trace.prediction is not None:
        return ()
    changes, cosines = changes_of(made.with_all_heads, made.vectors)
    start, most = f"Without {names_off(trace)}", int(changes.argmax())
    if float(changes[most]) < STILL:
        return (f"{start} no vector changes",)
    where = f'"{isolated(trace.tokens.labels[most])}" ({most + 1})'
    if len(changes) == 1:
        return (f"{start} the last vector changes by {percent(float(changes[0]))} of its length",)
    return (
        f"{start} the last vectors change by {percent(float(changes.mean()))} of their length on "
        f"average, most that of {where} ({percent(float(changes[most]))}); their mean cosine with "
        f"the vectors before is {share_text(float(cosines.mean()))}",
    )
