"""Views as slides: a title and a caption that can be edited, and a picture between them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pptx.enum.dml import MSO_THEME_COLOR
from pptx.util import Pt

from attnviz.errors import Note, mention
from attnviz.renderers import Look
from attnviz.renderers.look import refuse_small_slides
from attnviz.renderers.picture.image import between
from attnviz.renderers.picture.lettering import SLIDE, Lettering, lettering
from attnviz.renderers.slides.divided import Slide, divided
from attnviz.renderers.slides.master import CAPTION, PICTURE, TITLE, layout_of, put, started
from attnviz.renderers.slides.notes import notes_of
from attnviz.renderers.slides.package import packed
from attnviz.renderers.slides.places import Places, places_for
from attnviz.renderers.slides.words import Paragraph, Words, is_drawn, words_of
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.view import Group, Page, View

LARGEST = 1.5  # times as large as usual: words around a picture, which needs the room

if TYPE_CHECKING:
    from pptx.presentation import Presentation


def pptx(view: View, look: Look) -> list[bytes]:
    """A slide for all that is shown, and one for each head, way or step."""
    size = look.size or SLIDE
    refuse_small_slides(size)
    look, slides = replace(look, size=size), divided(view)
    letters = lettering(size, min(look.text_size, LARGEST))
    words = [words_of(each.view, look, letters) for each in slides]
    places = _places(slides, words, look, letters)
    deck = started(look, places[-1], letters)
    for slide, said, where in zip(slides, words, places, strict=True):
        _add(deck, slide, said, where, look)
    if left_out := slides[0].left_out:
        mention(left_out)
    return [packed(deck, view)]


def _places(
    slides: Sequence[Slide], words: Sequence[Words], look: Look, letters: Lettering
) -> list[Places]:
    """The same for panels of one kind, between which one turns back and forth."""
    assert look.size is not None
    alike: dict[str, list[Words]] = {}
    for slide, said in zip(slides, words, strict=True):
        alike.setdefault(slide.kind, []).append(said)
    found = {kind: places_for(each, look.size, letters) for kind, each in alike.items()}
    return [found[slide.kind] for slide in slides]


def _add(deck: Presentation, slide: Slide, said: Words, where: Places, look: Look) -> None:
    """A slide, in the order in which it is read aloud."""
    added, view = deck.slides.add_slide(layout_of(deck)), slide.view
    parts = {each.placeholder_format.idx: each for each in added.placeholders}
    _write(parts[TITLE], [said.title])
    _write(parts[CAPTION], said.caption)
    put(parts[TITLE], where.title)
    if is_drawn(view):
        put(parts[CAPTION], where.caption)
        _insert(parts[PICTURE], view, where, look)
    else:
        put(parts[CAPTION], where.room)
        parts[PICTURE].element.getparent().remove(parts[PICTURE].element)
    first = len(deck.slides) == 1
    added.notes_slide.notes_text_frame.text = notes_of(slide, said, first=first)


def _insert(placeholder: Any, view: View, where: Places, look: Look) -> None:
    """A picture, and in words what it shows."""
    picture = placeholder.insert_picture(io.BytesIO(_picture(view, where, look)))
    picture.crop_left = picture.crop_right = picture.crop_top = picture.crop_bottom = 0
    picture.element.nvPicPr.cNvPr.set("descr", view.picture.description)
    put(picture, where.picture)


def _write(shape: Any, paragraphs: Sequence[Paragraph]) -> None:
    """Words in a placeholder: in the fonts of its theme, and its own size where they fit."""
    frame = shape.text_frame
    for number, each in enumerate(paragraphs):
        paragraph = frame.add_paragraph() if number else frame.paragraphs[0]
        run = paragraph.add_run()
        run.text, run.font.size = each.text, Pt(each.size)
        if each.faint:
            run.font.color.theme_color = MSO_THEME_COLOR.TEXT_2


def _picture(view: View, where: Places, look: Look) -> bytes:
    """What is shown, without the words that stand around it."""
    groups = tuple(map(_bare, view.picture.groups)) if _is_alone(view) else view.picture.groups
    drawn = replace(view, picture=Page(groups))
    with warnings.catch_warnings():
        # That it is full, and what makes several pages of it: here are several.
        warnings.filterwarnings("ignore", message=".*{page}", category=Note)
        return between(drawn, look, where.above, where.below)


def _is_alone(view: View) -> bool:
    """Whether the title of a slide says what its panel would say again."""
    return len(view.picture.panels) == 1


def _bare(group: Group) -> Group:
    return replace(group, panels=tuple(map(_without_words, group.panels)))


def _without_words(panel: Drawable) -> Drawable:
    if isinstance(panel, Section):
        return replace(panel, number="", title="", about="", grids=panel.tables)
    if isinstance(panel, Arcs | Sentence | Ranked):
        return replace(panel, grid=replace(panel.grid, title=""))
    return replace(panel, title="")
