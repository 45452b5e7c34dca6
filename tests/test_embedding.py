"""Random numbers: equal for equal seeds and ids, otherwise different; their distribution."""

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
    embeddings = Seeds((42,)).draw_embeddings([40, 716], 3)

    assert_close(
        embeddings.float(),
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
    embeddings = Seeds((1,)).draw_embeddings(range(5000), 20).numpy()

    assert abs(embeddings.mean()) < 0.01
    assert abs(embeddings.var() - 1) < 0.02
    assert abs((embeddings**4).mean() - 3) < 0.1
    assert np.abs(np.corrcoef(embeddings.T) - np.eye(20)).max() < 0.07
    assert len(np.unique(embeddings)) == embeddings.size


def test_seeds_and_uses_have_streams_of_their_own() -> None:
    streams = [
        Seeds((1,)).draw_embeddings(range(200), 8),
        Seeds((2,)).draw_embeddings(range(200), 8),
        positions.untrained_positions(200, 8, Seeds((1,))),
        Seeds((1,)).draw_projection("w_query", 200, 8),
        Seeds((1,)).draw_projection("w_key", 200, 8),
    ]
    correlation = np.corrcoef([one.flatten().numpy() for one in streams])

    assert np.abs(correlation - np.eye(len(streams))).max() < 0.1


def test_a_projection_keeps_the_variance_of_what_it_projects() -> None:
    projection = Seeds((3,)).draw_projection("w_query", 256, 64)

    assert abs(float(projection.var()) * 256 - 1) < 0.05


def test_embeddings_stay_when_the_heads_change() -> None:
    one_head, four_heads = (
        trace("the same words"),
        trace("the same words", variant="multi-head", heads=4),
    )

    assert torch.equal(one_head.embeddings, four_heads.embeddings)


def test_scaled_scores_have_a_variance_of_one_and_unscaled_ones_of_the_width() -> None:
    long_text_layer = trace(
        "".join(map(chr, range(97, 123))) * 8, tokenizer="bytes", dim=64
    ).layers[0]
    words_layer = trace(" ".join(map(str, range(300))), tokenizer="words", dim=64).layers[0]

    assert long_text_layer.attended.scores.shape == (1, 208, 208)
    assert 0.7 < float(words_layer.attended.scaled_scores.var()) < 1.4
    assert 0.7 < float(words_layer.attended.scores.var()) / 64 < 1.4


def test_dropout_keeps_the_share_it_promises_and_raises_the_rest() -> None:
    factors = Seeds((5,)).dropout_factors((2, 50, 60), 0.25)

    assert factors.shape == (2, 50, 60)
    assert set(factors.flatten().tolist()) == {0.0, 1 / 0.75}
    assert abs(float((factors == 0).double().mean()) - 0.25) < 0.02
