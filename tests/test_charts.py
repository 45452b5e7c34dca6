"""The axes of a chart: which numbers are on them, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.renderers.picture.charts import chart_ticks, curves_chart
from attnviz.renderers.picture.panel_labels import column_ticks, panel_style
from attnviz.renderers.picture.text import SLIDE, lettering
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves


def _curves(middle: list[float], places: tuple[float, ...], *, dashed: bool = False) -> Curves:
    values = np.array(middle)
    line = Curve("measured", values, values, values, dashed=dashed)
    return Curves("spread", "d_k", places, (line,))


@pytest.mark.parametrize(
    ("middle", "dashed", "names"),
    [
        ([0.0, 1.0], False, "0 0.5 1"),
        ([3.0, 9.0], False, "0 2.5 5 7.5"),
        ([1e-14, 3e-14], False, "0 1e−14 2e−14 3e−14"),
        ([1.0, 12.0], True, "1 2 5 10"),
        ([1e-4, 2.0], True, "0.0001 0.001 0.01 0.1 1"),
    ],
)
def test_few_and_round_numbers_stand_beside_a_curve(
    middle: list[float], dashed: bool, names: str
) -> None:
    left_ticks, _ = chart_ticks(_curves(middle, (2.0, 4.0), dashed=dashed), 3.0, 2.0, 8.0)

    assert " ".join(left_ticks.labels) == names


def test_whole_numbers_stand_beside_counts() -> None:
    curves = replace(_curves([0.0, 3.0], (2.0, 4.0)), counts=True)

    assert chart_ticks(curves, 3.0, 2.0, 8.0)[0].labels == ("0", "1", "2", "3")


@pytest.mark.parametrize(("width", "names"), [(3.0, "2 4 8 16 32"), (0.4, "2 8 32")])
def test_below_stand_the_places_that_were_measured_as_far_as_there_is_room(
    width: float, names: str
) -> None:
    places = (2.0, 4.0, 8.0, 16.0, 32.0)

    _, bottom_ticks = chart_ticks(_curves([1.0] * 5, places), width, 2.0, 8.0)

    assert " ".join(bottom_ticks.labels) == names


@given(
    middle=st.lists(st.floats(0, 1e6), min_size=2, max_size=8, unique=True),
    dashed=st.booleans(),
)
def test_every_curve_lies_in_its_box_and_rises_where_its_numbers_do(
    middle: list[float], dashed: bool
) -> None:
    places = tuple(float(2**power) for power in range(len(middle)))

    (trail,) = curves_chart(_curves(middle, places, dashed=dashed), (0, 0, 1, 1)).trails

    assert ((trail.line.middle >= 0) & (trail.line.middle <= 1)).all()
    assert ((trail.x > 0) & (trail.x < 1)).all()
    assert (np.diff(trail.line.middle)[np.diff(middle) > 0] >= 0).all()


@pytest.mark.parametrize(("labels", "angle"), [("()<>", 0), ("ab", 0), (["keys", "cabinet"], 90)])
def test_single_letters_are_never_turned(labels: Sequence[str], angle: int) -> None:
    style, pitch = panel_style(lettering(SLIDE), SLIDE, 1.0, 1.0), 0.2

    assert column_ticks(plain_axis("key", list(labels)), pitch, style).angle == angle
