"""The application: its commands, and the one place where an error becomes two lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import attnviz
from attnviz.cli import run
from attnviz.cli.help import SectionedCommand, SectionedGroup
from attnviz.errors import AttnvizError
from attnviz.tokens import printable

app = typer.Typer(
    name="attnviz",
    cls=SectionedGroup,
    add_completion=False,
    rich_markup_mode=None,  # its help needs half as long again as all of ours
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnviz {attnviz.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def attnviz_(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """See attention: which word of a sentence reads which, by how much, and what comes out.

    Start with:  attnviz run "I am learning this"
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("run", cls=SectionedCommand)(run.run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; bugs come out with their traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its code instead of a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except AttnvizError as error:
        return _refuse(str(error), error.hint)
    except typer.TyperException as error:
        return _refuse(_sentence(error.format_message()), "attnviz run --help lists the options")
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        # The reader (`| head -1`) has gone: let Python's last flush find nobody to complain to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status if isinstance(status, int) else 0


def _refuse(problem: str, hint: str) -> int:
    """Two lines on standard error: what is wrong, and what to try."""
    colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    typer.secho("error: ", err=True, nl=False, fg="red" if colored else None, color=colored)
    typer.echo(printable(problem), err=True)
    typer.echo(f" hint: {printable(hint)}", err=True)
    return 2


def _sentence(message: str) -> str:
    """As our own errors begin: in lower case, and without a full stop."""
    return message[:1].lower() + message[1:].rstrip(".")
