"""The gate to all that is shown: behind it every word can be printed, whoever wrote it.

Titles of lessons, names of files and words of texts come from strangers, and may hold sequences
that a terminal obeys, letters that turn their neighbours round, or what XML does not know.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from types import NoneType
from typing import Any, TypeVar

from attnviz.cells import Cells
from attnviz.wording.printable import is_printable, printable

Anything = TypeVar("Anything")
NUMBERS = frozenset((int, float, bool, NoneType))


def in_print(value: Anything, done: dict[int, tuple[Any, Any]] | None = None) -> Anything:
    """The same value, with every text in it printable, however deep it lies.

    It looks into dataclasses and sequences, so that no field can be forgotten. What many parts
    share, such as the labels of tokens, is looked at once; what is all right is not made anew.
    """
    done = {} if done is None else done
    if isinstance(value, str):
        return printable(value)  # type: ignore[return-value]
    if isinstance(value, Cells) or not (isinstance(value, (tuple, list)) or is_dataclass(value)):
        return value
    if id(value) not in done:  # beside what became of it, or its id might be another's soon
        made = _sequence(value, done) if isinstance(value, (tuple, list)) else _parts(value, done)
        done[id(value)] = value, made
    made_of_it: Anything = done[id(value)][1]
    return made_of_it


def _sequence(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    kinds = set(map(type, value))
    if kinds <= NUMBERS or (kinds == {str} and is_printable("".join(value))):
        return value
    made = type(value)([in_print(each, done) for each in value])
    same = all(one is other for one, other in zip(value, made, strict=True))
    return value if same else made


def _parts(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    parts = {each.name: getattr(value, each.name) for each in fields(value)}
    made = {name: in_print(each, done) for name, each in parts.items()}
    changed = {name: each for name, each in made.items() if each is not parts[name]}
    return replace(value, **changed) if changed else value
