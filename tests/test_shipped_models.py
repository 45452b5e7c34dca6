"""The models that come with attnviz: what they claim of themselves; and one is made again."""

from __future__ import annotations

import math

import pytest
import torch

from attnviz import trace
from attnviz.learning.facts import with_facts
from attnviz.learning.learner import plan_of, scores_of_heads, through
from attnviz.learning.lookup import task_of
from attnviz.learning.names import TASKS
from attnviz.learning.shipping import LARGEST, SHIPPED, trained
from attnviz.learning.task import NOTHING, examples_of
from attnviz.traces.models import folder
from attnviz.traces.models.names import HERE, names
from attnviz.traces.models.shipped import model_of
from attnviz.traces.models.vocabulary import Vocabulary

OTHERS = 7  # a seed of sentences that nobody looked at when they were made


def test_every_task_has_a_model_and_every_model_its_task() -> None:
    assert {*SHIPPED} == {*TASKS}
    assert {*names()} == {*SHIPPED, "toy"}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_is_small(name: str) -> None:
    assert sum(path.stat().st_size for path in (HERE / name).iterdir()) <= LARGEST
    assert {path.name for path in (HERE / name).iterdir()} == {
        "model.safetensors",
        "config.json",
        "vocabulary.json",
    }


@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_shipped_model_claims_is_so_of_other_sentences(name: str) -> None:
    """On sentences that were drawn for nothing else, though a head may do a little less there."""
    task, model = task_of(name), model_of(name)
    examples = examples_of(task, OTHERS, 256, held_out=True)
    with torch.no_grad():
        passed = through(model, plan_of(model), examples.ids)
    asked = examples.answers != NOTHING
    right = ((passed.logits.argmax(-1) == examples.answers) & asked).sum() / asked.sum()
    scores = scores_of_heads(passed, examples)

    assert float(right) >= min(task.until, 1.0) - 0.01
    assert model.facts["task"] == name
    for head, does in model.heads.items():
        layer, _, number = head.removeprefix("L").partition("H")
        reading = next(each for each in task.readings if each.does == does)
        found = float(scores[reading.name][int(layer), int(number)])
        assert math.isclose(found, model.facts["scores"][head], abs_tol=0.05)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_shipped_model_claims_is_what_its_numbers_give(name: str) -> None:
    """On the sentences that `attnviz heads` tries it on, which are enough for two digits."""
    model = model_of(name)
    found = with_facts(model, task_of(name), model.facts["steps"])

    assert found.facts["sentences"] == 1000
    for about, fact in found.facts.items():
        if about != "scores":
            assert model.facts[about] == fact
    assert found.facts["scores"] == pytest.approx(model.facts["scores"], abs=2e-4)
    assert found.heads == model.heads


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_reads_the_words_of_its_task(name: str) -> None:
    vocabulary: Vocabulary = task_of(name).vocabulary

    assert model_of(name).vocabulary == vocabulary
    assert trace(task_of(name).watch, model=name).prediction is not None


def test_the_fastest_is_made_again() -> None:
    """Twice the same bytes here; the shipped one, from another processor, but for its last digits.

    Nothing that torch says of a processor decides how it rounds: of two that both have AVX-512,
    one may also multiply matrices in tiles.
    """
    shipped, first, second = model_of("reverse"), trained("reverse"), trained("reverse")

    assert folder.contents(first) == folder.contents(second)
    assert first.heads == shipped.heads
    assert first.vocabulary == shipped.vocabulary
    for name, tensor in first.parameters.items():
        assert torch.allclose(tensor, shipped.parameters[name], atol=0.05)
