"""Every sentence of run and steps that claims something is held against the Trace that it is about.

Settings are drawn as odd as they come; of each view every string that people read is gathered,
and each claim in it, known by its words, is worked out again from the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnviz import Trace, trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import StoredCells
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.traces.settings import Settings
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import cosine_between, open_panels
from attnviz.views.steps.walk import steps
from attnviz.wings.examples.example_names import example, example_names
from attnviz.wording.sums import MAX_TERMS
from tests import not_none
from tests.claims_of_runs import false_sentences
from tests.conftest import Attnviz
from tests.drawn_runs import MATRICES, ROWS, WEIGHTS, Run, RunGenerator, given_matrices

DRAWS = 80  # random runs in one test
ALPHABET = "a b c d e f g h i j k l m n o p q r s t u"


@pytest.mark.draws(320, DRAWS)
@pytest.mark.usefixtures("quick")
def test_every_sentence_of_run_and_steps_is_known_and_true(first: int) -> None:
    runs = {number: RunGenerator(number).draw_run() for number in range(first, first + DRAWS)}
    possible_runs = {number: run for number, run in runs.items() if run is not None}

    assert len(possible_runs) > len(runs) / 2
    assert {
        number: false_claims
        for number, run in possible_runs.items()
        if (false_claims := false_sentences(run))
    } == {}


def test_a_sentence_that_nobody_knows_is_found() -> None:
    result = trace("I am")
    run = Run(result, replace(result.view(), settings="42 of them"), steps(result))

    assert false_sentences(run) == ["nobody knows what this claims: 42 of them"]


def test_a_sentence_that_is_false_is_found() -> None:
    result = trace("I am")
    run = Run(result, replace(result.view(), title="causal attention"), steps(result))

    assert false_sentences(run) == ["is_causal: causal attention"]


# Sentences that were false in earlier versions, with the input for which they were.


def view_text(text_trace: Trace, step: str = "", **choices: Any) -> str:
    """The words of a view, or of one step."""
    if not step:
        view = text_trace.view(**choices)
        notes = [each.note for each in open_panels(view.screen.panels)]
        return " | ".join([view.title, view.settings, *notes, view.picture.caption])
    (section,) = steps(text_trace, step=step, **choices).sections
    return " | ".join([section.about, section.formula, *section.remarks])


def trace_of_matrices(**contents: Any) -> Trace:
    return trace(None, given=given_matrices(contents))


@pytest.mark.parametrize("way", [{}, {"query": "2"}, {"as_": "arcs"}])
def test_rows_of_other_weights_than_a_softmax_s_are_not_said_to_sum_to_1(
    way: dict[str, Any],
) -> None:
    dropout_trace = trace("I am learning this", dropout=0.5)
    given_trace = trace_of_matrices(embeddings=ROWS, weights=WEIGHTS)
    mistaken_trace = trace("I am learning this", variant="causal", mistake="zero-weights")

    assert "sum" in view_text(trace("I am learning this"), **way)
    for result in (dropout_trace, given_trace, mistaken_trace):
        assert "sums to 1" not in view_text(result, **way)


def test_what_is_so_of_some_panels_is_not_said_below_all() -> None:
    softmax_picture, dropout_picture = (
        steps("I am", dropout=0.5, step=step).view().picture for step in ("softmax", "softmax,8b")
    )

    assert "each row sums to 1" in softmax_picture.caption
    assert "each row sums to 1" not in dropout_picture.caption


@pytest.mark.parametrize(
    ("choices", "title"),
    [
        ({}, "scaled attention"),
        ({"scale": False}, "unscaled attention"),
        ({"scale": False, "causal": True}, "causal attention"),
        ({"variant": "causal", "causal": False}, "scaled attention"),
        ({"variant": "causal", "scale": False}, "causal attention"),
        ({"variant": "multi-head"}, "multi-head attention"),
        ({"variant": "multi-head", "heads": 1}, "causal attention"),
        ({"variant": "plain"}, "plain attention"),
        ({"variant": "plain", "scale": True}, "scaled plain attention"),
        ({"variant": "average"}, "average attention"),
        ({"variant": "average", "positions": "alibi"}, "attention by distance alone"),
        ({"mistake": "softmax-all"}, "scaled attention with a mistake (softmax-all)"),
    ],
)
def test_the_title_is_of_what_was_done(choices: dict[str, Any], title: str) -> None:
    result = trace("I am learning this", **choices)

    assert result.view().title == title
    assert steps(result).view().settings.startswith(f"{title} · ")


def test_a_mask_and_weights_of_one_s_own_are_in_the_title_and_the_settings() -> None:
    given_trace = trace_of_matrices(embeddings=ROWS, weights=WEIGHTS)
    masked_view = trace(
        None, given=parse_matrices(MATRICES["a mask"]), variant="causal", window=2, dropout=0.5
    ).view()

    assert given_trace.view().title == "scaled attention with weights by hand"
    assert masked_view.title == "scaled attention"
    assert "given mask · dropout 0.5" in masked_view.settings


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, "width 8 · all tokens visible · seed"),
        ({"window": 1}, "width 8 · window 1 · seed"),
        ({"causal": True, "window": 2}, "width 8 · causal · window 2 · seed"),
        ({"temperature": 1.0000001}, "all tokens visible · temperature 1.0000001 · seed"),
        ({"dropout": 0.5, "mistake": "softmax-all"}, "all tokens visible · seed"),
    ],
)
def test_the_settings_are_those_that_did_something(choices: dict[str, Any], expected: str) -> None:
    assert expected in trace("I am learning this", **choices).view().settings


@pytest.mark.parametrize(
    ("choices", "step", "expected"),
    [
        ({"positions": "alibi"}, "alibi", "one slope for a neighbour, two for the next"),
        ({"positions": "alibi", "heads": 2}, "alibi", "each head has its own slope"),
        ({"positions": "rotary"}, "rotary", "is rotated by (p - 1) / 10000^(2(i - 1)/d_k)"),
        ({"layers": 1}, "feed-forward", "widens its vector to 32"),
        ({"layers": 1, "feed_forward": 1}, "feed-forward", "narrows its vector to 1"),
        ({"layers": 1, "feed_forward": 8}, "feed-forward", "maps its vector to another of width 8"),
        ({"layers": 1}, "add-attention", "to mean 0 and variance 1"),
        ({"layers": 1, "dim": 1}, "add-attention", "and divides by √(variance + 1e-05)"),
        ({"layers": 1, "dim": 1, "norm": "pre"}, "norm", "and divides by √(variance + 1e-05)"),
        ({"dim": 1}, "scaling", "here √1, which is 1 and changes nothing"),
        ({"window": 1}, "mask", "Each token attends only to itself."),
        ({"tokenizer": "chars"}, "tokens", "nothing else of the text is used"),
        ({"variant": "plain"}, "projections", "compares and mixes the vectors themselves"),
        ({"layers": 1, "norm": "pre"}, "queries", "Q = normed W_query"),
        ({"mistake": "zero-scores"}, "softmax", "Here it changes no weight"),
    ],
)
def test_a_step_says_what_is_so(choices: dict[str, Any], step: str, expected: str) -> None:
    assert expected in view_text(trace("I am learning this", **choices), step)


def test_what_is_left_out_is_said_where_it_is_left_out() -> None:
    result = trace(ALPHABET, heads=2, dim=80, positions="rotary", tokenizer="words", memory="x y")
    remarks = {each.name: each.remarks for each in steps(result, query="21").sections}
    keys = (
        "written out: the 16 of 21 keys with the largest weights in head 0",
        "--full writes out everything",
    )

    assert remarks["softmax"] == keys
    assert remarks["rotary"] == ("written out: the first 16 of 20 pairs", keys[1])
    assert [name for name, each in remarks.items() if each == keys] == [
        "scores",
        "scaling",
        "softmax",
        "weighted",
    ]
    six_head_remarks = {
        each.name: each.remarks for each in steps("a b", heads=6, dim=12, query="1").sections
    }
    assert six_head_remarks["queries"][0] == "written out: head 0 of 6 (--head picks another)"


def test_every_step_with_a_sum_for_each_key_says_how_many_keys_have_none() -> None:
    mask = [[0.5 * (query - key) for key in range(21)] for query in range(21)]
    choices = Settings(tokenizer="words", soft_cap=5.0, positions="alibi", dropout=0.3)
    result = trace(ALPHABET, choices, given=parse_matrices({"mask": mask}))
    sections = {each.name: each for each in steps(result, query="21").sections}
    step_names = [name for name, each in sections.items() if len(each.sums) == MAX_TERMS]

    assert {"soft-cap", "alibi", "additive-mask", "dropout"} < {*step_names}
    for name in step_names:
        assert (
            sections[name].remarks[0] == "written out: the 16 of 21 keys with the largest weights"
        )


def test_one_token_has_no_other_to_follow() -> None:
    assert "--query" in view_text(trace("I am"), "weighted")
    assert "--query" not in view_text(trace("I"), "weighted")


def test_given_scores_are_no_products_though_queries_are_given() -> None:
    result = trace_of_matrices(**MATRICES["scores and queries"])
    (section,) = steps(result, step="scores", query="1").sections

    assert "The scores are given" in section.about
    assert section.sums == ()
    assert section.moments == ()
    assert "given scores, not yet scaled" in view_text(result, show=["scores"])
    assert {
        each.kind for each in result.view(show=["queries", "keys", "scores"]).picture.groups
    } == {"free"}
    with pytest.raises(AttnvizError, match="not computed from a query and a key"):
        steps(result, query="1", key="2")


def test_vectors_that_heads_were_given_are_not_said_to_be_columns_of_others() -> None:
    assert "columns" not in view_text(trace_of_matrices(**MATRICES["heads"]), "queries")
    assert "its own block of adjacent columns of values" in view_text(
        trace_of_matrices(**MATRICES["heads of queries"]), "queries"
    )
    assert "Each of the 2 heads gets its own block of adjacent columns" in view_text(
        trace("I am", heads=2), "queries"
    )


def test_keys_of_other_tokens_are_made_of_their_vectors() -> None:
    result = trace_of_matrices(**MATRICES["other keys"])

    assert "Q = X W_query · K = Y W_key · V = Y W_value" in view_text(result, "queries")
    assert "Keys and values are computed from other tokens" in view_text(result, "embeddings")


def test_the_arithmetic_of_dropout_that_is_given_is_that_of_each_weight() -> None:
    result = trace_of_matrices(embeddings=ROWS, kept=[[1, 0, 1], [0, 1, 1], [1, 1, 0]])
    (section,) = steps(result, step="dropout", query="3").sections

    assert "The dropout mask is given" in section.about
    assert [line.text.split("·")[1].split(" ")[0] for line in section.sums] == ["1", "1", "0"]


def test_a_gain_and_a_shift_are_in_the_sum_and_in_the_formula_of_layernorm() -> None:
    result = trace("I am learning this", layers=1, dim=2, norm="pre")
    (layer,) = result.layers
    assert layer.block is not None
    gain, shift = torch.tensor([2.0, -0.5]), torch.tensor([0.25, 1.0])
    residual = layer.block.attention
    norm = replace(not_none(residual.norm), gain=gain, shift=shift)
    outputs = residual.sublayer_inputs * gain + shift
    changed_residual = replace(residual, norm=norm, sublayer_inputs=outputs)
    block = replace(layer.block, attention=changed_residual)
    changed_trace = replace(result, layers=(replace(layer, block=block, inputs=outputs),))

    (section,) = steps(changed_trace, step="norm", query="am").sections
    last_sum = section.sums[-1]

    assert section.formula.endswith("/ √(variance + 1e-05) · gain + shift")
    assert "then each number is multiplied by a gain, and a shift is added" in section.about
    assert "· [2.00 -0.50] + [0.25 1.00]" in last_sum.right
    assert last_sum.exact
    assert "variance 1" in section.about


def test_a_picture_in_words_calls_nothing_most_that_others_equal() -> None:
    description = trace("I am learning this", variant="average").view().picture.description

    assert "1 I reads 1 I most (1.00)" in description
    assert "2 am reads 1 I and 2 am most, equally (0.50 each)" in description
    assert "4 this reads 4 tokens most, equally (0.25 each)" in description


@pytest.mark.parametrize(
    ("contents", "choices", "quantity"),
    [
        ({"scores": [[3e38] * 3] * 3}, {"head_dim": 1, "temperature": 0.1}, "scores"),
        ({"values": [[3e38]] * 3, "weights": [[2.0] * 3] * 3}, {}, "context vectors"),
        (
            {"values": [[3e38]] * 3, "w_out": [[1.0]], "embeddings": [[3e38]] * 3},
            {"layers": 1, "norm": "pre"},
            "outputs of a block",
        ),
    ],
)
def test_what_is_too_large_is_named(
    contents: dict[str, Any], choices: dict[str, Any], quantity: str
) -> None:
    source = parse_matrices({"queries": [[0.0]] * 3, "keys": [[0.0]] * 3, **contents})

    with pytest.raises(AttnvizError, match=f"the {quantity} are too large for float32"):
        trace(None, given=source, **choices)


@pytest.mark.slow_table("sentences", keep=8)
@pytest.mark.parametrize("name", example_names())
def test_no_sentence_about_a_worked_example_is_false(name: str) -> None:
    worked_example = example(name)
    result = worked_example.trace()
    query = worked_example.query or "1"

    assert (
        false_sentences(
            Run(result, result.view(show=[*PARTS_BY_SHOW_NAME]), steps(result, query=query))
        )
        == []
    )


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.2, 0.5, 0.3], "a reads b most (0.50)"),
        ([0.0, 0.0, 0.0], "a reads nothing"),
        ([-0.2, -0.1, -0.3], "a reads b most (-0.10)"),
        ([0.001, 0.0, 0.0], "a reads a most (1.0e-03)"),
        ([float("nan"), 0.0, 0.0], "a has weights that are not numbers"),
    ],
)
def test_a_picture_in_words_knows_odd_rows(weights: list[float], expected: str) -> None:
    values = np.array([weights])
    axis = Axis("key", "token", ("a", "b", "c"), ("",) * 3)
    cells = StoredCells(values, np.zeros_like(values, dtype=bool))
    grid = Grid("", axis.part(slice(1)), axis, cells, Scale("weight", 0, 1), share=True)

    assert describe([grid]).endswith(f"{expected}.")


# The self-checks.


def test_the_checks_name_the_weights_that_they_are_of() -> None:
    texts = [
        check.text for check in verify_trace(trace_of_matrices(embeddings=ROWS, weights=WEIGHTS))
    ]

    assert [text.split(":")[0] for text in texts] == [
        "✓ rows sum to 1, before others by hand take their place",
        "✓ hidden weights are 0, before others by hand take their place",
        "✓ torch's own attention agrees, before others by hand take their place",
        "✓ context vectors are computed from the weights by hand",
    ]
    claims = [check.claim for check in verify_trace(trace("I am", layers=1, memory="you are"))]
    assert claims[0] == "L0: rows sum to 1"
    assert claims[3] == "L0 cross: rows sum to 1"


@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_mistake_breaks_is_said_and_is_no_bug_of_ours(name: str) -> None:
    result = trace("I am learning this", variant="causal", heads=2, mistake=name)
    checks = verify_trace(result)

    assert [check.text for check in checks if check.failed] == []
    broken_claims = [check.text for check in checks if not check.passed]
    assert broken_claims
    assert all(text.startswith("✗ ") and f"(the mistake: {name})" in text for text in broken_claims)


def test_weights_after_dropout_that_are_none_are_found() -> None:
    result = trace("I am learning this", dropout=0.5)
    (layer,) = result.layers
    attended = replace(layer.attended, mixing=layer.attended.mixing + 0.01)
    checks = verify_trace(replace(result, layers=(replace(layer, attended=attended),)))

    assert [check.claim for check in checks if check.failed] == [
        "dropout sets weights to 0 or scales them up",
        "context vectors are computed from the weights after dropout",
    ]


def test_a_trace_of_a_mistake_is_verified_with_exit_0(attnviz: Attnviz, tmp_path: Path) -> None:
    path = str(tmp_path / "m.npz")
    attnviz("example", "show", "mistake-softmax-twice", "-o", path, "-q")

    result = attnviz("run", "--trace", path, "--verify")

    assert result.status == 0
    assert "✗ hidden weights are 0" in result.out
    assert "(the mistake: softmax-twice)" in result.out


# Sentences on masked keys, random dropout and numbers that round to 0.


def test_a_row_that_reads_nothing_is_not_said_to_sum_to_1() -> None:
    some_masked, all_masked = (
        trace_of_matrices(**MATRICES[name])
        for name in ("a row that reads nothing", "nothing is read")
    )

    assert view_text(some_masked, "softmax").startswith(
        "The softmax turns each row of scores into weights"
    )
    assert '"b" has every key masked, so its row is 0. Every other row sums to 1.' in view_text(
        some_masked, "softmax"
    )
    assert "sums to 1" not in view_text(all_masked, "softmax")


def test_of_many_rows_that_read_nothing_the_rest_is_counted() -> None:
    masked_matrices = parse_matrices({"embeddings": [[1.0, 2.0]] * 6, "hidden": [[1] * 6] * 6})

    assert (
        '"x4" has every key masked, so its row is 0. The same holds for 2 more tokens.'
        in view_text(trace(None, given=masked_matrices), "softmax")
    )


def test_a_window_of_1_and_a_mask_may_leave_a_token_nothing() -> None:
    result = trace(None, given=given_matrices(MATRICES["what is hidden"]), window=1)

    assert "only itself" not in view_text(result, "mask")


@pytest.mark.parametrize(
    ("choices", "is_cause_alone"),
    [
        ({"mistake": "zero-scores"}, True),
        ({"mistake": "zero-scores", "causal": True}, False),
        ({"mistake": "model-scale", "dim": 1, "head_dim": 4}, True),
        ({"mistake": "model-scale", "heads": 2}, False),
        ({"mistake": "softmax-twice"}, True),
    ],
)
def test_what_comes_of_a_mistake_is_told_where_it_shows(
    choices: dict[str, Any], is_cause_alone: bool
) -> None:
    text = view_text(trace("I am learning this", **choices), "softmax")

    assert (": exp(0)" in text or ": rows" in text or ": the second" in text) != is_cause_alone


@pytest.mark.parametrize(
    ("contents", "choices", "has_seed"),
    [
        (MATRICES["queries, keys, values"], {}, False),
        (MATRICES["queries, keys, values"], {"dropout": 0.5}, True),
        (MATRICES["queries, keys, values"], {"layers": 1}, True),
        (MATRICES["values"], {}, True),
        (MATRICES["heads"], {}, False),
    ],
)
def test_a_seed_stands_where_something_was_drawn(
    contents: dict[str, Any], choices: dict[str, Any], has_seed: bool
) -> None:
    result = trace(None, given=given_matrices(contents), **choices)

    assert ("seed 42" in result.view().settings) == has_seed


def test_dropout_by_chance_is_no_real_weight() -> None:
    given_vectors = given_matrices(MATRICES["queries, keys, values"])

    assert trace(None, given=given_vectors, dropout=0.5).view().screen.caveat == (
        "random dropout: the weights before it are real, what is computed from them is not"
    )


def test_a_score_that_is_rounded_to_0_is_not_above_0() -> None:
    result = trace_of_matrices(**MATRICES["next to nothing"])

    assert "rounded to 0, and so is the score" in view_text(result, "angle", query="1", key="1")


def test_vectors_too_short_for_their_product_have_an_angle() -> None:
    assert cosine_between([1e-200, 0.0], [1e-200, 1e-200]) == pytest.approx(0.5**0.5)
    assert cosine_between([1e-200, 0.0], [0.0, 0.0]) is None
