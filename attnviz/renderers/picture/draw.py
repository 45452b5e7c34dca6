"""Draws a layout with matplotlib: cells, images, lines, bars and words."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from PIL import Image

from attnviz.renderers import Look
from attnviz.renderers.colors import (
    Theme,
    fade_colors,
    find_theme,
    needs_dark_ink,
    scale_colors,
)
from attnviz.renderers.picture.items import (
    HAIRLINE,
    MARK_OUTLINE,
    Arc,
    Block,
    Box,
    Chart,
    ColorBar,
    Layout,
    Maps,
    Panel,
    Point,
    Stroke,
    Tint,
    Words,
)
from attnviz.renderers.picture.text import BOLD, LOWERED_NAME, MIDDLE, POINT, text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale

VECTOR_CELLS = 64 * 64  # up to so many cells are shapes; more are one image
SEPARATED_CELLS = 40  # on a side: more are drawn without lines between them
BAR_STEPS = 256
BORDER_WIDTH = 1.6  # points: how thick the line is where something else begins
ARROWHEAD_WIDTH = 0.38  # of its length: half of the width of an arrow's head
ARC_INK = 0.85  # of a line is its own, so that lines behind it can be told
# Of the letters beside them: how large they are, and how far below
LOWERED_SHARE, LOWERED_DEPTH = 0.78, 0.2
KEPT_SETTINGS = ("pdf.fonttype", "font.family", "mathtext.")  # of a figure that is drawn
SPACE_KEEPER = "|"  # behind it spaces have their width, too


def draw_layout(layout: Layout, look: Look) -> NotebookFigure:
    colors = find_theme(look.theme)
    figure = NotebookFigure(figsize=layout.size, facecolor=colors.paper)
    _draw_maps(figure, layout, look)
    _draw_arcs(figure, layout, look)
    _draw_blocks(figure, layout, look)
    for panel in layout.panels:
        _draw_panel(figure, layout, panel, look)
    for chart in layout.items_of(Chart):
        _draw_chart(figure, layout, chart, look)
    for bar in layout.items_of(ColorBar):
        _draw_bar(figure, layout, bar, look)
    _draw_strokes(figure, layout, colors)
    _draw_words(figure, layout, look)
    return figure


def _draw_arcs(figure: Figure, layout: Layout, look: Look) -> None:
    """Draw all curves in one collection, in their order."""
    arcs = layout.items_of(Arc)
    if not arcs:
        return
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    size = np.array(layout.size)
    inks = [(*(channel / 255 for channel in _tint_color(arc.tint, look)), ARC_INK) for arc in arcs]
    figure.add_artist(
        PathCollection(
            [Path(np.array(arc.points) / size, codes) for arc in arcs],
            facecolors="none",
            edgecolors=inks,
            linewidths=[arc.width for arc in arcs],
            capstyle="butt",
            transform=figure.transFigure,
        )
    )


def _draw_maps(figure: Figure, layout: Layout, look: Look) -> None:
    """Draw all small maps, those on one scale as one image."""
    for maps in layout.items_of(Maps):
        colors = _value_colors(maps.values, maps.hidden, maps.scale, look)
        boxes = [_figure_box(layout, box) for box in maps.boxes]
        figure.add_artist(MapImages(boxes, colors))


def _figure_box(layout: Layout, box: Box) -> Box:
    """Return a box as matplotlib wants it: in parts of the figure."""
    (left, bottom, width, height), (whole_width, whole_height) = box, layout.size
    return left / whole_width, bottom / whole_height, width / whole_width, height / whole_height


def _draw_blocks(figure: Figure, layout: Layout, look: Look) -> None:
    """Draw rectangles: in the colour of a number, or hatched where it is hidden."""
    colors = find_theme(look.theme)
    for block in layout.items_of(Block):
        left, bottom, width, height = _figure_box(layout, block.box)
        tint, hidden = block.tint, block.tint is not None and block.tint.value is None
        fill = "none" if tint is None else np.array(_tint_color(tint, look)) / 255
        edge = colors.hatch if block.faint or hidden else colors.ink
        if block.series is not None:
            edge = _series_color(block.series, colors)
            fill = "none" if block.outlined else edge
        if block.head is not None:
            edge = colors.heads[block.head]
        patch = Rectangle((left, bottom), width, height, transform=figure.transFigure,
                          facecolor=fill, edgecolor=edge, linewidth=block.outlined,
                          hatch="////" if hidden else None)  # fmt: skip
        figure.add_artist(patch)


def _tint_color(tint: Tint, look: Look) -> list[int]:
    """Return red, green and blue (0 to 255) of a number on its scale, or of what is hidden.

    A head that is off has faded colours.
    """
    if tint.value is None:
        return _rgb(find_theme(look.theme).hidden)
    shaded = scale_colors(np.array(tint.value), tint.scale, look.colors, look.theme)
    rgb: list[int] = (fade_colors(shaded, look.theme) if tint.is_off else shaded).tolist()
    return rgb


def _draw_panel(figure: Figure, layout: Layout, panel: Panel, look: Look) -> None:
    """Draw a grid: cells, hatching, frames of empty cells, numbers, borders; struck
    through if off.
    """
    grid, colors = panel.grid, find_theme(look.theme)
    axes = _framed_axes(figure, layout, panel.box, colors)
    rgb = _cell_colors(grid, look)
    _draw_cells(axes, grid, rgb, "none" if look.transparent else colors.paper)
    draw_hidden(axes, grid, colors)
    empty = np.argwhere(np.isnan(grid.values) & ~grid.hidden).tolist()
    if empty:  # a thin frame around each cell that is still to be filled
        frames = _cells_path((row, column, column + 1) for row, column in empty)
        axes.add_patch(PathPatch(frames, facecolor="none", edgecolor=colors.hidden, linewidth=0.5))
    if panel.number_size and look.numbers is not False:
        _draw_numbers(axes, panel, rgb)
    _draw_borders(axes, grid, colors)
    if grid.marks:
        frames = _cells_path(grid.marks)
        style = {"edgecolor": colors.series[0], "linewidth": MARK_OUTLINE, "clip_on": False}
        axes.add_patch(PathPatch(frames, facecolor="none", **style))
    if grid.is_all_off and len(grid.rows) > 1:
        axes.plot([0, len(grid.columns)], [len(grid.rows), 0], color=colors.faint, linewidth=1.2)
    axes.set(xlim=(0, len(grid.columns)), ylim=(len(grid.rows), 0))


def _draw_chart(figure: Figure, layout: Layout, chart: Chart, look: Look) -> None:
    """Draw a line and its band for each series; names and numbers are items of their own."""
    colors = find_theme(look.theme)
    axes = _framed_axes(figure, layout, chart.box, colors)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for trail in chart.trails:
        line = trail.line
        in_ink = line.dashed or line.plain
        color = colors.ink if in_ink else _series_color(trail.number, colors)
        if not line.dashed:
            axes.fill_between(trail.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
        marker = "o" if trail.marked else ""
        style = (0, (4, 3)) if line.dashed else "solid"
        width = 1.0 if line.dashed else 1.8
        axes.plot(
            trail.x, line.middle, color=color, linestyle=style, linewidth=width, marker=marker,
            markersize=3.5, clip_on=line.dashed,
        )  # fmt: skip


def _framed_axes(figure: Figure, layout: Layout, box: Box, colors: Theme) -> Axes:
    """Return new axes in a box, with a thin frame and without ticks.

    Matplotlib's ticks cost a millisecond each; here they are items of the layout.
    """
    axes = figure.add_axes(_figure_box(layout, box), facecolor=colors.paper)
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(False)
    for spine in axes.spines.values():
        spine.set(color=colors.faint, linewidth=0.5)
    return axes


def _cell_colors(grid: Grid, look: Look) -> np.ndarray:
    """Return the colour of each cell; rows of heads that are off are faded, and without a scale it
    is paper.
    """
    if grid.scale.kind == "none":
        return np.full((*grid.values.shape, 3), _rgb(find_theme(look.theme).paper), dtype=np.uint8)
    rgb = _value_colors(grid.values, grid.hidden, grid.scale, look)
    if grid.off:
        off = np.array(grid.off)[:, None] & ~grid.hidden
        rgb[off] = fade_colors(rgb[off], look.theme)
    return rgb


def _value_colors(values: np.ndarray, hidden: np.ndarray, scale: Scale, look: Look) -> np.ndarray:
    """Return the colour of each value; empty cells look like paper, hidden ones are grey."""
    colors = find_theme(look.theme)
    rgb = scale_colors(np.nan_to_num(values), scale, look.colors, look.theme)
    rgb[np.isnan(values)] = _rgb(colors.paper)
    rgb[hidden] = _rgb(colors.hidden)
    return rgb


def _draw_cells(axes: Axes, grid: Grid, rgb: np.ndarray, line_color: str) -> None:
    """Draw cells as shapes, or as one image if there are more than 4096.

    `line_color` is the colour of the lines that separate them, if there are at most 40 on a side.
    """
    rows, columns = grid.values.shape
    if rows * columns > VECTOR_CELLS:
        axes.add_artist(CellImage(rgb))
        return
    separated = max(rows, columns) <= SEPARATED_CELLS
    axes.pcolormesh(
        np.arange(columns + 1),
        np.arange(rows + 1),
        rgb,
        edgecolors=line_color if separated else "face",
        linewidth=0.8 if separated else 0.1,
        antialiased=True,
    )


def draw_hidden(axes: Axes, grid: Grid, colors: Theme, corner: float = 0.0) -> None:
    """Draw hatching over all masked cells, as one path; the first cell begins at `corner` on both
    axes.
    """
    if not grid.hidden.any():
        return
    move = matplotlib.transforms.Affine2D().translate(corner, corner)
    path = _cells_path(_hidden_runs(grid.hidden)).transformed(move)
    style = {"edgecolor": colors.hatch, "hatch": "////", "linewidth": 0}
    axes.add_patch(PathPatch(path, facecolor="none", **style))


def _draw_borders(axes: Axes, grid: Grid, colors: Theme) -> None:
    for border, line in ((grid.columns.border, axes.axvline), (grid.rows.border, axes.axhline)):
        if border is not None:
            line(border, color=colors.ink, linewidth=BORDER_WIDTH)


def _cells_path(runs: Iterable[tuple[int, int, int]]) -> Path:
    """Return a path around runs of cells: row, first column, end."""
    transform, unit = matplotlib.transforms.Affine2D, Path.unit_rectangle()
    boxes = (transform().scale(stop - start, 1).translate(start, row) for row, start, stop in runs)
    return Path.make_compound_path(*map(unit.transformed, boxes))


def _hidden_runs(hidden: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield row, first column and end of every stretch of hidden cells."""
    for row, cells in enumerate(hidden):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(int)))
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            yield row, int(start), int(stop)


def _draw_numbers(axes: Axes, panel: Panel, rgb: np.ndarray) -> None:
    """Write the text of each cell, in black or in white, whichever its colour needs."""
    dark = needs_dark_ink(rgb)
    for (row, column), text in np.ndenumerate(panel.numbers):
        if text:
            axes.text(
                column + 0.5,
                row + 0.5,
                text,
                size=panel.number_size,
                color="black" if dark[row, column] else "white",
                ha="center",
                va="center_baseline",
            )


def _draw_bar(figure: Figure, layout: Layout, bar: ColorBar, look: Look) -> None:
    """Draw a colour bar: level if its box is wider than high, else upright."""
    scale, colors = bar.scale, find_theme(look.theme)
    axes = _framed_axes(figure, layout, bar.box, colors)
    steps = scale.values_at(np.linspace(1, 0, BAR_STEPS))[:, None]
    if bar.box[2] > bar.box[3]:  # it lies, and has its low end on the left
        steps = steps[::-1].T
    axes.add_artist(CellImage(scale_colors(steps, scale, look.colors, look.theme)))


def _draw_strokes(figure: Figure, layout: Layout, colors: Theme) -> None:
    """Draw lines and arrows, and the lines through words that are struck."""
    width, height = layout.size
    transform = matplotlib.transforms.Affine2D().scale(1 / width, 1 / height) + figure.transFigure
    lines, inks, widths, styles = [], [], [], []
    for stroke in layout.items_of(Stroke):
        ink = colors.faint if stroke.series is None else _series_color(stroke.series, colors)
        *_, start, end = points = list(stroke.points)
        if stroke.head:
            barbs, points[-1] = _arrow_head(start, end, stroke.head)
            patch = PathPatch(Path([end, *barbs, end], closed=True), facecolor=ink, linewidth=0)
            patch.set_transform(transform)
            figure.add_artist(patch)
        lines.append(points)
        inks.append(ink)
        widths.append(stroke.width)
        styles.append((0, (4, 3)) if stroke.dashed else "solid")
    for words in layout.words:
        if words.struck:
            y = words.y + MIDDLE * words.size * POINT
            right = words.x + text_width(words.text, words.size)
            lines.append([(words.x, y), (right, y)])
            inks.append(colors.faint)
            widths.append(HAIRLINE)
            styles.append("solid")
    collection = LineCollection(lines, colors=inks, linewidths=widths, linestyles=styles)
    collection.set_transform(transform)
    figure.add_artist(collection)


def _arrow_head(start: Point, end: Point, length: float) -> tuple[list[Point], Point]:
    """Return the two barbs of an arrow; and where its line ends, inside of its head."""
    distance = math.dist(start, end) or 1.0
    x, y = (end[0] - start[0]) / distance, (end[1] - start[1]) / distance
    foot = end[0] - x * length, end[1] - y * length
    side = ARROWHEAD_WIDTH * length
    barbs = [(foot[0] - y * side, foot[1] + x * side), (foot[0] + y * side, foot[1] - x * side)]
    return barbs, (end[0] - 0.6 * x * length, end[1] - 0.6 * y * length)


def _draw_words(figure: Figure, layout: Layout, look: Look) -> None:
    width, height = layout.size
    for text in (piece for words in layout.words for piece in text_pieces(words)):
        Figure.text(  # without the settings of the figure, which are those of now
            figure,
            text.x / width,
            text.y / height,
            text.text,
            size=text.size,
            color=_text_color(text, look),
            weight="bold" if text.bold else "normal",
            rotation=text.angle,
            rotation_mode="anchor",
            ha=text.halign,
            va=text.valign,
        )


def _text_color(text: Words, look: Look) -> str:
    """Return the colour of a text: black or white on a colour, else its series', faint, or usual
    ink.
    """
    colors = find_theme(look.theme)
    if text.background is not None and text.background.value is not None:
        return "black" if needs_dark_ink(np.array(_tint_color(text.background, look))) else "white"
    if text.series is not None:
        return _series_color(text.series, colors)
    return colors.faint if text.faint else colors.ink


def _series_color(number: int, colors: Theme) -> str:
    return colors.series[number % len(colors.series)]


def _rgb(color: str) -> list[int]:
    """Return red, green and blue of a colour such as '#1f77b4'."""
    return list(bytes.fromhex(color.removeprefix("#")))


class CellImage(Artist):
    """Cells as pixels that fill their axes: what imshow does, in a quarter of its time."""

    def __init__(self, rgb: np.ndarray) -> None:
        """Set the colour of each cell: red, green and blue from 0 to 255."""
        super().__init__()
        self._rgb = rgb

    def draw(self, renderer: Any) -> None:
        """Draw the cells in as many pixels as their axes have."""
        assert self.axes is not None
        scale = renderer.get_image_magnification()
        left, bottom, width, height = self.axes.bbox.bounds
        pixels = scale_cells(self._rgb, round(width * scale), round(height * scale))
        opaque = np.full((*pixels.shape[:2], 1), 255, dtype=np.uint8)
        context = renderer.new_gc()
        # Renderers count rows from the bottom.
        renderer.draw_image(context, left, bottom, np.concatenate([pixels, opaque], 2)[::-1])
        context.restore()


def scale_cells(rgb: np.ndarray, width: int, height: int) -> np.ndarray:
    """Return an image of cells in so many pixels: large cells keep their edges, small ones are
    blended.
    """
    rows, columns = rgb.shape[:2]
    if width >= 4 * columns and height >= 4 * rows:
        down = (np.arange(height) * rows) // height
        across = (np.arange(width) * columns) // width
        cells: np.ndarray = rgb[down][:, across]
        return cells
    repeats = (math.ceil(2 * height / rows), math.ceil(2 * width / columns))
    larger = rgb.repeat(repeats[0], axis=0).repeat(repeats[1], axis=1)
    blended = Image.fromarray(larger).resize((width, height), Image.Resampling.BOX)
    return np.asarray(blended, dtype=np.uint8)


class MapImages(Artist):
    """Small maps, as one image with nothing between them: hundreds of images would take long."""

    def __init__(self, boxes: Sequence[Box], rgb: np.ndarray) -> None:
        super().__init__()
        self._boxes, self._rgb = np.array(boxes), rgb

    def draw(self, renderer: Any) -> None:
        """Draw all maps, in as many pixels as their boxes have."""
        figure = self.get_figure(root=True)
        assert figure is not None
        scale = renderer.get_image_magnification()
        sizes = np.tile((figure.bbox.width, figure.bbox.height), 2)
        left, bottom, wide, high = (self._boxes * sizes * scale).round().astype(int).T
        right, top = left + wide, bottom + high
        pixels = np.zeros((top.max() - bottom.min(), right.max() - left.min(), 4), dtype=np.uint8)
        for index, rgb in enumerate(self._rgb):
            rows = slice(top.max() - top[index], top.max() - bottom[index])
            columns = slice(left[index] - left.min(), right[index] - left.min())
            pixels[rows, columns, :3] = scale_cells(rgb, int(wide[index]), int(high[index]))
            pixels[rows, columns, 3] = 255
        context = renderer.new_gc()
        renderer.draw_image(context, left.min() / scale, bottom.min() / scale, pixels[::-1])
        context.restore()


def text_pieces(words: Words) -> Iterator[Words]:
    """Yield a text in pieces: on the line, and lowered in smaller letters, each at its place."""
    texts = LOWERED_NAME.split(words.text)
    if len(texts) == 1:
        yield words
        return
    pieces = [
        (text, words.size * (LOWERED_SHARE if index % 2 else 1.0))
        for index, text in enumerate(texts)
    ]
    widths = [_piece_width(text, size, bold=words.bold) for text, size in pieces]
    along = {"left": 0.0, "center": -0.5, "right": -1.0}[words.halign] * sum(widths)
    for (text, size), width in zip(pieces, widths, strict=True):
        if text:
            drop = 0.0 if size == words.size else LOWERED_DEPTH * words.size * POINT
            yield _moved_words(replace(words, text=text, size=size, halign="left"), along, drop)
        along += width


def _piece_width(text: str, size: float, *, bold: bool) -> float:
    """Return the width of a text in inches, spaces at its end included."""
    wide = text_width(text + SPACE_KEEPER, size) - text_width(SPACE_KEEPER, size)
    return wide * (BOLD if bold else 1.0)


def _moved_words(words: Words, along: float, drop: float) -> Words:
    """Return words moved by `along` inches in the direction of their line, which may be turned,
    and by `drop` inches at a right angle to it, downward.
    """
    turn = math.radians(words.angle)
    x = words.x + along * math.cos(turn) + drop * math.sin(turn)
    return replace(words, x=x, y=words.y + along * math.sin(turn) - drop * math.cos(turn))


class NotebookFigure(Figure):
    """A Figure that notebooks can display without pyplot."""

    description = ""  # the alternative text, for people who cannot see the picture

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a Figure, and keep its font, that of formulas, and how a PDF stores letters."""
        super().__init__(*args, **kwargs)
        names = [name for name in matplotlib.rcParams if name.startswith(KEPT_SETTINGS)]
        self._settings: Any = {name: matplotlib.rcParams[name] for name in names}

    def text(self, *args: Any, **kwargs: Any) -> Text:
        """Add a text, which may hold formulas, in the font of the figure."""
        with matplotlib.rc_context(self._settings):
            return super().text(*args, **kwargs)

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save as any Figure does; a PDF has letters as TrueType, wherever that can be."""
        with matplotlib.rc_context(self._settings):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        """Return the picture for a notebook, with its description as the alternative text."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue(), {"alt": self.description}
