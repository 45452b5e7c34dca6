"""What a page shows besides its heads: tables, in HTML that no word of them can leave."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import Write, cell_format, cell_text
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section, table_of
from attnviz.views.view import View

HIDDEN = "·"


def panels(view: View) -> Iterator[str]:
    """Every panel that is no map of a head, which can be explored."""
    for each in view.screen.panels:
        yield from _panel(each)


def _panel(each: Drawable) -> Iterator[str]:
    if isinstance(each, Section):
        yield f"<h2>{escape(each.heading)}</h2><p>{escape(each.about)}</p>"
        for grid in each.grids:
            yield from _table(grid)
    elif not isinstance(each, Overview):
        yield from _table(table_of(each))


def _table(grid: Grid) -> Iterator[str]:
    write = cell_format(grid, 2)
    yield f"<table><caption>{escape(grid.title)}</caption><thead><tr><td></td>"
    yield "".join(f'<th scope="col">{escape(name)}</th>' for name in grid.columns.names)
    yield "</tr></thead><tbody>"
    for row, name in enumerate(grid.rows.names):
        yield f'<tr><th scope="row">{escape(name)}</th>{_cells(grid, row, write)}</tr>'
    yield "</tbody></table>"


def _cells(grid: Grid, row: int, write: Write) -> str:
    values, hidden = grid.values[row].tolist(), grid.hidden[row].tolist()
    numbers = (cell_text(v, h, write, HIDDEN) for v, h in zip(values, hidden, strict=True))
    return "".join(
        f"<td>{escape(grid.worded(row, column, number))}</td>"
        for column, number in enumerate(numbers)
    )
