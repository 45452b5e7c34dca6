"""Films: sections one after another or the shots of a training, as a GIF.

Every frame holds only what is new in it, and has a palette of its own; Pillow writes the file.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from attnviz.errors import AttnvizError, Note
from attnviz.renderers import Look
from attnviz.renderers.colors import color_anchors, color_values
from attnviz.renderers.picture.draw import draw_layout
from attnviz.renderers.picture.glyphs import hermetic, with_glyphs
from attnviz.renderers.picture.items import Box, Item, Layout, Panel, Stroke, Words, cell_box
from attnviz.renderers.picture.page_frame import Captions, make_frame
from attnviz.renderers.picture.page_kinds import drawing_of, page_layout
from attnviz.renderers.picture.redrawing import new_parts, parts_beside_cells, with_patches
from attnviz.renderers.picture.section import section_pages
from attnviz.renderers.picture.still_pictures import pool_groups, view_captions
from attnviz.renderers.picture.text import Size, lettering, text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import CellSource, Drawable, Section, open_panels
from attnviz.views.view import Group, View

PIXELS_PER_INCH = 100
LONGEST_SIDE = 1920  # pixels, unless somebody says how fine,
LARGEST_SIDE = 4000  # and even then: every frame is kept until the last is drawn
# Of the time for a step, which has a paragraph to read:
OPENING_SHARE = 0.5  # for a moment with tables and a sentence that are new
MOMENT_SHARE = 0.16  # for one in which a cell is
LAST_SHARE = 2.0
FLYING_SHARE = 0.04  # for a place on the way of a number into its cell
MOST_STEPS = 5.0  # times as long as a step takes all of it, at most: 25 seconds
LAST_TEXT = 1.2  # times the usual letters has the last frame, of what was computed
SHORTEST_MOMENT = 0.2  # seconds
SHORTEST_FRAME = 20  # thousandths of a second: players take less for a mistake
SHARES_OF_WAY = (0.35, 0.7)  # so far on its way to its cell a number is shown
RING_WIDTH = 3.0  # points: the line around what a number is made of, and around its cell
EQUALS_SIGNS = (" = ", " ≈ ")
FILM_SIZE = (12.8, 7.2)  # inches: 16:9
FIRST_SHARE_OF_FILM, LAST_SHARE_OF_FILM = 0.2, 0.8  # more of its time have its first and last shot
SHORTEST_SHOT = 0.04  # seconds
Pixels = Shaped[np.ndarray, "down across"]  # red, green and blue of a pixel in one number
DrawPixels = Callable[[Layout], Pixels]
Picture = Float[np.ndarray, "down across 3"]
Color = Float[np.ndarray, "3"]
MOST_COMMON = 160  # colours that are kept as they are; the others share what the palette has left
PALETTE_COLORS = 255  # and one more for what shows the frame before
UNCHANGED = 1 << 24  # behind the last colour
ColorRow = Shaped[np.ndarray, "color"]


def gif(view: View, look: Look) -> list[bytes]:
    """Return a view as a GIF: each step, then its moments, and at last all steps on one page.

    A view of a training shows its film instead.
    """
    resolution = look.dpi
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH, transparent=False)
    if look.size is None:  # as on slides of this shape, whose notes hold the settings
        look = replace(look, footnote=bool(look.footnote))
    captions = view_captions(view, look)
    with hermetic(view.picture.panels, captions):
        frames = list(
            film_frames(view, look, captions) if view.film else walk_frames(view, look, captions)
        )
        look = replace(look, numbers=bool(look.numbers)) if view.film else look
        last = frames[-1].layout
        if not resolution:  # nobody said how fine: a very large page has fewer pixels to an inch
            dpi = min(PIXELS_PER_INCH, int(LONGEST_SIDE / max(last.size)))
        size = _pixel_size(last.size, look if resolution else replace(look, dpi=dpi))
        take = _repainted_pictures if view.film and not look.numbers else _changed_pictures
        pictures = take([frame.layout for frame in frames], look, size)
        images = (to_palette(change) for change in _pixel_changes(pictures))
        return [_gif_bytes(images, [frame.seconds for frame in frames], view.provenance_text)]


def walk_frames(view: View, look: Look, captions: Captions) -> Iterator[FilmFrame]:
    """Yield the frames of a walk through the steps of a computation."""
    groups = _on_one_scale(pool_groups(with_glyphs(view.picture.groups), look))
    below = replace(captions, title="", notes=view.picture.caveat)
    return _step_frames(groups, look, with_glyphs(captions), with_glyphs(below))


def _on_one_scale(groups: Sequence[Group]) -> list[Group]:
    """Return groups whose sections have one scale for all frames, moments included.

    So a colour means the same number everywhere.
    """
    panels = [panel for group in groups for panel in group.all_panels]
    scales = {
        each.scale.label: each.scale for each in open_panels(panels) if isinstance(each, Grid)
    }
    return [
        replace(group, panels=tuple(
            panel.with_scales(scales) if isinstance(panel, Section) else panel
            for panel in group.panels
        ))
        for group in groups
    ]  # fmt: skip


def _step_frames(
    groups: Sequence[Group], look: Look, captions: Captions, below: Captions
) -> Iterator[FilmFrame]:
    """Yield a frame for each step, one for each moment in which a step is computed, and a last one.

    All have the same small print, so that nothing jumps; together they last at most five steps.
    """
    panels = [panel for group in groups for panel in group.all_panels]
    moving = [each for each in panels if isinstance(each, Section)]
    whole = (
        _page_of_all_steps(groups, look, captions)
        if moving
        else page_layout(groups, look, captions)
    )
    frames = [FilmFrame(whole, look.seconds * LAST_SHARE)]
    computing = [each for each in moving if any(one.cell_sources for one in each.moments)]
    if len(computing) > 1:
        frames = [_last_walk_frame(computing, look, whole.size, captions)]
        panels = [each for each in panels if each not in computing and _has_colors(each)]
    if len(panels) > 1 or any(each.moments for each in moving):
        steps = [_frame_of_step(each, look, whole.size, below) for each in panels]
        moments = [one for each in moving for one in _moment_frames(each, look, whole.size, below)]
        frames = [*steps, *moments, *frames]
    yield from _shortened_frames(frames, look.seconds * MOST_STEPS)


def _has_colors(each: Drawable) -> bool:
    """Return whether any grid of a panel has a scale of colour."""
    grids = [each for each in open_panels([each]) if isinstance(each, Grid)]
    return any(grid.scale.kind != "none" for grid in grids)


def _last_walk_frame(
    computing: Sequence[Section], look: Look, size: Size, captions: Captions
) -> FilmFrame:
    """Return the last frame of a walk: all computed rows, in letters that are large enough for a
    small film.
    """
    grids = tuple(each.moments[-1].grids[-1] for each in computing)
    rows = tuple(grid for grid in grids if len(grid.rows) == 1) or grids
    large = replace(look, size=size, text_size=look.text_size * LAST_TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # that letters are smaller than those
        layout = page_layout([Group("computed", rows, kind="pair")], large, captions)
    return FilmFrame(layout, look.seconds * LAST_SHARE)


def _shortened_frames(frames: Sequence[FilmFrame], most: float) -> Iterator[FilmFrame]:
    """Yield all frames, shown for less time if together they take more than `most` seconds."""
    share = min(most / sum(frame.seconds for frame in frames), 1.0)
    for frame in frames:
        yield replace(frame, seconds=frame.seconds * share)


def _page_of_all_steps(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """Return all steps on one page, as large as every frame; without a note if it is full."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # that it is full: what it leaves out has been shown
        return page_layout(groups, replace(look, size=look.size or FILM_SIZE), captions)


def _frame_of_step(each: Drawable, look: Look, size: Size, below: Captions) -> FilmFrame:
    """Return a step on a page of its own."""
    if isinstance(each, Section):
        return FilmFrame(_still_pages([each], look, size, below)[0], look.seconds)
    look = replace(look, size=size)
    return FilmFrame(page_layout([Group("alone", (each,))], look, below), look.seconds)


def _moment_frames(
    section: Section, look: Look, size: Size, below: Captions
) -> Iterator[FilmFrame]:
    """Yield frames in which a step is computed, cell by cell; none if the section has no moments.

    All moments are laid out alike; one with a new sentence is shown for longer.
    """
    if section.moments:
        sentence = ""
        layouts = _still_pages(section.moments, look, size, below)
        ways = computing_layouts(section.moments, layouts)
        for moment, way in zip(section.moments, ways, strict=True):
            share = MOMENT_SHARE if moment.about == sentence else OPENING_SHARE
            first = max(look.seconds * share, SHORTEST_MOMENT)
            flying = [look.seconds * FLYING_SHARE] * (len(way) - 2)
            times = [first, *flying, look.seconds * MOMENT_SHARE][: len(way)]
            yield from map(FilmFrame, way, times)
            sentence = moment.about


def _still_pages(
    sections: Sequence[Section], look: Look, size: Size, below: Captions
) -> list[Layout]:
    """Return each section on a page of its own, in the letters of a slide in proportion."""
    return section_pages(sections, replace(look, size=size), below)


def _pixel_size(size: Size, look: Look) -> tuple[int, int]:
    """Return the width and the height of a page in pixels. Refuses more than 4000 on a side."""
    assert look.dpi is not None
    if max(size) * look.dpi > LARGEST_SIDE:
        raise AttnvizError(
            f"{max(size):g} inches at {look.dpi} dpi are {max(size) * look.dpi:,.0f} pixels, and "
            f"at most {LARGEST_SIDE:,} can be animated",
            f"try --dpi {int(LARGEST_SIDE / max(size))}",
        )
    return int(size[0] * look.dpi), int(size[1] * look.dpi)


def _changed_pictures(
    layouts: Sequence[Layout], look: Look, size: tuple[int, int]
) -> Iterator[Pixels]:
    """Yield a picture of each layout; only what differs from the one before is drawn again."""
    picture = _layout_pixels(layouts[0], look, size)
    yield picture
    for before, layout in itertools.pairwise(layouts):
        new = new_parts(before, layout)
        if new is None:
            picture = _layout_pixels(layout, look, size)
        else:
            part, boxes = new
            picture = with_patches(picture, _layout_pixels(part, look, size), boxes, layout.size[1])
        yield picture


def _repainted_pictures(
    layouts: Sequence[Layout], look: Look, size: tuple[int, int]
) -> Iterator[Pixels]:
    """Yield a picture of each shot; charts and words are drawn again, and cells get
    other colours.
    """
    draw = partial(_layout_pixels, look=look, size=size)
    picture, cells = draw(layouts[0]), plan_repainting(layouts[0], look, draw)
    yield picture
    for before, layout in itertools.pairwise(layouts):
        part, boxes = parts_beside_cells(before, layout)
        picture = with_patches(picture, draw(part), boxes, layout.size[1])
        picture = cells.painted(picture, layout)
        yield picture


def _layout_pixels(layout: Layout, look: Look, size: tuple[int, int]) -> Pixels:
    """Return a layout in so many pixels, whatever its size in inches."""
    figure = draw_layout(layout, look)
    figure.set_dpi(size[0] / layout.size[0])
    canvas = FigureCanvasAgg(figure)
    if canvas.get_width_height() != size:  # matplotlib rounds down what is nearly a pixel more
        figure.set_size_inches((size[0] + 0.01) / figure.dpi, (size[1] + 0.01) / figure.dpi)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba(), dtype=np.uint32)  # type: ignore[no-untyped-call]
    packed: Pixels = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    return packed


def _pixel_changes(pictures: Iterable[Pixels]) -> Iterator[Pixels]:
    """Yield all of the first picture, and of each other one the pixels unlike the one before.

    Pixels that stay the same are UNCHANGED; of two equal pictures one pixel counts as changed.
    """
    before = np.array(UNCHANGED)  # no picture has this colour
    for number, picture in enumerate(pictures):
        same = before == picture
        if same.all():  # Pillow leaves out a frame that holds the same as the one before it
            same[0, number % 2] = False
        yield np.where(same, UNCHANGED, picture)
        before = picture


def _gif_bytes(images: Iterator[Image.Image], seconds: Sequence[float], comment: str) -> bytes:
    """Return a GIF that begins again when it has ended; no frame is shorter than 20
    milliseconds.
    """
    file = io.BytesIO()
    next(images).save(
        file,
        "GIF",
        save_all=True,
        append_images=images,
        duration=[max(round(shown * 1000), SHORTEST_FRAME) for shown in seconds],
        loop=0,
        disposal=1,
        comment=comment,
        optimize=False,  # the colours have their places
        interlace=False,
    )
    return file.getvalue()


def computing_layouts(
    moments: Sequence[Section], layouts: Sequence[Layout]
) -> Iterator[list[Layout]]:
    """Yield for each moment its layouts: without the new number, with it on its way, and the last.

    A moment without a new cell, or with pooled grids, has one alone.
    """
    before: Layout | None = None
    for moment, layout in zip(moments, layouts, strict=True):
        new = _newly_filled(before, layout)
        pooled = any(panel.grid.pooled for panel in layout.panels)
        moves = moment.cell_sources and not pooled and new.any()
        yield list(_moving_number(moment, layout, new)) if moves else [layout]
        before = layout


def _newly_filled(before: Layout | None, layout: Layout) -> np.ndarray:
    """Return which cells of the last panel are filled now, and were not; no mask hides them."""
    if not layout.panels:
        return np.zeros((0, 0), dtype=bool)
    grid = layout.panels[-1].grid
    new: np.ndarray = ~np.isnan(grid.values) & ~grid.hidden
    if before is None or before.panels[-1].grid.values.shape != new.shape:
        return new
    return np.asarray(new & np.isnan(before.panels[-1].grid.values))


def _moving_number(moment: Section, layout: Layout, new: np.ndarray) -> Iterator[Layout]:
    """Yield the layouts of a moment, in which a new number flies from its sum into its cell.

    First come rings around its sources, then one around the cell and the number on its way, and
    last the filled cell. If no line has the number at its end, only the last comes.
    """
    *_, target = layout.panels
    rings = tuple(
        _box_ring(_part_box(layout.panels[part[0]], part)) for part in moment.cell_sources
    )
    cell = _cells_box(target, new)
    empty = replace(
        target,
        grid=target.grid.with_values(np.where(new, np.nan, target.grid.values)),
        numbers=np.where(new, "", target.numbers) if target.numbers.size else target.numbers,
    )
    unfilled = [empty if item is target else item for item in (*layout.items, *rings)]
    number = _result_of_sum(moment, layout)
    if number is not None:
        line, result = number
        start = line.text.removesuffix(result.text).rstrip().rstrip("=≈").rstrip()
        unfilled = [item for item in unfilled if item is not line]
        unfilled.append(replace(line, text=start))
        yield _with_items(layout, unfilled)
        unfilled.append(_box_ring(cell))
        yield _with_items(layout, unfilled)
        middle = cell[0] + cell[2] / 2, cell[1] + cell[3] / 2
        for share in SHARES_OF_WAY:
            x = result.x + share * (middle[0] - result.x)
            y = result.y + share * (middle[1] - result.y)
            flying = replace(result, x=x, y=y, bold=True)
            yield _with_items(layout, [*unfilled, flying])
    yield _with_items(layout, [*layout.items, _box_ring(cell)])


def _with_items(layout: Layout, items: Iterable[Item]) -> Layout:
    """Return a layout with these items in place of its own."""
    return replace(layout, items=tuple(items))


def _result_of_sum(moment: Section, layout: Layout) -> tuple[Words, Words] | None:
    """Return the line on which a sum of a moment ends, and its result as words at their place
    there.

    It is None if no line ends with `= result` or `≈ result`.
    """
    for total in moment.sums:
        for line in layout.words:
            if total.result and any(line.text.endswith(f"{s}{total.result}") for s in EQUALS_SIGNS):
                before = text_width(line.text.removesuffix(total.result), line.size)
                middle = line.x + before + text_width(total.result, line.size) / 2
                return line, replace(line, text=total.result, x=middle, across="center")
    return None


def _part_box(panel: Panel, part: CellSource) -> Box:
    """Return the box of a cell, a row or a column of a panel; None for a row or column means all of
    them.
    """
    _, row, column = part
    new = np.zeros(panel.grid.values.shape, dtype=bool)
    new[slice(None) if row is None else row, slice(None) if column is None else column] = True
    return _cells_box(panel, new)


def _cells_box(panel: Panel, cells: np.ndarray) -> Box:
    """Return the box that holds the marked cells of a panel."""
    rows, columns = (np.flatnonzero(cells.any(axis=axis)).tolist() for axis in (1, 0))
    left, _, wide, high = cell_box(panel, rows[0], columns[0])
    _, bottom, _, _ = cell_box(panel, rows[-1], columns[-1])
    return left, bottom, wide * (columns[-1] - columns[0] + 1), high * (rows[-1] - rows[0] + 1)


def _box_ring(box: Box) -> Stroke:
    """Return a thick line around a box."""
    left, bottom, width, height = box
    right, top = left + width, bottom + height
    corners = (left, bottom), (right, bottom), (right, top), (left, top)
    return Stroke((*corners, corners[0], corners[1]), RING_WIDTH, series=1)


@dataclass(frozen=True, eq=False)
class FilmFrame:
    """A layout, and for how many seconds it is shown."""

    layout: Layout
    seconds: float


def film_frames(view: View, look: Look, captions: Captions) -> Iterator[FilmFrame]:
    """Yield a frame for each shot of a training; all leave the room that the longest headline
    needs.
    """
    titles = [view.headline if view.has_chosen_title else shot.title for shot in view.film]
    around = [with_glyphs(replace(captions, title=title)) for title in titles]
    size = look.size or FILM_SIZE
    letters = lettering(look.size or FILM_SIZE, look.text_size)
    frames = [make_frame(each, size, letters) for each in around]
    room = min((frame.room for frame in frames), key=lambda room: room[3])
    each = max(look.seconds / len(frames), SHORTEST_SHOT)
    ends = {
        0: FIRST_SHARE_OF_FILM * look.seconds,
        len(frames) - 1: LAST_SHARE_OF_FILM * look.seconds,
    }
    for place, (shot, frame) in enumerate(zip(view.film, frames, strict=True)):
        groups = pool_groups(with_glyphs(shot.groups), look)
        drawing = drawing_of(groups)
        assert drawing is not None, "a film of what has no page of its own"
        whole = Layout(size, (*drawing.items(room, letters), *frame.words()))
        yield FilmFrame(whole, each + ends.get(place, 0.0))


@dataclass(frozen=True, eq=False)
class Canvas:
    """The pixels of a panel: how much of each belongs to a cell, and to which cell."""

    rows: slice
    columns: slice
    low: Float[np.ndarray, "down across 3"]  # the picture of cells at the low end
    share: Float[np.ndarray, "down across 1"]
    row: Shaped[np.ndarray, "down 1"]
    column: Shaped[np.ndarray, "1 across"]

    def painted(self, colors: Float[np.ndarray, "row column 3"], lowest: Color) -> Pixels:
        """Return the pixels of the panel with these colours in its cells.

        `lowest` is the colour that all cells have in `low`.
        """
        return _pack_channels(self.low + self.share * (colors[self.row, self.column] - lowest))


@dataclass(frozen=True, eq=False)
class Repainting:
    """A page on which only the colours of cells change."""

    canvases: tuple[Canvas, ...]
    look: Look

    def painted(self, picture: Pixels, layout: Layout) -> Pixels:
        """Return a picture with the cells of this layout, whatever was in them."""
        pixels = np.array(picture)
        for canvas, panel in zip(self.canvases, layout.panels, strict=True):
            lowest, _ = _end_colors(panel, self.look)
            colors = _panel_colors(panel, self.look)
            pixels[canvas.rows, canvas.columns] = canvas.painted(colors, lowest)
        return pixels


def plan_repainting(layout: Layout, look: Look, draw: DrawPixels) -> Repainting:
    """Return which pixels belong to which cell, found by drawing a layout twice."""
    low, high = (_color_channels(draw(_with_all_cells(layout, end))) for end in ("low", "high"))
    canvases = (_panel_canvas(panel, layout, low, high, look) for panel in layout.panels)
    return Repainting(tuple(canvases), look)


def _with_all_cells(layout: Layout, end: str) -> Layout:
    """Return the layout with every cell at one end of its scale ('low' or 'high')."""
    items = list[Item]()
    for item in layout.items:
        if isinstance(item, Panel):
            values = np.full(item.grid.values.shape, getattr(item.grid.scale, end))
            item = replace(item, grid=item.grid.with_values(values))
        items.append(item)
    return _with_items(layout, items)


def _panel_canvas(panel: Panel, layout: Layout, low: Picture, high: Picture, look: Look) -> Canvas:
    """Return the pixels of a panel and their cells, from pictures with all cells low
    and all high.
    """
    (down, across, _), (left, bottom, width, height) = low.shape, panel.box
    pixels = across / layout.size[0]
    top = down - (bottom + height) * pixels  # counted from below, where a page ends at a pixel
    rows, row = _cell_pixels(top, height * pixels, len(panel.grid.rows), down)
    columns, column = _cell_pixels(left * pixels, width * pixels, len(panel.grid.columns), across)
    lowest, highest = _end_colors(panel, look)
    channel = int(abs(highest - lowest).argmax())  # the channel that tells the two ends best
    part = low[rows, columns]
    share = (high[rows, columns] - part)[..., channel] / (highest - lowest)[channel]
    return Canvas(rows, columns, part, share[..., None], row[:, None], column[None, :])


def _cell_pixels(
    start: float, length: float, count: int, most: int
) -> tuple[slice, Shaped[np.ndarray, "pixel"]]:
    """Return the pixels of one side of a panel, and at which of its `count` cells each of them is.

    `most` is how many pixels the picture has there.
    """
    part = slice(max(int(start) - 1, 0), min(int(start + length) + 2, most))
    shares = (np.arange(part.start, part.stop) + 0.5 - start) / length
    return part, np.clip((shares * count).astype(int), 0, count - 1)


def _end_colors(panel: Panel, look: Look) -> tuple[Color, Color]:
    """Return the colours of the low and the high end of a panel's scale."""
    anchors = color_anchors(look.palette, look.theme, panel.grid.scale.kind)
    return anchors[0], anchors[-1]


def _panel_colors(panel: Panel, look: Look) -> Float[np.ndarray, "row column 3"]:
    """Return the colour of each cell of a panel; empty cells count as 0."""
    grid, anchors = panel.grid, color_anchors(look.palette, look.theme, panel.grid.scale.kind)
    values = np.nan_to_num(grid.values)
    colors: Float[np.ndarray, "row column 3"] = color_values(
        grid.scale.shares(values), 0, 1, anchors
    ).astype(float)
    return colors


def _pack_channels(channels: Picture) -> Pixels:
    """Return red, green and blue, rounded, as one number for each pixel."""
    whole = np.clip(channels.round(), 0, 255).astype(np.uint32)
    packed: Pixels = whole[..., 0] << 16 | whole[..., 1] << 8 | whole[..., 2]
    return packed


def to_palette(pixels: Pixels) -> Image.Image:
    """Return an image of at most 255 colours and a transparent one, which is for unchanged pixels.

    The colours of the largest areas stay as they are.
    """
    colors = _colors_by_area(pixels)
    palette = colors if len(colors) <= PALETTE_COLORS else _reduced_palette(colors)
    nearest = np.empty(UNCHANGED + 1, dtype=np.uint8)  # a table by colour, with few entries
    nearest[UNCHANGED] = PALETTE_COLORS
    nearest[colors] = _nearest_colors(colors, palette)
    image = Image.fromarray(nearest[pixels], mode="P")
    image.putpalette(
        _color_channels(palette).astype(np.uint8).tobytes().ljust(3 * (PALETTE_COLORS + 1), b"\0")
    )
    image.info["transparency"] = PALETTE_COLORS
    return image


def _colors_by_area(pixels: Pixels) -> ColorRow:
    """Return each colour once, that of the largest area first, without that of unchanged pixels.

    They are counted by runs of equal pixels, of which there are few.
    """
    row = pixels.ravel()
    starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
    lengths = np.diff(np.append(starts, len(row)))
    found, which = np.unique(row[starts], return_inverse=True)
    colors: ColorRow = found[np.argsort(-np.bincount(which, weights=lengths), kind="stable")]
    seen: ColorRow = colors[colors != UNCHANGED]
    return seen


def _nearest_colors(colors: ColorRow, palette: ColorRow) -> ColorRow:
    """Return for each colour the place of the nearest one in the palette."""
    near = _color_channels(palette)
    # (a - b)² = a² - 2ab + b², and a² is the same for all that are compared.
    distances = (near**2).sum(axis=1) - 2 * _color_channels(colors) @ near.T
    places: ColorRow = distances.argmin(axis=1)
    return places


def _reduced_palette(colors: ColorRow) -> ColorRow:
    """Return the 160 most common colours, and a few that stand for all others."""
    rest = Image.fromarray(_color_channels(colors[MOST_COMMON:]).astype(np.uint8)[None])
    summed_up = rest.quantize(PALETTE_COLORS - MOST_COMMON, kmeans=1, dither=Image.Dither.NONE)
    channels = np.array(summed_up.getpalette(), dtype=np.uint32).reshape(-1, 3)
    few = channels[:, 0] << 16 | channels[:, 1] << 8 | channels[:, 2]
    palette: ColorRow = np.concatenate([colors[:MOST_COMMON], few[: PALETTE_COLORS - MOST_COMMON]])
    return palette


def _color_channels(colors: Shaped[np.ndarray, "color"]) -> Shaped[np.ndarray, "color 3"]:
    """Return red, green and blue of colours that are one number each."""
    return np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=-1).astype(np.float64)
