"""Weights need not be a matrix: worked out row by row, they give the same tables and pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnviz import Trace, cells, steps, trace
from attnviz.attention.arithmetic import AttentionStages
from attnviz.cells import Cells, Patch, StoredCells
from attnviz.traces.trace import Layer
from attnviz.traces.weights import Stage, Weights, tensor_to_numpy
from tests.tiers import examples


@dataclass(frozen=True, eq=False)
class RowCells(Cells):
    """One head's scores or weights, computed only for the window that is asked for."""

    layer: Layer
    stage: Stage
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        assert self.layer.queries is not None
        return len(self.layer.queries[self.head]), self.layer.values.shape[1]

    def window(self, rows: slice, columns: slice) -> Patch:
        assert self.layer.queries is not None
        assert self.layer.keys is not None
        scores = self.layer.queries[self.head, rows] @ self.layer.keys[self.head].T
        hidden = ~self.layer.visible[rows]
        masked_scores = (scores * self.layer.scale).masked_fill(hidden, -inf)
        numbers = {
            "scores": scores,
            "scaled scores": scores * self.layer.scale,
            "masked scores": masked_scores,
            "exponents": masked_scores,
        }.get(self.stage, masked_scores.softmax(-1))
        is_hidden = (
            hidden
            if self.stage in ("masked scores", "weights", "mixing")
            else torch.zeros_like(hidden)
        )
        return Patch(tensor_to_numpy(numbers)[:, columns], tensor_to_numpy(is_hidden)[:, columns])


@dataclass(frozen=True, eq=False)
class RowWeights(Weights):
    layer: Layer

    @property
    def heads(self) -> int:
        return len(self.layer.values)

    def cells(self, stage: Stage, head: int) -> Cells:
        return RowCells(self.layer, stage, head)


def with_row_weights(original: Trace) -> Trace:
    """The same trace with weights computed on demand; its stored matrices contain only NaN."""
    layers = tuple(
        replace(layer, weights_on_demand=RowWeights(layer), attended=fill_with_nan(layer.attended))
        for layer in original.layers
    )
    return replace(original, layers=layers)


def fill_with_nan(attended: AttentionStages) -> AttentionStages:
    nan_weights = torch.full_like(attended.weights, nan)
    return replace(
        attended,
        scores=nan_weights,
        scaled_scores=nan_weights,
        weights=nan_weights,
        mixing=nan_weights,
    )


def are_equal(stored_picture: bytes, row_picture: bytes) -> bool:
    """Compare outside an assert: pytest takes minutes to show how two pictures differ."""
    return stored_picture == row_picture


def build_text(count: int) -> str:
    return " ".join(f"word{number % 31}" for number in range(count))


@pytest.mark.slow_table("pictures", keep=2)
@pytest.mark.parametrize("variant", ["scaled", "causal", "multi-head"])
@pytest.mark.parametrize("count", [4, 90])
@pytest.mark.parametrize("suffix", [".txt", ".md", ".svg", ".png"])
def test_the_same_is_drawn(variant: str, count: int, suffix: str) -> None:
    original = trace(build_text(count), variant=variant, tokenizer="words")
    parts = ["scores", "weights"]

    stored_picture, row_picture = (
        each.view(show=parts).render(suffix) for each in (original, with_row_weights(original))
    )

    assert are_equal(stored_picture, row_picture)


def test_the_same_is_pooled_into_a_picture() -> None:
    original = trace(build_text(300), variant="causal", tokenizer="words")

    stored_picture, row_picture = (
        each.view().render(".png", dpi=30) for each in (original, with_row_weights(original))
    )

    assert are_equal(stored_picture, row_picture)


@pytest.mark.parametrize("query", [None, "3"])
def test_the_same_is_read_by_one_token(query: str | None) -> None:
    original = trace(build_text(20), variant="multi-head", tokenizer="words")

    stored_picture, row_picture = (
        each.view(query=query).render(".txt") for each in (original, with_row_weights(original))
    )

    assert are_equal(stored_picture, row_picture)


def test_a_matrix_is_asked_and_never_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pooled for a small screen asks for bands of rows, each only once."""
    original = with_row_weights(trace(build_text(200), tokenizer="words"))
    cell_counts: list[int] = []
    window = RowCells.window

    def count_cells(self: RowCells, rows: slice, columns: slice) -> Patch:
        patch = window(self, rows, columns)
        cell_counts.append(patch.values.size)
        return patch

    monkeypatch.setattr(cells, "CELLS_PER_BAND", 2000)
    monkeypatch.setattr(RowCells, "window", count_cells)
    original.view().render(".png", dpi=30)

    assert max(cell_counts) <= 2000


SIZES = st.integers(1, 12)


@settings(max_examples=examples(200))
@given(
    values=st.tuples(SIZES, SIZES).flatmap(
        lambda shape: arrays(np.float32, shape, elements=st.floats(-4, 4, width=16))
    ),
    height=SIZES,
    width=SIZES,
    band_size=st.integers(1, 30),
    share=st.booleans(),
)
def test_blocks_are_the_same_in_whatever_bands_they_are_added_up(
    values: np.ndarray, height: int, width: int, band_size: int, share: bool
) -> None:
    table = StoredCells(values, values < 0)
    one_band = table.pooled(height, width, share=share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "CELLS_PER_BAND", band_size)
        several_bands = table.pooled(height, width, share=share)

    assert np.array_equal(one_band.values, several_bands.values)
    assert np.array_equal(one_band.hidden, several_bands.hidden)


@given(
    values=st.tuples(SIZES, SIZES).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.floats(-9, 9))
    ),
    height=SIZES,
    width=SIZES,
)
def test_a_block_is_the_mean_of_its_cells_and_of_shares_the_sum_over_its_columns(
    values: np.ndarray, height: int, width: int
) -> None:
    table = cells.unmasked_cells(values)

    means = table.pooled(height, width, share=False).values
    shares = table.pooled(height, width, share=True).values

    first_block = values[:height, :width]
    assert np.isclose(means[0, 0], first_block.mean())
    assert np.isclose(shares[0, 0], first_block.sum(axis=1).mean())
    assert np.allclose(shares.sum(axis=1)[0], values[:height].sum(axis=1).mean())


def test_a_table_knows_its_ends_and_what_it_hides() -> None:
    table = StoredCells(
        np.array([[1.0, -3.0], [np.nan, 2.0]]), np.array([[False, True], [False] * 2])
    )

    assert table.extent == (-3.0, 2.0)
    assert table.reach == 3.0
    assert table.has_hidden
    assert table.row(1).values.shape == (1, 2)
    assert cells.unmasked_cells(np.array([[4], [7]])).extent == (0, 7)


def test_a_sample_of_a_large_table_is_every_so_many_of_its_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.arange(7 * 11.0).reshape(7, 11)
    monkeypatch.setattr(cells, "MAX_SAMPLED_NUMBERS", 20)
    monkeypatch.setattr(cells, "CELLS_PER_BAND", 22)

    assert np.array_equal(cells.unmasked_cells(values).sample(), values.ravel()[::3])


@pytest.mark.parametrize("variant", ["causal", "multi-head"])
def test_the_steps_ask_for_rows_too(variant: str) -> None:
    original = trace("the quick brown fox", tokenizer="words", variant=variant)

    stored_picture, row_picture = (
        steps(each_trace, query="fox").view().render(".md")
        for each_trace in (original, with_row_weights(original))
    )

    assert are_equal(stored_picture, row_picture)
