"""A task learned in several ways: seeds trained together equal each alone; true sentences."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.analysis.aspects import TRAINING_ASPECTS
from attnviz.analysis.learning_comparison import (
    WIDE_HEAD_WIDTH,
    Learning,
    compare_learning,
    default_learning_settings,
)
from attnviz.attention import arithmetic
from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices
from attnviz.learning.learner import Learner, new_model, stack_models
from attnviz.learning.lookup import task_of
from attnviz.learning.task import Task
from attnviz.learning.training import Batches, learn, stack_examples
from attnviz.traces.settings import Settings
from attnviz.views.conclusions.learning_findings import additional_sentences, learning_sentence
from attnviz.views.learning_comparison import training_curves
from tests.conftest import Attnviz, unchecked
from tests.tiers import examples

SEEDS = range(42, 45)
FEW_STEPS = Choices(steps=4, batch=8)
CHANGES_BY_NAME: dict[str, dict[str, Any]] = {
    "as it is": {},
    "two layers": {"layers": 2},
    "feed-forward": {"attention_only": False},
    "post-norm": {"norm": "post"},
    "no norm": {"norm": "none"},
    "heads that share keys": {"heads": 4, "kv_heads": 2},
    "additive": {"scoring": "additive"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "nothing projected": {"variant": "plain"},
    "nothing compared": {"variant": "average"},
}


@pytest.fixture(scope="module")
def task() -> Task:
    return task_of("reverse")


@pytest.fixture(scope="module")
def scaling(task: Task) -> Learning:
    """Learning with and without scaling, over the default number of seeds."""
    with unchecked():
        return compare_learning(task, choices=Choices(steps=40, batch=32))


@pytest.mark.slow_table("training", keep=2)
@pytest.mark.parametrize("changes", CHANGES_BY_NAME.values(), ids=CHANGES_BY_NAME)
def test_a_model_among_others_learns_as_it_would_alone(task: Task, changes: dict[str, Any]) -> None:
    model_settings = replace(task.settings, **changes)
    stacked_learner = Learner(
        stack_models([new_model(task, replace(model_settings, seed=seed)) for seed in SEEDS]),
        task.rate,
    )
    learners = [
        Learner(new_model(task, replace(model_settings, seed=seed)), task.rate) for seed in SEEDS
    ]
    batches = [Batches(task, seed, 8) for seed in SEEDS]

    for step in range(5):
        losses = stacked_learner.learn(
            stack_examples([each.batch_of_step(step) for each in batches])
        )
        expected = [
            one.learn(each.batch_of_step(step)) for one, each in zip(learners, batches, strict=True)
        ]
        torch.testing.assert_close(losses, torch.stack(expected), atol=1e-4, rtol=1e-4)


def test_models_side_by_side_multiply_each_its_own_sentences() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(3, 4, 5, 6, generator=generator)
    matrices = torch.randn(3, 1, 6, 2, generator=generator)

    products = arithmetic.project(inputs, matrices)

    expected = torch.stack(
        [each @ matrix[0] for each, matrix in zip(inputs, matrices, strict=True)]
    )
    torch.testing.assert_close(products, expected)


@pytest.mark.usefixtures("quick")
def test_every_seed_of_a_way_is_what_attnviz_learn_learns(task: Task) -> None:
    choices = Choices(steps=12, batch=16, until=math.inf)
    learning = compare_learning(
        task, task.settings, by="heads", values=["1", "2"], repeats=2, choices=choices
    )

    for learner_runs, heads in zip(learning.ways, (1, 2), strict=True):
        for place, seed in enumerate(learning.seeds):
            single_learning = learn(task, replace(task.settings, heads=heads, seed=seed), choices)
            assert learning.steps.tolist() == [each.step for each in single_learning.moments]
            losses = [each.loss for each in single_learning.moments]
            np.testing.assert_allclose(learner_runs.loss[:, place], losses, rtol=1e-3)
            accuracies = [each.accuracy for each in single_learning.moments]
            np.testing.assert_allclose(learner_runs.accuracy[:, place], accuracies, atol=0.01)


@pytest.mark.slow_table("training", keep=2)
@pytest.mark.parametrize("by", TRAINING_ASPECTS)
def test_whatever_can_be_compared_by_is_by_its_own_values(task: Task, by: str) -> None:
    learning = compare_learning(task, task.settings, by=by, repeats=2, choices=FEW_STEPS)

    assert [learner_runs.name for learner_runs in learning.ways] == [*TRAINING_ASPECTS[by].values()]
    text = learning.view().render(".txt").decode()
    assert "ore seeds are needed to compare them" in " ".join(text.split()) or "without any" in text
    for learner_runs in learning.ways:
        assert learner_runs.loss.shape == learner_runs.accuracy.shape == (len(learning.steps), 2)
        assert np.isfinite(learner_runs.loss).all()


@pytest.mark.slow("training")
def test_large_heads_make_large_scores_that_saturate_a_softmax_which_scaling_mends(
    scaling: Learning,
) -> None:
    unscaled, scaled = scaling.ways

    assert unscaled.width == scaled.width == WIDE_HEAD_WIDTH
    for learner_runs in scaling.ways:
        for numbers in (learner_runs.beginning.queries, learner_runs.beginning.keys):
            assert np.abs(numbers - 1).max() < 0.15  # N(0, 1), as the textbooks have them
    ratio = unscaled.beginning.scores / scaled.beginning.scores
    np.testing.assert_allclose(ratio, math.sqrt(WIDE_HEAD_WIDTH), rtol=1e-4)
    assert (unscaled.beginning.gradient < scaled.beginning.gradient).all()


@pytest.mark.slow("training")
def test_with_scaling_it_is_learned_sooner_and_the_sentence_says_by_how_much(
    scaling: Learning,
) -> None:
    sentence = learning_sentence(scaling)

    pattern = (
        r"Over 10 seeds: scaled, 99\.9\u00a0% of the letters are right after ([\d.]+) steps "
        r"\((\d+)–(\d+) in (\d+) of 10\); unscaled, (?:in (\w+) of 10 seeds within 40 steps|.*)\."
    )
    match = re.fullmatch(pattern, sentence)
    assert match is not None, sentence
    steps = np.sort(scaling.reached(scaling.ways[1]))
    assert [float(each) for each in match.group(1, 2, 3)] == [np.median(steps), steps[0], steps[8]]
    assert int(match[4]) == np.searchsorted(steps, steps[8], "right")
    learned_count = int(np.isfinite(scaling.reached(scaling.ways[0])).sum())
    assert match[5] in (str(learned_count or "none"), None)


def test_a_width_that_is_asked_for_is_kept(task: Task) -> None:
    assert default_learning_settings(task, "scale").head_dim == WIDE_HEAD_WIDTH
    assert default_learning_settings(task, "heads") == task.settings

    narrow = compare_learning(task, task.settings, by="scale", repeats=1, choices=FEW_STEPS)
    assert {learner_runs.width for learner_runs in narrow.ways} == {32}
    assert "A head is" not in " ".join(narrow.view().closing)


@pytest.mark.usefixtures("quick")
def test_it_ends_when_every_seed_of_every_way_has_learned_it(task: Task) -> None:
    wide_settings = replace(task.settings, dim=64)
    learning = compare_learning(task, wide_settings, by="heads", values=["1", "2"], repeats=2)

    assert learning.last < task.steps
    steps_reached = np.stack([learning.reached(learner_runs) for learner_runs in learning.ways])
    assert np.isfinite(steps_reached).all()
    assert steps_reached.max() <= learning.last
    accuracies_before = [learner_runs.accuracy[-2].min() for learner_runs in learning.ways]
    assert min(accuracies_before) < task.until


def _learning_with_accuracies(
    scaling: Learning, names: Sequence[str], accuracy: np.ndarray, by: str = "dim", **changes: Any
) -> Learning:
    """A Learning with these accuracies [way, look, seed], the rest as in `scaling`."""
    looks, seeds = accuracy.shape[1:]
    runs = tuple(
        replace(scaling.ways[0], name=name, accuracy=each, loss=1 - each)
        for name, each in zip(names, accuracy, strict=True)
    )
    steps = np.arange(looks) * 10
    return replace(scaling, by=by, ways=runs, steps=steps, seeds=range(seeds), **changes)


def _accuracies_from_looks(looks: Sequence[Sequence[int | None]]) -> np.ndarray:
    """Accuracies that become 1 at the given look of each way and seed; None: never."""
    accuracies = np.zeros((len(looks), 11, len(looks[0])))
    for index, looks_of_seeds in enumerate(looks):
        for seed, look in enumerate(looks_of_seeds):
            if look is not None:
                accuracies[index, look:, seed] = 1.0
    return accuracies


SENTENCES: dict[str, tuple[Sequence[Sequence[int | None]], str]] = {
    "one seed": (
        [[3], [None]],
        "With this one seed, 99.9 % of the letters are right: at width 8, after 30 steps; at "
        "width 16, not within 100 steps.",
    ),
    "the middle between two": (
        [[3, 4] + [2] * 4 + [5] * 4, [9] * 10],
        "Over 10 seeds: at width 8, 99.9\u00a0% of the letters are right after 35 steps (20–50 "
        "in 10 of "
        "10); at width 16, after 90 steps.",
    ),
    "few seeds": (
        [[3, 4, 5], [None, 6, 7]],
        "Over 3 seeds, 99.9\u00a0% of the letters are right: at width 8, after 40 steps; at "
        "width 16, "
        "in 2 of 3 seeds within 100 steps. Steps are medians; more seeds are needed to compare "
        "them.",
    ),
    "sooner": (
        [[3] * 8 + [4, 4], [5, 6] * 5],
        "Over 10 seeds: at width 8, 99.9\u00a0% of the letters are right after 30 steps (30–40 "
        "in 10 "
        "of 10); at width 16, after 55 steps (50–60 in 10 of 10).",
    ),
    "never": (
        [[None] * 10, [5] * 10],
        "Over 10 seeds: at width 16, 99.9\u00a0% of the letters are right after 50 steps; at "
        "width 8, in "
        "none of 10 seeds within 100 steps.",
    ),
    "as soon": (
        [[5, 6] * 5, [6, 5] * 5],
        "Over 10 seeds, none is clearly faster. 99.9 % of the letters are right: at width 8, "
        "after 55 steps (50–60 in 10 of 10); at width 16, after 55 steps (50–60 in 10 of 10).",
    ),
    "nobody": (
        [[None] * 10, [None] * 10],
        "Over 10 seeds, none learns it within 100 steps (until 99.9 % of the letters are right). "
        "Median accuracy then: 0 % at width 8 and 0 % at width 16.",
    ),
}


@pytest.mark.slow("training")
@pytest.mark.parametrize(("looks", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_who_learns_sooner_is_said_as_far_as_seeds_tell(
    scaling: Learning, looks: Sequence[Sequence[int | None]], sentence: str
) -> None:
    assert (
        learning_sentence(
            _learning_with_accuracies(scaling, ["8", "16"], _accuracies_from_looks(looks))
        )
        == sentence
    )


def _some_look(first: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.integers(first, first + 1), st.integers(first, 10))


@pytest.mark.slow("training")
@settings(max_examples=examples(100))
@given(data=st.data(), run_count=st.integers(2, 5), seeds=st.integers(10, 30))
def test_nobody_is_said_to_learn_sooner_who_does_not_in_nine_of_ten_seeds(
    scaling: Learning, data: st.DataObject, run_count: int, seeds: int
) -> None:
    looks = [
        data.draw(st.lists(_some_look(first), min_size=seeds, max_size=seeds))
        for first in data.draw(st.lists(st.integers(0, 9), min_size=run_count, max_size=run_count))
    ]
    names = [str(8 * (place + 1)) for place in range(run_count)]
    sentence = learning_sentence(
        _learning_with_accuracies(scaling, names, _accuracies_from_looks(looks))
    )

    match = re.match(r"Over \d+ seeds: at width (\d+), .*; at width (\d+), ", sentence)
    if match is None:
        return
    soon, slow = (looks[names.index(name)] for name in match.groups())
    is_sooner = [(11 if one is None else one) < (11 if other is None else other)
              for one, other in zip(soon, slow, strict=True)]  # fmt: skip
    assert sum(is_sooner) >= 0.9 * len(is_sooner)


def test_ways_in_which_it_is_never_learned_are_named_beside_those_that_are_compared(
    scaling: Learning,
) -> None:
    looks: list[list[int | None]] = [[2] * 10, [None] * 10, [None] * 10, [9] * 10]
    names = ["learned", "none", "alibi", "rotary"]

    sentences = additional_sentences(
        _learning_with_accuracies(scaling, names, _accuracies_from_looks(looks), "positions")
    )

    assert sentences[0] == (
        "Not learned in any of 10 seeds within 100 steps either: with alibi positions."
    )


def test_a_loss_that_is_no_number_any_more_is_said_and_leaves_a_gap(
    scaling: Learning, tmp_path: Path
) -> None:
    losses = scaling.ways[0].loss.copy()
    losses[5:, :4] = np.nan
    losses[8:] = np.inf
    learning = replace(scaling, ways=(replace(scaling.ways[0], loss=losses), scaling.ways[1]))

    assert "The loss did not stay finite unscaled in 10 of 10 seeds." in additional_sentences(
        learning
    )
    middle = training_curves(learning)[1].lines[0].middle
    assert np.isfinite(middle[:7]).all()
    assert np.isnan(middle[7:]).all()
    learning.view().save(tmp_path / "lost.png", tmp_path / "lost.json", tmp_path / "lost.csv")
    document = json.loads((tmp_path / "lost.json").read_text())
    assert document["ways"][0]["loss"]["median"][-1] is None


def test_curves_are_medians_with_a_band_of_the_seeds(scaling: Learning) -> None:
    accuracy_curves, loss_curves = training_curves(scaling)

    assert accuracy_curves.title == "letters that are right"
    assert accuracy_curves.x_values == tuple(scaling.steps[1:].tolist())
    for learner_runs, line in zip(scaling.ways, loss_curves.lines, strict=True):
        sorted_losses = np.sort(learner_runs.loss[1:], axis=1)
        np.testing.assert_allclose(line.middle, (sorted_losses[:, 4] + sorted_losses[:, 5]) / 2)
        np.testing.assert_allclose(line.low, 0.1 * sorted_losses[:, 0] + 0.9 * sorted_losses[:, 1])
        np.testing.assert_allclose(line.high, 0.9 * sorted_losses[:, 8] + 0.1 * sorted_losses[:, 9])


def test_words_that_see_what_follows_them_are_said_to() -> None:
    task = task_of("induction")
    small_settings = replace(task.settings, dim=8, heads=2, layers=1)
    choices = Choices(steps=1, batch=2)

    learning = compare_learning(
        task, small_settings, by="variant", values=["causal", "scaled"], repeats=1, choices=choices
    )
    sentence = "With scaled attention, every word sees the next one, which is its answer."
    assert sentence in additional_sentences(learning)
    for by, values in (("heads", ["1", "2"]), ("positions", ["none", "rotary"])):
        learning = compare_learning(
            task, small_settings, by=by, values=values, repeats=1, choices=choices
        )
        assert not any("its answer" in each for each in additional_sentences(learning))


def test_the_command_writes_what_was_found_and_how_to_find_it_again(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "compare --learn reverse --by layers --repeats 2 --steps 3 --batch 4"

    assert attnviz(*f"{command} -o a.json -o a.csv -o a.md".split()).status == 0

    document = json.loads(Path("a.json").read_text())
    assert [each["name"] for each in document["ways"]] == ["1", "2"]
    assert document["steps"] == [0, 1, 2, 3]
    assert document["attnviz"]["command"].startswith("attnviz compare --learn reverse --by layers")
    header, *lines = Path("a.csv").read_text().splitlines()
    assert header == "way,seed,step,accuracy,loss"
    assert len(lines) == 2 * 2 * 4
    name, seed, step, accuracy, loss = lines[5].split(",")
    assert (name, seed, step) == ("1", "43", "1")
    assert float(accuracy) == document["ways"][0]["accuracy"]["of_each_seed"][1][1]
    assert float(loss) == document["ways"][0]["loss"]["of_each_seed"][1][1]


def test_the_command_of_what_the_library_made_makes_the_same(
    task: Task, attnviz: Attnviz, tmp_path: Path
) -> None:
    model_settings = replace(task.settings, dim=16, seed=7)
    learning = compare_learning(
        task,
        model_settings,
        by="scale",
        repeats=2,
        choices=Choices(steps=3, until=math.inf, batch=4),
    )
    learning.view().save(tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    words = learning.command.line.split()[1:] if learning.command else []

    document_of_command = json.loads(attnviz(*words, "--json").out)
    assert document_of_command["ways"] == document["ways"]


REFUSED = {
    "unknown task": (
        ("--learn", "revers"),
        "there is no task 'revers'",
    ),
    "unknown aspect": (("--by", "layrs"), "there is no way to compare learning by 'layrs'"),
    "what no model learns by": (("--by", "mask"), "there is no way to compare learning by 'mask'"),
    "one value": (("--by", "dim", "--values", "8"), "there is only one value to compare: '8'"),
    "no number": (
        ("--by", "layers", "--values", "1,two"),
        "--values has 'two', but --by layers compares whole numbers",
    ),
    "uneven heads": (("--by", "heads", "--values", "1,3"), "does not split into 3 equal heads"),
    "no seeds": (("--repeats", "0"), "--repeats is 0, and must be from 1 to 1,000 with --learn"),
    "no steps": (("--steps", "0"), "--steps is 0, and must be from 1 to"),
    "a text": (("I am",), "sentences of its own, so TEXT cannot be given"),
    "a query": (("--query", "a"), "sentences of its own, so --query cannot be given"),
    "a reference": (("--reference", "scaled"), "so --reference cannot be given"),
    "checkpoints": (("--checkpoints", "run/*"), "so --checkpoints cannot be given"),
}


@pytest.mark.parametrize(("words", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_refused(
    attnviz: Attnviz, words: tuple[str, ...], problem: str
) -> None:
    first = () if "--learn" in words else ("--learn", "reverse")
    result = attnviz("compare", *first, *words)

    assert result.status == 2
    assert problem in result.err
    assert len(result.err.splitlines()) == 2


def test_options_of_learning_need_something_to_learn(attnviz: Attnviz) -> None:
    for words in (("--layers", "2"), ("--steps", "3"), ("--norm", "pre"), ("--rate", "0.1")):
        result = attnviz("compare", "I am", *words)
        assert result.status == 2
        assert f"{words[0]} is about training" in result.err
    assert "give a task: --learn reverse" in attnviz("compare", "I am", "--by", "layers").err


def test_every_setting_of_a_way_can_be_learned_with_or_is_refused(task: Task) -> None:
    with pytest.raises(AttnvizError, match="does not split"):
        compare_learning(task, Settings(layers=1, dim=30), by="heads", values=["1", "4"])
