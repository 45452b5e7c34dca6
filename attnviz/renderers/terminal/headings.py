"""What stands over the columns of a table: words, across or downwards, or numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from attnviz.views.grids.axes import Axis
from attnviz.wording.words import isolated

LONGEST_DOWN = 12  # letters of a word that is written downwards
APART = 5  # columns of blocks from one number to the next, at least


def across(axis: Axis, widths: Sequence[int]) -> list[str]:
    """Words over numbers, where each has room."""
    words = zip(axis.labels, widths, strict=True)
    return ["".join(_on_the_right(isolated(label), width) for label, width in words)]


def stacked(axis: Axis, widths: Sequence[int], height: int) -> list[str]:
    """Names of several words over numbers, each broken between its words, in so many lines."""
    names = [isolated(label).split() for label in axis.labels]
    ends = [[""] * (height - len(words)) + words for words in names]
    lines = zip(*ends, strict=True)
    return ["".join(map(_on_the_right, line, widths)) for line in lines]


def tallest_stack(axis: Axis) -> int:
    """How many lines such names take."""
    return max((len(label.split()) for label in axis.labels), default=0)


def widths_of_words(axis: Axis) -> list[int]:
    """How wide each name is, broken between its words."""
    return [max(map(cell_len, isolated(label).split()), default=0) for label in axis.labels]


def widest_word(axis: Axis) -> int:
    """0 if the places have no words."""
    return max(map(cell_len, axis.labels), default=0) if all(axis.labels) else 0


def tallest_word(axis: Axis) -> int:
    """How many lines words take that are written downwards."""
    return max((len(_letters(label)) for label in axis.labels), default=0)


def down(axis: Axis, width: int, *, numbers: bool) -> list[str]:
    """Words written downwards, each ending over its column."""
    words, height = [_letters(label) for label in axis.labels], tallest_word(axis)
    ends = [[""] * (height - len(word)) + word for word in words]
    return ["".join(_placed(word[line], width, numbers) for word in ends) for line in range(height)]


def ruler(axis: Axis, width: int) -> list[str]:
    """Numbers over blocks, each beginning above its own, as many as find room."""
    line = ""
    step = max(APART, math.ceil((max(map(len, axis.numbers)) + 1) / width))
    pooled = "–" in axis.numbers[0]  # 1, 81, 161; else 1, 5, 10
    for place in (0, *range(step if pooled else step - 1, len(axis), step)):
        number = axis.numbers[place].split("–")[0]
        start = place * width
        if start >= len(line) + bool(line) and start + len(number) <= len(axis) * width:
            line = line.ljust(start) + number
    return [line]


def numbered(axis: Axis, width: int) -> list[str]:
    """Numbers over numbers; labels where there are none."""
    return ["".join(f"{name:>{width}}" for name in axis.headings)]


def _letters(label: str) -> list[str]:
    """What is seen as one letter each, the last one a sign that there are more.

    >>> _letters("am"), _letters("e\\u0301t"), _letters("misunderstanding")[-2:]
    (['a', 'm'], ['e\\u0301', 't'], ['a', '…'])
    """
    letters = list(_clusters(label))
    return letters if len(letters) <= LONGEST_DOWN else [*letters[: LONGEST_DOWN - 1], "…"]


def _clusters(label: str) -> Iterator[str]:
    letter = ""
    for character in label:
        if letter and cell_len(character):
            yield letter
            letter = ""
        letter += character
    yield letter


def _placed(letter: str, width: int, numbers: bool) -> str:
    """In the middle of a number, at the beginning of a block."""
    if numbers:
        return _on_the_right(isolated(letter), width - 1) + " "
    return isolated(letter) + " " * (width - cell_len(letter))


def _on_the_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text
