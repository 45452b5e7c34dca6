"""A View divided into slides: pictures, titles, speaker notes; the file as bytes."""

from __future__ import annotations

import html
import io
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from pptx.enum.dml import MSO_THEME_COLOR
from pptx.util import Pt

from attnviz.errors import Note, warn_with_note
from attnviz.renderers import Look
from attnviz.renderers.look import refuse_small_slides
from attnviz.renderers.picture.matrix import distinct_titles
from attnviz.renderers.picture.still_pictures import HATCHED_NOTE, crop_picture
from attnviz.renderers.picture.text import SLIDE, Lettering, lettering
from attnviz.renderers.wrapping import align_sums
from attnviz.views.grids.description import has_masked_cells, panel_notes
from attnviz.views.grids.long_map import LongMap
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import FINDINGS_GROUP, Group, Page, View, build_page
from attnviz.wings.slides.master import (
    CAPTION_PLACEHOLDER,
    ELLIPSIS,
    PICTURE_PLACEHOLDER,
    TITLE_PLACEHOLDER,
    SlideBoxes,
    SlideParagraph,
    SlideWords,
    boxes_for,
    has_drawing,
    set_box,
    slide_layout,
    slide_words_for,
    start_deck,
)

if TYPE_CHECKING:
    from pptx.presentation import Presentation

MAX_TEXT_SCALE = 1.5  # larger words would leave the picture no room
MAX_PANEL_SLIDES = 40  # with a single panel each
LEFT_OUT_SENTENCE = (
    "{left} of {count} panels have no slide of their own and are only on the first one"
)
TITLE_SEPARATOR = " · "
MATRIX_LETTER_SEPARATOR = "  "  # behind the letter that an equation has for a matrix
CORE_PROPERTIES_PART = "docProps/core.xml"
CORE_NAMESPACES = (
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def pptx(view: View, look: Look) -> list[bytes]:
    """Return the bytes of a deck: a slide for each step; or one for all panels, then one for each.

    Refuses slides that are too small; warns if there are too many panels.
    """
    size = look.size or SLIDE
    refuse_small_slides(size)
    look, slides = replace(look, size=size), divide_into_slides(view)
    factor = min(look.text.factor, MAX_TEXT_SCALE)
    letters = lettering(size, replace(look.text, factor=factor))
    words = [slide_words_for(slide.view, look, letters) for slide in slides]
    boxes_by_slide = _slide_layouts(slides, words, look, letters)
    deck = start_deck(look, boxes_by_slide[-1], letters)
    for slide, slide_words, boxes in zip(slides, words, boxes_by_slide, strict=True):
        _add_slide(deck, slide, slide_words, boxes, look)
    if left_out_note := slides[0].left_out_note:
        warn_with_note(left_out_note)
    return [deck_bytes(deck, view)]


def _slide_layouts(
    slides: Sequence[Slide], words: Sequence[SlideWords], look: Look, letters: Lettering
) -> list[SlideBoxes]:
    """Return the boxes of each slide, the same for slides of one kind."""
    assert look.size is not None
    pairs = list(zip(slides, words, strict=True))
    boxes_by_kind = {
        kind: boxes_for([own for slide, own in pairs if slide.kind == kind], look.size, letters)
        for kind in {slide.kind for slide in slides}
    }
    return [boxes_by_kind[slide.kind] for slide in slides]


def _add_slide(
    deck: Presentation, slide: Slide, slide_words: SlideWords, boxes: SlideBoxes, look: Look
) -> None:
    """Add a slide to the deck: title, caption, picture (if there is one) and speaker notes.

    `boxes`: where they stand. Without a picture the caption fills the slide.
    """
    new_slide, view = deck.slides.add_slide(slide_layout(deck)), slide.view
    parts = {shape.placeholder_format.idx: shape for shape in new_slide.placeholders}
    _write_paragraphs(parts[TITLE_PLACEHOLDER], [slide_words.title])
    _write_paragraphs(parts[CAPTION_PLACEHOLDER], slide_words.caption)
    set_box(parts[TITLE_PLACEHOLDER], boxes.title)
    if has_drawing(view):
        set_box(parts[CAPTION_PLACEHOLDER], boxes.caption)
        _insert_picture(parts[PICTURE_PLACEHOLDER], view, boxes, look)
    else:
        set_box(parts[CAPTION_PLACEHOLDER], boxes.words_only_box)
        parts[PICTURE_PLACEHOLDER].element.getparent().remove(parts[PICTURE_PLACEHOLDER].element)
    first = len(deck.slides) == 1
    new_slide.notes_slide.notes_text_frame.text = speaker_notes(slide, slide_words, first=first)


def _insert_picture(placeholder: Any, view: View, boxes: SlideBoxes, look: Look) -> None:
    """Insert a view's picture into its box, with its description as alternative text."""
    picture = placeholder.insert_picture(io.BytesIO(_slide_picture_bytes(view, boxes, look)))
    picture.crop_left = picture.crop_right = picture.crop_top = picture.crop_bottom = 0
    picture.element.nvPicPr.cNvPr.set("descr", view.picture.description)
    set_box(picture, boxes.picture)


def _write_paragraphs(shape: Any, paragraphs: Sequence[SlideParagraph]) -> None:
    """Write paragraphs into a placeholder, each in letters of its own size; faint ones in grey."""
    frame = shape.text_frame
    for number, words in enumerate(paragraphs):
        paragraph = frame.add_paragraph() if number else frame.paragraphs[0]
        run = paragraph.add_run()
        run.text, run.font.size = words.text, Pt(words.size)
        if words.faint:
            run.font.color.theme_color = MSO_THEME_COLOR.TEXT_2


def _slide_picture_bytes(view: View, boxes: SlideBoxes, look: Look) -> bytes:
    """Return the picture of a view as a file, without the words that the slide has around it."""
    groups = view.picture.groups
    if len(view.picture.panels) == 1:  # the title of the slide says what its panel would repeat
        groups = tuple(group.with_panels(_panel_without_title) for group in groups)
    picture_view = replace(view, picture=Page(groups))
    with warnings.catch_warnings():
        # A full picture warns that {page} would give several: a deck has several slides.
        warnings.filterwarnings("ignore", message=".*{page}", category=Note)
        return crop_picture(picture_view, look, boxes.title_end, boxes.caption_start)


def _panel_without_title(panel: Drawable) -> Drawable:
    """Return a panel without its title; a step also without number and text, with its tables."""
    if isinstance(panel, Section):
        return replace(panel, number="", title="", about="", grids=panel.tables)
    if isinstance(panel, Arcs | LongMap | Sentence | RankedBars):
        return replace(panel, grid=replace(panel.grid, title=""))
    return replace(panel, title="")


def speaker_notes(slide: Slide, slide_words: SlideWords, *, first: bool) -> str:
    """Return a slide's notes: full texts of what was cut, steps, how to read it, and the command.

    `first`: the slide also has the concluding sentences of the view.
    """
    view = slide.view
    title = view.headline if slide_words.title.text.endswith(ELLIPSIS) else ""
    parts = [title, *(view.notes if first else ()), *_step_notes(view), _reading_note(view)]
    parts += [slide.left_out_note, view.settings, *_command_note(view)]
    return "\n".join(filter(None, parts))


def _step_notes(view: View) -> Iterator[str]:
    """Yield the text, formula, shapes, sums and remarks of each step in the view's picture."""
    for panel in view.picture.panels:
        if isinstance(panel, Section):
            yield from (panel.about, panel.formula, panel.shapes)
            yield from align_sums(panel.sums)
            yield from panel.remarks


def _reading_note(view: View) -> str:
    """Return what rows, columns, colours, hatching and numbers mean, and the caveat."""
    panels = view.picture.panels
    hatched = HATCHED_NOTE if has_masked_cells(panels) else ""
    return " · ".join(filter(None, (*panel_notes(panels), hatched, view.picture.caveat)))


def _command_note(view: View) -> Iterator[str]:
    """Yield 'Made with: …', the command that made the view or would make it, if there is one."""
    typed_command = view.provenance.command if view.provenance else None
    if command := typed_command or (view.command.line if view.command else ""):
        yield f"Made with: {command}"


def deck_bytes(deck: Presentation, view: View) -> bytes:
    """Return the bytes of the deck, the same every time: without dates and authors."""
    original, repacked = io.BytesIO(), io.BytesIO()
    deck.save(original)
    with ZipFile(original) as parts, ZipFile(repacked, "w") as file:
        for name in parts.namelist():
            content = _core_properties(view) if name == CORE_PROPERTIES_PART else parts.read(name)
            kind = ZIP_STORED if name.endswith(".png") else ZIP_DEFLATED
            file.writestr(ZipInfo(name), content, kind)  # a ZipInfo is dated 1980
    return repacked.getvalue()


def _core_properties(view: View) -> bytes:
    """Return the XML with the file's title and subject, and the provenance as its comments."""
    properties = {
        "dc:title": view.headline or view.title,
        "dc:subject": view.picture.description,
        "dc:creator": "attnviz",
        "dc:description": view.provenance_text,
    }
    inner = "".join(
        f"<{name}>{html.escape(text)}</{name}>" for name, text in properties.items() if text
    )
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return f"{head}\n<cp:coreProperties {CORE_NAMESPACES}>{inner}</cp:coreProperties>".encode()


@dataclass(frozen=True, eq=False)
class Slide:
    """A slide of the deck: the view whose picture, headline and caption it shows."""

    view: View
    left_out_note: str = ""  # which panels have no slide, and how they would get one
    kind: str = ""  # slides of one kind have the same boxes


def divide_into_slides(view: View) -> list[Slide]:
    """Return a slide for each step; or one for all panels, then one for each of up to 40 panels."""
    sections = view.sections
    if sections and len(sections) == len(view.picture.panels):
        return [Slide(_step_view(view, section), kind=section.name) for section in sections]
    parts = [
        part
        for group in view.slide_excerpt.groups
        for part in _split_group(group)
        if not _is_on_first_slide(part, view)
    ]
    if not parts:
        return [Slide(view, view.slide_excerpt.hint)]
    shown_parts = parts[:MAX_PANEL_SLIDES]
    counts = {"left": len(parts) - MAX_PANEL_SLIDES, "count": len(parts)}
    left_out_note = LEFT_OUT_SENTENCE.format(**counts) if counts["left"] > 0 else ""
    first = Slide(view, view.slide_excerpt.hint or left_out_note)
    return [first, *map(partial(_panel_slide, view), shown_parts, _slide_titles(view, shown_parts))]


def _is_on_first_slide(part: Group, view: View) -> bool:
    panels = view.picture.panels
    return len(panels) == len(part.panels) and all(
        one is other or (isinstance(one, Overview) and isinstance(other, Overview))
        for one, other in zip(panels, part.panels, strict=True)  # there is only one overview
    )


def _step_view(view: View, section: Section) -> View:
    """Return the view of one step; a title given by the user stands before the step's."""
    step = view.of_section(section)
    headline = TITLE_SEPARATOR.join((view.headline, section.heading))
    return replace(step, headline=headline) if view.has_chosen_title else step


def _split_group(group: Group) -> Iterator[Group]:
    """Yield each panel of a group as a group of its own, then the panel that stands below it.

    An equation stays whole; a group that is the history of a training yields nothing.
    """
    if group.kind == "product":
        yield group
    elif group.kind != "course":
        for panel, below, over in zip_longest(group.panels, group.below, group.panel_titles):
            yield Group(group.name, (panel,), panel_titles=(over,) if over else ())
            if below is not None:
                titled_panel = replace(below, title=f"{_panel_title(panel)} {below.title}")
                yield Group(group.name, (titled_panel,))


def _slide_titles(view: View, parts: Sequence[Group]) -> list[str]:
    """Return a title for each slide: its finding, or what it shows; repeated titles are numbered.

    A title given by the user stands on every slide.
    """
    names = distinct_titles([_panel_title(part.panels[-1]) for part in parts], [""])
    titles = [
        part.panel_titles[0].text
        if part.name == FINDINGS_GROUP and not view.has_chosen_title
        else TITLE_SEPARATOR.join(filter(None, (_common_title(view, part), name)))
        for part, name in zip(parts, names, strict=True)
    ]
    counts, title_counts = Counter([view.headline, *titles]), Counter([view.headline])
    numbered_titles = []
    for title in titles:
        title_counts[title] += 1
        numbered_titles.append(f"{title} ({title_counts[title]})" if counts[title] > 1 else title)
    return numbered_titles


def _common_title(view: View, part: Group) -> str:
    """Return what stands before a panel's name: the headline if it covers the panel.

    Otherwise, the title of the view.
    """
    is_said = view.has_chosen_title or view.title in view.headline or part.kind == "product"
    is_bars = isinstance(part.panels[-1], Sentence | RankedBars)
    return view.headline if is_said or is_bars else view.title


def _panel_title(panel: Drawable) -> str:
    """Return a panel's title, without the letter that an equation puts before that of a matrix."""
    if isinstance(panel, Sentence):
        return panel.grid.title or "the sentence"
    if isinstance(panel, Arcs | LongMap | RankedBars):
        return panel.grid.title
    return panel.title.rpartition(MATRIX_LETTER_SEPARATOR)[2]


def _panel_slide(view: View, part: Group, title: str) -> Slide:
    page = build_page([part], view.settings, view.picture.caveat)
    return Slide(replace(view, picture=page, headline=title), kind=part.name)
