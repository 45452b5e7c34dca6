"""accept_options: a dataclass of options becomes a command, and options become settings.

A command `run(options: RunOptions)` below `@accept_options()` has the fields of RunOptions that
are options, and is called with a RunOptions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from attnviz.attention.mistakes import MISTAKES
from attnviz.cli.help import HELP_ALL, declare
from attnviz.cli.modes import Mode
from attnviz.errors import AttnvizError, cmd, opt
from attnviz.machine import memory
from attnviz.machine.atomic_files import refuse_overwriting
from attnviz.options.option import (
    CommandOptions,
    Option,
    default_of,
    own_options,
    row_of,
    shared,
)
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import SourceOptions
from attnviz.traces.early_checks import refuse_trained_model_options
from attnviz.traces.models.shipped import load_card
from attnviz.traces.settings import TRAINED_ONLY_SETTINGS, Settings
from attnviz.traces.trained.checkpoint_folders import find_folders
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.commands import Command, changed_options

TASK_DEFAULT_TEXT = "[default: the task's]"
TASK_INDEPENDENT_OPTIONS = ("seed", "device")  # no task sets them
MODEL_OPTIONS = ("model", "trust_remote_code")
_CONTEXT_PARAMETER = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)
_HELP_ALL_PARAMETER = inspect.Parameter(
    "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, HELP_ALL]
)


def accept_options(
    *,
    without: Collection[str] = (),
    rarely: Collection[str] = (),
    of_a_task: Collection[type] = (),
    modes: Sequence[Mode] = (),
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Return a decorator: a command gets the fields of its options, and is called with them.

    `without`: options that the command lacks; they keep their defaults. `rarely`: options that only
    --help-all lists. `of_a_task`: groups whose defaults are the task's. `modes`: what it can do;
    help lists the options of those that are chosen. Before the command runs, output over an input
    file and too little address space are refused.
    """

    def decorate(command: Callable[[Any], None]) -> Callable[..., None]:
        """Return the command as typer sees it, with every option as a parameter."""
        [group] = (hint for name, hint in get_type_hints(command).items() if name != "return")
        of_task = {each.name for base in of_a_task for each in own_options(base)}
        own_fields = [each for each in own_options(group) if each.name not in without]
        kinds = get_type_hints(group)
        parameters = [
            _parameter(
                each,
                kinds[each.name],
                is_rare=each.name in rarely,
                is_of_task=each.name in of_task - {*TASK_INDEPENDENT_OPTIONS},
            )
            for each in own_fields
        ]

        def call(context: typer.Context, **values: Any) -> None:
            """Refuse unsafe output, then call the command with its options."""
            memory.refuse_too_few_addresses()
            own_values = {each.name: values[each.name] for each in own_fields}
            options = group(**own_values, typed=_typed_names(context))
            refuse_overwriting(values.get("out", ()), files_read(options))
            command(options)

        call.__doc__ = command.__doc__
        call.__name__ = command.__name__
        call.modes = modes  # type: ignore[attr-defined]
        command_parameters = [_CONTEXT_PARAMETER, *parameters, _HELP_ALL_PARAMETER]
        call.__annotations__ = {p.name: p.annotation for p in command_parameters}
        call.__signature__ = inspect.Signature(command_parameters)  # type: ignore[attr-defined]
        return call

    return decorate


def files_read(options: Any) -> list[str | Path]:
    """Return the files and folders that options name, by name and value; of patterns those that
    match. A folder that is written (`save`) counts as well."""
    names = [each.name for each in own_options(type(options)) if _row(each).is_read]
    values = [value for value in (getattr(options, name) for name in names) if value is not None]
    paths = [[each] if isinstance(each, str | Path) else each for each in values]
    return [*chain.from_iterable(paths), *find_folders(getattr(options, "checkpoints", ()))]


def _typed_names(context: typer.Context) -> frozenset[str]:
    """Return the names of the options that the command line gave."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, source in sources.items() if source and source.name == "COMMANDLINE")


def _row(option: Field[Any]) -> Option:
    row = row_of(option)
    assert row is not None
    return row


def _parameter(
    option: Field[Any], kind: Any, *, is_rare: bool, is_of_task: bool
) -> inspect.Parameter:
    """Return an option as a parameter of a command.

    `is_rare`: only --help-all lists it. `is_of_task`: its help says that the default is the task's.
    """
    row, default = _row(option), default_of(option)
    if is_rare:
        row = replace(row, short="")
    if is_of_task:
        row = _with_task_default(row, default)
    typed_kind = _typed_kind(kind)
    declared = declare(option.name, row, has_negation=typed_kind == (bool | None))
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[typed_kind, declared],
    )


def _typed_kind(kind: Any) -> Any:
    """Return the type that a command line gives: text where a number or a word is accepted."""
    if get_origin(kind) is Literal:
        return str
    if get_origin(kind) is not UnionType and get_args(kind) and NoneType not in get_args(kind):
        return kind  # a list
    parts = [_typed_kind(each) for each in get_args(kind) if each is not NoneType]
    if not parts:
        return kind
    return (str if str in parts else parts[0]) | None


def _with_task_default(row: Option, default: Any) -> Option:
    """Return a row whose help says that the default is the task's."""
    text = re.sub(r"\[default: [^\]]*\]", TASK_DEFAULT_TEXT, row.help)
    row = replace(row, help=text, short=re.sub(", if not {dim}", "", row.short))
    if isinstance(default, str):  # typer would print it
        return replace(row, help=f"{text}  {TASK_DEFAULT_TEXT}", shows_default=False)
    return row


def validated_settings(
    options: CommandOptions, *groups: type, model: str | None, beside_trace: Collection[str] = ()
) -> Settings:
    """Return the Settings made of the options of a command line.

    Refuses, beside a saved trace (the file after --trace), typed options of these groups that say
    how a trace is made, but for those in `beside_trace`; and those that contradict what a small
    model was made with. `model`: the one that is used.
    """
    typed = options.typed_values(*groups)
    names = [name for name in typed if name not in beside_trace]
    refuse_beside_trace(getattr(options, "trace", None), names)
    refuse_model_conflicts(model, typed)
    return settings_from_options(options, model=model)


def settings_from_options(options: CommandOptions, **others: Any) -> Settings:
    """Return the Settings made of the options of a command line, and of others in their place.

    Refuses a variant that is one of the common mistakes.
    """
    refuse_mistake(getattr(options, "variant", Settings.variant))
    return shared(options, Settings, **others)


def refuse_mistake(variant: str) -> None:
    """Refuse a variant that is a common mistake: it is shown only beside the correct attention."""
    if variant in MISTAKES:
        raise AttnvizError(
            f"'{variant}' is a mistake, not a variant ({MISTAKES[variant].about})",
            f"look at it with: {cmd.compare:TEXT --by mask --values causal,{variant}}",
        )


def refuse_beside_trace(trace: str | Sequence[str] | None, others: Collection[str]) -> None:
    """Refuse a text, or typed options that say how a trace is made, beside --trace.

    `trace`: the file after --trace; without it nothing is refused.
    """
    if not trace:
        return
    if "text" in others:
        raise AttnvizError(f"a text and {opt.trace} are both given", "give one of them")
    for name in others:
        raise AttnvizError(
            f"{opt.trace} reads a finished trace, and {opt[name]} is about making one",
            f"leave {opt[name]} out, or {opt.trace}",
        )


def model_options_beside(trace: str | None, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed --model and --trust-remote-code; {} without a saved trace.

    A saved trace may not choose which model is loaded, nor whether its code is trusted.
    """
    names = () if trace is None else MODEL_OPTIONS
    return {name: typed[name] for name in names if name in typed}


def refuse_model_conflicts(model: str | None, options: Mapping[str, Any]) -> None:
    """Refuse typed options that contradict what a small model was made with, or that a trained one
    decides itself.

    Options are not refused here beside a small model that only trained ones have.
    """
    if is_trained(model):
        refuse_trained_model_options(options, model)
    elif model is not None:
        names = Settings.__dataclass_fields__.keys() - TRAINED_ONLY_SETTINGS
        load_card(model).refuse_other_settings({n: v for n, v in options.items() if n in names})


def command_line(name: str, options: CommandOptions, settings: Settings | None = None) -> str:
    """Return the command line made of all options that differ from their defaults.

    It is the provenance of a result. `settings` are used in place of those among the options.

    >>> from attnviz.options.option import option_class
    >>> from attnviz.options.traces import AttentionOptions, TextOptions
    >>> @option_class(frozen=True, kw_only=True)
    ... class Options(CommandOptions, TextOptions, AttentionOptions):
    ...     pass
    >>> command_line("run", Options(text="I am", causal=False, heads=2))
    "attnviz run 'I am' --heads 2 --no-causal"
    """
    changed = changed_options(options)
    if settings is not None:
        changed = {n: v for n, v in changed.items() if n not in Settings.__dataclass_fields__}
        changed |= changed_options(settings)
    first = {each: changed[each] for each in _first_names() if each in changed}
    return _format_command_line(name, first | changed)


def changed_beside_output(options: CommandOptions, *others: str) -> dict[str, Any]:
    """Return the changed options, but these others, and those about where a view goes, and how."""
    names = {*others, *(each.name for each in own_options(DeliveryOptions))}
    return {n: v for n, v in changed_options(options).items() if n not in names}


def typed_command_line(name: str, options: CommandOptions) -> str:
    """Return the command line of all options that were typed, even with the defaults of `run`.

    A task has defaults of its own, so that a default of `run` is a choice there.
    """
    typed = options.typed_values(type(options))
    if name == "learn" and "task" in typed:
        typed["name"] = typed.pop("task")
    return _format_command_line(name, typed)


@cache
def _first_names() -> list[str]:
    """Return the names of options that begin a command line, in their order."""
    return [each.name for group in (SourceOptions, Settings) for each in own_options(group)]


def _format_command_line(name: str, options: dict[str, Any]) -> str:
    """Return a command line: `text` or `name`, then `other`, are arguments, the rest options."""
    argument = options.pop("text", options.pop("name", None))
    second = options.pop("other", None)
    return Command(name=name, argument=argument, second=second, options=options).line
