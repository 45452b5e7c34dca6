"""`attnviz compare` head by head: sentences, models, saved traces or checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.analysis.aspects import (
    ASPECTS,
    MODEL_RUN_ASPECTS,
    TEXT_ASPECT,
    choose_aspect,
    refuse_unknown_aspect,
)
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cli import output, text_source
from attnviz.cli.compare_options import CompareOptions
from attnviz.cli.messages import with_progress_bar
from attnviz.cli.options import (
    command_line,
    refuse_beside_trace,
    refuse_model_conflicts,
    settings_from_options,
)
from attnviz.errors import AttnvizError, naming_in_errors
from attnviz.machine import files
from attnviz.options.traces import TextOptions
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings
from attnviz.traces.trained.checkpoint_folders import find_checkpoints
from attnviz.wings import load_from_wing
from attnviz.wording.commands import Command, changed_options, shell_quote
from attnviz.wording.rules import check_rules, typed_rules
from attnviz.wording.surfaces import cmd, naming_options, opt

if TYPE_CHECKING:
    from attnviz.analysis.inspection.two_sentences import TraceComparison
    from attnviz.traces.trace import Trace

DEFAULT_ASPECT_VALUES = {"dtype": ["float32", "bfloat16"]}
SENTENCE_RULES = typed_rules(
    ("repeats", "curves", "mean", "reference"),
    "{option} changes how attention is computed, which is fixed in a trained model",
    "leave {option} out",
)
PATTERN_EXAMPLE = f'{cmd.compare:"it was too tired" "it was too wide" --model minilm}'


def deliver_sentence_comparison(
    options: CompareOptions, saved: Trace | None, settings: Settings
) -> None:
    """Run a trained model on two sentences, or on one in two precisions or devices; show changes.

    `saved`: a trace that is the first run; None: the text is.
    """
    check_rules(options, SENTENCE_RULES)
    refuse_sentence_options(options)
    early_checks.refuse_impossible_settings(settings)
    first = saved or str(text_source.read_text_if_needed(options, settings, "attnviz compare"))
    chosen = _chosen_rows(options)
    InspectOptions(**chosen)  # which refuses a negative layer before the model is loaded
    command = command_line("compare", options, settings)
    if options.segments is not None:
        _deliver_segments(first, options, settings, chosen, command)
        return
    comparison = _compare_two_runs(first, settings, options, chosen, command)
    changed = changed_options(settings) | chosen | {"by": options.by, "values": options.values}
    view_command = Command(
        name="compare",
        argument=comparison.first.text,
        second=options.other,
        options={name: value for name, value in changed.items() if value is not None},
    )
    view = comparison.view_for_command(full=options.full, command=view_command)
    output.deliver_view(view, options)
    quiet = options.quiet or saved is not None
    text_source.note_two_texts(options.text, options.other, quiet=quiet)


def _deliver_segments(
    first: str | Trace,
    options: CompareOptions,
    settings: Settings,
    chosen: Mapping[str, Any],
    command: str,
) -> None:
    """Show what the answer reads of the segments of two texts, side by side."""
    if options.other is None:
        raise AttnvizError(
            f"{opt.segments} compares two texts, and there is one",
            f"give both: {PATTERN_EXAMPLE}",
            about="segments",
        )
    from attnviz.analysis.inspection.inspection import inspect
    from attnviz.traces.from_text import trace
    from attnviz.views.inspection.segment_pairs import view

    traces = [first if not isinstance(first, str) else trace(first, settings, command=command)]
    traces.append(trace(options.other, settings, command=command))
    inspections = [inspect(each, segments=options.segments, **chosen) for each in traces]
    changed = {**changed_options(settings), **chosen, "segments": options.segments}
    view_command = Command(
        name="compare", argument=traces[0].text, second=options.other, options=changed
    )
    output.deliver_view(view(*inspections, command=view_command), options)


def deliver_model_comparison(options: CompareOptions) -> None:
    """Compare two models on one sentence, head by head; show the view."""
    if options.trace:
        raise AttnvizError(
            f"two models are compared on a text, and {opt.trace} is a finished trace",
            f"leave {opt.trace} out, or one {opt.model}",
        )
    _refuse_more_than_two("model", options.model, "models")
    settings, chosen = settings_from_options(options, model=None), _chosen_rows(options)
    first, second = options.model
    words = str(text_source.read_text_if_needed(options, settings, "attnviz compare"))
    for name in options.model:
        with naming_in_errors(name):
            _refuse_impossible_model(name, words, settings, options)
    model_options = changed_options(settings) | {"model": options.model} | chosen
    command = Command(name="compare", argument=words, options=model_options)

    from attnviz.analysis.inspection.two_sentences import compare_models  # imports torch

    line = command_line("compare", options)
    comparison = compare_models(words, first, second, settings, command=line, **chosen)
    text_source.note_text_names_file(options.text, quiet=options.quiet)
    _deliver_pair(comparison, command, line, options)


def deliver_trace_comparison(options: CompareOptions) -> None:
    """Compare two saved traces, head by head; show the view."""
    _refuse_more_than_two("trace", options.trace, "traces")
    refuse_beside_trace(options.trace[0], options.typed_values(TextOptions, Settings))
    chosen = _chosen_rows(options)
    command = Command(name="compare", options={"trace": options.trace} | chosen)
    comparison = _compare_saved_traces(options.trace, chosen)
    _deliver_pair(comparison, command, command_line("compare", options), options)


def _deliver_pair(
    comparison: TraceComparison, command: Command, line: str, options: CompareOptions
) -> None:
    view = comparison.view_for_command(full=options.full, command=command)
    provenance = view.provenance and replace(view.provenance, command=line)
    output.deliver_view(replace(view, provenance=provenance), options)


def _refuse_more_than_two(name: str, values: Sequence[str], noun: str) -> None:
    if len(values) > 2:
        raise AttnvizError(
            f"{opt[name]} is given {len(values)} times, but only two {noun} can be compared",
            f"give two: {opt[name]} {shell_quote(values[0])} {opt[name]} {shell_quote(values[1])}",
            about=name,
        )


def _refuse_impossible_model(
    model: str, words: str, settings: Settings, options: CompareOptions
) -> None:
    """Refuse a model that the typed options contradict, that cannot be used with the settings, or
    that cannot read the text, before torch is loaded."""
    others = {n: v for n, v in options.typed_values(TextOptions, Settings).items() if n != "model"}
    refuse_model_conflicts(model, others)
    model_settings = replace(settings, model=model)
    early_checks.refuse_impossible_settings(model_settings)
    early_checks.refuse_unusable_text(words, model_settings, options.query)


def deliver_checkpoint_comparison(options: CompareOptions) -> None:
    """Compare the checkpoints of a training on one sentence, and show the view."""
    settings = settings_from_options(options, model=None)
    words = str(text_source.read_text_if_needed(options, settings, "attnviz compare"))
    first = find_checkpoints(options.checkpoints)[0].folder
    with naming_options(model="--checkpoints"):
        _refuse_impossible_model(first, words, settings, options)

    chosen = _chosen_rows(options)
    track = partial(with_progress_bar, label="reading checkpoints", quiet=options.quiet)
    compare_checkpoints = load_from_wing("compare_checkpoints")  # imports torch
    comparison = compare_checkpoints(words, options.checkpoints, settings, track=track, **chosen)
    text_source.note_text_names_file(options.text, quiet=options.quiet)
    command = Command(
        name="compare",
        argument=words,
        options=changed_options(settings) | {"checkpoints": options.checkpoints} | chosen,
    )
    line = command_line("compare", options, settings)
    view = comparison.view_for_command(full=options.full, command=command, line=line)
    output.deliver_view(view, options)


def _chosen_rows(options: CompareOptions) -> dict[str, Any]:
    """Return which layer, head and query are compared, those that were given."""
    chosen = {"layer": options.layer, "head": options.head, "query": options.query}
    return {name: value for name, value in chosen.items() if value is not None}


def _compare_saved_traces(paths: Sequence[str], chosen: Mapping[str, Any]) -> TraceComparison:
    """Return the comparison of two saved traces, called by their files if by nothing else."""
    for path in paths:
        files.refuse_missing_file(Path(path), "read a trace from")

    from attnviz.analysis.inspection.two_sentences import (  # torch, for which errors need not wait
        DEFAULT_NAMES,
        compare_two_traces,
        trace_names,
    )
    from attnviz.traces.archive_reader import load

    first, second = map(load, paths)
    names = trace_names(first, second)
    file_names = Path(paths[0]).stem, Path(paths[1]).stem
    if names in DEFAULT_NAMES and file_names[0] != file_names[1]:
        names = file_names
    return compare_two_traces(first, second, names=names, **chosen)


def _compare_two_runs(
    first: str | Trace,
    settings: Settings,
    options: CompareOptions,
    chosen: Mapping[str, Any],
    command: str,
) -> TraceComparison:
    """Return the comparison of two sentences, or of two runs of one sentence (--by dtype, device).

    `first`: the first sentence, or its saved trace; the model that made a saved trace must be the
    same.
    """
    from attnviz.analysis.inspection import two_sentences  # torch, for which errors need not wait
    from attnviz.traces.from_text import trace
    from attnviz.traces.trained.tracing import reload_model

    if options.other is not None:
        other = options.other
        return two_sentences.compare_sentences(first, other, settings, command=command, **chosen)
    by, values = str(options.by), _two_values(options)
    words = first if isinstance(first, str) else first.text
    both_settings = [ASPECTS[by].choose(settings, value) for value in values]
    if not isinstance(first, str):
        reload_model(first)  # which refuses a model that did not make the trace
    with two_sentences.checking_query(chosen.get("query")):
        traces = [trace(words, run_settings, command=command) for run_settings in both_settings]
    return two_sentences.compare_two_traces(*traces, names=(values[0], values[1]), **chosen)


def refuse_sentence_options(options: CompareOptions) -> None:
    """Refuse options by which a trained model cannot be compared, before it is loaded.

    That is: no second sentence, and --by or --values beside one.
    """
    is_empty = options.other is None and options.values is None
    by = options.by or (None if is_empty else TEXT_ASPECT)
    if by is None or (by == TEXT_ASPECT and options.other is None):
        raise AttnvizError(
            "there is no second sentence to compare with the first", f"give both: {PATTERN_EXAMPLE}"
        )
    refuse_unknown_aspect(by)
    if by not in (*MODEL_RUN_ASPECTS, TEXT_ASPECT):
        others = " or ".join(f"{opt.by:{way}}" for way in MODEL_RUN_ASPECTS)
        raise AttnvizError(
            f"{opt.by:{by}} changes how attention is computed, which is fixed in a trained model",
            f"give a second sentence, or {others}",
            about="by",
        )
    choose_aspect(by, options.values, texts=options.other is not None)
    if by in MODEL_RUN_ASPECTS:
        _two_values(options)


def _two_values(options: CompareOptions) -> list[str]:
    """Return the two values of --values, such as precisions; without --values the default ones.

    Refuses any other number of them, and two equal ones.
    """
    by = str(options.by)
    names = options.value_names()
    values = DEFAULT_ASPECT_VALUES.get(by, [*ASPECTS[by].values()]) if names is None else names
    if len({*values}) != 2 or len(values) != 2:
        values_text = f"only {values[0]}" if len(values) == 1 else ", ".join(values) or "none"
        example = ",".join(DEFAULT_ASPECT_VALUES.get(by, ["cpu", "cuda"]))
        raise AttnvizError(
            f"a trained model is compared in two ways, but {opt.by:{by}} has {values_text}",
            f"give two, such as {opt.values:{example}}",
        )
    return values
