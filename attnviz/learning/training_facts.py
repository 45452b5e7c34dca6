"""The facts that a model stores about its training: task, accuracy, and what its heads do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from attnviz.errors import AttnvizError, cmd, model_error, opt
from attnviz.learning.learner import model_plan, reading_scores, run_learner_model, share_correct
from attnviz.learning.lookup import task_of
from attnviz.learning.task import NO_TOKEN, Examples, Reading, Task, draw_examples
from attnviz.learning.task_names import TASKS
from attnviz.traces.models.card import Card
from attnviz.traces.models.model import Model

MIN_HEAD_SHARE = 0.5  # the mean weight from which a head is said to do something
SHARE_DIGITS = 4  # for a readable config
MAX_TESTED_SENTENCES = 1000
MIN_TESTED_SENTENCES = 50  # for very large models or very long sentences
MAX_NUMBERS_AT_ONCE = 2**24  # weights and vector components while testing


@torch.no_grad()
def add_training_facts(model: Model, task: Task, step: int) -> Model:
    """Return the model with facts for its card and its heads' descriptions, measured on held-out
    sentences. A head is described if its mean weight on a reading is at least MIN_HEAD_SHARE;
    `step` is stored as the steps trained."""
    examples = test_sentences(task, model)
    passed = run_learner_model(model, model_plan(model, training=True), examples.ids)
    best = dict(_best_reading_by_head(task, reading_scores(passed, examples)))
    facts = {
        "task": task.name,
        "asked": task.answer_noun,
        "steps": step,
        "accuracy": round(share_correct(passed, examples).item(), SHARE_DIGITS),
        "sentences": len(examples.ids),
        "tokens": _sentence_lengths(examples),
        "scores": {head: round(score, SHARE_DIGITS) for head, (_, score) in best.items()},
    }
    heads = {head: reading.does for head, (reading, _) in best.items()}
    return replace(model, heads=heads, facts=facts)


def test_sentences(task: Task, model: Model) -> Examples:
    """Return held-out sentences to test a model on: 1000, fewer if they are very long or the model
    is large."""
    layers, plan = model.settings.layers or 1, model_plan(model)
    heads, head_columns = plan.variant.heads, plan.width or 1
    numbers_per_token = heads * task.longest + max(heads * head_columns, model.settings.width)
    fitting_sentences = MAX_NUMBERS_AT_ONCE // (layers * task.longest * numbers_per_token)
    count = max(MIN_TESTED_SENTENCES, min(MAX_TESTED_SENTENCES, fitting_sentences))
    return draw_examples(task, model.settings.seed, count, held_out=True)


def _best_reading_by_head(
    task: Task, scores_by_reading: Mapping[str, Float[np.ndarray, "layer head"]]
) -> Iterator[tuple[str, tuple[Reading, float]]]:
    """Yield each head ("L0H1") with its reading of the highest score, and the score.

    Heads whose best score is below MIN_HEAD_SHARE are left out.
    """
    shape = next(iter(scores_by_reading.values())).shape if scores_by_reading else (0, 0)
    for layer, head in np.ndindex(shape):
        scores = {each: float(scores_by_reading[each.name][layer, head]) for each in task.readings}
        # NaN is never ≥ MIN_HEAD_SHARE.
        best = max(scores, key=lambda each: (scores[each] >= MIN_HEAD_SHARE, scores[each]))
        if scores[best] >= MIN_HEAD_SHARE:
            yield f"L{layer}H{head}", (best, scores[best])


def _sentence_lengths(examples: Examples) -> list[int]:
    """Return the shortest and longest length in tokens, counted up to the last answer."""
    positions = torch.arange(1, examples.ids.shape[-1] + 1)
    last_answers = ((examples.answers != NO_TOKEN) * positions).amax(-1)
    return [int(last_answers.min()), int(last_answers.max())]


def task_for_model(card: Card, task_name: str | None = None) -> Task:
    """Return the task whose sentences a model can be tested on: `task_name`, or the shipped one it
    learned. Refuses a model that gives no answers or has no such task, and a task with another
    vocabulary."""
    model_text = f"the model '{card.name}'"
    if not card.vocabulary.answers:
        raise model_error(
            f"{model_text} gives no answers, so switching off a head cannot cost it one",
            f"see how its context vectors change: {cmd.run:TEXT}, with the same {opt.model} and "
            f"{opt.without:L0H0}",
        )
    name = task_name or str(card.facts.get("task", ""))
    if task_name is None and name not in TASKS:
        raise model_error(
            f"{model_text} does not say which sentences it can be tested on",
            f"name its task, such as {opt.task:{next(iter(TASKS))}} or {opt.task:mine.toml}; for "
            f"lines of text, {cmd.run:TEXT --without L0H0} shows what a head does",
        )
    task = task_of(name)
    if task.vocabulary != card.vocabulary:
        raise AttnvizError(
            f"the task '{task.name}' has other words than those that {model_text} learned",
            "name the task that it learned",
            about="task",
        )
    return task
