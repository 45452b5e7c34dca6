"""Sections one after another: an animated GIF that a slide plays by itself.

Every frame holds only what is new in it, and has a palette of its own.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Shaped
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import GifImagePlugin, Image

from attnviz.renderers import Look
from attnviz.renderers.picture.image import (
    draw_layout,
    hermetic,
    pooled,
    with_glyphs,
    words_with_glyphs,
)
from attnviz.renderers.picture.layout import Layout
from attnviz.renderers.picture.pages import PAGES, page, stills
from attnviz.renderers.picture.redrawing import only_new, patched
from attnviz.views.grids.grids import Drawable, Grid, Scale, Section, opened

PIXELS_PER_INCH = 100
LONGEST_SIDE = 1920  # pixels
SMALL_PAGES = (8.0, 9.6, 11.2)  # inches wide: the first in which the numbers of a step can be read
MOMENT_SHARE, SHORTEST_MOMENT, LAST_SHARE = 0.6, 0.2, 2.0  # of the time for a step; seconds
COMMON = 160  # colours that are kept as they are; the other places go to what the rest are like
COLORS = 255  # and one more for what shows the frame before
UNCHANGED = 1 << 24  # behind the last colour
SHORTEST = 20  # thousandths of a second: players take less for a mistake

Row = Shaped[np.ndarray, "color"]
Pixels = Shaped[np.ndarray, "down across"]  # red, green and blue of a pixel in one number


@dataclass(frozen=True, eq=False)
class Frame:
    layout: Layout
    seconds: float


@dataclass(frozen=True, eq=False)
class Change:
    """What is new in a picture, and where it is."""

    left: int
    top: int
    pixels: Pixels


def gif(drawn: Sequence[Drawable], look: Look) -> bytes:
    """Each step, then the moments of those that have some, and at last all steps on one page."""
    given = look.dpi
    look = replace(look, dpi=look.dpi or PIXELS_PER_INCH, transparent=False)
    with hermetic(drawn, look):
        look = words_with_glyphs(look)
        frames = list(_frames(_of_one_scale(drawn, look), look))
        size = _pixels(frames[-1].layout.size, look if given else _coarser(look, frames[-1].layout))
        changes = list(_changes(_pictures([frame.layout for frame in frames], look, size)))
    return _file(changes, [frame.seconds for frame in frames], look.provenance)


def _coarser(look: Look, layout: Layout) -> Look:
    """Unless somebody said how fine, a very large page has fewer pixels to an inch."""
    return replace(look, dpi=min(PIXELS_PER_INCH, int(LONGEST_SIDE / max(layout.size))))


def _of_one_scale(drawn: Sequence[Drawable], look: Look) -> list[Drawable]:
    """As on one page together, moments as well: a colour means one number in all frames."""
    made = pooled([with_glyphs(each) for each in drawn], look)
    scales = {each.scale.label: each.scale for each in opened(made) if isinstance(each, Grid)}
    return [_scaled(each, scales) if isinstance(each, Section) else each for each in made]


def _scaled(section: Section, scales: dict[str, Scale]) -> Section:
    grids = (replace(g, scale=scales.get(g.scale.label, g.scale)) for g in section.grids)
    moments = tuple(_scaled(moment, scales) for moment in section.moments)
    return replace(section, grids=tuple(grids), moments=moments)


def _frames(drawn: Sequence[Drawable], look: Look) -> Iterator[Frame]:
    shown = [each for each in drawn if each]
    moving = [each for each in shown if isinstance(each, Section)]
    alone = len(shown) == 1
    whole = _on_a_slide(drawn, look) if moving else page(drawn, look)
    if not alone or any(each.moments for each in moving):
        bare = replace(look, title="", caption="", columns=None)
        for each in shown:
            yield _step(each, bare, whole.size)
        for each in moving:
            yield from _moments(each, bare, whole.size)
    yield Frame(whole, look.seconds * LAST_SHARE)


def _on_a_slide(drawn: Sequence[Drawable], look: Look) -> Layout:
    """All steps on one page, which never grows larger than a slide: every frame has its pixels."""
    if len([each for each in drawn if each]) == 1:
        return page(drawn, replace(look, size=look.size or PAGES[0]))
    made = page(drawn, look)
    if look.size or made.size in PAGES:
        return made
    return page(drawn, replace(look, size=PAGES[-1]))


def _step(each: Drawable, look: Look, size: tuple[float, float]) -> Frame:
    """A step on a page of its own; one of words alone is read as fast as a moment."""
    if isinstance(each, Section):
        seconds = look.seconds if each.grids else _of_a_moment(look)
        return Frame(_readable([each], look, size)[0], seconds)
    return Frame(page([each], replace(look, size=_smaller(size, SMALL_PAGES[0]))), look.seconds)


def _moments(section: Section, look: Look, size: tuple[float, float]) -> Iterator[Frame]:
    """How a step is computed, cell by cell; all its moments are laid out alike."""
    if section.moments:
        for layout in _readable(section.moments, look, size):
            yield Frame(layout, _of_a_moment(look))


def _of_a_moment(look: Look) -> float:
    return max(look.seconds * MOMENT_SHARE, SHORTEST_MOMENT)


def _readable(sections: Sequence[Section], look: Look, size: tuple[float, float]) -> list[Layout]:
    """On as small a page, that is in as large letters, as lets all numbers be read."""
    for width in SMALL_PAGES:
        made = stills(sections, replace(look, size=_smaller(size, width)))
        if all(panel.number_size for layout in made for panel in layout.panels):
            break
    return made


def _smaller(size: tuple[float, float], width: float) -> tuple[float, float]:
    """A page of the same shape, no wider than so much, nor higher than a slide of that width."""
    share = min(1.0, width / size[0], width * 9 / 16 / size[1])
    return size[0] * share, size[1] * share


def _pixels(size: tuple[float, float], look: Look) -> tuple[int, int]:
    assert look.dpi is not None
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
            picture = patched(picture, _picture(part, look, size), boxes, layout.size[1])
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


def _changes(pictures: Iterable[Pixels]) -> Iterator[Change]:
    """Of the first picture everything, of the others the part that is unlike the one before."""
    before: Pixels | None = None
    for picture in pictures:
        yield Change(0, 0, picture) if before is None else _changed(before, picture)
        before = picture


def _changed(before: Pixels, picture: Pixels) -> Change:
    same = before == picture
    down, across = np.nonzero(~same)
    if not down.size:  # a frame like the one before is one all the same
        return Change(0, 0, picture[:1, :1])
    left, right, top, bottom = across.min(), across.max() + 1, down.min(), down.max() + 1
    new = np.where(same, UNCHANGED, picture)[top:bottom, left:right]
    return Change(int(left), int(top), new.astype(np.uint32))


def _indexed(pixels: Pixels) -> Image.Image:
    """At most 255 colours, those of the largest areas as they are, and one that is transparent."""
    found = _colors(pixels)
    kept = found if len(found) <= COLORS else _fewer(found)
    nearest = np.empty(UNCHANGED + 1, dtype=np.uint8)  # a table by colour, with few entries
    nearest[UNCHANGED] = COLORS
    nearest[found] = _most_alike(found, kept)
    image = Image.fromarray(nearest[pixels], mode="P")
    image.putpalette(_channels(kept).astype(np.uint8).tobytes().ljust(3 * (COLORS + 1), b"\0"))
    return image


def _colors(pixels: Pixels) -> Row:
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


def _file(changes: Sequence[Change], seconds: Sequence[float], comment: str) -> bytes:
    """A GIF that begins again when it has ended.

    Put together here, for Pillow leaves out a frame that is like the one before it.
    """
    height, width = changes[0].pixels.shape
    parts = [b"GIF89a", struct.pack("<HHBBB", width, height, 0x70, 0, 0)]
    if len(changes) > 1:
        parts += [b"!\xff", *_blocks(b"NETSCAPE2.0", b"\x01\x00\x00")]
    if comment:
        text = comment.encode()
        parts += [b"!\xfe", *_blocks(*(text[at : at + 255] for at in range(0, len(text), 255)))]
    for change, shown in zip(changes, seconds, strict=True):
        parts += GifImagePlugin.getdata(
            _indexed(change.pixels),
            (change.left, change.top),
            duration=max(round(shown * 1000), SHORTEST),
            include_color_table=True,
            transparency=COLORS,
            disposal=1,
        )
    return b"".join([*parts, b";"])


def _blocks(*blocks: bytes) -> Iterator[bytes]:
    """Each behind its length, and an empty one as the end."""
    for block in (*blocks, b""):
        yield bytes([len(block)]) + block
