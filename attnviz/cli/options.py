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
from attnviz.machine.writing import refuse_lost
from attnviz.traces.models.shipped import card_of
from attnviz.traces.settings import Settings
from attnviz.traces.trained.place import is_trained
from attnviz.wording.commands import Command, chosen, option

THE_TASKS = "[default: the task's]"
READ_OR_SAVED = ("file", "trace", "given", "embeddings", "model", "from_", "save")  # by options
OF_NO_TASK = ("seed", "device")  # which tasks leave to whoever types


@dataclass(frozen=True)
class Typed:
    """The names of the options that somebody typed, whether or not they differ from a default."""

    names: frozenset[str] = frozenset()

    def of(self, *groups: Any) -> dict[str, Any]:
        """Those of some groups, with what was typed."""
        return {
            each.name: getattr(group, each.name)
            for group in groups
            for each in fields(group)
            if each.name in self.names
        }


def accepts(
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
        _listed_last(each) if each.name in rarely else each
        for group in groups
        for each in (_of_a_task if group in of_a_task else list)(_parameters(group))
        if each.name not in without
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        asks = "typed" in inspect.signature(command).parameters

        def call(context: typer.Context, **given: Any) -> None:
            memory.refuse_to_start()
            named = (given[name] for name in READ_OR_SAVED if given.get(name) is not None)
            refuse_lost(given.get("out", ()), [*named])
            found = [
                group(
                    **{each.name: given[each.name] for each in fields(group) if each.name in given}
                )
                for group in groups
            ]
            command(*found, **({"typed": _typed(context)} if asks else {}))

        call.__doc__ = command.__doc__
        call.__name__ = command.__name__
        taken = [_CONTEXT, *parameters, _HELP_ALL]
        call.__annotations__ = {each.name: each.annotation for each in taken}
        call.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
        return call

    return decorate


def _filled(group: type, given: Mapping[str, Any]) -> Any:
    """The group as one value, with its defaults where the command has no such option."""
    return group(**{each.name: given[each.name] for each in fields(group) if each.name in given})


_CONTEXT = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)
_HELP_ALL = inspect.Parameter(
    "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll
)


def _typed(context: typer.Context) -> Typed:
    sources = {name: context.get_parameter_source(name) for name in context.params}
    names = (name for name, source in sources.items() if source and source.name == "COMMANDLINE")
    return Typed(frozenset(names))


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(each),
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]


def _listed_last(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same without the sentence that the first screen of help has of it."""
    kind, declared = get_args(parameter.annotation)
    heading = declared.rich_help_panel
    unsaid = copy(declared)
    unsaid.rich_help_panel = Heading(heading, example=heading.example)
    return parameter.replace(annotation=Annotated[kind, unsaid])


def _of_a_task(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """The same, but that help does not say what is usual for `run`."""
    return [each if each.name in OF_NO_TASK else _usual(each) for each in parameters]


def _usual(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, declared = get_args(parameter.annotation)
    heading, told = declared.rich_help_panel, copy(declared)
    short = re.sub(", if not [0-9]+", "", heading.short)
    told.rich_help_panel = Heading(heading, short, heading.example)
    told.help = re.sub(r"\[default: [^\]]*\]", THE_TASKS, declared.help)
    if isinstance(parameter.default, str):  # which typer would name
        told.help, told.show_default = f"{declared.help}  {THE_TASKS}", False
    return parameter.replace(annotation=Annotated[kind, told])


def _default(declared: Field[Any]) -> Any:
    """What an option is unless it is given; nothing for what must be given."""
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return inspect.Parameter.empty if declared.default is MISSING else declared.default


def settings_of(
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
    fields_of = {each.name: getattr(group, each.name) for group in groups for each in fields(group)}
    return Settings(tokenizer=text.tokenizer, **fields_of)


def refuse_mistake(variant: str) -> None:
    """A mistake is no variant: it is there to be looked at, beside what it gets wrong."""
    if variant in MISTAKES:
        raise AttnvizError(
            f"'{variant}' is a mistake, not a variant ({MISTAKES[variant].about})",
            f"look at it with: attnviz compare TEXT --by mask --values causal,{variant}",
        )


def refuse_both(trace: str | None, others: Mapping[str, Any]) -> None:
    """A trace that is there already cannot be made in another way."""
    if trace is None:
        return
    if "text" in others:
        raise AttnvizError("a text and --trace are both given", "give one of them")
    for name in others:
        raise AttnvizError(
            f"--trace reads a finished trace, and {option(name)} is about making one",
            f"leave {option(name)} out, or --trace",
        )


def named_again(trace: str | None, typed: dict[str, Any]) -> dict[str, Any]:
    """The model of a trace, where somebody names it anew: taken out of what is typed beside it.

    A file may not name what is loaded: neither a model, nor one whose code is trusted.
    """
    names = () if trace is None else ("model", "trust_remote_code")
    return {name: typed.pop(name) for name in names if name in typed}


def refuse_others(model: str | None, options: Mapping[str, Any]) -> None:
    """A model has decided already what some options are about, also by their usual values."""
    if model is not None and not is_trained(model):
        about = {
            name: each for name, each in options.items() if name in Settings.__dataclass_fields__
        }
        card_of(model).refuse_others(about)


def command_line(name: str, *groups: Any) -> str:
    """The command that these options make, for provenance.

    >>> command_line("run", TextOptions(text="I am"), AttentionOptions(causal=False, heads=2))
    "attnviz run 'I am' --heads 2 --no-causal"
    """
    return _line(name, chosen(*groups))


def line_as_typed(name: str, typed: Typed, *groups: Any) -> str:
    """The same of all that was typed: what is usual for `run` need not be for a task."""
    options = typed.of(*groups)
    if name == "learn" and "task" in options:
        options["name"] = options.pop("task")
    return _line(name, options)


def _line(name: str, options: dict[str, Any]) -> str:
    argument = options.pop("text", options.pop("name", None))
    second = options.pop("other", None)
    return Command(name=name, argument=argument, second=second, options=options).line
