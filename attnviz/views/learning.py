"""Learning in several ways, as what can be shown of it: curves, what each way needs, a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.analysis.aspects import TRAINING_ASPECTS
from attnviz.analysis.learning import Learning, LearningWay
from attnviz.analysis.measures import QUANTILE_BAND, QUANTILES_BY_NAME
from attnviz.cells import StoredCells
from attnviz.views.conclusions.learning import (
    accuracy_goal_text,
    additional_sentences,
    head_width_sentence,
    initial_scores_sentence,
    learning_sentence,
    learning_title,
    steps_at_quantile,
    way_label,
)
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import colorless_scale
from attnviz.views.settings_line import ATTENTION_PART, NORM_TEXTS, settings_line
from attnviz.views.view import Group, TableData, TableLines, View, WordColumns, build_page
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import counted

LOSS_TITLE = "loss"
MAX_CURVE_ROWS = 8  # of a table of curves
VARYING_TRAINING_SETTINGS = {  # what differs is no setting of the whole
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
    line, finding = _training_settings_line(learning), learning_sentence(learning)
    closing_sentences = [
        head_width_sentence(learning),
        initial_scores_sentence(learning),
        finding,
        *additional_sentences(learning),
    ]
    curves = training_curves(learning)
    short_curves = [_with_few_steps(each) for each in curves]
    return View(
        title=f"learning {learning.task.name}, compared by {learning.by}",
        headline=learning_title(learning),
        settings=line,
        screen=build_page(
            [Group("ways", _training_tables(learning)), Group("curves", tuple(short_curves))], line
        ),
        picture=build_page([Group("curves", tuple(curves))], line),
        closing=tuple(each for each in closing_sentences if each),
        data=_training_data(learning, finding),
        provenance=replace(learning.provenance, command=command),
        command=learning.command,
    )


def _training_settings_line(learning: Learning) -> str:
    """What all ways have in common, and how they are taught."""
    seeds, choices = learning.seeds, learning.choices
    seeds_text = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    without = (ATTENTION_PART, *VARYING_TRAINING_SETTINGS[learning.by], "tokens", "model", "seed")
    parts = (
        f"the same in all: {TRAINING_ASPECTS[learning.by].fixed}",
        settings_line(learning.base, without=without),
        *_block_settings(learning),
        f"batches of {choices.batch}",
        f"AdamW, rate {choices.rate:g}",
        seeds_text,
    )
    return " · ".join(part for part in parts if part)


def _block_settings(learning: Learning) -> Iterator[str]:
    """Where either is compared, the other: how many there are, and where their norms stand."""
    if learning.by == "norm":
        yield counted(learning.settings.layers or 1, "layer")
    if learning.by == "layers":
        yield NORM_TEXTS[learning.settings.norm]


def training_curves(learning: Learning) -> list[Curves]:
    """A panel for what is right, and one for the loss; a line for each way.

    From the first step on: what there is before it, the first loss tells.
    """
    steps = tuple(float(step) for step in learning.steps[1:])
    panels = {
        f"{learning.task.asked}s that are right": [way.accuracy for way in learning.ways],
        LOSS_TITLE: [way.loss for way in learning.ways],
    }
    names = [way_label(learning.by, way.name) for way in learning.ways]
    return [
        Curves(
            title,
            "step",
            steps,
            tuple(
                _training_curve(name, values[1:])
                for name, values in zip(names, way_values, strict=True)
            ),
            note=_seeds_note(learning),
            x_ticks=_step_ticks(learning.last),
            reach=0.0 if title == LOSS_TITLE else 1.0,
        )
        for title, way_values in panels.items()
    ]


def _step_ticks(last_step: int) -> tuple[float, ...]:
    """Round numbers of steps, and the last one."""
    round_ticks = (digit * 10**power for power in range(len(str(last_step))) for digit in (1, 2, 5))
    return (*(float(tick) for tick in round_ticks if tick < last_step), float(last_step))


def _seeds_note(learning: Learning) -> str:
    seeds = len(learning.seeds)
    if seeds == 1:
        return "one seed"
    return f"median of {seeds:,} seeds, band from {percent_text(QUANTILE_BAND[0])} to {percent_text(QUANTILE_BAND[1])}"


def _training_curve(name: str, repeats: Float[np.ndarray, "look seed"]) -> Curve:
    low, middle, high = _seed_bands(repeats)
    return Curve(name, middle, low, high)


def _seed_bands(repeats: Float[np.ndarray, "look seed"]) -> Float[np.ndarray, "quantile look"]:
    """Low, middle and high of the seeds whose loss is a number; NaN where none is."""
    is_finite = np.isfinite(repeats)
    bands = np.full((3, len(repeats)), np.nan)
    for look in np.flatnonzero(is_finite.any(1)):
        bands[:, look] = np.quantile(
            repeats[look, is_finite[look]], [QUANTILE_BAND[0], 0.5, QUANTILE_BAND[1]]
        )
    return bands


def _with_few_steps(curves: Curves) -> Curves:
    """Of a table a few rows, each at about twice the steps of the one before."""
    step_values = np.array(curves.x_values)
    target_steps = step_values[-1] / 2.0 ** np.arange(MAX_CURVE_ROWS)
    row_indices = sorted({int(abs(step_values - each).argmin()) for each in target_steps})
    lines = tuple(
        replace(
            each,
            middle=each.middle[row_indices],
            low=each.low[row_indices],
            high=each.high[row_indices],
        )
        for each in curves.lines
    )
    return replace(curves, x_values=tuple(step_values[row_indices].tolist()), lines=lines)


def _training_tables(learning: Learning) -> tuple[Grid, ...]:
    """What each way needs, and where it begins and ends."""
    return _needed_steps_table(learning), _start_and_end_table(learning)


def _needed_steps_table(learning: Learning) -> Grid:
    """In how many seeds it is learned, and after how many steps: nothing, if it is not."""
    low, high = (percent_text(share) for share in QUANTILE_BAND)
    reached = [learning.reached(way) for way in learning.ways]
    rows = [
        [
            np.isfinite(steps_reached).sum(),
            steps_at_quantile(steps_reached, QUANTILE_BAND[0]),
            np.median(steps_reached),
            steps_at_quantile(steps_reached, QUANTILE_BAND[1]),
        ]
        for steps_reached in reached
    ]
    values = np.array(rows, dtype=float)
    values[np.isinf(values)] = np.nan
    has_halves = bool((values % 1 == 0.5).any())  # the median of an even number of seeds
    return Grid(
        f"steps until {accuracy_goal_text(learning.until, learning.task.asked)}",
        _ways_axis(learning),
        plain_axis("measure", ["seeds", low, "median", high]),
        StoredCells(values, np.zeros(values.shape, dtype=bool)),
        colorless_scale("steps"),
        note=f"seeds = in how many of {len(learning.seeds):,} it is learned",
        decimals=int(has_halves),
    )


def _start_and_end_table(learning: Learning) -> Grid:
    last = counted(learning.last, "step")
    rows = [
        [
            *(float(np.median(getattr(way.beginning, name))) for name in ("scores", "gradient")),
            *(float(_seed_bands(series[-1:])[1, 0]) for series in (way.accuracy, way.loss)),
        ]
        for way in learning.ways
    ]
    values = np.array(rows)
    return Grid(
        f"before any step, and after {last}",
        _ways_axis(learning),
        plain_axis("measure", ["scores", "grad.", "right", "loss"]),
        StoredCells(values, np.zeros(values.shape, dtype=bool)),
        colorless_scale("measure"),
        note="medians · scores = spread of the scores in the first layer before any step · grad. "
        "= size of the softmax's gradient then, near 0 when saturated · right (on held-out "
        "sentences) and loss: at the end",
    )


def _ways_axis(learning: Learning) -> Any:
    return plain_axis("way", [way_label(learning.by, way.name) for way in learning.ways])


def _training_data(learning: Learning, conclusion: str) -> TableData:
    """Everything; and a line for each way, seed and look."""
    header = ("way", "seed", "step", "accuracy", "loss")
    return TableData(
        partial(_training_document, learning, conclusion),
        header,
        partial(_training_lines, learning),
    )


def _training_document(learning: Learning, conclusion: str) -> dict[str, Any]:
    return {
        "by": learning.by,
        "task": learning.task.name,
        "seed": learning.seeds[0],
        "repeats": len(learning.seeds),
        "taught": learning.choices.in_a_file,
        "conclusion": conclusion,
        "steps": learning.steps,
        "ways": [_way_document(learning, way) for way in learning.ways],
    }


def _way_document(learning: Learning, way: LearningWay) -> dict[str, Any]:
    steps_reached = learning.reached(way)
    return {
        "name": way.name,
        "head_dim": way.width,
        "settings": asdict(way.settings),
        "before": {name: value.tolist() for name, value in vars(way.beginning).items()},
        "learned_after": [int(value) if np.isfinite(value) else None for value in steps_reached],
        **{name: _bands_and_seeds(getattr(way, name)) for name in ("accuracy", "loss")},
    }


def _bands_and_seeds(repeats: Float[np.ndarray, "look seed"]) -> dict[str, Any]:
    """Of all seeds together, and of each."""
    bands = zip(QUANTILES_BY_NAME, _seed_bands(repeats), strict=True)
    return {
        **{name: [_finite_or_none(number) for number in band] for name, band in bands},
        "of_each_seed": [[_finite_or_none(number) for number in seed] for seed in repeats.T],
    }


def _training_lines(learning: Learning) -> Iterator[TableLines]:
    steps = WordColumns((tuple(str(step) for step in learning.steps),))
    for way in learning.ways:
        for seed_index, seed in enumerate(learning.seeds):
            columns = (way.accuracy[:, seed_index], way.loss[:, seed_index])
            numbers = tuple([_finite_or_none(number) for number in column] for column in columns)
            yield TableLines((way.name, seed), steps, numbers)


def _finite_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
