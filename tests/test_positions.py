"""Where tokens stand: numbers of the papers, independent formulas, and what they leave alone."""

from __future__ import annotations

from math import cos, sin

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz import trace
from attnviz.errors import AttnvizError
from attnviz.options.values import Positions
from attnviz.traces.settings import ROTARY_POSITIONS
from attnviz.vectors import positions
from attnviz.vectors.random_numbers import Seeds
from tests.conftest import Attnviz


def test_sinusoidal_positions_are_the_papers() -> None:
    vectors = positions.sinusoidal_positions(3, 4)

    assert vectors[0].tolist() == [0, 1, 0, 1]
    assert_close(vectors[2].tolist(), [sin(2), cos(2), sin(2 / 100), cos(2 / 100)])
    assert positions.sinusoidal_positions(3, 5).shape == (3, 5)


def test_positions_are_added_and_tell_equal_tokens_apart() -> None:
    plain_layer = trace("tap tap", tokenizer="words").layers[0]
    placed_layer = trace("tap tap", tokenizer="words", positions="learned").layers[0]

    assert torch.equal(plain_layer.inputs[0], plain_layer.inputs[1])
    assert not torch.equal(placed_layer.inputs[0], placed_layer.inputs[1])
    assert_close(
        placed_layer.inputs - plain_layer.inputs,
        positions.untrained_positions(2, 8, Seeds((42,))).float(),
    )


def test_a_position_has_the_same_vector_at_every_length() -> None:
    assert torch.equal(
        positions.untrained_positions(3, 4, Seeds((1,))),
        positions.untrained_positions(9, 4, Seeds((1,)))[:3],
    )


def test_rotary_turns_the_second_token_by_one_radian() -> None:
    rotated_vectors = positions.rotate_by_position(
        torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    )

    assert rotated_vectors[0, 0].tolist() == [1, 0]
    assert_close(rotated_vectors[0, 1].tolist(), [cos(1), sin(1)])


@given(
    seed=st.integers(0, 99),
    heads=st.integers(1, 3),
    tokens=st.integers(1, 9),
    pairs=st.integers(1, 5),
)
def test_rotary_is_a_product_of_complex_numbers(
    seed: int, heads: int, tokens: int, pairs: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(heads, tokens, 2 * pairs, generator=generator, dtype=torch.float64)

    rotated_vectors = positions.rotate_by_position(vectors)

    frequency = 10_000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    angle = torch.outer(torch.arange(tokens, dtype=torch.float64), frequency)
    plane = torch.view_as_complex(vectors.reshape(heads, tokens, pairs, 2))
    expected = torch.view_as_real(plane * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    assert_close(rotated_vectors, expected)


@given(query=st.integers(0, 9), key=st.integers(0, 9), offset=st.integers(1, 9))
def test_a_rotary_score_hangs_on_the_distance_alone(query: int, key: int, offset: int) -> None:
    generator = torch.Generator().manual_seed(1)
    query_vector, key_vector = torch.randn(2, 1, 6, generator=generator, dtype=torch.float64)
    queries, keys = (
        positions.rotate_by_position(query_vector.expand(20, 6)),
        positions.rotate_by_position(key_vector.expand(20, 6)),
    )

    assert_close(queries[query] @ keys[key], queries[query + offset] @ keys[key + offset])


def test_rotary_turns_queries_and_keys_of_a_run_and_no_values() -> None:
    plain_layer = trace("tap tap tap", positions="none").layers[0]
    layer = trace("tap tap tap", positions="rotary").layers[0]

    assert layer.before_rotary is not None
    assert plain_layer.queries is not None
    assert torch.equal(layer.before_rotary.queries, plain_layer.queries)
    assert layer.queries is not None
    assert_close(layer.queries, positions.rotate_by_position(plain_layer.queries))
    assert torch.equal(layer.values, plain_layer.values)
    assert layer.attended.bias is None


@given(
    seed=st.integers(0, 99),
    tokens=st.integers(1, 9),
    pairs=st.integers(1, 5),
    base=st.sampled_from([1.0, 100.0, 10_000.0, 500_000.0]),
)
def test_rotary_by_halves_is_hugging_faces_formula(
    seed: int, tokens: int, pairs: int, base: float
) -> None:
    """q cos + rotate_half(q) sin, where rotate_half puts the second half first, and below 0."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(2, tokens, 2 * pairs, generator=generator, dtype=torch.float64)

    rotated_vectors = positions.rotate_by_position(vectors, base, halves=True)

    inverse = 1.0 / base ** (torch.arange(0, 2 * pairs, 2).double() / (2 * pairs))
    angle = torch.cat([torch.outer(torch.arange(tokens).double(), inverse)] * 2, dim=-1)
    half_rotated = torch.cat([-vectors[..., pairs:], vectors[..., :pairs]], dim=-1)
    assert_close(rotated_vectors, vectors * angle.cos() + half_rotated * angle.sin())


@given(seed=st.integers(0, 99), pairs=st.integers(1, 5))
def test_rotary_by_halves_is_rotary_of_numbers_in_another_order(seed: int, pairs: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(4, 2 * pairs, generator=generator, dtype=torch.float64)
    order = [positions.pair_indices(pair, 2 * pairs, halves=True) for pair in range(pairs)]
    places = [place for pair_places in order for place in pair_places]

    rotated_vectors = positions.rotate_by_position(vectors, halves=True)

    assert_close(rotated_vectors[:, places], positions.rotate_by_position(vectors[:, places]))


def test_rotary_by_halves_is_what_a_run_and_its_steps_turn(attnviz: Attnviz) -> None:
    options = ("--positions", "rotary-halves", "--position-base", "500", "--dim", "6")
    result = attnviz("steps", "tap tap tap", *options, "--step", "4b", "--query", "3")
    layer = trace("tap tap tap", positions="rotary-halves", position_base=500.0, dim=6).layers[0]

    assert layer.before_rotary is not None
    assert layer.before_rotary.keys is not None
    assert_close(
        layer.keys, positions.rotate_by_position(layer.before_rotary.keys, 500.0, halves=True)
    )
    assert "rotary-halves positions · position base 500" in " ".join(result.out.split())
    assert "Each pair of numbers i and i + 3 of" in result.out
    assert "pair i at position p is rotated by (p - 1) / 500^(2(i - 1)/d_k)" in result.out


def test_another_base_is_that_of_the_sines() -> None:
    result = trace("tap tap tap", positions="sinusoidal", position_base=100.0, dim=4)

    position_vectors = result.layers[0].inputs - result.embeddings
    assert_close(
        position_vectors[2].tolist(), [sin(2), cos(2), sin(0.2), cos(0.2)], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("kind", ROTARY_POSITIONS)
def test_rotary_needs_pairs(kind: Positions) -> None:
    with pytest.raises(AttnvizError, match="a head is 3 wide") as error:
        trace("tap tap", positions=kind, head_dim=3)

    assert error.value.hint == "try head_dim=4"


def test_slopes_of_eight_heads_are_the_papers() -> None:
    assert positions.alibi_slopes(8) == [
        1 / 2,
        1 / 4,
        1 / 8,
        1 / 16,
        1 / 32,
        1 / 64,
        1 / 128,
        1 / 256,
    ]


def test_slopes_between_powers_of_two_are_the_papers_too() -> None:
    """Those of 8 heads, then every other one of 16: 2^-0.5, 2^-1.5, 2^-2.5, 2^-3.5."""
    slopes = positions.alibi_slopes(12)

    assert slopes[:8] == positions.alibi_slopes(8)
    assert_close(slopes[8:], [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])


def test_alibi_takes_the_slope_for_each_token_of_distance() -> None:
    assert positions.distance_bias(1, 3, 3)[0].tolist() == [
        [0, -1 / 256, -2 / 256],
        [-1 / 256, 0, -1 / 256],
        [-2 / 256, -1 / 256, 0],
    ]


def test_alibi_is_added_to_scaled_scores_and_to_nothing_else() -> None:
    plain_layer = trace("I am learning this", variant="multi-head").layers[0]
    layer = trace("I am learning this", variant="multi-head", positions="alibi").layers[0]

    assert torch.equal(layer.attended.scores, plain_layer.attended.scores)
    assert torch.equal(layer.attended.scaled_scores, plain_layer.attended.scaled_scores)
    distances = torch.arange(4)[:, None] - torch.arange(4)
    slopes = torch.tensor([1 / 16, 1 / 256])[:, None, None]
    expected = (plain_layer.attended.scaled_scores - slopes * distances).tril()
    hidden = torch.ones(4, 4).triu(1) * -1e9
    assert_close(layer.attended.weights, (expected + hidden).softmax(-1))
