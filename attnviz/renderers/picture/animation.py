"""Sections one after another, or the shots of a film: a GIF that a slide plays by itself.

Every frame holds only what is new in it, and has a palette of its own; Pillow writes the file.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from attnviz.errors import AttnvizError, Note
from attnviz.renderers import Look
from attnviz.renderers.picture.computing import computed
from attnviz.renderers.picture.drawing import draw_layout
from attnviz.renderers.picture.film import FRAME as FRAME
from attnviz.renderers.picture.film import Frame, filmed
from attnviz.renderers.picture.frame import Captions
from attnviz.renderers.picture.glyphs import captions_with_glyphs, groups_with_glyphs, hermetic
from attnviz.renderers.picture.image import captions_of, pooled
from attnviz.renderers.picture.lettering import Size
from attnviz.renderers.picture.pages import page
from attnviz.renderers.picture.palettes import UNCHANGED, Pixels, indexed
from attnviz.renderers.picture.placed import Layout
from attnviz.renderers.picture.redrawing import beside_cells, only_new, with_patches
from attnviz.renderers.picture.repainting import repainted
from attnviz.renderers.picture.stills import stills
from attnviz.renderers.provenance import provenance_of
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Drawable, Section, opened
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
    panels = [panel for group in groups for panel in group.all]
    scales = {each.scale.label: each.scale for each in opened(panels) if isinstance(each, Grid)}
    return [
        replace(group, panels=tuple(_scaled(panel, scales) for panel in group.panels))
        for group in groups
    ]


def _scaled(panel: Drawable, scales: Mapping[str, Scale]) -> Drawable:
    return panel.scaled(scales) if isinstance(panel, Section) else panel


def _frames(
    groups: Sequence[Group], look: Look, captions: Captions, below: Captions
) -> Iterator[Frame]:
    """Every frame has the same small print: nothing may jump."""
    panels = [panel for group in groups for panel in group.all]
    moving = [each for each in panels if isinstance(each, Section)]
    whole = _on_a_slide(groups, look, captions) if moving else page(groups, look, captions)
    frames = [Frame(whole, look.seconds * LAST_SHARE)]
    computing = [each for each in moving if any(one.made_of for one in each.moments)]
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
    grids = [each for each in opened([each]) if isinstance(each, Grid)]
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
