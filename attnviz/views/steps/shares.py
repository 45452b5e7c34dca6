"""The softmax of one query as bars: its scores, exp of each, and the weights they become."""

from __future__ import annotations

import math

import numpy as np

from attnviz.cells import unmasked
from attnviz.views.grids.columns import ColumnRow, Columns
from attnviz.views.grids.numbers import MINUS_INFINITY
from attnviz.views.grids.scales import Scale, centred
from attnviz.views.reading import in_quotes
from attnviz.views.steps.scene import Scene
from attnviz.wording.numbers import percent
from attnviz.wording.sums import SHIFTED

ROUNDING = 1e-4  # weights that were rounded add up to so little less or more than 1
MOST_COLUMNS = 20  # of more neither names nor numbers could be read


def columns_of_softmax(here: Scene) -> Columns | None:
    """Three rows of bars, if one row of weights alone is asked for, and each is the softmax's."""
    if here.asked.query is None or len(here.shown_heads) > 1 or here.layer.mistake:
        return None
    (head,) = here.shown_heads
    names, scores, weights = _shared_out(here, head)
    visible = [score for score in scores if math.isfinite(score)]
    if len(names) > MOST_COLUMNS or not visible:
        return None
    written = here.style.of(*visible)
    shift = written.printed(max(visible)) if max(map(abs, visible)) > SHIFTED else 0.0
    exps = [math.exp(score - shift) for score in scores]
    less = f" {'−' if shift > 0 else '+'} {written(abs(shift))}" if shift else ""
    scale = here.weights("weights", "softmax")[0].scale
    sums = math.fsum(exps), math.fsum(weights)
    return Columns(
        names,
        (
            ColumnRow(
                "score",
                tuple(score if math.isfinite(score) else None for score in scores),
                tuple(written(s) if math.isfinite(s) else MINUS_INFINITY for s in scores),
                centred("score", unmasked(np.array([visible]))),
            ),
            _row(here, f"exp(score{less})", exps, sums[0], Scale("exp", 0, scale.high * sums[0])),
            _row(here, "weight", weights, sums[1], scale),
        ),
    )


def _row(here: Scene, name: str, values: list[float], total: float, scale: Scale) -> ColumnRow:
    write = here.style.of(*values)
    of_all = "1" if abs(total - 1) < ROUNDING else write(total)
    return ColumnRow(name, tuple(values), tuple(map(write, values)), scale, f"sum {of_all}")


def _shared_out(here: Scene, head: int) -> tuple[tuple[str, ...], list[float], list[float]]:
    """The keys by name, with their scores and weights; and the sink, which takes its share."""
    names = tuple(here.name(here.keys, key) for key in range(len(here.keys)))
    scores, weights = here.row("exponents", head), here.row("weights", head)
    if here.layer.attended.sink is None:
        return names, scores, weights
    sink = here.layer.attended.sink[head].item()
    return (*names, "(sink)"), [*scores, sink], [*weights, 1 - math.fsum(weights)]


def finding_of_softmax(here: Scene, columns: Columns | None) -> str:
    """What the highest score becomes, if one score is the highest."""
    if columns is None:
        return ""
    scores, _, weights = columns.rows
    best = max(range(len(columns.names)), key=lambda place: weights.values[place] or 0.0)
    tied = scores.written.count(scores.written[best]) > 1
    if tied or len(columns.names) == 1 or best == len(here.keys):
        return ""
    share = percent(weights.values[best] or 0.0)
    name = in_quotes(here.keys, best)
    return f"Softmax: {name} scores highest and gets {share} of the attention"
