"""Help as plain text, and completion for shells.

typer's own boxes cost more time than the rest of --help.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer
from typer.core import TyperCommand

from attnviz.cli.modes import Mode, unlisted_options
from attnviz.cli.parsing import ParsingMixin, refuse_extra_words, row_of_parameter
from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.machine import files
from attnviz.options.option import Option, descriptions, resolve
from attnviz.wording.commands import option_name

HELP_ALL_OPTION = "--help-all"
HELP_OPTIONS = ("--help", "-h", HELP_ALL_OPTION)
TYPED_KEY = "attnviz.typed"  # where typer's context keeps the options beside --help
COMPLETION_VARIABLE = "_ATTNVIZ_COMPLETE"  # set by the shell's script when it asks
SHELLS = ("bash", "zsh", "fish")


class Heading(str):
    """The heading that the help lists an option under, with the option's row."""

    row: Option

    def __new__(cls, row: Option) -> Heading:
        heading = super().__new__(cls, row.heading)
        heading.row = row
        return heading


def declare(name: str, row: Option, *, has_negation: bool = False) -> Any:
    """Return the declaration of an option for typer, without its help, which is worked out where
    it is shown. `has_negation`: there is a --no-NAME, too.
    """
    facts: dict[str, Any] = {
        "metavar": row.metavar or None,
        "rich_help_panel": Heading(row),
        "show_default": row.shows_default,
        "hidden": row.is_hidden,
    }
    if row.choices or row.choices_beside:
        facts["autocompletion"] = build_completer(row)
    if row.is_argument:
        return typer.Argument(**facts)
    flags = row.flags or (option_name(name),)
    if has_negation:
        flags = (f"{flags[0]}/{option_name(f'no_{name}')}",)
    return typer.Option(*flags, **facts)


class SectionedCommand(ParsingMixin, TyperCommand):
    """A command whose --help lists the options that matter most, and --help-all every one."""

    allow_extra_args = True  # parse_args refuses them with a better hint

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; refuse those that no parameter takes, such as a text without quotes."""
        if self.modes and {*HELP_OPTIONS} & {*args}:
            ctx.meta[TYPED_KEY] = self._typed_before_help(ctx, args)
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            refuse_extra_words(self, ctx, rest)
        return rest

    @property
    def modes(self) -> Sequence[Mode]:
        """What the command can do, of which each thing has options of its own."""
        return getattr(self.callback, "modes", ())

    def _typed_before_help(self, ctx: Any, args: Sequence[str]) -> SimpleNamespace:
        """Return the options that stand beside --help, which choose what it lists; the others have
        their defaults. Words that cannot be parsed are refused later."""
        values: dict[str, Any] = {}
        with suppress(typer.TyperException):
            values, _, _ = self.make_parser(ctx).parse_args([*args])
        defaults = {each.name: each.default for each in self.get_params(ctx)}
        return SimpleNamespace(**defaults | values, typed=frozenset(values))

    def listed_params(self, ctx: Any) -> list[Any]:
        """Return the parameters that help lists: those of the modes that are chosen."""
        parameters = self.get_params(ctx)
        if not self.modes:
            return parameters
        defaults = SimpleNamespace(
            **{each.name: each.default for each in parameters}, typed=frozenset()
        )
        unlisted = unlisted_options(ctx.meta.get(TYPED_KEY, defaults), self.modes)
        return [each for each in parameters if each.name not in unlisted]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options with a short line of help; if there are none, all of them."""
        if not any(map(_short_help, self.params)):
            write_sections(self.get_params(ctx), ctx, formatter)
            return
        parameters = self.listed_params(ctx)
        with formatter.section("The options that matter most"):
            formatter.write_dl(_main_option_records(parameters))
        formatter.write_paragraph()
        options = [each for each in parameters if each.param_type_name == "option"]
        count = sum(each.name != "help" and not each.hidden for each in options)
        end = ", and what else it can do." if self.modes else "."
        formatter.write_text(f"{ctx.command_path} {HELP_ALL_OPTION} lists all {count} options{end}")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: a program has arguments of its own."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return ["PROGRAM [ARGS]..." if piece == "[PROGRAM]..." else piece for piece in pieces]

    def full_help(self, ctx: Any) -> str:
        """Return the usage, the description and every option under its heading, as a text."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_sections(self.listed_params(ctx), ctx, formatter)
        _write_modes(self.modes, formatter)
        return str(formatter.getvalue().rstrip("\n"))


def write_sections(parameters: Iterable[Any], ctx: Any, formatter: Any) -> None:
    """Write arguments and options of a command into the help, each under its heading."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in parameters:
        if (row := row_of_parameter(parameter)) is not None:
            parameter.help = row.text(row.help)
        record = parameter.get_help_record(ctx)
        if record:
            heading = getattr(parameter, "rich_help_panel", None) or "Other"
            is_argument = parameter.param_type_name == "argument"
            entry = (parameter.metavar, record[1]) if is_argument else record
            sections.setdefault(heading, []).append(entry)
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl(records)


def _write_modes(modes: Sequence[Mode], formatter: Any) -> None:
    """Write what else the command can do, and what chooses it: help then lists its options."""
    if modes:
        with formatter.section(f"With one of these, {HELP_ALL_OPTION} lists more options"):
            formatter.write_dl([(mode.example, mode.about) for mode in modes])


def _main_option_records(parameters: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield (names and metavar, short help) of each option or argument that has a short help."""
    for parameter in parameters:
        if short := _short_help(parameter):
            names = sorted(parameter.opts, key=len) if parameter.param_type_name == "option" else []
            yield f"{', '.join(names)} {parameter.metavar or ''}".strip(), short


def _short_help(parameter: Any) -> str:
    row = row_of_parameter(parameter)
    return "" if row is None else row.text(row.short)


def exiting_flag(name: str, about: str, act: Callable[[typer.Context], None], **facts: Any) -> Any:
    """Return a flag that does something in place of the command: it acts, and exits."""

    def call(context: typer.Context, is_given: bool) -> None:
        if is_given and not context.resilient_parsing:
            act(context)
            raise typer.Exit

    return typer.Option(name, help=about, callback=call, is_eager=True, **facts)


def _print_full_help(context: typer.Context) -> None:
    """Print the help with every option, in a pager if it is long."""
    from attnviz.cli.messages import paged_output  # loads subprocess: --help need not wait

    command: Any = context.command
    with paged_output():
        typer.echo(command.full_help(context))


HELP_ALL = exiting_flag(
    HELP_ALL_OPTION,
    "Show this message with every option, and exit.",
    _print_full_help,
    expose_value=False,
)


def build_completer(row: Option) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return a function that completes the beginning of a word to pairs (name, description).

    Of several names separated by commas the last is completed, and names already there are not
    offered again.

    >>> row = Option(heading="", help="", choices=["weights", "context"], several=True)
    >>> build_completer(row)(None, "weights,c")
    [('weights,context', '')]
    """

    def complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        """Return (completed word, description) for each name that begins so."""
        names = resolve(row.choices)
        if row.choices_beside:  # which depend on what was typed before
            names = pkgutil.resolve_name(row.choices_beside)(context.params)
        start, comma, prefix = incomplete.rpartition(",") if row.several else ("", "", incomplete)
        earlier_names = start.split(",")
        return [
            (f"{start}{comma}{name}", about)
            for name, about in descriptions(names).items()
            if name.startswith(prefix) and name not in earlier_names
        ]

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
