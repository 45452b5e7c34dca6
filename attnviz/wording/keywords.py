"""Checks of what users pass to the library: every refusal is two lines, in the words of Python."""

from __future__ import annotations

import os
import re
import reprlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, wraps
from inspect import BoundArguments, Parameter, Signature, signature, unwrap
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, ParamSpec, TypedDict, TypeVar, get_origin

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.wording.commands import note_given
from attnviz.wording.surfaces import Surface, current_surface
from attnviz.wording.words import and_list, counted, or_list

Choices = TypeVar("Choices")
KeywordClass = TypeVar("KeywordClass", bound=type)
OptionClass = TypeVar("OptionClass", bound=type)
Result = TypeVar("Result")
P = ParamSpec("P")


class ValueType(NamedTuple):
    """The values that an annotation accepts, in words, and what to try instead of another."""

    accepted: tuple[Any, ...]  # types; empty: a class of that name, and its subclasses
    noun: str  # "a whole number"
    example: str  # "1"; a sentence of its own where it has a space

    @property
    def is_list(self) -> bool:
        """Whether the values have items, of the types in brackets."""
        return self.noun == "a list"


VALUE_TYPES: dict[str, ValueType] = {
    "int": ValueType((int,), "a whole number", "1"),
    "float": ValueType((int, float), "a number", "0.5"),
    "bool": ValueType((bool,), "True or False", "True"),
    "str": ValueType((str,), "a text", '"…"'),
    "Path": ValueType((str, os.PathLike), "a path", '"…"'),
    **dict.fromkeys(
        ("Sequence", "Collection", "Iterable"), ValueType((Iterable,), "a list", "[…]")
    ),
    "Mapping": ValueType((Mapping,), "a dict", "{…}"),
    "tuple[float, float]": ValueType((str, tuple, list), "two numbers", "(8, 5)"),
    "Trace": ValueType((), "a Trace", 'attnviz.trace("…")'),
    **dict.fromkeys(("Model", "Module"), ValueType((), "a Model", '"agreement"')),
    "Task": ValueType((), "a Task", '"reverse"'),
    "Choices": ValueType((), "Choices", "attnviz.learning.choices.Choices(steps=100)"),
    "Settings": ValueType(
        (),
        "Settings",
        "leave 'settings' out, and give each setting by its name, such as model=\"minilm\"; a "
        'second text is other="…"',
    ),
    "View": ValueType((), "a View", 'attnviz.trace("…").view()'),
    "LineTracker": ValueType((Callable,), "a function", "iter"),
    "HeadTracker": ValueType((Callable,), "a function", "iter"),
    "TextTracker": ValueType((Callable,), "a function", "iter"),
    "Float": ValueType((), "a tensor", "torch.rand(…)"),
    "Bool": ValueType((), "a tensor", "torch.ones(…)"),
}
NO_LIST = ValueType((), "", "")
TENSOR_TYPES = ("Float", "Bool")
NO_COLLECTIONS = (str, bytes, Mapping)  # although Python can iterate over them
MAX_LISTED_NAMES = 10_000
COMMA_LISTS = ("without", "step", "layer", "head")  # texts that may name several things
EXAMPLES = {  # values that these keywords accept, where those of their type may be out of range
    "dpi": "150",
    "kept": "[0]",
    "points": "8",
    "seconds": "2",
    "text_size": "24",
    "width": "64",
}
OTHER_NAMES = {  # of keywords, as other libraries have them
    "cmap": "colors",
    "colormap": "colors",
    "figsize": "size",
    "fontsize": "points",
    "from_": "source",
    "layer": "kept",
    "palette": "colors",
}
TEXT_HINT = (
    'give a sentence: trace("I am learning this"); or, with weights of your own, tokens: '
    "from_weights(weights, tokens)"
)
VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
KEYWORDS_PATTERN = re.compile(r"Unpack\[(\w+)\]")
INTERNAL_KEYWORDS = ("command", "line", "track")  # which no error suggests
DEFAULTS_BY_KEYWORDS: dict[type, Mapping[str, Any]] = {}  # by TypedDict; others are None


def with_defaults(*option_classes: type, **others: Any) -> Callable[[KeywordClass], KeywordClass]:
    """Return a decorator of a TypedDict of keywords: in signatures they have the defaults of these
    dataclasses and the others, and None where there is none."""

    def decorate(keyword_class: KeywordClass) -> KeywordClass:
        own = {each.name: each.default for options in option_classes for each in fields(options)}
        DEFAULTS_BY_KEYWORDS[keyword_class] = own | others
        return keyword_class

    return decorate


LOOK_DEFAULTS = {  # those of Look, which is above this folder
    "theme": "light",
    "colors": "ocean",
    "seconds": 5.0,
    "transparent": False,
    "text_size": 18.0,
}


@with_defaults(**LOOK_DEFAULTS)
class LookKeywords(TypedDict, total=False):
    """The fields of Look (renderers/look.py) as keywords, with every value that says the same."""

    theme: str
    colors: str
    size: tuple[float, float] | str | None  # in inches, or in words: "3.3x3.3", "16:9"
    dpi: int | None
    seconds: float
    transparent: bool
    numbers: bool | None
    text_size: float | str
    vectors: bool | None
    footnote: bool | None
    points: float | None
    font: str | None


def replace_choices(base: Choices, changes: Mapping[str, Any]) -> Choices:
    """Return the options dataclass `base` with `changes` applied; refuses a `base` that is none,
    unknown names and values of a wrong type.

    >>> from attnviz import Settings
    >>> replace_choices(Settings(), {"heads": 2}).heads
    2
    """
    if not is_dataclass(base) or isinstance(base, type):
        raise _misfit_error("settings", base, ["Settings"])
    if not changes:
        return base
    types_by_name = {field.name: str(field.type) for field in fields(base)}
    module_names = vars(sys.modules[type(base).__module__])
    choices: Choices = replace(base, **check_values(changes, types_by_name, module_names))
    note_given(choices, base, changes)
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
    return check_values(keywords, types_by_name, function.__globals__, other_names)


def with_checked_settings(
    refused_names: Callable[[Mapping[str, Any]], Collection[str]], **other_defaults: Any
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Return `with_checked_arguments`, whose errors never suggest a keyword that is refused beside
    the others of the call: one of `refused_names(keywords)`.

    `other_defaults` are those of keywords of which this function has its own.
    """
    return lambda function: with_checked_arguments(function, refused_names, other_defaults)


def with_checked_arguments(
    function: Callable[P, Result],
    refused_names: Callable[[Mapping[str, Any]], Collection[str]] = lambda keywords: (),
    other_defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[P, Result]:
    """Decorate a function of the library: it refuses arguments that are missing, too many, unknown
    or of a wrong type, and converts the others to plain values.

    The signature has the keywords of `**changes: Unpack[…]`, too, with types and defaults.

    >>> from attnviz import AttnvizError, example
    >>> try:
    ...     example(None)
    ... except AttnvizError as error:
    ...     print(error)
    name is None, and should be a text
    """
    accepted = signature(function)
    types_by_name = {
        name: str(parameter.annotation)
        for name, parameter in accepted.parameters.items()
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }
    defaults = {name: accepted.parameters[name].default for name in types_by_name}
    names = unwrap(function).__globals__
    full_signature = _full_signature(names, accepted, other_defaults)
    is_method = "self" in types_by_name  # whose result checks its keywords
    checks_names = full_signature != accepted and not is_method
    known_names = [
        name for name, each in full_signature.parameters.items() if each.kind not in VARIADIC
    ]

    def names_refused_beside(keywords: Mapping[str, Any]) -> Collection[str]:
        return refused_names({**other_defaults, **keywords})

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> Result:
        try:
            if checks_names:
                for name in (name for name in keywords if name not in known_names):
                    unusable = names_refused_beside(keywords)
                    usable = [each for each in known_names if each not in unusable]
                    raise _unknown_keyword_error(name, usable)
            bound = _bind(function, accepted, arguments, keywords)
            given = bound.arguments
            own = {
                name: value
                for name, value in given.items()
                if name in types_by_name and value is not defaults[name]
            }
            given |= check_values(own, types_by_name, names)
            return function(*bound.args, **bound.kwargs)
        except AttnvizError as error:
            is_refused = error.about in keywords and error.about in names_refused_beside(keywords)
            if is_refused and current_surface() is Surface.PYTHON:
                error.give_hint(f"leave '{error.about}' out: a model decides that itself")
            raise

    call.__signature__ = full_signature  # type: ignore[attr-defined]
    return call


def with_checked_fields(option_class: OptionClass) -> OptionClass:
    """Decorate a dataclass of options: what its constructor is given is checked likewise."""
    option_class.__init__ = with_checked_arguments(option_class.__init__)  # type: ignore[misc]
    return option_class


def built_by(call: str) -> Callable[[OptionClass], OptionClass]:
    """Return a decorator of a class of results: its constructor, given too little or too much,
    names the call that builds one.

    >>> from attnviz import AttnvizError, Trace
    >>> try:
    ...     Trace()
    ... except AttnvizError as error:
    ...     print(error.hint)
    attnviz.trace("…") builds one
    """

    def decorate(result_class: OptionClass) -> OptionClass:
        init: Any = result_class.__init__  # type: ignore[misc]

        @wraps(init)
        def checked_init(self: Any, *arguments: Any, **keywords: Any) -> None:
            try:
                init(self, *arguments, **keywords)
            except TypeError:
                try:
                    _bind(init, signature(init), (self, *arguments), keywords)
                except AttnvizError as error:
                    raise AttnvizError(str(error), f"{call} builds one") from None
                raise

        result_class.__init__ = checked_init  # type: ignore[misc]
        return result_class

    return decorate


def _full_signature(
    names: Mapping[str, Any], accepted: Signature, other_defaults: Mapping[str, Any]
) -> Signature:
    """Return a signature with the keywords of a TypedDict in place of `**changes: Unpack[…]`.

    It is unchanged if there is none, or if it is imported for type checkers only.
    """
    parameters: list[Parameter] = []
    for parameter in accepted.parameters.values():
        match = KEYWORDS_PATTERN.fullmatch(str(parameter.annotation))
        if match is None or match[1] not in names:
            parameters.append(parameter)
            continue
        keyword_class = names[match[1]]
        defaults = {**DEFAULTS_BY_KEYWORDS.get(keyword_class, {}), **other_defaults}
        parameters += [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=annotation.__forward_arg__,
            )
            for name, annotation in keyword_class.__annotations__.items()
        ]
    return accepted.replace(parameters=parameters)


def _bind(
    function: Callable[..., Any],
    accepted: Signature,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> BoundArguments:
    """Return the arguments of a call by name; refuse those that are missing, too many, unknown or
    given twice.
    """
    try:
        return accepted.bind(*arguments, **keywords)
    except TypeError:
        name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        own = [each for each in accepted.parameters.values() if each.name != "self"]
        given = len(arguments) - (len(accepted.parameters) - len(own))
        raise _call_error(name, own, given, keywords) from None


def _call_error(
    function: str, parameters: Sequence[Parameter], given: int, keywords: Mapping[str, Any]
) -> AttnvizError:
    """Return the error for a call that does not fit the parameters of a function.

    `given` is the number of values without a name.
    """
    positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    unknown = [name for name in keywords if name not in names]
    if unknown and len(names) == len(parameters):
        return _unknown_keyword_error(unknown[0], names)
    if given > len(positional) and all(each.kind is not each.VAR_POSITIONAL for each in parameters):
        order = f": {', '.join(each.name for each in positional)}" if positional else ""
        is_variadic = parameters and parameters[-1].kind is Parameter.VAR_KEYWORD
        by_name = next((each.name for each in parameters if each.kind is each.KEYWORD_ONLY), "")
        hint = (
            f"give the others by name, such as {by_name}=…" if by_name else "leave the others out"
        )
        if is_variadic and not by_name:
            hint = "give each by its name: name=…"
        return AttnvizError(
            f"{function}() takes {counted(len(positional), 'value')} without a name{order}", hint
        )
    if twice := [each.name for each in positional[:given] if each.name in keywords]:
        return AttnvizError(f"{function}() is given '{twice[0]}' twice", "leave one of them out")
    is_missing = [
        each
        for each in parameters[given:]
        if each.default is each.empty and each.name not in keywords
    ]
    missing = [each for each in is_missing if each.kind not in VARIADIC]
    annotation = _type_names(str(missing[0].annotation))[0]
    row = VALUE_TYPES.get(annotation) or VALUE_TYPES.get(annotation.partition("[")[0])
    example = EXAMPLES.get(missing[0].name) or (row.example if row else "…")
    names = [f"'{each.name}'" for each in missing]
    return AttnvizError(
        f"{function}() needs {and_list(names)}",
        example if " " in example else f"try {missing[0].name}={example}",
    )


def _unknown_keyword_error(name: str, known: Iterable[str]) -> AttnvizError:
    """Return the error for an unknown keyword; the hint is the nearest one, or all of them."""
    names = [each for each in known if each not in INTERNAL_KEYWORDS]
    others = {other: own for other, own in OTHER_NAMES.items() if own in names}
    if any(get_close_matches(name, names)):
        others.pop(name, None)
    if not names:
        return AttnvizError(f"there is no keyword '{name}'", "leave it out", about=name)
    return unknown_name_error(
        "keyword", name, names, about=name, other_names=others, lists_all=False
    )


def check_values(
    keywords: Mapping[str, Any],
    types_by_name: Mapping[str, str],
    module_names: Mapping[str, Any],
    other_names: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the keywords with paths, dtypes and NumPy numbers as plain values; refuse names not in
    `types_by_name` and values that do not fit the type there.

    `module_names` are those of the module in which the types are written; `other_names` are further
    keywords that an error message may suggest.
    """
    values = {}
    for name, value in keywords.items():
        if name not in types_by_name:
            raise _unknown_keyword_error(name, [*types_by_name, *other_names])
        type_names = _type_names(types_by_name[name])
        values[name] = _plain_value(name, value, type_names)
        if not any(_fits(values[name], type_name, module_names) for type_name in type_names):
            raise _misfit_item_error(name, value, type_names, module_names) or _misfit_error(
                name, value, type_names
            )
    return values


def _misfit_item_error(
    name: str, value: Any, type_names: Sequence[str], module_names: Mapping[str, Any]
) -> AttnvizError | None:
    """Return the error for the first item of a list that has none of the types that its items
    should have; None for a value that is no list, or should be none."""
    rows = {each: VALUE_TYPES.get(each.partition("[")[0], NO_LIST) for each in type_names}
    lists = [each for each, row in rows.items() if row.is_list]
    if not lists or not _has_items(value) or isinstance(value, Iterator):
        return None
    item_types = _type_names(lists[0].partition("[")[2][:-1])
    for number, item in enumerate(value):
        if not any(_fits(item, each, module_names) for each in item_types):
            place = f"{name}[{number}]"
            if deeper := _misfit_item_error(place, item, item_types, module_names):
                return deeper
            problem = str(_misfit_error(place, item, item_types))
            return AttnvizError(problem, f"change {place}, or leave it out", about=name)
    return None


def _misfit_error(name: str, value: Any, type_names: Sequence[str]) -> AttnvizError:
    is_builtin = type(value).__module__ == "builtins"
    value_text = reprlib.repr(value) if is_builtin else f"of type {type(value).__name__}"
    names = [each if each in VALUE_TYPES else each.partition("[")[0] for each in type_names]
    types = [VALUE_TYPES.get(each, VALUE_TYPES["str"]) for each in names if each != "None"]
    nouns = or_list([*dict.fromkeys(each.noun for each in types)])
    if type_names[0].startswith(TENSOR_TYPES):
        nouns += f" [{', '.join(_dimensions(type_names[0]))}]"
    example = EXAMPLES.get(name, types[0].example)
    hint = TEXT_HINT if name == "text" else f"try {name}={example}"
    subject = "the settings are" if name == "settings" else f"{name} is"
    return AttnvizError(
        f"{subject} {value_text}, and should be {nouns}",
        example if name == "settings" else hint,
        about=name,
    )


@cache
def _type_names(annotation: str) -> list[str]:
    """Return the alternatives of an annotation.

    >>> _type_names("Sequence[int | str] | None")
    ['Sequence[int | str]', 'None']
    """
    return [each.strip() for each in re.split(r"\|(?![^\[]*\])", annotation)]


def _dimensions(type_name: str) -> list[str]:
    """Return the names of the dimensions of a tensor.

    >>> _dimensions("Float[Tensor, 'query key']")
    ['query', 'key']
    """
    return re.split("['\"]", type_name)[1].split()


def _plain_value(name: str, value: Any, type_names: Sequence[str]) -> Any:
    """Return a path, dtype or device as text, a NumPy number as a Python one, a whole number as
    text where only text is accepted, and names in a list as one text; any other value unchanged.
    """
    if value is None or type(value) in (bool, float):
        return value
    type_path = f"{type(value).__module__}.{type(value).__name__}"
    if isinstance(value, os.PathLike):
        return value if "Path" in type_names else os.fspath(value)
    if type_path in ("torch.dtype", "torch.device"):
        return str(value).removeprefix("torch.")
    if type_path.startswith("numpy.") and getattr(value, "shape", None) == ():
        value = value.item()
    if name in COMMA_LISTS and "str" in type_names:
        return comma_list(value)
    wanted = type_names[0]
    if wanted.startswith(("Sequence", "Collection")) and "str" not in type_names:
        return value.split(",") if isinstance(value, str) else as_list(value)
    if (
        wanted.startswith(TENSOR_TYPES)
        and type_path == "numpy.ndarray"
        and value.dtype.kind in "bifu"
    ):
        value = sys.modules["torch"].as_tensor(value)
    if wanted.startswith(TENSOR_TYPES) and isinstance(value, sys.modules["torch"].Tensor):
        return value.bool() if wanted.startswith("Bool") else value.float()
    is_number = isinstance(value, int) and not isinstance(value, bool)
    is_text_only = "str" in type_names and "int" not in type_names and name != "text"
    return str(value) if is_number and is_text_only else value


def as_list(value: Any) -> Any:
    """Return a tensor or an array as a list; any other value unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value


def comma_list(value: Any) -> Any:
    """Return several names or numbers as one text, as a command line has them; others unchanged.

    >>> comma_list(["L5H11", "L3H1"]), comma_list(range(2, 5)), comma_list(7)
    ('L5H11,L3H1', '2,3,4', 7)
    """
    if isinstance(value, Iterable) and not isinstance(value, NO_COLLECTIONS):
        return ",".join(map(str, islice(value, MAX_LISTED_NAMES)))
    return value


def _fits(value: Any, type_name: str, module_names: Mapping[str, Any]) -> bool:
    """Return whether a value has the type of this name: one of VALUE_TYPES, a class, or words.

    A name that stands for anything else fits every value.
    """
    origin = type_name.partition("[")[0]
    row = VALUE_TYPES.get(type_name) or VALUE_TYPES.get(origin)
    if type_name == "None":
        return value is None
    if row is not None and row.accepted:
        is_number = not isinstance(value, bool) or type_name == "bool"
        if row.is_list:
            return _is_list_of(type_name.partition("[")[2][:-1], value, module_names)
        is_pair = row.noun != "two numbers" or isinstance(value, str) or _is_pair(value)
        return isinstance(value, row.accepted) and is_number and is_pair
    known = module_names.get(origin)
    if known is Any or origin == "object":
        return True
    if get_origin(known) is Literal:
        return isinstance(value, str)
    if origin in TENSOR_TYPES:  # 'Float[Tensor, "head query key"]' has three dimensions
        if getattr(getattr(value, "dtype", None), "kind", "f") not in "bifu":
            return False
        return len(getattr(value, "shape", ())) == len(_dimensions(type_name))
    if row is not None or isinstance(known, type):
        return any(each.__name__ == origin for each in type(value).__mro__)
    return True


def _is_list_of(item_types: str, value: Any, module_names: Mapping[str, Any]) -> bool:
    """Return whether a value is a list whose items have one of these types, or an iterator, whose
    items can be read only once."""
    if not _has_items(value):
        return False
    if isinstance(value, Iterator):
        return True
    names = _type_names(item_types)
    return all(any(_fits(item, name, module_names) for name in names) for item in value)


def _has_items(value: Any) -> bool:
    """Return whether a value is a list or something like it: no text, no dict, no single number."""
    is_number = getattr(value, "shape", None) == ()
    return isinstance(value, Iterable) and not isinstance(value, NO_COLLECTIONS) and not is_number


def _is_pair(value: Any) -> bool:
    """Return whether a value is a list or tuple of two numbers."""
    is_list = isinstance(value, (list, tuple)) and len(value) == 2
    return is_list and all(type(each) in (int, float) for each in value)
