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

from attnviz.errors import Note, mention
from attnviz.renderers import Look
from attnviz.renderers.look import refuse_small_slides
from attnviz.renderers.picture.image import between
from attnviz.renderers.picture.lettering import SLIDE, Lettering, lettering
from attnviz.renderers.picture.texts import without_what_all_say
from attnviz.renderers.provenance import provenance_of
from attnviz.renderers.slides.master import (
    CAPTION,
    CUT,
    PICTURE,
    TITLE,
    Paragraph,
    Places,
    Words,
    is_drawn,
    layout_of,
    places_for,
    put,
    started,
    words_of,
)
from attnviz.renderers.wrapping import aligned
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.description import hides, notes
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.view import FINDINGS, Group, Page, View, page_of

if TYPE_CHECKING:
    from pptx.presentation import Presentation


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


HATCHED = "hatched = hidden by the mask"


def notes_of(slide: Slide, said: Words, *, first: bool) -> str:
    """A paragraph for each; words that had no room on the slide stand here in full."""
    view = slide.view
    title = view.headline if said.title.text.endswith(CUT) else ""
    closing = view.notes if first else ()
    parts = [title, *closing, *_steps(view), _how_to_read(view), slide.left_out, view.settings]
    return "\n".join([*filter(None, parts), *_made(view)])


def _steps(view: View) -> Iterator[str]:
    """What happens in a step, with all of its sums."""
    for each in view.picture.panels:
        if isinstance(each, Section):
            yield from (each.about, each.formula, each.shapes, *aligned(each.sums), *each.remarks)


def _how_to_read(view: View) -> str:
    """What rows and columns are, and whatever else colours and numbers mean."""
    panels = view.picture.panels
    hatched = HATCHED if hides(panels) else ""
    return " · ".join(filter(None, (*notes(panels), hatched, view.picture.caveat)))


def _made(view: View) -> Iterator[str]:
    """The command, as it was typed; or the one that would make the same."""
    typed = view.provenance.command if view.provenance else None
    command = typed or (view.command.line if view.command else "")
    if command:
        yield f"Made with: {command}"


FACTS = "docProps/core.xml"
STORED = ".png"  # compressed already
SPACES = (
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def packed(deck: Presentation, view: View) -> bytes:
    """Every part as python-pptx writes it, but for when, and by whom."""
    written, again = io.BytesIO(), io.BytesIO()
    deck.save(written)
    with ZipFile(written) as parts, ZipFile(again, "w") as file:
        for name in parts.namelist():
            content = _facts(view) if name == FACTS else parts.read(name)
            member = ZipInfo(name)  # of the year 1980
            kind = ZIP_STORED if name.endswith(STORED) else ZIP_DEFLATED
            file.writestr(member, content, kind)
    return again.getvalue()


def _facts(view: View) -> bytes:
    """Title, subject, and in the comments what a PNG has in its metadata."""
    told = {
        "dc:title": view.headline or view.title,
        "dc:subject": view.picture.description,
        "dc:creator": "attnviz",
        "dc:description": provenance_of(view),
    }
    inner = "".join(f"<{name}>{html.escape(text)}</{name}>" for name, text in told.items() if text)
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return f"{head}\n<cp:coreProperties {SPACES}>{inner}</cp:coreProperties>".encode()


MOST = 40  # that stand alone: more slides nobody would show
LEFT_OUT = "{left} of {count} panels have no slide of their own and are only on the first one"
BETWEEN = " · "
NAMED = "  "  # behind the letter that an equation has for a matrix


@dataclass(frozen=True, eq=False)
class Slide:
    """A View whose picture, headline and caption have a slide."""

    view: View
    left_out: str = ""  # what has none, and how it would get one
    kind: str = ""  # of what it shows: what is of one kind stands in one place


def divided(view: View) -> list[Slide]:
    """A slide for each step; or for all panels together, and then for each of them."""
    sections = view.sections
    if sections and len(sections) == len(view.picture.panels):
        return [Slide(_of_step(view, each), kind=each.name) for each in sections]
    parts = [part for part in _parts(view.alone.groups) if not _is_shown(part, view)]
    if not parts:
        return [Slide(view, view.alone.rest)]
    shown = parts[:MOST]
    first = Slide(view, view.alone.rest or _left_out(len(parts)))
    return [first, *map(partial(_alone, view), shown, _titles(view, shown))]


def _is_shown(part: Group, view: View) -> bool:
    """Whether it is all that there is on the first slide already."""
    drawn = view.picture.panels
    return len(drawn) == len(part.panels) and all(map(_are_alike, drawn, part.panels))


def _are_alike(one: Drawable, other: Drawable) -> bool:
    """Of overviews there is but one; and what a picture shows is shown as it is."""
    return one is other or (isinstance(one, Overview) and isinstance(other, Overview))


def _left_out(count: int) -> str:
    return LEFT_OUT.format(left=count - MOST, count=count) if count > MOST else ""


def _of_step(view: View, section: Section) -> View:
    step = view.of_section(section)
    own = BETWEEN.join((view.headline, section.heading))
    return replace(step, headline=own) if view.titled else step


def _parts(groups: Sequence[Group]) -> Iterator[Group]:
    return (part for group in groups for part in _of_group(group))


def _of_group(group: Group) -> Iterator[Group]:
    """Each panel, and what stands below it; an equation is one, and a course none."""
    if group.kind == "product":
        yield group
    elif group.kind != "course":
        for panel, below, over in zip_longest(group.panels, group.below, group.over):
            yield Group(group.name, (panel,), over=(over,) if over else ())
            if below is not None:
                titled = replace(below, title=f"{_title(panel)} {below.title}")
                yield Group(group.name, (titled,))


def _titles(view: View, parts: Sequence[Group]) -> list[str]:
    """The finding in each; else what all are, and each is beside the others, counted if alike.

    Somebody's own title stands over all.
    """
    names = without_what_all_say([_title(part.panels[-1]) for part in parts], [""])
    titles = [
        part.over[0].text
        if part.name == FINDINGS and not view.titled
        else BETWEEN.join(filter(None, (_over(view, part), name)))
        for part, name in zip(parts, names, strict=True)
    ]
    counts, seen = Counter([view.headline, *titles]), Counter([view.headline])
    told = []
    for title in titles:
        seen[title] += 1
        told.append(f"{title} ({seen[title]})" if counts[title] > 1 else title)
    return told


def _over(view: View, part: Group) -> str:
    """What all are; of what one token reads the headline says it, and of an equation what it is."""
    said = view.titled or view.title in view.headline or part.kind == "product"
    return view.headline if said or isinstance(part.panels[-1], Sentence | Ranked) else view.title


def _title(panel: Drawable) -> str:
    """Of the last matrix of an equation what it is, without its letter."""
    if isinstance(panel, Sentence):
        return panel.grid.title or "the sentence"
    if isinstance(panel, Arcs | Ranked):
        return panel.grid.title
    return panel.title.rpartition(NAMED)[2]


def _alone(view: View, part: Group, title: str) -> Slide:
    """One of them, under a title of its own."""
    page = page_of([part], view.settings, view.picture.caveat)
    return Slide(replace(view, picture=page, headline=title), kind=part.name)
