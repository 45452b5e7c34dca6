"""`attnviz compare`: kinds of attention side by side, subtracted and measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnviz.analysis.aspects import (
    ASPECTS,
    TEXT_ASPECT,
    TRAINING_ASPECTS,
    UNSTREAMED_ASPECTS,
    choose_aspect,
    choose_reference,
    choose_values,
    refuse_ablation_alone,
    refuse_model_change,
)
from attnviz.cli import output, text_source
from attnviz.cli.help import section_option
from attnviz.cli.messages import showing_row_progress, with_progress_bar
from attnviz.cli.options import (
    TypedOptions,
    accept_options,
    command_line,
    model_options_beside,
    refuse_beside_trace,
    settings_from_options,
    validated_settings,
)
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    ModelOptions,
    ModelsOptions,
    SavedPairOptions,
    TextOptions,
    TrainedOptions,
)
from attnviz.cli.training_options import TrainingOptions
from attnviz.errors import AttnvizError
from attnviz.learning.task_names import TASKS
from attnviz.renderers import suffixes
from attnviz.traces import early_checks
from attnviz.traces.models.shipped import load_card
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.surfaces import opt

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace
    from attnviz.views.view import View

_comparison_option = partial(section_option, "Comparison")
_ASPECTS_TEXT = ", ".join(
    f"{name} ({aspect.about})" if aspect.about else name for name, aspect in ASPECTS.items()
)
_ASPECT_SUMMARIES = dict.fromkeys(TRAINING_ASPECTS, "with --learn") | {
    name: aspect.about for name, aspect in ASPECTS.items()
}


def _complete_aspect_values(typed: Mapping[str, Any]) -> Sequence[str]:
    """Return the values that completion offers for --values, given the options `typed` before.

    They depend on --by and --learn; torch is not loaded, so that there are none for devices.
    """
    by = typed.get("by") or "scale"
    aspects = TRAINING_ASPECTS if typed.get("learn") is not None else ASPECTS
    return () if by == "device" or by not in aspects else aspects[by].values()


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """The options of `attnviz compare` about what is compared with what."""

    other: Annotated[
        str | None,
        typer.Argument(
            metavar="OTHER",
            help="A second sentence, compared with the first.",
            rich_help_panel="Text",
            show_default=False,
        ),
    ] = None
    learn: Annotated[
        str | None,
        _comparison_option(
            metavar="TASK",
            help="Instead of a text: train a small model on a task in each way, all on the same "
            f"sentences: {', '.join(TASKS)}.",
            short="Compare how models learn a task: --learn reverse --by heads",
            example="reverse",
            among={name: row.about for name, row in TASKS.items()},
        ),
    ] = None
    checkpoints: Annotated[
        list[str],
        _comparison_option(
            metavar="FOLDERS",
            help="Compare the checkpoints of a training, in the order of their steps: several "
            "folders or .gguf files, or a pattern in quotes, such as 'run/checkpoint-*'.",
            example="'run/checkpoint-*'",
        ),
    ] = field(default_factory=list)
    by: Annotated[
        str | None,
        _comparison_option(
            metavar="WHAT",
            help=f"What differs: {_ASPECTS_TEXT}; with --learn {', '.join(TRAINING_ASPECTS)}.  "
            "[default: scale]",
            short=f"What differs: {', '.join(ASPECTS)}.",
            among=_ASPECT_SUMMARIES,
        ),
    ] = None
    values: Annotated[
        str | None,
        _comparison_option(
            metavar="A,B,…",
            help="The values to compare, separated by commas.  [default: sensible ones]",
            short="The values to compare: --by dim --values 8,64",
            example="8,64",
            among_by=_complete_aspect_values,
            several=True,
        ),
    ] = None
    reference: Annotated[
        str | None,
        _comparison_option(
            metavar="VALUE",
            help="The value that is subtracted from the others.  [default: the first]",
            example="scaled",
        ),
    ] = None
    repeats: Annotated[
        int,
        _comparison_option(
            metavar="N",
            help="How many seeds conclusions and curves are based on; with --learn 10 by default.",
            short="How many seeds conclusions are based on, if not 20: --repeats 100",
        ),
    ] = 20
    layer: Annotated[
        int | None,
        _comparison_option(
            metavar="N",
            help="Which layer of a model, from 0.  [default: the last; of transformers, and of two "
            "models, all]",
            example="0",
        ),
    ] = None
    head: Annotated[
        int | None,
        _comparison_option(
            metavar="N",
            help="Only this head of a transformer, or of two models, from 0.  [default: all]",
            example="0",
        ),
    ] = None
    mean: Annotated[
        bool, _comparison_option("--mean", help="Show the mean of the heads instead of each head.")
    ] = False
    curves: Annotated[bool, _comparison_option("--curves", help="Show only the curves.")] = False

    def value_names(self) -> list[str] | None:
        """Return the values after --values, split at commas; None if the option is not given."""
        if self.values is None:
            return None
        return [value.strip() for value in self.values.split(",") if value.strip()]

    def refuse_incomparable(self, settings: Settings) -> None:
        """Refuse any --head, and values, a reference, a layer or settings that cannot be compared.

        What only the tokens or torch can tell is left for later: nothing is loaded.
        """
        by = self.aspect
        if self.head is not None:
            raise AttnvizError(
                f"{opt.head} is about the heads of a trained model, and no trained model is given",
                f"leave {opt.head} out, or give {opt.model:minilm} and a second sentence",
                about="head",
            )
        if by == TEXT_ASPECT or (by == "device" and self.values is None):
            return  # only the tokens, or torch, can tell more
        if settings.model is None:
            refuse_ablation_alone(by)
        else:
            card = load_card(settings.model)
            refuse_model_change(by, card)
            early_checks.refuse_missing_layer(self.layer or 0, card.settings.layers or 1)
        names = choose_values(by, self.value_names())
        choose_reference(names, self.reference)
        for name in names:
            early_checks.refuse_impossible_settings(ASPECTS[by].choose(settings, name))

    @property
    def aspect(self) -> str:
        """What differs, such as 'scale' or 'dim': --by, or what --values and OTHER imply."""
        return choose_aspect(self.by, self.values, texts=self.other is not None)

    def shared_query(self, outputs: OutputOptions) -> str | None:
        """Return --query; None if tokenizers or two sentences are compared.

        The compared alternatives then have different tokens.
        """
        return None if self.aspect in ("tokenizer", TEXT_ASPECT) else outputs.query


@accept_options(without=("memory",), rarely=("steps", "until", "tokenizer", "checkpoints"))
def compare_command(
    text: TextOptions,
    saved: SavedPairOptions,
    options: ComparisonOptions,
    models: ModelsOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    blocks: BlockOptions,
    long_text: LongTextOptions,
    training_options: TrainingOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: TypedOptions,
) -> None:
    """Compare ways of attending: side by side, subtracted and measured.

    Without options: the softmax of raw scores and of scaled ones, which shows why scores are
    divided by the square root of a head's width. With OTHER: two sentences. With --model A --model
    B: two models. With --checkpoints 'run/*': a training, step by step. With --learn: models
    trained in several ways.

    \b
    attnviz compare "I am learning this" --by mask
    attnviz compare "I am learning this" --by dim --values 8,64 -o width.png
    """
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    streaming = typed.values_of(long_text)
    if options.learn is not None:
        _refuse_streaming_options(streaming, "models in training")
        from attnviz.cli.compare_learning import deliver_learning_comparison

        deliver_learning_comparison(
            options, attention, blocks, training_options, outputs, pictures, typed
        )
        return
    _refuse_training_options(typed.values_of(blocks, training_options))
    if options.checkpoints:
        _refuse_streaming_options(streaming, "checkpoints")
        from attnviz.cli.compare_sentences import deliver_checkpoint_comparison

        settings = settings_from_options(text, trained, attention, matrices)
        deliver_checkpoint_comparison(text, settings, options, outputs, pictures, typed)
        return
    if max(len(models.model), len(saved.trace)) > 1:
        _refuse_streaming_options(streaming, "two results")
        from attnviz.cli.compare_sentences import deliver_pair_comparison

        settings = settings_from_options(text, trained, attention, matrices)
        deliver_pair_comparison(text, models, saved, settings, options, outputs, pictures, typed)
        return
    trace_file = next(iter(saved.trace), None)
    model = ModelOptions(model=next(iter(models.model), None))
    text, options, typed = _move_text_to_other(text, options, trace_file, typed)
    model_overrides = model_options_beside(trace_file, typed.values_of(model, trained))
    overrides = typed.values_of(attention) | model_overrides
    groups = (model, trained, attention, matrices, long_text)
    beside_trace = (*overrides, *streaming)
    settings = validated_settings(trace_file, typed, text, *groups, beside_trace=beside_trace)
    overrides |= {name: value for name, value in streaming.items() if name != "log"}
    base = _read_base_trace(trace_file, options, outputs, pictures, overrides)
    if base is not None and base.trained is None:
        refuse_beside_trace(trace_file, model_overrides)
    if is_trained(settings.model) or (base is not None and base.trained is not None):
        _refuse_streaming_options(streaming, "two sentences in a trained model")
        from attnviz.cli.compare_sentences import deliver_sentence_comparison

        base_settings = settings if base is None else base.origin.settings
        deliver_sentence_comparison(text, base, base_settings, options, outputs, pictures, typed)
        return
    _deliver_comparison(text, base, settings, long_text, options, outputs, pictures)


def _deliver_comparison(
    text: TextOptions,
    base: Trace | None,
    settings: Settings,
    long_text: LongTextOptions,
    options: ComparisonOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Compare alternatives of attention on a text, or on the saved trace `base`, and show the view.

    Refuses what cannot be compared; at the end it prints notes about likely mistakes in the texts.
    """
    options.refuse_incomparable(settings)
    with showing_row_progress(quiet=outputs.quiet):
        if base is None:
            comparison = _compare_texts(text, settings, long_text, options, outputs, pictures)
        else:
            command = base.provenance.command or ""
            comparison = build_comparison(base, base.origin.settings, options, command)
        view = comparison_view(comparison, options, outputs, log=long_text.log)
    output.deliver_view(view, outputs, pictures)
    quiet = outputs.quiet or base is not None
    text_source.note_texts_name_files(text.text, options.other, quiet=quiet)
    text_source.note_split_sentence(text.text, options.other, quiet=quiet)
    text_source.note_first_item(comparison.base.trace, settings.item, quiet=quiet)


def _move_text_to_other(
    text: TextOptions, options: ComparisonOptions, trace: str | None, typed: TypedOptions
) -> tuple[TextOptions, ComparisonOptions, TypedOptions]:
    """Return the options with the text as the second sentence, if a saved trace is the first.

    The typed options then come back without `text`; otherwise everything comes back unchanged.
    """
    if trace is None or text.text is None or options.other is not None:
        return text, options, typed
    typed_others = TypedOptions(typed.names - {"text"})
    return replace(text, text=None), replace(options, other=text.text), typed_others


def _compare_texts(
    text: TextOptions,
    settings: Settings,
    long_text: LongTextOptions,
    options: ComparisonOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> Comparison:
    """Return the comparison of alternatives of attention on a text, or of two texts.

    Refuses a missing or unusable text, and two texts with different numbers of tokens.
    """
    words = text_source.read_text_if_needed(text, settings, "attnviz compare")
    early_checks.refuse_unusable_text(
        words,
        settings,
        options.shared_query(outputs),
        streams=options.aspect not in UNSTREAMED_ASPECTS,
    )
    with text_source.suggesting_file_contents(words, options.other):
        early_checks.refuse_unequal_texts(words, options.other, settings)
    command = command_line("compare", text, settings, long_text, options, outputs, pictures)
    return build_comparison(words, settings, options, command)


def _refuse_streaming_options(names: Iterable[str], subject: str) -> None:
    """Refuse the first of the typed options about long texts where something else is compared."""
    for name in names:
        raise AttnvizError(
            f"{opt[name]} is about ways of attending to one long text, and here {subject} "
            "are compared",
            f"leave {opt[name]} out",
        )


def _refuse_training_options(names: Iterable[str]) -> None:
    """Refuse the first of the typed options about training: without --learn nothing is trained."""
    for name in names:
        raise AttnvizError(
            f"{opt[name]} is about training, and no task is given",
            f"give a task, such as {opt.learn:reverse}, or leave {opt[name]} out",
        )


def _read_base_trace(
    file: str | None,
    options: ComparisonOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
    settings: dict[str, object],
) -> Trace | None:
    """Read the trace that --trace names, with its settings replaced; None without --trace."""
    if file is None:
        return None

    from attnviz.cli.saved_trace import read_saved_trace

    return read_saved_trace("compare", file, options, outputs, pictures, **settings)


def build_comparison(
    text: str | Trace | None, settings: Settings, options: ComparisonOptions, command: str
) -> Comparison:
    """Return the Comparison of a text or trace that the options describe.

    Refuses a number of --repeats that is not possible. `command`: the command line, as provenance.
    """
    from attnviz.analysis import comparison, seeds  # torch, for which errors need not wait

    seeds.refuse_odd_repeats(options.repeats)
    return comparison.compare(
        text,
        settings,
        by=options.by,
        other=options.other,
        values=options.value_names(),
        reference=options.reference,
        layer=options.layer,
        command=command,
    )


def comparison_view(
    comparison: Comparison,
    options: ComparisonOptions,
    outputs: OutputOptions,
    *,
    log: bool = False,
) -> View:
    """Return the view of a comparison; curves over seeds are computed with a progress bar.

    `log`: the maps of a long text are coloured by logarithm; refused for other comparisons.
    """
    return comparison.view_for_command(
        query=outputs.query,
        full=outputs.full,
        curves=options.curves,
        mean=options.mean,
        repeats=options.repeats,
        log=log,
        track=partial(with_progress_bar, label="drawing seeds", quiet=outputs.quiet),
    )
