"""heatmap(ax=…): one Grid in the user's own axes of matplotlib, in their style.

Cells are one unit wide, with their middles at whole numbers, as `imshow` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, FuncNorm, LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.ticker import Formatter, Locator

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.renderers import Look
from attnviz.renderers.colors import (
    DEFAULT_PALETTE,
    PALETTES,
    color_anchors,
    find_theme,
    needs_dark_ink,
)
from attnviz.renderers.picture.draw import SEPARATED_CELLS, VECTOR_CELLS, draw_hidden
from attnviz.renderers.picture.glyphs import font_families, with_glyphs
from attnviz.renderers.picture.panel_labels import PanelStyle, Ticks, column_ticks, row_ticks
from attnviz.renderers.picture.still_pictures import pool_groups
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import cell_format, cell_text
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.scales import Scale
from attnviz.views.view import View

FIRST_EDGE = -0.5  # of the first cell, whose middle is at 0
WIDEST_LABEL = 100.0  # inches: no label is cut
SEPARATOR_WIDTH = 0.5  # points: between the cells
ALIGNMENTS = {0: ("center", "top"), 45: ("right", "top"), 90: ("right", "center")}  # by angle


def draw_into_axes(
    view: View,
    ax: Axes | None,
    *,
    norm: Normalize | None = None,
    title: str | None = None,
    theme: str | None = None,
    palette: str | Colormap | None = None,
    colors: str | Colormap | None = None,
    numbers: bool | None = None,
    **others: Any,
) -> QuadMesh:
    """Draw the only heatmap of a view into axes, and return its image, for a colour bar.

    `colors`, or `palette`, is a name that attnviz or matplotlib has, or a Colormap; with `numbers`
    they are written in the cells. The theme is
    that of the background by default. Refuses several heatmaps, and looks that a figure decides.
    """
    if not isinstance(ax, Axes):
        problem = f"'ax' is of type {type(ax).__name__}, and should be Axes of matplotlib"
        if ax is None:
            problem = "'norm' is for axes of your own, and no 'ax' is given"
        raise AttnvizError(
            problem, "try figure, ax = plt.subplots(); of several axes, give one: ax=axes[0]"
        )
    if others:
        name = next(iter(others))
        raise AttnvizError(
            f"'{name}' is about a whole picture, but 'ax' is given: the figure is your own",
            f"leave out '{name}', or 'ax'",
        )
    if norm is not None and not isinstance(norm, Normalize):
        raise AttnvizError(
            f"'norm' is of type {type(norm).__name__}, and should be a Normalize of matplotlib",
            "try norm=matplotlib.colors.Normalize(0, 1)",
        )
    grid, theme_name = only_grid(view), theme or _background_theme(ax)
    chosen = colors or palette or DEFAULT_PALETTE
    image = _draw_cells(ax, grid, find_colormap(chosen, theme_name, grid.scale), norm)
    draw_hidden(ax, grid, find_theme(theme_name), FIRST_EDGE)
    if numbers:
        _write_numbers(ax, grid, image)
    ax.grid(visible=False)
    for axis, labels in ((ax.xaxis, grid.columns), (ax.yaxis, grid.rows)):
        axis.set_major_locator(TokenLocator(labels))
        axis.set_major_formatter(TokenFormatter())
        axis.set_label_text(labels.title)
    ax.set(xlim=(FIRST_EDGE, len(grid.columns) + FIRST_EDGE))
    ax.set(ylim=(len(grid.rows) + FIRST_EDGE, FIRST_EDGE))
    if title:
        ax.set_title(title)
    return image


def only_grid(view: View) -> Grid:
    """Return the heatmap of a view that has one; refuse others. Very many cells are pooled."""
    panels = [panel for group in view.picture.groups for panel in group.all_panels]
    counts = [len(each.map_cells) if isinstance(each, Overview) else 1 for each in panels]
    if sum(counts) > 1:
        raise AttnvizError(
            f"ax takes one heatmap, and here are {sum(counts)}",
            "choose one, such as layer=0, head=1; for several, give each axes of its own: "
            "figure, axes = plt.subplots(1, 2)",
        )
    (panel,) = with_glyphs(pool_groups(view.picture.groups, Look()))[0].panels
    if not isinstance(panel, Grid):
        raise AttnvizError(
            "ax takes a heatmap, and this is drawn otherwise",
            'leave out ax; or choose a heatmap, such as as_="heatmap", without query',
        )
    return panel


def find_colormap(colors: str | Colormap, theme: str, scale: Scale) -> Colormap:
    """Return the colours of a scale: attnviz's palette of this name, or matplotlib's.

    Hidden cells are grey. Numbers on both sides of 0 have the theme's own colours, unless a
    colormap of matplotlib is chosen. Refuses unknown names.
    """
    if isinstance(colors, Colormap):
        found = colors
    elif colors in PALETTES:
        anchors = color_anchors(colors, theme, scale.kind) / 255
        found = LinearSegmentedColormap.from_list(f"attnviz {colors}", list(map(tuple, anchors)))
    elif colors in colormaps:
        found = colormaps[colors]
    else:
        raise unknown_name_error("colour map", colors, [*PALETTES, "those of matplotlib"])
    return found.with_extremes(bad=find_theme(theme).hidden)


def _background_theme(ax: Axes) -> str:
    """Return the theme that suits the background of axes, or of their figure behind them."""
    figure = ax.get_figure(root=True)
    assert figure is not None, "axes without a figure"
    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    if alpha == 0:
        red, green, blue, _ = to_rgba(figure.get_facecolor())
    return "light" if needs_dark_ink(np.array((red, green, blue)) * 255) else "dark"


def _draw_cells(ax: Axes, grid: Grid, colormap: Colormap, norm: Normalize | None) -> QuadMesh:
    """Draw all cells, as one image if they are very many; return what maps numbers to colours."""
    scale, (rows, columns) = grid.scale, grid.values.shape
    if norm is None:
        straight = Normalize(scale.low, scale.high)
        is_bent = scale.bend != "straight"
        bent = FuncNorm((scale.shares, scale.values_at), scale.low, scale.high) if is_bent else None
        norm = bent or straight
    separated = max(rows, columns) <= SEPARATED_CELLS
    return ax.pcolormesh(
        np.arange(columns + 1) + FIRST_EDGE,
        np.arange(rows + 1) + FIRST_EDGE,
        np.ma.array(grid.values, mask=grid.hidden | np.isnan(grid.values)),
        cmap=colormap,
        norm=norm,
        edgecolors=ax.get_facecolor() if separated else "face",
        linewidth=SEPARATOR_WIDTH if separated else 0.1,
        rasterized=rows * columns > VECTOR_CELLS,
    )


def _write_numbers(ax: Axes, grid: Grid, image: QuadMesh) -> None:
    """Write the numbers of all cells, dark or light by the colour below."""
    write = cell_format(grid, 2)
    for (row, column), value in np.ndenumerate(grid.values):
        if text := cell_text(value, bool(grid.hidden[row, column]), write):
            dark = needs_dark_ink(np.array(image.to_rgba(value)[:3]) * 255)
            ink = "black" if dark else "white"
            ax.text(column, row, text, ha="center", va="center", color=ink, parse_math=False)


class TokenLocator(Locator):
    """The places of tokens whose labels fit, found anew whenever the axes are drawn.

    Below the axes labels are level, or turned; where not even that lets all of them stand, every
    n-th is left.
    """

    def __init__(self, labels: Axis) -> None:
        self.labels = labels
        self.ticks = Ticks(labels.title, len(labels))
        families = font_families(labels.labels)
        self.more_families = families if len(families) > 1 else []  # for other scripts

    def __call__(self) -> Sequence[float]:
        """Return the places of labels on the axes as large as they are now, and turn the labels."""
        axis: Any = self.axis
        self.ticks = self._fitting_ticks(axis)
        across, along = ALIGNMENTS[self.ticks.angle]
        for tick in axis.get_major_ticks(len(self.ticks.positions)):
            tick.label1.set_parse_math(False)  # a token such as $x$ is text
            if self.more_families:
                own = [each for each in tick.label1.get_family() if each not in self.more_families]
                tick.label1.set_family([*own, *self.more_families])
            if isinstance(axis, XAxis):
                tick.label1.set(rotation=self.ticks.angle, rotation_mode="anchor")
                tick.label1.set(ha=across, va=along)
        return list(map(float, self.ticks.positions))

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the same places, whatever part of the axis is seen."""
        return self()

    def _fitting_ticks(self, axis: XAxis | YAxis) -> Ticks:
        ax = axis.axes
        figure = ax.get_figure(root=True)
        assert figure is not None, "axes without a figure"
        extent, (low, high) = ax.get_window_extent(), axis.get_view_interval()
        length = extent.width if isinstance(axis, XAxis) else extent.height
        pitch = length / figure.dpi / max(abs(high - low), 1e-9)
        font = axis.get_major_ticks(1)[0].label1.get_fontproperties()
        size = font.get_size_in_points()
        style = PanelStyle(label=size, smallest=size, widest_label=WIDEST_LABEL)
        with rc_context({"font.family": font.get_family()}):  # by which letters are measured
            fit = column_ticks if isinstance(axis, XAxis) else row_ticks
            return fit(self.labels, pitch, style)


class TokenFormatter(Formatter):
    """The label of each place that a TokenLocator found."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label at a place; empty between places, and where a label is left out."""
        axis: Any = self.axis
        ticks: Ticks = axis.get_major_locator().ticks
        labels = dict(zip(ticks.positions, ticks.labels, strict=True))
        return labels.get(round(x), "")
