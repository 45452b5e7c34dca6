"""Views as lines of text: colours on a terminal, glyphs without colour, numbers in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from shutil import get_terminal_size

from rich.cells import cell_len
from rich.text import Text

from attnviz.renderers import Look
from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    PLAIN_STYLE,
    Screen,
    append_note,
    join_blocks,
    wrap_note,
)
from attnviz.renderers.terminal.sentence import MIN_RANKED_ROWS, ranking_lines, sentence_lines
from attnviz.renderers.terminal.small_maps import UNLIMITED_LINES, overview_lines
from attnviz.renderers.terminal.tables import table_lines
from attnviz.renderers.wrapping import align_sums, break_sum
from attnviz.views.grids.grid import Grid, coarse_map
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section, panel_table
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.view import READINGS_GROUP, View

RANKING_EXTRA_LINES = 3  # the title, the number of other rows, and the gap between blocks


def view_lines(
    view: View, screen: Screen, *, quiet: bool = False, conclusion_first: bool = False
) -> list[Text]:
    """Return a view as lines of text: heading, body and notes.

    `quiet`: no heading, and only the notes that conclude. `conclusion_first`: the notes come before
    the tables, where a pager begins. If it then fits on the screen, the heading is shortened, and
    empty lines are left out.
    """
    heading_part = [] if quiet else list(heading_lines(view, screen))
    closing_part = list(closing_lines(view.closing if quiet else view.notes, screen))
    body = _view_body(view, screen, len(heading_part), len(closing_part))
    if conclusion_first and closing_part:
        empty, *closing_text = closing_part
        return [*heading_part, *closing_text, empty, *body]
    all_lines = [*heading_part, *body, *closing_part]
    if len(all_lines) <= screen.rows:
        return all_lines
    short_heading = [] if quiet else list(_short_heading(view, screen))
    short_lines = [*short_heading, Text(), *body, *closing_part]
    for fewer_lines in (short_lines, [line for line in short_lines if line]):
        if len(fewer_lines) <= screen.rows:
            return fewer_lines
    return all_lines


def _short_heading(view: View, screen: Screen) -> Iterator[Text]:
    """Yield the title and the settings on one line, cut to the screen; then the caveat.

    A title that is longer than a line is in full, without the settings.
    """
    title = view.heading or view.title
    if cell_len(title) > screen.room:
        yield from wrap_note(title, screen, BOLD_STYLE)
    else:
        line = Text.assemble((title, BOLD_STYLE), (f" · {view.settings}", DIM_STYLE))
        line.truncate(screen.room, overflow="ellipsis")
        yield line
    yield from wrap_note(view.screen.caveat, screen, PLAIN_STYLE)


def _view_body(view: View, screen: Screen, above: int, below: int) -> list[Text]:
    """Return the panels if they fit on the screen, else the excerpt, with a hint how to see all.

    `above`, `below`: the lines of heading and notes. Sentences with bars stand before other panels.
    """
    if view.sentences:
        other_panels = [panel for group in view.screen.groups if group.name != READINGS_GROUP
                  for panel in group.all_panels]  # fmt: skip
        reading_lines = [list(sentence_lines(panel, screen)) for panel in view.sentences]
        lines_around = above + below + sum(map(len, reading_lines))
        if other_panels:
            reading_lines.append(list(panel_lines(other_panels, screen, lines_around)))
        return list(join_blocks(reading_lines))
    if view.excerpt is None or screen.height is None or screen.full:
        return list(panel_lines(view.screen.panels, screen, above + below))
    shorter_screen = replace(screen, height=screen.height - below)
    body = list(panel_lines(view.screen.panels, shorter_screen, above))
    if above + len(body) <= shorter_screen.rows:
        return body
    excerpt = list(panel_lines(view.excerpt.panels, shorter_screen, above + 1))
    return list(append_note(excerpt, view.excerpt.hint, screen))


def screen_text(view: View) -> str:
    """Return a view as plain text that is as wide as the terminal, 80 columns without one."""
    lines = view_lines(view, Screen(get_terminal_size().columns))
    return "\n".join(line.plain.rstrip() for line in lines)


def txt(view: View, look: Look) -> list[bytes]:
    """Return the view as a text file: the terminal's tables in full, without colours; only maps of
    blocks in larger blocks.
    """
    screen = Screen(None, numbers=look.numbers)
    lines = [Text(line) for line in (view.heading, view.settings, view.screen.caveat) if line]
    panels = [coarse_map(each) if isinstance(each, Grid) else each for each in view.screen.panels]
    lines += [Text(), *panel_lines(panels, screen), *closing_lines(view.notes, screen)]
    text = "\n".join(line.plain.rstrip() for line in lines)
    return [f"{text.strip()}\n".encode()]


def panel_lines(panels: Iterable[Drawable], screen: Screen, extra: int = 0) -> Iterator[Text]:
    """Yield the lines of all panels; tables of one kind stand side by side while they fit.

    Overviews and rankings share the lines that all other panels, and `extra` lines, leave on the
    screen.
    """
    blocks = list(_panel_blocks(panels, screen))
    elastic = [block for block in blocks if not isinstance(block, list)]
    taken_lines = extra + sum(len(block) + 1 for block in blocks if isinstance(block, list))
    room = (screen.rows - taken_lines) // max(len(elastic), 1)
    yield from join_blocks([
        block if isinstance(block, list) else list(_fit_in_room(block, screen, room))
        for block in blocks
    ])  # fmt: skip


def _panel_blocks(
    panels: Iterable[Drawable], screen: Screen
) -> Iterator[list[Text] | Overview | RankedBars]:
    """Yield the panels as blocks of lines, but overviews and rankings as they are.

    Their height depends on the room that the others leave.
    """
    tabular: list[Grid] = []
    for panel in panels:
        if not isinstance(panel, Section | Sentence | Overview | RankedBars):
            tabular.append(panel_table(panel))
            continue
        if tabular:
            yield list(table_lines(tabular, screen))
            tabular = []
        yield (
            panel if isinstance(panel, Overview | RankedBars) else list(_block_lines(panel, screen))
        )
    if tabular:
        yield list(table_lines(tabular, screen))


def _fit_in_room(panel: Overview | RankedBars, screen: Screen, room: int) -> Iterator[Text]:
    """Yield the lines of an overview or a ranking, made to fit into `room` lines if possible."""
    if isinstance(panel, RankedBars):
        return ranking_lines(panel, screen, max(MIN_RANKED_ROWS, room - RANKING_EXTRA_LINES))
    return overview_lines(panel, screen, UNLIMITED_LINES if screen.full else room)


def _block_lines(panel: Section | Sentence, screen: Screen) -> Iterator[Text]:
    if isinstance(panel, Sentence):
        return sentence_lines(
            panel.grid, screen, with_bars=panel.has_bars, is_whole_text=panel.is_whole_text
        )
    return _section_lines(panel, screen)


def heading_lines(view: View, screen: Screen) -> Iterator[Text]:
    """Yield the headline, the settings, the caveat about random numbers, and an empty line."""
    yield from wrap_note(view.heading or view.title, screen, BOLD_STYLE)
    yield from wrap_note(view.settings, screen)
    yield from wrap_note(view.screen.caveat, screen, PLAIN_STYLE)
    yield Text()


def closing_lines(notes: Sequence[str], screen: Screen) -> Iterator[Text]:
    """Yield an empty line, then the notes that conclude a view, each wrapped; nothing if none."""
    if notes:
        yield Text()
    for note in notes:
        yield from wrap_note(note, screen, PLAIN_STYLE)


def _section_lines(section: Section, screen: Screen) -> Iterator[Text]:
    """Yield a step: its heading and formula, its tables, its sums and its remarks."""
    remarks = [line for remark in section.remarks for line in wrap_note(remark, screen)]
    opening = list(_section_opening(section, screen))
    sums = [line for text in align_sums(section.sums) for line in _break_to_screen(text, screen)]
    section_tables = list(table_lines(section.tables, screen))
    yield from join_blocks([part for part in (opening, section_tables, sums, remarks) if part])


def _section_opening(section: Section, screen: Screen) -> Iterator[Text]:
    """Yield the heading of a step, what happens in it, and its formula."""
    yield from _section_heading(section, screen)
    yield from wrap_note(section.about, screen, PLAIN_STYLE)
    if section.formula:
        yield Text()
        yield from _break_to_screen(section.formula, screen)


def _section_heading(section: Section, screen: Screen) -> Iterator[Text]:
    """Yield a step's number and title, with the shapes on the same line if there is room."""
    shapes = f"   {section.shapes}" if section.shapes else ""
    line = Text.assemble((section.heading, BOLD_STYLE), (shapes, DIM_STYLE))
    if line.cell_len <= screen.room:
        yield line
    else:
        yield from wrap_note(section.heading, screen, BOLD_STYLE)
        yield from wrap_note(section.shapes, screen)


def _break_to_screen(text: str, screen: Screen) -> list[Text]:
    """Return a sum as lines that fit on the screen, broken before its signs and indented."""
    indent = "    " if screen.room >= 40 else "  "
    return [
        Text(line) for line in break_sum(text, lambda line: cell_len(line) <= screen.room, indent)
    ]
