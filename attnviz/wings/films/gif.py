"""Films as GIF: sections one after another, or the shots of a training.

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

from attnviz.errors import AttnvizError, Note, opt
from attnviz.renderers import Look
from attnviz.renderers.colors import color_anchors, scale_colors
from attnviz.renderers.look import TEXT_POINT_LIMITS
from attnviz.renderers.picture.draw import draw_layout
from attnviz.renderers.picture.glyphs import fixed_settings, with_glyphs
from attnviz.renderers.picture.items import Box, Item, Layout, Panel, Stroke, Words, cell_box
from attnviz.renderers.picture.page_frame import Captions, make_frame
from attnviz.renderers.picture.page_kinds import build_drawing, page_layout
from attnviz.renderers.picture.section import section_pages
from attnviz.renderers.picture.still_pictures import pool_groups, view_captions
from attnviz.renderers.picture.text import Size, lettering, text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import CellSource, Drawable, Section, open_panels
from attnviz.views.view import Group, Shot, View
from attnviz.wings.films.redrawing import changed_parts, parts_beside_cells, with_patches

FILM_DPI = 100
DEFAULT_SIDE_PIXELS = 1920  # pixels, unless somebody says how fine,
MAX_FILM_SIDE_PIXELS = 4000  # and even then: every frame is kept until the last is drawn
# Of the time for a step, which has a paragraph to read:
OPENING_SHARE = 0.5  # for a moment with tables and a sentence that are new
MOMENT_SHARE = 0.16  # for one in which a cell is
LAST_FRAME_SHARE = 2.0
FLYING_SHARE = 0.04  # for a place on the way of a number into its cell
MAX_WALK_STEPS = 5.0  # times as long as a step takes all of it, at most: 25 seconds
LAST_TEXT_SCALE = 1.2  # times the usual letters has the last frame, of what was computed
SHORTEST_MOMENT = 0.2  # seconds
SHORTEST_FRAME_MS = 20  # thousandths of a second: players take less for a mistake
FLIGHT_SHARES = (0.35, 0.7)  # so far on its way to its cell a number is shown
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


def gif_picture(view: View, look: Look) -> list[bytes]:
    """Return a view as a GIF: each step, then its moments, and at last all steps on one page.

    A view of a training shows its film instead.
    """
    resolution = look.dpi
    look = replace(look, dpi=look.dpi or FILM_DPI, transparent=False)
    if look.size is None:  # as on slides of this shape, whose notes hold the settings
        look = replace(look, footnote=bool(look.footnote))
    shots = view.shots
    # of tables, whose cells alone change; in other panels everything may
    has_tables = any(isinstance(panel, Grid) for shot in shots[:1] for panel in shot.panels)
    if shots and not has_tables:
        view = replace(view, picture=replace(view.picture, groups=shots[-1].groups))
    captions = view_captions(view, look)
    with fixed_settings(view.picture.panels, captions, look.font):
        frames = list(
            film_frames(view, shots, look, captions) if shots else walk_frames(view, look, captions)
        )
        look = replace(look, numbers=bool(look.numbers)) if shots else look
        last = frames[-1].layout
        if not resolution:  # nobody said how fine: a very large page has fewer pixels to an inch
            dpi = min(FILM_DPI, int(DEFAULT_SIDE_PIXELS / max(last.size)))
        size = _pixel_size(last.size, look if resolution else replace(look, dpi=dpi))
        draw_pictures = _changed_pictures
        if shots and not look.numbers:
            draw_pictures = _repainted_pictures if has_tables else _new_pictures
        pictures = draw_pictures([frame.layout for frame in frames], look, size)
        images = (to_palette(change) for change in _pixel_changes(pictures))
        return [_gif_bytes(images, [frame.seconds for frame in frames], view.provenance_text)]


def _on_one_scale(groups: Sequence[Group]) -> list[Group]:
    """Return groups whose sections have one scale for all frames, moments included.

    So a colour means the same number everywhere.
    """
    panels = [panel for group in groups for panel in group.all_panels]
    scales = {
        grid.scale.label: grid.scale for grid in open_panels(panels) if isinstance(grid, Grid)
    }

    def scaled(panel: Drawable) -> Drawable:
        return panel.with_scales(scales) if isinstance(panel, Section) else panel

    return [group.with_panels(scaled) for group in groups]


def walk_frames(view: View, look: Look, captions: Captions) -> Iterator[FilmFrame]:
    """Yield a frame for each step, one for each moment in which a step is computed, and a last one.

    All have the same small print, so that nothing jumps; together they last at most five steps.
    """
    groups = _on_one_scale(pool_groups(with_glyphs(view.picture.groups), look))
    below = with_glyphs(replace(captions, title="", notes=view.picture.caveat))
    captions = with_glyphs(captions)
    panels = [panel for group in groups for panel in group.all_panels]
    sections = [part for part in panels if isinstance(part, Section)]
    draw_page = _page_of_all_steps if sections else page_layout
    page = draw_page(groups, look, captions)
    frames = [FilmFrame(page, look.seconds * LAST_FRAME_SHARE)]
    computed = [part for part in sections if any(one.cell_sources for one in part.moments)]
    if len(computed) > 1:
        frames = [_last_walk_frame(computed, look, page.size, captions)]
        panels = [part for part in panels if part not in computed and _has_colors(part)]
    if len(panels) > 1 or any(part.moments for part in sections):
        on_page = replace(look, size=page.size)
        steps = [_frame_of_step(part, on_page, below) for part in panels]
        moments = [one for part in sections for one in _moment_frames(part, on_page, below)]
        frames = [*steps, *moments, *frames]
    yield from _shortened_frames(frames, look.seconds * MAX_WALK_STEPS)


def _has_colors(panel: Drawable) -> bool:
    grids = [panel for panel in open_panels([panel]) if isinstance(panel, Grid)]
    return any(grid.scale.kind != "none" for grid in grids)


def _last_walk_frame(
    computing: Sequence[Section], look: Look, size: Size, captions: Captions
) -> FilmFrame:
    """Return the last frame of a walk: all computed rows, in letters that are large enough for a
    small film.
    """
    grids = tuple(section.moments[-1].grids[-1] for section in computing)
    rows = tuple(grid for grid in grids if len(grid.rows) == 1) or grids
    points = min(float(look.text_size) * LAST_TEXT_SCALE, TEXT_POINT_LIMITS[1])
    large = replace(look, size=size, text_size=look.text_size if look.points else points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # that letters are smaller than those
        layout = page_layout([Group("computed", rows, kind="pair")], large, captions)
    return FilmFrame(layout, look.seconds * LAST_FRAME_SHARE)


def _shortened_frames(frames: Sequence[FilmFrame], max_seconds: float) -> Iterator[FilmFrame]:
    """Yield all frames, each for less time if together they last more than `max_seconds`."""
    share = min(max_seconds / sum(frame.seconds for frame in frames), 1.0)
    for frame in frames:
        yield replace(frame, seconds=frame.seconds * share)


def _page_of_all_steps(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """Return all steps on one page, as large as every frame; without a note if it is full."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # that it is full: what it leaves out has been shown
        return page_layout(groups, replace(look, size=look.size or FILM_SIZE), captions)


def _frame_of_step(panel: Drawable, look: Look, captions: Captions) -> FilmFrame:
    """Return a step on a page of its own, in the letters of a slide in proportion."""
    if isinstance(panel, Section):
        return FilmFrame(section_pages([panel], look, captions)[0], look.seconds)
    return FilmFrame(page_layout([Group("alone", (panel,))], look, captions), look.seconds)


def _moment_frames(section: Section, look: Look, captions: Captions) -> Iterator[FilmFrame]:
    """Yield frames in which a step is computed, cell by cell; none if the section has no moments.

    All moments are laid out alike; one with a new sentence is shown for longer.
    """
    if section.moments:
        sentence = ""
        layouts = section_pages(section.moments, look, captions)
        sequences = moment_layouts(section.moments, layouts)
        for moment, sequence in zip(section.moments, sequences, strict=True):
            share = MOMENT_SHARE if moment.about == sentence else OPENING_SHARE
            first = max(look.seconds * share, SHORTEST_MOMENT)
            flying = [look.seconds * FLYING_SHARE] * (len(sequence) - 2)
            durations = [first, *flying, look.seconds * MOMENT_SHARE][: len(sequence)]
            yield from map(FilmFrame, sequence, durations)
            sentence = moment.about


def _pixel_size(size: Size, look: Look) -> tuple[int, int]:
    """Return the width and the height of a page in pixels. Refuses more than 4000 on a side."""
    assert look.dpi is not None
    if max(size) * look.dpi > MAX_FILM_SIDE_PIXELS:
        raise AttnvizError(
            f"{max(size):g} inches at {look.dpi} dpi are {max(size) * look.dpi:,.0f} pixels, and "
            f"at most {MAX_FILM_SIDE_PIXELS:,} can be animated",
            f"try {opt.dpi:{int(MAX_FILM_SIDE_PIXELS / max(size))}}",
        )
    return int(size[0] * look.dpi), int(size[1] * look.dpi)


def _changed_pictures(
    layouts: Sequence[Layout], look: Look, size: tuple[int, int]
) -> Iterator[Pixels]:
    """Yield a picture of each layout; only what differs from the one before is drawn again."""
    picture = _layout_pixels(layouts[0], look, size)
    yield picture
    for before, layout in itertools.pairwise(layouts):
        changes = changed_parts(before, layout)
        if changes is None:
            picture = _layout_pixels(layout, look, size)
        else:
            part, boxes = changes
            picture = with_patches(picture, _layout_pixels(part, look, size), boxes, layout.size[1])
        yield picture


def _new_pictures(layouts: Sequence[Layout], look: Look, size: tuple[int, int]) -> Iterator[Pixels]:
    """Yield a picture of each layout, all of it drawn again."""
    return (_layout_pixels(layout, look, size) for layout in layouts)


def _repainted_pictures(
    layouts: Sequence[Layout], look: Look, size: tuple[int, int]
) -> Iterator[Pixels]:
    """Yield a picture of each shot; charts and words are drawn again, and cells get
    other colours.
    """
    draw = partial(_layout_pixels, look=look, size=size)
    picture, canvases = draw(layouts[0]), _panel_canvases(layouts[0], look, draw)
    yield picture
    for before, layout in itertools.pairwise(layouts):
        part, boxes = parts_beside_cells(before, layout)
        picture = with_patches(picture, draw(part), boxes, layout.size[1])
        for canvas, panel in zip(canvases, layout.panels, strict=True):
            picture[canvas.rows, canvas.columns] = canvas.paint(panel, look)
        yield picture


def _layout_pixels(layout: Layout, look: Look, size: tuple[int, int]) -> Pixels:
    """Return a layout in so many pixels, whatever its size in inches."""
    figure = draw_layout(layout, look)
    figure.set_dpi(size[0] / layout.size[0])
    canvas = FigureCanvasAgg(figure)
    if canvas.get_width_height() != size:  # matplotlib rounds down what is nearly a pixel more
        figure.set_size_inches((size[0] + 0.01) / figure.dpi, (size[1] + 0.01) / figure.dpi)
    canvas.draw()  # type: ignore[no-untyped-call]
    return _pack_channels(np.asarray(canvas.buffer_rgba()))  # type: ignore[no-untyped-call]


def _pixel_changes(pictures: Iterable[Pixels]) -> Iterator[Pixels]:
    """Yield all of the first picture, and of each other one the pixels unlike the one before.

    Pixels that stay the same are UNCHANGED; of two equal pictures one pixel counts as changed.
    """
    before = np.array(UNCHANGED)  # no picture has this colour
    for number, picture in enumerate(pictures):
        unchanged = before == picture
        if unchanged.all():  # Pillow leaves out a frame that holds the same as the one before it
            unchanged[0, number % 2] = False
        yield np.where(unchanged, UNCHANGED, picture)
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
        duration=[max(round(duration * 1000), SHORTEST_FRAME_MS) for duration in seconds],
        loop=0,
        disposal=1,
        comment=comment,
        optimize=False,  # the colours have their places
        interlace=False,
    )
    return file.getvalue()


def moment_layouts(moments: Sequence[Section], layouts: Sequence[Layout]) -> Iterator[list[Layout]]:
    """Yield for each moment its layouts: without the new number, with it on its way, and the last.

    A moment without a new cell, or with pooled grids, has one alone.
    """
    before: Layout | None = None
    for moment, layout in zip(moments, layouts, strict=True):
        new = _newly_filled_cells(before, layout)
        pooled = any(panel.grid.pool_note for panel in layout.panels)
        moves = moment.cell_sources and not pooled and new.any()
        yield list(_flying_number_layouts(moment, layout, new)) if moves else [layout]
        before = layout


def _newly_filled_cells(before: Layout | None, layout: Layout) -> np.ndarray:
    """Return which cells of the last panel are filled now, and were not; no mask hides them."""
    if not layout.panels:
        return np.zeros((0, 0), dtype=bool)
    grid = layout.panels[-1].grid
    new: np.ndarray = ~np.isnan(grid.values) & ~grid.hidden
    if before is None or before.panels[-1].grid.values.shape != new.shape:
        return new
    return np.asarray(new & np.isnan(before.panels[-1].grid.values))


def _flying_number_layouts(moment: Section, layout: Layout, new: np.ndarray) -> Iterator[Layout]:
    """Yield the layouts of a moment, in which a new number flies from its sum into its cell.

    First come rings around its sources, then one around the cell and the number on its way, and
    last the filled cell. If no line has the number at its end, only the last comes.
    """
    *_, target = layout.panels
    rings = tuple(
        _box_ring(_source_box(layout.panels[source[0]], source)) for source in moment.cell_sources
    )
    cell = _cells_box(target, new)
    empty_panel = replace(
        target,
        grid=target.grid.with_values(np.where(new, np.nan, target.grid.values)),
        numbers=np.where(new, "", target.numbers) if target.numbers.size else target.numbers,
    )
    items = [empty_panel if item is target else item for item in (*layout.items, *rings)]
    total = _result_of_sum(moment, layout)
    if total is not None:
        line, result = total
        text = line.text.removesuffix(result.text).rstrip().rstrip("=≈").rstrip()
        items = [item for item in items if item is not line]
        items.append(replace(line, text=text))
        yield _with_items(layout, items)
        items.append(_box_ring(cell))
        yield _with_items(layout, items)
        middle = cell[0] + cell[2] / 2, cell[1] + cell[3] / 2
        for share in FLIGHT_SHARES:
            x = result.x + share * (middle[0] - result.x)
            y = result.y + share * (middle[1] - result.y)
            flying = replace(result, x=x, y=y, bold=True)
            yield _with_items(layout, [*items, flying])
    yield _with_items(layout, [*layout.items, _box_ring(cell)])


def _with_items(layout: Layout, items: Iterable[Item]) -> Layout:
    return replace(layout, items=tuple(items))


def _result_of_sum(moment: Section, layout: Layout) -> tuple[Words, Words] | None:
    """Return the line on which a sum of a moment ends, and its result as words at their place
    there.

    It is None if no line ends with `= result` or `≈ result`.
    """
    for total in moment.sums:
        for line in layout.words:
            if total.result and any(line.text.endswith(f"{s}{total.result}") for s in EQUALS_SIGNS):
                offset = text_width(line.text.removesuffix(total.result), line.size)
                middle = line.x + offset + text_width(total.result, line.size) / 2
                return line, replace(line, text=total.result, x=middle, halign="center")
    return None


def _source_box(panel: Panel, source: CellSource) -> Box:
    """Return the box of a cell, a row or a column of a panel; None for a row or column means all of
    them.
    """
    _, row, column = source
    marked = np.zeros(panel.grid.values.shape, dtype=bool)
    marked[slice(None) if row is None else row, slice(None) if column is None else column] = True
    return _cells_box(panel, marked)


def _cells_box(panel: Panel, cells: np.ndarray) -> Box:
    rows, columns = (np.flatnonzero(cells.any(axis=axis)).tolist() for axis in (1, 0))
    left, _, wide, high = cell_box(panel, rows[0], columns[0])
    _, bottom, _, _ = cell_box(panel, rows[-1], columns[-1])
    return left, bottom, wide * (columns[-1] - columns[0] + 1), high * (rows[-1] - rows[0] + 1)


def _box_ring(box: Box) -> Stroke:
    left, bottom, width, height = box
    right, top = left + width, bottom + height
    corners = (left, bottom), (right, bottom), (right, top), (left, top)
    return Stroke((*corners, corners[0], corners[1]), RING_WIDTH, series=1)


@dataclass(frozen=True, eq=False)
class FilmFrame:
    """A layout, and for how many seconds it is shown."""

    layout: Layout
    seconds: float


def film_frames(
    view: View, shots: Sequence[Shot], look: Look, captions: Captions
) -> Iterator[FilmFrame]:
    """Yield a frame for each of a view's shots; all leave the room that the longest headline
    needs.
    """
    titles = [view.headline if view.has_chosen_title else shot.title for shot in shots]
    shot_captions = [with_glyphs(replace(captions, title=title)) for title in titles]
    size = look.size or FILM_SIZE
    letters = lettering(look.size or FILM_SIZE, look.text)
    frames = [make_frame(each, size, letters) for each in shot_captions]
    room = min((frame.room for frame in frames), key=lambda room: room[3])
    each = max(look.seconds / len(frames), SHORTEST_SHOT)
    extra_seconds = {
        0: FIRST_SHARE_OF_FILM * look.seconds,
        len(frames) - 1: LAST_SHARE_OF_FILM * look.seconds,
    }
    for index, (shot, frame) in enumerate(zip(shots, frames, strict=True)):
        groups = pool_groups(with_glyphs(shot.groups), look)
        drawing = build_drawing(groups)
        assert drawing is not None, "a film of what has no page of its own"
        layout = Layout(size, (*drawing.items(room, letters), *frame.words()))
        yield FilmFrame(layout, each + extra_seconds.get(index, 0.0))


@dataclass(frozen=True, eq=False)
class Canvas:
    """The pixels of a panel: how much of each belongs to a cell, and to which cell."""

    rows: slice
    columns: slice
    low: Float[np.ndarray, "down across 3"]  # the picture of cells at the low end,
    lowest: Color  # which have this colour
    share: Float[np.ndarray, "down across 1"]
    row: Shaped[np.ndarray, "down 1"]
    column: Shaped[np.ndarray, "1 across"]

    def paint(self, panel: Panel, look: Look) -> Pixels:
        """Return the pixels with the cells of this panel, whatever was in them."""
        filled = np.nan_to_num(panel.grid.values)
        colors = scale_colors(filled, panel.grid.scale, look.colors, look.theme).astype(float)
        channels = self.low + self.share * (colors[self.row, self.column] - self.lowest)
        return _pack_channels(np.clip(channels.round(), 0, 255))


def _panel_canvases(layout: Layout, look: Look, draw: DrawPixels) -> list[Canvas]:
    """Return which pixels belong to which cell, found by drawing a layout twice."""
    low, high = (_color_channels(draw(_with_cells_at_end(layout, end))) for end in ("low", "high"))
    return [_panel_canvas(panel, layout, low, high, look) for panel in layout.panels]


def _with_cells_at_end(layout: Layout, end: str) -> Layout:
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
    dpi = across / layout.size[0]
    top = down - (bottom + height) * dpi  # counted from below, where a page ends at a pixel
    rows, row = _cell_pixels(top, height * dpi, len(panel.grid.rows), down)
    columns, column = _cell_pixels(left * dpi, width * dpi, len(panel.grid.columns), across)
    anchors = color_anchors(look.colors, look.theme, panel.grid.scale.kind)
    lowest, highest = anchors[0], anchors[-1]
    channel = int(abs(highest - lowest).argmax())  # the channel that tells the two ends best
    low_part = low[rows, columns]
    share = (high[rows, columns] - low_part)[..., channel] / (highest - lowest)[channel]
    return Canvas(rows, columns, low_part, lowest, share[..., None], row[:, None], column[None, :])


def _cell_pixels(
    start: float, length: float, count: int, limit: int
) -> tuple[slice, Shaped[np.ndarray, "pixel"]]:
    """Return the pixels of one side of a panel, and at which of its `count` cells each of them is.

    `limit` is how many pixels the picture has there.
    """
    part = slice(max(int(start) - 1, 0), min(int(start + length) + 2, limit))
    shares = (np.arange(part.start, part.stop) + 0.5 - start) / length
    return part, np.clip((shares * count).astype(int), 0, count - 1)


def _pack_channels(channels: Shaped[np.ndarray, "*shape channel"]) -> Shaped[np.ndarray, "*shape"]:
    """Return red, green and blue, whole numbers up to 255, as one number for each pixel."""
    red, green, blue = (channels[..., index].astype(np.uint32) for index in range(3))
    return np.asarray(red << 16 | green << 8 | blue)


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
    distinct, inverse = np.unique(row[starts], return_inverse=True)
    colors: ColorRow = distinct[np.argsort(-np.bincount(inverse, weights=lengths), kind="stable")]
    return np.asarray(colors[colors != UNCHANGED])


def _nearest_colors(colors: ColorRow, palette: ColorRow) -> ColorRow:
    """Return for each colour the place of the nearest one in the palette."""
    channels = _color_channels(palette)
    # (a - b)² = a² - 2ab + b², and a² is the same for all that are compared.
    distances = (channels**2).sum(axis=1) - 2 * _color_channels(colors) @ channels.T
    return np.asarray(distances.argmin(axis=1))


def _reduced_palette(colors: ColorRow) -> ColorRow:
    """Return the 160 most common colours, and a few that stand for all others."""
    others = Image.fromarray(_color_channels(colors[MOST_COMMON:]).astype(np.uint8)[None])
    quantized = others.quantize(PALETTE_COLORS - MOST_COMMON, kmeans=1, dither=Image.Dither.NONE)
    rest = _pack_channels(np.array(quantized.getpalette()).reshape(-1, 3))
    return np.concatenate([colors[:MOST_COMMON], rest[: PALETTE_COLORS - MOST_COMMON]])


def _color_channels(colors: Shaped[np.ndarray, "color"]) -> Shaped[np.ndarray, "color 3"]:
    return np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=-1).astype(np.float64)
