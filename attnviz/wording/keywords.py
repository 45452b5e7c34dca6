"""What is given to the library by keywords: in plain values, or refused in two lines."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from attnviz.errors import AttnvizError, unknown

Choices = TypeVar("Choices")
Result = TypeVar("Result")
P = ParamSpec("P")
KINDS: dict[str, tuple[tuple[type, ...], str, str]] = {  # by annotation; of any other all passes
    "int": ((int,), "a whole number", "1"),
    "float": ((int, float), "a number", "0.5"),
    "bool": ((bool,), "True or False", "True"),
    "str": ((str,), "a text", '"…"'),
    "tuple[float, float]": ((tuple, list), "two numbers", "(8, 5)"),
}


def changed(base: Choices, given: Mapping[str, Any], also: Iterable[str] = ()) -> Choices:
    """A dataclass of choices with some of them changed; `also` are names that are known elsewhere.

    >>> from attnviz import Settings
    >>> changed(Settings(), {"heads": 2}).heads
    2
    """
    if not is_dataclass(base) or isinstance(base, type):
        raise AttnvizError(
            f"the settings are of type {type(base).__name__}, and should be Settings",
            'give each setting by its name, such as model="minilm"; a second text is other="…"',
        )
    known = {each.name: str(each.type) for each in fields(base)}
    made: Choices = replace(base, **checked(given, known, also))
    return made


def of_function(
    function: Callable[..., Any], given: Mapping[str, Any], also: Iterable[str] = ()
) -> dict[str, Any]:
    """The keywords that a function is called with beside its first argument, plain and known."""
    _, *parameters = signature(function).parameters.values()
    known = {each.name: str(each.annotation) for each in parameters}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):  # handed on, and looked at there
        known = dict.fromkeys(given, "Any") | known
    return checked(given, known, also)


def of_its_kinds(function: Callable[P, Result]) -> Callable[P, Result]:
    """The same function, called with plain values, each of a kind that its annotation names.

    >>> from attnviz import AttnvizError, example
    >>> try:
    ...     example(None)
    ... except AttnvizError as error:
    ...     print(error)
    name is None, and should be a text
    """
    takes = signature(function)
    parameters = takes.parameters.items()
    known = {name: str(each.annotation) for name, each in parameters}
    handed_on = [name for name, each in parameters if each.kind is Parameter.VAR_KEYWORD]

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> Result:
        bound = takes.bind(*arguments, **keywords)
        own = {name: each for name, each in bound.arguments.items() if name not in handed_on}
        bound.arguments |= checked(own, known)
        return function(*bound.args, **bound.kwargs)

    return call


def checked(
    given: Mapping[str, Any], known: Mapping[str, str], also: Iterable[str] = ()
) -> dict[str, Any]:
    """Plain values, each of a kind that its annotation names."""
    values = {}
    for name, value in given.items():
        if name not in known:
            error = unknown("keyword", name, [*known, *also])
            raise AttnvizError(str(error), error.hint.partition(" known: ")[0])  # of near ones one
        wanted = known[name].split(" | ")
        values[name] = _plain(value, wanted)
        if not _fits(values[name], wanted):
            kinds = [KINDS[each] for each in wanted if each in KINDS]
            short = type(value).__module__ == "builtins"
            told = reprlib.repr(value) if short else f"of type {type(value).__name__}"
            problem = f"{name} is {told}, and should be {' or '.join(kind[1] for kind in kinds)}"
            raise AttnvizError(problem, f"try {name}={kinds[0][2]}", about=name)
    return values


def _plain(value: Any, wanted: Collection[str]) -> Any:
    """A path, a dtype, a device or a NumPy number as what it says; a token's number as a text."""
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if kind in ("torch.dtype", "torch.device"):
        return str(value).removeprefix("torch.")
    if kind.startswith("numpy.") and getattr(value, "shape", None) == ():
        value = value.item()
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number and "str" in wanted and "int" not in wanted else value


def _fits(value: Any, wanted: Collection[str]) -> bool:
    kinds = [each for each in wanted if each != "None"]
    if not all(each in KINDS for each in kinds):
        return True
    if value is None:
        return "None" in wanted
    if isinstance(value, bool):
        return "bool" in kinds
    return any(isinstance(value, KINDS[each][0]) for each in kinds)
