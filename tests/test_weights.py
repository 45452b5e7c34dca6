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


@dataclass(frozen=True, eq=False)
class Row(Cells):
    """One head's scores or weights, of which no more is worked out than somebody looks at."""

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
        masked = (scores * self.layer.scale).masked_fill(hidden, -inf)
        numbers = {
            "scores": scores,
            "scaled scores": scores * self.layer.scale,
            "masked scores": masked,
            "exponents": masked,
        }.get(self.stage, masked.softmax(-1))
        shown = (
            hidden
            if self.stage in ("masked scores", "weights", "mixing")
            else torch.zeros_like(hidden)
        )
        return Patch(tensor_to_numpy(numbers)[:, columns], tensor_to_numpy(shown)[:, columns])


@dataclass(frozen=True, eq=False)
class FromQueriesAndKeys(Weights):
    layer: Layer

    @property
    def heads(self) -> int:
        return len(self.layer.values)

    def cells(self, stage: Stage, head: int) -> Cells:
        return Row(self.layer, stage, head)


def row_by_row(made: Trace) -> Trace:
    """The same trace, whose weights are in no matrix: whoever takes one all the same gets NaN."""
    layers = tuple(
        replace(layer, weights_on_demand=FromQueriesAndKeys(layer), attended=_empty(layer.attended))
        for layer in made.layers
    )
    return replace(made, layers=layers)


def _empty(attended: AttentionStages) -> AttentionStages:
    nothing = torch.full_like(attended.weights, nan)
    return replace(attended, scores=nothing, scaled_scores=nothing, weights=nothing, mixing=nothing)


def alike(ours: bytes, theirs: bytes) -> bool:
    """Compared here, for to show how pictures differ takes pytest minutes."""
    return ours == theirs


def words(count: int) -> str:
    return " ".join(f"word{number % 31}" for number in range(count))


@pytest.mark.parametrize("variant", ["scaled", "causal", "multi-head"])
@pytest.mark.parametrize("count", [4, 90])
@pytest.mark.parametrize("suffix", [".txt", ".md", ".svg", ".png"])
def test_the_same_is_drawn(variant: str, count: int, suffix: str) -> None:
    made = trace(words(count), variant=variant, tokenizer="words")
    shown = ["scores", "weights"]

    ours, theirs = (each.view(show=shown).render(suffix) for each in (made, row_by_row(made)))

    assert alike(ours, theirs)


def test_the_same_is_pooled_into_a_picture() -> None:
    made = trace(words(300), variant="causal", tokenizer="words")

    ours, theirs = (each.view().render(".png", dpi=30) for each in (made, row_by_row(made)))

    assert alike(ours, theirs)


@pytest.mark.parametrize("query", [None, "3"])
def test_the_same_is_read_by_one_token(query: str | None) -> None:
    made = trace(words(20), variant="multi-head", tokenizer="words")

    ours, theirs = (each.view(query=query).render(".txt") for each in (made, row_by_row(made)))

    assert alike(ours, theirs)


def test_a_matrix_is_asked_and_never_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pooled for a small screen asks for bands of rows, each only once."""
    made = row_by_row(trace(words(200), tokenizer="words"))
    asked: list[int] = []
    window = Row.window

    def counted(self: Row, rows: slice, columns: slice) -> Patch:
        patch = window(self, rows, columns)
        asked.append(patch.values.size)
        return patch

    monkeypatch.setattr(cells, "CELLS_PER_BAND", 2000)
    monkeypatch.setattr(Row, "window", counted)
    made.view().render(".png", dpi=30)

    assert max(asked) <= 2000


SIZES = st.integers(1, 12)


@settings(max_examples=200)
@given(
    values=st.tuples(SIZES, SIZES).flatmap(
        lambda shape: arrays(np.float32, shape, elements=st.floats(-4, 4, width=16))
    ),
    height=SIZES,
    width=SIZES,
    at_once=st.integers(1, 30),
    share=st.booleans(),
)
def test_blocks_are_the_same_in_whatever_bands_they_are_added_up(
    values: np.ndarray, height: int, width: int, at_once: int, share: bool
) -> None:
    table = StoredCells(values, values < 0)
    before = table.pooled(height, width, share=share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "CELLS_PER_BAND", at_once)
        after = table.pooled(height, width, share=share)

    assert np.array_equal(before.values, after.values)
    assert np.array_equal(before.hidden, after.hidden)


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

    first = values[:height, :width]
    assert np.isclose(means[0, 0], first.mean())
    assert np.isclose(shares[0, 0], first.sum(axis=1).mean())
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
    made = trace("the quick brown fox", tokenizer="words", variant=variant)

    ours, theirs = (
        steps(one, query="fox").view().render(".md") for one in (made, row_by_row(made))
    )

    assert alike(ours, theirs)
