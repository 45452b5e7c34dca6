"""COMMANDS, help of groups, and the one place where an error becomes two lines."""

from __future__ import annotations

import errno
import io
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attnviz.cli import help, parsing
from attnviz.cli.help import SectionedCommand, write_sections
from attnviz.cli.messages import print_message
from attnviz.cli.parsing import ParsingMixin
from attnviz.errors import AttnvizError, Note, unknown_name_error
from attnviz.machine import memory
from attnviz.machine.environment import invalid_terminal_sizes, without_variables
from attnviz.version import __version__
from attnviz.wings import WINGS
from attnviz.wording.surfaces import Surface, speaking

COMMANDS = {  # named, not imported: `attnviz --help` needs no command's options
    "run": (
        "attnviz.cli.run:run_command",
        "Show which token of a sentence reads (attends to) which.",
    ),
    "compare": (
        "attnviz.cli.compare:compare_command",
        "Compare ways of attending: side by side, subtracted and measured.",
    ),
    "steps": (
        "attnviz.cli.steps:steps_command",
        "Show every number, step by step; with --query the arithmetic.",
    ),
    "inspect": (
        "attnviz.cli.inspect:inspect_command",
        "Show what the heads of a trained model do on a sentence.",
    ),
    **WINGS["explore"].commands,
    **WINGS["corpora"].commands,
    **WINGS["listen"].commands,
    "demo": (
        "attnviz.cli.demo:demo_command",
        "Take a tour: five pictures in the terminal, each with its command.",
    ),
    **WINGS["quiz"].commands,
    "learn": (
        "attnviz.cli.learn:learn_command",
        "Train a small model on a task, and watch its attention form.",
    ),
    "heads": (
        "attnviz.cli.heads:heads_command",
        "Rank the heads of a model by the accuracy lost without each.",
    ),
    **WINGS["examples"].commands,
    "models": (
        "attnviz.cli.listings:list_models",
        "List the models that come with attnviz, and others.",
    ),
    "variants": (
        "attnviz.cli.listings:list_variants",
        "List the kinds of attention, and what each does.",
    ),
    "tokenizers": (
        "attnviz.cli.listings:list_tokenizers",
        "List the ways to cut a text into tokens.",
    ),
    "schema": (
        "attnviz.cli.listings:print_schema",
        "Print the JSON Schema of what --json and -o x.json write.",
    ),
    "help": ("attnviz.cli.listings:print_help", "Show the help of a command, as its --help does."),
    "version": ("attnviz.cli.listings:print_version", "Print the version."),
}
HELP_GROUPS = {  # headings of the help, by the first command below each
    "run": "Look",
    "learn": "Learn",
    "example": "Check and look up",
    "list": "Commands",
}
WORDS_META_KEY = "attnviz.words"  # where typer's context keeps the words of the command line
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
NO_MEMORY_MESSAGE = "there is not enough memory", "try fewer tokens, heads or dimensions"
TYPER_OPTIONS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,  # typer's own boxes take longer than the rest of --help
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"]},
}


class CommandGroup(ParsingMixin, TyperGroup):
    """A group of commands from a table; the module of a command is imported only when it is called.

    `table` holds for each name the path of a function, or of the app of a group, and a line of
    help. `default_command` gets all words of which the first is no command.
    """

    table = COMMANDS
    default_command = "run"

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.table]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; if they begin with a dash, put the default command before them.

        The group's own options, such as --version, stay first.
        """
        ctx.meta[WORDS_META_KEY] = tuple(args)
        own_options = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if args and args[0].startswith("-") and args[0].partition("=")[0] not in own_options:
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, else the default one with all words.

        Refuses a first word that is probably a misspelt or mistaken command, except during
        completion.
        """
        if args[0] in self.table:
            return super().resolve_command(ctx, args)
        if not ctx.resilient_parsing:
            self.refuse_misspelt(args)
        return super().resolve_command(ctx, [self.default_command, *args])

    def refuse_misspelt(self, args: Sequence[str]) -> None:
        """Refuse a first word that looks like a misspelt or mistaken command, with a suggestion.

        Any other first word passes: it is taken for a sentence.
        """
        word = args[0]
        line, problem = parsing.suggest_command(args), f"there is no command '{word}'"
        if line and word.lower() in parsing.rows_by_word("aliases"):
            raise AttnvizError(problem, f"try: {line}")
        if " " not in word and (hint := parsing.rows_by_word("commands").get(word)):
            raise AttnvizError(problem, f"did you mean {hint}")
        if parsing.is_misspelling(word, self.table):
            raise unknown_name_error("command", word, self.table)
        if line:
            raise AttnvizError(problem, f"try: {line}")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command and return it as a click command; refuse an unknown name."""
        if cmd_name not in self.table:
            raise unknown_name_error("command", cmd_name, self.table)
        path, _ = self.table[cmd_name]
        function_or_group = pkgutil.resolve_name(path)
        if isinstance(function_or_group, typer.Typer):
            return typer.main.get_command(function_or_group)
        single_app = typer.Typer(**TYPER_OPTIONS)
        parsing_of_words = getattr(function_or_group, "context_settings", None)
        single_app.command(cmd_name, cls=SectionedCommand, context_settings=parsing_of_words)(
            function_or_group
        )
        return typer.main.get_command(single_app)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their lines of help, under headings, then the options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name, (_, about) in self.table.items():
            heading = HELP_GROUPS.get(name, heading)
            groups.setdefault(heading, []).append((name, about))
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)
        write_sections(self.get_params(ctx), ctx, formatter)


app = typer.Typer(name="attnviz", cls=CommandGroup, **TYPER_OPTIONS)


def _print_version(_context: typer.Context) -> None:
    typer.echo(f"attnviz {__version__}")


def _install_completion(context: typer.Context) -> None:
    path = help.install_completion(_shell_after_option(context, "--install-completion"))
    typer.echo(f"wrote {path}; it takes effect in the next shell")


def _show_completion(context: typer.Context) -> None:
    typer.echo(help.completion_script(_shell_after_option(context, "--show-completion")))


def _shell_after_option(context: typer.Context, option: str) -> str | None:
    """Return the word after `option` on the command line; None if it is missing or an option."""
    words = context.meta[WORDS_META_KEY]
    following = words[words.index(option) + 1 :][:1] if option in words else ()
    return next((word for word in following if not word.startswith("-")), None)


VERSION = help.exiting_flag("--version", "Print the version.", _print_version)
INSTALL_COMPLETION = help.exiting_flag(
    "--install-completion",
    f"Let the Tab key complete commands, options and names ({', '.join(help.SHELLS)}).",
    _install_completion,
)
SHOW_COMPLETION = help.exiting_flag(
    "--show-completion",
    "Print these lines instead, to add to the shell's own file.",
    _show_completion,
)


@app.callback(invoke_without_command=True)
def attnviz_callback(
    context: typer.Context,
    version: Annotated[bool, VERSION] = False,
    install_completion: Annotated[bool, INSTALL_COMPLETION] = False,
    show_completion: Annotated[bool, SHOW_COMPLETION] = False,
) -> None:
    """See what attention does: which token of a sentence reads (attends to) which, and how much.

    \b
    Start with:      attnviz run "I am learning this"
    A page instead:  attnviz run "I am learning this" -o view.html
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def print_error(problem: str, hint: str) -> int:
    """Print an error as two lines on standard error, problem and hint; return the exit status 2."""
    colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    print_message(problem, prefix="error: ", color="red" if colored else None)
    print_message(hint, prefix=" hint: ")
    return 2


@speaking(Surface.COMMAND_LINE)
def run_command_line(
    arguments: Sequence[str] | None = None, report_error: Callable[[str, str], int] = print_error
) -> int:
    """Run a command line (None: that of the process) and return its exit status.

    An AttnvizError, too little memory and a full disk are printed as two lines and give 2, Ctrl-C
    130, a reader that has quit 0. Any other exception is raised, with its traceback.
    `report_error`: what prints these two lines.
    """
    _prepare_streams()
    help.prepare_completion()
    try:
        # Jupyter sets MPLBACKEND for its commands: that backend may be missing, or open windows.
        with _printing_notes(), without_variables("MPLBACKEND", *invalid_terminal_sizes()):
            status = app(args=arguments, prog_name="attnviz", standalone_mode=False)
        sys.stdout.flush()
    except AttnvizError as error:
        return report_error(str(error), error.hint)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not memory.is_out_of_memory(error):
            raise
        return report_error(*NO_MEMORY_MESSAGE)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader (`| head -1`) has quit
        return _discard_output()
    except OSError as error:
        if memory.is_out_of_memory(error):
            return report_error(*NO_MEMORY_MESSAGE)
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        _discard_output()
        return report_error(
            f"the output cannot be written: {error.strerror}", "write it somewhere else"
        )
    except SystemExit as exit_error:
        if isinstance(exit_error.__context__, BrokenPipeError):  # typer exits on a broken pipe
            return _discard_output()
        raise
    return status if isinstance(status, int) else 0


def _prepare_streams() -> None:
    """Replace missing standard streams by empty ones; let others escape unencodable characters."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        getattr(sys, name).reconfigure(errors="backslashreplace")


@contextmanager
def _printing_notes() -> Iterator[None]:
    """Print each warning of category Note in the block as a line on standard error."""
    with warnings.catch_warnings():
        default_show = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, Note):
                print_message(f"note: {message}")
            else:
                default_show(message, category, *where, **more)

        warnings.simplefilter("always", Note)
        warnings.showwarning = show
        yield


def _discard_output() -> int:
    """Redirect standard output to nowhere, so that Python's last flush cannot fail; return 0."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    return 0
