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
from attnviz.cli.modes import Mode, names_of
from attnviz.cli.options import accept_options, command_line, validated_settings
from attnviz.errors import AttnvizError, opt
from attnviz.machine import environment, files
from attnviz.options.heads import SegmentOptions
from attnviz.options.option import option_class
from attnviz.options.output import DeliveryOptions, LiveOptions, OutputOptions, ShowOptions
from attnviz.options.traces import (
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    PartOptions,
    SavedOptions,
    TracingOptions,
    TrainedOptions,
)
from attnviz.renderers import FORMATS, refuse_live_without_page, suffixes
from attnviz.traces import early_checks
from attnviz.traces.parts import SHOW_RECEIVED, parts_to_show, refuse_scores_of_streams
from attnviz.traces.trained.model_location import is_trained
from attnviz.views.drawing_ways import (
    RECEIVED_RULES,
    SEGMENT_RULES,
    refuse_impossible_way,
    refuse_long_drawing,
)
from attnviz.wording.rules import check_rules

DATA_KINDS = ("document", "arrays", "rows")  # of files that have all numbers

if TYPE_CHECKING:
    from attnviz.analysis.checks import Check
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace
    from attnviz.traces.trained.forward_pass import PreparedInput


SETTING_GROUPS = (TracingOptions, MatrixOptions, BlockOptions, LongTextOptions)


@option_class(frozen=True, kw_only=True)
class RunOptions(
    TracingOptions,
    SavedOptions,
    SegmentOptions,
    MatrixOptions,
    BlockOptions,
    LongTextOptions,
    PartOptions,
    ShowOptions,
    DeliveryOptions,
    LiveOptions,
):
    """The options of `attnviz run`."""


# What the most common run does without; several may be chosen.
MODES = (
    Mode(
        about="trained transformers, which tokenize and attend in their own way",
        example="--model minilm",
        is_chosen=lambda it: is_trained(it.model) or it.typed & {*names_of(TrainedOptions)},
        groups=(TrainedOptions, SegmentOptions),
    ),
    Mode(
        about="transformer blocks around the attention, or a second text",
        example="--layers 2",
        is_chosen=lambda it: it.typed & {*names_of(BlockOptions)},
        groups=(BlockOptions,),
    ),
    Mode(
        about="matrices of your own",
        example="--given numbers.toml",
        is_chosen=lambda it: it.typed & {*names_of(MatrixOptions)},
        groups=(MatrixOptions,),
    ),
    Mode(
        about="long texts, whose weights are computed where they are shown",
        example="--stream",
        is_chosen=lambda it: it.typed & {*names_of(LongTextOptions)},
        groups=(LongTextOptions,),
    ),
)


@accept_options(modes=MODES)
def run_command(options: RunOptions) -> None:
    """Show which token of a sentence reads (attends to) which.

    Without --out, the result is printed: as numbers if they fit, otherwise as blocks of colour.
    With --out, it is written to files, whose suffixes choose the kind.

    \b
    attnviz run "I am learning this" --variant causal
    attnviz run --file story.txt --query it -o it.png --size 16:9
    """
    output.refuse_undeliverable(options, suffixes())
    settings = validated_settings(options, *SETTING_GROUPS, model=options.model)
    refuse_unshowable(options, settings)
    documents = text_source.read_documents(options)
    trace = trace_from_options("run", options, settings, documents=documents)
    if not environment.is_first_process():
        return
    with with_timer("working out weights", quiet=options.quiet):
        view = trace.view(
            show=options.part_names(),
            query=options.query,
            as_=options.as_,
            predict=options.predict,
            log=options.log,
            part=options.part,
            live=options.live,
            segments=text_source.chosen_segments(options, documents, trace.text or ""),
        )
    checks = run_checks(trace) if options.verify else []
    output.deliver_view(view, options)
    note_likely_mistakes(options, settings, trace, quiet=options.quiet)
    print_checks(checks, options)


def refuse_unshowable(options: RunOptions, settings: Settings) -> None:
    """Refuse what cannot be shown or drawn of any trace, before one is computed."""
    if options.show is not None:
        parts_to_show(options.part_names() or ())  # which refuses unknown names
    if options.segments is None and not options.document:
        refuse_undrawable(options)
    check_rules(options, SEGMENT_RULES)
    if options.live:
        refuse_live_without_page(options.out)
        check_rules(settings, early_checks.LIVE_RULES)
    if settings.stream:
        refuse_scores_of_streams(options.part_names())


def refuse_undrawable(options: RunOptions) -> None:
    """Refuse a value of --as in which none of the parts shown, or of the files, can be drawn.

    Without --as only what is given beside `--show received` is refused.
    """
    parts = options.part_names()
    if SHOW_RECEIVED in (parts or ()):
        check_rules(options, RECEIVED_RULES)
    if options.as_ is None:
        return
    refuse_impossible_way(options)
    suffixes_asked = {path.suffix.lower() for path in options.out}
    if options.as_ == "terminal" and ".svg" not in suffixes_asked:
        raise AttnvizError(
            f"{opt.as_} terminal can only be written as .svg", f"try {opt.out:terminal.svg}"
        )
    refuse_lines_without_picture(options.as_, options)


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
    options: TracingOptions,
    settings: Settings,
    *,
    layers: tuple[int, ...] | None = None,
    model_overrides: Mapping[str, object] = MappingProxyType({}),
    while_tracing: Callable[[], AbstractContextManager[None]] = nullcontext,
    documents: Mapping[str, str] = MappingProxyType({}),
) -> Trace:
    """Return the trace of the command's text, or read the one after --trace.

    Refuses impossible settings and unusable texts before torch is loaded. `layers`: indices of the
    layers of a trained model to keep; None keeps all of them. `model_overrides`: the model that
    made a saved trace, where it is named again. `while_tracing`: makes a context in which the text
    is traced. `documents`: what stands before the text.
    """
    saved = getattr(options, "trace", None)
    quiet = getattr(options, "quiet", False)
    if saved is None:
        early_checks.refuse_impossible_settings(settings)
        words = text_source.read_text_if_needed(options, settings, f"attnviz {name}", documents)
        query, key, part, way = (
            getattr(options, each, None) for each in ("query", "key", "part", "as_")
        )
        streams = name in ("run", "steps")
        tokens = early_checks.refuse_unusable_text(
            words, settings, query, key, part=part, streams=streams
        )
        refuse_long_drawing(way, 0 if tokens is None else len(tokens))
        if isinstance(options, RunOptions) and _writes_all_weights(options):
            early_checks.refuse_unwritable_weights(words, settings)
        command = command_line(name, options, settings)

        from attnviz.traces.from_text import trace  # loads torch: 2 s that errors need not wait for
        from attnviz.traces.trained.tracing import checking_input

        def refuse_missing(model: object, prepared: PreparedInput) -> None:
            early_checks.refuse_missing_tokens(prepared.tokens, prepared.keys, query, key, part)

        with (
            sharing_work(words, settings, quiet=quiet) as shared_settings,
            printing_new_text(quiet=quiet or settings.generate is None),
            showing_row_progress(quiet=quiet),
            checking_input(refuse_missing),
            while_tracing(),
        ):
            return trace(words, shared_settings, command=command, kept=layers)
    if documents:
        problem = f"{opt.document} stands before a text, and {opt.trace} is a finished trace"
        raise AttnvizError(problem, "leave one of them out", about="document")
    files.refuse_missing_file(Path(saved), "read a trace from")

    from attnviz.cli.saved_trace import read_saved_trace

    return read_saved_trace(name, saved, options, **model_overrides)


def note_likely_mistakes(
    options: TracingOptions, settings: Settings, trace: Trace, *, quiet: bool
) -> None:
    """Print a note if the text is the name of a file, and one if item 1 of several is shown."""
    text_source.note_text_names_file(options.text, quiet=quiet)
    is_saved = getattr(options, "trace", None) is not None
    text_source.note_first_item(trace, settings.item, quiet=quiet or is_saved)


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


def _writes_all_weights(options: RunOptions) -> bool:
    """Return whether all weights are written as data: --show weights, without --window."""
    kinds = {FORMATS[path.suffix.lower()].kind for path in options.out}
    writes_data = not kinds.isdisjoint(DATA_KINDS) or options.json
    return options.part_names() == ("weights",) and writes_data and not options.part


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
