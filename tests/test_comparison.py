"""Comparisons: what is held fixed, what each mistake does, and the conclusion."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from math import e
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from attnviz.analysis.aspects import ASPECTS
from attnviz.analysis.comparison import Comparison, compare, compare_scores
from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError
from attnviz.renderers.look import TextSize
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.panel_labels import panel_style
from attnviz.renderers.picture.panel_rows import best_panel_rows, panel_orders
from attnviz.renderers.picture.panels import natural_page
from attnviz.renderers.picture.text import lettering
from attnviz.traces.from_text import trace
from attnviz.views.conclusions.conclusion import conclusion
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.number_formats import cell_format
from attnviz.views.measure_tables import measures_table
from tests.conftest import Attnviz
from tests.refusals import assert_refused

TEXT = "I am learning this"


def weights_by_name(comparison: Comparison) -> dict[str, torch.Tensor]:
    return {each.name: each.weights for each in comparison.alternatives}


def picture_panels(comparison: Comparison) -> list[Grid | None]:
    """The panels of a picture, row by row; None is an empty place."""
    drawn_panels = natural_page(
        panel_orders(comparison.view().picture.groups), (), Captions(), TextSize()
    )[0][0].panels
    assert not any(isinstance(each, Curves) for each in drawn_panels)
    return [each for each in drawn_panels if not isinstance(each, Curves)]


def test_the_textbooks_case_of_why_scores_are_scaled() -> None:
    """d_k = 64: unscaled, one token takes everything; divided by 8, the others keep a share."""
    scores = torch.tensor([[[29.5998, 9.9446, 63.8539, 55.4694]]])

    comparison = compare_scores(scores, 64, tokens=["I", "am", "learning", "this"])

    weights = weights_by_name(comparison)
    unscaled = torch.tensor([1.329e-15, 3.8671e-24, 0.99977, 0.00022833])
    assert_close(weights["unscaled"][0, 0], unscaled, atol=1e-5, rtol=1e-3)
    assert_close(
        weights["scaled"][0, 0], torch.tensor([0.0101, 0.0009, 0.7323, 0.2567]), atol=5e-5, rtol=0
    )
    change = comparison.changes[1]
    assert change is not None
    assert (change.query, change.key) == (0, 2)
    assert "instead of 1.00" in conclusion(comparison)


def test_the_textbooks_small_case_too() -> None:
    weights = weights_by_name(compare_scores(torch.tensor([[[0.7875, 0.2388, 1.4352, 1.332]]]), 2))

    assert_close(
        weights["unscaled"][0, 0], torch.tensor([0.1918, 0.1108, 0.3666, 0.3307]), atol=1e-4, rtol=0
    )
    assert_close(
        weights["scaled"][0, 0], torch.tensor([0.2115, 0.1435, 0.3343, 0.3108]), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize(
    "by", [name for name in ASPECTS if name not in ("device", "text", "without")]
)
def test_everything_can_be_compared_by_its_own_values(by: str) -> None:
    comparison = compare(TEXT, by=by)

    assert [each.name for each in comparison.alternatives] == list(ASPECTS[by].values())
    assert float(comparison.measures[-1].share.nan_to_num().max()) <= 1 + 1e-9
    assert len(comparison.measures) == len(comparison.differences) == len(comparison.alternatives)
    assert conclusion(comparison).endswith(".")
    assert measures_table(comparison).values.shape == (len(comparison.alternatives), 8)


@pytest.mark.parametrize("by", ["scale", "mask", "temperature"])
def test_queries_keys_and_values_are_the_same_in_all(by: str) -> None:
    first, *others = [each.trace for each in compare(TEXT, by=by).alternatives]
    assert first
    for other in others:
        assert other
        for name in ("queries", "keys", "values"):
            assert torch.equal(getattr(first.layers[0], name), getattr(other.layers[0], name))


@pytest.mark.parametrize("by", ["variant", "heads", "positions"])
def test_embeddings_are_the_same_in_all(by: str) -> None:
    first, *others = [each.trace for each in compare(TEXT, by=by).alternatives]
    assert first
    assert all(other and torch.equal(first.embeddings, other.embeddings) for other in others)


def test_the_ways_of_scaling_are_the_runs_with_and_without_it() -> None:
    weights = weights_by_name(compare(TEXT, variant="causal"))

    for name, scale in (("unscaled", False), ("scaled", True)):
        run = trace(TEXT, variant="causal", scale=scale)
        assert torch.equal(weights[name], run.layers[0].attended.weights)


def test_differences_are_from_the_reference_and_say_where_they_are_largest() -> None:
    comparison = compare(TEXT, reference="scaled")
    weights = weights_by_name(comparison)

    assert comparison.reference == 1
    assert comparison.differences[1] is None
    difference = comparison.differences[0]
    assert difference is not None
    assert_close(difference, (weights["unscaled"] - weights["scaled"]).double())
    change = comparison.changes[0]
    assert change is not None
    assert_close(abs(change.after - change.before), float(difference.abs().max()))


def test_each_mistake_shows_its_own_symptom() -> None:
    comparison = compare(TEXT, by="mask")
    pairs = zip(comparison.alternatives, comparison.measures, strict=True)
    measures_by_name = {alternative.name: measures for alternative, measures in pairs}

    leaking = {name for name, each in measures_by_name.items() if float(each.hidden.max()) > 1e-4}
    breaking = {
        name for name, each in measures_by_name.items() if float(each.row_error.max()) > 1e-4
    }
    assert leaking == {"zero-scores", "softmax-twice"}
    assert breaking == {"zero-weights", "softmax-all", "softmax-columns"}
    weights = weights_by_name(comparison)
    assert_close(weights["softmax-all"].sum(), torch.tensor(1.0))
    assert_close(weights["softmax-columns"].sum(-2), torch.ones(1, 4))
    assert_close(
        weights["zero-weights"], weights["none"].masked_fill(~comparison.alternatives[0].visible, 0)
    )
    is_flatter = float(measures_by_name["model-scale"].entropy.mean()) > float(
        measures_by_name["causal"].entropy.mean()
    )
    assert is_flatter
    assert set(MISTAKES) == leaking | breaking | {"model-scale"}


def test_softmax_twice_on_averages_gives_the_textbooks_digits() -> None:
    scores, visible = torch.zeros(1, 8, 8), torch.ones(8, 8).tril().bool()

    twice = MISTAKES["softmax-twice"].weigh(scores, visible, 1.0)

    assert_close(float(twice[0, 0, 0]), e / (e + 7), rtol=1e-6, atol=0)
    assert_close(twice[0, 3, :5], torch.tensor([0.1405] * 4 + [0.1095]), atol=5e-5, rtol=0)


def test_softmax_over_everything_gives_the_textbooks_digits() -> None:
    scores = torch.tensor([[[2.0, 4, 4], [4, 16, 12], [4, 12, 10]]])

    weights = MISTAKES["softmax-all"].weigh(scores, torch.ones(3, 3).bool(), 1.0)

    assert_close(weights[0, 1], torch.tensor([5.9128e-06, 0.96234, 0.017626]), rtol=1e-4, atol=0)


def test_ways_stand_above_their_differences_on_one_scale() -> None:
    comparison = compare(TEXT, by="variant")
    grids = picture_panels(comparison)

    assert grids[4] is None  # the reference differs in nothing from itself
    assert [grid.title for grid in grids if grid][4:] == ["minus plain"] * 3
    weights = [grid for grid in grids[:4] if grid]
    differences = [grid for grid in grids[4:] if grid]
    assert len({grid.scale for grid in weights}) == 1
    assert {(grid.scale.kind, grid.scale.low + grid.scale.high) for grid in differences} == {
        ("diverging", 0)
    }


def test_a_wide_page_gets_more_panels_in_a_row_than_a_high_one() -> None:
    candidates = panel_orders(compare(TEXT, by="mask").view().picture.groups)
    style = panel_style(lettering((10.0, 10.0)), (10.0, 10.0), 1.0, 1.0)
    wide = best_panel_rows(candidates, (0, 0, 14.0, 6.0), style)
    high = best_panel_rows(candidates, (0, 0, 6.0, 14.0), style)

    assert wide.columns > high.columns


@pytest.mark.parametrize(
    ("text", "settings", "by", "words"),
    [
        ("Hello", {}, "scale", "Scaling changes nothing here: a query sees only one token"),
        (
            TEXT,
            {"variant": "average"},
            "scale",
            "Scaling changes nothing here: queries and keys are not compared",
        ),
        ("Hello", {}, "mask", "cannot be told from the correct result"),
        (TEXT, {}, "dtype", "Weights differ from those of float64 by at most "),
        (TEXT, {}, "tokenizer", "of the largest entropy"),
        (TEXT, {"variant": "plain"}, "mask", "hidden tokens get weight in zero-scores"),
    ],
)
def test_conclusions_are_true_at_the_edges(
    text: str, settings: dict[str, Any], by: str, words: str
) -> None:
    assert words in conclusion(compare(text, by=by, **settings))


def test_dropout_is_not_taken_for_attention() -> None:
    assert_close(weights_by_name(compare(TEXT, dropout=0.5)), weights_by_name(compare(TEXT)))


def test_what_only_rounding_changes_is_written_as_small_as_it_is() -> None:
    comparison = compare(TEXT, by="dtype", values=["float64", "float32"])
    difference = [grid for grid in picture_panels(comparison) if grid][-1]

    assert re.fullmatch(r"-?\de-\d\d", cell_format(difference, 2)(difference.values.min()))


def test_other_tokens_cannot_be_subtracted_and_are_not() -> None:
    comparison = compare(TEXT, by="tokenizer")

    assert comparison.differences == (None, None, None)
    assert len([each for each in picture_panels(comparison) if each]) == 3


def test_one_query_restricts_everything_to_one_row() -> None:
    grids = [grid for grid in picture_panels(replace(compare(TEXT, by="variant"), query=2)) if grid]

    assert {grid.values.shape for grid in grids} == {(1, 4)}
    assert all(grid.rows.labels == ("learning",) for grid in grids)


def test_one_querys_changes_and_conclusion_are_its_own(attnviz: Attnviz) -> None:
    full_comparison, row_comparison = compare(TEXT), replace(compare(TEXT), query=0)

    assert full_comparison.changes[1] is not None
    assert row_comparison.changes[1] is not None
    assert (full_comparison.changes[1].query, row_comparison.changes[1].query) == (1, 0)
    assert conclusion(full_comparison) != conclusion(row_comparison)
    output = attnviz("compare", TEXT, "--query", "1").out
    assert "measures of 1 I" in output
    assert 'largest change of "I" (1) from unscaled to scaled: I → ' in output


@pytest.mark.slow_table("pictures", keep=3)
@pytest.mark.parametrize(
    "by", [name for name in ASPECTS if name not in ("device", "text", "without")]
)
def test_no_panel_is_drawn_of_the_reference_minus_itself(by: str) -> None:
    comparison = compare(TEXT, by=by, variant="multi-head")
    groups = comparison.view(repeats=2).picture.groups
    grids = [each for group in groups for each in group.all_panels if isinstance(each, Grid)]

    differences = [grid for grid in grids if grid.scale.label == "difference"]
    heads = comparison.heads or 1
    others = sum(difference is not None for difference in comparison.differences)
    assert len(grids) - len(differences) == len(comparison.alternatives) * heads
    assert len(differences) in (others * heads, 0)  # with curves there are none in a picture
    assert "reference" not in " ".join(grid.title for grid in grids)


def test_each_head_is_shown_unless_the_mean_is_asked_for(attnviz: Attnviz) -> None:
    output_by_head = attnviz("compare", TEXT, "--variant", "multi-head").out
    output_of_mean = attnviz("compare", TEXT, "--variant", "multi-head", "--mean").out

    for head in (0, 1):
        for title in ("unscaled", "scaled", "scaled − unscaled"):
            assert f"{title} · head {head}" in output_by_head
    assert "mean of" not in output_by_head
    assert "mean of 2 heads" in output_of_mean
    assert "· head" not in output_of_mean


def test_heads_of_a_picture_have_a_row_or_a_column_each() -> None:
    comparison = compare(TEXT, variant="multi-head")
    group = comparison.view().picture.groups[0]

    tables = panel_orders([group])
    assert {(table.columns, table.rows) for table in tables} == {(2, 3), (3, 2), (6, 1)}
    for table in tables:
        titles = [each.title for each in table.panels if each]
        assert len(set(titles)) == 6
        if table.columns == 2:
            assert titles[:2] == ["unscaled · head 0", "unscaled · head 1"]
        if table.columns == 3:
            expected_titles = ["unscaled", "scaled", "scaled − unscaled"]
            assert titles[:3] == [f"{name} · head 0" for name in expected_titles]


def test_a_head_that_is_shown_is_that_head() -> None:
    comparison = compare(TEXT, variant="multi-head")
    grids = {each.title: each for each in comparison.view().screen.panels if isinstance(each, Grid)}

    unscaled, scaled = (each.weights.numpy() for each in comparison.alternatives)
    np.testing.assert_allclose(grids["scaled · head 1"].values, scaled[1])
    np.testing.assert_allclose(
        grids["scaled − unscaled · head 0"].values, scaled[0] - unscaled[0], atol=1e-7
    )


def test_the_mean_is_shown_and_said_where_heads_are_not_as_many() -> None:
    panel_list = compare(TEXT, by="heads").view(repeats=2).screen.panels
    weights = [
        each for each in panel_list if isinstance(each, Grid) and each.scale.label == "weight"
    ]

    assert [grid.title for grid in weights] == ["heads 1", "heads 2", "heads 4"]
    assert all("mean of the heads, whose number differs" in grid.note for grid in weights)


def test_what_changes_nothing_is_said_to_change_nothing() -> None:
    closing = compare("Hello", by="dtype").view().closing

    assert "no weight changes from float64 to float32" in closing
    assert not any("by 0" in line for line in closing)


def test_a_query_of_other_tokens_is_refused(attnviz: Attnviz) -> None:
    result = attnviz("compare", "unbelievable", "--by", "tokenizer", "--query", "3")

    assert result.err == (
        "error: each tokenizer makes its own tokens, but --query names one of them\n"
        " hint: leave --query out, or --by tokenizer\n"
    )


def test_what_was_averaged_is_what_the_measures_say() -> None:
    single_head, several_heads = compare(TEXT), compare(TEXT, variant="multi-head")

    assert measures_table(single_head).note.startswith("means over queries · ")
    assert measures_table(several_heads).note.startswith("means over queries and heads · ")
    assert measures_table(replace(several_heads, query=1)).note.startswith("means over heads · ")
    assert measures_table(replace(single_head, query=1)).note.startswith("bits = ")


def test_heads_that_are_not_as_many_are_compared_in_their_mean() -> None:
    comparison = compare(TEXT, by="heads")

    difference = comparison.differences[1]
    assert difference is not None
    assert difference.shape == (1, 4, 4)
    one_head, two_heads = (each.weights for each in comparison.alternatives[:2])
    assert_close(difference[0], (two_heads.mean(0) - one_head[0]).double())


def test_the_command_shows_ways_measures_and_a_conclusion(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = attnviz("compare", TEXT, "--by", "mask").out

    assert max(map(len, out.splitlines())) <= 80
    assert "✗ zero-scores is a mistake: 0 written into the scores instead of -inf" in out
    assert re.search(r"^✗ zero-weights +(\d\.\d{3} ){7}\d\.\d{3}$", out, re.MULTILINE)
    assert "hidden tokens get weight in zero-scores" in " ".join(out.split())


def test_every_measure_of_every_query(attnviz: Attnviz) -> None:
    full = attnviz("compare", TEXT, "--full").out

    assert "measures of scaled" in full


@pytest.mark.slow("formats")
def test_the_comparison_goes_into_files(attnviz: Attnviz, samples: object) -> None:
    names = ["a.png", "a.svg", "a.pdf", "a.txt", "a.json", "a.csv"]
    result = attnviz(
        "compare", TEXT, "--by", "dim", "--values", "2,4", *(w for n in names for w in ("-o", n))
    )

    assert result.err.splitlines() == [f"wrote {name}" for name in names]
    with Image.open("a.png") as picture:
        assert "compare" in json.loads(picture.info["attnviz"])["command"]
        assert picture.info["Title"].startswith("Over 20 seeds, as d_k goes from 2 to 4")


def test_the_json_holds_ways_measures_differences_and_the_sweep(attnviz: Attnviz) -> None:
    document = json.loads(
        attnviz("compare", TEXT, "--by", "temperature", "--repeats", "4", "--json").out
    )

    assert document["reference"] == "0.25"
    assert [second_alternative["name"] for second_alternative in document["ways"]] == [
        "0.25",
        "1",
        "4",
    ]
    second_alternative = document["ways"][1]
    assert {"measures", "means", "layers", "tokens", "embeddings", "settings"} <= set(
        second_alternative
    )
    assert len(second_alternative["measures"]["entropy"][0]) == 4
    assert document["differences"][0]["weights"] is None
    assert document["differences"][1]["largest"]["before"] > 0
    assert document["sweep"]["curves"]["peak"]["scaled"]["median"]


def test_the_csv_has_a_row_for_each_query_and_one_of_means(
    attnviz: Attnviz, samples: object
) -> None:
    attnviz("compare", TEXT, "--variant", "causal", "-o", "a.csv")
    with open("a.csv", encoding="utf-8") as file:  # noqa: PTH123
        rows = list(csv.DictReader(io.StringIO(file.read())))

    assert len(rows) == 2 * (4 + 1)
    assert (rows[0]["share"], rows[4]["query"]) == ("", "mean")


def test_a_given_reference_scale_keeps_its_differences_centred() -> None:
    comparison = compare(TEXT)
    difference = next(grid for grid in picture_panels(comparison) if grid and "−" in grid.title)

    assert cell_format(difference, 2)(-0.31) == "-.31"


SCALES = "known: unscaled, scaled"
REFUSED: dict[str, tuple[list[str], str, str]] = {
    "by": (
        ["--by", "scael"],
        "there is no way to compare by 'scael'",
        "did you mean 'scale'? known: scale, variant, mask, dim, heads, temperature, positions, "
        "seed, dtype, device, tokenizer, without, text",
    ),
    "one value": (
        ["--values", "scaled"],
        "there is only one value to compare: 'scaled'",
        "give two or more, such as --values scaled,unscaled",
    ),
    "no value": (
        ["--values", ","],
        "there is no value to compare",
        "give two or more, such as --values unscaled,scaled",
    ),
    "kind": (
        ["--by", "dim", "--values", "2,x"],
        "--values has 'x', but --by dim compares whole numbers",
        "try --values 2,8,32,128,512",
    ),
    "twice": (["--values", "scaled,scaled"], "--values has 'scaled' twice", "give each value once"),
    "twice in other words": (
        ["--by", "dim", "--values", "8,08"],
        "--values has '08' twice",
        "give each value once",
    ),
    "unknown value": (
        ["--values", "scaled,scled"],
        "there is no scale to compare 'scled'",
        f"did you mean 'scaled'? {SCALES}",
    ),
    "reference": (["--reference", "x"], "there is no reference value 'x'", SCALES),
    "repeats": (
        ["--repeats", "0"],
        "--repeats is 0, and must be from 1 to 100,000",
        "try --repeats 1",
    ),
    "curves of what is no number": (
        ["--curves"],
        "there are no curves by scale: its values are not numbers on a scale",
        "try --by dim, --by heads, --by temperature",
    ),
    "a mistake as variant": (
        ["-v", "softmax-all"],
        "'softmax-all' is a mistake, not a variant (softmax over the whole matrix instead of each "
        "row: the matrix sums to 1, not the rows)",
        "look at it with: attnviz compare TEXT --by mask --values causal,softmax-all",
    ),
    "number": (
        ["--repeats", "x"],
        "--repeats is 'x', and must be a whole number",
        "try --repeats 20",
    ),
    "heads": (
        ["--by", "heads", "--values", "1,3"],
        "a width of 8 does not split into 3 equal heads",
        "try --heads 2, --dim 9, or give --head-dim",
    ),
    "suffix": (
        ["-o", "a.npz"],
        "there is no format for '.npz'",
        "known: .png, .svg, .pdf, .gif, .html, .pptx, .txt, .md, .json, .csv",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_comparisons_are_refused(attnviz: Attnviz, name: str) -> None:
    arguments, problem, hint = REFUSED[name]

    assert_refused(attnviz("compare", TEXT, *arguments), problem, hint)


def test_run_refuses_a_mistake(attnviz: Attnviz) -> None:
    result = attnviz("run", TEXT, "-v", "zero-scores")

    assert result.status == 2
    assert result.err.startswith("error: 'zero-scores' is a mistake, not a variant")


def test_blocks_are_not_compared() -> None:
    with pytest.raises(AttnvizError, match="not on transformer blocks"):
        compare("I am learning this", layers=2)


def test_a_file_that_gives_a_block_is_not_compared_and_is_told_where_it_can_be_seen(
    tmp_path: Path,
) -> None:
    matrix_file = tmp_path / "gpt.json"
    matrix_file.write_text('{"embeddings": [[1, 0], [0, 1]], "w_1": [[1], [2]], "b_1": [0]}')
    with pytest.raises(AttnvizError, match=r"and '.*gpt.json' gives w_1 and b_1") as error:
        compare(None, given=str(matrix_file))
    assert "see a block with trace() or steps()" in error.value.hint


def test_positions_in_the_attention_are_compared() -> None:
    comparison = compare("I am learning this", by="positions", values=["none", "rotary", "alibi"])

    weights = [each.weights for each in comparison.alternatives]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_mistakes_are_compared_in_a_head_as_wide_as_the_matrices_make_it(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    matrix_file = tmp_path / "given.toml"
    matrix_file.write_text("w_query = [[1, 2], [3, 4]]\nembeddings = [[1, 2], [3, 4]]\n")

    result = attnviz("compare", "--by", "mask", "--given", str(matrix_file), "--full")

    assert (result.status, result.err) == (0, "")
    assert "1 head of width 2" in result.out


def test_titles_on_a_screen_are_whole(attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    options = ("--by", "temperature", "--values", "0.25,4", "--repeats", "2")

    out = attnviz("compare", TEXT, *options, "--variant", "multi-head").out

    for head in (0, 1):
        assert f"temperature 4 − temperature 0.25 · head {head}" in out
