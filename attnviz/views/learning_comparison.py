"""The View of a Learning: trainings that differ in one setting, over several seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.analysis.aspects import TRAINING_ASPECTS
from attnviz.analysis.learning_comparison import Learning, LearningWay
from attnviz.analysis.measures import QUANTILE_BAND, QUANTILES_BY_NAME
from attnviz.cells import unmasked_cells
from attnviz.views.conclusions.learning_findings import (
    accuracy_goal_text,
    additional_sentences,
    head_width_sentence,
    initial_scores_sentence,
    learning_sentence,
    learning_title,
    steps_at_quantile,
    way_label,
)
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import colorless_scale
from attnviz.views.learned.head_roles import nearest_halvings
from attnviz.views.settings_line import ATTENTION_PART, NORM_TEXTS, settings_line
from attnviz.views.view import Group, TableData, TableLines, View, WordColumns, build_page
from attnviz.wording.numbers import number_or_none, percent_text
from attnviz.wording.words import counted

MAX_CURVE_ROWS = 8  # rows of the table of curves on a screen
VARYING_TRAINING_SETTINGS = {  # for each aspect, the settings that differ and are left out
    "scale": ("scale",),
    "heads": ("heads",),
    "layers": ("layers",),
    "positions": ("positions",),
    "variant": ("heads", "scale", "mask"),
    "norm": ("layers",),
    "dim": ("dim", "heads"),
}


def view(learning: Learning, *, command: str | None = None) -> View:
    """Return the View of a Learning: accuracy and loss during training for each compared
    alternative, as medians over the seeds with a band.

    `command` is the command line that the user typed, recorded in files.
    """
    line, finding = _training_settings_line(learning), learning_sentence(learning)
    first_sentences = head_width_sentence(learning), initial_scores_sentence(learning)
    curves = training_curves(learning)
    tables = _needed_steps_table(learning), _start_and_end_table(learning)
    short_curves = Group("curves", tuple(map(_with_few_steps, curves)))
    return View(
        title=f"learning {learning.task.name}, compared by {learning.by}",
        headline=learning_title(learning),
        settings=line,
        screen=build_page([Group("ways", tables), short_curves], line),
        picture=build_page([Group("curves", tuple(curves))], line),
        closing=tuple(filter(None, (*first_sentences, finding, *additional_sentences(learning)))),
        data=TableData(
            "learning-comparison",
            partial(_training_document, learning, finding),
            ("way", "seed", "step", "accuracy", "loss"),
            partial(_training_lines, learning),
        ),
        provenance=replace(learning.provenance, command=command),
        command=learning.command,
    )


def _training_settings_line(learning: Learning) -> str:
    """Return the line of the settings that all compared alternatives share, and how they are
    trained.
    """
    seeds, choices = learning.seeds, learning.choices
    seeds_text = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    without = (ATTENTION_PART, *VARYING_TRAINING_SETTINGS[learning.by], "tokens", "model", "seed")
    parts = (
        f"the same in all: {TRAINING_ASPECTS[learning.by].shared_parts}",
        settings_line(learning.base, without=without),
        counted(learning.settings.layers or 1, "layer") if learning.by == "norm" else "",
        NORM_TEXTS[learning.settings.norm] if learning.by == "layers" else "",
        f"batches of {choices.batch}",
        f"AdamW, rate {choices.rate:g}",
        seeds_text,
    )
    return " · ".join(filter(None, parts))


def training_curves(learning: Learning) -> list[Curves]:
    """Return a chart of the accuracy and one of the loss, each with a line for each compared
    alternative.

    They begin at the first training step, because the loss before it would set the scale.
    """
    steps = tuple(float(step) for step in learning.steps[1:])
    last, note = learning.last, _seeds_note(learning)
    round_ticks = (digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5))
    ticks = (*(float(tick) for tick in round_ticks if tick < last), float(last))
    panels = []
    for name, title in (
        ("accuracy", f"{learning.task.answer_noun}s that are right"),
        ("loss", "loss"),
    ):
        lines = []
        for way in learning.ways:
            low, middle, high = _seed_bands(getattr(way, name)[1:])
            lines.append(Curve(way_label(learning.by, way.name), middle, low, high))
        reach = 0.0 if name == "loss" else 1.0
        panels.append(
            Curves(title, "step", steps, tuple(lines), note=note, x_ticks=ticks, reach=reach)
        )
    return panels


def _seeds_note(learning: Learning) -> str:
    """Return a note on the number of seeds and what line and band are: `median of 8 seeds, band
    from …`.
    """
    seeds = len(learning.seeds)
    if seeds == 1:
        return "one seed"
    low, high = map(percent_text, QUANTILE_BAND)
    return f"median of {seeds:,} seeds, band from {low} to {high}"


def _seed_bands(repeats: Float[np.ndarray, "look seed"]) -> Float[np.ndarray, "quantile look"]:
    """Return the low quantile, the median and the high quantile over the seeds whose value is
    finite; NaN where none is.
    """
    is_finite = np.isfinite(repeats)
    bands = np.full((3, len(repeats)), np.nan)
    shares = [*QUANTILES_BY_NAME.values()]
    for look in np.flatnonzero(is_finite.any(1)):
        bands[:, look] = np.quantile(repeats[look, is_finite[look]], shares)
    return bands


def _with_few_steps(curves: Curves) -> Curves:
    """Return the curves at no more than MAX_CURVE_ROWS steps, each about twice the step
    before it.
    """
    steps = np.array(curves.x_values)
    rows = sorted(nearest_halvings(steps, MAX_CURVE_ROWS))
    lines = tuple(
        replace(line, middle=line.middle[rows], low=line.low[rows], high=line.high[rows])
        for line in curves.lines
    )
    return replace(curves, x_values=tuple(steps[rows].tolist()), lines=lines)


def _needed_steps_table(learning: Learning) -> Grid:
    """Return a table of how many seeds of each alternative learn the task, and quantiles of the
    number of steps they need; NaN where that many seeds never learn it.
    """
    low, high = (percent_text(share) for share in QUANTILE_BAND)
    rows = []
    for steps in map(learning.reached, learning.ways):
        fast, slow = (steps_at_quantile(steps, share) for share in QUANTILE_BAND)
        rows.append([np.isfinite(steps).sum(), fast, np.median(steps), slow])
    values = np.array(rows, dtype=float)
    values[np.isinf(values)] = np.nan
    has_halves = bool((values % 1 == 0.5).any())  # in medians of an even number of seeds
    return Grid(
        f"steps until {accuracy_goal_text(learning.until, learning.task.answer_noun)}",
        _ways_axis(learning),
        plain_axis("measure", ["seeds", low, "median", high]),
        unmasked_cells(values),
        colorless_scale("steps"),
        note=f"seeds = in how many of {len(learning.seeds):,} it is learned",
        decimals=int(has_halves),
    )


def _start_and_end_table(learning: Learning) -> Grid:
    """Return a table of medians over seeds for each alternative: spread of the scores and softmax
    gradient before training, accuracy and loss after it.
    """
    last = counted(learning.last, "step")
    rows = [
        [
            *(float(np.median(getattr(way.beginning, name))) for name in ("scores", "gradient")),
            *(float(_seed_bands(series[-1:])[1, 0]) for series in (way.accuracy, way.loss)),
        ]
        for way in learning.ways
    ]
    return Grid(
        f"before any step, and after {last}",
        _ways_axis(learning),
        plain_axis("measure", ["scores", "grad.", "right", "loss"]),
        unmasked_cells(np.array(rows)),
        colorless_scale("measure"),
        note="medians · scores = spread of the scores in the first layer before any step · grad. "
        "= size of the softmax's gradient then, near 0 when saturated · right (on held-out "
        "sentences) and loss: at the end",
    )


def _ways_axis(learning: Learning) -> Axis:
    return plain_axis("way", [way_label(learning.by, way.name) for way in learning.ways])


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
    """Return one compared alternative as JSON data: settings, state before training, step of
    success by seed (None: never), accuracy and loss.
    """
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
    """Return the quantiles over the seeds by name, and `of_each_seed` the numbers of each seed,
    with None for numbers that are not finite.
    """
    bands = zip(QUANTILES_BY_NAME, _seed_bands(repeats), strict=True)
    return {
        **{name: _known_numbers(band) for name, band in bands},
        "of_each_seed": [*map(_known_numbers, repeats.T)],
    }


def _training_lines(learning: Learning) -> Iterator[TableLines]:
    """Yield the lines of the table for each compared alternative and seed: step, accuracy
    and loss.
    """
    steps = WordColumns((tuple(str(step) for step in learning.steps),))
    for way in learning.ways:
        for seed_index, seed in enumerate(learning.seeds):
            columns = (way.accuracy[:, seed_index], way.loss[:, seed_index])
            yield TableLines((way.name, seed), steps, tuple(map(_known_numbers, columns)))


def _known_numbers(column: Float[np.ndarray, "number"]) -> list[float | None]:
    return [number_or_none(number) for number in column.tolist()]
