"""`attnviz variants`, `tokenizers`, `example list`, `help`, `version`: what there is to choose."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.cli.help import positional
from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.settings import Settings
from attnviz.version import __version__

WIDEST = 80  # columns; longer lines are hard to read


def variants() -> None:
    """List the kinds of attention, and what each does."""
    _table((each.name, each.about) for each in VARIANTS.values())
    _say("Mistakes, to compare with the correct way:")
    typer.echo()
    _table((each.name, each.about) for each in MISTAKES.values())
    _table_of_commands(
        ('attnviz run "I am learning this" --variant causal', "one of them"),
        ('attnviz compare "I am learning this" --by variant', "several side by side"),
        ('attnviz compare "I am learning this" --by mask', "the mistakes"),
    )


def tokenizers() -> None:
    """List the ways to cut a text into tokens."""
    default = Settings.tokenizer
    _table(
        (name, each.about + (" (the default)" if name == default else ""))
        for name, each in TOKENIZERS.items()
    )
    _say("Any encoding that tiktoken knows works as well, such as o200k_base.")
    _table_of_commands(
        ('attnviz run "I am learning this" --tokenizer words', "one of them"),
        ('attnviz compare "I am learning this" --by tokenizer', "several side by side"),
    )


def examples() -> None:
    """List the worked examples, and what each shows."""
    from attnviz.cli.messages import paged
    from attnviz.examples.names import titles

    listed = titles()
    first, width = next(iter(listed)), max(map(len, listed))
    with paged():
        _table(listed.items())
        typer.echo(f"\n{'show one with':<{width}}  attnviz example show {first}")


def tasks() -> None:
    """List what can be learned, what each task teaches, and how long it takes."""
    from attnviz.learning.names import TASKS

    _table(
        (name, f"{each.about}, in about {each.seconds:g} s: {each.teaches}")
        for name, each in TASKS.items()
    )
    first = next(iter(TASKS))
    _table_of_commands(
        (f"attnviz learn {first}", "watch how it is learned"),
        (f"attnviz learn {first} --heads 2", "with another setting"),
        ("attnviz learn --file lines.txt", "train on lines of your own"),
        ("attnviz learn mine.toml", "a task of your own: a grammar, or mine.py"),
    )


def version() -> None:
    """Print the version."""
    typer.echo(f"attnviz {__version__}")


def _commands(typed: Mapping[str, Any]) -> list[str]:
    from attnviz.cli.app import COMMANDS, EXAMPLE_COMMANDS  # which names this file

    words = [*(typed.get("words") or ())]
    return [*COMMANDS] if not words else [*EXAMPLE_COMMANDS] if words == ["example"] else []


def help_(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        positional(
            "Command",
            metavar="[COMMAND]",
            help="A command, such as run, or example show.  [default: all of them]",
            among_by=_commands,
        ),
    ] = None,
) -> None:
    """Show the help of a command, as its --help does."""
    here: Any = context.find_root()
    for word in words or ():
        if not hasattr(here.command, "get_command"):
            raise AttnvizError(
                f"{here.command_path} has no commands of its own", f"leave '{word}' out"
            )
        command = here.command.get_command(here, word)
        here = type(here)(command, info_name=word, parent=here, **command.context_settings)
    typer.echo(here.get_help())


def _say(sentence: str) -> None:
    typer.echo()
    for line in textwrap.wrap(sentence, _width()):
        typer.echo(line)


def _width() -> int:
    return min(get_terminal_size().columns, WIDEST)


def _table(rows: Iterable[tuple[str, str]]) -> None:
    """Names, and beside each what it is, in as many lines as that takes."""
    listed = list(rows)
    start = max(len(name) for name, _ in listed) + 2
    for name, about in listed:
        lines = textwrap.wrap(about, max(_width() - start, 20))
        typer.echo(f"{name:<{start}}{lines[0]}")
        for line in lines[1:]:
            typer.echo(" " * start + line)


def _table_of_commands(*rows: tuple[str, str]) -> None:
    """What to type next; beside each why, while both fit."""
    width = max(len(command) for command, _ in rows)
    beside = width + 2 + max(len(about) for _, about in rows) <= get_terminal_size().columns
    typer.echo()
    for command, about in rows:
        typer.echo(f"{command:<{width}}  {about}" if beside else command)
