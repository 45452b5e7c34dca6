"""Heads that are switched off: what is read of their names, and what goes on in their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from torch.testing import assert_close

from attnviz import Settings, compare, steps, trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention.arithmetic import join_heads, mix_values, switch_off_heads
from attnviz.errors import AttnvizError
from attnviz.traces.settings import format_head_id, parse_heads_off
from attnviz.views.grids.words_and_bars import RankedBars
from tests.conftest import Attnviz
from tests.refusals import refusal_of
from tests.test_saved import save_and_read

TEXT = "I am learning this"


def test_a_head_that_is_off_hands_on_nothing() -> None:
    full_layer, reduced_layer = (
        trace(TEXT, heads=2, without=each).layers[0] for each in (None, "L0H1")
    )

    assert_close(reduced_layer.attended.weights, full_layer.attended.weights)
    assert_close(reduced_layer.attended.contexts[0], full_layer.attended.contexts[0])
    assert not reduced_layer.attended.contexts[1].any()
    assert reduced_layer.projections is not None
    assert reduced_layer.projections.w_out is not None
    first_head_output = full_layer.attended.contexts[0] @ reduced_layer.projections.w_out[:4]
    assert_close(reduced_layer.context, first_head_output)


def test_the_mean_of_a_head_is_the_same_for_every_token() -> None:
    full_layer, reduced_layer = (
        trace(TEXT, heads=2, without=each).layers[0] for each in (None, "L0H0=mean")
    )

    mean_vector = full_layer.attended.contexts[0].mean(0)
    assert_close(reduced_layer.attended.contexts[0], mean_vector.expand(4, -1))
    assert_close(reduced_layer.attended.contexts[1], full_layer.attended.contexts[1])


def test_by_hand_two_heads_of_two_tokens() -> None:
    contexts = torch.tensor([[[1.0, 2.0], [3.0, 6.0]], [[5.0, 5.0], [7.0, 1.0]]])

    assert switch_off_heads(contexts, {0: "mean"}).tolist() == [[[2, 4], [2, 4]], [[5, 5], [7, 1]]]
    assert switch_off_heads(contexts, {1: "zero"}).tolist() == [[[1, 2], [3, 6]], [[0, 0], [0, 0]]]
    assert switch_off_heads(contexts, {}) is contexts


def test_without_all_heads_attention_adds_nothing() -> None:
    result = trace(TEXT, layers=1, heads=2, norm="none", attention_only=True, without="L0H0,L0H1")

    assert torch.equal(result.layers[0].outputs, result.embeddings)


def test_a_head_of_the_second_layer_leaves_the_first_as_it_is() -> None:
    full_trace, reduced_trace = (
        trace(TEXT, layers=2, heads=2, without=each) for each in (None, "L1H0")
    )

    assert torch.equal(reduced_trace.layers[0].outputs, full_trace.layers[0].outputs)
    assert not torch.equal(reduced_trace.layers[1].outputs, full_trace.layers[1].outputs)
    assert reduced_trace.layers[0].off == {}
    assert reduced_trace.layers[1].off == {0: "zero"}


def test_layer_0_may_be_left_out_and_letters_be_small() -> None:
    assert parse_heads_off("h1, l2h0=MEAN") == {(0, 1): "zero", (2, 0): "mean"}
    assert parse_heads_off(None) == {}


@given(st.dictionaries(st.tuples(st.integers(0, 99), st.integers(0, 99)),
                       st.sampled_from(["zero", "mean"]), min_size=1, max_size=5))  # fmt: skip
def test_names_of_heads_are_read_as_they_are_written(heads_off: dict[tuple[int, int], str]) -> None:
    head_names = ",".join(
        f"{format_head_id(*place)}={replacement}" for place, replacement in heads_off.items()
    )

    assert parse_heads_off(head_names) == heads_off


@pytest.mark.parametrize(
    ("head_names", "problem"),
    [
        ("", "'without' names no head"),
        ("L0H0,", "'without' names no head"),
        ("it", "'without' has 'it', which names no head"),
        ("H-1", "'without' has 'H-1', which names no head"),
        ("L0H0=", "'without' has 'L0H0=', but the output of a head can only become zero or mean"),
        (
            "L0H0=one",
            "'without' has 'L0H0=one', but the output of a head can only become zero or mean",
        ),
        ("H0,L0H0=mean", "'without' names L0H0 twice"),
    ],
)
def test_what_names_no_head_is_refused(head_names: str, problem: str) -> None:
    assert refusal_of(lambda: Settings(without=head_names)) == (
        problem,
        'try without="L1H1" (layer 1, head 1), or without="L0H0=mean"',
    )


@pytest.mark.parametrize(
    ("arguments", "name", "hint"),
    [
        (("--heads", "2"), "L0H2", "there are L0H0 and L0H1"),
        ((), "L1H0", "there is L0H0"),
        (("--layers", "9", "--heads", "2"), "L9H0", "there are 18 heads, from L0H0 to L8H1"),
    ],
)
def test_heads_that_there_are_not_are_refused_with_those_that_there_are(
    attnviz: Attnviz, arguments: tuple[str, ...], name: str, hint: str
) -> None:
    result = attnviz("run", TEXT, *arguments, "--without", name)

    assert result.status == 2
    assert result.err == (
        f"error: --without names {name}, but there is no such head\n hint: {hint}\n"
    )


def test_heads_that_a_file_gives_are_counted() -> None:
    from attnviz.traces.matrices import parse_matrices

    matrices = parse_matrices({"queries": [[[1.0]], [[2.0]]], "keys": [[[1.0]], [[2.0]]],
                      "values": [[[1.0]], [[2.0]]]}, heads=2)  # fmt: skip

    assert trace(None, given=matrices, without="L0H1").layers[0].off == {1: "zero"}
    with pytest.raises(AttnvizError, match="L0H2"):
        trace(None, given=matrices, without="L0H2")


def test_it_is_said_what_is_off(attnviz: Attnviz) -> None:
    output = attnviz("run", TEXT, "--heads", "2", "--without", "L0H1=mean").out

    assert "scaled attention with L0H1 (replaced by its mean) switched off · " in output
    assert " ".join(output.split()).endswith(
        "head 1 is switched off: its output is replaced by its mean over the sentence, the same "
        "for every token; the weights shown are those it would have"
    )


def test_heads_that_are_off_in_the_same_way_are_named_together(attnviz: Attnviz) -> None:
    output = attnviz("run", TEXT, "--heads", "4", "--without", "L0H2,L0H1=mean,L0H0,L0H3=mean").out
    text = " ".join(output.split())

    assert text.endswith(
        "head 0 and head 2 are switched off: their outputs are replaced by 0; the weights shown "
        "are those they would have head 1 and head 3 are switched off: each output is replaced by "
        "its mean over the sentence, the same for every token; the weights shown are those they "
        "would have"
    )
    assert (
        " with L0H0, L0H1 (replaced by its mean), L0H2 and L0H3 (replaced by its mean) "
    ) in text


def test_the_step_of_context_vectors_says_so_and_adds_up_what_goes_on() -> None:
    (section,) = steps(TEXT, heads=2, without="L0H1=mean,L0H0", query="am", step="10").sections

    assert "Head 0 is switched off: its vectors are 0. Head 1 is" in section.about
    assert "its vectors are replaced by their mean over the sentence." in section.about
    assert section.formula == "output = joined W_out"
    zero_sum, mean_sum, _ = (each.text for each in section.sums)
    assert zero_sum == "context H0(am) = [0 0 0 0]"
    assert mean_sum.startswith("context H1(am) = ([")
    assert "]) / 4 " in mean_sum


def test_weights_values_and_contexts_are_no_equation_where_a_head_is_off() -> None:
    parts = ["weights", "values", "context"]

    kinds = [
        {group.kind for group in trace(TEXT, heads=2, without=each).view(show=parts).picture.groups}
        for each in (None, "L0H0")
    ]
    assert kinds == [{"product"}, {"free"}]


def test_the_checks_know_what_is_off() -> None:
    result = trace(TEXT, heads=2, dropout=0.5, without="L0H0,L0H1=mean")

    assert not [each.text for each in verify_trace(result) if each.failed]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_trace_that_is_read_names_the_heads_that_are_off(tmp_path: Path, suffix: str) -> None:
    result = trace(TEXT, heads=2, without="L0H1=mean")

    view = save_and_read(result, tmp_path, suffix).view()

    assert view.title == result.view().title
    assert view.command is not None
    assert "--without L0H1=mean" in view.command.line


def test_what_goes_on_is_what_the_last_matrix_is_given() -> None:
    layer = trace(TEXT, heads=2, without="L0H0").layers[0]
    contexts = mix_values(layer.attended.mixing, layer.values_of_heads)
    assert layer.projections is not None
    assert layer.projections.w_out is not None

    expected = join_heads(switch_off_heads(contexts, {0: "zero"})) @ layer.projections.w_out
    assert_close(layer.context, expected)


AGREEMENT_TEXT = "the old keys near the small cabinet"


def test_a_head_that_is_off_is_marked_in_every_table_of_it() -> None:
    view = trace(AGREEMENT_TEXT, model="agreement", without="L1H0").view(show=["weights", "scores"])
    is_off_by_title = {grid.title: grid.is_all_off for grid in view.grids()}

    assert {title for title, is_grid_off in is_off_by_title.items() if is_grid_off} == {
        title for title in is_off_by_title if title.endswith("L1H0 (off)")
    }
    assert sum(is_off_by_title.values()) == 2
    readings = trace(AGREEMENT_TEXT, model="agreement", without="L1H0").view(query="?").grids()[0]
    assert readings.off == (False, False, True, False)
    assert readings.rows.labels[2] == "L1H0 (off)"
    assert readings.part(slice(2, 3)).is_all_off


def test_cells_of_a_head_that_is_off_are_grey_in_pictures_and_nothing_else_is() -> None:
    from attnviz.renderers import Look
    from attnviz.renderers.picture.draw import _cell_colors

    (grid, *_) = trace(TEXT, without="L0H0").view(show=["weights"]).grids()
    (full_grid, *_) = trace(TEXT).view(show=["weights"]).grids()

    assert is_grey(_cell_colors(grid, Look()))
    assert not is_grey(_cell_colors(full_grid, Look()))


def is_grey(colors: np.ndarray) -> bool:
    return bool((colors.max(-1) - colors.min(-1) <= 1).all())


def test_what_it_comes_to_is_the_title() -> None:
    flipped_view, same_view, mean_view = (
        trace(AGREEMENT_TEXT, model="agreement", without=each).view()
        for each in ("L1H0,L1H1", "L0H1", "L1H0=mean,L1H1=mean")
    )

    assert flipped_view.headline == (
        'Without L1H0 and L1H1 the model says "is" (99\u00a0%), not "are"'
    )
    assert flipped_view.title == (
        "multi-head attention of the model agreement with L1H0 and L1H1 switched off"
    )
    assert same_view.headline == 'Without L0H1 the model still says "are" (99.9\u00a0%)'
    assert mean_view.headline.startswith(
        "Without L1H0 (replaced by its mean) and L1H1 (replaced by its mean) the model "
    )
    assert flipped_view.headline not in flipped_view.closing
    assert flipped_view.settings.startswith(
        "multi-head attention of the model agreement with L1H0 and"
    )


def test_the_picture_of_answers_has_a_bar_for_each_and_a_title_that_says_them() -> None:
    result = trace(AGREEMENT_TEXT, model="agreement", without="L1H0")
    view = result.view(show=["prediction"], query="?")
    (bars,) = view.picture.panels

    assert isinstance(bars, RankedBars)
    assert bars.grid.rows.labels[:2] == ("are", "is")
    assert bars.remarks[:2] == ("with all heads 99.9\u00a0%", "with all heads under 0.1\u00a0%")
    full_view = trace(AGREEMENT_TEXT, model="agreement").view(show=["prediction"], query="?")
    assert full_view.headline == 'At "?" the model answers "are" (99.9\u00a0%)'


def test_a_page_strikes_out_the_heads_that_are_off() -> None:
    page = trace(AGREEMENT_TEXT, model="agreement", without="L1H0").view(query="?").render(".html")

    assert b'"name":"L1H0"' in page or b'"name": "L1H0"' in page
    assert page.replace(b" ", b"").count(b'"off":true') == 1


# Compared by the heads that are off.


def test_heads_that_are_off_are_compared_by_what_is_answered() -> None:
    comparison = compare(
        AGREEMENT_TEXT, model="agreement", by="without", values=["none", "L1H0", "L1H0+L1H1"]
    )
    view = comparison.view()
    (table,) = (grid for grid in view.grids() if grid.words)

    assert view.headline == (
        'Without L1H0 and L1H1 the model says "is" (99\u00a0%), not "are"; '
        'without L1H0 it still says "are"'
    )
    for place, without in enumerate((None, "L1H0", "L1H0,L1H1")):
        prediction = trace(AGREEMENT_TEXT, model="agreement", without=without).prediction
        assert prediction is not None
        first = prediction.best(7, 1)[0]
        assert table.words[place][0] == prediction.answers[first]
        assert table.values[place, 0] == pytest.approx(float(prediction.probabilities[7, first]))
    off_titles = [grid.title for grid in view.grids() if grid.is_all_off]
    assert len(off_titles) == 3
    assert all(title.endswith(" (off)") for title in off_titles)
    assert view.heads is not None
    assert sum(head.off for head in view.heads.heads) == 3


def test_the_picture_has_the_same_answers_of_every_way_as_bars_on_one_scale() -> None:
    ways = {"all heads": None, "without L1H0": "L1H0", "without L1H0 and L1H1": "L1H0,L1H1"}
    comparison = compare(
        AGREEMENT_TEXT, model="agreement", by="without", values=["none", "L1H0", "L1H0+L1H1"]
    )
    bars = [each for each in comparison.view().picture.panels if isinstance(each, RankedBars)]

    assert [each.grid.title for each in bars] == [*ways]
    assert {each.full_length for each in bars} == {1.0}
    for each, without in zip(bars, ways.values(), strict=True):
        prediction = trace(AGREEMENT_TEXT, model="agreement", without=without).prediction
        assert prediction is not None
        probabilities = dict(
            zip(prediction.answers, prediction.probabilities[7].tolist(), strict=True)
        )
        assert each.grid.rows.labels == ("are", "is")  # all others are under 0.5 % in every way
        assert each.grid.values[:, 0].tolist() == [probabilities["are"], probabilities["is"]]


def test_where_no_answer_changes_that_is_the_title() -> None:
    comparison = compare(
        AGREEMENT_TEXT, model="agreement", by="without", values=["none", "L0H1", "L1H0=mean"]
    )

    assert comparison.view().headline == (
        'Switching off L0H1 or L1H0=mean does not change the answer: "are" (99.9\u00a0%)'
    )


def test_without_a_model_no_answers_can_be_compared(attnviz: Attnviz) -> None:
    assert attnviz("compare", TEXT, "--by", "without").err == (
        "error: --by without compares the answers of a model, and no model is given\n"
        " hint: try --model agreement --by without --values none,L1H0,L1H0+L1H1\n"
    )


def test_short_lists_of_answers_stand_side_by_side_where_rows_have_no_room_below_each_other() -> (
    None
):
    figure = (
        compare(
            "the keys near the cabinet", by="without", values=["none", "L0H0"], model="agreement"
        )
        .view()
        .figure(dpi=50)
    )
    heights = {text.get_text(): text.get_position()[1] for text in figure.findobj(Text)}

    assert heights["all heads"] == heights["without L0H0"]
