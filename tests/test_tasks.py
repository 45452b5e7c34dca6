"""Tasks: what they draw is what they say, they are learned by the heads they are about, and no
shortcut solves them."""

from __future__ import annotations

from dataclasses import replace

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

ROWS = ("reverse", "sort", "induction", "brackets")  # of symbols; the others are grammars
PAIRS = dict(zip(OPENING_BRACKETS, CLOSING_BRACKETS, strict=True))
SEEDS = st.integers(0, 2**40)
few = profile(max_examples=25)


def sentences(name: str, seed: int, *, held_out: bool = False, count: int = 20) -> Examples:
    return draw_examples(task_of(name), seed, count, held_out=held_out)


def asked(examples: Examples) -> list[list[tuple[int, int]]]:
    """Of each sentence the places at which something is asked, and the answers."""
    return [
        [(place, answer) for place, answer in enumerate(row) if answer != NO_TOKEN]
        for row in examples.answers.tolist()
    ]


def read_at(examples: Examples, reading: str) -> list[list[int]]:
    return [list(row) for row in examples.readings[reading].tolist()]


@few
@given(seed=SEEDS, held_out=st.booleans())
def test_letters_are_asked_for_backwards(seed: int, held_out: bool) -> None:
    examples = sentences("reverse", seed, held_out=held_out)

    assert [[answer for _, answer in row] for row in asked(examples)] == [
        row[::-1] for row in examples.ids.tolist()
    ]
    assert examples.ids.gather(1, examples.readings["opposite"]).equal(examples.answers)


@few
@given(seed=SEEDS, held_out=st.booleans())
def test_numbers_stand_in_order_behind_the_arrow(seed: int, held_out: bool) -> None:
    examples = sentences("sort", seed, held_out=held_out)
    arrow = len(SORT_NUMBERS)

    for ids, answers, reads in zip(
        examples.ids.tolist(), asked(examples), read_at(examples, "next larger"), strict=True
    ):
        many = ids.index(arrow)
        numbers = ids[:many]
        assert 3 <= many <= 6
        assert len(set(numbers)) == many
        assert ids[many + 1 : 2 * many + 1] == sorted(numbers)
        assert answers == [(many + rank, each) for rank, each in enumerate(sorted(numbers))]
        assert [(place, numbers[read]) for place, read in enumerate(reads) if read >= 0] == answers


@few
@given(seed=SEEDS, held_out=st.booleans())
def test_letters_come_twice_and_each_is_asked_for_the_one_after_it(
    seed: int, held_out: bool
) -> None:
    examples = sentences("induction", seed, held_out=held_out)

    for ids, answers, followed, previous in zip(
        examples.ids.tolist(),
        asked(examples),
        read_at(examples, "what followed"),
        read_at(examples, "previous token"),
        strict=True,
    ):
        many = answers[0][0]
        assert 4 <= many <= 12
        assert len(set(ids[:many])) == many
        assert ids[many : 2 * many] == ids[:many]
        assert answers == [(place, ids[place + 1]) for place in range(many, 2 * many - 1)]
        assert [(place, ids[read]) for place, read in enumerate(followed) if read >= 0] == answers
        assert all(ids[read - 1] == ids[place] for place, read in enumerate(followed) if read >= 0)
        assert previous == [place - 1 if place < 2 * many else NO_TOKEN for place in range(24)]


@few
@given(seed=SEEDS, held_out=st.booleans())
def test_a_closing_bracket_is_asked_for_the_kind_of_what_was_opened_last(
    seed: int, held_out: bool
) -> None:
    examples = sentences("brackets", seed, held_out=held_out)

    for ids, answers, reads in zip(
        examples.ids.tolist(),
        examples.answers.tolist(),
        read_at(examples, "its opening"),
        strict=True,
    ):
        opened: list[int] = []
        last = max(place for place, answer in enumerate(answers) if answer != NO_TOKEN)
        for place in range(last + 1):
            if ids[place] == CLOSING_ID:
                assert reads[place] == opened.pop()
                assert answers[place] == ids[reads[place]]
            else:
                assert answers[place] == reads[place] == NO_TOKEN
                opened.append(place)
        assert not opened
        assert answers[last + 1 :] == reads[last + 1 :] == [NO_TOKEN] * (15 - last)


def test_brackets_are_nested_in_every_way_and_most_close_none_just_before_them() -> None:
    """Of three pairs there are five ways: ((())) (()()) (())() ()(()) ()()()."""
    examples = sentences("brackets", 1, count=5000)
    closes = (examples.ids == CLOSING_ID) & (examples.answers != NO_TOKEN)
    place, opening = torch.arange(16), examples.readings["its opening"]

    assert len(np.unique(closes[closes.sum(1) == 3, :6].numpy(), axis=0)) == 5
    assert ((opening == place - 1)[closes]).float().mean().item() == pytest.approx(0.44, abs=0.02)


@pytest.mark.parametrize("name", ROWS)
def test_what_is_held_out_is_never_learned_from(name: str) -> None:
    learned, held_out = (
        {tuple(row) for row in sentences(name, seed, held_out=which, count=2000).ids.tolist()}
        for seed, which in ((3, False), (3, True))
    )

    assert not learned & held_out
    assert len(held_out) > 500


def test_numbers_that_are_held_out_are_so_in_every_order() -> None:
    arrow = len(SORT_NUMBERS)
    learned, held_out = (
        {
            frozenset(row[: row.index(arrow)])
            for row in sentences("sort", 3, held_out=which, count=5000).ids.tolist()
        }
        for which in (False, True)
    )

    assert not learned & held_out


@pytest.mark.parametrize("held_out", [False, True])
def test_as_many_rows_are_drawn_as_are_wanted_and_always_the_same(held_out: bool) -> None:
    def coins(random: torch.Generator, count: int) -> torch.Tensor:
        return torch.randint(2, (count, 30), generator=random)

    drawn = shipped_tasks.draw_rows(coins, 7, 33, held_out)

    assert drawn.shape == (33, 30)
    assert drawn.equal(shipped_tasks.draw_rows(coins, 7, 33, held_out))
    assert not drawn.equal(shipped_tasks.draw_rows(coins, 8, 33, held_out))
    assert (shipped_tasks.is_held_out(drawn) == held_out).all()


def test_one_row_of_eight_is_held_out() -> None:
    drawn = torch.randint(10, (80_000, 8), generator=torch.Generator().manual_seed(0))

    assert shipped_tasks.is_held_out(drawn).float().mean().item() == pytest.approx(1 / 8, abs=0.005)


@pytest.fixture(scope="module")
def learned() -> dict[str, Learned]:
    """Each task once; brackets take longest, and need not come to their end here."""
    of_brackets = Choices(until=0.8)
    with unchecked():
        return {
            name: learn(task_of(name), choices=of_brackets if name == "brackets" else None)
            for name in ROWS
        }


@pytest.mark.parametrize("name", ROWS)
def test_a_task_is_learned(name: str, learned: dict[str, Learned]) -> None:
    made = learned[name]

    assert made.ended == "accuracy"
    assert made.moments[-1].accuracy >= (0.8 if name == "brackets" else 0.999)
    assert made.moments[0].accuracy < 0.4


HEADS = {  # reading: in which layer a head does it, and by how much at least
    ("reverse", "opposite"): (0, 0.9),
    ("sort", "next larger"): (0, 0.7),
    ("induction", "previous token"): (0, 0.7),
    ("induction", "what followed"): (1, 0.8),
    ("brackets", "its opening"): (1, 0.4),
}


@pytest.mark.parametrize(("name", "reading"), HEADS)
def test_the_head_that_a_task_is_about_is_found(
    name: str, reading: str, learned: dict[str, Learned]
) -> None:
    layer, least = HEADS[name, reading]
    before, after = (learned[name].moments[at].scores[reading] for at in (0, -1))

    assert after[layer].max() > least
    assert after[layer].max() == after.max()
    assert after.max() > before.max() + 0.2


MOST = {  # of the answers are right for who knows a place and its token; and one, two before it
    "reverse": (0.15, 0.25),  # in the middle the letter opposite stands beside it
    "sort": (0.3, 0.35),
    "induction": (0.06, 0.1),
    "brackets": (0.3, 0.6, 0.65),  # four of ten close the bracket just before them
}


@pytest.mark.parametrize(
    ("name", "before"), [(name, before) for name in MOST for before in range(len(MOST[name]))]
)
def test_no_place_knows_the_answer_by_its_token_and_those_just_before(
    name: str, before: int
) -> None:
    """Whoever says what came most often then is as good as a model can be without attention."""
    known, tried = (
        seen(sentences(name, 0, held_out=on, count=6000), before) for on in (False, True)
    )
    kinds, which = np.unique(np.concatenate([known[0], tried[0]]), return_inverse=True)
    came = np.zeros((len(kinds), known[1].max() + 1), dtype=int)
    np.add.at(came, (which[: len(known[1])], known[1]), 1)

    right = came.argmax(1)[which[len(known[1]) :]] == tried[1]

    assert right.mean() < MOST[name][before]


def seen(examples: Examples, before: int) -> tuple[np.ndarray, np.ndarray]:
    """At each place that is asked: where it is with its tokens, as one number; and the answer."""
    ids, answers = examples.ids.numpy(), examples.answers.numpy()
    rows, found = np.nonzero(answers != NO_TOKEN)
    number = found
    for back in range(before + 1):
        number = number * 32 + ids[rows, np.maximum(found - back, 0)]
    return number, answers[rows, found]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("name", ["reverse", "sort"])
def test_a_model_that_sees_no_further_does_not_learn_it(name: str, window: int) -> None:
    """In as many steps as one that sees everything needs to get every answer right."""
    task = task_of(name)

    made = learn(task, replace(task.settings, window=window), Choices(steps=100, batch=32))

    assert made.moments[-1].accuracy < 0.4


@pytest.mark.usefixtures("quick")
def test_one_layer_does_not_learn_induction() -> None:
    """It takes a head that reads what another wrote."""
    task = task_of("induction")

    made = learn(task, replace(task.settings, layers=1), Choices(steps=60, batch=32))

    assert made.moments[-1].accuracy < 0.4
