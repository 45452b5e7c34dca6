"""accept_options: dataclasses become options of a command, and options become settings.

A command `run(text: TextOptions, attention: AttentionOptions)` below `@accept_options()` has the
fields of both as its options, and is called with a TextOptions and an AttentionOptions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from attnviz.attention.mistakes import MISTAKES
from attnviz.cli.help import Heading, HelpAll
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    ModelOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.machine.atomic_files import refuse_overwriting
from attnviz.traces.early_checks import refuse_trained_model_options
from attnviz.traces.models.shipped import load_card
from attnviz.traces.settings import TRAINED_ONLY_SETTINGS, Settings
from attnviz.traces.trained.checkpoint_folders import find_folders
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.surfaces import cmd, opt

TASK_DEFAULT_TEXT = "[default: the task's]"
FILE_OPTIONS = (
    "file", "texts", "task", "trace", "given", "embeddings", "model", "from_", "save",
)  # fmt: skip
TASK_INDEPENDENT_OPTIONS = ("seed", "device")  # no task sets them
MODEL_OPTIONS = ("model", "trust_remote_code")
SettingOptions = (
    ModelOptions
    | TrainedOptions
    | AttentionOptions
    | MatrixOptions
    | BlockOptions
    | WithoutOptions
    | LongTextOptions
)
_CONTEXT_PARAMETER = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)
_HELP_ALL_PARAMETER = inspect.Parameter(
    "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll
)


@dataclass(frozen=True)
class TypedOptions:
    """The names of the options typed on the command line, even with their default values."""

    names: frozenset[str] = frozenset()

    def values_of(self, *groups: Any) -> dict[str, Any]:
        """Return {name: value} of the typed options among the fields of these groups."""
        return {
            option.name: getattr(group, option.name)
            for group in groups
            for option in fields(group)
            if option.name in self.names
        }


def accept_options(
    *, without: Collection[str] = (), rarely: Collection[str] = (), of_a_task: Collection[type] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: a command gets the fields of its groups as options, called with groups.

    `without`: options that the command lacks; they keep their defaults. `rarely`: options that only
    --help-all lists. `of_a_task`: groups whose defaults are the task's. A command with a parameter
    `typed` also gets a TypedOptions. Before the command runs, output over an input file and too
    little address space are refused.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Return the command as typer sees it, with every option as a parameter."""
        hints = get_type_hints(command)
        groups = [hint for name, hint in hints.items() if name not in ("typed", "return")]
        parameters = [
            _without_short_help(parameter) if parameter.name in rarely else parameter
            for group in groups
            for parameter in _group_parameters(group, group in of_a_task)
            if parameter.name not in without
        ]

        def call(context: typer.Context, **values: Any) -> None:
            """Refuse unsafe output, then call the command with its groups."""
            memory.refuse_too_few_addresses()
            refuse_overwriting(values.get("out", ()), files_read(values))
            group_values = [
                group(**{o.name: values[o.name] for o in fields(group) if o.name in values})
                for group in groups
            ]
            typed = {"typed": _typed_options(context)} if "typed" in hints else {}
            command(*group_values, **typed)

        call.__doc__ = command.__doc__
        call.__name__ = command.__name__
        command_parameters = [_CONTEXT_PARAMETER, *parameters, _HELP_ALL_PARAMETER]
        call.__annotations__ = {p.name: p.annotation for p in command_parameters}
        call.__signature__ = inspect.Signature(command_parameters)  # type: ignore[attr-defined]
        return call

    return decorate


def files_read(values: Mapping[str, Any]) -> list[str | Path]:
    """Return the files and folders that options name, by name and value; of patterns those that
    match. A folder that is written (`save`) counts as well."""
    given = [values[name] for name in FILE_OPTIONS if values.get(name) is not None]
    names = [[each] if isinstance(each, str | Path) else each for each in given]
    return [*chain.from_iterable(names), *find_folders(values.get("checkpoints") or ())]


def _typed_options(context: typer.Context) -> TypedOptions:
    """Return the names of the options that the command line gave, as TypedOptions."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    names = (name for name, source in sources.items() if source and source.name == "COMMANDLINE")
    return TypedOptions(frozenset(names))


def _group_parameters(group: type, is_of_task: bool) -> list[inspect.Parameter]:
    """Return the fields of a group as parameters of a command, each with its default.

    `is_of_task`: their help says that the default is the task's, except for seed and device.
    """
    hints = get_type_hints(group, include_extras=True)
    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_option_default(option),
            annotation=hints[option.name],
        )
        for option in fields(group)
    ]
    return [
        _with_task_default(parameter)
        if is_of_task and parameter.name not in TASK_INDEPENDENT_OPTIONS
        else parameter
        for parameter in parameters
    ]


def _without_short_help(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter without its line in --help; --help-all still lists it."""
    kind, declared = get_args(parameter.annotation)
    heading = declared.rich_help_panel
    unlisted = copy(declared)
    unlisted.rich_help_panel = Heading(heading, example=heading.example)
    return parameter.replace(annotation=Annotated[kind, unlisted])


def _with_task_default(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter with a help text in which the default is the task's."""
    kind, declared = get_args(parameter.annotation)
    heading, task_option = declared.rich_help_panel, copy(declared)
    short = re.sub(", if not [0-9]+", "", heading.short)
    task_option.rich_help_panel = Heading(heading, short, heading.example)
    task_option.help = re.sub(r"\[default: [^\]]*\]", TASK_DEFAULT_TEXT, declared.help)
    if isinstance(parameter.default, str):  # typer would print it
        task_option.help, task_option.show_default = f"{declared.help}  {TASK_DEFAULT_TEXT}", False
    return parameter.replace(annotation=Annotated[kind, task_option])


def _option_default(declared: Field[Any]) -> Any:
    """Return the default of an option; Parameter.empty if the option must be given."""
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return inspect.Parameter.empty if declared.default is MISSING else declared.default


def validated_settings(
    saved_trace: str | None,
    typed: TypedOptions,
    text: TextOptions,
    *groups: SettingOptions,
    beside_trace: Collection[str] = (),
) -> Settings:
    """Return the Settings made of the options of a command line.

    Refuses, beside a saved trace (the file after --trace), typed options that say how a trace is
    made, but for those in `beside_trace`; and those that contradict what a small model was made
    with.
    """
    typed_values = typed.values_of(text, *groups)
    refuse_beside_trace(saved_trace, [name for name in typed_values if name not in {*beside_trace}])
    models = [group.model for group in groups if isinstance(group, ModelOptions)]
    refuse_model_conflicts(models[0], typed_values)
    return settings_from_options(text, *groups)


def settings_from_options(text: TextOptions, *groups: SettingOptions) -> Settings:
    """Return the Settings made of the options of a command line.

    `groups`: all others but the text, of which only the tokenizer is taken. Refuses a variant that
    is one of the common mistakes.
    """
    for group in groups:
        if isinstance(group, AttentionOptions):
            refuse_mistake(group.variant)
    values = {
        option.name: getattr(group, option.name)
        for group in groups
        for option in fields(group)
        if option.name in Settings.__dataclass_fields__
    }
    return Settings(tokenizer=text.tokenizer, **values)


def refuse_mistake(variant: str) -> None:
    """Refuse a variant that is a common mistake: it is shown only beside the correct attention."""
    if variant in MISTAKES:
        raise AttnvizError(
            f"'{variant}' is a mistake, not a variant ({MISTAKES[variant].about})",
            f"look at it with: {cmd.compare:TEXT --by mask --values causal,{variant}}",
        )


def refuse_beside_trace(trace: str | None, others: Collection[str]) -> None:
    """Refuse a text, or typed options that say how a trace is made, beside --trace.

    `trace`: the file after --trace; without it nothing is refused.
    """
    if trace is None:
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


def command_line(name: str, *groups: Any) -> str:
    """Return the command line made of all options that differ from their defaults.

    It is the provenance of a result.

    >>> command_line("run", TextOptions(text="I am"), AttentionOptions(causal=False, heads=2))
    "attnviz run 'I am' --heads 2 --no-causal"
    """
    return _format_command_line(name, changed_options(*groups))


def typed_command_line(name: str, typed: TypedOptions, *groups: Any) -> str:
    """Return the command line of all options that were typed, even with the defaults of `run`.

    A task has defaults of its own, so that a default of `run` is a choice there.
    """
    options = typed.values_of(*groups)
    if name == "learn" and "task" in options:
        options["name"] = options.pop("task")
    return _format_command_line(name, options)


def _format_command_line(name: str, options: dict[str, Any]) -> str:
    """Return a command line: `text` or `name`, then `other`, are arguments, the rest options."""
    argument = options.pop("text", options.pop("name", None))
    second = options.pop("other", None)
    return Command(name=name, argument=argument, second=second, options=options).line
