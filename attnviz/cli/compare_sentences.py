"""`attnviz compare` with a trained model: two sentences, or one of them in two precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.analysis.aspects import ASPECTS, TEXT_ASPECT, refuse_unknown_aspect
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cli import output, source
from attnviz.cli.options import command_line
from attnviz.errors import AttnvizError
from attnviz.traces import early_checks
from attnviz.wording.commands import Command, option_name
from attnviz.wording.commands import changed_options as chosen_options

if TYPE_CHECKING:
    from attnviz.analysis.inspection.sentences import Sentences
    from attnviz.cli.compare import ComparisonOptions
    from attnviz.cli.options import TypedOptions
    from attnviz.cli.output_options import OutputOptions, PictureOptions
    from attnviz.cli.trace_options import TextOptions
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace

MODEL_RUN_ASPECTS = ("dtype", "device")  # in which the same model can be run twice
DEFAULT_ASPECT_VALUES = {"dtype": ["float32", "bfloat16"]}
REFUSED_WITH_MODEL = ("repeats", "curves", "mean", "reference")
PATTERN_EXAMPLE = 'attnviz compare "it was too tired" "it was too wide" --model minilm'


def deliver_sentence_comparison(
    text: TextOptions,
    saved: Trace | None,
    settings: Settings,
    comparison_options: ComparisonOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
    typed: TypedOptions,
) -> None:
    """Run the model on both, and show how the attention of its heads changes."""
    refuse_sentence_options(comparison_options, typed)
    early_checks.refuse_impossible_settings(settings)
    words = (
        None if saved is not None else source.read_text_if_needed(text, settings, "attnviz compare")
    )
    looking = InspectOptions(
        layer=comparison_options.layer, head=comparison_options.head, query=outputs.query
    )
    command = command_line("compare", text, settings, comparison_options, outputs, pictures)
    comparison = _compare_two_runs(
        saved or str(words), settings, comparison_options, looking, command
    )
    options = chosen_options(settings, looking) | {
        "by": comparison_options.by,
        "values": comparison_options.values,
    }
    view_command = Command(
        name="compare",
        argument=comparison.first.text,
        second=comparison_options.other,
        options={name: value for name, value in options.items() if value is not None},
    )
    output.deliver_view(comparison.view(full=outputs.full, command=view_command), outputs, pictures)
    quiet = outputs.quiet or saved is not None
    source.note_texts_name_files(text.text, comparison_options.other, quiet=quiet)
    source.note_split_sentence(text.text, comparison_options.other, quiet=quiet)


def _compare_two_runs(
    first: str | Trace,
    settings: Settings,
    comparison_options: ComparisonOptions,
    looking: InspectOptions,
    command: str,
) -> Sentences:
    """Two sentences against each other; or one, as the model reads it in two ways."""
    from attnviz.analysis.inspection import sentences  # torch, for which errors need not wait
    from attnviz.traces.from_text import trace
    from attnviz.traces.trained.tracing import reload_model

    if comparison_options.other is not None:
        return sentences.compare_sentences(
            first,
            comparison_options.other,
            settings,
            layer=looking.layer,
            head=looking.head,
            query=looking.query,
            command=command,
        )
    by, values = str(comparison_options.by), _two_values(comparison_options)
    words = first if isinstance(first, str) else first.text
    both_settings = [ASPECTS[by].choose(settings, each) for each in values]
    if not isinstance(first, str):
        reload_model(first)  # which is refused unless it made the trace
    traces = [trace(words, each, command=command) for each in both_settings]
    return sentences.compare_traces(traces[0], traces[1], (values[0], values[1]), looking)


def refuse_sentence_options(comparison_options: ComparisonOptions, typed: TypedOptions) -> None:
    """Refuse what no trained model can be compared by, before it is loaded."""
    for name in REFUSED_WITH_MODEL:
        if name in typed.names:
            raise AttnvizError(
                f"{option_name(name)} changes how attention is computed, which is fixed in a trained "
                "model",
                f"leave {option_name(name)} out",
                about=name,
            )
    by = comparison_options.by or (
        None
        if comparison_options.other is None and comparison_options.values is None
        else TEXT_ASPECT
    )
    if by is None or (by == TEXT_ASPECT and comparison_options.other is None):
        raise AttnvizError(
            "there is no second sentence to compare with the first", f"give both: {PATTERN_EXAMPLE}"
        )
    refuse_unknown_aspect(by)
    if by not in (*MODEL_RUN_ASPECTS, TEXT_ASPECT):
        raise AttnvizError(
            f"--by {by} changes how attention is computed, which is fixed in a trained model",
            f"give a second sentence, or {' or '.join(f'--by {aspect}' for aspect in MODEL_RUN_ASPECTS)}",
            about="by",
        )
    if by in MODEL_RUN_ASPECTS and comparison_options.other is not None:
        raise AttnvizError(
            f"--by {by} cannot be combined with a second sentence",
            "leave one of them out",
            about="by",
        )
    if by == TEXT_ASPECT and comparison_options.values is not None:
        raise AttnvizError(
            "--values cannot be combined with a second sentence: the sentences are compared",
            "leave --values out",
        )
    if by in MODEL_RUN_ASPECTS:
        _two_values(comparison_options)


def _two_values(comparison_options: ComparisonOptions) -> list[str]:
    """The two ways in which one sentence is read."""
    by = str(comparison_options.by)
    names = comparison_options.value_names()
    values = DEFAULT_ASPECT_VALUES.get(by, [*ASPECTS[by].values()]) if names is None else names
    if len({*values}) != 2 or len(values) != 2:
        values_text = f"only {values[0]}" if len(values) == 1 else ", ".join(values) or "none"
        raise AttnvizError(
            f"a trained model is compared in two ways, but --by {by} has {values_text}",
            f"give two, such as --values {','.join(DEFAULT_ASPECT_VALUES.get(by, ['cpu', 'cuda']))}",
        )
    return values
