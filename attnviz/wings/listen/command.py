"""`attnviz listen`: runs a program, and shows the attention inside it."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnviz.cli import output
from attnviz.cli.messages import print_message
from attnviz.cli.options import accept_options
from attnviz.errors import AttnvizError, warn_with_note
from attnviz.machine import environment, files
from attnviz.options.option import CommandOptions, option_class, option_group, options_under
from attnviz.options.output import DeliveryOptions
from attnviz.renderers import suffixes
from attnviz.wings.listen.program import Program, run_to_end
from attnviz.wording.commands import Command, changed_options

if TYPE_CHECKING:
    from attnviz.wings.listen.heard import Heard

program_option, listening_option = options_under("Program"), options_under("What is heard")
PROGRAM_HELP = "A Python program; all that follows is the program's."
MODULE_HELP = "PROGRAM is the name of a module, as after python -m."
LABELS_HELP = "A file with a label for each token, one on a line."


# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class ListeningOptions:
    """The program, and how much of it is kept."""

    program: list[str] = program_option([], metavar="PROGRAM", is_argument=True,
        shows_default=False, is_recorded=False, short=PROGRAM_HELP, help=PROGRAM_HELP)
    is_module: bool = program_option(False, "-m", short=MODULE_HELP, help=MODULE_HELP)
    calls: int | None = listening_option(None, metavar="N", example="3",
        short="Keep so many calls of each module: --calls 3",
        help="How many calls of each module are kept.  [default: 1; all that --every chooses]")
    every: int = listening_option(1, metavar="N", example="100",
        short="Keep every 100th call of the model: --every 100",
        help="Of so many calls of the model, keep the first.")
    module: str = listening_option("*", metavar="PATTERN", example="'layers.*'",
        short="Keep modules whose name fits: --module 'layers.*'",
        help="Keep modules whose name fits, with * for anything.")
    keep: str = listening_option("2GB", metavar="SIZE", example="500MB",
        help="How much memory is taken at most.")
    labels: Path | None = listening_option(None, metavar="FILE", example="words.txt",
        is_path=True, is_read=True, short=LABELS_HELP, help=LABELS_HELP)
    item: int = listening_option(1, metavar="N", example="2",
        help="Which item of a batch, such as a text, is shown, from 1.")

# fmt: on


@option_class(frozen=True, kw_only=True)
class ListenOptions(ListeningOptions, DeliveryOptions, CommandOptions):
    """The options of `attnviz listen`."""


@accept_options(without=("query", "limit", "numbers", "json", "full"))
def listen_command(options: ListenOptions) -> None:
    """Run a PyTorch program, and show every attention inside it.

    The program runs unchanged, with its own arguments, output and exit status. Afterwards a page
    (-o view.html) shows the attention of torch's own modules, of a softmax of queries and keys by
    hand, and of transformers. Without -o, a list says what was heard.

    \b
    attnviz listen train.py --epochs 1
    attnviz listen -o view.html --labels words.txt train.py
    attnviz listen --every 100 -m package.module
    """
    if not options.program:
        raise AttnvizError("there is no program to listen to", "try: attnviz listen train.py")
    output.refuse_undeliverable(options, suffixes())
    program = Program(options.program[0], tuple(options.program[1:]), options.is_module)
    program.refuse_missing()
    labels = None if options.labels is None else [*files.read_lines(options.labels)]
    from attnviz.wings.listen.heard import listen  # torch, which takes seconds

    heard = listen(
        tokens=labels,
        calls=1 if options.calls is None and options.every == 1 else options.calls,
        every=options.every,
        module=options.module,
        keep=options.keep,
        item=options.item,
    )

    def deliver() -> None:
        heard.__exit__()
        deliver_heard(heard, options)

    # The hooks are those that tell the names of modules; a compiled module may have them twice.
    warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are")
    heard.__enter__()
    status = run_to_end(program, partial(with_errors_as_notes, deliver))
    if status:  # the program's own error is the status
        with_errors_as_notes(deliver)
        raise typer.Exit(status)
    deliver()


def with_errors_as_notes(function: Callable[[], None]) -> None:
    """Call a function; an error is a note, as the exit status is the program's own."""
    try:
        function()
    except AttnvizError as error:
        print_message(str(error), prefix="note: ")
        print_message(error.hint, prefix=" hint: ")


def deliver_heard(heard: Heard, options: ListenOptions) -> None:
    """List what was heard, or write the files of --out: one for each text that was heard, and for
    each process that torchrun started.
    """
    from attnviz.wings.listen.heard import numbered_path

    if not heard.calls:
        with_errors_as_notes(heard.refuse_silence)
        return
    items = max(call.items for call in heard.calls.values())
    if options.item > items:
        warn_with_note(f"there is no item {options.item} in a batch of {items}; item 1 is shown")
        heard, options = heard.with_item(1), replace(options, item=1)
    if not options.out:
        for line in [*([options.title] if options.title else []), *heard.lines()]:
            print_message(line)
        print_message(f"all heads as a page: {page_command(options)}")
        return
    rank = os.environ.get("RANK", "0") if environment.is_shared() else ""
    for number, text in enumerate(heard.texts, 1):
        paths = [numbered_path(path, number, rank) for path in options.out]
        output.deliver_view(text.view(), replace(options, out=paths))


def page_command(options: ListenOptions) -> str:
    """Return the command that writes a page of the same program, with the same options."""
    choices = changed_options(options, ListeningOptions)
    listed = {name: choices[name] for name in choices if name not in ("program", "is_module")}
    command = Command(name="listen", options={"out": ["view.html"], **listed})
    return f"{command.line} {shlex.join([*['-m'] * options.is_module, *options.program])}"


listen_command.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]
