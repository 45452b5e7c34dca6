"""Curves in a page: each point where its numbers put it, and round numbers beside them."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnviz.renderers.page.charts import NAME_DISTANCE, chart_markup, round_numbers, spaced
from attnviz.views.grids.grid import AxisSpan, Curve, Curves


def test_a_chart_has_each_point_where_its_numbers_put_it() -> None:
    low, middle, high = (np.array([0.0, each, 1.0]) for each in (0.25, 0.5, 0.75))
    curves = Curves("x", "steps", (1.0, 2.0, 3.0), (Curve("one", middle, low, high),))

    markup = chart_markup(curves)

    # Along: 0 to 1.08 over 196 pixels; across: 0.92 to 3.08 over 420.
    points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', markup)
    assert points == [("63.6", "206.0"), ("258.0", "115.3"), ("452.4", "24.5")]
    assert 'd="M63.6 206.0L258.0 160.6L452.4 24.5L452.4 24.5L258.0 69.9L63.6 206.0Z"' in markup
    assert ">one</li>" in markup


def test_a_line_with_a_gap_is_drawn_in_pieces_and_a_formula_with_dashes() -> None:
    values_with_gap, formula = np.array([1.0, np.nan, 2.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])
    lines = (
        Curve("measured", values_with_gap, values_with_gap, values_with_gap),
        Curve("formula", formula, formula, formula, dashed=True),
    )

    markup = chart_markup(Curves("x", "steps", (1.0, 2.0, 3.0, 4.0), lines))

    assert re.search(r'<path d="M[\d. ]+M[\d. ]+L[\d. ]+" class="line line-0">', markup)
    assert 'class="line line-1 dashed"' in markup
    assert markup.count("<circle") == 3


def test_a_few_lines_have_their_names_at_their_ends_and_many_have_a_legend() -> None:
    values = np.array([0.0, 1.0])

    def draw_lines(count: int, reached_count: int | None = None) -> str:
        lines = tuple(Curve(f"kind {each}", values, values, values) for each in range(count))
        return chart_markup(Curves("x", "steps", (1.0, 2.0), lines, reached_count=reached_count))

    ends = re.findall(r'<text x="484" y="([\d.]+)">kind (\d)</text>', draw_lines(3))
    assert ends == [("28.5", "0"), ("49.5", "1"), ("70.5", "2")]
    assert "legend" not in draw_lines(3)
    for other in (draw_lines(1), draw_lines(9), draw_lines(3, reached_count=1)):
        assert 'x="484"' not in other
        assert "legend" in other


@given(st.lists(st.floats(10, 206), min_size=1, max_size=8))
def test_names_at_the_ends_of_lines_do_not_overlap(heights: list[float]) -> None:
    heights_of_names = spaced(heights)

    assert np.diff(np.sort(heights_of_names)).min(initial=NAME_DISTANCE) >= NAME_DISTANCE - 1e-9
    assert min(heights) - 8 * NAME_DISTANCE < min(heights_of_names)
    assert max(heights_of_names) <= 206
    assert [*np.argsort(heights_of_names)] == [*np.argsort(heights, kind="stable")]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_numbers_beside_a_chart_are_few_and_lie_inside_it(low: float, reach: float) -> None:
    span = AxisSpan(low, low + reach, False)

    numbers = round_numbers(span)

    assert 1 <= len(numbers) <= 7
    assert all(span.low - 1e-5 <= each <= span.high + 1e-5 for each in numbers)


@given(st.floats(1e-6, 1e3), st.floats(8, 1e9))
def test_numbers_beside_a_logarithmic_chart_are_powers_of_ten(low: float, factor: float) -> None:
    numbers = round_numbers(AxisSpan(low, low * factor, True))

    assert numbers
    assert all(low <= each <= low * factor for each in numbers)
    assert all(f"{each:e}"[0] in "125" and not float(f"{each:e}"[1:8]) for each in numbers)
