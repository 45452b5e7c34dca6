"""Measures, held against distributions worked out by hand and against other formulas."""

from __future__ import annotations

from math import log2, sqrt

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attnviz.analysis import measures

ROWS = st.lists(st.floats(0, 1), min_size=2, max_size=8).filter(lambda row: sum(row) > 0.01)


def single_row(*shares: float) -> Tensor:
    return torch.tensor([[shares]], dtype=torch.float64)


def all_visible(keys: int) -> Tensor:
    return torch.ones(1, keys, dtype=torch.bool)


def measure_means(
    weights: Tensor, visible: Tensor, reference: Tensor | None = None
) -> dict[str, float]:
    return measures.measure_weights(weights, visible, reference).means()


def test_a_uniform_row_has_all_the_entropy_there_is() -> None:
    means = measure_means(single_row(0.25, 0.25, 0.25, 0.25), all_visible(4))

    assert (means["entropy"], means["share"], means["effective"], means["peak"]) == (2, 1, 4, 0.25)
    # diag(p) − p pᵀ: 3/16 four times on the diagonal, −1/16 twelve times beside it.
    assert_close(means["gradient"], sqrt(4 * (3 / 16) ** 2 + 12 * (1 / 16) ** 2))


def test_a_row_on_one_token_has_no_entropy_and_no_gradient() -> None:
    means = measure_means(single_row(0.0, 1.0, 0.0), all_visible(3))

    assert (means["entropy"], means["effective"], means["peak"], means["gradient"]) == (0, 1, 1, 0)


def test_a_quarter_and_three_quarters() -> None:
    means = measure_means(single_row(0.25, 0.75), all_visible(2))

    assert_close(means["entropy"], 2 - 0.75 * log2(3))
    assert_close(means["share"], means["entropy"])
    assert_close(means["gradient"], 2 * 0.1875)  # ± 3/16 in all four cells


def test_the_share_is_of_what_the_visible_keys_allow_and_one_key_allows_nothing() -> None:
    visible = torch.tensor([[True, False, False], [True, True, False]])
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]])

    share = measures.measure_weights(weights, visible, None).share

    assert share[0, 0].isnan()
    assert share[0, 1] == 1


def test_rows_that_share_no_token_are_one_bit_apart() -> None:
    assert_close(
        measure_means(single_row(0.0, 1.0), all_visible(2), single_row(1.0, 0.0))["divergence"], 1.0
    )
    assert (
        measure_means(single_row(0.3, 0.7), all_visible(2), single_row(0.3, 0.7))["divergence"] == 0
    )


def test_weight_on_what_is_hidden_and_rows_that_do_not_sum_to_1_are_seen() -> None:
    means = measure_means(single_row(0.5, 0.25), torch.tensor([[True, False]]))

    assert (means["hidden"], means["row_sum"], means["row_error"]) == (0.25, 0.75, 0.25)
    assert_close(means["entropy"], log2(3) - 2 / 3)  # of (2/3, 1/3)


@given(ROWS)
def test_the_gradient_is_the_norm_of_softmaxs_own_jacobian(shares: list[float]) -> None:
    scores = torch.tensor(shares, dtype=torch.float64)
    p = scores.softmax(-1)
    jacobian = torch.func.jacrev(torch.softmax)(scores, -1)
    assert_close(jacobian, p.diag() - p.outer(p))

    assert_close(measures.softmax_gradient_size(p), torch.linalg.matrix_norm(jacobian))


@given(ROWS, ROWS)
def test_divergence_is_symmetric_and_agrees_with_two_kullback_leiblers(
    one: list[float], other: list[float]
) -> None:
    size = min(len(one), len(other))
    p, q = (torch.tensor(each[:size], dtype=torch.float64) + 0.01 for each in (one, other))
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2

    divergence = measures.divergence(p, q)

    halves = [(each * (each / middle).log2()).sum() / 2 for each in (p, q)]
    assert_close(divergence, sum(halves), atol=1e-12, rtol=1e-9)
    assert_close(divergence, measures.divergence(q, p))


@given(ROWS)
def test_entropy_agrees_with_its_formula(shares: list[float]) -> None:
    p = torch.tensor(shares, dtype=torch.float64).softmax(-1)

    expected = -sum(share * log2(share) for share in p.tolist())
    assert_close(float(measures.entropy(p)), expected)
