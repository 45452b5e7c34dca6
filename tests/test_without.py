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

from attnviz import Settings, compare, load, steps, trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention.arithmetic import join_heads, mix_values, switch_off_heads
from attnviz.errors import AttnvizError
from attnviz.traces.settings import format_head_id, parse_heads_off
from attnviz.views.grids.words_and_bars import RankedBars
from tests.conftest import Attnviz

TEXT = "I am learning this"


def test_a_head_that_is_off_hands_on_nothing() -> None:
    whole, without = (trace(TEXT, heads=2, without=each).layers[0] for each in (None, "L0H1"))

    assert_close(without.attended.weights, whole.attended.weights)
    assert_close(without.attended.contexts[0], whole.attended.contexts[0])
    assert not without.attended.contexts[1].any()
    assert without.projections is not None
    assert without.projections.w_out is not None
    half = whole.attended.contexts[0] @ without.projections.w_out[:4]
    assert_close(without.context, half)


def test_the_mean_of_a_head_is_the_same_for_every_token() -> None:
    whole, without = (trace(TEXT, heads=2, without=each).layers[0] for each in (None, "L0H0=mean"))

    average = whole.attended.contexts[0].mean(0)
    assert_close(without.attended.contexts[0], average.expand(4, -1))
    assert_close(without.attended.contexts[1], whole.attended.contexts[1])


def test_by_hand_two_heads_of_two_tokens() -> None:
    contexts = torch.tensor([[[1.0, 2.0], [3.0, 6.0]], [[5.0, 5.0], [7.0, 1.0]]])

    assert switch_off_heads(contexts, {0: "mean"}).tolist() == [[[2, 4], [2, 4]], [[5, 5], [7, 1]]]
    assert switch_off_heads(contexts, {1: "zero"}).tolist() == [[[1, 2], [3, 6]], [[0, 0], [0, 0]]]
    assert switch_off_heads(contexts, {}) is contexts


def test_without_all_heads_attention_adds_nothing() -> None:
    made = trace(TEXT, layers=1, heads=2, norm="none", attention_only=True, without="L0H0,L0H1")

    assert torch.equal(made.layers[0].outputs, made.embeddings)


def test_a_head_of_the_second_layer_leaves_the_first_as_it_is() -> None:
    whole, without = (trace(TEXT, layers=2, heads=2, without=each) for each in (None, "L1H0"))

    assert torch.equal(without.layers[0].outputs, whole.layers[0].outputs)
    assert not torch.equal(without.layers[1].outputs, whole.layers[1].outputs)
    assert without.layers[0].off == {}
    assert without.layers[1].off == {0: "zero"}


def test_layer_0_may_be_left_out_and_letters_be_small() -> None:
    assert parse_heads_off("h1, l2h0=MEAN") == {(0, 1): "zero", (2, 0): "mean"}
    assert parse_heads_off(None) == {}


@given(st.dictionaries(st.tuples(st.integers(0, 99), st.integers(0, 99)),
                       st.sampled_from(["zero", "mean"]), min_size=1, max_size=5))  # fmt: skip
def test_names_of_heads_are_read_as_they_are_written(off: dict[tuple[int, int], str]) -> None:
    named = ",".join(f"{format_head_id(*place)}={how}" for place, how in off.items())

    assert parse_heads_off(named) == off


@pytest.mark.parametrize(
    ("named", "problem"),
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
def test_what_names_no_head_is_refused(named: str, problem: str) -> None:
    with pytest.raises(AttnvizError) as refused:
        Settings(without=named)

    assert str(refused.value) == problem
    assert refused.value.hint == 'try without="L1H1" (layer 1, head 1), or without="L0H0=mean"'


@pytest.mark.parametrize(
    ("arguments", "name", "there"),
    [
        (("--heads", "2"), "L0H2", "there are L0H0 and L0H1"),
        ((), "L1H0", "there is L0H0"),
        (("--layers", "9", "--heads", "2"), "L9H0", "there are 18 heads, from L0H0 to L8H1"),
    ],
)
def test_heads_that_there_are_not_are_refused_with_those_that_there_are(
    attnviz: Attnviz, arguments: tuple[str, ...], name: str, there: str
) -> None:
    result = attnviz("run", TEXT, *arguments, "--without", name)

    assert result.status == 2
    assert result.err == (
        f"error: --without names {name}, but there is no such head\n hint: {there}\n"
    )


def test_heads_that_a_file_gives_are_counted() -> None:
    from attnviz.traces.matrices import parse_matrices

    found = parse_matrices({"queries": [[[1.0]], [[2.0]]], "keys": [[[1.0]], [[2.0]]],
                      "values": [[[1.0]], [[2.0]]]}, heads=2)  # fmt: skip

    assert trace(None, given=found, without="L0H1").layers[0].off == {1: "zero"}
    with pytest.raises(AttnvizError, match="L0H2"):
        trace(None, given=found, without="L0H2")


def test_it_is_said_what_is_off(attnviz: Attnviz) -> None:
    shown = attnviz("run", TEXT, "--heads", "2", "--without", "L0H1=mean").out

    assert "scaled attention with L0H1 (replaced by its mean) switched off · " in shown
    assert " ".join(shown.split()).endswith(
        "head 1 is switched off: its output is replaced by its mean over the sentence, the same "
        "for every token; the weights shown are those it would have"
    )


def test_heads_that_are_off_in_the_same_way_are_named_together(attnviz: Attnviz) -> None:
    shown = attnviz("run", TEXT, "--heads", "4", "--without", "L0H2,L0H1=mean,L0H0,L0H3=mean").out
    told = " ".join(shown.split())

    assert told.endswith(
        "head 0 and head 2 are switched off: their outputs are replaced by 0; the weights shown "
        "are those they would have head 1 and head 3 are switched off: each output is replaced by "
        "its mean over the sentence, the same for every token; the weights shown are those they "
        "would have"
    )
    assert (
        " with L0H0, L0H1 (replaced by its mean), L0H2 and L0H3 (replaced by its mean) "
    ) in told


def test_the_step_of_context_vectors_says_so_and_adds_up_what_goes_on() -> None:
    (section,) = steps(TEXT, heads=2, without="L0H1=mean,L0H0", query="am", step="10").sections

    assert "Head 0 is switched off: its vectors are 0. Head 1 is" in section.about
    assert "its vectors are replaced by their mean over the sentence." in section.about
    assert section.formula == "output = joined W_out"
    zero, mean, _ = (each.text for each in section.sums)
    assert zero == "context H0(am) = [0 0 0 0]"
    assert mean.startswith("context H1(am) = ([")
    assert "]) / 4 " in mean


def test_weights_values_and_contexts_are_no_equation_where_a_head_is_off() -> None:
    parts = ["weights", "values", "context"]

    kinds = [
        {group.kind for group in trace(TEXT, heads=2, without=each).view(show=parts).picture.groups}
        for each in (None, "L0H0")
    ]
    assert kinds == [{"product"}, {"free"}]


def test_the_checks_know_what_is_off() -> None:
    made = trace(TEXT, heads=2, dropout=0.5, without="L0H0,L0H1=mean")

    assert not [each.text for each in verify_trace(made) if each.failed]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_it_is_read_again_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    made, file = trace(TEXT, heads=2, without="L0H1=mean"), tmp_path / f"trace{suffix}"
    made.view().save(file)

    again = load(str(file))

    assert again.layers[0].off == {1: "mean"}
    assert torch.equal(again.layers[0].attended.contexts, made.layers[0].attended.contexts)
    assert again.view().title == made.view().title
    command = again.view().command
    assert command is not None
    assert "--without L0H1=mean" in command.line


def test_what_goes_on_is_what_the_last_matrix_is_given() -> None:
    layer = trace(TEXT, heads=2, without="L0H0").layers[0]
    mixed = mix_values(layer.attended.mixing, layer.values_of_heads)
    assert layer.projections is not None
    assert layer.projections.w_out is not None

    expected = join_heads(switch_off_heads(mixed, {0: "zero"})) @ layer.projections.w_out
    assert_close(layer.context, expected)


AGREEMENT = "the old keys near the small cabinet"


def test_a_head_that_is_off_is_marked_in_every_table_of_it() -> None:
    view = trace(AGREEMENT, model="agreement", without="L1H0").view(show=["weights", "scores"])
    off = {grid.title: grid.is_all_off for grid in view.grids()}

    assert {title for title, is_off in off.items() if is_off} == {
        title for title in off if title.endswith("L1H0 (off)")
    }
    assert sum(off.values()) == 2
    readings = trace(AGREEMENT, model="agreement", without="L1H0").view(query="?").grids()[0]
    assert readings.off == (False, False, True, False)
    assert readings.rows.labels[2] == "L1H0 (off)"
    assert readings.part(slice(2, 3)).is_all_off


def test_cells_of_a_head_that_is_off_are_grey_in_pictures_and_nothing_else_is() -> None:
    from attnviz.renderers import Look
    from attnviz.renderers.picture.draw import _cell_colors

    (grid, *_) = trace(TEXT, without="L0H0").view(show=["weights"]).grids()
    (whole, *_) = trace(TEXT).view(show=["weights"]).grids()

    assert _grey(_cell_colors(grid, Look()))
    assert not _grey(_cell_colors(whole, Look()))


def _grey(colors: np.ndarray) -> bool:
    return bool((colors.max(-1) - colors.min(-1) <= 1).all())


def test_what_it_comes_to_is_the_title() -> None:
    flipped, kept, mean = (
        trace(AGREEMENT, model="agreement", without=each).view()
        for each in ("L1H0,L1H1", "L0H1", "L1H0=mean,L1H1=mean")
    )

    assert flipped.headline == (
        "Without L1H0 and L1H1: is (99\u00a0%) instead of are (99.9\u00a0%)"
    )
    assert flipped.title == (
        "multi-head attention of the model agreement with L1H0 and L1H1 switched off"
    )
    assert kept.headline == "Without L0H1: still are (99.9\u00a0%)"
    assert mean.headline.startswith(
        "Without L1H0 (replaced by its mean) and L1H1 (replaced by its mean): "
    )
    assert flipped.headline not in flipped.closing
    assert flipped.settings.startswith("multi-head attention of the model agreement with L1H0 and")


def test_the_picture_of_answers_has_a_bar_for_each_and_a_title_that_says_them() -> None:
    made = trace(AGREEMENT, model="agreement", without="L1H0")
    view = made.view(show=["prediction"], query="?")
    (bars,) = view.picture.panels

    assert isinstance(bars, RankedBars)
    assert bars.grid.rows.labels[:2] == ("are", "is")
    assert bars.remarks[:2] == ("with all heads 99.9\u00a0%", "with all heads under 0.1\u00a0%")
    whole = trace(AGREEMENT, model="agreement").view(show=["prediction"], query="?")
    assert whole.headline == 'At "?" the model answers: are (99.9\u00a0%)'


def test_a_page_strikes_out_the_heads_that_are_off() -> None:
    page = trace(AGREEMENT, model="agreement", without="L1H0").view(query="?").render(".html")

    assert b'"name":"L1H0"' in page or b'"name": "L1H0"' in page
    assert page.replace(b" ", b"").count(b'"off":true') == 1


# Compared by the heads that are off.


def test_heads_that_are_off_are_compared_by_what_is_answered() -> None:
    made = compare(AGREEMENT, model="agreement", by="without", values=["none", "L1H0", "L1H0+L1H1"])
    view = made.view()
    (table,) = (grid for grid in view.grids() if grid.words)

    assert view.headline == (
        "Switching off L1H0 and L1H1 flips are (99.9\u00a0%) to is (99\u00a0%); L1H0 does not"
    )
    for place, without in enumerate((None, "L1H0", "L1H0,L1H1")):
        alone = trace(AGREEMENT, model="agreement", without=without).prediction
        assert alone is not None
        first = alone.best(7, 1)[0]
        assert table.words[place][0] == alone.answers[first]
        assert table.values[place, 0] == pytest.approx(float(alone.probabilities[7, first]))
    off = [grid.title for grid in view.grids() if grid.is_all_off]
    assert len(off) == 3
    assert all(title.endswith(" (off)") for title in off)
    assert view.heads is not None
    assert sum(head.off for head in view.heads.heads) == 3


def test_the_picture_has_the_same_answers_of_every_way_as_bars_on_one_scale() -> None:
    ways = {"all heads": None, "without L1H0": "L1H0", "without L1H0 and L1H1": "L1H0,L1H1"}
    made = compare(AGREEMENT, model="agreement", by="without", values=["none", "L1H0", "L1H0+L1H1"])
    bars = [each for each in made.view().picture.panels if isinstance(each, RankedBars)]

    assert [each.grid.title for each in bars] == [*ways]
    assert {each.full_length for each in bars} == {1.0}
    for each, without in zip(bars, ways.values(), strict=True):
        alone = trace(AGREEMENT, model="agreement", without=without).prediction
        assert alone is not None
        likely = dict(zip(alone.answers, alone.probabilities[7].tolist(), strict=True))
        assert each.grid.rows.labels == ("are", "is")  # all others are under 0.5 % in every way
        assert each.grid.values[:, 0].tolist() == [likely["are"], likely["is"]]


def test_where_no_answer_changes_that_is_the_title() -> None:
    made = compare(AGREEMENT, model="agreement", by="without", values=["none", "L0H1", "L1H0=mean"])

    assert made.view().headline == (
        "Switching off L0H1 or L1H0=mean does not change the answer: are (99.9\u00a0%)"
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
        compare("the keys near the cabinet", by="without", model="agreement").view().figure(dpi=50)
    )
    heights = {text.get_text(): text.get_position()[1] for text in figure.findobj(Text)}

    assert heights["all heads"] == heights["without L0H0"]
