"""Groups of options, as a command takes them: each group as one value.

`accepts(TextOptions, AttentionOptions)` turns the fields of both into options, and hands the
command a TextOptions and an AttentionOptions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer

from attnviz.attention.mistakes import MISTAKES
from attnviz.cli.help import Heading, HelpAll
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    MatrixOptions,
    ModelOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.machine.atomic_files import refuse_overwriting
from attnviz.traces.models.shipped import load_card
from attnviz.traces.settings import Settings
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.commands import Command, changed_options, option_name

TASK_DEFAULT_TEXT = "[default: the task's]"
FILE_OPTIONS = ("file", "trace", "given", "embeddings", "model", "from_", "save")  # by options
TASK_INDEPENDENT_OPTIONS = ("seed", "device")  # which tasks leave to whoever types


@dataclass(frozen=True)
class TypedOptions:
    """The names of the options that somebody typed, whether or not they differ from a default."""

    names: frozenset[str] = frozenset()

    def values_of(self, *groups: Any) -> dict[str, Any]:
        """Those of some groups, with what was typed."""
        return {
            option_field.name: getattr(group, option_field.name)
            for group in groups
            for option_field in fields(group)
            if option_field.name in self.names
        }


def accept_options(
    *groups: type,
    without: Collection[str] = (),
    rarely: Collection[str] = (),
    of_a_task: Collection[type] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of the groups as its options, and call it with the groups.

    `without` are those that mean nothing to it, and stay as they are by default; those that are
    needed `rarely` are listed by --help-all alone. What is usual in groups `of_a_task` is what the
    task says. A command that must know what was typed takes it after them, as `typed`.
    """
    parameters = [
        _without_short_help(each) if each.name in rarely else each
        for group in groups
        for each in (_task_parameters if group in of_a_task else list)(_group_parameters(group))
        if each.name not in without
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        takes_typed = "typed" in inspect.signature(command).parameters

        def call(context: typer.Context, **values: Any) -> None:
            memory.refuse_too_few_addresses()
            file_names = (values[name] for name in FILE_OPTIONS if values.get(name) is not None)
            refuse_overwriting(values.get("out", ()), [*file_names])
            group_values = [
                group(
                    **{
                        each.name: values[each.name]
                        for each in fields(group)
                        if each.name in values
                    }
                )
                for group in groups
            ]
            command(*group_values, **({"typed": _typed_options(context)} if takes_typed else {}))

        call.__doc__ = command.__doc__
        call.__name__ = command.__name__
        command_parameters = [_CONTEXT, *parameters, _HELP_ALL]
        call.__annotations__ = {each.name: each.annotation for each in command_parameters}
        call.__signature__ = inspect.Signature(command_parameters)  # type: ignore[attr-defined]
        return call

    return decorate


def _fill_option_group(group: type, values: Mapping[str, Any]) -> Any:
    """The group as one value, with its defaults where the command has no such option."""
    return group(
        **{
            option_field.name: values[option_field.name]
            for option_field in fields(group)
            if option_field.name in values
        }
    )


_CONTEXT = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)
_HELP_ALL = inspect.Parameter(
    "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll
)


def _typed_options(context: typer.Context) -> TypedOptions:
    sources = {name: context.get_parameter_source(name) for name in context.params}
    names = (name for name, source in sources.items() if source and source.name == "COMMANDLINE")
    return TypedOptions(frozenset(names))


def _group_parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            option_field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_option_default(option_field),
            annotation=hints[option_field.name],
        )
        for option_field in fields(group)
    ]


def _without_short_help(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same without the sentence that the first screen of help has of it."""
    kind, declared = get_args(parameter.annotation)
    heading = declared.rich_help_panel
    unlisted = copy(declared)
    unlisted.rich_help_panel = Heading(heading, example=heading.example)
    return parameter.replace(annotation=Annotated[kind, unlisted])


def _task_parameters(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """The same, but that help does not say what is usual for `run`."""
    return [
        parameter if parameter.name in TASK_INDEPENDENT_OPTIONS else _with_task_default(parameter)
        for parameter in parameters
    ]


def _with_task_default(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, declared = get_args(parameter.annotation)
    heading, task_option = declared.rich_help_panel, copy(declared)
    short = re.sub(", if not [0-9]+", "", heading.short)
    task_option.rich_help_panel = Heading(heading, short, heading.example)
    task_option.help = re.sub(r"\[default: [^\]]*\]", TASK_DEFAULT_TEXT, declared.help)
    if isinstance(parameter.default, str):  # which typer would name
        task_option.help, task_option.show_default = f"{declared.help}  {TASK_DEFAULT_TEXT}", False
    return parameter.replace(annotation=Annotated[kind, task_option])


def _option_default(declared: Field[Any]) -> Any:
    """What an option is unless it is given; nothing for what must be given."""
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return inspect.Parameter.empty if declared.default is MISSING else declared.default


def settings_from_options(
    text: TextOptions,
    *groups: ModelOptions
    | TrainedOptions
    | AttentionOptions
    | MatrixOptions
    | BlockOptions
    | WithoutOptions,
) -> Settings:
    """What was chosen on the command line."""
    for group in groups:
        if isinstance(group, AttentionOptions):
            refuse_mistake(group.variant)
    setting_values = {
        option_field.name: getattr(group, option_field.name)
        for group in groups
        for option_field in fields(group)
    }
    return Settings(tokenizer=text.tokenizer, **setting_values)


def refuse_mistake(variant: str) -> None:
    """A mistake is no variant: it is there to be looked at, beside what it gets wrong."""
    if variant in MISTAKES:
        raise AttnvizError(
            f"'{variant}' is a mistake, not a variant ({MISTAKES[variant].about})",
            f"look at it with: attnviz compare TEXT --by mask --values causal,{variant}",
        )


def refuse_beside_trace(trace: str | None, others: Mapping[str, Any]) -> None:
    """A trace that is there already cannot be made in another way."""
    if trace is None:
        return
    if "text" in others:
        raise AttnvizError("a text and --trace are both given", "give one of them")
    for name in others:
        raise AttnvizError(
            f"--trace reads a finished trace, and {option_name(name)} is about making one",
            f"leave {option_name(name)} out, or --trace",
        )


def take_model_options(trace: str | None, typed: dict[str, Any]) -> dict[str, Any]:
    """The model of a trace, where somebody names it anew: taken out of what is typed beside it.

    A file may not name what is loaded: neither a model, nor one whose code is trusted.
    """
    names = () if trace is None else ("model", "trust_remote_code")
    return {name: typed.pop(name) for name in names if name in typed}


def refuse_model_conflicts(model: str | None, options: Mapping[str, Any]) -> None:
    """A model has decided already what some options are about, also by their usual values."""
    if model is not None and not is_trained(model):
        about = {
            name: value for name, value in options.items() if name in Settings.__dataclass_fields__
        }
        load_card(model).refuse_other_settings(about)


def command_line(name: str, *groups: Any) -> str:
    """The command that these options make, for provenance.

    >>> command_line("run", TextOptions(text="I am"), AttentionOptions(causal=False, heads=2))
    "attnviz run 'I am' --heads 2 --no-causal"
    """
    return _format_command_line(name, changed_options(*groups))


def typed_command_line(name: str, typed: TypedOptions, *groups: Any) -> str:
    """The same of all that was typed: what is usual for `run` need not be for a task."""
    options = typed.values_of(*groups)
    if name == "learn" and "task" in options:
        options["name"] = options.pop("task")
    return _format_command_line(name, options)


def _format_command_line(name: str, options: dict[str, Any]) -> str:
    argument = options.pop("text", options.pop("name", None))
    second = options.pop("other", None)
    return Command(name=name, argument=argument, second=second, options=options).line
