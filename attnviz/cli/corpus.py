"""The options of head ablation (--texts, --pairs …), which inspect and heads share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from attnviz.analysis.corpus_texts import refuse_other_answers, split_answers
from attnviz.analysis.inspection.inspect_options import ABLATION_DESCRIPTIONS, InspectOptions
from attnviz.cli import output
from attnviz.cli.help import section_option
from attnviz.cli.messages import print_message, with_progress_bar
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings
from attnviz.wording.commands import Command
from attnviz.wording.surfaces import opt
from attnviz.wording.words import counted

INTERRUPTED_STATUS = 130  # as of any command that Ctrl-C ends

_heads_option = partial(section_option, "Heads")


@dataclass(frozen=True, kw_only=True)
class EffectOptions:
    """The options about switching heads off: on which texts, what is compared, in which way."""

    texts: Annotated[
        Path | None,
        _heads_option(
            metavar="PATH",
            help="Switch the heads of a trained transformer off on many texts: a UTF-8 file with "
            "one on each line, perhaps followed by two answers whose logits are compared, with "
            "tabs between. Blank lines separate documents.",
            short="Switch heads off on many texts, one on each line of a file: --texts texts.txt",
            example="texts.txt",
        ),
    ] = None
    toward: Annotated[
        str | None,
        _heads_option(
            metavar="TOKEN",
            help="The answer whose logit, minus that of --instead-of, heads change; or whose "
            "gradient --weigh gradient takes.  [default: the most likely one]",
            example="tired",
        ),
    ] = None
    instead_of: Annotated[
        str | None,
        _heads_option(
            metavar="TOKEN", help="The answer that --toward is compared with.", example="wide"
        ),
    ] = None
    ablation: Annotated[
        str,
        _heads_option(
            metavar="HOW",
            help="What a head that is switched off writes: "
            f"{'; '.join(f'{name} ({about})' for name, about in ABLATION_DESCRIPTIONS.items())}.",
            among=ABLATION_DESCRIPTIONS,
        ),
    ] = InspectOptions.ablation
    pairs: Annotated[
        int | None,
        _heads_option(
            metavar="N", help="Also switch off all pairs of the N strongest heads.", example="4"
        ),
    ] = None

    def changed(self) -> dict[str, Any]:
        """Return the options that were changed, but the file of texts."""
        names = [field.name for field in fields(self) if field.name != "texts"]
        return {name: getattr(self, name) for name in names
                if getattr(self, name) != getattr(EffectOptions, name)}  # fmt: skip

    def refuse_without_texts(self, chosen_heads: Iterable[str]) -> None:
        """Refuse options that only mean something with texts of one's own, if none are given;
        `chosen_heads` are those about heads ("layer") that were typed."""
        for name in (*chosen_heads, *self.changed()) if self.texts is None else ():
            raise AttnvizError(
                f"{opt[name]} is about switching heads off on texts, and none are given",
                f"give a file with a text on each line: {opt.texts:texts.txt}",
                about=name,
            )


def deliver_corpus_effects(
    command: Command,
    path: Path,
    settings: Settings,
    options: dict[str, Any],
    outputs: OutputOptions,
    pictures: PictureOptions,
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
            split_answers(line)[1], [f"{opt.toward}"] if "toward" in options else []
        )

        from attnviz.analysis.inspection.corpus_effects import head_effects

        track = partial(
            with_progress_bar,
            label="switching heads off",
            quiet=outputs.quiet,
            total=count_lines(path),
        )
        effects = head_effects(chain(start, lines), settings, track=track, **options)
    with reporting_interrupt(counted(effects.texts, "text"), outputs, is_one=effects.interrupted):
        output.deliver_result(effects, command, outputs, pictures)


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
