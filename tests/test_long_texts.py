"""Long texts: no table of every token with every other is kept, and none is made in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnviz import cells, from_weights, inspect, trace
from attnviz.attention import long_attention, tiles
from attnviz.cells import Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces import weights
from attnviz.traces.matrices import Matrices
from attnviz.traces.trace import Layer
from attnviz.traces.trained import band_masks, captured_attention
from attnviz.traces.weights import Stage
from tests.refusals import refusal_of
from tests.small_transformers import KINDS, save

TOKENS = 240
TEXT = "the animal was too tired " * TOKENS
VIEWS: dict[str, dict[str, Any]] = {
    "all heads": {},
    "one head": {"layer": 1, "head": 2},
    "one token": {"query": "150"},
    "one weight": {"source": "150", "to": "12"},
    "in words": {"layer": 1, "head": 2, "words": True},
    "merged": {"layer": 1, "merge": "mean"},
}
STREAMED_VIEWS: dict[str, dict[str, Any]] = {
    "all heads": {},
    "one head": {"layer": 1, "head": 2, "resolution": 24},
    "one token": {"query": "150"},
    "one token in one head": {"query": "150", "layer": 0, "head": 1, "resolution": 24},
    "a layer": {"layer": 1, "resolution": 24},
}
MANY_WORDS = " ".join(f"w{number % 50}" for number in range(2500))


def _read_in_bands(monkeypatch: pytest.MonkeyPatch, cells_at_once: int) -> None:
    """Read tables in smaller bands, as those of a longer text are read."""
    monkeypatch.setattr(captured_attention, "CAPTURED_CELLS_AT_ONCE", cells_at_once)
    for module in (cells, weights):
        monkeypatch.setattr(module, "CELLS_PER_BAND", cells_at_once)


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records how many numbers the largest tensors have, of any type and of floating point."""

    numbers = 0
    floats = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, torch.Tensor):
                self.numbers = max(self.numbers, each.untyped_storage().nbytes() // each.itemsize)
                if each.is_floating_point():
                    self.floats = max(self.floats, each.numel())
        return result


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of a few heads, with positions enough."""
    folder = tmp_path_factory.mktemp("models") / "long"
    return save(KINDS["llama"], folder, max_position_embeddings=TOKENS)


def view_long_text(decoder: Path, **choices: Any) -> LargestTensor:
    """The largest tensors of a view of many tokens."""
    largest = LargestTensor()  # type: ignore[no-untyped-call]
    with largest:
        inspection = inspect(TEXT, model=str(decoder), truncate=True, **choices)
        inspection.view().render(".txt")
    assert len(inspection.trace.tokens) == TOKENS
    return largest


@pytest.mark.slow_table("long texts", keep=2)
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("name", VIEWS)
def test_no_view_makes_a_table_of_all_tokens_for_all_heads(
    decoder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most one of a single head, where all of it is asked for."""
    _read_in_bands(monkeypatch, 2**13)  # as if the text were longer

    assert 2**12 < view_long_text(decoder, **VIEWS[name]).floats <= TOKENS**2


@pytest.mark.slow_table("long texts", keep=2)
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("name", STREAMED_VIEWS)
def test_no_view_of_a_streamed_text_makes_a_matrix_of_all_tokens(
    decoder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(band_masks, "LARGEST_MATRIX", 0)
    monkeypatch.setattr(band_masks, "CELLS_AT_ONCE", 2**13)
    monkeypatch.setattr(captured_attention, "CAPTURED_CELLS_AT_ONCE", 1)
    monkeypatch.setitem(tiles.KEYS_PER_TILE, "cpu", 80)
    monkeypatch.setitem(long_attention.ROWS_AT_ONCE, "cpu", 80)
    monkeypatch.setattr(cells, "CELLS_PER_BAND", 2**13)
    monkeypatch.setattr("attnviz.analysis.inspection.patterns.PATTERN_CELLS_AT_ONCE", 2**16)
    monkeypatch.setattr(Layer, "visible", property(lambda layer: pytest.fail("a matrix is made")))

    assert view_long_text(decoder, stream=True, **STREAMED_VIEWS[name]).numbers < TOKENS**2 / 2


WORDS = "one two three four five six seven eight " * 3
SETTINGS_BY_NAME: dict[str, dict[str, Any]] = {
    "one head": {},
    "causal heads that share keys": {"causal": True, "heads": 4, "kv_heads": 2, "dim": 16},
    "capped": {"soft_cap": 0.5, "temperature": 0.3},
    "rotary": {"positions": "rotary"},
    "layers with heads off": {"layers": 2, "heads": 2, "without": "L0H1,L1H0=mean", "window": 3},
    "a second sentence": {"layers": 1, "memory": "nine ten eleven"},
    "not scaled": {"variant": "plain"},
    "in 64 bits": {"dtype": "float64"},
}
STAGES: tuple[Stage, ...] = ("scores", "scaled scores", "masked scores", "exponents", "mixing")


@pytest.mark.slow_table("long texts", keep=2)
@pytest.mark.parametrize("name", SETTINGS_BY_NAME)
def test_streamed_weights_are_those_of_matrices(
    name: str, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    with_matrices = trace(WORDS, **SETTINGS_BY_NAME[name])
    _read_in_bands(monkeypatch, 50)
    without_matrices = trace(WORDS, stream=True, **SETTINGS_BY_NAME[name])

    for one, other in zip(
        without_matrices.attention_layers, with_matrices.attention_layers, strict=True
    ):
        assert one.weights_on_demand is not None
        assert other.weights_on_demand is None
        assert torch.allclose(one.context, other.context, atol=1e-6)
        assert torch.allclose(one.attended.weights, other.attended.weights, atol=1e-6)
        for head in range(one.heads):
            streamed_cells, stored_cells = (
                each.weights.cells("mixing", head) for each in (one, other)
            )
            bands = [*streamed_cells.bands()]
            assert len(bands) > 1
            values = np.vstack([each.values for each in bands])
            assert np.allclose(values, all_cells(stored_cells).values, atol=1e-5)
            assert np.array_equal(all_cells(streamed_cells).hidden, all_cells(stored_cells).hidden)
    texts = [
        each.view(show=["weights"], as_="heatmap").render(".txt")
        for each in (without_matrices, with_matrices)
    ]
    assert texts[0] == texts[1]


def all_cells(table: Cells) -> Patch:
    return table.window(slice(None), slice(None))


def test_a_streamed_model_answers_in_half_precision_what_it_answers_with_matrices() -> None:
    options: dict[str, Any] = {"model": "brackets", "dtype": "bfloat16"}
    with_matrices, without_matrices = (
        trace("( [ ]", **options, stream=stream) for stream in (False, True)
    )

    assert with_matrices.prediction is not None
    assert without_matrices.prediction is not None
    assert torch.allclose(
        without_matrices.prediction.probabilities, with_matrices.prediction.probabilities, atol=0.05
    )


@pytest.mark.parametrize(
    "options",
    [{"dropout": 0.5}, {"given": Matrices(scores=torch.ones(1, 3, 3))}],
    ids=lambda others: next(iter(others)),
)
def test_what_needs_all_weights_at_once_is_not_streamed(options: dict[str, Any]) -> None:
    short_trace = trace("one two three", memory_budget="0.1KB", **options)

    assert short_trace.layers[0].weights_on_demand is None


def test_scores_that_are_too_large_are_refused_of_streamed_texts_as_well() -> None:
    with pytest.raises(AttnvizError, match=r"^the scores are too large for float32, whose largest"):
        trace("one two three", temperature=1e-39, stream=True)


def test_matrices_of_very_many_weights_are_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_trace = trace(WORDS, stream=True)
    monkeypatch.setattr(memory, "free_bytes", lambda: 4999)

    assert refusal_of(lambda: long_trace.layers[0].attended.weights.sum()) == (
        "the weights of 25 tokens as a matrix takes about 5 KB, and there are 5 KB free",
        "give a shorter text, or ask for the row of one token: query=0",
    )


def test_scores_of_streamed_texts_are_refused() -> None:
    with pytest.raises(AttnvizError) as error:
        trace(WORDS, stream=True).view(show=["scores"])

    assert str(error.value) == (
        "only weights are computed where they are shown, and this needs the scores"
    )


def test_weights_alone_are_cut_into_rows_as_any_others(monkeypatch: pytest.MonkeyPatch) -> None:
    given_weights = torch.rand(2, 40, 40, generator=torch.Generator().manual_seed(1)).softmax(-1)
    layer = from_weights(given_weights, [f"t{number}" for number in range(40)]).layers[0]
    monkeypatch.setattr(weights, "CELLS_PER_BAND", 100)

    rows = layer.weights.cells("weights", 1)

    assert not isinstance(rows, cells.StoredCells)
    np.testing.assert_array_equal(
        rows.window(slice(7, 9), slice(None)).values, given_weights[1, 7:9]
    )
