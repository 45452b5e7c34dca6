"""What is seen of a model while it learns: the moments that there were, as a Glimpse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from attnviz.attention.arithmetic import visible_cells
from attnviz.cells import Whole, unmasked
from attnviz.learning.task import Task
from attnviz.learning.training import Moment, Training
from attnviz.views.conclusions.learned import how_right
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.glimpse import Course, Glimpse
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.learned.heads import answer_text, best_head
from attnviz.views.reading import token_axis
from attnviz.views.view import in_print
from attnviz.wording.numbers import percent, share_text, significant_text

WEIGHT = Scale("weight", 0.0, 1.0)


def glimpse_of(training: Training, moments: Sequence[Moment], *told: str) -> Glimpse:
    """All that there was up to the last of some moments; `told` is what else there is to say."""
    last, steps = moments[-1], training.choices.steps
    seen = Glimpse(
        title=f"learning {training.task.name}",
        about=training.task.about,
        told=(f"step {last.step:,} of {steps:,}", *_answers(training, last), *told),
        layers=tuple(tuple(_maps(training, last, layer)) for layer in range(len(last.weights))),
        scores=_scores(training, last),
        steps=np.array([each.step for each in moments]),
        courses=_courses(moments, training.task.asked),
    )
    passed: Glimpse = in_print(seen, {})
    return passed


def _answers(training: Training, moment: Moment) -> Iterator[str]:
    """What is answered now at a blank, if there is one."""
    tokens = training.task.vocabulary.as_read(training.watched)
    if len(moment.answers) == 1:
        yield answer_text(tokens, moment.answers[0])


def _maps(training: Training, moment: Moment, layer: int) -> Iterator[Grid]:
    words = training.task.vocabulary.as_read(training.watched)
    rows, columns = (token_axis(title, words) for title in ("query", "key"))
    variant, tokens = training.variant, len(training.watched)
    hidden = ~visible_cells(variant, tokens, torch.device("cpu")).numpy()
    for head, weights in enumerate(moment.weights[layer]):
        name = f"L{layer}H{head}"
        yield Grid(name, rows, columns, Whole(weights, hidden), WEIGHT, share=True)


def _scores(training: Training, moment: Moment) -> Grid:
    readings = [each.name for each in training.task.readings]
    found = [moment.scores[name] for name in readings]
    layers, heads = found[0].shape if found else (0, 0)
    rows = plain_axis("head", [f"L{la}H{h}" for la in range(layers) for h in range(heads)])
    values = np.stack([each.ravel() for each in found], axis=1) if found else np.empty((0, 0))
    columns: Axis = plain_axis("reading", readings)
    return Grid("scores of heads", rows, columns, unmasked(values), WEIGHT, share=True)


def _courses(moments: Sequence[Moment], asked: str) -> tuple[Course, ...]:
    losses = np.array([each.loss for each in moments])
    right = np.array([each.accuracy for each in moments])
    finite = losses[np.isfinite(losses)]
    return (
        Course("loss", significant_text(losses[-1], 2), float(finite.max(initial=1e-9)), losses),
        Course(f"{asked}s right", percent(float(right[-1])), 1.0, right),
    )


def line_of(task: Task, moment: Moment) -> str:
    """`step 310 · loss 0.021 · 99.6 % of the verbs are right · subject L1H1 .99`"""
    heads = [
        f"{each.name} {head} {share_text(score)}"
        for each in task.readings
        if not np.isnan(moment.scores[each.name]).all()
        for head, score in [best_head(moment.scores[each.name])]
    ]
    told = f"loss {significant_text(moment.loss, 2)}", how_right(moment.accuracy, task.asked)
    return " · ".join([f"step {moment.step:,}", *told, *heads])
