"""What kind of value each key of an example takes, and what to say where it has another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, get_args, get_type_hints

from attnviz.traces.settings import Settings

MOST_NUMBERS = 100_000_000  # that one draw makes
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Kind:
    fits: Callable[[Any], bool]
    wanted: str  # "a whole number, such as 42"


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return is_whole(value) or isinstance(value, (float, Decimal))


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

EXPECTED: Mapping[str, Kind] = {
    "step": WORD,
    "query": TOKEN,
    "item": COUNT,
    "with": TABLE,
    "values": Kind(lambda value: isinstance(value, list) or _is_number(value), "rows of numbers"),
    "shape": SHAPE,
    "parameters": COUNT,
    "claim": WORD,
    "arithmetic": Kind(_are_words, "a list of sums in quotes"),
}
RECIPE: Mapping[str, Kind] = {
    "seed": Kind(
        lambda value: is_whole(value) and 0 <= value <= LARGEST_SEED,
        f"a whole number from 0 to {LARGEST_SEED:,}",
    ),
    "skip": Kind(
        lambda value: is_whole(value) and 0 <= value <= MOST_NUMBERS,
        f"a whole number from 0 to {MOST_NUMBERS:,}",
    ),
    "draws": Kind(lambda value: isinstance(value, list), "a list of draws"),
}
_OF_TYPE = {bool: YES, int: WHOLE, float: NUMBER, str: WORD}


def of_settings() -> dict[str, Kind]:
    """What each setting takes, as its field is annotated."""
    hints = get_type_hints(Settings)
    found = {
        name: [each for each in (get_args(hint) or (hint,)) if each in _OF_TYPE]
        for name, hint in hints.items()
    }
    return {name: _OF_TYPE[types[0]] for name, types in found.items() if types}
