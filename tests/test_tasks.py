"""Tasks: what they draw is what they say, they are learned by the heads they are about, and no
shortcut solves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from attnviz.learning import shipped_tasks
from attnviz.learning.choices import Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.shipped_tasks import (
    CLOSING_BRACKETS,
    CLOSING_ID,
    OPENING_BRACKETS,
    SORT_NUMBERS,
)
from attnviz.learning.task import NO_TOKEN, Examples, draw_examples
from attnviz.learning.training import Learned, learn
from tests.conftest import unchecked
from tests.tiers import examples

SYMBOL_TASKS = ("reverse", "sort", "induction", "brackets")  # the other tasks are grammars
PAIRS = dict(zip(OPENING_BRACKETS, CLOSING_BRACKETS, strict=True))
SEEDS = st.integers(0, 2**40)
few_examples = profile(max_examples=examples(25))


def draw_sentences(name: str, seed: int, *, held_out: bool = False, count: int = 20) -> Examples:
    return draw_examples(task_of(name), seed, count, held_out=held_out)


def answers_by_place(examples: Examples) -> list[list[tuple[int, int]]]:
    """For each sentence: the places that ask for an answer, each with its answer."""
    return [
        [(place, answer) for place, answer in enumerate(row) if answer != NO_TOKEN]
        for row in examples.answers.tolist()
    ]


def reading_places(examples: Examples, reading: str) -> list[list[int]]:
    return [list(row) for row in examples.readings[reading].tolist()]


@few_examples
@given(seed=SEEDS, held_out=st.booleans())
def test_letters_are_asked_for_backwards(seed: int, held_out: bool) -> None:
    examples = draw_sentences("reverse", seed, held_out=held_out)

    assert [[answer for _, answer in row] for row in answers_by_place(examples)] == [
        row[::-1] for row in examples.ids.tolist()
    ]
    assert examples.ids.gather(1, examples.readings["opposite"]).equal(examples.answers)


@few_examples
@given(seed=SEEDS, held_out=st.booleans())
def test_numbers_stand_in_order_behind_the_arrow(seed: int, held_out: bool) -> None:
    examples = draw_sentences("sort", seed, held_out=held_out)
    arrow = len(SORT_NUMBERS)

    for ids, answers, sources in zip(
        examples.ids.tolist(),
        answers_by_place(examples),
        reading_places(examples, "next larger"),
        strict=True,
    ):
        count = ids.index(arrow)
        numbers = ids[:count]
        assert 3 <= count <= 6
        assert len(set(numbers)) == count
        assert ids[count + 1 : 2 * count + 1] == sorted(numbers)
        assert answers == [(count + rank, each) for rank, each in enumerate(sorted(numbers))]
        assert [
            (place, numbers[source]) for place, source in enumerate(sources) if source >= 0
        ] == answers


@few_examples
@given(seed=SEEDS, held_out=st.booleans())
def test_letters_come_twice_and_each_is_asked_for_the_one_after_it(
    seed: int, held_out: bool
) -> None:
    examples = draw_sentences("induction", seed, held_out=held_out)

    for ids, answers, follower_sources, previous_sources in zip(
        examples.ids.tolist(),
        answers_by_place(examples),
        reading_places(examples, "what followed"),
        reading_places(examples, "previous token"),
        strict=True,
    ):
        count = answers[0][0]
        assert 4 <= count <= 12
        assert len(set(ids[:count])) == count
        assert ids[count : 2 * count] == ids[:count]
        assert answers == [(place, ids[place + 1]) for place in range(count, 2 * count - 1)]
        assert [
            (place, ids[source]) for place, source in enumerate(follower_sources) if source >= 0
        ] == answers
        assert all(
            ids[source - 1] == ids[place]
            for place, source in enumerate(follower_sources)
            if source >= 0
        )
        assert previous_sources == [
            place - 1 if place < 2 * count else NO_TOKEN for place in range(24)
        ]


@few_examples
@given(seed=SEEDS, held_out=st.booleans())
def test_a_closing_bracket_is_asked_for_the_kind_of_what_was_opened_last(
    seed: int, held_out: bool
) -> None:
    examples = draw_sentences("brackets", seed, held_out=held_out)

    for ids, answers, sources in zip(
        examples.ids.tolist(),
        examples.answers.tolist(),
        reading_places(examples, "its opening"),
        strict=True,
    ):
        open_places: list[int] = []
        last = max(place for place, answer in enumerate(answers) if answer != NO_TOKEN)
        for place in range(last + 1):
            if ids[place] == CLOSING_ID:
                assert sources[place] == open_places.pop()
                assert answers[place] == ids[sources[place]]
            else:
                assert answers[place] == sources[place] == NO_TOKEN
                open_places.append(place)
        assert not open_places
        assert answers[last + 1 :] == sources[last + 1 :] == [NO_TOKEN] * (15 - last)


def test_brackets_are_nested_in_every_way_and_most_close_none_just_before_them() -> None:
    """Of three pairs there are five ways: ((())) (()()) (())() ()(()) ()()()."""
    examples = draw_sentences("brackets", 1, count=5000)
    is_closing = (examples.ids == CLOSING_ID) & (examples.answers != NO_TOKEN)
    place, opening = torch.arange(16), examples.readings["its opening"]

    assert len(np.unique(is_closing[is_closing.sum(1) == 3, :6].numpy(), axis=0)) == 5
    assert ((opening == place - 1)[is_closing]).float().mean().item() == pytest.approx(
        0.44, abs=0.02
    )


@pytest.mark.parametrize("name", SYMBOL_TASKS)
def test_what_is_held_out_is_never_learned_from(name: str) -> None:
    training_rows, held_out_rows = (
        {
            tuple(row)
            for row in draw_sentences(name, seed, held_out=is_held_out, count=2000).ids.tolist()
        }
        for seed, is_held_out in ((3, False), (3, True))
    )

    assert not training_rows & held_out_rows
    assert len(held_out_rows) > 500


def test_numbers_that_are_held_out_are_so_in_every_order() -> None:
    arrow = len(SORT_NUMBERS)
    training_rows, held_out_rows = (
        {
            frozenset(row[: row.index(arrow)])
            for row in draw_sentences("sort", 3, held_out=is_held_out, count=5000).ids.tolist()
        }
        for is_held_out in (False, True)
    )

    assert not training_rows & held_out_rows


@pytest.mark.parametrize("held_out", [False, True])
def test_as_many_rows_are_drawn_as_are_wanted_and_always_the_same(held_out: bool) -> None:
    def draw_coins(generator: torch.Generator, count: int) -> torch.Tensor:
        return torch.randint(2, (count, 30), generator=generator)

    rows = shipped_tasks.draw_rows(draw_coins, 7, 33, held_out)

    assert rows.shape == (33, 30)
    assert rows.equal(shipped_tasks.draw_rows(draw_coins, 7, 33, held_out))
    assert not rows.equal(shipped_tasks.draw_rows(draw_coins, 8, 33, held_out))
    assert (shipped_tasks.is_held_out(rows) == held_out).all()


def test_one_row_of_eight_is_held_out() -> None:
    rows = torch.randint(10, (80_000, 8), generator=torch.Generator().manual_seed(0))

    assert shipped_tasks.is_held_out(rows).float().mean().item() == pytest.approx(1 / 8, abs=0.005)


@pytest.fixture(scope="module")
def learned_models() -> dict[str, Learned]:
    """A model trained on each task; training on brackets, which takes longest, stops early."""
    bracket_choices = Choices(until=0.8)
    with unchecked():
        return {
            name: learn(task_of(name), choices=bracket_choices if name == "brackets" else None)
            for name in SYMBOL_TASKS
        }


@pytest.mark.slow("training")
@pytest.mark.parametrize("name", SYMBOL_TASKS)
def test_a_task_is_learned(name: str, learned_models: dict[str, Learned]) -> None:
    result = learned_models[name]

    assert result.ended == "accuracy"
    assert result.moments[-1].accuracy >= (0.8 if name == "brackets" else 0.999)
    assert result.moments[0].accuracy < 0.4


TASK_HEADS = {  # by task and reading: the layer of the head, and its score at least
    ("reverse", "opposite"): (0, 0.9),
    ("sort", "next larger"): (0, 0.7),
    ("induction", "previous token"): (0, 0.7),
    ("induction", "what followed"): (1, 0.8),
    ("brackets", "its opening"): (1, 0.4),
}


@pytest.mark.slow("training")
@pytest.mark.parametrize(("name", "reading"), TASK_HEADS)
def test_the_head_that_a_task_is_about_is_found(
    name: str, reading: str, learned_models: dict[str, Learned]
) -> None:
    layer, min_score = TASK_HEADS[name, reading]
    first_scores, last_scores = (
        learned_models[name].moments[moment].scores[reading] for moment in (0, -1)
    )

    assert last_scores[layer].max() > min_score
    assert last_scores[layer].max() == last_scores.max()
    assert last_scores.max() > first_scores.max() + 0.2


# At most this share of answers is guessed right from a place and its token; then also from one and
# two tokens before it.
MAX_SHARES = {
    "reverse": (0.15, 0.25),  # in the middle, the opposite letter is a neighbour
    "sort": (0.3, 0.35),
    "induction": (0.06, 0.1),
    "brackets": (0.3, 0.6, 0.65),  # four of ten close the bracket just before them
}


@pytest.mark.parametrize(
    ("name", "before"),
    [(name, before) for name in MAX_SHARES for before in range(len(MAX_SHARES[name]))],
)
def test_no_place_knows_the_answer_by_its_token_and_those_just_before(
    name: str, before: int
) -> None:
    """A model without attention can do no better than to give the most frequent answer."""
    known_contexts, tried_contexts = (
        answer_contexts(draw_sentences(name, 0, held_out=is_held_out, count=6000), before)
        for is_held_out in (False, True)
    )
    contexts, context_ids = np.unique(
        np.concatenate([known_contexts[0], tried_contexts[0]]), return_inverse=True
    )
    answer_counts = np.zeros((len(contexts), known_contexts[1].max() + 1), dtype=int)
    np.add.at(answer_counts, (context_ids[: len(known_contexts[1])], known_contexts[1]), 1)

    is_right = answer_counts.argmax(1)[context_ids[len(known_contexts[1]) :]] == tried_contexts[1]

    assert is_right.mean() < MAX_SHARES[name][before]


def answer_contexts(examples: Examples, before: int) -> tuple[np.ndarray, np.ndarray]:
    """Each place that asks for an answer, with its tokens, as one number; and the answers."""
    ids, answers = examples.ids.numpy(), examples.answers.numpy()
    rows, places = np.nonzero(answers != NO_TOKEN)
    codes = places
    for back in range(before + 1):
        codes = codes * 32 + ids[rows, np.maximum(places - back, 0)]
    return codes, answers[rows, places]


@pytest.mark.slow_table("training", keep=1)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "changes", "steps"),
    [
        *((name, {"window": window}, 100) for name in ("reverse", "sort") for window in (1, 2)),
        ("induction", {"layers": 1}, 60),  # it takes a head that reads what another wrote
    ],
)
def test_a_model_that_sees_no_further_or_has_one_layer_does_not_learn_it(
    name: str, changes: dict[str, Any], steps: int
) -> None:
    """In as many steps as one that sees everything needs to get every answer right."""
    task = task_of(name)

    result = learn(task, replace(task.settings, **changes), Choices(steps=steps, batch=32))

    assert result.moments[-1].accuracy < 0.4
