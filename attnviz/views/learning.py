"""Learning in several ways, as what can be shown of it: curves, what each way needs, a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.analysis.aspects import LEARNED
from attnviz.analysis.learning import Learning, Way
from attnviz.analysis.measures import BAND, QUANTILES
from attnviz.cells import Whole
from attnviz.views.conclusions.learning import (
    called,
    in_short,
    on_beginning,
    on_learning,
    on_width,
    right_text,
    steps_at,
    told_besides,
)
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import colorless
from attnviz.views.settings_line import KIND, NORM, settings_line
from attnviz.views.view import Data, Group, Lines, View, Words, page_of
from attnviz.wording.numbers import percent
from attnviz.wording.words import counted

LOSS = "loss"
ROWS = 8  # of a table of curves
VARYING = {  # what differs is no setting of the whole
    "scale": ("scale",),
    "heads": ("heads",),
    "layers": ("layers",),
    "positions": ("positions",),
    "variant": ("heads", "scale", "mask"),
    "norm": ("layers",),
    "dim": ("dim", "heads"),
}


def view(learning: Learning, *, command: str | None = None) -> View:
    """What becomes of the loss and of what is right, in the median of the seeds, with a band.

    `command` is the one that was typed.
    """
    line, concluded = _settings_line(learning), on_learning(learning)
    told = [on_width(learning), on_beginning(learning), concluded, *told_besides(learning)]
    curves = curves_of(learning)
    few = [_thinned(each) for each in curves]
    return View(
        title=f"learning {learning.task.name}, compared by {learning.by}",
        headline=in_short(learning),
        settings=line,
        screen=page_of([Group("ways", _tables(learning)), Group("curves", tuple(few))], line),
        picture=page_of([Group("curves", tuple(curves))], line),
        closing=tuple(each for each in told if each),
        data=_data(learning, concluded),
        provenance=replace(learning.provenance, command=command),
        command=learning.command,
    )


def _settings_line(learning: Learning) -> str:
    """What all ways have in common, and how they are taught."""
    seeds, choices = learning.seeds, learning.choices
    numbered = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    without = (KIND, *VARYING[learning.by], "tokens", "model", "seed")
    parts = (
        f"the same in all: {LEARNED[learning.by].fixed}",
        settings_line(learning.base, without=without),
        *_of_blocks(learning),
        f"batches of {choices.batch}",
        f"AdamW, rate {choices.rate:g}",
        numbered,
    )
    return " · ".join(part for part in parts if part)


def _of_blocks(learning: Learning) -> Iterator[str]:
    """Where either is compared, the other: how many there are, and where their norms stand."""
    if learning.by == "norm":
        yield counted(learning.settings.layers or 1, "layer")
    if learning.by == "layers":
        yield NORM[learning.settings.norm]


def curves_of(learning: Learning) -> list[Curves]:
    """A panel for what is right, and one for the loss; a line for each way.

    From the first step on: what there is before it, the first loss tells.
    """
    steps = tuple(float(step) for step in learning.steps[1:])
    panels = {
        f"{learning.task.asked}s that are right": [way.accuracy for way in learning.ways],
        LOSS: [way.loss for way in learning.ways],
    }
    names = [called(learning.by, way.name) for way in learning.ways]
    return [
        Curves(
            title,
            "step",
            steps,
            tuple(_curve(name, each[1:]) for name, each in zip(names, of_ways, strict=True)),
            note=_note(learning),
            named=_named(learning.last),
            reach=0.0 if title == LOSS else 1.0,
        )
        for title, of_ways in panels.items()
    ]


def _named(last: int) -> tuple[float, ...]:
    """Round numbers of steps, and the last one."""
    rounds = (digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5))
    return (*(float(each) for each in rounds if each < last), float(last))


def _note(learning: Learning) -> str:
    seeds = len(learning.seeds)
    if seeds == 1:
        return "one seed"
    return f"median of {seeds:,} seeds, band from {percent(BAND[0])} to {percent(BAND[1])}"


def _curve(name: str, repeats: Float[np.ndarray, "look seed"]) -> Curve:
    low, middle, high = _bands(repeats)
    return Curve(name, middle, low, high)


def _bands(repeats: Float[np.ndarray, "look seed"]) -> Float[np.ndarray, "quantile look"]:
    """Low, middle and high of the seeds whose loss is a number; NaN where none is."""
    there = np.isfinite(repeats)
    found = np.full((3, len(repeats)), np.nan)
    for look in np.flatnonzero(there.any(1)):
        found[:, look] = np.quantile(repeats[look, there[look]], [BAND[0], 0.5, BAND[1]])
    return found


def _thinned(curves: Curves) -> Curves:
    """Of a table a few rows, each at about twice the steps of the one before."""
    places = np.array(curves.places)
    wanted = places[-1] / 2.0 ** np.arange(ROWS)
    kept = sorted({int(abs(places - each).argmin()) for each in wanted})
    lines = tuple(
        replace(each, middle=each.middle[kept], low=each.low[kept], high=each.high[kept])
        for each in curves.lines
    )
    return replace(curves, places=tuple(places[kept].tolist()), lines=lines)


def _tables(learning: Learning) -> tuple[Grid, ...]:
    """What each way needs, and where it begins and ends."""
    return _needed(learning), _ends(learning)


def _needed(learning: Learning) -> Grid:
    """In how many seeds it is learned, and after how many steps: nothing, if it is not."""
    low, high = (percent(share) for share in BAND)
    reached = [learning.reached(way) for way in learning.ways]
    rows = [
        [np.isfinite(each).sum(), steps_at(each, BAND[0]), np.median(each), steps_at(each, BAND[1])]
        for each in reached
    ]
    values = np.array(rows, dtype=float)
    values[np.isinf(values)] = np.nan
    halves = bool((values % 1 == 0.5).any())  # the median of an even number of seeds
    return Grid(
        f"steps until {right_text(learning.until, learning.task.asked)}",
        _of_ways(learning),
        plain_axis("measure", ["seeds", low, "median", high]),
        Whole(values, np.zeros(values.shape, dtype=bool)),
        colorless("steps"),
        note=f"seeds = in how many of {len(learning.seeds):,} it is learned",
        decimals=int(halves),
    )


def _ends(learning: Learning) -> Grid:
    last = counted(learning.last, "step")
    rows = [
        [
            *(float(np.median(getattr(way.beginning, name))) for name in ("scores", "gradient")),
            *(float(_bands(each[-1:])[1, 0]) for each in (way.accuracy, way.loss)),
        ]
        for way in learning.ways
    ]
    values = np.array(rows)
    return Grid(
        f"before any step, and after {last}",
        _of_ways(learning),
        plain_axis("measure", ["scores", "grad.", "right", "loss"]),
        Whole(values, np.zeros(values.shape, dtype=bool)),
        colorless("measure"),
        note="medians · scores = spread of the scores in the first layer before any step · grad. "
        "= size of the softmax's gradient then, near 0 when saturated · right (on held-out "
        "sentences) and loss: at the end",
    )


def _of_ways(learning: Learning) -> Any:
    return plain_axis("way", [called(learning.by, way.name) for way in learning.ways])


def _data(learning: Learning, conclusion: str) -> Data:
    """Everything; and a line for each way, seed and look."""
    header = ("way", "seed", "step", "accuracy", "loss")
    return Data(partial(_document, learning, conclusion), header, partial(_lines, learning))


def _document(learning: Learning, conclusion: str) -> dict[str, Any]:
    return {
        "by": learning.by,
        "task": learning.task.name,
        "seed": learning.seeds[0],
        "repeats": len(learning.seeds),
        "taught": learning.choices.in_a_file,
        "conclusion": conclusion,
        "steps": learning.steps,
        "ways": [_way(learning, way) for way in learning.ways],
    }


def _way(learning: Learning, way: Way) -> dict[str, Any]:
    reached = learning.reached(way)
    return {
        "name": way.name,
        "head_dim": way.width,
        "settings": asdict(way.settings),
        "before": {name: each.tolist() for name, each in vars(way.beginning).items()},
        "learned_after": [int(each) if np.isfinite(each) else None for each in reached],
        **{name: _both(getattr(way, name)) for name in ("accuracy", "loss")},
    }


def _both(repeats: Float[np.ndarray, "look seed"]) -> dict[str, Any]:
    """Of all seeds together, and of each."""
    bands = zip(QUANTILES, _bands(repeats), strict=True)
    return {
        **{name: [_number(each) for each in band] for name, band in bands},
        "of_each_seed": [[_number(each) for each in seed] for seed in repeats.T],
    }


def _lines(learning: Learning) -> Iterator[Lines]:
    steps = Words((tuple(str(step) for step in learning.steps),))
    for way in learning.ways:
        for place, seed in enumerate(learning.seeds):
            columns = (way.accuracy[:, place], way.loss[:, place])
            numbers = tuple([_number(each) for each in column] for column in columns)
            yield Lines((way.name, seed), steps, numbers)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
