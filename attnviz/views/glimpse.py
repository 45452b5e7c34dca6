"""Makes the Glimpse of a model in training from the moments recorded so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from attnviz.attention.mask_rule import MaskRule
from attnviz.cells import StoredCells, unmasked_cells
from attnviz.learning.progress import Moment
from attnviz.learning.task import Task
from attnviz.learning.training import Training
from attnviz.traces.settings import format_head_id
from attnviz.views.conclusions.learning_findings import accuracy_text
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.glimpse import Glimpse, MeasureHistory
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.learned.head_roles import (
    answer_text,
    find_best_head,
    list_head_indices,
    moment_measures,
)
from attnviz.views.reading import token_axis
from attnviz.views.view import printable_value
from attnviz.wording.numbers import percent_text, share_text, significant_text

WEIGHT_SCALE = Scale("weight", 0.0, 1.0)


def build_glimpse(training: Training, moments: Sequence[Moment], *extra_status: str) -> Glimpse:
    """Return the Glimpse at the last of these moments, with curves over all of them; `extra_status`
    follows the step and the answer in its status, and every text is made printable.
    """
    last, task = moments[-1], training.task
    tokens = task.vocabulary.as_read(training.watched)
    answers = [answer_text(tokens, last.answers[0])] if len(last.answers) == 1 else []
    step_text = f"step {last.step:,} of {training.choices.steps:,}"
    layers = range(len(last.weights))
    glimpse = Glimpse(
        title=f"learning {task.name}",
        about=task.about,
        status_parts=(step_text, *answers, *extra_status),
        layers=tuple(tuple(_head_grids(training, last, layer)) for layer in layers),
        scores=_head_scores_grid(training, last),
        steps=np.array([moment.step for moment in moments]),
        histories=_measure_histories(moments, task.answer_noun),
    )
    return printable_value(glimpse, {})


def _head_grids(training: Training, moment: Moment, layer: int) -> Iterator[Grid]:
    """Yield a Grid of the weights of each head of a layer at a moment, with masked cells hidden."""
    tokens = training.task.vocabulary.as_read(training.watched)
    rows, columns = (token_axis(title, tokens) for title in ("query", "key"))
    count, cpu = len(training.watched), torch.device("cpu")
    hidden = ~MaskRule.of_variant(training.variant).visible(count, count, cpu).numpy()
    for head, weights in enumerate(moment.weights[layer]):
        name, cells = format_head_id(layer, head), StoredCells(weights, hidden)
        yield Grid(name, rows, columns, cells, WEIGHT_SCALE, share=True)


def _head_scores_grid(training: Training, moment: Moment) -> Grid:
    """Return the scores at a moment: a row for each head, a column for each reading of the task;
    without rows and columns if the task has no readings.
    """
    readings = [reading.name for reading in training.task.readings]
    score_arrays = [moment.scores[name] for name in readings]
    names, values = list[str](), np.empty((0, 0))
    if score_arrays:
        names = [format_head_id(*head) for head in list_head_indices(moment)]
        values = np.stack([scores.ravel() for scores in score_arrays], axis=1)
    rows, columns = plain_axis("head", names), plain_axis("reading", readings)
    return Grid("scores of heads", rows, columns, unmasked_cells(values), WEIGHT_SCALE, share=True)


def _measure_histories(moments: Sequence[Moment], answer_noun: str) -> tuple[MeasureHistory, ...]:
    """Return the histories of loss and accuracy over the moments; `answer_noun` is what is
    predicted, such as `verb`.
    """
    _, losses, accuracies = moment_measures(moments).values()
    highest_loss = float(losses[np.isfinite(losses)].max(initial=1e-9))
    loss_text, accuracy = significant_text(losses[-1], 2), percent_text(float(accuracies[-1]))
    return (
        MeasureHistory("loss", loss_text, highest_loss, losses),
        MeasureHistory(f"{answer_noun}s right", accuracy, 1.0, accuracies),
    )


def moment_line(task: Task, moment: Moment) -> str:
    """Return a line such as `step 310 · loss 0.021 · 99.6 % of the verbs are right · subject L1H1
    .99`.
    """
    heads = [
        f"{reading.name} {head} {share_text(score)}"
        for reading in task.readings
        if not np.isnan(moment.scores[reading.name]).all()
        for head, score in [find_best_head(moment.scores[reading.name])]
    ]
    measures = (
        f"loss {significant_text(moment.loss, 2)}",
        accuracy_text(moment.accuracy, task.answer_noun),
    )
    return " · ".join([f"step {moment.step:,}", *measures, *heads])
