"""Reads minimal pairs: two sentences in which one word decides what a token means.

Nothing here needs torch, so that a mistake in a file is found before a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.tokens.tokenizers import refuse_empty_text
from attnviz.wording.keywords import as_list
from attnviz.wording.words import counted

COMMENT = "#"  # begins a line that holds no pair
COLUMNS = ("sentence A", "sentence B", "token", "candidate 1", "candidate 2")
COLUMNS_HINT = f"a pair is one line, with tabs between its columns: {', '.join(COLUMNS)}"


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences that differ in what a token means: candidate 1 in the first sentence, candidate
    2 in the second."""

    first: str
    second: str
    token: str
    first_candidate: str
    second_candidate: str
    place: str = ""  # where it is from, for errors: "line 3 of 'pairs.tsv'"

    @property
    def sentences(self) -> tuple[str, str]:
        return self.first, self.second

    @property
    def words(self) -> tuple[str, str, str]:
        return self.token, self.first_candidate, self.second_candidate

    @property
    def cells(self) -> tuple[str, ...]:
        return (*self.sentences, *self.words)


def read_pairs(source: object) -> tuple[MinimalPair, ...]:
    """Return the minimal pairs of a file, or those given as rows of five strings.

    Blank lines of a file, and lines that begin with #, are left out. Refuses rows that are not five
    strings, empty ones, equal sentences, a pair that is there twice, and a source without pairs.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        content = files.decode_utf8(files.read_content(path), f"'{path}'")
        lines = enumerate(content.split("\n"), 1)
        pairs = [
            _build_pair(line.split("\t"), f"line {number} of '{path}'")
            for number, line in lines
            if line.strip() and not line.startswith(COMMENT)
        ]
        name = f"'{path}'"
    elif isinstance(source, Iterable) and not isinstance(source, bytes):
        pairs = [_build_pair(_row_cells(row), f"pair {n}") for n, row in enumerate(source, 1)]
        name = "the list"
    else:
        raise AttnvizError(
            f"pairs is of type {type(source).__name__}, and should be a file or several pairs",
            'give "pairs.tsv", or rows of five strings',
            about="pairs",
        )
    if not pairs:
        raise AttnvizError(f"{name} holds no pairs", COLUMNS_HINT, about="pairs")
    _refuse_repeated(pairs)
    return tuple(pairs)


def _row_cells(row: Any) -> Sequence[Any]:
    """Return the columns of a row: a MinimalPair, or any sequence but a string."""
    if isinstance(row, MinimalPair):
        return row.cells
    cells = as_list(row)
    return () if isinstance(cells, str) or not isinstance(cells, Iterable) else tuple(cells)


def _build_pair(cells: Sequence[Any], place: str) -> MinimalPair:
    """Return the pair of a row; `place` says where it is, for errors."""
    if len(cells) != len(COLUMNS) or not all(isinstance(cell, str) for cell in cells):
        problem = f"{place} has {counted(len(cells), 'column')}, and a pair has {len(COLUMNS)}"
        if len(cells) == len(COLUMNS):
            problem = f"{place} has columns that are not texts: a token is a word, not a number"
        raise AttnvizError(problem, COLUMNS_HINT, about="pairs")
    cells = [cell.strip() for cell in cells]
    for column, cell in zip(COLUMNS, cells, strict=True):
        if not cell:
            raise AttnvizError(f"{place} has no {column}", COLUMNS_HINT, about="pairs")
        refuse_empty_text(cell)
    first, second, token, first_candidate, second_candidate = cells
    pair = MinimalPair(first, second, token, first_candidate, second_candidate, place)
    if pair.first == pair.second:
        raise AttnvizError(
            f"{place}: both sentences are the same",
            "change a word in one of them, so that the token means the other candidate",
            about="pairs",
        )
    return pair


def _refuse_repeated(pairs: Sequence[MinimalPair]) -> None:
    """Refuse a pair that is there twice: intervals and tests would count it as two."""
    places: dict[frozenset[str], str] = {}
    for pair in pairs:
        earlier = places.setdefault(frozenset((*pair.sentences, pair.token)), pair.place)
        if earlier != pair.place:
            raise AttnvizError(
                f"{pair.place} repeats {earlier}",
                "leave one of them out: the test counts each pair as one observation",
                about="pairs",
            )
