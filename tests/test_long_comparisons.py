"""Kinds of attention compared on a long text: the numbers are those of matrices, without any."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnviz import compare, trace
from attnviz.analysis.comparison import Comparison
from attnviz.errors import AttnvizError, Note
from attnviz.renderers.picture.items import Panel
from attnviz.renderers.picture.long_map import LongMapDrawing
from attnviz.renderers.picture.page_kinds import build_drawing
from attnviz.renderers.picture.text import Lettering
from attnviz.traces.matrices import Matrices
from attnviz.views.compared_heads import compared_heads, row_measure_means
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.long_map import LongMap
from tests.conftest import Attnviz
from tests.refusals import assert_refused
from tests.test_long_texts import MANY_WORDS, LargestTensor

TEXT = "the quick brown fox jumps over the lazy dog and runs away from all the others " * 2
CHOICES_BY_COMPARISON: dict[str, dict[str, Any]] = {
    "scale": {},
    "variant": {},
    "mask": {"values": ["causal", "none", "window"]},
    "dim": {"values": ["2", "8", "32"]},
    "heads": {},
    "temperature": {"heads": 2, "causal": True, "soft_cap": 2.0},
    "positions": {},
    "seed": {"scoring": "additive"},
    "dtype": {"values": ["float64", "float32"]},
}


def both_comparisons(by: str, text: str = TEXT, **choices: Any) -> tuple[Comparison, Comparison]:
    """The comparison with matrices, and the one without."""
    with_matrices, without_matrices = (
        compare(text, by=by, stream=each, **choices) for each in (False, True)
    )
    assert not with_matrices.is_long
    assert without_matrices.is_long
    return with_matrices, without_matrices


def test_the_mean_of_heads_of_a_long_text_is_the_mean_of_all() -> None:
    comparison = compare(TEXT, by="scale", variant="multi-head", heads=2, stream=True)
    assert comparison.is_long
    [ways] = compared_heads(comparison, mean=True).long_heads
    maps = comparison.view(mean=True).screen.panels[:2]
    notes = [each.note for each in maps if isinstance(each, Grid)]
    assert ["mean of 2 heads" in note for note in notes] == [True, True]

    for way, alternative in zip(ways, comparison.alternatives, strict=True):
        weights = alternative.weights.double()
        entropies = -(weights * weights.clamp_min(1e-30).log2()).sum(-1)
        assert not torch.allclose(weights[0], weights[1], atol=1e-3)
        blocks = way.cells_in(way.block).values
        assert np.allclose(blocks, weights.mean(0), atol=1e-6)
        assert np.allclose(way.numbers("entropy"), entropies.mean(0), atol=1e-4)
        assert np.allclose(way.weights_of(7), weights[:, 7].mean(0), atol=1e-6)
        assert np.allclose(way.row(7).facts.cells.values[0], weights[:, 7].mean(0), atol=1e-6)


@pytest.mark.parametrize("by", CHOICES_BY_COMPARISON)
def test_the_numbers_of_long_texts_are_those_of_matrices(by: str) -> None:
    with_matrices, without_matrices = both_comparisons(by, **CHOICES_BY_COMPARISON[by])
    heads = compared_heads(without_matrices, mean=False)

    for index, (expected_way, other) in enumerate(
        zip(with_matrices.alternatives, without_matrices.alternatives, strict=True)
    ):
        measures, changes = with_matrices.measures[index], without_matrices.row_changes[index]
        pooled = expected_way.cells(0).pooled(1, 1, share=True)
        assert expected_way.name == other.name
        assert other.long_weights is not None
        assert np.allclose(other.long_weights.summary.pooled[0], pooled.values, atol=1e-5)
        assert np.array_equal(other.long_weights.summary.hidden, pooled.hidden)
        means = row_measure_means(heads, index)
        for title, name in (("bits", "entropy"), ("reads", "effective"), ("peak", "peak")):
            if without_matrices.heads:  # else the entropy of a mean is no mean of entropies
                assert np.isclose(means[title], measures.means()[name], rtol=1e-5)
        difference = with_matrices.differences[index]
        if difference is None:
            assert changes is None
            continue
        assert changes is not None
        assert torch.allclose(changes.moved, difference.abs().sum(-1) / 2, atol=1e-5)
        if without_matrices.heads:
            assert torch.allclose(changes.divergence, measures.divergence, atol=1e-5)
        largest, expected = changes.largest, with_matrices.changes[index]
        assert expected is not None
        before, after = abs(largest.after - largest.before), abs(expected.after - expected.before)
        assert abs(before - after) < 1e-5


def test_a_row_is_compared_as_it_is_in_the_whole_text() -> None:
    _, without_matrices = both_comparisons("positions", heads=2)
    row = replace(without_matrices, query=11)

    for row_change, all_changes in zip(row.row_changes, without_matrices.row_changes, strict=True):
        assert (row_change is None) == (all_changes is None)
        if row_change is not None and all_changes is not None:
            assert torch.allclose(row_change.moved[:, 0], all_changes.moved[:, 11], atol=1e-5)
            assert torch.allclose(
                row_change.divergence[:, 0], all_changes.divergence[:, 11], atol=1e-5
            )
            assert row_change.largest.query == 11


def test_no_matrix_of_a_long_text_is_made() -> None:
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        comparison = compare(MANY_WORDS, by="mask", tokenizer="spaces", stream=True, resolution=64)
        assert comparison.view().render(".txt")

    assert 2**16 < largest.floats < 2500**2 / 4


def test_the_title_says_how_much_moves_and_what_becomes_of_the_entropy() -> None:
    with_matrices, without_matrices = both_comparisons("scale")
    moved_share = float(with_matrices.differences[1].abs().sum(-1).mean() / 2)  # type: ignore[union-attr]
    bits = [measures.means()["entropy"] for measures in with_matrices.measures]
    count = len(without_matrices.base.tokens)

    assert without_matrices.view().headline == (
        f"From unscaled to scaled, {100 * moved_share:.0f}\xa0% of the attention of {count} tokens "
        f"moves, and mean entropy rises from {bits[0]:.1f} to {bits[1]:.1f} bits"
    )


@pytest.mark.parametrize(
    ("text", "choices", "title"),
    [
        ("I", {}, "From unscaled to scaled, no weight of 1 token changes"),
        (
            "I am here",
            {"variant": "average"},
            "From unscaled to scaled, no weight of 3 tokens changes",
        ),
        (
            "I am",
            {"by": "mask", "values": ["causal", "none"], "variant": "average", "query": 0},
            'From causal to none, 50\xa0% of the attention of "I" (token 1) moves, and its entropy '
            "rises from 0.0 to 1.0 bits",
        ),
        (
            "I am",
            {"by": "mask", "values": ["none", "causal", "window"], "variant": "average"},
            "From none to causal and window, 25\xa0% of the attention of 2 tokens moves",
        ),
        (
            "I am learning",
            {"by": "dtype", "values": ["float32", "float64"], "variant": "average"},
            "Weights differ from those of float32 by at most",
        ),
    ],
    ids=["one token", "nothing changes", "one row", "a tie", "rounding"],
)
def test_titles_are_true_of_few_tokens(text: str, choices: dict[str, Any], title: str) -> None:
    query = choices.pop("query", None) if "query" in choices else None
    comparison = compare(text, stream=True, **choices)

    assert comparison.view(query=query).headline.startswith(title)


def test_a_token_whose_keys_are_all_masked_has_no_change() -> None:
    masked_matrices = Matrices(
        embeddings=torch.eye(2), visible=torch.tensor([[1, 0], [0, 0]]).bool()
    )
    comparison = compare(trace("a b", tokenizer="spaces", given=masked_matrices), stream=True)

    assert comparison.view(query=1).headline == (
        'There is nothing to compare: every key is masked for "b" (token 2)'
    )
    assert comparison.view().headline == "From unscaled to scaled, no weight of 2 tokens changes"


def test_half_precision_has_a_note() -> None:
    comparison = compare("I am here", by="dtype", values=["float32", "bfloat16"], stream=True)

    assert comparison.view().notes[-1] == (
        "half precision rounds queries, keys and values here; their softmax is computed in 32 bits"
    )


def test_comparisons_are_streamed_from_the_memory_budget_on() -> None:
    text = "a b c d " * 100

    with pytest.warns(Note) as notes:
        comparison = compare(text, tokenizer="spaces", memory_budget="1MB", resolution=100)

    assert comparison.is_long
    assert re.fullmatch(
        r"all weights of 400 tokens would take [\d.]+ MB: they are computed only where they are "
        r"shown, and a block of the map stands for 4 × 4 tokens \('memory_budget' keeps more of "
        r"them\)",
        str(notes[0].message),
    )
    assert not compare(text, tokenizer="spaces").is_long


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (
            ["you are", "--stream"],
            "--stream computes weights where they are shown, and two texts are compared by the "
            "weights of both",
            "leave --stream out",
        ),
        (
            ["--by", "tokenizer", "--stream"],
            "--stream computes weights where they are shown, and each tokenizer makes its own "
            "tokens",
            "leave --stream out",
        ),
        (
            ["--by", "mask", "--values", "causal,softmax-columns", "--stream"],
            "--stream computes weights where they are shown, and the mistake 'softmax-columns' "
            "needs all of them at once",
            "leave --stream out",
        ),
        (
            ["--dropout", "0.5", "--stream"],
            "--stream computes weights where they are shown, and dropout needs all of them at once",
            "leave --stream out",
        ),
        (
            ["--by", "dim", "--curves", "--stream"],
            "curves are drawn over many seeds, and each needs all weights of the text in memory",
            "leave --curves out, or give a shorter text",
        ),
        (
            ["--log"],
            "--log colours the map of a long text, and this shows something else",
            "leave --log out, or add --stream",
        ),
    ],
    ids=lambda value: " ".join(value[-3:]) if isinstance(value, list) else "",
)
def test_what_cannot_be_streamed_is_refused(
    attnviz: Attnviz, arguments: list[str], problem: str, hint: str
) -> None:
    assert_refused(attnviz("compare", "I am", *arguments), problem, hint)


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (["--learn", "reverse"], "models in training"),
        (["--checkpoints", "run/*"], "checkpoints"),
        (["I am", "--model", "agreement", "--model", "minilm"], "two results"),
    ],
    ids=["training", "checkpoints", "models"],
)
def test_other_comparisons_have_no_options_of_long_texts(
    attnviz: Attnviz, arguments: list[str], subject: str
) -> None:
    result = attnviz("compare", *arguments, "--resolution", "64")

    assert result.err == (
        f"error: --resolution is about ways of attending to one long text, and here {subject} are "
        "compared\n hint: leave --resolution out\n"
    )


@pytest.mark.slow("formats")
def test_every_kind_of_file_of_a_comparison_has_the_same_numbers(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    files = [tmp_path / f"a{suffix}" for suffix in (".json", ".csv", ".png", ".svg", ".html")]
    result = attnviz(
        *("compare", TEXT, "--heads", "2", "--causal", "--stream", "--resolution", "8"),
        *(part for file in files for part in ("-o", str(file))),
    )
    assert result.status == 0, result.err

    data = json.loads(files[0].read_text(encoding="utf-8"))
    [base, way] = data["ways"]
    lines = [*csv.DictReader(files[1].read_text(encoding="utf-8").splitlines())]
    moved_shares = [float(line["moved"]) for line in lines if line["way"] == "scaled"]
    assert np.allclose(np.array(way["changes"]["moved"]).ravel(), moved_shares, atol=1e-6)
    difference = np.array(way["map"]) - np.array(base["map"])
    assert np.allclose(way["changes"]["map"], difference)
    assert np.isclose(way["means"]["moved"], np.mean(moved_shares), atol=1e-6)
    assert base["changes"] is None
    assert b"scaled \xe2\x88\x92 unscaled" in files[4].read_bytes()


def test_the_row_of_a_query_is_side_by_side(attnviz: Attnviz, tmp_path: Path) -> None:
    with_matrices, without_matrices = both_comparisons("scale")
    [table, parts] = without_matrices.view(query=5).grids()
    rows = [way.weights[0, 5].numpy() for way in with_matrices.alternatives]
    keys = [int(number) - 1 for number in table.rows.numbers]

    assert np.allclose(table.values[:, 0], rows[0][keys], atol=1e-6)
    assert np.allclose(table.values[:, 2], (rows[1] - rows[0])[keys], atol=1e-6)
    assert np.allclose(parts.values[:, :2].sum(0), 1, atol=1e-5)
    result = attnviz("compare", TEXT, "--stream", "--query", "6", "-o", str(tmp_path / "row.csv"))
    lines = [*csv.DictReader((tmp_path / "row.csv").read_text(encoding="utf-8").splitlines())]
    assert result.status == 0, result.err
    weights = [float(line["weight"]) for line in lines if line["way"] == "scaled"]
    assert np.allclose(weights, rows[1], atol=1e-6)


def test_the_command_of_a_comparison_repeats_it() -> None:
    view = compare("I am", by="positions", stream=True, pool="max").view(log=True, query="am")

    assert view.command is not None
    assert view.command.line == (
        "attnviz compare 'I am' --stream --pool max --by positions --query 2 --log"
    )


@pytest.mark.parametrize(("values", "maps_per_row"), [(2, (3, 0)), (3, (3, 2)), (4, (3, 0))])
def test_maps_stand_in_rows_and_differences_end_at_the_right(
    values: int, maps_per_row: tuple[int, int]
) -> None:
    names = ["none", "sinusoidal", "rotary", "alibi"][:values]
    groups = compare(TEXT, by="positions", values=names, stream=True).view().picture.groups
    drawing = build_drawing(groups)
    assert isinstance(drawing, LongMapDrawing)
    assert all(isinstance(panel, LongMap) for panel in groups[0].panels)

    items = drawing.body((0.0, 0.0, 9.0, 6.0), Lettering())
    boxes = [item.box for item in items if isinstance(item, Panel)]
    scales = {panel.grid.scale for panel in groups[0].panels if isinstance(panel, LongMap)}
    tops = [round(y, 6) for _, y, _, _ in boxes]
    assert tops.count(max(tops)) == min(maps_per_row[0], len(boxes))
    assert len({scale for scale in scales if scale.label == "weight"}) == 1
    if maps_per_row[1]:
        assert tops.count(min(tops)) == maps_per_row[1]
        assert np.isclose(boxes[-1][0], boxes[maps_per_row[0] - 1][0])
    assert all(x >= 0 and y >= -1e-9 and x + w <= 9 + 1e-9 for x, y, w, _ in boxes)


def test_blocks_of_blocks_are_counted_in_tokens() -> None:
    """A terminal pools a map of blocks once more, and says so in tokens."""
    text = trace("a b " * 300, tokenizer="spaces", stream=True, resolution=200).view()
    rows = text.render(".txt").decode()
    first = re.search(r"^ *1–(\d+) ", rows, re.MULTILINE)

    assert first is not None
    assert f"one cell = {first[1]} × {first[1]} tokens" in rows


def test_a_saved_trace_is_compared_without_matrices(attnviz: Attnviz, tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    attnviz("run", TEXT, "-o", path)
    result = attnviz("compare", "--trace", path, "--stream", "--by", "mask")

    assert result.status == 0, result.err
    assert result.out.startswith("From causal to window, ")


def test_curves_are_refused_in_python() -> None:
    with pytest.raises(AttnvizError, match=r"^curves are drawn over many seeds, and each needs"):
        compare("I am", by="dim", stream=True).view(curves=True)
