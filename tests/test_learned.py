"""What is shown of a training: its sentence is true, and its tables and files are its history."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.task import Reading
from attnviz.learning.training import Learned, Training, learn
from attnviz.views.conclusions.learning_findings import moment_title, training_sentence
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.learned.head_roles import LearnedHeads
from attnviz.views.learned.view import film_moments, halving_moments
from tests import not_none
from tests.browser import page_in_browser
from tests.conftest import unchecked
from tests.learned_by_hand import BEFORE, SUBJECT, make_learned, task
from tests.pages_by_hand import wait_until, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SHARE = r"(?:\.\d\d|1\.0)"
HEAD = r"L\d+H\d+"


@pytest.fixture(scope="module")
def reverse_training() -> Learned:
    with unchecked():
        return learn(task_of("reverse"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "After 80 steps, every verb is right; L1H1 reads the subject (99\u00a0%)."),
        (
            {"accuracy": 0.0},
            "After 80 steps, no verb is right; L1H1 reads the subject (99\u00a0%).",
        ),
        (
            {"accuracy": 0.9999},
            "After 80 steps, over 99.9\u00a0% of the verbs are right; L1H1 reads the subject "
            "(99\u00a0%).",
        ),
        (
            {"ended": "interrupted", "accuracy": 0.5},
            "Stopped after 80 steps: 50\u00a0% of the verbs are right; L1H1 reads the subject "
            "(99\u00a0%).",
        ),
        (
            {"ended": "nan", "steps": (0, 1)},
            "The loss is no longer finite; in the model after 1 step, which is kept, every verb "
            "is right; L1H1 reads the subject (99\u00a0%).",
        ),
        (
            {"ended": "interrupted", "steps": (0,)},
            "Before the first step, every verb is right; L1H1 reads the subject (99\u00a0%).",
        ),
        ({"scores": {}}, "After 80 steps, every verb is right."),
        (
            {
                "scores": {
                    SUBJECT: np.array([[0.1, 0.2], [0.3, 0.99]]),
                    BEFORE: np.array([[0.1, 0.94], [0.3, 0.2]]),
                }
            },
            "After 80 steps, every verb is right; L1H1 reads the subject (99\u00a0%), L0H1 the "
            "word before (94\u00a0%).",
        ),
        (
            {"scores": {SUBJECT: np.array([[0.1, 0.7], [0.6, 0.8]]), BEFORE: np.zeros((2, 2))}},
            "After 80 steps, every verb is right; L1H1 reads the subject (80\u00a0%; 2 more "
            "heads: at least 60\u00a0%).",
        ),
        (
            {"scores": {SUBJECT: np.array([[0.1, 0.2], [0.6, 0.8]])}},
            "After 80 steps, every verb is right; L1H1 reads the subject (80\u00a0%; L1H0: "
            "60\u00a0%).",
        ),
        (
            {"scores": {SUBJECT: np.full((2, 2), 0.211), BEFORE: np.full((2, 2), 0.3)}},
            "After 80 steps, every verb is right; no head reads the subject with more than "
            "22\u00a0% of its attention.",
        ),
        ({"scores": {SUBJECT: np.full((2, 2), np.nan)}}, "After 80 steps, every verb is right."),
    ],
)
def test_the_sentence_says_what_the_figures_do(changes: dict[str, Any], sentence: str) -> None:
    assert training_sentence(make_learned(**changes)) == sentence


share = st.floats(0, 1, width=32)


@given(
    subject=st.lists(share, min_size=4, max_size=4),
    before=st.lists(share, min_size=4, max_size=4),
    accuracy=share,
    last=st.integers(0, 5000),
)
def test_every_sentence_is_true(
    subject: list[float], before: list[float], accuracy: float, last: int
) -> None:
    """Read, and worked out again from the scores."""
    scores = {SUBJECT: np.reshape(subject, (2, 2)), BEFORE: np.reshape(before, (2, 2))}
    steps = (0, last) if last else (0,)
    sentence = training_sentence(make_learned(scores, accuracy=accuracy, steps=steps))

    accuracy_claim, _, heads_claim = sentence.removesuffix(".").partition("; ")
    assert_accuracy_claim(accuracy_claim, accuracy, last)
    if heads_claim.startswith("no head "):
        assert max(each.max() for each in scores.values()) < 0.5
        most, stated_share = scores[SUBJECT].max(), share_of(heads_claim)
        assert heads_claim.startswith("no head reads the subject with more than ")
        assert most <= stated_share + 1e-9 <= most + 0.0101
        return
    parts = heads_claim.split(", ")
    strong_readings = [each for each in scores if scores[each].max() >= 0.5]
    assert len(parts) == len(strong_readings)
    for place, (each, part) in enumerate(zip(strong_readings, parts, strict=True)):
        assert_head_claim(each, scores[each], part, after_another=place > 0)


def assert_accuracy_claim(sentence: str, accuracy: float, step: int) -> None:
    start = (
        f"After {step:,} step{'' if step == 1 else 's'}, " if step else "Before the first step, "
    )
    claim = sentence.removeprefix(start)
    assert sentence.startswith(start)
    if accuracy in (0, 1):
        assert claim == f"{'every' if accuracy else 'no'} verb is right"
        return
    claim_form = r"(over |under )?([\d.]+)\u00a0% of the verbs are right"
    match = re.fullmatch(claim_form, claim)
    assert match, claim
    percent, bound = float(match[2]), match[1]
    assert 0 < percent < 100
    if bound:
        assert (100 * accuracy > percent) == (bound == "over ")
    else:
        assert abs(percent - 100 * accuracy) <= 0.5 + 1e-9


def assert_head_claim(
    reading: Reading, scores: np.ndarray, part: str, *, after_another: bool
) -> None:
    phrase = reading.does.removeprefix("reads ") if after_another else reading.does
    match = re.fullmatch(rf"({HEAD}) {re.escape(phrase)} \(([^;]*)(?:; (.*))?\)", part)
    assert match, part
    layer, head = (int(each) for each in re.findall(r"\d+", match[1]))
    assert scores[layer, head] == scores.max()
    assert share_of(match[2]) == pytest.approx(scores.max(), abs=0.00501)
    others = sorted(np.delete(scores.ravel(), 2 * layer + head))
    others = [each for each in others if each >= 0.5]
    if not others:
        assert match[3] is None
    elif len(others) == 1:
        assert re.fullmatch(f"{HEAD}: .*", match[3])
        assert share_of(match[3]) == pytest.approx(others[0], abs=0.00501)
    else:
        assert match[3].startswith(f"{len(others)} more heads: at least ")
        least = share_of(match[3])
        assert least <= others[0] + 1e-6
        assert least > others[0] - 0.0101


def share_of(text: str) -> float:
    """The share that a text names last, in per cents."""
    return float(re.findall(r"([\d.]+)\u00a0%", text)[-1]) / 100


def test_before_the_end_nothing_is_said_of_heads() -> None:
    training = make_learned(accuracy=0.8)

    assert moment_title(training, 4) == "Step 10: \u200710\u00a0% of the verbs are right"
    assert moment_title(training, 7) == training_sentence(training).removesuffix(".")


def test_a_page_shows_the_first_moment_the_last_and_halves_before_it() -> None:
    training = make_learned(steps=tuple(range(101)))

    assert halving_moments(training.moments, 5) == [0, 12, 25, 50, 100]
    assert halving_moments(training.moments[:1], 5) == [0]
    assert halving_moments(training.moments[:2], 5) == [0, 1]


@given(count=st.integers(1, 200), most=st.integers(2, 40))
def test_a_film_has_the_first_moment_the_last_and_no_more_than_it_may(
    count: int, most: int
) -> None:
    training = make_learned({}, steps=tuple(range(count)), of=task(watch="the"))

    moments = film_moments(training.moments, most)

    assert moments[0] == 0
    assert moments[-1] == count - 1
    assert moments == sorted(set(moments))
    assert len(moments) <= max(most, min(count, most)) + 1


def test_a_film_lingers_where_weights_change() -> None:
    """Of a thousand steps that change nothing few are shown, of ten that do most."""
    unchanging = make_learned(steps=tuple(range(0, 1000, 10)))
    unchanging_weights, changing = (
        unchanging.moments[0].weights,
        make_learned(steps=tuple(range(11))).moments,
    )
    moments = [
        *(changed_moment(each, unchanging_weights) for each in unchanging.moments),
        *(changed_moment(each, each.weights, 1000 + each.step) for each in changing[1:]),
    ]

    film = film_moments(moments, 20)

    assert sum(place >= 100 for place in film) >= 8


def changed_moment(moment: Any, weights: Any, step: int | None = None) -> Any:
    fields = {**vars(moment), "weights": weights}
    return type(moment)(**{**fields, "step": moment.step if step is None else step})


def test_the_page_has_a_row_for_each_of_few_heads_and_a_column_for_each_moment() -> None:
    training = make_learned()
    heads, curves = training.view().picture.groups

    assert [name.text for name in heads.panel_titles] == [f"step {n}" for n in (0, 10, 20, 40, 80)]
    assert [name.text for name in heads.row_titles] == ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert [remark.text for name in heads.row_titles for remark in name.remarks] == ["subject .99"]
    for place, panel in enumerate(heads.panels):
        row, column = divmod(place, 5)
        moment = training.moments[(0, 4, 5, 6, 7)[column]]
        assert isinstance(panel, Grid)
        assert (panel.values == moment.weights[row // 2][row % 2]).all()
        assert (panel.hidden == np.triu(np.ones((8, 8), dtype=bool), 1)).all()
    loss, shares = curves.panels
    assert isinstance(loss, Curves)
    assert isinstance(shares, Curves)
    assert loss.lines[0].middle.tolist() == [moment.loss for moment in training.moments]
    assert [line.name for line in shares.lines] == ["subject", "accuracy"]
    assert shares.lines[0].middle[-1] == 0.99


def test_of_many_heads_the_page_has_those_that_do_something() -> None:
    scores = {SUBJECT: np.zeros((3, 4)), BEFORE: np.zeros((3, 4))}
    scores[SUBJECT][2, 3], scores[BEFORE][0, 1] = 0.9, 0.8
    heads, _ = make_learned(scores, layers=3, heads=4).view().picture.groups

    assert [name.text for name in heads.row_titles] == ["L0H1", "L2H3"]


def test_a_query_is_followed_from_moment_to_moment() -> None:
    training = make_learned()
    readings, _ = training.view(query="are").picture.groups

    last = readings.panels[3]
    assert isinstance(last, Grid)
    assert last.rows.names[-1] == "80"
    rows = [moment.weights[1][1][7] for moment in training.moments]
    assert (last.values == np.stack(rows)).all()


def test_a_page_opens_on_the_head_and_the_row_of_its_title() -> None:
    training = make_learned()
    view = training.view()
    explorer = not_none(view.heads)

    assert view.headline.endswith("L1H1 reads the subject (99\u00a0%)")
    assert explorer.heads[explorer.first].name.startswith("L1H1 · step 80")
    assert explorer.query == not_none(LearnedHeads(training).trace.prediction).main_position
    assert [title.split(":")[0] for title in explorer.row_titles[:-1]] == [
        f"Step {step:\u2007>2}" for step in (0, 1, 2, 5, 10, 20, 40)
    ]
    assert explorer.row_titles[-1] == view.headline
    assert not_none(view.with_title("My own").heads).row_titles == ()


def test_the_title_of_a_page_follows_the_slider(tmp_path: Path, chromium: Browser) -> None:
    view = make_learned().view()
    with page_in_browser(chromium, write_page(view, tmp_path)) as page:
        assert page.inner_text("h1") == view.headline
        page.focus("#layer")
        page.keyboard.press("Home")
        wait_until(page, lambda: page.inner_text("h1").startswith("Step \u20070:"))
        page.keyboard.press("End")
        wait_until(page, lambda: page.inner_text("h1") == view.headline)


def test_a_query_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttnvizError, match="no token of the sentence is 'dog'"):
        make_learned().view(query="dog")


def test_json_has_the_whole_history_and_the_weights_of_what_was_watched() -> None:
    training = make_learned()
    document = json.loads(training.view().render(".json"))

    assert document["history"]["step"] == [0, 1, 2, 5, 10, 20, 40, 80]
    assert document["history"]["loss"] == [moment.loss for moment in training.moments]
    assert document["history"]["scores"]["subject"][-1] == [[0.1, 0.2], [0.3, 0.99]]
    assert document["conclusion"] == training_sentence(training)
    assert document["tokens"] == list(training.watched.labels)
    assert document["heads"] == [{"reading": "subject", "head": "L1H1", "score": 0.99}]
    watched_weights = np.array(document["watched"]["layers"][1]["weights"])
    assert watched_weights.shape == (8, 2, 8, 8)
    assert (watched_weights[-1] == training.moments[-1].weights[1].astype(float)).all()
    assert document["attnviz"]["settings"]["rate"] == 0.003


def test_csv_has_a_line_for_each_moment() -> None:
    training = make_learned()
    rows = list(csv.DictReader(training.view().render(".csv").decode().splitlines()))

    assert [row["step"] for row in rows] == ["0", "1", "2", "5", "10", "20", "40", "80"]
    assert float(rows[-1]["L1H1 subject"]) == 0.99
    assert float(rows[3]["accuracy"]) == training.moments[3].accuracy


def test_texts_have_the_sentence_the_heads_and_the_way(reverse_training: Learned) -> None:
    """Of a training that took place."""
    view = reverse_training.view()
    text = view.render(".txt").decode()

    assert view.title == "learned reverse: eight letters, backwards"
    assert text.splitlines()[0] == training_sentence(reverse_training).removesuffix(".")
    for part in ("\nheads\n", "\non the way\n", "\nstep 0 ", "\nL0H0 ", "held-out"):
        assert part in text
    last = reverse_training.moments[-1]
    assert f"\nstep {last.step:,} " in text
    assert f"{last.accuracy:.3f}" in text


def test_the_weights_of_a_text_are_those_of_the_last_moment(reverse_training: Learned) -> None:
    weights, *_ = reverse_training.view().screen.panels

    assert isinstance(weights, Grid)
    assert np.allclose(weights.values, reverse_training.moments[-1].weights[0][0], atol=1e-6)


def test_the_command_says_what_differs_from_the_task_of_its_own() -> None:
    training = learn(task_of("reverse"), None, Choices(steps=3, until=math.inf, rate=0.5), "b a d")

    command = not_none(training.view().command)
    assert command.line == "attnviz learn reverse --steps 3 --rate 0.5 --watch 'b a d'"


# The blank, and what is answered there.


def test_a_blank_has_its_sign_and_beside_it_what_is_answered_then() -> None:
    training = learn("agreement", choices=Choices(steps=2))
    view = training.view()
    (shot, *_) = view.shots
    grid = shot.groups[0].panels[0]
    (answer,) = training.moments[0].answers
    likely = f"{100 * answer.probability:.0f}\u00a0%"

    assert isinstance(grid, Grid)
    assert grid.columns.labels[-1] == "?"
    assert grid.rows.labels[-1] == f"? → {answer.word} {likely}"
    assert "are" not in view.picture.panels[0].rows.labels  # type: ignore[union-attr]
    assert view.picture.groups[0].panel_titles[0].text == f"step 0: {answer.word} {likely}"
    panels = [panel for shot in view.shots for panel in shot.groups[0].panels]
    label_widths = {panel.rows.reserved_labels for panel in panels}  # type: ignore[union-attr]
    assert len(label_widths) == 1  # so that nothing moves from one moment to the next
    last = training.moments[-1].answers[0]
    prediction = not_none(LearnedHeads(training).trace.prediction)
    assert prediction.answers[prediction.best(last.place, 1)[0]] == last.word
    assert float(prediction.probabilities[last.place].max()) == pytest.approx(
        last.probability, abs=1e-5
    )


def test_training_takes_one_thread_and_gives_the_others_back() -> None:
    thread_count = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        training = Training(task_of("sort"), choices=Choices(steps=2))
        learner, thread_counts = training._learner, list[int]()
        original_run = learner.run

        def run(ids: torch.Tensor) -> Any:
            thread_counts.append(torch.get_num_threads())
            return original_run(ids)

        learner.run = run  # type: ignore[method-assign]
        for _ in training:
            assert torch.get_num_threads() == 2
        assert set(thread_counts[1:]) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(thread_count)
