"""Scales of colour on screens: light goes one way along every one of them, in every terminal."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from attnviz.renderers import colors
from attnviz.renderers.terminal import screen
from attnviz.renderers.terminal.screen import (
    ColorDepth,
    FewColors,
    Screen,
    marker_color,
    paint_values,
    ramp_numbers,
    terminal_rgb,
)
from attnviz.views.grids.scales import Scale

# What a Linux console and many others show for the first 16, where xterm shows something else.
VGA = (
    "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
)
SCALES = [*((name, "sequential") for name in colors.PALETTES), ("ocean", "diverging")]


def lightness(channels: np.ndarray) -> np.ndarray:
    """CIE L*, from 0 for black to 100 for white."""
    part = channels / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    low = luminance <= (6 / 29) ** 3
    return np.asarray(np.where(low, luminance * (29 / 3) ** 3, 116 * np.cbrt(luminance) - 16))


def vga(numbers: np.ndarray) -> np.ndarray:
    return np.array([list(bytes.fromhex(VGA.split()[number])) for number in numbers])


def arms(values: np.ndarray, kind: str) -> list[np.ndarray]:
    """The values from 0 outwards: in one direction, or in both."""
    middle = len(values) // 2
    return [values] if kind == "sequential" else [values[middle:], values[middle::-1]]


@pytest.mark.parametrize("depth", get_args(FewColors))
@pytest.mark.parametrize("theme", colors.THEMES)
@pytest.mark.parametrize(("palette", "kind"), SCALES)
def test_more_is_lighter_on_dark_and_darker_on_light_with_few_colours(
    depth: FewColors, theme: str, palette: str, kind: str
) -> None:
    numbers = np.array(ramp_numbers(depth, palette, theme, kind))
    channels_on_terminals = (
        [terminal_rgb(numbers)] if depth == "256" else [terminal_rgb(numbers), vga(numbers)]
    )

    for channels in channels_on_terminals:
        for arm in arms(lightness(channels), kind):
            assert (np.diff(arm) * (1 if theme == "dark" else -1) > 1).all()


@pytest.mark.parametrize("theme", colors.THEMES)
@pytest.mark.parametrize(("palette", "kind"), SCALES)
def test_more_is_lighter_on_dark_and_darker_on_light_in_every_picture(
    theme: str, palette: str, kind: str
) -> None:
    values = np.linspace(0, 1, 65)
    channels = colors.color_values(values, 0, 1, colors.color_anchors(palette, theme, kind))

    for arm in arms(lightness(channels), kind):
        assert (np.diff(arm) * (1 if theme == "dark" else -1) > 0).all()


@pytest.mark.parametrize("theme", colors.THEMES)
@pytest.mark.parametrize("depth", ["16", "256", "truecolor"])
@pytest.mark.parametrize(("palette", "kind"), SCALES)
def test_lightness_never_turns_back_as_a_value_grows(
    theme: str, depth: ColorDepth, palette: str, kind: str
) -> None:
    """In every number of the scale."""
    scale = Scale("", 0.0 if kind == "sequential" else -0.3, 0.3, kind)  # type: ignore[arg-type]
    values = np.linspace(scale.low, scale.high, 101)
    screen = Screen(80, colors=depth, theme=theme, palette=palette)
    lightness_by_value = lightness(paint_values(values, scale, screen).rgb)

    for arm in arms(lightness_by_value, kind):
        steps = np.diff(arm) * (1 if theme == "dark" else -1)
        assert (steps >= 0).all()
        assert steps.sum() > 20
    assert kind == "sequential" or lightness_by_value[50] in (
        lightness_by_value.min(),
        lightness_by_value.max(),
    )


def test_of_16_colours_no_weight_has_that_of_the_paper() -> None:
    for palette in colors.PALETTES:
        assert not {0, 15} & {*ramp_numbers("16", palette, "light", "sequential")}


@pytest.mark.parametrize("depth", get_args(FewColors))
@pytest.mark.parametrize("palette", colors.PALETTES)
def test_the_marker_has_a_colour_that_no_weight_has(depth: FewColors, palette: str) -> None:
    marker = marker_color(Screen(80, colors=depth, palette=palette)).number

    assert marker not in ramp_numbers(depth, palette, "dark", "sequential")


def test_every_map_has_its_colours_on_every_terminal() -> None:
    for depth in get_args(FewColors):
        assert set(screen.SEQUENTIAL_RAMPS[depth]) == set(colors.PALETTES)
        assert set(screen.DIVERGING_RAMPS[depth]) == set(colors.THEMES)


def test_what_is_hidden_is_grey_of_no_hue() -> None:
    for theme in colors.THEMES.values():
        for color in (theme.hidden, theme.hatch):
            assert len({color[1:3], color[3:5], color[5:7]}) == 1


@pytest.mark.parametrize(("number", "color"), [(16, (0, 0, 0)), (231, (255, 255, 255)),
                                               (208, (255, 135, 0)), (232, (8, 8, 8))])  # fmt: skip
def test_a_colour_looks_as_xterm_draws_it(number: int, color: tuple[int, int, int]) -> None:
    assert tuple(terminal_rgb(np.array(number)).tolist()) == color


def test_ink_is_of_the_same_terminal_as_the_colour_behind_it() -> None:
    scale, values = Scale("weight", 0.0, 1.0), np.array([0.0, 1.0])
    styles = {
        depth: [
            str(paint_values(values, scale, Screen(80, colors=depth)).background_style(end))
            for end in (0, 1)
        ]
        for depth in ("16", "256", "truecolor")
    }

    assert styles["16"] == ["color(15) on color(4)", "color(0) on color(14)"]
    assert styles["256"] == ["color(231) on color(17)", "color(16) on color(195)"]
    assert styles["truecolor"] == ["#ffffff on #161e4e", "#000000 on #e8fbfa"]
