"""`attnviz run`: a sentence to tables, pictures or data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import typer

from attnviz.cli import output, source
from attnviz.cli.messages import say, while_working
from attnviz.cli.options import (
    Typed,
    accepts,
    command_line,
    refuse_both,
    refuse_others,
    settings_of,
)
from attnviz.cli.output_options import OutputOptions, PictureOptions, ShowOptions
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    MatrixOptions,
    ModelOptions,
    SavedOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.renderers import FORMATS, suffixes
from attnviz.traces import early_checks
from attnviz.views.ways import refuse_odd_way

if TYPE_CHECKING:
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace


@accepts(
    TextOptions,
    SavedOptions,
    ModelOptions,
    TrainedOptions,
    AttentionOptions,
    MatrixOptions,
    BlockOptions,
    WithoutOptions,
    ShowOptions,
    OutputOptions,
    PictureOptions,
)
def run(
    text: TextOptions,
    saved: SavedOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    blocks: BlockOptions,
    without: WithoutOptions,
    shown: ShowOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Show which token of a sentence reads (attends to) which.

    Without --out, the result is printed: as numbers if they fit, otherwise as blocks of colour.
    With --out, it is written to files, whose suffixes choose the kind.

    \b
    attnviz run "I am learning this" --variant causal
    attnviz run --file story.txt --query it -o it.png --size 16:9
    """
    output.refuse_undeliverable(wanted, pictures, suffixes())
    chosen = typed.of(text, model, trained, attention, matrices, blocks, without)
    refuse_both(saved.trace, chosen)
    refuse_others(model.model, chosen)
    shown.refuse_unknown()
    refuse_undrawable(shown, wanted)
    settings = settings_of(text, model, trained, attention, matrices, blocks, without)
    trace = traced("run", text, saved, settings, shown, wanted, pictures)
    with while_working("working out weights", quiet=wanted.quiet):
        view = trace.view(
            show=shown.names(), query=wanted.query, as_=shown.as_, predict=shown.predict
        )
    output.deliver(view, wanted, pictures)
    source.ask_about_a_file(text.text, quiet=wanted.quiet)
    source.tell_of_items(trace, settings.item, quiet=wanted.quiet or saved.trace is not None)
    if shown.verify:
        print_checks(trace, wanted)


def refuse_undrawable(shown: ShowOptions, wanted: OutputOptions) -> None:
    """Refuse a way to draw that nothing which is asked for can be drawn in."""
    if shown.as_ is None:
        return
    refuse_odd_way(shown.as_, shown.names(), wanted.query, predict=shown.predict)
    suffixes_asked = {path.suffix.lower() for path in wanted.out}
    if shown.as_ == "terminal" and ".svg" not in suffixes_asked:
        raise AttnvizError("--as terminal can only be written as .svg", "try -o terminal.svg")
    refuse_lines_without_picture(shown.as_, wanted)


def refuse_lines_without_picture(way: str | None, wanted: OutputOptions) -> None:
    """Refuse lines between words where nothing is written that can show them."""
    kinds = {FORMATS[path.suffix.lower()].kind for path in wanted.out}
    if way == "arcs" and not kinds & {"picture", "slides"}:
        raise AttnvizError(
            "--as arcs draws lines in a picture, and no picture is written", "try -o arcs.png"
        )


def traced(
    name: str,
    text: TextOptions,
    saved: SavedOptions,
    settings: Settings,
    *groups: object,
    kept: tuple[int, ...] | None = None,
    named: Mapping[str, object] = MappingProxyType({}),
) -> Trace:
    """The trace that is asked for: of a text, or one that was written before.

    Of the layers of a trained model those are `kept` that are asked for. What is `named` says
    which model made a trace that was written.
    """
    if saved.trace is None:
        early_checks.refuse_settings(settings)
        words = source.read_or_given(text, settings, f"attnviz {name}")
        early_checks.refuse_text(words, settings, *_asked(groups))
        command = command_line(name, text, settings, *groups)

        from attnviz.traces.from_text import trace  # torch: for two seconds; errors do not wait

        return trace(words, settings, command=command, kept=kept)
    files.refuse_missing(Path(saved.trace), "read a trace from")

    from attnviz.cli.saved import read_again

    return read_again(name, saved.trace, *groups, **named)


def _asked(groups: tuple[object, ...]) -> Iterator[str | None]:
    """The tokens that are asked for: a query, and a key."""
    for name in ("query", "key"):
        yield next((getattr(each, name) for each in groups if hasattr(each, name)), None)


def print_checks(trace: Trace, wanted: OutputOptions) -> None:
    """The self-checks; one that fails unmeant is a bug of ours, and the exit status says so."""
    from attnviz.analysis.checks import verify

    checks = verify(trace)
    for each in checks:
        say(each.text, err=wanted.json)
    if any(each.failed for each in checks):
        raise typer.Exit(1)
