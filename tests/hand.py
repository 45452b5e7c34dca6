"""Grids and Views written by hand, so that what is drawn of them depends on no seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

import numpy as np

from attnviz.cells import StoredCells, unmasked_cells
from attnviz.renderers import suffixes
from attnviz.traces.trace import Provenance
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Drawable
from attnviz.views.view import Group, Page, View

SVG = "{http://www.w3.org/2000/svg}"
PANEL_SUFFIXES = suffixes("document", "arrays", "rows")  # in formats that need no data, only panels
HOSTILE = tuple(
    (
        r"[red] [/] :smile: $x$ $\frac$ \alpha <b> </script> </text> &amp; ]]> \u001b[31m %s {0} "
        "日本 한국어 مرحبا 🎉 ◌\u0301 e\u0301 ⟨e6⟩⟨97⟩ ␣ ↵ ' \" ` "
        f"{'a' * 60} <|endoftext|> _ ^ # -- …"
    ).split(" ")
)


def view_of(
    *panels: Drawable,
    headline: str = "",
    caption: str = "",
    description: str = "",
    provenance: Provenance | None = None,
    closing: Sequence[str] = (),
) -> View:
    """A View of these panels, the same on a screen as in a picture."""
    page = Page((Group("by hand", panels),), caption, description)
    return View(
        headline=headline,
        settings=caption,
        screen=page,
        picture=page,
        provenance=provenance,
        closing=tuple(closing),
    )


def provenance_with(settings: Mapping[str, object]) -> Provenance:
    """A Provenance with these settings, the same on every machine."""
    return Provenance("1.2.3", None, settings, 42, "cpu", "float32", {"numpy": "2.0"})


def words(*labels: str, title: str = "key (is read)") -> Axis:
    numbers = tuple(str(number) for number in range(1, len(labels) + 1))
    return Axis(title, "token", labels, numbers, (False,) + (True,) * (len(labels) - 1))


def dimensions(count: int) -> Axis:
    numbers = tuple(str(number) for number in range(1, count + 1))
    return Axis("dimension", "dimension", ("",) * count, numbers)


def causal_weights(title: str = "weights", *labels: str) -> Grid:
    """A triangle: each token reads the ones before it, the nearer the more."""
    axis = words(*(labels or ("I", "am", "learning", "this")))
    count = len(axis)
    distance = np.arange(count)[:, None] - np.arange(count)[None, :]
    values = np.where(distance < 0, 0.0, 0.5 ** np.maximum(distance, 0))
    return Grid(
        title,
        words(*axis.labels, title="query (reads)"),
        axis,
        StoredCells(values / values.sum(1, keepdims=True), distance < 0),
        Scale("weight", 0.0, 1.0),
        note="row = query (reads) · column = key (is read) · each row sums to 1",
        share=True,
    )


def vectors(rows: int = 3, columns: int = 4) -> Grid:
    values = np.linspace(-1, 1, rows * columns).reshape(rows, columns)
    return Grid(
        "context vectors",
        words(*(f"w{row}" for row in range(rows)), title="query (reads)"),
        dimensions(columns),
        unmasked_cells(values),
        Scale("value", -1.0, 1.0, "diverging"),
    )


def many_words(count: int) -> Grid:
    return causal_weights("weights", *(f"word{number}" for number in range(count)))


def texts_of_svg(svg: bytes) -> list[str]:
    """The texts that a picture draws as text."""
    elements = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return ["".join(each.itertext()) for each in elements]
