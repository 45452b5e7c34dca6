"""A model that learned, as a View: its heads then and now, curves, moments and data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.cells import StoredCells
from attnviz.learning.training import Learned, Moment
from attnviz.tokens.token_lookup import find_query
from attnviz.traces.trace import Provenance
from attnviz.views.conclusions.training_outcome import moment_title, training_sentence
from attnviz.views.grids.axes import AXES_NOTE, ROW_SUM_NOTE, plain_axis
from attnviz.views.grids.description import caption, describe
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale, colorless_scale
from attnviz.views.learned.heads import (
    LearnedHeads,
    ReadingScores,
    learned_head_name,
    list_head_indices,
)
from attnviz.views.settings_line import ATTENTION_PART, settings_line
from attnviz.views.trace import part_groups as groups_of
from attnviz.views.view import (
    Excerpt,
    Group,
    NumberColumn,
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
from attnviz.wording.words import counted

MAX_PAGE_MOMENTS = 5  # moments,
MAX_PAGE_HEADS = 4  # and heads
MAX_TOKEN_ROWS = 12  # moments, where what a token reads has a row for each
MAX_HISTORY_ROWS = 8
MAX_FILM_MOMENTS = 60  # moments,
MAX_FILM_HEADS = 16  # and heads


def view(learned: Learned, *, query: str | None = None, command: str | None = None) -> View:
    """How a model came to read what it reads; with a query, how one token did.

    `command` is the one that was typed.
    """
    tokens = learned.model.vocabulary.as_read(learned.watched)
    learned_heads = LearnedHeads(learned, None if query is None else find_query(tokens, str(query)))
    line, finding = _learned_settings_line(learned_heads), training_sentence(learned)
    frames = film_moments(learned.moments, MAX_FILM_MOMENTS)
    return View(
        title=f"learned {learned.task.name}: {learned.task.about}",
        headline=finding.removesuffix("."),
        settings=line,
        screen=build_page(_learned_screen(learned_heads), line),
        picture=_learned_page(learned_heads, line),
        film=tuple(_film_shots(learned_heads, frames)),
        slides=lambda: Excerpt(tuple(_learned_slides(learned_heads)), ""),
        closing=(finding,),
        explored=partial(explore_learned, learned_heads, frames),
        data=build_learned_data(learned, learned_heads.reading_scores, frames, finding),
        provenance=_learned_provenance(learned, learned_heads.trace.provenance, command),
        command=_learned_command(learned, query),
    )


def _learned_screen(learned_heads: LearnedHeads) -> list[Group]:
    """The heads as they are now, what they came to do, and how it went."""
    learned, reading_scores = learned_heads.learned, learned_heads.reading_scores
    moments = halving_moments(learned.moments, MAX_HISTORY_ROWS)
    heads = [head_scores_table(learned, reading_scores)] if reading_scores else []
    return [
        *_current_weights(learned_heads),
        Group("learned", (*heads, history_table(learned, reading_scores, moments))),
    ]


def _current_weights(learned_heads: LearnedHeads) -> list[Group]:
    """The weights of all heads; or what the followed token reads in them."""
    if learned_heads.query is None:
        return groups_of(learned_heads.trace, ["weights"])
    last = len(learned_heads.learned.moments) - 1
    return [Group("readings", (learned_heads.heads_grid(learned_heads.all_heads, last),))]


def _learned_page(learned_heads: LearnedHeads, settings: str) -> Page:
    """Heads at a few moments, and beside them what became of the loss and of accuracy."""
    learned, moment_indices = (
        learned_heads.learned,
        halving_moments(learned_heads.learned.moments, MAX_PAGE_MOMENTS),
    )
    heads = learned_heads.important_heads(MAX_PAGE_HEADS)
    heads_group = (
        _moments_group(learned_heads, heads, moment_indices)
        if learned_heads.query is None
        else _token_history_group(learned_heads, heads)
    )
    curves = tuple(learned_curves(learned, learned_heads.reading_scores, moment_indices))
    last = (
        heads_group.panels[len(moment_indices) - 1 :: len(moment_indices)]
        if learned_heads.query is None
        else heads_group.panels
    )
    panels = (*heads_group.panels, *curves)
    return Page(
        (heads_group, Group("curves", curves)),
        caption(panels, settings),
        describe((*last, *curves)),
    )


def _moments_group(
    learned_heads: LearnedHeads, heads: Sequence[tuple[int, int]], moment_indices: Sequence[int]
) -> Group:
    """A row for each head, a column for each moment."""
    return Group(
        "heads",
        tuple(
            learned_heads.head_grid(head, moment_index)
            for head in heads
            for moment_index in moment_indices
        ),
        kind="course",
        column_count=len(moment_indices),
        panel_titles=tuple(
            PanelTitle(_moment_title(learned_heads, moment_index))
            for moment_index in moment_indices
        ),
        row_titles=tuple(map(learned_heads.head_title, heads)),
    )


def _moment_title(learned_heads: LearnedHeads, moment_index: int) -> str:
    """`step 313: are 98 %`, of a sentence with one blank."""
    answer = learned_heads.answer_label(moment_index).rpartition(" → ")[2]
    return (
        f"{learned_heads.step_label(moment_index)}: {answer}"
        if answer
        else learned_heads.step_label(moment_index)
    )


def _token_history_group(learned_heads: LearnedHeads, heads: Sequence[tuple[int, int]]) -> Group:
    """A panel for each head, a row in it for each moment."""
    moment_indices = halving_moments(learned_heads.learned.moments, MAX_TOKEN_ROWS)
    return Group(
        "readings",
        tuple(learned_heads.token_grid(head, moment_indices) for head in heads),
        kind="course",
        column_count=len(heads),
        panel_titles=tuple(map(learned_heads.head_title, heads)),
    )


def _learned_slides(learned_heads: LearnedHeads) -> Iterator[Group]:
    """Each head as it is now, or what the followed token came to read in it; and each chart."""
    heads = learned_heads.important_heads(MAX_FILM_HEADS)
    last, moment_indices = (
        len(learned_heads.learned.moments) - 1,
        halving_moments(learned_heads.learned.moments, MAX_TOKEN_ROWS),
    )
    if learned_heads.query is None:
        yield Group("heads", tuple(learned_heads.head_grid(head, last) for head in heads))
    else:
        yield Group(
            "heads", tuple(learned_heads.token_grid(head, moment_indices) for head in heads)
        )
    page_indices = halving_moments(learned_heads.learned.moments, MAX_PAGE_MOMENTS)
    yield Group(
        "curves",
        tuple(learned_curves(learned_heads.learned, learned_heads.reading_scores, page_indices)),
    )


def _film_shots(learned_heads: LearnedHeads, frames: Sequence[int]) -> Iterator[Shot]:
    """A frame for each of these moments, with all heads that have room."""
    ticks = round_step_ticks(learned_heads.learned.moments[-1].step)
    heads = learned_heads.important_heads(MAX_FILM_HEADS)
    for moment_index in frames:
        curves = tuple(
            replace(curve, x_ticks=ticks)
            for curve in learned_curves(
                learned_heads.learned, learned_heads.reading_scores, [], moment_index + 1
            )
        )
        group = _film_group(learned_heads, heads, moment_index)
        yield Shot(
            (group, Group("curves", curves)), moment_title(learned_heads.learned, moment_index)
        )


def _film_group(
    learned_heads: LearnedHeads, heads: Sequence[tuple[int, int]], moment_index: int
) -> Group:
    """Heads at a moment: those of a layer in a row, where all are shown."""
    if learned_heads.query is not None:
        return Group("readings", (learned_heads.heads_grid(heads, moment_index),), kind="course")
    columns = len(learned_heads.learned.moments[0].weights[0])
    return Group(
        "heads",
        tuple(learned_heads.head_grid(head, moment_index, answers=True) for head in heads),
        kind="course",
        column_count=columns
        if heads == learned_heads.all_heads
        else min(len(heads), MAX_PAGE_HEADS),
        panel_titles=tuple(learned_heads.head_title(head, moment_index) for head in heads),
        ringed_cell=learned_heads.ringed_cell(heads),
    )


def _learned_settings_line(learned_heads: LearnedHeads) -> str:
    """What the numbers depend on: the model, and how it was taught."""
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
    """That of the model before there was one, with how it was taught."""
    model_settings = {"model": None, "positions": learned.settings.positions}
    training_settings = {**learned.asked, **_final_choices(learned)}
    settings = {**provenance.settings, **model_settings, **training_settings}
    return replace(provenance, settings=settings, command=command, seed=learned.settings.seed)


def _final_choices(learned: Learned) -> dict[str, Any]:
    """As they turned out; None where no accuracy would have ended it."""
    target_accuracy = learned.choices.until
    return {
        **asdict(learned.choices),
        "until": None if target_accuracy == math.inf else target_accuracy,
    }


def _learned_command(learned: Learned, query: str | None) -> Command:
    """The command that learns the same: what differs from the task's own choices."""
    task, task_settings = learned.task, vars(learned.task.settings)
    settings = {
        name: value
        for name, value in vars(learned.settings).items()
        if value != task_settings[name]
    }
    choices = _final_choices(learned)
    training_options = {
        name: value for name, value in choices.items() if value != getattr(task, name)
    }
    if choices["until"] is None:  # which is what --steps alone means
        training_options = {"steps": choices["steps"], **training_options}
        del training_options["until"]
    watch_options = {"watch": learned.watched.text, "query": query}
    default_options = {"watch": task.vocabulary.cut(task.watch).text, "query": None}
    options = {
        name: value for name, value in watch_options.items() if value != default_options[name]
    }
    task_options = dict(learned.asked)
    argument = task_options.pop("task", None)
    return Command(
        name="learn",
        argument=argument,
        options={**task_options, **settings, **training_options, **options},
    )


SCORE_NOTE = "score = mean weight on the tokens that should be read"


def learned_curves(
    learned: Learned,
    reading_scores: Sequence[ReadingScores],
    moment_indices: Sequence[int],
    moment_count: int | None = None,
) -> list[Curves]:
    """The loss; and on a second scale, from 0 to 1, accuracy and the scores of the best heads.

    The places of some moments are named below; of a film only so many moments have come.
    """
    steps = tuple(float(moment.step) for moment in learned.moments)
    ticks = tuple(steps[moment_index] for moment_index in moment_indices)
    losses = np.array([moment.loss for moment in learned.moments])
    accuracies = np.array([moment.accuracy for moment in learned.moments])
    lines = [_moment_curve(scores.reading.name, scores.best_scores) for scores in reading_scores]
    shares = (*lines, _moment_curve("accuracy", accuracies, plain=True))
    note = f"{SCORE_NOTE} · scores and accuracy" if reading_scores else "accuracy"
    return [
        Curves(
            "loss",
            "step",
            steps,
            (_moment_curve("loss", losses, plain=True),),
            "",
            ticks,
            moment_count,
        ),
        Curves(
            "scores and accuracy" if reading_scores else "accuracy",
            "step",
            steps,
            shares,
            f"{note} {_held_out_text(learned)}",
            ticks,
            moment_count,
            reach=1.0,
        ),
    ]


def _moment_curve(name: str, values: np.ndarray, *, plain: bool = False) -> Curve:
    return Curve(name, values, values, values, plain=plain)


def history_table(
    learned: Learned, reading_scores: Sequence[ReadingScores], moment_indices: Sequence[int]
) -> Grid:
    """The same as numbers, of a few moments: a row for each."""
    moments = [learned.moments[moment_index] for moment_index in moment_indices]
    columns = {
        "loss": np.array([moment.loss for moment in moments]),
        "accuracy": np.array([moment.accuracy for moment in moments]),
        **{
            f"{scores.best_head_label} {scores.reading.name}": scores.best_scores[
                list(moment_indices)
            ]
            for scores in reading_scores
        },
    }
    return Grid(
        "on the way",
        plain_axis("step", [f"step {moment.step:,}" for moment in moments]),
        plain_axis("measure", [*columns]),
        _cells_with_gaps(np.stack([*columns.values()], axis=1)),
        colorless_scale("measure"),
        note=f"loss on the sentences learned from · accuracy {_held_out_text(learned)}",
    )


def head_scores_table(learned: Learned, reading_scores: Sequence[ReadingScores]) -> Grid:
    """What each head came to do: a row for each, a column for each reading."""
    heads = list_head_indices(learned.moments[-1])
    scores = [[reading.scores[-1][head] for reading in reading_scores] for head in heads]
    return Grid(
        "heads",
        plain_axis("head", [learned_head_name(*head) for head in heads]),
        plain_axis("reading", [reading.reading.name for reading in reading_scores]),
        _cells_with_gaps(np.array(scores, dtype=float)),
        Scale("score", 0.0, 1.0),
        note=f"{SCORE_NOTE}, {_held_out_text(learned)}",
        decimals=2,
    )


def _held_out_text(learned: Learned) -> str:
    return f"in {counted(learned.held_out, 'held-out sentence')}"


def _cells_with_gaps(values: np.ndarray) -> StoredCells:
    """What is no number is none."""
    return StoredCells(np.nan_to_num(values), np.isnan(values))


def build_learned_data(
    learned: Learned,
    reading_scores: Sequence[ReadingScores],
    film_indices: Sequence[int],
    conclusion: str,
) -> TableData:
    """Everything about it; and a line for each moment, a column for each head and reading."""
    heads = [learned_head_name(*head) for head in list_head_indices(learned.moments[-1])]
    scores = tuple(f"{head} {reading.reading.name}" for reading in reading_scores for head in heads)
    document = partial(_learned_document, learned, reading_scores, film_indices, conclusion)
    return TableData(
        document,
        ("step", "loss", "accuracy", *scores),
        partial(_history_lines, learned, reading_scores),
    )


def _learned_document(
    learned: Learned,
    reading_scores: Sequence[ReadingScores],
    film_indices: Sequence[int],
    conclusion: str,
) -> dict[str, Any]:
    """`history` by moment; `weights` of the sentence that was watched, at those of the film."""
    moments, task = learned.moments, learned.task
    return {
        "task": {"name": task.name, "about": task.about, "asked": task.asked},
        "ended": learned.ended,
        "conclusion": conclusion,
        "tokens": list(learned.watched.labels),
        "history": {
            "step": np.array([moment.step for moment in moments]),
            "loss": np.array([moment.loss for moment in moments]),
            "accuracy": np.array([moment.accuracy for moment in moments]),
            "scores": {scores.reading.name: scores.scores for scores in reading_scores},
        },
        "heads": [
            {
                "reading": scores.reading.name,
                "head": scores.best_head_label,
                "score": scores.final_score,
            }
            for scores in reading_scores
        ],
        "watched": {
            "step": np.array([moments[moment_index].step for moment_index in film_indices]),
            "layers": [
                {
                    "weights": np.stack(
                        [moments[moment_index].weights[layer] for moment_index in film_indices]
                    )
                }
                for layer in range(len(moments[-1].weights))
            ],
        },
    }


def _history_lines(
    learned: Learned, reading_scores: Sequence[ReadingScores]
) -> Iterator[TableLines]:
    """All moments at once."""
    moments = learned.moments
    steps = WordColumns((tuple(str(moment.step) for moment in moments),))
    scores = [np.array(column) for reading in reading_scores for column in _score_columns(reading)]
    numbers: tuple[NumberColumn, ...] = (
        _number_column([moment.loss for moment in moments]),
        _number_column([moment.accuracy for moment in moments]),
        *(_number_column(column.tolist()) for column in scores),
    )
    yield TableLines((), steps, numbers)


def _score_columns(reading_scores: ReadingScores) -> Iterator[np.ndarray]:
    """The course of each head."""
    layers, heads = reading_scores.scores.shape[1:]
    for layer in range(layers):
        for head in range(heads):
            yield reading_scores.scores[:, layer, head]


def _number_column(numbers: Sequence[float]) -> NumberColumn:
    """Nothing in a cell that has no number."""
    return [float(number) if np.isfinite(number) else None for number in numbers]


def explore_learned(learned_heads: LearnedHeads, moment_indices: Sequence[int]) -> HeadExplorer:
    """A row for each of some moments, a column for each head; first what one of them came to do."""
    maps = [
        (
            learned_heads.step_label(moment_index),
            learned_head_name(*head),
            _head_map(learned_heads, head, moment_index),
        )
        for moment_index in moment_indices
        for head in learned_heads.all_heads
    ]
    best_column = learned_heads.all_heads.index(learned_heads.important_heads(1)[0])
    return arrange_heads(
        maps,
        ("moment", "head"),
        query=learned_heads.query,
        first=len(maps) - len(learned_heads.all_heads) + best_column,
        note=f"{AXES_NOTE} · {ROW_SUM_NOTE}",
    )


def _head_map(learned_heads: LearnedHeads, head: tuple[int, int], moment_index: int) -> HeadMap:
    grid = learned_heads.head_grid(head, moment_index)
    is_self_attention = replace(grid.columns, title=grid.rows.title) == grid.rows
    return HeadMap(
        name=" · ".join(
            filter(
                None,
                (
                    learned_head_name(*head),
                    learned_heads.step_label(moment_index),
                    learned_heads.answer_label(moment_index),
                ),
            )
        ),
        query_axis=grid.rows,
        key_axis=grid.rows if is_self_attention else grid.columns,
        weights=grid.cells,
    )


STEP_RATIO = 2.0  # from one moment of a page to the one before it
MAX_ROUND_TICKS = 4  # steps between numbers of a side
STEP_SHARE_OF_FILM = (
    0.5  # of a film's way is measured in steps, the rest in what becomes of weights
)


def halving_moments(moments: Sequence[Moment], max_count: int) -> list[int]:
    """The first and the last, and between them each at about half the steps of the next.

    >>> from types import SimpleNamespace
    >>> halving_moments([SimpleNamespace(step=step) for step in range(101)], 5)
    [0, 12, 25, 50, 100]
    """
    steps = np.array([moment.step for moment in moments])
    target_steps = steps[-1] / STEP_RATIO ** np.arange(max_count - 1)
    nearest = {
        int(abs(steps - target).argmin()) for target in target_steps[: max(max_count - 1, 1)]
    }
    return sorted({0} | nearest)


def film_moments(moments: Sequence[Moment], max_count: int) -> list[int]:
    """So many that the picture changes about as much from each to the next.

    Where nothing happens for a thousand steps, some of them are still shown.
    """
    if len(moments) <= max_count:
        return list(range(len(moments)))
    progress = _film_progress(moments)
    nearest = np.searchsorted(progress, np.linspace(0.0, progress[-1], max_count))
    return sorted({0, len(moments) - 1} | {min(int(index), len(moments) - 1) for index in nearest})


def round_step_ticks(last_step: int) -> tuple[float, ...]:
    """Round numbers from 0 on, for the side that counts steps.

    >>> round_step_ticks(633), round_step_ticks(60)
    ((0.0, 200.0, 400.0, 600.0), (0.0, 20.0, 40.0, 60.0))
    """
    step = next(
        factor * 10**power
        for power in range(9)
        for factor in (1, 2, 5)
        if last_step / (factor * 10**power) <= MAX_ROUND_TICKS
    )
    return tuple(float(tick) for tick in range(0, last_step + 1, step))


def _film_progress(moments: Sequence[Moment]) -> Float[np.ndarray, "moment"]:
    """How far each moment is on the way to the last, from 0 to 1."""
    steps = np.array([moment.step for moment in moments], dtype=float)
    changes = [0.0]
    for previous, moment in pairwise(moments):
        pairs = zip(previous.weights, moment.weights, strict=True)
        changes.append(float(sum(abs(later - earlier).mean() for earlier, later in pairs)))
    changed = np.cumsum(changes)
    by_change = changed / (changed[-1] or 1.0)
    by_steps = (steps - steps[0]) / ((steps[-1] - steps[0]) or 1.0)
    progress: Float[np.ndarray, "moment"] = (
        STEP_SHARE_OF_FILM * by_steps + (1 - STEP_SHARE_OF_FILM) * by_change
    )
    return progress
