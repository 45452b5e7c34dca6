"""The View of a model that learned: heads and curves at several moments, and data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.learning.progress import Moment
from attnviz.learning.training import Learned
from attnviz.traces.settings import HeadId, format_head_id
from attnviz.traces.trace import Provenance
from attnviz.views.conclusions.learning_findings import (
    MIN_CLEAR_SHARE,
    moment_title,
    training_sentence,
)
from attnviz.views.grids.axes import AXES_NOTE, ROW_SUM_NOTE, plain_axis
from attnviz.views.grids.description import caption, describe
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Curve, Curves, Grid, cells_without_nan
from attnviz.views.grids.live_model import LiveModel
from attnviz.views.grids.long_map import first_round_number
from attnviz.views.grids.scales import Scale, colorless_scale
from attnviz.views.head_vectors import read_head_vectors
from attnviz.views.learned.head_roles import LearnedHeads, moment_measures, nearest_halvings
from attnviz.views.live_page import build_live_model
from attnviz.views.settings_line import ATTENTION_PART, settings_line
from attnviz.views.trace import part_groups
from attnviz.views.trace_data import lazy_scores
from attnviz.views.view import (
    Excerpt,
    Group,
    Page,
    PanelTitle,
    Shot,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
)
from attnviz.wording.commands import Command
from attnviz.wording.numbers import number_or_none
from attnviz.wording.words import counted

MAX_PAGE_MOMENTS, MAX_PAGE_HEADS = 5, 4
MAX_TOKEN_ROWS = 12  # moments in a table of what one token attends to
MAX_HISTORY_ROWS = 8
MAX_FILM_MOMENTS, MAX_FILM_HEADS = 60, 16
MAX_ROUND_TICKS = 4  # intervals between labelled steps on an axis
MAX_LIVE_BYTES = 220_000  # of the parameters in a page that computes
BYTES_OF_A_NUMBER = 3.8  # of the last moment, in 24 bits, packed
BYTES_BY_BITS = {16: 2.7, 8: 1.36}  # of a number of the moments before
FEWEST_MOMENTS = 3  # before the last: if fewer have room in 16 bits, they have 8
STEP_SHARE_OF_FILM = 0.5  # how much of a film's pace follows steps; the rest follows the weights
SCORE_NOTE = "mean share of attention on the right token"


def view(
    learned: Learned,
    *,
    query: int | str | None = None,
    command: str | None = None,
    live: bool = False,
) -> View:
    """Return the View of how a model came to attend as it does; with a query (a word, or a
    position from 0), of how that token did. A `live` page contains the model, and computes it for
    other texts.

    `command` is the command line that the user typed, recorded in files.
    """
    tokens = learned.model.vocabulary.as_read(learned.watched)
    learned_heads = LearnedHeads(learned, None if query is None else tokens.index(query, "query"))
    line, finding = _learned_settings_line(learned_heads), training_sentence(learned)
    frames = film_moments(learned.moments, MAX_FILM_MOMENTS)
    explored, bits = computed_moments(learned) if live else (frames, 0)
    return View(
        title=f"learned {learned.task.name}: {learned.task.about}",
        headline=finding.removesuffix("."),
        settings=line,
        screen=build_page(_learned_screen(learned_heads), line),
        picture=_learned_page(learned_heads, line),
        film=lambda: tuple(_film_shots(learned_heads, frames)),
        slides=lambda: Excerpt(tuple(_learned_slides(learned_heads)), ""),
        closing=(finding, *_rounding_notes(bits, len(explored))),
        head_explorer=partial(explore_learned, learned_heads, explored),
        live=_live_model(learned_heads, explored, bits) if live else None,
        data=build_learned_data(learned_heads, frames, finding),
        provenance=_learned_provenance(learned, learned_heads.trace.provenance, command),
        command=_learned_command(learned, None if query is None else tokens.as_typed(query)),
    )


def _rounding_notes(bits: int, moments: int) -> Iterator[str]:
    """Yield how exact the parameters of earlier moments are, if a page has them roughly."""
    if bits == min(BYTES_BY_BITS) and moments > 1:
        yield f"The page has parameters of earlier steps in {bits} bits: shares differ a little."


def _learned_screen(learned_heads: LearnedHeads) -> list[Group]:
    """Return the groups of a screen: the trained model's weights (with a query, only that token's),
    the final scores of its heads, and a table of the training's history.
    """
    learned = learned_heads.learned
    heads = [head_scores_table(learned_heads)] if learned_heads.reading_scores else []
    if learned_heads.query is None:
        weights = part_groups(learned_heads.trace, ["weights"])
    else:
        reading = learned_heads.heads_grid(learned_heads.all_heads, len(learned.moments) - 1)
        weights = [Group("readings", (reading,))]
    return [*weights, Group("learned", (*heads, history_table(learned_heads)))]


def _learned_page(learned_heads: LearnedHeads, settings: str) -> Page:
    """Return the page of a picture: the heads at a few moments, beside the curves of loss and
    accuracy.
    """
    learned, heads = learned_heads.learned, learned_heads.important_heads(MAX_PAGE_HEADS)
    moments = halving_moments(learned.moments, MAX_PAGE_MOMENTS)
    curves = tuple(learned_curves(learned_heads, moments))
    if learned_heads.query is None:
        group = _moments_group(learned_heads, heads, moments)
        described_panels = group.panels[len(moments) - 1 :: len(moments)]
    else:
        group = _token_history_group(learned_heads, heads)
        described_panels = group.panels
    small_print = caption((*group.panels, *curves), settings)
    return Page(
        (group, Group("curves", curves)), small_print, describe((*described_panels, *curves))
    )


def _moments_group(
    learned_heads: LearnedHeads, heads: Sequence[HeadId], moments: Sequence[int]
) -> Group:
    """Return a group of the weights of heads: a row of panels for each head, a column for each
    moment.
    """
    return Group(
        "heads",
        tuple(learned_heads.head_grid(head, moment) for head in heads for moment in moments),
        kind="course",
        column_count=len(moments),
        panel_titles=tuple(PanelTitle(_moment_title(learned_heads, each)) for each in moments),
        row_titles=tuple(map(learned_heads.head_title, heads)),
    )


def _moment_title(learned_heads: LearnedHeads, moment_index: int) -> str:
    """Return the step and the answer at a moment: `step 313: are 98 %`."""
    step = learned_heads.step_label(moment_index)
    answer = learned_heads.answer_label(moment_index).rpartition(" → ")[2]
    return f"{step}: {answer}" if answer else step


def _token_history_group(learned_heads: LearnedHeads, heads: Sequence[HeadId]) -> Group:
    """Return a group with a panel for each head, in which the followed token has a row for each
    moment.
    """
    moments = halving_moments(learned_heads.learned.moments, MAX_TOKEN_ROWS)
    return Group(
        "readings",
        tuple(learned_heads.token_grid(head, moments) for head in heads),
        kind="course",
        column_count=len(heads),
        panel_titles=tuple(map(learned_heads.head_title, heads)),
    )


def _learned_slides(learned_heads: LearnedHeads) -> Iterator[Group]:
    """Yield the groups for slides: the heads, at the end or as the followed token's history, and
    the charts.
    """
    learned, heads = learned_heads.learned, learned_heads.important_heads(MAX_FILM_HEADS)
    if learned_heads.query is None:
        last = len(learned.moments) - 1
        yield Group("heads", tuple(learned_heads.head_grid(head, last) for head in heads))
    else:
        moments = halving_moments(learned.moments, MAX_TOKEN_ROWS)
        yield Group("heads", tuple(learned_heads.token_grid(head, moments) for head in heads))
    ticks = halving_moments(learned.moments, MAX_PAGE_MOMENTS)
    yield Group("curves", tuple(learned_curves(learned_heads, ticks)))


def _film_shots(learned_heads: LearnedHeads, frames: Sequence[int]) -> Iterator[Shot]:
    """Yield a frame of the film for each of these indices of moments, with the curves drawn up to
    it.
    """
    learned, heads = learned_heads.learned, learned_heads.important_heads(MAX_FILM_HEADS)
    ticks = round_step_ticks(learned.moments[-1].step)
    for index in frames:
        curves = learned_curves(learned_heads, [], index + 1)
        charts = tuple(replace(curve, x_ticks=ticks) for curve in curves)
        group = _film_group(learned_heads, heads, index)
        yield Shot((group, Group("curves", charts)), moment_title(learned, index))


def _film_group(learned_heads: LearnedHeads, heads: Sequence[HeadId], moment_index: int) -> Group:
    """Return the heads at a moment as a group of a film; where all heads are shown, those of a
    layer form a row.
    """
    if learned_heads.query is not None:
        return Group("readings", (learned_heads.heads_grid(heads, moment_index),), kind="course")
    columns = min(len(heads), MAX_PAGE_HEADS)
    if heads == learned_heads.all_heads:
        columns = len(learned_heads.learned.moments[0].weights[0])
    return Group(
        "heads",
        tuple(learned_heads.head_grid(head, moment_index, answers=True) for head in heads),
        kind="course",
        column_count=columns,
        panel_titles=tuple(learned_heads.head_title(head, moment_index) for head in heads),
        ringed_cell=learned_heads.ringed_cell(heads),
    )


def _learned_settings_line(learned_heads: LearnedHeads) -> str:
    """Return one line with the model and the training options that the numbers depend on."""
    learned = learned_heads.learned
    count = sum(parameter.numel() for parameter in learned.model.parameters.values())
    parts = [
        settings_line(learned_heads.trace, without=(ATTENTION_PART, "seed")),
        counted(count, "parameter"),
        f"batch {learned.choices.batch}",
        f"rate {learned.choices.rate:g}",
        f"seed {learned.settings.seed}",
    ]
    return " · ".join(parts)


def _learned_provenance(
    learned: Learned, provenance: Provenance, command: str | None
) -> Provenance:
    """Return the provenance of the trace, changed to hold the training options, the seed and the
    command.
    """
    model_settings = {"model": None, "positions": learned.settings.positions}
    training_settings = {**learned.asked, **learned.choices.in_a_file}
    settings = {**provenance.settings, **model_settings, **training_settings}
    return replace(provenance, settings=settings, command=command, seed=learned.settings.seed)


def _learned_command(learned: Learned, query: str | None) -> Command:
    """Return the Command that trains the same model; options that equal the task's own are left
    out.
    """
    task, task_settings = learned.task, asdict(learned.task.settings)
    setting_items = asdict(learned.settings).items()
    settings = {name: value for name, value in setting_items if value != task_settings[name]}
    choices = learned.choices.in_a_file
    training = {name: value for name, value in choices.items() if value != getattr(task, name)}
    if choices["until"] is None:  # --steps without --until means the same
        training = {"steps": choices["steps"], **training}
        del training["until"]
    text = learned.watched.text
    watch = {} if text == task.vocabulary.cut(task.watch).text else {"watch": text}
    followed = {} if query is None else {"query": query}
    task_options = dict(learned.asked)
    argument = task_options.pop("task", None)
    options = {**task_options, **settings, **training, **watch, **followed}
    return Command(name="learn", argument=argument, options=options)


def learned_curves(
    learned_heads: LearnedHeads, moment_indices: Sequence[int], moment_count: int | None = None
) -> list[Curves]:
    """Return a chart of the loss, and one of accuracy and the scores of the best heads, from 0 to
    1.

    The steps of the moments `moment_indices` are labelled; a film draws only the first
    `moment_count` points.
    """
    learned, reading_scores = learned_heads.learned, learned_heads.reading_scores
    measures = moment_measures(learned.moments)
    steps = tuple(map(float, measures["step"]))
    ticks = tuple(steps[index] for index in moment_indices)
    lines = [
        _moment_curve(scores.task_reading.name, scores.best_scores) for scores in reading_scores
    ]
    shares = (*lines, _moment_curve("accuracy", measures["accuracy"], plain=True))
    title = "scores and accuracy" if reading_scores else "accuracy"
    note = f"{title} {_held_out_text(learned)}"
    if reading_scores:
        note = f"score = {SCORE_NOTE} · {note}"
    loss = (_moment_curve("loss", measures["loss"], plain=True),)
    return [
        Curves("loss", "step", steps, loss, "", ticks, moment_count),
        Curves(title, "step", steps, shares, note, ticks, moment_count, reach=1.0),
    ]


def _moment_curve(name: str, values: np.ndarray, *, plain: bool = False) -> Curve:
    return Curve(name, values, values, values, plain=plain)


def history_table(learned_heads: LearnedHeads) -> Grid:
    """Return a table of loss, accuracy and the scores of the best heads, a row for each of some
    moments.
    """
    learned = learned_heads.learned
    moment_indices = halving_moments(learned.moments, MAX_HISTORY_ROWS)
    columns = moment_measures([learned.moments[index] for index in moment_indices])
    steps = columns.pop("step")
    for scores in learned_heads.reading_scores:
        name = f"{scores.best_head_label} {scores.task_reading.name}"
        columns[name] = scores.best_scores[moment_indices]
    return Grid(
        "on the way",
        plain_axis("step", [f"step {step:,}" for step in steps]),
        plain_axis("measure", [*columns]),
        cells_without_nan(np.stack([*columns.values()], axis=1)),
        colorless_scale("measure"),
        note=f"loss on the sentences learned from · accuracy {_held_out_text(learned)}",
    )


def head_scores_table(learned_heads: LearnedHeads) -> Grid:
    """Return a table of the final scores: a row for each head, a column for each reading."""
    heads, reading_scores = learned_heads.all_heads, learned_heads.reading_scores
    scores = [[reading.scores[-1][head] for reading in reading_scores] for head in heads]
    return Grid(
        "heads",
        plain_axis("head", [format_head_id(*head) for head in heads]),
        plain_axis("reading", [reading.task_reading.name for reading in reading_scores]),
        cells_without_nan(np.array(scores, dtype=float)),
        Scale("score", 0.0, 1.0),
        note=f"{SCORE_NOTE}, {_held_out_text(learned_heads.learned)}",
        decimals=2,
    )


def _held_out_text(learned: Learned) -> str:
    """Return `in 200 held-out sentences`."""
    return f"in {counted(learned.held_out, 'held-out sentence')}"


def build_learned_data(
    learned_heads: LearnedHeads, film_indices: Sequence[int], conclusion: str
) -> TableData:
    """Return the data of a training, computed when it is needed; as a table it has a line for each
    moment.
    """
    scores = (
        f"{format_head_id(*head)} {reading.task_reading.name}"
        for reading in learned_heads.reading_scores
        for head in learned_heads.all_heads
    )
    return TableData(
        "training",
        partial(_learned_document, learned_heads, film_indices, conclusion),
        ("step", "loss", "accuracy", *scores),
        partial(_history_lines, learned_heads),
    )


def _learned_document(
    learned_heads: LearnedHeads, film_indices: Sequence[int], conclusion: str
) -> dict[str, Any]:
    """Return the training as JSON data with arrays; `watched` holds the weights at the moments of
    the film.
    """
    learned, reading_scores = learned_heads.learned, learned_heads.reading_scores
    moments, task = learned.moments, learned.task
    watched = [moments[index] for index in film_indices]
    return {
        "task": {"name": task.name, "about": task.about, "asked": task.answer_noun},
        "ended": learned.ended,
        "conclusion": conclusion,
        "tokens": list(learned.watched.labels),
        "history": {
            **moment_measures(moments),
            "scores": {scores.task_reading.name: scores.scores for scores in reading_scores},
        },
        "heads": [
            {
                "reading": scores.task_reading.name,
                "head": scores.best_head_label,
                "score": scores.final_score,
            }
            for scores in reading_scores
        ],
        "watched": {
            "step": np.array([moment.step for moment in watched]),
            "layers": [
                {"weights": np.stack([moment.weights[layer] for moment in watched])}
                for layer in range(len(moments[-1].weights))
            ],
        },
    }


def _history_lines(learned_heads: LearnedHeads) -> Iterator[TableLines]:
    """Yield the table lines of all moments: step, loss, accuracy and the score of each head for
    each reading.
    """
    steps, *measures = moment_measures(learned_heads.learned.moments).values()
    scores = [each.scores.reshape(len(steps), -1).T for each in learned_heads.reading_scores]
    columns = [*measures, *(column for by_head in scores for column in by_head)]
    numbers = tuple([number_or_none(number) for number in each.tolist()] for each in columns)
    yield TableLines((), WordColumns((tuple(map(str, steps.tolist())),)), numbers)


def explore_learned(learned_heads: LearnedHeads, moment_indices: Sequence[int]) -> HeadExplorer:
    """Return the heads that a reader can choose from: a row for each of these moments, a column for
    each head.

    The first one shown is the head that the title names first, at the last of these moments, with
    the row of the answer; the title of each moment is its own.
    """
    label, head_map = learned_heads.step_label, partial(_head_map, learned_heads)
    maps = [
        (label(index), format_head_id(*head), head_map(head, index))
        for index in moment_indices
        for head in learned_heads.all_heads
    ]
    best_column = learned_heads.all_heads.index(_head_of_title(learned_heads))
    prediction, query = learned_heads.trace.prediction, learned_heads.query
    if query is None and prediction is not None:
        query = prediction.main_position
    return arrange_heads(
        maps,
        ("moment", "head"),
        query=query,
        row_titles=tuple(moment_title(learned_heads.learned, each) for each in moment_indices),
        first=len(maps) - len(learned_heads.all_heads) + best_column,
        note=f"{AXES_NOTE} · {ROW_SUM_NOTE}",
    )


def _head_of_title(learned_heads: LearnedHeads) -> HeadId:
    """Return the head that the title names first: the best at the first clear reading."""
    readings = learned_heads.reading_scores
    clear = [each for each in readings if each.final_score >= MIN_CLEAR_SHARE] or readings[:1]
    return clear[0].best_head_index if clear else learned_heads.all_heads[0]


def _head_map(learned_heads: LearnedHeads, head: HeadId, moment_index: int) -> HeadMap:
    """Return the map of a head's weights at a moment, named with step and answer."""
    grid = learned_heads.head_grid(head, moment_index)
    step, answer = learned_heads.step_label(moment_index), learned_heads.answer_label(moment_index)
    trace, (layer, number) = learned_heads.trace, head
    is_final = moment_index == len(learned_heads.learned.moments) - 1
    final = (trace, trace.layers[layer]) if is_final else None  # of others only weights are kept
    return HeadMap(
        name=" · ".join(filter(None, (format_head_id(*head), step, answer))),
        query_axis=grid.rows,
        key_axis=grid.rows,  # of the same tokens
        weights=grid.cells,
        scores=None if final is None else lazy_scores(*final, number),
        vectors=None if final is None else read_head_vectors(*final, number),
        without_vectors="" if is_final else "only the last moment has them",
    )


def computed_moments(learned: Learned) -> tuple[list[int], int]:
    """Return the indices of the moments that a page can compute, the last among them, and in how
    many bits it has the numbers of the others: as many moments as there is room for, and only the
    last if the model is not small.
    """
    count = sum(parameter.numel() for parameter in learned.model.parameters.values())
    room = MAX_LIVE_BYTES - BYTES_OF_A_NUMBER * count
    kept_moments = [each for each in learned.moments if each.parameters is not None]
    fitting = {bits: int(room / (size * count)) for bits, size in BYTES_BY_BITS.items()}
    bits = next((bits for bits, fits in fitting.items() if fits >= FEWEST_MOMENTS), min(fitting))
    if fitting[bits] < 1 or len(kept_moments) < len(learned.moments):
        return [len(learned.moments) - 1], bits
    return film_moments(learned.moments, fitting[bits] + 1), bits


def _live_model(learned_heads: LearnedHeads, moment_indices: Sequence[int], bits: int) -> LiveModel:
    """Return the model for pages, with its parameters at these moments, of which one is the last
    and the others have so many bits.
    """
    learned = learned_heads.learned
    last = build_live_model(learned_heads.trace)
    moments = (learned.moments[index].parameters or {} for index in moment_indices[:-1])
    heads = learned_heads.all_heads
    return replace(
        last,
        facts={
            **last.facts,
            "names": [
                f"{format_head_id(*head)} · {learned_heads.step_label(index)}"
                for index in moment_indices
                for head in heads
            ],
        },
        places=tuple((number, *head) for number in range(len(moment_indices)) for head in heads),
        moments=tuple(moments),
        moment_bits=bits,
    )


def halving_moments(moments: Sequence[Moment], max_count: int) -> list[int]:
    """Return the indices of the first and the last moment, and between them of moments with about
    half the steps of the next one; at most `max_count`.

    >>> from types import SimpleNamespace
    >>> halving_moments([SimpleNamespace(step=step) for step in range(101)], 5)
    [0, 12, 25, 50, 100]
    """
    steps = np.array([moment.step for moment in moments])
    return sorted({0} | nearest_halvings(steps, max_count - 1))


def film_moments(moments: Sequence[Moment], max_count: int) -> list[int]:
    """Return the indices of at most `max_count` moments between which the picture changes about
    equally.

    Steps count as well, so that some moments of a long time without changes are shown.
    """
    if len(moments) <= max_count:
        return list(range(len(moments)))
    progress = _film_progress(moments)
    nearest = np.searchsorted(progress, np.linspace(0.0, progress[-1], max_count))
    return sorted({0, len(moments) - 1} | {min(int(index), len(moments) - 1) for index in nearest})


def round_step_ticks(last_step: int) -> tuple[float, ...]:
    """Return round numbers of steps from 0 on, as ticks for an axis up to `last_step`.

    >>> round_step_ticks(633), round_step_ticks(60)
    ((0.0, 200.0, 400.0, 600.0), (0.0, 20.0, 40.0, 60.0))
    """
    step = first_round_number(lambda each: last_step / each <= MAX_ROUND_TICKS)
    return tuple(float(tick) for tick in range(0, last_step + 1, step))


def _film_progress(moments: Sequence[Moment]) -> Float[np.ndarray, "moment"]:
    """Return how far each moment is from the first (0) to the last (1): the mean of its share of
    the steps and its share of all changes of weights.
    """
    steps = np.array([moment.step for moment in moments], dtype=float)
    changes = [0.0]
    for previous, moment in pairwise(moments):
        pairs = zip(previous.weights, moment.weights, strict=True)
        changes.append(float(sum(abs(later - earlier).mean() for earlier, later in pairs)))
    changed = np.cumsum(changes)
    by_change = changed / (changed[-1] or 1.0)
    by_steps = (steps - steps[0]) / ((steps[-1] - steps[0]) or 1.0)
    return np.asarray(STEP_SHARE_OF_FILM * by_steps + (1 - STEP_SHARE_OF_FILM) * by_change)
