"""`attnviz survey`: what each head of a trained model does over a corpus."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import typer

from attnviz.cli import output
from attnviz.cli.messages import print_message, with_progress_bar
from attnviz.cli.options import accept_options, settings_from_options
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import AttentionOptions, ModelOptions, TextOptions, TrainedOptions
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.renderers import suffixes
from attnviz.traces.models.model_names import MINILM
from attnviz.wording.commands import Command, changed_options

KEPT_OPTIONS = ("file", "trust_remote_code", "device", "dtype", "seed")
SENTENCE_OPTIONS = [
    option.name
    for group in (TextOptions, TrainedOptions, AttentionOptions)
    for option in fields(group)
    if option.name not in KEPT_OPTIONS
]
INTERRUPTED_STATUS = 130  # as of any command that Ctrl-C ends


@accept_options(without=(*SENTENCE_OPTIONS, "query"))
def survey_command(
    text: TextOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Show what each head of a trained model does over many texts.

    Each line of the file after --file, or of standard input, is a text.

    For each head: how much it attends to the previous token, the first, separators, …, each with an
    interval, and the lines on which it does most. Ctrl-C shows what was read so far. A page (-o
    heads.html) places the heads by any two of these measures.

    \b
    attnviz survey --file texts.txt
    attnviz survey --file texts.txt --model minilm -o heads.html
    """
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    lines = _text_lines(text.file)
    settings = settings_from_options(
        text, replace(model, model=model.model or MINILM), trained, attention
    )

    from attnviz.analysis.survey import survey  # torch, for which errors need not wait

    command = Command(name="survey", options=changed_options(text, model, trained, attention))
    line = command.with_options(**changed_options(outputs, pictures)).line
    track = partial(
        with_progress_bar, label="reading", quiet=outputs.quiet, total=_count_lines(text.file)
    )
    found = survey(lines, settings, track=track)
    if found.interrupted and not outputs.quiet:
        print_message(f"note: stopped after {found.lines:,} lines")
    output.deliver_view(found.view_for_command(command=command, line=line), outputs, pictures)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED_STATUS)


def _text_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of the file after --file, or of standard input; refuse a missing file, and
    a terminal, on which nobody types a corpus."""
    if path is not None and str(path) != "-":
        return files.read_lines(path)
    if path is None and sys.stdin.isatty():
        raise AttnvizError(
            "there are no texts", "give a file with one text per line: --file texts.txt"
        )
    return files.iterate_lines(sys.stdin.buffer, "standard input")


def _count_lines(path: Path | None) -> int | None:
    """Return the number of lines of a regular file, for a progress bar; None for a stream."""
    if path is None or not sys.stderr.isatty() or not files.is_file(path):
        return None
    with path.open("rb") as file:
        blocks: Iterable[bytes] = iter(partial(file.read, 2**20), b"")
        return sum(block.count(b"\n") for block in blocks)
