"""Scales of colour: how far along one a number is, and which number stands where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.cells import unmasked_cells
from attnviz.views.grids.scales import Scale, ScaleBend, weight_scale

ENDS: dict[ScaleBend, tuple[float, float]] = {
    "straight": (-0.5, 2.0),
    "root": (-0.25, 0.25),
    "log": (0.001, 1.0),
}


@pytest.mark.parametrize("bend", ENDS)
@given(share=st.floats(0, 1))
def test_what_stands_at_a_share_of_a_scale_is_so_far_along(bend: ScaleBend, share: float) -> None:
    low, high = ENDS[bend]
    scale = Scale("weight", low, high, bend=bend)

    shares = scale.shares(scale.values_at(np.array([share])))

    assert shares == pytest.approx([share], abs=1e-6)


@pytest.mark.parametrize("bend", ENDS)
def test_no_number_leaves_a_scale(bend: ScaleBend) -> None:
    low, high = ENDS[bend]
    values = np.array([-np.inf, -9.0, low, high, 9.0, np.inf])

    assert Scale("weight", low, high, bend=bend).shares(values).tolist() == [0, 0, 0, 1, 1, 1]


def test_a_root_lifts_what_is_small_and_keeps_signs_apart() -> None:
    scale = Scale("weight", -1.0, 1.0, "diverging", bend="root")

    assert scale.shares(np.array([-0.04, 0.0, 0.04])).tolist() == pytest.approx([0.4, 0.5, 0.6])


def test_a_tenth_is_one_step_of_a_scale_of_logarithms() -> None:
    scale = Scale("weight", 0.001, 1.0, bend="log")

    shares = scale.shares(np.array([0.0, 0.01, 0.1]))

    assert shares == pytest.approx([0, 1 / 3, 2 / 3])


def test_what_adding_makes_of_1_is_not_said_to_be_beyond_it() -> None:
    values = np.full((99, 40), [0.9, 0.1] + [0] * 38, dtype=np.float32)
    values[0, :2] = np.nextafter(np.float32(1), np.float32(2)), 0

    scale = weight_scale(unmasked_cells(values))
    assert (scale.high, scale.is_exceeded) == (1.0, False)
