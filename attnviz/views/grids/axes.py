"""The sides of a grid: what they count, and a name for each place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.wording.words import numbered

AXES_NOTE = "row = query (reads) · column = key (is read)"
GOES_ON = "behind the line: what the model wrote itself"  # where sides have a border
SUM_TO_ONE = "each row sums to 1"  # of a softmax, and of nothing that takes its place
NOTHING = "nothing, for every key is hidden"  # what a blind row reads
LINES_SUM = "what a token reads sums to 1"  # the same, where rows are drawn as lines,
ROW_SUMS = "what is read sums to 1"  # and where there is one row
SUMS = (SUM_TO_ONE, LINES_SUM, ROW_SUMS)


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
    border: int | None = None  # before this place a line is drawn: something else begins there
    special: tuple[bool, ...] = ()  # whether a tokenizer added what stands there
    reserved: tuple[str, ...] = ()  # labels that stand here at other moments, and need room, too

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Number and label: `3 learning`."""
        return tuple(map(numbered, self.numbers, self.labels))

    @cached_property
    def headings(self) -> tuple[str, ...]:
        """What stands over narrow columns: the number, or the label where there is none."""
        return tuple(
            number or label for number, label in zip(self.numbers, self.labels, strict=True)
        )

    @property
    def named(self) -> bool:
        """Whether these are the numbers of a vector, and have names in place of numbers."""
        dimensions = self.counts == self.title == "dimension"
        return dimensions and all(self.labels) and not any(self.numbers)

    def part(self, places: slice) -> Axis:
        """A part of the axis."""
        return replace(
            self,
            labels=self.labels[places],
            numbers=self.numbers[places],
            spaced=self.spaced[places],
            special=self.special[places],
            border=_within(self.border, range(len(self))[places]),
        )

    def in_blocks(self, size: int) -> Axis:
        """Blocks of places, named by the numbers that they span."""
        if size == 1:
            return self
        firsts = range(0, len(self), size)
        lasts = [min(first + size, len(self)) - 1 for first in firsts]
        return replace(
            self,
            labels=tuple(
                self.labels[first] if first == last else ""
                for first, last in zip(firsts, lasts, strict=True)
            ),
            numbers=tuple(map(self._span, firsts, lasts)),
            spaced=(),
            special=(),
            border=_within(self.border, firsts),
        )

    def _span(self, first: int, last: int) -> str:
        start, end = self.numbers[first], self.numbers[last]
        return start if start == end else f"{start}–{end}"


def _within(border: int | None, places: range) -> int | None:
    """The first place that is not before the border, if any is.

    >>> _within(6, range(0, 9, 2)), _within(5, range(3, 9)), _within(2, range(3, 9))
    (3, 2, None)
    """
    before = 0 if border is None else sum(place < border for place in places)
    return before if 0 < before < len(places) else None


def plain_axis(counts: str, labels: Sequence[str]) -> Axis:
    """Names without numbers, and without a title."""
    return Axis("", counts, tuple(labels), ("",) * len(labels))


def named_dimensions(names: Sequence[str]) -> Axis:
    """The places of a vector whose numbers mean something that has a name."""
    return Axis("dimension", "dimension", tuple(names), ("",) * len(names))


def dimension_axis(count: int) -> Axis:
    """The places of a vector, which have numbers and no names."""
    numbers = tuple(str(number) for number in range(1, count + 1))
    return Axis("dimension", "dimension", ("",) * count, numbers)
