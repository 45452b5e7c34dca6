"""What all slides have from their master: size, colours, fonts, and a place for each part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pptx
from pptx.enum.text import MSO_ANCHOR
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.oxml.ns import qn
from pptx.util import Inches

from attnviz.renderers import Look
from attnviz.renderers.colors import theme
from attnviz.renderers.picture.lettering import Lettering, Size
from attnviz.renderers.slides.places import Place, Places

if TYPE_CHECKING:
    from pptx.presentation import Presentation
    from pptx.slide import SlideLayout

LAYOUT = "Picture with Caption"  # of those that python-pptx has: title, picture, text
TITLE, PICTURE, CAPTION = 0, 1, 2  # its placeholders
UNWANTED = (  # of its empty presentation: a picture of it, settings of a printer, an old name
    RELATIONSHIP_TYPE.THUMBNAIL,
    RELATIONSHIP_TYPE.PRINTER_SETTINGS,
    RELATIONSHIP_TYPE.EXTENDED_PROPERTIES,
)
ON_DARK = {"bg1": "dk1", "tx1": "lt1", "bg2": "dk2", "tx2": "lt2"}  # text is light there
SCHEME = re.compile(r"<a:clrScheme .*</a:clrScheme>", re.DOTALL)


def started(look: Look, places: Places, letters: Lettering) -> Presentation:
    """A presentation without slides, in the colours of a theme."""
    deck = pptx.Presentation()
    _remove_unwanted(deck)
    _resize(deck, places.size)
    _color(deck, look.theme)
    _arrange(layout_of(deck), places, letters)
    return deck


def layout_of(deck: Presentation) -> SlideLayout:
    """The one that every slide has."""
    found = deck.slide_layouts.get_by_name(LAYOUT)
    assert found is not None
    return found


def put(shape: Any, place: Place) -> None:
    """A shape at its place."""
    shape.left, shape.top, shape.width, shape.height = map(Inches, place)


def _remove_unwanted(deck: Presentation) -> None:
    parts = [deck.part, deck.part.package]
    for each in parts:
        for kind in UNWANTED:
            _drop(each, kind)


def _drop(holder: Any, kind: str) -> None:
    """Forget a part, where there is one of its kind."""
    try:
        part = holder.part_related_by(kind)
    except KeyError:
        return
    holder.drop_rel(holder.relate_to(part, kind))


def _resize(deck: Presentation, size: Size) -> None:
    """Slides of another size: what stands on any layout is moved and stretched with it."""
    assert deck.slide_width is not None
    assert deck.slide_height is not None
    across, down = Inches(size[0]) / deck.slide_width, Inches(size[1]) / deck.slide_height
    for each in (deck.slide_master, *deck.slide_layouts):
        for shape in each.placeholders:
            if shape.element.spPr.find(qn("a:xfrm")) is not None:  # others stand where these do
                box = shape.left, shape.top, shape.width, shape.height
                by = across, down, across, down
                shape.left, shape.top, shape.width, shape.height = (
                    round(length * times) for length, times in zip(box, by, strict=True)
                )
    deck.slide_width, deck.slide_height = Inches(size[0]), Inches(size[1])
    deck.element.sldSz.attrib.pop("type", None)  # which said 4:3


def _color(deck: Presentation, name: str) -> None:
    """Paper and ink as light and dark of the theme: what anybody adds has them, too."""
    master = deck.slide_master
    part = master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    part.blob = SCHEME.sub(_scheme(name), part.blob.decode()).encode()
    if name == "dark":
        master.element.find(qn("p:clrMap")).attrib.update(ON_DARK)


def _scheme(name: str) -> str:
    colors = theme(name)
    light, dark = (colors.paper, colors.hidden), (colors.ink, colors.faint)
    if name == "dark":
        light, dark = dark, light
    links = dict.fromkeys(("hlink", "folHlink"), colors.series[1])
    accents = {f"accent{place}": each for place, each in enumerate(colors.series, start=1)}
    slots = {"dk1": dark[0], "lt1": light[0], "dk2": dark[1], "lt2": light[1], **accents, **links}
    told = (f'<a:{slot}><a:srgbClr val="{c[1:].upper()}"/></a:{slot}>' for slot, c in slots.items())
    return f'<a:clrScheme name="attnviz {name}">{"".join(told)}</a:clrScheme>'


def _arrange(layout: SlideLayout, places: Places, letters: Lettering) -> None:
    """Title, picture and caption at their places, in letters of their size."""
    boxes = {TITLE: places.title, PICTURE: places.picture, CAPTION: places.caption}
    sizes = {TITLE: letters.headline, PICTURE: letters.note, CAPTION: letters.note}
    for shape in layout.iter_cloneable_placeholders():  # those that slides have, too
        number = shape.placeholder_format.idx
        put(shape, boxes[number])
        _set(shape, sizes[number])


def _set(shape: Any, size: float) -> None:
    """Words from the top left corner on, where pictures of words begin as well."""
    frame = shape.text_frame
    frame.vertical_anchor = MSO_ANCHOR.TOP
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    level = shape.element.txBody.find(f"{qn('a:lstStyle')}/{qn('a:lvl1pPr')}")
    level.find(qn("a:defRPr")).set("sz", str(round(size * 100)))
