"""`attnviz survey` and `attnviz pairs`; `inspect --texts` and `heads --texts`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import MISSING
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from attnviz.cli import output
from attnviz.cli.messages import print_message, text_progress_bar, with_progress_bar
from attnviz.cli.options import accept_options, changed_beside_output, settings_from_options
from attnviz.errors import AttnvizError, opt
from attnviz.machine import files
from attnviz.options.option import CommandOptions, option_class, options_under
from attnviz.options.output import DeliveryOptions, OutputOptions
from attnviz.options.traces import CodeOptions, ModelOptions, NumberOptions, SourceOptions
from attnviz.renderers import suffixes
from attnviz.traces import early_checks
from attnviz.traces.early_checks import from_first_text
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.settings import Settings
from attnviz.wings.corpora.pair_file import read_pairs
from attnviz.wings.corpora.texts import refuse_other_answers, split_answers
from attnviz.wording.commands import Command, path_without_folders
from attnviz.wording.words import counted

INTERRUPTED_STATUS = 130  # as of any command that Ctrl-C ends


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


@option_class(frozen=True, kw_only=True)
class PairsOptions(ModelOptions, CodeOptions, NumberOptions, DeliveryOptions, CommandOptions):
    """The options of `attnviz pairs`."""

    file: Path = options_under("Text")(
        MISSING,
        metavar="FILE",
        help="A file with a pair on each line, in five columns with tabs between them: sentence A, "
        "sentence B, a token, candidate 1 (which it means in A), candidate 2 (in B).",
        short="A file of pairs: sentence A, sentence B, token, candidates 1 and 2, with tabs.",
        is_argument=True,
        is_path=True,
        is_read=True,
        shows_default=False,
    )


@accept_options(without=("query",))
def pairs_command(options: PairsOptions) -> None:
    """Show which heads follow the meaning when one word changes.

    A head's shift: how much more of its attention the token gives a candidate in the sentence where
    it is meant than in the other sentence; the mean of both candidates, then of all pairs. It is
    tested against 0 by flipping the signs of pairs, corrected for the number of heads, and has a
    95 % interval. What a head gives a candidate whatever the sentence means cancels.

    \b
    attnviz pairs sample_texts/pairs.tsv
    attnviz pairs pairs.tsv --model my-folder -o heads.csv
    """
    output.refuse_undeliverable(options, suffixes("arrays"))
    read_pairs(options.file)  # a mistake in it is found before torch is loaded
    settings = settings_from_options(options, model=options.model or MINILM)

    from attnviz.wings.corpora.pairs import pairs

    command = Command(
        name="pairs",
        argument=path_without_folders(str(options.file)),
        options=changed_beside_output(options, "file") | {"model": settings.model},
    )
    output.deliver_result(pairs(options.file, settings), command, options)


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
