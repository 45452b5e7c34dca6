"""`attnviz survey`: what each head of a trained model does over a corpus."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from attnviz.cli import output
from attnviz.cli.messages import text_progress_bar
from attnviz.cli.options import accept_options, changed_beside_output, settings_from_options
from attnviz.errors import AttnvizError, opt
from attnviz.machine import files
from attnviz.options.option import CommandOptions, option_class
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import CodeOptions, ModelOptions, NumberOptions, SourceOptions
from attnviz.renderers import suffixes
from attnviz.traces.early_checks import from_first_text
from attnviz.traces.models.model_names import MINILM
from attnviz.wings.corpora.effects_command import count_lines, reporting_interrupt
from attnviz.wording.commands import Command
from attnviz.wording.words import counted


@option_class(frozen=True, kw_only=True)
class SurveyOptions(
    SourceOptions, ModelOptions, CodeOptions, NumberOptions, DeliveryOptions, CommandOptions
):
    """The options of `attnviz survey`."""


@accept_options(without=("text", "query"))
def survey_command(options: SurveyOptions) -> None:
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
    output.refuse_undeliverable(options, suffixes("arrays"))
    with closing(_text_lines(options.file)) as lines:
        texts = from_first_text(lines)
        settings = settings_from_options(options, model=options.model or MINILM)
        command = Command(name="survey", options=changed_beside_output(options))
        with _showing_progress(count_lines(options.file), quiet=options.quiet) as track:
            from attnviz.wings.corpora.survey import survey  # torch, which takes seconds

            result = survey(texts, settings, track=track)
    with reporting_interrupt(counted(result.lines, "line"), options, is_one=result.interrupted):
        output.deliver_result(result, command, options)


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
