"""`attnviz compare`: kinds of attention side by side, subtracted and measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from attnviz.analysis import aspects
from attnviz.cli import output, text_source
from attnviz.cli.compare_options import CompareOptions
from attnviz.cli.compare_sentences import (
    SENTENCE_RULES,
    deliver_checkpoint_comparison,
    deliver_model_comparison,
    deliver_sentence_comparison,
    deliver_trace_comparison,
)
from attnviz.cli.messages import print_message, showing_row_progress, with_progress_bar
from attnviz.cli.modes import Mode, names_of
from attnviz.cli.options import (
    accept_options,
    command_line,
    model_options_beside,
    refuse_beside_trace,
    typed_command_line,
    validated_settings,
)
from attnviz.cli.training_options import choices_from_options, task_settings_with
from attnviz.errors import AttnvizError, opt
from attnviz.learning.lookup import task_of
from attnviz.machine import exit_handling
from attnviz.options.traces import (
    AttentionOptions,
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    ModelOptions,
    NumberOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.options.training import TrainingOptions
from attnviz.renderers import suffixes
from attnviz.traces import early_checks
from attnviz.traces.models.shipped import load_card
from attnviz.traces.settings import TRAINED_ONLY_SETTINGS
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.rules import Rule, check_rules, typed_rules
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison
    from attnviz.learning.task import Task
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace
    from attnviz.views.view import View

SETTING_GROUPS = (
    *(TextOptions, ModelOptions, TrainedOptions, AttentionOptions, NumberOptions, MatrixOptions),
    *(WithoutOptions, LongTextOptions),
)

# Curves of training are compared, of models whose words and vectors are the task's.
REFUSED_WITH_LEARN = (
    "text", "other", "file", "tokenizer", "trace", "checkpoints", "model", "given", "item",
    "embeddings", "reference", "mean", "curves", "query", "full", "dropout", "dtype", "layer",
    "head", "segments", "without",
    *TRAINED_ONLY_SETTINGS,
)  # fmt: skip
WIDTH_OPTIONS = ("dim", "head_dim")
TIMED_STEPS = 5  # from which the time of all steps is estimated
LONG_TRAINING_SECONDS = 90.0

TWO_SENTENCES = "two sentences in a trained model"
VARYING_OPTIONS = ("by", "values", "reference", "repeats", "curves", "mean")
TRAINING_RULES = typed_rules(
    names_of(BlockOptions, TrainingOptions),
    "{option} is about training, and no task is given",
    "give a task, such as {opt.learn:reverse}, or leave {option} out",
)
NO_SEGMENTS_RULES = typed_rules(
    ["segments"],
    "{option} compares what is read of the segments of two texts, and here something else is "
    "compared",
    "give two texts, and a trained model: {opt.model:smollm2}",
)
NO_WITHOUT_RULES = typed_rules(
    ["without"],
    "{option} compares a small model's answers with heads on and off, and here something else is "
    "compared",
    "leave {option} out, or give one text and {opt.model:agreement}",
)
# Where models, checkpoints or saved traces are compared, which all attend as they were made to.
SAME_ATTENTION_RULES = [*TRAINING_RULES, *NO_SEGMENTS_RULES, *NO_WITHOUT_RULES]
ABLATION_RULES = [
    Rule(
        "without",
        lambda it: (
            it.without is not None
            and (it.other is not None or it.by not in (None, aspects.ABLATION_ASPECT))
        ),
        "{option} compares answers with heads on and off, and something else is compared, too",
        "give {option} alone, with one text, or leave it out",
    ),
    Rule(
        "values",
        lambda it: it.without is not None and it.values is not None,
        "{option} and {opt.without} both say which heads are switched off",
        "give one of them",
    ),
]


# Options by what is compared, which takes each of their values in turn.
VARIED_OPTIONS = {"mask": "causal"} | {
    name: name
    for name in [*aspects.ASPECTS]
    if name in names_of(CompareOptions)
    and name not in (aspects.TEXT_ASPECT, aspects.ABLATION_ASPECT)
}


def _is_varied(aspect: str, options: CompareOptions) -> bool:
    compared = options.by or (aspects.TEXT_ASPECT if options.other is not None else "scale")
    return compared == aspect and VARIED_OPTIONS[aspect] in options.typed


VARIED_RULES = [
    Rule(
        option,
        partial(_is_varied, aspect),
        "{option} is what is compared: each of its values is taken in turn",
        "leave {option} out; {opt.values} says which values are compared",
    )
    for aspect, option in VARIED_OPTIONS.items()
]


def _stream_rules(subject: str) -> list[Rule]:
    return typed_rules(
        names_of(LongTextOptions),
        f"{{option}} is about ways of attending to one long text, and here {subject} are compared",
        "leave {option} out",
    )


def _pair_rules(noun: str, name: str) -> list[Rule]:
    problem, end = f"two {noun} are compared, and", "is given: only one thing can differ"
    hint = f"give one {{opt.{name}}}, or leave"
    return [
        *SAME_ATTENTION_RULES,
        *_stream_rules("two results"),
        *typed_rules(
            ["other"], f"{problem} a second sentence {end}", f"{hint} the second sentence out"
        ),
        *typed_rules(VARYING_OPTIONS, f"{problem} {{option}} {end}", f"{hint} {{option}} out"),
    ]


def _checkpoint_rules() -> list[Rule]:
    problem, end = "checkpoints are compared, and", "is given: only one thing can differ"
    hint = "leave out {opt.checkpoints}, or"
    return [
        *SAME_ATTENTION_RULES,
        *_stream_rules("checkpoints"),
        *typed_rules(["model", "trace"], f"{problem} {{option}} {end}", f"{hint} {{option}}"),
        *typed_rules(["other"], f"{problem} a second sentence {end}", f"{hint} a second sentence"),
        *typed_rules(VARYING_OPTIONS, f"{problem} {{option}} {end}", f"{hint} {{option}}"),
    ]


def deliver_comparison(options: CompareOptions) -> None:
    """Compare alternatives of attention on a text, or on a saved trace, and show the view; of a
    trained transformer two sentences, or two runs of one.

    Refuses what cannot be compared; at the end it prints notes about likely mistakes in the texts.
    """
    options = _with_fitting_choices(_with_text_as_other(options))
    base, settings = _base_and_settings(options)
    if is_trained(settings.model) or (base is not None and base.trained is not None):
        check_rules(options, _stream_rules(TWO_SENTENCES))
        base_settings = settings if base is None else base.origin.settings
        deliver_sentence_comparison(options, base, base_settings)
        return
    refuse_incomparable(options, settings)
    with showing_row_progress(quiet=options.quiet):
        if base is None:
            comparison = _compare_texts(options, settings)
        else:
            command = base.provenance.command or ""
            comparison = build_comparison(base, base.origin.settings, options, command)
        view = comparison_view(comparison, options)
    output.deliver_view(view, options)
    quiet = options.quiet or base is not None
    text_source.note_two_texts(options.text, options.other, quiet=quiet)
    text_source.note_first_item(comparison.base.trace, settings.item, quiet=quiet)


def _base_and_settings(options: CompareOptions) -> tuple[Trace | None, Settings]:
    """Return the saved trace that is compared, with what was typed in place of its settings, None
    without one; and the settings of the options."""
    trace_file, model = next(iter(options.trace), None), next(iter(options.model), None)
    typed_model = options.typed_values(ModelOptions, TrainedOptions)
    if "model" in typed_model:  # one, though it may be given twice
        typed_model["model"] = model
    model_overrides = model_options_beside(trace_file, typed_model)
    overrides = (
        options.typed_values(AttentionOptions, NumberOptions, WithoutOptions) | model_overrides
    )
    streaming = options.typed_values(LongTextOptions)
    settings = validated_settings(
        options, *SETTING_GROUPS, model=model, beside_trace=(*overrides, *streaming)
    )
    if trace_file is None:
        return None, settings

    from attnviz.cli.saved_trace import read_saved_trace

    overrides |= {name: value for name, value in streaming.items() if name != "log"}
    base = read_saved_trace("compare", trace_file, options, **overrides)
    if base.trained is None:
        refuse_beside_trace(trace_file, model_overrides)
    return base, settings


def deliver_learning_comparison(options: CompareOptions) -> None:
    """Train a model for each compared value and seed, and show the comparison.

    Ctrl-C shows what is learned so far.
    """
    repeats = options.repeats if "repeats" in options.typed else aspects.DEFAULT_TRAINING_SEEDS
    by = options.by or "scale"
    aspects.refuse_learning_by(by, repeats)
    assert options.learn is not None
    choices, task = choices_from_options(options), task_of(options.learn)
    typed = options.typed_values(AttentionOptions, NumberOptions, BlockOptions)
    settings = compared_task_settings(task, by, typed)

    from attnviz.analysis import learning_comparison  # torch, for which errors need not wait

    with exit_handling.stop_on_interrupt() as stopped:
        comparison = learning_comparison.compare_learning(
            task,
            settings,
            by=by,
            values=options.value_names(),
            repeats=repeats,
            choices=choices,
            named=options.learn,
            track=steps_until_stopped(stopped, quiet=options.quiet),
        )
    line = typed_command_line("compare", options)
    output.deliver_view(comparison.view_for_command(command=line), options)


def compared_task_settings(task: Task, by: str, typed: dict[str, Any]) -> Settings:
    """Return the task's settings, with the typed options in their place.

    If scales are compared (`by` 'scale') and no width was typed, the heads become wide: scaling
    makes no difference in narrow ones.
    """
    settings = task_settings_with(task, typed)
    if by != "scale" or any(name in typed for name in WIDTH_OPTIONS):
        return settings

    from attnviz.analysis.learning_comparison import with_wide_heads

    return with_wide_heads(settings)


def steps_until_stopped(
    stopped: Callable[[], bool], *, quiet: bool
) -> Callable[[Sequence[int]], Iterable[int]]:
    """Return a function that yields given steps, with a progress bar, until `stopped()` is true.

    After the first steps a training that will take minutes is announced, unless `quiet`.
    """

    def until_stopped(steps: Sequence[int]) -> Iterator[int]:
        started = time.perf_counter()
        for step in with_progress_bar(steps, label="learning", quiet=quiet):
            if stopped():
                return
            if step == TIMED_STEPS + 1 and not quiet:
                note_long_training((time.perf_counter() - started) * len(steps) / TIMED_STEPS)
            yield step

    return until_stopped


def note_long_training(seconds: float) -> None:
    """Print how many minutes a training takes, if it takes 90 seconds or more."""
    if seconds >= LONG_TRAINING_SECONDS:
        print_message(
            f"note: this takes up to {counted(math.ceil(seconds / 60), 'minute')}; fewer "
            "--repeats or --steps take less time, and Ctrl-C shows the results so far"
        )


# What is compared: the first that the options choose.
MODES = (
    Mode(
        about="how models learn a task",
        example="--learn reverse --by heads",
        is_chosen=lambda it: it.learn is not None,
        groups=(BlockOptions, TrainingOptions),
        rules=[
            *_stream_rules("models in training"),
            *typed_rules(
                REFUSED_WITH_LEARN,
                "{opt.learn} trains on sentences of its own, so {option} cannot be given",
                "leave {option} out, or {opt.learn}",
            ),
            *VARIED_RULES,
        ],
        deliver=deliver_learning_comparison,
    ),
    Mode(
        about="the checkpoints of a training",
        example="--checkpoints 'run/*'",
        is_chosen=lambda it: it.checkpoints,
        others=("checkpoints",),
        unlisted=(AttentionOptions, MatrixOptions),
        rules=_checkpoint_rules(),
        deliver=deliver_checkpoint_comparison,
    ),
    Mode(
        about="two saved traces",
        example="--trace a.npz --trace b.npz",
        is_chosen=lambda it: len(it.trace) > max(1, len(it.model)),
        unlisted=(TextOptions, TrainedOptions, AttentionOptions, NumberOptions, MatrixOptions),
        rules=_pair_rules("traces", "trace"),
        deliver=deliver_trace_comparison,
    ),
    Mode(
        about="two models",
        example="--model A --model B",
        is_chosen=lambda it: len(it.model) > 1,
        unlisted=(AttentionOptions, MatrixOptions),
        rules=_pair_rules("models", "model"),
        deliver=deliver_model_comparison,
    ),
    Mode(
        about=TWO_SENTENCES,
        example="OTHER --model minilm",
        is_chosen=lambda it: any(map(is_trained, it.model)),
        others=("segments",),
        unlisted=(AttentionOptions, MatrixOptions),
        rules=[
            *TRAINING_RULES,
            *NO_WITHOUT_RULES,
            *_stream_rules(TWO_SENTENCES),
            *SENTENCE_RULES,
            *VARIED_RULES,
        ],
        deliver=deliver_comparison,
    ),
    Mode(
        about="ways of attending to one text, or to two",
        example="--by mask",
        is_chosen=lambda it: True,
        groups=(LongTextOptions,),
        others=("reference", "repeats", "curves", "mean"),
        rules=[*TRAINING_RULES, *NO_SEGMENTS_RULES, *VARIED_RULES, *ABLATION_RULES],
        deliver=deliver_comparison,
    ),
)


@accept_options(
    without=("memory", "document"),
    rarely=("steps", "until", "tokenizer", "checkpoints", "without"),
    modes=MODES,
)
def compare_command(options: CompareOptions) -> None:
    """Compare ways of attending: side by side, subtracted and measured.

    Without options: the softmax of raw scores and of scaled ones, which shows why scores are
    divided by the square root of a head's width. With OTHER: two sentences. With --model A --model
    B: two models. With --checkpoints 'run/*': a training, step by step. With --learn: models
    trained in several ways.

    \b
    attnviz compare "I am learning this" --by mask
    attnviz compare "I am learning this" --by dim --values 8,64 -o width.png
    """
    output.refuse_undeliverable(options, suffixes("arrays"))
    mode = next(mode for mode in MODES if mode.is_chosen(options))
    check_rules(options, mode.rules)
    assert mode.deliver is not None
    mode.deliver(options)


def refuse_incomparable(options: CompareOptions, settings: Settings) -> None:
    """Refuse any --head, and values, a reference, a layer or settings that cannot be compared.

    What only the tokens or torch can tell is left for later: nothing is loaded.
    """
    by = compared_aspect(options)
    if options.head is not None:
        raise AttnvizError(
            f"{opt.head} is about the heads of a trained model, and no trained model is given",
            f"leave {opt.head} out, or give {opt.model:minilm} and a second sentence",
            about="head",
        )
    if by == aspects.TEXT_ASPECT or (by == "device" and options.values is None):
        return  # only the tokens, or torch, can tell more
    if settings.model is None:
        aspects.refuse_ablation_alone(by)
    else:
        card = load_card(settings.model)
        aspects.refuse_model_change(by, card)
        early_checks.refuse_missing_layer(options.layer or 0, card.settings.layers or 1)
    names = aspects.choose_values(by, options.value_names())
    aspects.choose_reference(names, options.reference)
    for name in names:
        early_checks.refuse_impossible_settings(aspects.ASPECTS[by].choose(settings, name))


def compared_aspect(options: CompareOptions) -> str:
    """Return what differs, such as 'scale' or 'dim': --by, or what --values and OTHER imply."""
    return aspects.choose_aspect(options.by, options.values, texts=options.other is not None)


def _with_text_as_other(options: CompareOptions) -> CompareOptions:
    """Return the options with the text as the second sentence, if a saved trace is the first.

    The text then counts as not typed; otherwise the options come back unchanged.
    """
    if not options.trace or options.text is None or options.other is not None:
        return options
    typed = options.typed - {"text"}
    return replace(options, text=None, other=options.text, typed=typed)


def _with_fitting_choices(options: CompareOptions) -> CompareOptions:
    """Return the options with what others imply: heads that are off are compared with heads that
    are on, and a typed text is cut into words if positions are compared.

    Without positions equal words have equal rows, but in gpt2 a word at the start of a text is
    another token than later.
    """
    if options.without is not None:
        return replace(options, by=aspects.ABLATION_ASPECT)
    is_typed = options.text is not None and not {"tokenizer", "model", "trace"} & options.typed
    return (
        replace(options, tokenizer="words") if is_typed and options.by == "positions" else options
    )


def _compare_texts(options: CompareOptions, settings: Settings) -> Comparison:
    """Return the comparison of alternatives of attention on a text, or of two texts.

    Refuses a missing or unusable text, and two texts with different numbers of tokens.
    """
    words = text_source.read_text_if_needed(options, settings, "attnviz compare")
    aspect = compared_aspect(options)
    early_checks.refuse_unusable_text(
        words,
        settings,
        # Tokenizers and two sentences have different tokens, so that no query is shared.
        None if aspect in ("tokenizer", aspects.TEXT_ASPECT) else options.query,
        streams=aspect not in aspects.UNSTREAMED_ASPECTS,
    )
    with text_source.suggesting_file_contents(words, options.other):
        early_checks.refuse_unequal_texts(words, options.other, settings)
    command = command_line("compare", options, settings)
    return build_comparison(words, settings, options, command)


def build_comparison(
    text: str | Trace | None, settings: Settings, options: CompareOptions, command: str
) -> Comparison:
    """Return the Comparison of a text or trace that the options describe.

    Refuses a number of --repeats that is not possible. `command`: the command line, as provenance.
    """
    from attnviz.analysis import comparison  # torch, for which errors need not wait

    aspects.refuse_odd_repeats(options.repeats)
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


def comparison_view(comparison: Comparison, options: CompareOptions) -> View:
    """Return the view of a comparison; curves over seeds are computed with a progress bar."""
    return comparison.view_for_command(
        query=options.query,
        full=options.full,
        curves=options.curves,
        mean=options.mean,
        repeats=options.repeats,
        log=options.log,
        track=partial(with_progress_bar, label="drawing seeds", quiet=options.quiet),
    )
