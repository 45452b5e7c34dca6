"""Very many heads on one page: layers are rows and heads are columns, each named once."""

from __future__ import annotations

import re
from dataclasses import replace

from attnviz.renderers.picture.arrangement import Arranged
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.texts import title_of
from attnviz.renderers.picture.ticks import BESIDE, PanelStyle, Ticks, text_width
from attnviz.views.grids.grid import Grid

OF_A_LAYER = re.compile(r"(?P<layer>L\d+)(?P<head>H\d+)")


def named_once(arranged: Arranged) -> tuple[Arranged, list[str]]:
    """Panels with `H3` above the first row alone; and `L0`, `L1`, … beside the rows.

    Where panels are no heads of layers, or rows no layers, they keep their titles.
    """
    found = [OF_A_LAYER.fullmatch(title_of(each)) for each in arranged.panels]
    rows = [
        found[start : start + arranged.columns] for start in range(0, len(found), arranged.columns)
    ]
    layers = [{match["layer"] for match in row if match} for row in rows]
    if not all(found) or any(len(names) > 1 for names in layers):
        return arranged, []
    above = [match["head"] if match else "" for match in rows[0]]
    titles = [*above, *[""] * (len(found) - len(above))]
    panels = tuple(
        replace(each, title=title) if isinstance(each, Grid) else each
        for each, title in zip(arranged.panels, titles, strict=True)
    )
    return replace(arranged, panels=panels), [next(iter(names)) for names in layers]


def layer_ticks(title: str, name: str, style: PanelStyle) -> Ticks:
    """The name of a layer beside its row."""
    extent = text_width(name, style.smallest) + BESIDE * style.smallest * POINT
    return Ticks(title, 1, (0,), (name,), style.smallest, 0, extent)
