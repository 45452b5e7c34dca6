"""The models that come with attnviz: what they claim of themselves; and one is made again."""

from __future__ import annotations

import math

import pytest
import torch

from attnviz import trace
from attnviz.learning.learner import model_plan, reading_scores, run_learner_model
from attnviz.learning.lookup import task_of
from attnviz.learning.task import NO_TOKEN, draw_examples
from attnviz.learning.task_names import TASKS
from attnviz.learning.training_facts import add_training_facts
from attnviz.traces.models import folder
from attnviz.traces.models.model_names import MODELS_FOLDER, shipped_names
from attnviz.traces.models.shipped import load_model
from attnviz.traces.models.vocabulary import Vocabulary
from docs.train_models import MAX_MODEL_BYTES, MODEL_RECIPES, train_shipped_model

UNSEEN_SEED = 7  # a seed of sentences that were used neither to train a model nor to measure it


def test_every_task_has_a_model_and_every_model_its_task() -> None:
    assert {*MODEL_RECIPES} == {*TASKS}
    assert {*shipped_names()} == {*MODEL_RECIPES, "toy"}


@pytest.mark.parametrize("name", MODEL_RECIPES)
def test_a_shipped_model_is_small(name: str) -> None:
    assert sum(path.stat().st_size for path in (MODELS_FOLDER / name).iterdir()) <= MAX_MODEL_BYTES
    assert {path.name for path in (MODELS_FOLDER / name).iterdir()} == {
        "model.safetensors",
        "config.json",
        "vocabulary.json",
    }


@pytest.mark.parametrize("name", MODEL_RECIPES)
def test_what_a_shipped_model_claims_is_so_of_other_sentences(name: str) -> None:
    """On sentences that were drawn for nothing else, though a head may do a little less there."""
    task, model = task_of(name), load_model(name)
    examples = draw_examples(task, UNSEEN_SEED, 256, held_out=True)
    with torch.no_grad():
        result = run_learner_model(model, model_plan(model), examples.ids)
    is_asked = examples.answers != NO_TOKEN
    accuracy = ((result.logits.argmax(-1) == examples.answers) & is_asked).sum() / is_asked.sum()
    scores = reading_scores(result, examples)

    assert float(accuracy) >= min(task.until, 1.0) - 0.01
    assert model.facts["task"] == name
    for head, role in model.heads.items():
        layer, _, number = head.removeprefix("L").partition("H")
        reading = next(each for each in task.readings if each.does == role)
        score = float(scores[reading.name][int(layer), int(number)])
        assert math.isclose(score, model.facts["scores"][head], abs_tol=0.05)


@pytest.mark.slow_table("training", keep=2)
@pytest.mark.parametrize("name", MODEL_RECIPES)
def test_what_a_shipped_model_claims_is_what_its_numbers_give(name: str) -> None:
    """On the sentences that `attnviz heads` tries it on, which are enough for two digits."""
    model = load_model(name)
    model_with_facts = add_training_facts(model, task_of(name), model.facts["steps"])

    assert model_with_facts.facts["sentences"] == 1000
    for about, fact in model_with_facts.facts.items():
        if about != "scores":
            assert model.facts[about] == fact
    assert model_with_facts.facts["scores"] == pytest.approx(model.facts["scores"], abs=2e-4)
    assert model_with_facts.heads == model.heads


@pytest.mark.slow_table("training", keep=3)
@pytest.mark.parametrize("name", MODEL_RECIPES)
def test_a_shipped_model_reads_the_words_of_its_task(name: str) -> None:
    vocabulary: Vocabulary = task_of(name).vocabulary

    assert load_model(name).vocabulary == vocabulary
    assert trace(task_of(name).watch, model=name).prediction is not None


@pytest.mark.slow("training")
def test_the_fastest_is_made_again() -> None:
    """Twice the same bytes here; the shipped one, from another processor, but for its last digits.

    Nothing that torch says of a processor decides how it rounds: of two that both have AVX-512,
    one may also multiply matrices in tiles.
    """
    shipped_model, first_model, second_model = (
        load_model("reverse"),
        train_shipped_model("reverse"),
        train_shipped_model("reverse"),
    )

    assert folder.model_files(first_model) == folder.model_files(second_model)
    assert first_model.heads == shipped_model.heads
    assert first_model.vocabulary == shipped_model.vocabulary
    for name, tensor in first_model.parameters.items():
        assert torch.allclose(tensor, shipped_model.parameters[name], atol=0.05)
