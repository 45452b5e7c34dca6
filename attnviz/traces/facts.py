"""What a file says beside its arrays: each fact of the type that its field has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Anything = TypeVar("Anything")


def of_their_types(kind: type[Anything], facts: Mapping[str, Any]) -> Anything:
    """A dataclass of facts that were read; TypeError where one of them is something else.

    Types are looked at first: what a dataclass checks of itself is about values of its types. One
    word of several comes last: a dataclass may know a better word for another.
    """
    hints = get_type_hints(kind)
    wrong = [name for name, value in facts.items() if not fits(value, hints.get(name))]
    if any(get_origin(hints.get(name)) is not Literal for name in wrong):
        raise TypeError(wrong)
    made = kind(**facts)
    if wrong:
        raise TypeError(wrong)
    return made


def fits(value: Any, hint: Any) -> bool:
    """
    >>> fits(2, float), fits("a", int | None), fits("b", Literal["a", "b"]), fits(True, int)
    (True, False, True, False)
    >>> fits([1, [2]], list[int]), fits({"a": 1}, Mapping[str, float]), fits(10**400, float)
    (False, True, False)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is not None or hint is Any:
        return hint is Any or (isinstance(value, origin) and _filled(value, inside))
    if hint is float and isinstance(value, int):  # of any length in JSON
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else hint)


def _filled(value: Any, inside: tuple[Any, ...]) -> bool:
    """Whether all that a Mapping, a list or a tuple holds is of the types that it should be."""
    if isinstance(value, Mapping):
        keys, values = inside
        return all(fits(key, keys) and fits(each, values) for key, each in value.items())
    if isinstance(value, tuple) and inside[-1] is not Ellipsis:
        return len(value) == len(inside) and all(map(fits, value, inside))
    return all(fits(each, inside[0]) for each in value)
