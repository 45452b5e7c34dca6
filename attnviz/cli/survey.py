"""`attnviz survey`: what each head of a trained model does over a corpus."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from attnviz.cli import output
from attnviz.cli.corpus import count_lines, reporting_interrupt
from attnviz.cli.messages import with_progress_bar
from attnviz.cli.options import accept_options, settings_from_options
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import AttentionOptions, ModelOptions, TextOptions, TrainedOptions
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.renderers import suffixes
from attnviz.traces.trained.model_location import MINILM
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.words import counted

KEPT_OPTIONS = ("file", "trust_remote_code", "device", "dtype", "seed")
SENTENCE_OPTIONS = [
    option.name
    for group in (TextOptions, TrainedOptions, AttentionOptions)
    for option in fields(group)
    if option.name not in KEPT_OPTIONS
]


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
        with_progress_bar, label="reading", quiet=outputs.quiet, total=count_lines(text.file)
    )
    found = survey(lines, settings, track=track)
    with reporting_interrupt(counted(found.lines, "line"), outputs, is_one=found.interrupted):
        output.deliver_view(found.view_for_command(command=command, line=line), outputs, pictures)


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
