"""Scales of colour on a screen: what a value looks like, and the legend that says so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.text import Text

from attnviz.renderers.colors import gradient, shade
from attnviz.renderers.terminal.screen import DIM, HIDDEN, Screen, cell_style
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale

RAMP = "▁▂▃▄▅▆▇█"
GAP = 3  # columns between two things that stand side by side


def legend(grid: Grid, screen: Screen) -> Iterator[Text]:
    """The scale from one end to the other: `weight 0 ▁▂▃▄▅▆▇█ 1   · hidden`."""
    scale = grid.scale
    line = Text(f"{scale.label} {scale.low:g} ", DIM, end="")
    line.append_text(_ramp(scale, screen))
    line.append(f" {'≥ ' if scale.beyond else ''}{scale.high:g}", DIM)
    masked = Text(f"{HIDDEN} hidden", DIM, end="") if grid.hidden.any() else Text(end="")
    if masked and line.cell_len + GAP + masked.cell_len > screen.room:
        yield line
        yield masked
    else:
        yield line.append(" " * GAP).append_text(masked) if masked else line


def _ramp(scale: Scale, screen: Screen) -> Text:
    if not screen.colored:
        return Text(RAMP, end="")
    steps = np.linspace(scale.low, scale.high, 16 if screen.room >= 40 else 8)
    colors = shade(steps, scale.low, scale.high, gradient(screen.palette, screen.theme, scale.kind))
    styles = [cell_style(*color, True) for color in colors.tolist()]
    return Text.assemble(*((" ", style) for style in styles), end="")


def glyphs(values: np.ndarray, scale: Scale) -> list[str]:
    """Without colour: the larger the value, the higher the block; none in an empty cell."""
    share = np.clip((np.nan_to_num(values) - scale.low) / (scale.high - scale.low), 0, 1)
    steps = np.minimum((share * len(RAMP)).astype(int), len(RAMP) - 1)
    return [
        " " if empty else RAMP[step] for step, empty in zip(steps, np.isnan(values), strict=True)
    ]
