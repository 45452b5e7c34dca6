"""What can be shown: labelled Grids and Curves, their scales, how they are pooled and written."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Shaped

Values = Shaped[np.ndarray, "row column"]
Hidden = Bool[np.ndarray, "row column"]


@dataclass(frozen=True)
class Axis:
    """One side of a grid: what it counts, a name for each place, and where in a text it stood.

    `labels` are empty where the number says all, as for the dimensions of a vector.
    """

    title: str
    counts: str  # "token", "dimension", "head": what one place on this side is
    labels: tuple[str, ...]
    numbers: tuple[str, ...]
    spaced: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """Number and label: `3 learning`."""
        return tuple(
            f"{number} {isolated(label)}".strip()
            for number, label in zip(self.numbers, self.labels, strict=True)
        )

    @property
    def headings(self) -> tuple[str, ...]:
        """What stands over narrow columns: the number, or the label where there is none."""
        return tuple(
            number or label for number, label in zip(self.numbers, self.labels, strict=True)
        )


@dataclass(frozen=True)
class Scale:
    """What the colours of a grid stand for, from `low` to `high`.

    `kind` is "sequential", "diverging" (centred on 0) or "none" (nothing to colour); `beyond`
    says that some values lie above `high` and are drawn as if they were there.
    """

    label: str
    low: float
    high: float
    kind: str = "sequential"
    beyond: bool = False


@dataclass(frozen=True, eq=False)
class Line:
    """One curve: a value for each place, and the band that it lies in."""

    name: str
    middle: Shaped[np.ndarray, "place"]
    low: Shaped[np.ndarray, "place"]
    high: Shaped[np.ndarray, "place"]
    dashed: bool = False  # drawn from a formula, not measured


@dataclass(frozen=True, eq=False)
class Grid:
    """A labelled matrix: everything that can be shown is one."""

    title: str
    rows: Axis
    columns: Axis
    values: Values
    hidden: Hidden
    scale: Scale
    note: str = ""  # one line on how to read it
    share: bool = False  # a row is divided up: pooling adds columns instead of averaging them
    pooled: str = ""  # what one cell stands for, if several were put together
    decimals: int | None = None  # behind the point; None: as many as there is room for


@dataclass(frozen=True, eq=False)
class Curves:
    """What becomes of a number along another: the second thing that can be shown."""

    title: str
    across: str
    places: tuple[float, ...]
    lines: tuple[Line, ...]
    note: str = ""

    @property
    def table(self) -> Grid:
        """The same as numbers, a row for each place, a column for each measured line."""
        measured = [line for line in self.lines if not line.dashed]
        values = np.stack([line.middle for line in measured], axis=1)
        return Grid(
            f"{self.title} by {self.across}",
            plain_axis("value", [f"{place:g}" for place in self.places]),
            plain_axis("line", [line.name for line in measured]),
            values,
            none_hidden(values),
            Scale(self.title, 0, 1, "none"),
            note=self.note,
        )


@dataclass(frozen=True, eq=False)
class Section:
    """One step on the way: what it does and why, its tables, and its sums written out.

    `moments` are what an animation shows of it, one after another: the same tables while they
    fill up. A cell that is not yet filled is NaN, and is left empty.
    """

    number: str  # "5"; "4b" for what stands between two of the usual steps
    name: str  # "scores": what --step and the names of files call it
    title: str
    about: str  # a plain sentence or two
    shapes: str = ""  # "queries [4 × 8] · keysᵀ [8 × 4] → scores [4 × 4]"
    formula: str = ""  # "scores = Q Kᵀ", for the terminal
    tex: str = ""  # the same for Markdown, without its dollars
    grids: tuple[Grid, ...] = ()
    sums: tuple[str, ...] = ()  # "score(am, I) = 0.26·0.88 + 0.79·0.92 = 0.96"
    remarks: tuple[str, ...] = ()  # what else there is to say, a line each
    moments: tuple[Section, ...] = ()

    @property
    def heading(self) -> str:
        return f"{self.number} {self.title}".strip()

    @property
    def tables(self) -> tuple[Grid, ...]:
        """Its grids; one that is alone and has the title of the step need not repeat it."""
        if len(self.grids) == 1 and self.grids[0].title.lower() in self.title.lower():
            return (replace(self.grids[0], title=""),)
        return self.grids


# What can be shown; None leaves a place among the panels empty.
Drawable = Grid | Curves | Section | None


# Up to this many keys colours run from 0 to 1. Among more, weights are so small that all of them
# would look like 0, so colours run to a stated maximum.
KEYS_ON_FULL_SCALE = 16


def caption(drawn: Sequence[Drawable], settings: str) -> str:
    """The small print of a picture: how to read its panels, each thing said once; settings."""
    shown = list(opened(drawn))
    notes = dict.fromkeys(part for each in shown if each.note for part in each.note.split(" · "))
    hidden = any(isinstance(each, Grid) and each.hidden.any() for each in shown)
    masked = ["hatched = hidden by the mask"] if hidden else []
    return " · ".join([*notes, *masked, settings])


def describe(drawn: Sequence[Drawable]) -> str:
    """A picture in words, for those who do not see it."""
    return " ".join(_described(each) for each in drawn if each)


def opened(drawn: Sequence[Drawable]) -> Iterator[Grid | Curves]:
    """Every table and chart there is, those of sections as well."""
    for each in drawn:
        if isinstance(each, Section):
            yield from each.grids
        elif each:
            yield each


def _described(grid: Grid | Curves | Section) -> str:
    if isinstance(grid, Section):
        parts = [f"{grid.heading}: {grid.about}", *(_described(each) for each in grid.grids)]
        return " ".join(part for part in parts if part)
    if isinstance(grid, Curves):
        ends = [
            f"{line.name} from {line.middle[0]:.2g} to {line.middle[-1]:.2g}" for line in grid.lines
        ]
        reach = f"{grid.across} from {grid.places[0]:g} to {grid.places[-1]:g}"
        return f"{grid.title} for {reach}: {', '.join(ends)}."
    size = f"{len(grid.rows):,} × {len(grid.columns):,}"
    start = f"{grid.title}: {size} ({grid.rows.title} × {grid.columns.title})."
    if not grid.share or not grid.values.size:
        return start
    strongest = np.nan_to_num(grid.values).argmax(axis=1)
    order = (
        range(len(grid.rows)) if len(grid.rows) <= 16 else np.argsort(-grid.values.max(axis=1))[:8]
    )
    most = [
        f"{grid.rows.names[row]} reads {grid.columns.names[strongest[row]]} most "
        f"({grid.values[row, strongest[row]]:.2f})"
        for row in order
    ]
    return f"{start} {'; '.join(most)}."


def isolated(label: str) -> str:
    """A label that runs from right to left, kept from turning round the numbers beside it."""
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in label)
    return f"\u200e{label}\u200e" if turned else label


def plain_axis(counts: str, labels: Sequence[str]) -> Axis:
    """Names without numbers, and without a title."""
    return Axis("", counts, tuple(labels), ("",) * len(labels))


def weight_scale(values: Values) -> Scale:
    """From 0 to 1; or, among many keys, to a stated maximum that few weights exceed."""
    largest = float(filled(values).max(initial=0.0))
    if values.shape[1] <= KEYS_ON_FULL_SCALE:
        return Scale("weight", 0.0, 1.0 if largest <= 1.001 else _rounded_up(largest))
    sample = values.ravel()[:: max(1, values.size // 1_000_000)]  # of a book, one in so many
    drawn = sample[sample > 0]
    high = min(
        _rounded_up(float(np.quantile(drawn, 0.98))) if drawn.size else 1.0, max(1.0, largest)
    )
    return Scale("weight", 0.0, high, beyond=largest > high)


def same_scale(grids: Sequence[Grid]) -> list[Grid]:
    """Grids of one kind share the widest of their scales, so that a colour means one number."""
    labels = {grid.scale.label for grid in grids}
    widest = {
        label: _widest([g.scale for g in grids if g.scale.label == label]) for label in labels
    }
    return [replace(grid, scale=widest[grid.scale.label]) for grid in grids]


def pool(grid: Grid, rows: int, columns: int) -> Grid:
    """The grid in blocks of `rows` by `columns` cells, each drawn as one; the last may be smaller.

    A row that is divided up stays so: weights are added over the keys of a block and averaged
    over its queries, so that a row of the pooled grid still sums to 1. Anything else is averaged.
    """
    if rows == columns == 1:
        return grid
    starts, across = _starts(len(grid.rows), rows), _starts(len(grid.columns), columns)
    summed = _added(_added(grid.values, across, 1), starts, 0)
    heights, widths = _sizes(len(grid.rows), starts), _sizes(len(grid.columns), across)
    divisor = heights[:, None] * (1 if grid.share else widths[None, :])
    hidden = _added(_added(grid.hidden, across, 1), starts, 0)
    made = replace(
        grid,
        rows=_pool_axis(grid.rows, starts),
        columns=_pool_axis(grid.columns, across),
        values=summed / divisor,
        hidden=hidden == heights[:, None] * widths[None, :],
        pooled=_what_was_pooled(grid, rows, columns),
    )
    if not grid.share:
        return made
    differences = grid.scale.kind == "diverging"
    scale = centred(grid.scale.label, made.values) if differences else weight_scale(made.values)
    return replace(made, scale=scale)


def cell_format(grid: Grid, decimals: int) -> Callable[[float], str]:
    """How the numbers of a grid are written: `.31` for a share, `-0.31` for a value."""
    decimals = decimals if grid.decimals is None else grid.decimals
    if grid.scale.kind == "none":
        return str if grid.values.dtype.kind in "iu" else "{:.3f}".format
    if grid.share and grid.scale.kind == "diverging" and grid.scale.high < 0.01:
        return tiny_text
    if grid.share:
        return share_text if decimals == 2 else f"{{:.{decimals}f}}".format
    reach = float(np.abs(filled(grid.values)).max(initial=0.0))
    if grid.decimals is not None and grid.values.size and _whole(grid.values):
        return lambda value: f"{value + 0.0:.0f}"
    if 0 < reach < (0.1 if grid.decimals is None else smallest(decimals)):
        return f"{{:.{max(decimals - 1, 0)}e}}".format
    # Fewer behind 100, none behind 1000, unless somebody said how many.
    fewer = 0 if grid.decimals is not None else max(0, len(str(int(reach))) - 2)
    left = max(0, decimals - fewer)
    return lambda value: f"{round(value, left) + 0.0:.{left}f}"  # + 0.0, for there is no -0.00


def smallest(decimals: int) -> float:
    """Numbers all below this are written with powers of ten: no digit would be left.

    >>> smallest(2)
    0.005
    """
    return 0.5 * 10.0**-decimals


def _whole(values: Values) -> bool:
    """Whether there is nothing behind any point."""
    exact = values.astype(float)  # a million is more than float16 can be compared with
    filled = exact[~np.isnan(exact)]
    return bool((filled == filled.round()).all() and np.abs(filled).max(initial=0) < 1e6)


def tiny_text(value: float) -> str:
    """
    >>> tiny_text(-3.2e-8), tiny_text(0.0)
    ('-3e-08', '0')
    """
    return f"{value:.0e}" if value else "0"


def share_text(value: float) -> str:
    """In three columns, and one more for a minus.

    >>> [share_text(value) for value in (0.312, 0.999, 0.0, 2.0, -0.31, -0.001)]
    ['.31', '1.0', '.00', '2.0', '-.31', '.00']
    """
    if value <= -0.005:
        return "-" + share_text(-value)
    return f"{abs(value):.2f}"[1:] if value < 0.995 else f"{value:.1f}"[:3]


def only_row(grid: Grid, row: int) -> Grid:
    """One row of a grid."""
    part = slice(row, row + 1)
    return replace(
        grid, rows=only(grid.rows, part), values=grid.values[part], hidden=grid.hidden[part]
    )


def only(axis: Axis, part: slice) -> Axis:
    """A part of an axis."""
    return replace(
        axis, labels=axis.labels[part], numbers=axis.numbers[part], spaced=axis.spaced[part]
    )


def filled(values: Values) -> Shaped[np.ndarray, "cell"]:
    """The numbers of the cells that are neither empty nor infinite."""
    flat: Shaped[np.ndarray, "cell"] = values[np.isfinite(values)]
    return flat


def none_hidden(values: Values) -> Hidden:
    return np.zeros(values.shape, dtype=bool)


def centred(label: str, values: Values) -> Scale:
    """A diverging scale that reaches as far on either side of 0 as the largest value does."""
    reach = _rounded_up(float(np.abs(filled(values)).max(initial=0.0)))
    return Scale(label, -reach, reach, "diverging")


def _rounded_up(value: float) -> float:
    """The next number that looks well at the end of a scale: 1, 1.5, 2, 3, 4, 5, 6, 8 times 10ⁿ.

    >>> _rounded_up(0.0123), _rounded_up(2.2), _rounded_up(0.0)
    (0.015, 3.0, 1.0)
    """
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
    return round(next(step for step in steps if step * power >= value * (1 - 1e-9)) * power, 12)


def _widest(scales: Sequence[Scale]) -> Scale:
    widest = max(scales, key=lambda scale: scale.high)
    return replace(
        widest, beyond=any(scale.beyond for scale in scales if scale.high == widest.high)
    )


def block_size(count: int, smallest: int) -> int:
    """The first size that leaves no short last block, which would look as if nobody read it.

    >>> block_size(36, 35), block_size(80, 2), block_size(10, 1)
    (36, 2, 1)
    """
    sizes = range(smallest, smallest + smallest // 4 + 2)
    return next((size for size in sizes if not 0 < count % size < size / 2), smallest)


def _starts(count: int, size: int) -> Shaped[np.ndarray, "block"]:
    return np.arange(0, count, size)


def _sizes(count: int, starts: Shaped[np.ndarray, "block"]) -> Shaped[np.ndarray, "block"]:
    return np.diff(np.append(starts, count))


def _added(values: Values, starts: Shaped[np.ndarray, "block"], axis: int) -> Values:
    return np.add.reduceat(values, starts, axis=axis, dtype=np.float64)


def _pool_axis(axis: Axis, starts: Shaped[np.ndarray, "block"]) -> Axis:
    """Blocks are named by the numbers that they span and by their first label."""
    if len(starts) == len(axis):
        return axis
    firsts, ends = starts.tolist(), [*starts.tolist()[1:], len(axis)]
    spans = [
        (axis.numbers[first], axis.numbers[end - 1])
        for first, end in zip(firsts, ends, strict=True)
    ]
    return replace(
        axis,
        labels=tuple(axis.labels[first] for first in firsts),
        numbers=tuple(first if first == last else f"{first}–{last}" for first, last in spans),
        spaced=(),
    )


def _what_was_pooled(grid: Grid, rows: int, columns: int) -> str:
    block = f"{rows} × {columns} {grid.rows.counts}s"
    if grid.share:
        return f"one cell = {block}: weights added over the keys, averaged over the queries"
    return f"one cell = {block}, averaged"
