"""Views as slides: what stands on each, its notes, and the file as bytes."""

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
from attnviz.renderers.picture.image import between
from attnviz.renderers.picture.lettering import SLIDE, Lettering, lettering
from attnviz.renderers.picture.texts import without_what_all_say
from attnviz.renderers.provenance import provenance_of
from attnviz.renderers.slides.master import (
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
from attnviz.renderers.wrapping import align_sums
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.description import has_masked_cells, panel_notes
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.view import FINDINGS_GROUP, Group, Page, View, build_page

if TYPE_CHECKING:
    from pptx.presentation import Presentation


MAX_TEXT_SCALE = 1.5  # times as large as usual: words around a picture, which needs the room

if TYPE_CHECKING:
    from pptx.presentation import Presentation


def pptx(view: View, look: Look) -> list[bytes]:
    """A slide for all that is shown, and one for each head, way or step."""
    size = look.size or SLIDE
    refuse_small_slides(size)
    look, slides = replace(look, size=size), divide_into_slides(view)
    letters = lettering(size, min(look.text_size, MAX_TEXT_SCALE))
    words = [slide_words_for(each.view, look, letters) for each in slides]
    boxes_by_slide = _slide_layouts(slides, words, look, letters)
    deck = start_deck(look, boxes_by_slide[-1], letters)
    for slide, slide_words, slide_places in zip(slides, words, boxes_by_slide, strict=True):
        _add_slide(deck, slide, slide_words, slide_places, look)
    if left_out_note := slides[0].left_out_note:
        warn_with_note(left_out_note)
    return [deck_bytes(deck, view)]


def _slide_layouts(
    slides: Sequence[Slide], words: Sequence[SlideWords], look: Look, letters: Lettering
) -> list[SlideBoxes]:
    """The same for panels of one kind, between which one turns back and forth."""
    assert look.size is not None
    words_by_kind: dict[str, list[SlideWords]] = {}
    for slide, slide_words in zip(slides, words, strict=True):
        words_by_kind.setdefault(slide.kind, []).append(slide_words)
    places_by_kind = {
        kind: boxes_for(kind_words, look.size, letters)
        for kind, kind_words in words_by_kind.items()
    }
    return [places_by_kind[slide.kind] for slide in slides]


def _add_slide(
    deck: Presentation, slide: Slide, slide_words: SlideWords, slide_places: SlideBoxes, look: Look
) -> None:
    """A slide, in the order in which it is read aloud."""
    new_slide, view = deck.slides.add_slide(slide_layout(deck)), slide.view
    parts = {
        placeholder.placeholder_format.idx: placeholder for placeholder in new_slide.placeholders
    }
    _write_paragraphs(parts[TITLE_PLACEHOLDER], [slide_words.title])
    _write_paragraphs(parts[CAPTION_PLACEHOLDER], slide_words.caption)
    set_box(parts[TITLE_PLACEHOLDER], slide_places.title)
    if has_drawing(view):
        set_box(parts[CAPTION_PLACEHOLDER], slide_places.caption)
        _insert_picture(parts[PICTURE_PLACEHOLDER], view, slide_places, look)
    else:
        set_box(parts[CAPTION_PLACEHOLDER], slide_places.words_only_box)
        parts[PICTURE_PLACEHOLDER].element.getparent().remove(parts[PICTURE_PLACEHOLDER].element)
    first = len(deck.slides) == 1
    new_slide.notes_slide.notes_text_frame.text = speaker_notes(slide, slide_words, first=first)


def _insert_picture(placeholder: Any, view: View, slide_places: SlideBoxes, look: Look) -> None:
    """A picture, and in words what it shows."""
    picture = placeholder.insert_picture(io.BytesIO(_picture_bytes(view, slide_places, look)))
    picture.crop_left = picture.crop_right = picture.crop_top = picture.crop_bottom = 0
    picture.element.nvPicPr.cNvPr.set("descr", view.picture.description)
    set_box(picture, slide_places.picture)


def _write_paragraphs(shape: Any, paragraphs: Sequence[SlideParagraph]) -> None:
    """Words in a placeholder: in the fonts of its theme, and its own size where they fit."""
    frame = shape.text_frame
    for number, words in enumerate(paragraphs):
        paragraph = frame.add_paragraph() if number else frame.paragraphs[0]
        run = paragraph.add_run()
        run.text, run.font.size = words.text, Pt(words.size)
        if words.faint:
            run.font.color.theme_color = MSO_THEME_COLOR.TEXT_2


def _picture_bytes(view: View, slide_places: SlideBoxes, look: Look) -> bytes:
    """What is shown, without the words that stand around it."""
    groups = (
        tuple(map(_group_without_titles, view.picture.groups))
        if _has_single_panel(view)
        else view.picture.groups
    )
    picture_view = replace(view, picture=Page(groups))
    with warnings.catch_warnings():
        # That it is full, and what makes several pages of it: here are several.
        warnings.filterwarnings("ignore", message=".*{page}", category=Note)
        return between(picture_view, look, slide_places.title_end, slide_places.caption_start)


def _has_single_panel(view: View) -> bool:
    """Whether the title of a slide says what its panel would say again."""
    return len(view.picture.panels) == 1


def _group_without_titles(group: Group) -> Group:
    return replace(group, panels=tuple(map(_panel_without_title, group.panels)))


def _panel_without_title(panel: Drawable) -> Drawable:
    if isinstance(panel, Section):
        return replace(panel, number="", title="", about="", grids=panel.tables)
    if isinstance(panel, Arcs | Sentence | RankedBars):
        return replace(panel, grid=replace(panel.grid, title=""))
    return replace(panel, title="")


HATCHED_NOTE = "hatched = hidden by the mask"


def speaker_notes(slide: Slide, slide_words: SlideWords, *, first: bool) -> str:
    """A paragraph for each; words that had no room on the slide stand here in full."""
    view = slide.view
    title = view.headline if slide_words.title.text.endswith(ELLIPSIS) else ""
    closing = view.notes if first else ()
    parts = [
        title,
        *closing,
        *_step_notes(view),
        _reading_note(view),
        slide.left_out_note,
        view.settings,
    ]
    return "\n".join([*filter(None, parts), *_command_note(view)])


def _step_notes(view: View) -> Iterator[str]:
    """What happens in a step, with all of its sums."""
    for panel in view.picture.panels:
        if isinstance(panel, Section):
            yield from (
                panel.about,
                panel.formula,
                panel.shapes,
                *align_sums(panel.sums),
                *panel.remarks,
            )


def _reading_note(view: View) -> str:
    """What rows and columns are, and whatever else colours and numbers mean."""
    panels = view.picture.panels
    hatched = HATCHED_NOTE if has_masked_cells(panels) else ""
    return " · ".join(filter(None, (*panel_notes(panels), hatched, view.picture.caveat)))


def _command_note(view: View) -> Iterator[str]:
    """The command, as it was typed; or the one that would make the same."""
    typed_command = view.provenance.command if view.provenance else None
    command = typed_command or (view.command.line if view.command else "")
    if command:
        yield f"Made with: {command}"


CORE_PROPERTIES_PART = "docProps/core.xml"
UNCOMPRESSED_SUFFIX = ".png"  # compressed already
CORE_NAMESPACES = (
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def deck_bytes(deck: Presentation, view: View) -> bytes:
    """Every part as python-pptx writes it, but for when, and by whom."""
    original, repacked = io.BytesIO(), io.BytesIO()
    deck.save(original)
    with ZipFile(original) as parts, ZipFile(repacked, "w") as file:
        for name in parts.namelist():
            content = _core_properties(view) if name == CORE_PROPERTIES_PART else parts.read(name)
            member = ZipInfo(name)  # of the year 1980
            kind = ZIP_STORED if name.endswith(UNCOMPRESSED_SUFFIX) else ZIP_DEFLATED
            file.writestr(member, content, kind)
    return repacked.getvalue()


def _core_properties(view: View) -> bytes:
    """Title, subject, and in the comments what a PNG has in its metadata."""
    properties = {
        "dc:title": view.headline or view.title,
        "dc:subject": view.picture.description,
        "dc:creator": "attnviz",
        "dc:description": provenance_of(view),
    }
    inner = "".join(
        f"<{name}>{html.escape(text)}</{name}>" for name, text in properties.items() if text
    )
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return f"{head}\n<cp:coreProperties {CORE_NAMESPACES}>{inner}</cp:coreProperties>".encode()


MAX_PANEL_SLIDES = 40  # that stand alone: more slides nobody would show
LEFT_OUT_SENTENCE = (
    "{left} of {count} panels have no slide of their own and are only on the first one"
)
TITLE_SEPARATOR = " · "
MATRIX_LETTER_SEPARATOR = "  "  # behind the letter that an equation has for a matrix


@dataclass(frozen=True, eq=False)
class Slide:
    """A View whose picture, headline and caption have a slide."""

    view: View
    left_out_note: str = ""  # what has none, and how it would get one
    kind: str = ""  # of what it shows: what is of one kind stands in one place


def divide_into_slides(view: View) -> list[Slide]:
    """A slide for each step; or for all panels together, and then for each of them."""
    sections = view.sections
    if sections and len(sections) == len(view.picture.panels):
        return [Slide(_step_view(view, section), kind=section.name) for section in sections]
    parts = [
        part for part in _slide_groups(view.alone.groups) if not _is_on_first_slide(part, view)
    ]
    if not parts:
        return [Slide(view, view.alone.hint)]
    shown_parts = parts[:MAX_PANEL_SLIDES]
    first = Slide(view, view.alone.hint or _left_out_sentence(len(parts)))
    return [first, *map(partial(_panel_slide, view), shown_parts, _slide_titles(view, shown_parts))]


def _is_on_first_slide(part: Group, view: View) -> bool:
    """Whether it is all that there is on the first slide already."""
    picture_panels = view.picture.panels
    return len(picture_panels) == len(part.panels) and all(
        map(_is_same_panel, picture_panels, part.panels)
    )


def _is_same_panel(one: Drawable, other: Drawable) -> bool:
    """Of overviews there is but one; and what a picture shows is shown as it is."""
    return one is other or (isinstance(one, Overview) and isinstance(other, Overview))


def _left_out_sentence(count: int) -> str:
    return (
        LEFT_OUT_SENTENCE.format(left=count - MAX_PANEL_SLIDES, count=count)
        if count > MAX_PANEL_SLIDES
        else ""
    )


def _step_view(view: View, section: Section) -> View:
    step = view.of_section(section)
    headline = TITLE_SEPARATOR.join((view.headline, section.heading))
    return replace(step, headline=headline) if view.titled else step


def _slide_groups(groups: Sequence[Group]) -> Iterator[Group]:
    return (part for group in groups for part in _split_group(group))


def _split_group(group: Group) -> Iterator[Group]:
    """Each panel, and what stands below it; an equation is one, and a course none."""
    if group.kind == "product":
        yield group
    elif group.kind != "course":
        for panel, below, over in zip_longest(group.panels, group.below, group.panel_titles):
            yield Group(group.name, (panel,), panel_titles=(over,) if over else ())
            if below is not None:
                titled_panel = replace(below, title=f"{_panel_title(panel)} {below.title}")
                yield Group(group.name, (titled_panel,))


def _slide_titles(view: View, parts: Sequence[Group]) -> list[str]:
    """The finding in each; else what all are, and each is beside the others, counted if alike.

    Somebody's own title stands over all.
    """
    names = without_what_all_say([_panel_title(part.panels[-1]) for part in parts], [""])
    titles = [
        part.panel_titles[0].text
        if part.name == FINDINGS_GROUP and not view.titled
        else TITLE_SEPARATOR.join(filter(None, (_common_title(view, part), name)))
        for part, name in zip(parts, names, strict=True)
    ]
    counts, seen = Counter([view.headline, *titles]), Counter([view.headline])
    numbered_titles = []
    for title in titles:
        seen[title] += 1
        numbered_titles.append(f"{title} ({seen[title]})" if counts[title] > 1 else title)
    return numbered_titles


def _common_title(view: View, part: Group) -> str:
    """What all are; of what one token reads the headline says it, and of an equation what it is."""
    is_said = view.titled or view.title in view.headline or part.kind == "product"
    return (
        view.headline
        if is_said or isinstance(part.panels[-1], Sentence | RankedBars)
        else view.title
    )


def _panel_title(panel: Drawable) -> str:
    """Of the last matrix of an equation what it is, without its letter."""
    if isinstance(panel, Sentence):
        return panel.grid.title or "the sentence"
    if isinstance(panel, Arcs | RankedBars):
        return panel.grid.title
    return panel.title.rpartition(MATRIX_LETTER_SEPARATOR)[2]


def _panel_slide(view: View, part: Group, title: str) -> Slide:
    """One of them, under a title of its own."""
    page = build_page([part], view.settings, view.picture.caveat)
    return Slide(replace(view, picture=page, headline=title), kind=part.name)
