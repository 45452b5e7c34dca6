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

from attnviz.cli.parsing import ParsingMixin, refuse_extra_words
from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.machine import files

HELP_ALL_OPTION = "--help-all"
COMPLETION_VARIABLE = "_ATTNVIZ_COMPLETE"  # set by the shell's script when it asks
SHELLS = ("bash", "zsh", "fish")
NameSource = Iterable[str] | Mapping[str, str] | Callable[[], Iterable[str] | Mapping[str, str]]


class Heading(str):
    """The heading that the help lists an option under, with facts of the option's declaration.

    `short`: its line on the first screen of help; an option without one is listed by --help-all
    alone. `example`: a value that works, for errors.
    """

    short: str
    example: str

    def __new__(cls, text: str, short: str = "", example: str = "") -> Heading:
        """Return the heading `text`, whose attributes are `short` and `example`."""
        heading = super().__new__(cls, text)
        heading.short, heading.example = short, example
        return heading


def section_option(
    heading: str,
    *names: str,
    help: str,
    short: str = "",
    example: str = "",
    among: NameSource | None = None,
    among_by: Callable[[Mapping[str, Any]], NameSource] | None = None,
    several: bool = False,
    **more: Any,
) -> Any:
    """Declare an option that the help lists under a heading.

    `names`: such as '--seed', '-s'; by default that of its field. `short`: its line on the first
    screen of help; without one only --help-all lists it. `example`: a value for errors. `among`:
    the names that completion offers; `among_by` returns them for the values typed before.
    `several`: names are separated by commas. `more` goes to typer.Option.
    """
    panel = Heading(heading, short, example)
    if among is not None:
        more["autocompletion"] = build_completer(among, several=several)
    if among_by is not None:
        more["autocompletion"] = build_context_completer(among_by, several=several)
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def section_argument(
    heading: str,
    *,
    help: str,
    short: str = "",
    among: NameSource | None = None,
    among_by: Callable[[Mapping[str, Any]], NameSource] | None = None,
    **more: Any,
) -> Any:
    """Declare an argument, a word without an option, that the help lists under a heading.

    The parameters are those of `section_option`; `more` goes to typer.Argument.
    """
    if among is not None:
        more["autocompletion"] = build_completer(among)
    if among_by is not None:
        more["autocompletion"] = build_context_completer(among_by)
    return typer.Argument(help=help, rich_help_panel=Heading(heading, short), **more)


class SectionedCommand(ParsingMixin, TyperCommand):
    """A command whose --help lists the options that matter most, and --help-all every one."""

    allow_extra_args = True  # parse_args refuses them with a better hint

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; refuse those that no parameter takes, such as a text without quotes."""
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            refuse_extra_words(self, ctx, rest)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options with a short line of help; if there are none, all of them."""
        if any(_short_help(parameter) for parameter in self.params):
            _write_main_options(self, ctx, formatter)
        else:
            write_sections(self, ctx, formatter)

    def full_help(self, ctx: Any) -> str:
        """Return the usage, the description and every option under its heading, as a text."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_sections(self, ctx, formatter)
        return str(formatter.getvalue().rstrip("\n"))


def write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    """Write every argument and option of a command into the help, each under its heading."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record:
            heading = getattr(parameter, "rich_help_panel", None) or "Other"
            is_argument = parameter.param_type_name == "argument"
            entry = (parameter.metavar, record[1]) if is_argument else record
            sections.setdefault(heading, []).append(entry)
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl(records)


def _write_main_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options with a short line of help, and how to list the others."""
    with formatter.section("The options that matter most"):
        formatter.write_dl(_main_option_records(command))
    count = sum(
        parameter.param_type_name == "option" and not parameter.hidden
        for parameter in command.params
    )
    formatter.write_paragraph()
    formatter.write_text(f"{ctx.command_path} {HELP_ALL_OPTION} lists all {count} options.")


def _main_option_records(command: Any) -> Iterator[tuple[str, str]]:
    """Yield (names and metavar, short help) of each option or argument that has a short help."""
    for parameter in command.params:
        if _short_help(parameter):
            names = sorted(parameter.opts, key=len) if parameter.param_type_name == "option" else []
            yield f"{', '.join(names)} {parameter.metavar or ''}".strip(), _short_help(parameter)


def _short_help(parameter: Any) -> str:
    return str(getattr(getattr(parameter, "rich_help_panel", None), "short", ""))


def _print_full_help(context: typer.Context, is_given: bool) -> None:
    """Print the help with every option (in a pager if long) and exit, if --help-all is given."""
    if is_given and not context.resilient_parsing:
        from attnviz.cli.messages import paged_output  # loads subprocess: --help need not wait

        command: Any = context.command
        with paged_output():
            typer.echo(command.full_help(context))
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        HELP_ALL_OPTION,
        help="Show this message with every option, and exit.",
        callback=_print_full_help,
        is_eager=True,
        expose_value=False,
    ),
]


def build_completer(
    among: NameSource, *, several: bool = False
) -> Callable[[str], list[tuple[str, str]]]:
    """Return a function that completes the beginning of a word to pairs (name, description).

    `among`: names, descriptions by name, or a function that returns either. `several`: the last of
    some names separated by commas is completed, and names already there are not offered again.

    >>> build_completer(["weights", "context"], several=True)("weights,c")
    [('weights,context', '')]
    """

    def complete(incomplete: str) -> list[tuple[str, str]]:
        """Return (completed word, description) for each name that begins so."""
        names = among() if callable(among) else among
        summaries = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
        finished, comma, prefix = incomplete.rpartition(",") if several else ("", "", incomplete)
        finished_names = finished.split(",")
        return [
            (f"{finished}{comma}{name}", summary)
            for name, summary in summaries.items()
            if name.startswith(prefix) and name not in finished_names
        ]

    return complete


def build_context_completer(
    among: Callable[[Mapping[str, Any]], NameSource], *, several: bool = False
) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return a function that completes a word to names that depend on what was typed before.

    `among` returns these names for the values of the other options; `several`: they are separated
    by commas.
    """

    def complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        return build_completer(among(context.params), several=several)(incomplete)

    # typer tells the parameters apart by their annotations.
    complete.__annotations__ = {"context": typer.Context, "incomplete": str}
    return complete


def prepare_completion() -> None:
    """Let typer register its shells, if a shell asks for completions; otherwise do nothing."""
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def completion_script(shell: str | None = None) -> str:
    """Return the script that makes a shell complete attnviz; None: the shell that runs it.

    Refuses a shell other than bash, zsh and fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    text: str = get_completion_script(
        prog_name="attnviz", complete_var=COMPLETION_VARIABLE, shell=_check_shell(shell)
    )
    return text


def install_completion(shell: str | None = None) -> Path:
    """Install the completion script where the shell reads it at its start; return its path.

    None: the shell that runs it. Refuses other shells, and a file that cannot be written.
    """
    from typer.completion import install  # type: ignore[attr-defined]

    try:
        path: Path = install(
            shell=_check_shell(shell), prog_name="attnviz", complete_var=COMPLETION_VARIABLE
        )[1]
    except OSError as error:
        raise AttnvizError(
            f"'{error.filename}' cannot be written: {files.error_reason(error)}",
            "print the lines with attnviz --show-completion, and save them yourself",
        ) from None
    return path


def _check_shell(shell: str | None) -> str:
    """Return a shell's name, None becoming the current shell; refuse an unsupported shell."""
    if shell is None:
        return current_shell()
    if shell not in SHELLS:
        raise unknown_name_error("completion for the shell", shell, SHELLS)
    return shell


def current_shell() -> str:
    """Return the name of the shell that runs attnviz, else of the one in the variable SHELL.

    Refuses to go on if that is none of bash, zsh and fish.
    """
    shell = _parent_shell() or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        missing = f"completion is not available for the shell '{shell}'"
        hint = f"call it from one of: {', '.join(SHELLS)}"
        raise AttnvizError(missing if shell else "no shell was found", hint)
    return shell


def _parent_shell() -> str:
    """Return the shell among the parent processes; empty if there is none, or it is unsupported."""
    import shellingham

    try:
        name: str = shellingham.detect_shell()[0]
    except (shellingham.ShellDetectionFailure, OSError):
        return ""
    return name if name in SHELLS else ""
