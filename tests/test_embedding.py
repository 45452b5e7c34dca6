"""Drawn numbers: the same for the same, different for the different, and as random as promised."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz import trace
from attnviz.vectors import positions
from attnviz.vectors.random_numbers import Seeds


def test_the_first_numbers_of_a_seed_never_change() -> None:
    """Pinned: a picture from last year must come out of the same command today."""
    drawn = Seeds((42,)).draw_embeddings([40, 716], 3)

    assert_close(
        drawn.float(),
        torch.tensor([[-0.377289, -0.619877, 0.319176], [0.501230, 1.981613, -0.597657]]),
        atol=1e-6,
        rtol=0,
    )


@given(
    st.lists(st.integers(0, 2**32), min_size=1, max_size=20), st.integers(1, 9), st.integers(0, 99)
)
def test_an_id_has_the_same_vector_wherever_it_stands(ids: list[int], dim: int, seed: int) -> None:
    together = Seeds((seed,)).draw_embeddings(ids, dim)

    for place, number in enumerate(ids):
        assert torch.equal(together[place], Seeds((seed,)).draw_embeddings([number], dim)[0])


def test_embeddings_are_standard_normal_and_independent() -> None:
    drawn = Seeds((1,)).draw_embeddings(range(5000), 20).numpy()

    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.var() - 1) < 0.02
    assert abs((drawn**4).mean() - 3) < 0.1
    assert np.abs(np.corrcoef(drawn.T) - np.eye(20)).max() < 0.07
    assert len(np.unique(drawn)) == drawn.size


def test_seeds_and_uses_have_streams_of_their_own() -> None:
    ones = [
        Seeds((1,)).draw_embeddings(range(200), 8),
        Seeds((2,)).draw_embeddings(range(200), 8),
        positions.untrained_positions(200, 8, Seeds((1,))),
        Seeds((1,)).draw_projection("w_query", 200, 8),
        Seeds((1,)).draw_projection("w_key", 200, 8),
    ]
    correlation = np.corrcoef([one.flatten().numpy() for one in ones])

    assert np.abs(correlation - np.eye(len(ones))).max() < 0.1


def test_a_projection_keeps_the_variance_of_what_it_projects() -> None:
    matrix = Seeds((3,)).draw_projection("w_query", 256, 64)

    assert abs(float(matrix.var()) * 256 - 1) < 0.05


def test_embeddings_stay_when_the_heads_change() -> None:
    one, other = trace("the same words"), trace("the same words", variant="multi-head", heads=4)

    assert torch.equal(one.embeddings, other.embeddings)


def test_scaled_scores_have_a_variance_of_one_and_unscaled_ones_of_the_width() -> None:
    layer = trace("".join(map(chr, range(97, 123))) * 8, tokenizer="bytes", dim=64).layers[0]
    text = trace(" ".join(map(str, range(300))), tokenizer="words", dim=64).layers[0]

    assert layer.attended.scores.shape == (1, 208, 208)
    assert 0.7 < float(text.attended.scaled_scores.var()) < 1.4
    assert 0.7 < float(text.attended.scores.var()) / 64 < 1.4


def test_dropout_keeps_the_share_it_promises_and_raises_the_rest() -> None:
    kept = Seeds((5,)).dropout_factors((2, 50, 60), 0.25)

    assert kept.shape == (2, 50, 60)
    assert set(kept.flatten().tolist()) == {0.0, 1 / 0.75}
    assert abs(float((kept == 0).double().mean()) - 0.25) < 0.02
