"""The accuracy lost without each head: numbers, sentences, and models that cannot be ranked."""

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
from tests import not_none
from tests.conftest import Attnviz, unchecked
from tests.untrained import untrained_model


@pytest.fixture(scope="module")
def learned_letters() -> Learned:
    """A model with two layers, of which one is enough to reverse letters."""
    task = task_of("reverse")
    with unchecked():
        return learn(task, replace(task.settings, layers=2))


@pytest.fixture(scope="module")
def ranking(learned_letters: Learned) -> Ranking:
    return rank(learned_letters.model, learned_letters.task)


@pytest.fixture(scope="module")
def model_folder(learned_letters: Learned, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("model")
    for name, content in folder.model_files(learned_letters.model).items():
        (place / name).write_bytes(content)
    return str(place)


def test_without_the_head_that_does_it_the_answers_are_lost_and_without_another_not(
    ranking: Ranking,
) -> None:
    needed_head, other_head = ranking.heads

    assert ranking.with_all_heads.accuracy > 0.99
    assert (needed_head.name, other_head.name) == ("L0H0", "L1H0")
    assert needed_head.scores["opposite"] > 0.9 > 0.6 > other_head.scores["opposite"]
    assert needed_head.without.accuracy < 0.6
    assert other_head.without.accuracy > 0.98
    assert ranking.with_no_heads.accuracy < 0.3  # one of ten letters


def test_the_accuracy_is_that_of_runs_with_the_head_off(
    model_folder: str, ranking: Ranking
) -> None:
    """Compared sentence by sentence with traces of the library."""
    examples = draw_examples(ranking.task, ranking.model.settings.seed, 5, held_out=True)
    words = ranking.task.vocabulary.words
    for head in ranking.heads:
        for ids in examples.ids:
            trace_without_head = trace(
                " ".join(words[each] for each in ids), model=model_folder, without=head.name
            )
            assert torch.equal(
                not_none(trace_without_head.prediction).logits.argmax(-1),
                answers_without_head(ranking, head, ids),
            )


def answers_without_head(ranking: Ranking, head: RankedHead, ids: Tensor) -> Tensor:
    """The answers with the output matrix of this head, the only one of its layer, set to 0."""
    layer, _ = head.head_id
    name = "w_out" if not layer else f"layers.{layer}.w_out"
    parameters = dict(ranking.model.parameters)
    parameters[name] = torch.zeros_like(parameters[name])
    model = ranking.model.with_parameters(parameters)
    answers: Tensor = run_learner_model(model, model_plan(model), ids).logits.argmax(-1)
    return answers


def test_what_is_lost_has_an_interval_over_sentences(ranking: Ranking) -> None:
    examples = draw_examples(ranking.task, ranking.model.settings.seed, 1000, held_out=True)
    needed_head = ranking.heads[0]
    logits = run_learner_model(ranking.model, model_plan(ranking.model), examples.ids).logits
    is_asked = examples.answers != NO_TOKEN
    is_right = (logits.argmax(-1) == examples.answers) & is_asked
    is_right_without_head = (
        answers_without_head(ranking, needed_head, examples.ids) == examples.answers
    ) & is_asked
    lost_shares = (is_right.sum(-1) - is_right_without_head.sum(-1)).double() / is_asked.sum(
        -1
    )  # all of one length
    standard_error = float(lost_shares.std()) / 1000**0.5

    assert needed_head.interval == pytest.approx(
        (
            float(lost_shares.mean()) - 1.96 * standard_error,
            float(lost_shares.mean()) + 1.96 * standard_error,
        ),
        rel=1e-6,
    )
    (bars,) = ranking.view().picture.panels
    assert isinstance(bars, RankedBars)
    assert bars.remarks[0].startswith(f"±{196 * standard_error:.1f} · ")
    even_score = ranking.even_scores["opposite"]
    assert ranking_sentences(ranking)[1].endswith(f", evenly {100 * even_score:.0f}\u00a0%).")


def test_what_it_comes_to_is_said(ranking: Ranking) -> None:
    title_sentence, reading_sentence, accuracy_sentence = ranking_sentences(ranking)
    lost_accuracy = ranking.accuracy_lost(ranking.heads[0])

    assert title_sentence.startswith(
        f"Switching off L0H0 costs {100 * lost_accuracy:.0f}\u00a0% of the letters; "
    )
    assert reading_sentence.startswith("L0H0 reads the opposite letter (99 %, evenly ")
    assert accuracy_sentence.startswith("With all heads, ")
    assert ranking.view().headline == title_sentence.removesuffix(".")
    assert title_sentence not in ranking.view().closing


def ranking_by_hand(ranking: Ranking, accuracy: float, *accuracies_without: float) -> Ranking:
    """A ranking with these accuracies, in total and without each head."""
    heads = tuple(
        RankedHead(
            head_id=(0, index), without=TrialResult(accuracy_without, 1.0), scores={"opposite": 0.2}
        )
        for index, accuracy_without in enumerate(accuracies_without)
    )
    no_heads = TrialResult(accuracies_without[0] / 2, 2.0)
    return replace(
        ranking, with_all_heads=TrialResult(accuracy, 0.1), heads=heads, with_no_heads=no_heads
    )


@pytest.mark.parametrize(
    ("figures", "expected"),
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
    ranking: Ranking, figures: tuple[float, ...], expected: tuple[str, ...]
) -> None:
    sentences = ranking_sentences(ranking_by_hand(ranking, *figures))
    assert tuple(each.replace("\u00a0", " ") for each in sentences) == expected


def test_what_a_model_says_of_its_heads_is_what_the_table_of_its_heads_says(
    ranking: Ranking,
) -> None:
    """Both are measured on the same 1,000 sentences; with 128, digits would differ."""
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
    shares_of_scale = bars.grid.scale.shares(bars.grid.values)[:, 0]
    assert shares_of_scale.argmax() == 0  # the head that matters most
    rows = list(csv.DictReader(io.StringIO(view.render(".csv").decode())))
    assert [row["name"] for row in rows] == [head.name for head in ranking.heads]
    assert float(rows[0]["lost"]) == pytest.approx(ranking.accuracy_lost(ranking.heads[0]))
    document = json.loads(view.render(".json"))
    assert document["heads"][0]["scores"] == dict(ranking.heads[0].scores)
    assert document["attnviz"]["settings"]["task"] == "reverse"
    assert document["conclusion"] == " ".join(ranking_sentences(ranking))


def test_the_command_shows_it_and_writes_pictures(
    attnviz: Attnviz, model_folder: str, tmp_path: Path
) -> None:
    picture = tmp_path / "heads.svg"
    result = attnviz(
        "heads", "--model", model_folder, "--task", "reverse", "-o", str(picture), "--json"
    )

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

    layout = Layout(size, tuple(RankingDrawing((bars,)).items(room, letters)))

    lowest = min(each.box[1] for each in layout.items_of(Block))
    assert 1.0 < lowest < 1.0 + 0.2 * room[3]
    assert min(each.box[3] for each in layout.items_of(Block)) > 0.35  # inches: how thick bars are
    assert max(each.box[2] for each in layout.items_of(Block)) > 0.4 * room[2]
    assert min(each.size for each in layout.words if each.text.startswith("L")) >= letters.label
    assert all(0.5 <= each.x <= 0.5 + room[2] and each.y >= 1.0 for each in layout.words)


def test_the_models_that_help_names_can_be_ranked_and_the_look_stands_in_the_command(
    attnviz: Attnviz, model_folder: str, tmp_path: Path
) -> None:
    options = " ".join(attnviz("heads", "--help").out.split())
    assert "The model: reverse, sort, induction, brackets, agreement, pronouns, or a" in options
    picture = tmp_path / "heads.svg"

    attnviz(
        "heads", "--model", model_folder, "--size", "4:3", "--theme", "dark", "-o", str(picture)
    )

    assert "--out heads.svg --theme dark --size 4:3" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "error: no model is given, so there are no heads to rank\n hint: try"),
        (
            ["--model", "toy"],
            "error: the model 'toy' gives no answers, so switching off a head cannot cost it one\n "
            "hint: see how its context vectors change: attnviz run TEXT, with the same --model and "
            "--without L0H0\n",
        ),
        (
            ["agreement"],
            "error: 'agreement' is one word too many\n"
            " hint: did you mean attnviz heads --model agreement?\n",
        ),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_two_lines(
    attnviz: Attnviz, words: list[str], error: str
) -> None:
    result = attnviz("heads", *words)

    assert (result.status, len(result.err.splitlines())) == (2, 2)
    assert result.err.startswith(error)


def test_a_model_whose_task_nobody_knows_is_refused() -> None:
    with pytest.raises(Exception, match="does not say which sentences it can be tested on"):
        task_for_model(untrained_model())
    with pytest.raises(
        Exception, match="'reverse' has other words than those that the model 'untrained'"
    ):
        task_for_model(untrained_model(), "reverse")


def test_long_sentences_are_fewer(ranking: Ranking) -> None:
    counts: list[int] = []

    def draw(seed: int, count: int, held_out: bool) -> Examples:
        counts.append(count)
        assert held_out
        ids = torch.zeros(count, 8, dtype=torch.long)
        return Examples(ids, torch.full_like(ids, NO_TOKEN).index_fill(1, torch.tensor([0]), 0), {})

    for longest in (8, 1000):
        rank(ranking.model, replace(ranking.task, draw=draw, longest=longest, readings=()))

    assert counts == [1000, 50]
    assert format_head_id(1, 2) == "L1H2"
