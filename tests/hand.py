"""Grids written by hand, so that what is drawn of them hangs on no tensor and no seed."""

from __future__ import annotations

import numpy as np

from attnviz.views.grids.grids import Axis, Grid, Scale

HOSTILE = (
    "[red]", "[/]", ":smile:", "$x$", "$\\frac$", "\\alpha", "<b>", "</script>", "</text>",
    "&amp;", "]]>", "\\u001b[31m", "%s", "{0}", "日本", "한국어", "مرحبا", "🎉",
    "◌\u0301", "e\u0301", "⟨e6⟩⟨97⟩", "␣", "↵", "'", '"', "`", "a" * 60,
    "<|endoftext|>", "_", "^", "#", "--", "…",
)  # fmt: skip


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
        values / values.sum(1, keepdims=True),
        distance < 0,
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
        values,
        np.zeros(values.shape, dtype=bool),
        Scale("value", -1.0, 1.0, "diverging"),
    )


def many_words(count: int) -> Grid:
    return causal_weights("weights", *(f"word{number}" for number in range(count)))
