"""`attnviz demo`: a tour of a minute, five pictures in the terminal with their commands."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress

import typer

from attnviz.cli import background
from attnviz.machine import exit_handling

TOUR_STOPS = (  # what to see, and the command that shows it in 80 columns and 24 lines
    (
        "Attention weights: each row shows how much one token attends to the others.",
        'attnviz run "The cat sat on the mat" --show weights',
    ),
    (
        "A causal mask: each token attends only to itself and earlier tokens.",
        'attnviz run "The cat sat on the mat" --variant causal --show weights',
    ),
    (
        "A row of scores: the query of one token times the key of every token.",
        'attnviz steps "I am learning" --dim 2 --query learning --step scores',
    ),
    (
        "A trained model must choose a verb at ?; it attends to the subject.",
        'attnviz inspect "the old keys near the small cabinet" --model agreement \\\n'
        "    --layer 1 --head 0",
    ),
    (
        "Without the two heads that attend to the subject, its answer is wrong.",
        'attnviz run "the old keys near the small cabinet" --model agreement \\\n'
        '    --query "?" --show prediction --without L1H0,L1H1',
    ),
)
NEXT_PROMPT = "Enter: next · Ctrl-C: end "
CLOSING_LINE = 'Now a sentence of your own: attnviz "…" -o view.html; attnviz --help lists more.'


def demo_command() -> None:
    """Take a tour: five pictures in the terminal, each with its command.

    On a terminal Enter shows the next one, and Ctrl-C ends the tour.
    """
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    for number, (about, command) in enumerate(TOUR_STOPS, start=1):
        typer.secho(f"{number}/{len(TOUR_STOPS)} {about}", bold=True)
        typer.echo(f"$ {command}\n")
        _run_tour_command(command)
        typer.echo()
        if is_interactive and number < len(TOUR_STOPS) and not _wait_for_enter():
            return
    typer.echo(CLOSING_LINE)


def _run_tour_command(command: str) -> None:
    """Run a command line of the tour in this process, so that torch is loaded only once."""
    from attnviz.cli.app import app  # which imports this module by its name

    sys.stdout.flush()
    words = shlex.split(command.replace("\\\n", ""))[1:]
    app(args=[*words, "--no-pager"], prog_name="attnviz", standalone_mode=False)
    sys.stdout.flush()


def _wait_for_enter() -> bool:
    """Print a prompt and wait for a line; return whether Enter came, not Ctrl-C or Ctrl-D."""
    background.discard_late_answers()  # which would be read as a line
    line = ""
    with suppress(KeyboardInterrupt), exit_handling.raise_on_interrupt():
        typer.echo(NEXT_PROMPT, nl=False)
        line = sys.stdin.readline()
    if not line:
        typer.echo()
    return bool(line)
