"""`inspect --texts` and `heads --texts`: head ablation over the lines of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from attnviz.cli import output
from attnviz.cli.messages import print_message, with_progress_bar
from attnviz.errors import AttnvizError, opt
from attnviz.machine import files
from attnviz.options.output import DeliveryOptions, OutputOptions
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings
from attnviz.wings.corpora.texts import refuse_other_answers, split_answers
from attnviz.wording.commands import Command
from attnviz.wording.words import counted

INTERRUPTED_STATUS = 130  # as of any command that Ctrl-C ends


def deliver_corpus_effects(
    command: Command,
    path: Path,
    settings: Settings,
    chosen: dict[str, Any],
    options: DeliveryOptions,
) -> None:
    """Measure what heads change on each text of a file, and deliver the view of the means.

    Refuses impossible settings, an unreadable or empty file, and --toward beside answers in the
    file before torch is loaded.
    """
    early_checks.refuse_impossible_settings(settings)
    with closing(files.read_lines(path)) as lines:
        start = []
        for line in lines:
            start.append(line)
            if line.strip():
                break
        else:
            raise AttnvizError(f"there is no text in '{path}'", "write one text on each line")
        refuse_other_answers(
            split_answers(line)[1], [f"{opt.toward}"] if "toward" in chosen else []
        )

        from attnviz.wings.corpora.effects import head_effects

        track = partial(
            with_progress_bar,
            label="switching heads off",
            quiet=options.quiet,
            total=count_lines(path),
        )
        effects = head_effects(chain(start, lines), settings, track=track, **chosen)
    with reporting_interrupt(counted(effects.texts, "text"), options, is_one=effects.interrupted):
        output.deliver_result(effects, command, options)


@contextmanager
def reporting_interrupt(measured: str, outputs: OutputOptions, *, is_one: bool) -> Iterator[None]:
    """If Ctrl-C ended the reading of texts, say after how many before the `with` block delivers
    what was read, and end with the status of any command that Ctrl-C ends."""
    if is_one and not outputs.quiet:
        print_message(f"note: stopped after {measured}")
    yield
    if is_one:
        raise typer.Exit(INTERRUPTED_STATUS)


def count_lines(path: Path | None) -> int | None:
    """Return the number of lines of a regular file, for a progress bar; None for a stream."""
    if path is None or not sys.stderr.isatty() or not files.is_file(path):
        return None
    with path.open("rb") as file:
        blocks: Iterable[bytes] = iter(partial(file.read, 2**20), b"")
        return sum(block.count(b"\n") for block in blocks)
