"""`attnviz explore`: the heads of a sentence, with the arrow keys."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from threading import Thread

import typer

from attnviz.cli import background
from attnviz.cli.messages import with_timer
from attnviz.cli.options import accept_options, files_read, validated_settings
from attnviz.cli.output import look_from_options, screen_from_options
from attnviz.cli.run import trace_from_options
from attnviz.errors import AttnvizError, cmd
from attnviz.options.option import option_class
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import BlockOptions, MatrixOptions, TracingOptions

LIBRARY = "textual"
CONTROLLING_TERMINAL = "/dev/tty"
OUTPUTS_ELSEWHERE = ("out", "json", "full", "quiet", "no_pager", "limit")
LOOKS_ELSEWHERE = (
    "size", "dpi", "transparent", "text_size", "points", "font", "footnote", "title", "numbers",
)  # fmt: skip


@option_class(frozen=True, kw_only=True)
class ExploreOptions(TracingOptions, MatrixOptions, BlockOptions, DeliveryOptions):
    """The options of `attnviz explore`."""


@accept_options(without=(*OUTPUTS_ELSEWHERE, *LOOKS_ELSEWHERE))
def explore_command(options: ExploreOptions) -> None:
    """Explore the heads of a sentence with the arrow keys.

    Move over cells, change the head, switch heads off, edit the sentence, and see what the model
    answers. The last line has the keys; ? lists all.

    \b
    attnviz explore "The old dogs near the table" --model agreement
    attnviz explore "The capital of France is" --model smollm2
    """
    refuse_without_terminal()
    look_from_options(options)  # refuses an unknown theme or palette at once
    groups = (TracingOptions, MatrixOptions, BlockOptions)
    settings = validated_settings(options, *groups, model=options.model)
    loading = Thread(target=import_module, args=(LIBRARY + ".app",), daemon=True)
    loading.start()  # while torch is loaded, which takes longer
    with background.silent_terminal(), with_timer("computing attention", quiet=False):
        trace = trace_from_options("explore", options, settings)
        loading.join()
    take_keys_from_terminal()

    from rich.console import Console

    from attnviz.wings.explore.application import run_session
    from attnviz.wings.explore.session import Session
    from attnviz.wings.explore.subject import open_subject

    with background.silent_terminal(), with_timer("reading all heads", quiet=False):
        subject, place = open_subject(trace, options.query)
    screen = screen_from_options(Console(), options)
    background.discard_late_answers()
    session = Session(subject, place, screen, options, options.file, files_read(options))
    if status := run_session(session):
        raise typer.Exit(status)


def refuse_without_terminal() -> None:
    """Refuse to explore without textual, or where no terminal shows the screen and sends keys."""
    if find_spec(LIBRARY) is None:
        raise AttnvizError(
            f"{cmd.explore} needs {LIBRARY}, which is not installed",
            'pip install "attnviz[explore]"',
        )
    is_screen = sys.stdout.isatty() and sys.stderr.isatty()
    is_screen = is_screen and (sys.stdin.isatty() or has_controlling_terminal())
    if not is_screen or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        raise AttnvizError(
            f"{cmd.explore} needs a terminal that shows its screen and sends keys",
            f"without one: {cmd.run:TEXT}, or of a trained model {cmd.inspect:TEXT}",
        )


def has_controlling_terminal() -> bool:
    """Return whether keys can be read from the terminal while standard input is a pipe."""
    try:
        os.close(os.open(CONTROLLING_TERMINAL, os.O_RDWR))
    except OSError:
        return False
    return True


def take_keys_from_terminal() -> None:
    """Have standard input be the terminal, once the text was read from a pipe or a file."""
    if not sys.stdin.isatty():
        terminal = os.open(CONTROLLING_TERMINAL, os.O_RDWR)
        os.dup2(terminal, 0)
        os.close(terminal)
