"""`attnviz survey`: what each head of a trained model does over a corpus."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from attnviz.cli import output
from attnviz.cli.corpus import count_lines, reporting_interrupt
from attnviz.cli.messages import text_progress_bar
from attnviz.cli.options import accept_options, settings_from_options
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import (
    ONE_TEXT_OPTIONS,
    AttentionOptions,
    ModelOptions,
    TextOptions,
    TrainedOptions,
)
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.renderers import suffixes
from attnviz.traces.early_checks import from_first_text
from attnviz.traces.models.model_names import MINILM
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.surfaces import opt
from attnviz.wording.words import counted


@accept_options(without=(*ONE_TEXT_OPTIONS, "query"))
def survey_command(
    text: TextOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Show what each head of a trained model does over many texts.

    Each line of the file after --file, or of standard input, is a text. Blank lines separate
    documents, each of which then counts as one observation.

    For each head: how much it attends to the previous token, the first, separators, …, each with an
    interval, and the lines on which it does most. Ctrl-C shows what was read so far. A page (-o
    heads.html) places the heads by any two of these measures.

    \b
    attnviz survey --file texts.txt
    attnviz survey --file texts.txt --model minilm -o heads.html
    """
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    with closing(_text_lines(text.file)) as lines:
        texts = from_first_text(lines)
        settings = settings_from_options(
            text, replace(model, model=model.model or MINILM), trained, attention
        )

        command = Command(name="survey", options=changed_options(text, model, trained, attention))
        with _showing_progress(count_lines(text.file), quiet=outputs.quiet) as track:
            from attnviz.analysis.survey import survey  # torch, which takes seconds

            result = survey(texts, settings, track=track)
    with reporting_interrupt(counted(result.lines, "line"), outputs, is_one=result.interrupted):
        output.deliver_result(result, command, outputs, pictures)


def _text_lines(path: Path | None) -> Generator[str, None, None]:
    """Return the lines of the file after --file, or of standard input; refuse a missing file, and
    a terminal, on which nobody types a corpus."""
    if path is not None and str(path) != "-":
        return files.read_lines(path)
    if path is None and sys.stdin.isatty():
        raise AttnvizError(
            "there are no texts", f"give a file with one text per line: {opt.file:texts.txt}"
        )
    return files.iterate_lines(sys.stdin.buffer, "standard input")


@contextmanager
def _showing_progress(
    total: int | None, *, quiet: bool
) -> Iterator[Callable[[Iterable[int]], Iterator[int]]]:
    """Show on a terminal that the model is loaded, then how many lines are done; yields a function
    that counts them as they are iterated over. `total`: how many there are, if that is known."""
    if quiet or not sys.stderr.isatty():
        yield iter
        return
    with text_progress_bar() as bar:
        task = bar.add_task("loading the model", total=total)

        def count(lines: Iterable[int]) -> Iterator[int]:
            """Yield the numbers of lines, and show how many there were so far, and in a second."""
            start = time.monotonic()
            for done, number in enumerate(lines, 1):
                speed = done / max(time.monotonic() - start, 1e-3)
                of_total = "" if total is None else f" of {total:,}"
                about = f"{done:,}{of_total} lines · {speed:,.0f}/s · Ctrl-C shows what is there"
                bar.update(task, completed=done, description=about)
                yield number

        yield count
