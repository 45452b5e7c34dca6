"""Films: sections one after another or the shots of a training, as a GIF.

Every frame holds only what is new in it, and has a palette of its own; Pillow writes the file.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from attnviz.errors import AttnvizError, Note
from attnviz.renderers import Look
from attnviz.renderers.colors import color_anchors, color_values
from attnviz.renderers.picture.drawing import draw_layout
from attnviz.renderers.picture.drawings import drawing_of
from attnviz.renderers.picture.frame import Captions, framed
from attnviz.renderers.picture.glyphs import captions_with_glyphs, groups_with_glyphs, hermetic
from attnviz.renderers.picture.image import captions_of, pooled
from attnviz.renderers.picture.items import Box, Layout, Panel, Stroke, Words
from attnviz.renderers.picture.lettering import Size, lettering
from attnviz.renderers.picture.pages import page
from attnviz.renderers.picture.redrawing import beside_cells, only_new, with_patches
from attnviz.renderers.picture.stills import stills
from attnviz.renderers.picture.ticks import text_width
from attnviz.renderers.provenance import provenance_of
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
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
SHORTEST = 20  # thousandths of a second: players take less for a mistake


def gif(view: View, look: Look) -> list[bytes]:
    """Each step, then the moments of those that have some, and at last all steps on one page."""
    asked = look.dpi
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH, transparent=False)
    if look.size is None:  # as on slides of this shape, whose notes hold the settings
        look = replace(look, footnote=bool(look.footnote))
    captions = captions_of(view, look)
    with hermetic(view.picture.panels, captions):
        frames = list(filmed(view, look, captions) if view.film else _walked(view, look, captions))
        look = replace(look, numbers=bool(look.numbers)) if view.film else look
        last = frames[-1].layout
        size = _pixels(last.size, look if asked else _coarser(look, last))
        take = _shots if view.film and not look.numbers else _pictures
        pictures = take([frame.layout for frame in frames], look, size)
        images = (indexed(change) for change in _changes(pictures))
        return [_file(images, [frame.seconds for frame in frames], provenance_of(view))]


def _walked(view: View, look: Look, captions: Captions) -> Iterator[Frame]:
    """What is shown step by step."""
    groups = _of_one_scale(pooled(groups_with_glyphs(view.picture.groups), look))
    below = replace(captions, title="", notes=view.picture.caveat)
    return _frames(groups, look, captions_with_glyphs(captions), captions_with_glyphs(below))


def _coarser(look: Look, layout: Layout) -> Look:
    """Unless somebody said how fine, a very large page has fewer pixels to an inch."""
    return replace(look, dpi=min(PIXELS_PER_INCH, int(LONGEST_SIDE / max(layout.size))))


def _of_one_scale(groups: Sequence[Group]) -> list[Group]:
    """As on one page together, moments as well: a colour means one number in all frames."""
    panels = [panel for group in groups for panel in group.all_panels]
    scales = {
        each.scale.label: each.scale for each in open_panels(panels) if isinstance(each, Grid)
    }
    return [
        replace(group, panels=tuple(_scaled(panel, scales) for panel in group.panels))
        for group in groups
    ]


def _scaled(panel: Drawable, scales: Mapping[str, Scale]) -> Drawable:
    return panel.with_scales(scales) if isinstance(panel, Section) else panel


def _frames(
    groups: Sequence[Group], look: Look, captions: Captions, below: Captions
) -> Iterator[Frame]:
    """Every frame has the same small print: nothing may jump."""
    panels = [panel for group in groups for panel in group.all_panels]
    moving = [each for each in panels if isinstance(each, Section)]
    whole = _on_a_slide(groups, look, captions) if moving else page(groups, look, captions)
    frames = [Frame(whole, look.seconds * LAST_SHARE)]
    computing = [each for each in moving if any(one.cell_sources for one in each.moments)]
    if len(computing) > 1:
        frames = [_all_computed(computing, look, whole.size, captions)]
        panels = [each for each in panels if each not in computing and _colored(each)]
    if len(panels) > 1 or any(each.moments for each in moving):
        steps = [_step(each, look, whole.size, below) for each in panels]
        moments = [one for each in moving for one in _moments(each, look, whole.size, below)]
        frames = [*steps, *moments, *frames]
    yield from _in_time(frames, look.seconds * MOST_STEPS)


def _colored(each: Drawable) -> bool:
    """Whether there is more to see of a step than words and numbers that are only counted."""
    grids = [each for each in open_panels([each]) if isinstance(each, Grid)]
    return any(grid.scale.kind != "none" for grid in grids)


def _all_computed(
    computing: Sequence[Section], look: Look, size: Size, captions: Captions
) -> Frame:
    """What was computed of the followed token: in letters that can be read on a small page."""
    grids = tuple(each.moments[-1].grids[-1] for each in computing)
    rows = tuple(grid for grid in grids if len(grid.rows) == 1) or grids
    large = replace(look, size=size, text_size=look.text_size * LAST_TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # that letters are smaller than those
        layout = page([Group("computed", rows, kind="pair")], large, captions)
    return Frame(layout, look.seconds * LAST_SHARE)


def _in_time(frames: Sequence[Frame], most: float) -> Iterator[Frame]:
    """All frames shown for less time, if together they take more than so many seconds."""
    share = min(most / sum(frame.seconds for frame in frames), 1.0)
    for frame in frames:
        yield replace(frame, seconds=frame.seconds * share)


def _on_a_slide(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """All steps on one page, as large as every frame."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # that it is full: what it leaves out has been shown
        return page(groups, replace(look, size=look.size or FRAME), captions)


def _step(each: Drawable, look: Look, size: Size, below: Captions) -> Frame:
    """A step on a page of its own."""
    if isinstance(each, Section):
        return Frame(_alone([each], look, size, below)[0], look.seconds)
    look = replace(look, size=size)
    return Frame(page([Group("alone", (each,))], look, below), look.seconds)


def _moments(section: Section, look: Look, size: Size, below: Captions) -> Iterator[Frame]:
    """How a step is computed, cell by cell; all its moments are laid out alike."""
    if section.moments:
        told = ""
        layouts = _alone(section.moments, look, size, below)
        ways = computed(section.moments, layouts)
        for moment, way in zip(section.moments, ways, strict=True):
            share = MOMENT_SHARE if moment.about == told else OPENING_SHARE
            first = max(look.seconds * share, SHORTEST_MOMENT)
            flying = [look.seconds * FLYING_SHARE] * (len(way) - 2)
            times = [first, *flying, look.seconds * MOMENT_SHARE][: len(way)]
            yield from map(Frame, way, times)
            told = moment.about


def _alone(sections: Sequence[Section], look: Look, size: Size, below: Captions) -> list[Layout]:
    """Each on a page of its own, whose letters are as large beside it as those of a slide."""
    return stills(sections, replace(look, size=size), below)


def _pixels(size: Size, look: Look) -> tuple[int, int]:
    assert look.dpi is not None
    if max(size) * look.dpi > LARGEST_SIDE:
        raise AttnvizError(
            f"{max(size):g} inches at {look.dpi} dpi are {max(size) * look.dpi:,.0f} pixels, and "
            f"at most {LARGEST_SIDE:,} can be animated",
            f"try --dpi {int(LARGEST_SIDE / max(size))}",
        )
    return int(size[0] * look.dpi), int(size[1] * look.dpi)


def _pictures(layouts: Sequence[Layout], look: Look, size: tuple[int, int]) -> Iterator[Pixels]:
    """Moments differ in a cell and a sum, and only these are drawn again."""
    picture = _picture(layouts[0], look, size)
    yield picture
    for before, layout in itertools.pairwise(layouts):
        new = only_new(before, layout)
        if new is None:
            picture = _picture(layout, look, size)
        else:
            part, boxes = new
            picture = with_patches(picture, _picture(part, look, size), boxes, layout.size[1])
        yield picture


def _shots(layouts: Sequence[Layout], look: Look, size: tuple[int, int]) -> Iterator[Pixels]:
    """Of a film other colours are put into cells, and only charts and words are drawn again."""
    draw = partial(_picture, look=look, size=size)
    picture, cells = draw(layouts[0]), repainted(layouts[0], look, draw)
    yield picture
    for before, layout in itertools.pairwise(layouts):
        part, boxes = beside_cells(before, layout)
        picture = with_patches(picture, draw(part), boxes, layout.size[1])
        picture = cells.painted(picture, layout)
        yield picture


def _picture(layout: Layout, look: Look, size: tuple[int, int]) -> Pixels:
    """A layout in so many pixels, whatever its size in inches."""
    figure = draw_layout(layout, look)
    figure.set_dpi(size[0] / layout.size[0])
    canvas = FigureCanvasAgg(figure)
    if canvas.get_width_height() != size:  # matplotlib rounds down what is nearly a pixel more
        figure.set_size_inches((size[0] + 0.01) / figure.dpi, (size[1] + 0.01) / figure.dpi)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba(), dtype=np.uint32)  # type: ignore[no-untyped-call]
    packed: Pixels = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    return packed


def _changes(pictures: Iterable[Pixels]) -> Iterator[Pixels]:
    """Of the first picture everything, of the others what is unlike the one before."""
    before = np.array(UNCHANGED)  # no picture has this colour
    for number, picture in enumerate(pictures):
        same = before == picture
        if same.all():  # Pillow leaves out a frame that holds the same as the one before it
            same[0, number % 2] = False
        yield np.where(same, UNCHANGED, picture)
        before = picture


def _file(images: Iterator[Image.Image], seconds: Sequence[float], comment: str) -> bytes:
    """A GIF that begins again when it has ended."""
    file = io.BytesIO()
    next(images).save(
        file,
        "GIF",
        save_all=True,
        append_images=images,
        duration=[max(round(shown * 1000), SHORTEST) for shown in seconds],
        loop=0,
        disposal=1,
        comment=comment,
        optimize=False,  # the colours have their places
        interlace=False,
    )
    return file.getvalue()


WAY = (0.35, 0.7)  # so far on its way to its cell a number is shown
RING = 3.0  # points: the line around what a number is made of, and around its cell
SIGNS = (" = ", " ≈ ")


def computed(moments: Sequence[Section], layouts: Sequence[Layout]) -> Iterator[list[Layout]]:
    """For each moment a layout without the number, some with it on its way, and the last."""
    before: Layout | None = None
    for moment, layout in zip(moments, layouts, strict=True):
        new = _new_cells(before, layout)
        pooled = any(panel.grid.pooled for panel in layout.panels)
        shown = moment.cell_sources and not pooled and new.any()
        yield list(_moving(moment, layout, new)) if shown else [layout]
        before = layout


def _new_cells(before: Layout | None, layout: Layout) -> np.ndarray:
    """Which cells of the last panel are filled now, and were not; no mask hides them."""
    if not layout.panels:
        return np.zeros((0, 0), dtype=bool)
    grid = layout.panels[-1].grid
    new: np.ndarray = ~np.isnan(grid.values) & ~grid.hidden
    if before is None or before.panels[-1].grid.values.shape != new.shape:
        return new
    return np.asarray(new & np.isnan(before.panels[-1].grid.values))


def _moving(moment: Section, layout: Layout, new: np.ndarray) -> Iterator[Layout]:
    *others, target = layout.panels
    rings = tuple(_ring(_box(layout.panels[part[0]], part)) for part in moment.cell_sources)
    cell = _around(target, new)
    empty = replace(
        target,
        grid=target.grid.with_values(np.where(new, np.nan, target.grid.values)),
        numbers=np.where(new, "", target.numbers) if target.numbers.size else target.numbers,
    )
    unfilled = replace(layout, panels=(*others, empty), strokes=rings)
    number = _result(moment, layout)
    if number is not None:
        line, result = number
        rest = tuple(word for word in layout.words if word is not line)
        start = line.text.removesuffix(result.text)
        words = (*rest, replace(line, text=start.rstrip().rstrip("=≈").rstrip()))
        yield replace(unfilled, words=words)
        unfilled = replace(unfilled, strokes=(*rings, _ring(cell)))
        yield unfilled
        middle = cell[0] + cell[2] / 2, cell[1] + cell[3] / 2
        for share in WAY:
            x = result.x + share * (middle[0] - result.x)
            y = result.y + share * (middle[1] - result.y)
            flying = replace(result, x=x, y=y, bold=True)
            yield replace(unfilled, words=(*words, flying))
    yield replace(layout, strokes=(_ring(cell),))


def _result(moment: Section, layout: Layout) -> tuple[Words, Words] | None:
    """The last line of a sum, and the number that it ends with, where that stands."""
    for total in moment.sums:
        for line in layout.words:
            if total.result and any(line.text.endswith(f"{s}{total.result}") for s in SIGNS):
                before = text_width(line.text.removesuffix(total.result), line.size)
                middle = line.x + before + text_width(total.result, line.size) / 2
                return line, replace(line, text=total.result, x=middle, across="center")
    return None


def _box(panel: Panel, part: CellSource) -> Box:
    _, row, column = part
    new = np.zeros(panel.grid.values.shape, dtype=bool)
    new[slice(None) if row is None else row, slice(None) if column is None else column] = True
    return _around(panel, new)


def _around(panel: Panel, cells: np.ndarray) -> Box:
    """The box that holds some cells of a panel."""
    rows, columns = (np.flatnonzero(cells.any(axis=axis)) for axis in (1, 0))
    left, bottom, width, height = panel.box
    wide, high = width / cells.shape[1], height / cells.shape[0]
    foot = bottom + height - (rows[-1] + 1) * high
    size = (columns[-1] + 1 - columns[0]) * wide, (rows[-1] + 1 - rows[0]) * high
    return left + float(columns[0]) * wide, float(foot), float(size[0]), float(size[1])


def _ring(box: Box) -> Stroke:
    left, bottom, width, height = box
    right, top = left + width, bottom + height
    corners = (left, bottom), (right, bottom), (right, top), (left, top)
    return Stroke((*corners, corners[0], corners[1]), RING, series=1)


FRAME = (12.8, 7.2)  # inches: 16:9
FIRST_SHARE_OF_FILM, LAST_SHARE_OF_FILM = (
    0.2,
    0.8,
)  # of the time of a film, that its ends are shown beside
SHORTEST_SHOT = 0.04  # seconds


@dataclass(frozen=True, eq=False)
class Frame:
    layout: Layout
    seconds: float


def filmed(view: View, look: Look, captions: Captions) -> Iterator[Frame]:
    """A frame for each shot; all leave the room that the longest headline needs."""
    titles = [view.headline if view.titled else shot.title for shot in view.film]
    around = [captions_with_glyphs(replace(captions, title=title)) for title in titles]
    size = look.size or FRAME
    letters = lettering(look.size or FRAME, look.text_size)
    frames = [framed(each, size, letters) for each in around]
    room = min((frame.room for frame in frames), key=lambda room: room[3])
    each = max(look.seconds / len(frames), SHORTEST_SHOT)
    ends = {
        0: FIRST_SHARE_OF_FILM * look.seconds,
        len(frames) - 1: LAST_SHARE_OF_FILM * look.seconds,
    }
    for place, (shot, frame) in enumerate(zip(view.film, frames, strict=True)):
        groups = pooled(groups_with_glyphs(shot.groups), look)
        drawing = drawing_of(groups)
        assert drawing is not None, "a film of what has no page of its own"
        layout = drawing.place(room, letters)
        whole = replace(layout, size=size, words=(*layout.words, *frame.words()))
        yield Frame(whole, each + ends.get(place, 0.0))


Pixels = Shaped[np.ndarray, "down across"]  # red, green and blue of a pixel in one number
Draw = Callable[[Layout], Pixels]
Picture = Float[np.ndarray, "down across 3"]
Color = Float[np.ndarray, "3"]


@dataclass(frozen=True, eq=False)
class Canvas:
    """The pixels of a panel: how much of each is of its cell, and which cell that is."""

    rows: slice
    columns: slice
    low: Float[np.ndarray, "down across 3"]  # the picture of cells at the low end
    share: Float[np.ndarray, "down across 1"]
    row: Shaped[np.ndarray, "down 1"]
    column: Shaped[np.ndarray, "1 across"]

    def painted(self, colors: Float[np.ndarray, "row column 3"], lowest: Color) -> Pixels:
        """With these colours in the cells."""
        return _packed(self.low + self.share * (colors[self.row, self.column] - lowest))


@dataclass(frozen=True, eq=False)
class Repainted:
    """A page on which only the colours of cells change."""

    canvases: tuple[Canvas, ...]
    look: Look

    def painted(self, picture: Pixels, layout: Layout) -> Pixels:
        """A picture with the cells of this layout, whatever was in them."""
        made = np.array(picture)
        for canvas, panel in zip(self.canvases, layout.panels, strict=True):
            lowest, _ = _ends(panel, self.look)
            colors = _colors(panel, self.look)
            made[canvas.rows, canvas.columns] = canvas.painted(colors, lowest)
        return made


def repainted(layout: Layout, look: Look, draw: Draw) -> Repainted:
    """What is found out of a layout by drawing it twice."""
    low, high = (_unpacked(draw(_with_all(layout, end))) for end in ("low", "high"))
    canvases = (_canvas(panel, layout, low, high, look) for panel in layout.panels)
    return Repainted(tuple(canvases), look)


def _with_all(layout: Layout, end: str) -> Layout:
    """With all cells at one end of their scale."""
    return replace(layout, panels=tuple(_at_an_end(panel, end) for panel in layout.panels))


def _at_an_end(panel: Panel, end: str) -> Panel:
    grid = panel.grid
    value = getattr(grid.scale, end)
    return replace(panel, grid=grid.with_values(np.full(grid.values.shape, value)))


def _canvas(panel: Panel, layout: Layout, low: Picture, high: Picture, look: Look) -> Canvas:
    (down, across, _), (left, bottom, width, height) = low.shape, panel.box
    pixels = across / layout.size[0]
    top = down - (bottom + height) * pixels  # counted from below, where a page ends at a pixel
    rows, row = _places(top, height * pixels, len(panel.grid.rows), down)
    columns, column = _places(left * pixels, width * pixels, len(panel.grid.columns), across)
    lowest, highest = _ends(panel, look)
    told = int(abs(highest - lowest).argmax())  # the channel that tells the two ends best
    part = low[rows, columns]
    share = (high[rows, columns] - part)[..., told] / (highest - lowest)[told]
    return Canvas(rows, columns, part, share[..., None], row[:, None], column[None, :])


def _places(
    start: float, length: float, count: int, most: int
) -> tuple[slice, Shaped[np.ndarray, "pixel"]]:
    """The pixels of one side of a panel, and at which of its cells each of them is."""
    part = slice(max(int(start) - 1, 0), min(int(start + length) + 2, most))
    shares = (np.arange(part.start, part.stop) + 0.5 - start) / length
    return part, np.clip((shares * count).astype(int), 0, count - 1)


def _ends(panel: Panel, look: Look) -> tuple[Color, Color]:
    """The colours of the two ends of its scale."""
    anchors = color_anchors(look.palette, look.theme, panel.grid.scale.kind)
    return anchors[0], anchors[-1]


def _colors(panel: Panel, look: Look) -> Float[np.ndarray, "row column 3"]:
    grid, anchors = panel.grid, color_anchors(look.palette, look.theme, panel.grid.scale.kind)
    values = np.nan_to_num(grid.values)
    colors: Float[np.ndarray, "row column 3"] = color_values(
        grid.scale.shares(values), 0, 1, anchors
    ).astype(float)
    return colors


def _unpacked(pixels: Pixels) -> Picture:
    return np.stack([pixels >> 16, pixels >> 8 & 255, pixels & 255], axis=-1).astype(float)


def _packed(channels: Picture) -> Pixels:
    whole = np.clip(channels.round(), 0, 255).astype(np.uint32)
    packed: Pixels = whole[..., 0] << 16 | whole[..., 1] << 8 | whole[..., 2]
    return packed


COMMON = 160  # colours that are kept as they are; the other places go to what the rest are like
COLORS = 255  # and one more for what shows the frame before
UNCHANGED = 1 << 24  # behind the last colour

Row = Shaped[np.ndarray, "color"]


def indexed(pixels: Pixels) -> Image.Image:
    """At most 255 colours, those of the largest areas as they are, and one that is transparent."""
    found = _colors_by_area(pixels)
    kept = found if len(found) <= COLORS else _fewer(found)
    nearest = np.empty(UNCHANGED + 1, dtype=np.uint8)  # a table by colour, with few entries
    nearest[UNCHANGED] = COLORS
    nearest[found] = _most_alike(found, kept)
    image = Image.fromarray(nearest[pixels], mode="P")
    image.putpalette(_channels(kept).astype(np.uint8).tobytes().ljust(3 * (COLORS + 1), b"\0"))
    image.info["transparency"] = COLORS
    return image


def _colors_by_area(pixels: Pixels) -> Row:
    """Each colour once, that of the largest area first; counted by runs, of which there are few."""
    row = pixels.ravel()
    starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
    lengths = np.diff(np.append(starts, len(row)))
    found, which = np.unique(row[starts], return_inverse=True)
    colors: Row = found[np.argsort(-np.bincount(which, weights=lengths), kind="stable")]
    seen: Row = colors[colors != UNCHANGED]
    return seen


def _most_alike(colors: Row, kept: Row) -> Row:
    """For each colour the place of the nearest of those that are kept."""
    near = _channels(kept)
    # (a - b)² = a² - 2ab + b², and a² is the same for all that are compared.
    distances = (near**2).sum(axis=1) - 2 * _channels(colors) @ near.T
    places: Row = distances.argmin(axis=1)
    return places


def _fewer(colors: Row) -> Row:
    """The first ones, and a few that stand for all the others."""
    rest = Image.fromarray(_channels(colors[COMMON:]).astype(np.uint8)[None])
    summed_up = rest.quantize(COLORS - COMMON, kmeans=1, dither=Image.Dither.NONE)
    channels = np.array(summed_up.getpalette(), dtype=np.uint32).reshape(-1, 3)
    few = channels[:, 0] << 16 | channels[:, 1] << 8 | channels[:, 2]
    kept: Row = np.concatenate([colors[:COMMON], few[: COLORS - COMMON]])
    return kept


def _channels(colors: Shaped[np.ndarray, "color"]) -> Shaped[np.ndarray, "color 3"]:
    return np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=-1).astype(np.float64)
