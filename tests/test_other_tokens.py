"""Keys and values of other tokens, whose vectors are given: cross-attention by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attnviz import Trace, compare, load, steps, trace
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.randomness import random_weight_sources
from attnviz.vectors.positions import sinusoidal_positions


def cross_arrays(keys: int = 5, **changes: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0).normal
    shapes = {"embeddings": (3, 4), "key_embeddings": (keys, 4)}
    shapes |= dict.fromkeys(("w_query", "w_key", "w_value"), (4, 2))
    return {name: draw(size=shape) for name, shape in shapes.items()} | changes


def trace_of(contents: dict[str, Any], **settings: Any) -> Trace:
    return trace(None, dtype="float64", given=parse_matrices(contents), **settings)


@pytest.mark.parametrize("keys", [5, 3])  # as many as there are tokens, too
def test_keys_and_values_are_made_of_the_vectors_that_are_given(keys: int) -> None:
    contents = cross_arrays(keys)
    x, y, w_query, w_key, w_value = (torch.from_numpy(each) for each in contents.values())
    cross_trace = trace_of(contents)
    assert len(cross_trace.keys) == keys
    assert cross_trace.keys is not cross_trace.tokens
    expected = scaled_dot_product_attention(x @ w_query, y @ w_key, y @ w_value)
    assert_close(cross_trace.layers[0].context, expected)


def test_positions_are_added_to_them_too() -> None:
    contents = cross_arrays()
    layer = trace_of(contents, positions="sinusoidal").layers[0]
    y = torch.from_numpy(contents["key_embeddings"])
    assert_close(layer.key_inputs, y + sinusoidal_positions(5, 4).to(y))


def test_nothing_is_random_where_all_vectors_and_matrices_are_given() -> None:
    assert not list(random_weight_sources(trace_of(cross_arrays()), by_hand=False))
    without_embeddings = trace_of(
        {name: each for name, each in cross_arrays().items() if name != "embeddings"}
    )
    assert list(random_weight_sources(without_embeddings, by_hand=False))


def test_they_have_the_width_of_embeddings() -> None:
    with pytest.raises(AttnvizError, match="'key_embeddings' is 5 × 3, but should be 5 × 4"):
        parse_matrices(cross_arrays(key_embeddings=np.ones((5, 3))))


def test_a_memory_without_a_block_is_told_of_them() -> None:
    with pytest.raises(AttnvizError, match="there is no transformer block") as error:
        trace_of({"embeddings": np.ones((2, 4)), "memory": np.ones((3, 4))})
    assert "to read it without a block, key_embeddings and key_tokens" in error.value.hint


def test_the_steps_say_whose_vectors_they_are() -> None:
    output = steps(trace_of(cross_arrays())).view().render(".txt").decode()
    text = " ".join(output.split())
    assert "Keys and values are computed from other tokens, whose given vectors are Y." in text


def test_a_comparison_reads_them_as_well() -> None:
    comparison = compare(trace_of(cross_arrays()))
    assert [each.weights.shape for each in comparison.alternatives] == [(1, 3, 5)] * 2


def test_a_trace_that_was_written_still_knows_them(tmp_path: Path) -> None:
    trace_of(cross_arrays()).view().save(tmp_path / "cross.npz")
    read_trace = load(str(tmp_path / "cross.npz"))
    assert_close(
        read_trace.layers[0].key_inputs, torch.from_numpy(cross_arrays()["key_embeddings"])
    )
    assert "key_embeddings" in read_trace.layers[0].given
