"""Help as plain text, and completion for shells.

typer's own boxes cost more time than the rest of --help.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from attnviz.cli.parsing import Parsing, refuse_more
from attnviz.errors import AttnvizError, unknown
from attnviz.machine import files

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
        from attnviz.cli.messages import paged  # subprocess, which --help need not wait for

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


VARIABLE = "_ATTNVIZ_COMPLETE"  # set by the shell's own script when it asks
SHELLS = ("bash", "zsh", "fish")

Names = Iterable[str] | Mapping[str, str] | Callable[[], Iterable[str] | Mapping[str, str]]


def completing(among: Names, *, several: bool = False) -> Callable[[str], list[tuple[str, str]]]:
    """What completes a word to one of some names, with what each is about; or several, by commas.

    >>> completing(["weights", "context"], several=True)("weights,c")
    [('weights,context', '')]
    """

    def complete(incomplete: str) -> list[tuple[str, str]]:
        known = among() if callable(among) else among
        about = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
        done, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        chosen = done.split(",")
        return [
            (f"{done}{comma}{name}", told)
            for name, told in about.items()
            if name.startswith(begun) and name not in chosen
        ]

    return complete


def completing_by(
    among: Callable[[Mapping[str, Any]], Names], *, several: bool = False
) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """The same, where the names depend on what was typed before."""

    def complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        return completing(among(context.params), several=several)(incomplete)

    # Which parameter is which, typer reads off annotations.
    complete.__annotations__ = {"context": typer.Context, "incomplete": str}
    return complete


def prepare() -> None:
    """Tell typer's protocol which shells there are, where a shell is asking."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def script(shell: str | None = None) -> str:
    """The lines that make a shell complete attnviz; that of this terminal, if none is named."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    text: str = get_completion_script(
        prog_name="attnviz", complete_var=VARIABLE, shell=_named(shell)
    )
    return text


def install(shell: str | None = None) -> Path:
    """Write those lines where the shell finds them when it starts."""
    from typer.completion import install as written  # type: ignore[attr-defined]

    try:
        path: Path = written(shell=_named(shell), prog_name="attnviz", complete_var=VARIABLE)[1]
    except OSError as error:
        raise AttnvizError(
            f"'{error.filename}' cannot be written: {files.reason(error)}",
            "print the lines with attnviz --show-completion, and save them yourself",
        ) from None
    return path


def _named(shell: str | None) -> str:
    if shell is None:
        return shell_here()
    if shell not in SHELLS:
        raise unknown("completion for the shell", shell, SHELLS)
    return shell


def shell_here() -> str:
    """The shell that attnviz was called from; else the one that the machine starts for a person."""
    found = _parent() or Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        about = (
            f"completion is not available for the shell '{found}'"
            if found
            else "no shell was found"
        )
        raise AttnvizError(about, f"call it from one of: {', '.join(SHELLS)}")
    return found


def _parent() -> str:
    import shellingham

    try:
        name: str = shellingham.detect_shell()[0]
    except (shellingham.ShellDetectionFailure, OSError):
        return ""
    return name if name in SHELLS else ""
