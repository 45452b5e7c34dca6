"""The words of a command line, read as values; what cannot be read is refused in our own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from attnviz.cli import guesses
from attnviz.errors import AttnvizError
from attnviz.wording.commands import quoted

LONGEST = 40  # letters of what was typed, that are said again


class Parsing:
    """What a command, or a group of them, does with its words.

    typer would hand every value to a library that takes longer to load than all else that an
    error needs, and which has its own words for what is wrong with it.
    """

    @cached_property
    def kinds(self) -> Mapping[str, Any]:
        """What each parameter takes, as the function behind the command is annotated."""
        callback: Any = getattr(self, "callback", None)
        return {} if callback is None else get_type_hints(callback)

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in found:
            each.process_value = partial(_processed, each, self.kinds.get(each.name, bool))
        return found

    def make_parser(self, ctx: Any) -> Any:
        """With other names for some options, that no help lists."""
        parser: Any = super().make_parser(ctx)  # type: ignore[misc]
        for each in self.get_params(ctx):
            others = [name for name, meant in guesses.OTHER_NAMES.items() if meant in each.opts]
            if others:
                names, each.opts = each.opts, others
                each.add_to_parser(parser, ctx)
                each.opts = names
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = tuple(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.TyperException as error:
            raise _refused(self, ctx, words, error) from None
        return rest


def refuse_more(command: Any, ctx: Any, rest: Sequence[str]) -> None:
    """Words that no parameter takes: most likely a text without quotes."""
    places = [each for each in command.params if each.param_type_name == "argument"]
    taken = [ctx.params.get(each.name) for each in places]
    words = [word for word in (*taken, *rest) if isinstance(word, str)]
    if not places:  # what such a command is about, if it is about anything, is the model
        has_model = any("--model" in each.opts for each in command.params)
        raise AttnvizError(
            f"'{_short(rest[0])}' is one word too many",
            f"did you mean {ctx.command_path} --model {quoted(_short(rest[0]))}?"
            if has_model
            else f"{ctx.command_path} takes no text",
        )
    if places[0].name != "text":
        raise AttnvizError(
            f"'{_short(rest[0])}' is one word too many",
            f"{ctx.command_path} takes one {places[0].metavar}",
        )
    told = " ".join(words)
    raise AttnvizError(
        f"{len(words):,} texts are given, and {'one is' if len(places) == 1 else 'two are'} "
        "expected",
        f'put quotes around a text of several words: {ctx.command_path} "{told}"',
    )


def _refused(command: Any, ctx: Any, words: Sequence[str], error: Any) -> AttnvizError:
    """What the parser refuses: an option that is not there, or that is written in another way."""
    name = str(getattr(error, "option_name", ""))
    if hasattr(error, "possibilities"):
        whole = next((word for word in words if word.startswith(name)), name)
        return guesses.no_option(name, whole, command, ctx)
    meant = guesses.OTHER_NAMES.get(name, name)
    option = next(
        each for each in command.get_params(ctx) if meant in (*each.opts, *each.secondary_opts)
    )
    if getattr(option, "is_flag", False):
        return AttnvizError(
            f"{name} takes no value", f"write {' or '.join([*option.opts, *option.secondary_opts])}"
        )
    return AttnvizError(f"{name} needs a value", f"write {name} {_example(option)}")


def _processed(parameter: Any, kind: Any, context: Any, value: Any) -> Any:
    """The value of a parameter, of the kind that its command takes."""
    if value is None and parameter.required:
        raise AttnvizError(
            f"{context.command_path} needs a {parameter.metavar}",
            guesses.MISSING.get(context.command_path, f"see {context.command_path} --help"),
        )
    read = _READERS.get(_element(kind), _as_it_is)
    if isinstance(value, (list, tuple)):
        value = tuple(read(parameter, each) for each in value)
    elif value is not None:
        value = read(parameter, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _element(kind: Any) -> Any:
    """
    >>> _element(list[Path] | None) is Path, _element(int) is int
    (True, True)
    """
    inner = [each for each in get_args(kind) if each is not type(None)]
    return _element(inner[0]) if inner else kind


def _whole(parameter: Any, value: Any) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,300}", value.strip()):
        raise _no_number(parameter, value, "a whole number")
    return int(value)


def _number(parameter: Any, value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _no_number(parameter, value, "a number") from None


def _path(parameter: Any, value: Any) -> Path:
    return Path(value)


def _as_it_is(parameter: Any, value: Any) -> Any:
    return value


_READERS: Mapping[Any, Callable[[Any, Any], Any]] = {int: _whole, float: _number, Path: _path}


def _no_number(parameter: Any, value: str, kind: str) -> AttnvizError:
    name = parameter.opts[0]
    problem = f"{name} is '{_short(value)}', and must be {kind}"
    return AttnvizError(problem, f"try {name} {_example(parameter)}")


def _example(parameter: Any) -> str:
    """A value that works: the one that its declaration gives, or its default."""
    declared = getattr(getattr(parameter, "rich_help_panel", None), "example", "")
    default = parameter.default if isinstance(parameter.default, (int, float, str)) else None
    return str(declared or default or parameter.metavar)


def _short(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"
