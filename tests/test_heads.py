"""What is lost without each head of a model: the numbers, the words, and what cannot be ranked."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from attnviz import trace
from attnviz.analysis.head_accuracy import RankedHead, Ranking, TrialResult, rank
from attnviz.cells import unmasked_cells
from attnviz.learning.learner import model_plan, run_learner_model
from attnviz.learning.lookup import task_of
from attnviz.learning.task import NO_TOKEN, Examples, draw_examples
from attnviz.learning.training import Learned, learn
from attnviz.learning.training_facts import task_for_model
from attnviz.renderers.picture.items import Block, Layout
from attnviz.renderers.picture.ranking import RankingDrawing
from attnviz.renderers.picture.text import lettering
from attnviz.traces.models import folder
from attnviz.traces.settings import format_head_id
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.head_ranking import ranking_sentences
from tests.conftest import Attnviz, unchecked
from tests.untrained import untrained_model


@pytest.fixture(scope="module")
def learned() -> Learned:
    """Two layers, of which one is enough."""
    task = task_of("reverse")
    with unchecked():
        return learn(task, replace(task.settings, layers=2))


@pytest.fixture(scope="module")
def ranking(learned: Learned) -> Ranking:
    return rank(learned.model, learned.task)


@pytest.fixture(scope="module")
def saved(learned: Learned, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("model")
    for name, content in folder.model_files(learned.model).items():
        (place / name).write_bytes(content)
    return str(place)


def test_without_the_head_that_does_it_the_answers_are_lost_and_without_another_not(
    ranking: Ranking,
) -> None:
    needed, other = ranking.heads

    assert ranking.with_all_heads.accuracy > 0.99
    assert (needed.name, other.name) == ("L0H0", "L1H0")
    assert needed.scores["opposite"] > 0.9 > 0.6 > other.scores["opposite"]
    assert needed.without.accuracy < 0.6
    assert other.without.accuracy > 0.98
    assert ranking.with_no_heads.accuracy < 0.3  # one of ten letters


def test_the_accuracy_is_that_of_runs_with_the_head_off(saved: str, ranking: Ranking) -> None:
    """Sentence by sentence through the door of the library: the same answers."""
    examples = draw_examples(ranking.task, ranking.model.settings.seed, 5, held_out=True)
    words = ranking.task.vocabulary.words
    for head in ranking.heads:
        for ids, answers in zip(examples.ids, examples.answers, strict=True):
            made = trace(" ".join(words[each] for each in ids), model=saved, without=head.name)
            assert made.prediction is not None
            assert torch.equal(right(made.prediction.logits, answers), kept(ranking, head, ids))


def right(logits: Tensor, answers: Tensor) -> Tensor:
    return logits.argmax(-1)


def kept(ranking: Ranking, head: RankedHead, ids: Tensor) -> Tensor:
    """What the model answers whose matrices hand on nothing of this head, which is all there is."""
    layer, _ = head.head_id
    name = "w_out" if not layer else f"layers.{layer}.w_out"
    parameters = dict(ranking.model.parameters)
    parameters[name] = torch.zeros_like(parameters[name])
    model = ranking.model.with_parameters(parameters)
    found: Tensor = run_learner_model(model, model_plan(model), ids).logits.argmax(-1)
    return found


def test_what_is_lost_has_an_interval_over_sentences(ranking: Ranking) -> None:
    examples = draw_examples(ranking.task, ranking.model.settings.seed, 1000, held_out=True)
    needed = ranking.heads[0]
    whole = run_learner_model(ranking.model, model_plan(ranking.model), examples.ids).logits
    asked = examples.answers != NO_TOKEN
    right = (whole.argmax(-1) == examples.answers) & asked
    left = (kept(ranking, needed, examples.ids) == examples.answers) & asked
    lost = (right.sum(-1) - left.sum(-1)).double() / asked.sum(-1)  # all of one length
    error = float(lost.std()) / 1000**0.5

    assert needed.interval == pytest.approx(
        (float(lost.mean()) - 1.96 * error, float(lost.mean()) + 1.96 * error), rel=1e-6
    )
    (bars,) = ranking.view().picture.panels
    assert isinstance(bars, RankedBars)
    assert bars.remarks[0].startswith(f"±{196 * error:.1f} · ")
    even = ranking.even_scores["opposite"]
    assert ranking_sentences(ranking)[1].endswith(f", evenly {100 * even:.0f}\u00a0%).")


def test_what_it_comes_to_is_said(ranking: Ranking) -> None:
    title, reads, right = ranking_sentences(ranking)
    lost = ranking.accuracy_lost(ranking.heads[0])

    assert title.startswith(f"Switching off L0H0 costs {100 * lost:.0f}\u00a0% of the letters; ")
    assert reads.startswith("L0H0 reads the opposite letter (99 %, evenly ")
    assert right.startswith("With all heads, ")
    assert ranking.view().headline == title.removesuffix(".")
    assert title not in ranking.view().closing


def made(ranking: Ranking, whole: float, *without: float) -> Ranking:
    """With other figures: of so many heads, and without any half of the last."""
    heads = tuple(
        RankedHead(head_id=(0, place), without=TrialResult(each, 1.0), scores={"opposite": 0.2})
        for place, each in enumerate(without)
    )
    none = TrialResult(without[0] / 2, 2.0)
    return replace(ranking, with_all_heads=TrialResult(whole, 0.1), heads=heads, with_no_heads=none)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (
            (1.0, 0.5, 0.9),
            (
                "Switching off L0H0 costs 50 % of the letters; L0H1 costs 10 %.",
                "With all heads, 100 % of the letters are right; with every head switched off, "
                "25 %.",
            ),
        ),
        (
            (1.0, 0.5, 0.9, 0.95),
            (
                "Switching off L0H0 costs 50 % of the letters; any other head at most 10 %.",
                "With all heads, 100 % of the letters are right; with every head switched off, "
                "25 %.",
            ),
        ),
        (  # a share is rounded; what "at most" stands before is rounded up
            (0.9999, 0.749792, 0.9746, 0.98),
            (
                "Switching off L0H0 costs 25 % of the letters; any other head at most 3 %.",
                "With all heads, over 99.9 % of the letters are right; with every head switched "
                "off, 37 %.",
            ),
        ),
        (
            (0.99, 0.1),
            (
                "Switching off L0H0, the only head, costs 89 % of the letters.",
                "With all heads, 99 % of the letters are right; with every head switched off, 5 %.",
            ),
        ),
        (
            (1.0, 0.5, 1.0, 1.0),
            (
                "Switching off L0H0 costs 50 % of the letters; any other head costs nothing.",
                "With all heads, 100 % of the letters are right; with every head switched off, "
                "25 %.",
            ),
        ),
        (
            (0.95, 0.95, 0.96),
            (
                "Switching off any one head costs none of the letters.",
                "With all heads, 95 % of the letters are right; with every head switched off, 48 "
                "%.",
            ),
        ),
    ],
)
def test_each_sentence_is_said_where_it_is_true(
    ranking: Ranking, figures: tuple[float, ...], said: tuple[str, ...]
) -> None:
    told = ranking_sentences(made(ranking, *figures))
    assert tuple(each.replace("\u00a0", " ") for each in told) == said


def test_what_a_model_says_of_its_heads_is_what_the_table_of_its_heads_says(
    ranking: Ranking,
) -> None:
    """Of the same sentences: two digits of 128 of them would not be those of 1,000."""
    facts = ranking.model.facts

    assert facts["sentences"] == ranking.sentences == 1000
    assert facts["accuracy"] == round(ranking.with_all_heads.accuracy, 4)
    for head in ranking.heads:
        if head.name in ranking.model.heads:
            assert facts["scores"][head.name] == round(head.scores["opposite"], 4)
    assert [*facts["scores"]] == [*ranking.model.heads] != []


def test_the_table_and_the_data_have_every_head(ranking: Ranking) -> None:
    view = ranking.view()
    (bars,) = view.picture.panels

    assert isinstance(bars, RankedBars)
    assert bars.grid.rows.labels == tuple(head.name for head in ranking.heads)
    assert bars.grid.values[:, 0] == pytest.approx(
        [100 * ranking.accuracy_lost(e) for e in ranking.heads]
    )
    darkest = bars.grid.scale.shares(bars.grid.values)[:, 0]
    assert darkest.argmax() == 0  # the head that matters most
    rows = list(csv.DictReader(io.StringIO(view.render(".csv").decode())))
    assert [row["head"] for row in rows] == [head.name for head in ranking.heads]
    assert float(rows[0]["lost"]) == pytest.approx(ranking.accuracy_lost(ranking.heads[0]))
    document = json.loads(view.render(".json"))
    assert document["heads"][0]["scores"] == dict(ranking.heads[0].scores)
    assert document["attnviz"]["settings"]["task"] == "reverse"
    assert document["conclusion"] == " ".join(ranking_sentences(ranking))


def test_the_command_shows_it_and_writes_pictures(
    attnviz: Attnviz, saved: str, tmp_path: Path
) -> None:
    picture = tmp_path / "heads.svg"
    result = attnviz("heads", "--model", saved, "--task", "reverse", "-o", str(picture), "--json")

    assert result.status == 0
    assert json.loads(result.out)["model"] == "reverse"
    assert "accuracy lost with each head" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [(13.333, 7.5), (13.333, 10.0), (10.0, 10.0)])
def test_a_few_bars_fill_the_height_of_a_page(size: tuple[float, float]) -> None:
    grid = Grid(
        "accuracy lost",
        plain_axis("head", ["L0H0", "L1H0", "L0H1", "L1H1"]),
        plain_axis("measure", ["lost"]),
        unmasked_cells(np.array([[16.3], [4.9], [2.3], [0.2]])),
        Scale("accuracy lost (%)", 0.0, 20.0),
    )
    bars, letters = (
        RankedBars(grid, ("reads the preposition before a noun (54 %)",) * 4),
        lettering(size),
    )
    room = (0.5, 1.0, size[0] - 1, size[1] - 2)

    drawn = Layout(size, tuple(RankingDrawing((bars,)).items(room, letters)))

    lowest = min(each.box[1] for each in drawn.items_of(Block))
    assert 1.0 < lowest < 1.0 + 0.2 * room[3]
    assert min(each.box[3] for each in drawn.items_of(Block)) > 0.35  # inches: how thick bars are
    assert max(each.box[2] for each in drawn.items_of(Block)) > 0.4 * room[2]
    assert min(each.size for each in drawn.words if each.text.startswith("L")) >= letters.label
    assert all(0.5 <= each.x <= 0.5 + room[2] and each.y >= 1.0 for each in drawn.words)


def test_the_models_that_help_names_can_be_ranked_and_the_look_stands_in_the_command(
    attnviz: Attnviz, saved: str, tmp_path: Path
) -> None:
    options = " ".join(attnviz("heads", "--help").out.split())
    assert "The model: reverse, sort, induction, brackets, agreement, pronouns, or a" in options
    picture = tmp_path / "heads.svg"

    attnviz("heads", "--model", saved, "--size", "4:3", "--theme", "dark", "-o", str(picture))

    assert "--out heads.svg --theme dark --size 4:3" in picture.read_text(encoding="utf-8")


def test_without_a_model_there_is_nothing_to_rank(attnviz: Attnviz) -> None:
    result = attnviz("heads")

    assert result.status == 2
    assert result.err.startswith(
        "error: no model is given, so there are no heads to rank\n hint: try"
    )


def test_a_model_that_answers_nothing_is_refused(attnviz: Attnviz) -> None:
    result = attnviz("heads", "--model", "toy")

    assert result.status == 2
    assert result.err == (
        "error: the model 'toy' gives no answers, so switching off a head cannot cost it one\n "
        "hint: see how its context vectors change: attnviz run TEXT, with the same --model and "
        "--without L0H0\n"
    )


def test_a_model_whose_task_nobody_knows_is_refused() -> None:
    with pytest.raises(Exception, match="does not say which sentences it can be tested on"):
        task_for_model(untrained_model())
    with pytest.raises(
        Exception, match="'reverse' has other words than those that the model 'untrained'"
    ):
        task_for_model(untrained_model(), "reverse")


def test_long_sentences_are_fewer(ranking: Ranking) -> None:
    asked: list[int] = []

    def draw(seed: int, count: int, held_out: bool) -> Examples:
        asked.append(count)
        assert held_out
        ids = torch.zeros(count, 8, dtype=torch.long)
        return Examples(ids, torch.full_like(ids, NO_TOKEN).index_fill(1, torch.tensor([0]), 0), {})

    for longest in (8, 1000):
        rank(ranking.model, replace(ranking.task, draw=draw, longest=longest, readings=()))

    assert asked == [1000, 50]
    assert format_head_id(1, 2) == "L1H2"


def test_a_name_alone_is_the_model_that_is_meant(attnviz: Attnviz) -> None:
    assert attnviz("heads", "agreement").err == (
        "error: 'agreement' is one word too many\n"
        " hint: did you mean attnviz heads --model agreement?\n"
    )
