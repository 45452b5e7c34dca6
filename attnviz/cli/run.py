"""`attnviz run`: a sentence to tables, pictures or data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import typer

from attnviz.cli import output, text_source
from attnviz.cli.messages import (
    print_result_line,
    printing_new_text,
    showing_row_progress,
    with_timer,
)
from attnviz.cli.options import TypedOptions, accept_options, command_line, validated_settings
from attnviz.cli.output_options import LiveOptions, OutputOptions, PictureOptions, ShowOptions
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    ModelOptions,
    PartOptions,
    SavedOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.errors import AttnvizError
from attnviz.machine import environment, files
from attnviz.renderers import FORMATS, refuse_live_without_page, suffixes
from attnviz.traces import early_checks
from attnviz.traces.parts import SHOW_RECEIVED, refuse_scores_of_streams
from attnviz.views.drawing_ways import (
    refuse_beside_received,
    refuse_impossible_way,
    refuse_long_drawing,
)
from attnviz.wording.rules import check_rules
from attnviz.wording.surfaces import opt

DATA_KINDS = ("document", "arrays", "rows")  # of files that have all numbers

if TYPE_CHECKING:
    from attnviz.analysis.checks import Check
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace
    from attnviz.traces.trained.forward_pass import PreparedInput


@accept_options()
def run_command(
    text: TextOptions,
    saved: SavedOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    blocks: BlockOptions,
    without: WithoutOptions,
    long_text: LongTextOptions,
    part: PartOptions,
    show_options: ShowOptions,
    outputs: OutputOptions,
    live: LiveOptions,
    pictures: PictureOptions,
    *,
    typed: TypedOptions,
) -> None:
    """Show which token of a sentence reads (attends to) which.

    Without --out, the result is printed: as numbers if they fit, otherwise as blocks of colour.
    With --out, it is written to files, whose suffixes choose the kind.

    \b
    attnviz run "I am learning this" --variant causal
    attnviz run --file story.txt --query it -o it.png --size 16:9
    """
    output.refuse_undeliverable(outputs, pictures, suffixes())
    groups = (model, trained, attention, matrices, blocks, without, long_text)
    settings = validated_settings(saved.trace, typed, text, *groups)
    show_options.refuse_unknown()
    refuse_undrawable(show_options, outputs)
    if live.live:
        refuse_live_without_page(outputs.out)
        check_rules(settings, early_checks.LIVE_RULES)
    if settings.stream:
        refuse_scores_of_streams(show_options.part_names())
    trace = trace_from_options(
        "run", text, saved, settings, long_text, part, show_options, outputs, live, pictures
    )
    if not environment.is_first_process():
        return
    with with_timer("working out weights", quiet=outputs.quiet):
        view = trace.view(
            show=show_options.part_names(),
            query=outputs.query,
            as_=show_options.as_,
            predict=show_options.predict,
            log=long_text.log,
            part=part.part,
            live=live.live,
        )
    checks = run_checks(trace) if show_options.verify else []
    output.deliver_view(view, outputs, pictures)
    note_likely_mistakes(text, saved, settings, trace, quiet=outputs.quiet)
    print_checks(checks, outputs)


def refuse_undrawable(show_options: ShowOptions, outputs: OutputOptions) -> None:
    """Refuse a value of --as in which none of the parts shown, or of the files, can be drawn.

    Without --as only what is given beside `--show received` is refused.
    """
    if SHOW_RECEIVED in (show_options.part_names() or ()):
        refuse_beside_received(show_options.as_, outputs.query, predict=show_options.predict)
    if show_options.as_ is None:
        return
    refuse_impossible_way(
        show_options.as_, show_options.part_names(), outputs.query, predict=show_options.predict
    )
    suffixes_asked = {path.suffix.lower() for path in outputs.out}
    if show_options.as_ == "terminal" and ".svg" not in suffixes_asked:
        raise AttnvizError(
            f"{opt.as_} terminal can only be written as .svg", f"try {opt.out:terminal.svg}"
        )
    refuse_lines_without_picture(show_options.as_, outputs)


def refuse_lines_without_picture(way: str | None, outputs: OutputOptions) -> None:
    """Refuse --as arcs unless a picture or a slide deck is written; `way`: the value of --as."""
    kinds = {FORMATS[path.suffix.lower()].kind for path in outputs.out}
    if way == "arcs" and not kinds & {"picture", "slides"}:
        raise AttnvizError(
            f"{opt.as_:arcs} draws lines in a picture, and no picture is written",
            f"try {opt.out:arcs.png}",
        )


def trace_from_options(
    name: str,
    text: TextOptions,
    saved: SavedOptions,
    settings: Settings,
    *groups: object,
    layers: tuple[int, ...] | None = None,
    model_overrides: Mapping[str, object] = MappingProxyType({}),
    while_tracing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Trace:
    """Return the trace of the command's text, or read the one after --trace.

    Refuses impossible settings and unusable texts before torch is loaded. `layers`: indices of the
    layers of a trained model to keep; None keeps all of them. `model_overrides`: the model that
    made a saved trace, where it is named again. `groups`: other options, for the command line.
    `while_tracing`: makes a context in which the text is traced.
    """
    if saved.trace is None:
        early_checks.refuse_impossible_settings(settings)
        words = text_source.read_text_if_needed(text, settings, f"attnviz {name}")
        query, key, part, way = (
            next((getattr(group, option) for group in groups if hasattr(group, option)), None)
            for option in ("query", "key", "part", "as_")
        )
        streams = name in ("run", "steps")
        tokens = early_checks.refuse_unusable_text(
            words, settings, query, key, part=part, streams=streams
        )
        refuse_long_drawing(way, 0 if tokens is None else len(tokens))
        if _writes_all_weights(groups):
            early_checks.refuse_unwritable_weights(words, settings)
        command = command_line(name, text, settings, *groups)

        from attnviz.traces.from_text import trace  # loads torch: 2 s that errors need not wait for
        from attnviz.traces.trained.tracing import checking_input

        def refuse_missing(model: object, prepared: PreparedInput) -> None:
            early_checks.refuse_missing_tokens(prepared.tokens, prepared.keys, query, key, part)

        quiet = any(getattr(group, "quiet", False) for group in groups)
        with (
            sharing_work(words, settings, quiet=quiet) as shared_settings,
            printing_new_text(quiet=quiet or settings.generate is None),
            showing_row_progress(quiet=quiet),
            checking_input(refuse_missing),
            while_tracing(),
        ):
            return trace(words, shared_settings, command=command, kept=layers)
    files.refuse_missing_file(Path(saved.trace), "read a trace from")

    from attnviz.cli.saved_trace import read_saved_trace

    return read_saved_trace(name, saved.trace, *groups, **model_overrides)


def note_likely_mistakes(
    text: TextOptions, saved: SavedOptions, settings: Settings, trace: Trace, *, quiet: bool
) -> None:
    """Print a note if the text is the name of a file, and one if item 1 of several is shown."""
    text_source.note_text_names_file(text.text, quiet=quiet)
    text_source.note_first_item(trace, settings.item, quiet=quiet or saved.trace is not None)


def sharing_work(
    text: str | None, settings: Settings, *, quiet: bool
) -> AbstractContextManager[Settings]:
    """Have the processes that torchrun started, if there are several, share what is computed inside
    the block; yields the settings for it.
    """
    if not environment.is_shared():
        return nullcontext(settings)
    from attnviz.cli.torchrun import share_work

    return share_work(text, settings, quiet=quiet)


def _writes_all_weights(groups: Sequence[object]) -> bool:
    """Return whether all weights are written as data: --show weights, without --window."""
    shows_weights = any(
        isinstance(group, ShowOptions) and group.part_names() == ("weights",) for group in groups
    )
    has_part = any(isinstance(group, PartOptions) and group.part for group in groups)
    outputs = [group for group in groups if isinstance(group, OutputOptions)]
    kinds = {FORMATS[path.suffix.lower()].kind for each in outputs for path in each.out}
    writes_data = not kinds.isdisjoint(DATA_KINDS) or any(each.json for each in outputs)
    return shows_weights and writes_data and not has_part


def run_checks(trace: Trace) -> list[Check]:
    """Return the self-checks of a trace; refuses a trace that lacks what they need."""
    from attnviz.analysis.checks import verify_trace

    return verify_trace(trace)


def print_checks(checks: Sequence[Check], outputs: OutputOptions) -> None:
    """Print self-checks, with --json on standard error; exit with 1 if one fails."""
    for check in checks:
        print_result_line(check.text, err=outputs.json)
    if any(check.failed for check in checks):
        raise typer.Exit(1)
