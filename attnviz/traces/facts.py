"""What a file says beside its arrays: each fact of the type that its field has."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Anything = TypeVar("Anything")


def of_their_types(kind: type[Anything], facts: Mapping[str, Any]) -> Anything:
    """A dataclass of facts that were read; TypeError where one of them is something else."""
    made = kind(**facts)
    if not all(fits(getattr(made, name), hint) for name, hint in get_type_hints(kind).items()):
        raise TypeError(kind.__name__)
    return made


def fits(value: Any, hint: Any) -> bool:
    """
    >>> fits(2, float), fits("a", int | None), fits("b", Literal["a", "b"]), fits(True, int)
    (True, False, True, False)
    """
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is not None or hint is Any:  # of a Mapping: what is in it is looked at elsewhere
        return hint is Any or isinstance(value, origin)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else hint)
