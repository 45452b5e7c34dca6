"""The layout of all slides: size, fonts, places, and letters that leave room for every word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pptx
from pptx.enum.text import MSO_ANCHOR
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.oxml.ns import qn
from pptx.util import Inches

from attnviz.renderers import Look
from attnviz.renderers.colors import find_theme
from attnviz.renderers.picture.frame import LEADING, MOST_LINES, Captions, headline
from attnviz.renderers.picture.glyphs import hermetic, measurable
from attnviz.renderers.picture.image import captions_of
from attnviz.renderers.picture.lettering import POINT, Lettering, Size, typeset
from attnviz.renderers.picture.texts import wrapped
from attnviz.views.view import View

if TYPE_CHECKING:
    from pptx.presentation import Presentation
    from pptx.slide import SlideLayout


LAYOUT_NAME = "Picture with Caption"  # of those that python-pptx has: title, picture, text
TITLE_PLACEHOLDER, PICTURE_PLACEHOLDER, CAPTION_PLACEHOLDER = 0, 1, 2  # its placeholders
UNWANTED_PARTS = (  # of its empty presentation: a picture of it, settings of a printer, an old name
    RELATIONSHIP_TYPE.THUMBNAIL,
    RELATIONSHIP_TYPE.PRINTER_SETTINGS,
    RELATIONSHIP_TYPE.EXTENDED_PROPERTIES,
)
DARK_COLOR_MAP = {"bg1": "dk1", "tx1": "lt1", "bg2": "dk2", "tx2": "lt2"}  # text is light there
COLOR_SCHEME_PATTERN = re.compile(r"<a:clrScheme .*</a:clrScheme>", re.DOTALL)


def start_deck(look: Look, boxes: SlideBoxes, letters: Lettering) -> Presentation:
    """A presentation without slides, in the colours of a theme."""
    deck = pptx.Presentation()
    _remove_unwanted(deck)
    _resize_deck(deck, boxes.size)
    _color_theme(deck, look.theme)
    _arrange_layout(slide_layout(deck), boxes, letters)
    return deck


def slide_layout(deck: Presentation) -> SlideLayout:
    """The one that every slide has."""
    layout = deck.slide_layouts.get_by_name(LAYOUT_NAME)
    assert layout is not None
    return layout


def set_box(shape: Any, box: SlideBox) -> None:
    """A shape at its place."""
    shape.left, shape.top, shape.width, shape.height = map(Inches, box)


def _remove_unwanted(deck: Presentation) -> None:
    parts = [deck.part, deck.part.package]
    for part in parts:
        for kind in UNWANTED_PARTS:
            _drop_part(part, kind)


def _drop_part(owner: Any, kind: str) -> None:
    """Forget a part, where there is one of its kind."""
    try:
        part = owner.part_related_by(kind)
    except KeyError:
        return
    owner.drop_rel(owner.relate_to(part, kind))


def _resize_deck(deck: Presentation, size: Size) -> None:
    """Slides of another size: what stands on any layout is moved and stretched with it."""
    assert deck.slide_width is not None
    assert deck.slide_height is not None
    across, down = Inches(size[0]) / deck.slide_width, Inches(size[1]) / deck.slide_height
    for layout in (deck.slide_master, *deck.slide_layouts):
        for shape in layout.placeholders:
            if shape.element.spPr.find(qn("a:xfrm")) is not None:  # others stand where these do
                box = shape.left, shape.top, shape.width, shape.height
                factors = across, down, across, down
                shape.left, shape.top, shape.width, shape.height = (
                    round(length * factor) for length, factor in zip(box, factors, strict=True)
                )
    deck.slide_width, deck.slide_height = Inches(size[0]), Inches(size[1])
    deck.element.sldSz.attrib.pop("type", None)  # which said 4:3


def _color_theme(deck: Presentation, name: str) -> None:
    """Paper and ink as light and dark of the theme: what anybody adds has them, too."""
    master = deck.slide_master
    part = master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    part.blob = COLOR_SCHEME_PATTERN.sub(_color_scheme(name), part.blob.decode()).encode()
    if name == "dark":
        master.element.find(qn("p:clrMap")).attrib.update(DARK_COLOR_MAP)


def _color_scheme(name: str) -> str:
    colors = find_theme(name)
    light, dark = (colors.paper, colors.hidden), (colors.ink, colors.faint)
    if name == "dark":
        light, dark = dark, light
    links = dict.fromkeys(("hlink", "folHlink"), colors.series[1])
    accents = {f"accent{number}": color for number, color in enumerate(colors.series, start=1)}
    slots = {"dk1": dark[0], "lt1": light[0], "dk2": dark[1], "lt2": light[1], **accents, **links}
    slot_elements = (
        f'<a:{slot}><a:srgbClr val="{c[1:].upper()}"/></a:{slot}>' for slot, c in slots.items()
    )
    return f'<a:clrScheme name="attnviz {name}">{"".join(slot_elements)}</a:clrScheme>'


def _arrange_layout(layout: SlideLayout, slide_boxes: SlideBoxes, letters: Lettering) -> None:
    """Title, picture and caption at their places, in letters of their size."""
    boxes = {
        TITLE_PLACEHOLDER: slide_boxes.title,
        PICTURE_PLACEHOLDER: slide_boxes.picture,
        CAPTION_PLACEHOLDER: slide_boxes.caption,
    }
    sizes = {
        TITLE_PLACEHOLDER: letters.headline,
        PICTURE_PLACEHOLDER: letters.note,
        CAPTION_PLACEHOLDER: letters.note,
    }
    for shape in layout.iter_cloneable_placeholders():  # those that slides have, too
        number = shape.placeholder_format.idx
        set_box(shape, boxes[number])
        _set_shape(shape, sizes[number])


def _set_shape(shape: Any, size: float) -> None:
    """Words from the top left corner on, where pictures of words begin as well."""
    frame = shape.text_frame
    frame.vertical_anchor = MSO_ANCHOR.TOP
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    level = shape.element.txBody.find(f"{qn('a:lstStyle')}/{qn('a:lvl1pPr')}")
    level.find(qn("a:defRPr")).set("sz", str(round(size * 100)))


EDGE_MARGIN_SHARE = 0.75  # of the margin that stays free above a title and below a caption

SlideBox = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True)
class SlideBoxes:
    """Of a slide of some size. A picture reaches from edge to edge, with its own margins."""

    size: Size
    title: SlideBox
    caption: SlideBox
    title_end: float  # where the title ends,
    caption_start: float  # and how far from the foot of the slide the caption begins

    @property
    def picture(self) -> SlideBox:
        """All between them: a picture has air around what it shows."""
        return 0.0, self.title_end, self.size[0], self.size[1] - self.title_end - self.caption_start

    @property
    def words_only_box(self) -> SlideBox:
        """For a caption alone, where nothing is drawn."""
        left, top, width, height = self.caption
        start = self.title_end + self.title[1]
        return left, start, width, top + height - start


def boxes_for(words: Iterable[SlideWords], size: Size, letters: Lettering) -> SlideBoxes:
    """The same on several slides, so that nothing jumps where one follows another."""
    all_words = list(words)
    title = max(slide_words.title.height for slide_words in all_words)
    caption = max(slide_words.height for slide_words in all_words)
    margin = letters.margin
    edge, width = EDGE_MARGIN_SHARE * margin, size[0] - 2 * margin
    foot = size[1] - edge - caption
    return SlideBoxes(
        size,
        (margin, edge, width, title),
        (margin, foot, width, caption),
        edge + title,
        size[1] - foot,
    )


ELLIPSIS = "…"  # in place of words that have no room: the notes have all of them
MAX_CAPTION_HEIGHT_SHARE = 0.3  # of a slide's height: a caption
WORDS_ONLY_TEXT_SCALE = (
    1.3  # times as large as a title of a panel: what stands on a slide without a picture
)


@dataclass(frozen=True)
class SlideParagraph:
    """Some words in letters of one size, in points."""

    text: str
    size: float
    lines: int
    faint: bool = False

    @property
    def height(self) -> float:
        return self.lines * self.size * POINT * LEADING


@dataclass(frozen=True)
class SlideWords:
    """What stands over a picture, and below it."""

    title: SlideParagraph
    caption: tuple[SlideParagraph, ...]

    @property
    def height(self) -> float:
        """Of the caption."""
        return sum(paragraph.height for paragraph in self.caption)


def slide_words_for(view: View, look: Look, letters: Lettering) -> SlideWords:
    """The title of a view and how to read it; of a step, what happens in it.

    Whatever font shows them: matplotlib's own, by which they are measured, is a wide one.
    """
    with hermetic((), Captions()):
        return _measure_slide_words(view, look, letters)


def _measure_slide_words(view: View, look: Look, letters: Lettering) -> SlideWords:
    assert look.size is not None
    width = look.size[0] - 2 * letters.margin
    captions, is_with_drawing = captions_of(view, look), has_drawing(view)
    about = " ".join(section.about for section in view.sections)
    texts = (
        (about, letters.text if is_with_drawing else letters.title * WORDS_ONLY_TEXT_SCALE, False),
        (captions.notes, letters.note, False),
        (captions.made, letters.small_print, True),
    )
    room = look.size[1] * (
        MAX_CAPTION_HEIGHT_SHARE if is_with_drawing else 1 - MAX_CAPTION_HEIGHT_SHARE
    )
    paragraphs = (
        _measure_paragraph(typeset(text), size, faint, width) for text, size, faint in texts if text
    )
    title = _title_paragraph(typeset(view.headline or view.title), letters, width)
    return SlideWords(title, tuple(_fit_paragraphs(room, paragraphs, width)))


def has_drawing(view: View) -> bool:
    """Whether there is something to draw: of some steps there are but words."""
    return not view.sections or any(
        section.grids or section.planes or section.sums for section in view.sections
    )


def _title_paragraph(text: str, letters: Lettering, width: float) -> SlideParagraph:
    """In one line of large letters, or in a few that are smaller."""
    lines = list(headline(measurable(text), letters.headline, width))
    shown_lines = [line.text for line in lines[:MOST_LINES]]
    fits_whole = len(lines) <= MOST_LINES and not any(
        line.endswith(ELLIPSIS) for line in shown_lines
    )
    size = min((line.size for line in lines), default=letters.headline)
    return SlideParagraph(
        text if fits_whole else _shorten_to_lines(text, shown_lines), size, max(len(shown_lines), 1)
    )


def _shorten_to_lines(text: str, shown_lines: Sequence[str]) -> str:
    """The beginning of a text, as long as some lines are."""
    return f"{text[: len(' '.join(shown_lines))].rstrip(ELLIPSIS)}{ELLIPSIS}"


def _measure_paragraph(text: str, size: float, faint: bool, width: float) -> SlideParagraph:
    return SlideParagraph(text, size, len(_wrap_words(text, size, width)), faint)


def _wrap_words(text: str, size: float, width: float) -> list[str]:
    """Lines of words; those that are longer than a line are broken anywhere."""
    letters = max(int(width / (size * POINT)), 1)  # that surely fit
    pieces = [
        word[start : start + letters]
        for word in measurable(text).split(" ")
        for start in range(0, max(len(word), 1), letters)
    ]
    return wrapped(pieces, " ", size, width)


def _fit_paragraphs(
    room: float, paragraphs: Iterator[SlideParagraph], width: float
) -> Iterator[SlideParagraph]:
    """As many lines of them as there is room for."""
    for paragraph in paragraphs:
        line = replace(paragraph, lines=1).height
        line_count = min(paragraph.lines, int(room / line + 1e-6))
        room -= line_count * line
        if line_count == paragraph.lines:
            yield paragraph
        elif line_count:
            shown_lines = _wrap_words(paragraph.text, paragraph.size, width)[:line_count]
            yield replace(
                paragraph, text=_shorten_to_lines(paragraph.text, shown_lines), lines=line_count
            )
