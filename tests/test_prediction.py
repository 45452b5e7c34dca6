"""What a model answers: its tables, its sentences, its last steps, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attnviz import Trace, steps, trace
from attnviz.errors import AttnvizError
from attnviz.renderers import Look
from attnviz.renderers.picture.items import ColorBar
from attnviz.renderers.picture.text import lettering
from attnviz.traces.models.model import Model
from attnviz.views.answer_tables import (
    all_answers_grids,
    answer_sentences,
    best_answers_grid,
    unasked_position_notes,
)
from attnviz.views.grids.grid import Grid
from tests.claims_of_runs import Statement, false_claims
from tests.conftest import Attnviz
from tests.evaluate import holds
from tests.test_saved import find_differences, save_and_read
from tests.test_slides import layout_of
from tests.untrained import ANSWERS, TEXT, trace_model, untrained_model

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"asks": ""},
    {"predicts": "next", "asks": ""},
    {"predicts": "next"},
)


def test_answers_are_made_of_the_last_vectors() -> None:
    model = untrained_model()
    result = trace_model(model)

    assert result.prediction is not None
    assert model.unembedding is not None
    normalized_vectors = torch.nn.functional.layer_norm(result.layers[-1].outputs, (8,))
    logits = normalized_vectors @ model.unembedding.w_answers
    assert_close(result.prediction.logits, logits)
    assert_close(result.prediction.probabilities, logits.softmax(-1))


def test_a_bias_is_added_to_the_scores_of_answers() -> None:
    model = add_bias(untrained_model(norm="post"))
    result = trace_model(model)

    assert result.prediction is not None
    assert model.unembedding is not None
    scores = result.layers[-1].outputs @ model.unembedding.w_answers
    assert_close(result.prediction.logits, scores + torch.tensor([5.0, 0.0, 0.0, 0.0]))


def add_bias(model: Model) -> Model:
    assert model.unembedding is not None
    bias = torch.tensor([5.0, 0.0, 0.0, 0.0])
    return replace(model, unembedding=replace(model.unembedding, b_answers=bias))


@pytest.mark.parametrize(
    ("kind", "positions"),
    [*zip(KINDS, [(5,), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4), (5,)], strict=True)],
)
def test_what_is_asked_is_where_a_word_asks_or_everywhere(
    kind: dict[str, Any], positions: tuple[int, ...]
) -> None:
    result = trace_model(untrained_model(**kind))

    assert result.prediction is not None
    assert result.prediction.asked_positions == positions


def test_behind_a_word_that_asks_for_what_comes_next_all_is_asked() -> None:
    result = trace_model(untrained_model(predicts="next"), "old ? keys cats")

    assert result.prediction is not None
    assert result.prediction.asked_positions == (1, 2, 3)


def test_the_table_has_the_likeliest_first_with_their_words() -> None:
    result = trace_model(untrained_model(asks=""))
    grid = best_answers_grid(result)

    assert result.prediction is not None
    for row, probabilities in enumerate(result.prediction.probabilities):
        values, places = probabilities.topk(3)
        assert grid.words[row] == tuple(ANSWERS[place] for place in places)
        assert grid.values[row].tolist() == values.tolist()
    assert grid.rows.labels == tuple(TEXT.split())


def test_only_places_that_ask_are_in_the_table_and_the_note_says_so() -> None:
    grid = best_answers_grid(trace_model(untrained_model()))

    assert grid.rows.labels == ("?",)
    assert grid.note == (
        "each answer with its probability · the most likely of 4 answers · no answer is asked for "
        "at the other positions"
    )


def test_every_answer_is_in_the_table_of_all() -> None:
    result = trace_model(untrained_model())
    (grid,) = all_answers_grids(result)

    assert result.prediction is not None
    assert grid.columns.labels == ANSWERS
    assert grid.values.tolist() == result.prediction.probabilities.tolist()


# Sentences.


def sentences() -> Iterator[tuple[Trace, str]]:
    """Sentences on the answers of untrained models of all kinds, with and without some heads."""
    head_choices = (None, "L1H1", "L0H0=mean,L1H0", "L0H0,L0H1,L1H0,L1H1")
    for kind, seed, without in product(KINDS, range(2), head_choices):
        result = trace_model(untrained_model(**kind, seed=seed), without=without)
        for query in (None, 0, len(result.tokens) - 1):
            yield from ((result, each) for each in answer_sentences(result, query))


@pytest.mark.slow("sentences")
@pytest.mark.usefixtures("quick")
def test_every_sentence_on_answers_is_true() -> None:
    statements = [(Statement(each, result, result.layers[0])) for result, each in sentences()]

    assert len({each.text for each in statements}) > 40
    assert [claim for each in statements for claim in false_claims(each)] == []


def test_a_false_sentence_on_answers_is_found() -> None:
    result = trace_model(untrained_model())
    (sentence,) = answer_sentences(result)
    for one, other in (("are", "is"), ("67", "76")):
        text = sentence.replace(one, "…").replace(other, one).replace("…", other)

        assert [*false_claims(Statement(text, result, result.layers[0]))] == [
            f"answers_after_token_match: {text}"
        ]


def test_where_nothing_is_asked_that_is_said() -> None:
    result = trace_model(without_question_word(untrained_model()), "old keys")

    (sentence,) = answer_sentences(result)
    assert sentence.startswith("No token of this text asks the model for an answer; ")
    assert "are" in sentence
    assert sentence.endswith(" would")
    assert len(best_answers_grid(result).rows) == 0


def test_a_place_that_asks_for_nothing_is_said_to() -> None:
    """`old keys ?`: what is answered at `old` was never learned."""
    result = trace_model(untrained_model(), "old keys")
    assert result.prediction is not None
    (grid,) = all_answers_grids(result)

    assert best_answers_grid(result, 0).note.endswith('· "old" does not ask for an answer')
    assert "asks for nothing" not in best_answers_grid(result, 2).note
    assert grid.note == 'only "?" asks for an answer'
    assert (
        unasked_position_notes(replace(result.prediction, asked_positions=(0, 1, 2)), result.tokens)
        == ()
    )
    assert unasked_position_notes(
        replace(result.prediction, asked_positions=(0, 2)), result.tokens
    ) == ('only "old" and "?" ask for an answer',)


def without_question_word(model: Model) -> Model:
    """The model of a task like closing brackets, which puts no question word behind a text."""
    return replace(model, vocabulary=replace(model.vocabulary, asks=""))


def test_a_label_that_somebody_typed_stays_and_asks() -> None:
    result = trace_model(untrained_model(), "old keys are")

    assert answer_sentences(result)[0].startswith('At "?" the model answers ')


def test_without_a_model_nothing_is_predicted() -> None:
    with pytest.raises(AttnvizError) as error:
        trace("I am").view(predict=True)

    assert str(error.value) == "predict=True shows what a model answers, but there is no model"


def test_a_table_of_answers_does_not_say_that_its_rows_sum_to_1() -> None:
    result = trace_model(untrained_model(asks=""))

    assert "sums to 1" in result.view().picture.caption
    assert "sums to 1" not in result.view(predict=True).picture.caption


# Steps.


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("query", ["?", None])
def test_the_steps_end_with_the_prediction(layer: int, query: str | None) -> None:
    result = trace_model(untrained_model(), without="L1H0")
    sections = steps(result, layer=layer, query=query).sections[-3:]

    assert [each.name for each in sections] == ["last-norm", "logits", "prediction"]
    numbers = [int(each.number) for each in sections]
    assert numbers == [*range(numbers[0], numbers[0] + 3)]
    texts = [text for each in sections for text in (each.about, each.formula, *each.remarks)]
    statements = [
        Statement(text, result, result.layers[layer], section)
        for section in sections
        for text in (section.about, section.formula, *section.remarks)
    ]
    claims = [each for statement in statements for each in false_claims(statement)]
    assert [each for each in claims if "learned" not in each] == []
    assert texts[0].startswith("The vectors are the outputs of layer 1.") == (layer == 0)


def test_the_sums_of_the_last_steps_hold() -> None:
    for model in (untrained_model(), add_bias(untrained_model(norm="post"))):
        sections = steps(trace_model(model), query="?", full=True).sections
        sums = [each for section in sections[-2:] for each in section.sums]

        assert len(sums) == 2 * len(ANSWERS)
        assert all(holds(each.text) for each in sums)


def test_answers_stand_in_the_order_of_how_likely_they_are() -> None:
    result = trace_model(untrained_model())
    *_, scores, shares = steps(result, query="?").sections

    assert result.prediction is not None
    order = [ANSWERS[place] for place in result.prediction.best(5, 4)]
    grids = (*scores.grids, *shares.grids)
    assert [[*each.columns.labels] for each in grids] == [order] * 3
    assert shares.grids[0].values[0].tolist() == sorted(shares.grids[0].values[0], reverse=True)


def test_a_step_of_a_prediction_needs_a_model(attnviz: Attnviz) -> None:
    result = attnviz("steps", "I am", "--step", "prediction")

    assert result.status == 2
    assert result.err == (
        "error: there is no step 'prediction' here\n"
        " hint: it needs a model that answers: --model agreement\n"
    )


# Files.


def test_a_prediction_is_in_every_kind_of_file(tmp_path: Path) -> None:
    view = trace_model(untrained_model(asks="")).view(predict=True)
    contents = {suffix: view.render(suffix) for suffix in (".txt", ".md", ".svg")}

    for suffix, content in contents.items():
        assert b"the answer at each position" in content, suffix
        assert b"has 0.79" in content, suffix


@pytest.mark.parametrize("size", [None, (13.333, 7.5), (10.0, 7.5)])
def test_in_a_picture_few_answers_stand_in_a_strip_below_all_heads(
    size: tuple[float, float] | None,
) -> None:
    view = trace_model(untrained_model(heads=2)).view(predict=True)
    *heads, strip = layout_of(view, Look(size=size)).panels
    letters = lettering(size or (13.333, 7.5))

    assert strip.grid.words
    assert len(heads) == 4
    assert len({head.box[2:] for head in heads}) == 1
    assert all(head.box[1] > strip.box[1] + strip.box[3] for head in heads)
    assert strip.box[3] <= 2 * letters.number / 72 * len(strip.grid.rows)


def test_numbers_that_stand_beside_words_need_no_colour_bar() -> None:
    layout = layout_of(trace_model(untrained_model(asks="")).view(predict=True), Look())

    assert [bar.scale.label for bar in layout.items_of(ColorBar)] == ["weight"]


def test_a_word_that_is_markup_stays_a_word() -> None:
    model = untrained_model(asks="")
    words = replace(model.vocabulary, answers=("a|b", "$x$", "\x1b[2J", "*"))
    view = trace_model(replace(model, vocabulary=words)).view(predict=True)

    assert b"a\\|b" in view.render(".md")
    assert b"\x1b" not in view.render(".txt")
    assert view.render(".png")


def test_of_a_prediction_all_is_in_data_files() -> None:
    result = trace_model(untrained_model(), without="L0H0")
    view = result.view()
    assert view.data is not None

    data = view.data.document()["prediction"]

    assert data["answers"] == [*ANSWERS]
    assert data["asked"] == [6]
    arrays = {"inputs", "vectors", "last_gain", "last_shift", "w_answers", "logits"}
    assert {*data} == arrays | {"answers", "asked", "probabilities", "probabilities_with_all_heads"}


def grid_rows(grid: Grid) -> list[list[float]]:
    rows: list[list[float]] = grid.values.tolist()
    return rows


def test_a_part_of_a_table_keeps_its_words() -> None:
    grid = best_answers_grid(trace_model(untrained_model(asks="")))
    part = grid.part(slice(1, 3), slice(0, 2))

    assert part.words == tuple(row[:2] for row in grid.words[1:3])
    assert grid_rows(part) == [row[:2] for row in grid_rows(grid)[1:3]]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("without", [None, "L0H0,L1H1=mean"])
def test_a_prediction_is_read_again_as_it_was_written(
    tmp_path: Path, suffix: str, without: str | None
) -> None:
    result = trace_model(add_bias(untrained_model()), without=without)

    loaded_trace = save_and_read(result, tmp_path, suffix)

    assert find_differences(result.prediction, loaded_trace.prediction) == []
    assert answer_sentences(loaded_trace) == answer_sentences(result)
    text, loaded_text = (each.view(predict=True).render(".txt") for each in (result, loaded_trace))
    assert loaded_text == text
