"""Masks: of yes and no, of numbers, one for each head; and queries from which all is hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attnviz import trace
from attnviz.analysis.checks import verify_trace
from attnviz.analysis.measures import measure_weights
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.section import Section
from attnviz.views.steps.walk import steps
from tests.conftest import Attnviz
from tests.test_saved import assert_comes_back

LOW = -1e9
ONE_BLIND_ROW = [[1, 0, 0], [0, 0, 0], [1, 1, 1]]


def random_vectors(heads: int, tokens: int, width: int = 4, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    names = ("queries", "keys", "values")
    return {name: generator.normal(size=(heads, tokens, width)) for name in names}


def trace_of(contents: dict[str, Any], **settings: Any) -> Trace:
    heads = len(contents.get("queries", [0]))
    return trace(None, given=parse_matrices(contents, heads=heads), dtype="float64", **settings)


def torch_attention(contents: dict[str, Any], mask: Tensor, **options: Any) -> Tensor:
    query, key, value = (torch.from_numpy(contents[name]) for name in ("queries", "keys", "values"))
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)


@given(heads=st.integers(1, 3), tokens=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_mask_of_yes_and_no_for_each_head_is_torchs(heads: int, tokens: int, seed: int) -> None:
    contents = random_vectors(heads, tokens, seed=seed)
    visible = np.random.default_rng(seed).integers(0, 2, size=(heads, tokens, tokens)) > 0

    layer = trace_of({**contents, "visible": visible}).layers[0]

    visible_cells = torch.from_numpy(visible)
    expected = torch_attention(contents, visible_cells).masked_fill(
        ~visible_cells.any(-1, keepdim=True), 0
    )
    assert_close(layer.attended.contexts, expected)


@given(heads=st.integers(1, 3), tokens=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_mask_of_numbers_is_added_as_torch_adds_it(heads: int, tokens: int, seed: int) -> None:
    contents, generator = random_vectors(heads, tokens, seed=seed), np.random.default_rng(seed)
    mask = generator.normal(size=(heads, tokens, tokens))
    mask[generator.integers(0, 3, size=mask.shape) == 0] = -np.inf
    mask[..., 0] = 0.5  # so that every query sees something

    layer = trace_of({**contents, "mask": mask}).layers[0]

    assert_close(layer.attended.contexts, torch_attention(contents, torch.from_numpy(mask)))
    visible_cells = torch.from_numpy(~np.isneginf(mask))
    assert torch.equal(layer.visible.expand_as(visible_cells), visible_cells)


def test_one_mask_does_for_all_heads_and_one_for_each_is_no_batch() -> None:
    contents, mask = random_vectors(2, 3), np.array(ONE_BLIND_ROW)

    shared_trace = trace_of({**contents, "visible": mask})
    trace_by_head = trace_of({**contents, "visible": np.stack([mask, mask])})

    assert shared_trace.layers[0].visible.shape == (3, 3)
    assert trace_by_head.layers[0].visible.shape == (2, 3, 3)
    assert_close(shared_trace.layers[0].context, trace_by_head.layers[0].context)


def test_beside_a_batch_a_mask_for_each_item_is_named_by_axes() -> None:
    masks = np.stack([np.eye(3), np.ones((3, 3))])
    contents: dict[str, Any] = {"embeddings": np.ones((2, 3, 4)), "visible": masks}
    with pytest.raises(AttnvizError, match="what its dimensions count is not clear"):
        parse_matrices(contents)

    contents["axes"] = {"visible": ["item", "token", "key"]}
    for item, mask in enumerate(masks, start=1):
        visible = trace(None, given=parse_matrices(contents, item=item)).layers[0].visible
        assert torch.equal(visible, torch.from_numpy(mask) > 0)


def test_a_mask_is_added_after_scaling_and_hides_beside_a_causal_one() -> None:
    mask = [[0, 0, 0], [0.5, 0, 0], [float("-inf"), -1.5, 0]]
    contents = {**random_vectors(1, 3), "mask": mask}

    layer = trace_of(contents, variant="causal").layers[0]

    expected = layer.attended.scaled_scores + torch.tensor(
        [[0, 0, 0], [0.5, 0, 0], [0, -1.5, 0]], dtype=torch.float64
    )
    assert_close(layer.attended.logits, expected)
    visible_cells = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]]) > 0
    assert torch.equal(layer.visible, visible_cells)


def test_what_is_hidden_is_the_opposite_of_what_is_visible() -> None:
    contents, hidden = random_vectors(2, 3), np.triu(np.ones((3, 3)), 1)

    trace_with_hidden = trace_of({**contents, "hidden": hidden})
    trace_with_visible = trace_of({**contents, "visible": 1 - hidden})

    assert torch.equal(trace_with_hidden.layers[0].visible, trace_with_visible.layers[0].visible)
    assert_close(trace_with_hidden.layers[0].context, trace_with_visible.layers[0].context)


def test_a_low_number_takes_all_weight_and_hides_nothing() -> None:
    contents = {"scores": [[1.0, 2.0], [1.0, 1.0]], "mask": [[0, LOW], [0, 0]]}

    masked_trace = trace_of(contents)

    assert masked_trace.layers[0].attended.weights.tolist() == [[[1.0, 0.0], [0.5, 0.5]]]
    assert masked_trace.layers[0].visible.all()


def test_every_layer_has_the_mask() -> None:
    contents = {
        "embeddings": np.ones((3, 8)),
        "mask": [[0, LOW, LOW]] * 3,
        "visible": ONE_BLIND_ROW,
    }

    masked_trace = trace_of(contents, layers=2)

    for layer in masked_trace.layers:
        assert layer.attended.weights[0].tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]


def test_a_row_that_sees_nothing_is_zero_and_said_to_be(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "blind.toml"
    path.write_text(
        f"scores = {[[1, 2, 3]] * 3}\nvalues = {[[1, 2]] * 3}\nvisible = {ONE_BLIND_ROW}"
    )

    result = attnviz("run", "--given", str(path), "--verify")

    output = " ".join(result.out.split())
    assert result.status == 0
    assert "2 x2 0.00 0.00" in output
    assert "row 2 reads nothing: every key is masked · every other row sums to 1" in output
    assert "✓ rows sum to 1, and rows that attend to nothing sum to 0" in output
    assert "each row sums to 1" not in output


def test_nothing_is_said_of_blind_rows_where_there_are_none() -> None:
    notes = _all_notes(trace_of({**random_vectors(2, 3), "visible": np.tri(3)}))

    assert "nothing, for" not in notes
    assert "each row sums to 1" in notes


def test_only_the_head_that_is_blind_is_said_to_be() -> None:
    contents = {**random_vectors(2, 3), "visible": [ONE_BLIND_ROW, np.ones((3, 3)).tolist()]}

    notes = _all_notes(trace_of(contents))

    assert "row 2 of head 0 reads nothing: every key is masked" in notes
    assert "Each head has its own mask." in notes
    assert '"x2" has read nothing in head 0, so its vector is 0.' in notes
    assert "each row sums to 1" not in notes


@pytest.mark.slow("formats")
def test_a_reader_that_sees_nothing_is_shown_with_every_way_to_draw_it(tmp_path: Path) -> None:
    blind_trace = trace_of({**random_vectors(2, 3), "visible": [ONE_BLIND_ROW, ONE_BLIND_ROW]})

    for form in ("heatmap", "arcs", "sentence"):
        view = blind_trace.view(query="2", as_=form)
        notes = {grid.note for grid in _grids(view.picture)}
        assert notes == {"it reads nothing: every key is masked"} or form == "arcs"
        view.save(tmp_path / f"{form}.svg")
    steps(blind_trace, query="2", step="7-10").view().save(tmp_path / "steps.gif", dpi=50)


def test_the_arithmetic_of_a_blind_row_is_nothing_to_share_out() -> None:
    sections = _sections(trace_of({**random_vectors(1, 3), "visible": ONE_BLIND_ROW}), query="2")

    assert sections["softmax"].sums == ()
    assert [each.text for each in sections["context"].sums] == ["context(x2) = [0 0 0 0]"]


def test_the_arithmetic_of_a_mask_of_numbers_is_written_out() -> None:
    contents = {"scores": [[1.0, 2.0], [1.5, 1.0]], "mask": [[0, 0], [-0.25, LOW]]}

    sections = _sections(trace_of(contents), query="2")

    assert [each.text for each in sections["additive-mask"].sums] == [
        "with mask(x2, x1) = 1.50 - 0.25 = 1.25",
        "with mask(x2, x2) = 1.00 - 1.00e+09 = -1.00e+09",
    ]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_masks_come_back(tmp_path: Path, suffix: str) -> None:
    mask = [[0, -1.5, 0], [0, 0, float("-inf")], [0, 0, 0]]
    saved_trace = trace_of(
        {**random_vectors(2, 3), "mask": mask, "visible": [ONE_BLIND_ROW, np.tri(3).tolist()]}
    )

    read_trace = assert_comes_back(saved_trace, tmp_path, suffix)

    assert read_trace.layers[0].attended.mask is not None
    assert "Infinity" not in (tmp_path / f"numbers{suffix}").read_text("latin-1")
    assert [check.passed for check in verify_trace(read_trace)] == [True] * 3


def test_what_reads_nothing_has_no_measure() -> None:
    layer = trace_of({"scores": [[1.0, 1.0], [1.0, 1.0]], "visible": [[1, 1], [0, 0]]}).layers[0]

    row_measures = measure_weights(layer.attended.weights, layer.visible, layer.attended.weights)

    assert row_measures.entropy[0, 0] == 1
    assert row_measures.row_error.tolist() == [[0, 0]]
    assert row_measures.means()["effective"] == 2
    for name in ("entropy", "share", "effective", "peak", "gradient", "divergence"):
        assert torch.isnan(getattr(row_measures, name)[0, 1]), name


def test_a_mask_of_yes_and_no_is_not_added() -> None:
    with pytest.raises(AttnvizError, match="contains only 0 and 1"):
        parse_matrices({"scores": [[1, 2], [3, 4]], "mask": [[1, 0], [0, 0]]})


def _sections(masked_trace: Trace, query: str) -> dict[str, Section]:
    return {each.name: each for each in steps(masked_trace, query=query).sections}


def _grids(page: Any) -> list[Any]:
    panels = [panel for group in page.groups for panel in group.panels]
    return [getattr(panel, "grid", panel) for panel in panels]


def _all_notes(masked_trace: Trace) -> str:
    notes = [grid.note for grid in _grids(masked_trace.view().screen)]
    sections = steps(masked_trace).sections
    step_notes = [grid.note for each in sections for grid in each.grids]
    return " ".join([*notes, *step_notes, *(each.about for each in sections)])


@pytest.fixture
def low_mask(tmp_path: Path) -> str:
    """A file with a mask as models have it: no cell is hidden, but -1e9 leaves it no weight."""
    path = tmp_path / "far.json"
    path.write_text('{"scores": [[1.5, 2.25], [3.125, 0.5]], "mask": [[0, -1e9], [0, 0]]}')
    return str(path)


def test_what_a_mask_added_is_shown_as_masked_scores(attnviz: Attnviz, low_mask: str) -> None:
    output = attnviz("run", "--given", low_mask, "--show", "masked").out

    assert "masked scores" in output
    assert "1 x1       1.50 -1.00e+09" in output  # each number in as many digits as it needs
    assert "2 x2       3.12      0.50" in output


def test_a_mask_that_was_added_hides_nothing_more(attnviz: Attnviz, low_mask: str) -> None:
    output = attnviz("steps", "--given", low_mask, "--step", "mask").out

    assert "Nothing else is masked: the mask has already been added to the scores." in output
    assert "may read every other" not in output


def test_rows_that_read_nothing_are_looked_for_once_in_each_attention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer_names: list[str] = []
    find_empty_rows = Layer.empty_rows

    def find_and_record(layer: Layer, head: int) -> list[int]:
        layer_names.append(layer.name)
        return find_empty_rows(layer, head)

    monkeypatch.setattr(Layer, "empty_rows", find_and_record)
    trace("I am", layers=12).view(show=["weights"])

    assert sorted(layer_names) == sorted(f"L{layer}" for layer in range(12))
