"""Option: the row of an option, which is a field of a dataclass.

The field has the name, the type and the default; its Option has everything else. From both come
the parameters of commands, their help, completion, and the words for the option in messages.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = (  # the last two are names of another module, to a type checker
    "TYPED_FIELD",
    "CommandOptions",
    "Option",
    "default_of",
    "descriptions",
    "option_class",
    "option_group",
    "options_under",
    "own_options",
    "resolve",
    "row_of",
    "shared",
)  # fmt: skip
TYPED_FIELD = "typed"  # the only field of CommandOptions
ROW_KEY = "option"  # of a field's metadata
Names = Iterable[str] | Mapping[str, Any]
Source = str | Names  # names, or "module:name" of names or of a function that returns them
Group = TypeVar("Group")


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is said and known of an option, beside the name, type and default of its field."""

    heading: str  # which lists it in the help
    help: str  # {choices} stands for their names, {other} for a source among `sources`
    short: str = ""  # its line on the first screen of help; without one only --help-all lists it
    flags: tuple[str, ...] = ()  # as it is typed; (): its name with dashes
    metavar: str = ""
    example: str = ""  # a value that works, for errors
    choices: Source = ()  # the words that complete it
    choices_beside: str = ""  # a function of the options typed before, which returns the words
    several: bool = False  # words with commas between them
    sources: Mapping[str, Source] = field(default_factory=dict)
    also: str = ""  # what people call it elsewhere, for guesses
    aliases: tuple[str, ...] = ()  # spellings that no help lists
    is_argument: bool = False
    is_hidden: bool = False
    shows_default: bool = True
    is_path: bool = False  # of a file or a folder, of which commands show no private part
    is_read: bool = False  # files that no output may overwrite
    is_token: bool = False  # commands count tokens from 1, Python from 0
    is_recorded: bool = True  # a command that stands in a file may have it
    python: str = ""  # its keyword, if that is not its name; "-": there is none; "save(": a call

    def text(self, template: str) -> str:
        """Return a help text, in which the words of the sources stand for their names."""
        sources = {"choices": self.choices, **self.sources}
        words = {name: Words(each) for name, each in sources.items() if f"{{{name}" in template}
        return template.format(**words)


@dataclass(frozen=True)
class Words:
    """Names in a help text: `{choices}` as a list, `{choices:and}` with "and" before the last,
    `{choices:about; }` each with its description, and a semicolon between them.
    """

    source: Source

    def __format__(self, style: str) -> str:
        names = resolve(self.source)
        if isinstance(names, str | int | float):
            return f"{names:g}" if isinstance(names, float) else str(names)
        if style.startswith("about"):
            rows = descriptions(names).items()
            described = (f"{name} ({about})" if about else name for name, about in rows)
            return (style.removeprefix("about") or ", ").join(described)
        *first, last = map(str, names)
        end = f" {style} {last}" if style and first else "".join([", "] * bool(first)) + last
        return ", ".join(first) + end


def resolve(source: Source) -> Any:
    """Return what a source names: a "module:name" is imported, and called if it is a function."""
    if isinstance(source, str):
        value = pkgutil.resolve_name(source)
        return value() if callable(value) else value
    return source


def descriptions(names: Names) -> dict[str, str]:
    """Return descriptions by name, of rows their `about`; empty ones of names alone."""
    if not isinstance(names, Mapping):
        return dict.fromkeys(names, "")
    abouts = {name: getattr(row, "about", row) for name, row in names.items()}
    return {str(name): about if isinstance(about, str) else "" for name, about in abouts.items()}


def option(default: Any = None, *flags: str, **facts: Any) -> Any:
    """Return the field of an option; `facts` are those of its Option."""
    row = {ROW_KEY: Option(flags=flags, **facts)}
    if isinstance(default, list):
        return field(default_factory=partial(list, default), metadata=row)
    return field(default=default, metadata=row)


def options_under(heading: str) -> Callable[..., Any]:
    """Return `option` for the rows under one heading of the help."""
    return partial(option, heading=heading)


if TYPE_CHECKING:  # to a type checker, groups of options are dataclasses, too
    from dataclasses import dataclass as option_class
    from dataclasses import dataclass as option_group
else:

    def option_group(**_: Any) -> Callable[[type], type]:
        """Return a decorator of a class of options for others to inherit from, which makes no
        instances itself: a dataclass takes a millisecond to make, and a start would make thirty.
        """

        def decorate(group: type) -> type:
            for name, own in _own_fields(group).items():
                own.name, own.type = name, group.__annotations__[name]
            return group

        return decorate

    def option_class(**facts: Any) -> Callable[[type], type]:
        """Return a decorator: a dataclass with its own options and those of all groups that it
        inherits from. `facts` are those of `dataclass`.
        """

        def decorate(options: type) -> type:
            own = vars(options).get("__annotations__", {})
            inherited = {n: each for n, each in _fields(options).items() if n not in own}
            options.__annotations__ = {n: each.type for n, each in inherited.items()} | own
            for name, each in inherited.items():
                setattr(options, name, each)
            options = dataclass(**facts)(options)
            options.__annotations__ = own  # a group's can be read where the group is
            return options

        return decorate


def row_of(own_field: Field[Any]) -> Option | None:
    """Return the row of a field; None for a field that is no option."""
    return own_field.metadata.get(ROW_KEY)


def own_options(group: type) -> list[Field[Any]]:
    """Return the fields that are options of a class: those of its bases, then its own."""
    return [each for each in _fields(group).values() if row_of(each) is not None]


def _fields(group: type) -> dict[str, Field[Any]]:
    """Return the fields of a class by name: those of its bases, then its own."""
    by_name: dict[str, Field[Any]] = {}
    for base in group.__bases__:
        by_name |= {n: each for n, each in _fields(base).items() if n not in by_name}
    return by_name | _own_fields(group)


def _own_fields(group: type) -> dict[str, Field[Any]]:
    """Return the fields that a class itself declares, by name."""
    declared = {**vars(group), **vars(group).get("__dataclass_fields__", {})}
    names = vars(group).get("__annotations__", {})
    return {name: declared[name] for name in names if isinstance(declared.get(name), Field)}


def default_of(own_field: Field[Any]) -> Any:
    """Return the default of a field; MISSING if it must be given."""
    if own_field.default_factory is not MISSING:
        return own_field.default_factory()
    return own_field.default


def shared(options: object, group: type[Group], **others: Any) -> Group:
    """Return a dataclass made of the options of the same names, and of others.

    >>> from attnviz import Settings
    >>> shared(Settings(heads=2), Settings, dim=4).heads
    2
    """
    names = [each.name for each in fields(group)]  # type: ignore[arg-type]
    values = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return group(**values | others)


@option_group(frozen=True, kw_only=True)
class CommandOptions:
    """The options of a command; every field has the value that was typed, or its default."""

    # The names of those that were typed, even with their defaults.
    typed: frozenset[str] = field(default=frozenset())

    def typed_values(self, *groups: type) -> dict[str, Any]:
        """Return {name: value} of the options of these groups that were typed."""
        names = [each.name for group in groups for each in own_options(group)]
        return {name: getattr(self, name) for name in names if name in self.typed}
