"""Views as lines of text: colours on a terminal, glyphs without colour, numbers in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from attnviz.renderers import Look
from attnviz.renderers.terminal.maps import ENDLESS, overview
from attnviz.renderers.terminal.screen import BOLD, DIM, PLAIN, Screen, apart, ending, wrapped
from attnviz.renderers.terminal.sentence import FEWEST, ranked, reading
from attnviz.renderers.terminal.tables import tables
from attnviz.renderers.wrapping import aligned, broken
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable, Section, table_of
from attnviz.views.view import READINGS, View

AROUND_A_RANKING = 3  # lines: its title, how many more there are, and the one between


def printed(
    view: View, screen: Screen, *, quiet: bool = False, conclusion_first: bool = False
) -> list[Text]:
    """A view on a screen: what was done, its tables or sentences, and what there is to say.

    With `conclusion_first` what there is to say comes before the tables, where a pager begins.
    """
    above = [] if quiet else list(heading(view, screen))
    below = list(closing(view.closing if quiet else view.notes, screen))
    body = _body(view, screen, len(above), len(below))
    if conclusion_first and below:
        empty, *told = below
        return [*above, *told, empty, *body]
    whole = [*above, *body, *below]
    if len(whole) <= screen.rows:
        return whole
    short = [] if quiet else list(_short_heading(view, screen))
    spaced = [*short, Text(), *body, *below]
    for less in (spaced, [line for line in spaced if line]):
        if len(less) <= screen.rows:
            return less
    return whole


def _short_heading(view: View, screen: Screen) -> Iterator[Text]:
    """What was done, with as many settings as its line has room for; and what is random."""
    line = Text.assemble((view.overhead or view.title, BOLD), (f" · {view.settings}", DIM))
    line.truncate(screen.room, overflow="ellipsis")
    yield line
    yield from wrapped(view.screen.caveat, screen, PLAIN)


def _body(view: View, screen: Screen, above: int, below: int) -> list[Text]:
    """Everything if it fits; else what matters most, and how to see the rest."""
    if view.sentences:
        others = [each for group in view.screen.groups if group.name != READINGS
                  for each in group.all]  # fmt: skip
        read = [list(reading(each, screen)) for each in view.sentences]
        around = above + below + sum(map(len, read))
        return list(apart([*read, list(lines(others, screen, around))] if others else read))
    if view.excerpt is None or screen.height is None or screen.full:
        return list(lines(view.screen.panels, screen, above + below))
    less = replace(screen, height=screen.height - below)
    body = list(lines(view.screen.panels, less, above))
    if above + len(body) <= less.rows:
        return body
    return list(
        ending(list(lines(view.excerpt.panels, less, above + 1)), view.excerpt.rest, screen)
    )


def txt(view: View, look: Look) -> list[bytes]:
    """The terminal's tables in full: no colour, nothing cut, nothing pooled."""
    screen = Screen(None, numbers=look.numbers)
    above = (view.overhead, view.settings, view.screen.caveat)
    heading = [Text(line) for line in above if line]
    body = [*heading, Text(), *lines(view.screen.panels, screen), *closing(view.notes, screen)]
    text = "\n".join(line.plain.rstrip() for line in body)
    return [f"{text.strip()}\n".encode()]


def lines(drawn: Iterable[Drawable], screen: Screen, around: int = 0) -> Iterator[Text]:
    """Grids one below the other, or side by side while they are alike and fit; curves as tables.

    A section has its heading above its grids, and its sums below them. An overview, and rankings,
    have what room all others leave, and the lines around them.
    """
    blocks = list(_blocks(drawn, screen))
    elastic = [each for each in blocks if not isinstance(each, list)]
    taken = around + sum(len(each) + 1 for each in blocks if isinstance(each, list))
    room = (screen.rows - taken) // max(len(elastic), 1)
    yield from apart([
        each if isinstance(each, list) else list(_in_room(each, screen, room)) for each in blocks
    ])  # fmt: skip


def _blocks(drawn: Iterable[Drawable], screen: Screen) -> Iterator[list[Text] | Overview | Ranked]:
    """What stands apart from each other; some is yet to find its room."""
    tabular: list[Grid] = []
    for each in drawn:
        if not isinstance(each, Section | Sentence | Overview | Ranked):
            tabular.append(table_of(each))
            continue
        if tabular:
            yield list(tables(tabular, screen))
            tabular = []
        yield each if isinstance(each, Overview | Ranked) else list(_of_its_own(each, screen))
    if tabular:
        yield list(tables(tabular, screen))


def _in_room(each: Overview | Ranked, screen: Screen, room: int) -> Iterator[Text]:
    if isinstance(each, Ranked):
        return ranked(each, screen, max(FEWEST, room - AROUND_A_RANKING))
    return overview(each, screen, ENDLESS if screen.full else room)


def _of_its_own(each: Section | Sentence, screen: Screen) -> Iterator[Text]:
    if isinstance(each, Sentence):
        return reading(each.grid, screen, listed=each.listed)
    return _section(each, screen)


def heading(view: View, screen: Screen) -> Iterator[Text]:
    """The headline, the settings that the numbers depend on, and whether they are random."""
    yield from wrapped(view.overhead or view.title, screen, BOLD)
    yield from wrapped(view.settings, screen)
    yield from wrapped(view.screen.caveat, screen, PLAIN)
    yield Text()


def closing(notes: Sequence[str], screen: Screen) -> Iterator[Text]:
    """What there is to say after the tables, a paragraph for each note."""
    if notes:
        yield Text()
    for note in notes:
        yield from wrapped(note, screen, PLAIN)


def _section(section: Section, screen: Screen) -> Iterator[Text]:
    """What the step is; its tables; its sums; and what else there is to say."""
    remarks = [line for remark in section.remarks for line in wrapped(remark, screen)]
    opening, sums = list(_opening(section, screen)), list(_sums(section, screen))
    shown = list(tables(section.tables, screen))
    yield from apart([part for part in (opening, shown, sums, remarks) if part])


def _opening(section: Section, screen: Screen) -> Iterator[Text]:
    yield from _section_heading(section, screen)
    yield from wrapped(section.about, screen, PLAIN)
    if section.formula:
        yield Text()
        yield from _broken(section.formula, screen)


def _section_heading(section: Section, screen: Screen) -> Iterator[Text]:
    """Number and title, and on the same line, while there is room, the shapes."""
    shapes = f"   {section.shapes}" if section.shapes else ""
    line = Text.assemble((section.heading, BOLD), (shapes, DIM))
    if line.cell_len <= screen.room:
        yield line
    else:
        yield from wrapped(section.heading, screen, BOLD)
        yield from wrapped(section.shapes, screen)


def _sums(section: Section, screen: Screen) -> Iterator[Text]:
    for line in aligned(section.sums):
        yield from _broken(line, screen)


def _broken(text: str, screen: Screen) -> list[Text]:
    indent = "    " if screen.room >= 40 else "  "
    return [Text(line) for line in broken(text, lambda line: cell_len(line) <= screen.room, indent)]
