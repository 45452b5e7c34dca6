"""Help, as plain text: the options that matter on one screen, and all of them in sections.

typer's own boxes cost more time than the rest of --help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from attnviz.cli.completion import Names, completing, completing_by
from attnviz.cli.parsing import Parsing, refuse_more

ALL = "--help-all"


class Heading(str):
    """What the help lists an option under; and what else a declaration says of its option.

    `short` is what the first screen of help says of it: an option that has none is listed by
    --help-all alone. `example` is a value that works, for errors.
    """

    short: str
    example: str

    def __new__(cls, text: str, short: str = "", example: str = "") -> Heading:
        heading = super().__new__(cls, text)
        heading.short, heading.example = short, example
        return heading


def in_section(
    heading: str,
    *names: str,
    help: str,
    short: str = "",
    example: str = "",
    among: Names | None = None,
    among_by: Callable[[Mapping[str, Any]], Names] | None = None,
    several: bool = False,
    **more: Any,
) -> Any:
    """An option that the help lists under a heading; `among` are the names that it chooses from.

    `among_by` finds them by what else was typed.
    With a `short` sentence it is one of the options that matter, which --help shows.
    """
    place = Heading(heading, short, example)
    if among is not None:
        more["autocompletion"] = completing(among, several=several)
    if among_by is not None:
        more["autocompletion"] = completing_by(among_by, several=several)
    return typer.Option(*names, help=help, rich_help_panel=place, **more)


def positional(
    heading: str,
    *,
    help: str,
    short: str = "",
    among: Names | None = None,
    among_by: Callable[[Mapping[str, Any]], Names] | None = None,
    **more: Any,
) -> Any:
    """The same for a word that stands without an option."""
    if among is not None:
        more["autocompletion"] = completing(among)
    if among_by is not None:
        more["autocompletion"] = completing_by(among_by)
    return typer.Argument(help=help, rich_help_panel=Heading(heading, short), **more)


class SectionedCommand(Parsing, TyperCommand):
    """A command whose help shows the options that matter, and with --help-all every one."""

    allow_extra_args = True  # which are refused here

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            refuse_more(self, ctx, rest)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        if any(_short(each) for each in self.params):
            _write_short(self, ctx, formatter)
        else:
            write_sections(self, ctx, formatter)

    def help_of_all(self, ctx: Any) -> str:
        """Help with every option, each under the heading that it was declared with."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_sections(self, ctx, formatter)
        return str(formatter.getvalue().rstrip("\n"))


def write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record:
            heading = getattr(parameter, "rich_help_panel", None) or "Other"
            argument = parameter.param_type_name == "argument"
            named = (parameter.metavar, record[1]) if argument else record
            sections.setdefault(heading, []).append(named)
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl(records)


def _write_short(command: Any, ctx: Any, formatter: Any) -> None:
    with formatter.section("The options that matter most"):
        formatter.write_dl(_records(command))
    count = len([each for each in command.params if each.param_type_name == "option"])
    formatter.write_paragraph()
    formatter.write_text(f"{ctx.command_path} {ALL} lists all {count} options.")


def _records(command: Any) -> Iterator[tuple[str, str]]:
    for each in command.params:
        if _short(each):
            names = sorted(each.opts, key=len) if each.param_type_name == "option" else []
            named = ", ".join(names)
            yield f"{named} {each.metavar or ''}".strip(), _short(each)


def _short(parameter: Any) -> str:
    return str(getattr(getattr(parameter, "rich_help_panel", None), "short", ""))


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from attnviz.cli.pager import paged  # subprocess, which --help need not wait for

        command: Any = context.command
        with paged():
            typer.echo(command.help_of_all(context))
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        ALL,
        help="Show this message with every option, and exit.",
        callback=_show_all,
        is_eager=True,
        expose_value=False,
    ),
]
