"""The application: its commands, and the one place where an error becomes two lines."""

from __future__ import annotations

import errno
import io
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attnviz.cli import help, parsing
from attnviz.cli.help import SectionedCommand, write_sections
from attnviz.cli.messages import tell
from attnviz.cli.parsing import Parsing
from attnviz.errors import AttnvizError, Note, unknown
from attnviz.machine import memory
from attnviz.machine.surroundings import odd_sizes, without
from attnviz.version import __version__

COMMANDS = {  # named, not imported: `attnviz --help` needs no command's options
    "run": ("attnviz.cli.run:run", "Show which token of a sentence reads (attends to) which."),
    "compare": (
        "attnviz.cli.compare:compare",
        "Compare ways of attending: side by side, subtracted and measured.",
    ),
    "steps": (
        "attnviz.cli.steps:steps",
        "Show every number, step by step; with --query the arithmetic.",
    ),
    "inspect": (
        "attnviz.cli.inspect:inspect",
        "Show what the heads of a trained model do on a sentence.",
    ),
    "demo": (
        "attnviz.cli.demo:demo",
        "Take a tour: five pictures in the terminal, each with its command.",
    ),
    "learn": (
        "attnviz.cli.learn:learn",
        "Train a small model on a task, and watch its attention form.",
    ),
    "heads": (
        "attnviz.cli.heads:heads",
        "Rank the heads of a model by the accuracy lost without each.",
    ),
    "example": ("", "Recompute worked examples from textbooks, step by step."),
    "variants": (
        "attnviz.cli.answers:variants",
        "List the kinds of attention, and what each does.",
    ),
    "tokenizers": ("attnviz.cli.answers:tokenizers", "List the ways to cut a text into tokens."),
    "help": ("attnviz.cli.answers:help_", "Show the help of a command, as its --help does."),
    "version": ("attnviz.cli.answers:version", "Print the version."),
}
GROUPS = {  # of the help: each begins with this command
    "run": "Look",
    "learn": "Learn",
    "example": "Check and look up",
    "list": "Commands",
}
EXAMPLE_COMMANDS = {
    "list": ("attnviz.cli.answers:examples", "List the worked examples, and what each shows."),
    "show": ("attnviz.cli.example:show", "Show a worked example step by step."),
    "check": (
        "attnviz.cli.example:check",
        "Recompute worked examples, and compare them with the printed digits.",
    ),
}
WORDS = "attnviz.words"  # of the command line, in what typer hands from call to call
ELSEWHERE = {  # words that people expect to be commands, and mean no text if they stand alone
    "list": "attnviz example list?",
    "train": "attnviz learn?",
    "show": "attnviz example show? attnviz example list names what there is",
}
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
NO_MEMORY = "there is not enough memory", "try fewer tokens, heads or dimensions"
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,  # typer's own boxes take longer than the rest of --help
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"]},
}


class Commands(Parsing, TyperGroup):
    """The table above as a group: a command is imported when it is called."""

    table = COMMANDS
    usual = "run"  # what is called where no command is named

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.table]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """With the usual command before options that are its own, and before a bare dash."""
        ctx.meta[WORDS] = tuple(args)
        if args and args[0].startswith("-") and not self._is_own_option(ctx, args[0]):
            return super().parse_args(ctx, [self.usual, *args])
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; of other words the usual one, which takes them."""
        if args[0] in self.table:
            return super().resolve_command(ctx, args)
        if not ctx.resilient_parsing:
            self.refuse_misspelt(args)
        return super().resolve_command(ctx, [self.usual, *args])

    def refuse_misspelt(self, args: Sequence[str]) -> None:
        """A sentence is a text, and so is a word that is like no command."""
        word = args[0]
        line, problem = parsing.meant_command(args), f"there is no command '{word}'"
        if line and word.lower() in parsing.COMMANDS:
            raise AttnvizError(problem, f"try: {line}")
        if word in ELSEWHERE:
            raise AttnvizError(problem, f"did you mean {ELSEWHERE[word]}")
        if parsing.resembles(word, self.table):
            raise unknown("command", word, self.table)
        if line:
            raise AttnvizError(problem, f"try: {line}")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.table:
            raise unknown("command", cmd_name, self.table)
        path, _ = self.table[cmd_name]
        if not path:
            return typer.main.get_command(_examples())
        alone = typer.Typer(**PLAIN)
        alone.command(cmd_name, cls=SectionedCommand)(pkgutil.resolve_name(path))
        return typer.main.get_command(alone)

    def _is_own_option(self, ctx: Any, word: str) -> bool:
        names = {name for each in self.get_params(ctx) for name in each.opts}
        return word.partition("=")[0] in names

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name, (_, about) in self.table.items():
            heading = GROUPS.get(name, heading)
            groups.setdefault(heading, []).append((name, about))
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)
        write_sections(self, ctx, formatter)


class ExampleCommands(Commands):
    """The commands below `attnviz example`."""

    table = EXAMPLE_COMMANDS
    usual = "show"

    def refuse_misspelt(self, args: Sequence[str]) -> None:
        """An example's name is enough to show it."""
        from attnviz.examples import names

        word = args[0]
        if not names.is_one(word):
            raise unknown("command or example", word, [*self.table, *names.names()])


def _examples() -> typer.Typer:
    """`attnviz example`, whose help lists its own commands."""
    group = typer.Typer(name="example", cls=ExampleCommands, **PLAIN)

    @group.callback(invoke_without_command=True)
    def example(context: typer.Context) -> None:
        """Recompute worked examples from textbooks, step by step.

        An example is a TOML file: attnviz example check my.toml checks one of your own.
        """
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return group


app = typer.Typer(name="attnviz", cls=Commands, **PLAIN)


def _version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        typer.echo(f"attnviz {__version__}")
        raise typer.Exit


def _install_completion(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        written = help.install(_shell_after(context, "--install-completion"))
        typer.echo(f"wrote {written}; it takes effect in the next shell")
        raise typer.Exit


def _show_completion(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        typer.echo(help.script(_shell_after(context, "--show-completion")))
        raise typer.Exit


def _shell_after(context: typer.Context, option: str) -> str | None:
    """The shell that is named after an option, which may as well find out itself."""
    words = context.meta[WORDS]
    following = words[words.index(option) + 1 :] if option in words else ()
    return next((word for word in following[:1] if not word.startswith("-")), None)


_SHELLS = ", ".join(help.SHELLS)


@app.callback(invoke_without_command=True)
def attnviz_(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            help=f"Let the Tab key complete commands, options and names ({_SHELLS}).",
            callback=_install_completion,
            is_eager=True,
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            help="Print these lines instead, to add to the shell's own file.",
            callback=_show_completion,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """See what attention does: which token of a sentence reads (attends to) which, and how much.

    \b
    Start with:      attnviz run "I am learning this"
    A page instead:  attnviz run "I am learning this" -o view.html
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; bugs come out with their traceback."""
    _prepare_streams()
    help.prepare()
    try:
        # A backend that Jupyter names to its commands need not be there, and shows windows.
        with _notes_told(), without("MPLBACKEND", *odd_sizes()):
            status = app(args=arguments, prog_name="attnviz", standalone_mode=False)
        sys.stdout.flush()
    except AttnvizError as error:
        return _refuse(str(error), error.hint)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not memory.ran_out(error):
            raise
        return _refuse(*NO_MEMORY)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader (`| head -1`) has had enough
        return _discard_output()
    except OSError as error:
        if memory.ran_out(error):
            return _refuse(*NO_MEMORY)
        if error.errno not in DISK_IS_FULL:
            raise
        _discard_output()
        return _refuse(f"the output cannot be written: {error.strerror}", "write it somewhere else")
    except SystemExit as stopped:
        if isinstance(stopped.__context__, BrokenPipeError):  # typer's own answer to one
            return _discard_output()
        raise
    return status if isinstance(status, int) else 0


def _prepare_streams() -> None:
    """A stream that is closed swallows, and has nothing to read; one that cannot show a character
    shows its code.
    """
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        getattr(sys, name).reconfigure(errors="backslashreplace")


@contextmanager
def _notes_told() -> Iterator[None]:
    """What is worth saying while something is done, as a note."""

    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, Note):
                tell(f"note: {message}")
            else:
                otherwise(message, category, *where, **more)

        warnings.simplefilter("always", Note)
        warnings.showwarning = show
        yield


def _discard_output() -> int:
    """Let Python's last flush, of what could not be written, find nobody to complain to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    return 0


def _refuse(problem: str, hint: str) -> int:
    """Two lines on standard error: what is wrong, and what to try."""
    colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    tell(problem, start="error: ", color="red" if colored else None)
    tell(hint, start=" hint: ")
    return 2
