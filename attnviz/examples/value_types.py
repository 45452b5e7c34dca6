"""The types of values in a lesson's file, with errors that name the file and the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints

from attnviz.traces.settings import Settings
from attnviz.traces.texts import LinedFile

MOST_NUMBERS = 100_000_000  # that one draw makes
LARGEST_SEED = 2**63 - 1
LARGEST_NUMBER = 1e30  # that a draw takes: float32 holds what is made of it


@dataclass(frozen=True)
class Kind:
    fits: Callable[[Any], bool]
    wanted: str  # "a whole number, such as 42"


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return is_whole(value) or isinstance(value, (float, Decimal))


def _is_from(least: float, value: Any) -> bool:
    """Whether it is a number that float32 has room for, and no smaller."""
    number = float(value) if isinstance(value, Decimal) else value  # NaN of the first is an error
    return _is_number(number) and least <= number <= LARGEST_NUMBER


def _is_seed(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= LARGEST_SEED


def _is_skip(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= MOST_NUMBERS


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(is_whole(n) and n > 0 for n in value)


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


WORD = Kind(lambda value: isinstance(value, str), "text in quotes")
WHOLE = Kind(is_whole, "a whole number, such as 42")
NUMBER = Kind(_is_number, "a number, such as 0.5")
YES = Kind(lambda value: isinstance(value, bool), "true or false")
TOKEN = Kind(lambda value: isinstance(value, str) or is_whole(value), "a word, or its number")
COUNT = Kind(lambda value: is_whole(value) and value > 0, "a whole number from 1")
SHAPE = Kind(_is_shape, "a list of sizes, such as [4, 3]")
TABLE = Kind(_is_table, "a table, such as { scale = false }")
SEED = Kind(_is_seed, f"a whole number from 0 to {LARGEST_SEED:,}")
SKIP = Kind(_is_skip, f"a whole number from 0 to {MOST_NUMBERS:,}")
INTEGER = Kind(
    lambda value: is_whole(value) and abs(value) <= LARGEST_SEED,
    f"a whole number of at most {LARGEST_SEED:,}",
)
FINITE = Kind(lambda value: _is_from(-LARGEST_NUMBER, value), "a number, such as 0.5")
POSITIVE = Kind(lambda value: _is_from(0, value), "a number from 0, such as 0.02")
SHARE = Kind(
    lambda value: _is_from(0, value) and value < 1, "a number from 0 and below 1, such as 0.1"
)


def plain(value: Any) -> Any:
    """A float in place of a decimal number: digits as written matter only in what is expected."""
    return float(value) if isinstance(value, Decimal) else value


def one_of(*words: str) -> Kind:
    """One word of several."""
    return Kind(lambda value: value in words, f"one of {', '.join(words)}")


EXPECTED: Mapping[str, Kind] = {
    "step": WORD,
    "query": TOKEN,
    "item": COUNT,
    "layer": Kind(lambda value: is_whole(value) and value >= 0, "a whole number from 0"),
    "with": TABLE,
    "values": Kind(lambda value: isinstance(value, list) or _is_number(value), "rows of numbers"),
    "tolerance": POSITIVE,
    "shape": SHAPE,
    "parameters": COUNT,
    "claim": WORD,
    "arithmetic": Kind(_are_words, "a list of sums in quotes"),
}
RECIPE: Mapping[str, Kind] = {
    "seed": SEED,
    "skip": SKIP,
    "draws": Kind(lambda value: isinstance(value, list), "a list of draws"),
}
DRAW: Mapping[str, Kind] = {"name": WORD, "seed": SEED, "skip": SKIP, "transposed": YES}
_OF_TYPE = {bool: YES, int: WHOLE, float: NUMBER, str: WORD}


@cache
def of_settings() -> dict[str, Kind]:
    """What each setting takes, as its field is annotated."""
    hints = get_type_hints(Settings)
    found = {name: _of_hint(hint) for name, hint in hints.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def _of_hint(hint: Any) -> Kind | None:
    """What a field takes that is annotated so: a type, one of several words, or None beside it."""
    if get_origin(hint) is Literal:
        return WORD
    if hint in _OF_TYPE:
        return _OF_TYPE[hint]
    return next((kind for each in get_args(hint) if (kind := _of_hint(each))), None)


QUOTED = re.compile(r""""([^"]*)"|'([^']*)'""")


@dataclass(frozen=True)
class ExampleFile(LinedFile):
    """A file that is read."""

    @cached_property
    def _quoted(self) -> Mapping[str, int]:
        """The first line that holds each word that stands in quotes."""
        found: dict[str, int] = {}
        for number, line in enumerate(self.lines, start=1):
            for each in QUOTED.finditer(line):
                found.setdefault(each[each.lastindex or 0], number)
        return found

    def line_of_text(self, word: str) -> int | None:
        """The first line that holds a word in quotes."""
        return self._quoted.get(word)

    def refuse_other_kinds(
        self, table: Mapping[str, Any], known: Mapping[str, Kind], after: str = "", number: int = 0
    ) -> None:
        for key, value in table.items():
            if key in known and not known[key].fits(value):
                line = self.line(key, after, number)
                raise self.error(f"'{key}' is not {known[key].wanted}", "change its value", line)
