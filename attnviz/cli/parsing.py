"""Parses a command line, and suggests what unknown options and names may have meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from attnviz.errors import AttnvizError
from attnviz.options.option import Option
from attnviz.options.table import option_rows
from attnviz.wording.commands import is_text_part, option_name, shell_quote
from attnviz.wording.words import and_list

COMPARE_COMMAND = "compare"
VARIANT_OPTIONS = ("--variant", "-v")
FOLDERS_OPTION = "--checkpoints"  # takes all folders that follow it
PART_OPTION = "--part"  # for which people type --window with a part of a text
MAX_QUOTED_LETTERS = 40  # of what was typed, in an error

HINTS_FILE = Path(__file__).with_name("expected_options.toml")
MAX_NAMED_COMMANDS = 3  # that have an option, in a hint
MISSING_ARGUMENT_HINTS = {"attnviz example show": "attnviz example list names them"}


class ParsingMixin:
    """The parsing of words by a command or a group: conversion of values, aliases and errors.

    typer would convert values with a library that loads slowly, and with its own wording of errors.
    """

    @cached_property
    def parameter_types(self) -> Mapping[str, Any]:
        callback: Any = getattr(self, "callback", None)
        return {} if callback is None else get_type_hints(callback)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, each of which converts its value as attnviz does."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            parameter.process_value = partial(
                _process_value, parameter, self.parameter_types.get(parameter.name, bool)
            )
        return parameters

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that also takes the aliases of options (--colour), which help hides."""
        parser: Any = super().make_parser(ctx)  # type: ignore[misc]
        for parameter in self.get_params(ctx):
            row = row_of_parameter(parameter)
            if row is not None and row.aliases:
                names, parameter.opts = parameter.opts, [*row.aliases]
                parameter.add_to_parser(parser, ctx)
                parameter.opts = names
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words and return those left over; refuse unknown options and missing values."""
        args = _with_part_option(self, ctx, _with_repeated_option(args))
        if ctx.info_name == COMPARE_COMMAND:
            args = _with_compared_variants(args)
        words = tuple(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.TyperException as error:
            raise _parser_error(self, ctx, words, error) from None
        return rest


def _with_repeated_option(args: Sequence[str]) -> list[str]:
    """Return the words with `--checkpoints` before each of the folders that follow it: a shell
    writes a pattern without quotes as several words."""
    words: list[str] = []
    for word in args:
        is_next = words[-2:-1] == [FOLDERS_OPTION] and not word.startswith("-")
        words += [FOLDERS_OPTION, word] if is_next and Path(word).is_dir() else [word]
    return words


def _with_compared_variants(args: Sequence[str]) -> list[str]:
    """Return the words with `--by variant --values scaled,causal` in place of several variants,
    which are given one by one or with commas; unchanged if there are fewer than two.

    >>> _with_compared_variants(["I am", "--variant=scaled", "-v", "causal"])
    ['I am', '--by', 'variant', '--values', 'scaled,causal']
    """
    words, names, rest = [*args], list[str](), list[str]()
    while words:
        word = words.pop(0)
        option, sign, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if word == "--" or (option in VARIANT_OPTIONS and not sign and not words):
            rest += [word, *words]
            break
        if option in VARIANT_OPTIONS:
            names += (value if sign else words.pop(0)).split(",")
        else:
            rest.append(word)
    if len(names) < 2:
        return [*args]
    end = rest.index("--") if "--" in rest else len(rest)
    parts = [word.partition("=") for word in rest[:end]]
    values = [
        value if sign else word
        for (_, sign, value), word in zip(parts, [*rest[1:end], ""], strict=False)
    ]
    others = [
        option
        for (option, _, _), value in zip(parts, values, strict=True)
        if option == "--values" or (option == "--by" and value != "variant")
    ]
    if others:
        raise AttnvizError(
            f"several --variant cannot be combined with {others[0]}",
            f"several variants are what is compared: leave out {others[0]}, or all variants but "
            "one",
        )
    return [*rest[:end], "--by", "variant", "--values", ",".join(names), *rest[end:]]


def _with_part_option(command: Any, ctx: Any, args: Sequence[str]) -> list[str]:
    """Return the words with `--part` in place of `--window` before a part of a text, `3:5`.

    Refuses it where the command shows no part, but has a --window for the width of a mask.
    """
    window, words = option_name("part"), list(args)
    names = [*_option_names(command, ctx)]
    for place, word in enumerate(words[: words.index("--") if "--" in words else None]):
        value = (words[place + 1 : place + 2] or [""])[0]
        if word.startswith(f"{window}="):
            word, value = word.split("=", 1)
        if not is_text_part(word, value) or window not in names or _shows_part(command):
            continue
        if PART_OPTION not in names:
            raise AttnvizError(
                f"{window} {_shorten_word(value)} shows a part of a text, and {ctx.command_path} "
                "shows whole ones",
                f"attnviz run TEXT {window} {_shorten_word(value)} shows it; the width of a mask "
                f"is one number: {window} 2",
            )
        words[place] = words[place].replace(window, PART_OPTION, 1)
    return words


def _shows_part(command: Any) -> bool:
    """Return whether --window always names a part of a text, as in `attnviz inspect`."""
    return any(each.name == "part" and option_name("part") in each.opts for each in command.params)


def refuse_extra_words(command: Any, ctx: Any, rest: Sequence[str]) -> None:
    """Raise an AttnvizError for words that no parameter takes (`rest`), mostly an unquoted text."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    argument_values = [ctx.params.get(argument.name) for argument in arguments]
    words = [word for word in (*argument_values, *rest) if isinstance(word, str)]
    if not arguments:  # such a command is about a model, if about anything
        has_model = any("--model" in parameter.opts for parameter in command.params)
        raise AttnvizError(
            f"'{_shorten_word(rest[0])}' is one word too many",
            f"did you mean {ctx.command_path} --model {shell_quote(_shorten_word(rest[0]))}?"
            if has_model
            else f"{ctx.command_path} takes no text",
        )
    if arguments[0].name != "text":
        raise AttnvizError(
            f"'{_shorten_word(rest[0])}' is one word too many",
            f"{ctx.command_path} takes one {arguments[0].metavar}",
        )
    text = " ".join(words)
    raise AttnvizError(
        f"{len(words):,} texts are given, and {'one is' if len(arguments) == 1 else 'two are'} "
        "expected",
        f'put quotes around a text of several words: {ctx.command_path} "{text}"',
    )


def _parser_error(command: Any, ctx: Any, words: Sequence[str], error: Any) -> AttnvizError:
    """Return the error for an option that does not exist, lacks its value, or takes none."""
    name = str(getattr(error, "option_name", ""))
    if hasattr(error, "possibilities"):
        typed_word = next((word for word in words if word.startswith(name)), name)
        return unknown_option_error(name, typed_word, command, ctx)
    options = command.get_params(ctx)
    option = next(o for o in options if name in _spellings(o))
    if getattr(option, "is_flag", False):
        return AttnvizError(
            f"{name} takes no value", f"write {' or '.join([*option.opts, *option.secondary_opts])}"
        )
    return AttnvizError(f"{name} needs a value", f"write {name} {_example_value(option)}")


def _spellings(parameter: Any) -> list[str]:
    row = row_of_parameter(parameter)
    return [*parameter.opts, *parameter.secondary_opts, *(() if row is None else row.aliases)]


def _process_value(parameter: Any, kind: Any, context: Any, value: Any) -> Any:
    """Return a parameter's value, or each of several, converted to its type `kind`.

    Refuses a required value that is missing, and text that is no number. A callback gets the value
    and returns another.
    """
    if value is None and parameter.required:
        raise AttnvizError(
            f"{context.command_path} needs a {parameter.metavar}",
            MISSING_ARGUMENT_HINTS.get(context.command_path, f"see {context.command_path} --help"),
        )
    parse_value = _VALUE_PARSERS.get(_element_type(kind), lambda parameter, value: value)
    if isinstance(value, (list, tuple)):
        value = tuple(parse_value(parameter, item) for item in value)
    elif value is not None:
        value = parse_value(parameter, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _element_type(kind: Any) -> Any:
    """Return the type of one value of an option: of a list that of its elements, without None.

    >>> _element_type(list[Path] | None) is Path, _element_type(int) is int
    (True, True)
    """
    inner = [argument for argument in get_args(kind) if argument is not type(None)]
    return _element_type(inner[0]) if inner else kind


def _parse_whole_number(parameter: Any, value: Any) -> int:
    """Return a value as a whole number; refuse text that is none."""
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,300}", value.strip()):
        raise _number_error(parameter, value, "a whole number")
    return int(value)


def _parse_number(parameter: Any, value: Any) -> float:
    """Return a value as a number; refuse text that is none."""
    try:
        return float(value)
    except ValueError:
        raise _number_error(parameter, value, "a number") from None


_VALUE_PARSERS: Mapping[Any, Callable[[Any, Any], Any]] = {
    int: _parse_whole_number,
    float: _parse_number,
    Path: lambda parameter, value: Path(value),
}


def _number_error(parameter: Any, value: str, kind: str) -> AttnvizError:
    """Return the error for a value that is no number; `kind`: 'a number' or 'a whole number'."""
    name = parameter.opts[0]
    problem = f"{name} is '{_shorten_word(value)}', and must be {kind}"
    return AttnvizError(problem, f"try {name} {_example_value(parameter)}")


def _example_value(parameter: Any) -> str:
    """Return a value that works: the declared example, else the default, else the metavar."""
    row = row_of_parameter(parameter)
    default = parameter.default if isinstance(parameter.default, (int, float, str)) else None
    return str((row and row.example) or default or parameter.metavar)


def _shorten_word(word: str) -> str:
    return word if len(word) <= MAX_QUOTED_LETTERS else f"{word[: MAX_QUOTED_LETTERS - 1]}…"


def unknown_option_error(name: str, typed_word: str, command: Any, ctx: Any) -> AttnvizError:
    """Return the error for an unknown option, with a hint at the one that is probably meant.

    `typed_word`: the whole word, which may be a text that begins with a dash.
    """
    if " " in typed_word.partition("=")[0]:
        return AttnvizError(
            f"'{typed_word}' looks like an option", f'put -- before it: {ctx.command_path} -- "…"'
        )
    known_options = [*_option_names(command, ctx)]
    return AttnvizError(
        f"{ctx.command_path} has no option {name}",
        _option_hint(name.lower(), known_options, command, ctx),
    )


def _option_hint(name: str, known_options: Sequence[str], command: Any, ctx: Any) -> str:
    """Return a hint for an unknown option: which one is meant, who has it, or how to list all."""
    hint = _hints_by_word().get(name.lstrip("-").replace("_", "-"), "")
    if ctx.command_path in hint and (nearest := _nearest_options(name, known_options, 0.8)):
        return f"did you mean {nearest[0]}?"
    hinted_options = re.findall(r"--[\w-]+", hint)
    if hint and ("attnviz " in hint or {*hinted_options} <= {*known_options}):
        return hint
    near_options = [] if hint else _nearest_options(name, known_options, 0.8)
    option_name = hinted_options[0] if hinted_options else name
    options_by_command = _options_below_group(ctx.find_root().command, ctx.find_root(), "attnviz")
    command_paths = [path for path, options in options_by_command if option_name in options]
    owner = ""
    if command_paths:
        owner = f"{option_name} belongs to {and_list(command_paths[:MAX_NAMED_COMMANDS])}"
    if near_options:
        return f"did you mean {near_options[0]}? {owner}".rstrip()
    if owner:
        return owner
    if near_options := _nearest_options(name, known_options, 0.6):
        return f"did you mean {near_options[0]}?"
    help_option = "--help-all" if "--help-all" in known_options else "--help"
    return f"{ctx.command_path} {help_option} lists the options"


def _hints_by_word() -> dict[str, str]:
    """Return the hints at options by the words that people expect in their place."""
    own = {
        word: f"did you mean {option_name(name)}?"
        for name, row in option_rows().items()
        for word in row.also.split()
    }
    return own | rows_by_word("hints")


def rows_by_word(table: str) -> dict[str, str]:
    """Return what errors say of words that people expect: as options, commands or aliases."""
    from attnviz.traces.toml_reader import read_rows_by_word  # only errors need it

    return read_rows_by_word(HINTS_FILE, table)


def row_of_parameter(parameter: Any) -> Option | None:
    """Return the row of a parameter; None for those of typer, such as --help."""
    return getattr(getattr(parameter, "rich_help_panel", None), "row", None)


def _nearest_options(name: str, known_options: Sequence[str], cutoff: float) -> list[str]:
    """Return the options that begin with the word, else at most one that is spelt nearly like it.

    `cutoff`: how alike the spelling must be, from 0 to 1.
    """
    word = name.lstrip("-").replace("_", "-")  # leading dashes would make all names alike
    names = [option.removeprefix("--") for option in known_options if option.startswith("--")]
    longer_names = [name for name in names if len(word) > 2 and name.startswith(word)]
    return [f"--{name}" for name in longer_names or get_close_matches(word, names, 1, cutoff)]


def _option_names(command: Any, ctx: Any) -> Iterator[str]:
    """Yield the names of all options of a command: '--seed', '-s', '--no-scale'."""
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "option":
            yield from (*parameter.opts, *parameter.secondary_opts)


def _options_below_group(group: Any, ctx: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (command as it is typed, names of its options) for every command below a group."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if hasattr(command, "list_commands"):
            yield from _options_below_group(command, ctx, f"{path} {name}")
        else:
            yield f"{path} {name}", [*_option_names(command, ctx)]


def suggest_command(args: Sequence[str]) -> str | None:
    """Return the command line that is probably meant; None if the first word may belong to a text.

    >>> suggest_command(["visualize", "hello world"]), suggest_command(["hello", "world"])
    ('attnviz run "hello world"', None)
    """
    word, *others = args
    texts = [*takewhile(lambda other: not other.startswith("-"), others)]
    if not texts or (len(texts) > 1 and " " not in texts[0]):
        return None
    command_name = rows_by_word("aliases").get(word.lower())
    if command_name is None and not (" " in texts[0] and re.fullmatch("[a-z]+", word)):
        return None
    return f'attnviz {command_name or "run"} "{texts[0]}"'


def is_misspelling(word: str, names: Iterable[str]) -> bool:
    """Return whether a single word is most likely a misspelling of one of the names.

    >>> [is_misspelling(word, ["run", "steps"]) for word in ("runn", "I am", "hello")]
    [True, False, False]
    """
    return bool(get_close_matches(word.lower(), list(names), n=1, cutoff=0.7))
