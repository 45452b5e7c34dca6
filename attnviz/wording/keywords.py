"""Checks of the keyword arguments that users pass to the library."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from attnviz.errors import AttnvizError, unknown_name_error

Choices = TypeVar("Choices")
Result = TypeVar("Result")
P = ParamSpec("P")
# By annotation: accepted types, their name in a message, an example. Other annotations accept all.
VALUE_TYPES: dict[str, tuple[tuple[type, ...], str, str]] = {
    "int": ((int,), "a whole number", "1"),
    "float": ((int, float), "a number", "0.5"),
    "bool": ((bool,), "True or False", "True"),
    "str": ((str,), "a text", '"…"'),
    "tuple[float, float]": ((str, tuple, list), "two numbers", "(8, 5)"),
}


def replace_choices(
    base: Choices, changes: Mapping[str, Any], other_names: Iterable[str] = ()
) -> Choices:
    """Return the options dataclass `base` with `changes` applied; refuses a `base` that is none,
    unknown names and values of a wrong type.

    `other_names` are further keywords that an error message may suggest.

    >>> from attnviz import Settings
    >>> replace_choices(Settings(), {"heads": 2}).heads
    2
    """
    if not is_dataclass(base) or isinstance(base, type):
        raise AttnvizError(
            f"the settings are of type {type(base).__name__}, and should be Settings",
            'give each setting by its name, such as model="minilm"; a second text is other="…"',
        )
    types_by_name = {field.name: str(field.type) for field in fields(base)}
    choices: Choices = replace(base, **check_values(changes, types_by_name, other_names))
    return choices


def check_keywords(
    function: Callable[..., Any], keywords: Mapping[str, Any], other_names: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the keywords for `function`, whose first argument is not among them, as plain values;
    refuse unknown names and values of a wrong type.

    A function with `**keywords` accepts any further names unchecked. `other_names` are further
    keywords that an error message may suggest.
    """
    _, *parameters = signature(function).parameters.values()
    types_by_name = {parameter.name: str(parameter.annotation) for parameter in parameters}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        # Further keywords are passed on, and are checked where they arrive.
        types_by_name = dict.fromkeys(keywords, "Any") | types_by_name
    return check_values(keywords, types_by_name, other_names)


def with_checked_arguments(function: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate a function so that each argument is checked against its annotation and converted to
    a plain value.

    >>> from attnviz import AttnvizError, example
    >>> try:
    ...     example(None)
    ... except AttnvizError as error:
    ...     print(error)
    name is None, and should be a text
    """
    accepted = signature(function)
    parameters = accepted.parameters.items()
    types_by_name = {name: str(parameter.annotation) for name, parameter in parameters}
    variadic = [name for name, each in parameters if each.kind is Parameter.VAR_KEYWORD]

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> Result:
        bound = accepted.bind(*arguments, **keywords)
        own = {name: value for name, value in bound.arguments.items() if name not in variadic}
        bound.arguments |= check_values(own, types_by_name)
        return function(*bound.args, **bound.kwargs)

    return call


def check_values(
    keywords: Mapping[str, Any], types_by_name: Mapping[str, str], other_names: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the keywords with paths, dtypes and NumPy numbers as plain values; refuse names not in
    `types_by_name` and values that do not fit the type there.

    `other_names` are further keywords that an error message may suggest.
    """
    values = {}
    for name, value in keywords.items():
        if name not in types_by_name:
            error = unknown_name_error("keyword", name, [*types_by_name, *other_names])
            nearest = error.hint.partition(" known: ")[0]
            raise AttnvizError(str(error), nearest)
        type_names = types_by_name[name].split(" | ")
        values[name] = _plain_value(value, type_names)
        if not _fits_annotation(values[name], type_names):
            expected = [VALUE_TYPES[each] for each in type_names if each in VALUE_TYPES]
            is_builtin = type(value).__module__ == "builtins"
            value_text = reprlib.repr(value) if is_builtin else f"of type {type(value).__name__}"
            nouns = " or ".join(noun for _, noun, _ in expected)
            problem = f"{name} is {value_text}, and should be {nouns}"
            raise AttnvizError(problem, f"try {name}={expected[0][2]}", about=name)
    return values


def _plain_value(value: Any, type_names: Collection[str]) -> Any:
    """Return a path, dtype or device as text, a NumPy number as a Python one, and a whole number as
    text where only text is accepted; any other value unchanged.
    """
    type_path = f"{type(value).__module__}.{type(value).__name__}"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type_path in ("torch.dtype", "torch.device"):
        return str(value).removeprefix("torch.")
    if type_path.startswith("numpy.") and getattr(value, "shape", None) == ():
        value = value.item()
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number and "str" in type_names and "int" not in type_names else value


def _fits_annotation(value: Any, type_names: Collection[str]) -> bool:
    """Return whether a value has one of the types; always true if any type is not in
    VALUE_TYPES.
    """
    known_types = [type_name for type_name in type_names if type_name != "None"]
    if not all(type_name in VALUE_TYPES for type_name in known_types):
        return True
    if value is None:
        return "None" in type_names
    if isinstance(value, bool):
        return "bool" in known_types
    return any(isinstance(value, VALUE_TYPES[type_name][0]) for type_name in known_types)
