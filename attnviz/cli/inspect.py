"""`attnviz inspect`: the heads of a trained model on a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cli import output, text_source
from attnviz.cli.messages import with_progress_bar
from attnviz.cli.options import (
    accept_options,
    changed_beside_output,
    model_options_beside,
    validated_settings,
)
from attnviz.cli.run import (
    print_checks,
    refuse_lines_without_picture,
    run_checks,
    trace_from_options,
)
from attnviz.errors import AttnvizError, opt
from attnviz.options.heads import (
    CheckOptions,
    EffectOptions,
    LookingOptions,
    SegmentOptions,
    SwitchingOptions,
)
from attnviz.options.option import option_class, own_options, shared
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import (
    AttentionOptions,
    LongTextOptions,
    ModelOptions,
    SavedOptions,
    TracingOptions,
    TrainedOptions,
)
from attnviz.renderers import suffixes
from attnviz.traces.models.model_names import MINILM
from attnviz.wings import load_from_wing
from attnviz.wording.commands import Command, changed_options

if TYPE_CHECKING:
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace

SETTING_GROUPS = (TracingOptions, LongTextOptions)
SOURCES = ("text", "file", "trace")
MODEL_DECIDED_OPTIONS = tuple(  # options of attention that a trained model fixes
    each.name for each in own_options(AttentionOptions)
)


@option_class(frozen=True, kw_only=True)
class InspectCommandOptions(
    TracingOptions,
    SavedOptions,
    SegmentOptions,
    LookingOptions,
    CheckOptions,
    EffectOptions,
    LongTextOptions,
    DeliveryOptions,
):
    """The options of `attnviz inspect`."""


@accept_options(without=("tokenizer", "seed", *MODEL_DECIDED_OPTIONS))
def inspect_command(options: InspectCommandOptions) -> None:
    """Show what the heads of a trained model do on a sentence.

    Without --layer and --head: small maps of all heads, and what they do. With --query: what one
    token reads (attends to) in each head. With --from and --to: which heads link two tokens.

    \b
    attnviz inspect "The animal didn't cross the street because it was too tired"
    attnviz inspect "The animal was tired" --layer 4 --head 7 -o head.png
    """
    output.refuse_undeliverable(options, suffixes())
    documents = text_source.read_documents(options)
    looking = shared(options, InspectOptions, segments=options.segments or documents or None)
    refuse_lines_without_picture(looking.as_, options)
    model_overrides = _model_overrides(options, looking)
    settings = validated_settings(
        options,
        *SETTING_GROUPS,
        model=options.model or MINILM,
        beside_trace=("log", *model_overrides),
    )
    if options.texts is not None:
        _deliver_effects_on_texts(options, looking, settings)
        return

    def checking_words() -> AbstractContextManager[None]:
        """Refuse tokens and answers that are not there, before the model runs."""
        from attnviz.analysis.inspection.token_query import checking_words_of

        return checking_words_of(looking)

    trace = trace_from_options(
        "inspect",
        options,
        settings,
        layers=looking.kept_layers,
        model_overrides=model_overrides,
        while_tracing=checking_words,
        documents=documents,
    )
    _deliver_inspection(trace, looking, options, documents)


def _model_overrides(options: InspectCommandOptions, looking: InspectOptions) -> dict[str, Any]:
    """Return the model that was typed beside a saved trace, which runs once more."""
    runs_model = looking.by == "effect" or looking.weigh == "gradient"
    typed = options.typed_values(ModelOptions, TrainedOptions) if runs_model else {}
    return model_options_beside(options.trace, typed)


def _deliver_effects_on_texts(
    options: InspectCommandOptions, looking: InspectOptions, settings: Settings
) -> None:
    """Measure what heads change on the texts of a file, and deliver the view of the means."""
    refuse_beside_texts(options)
    assert options.texts is not None
    command = Command(name="inspect", options=changed_beside_output(options, *SOURCES))
    chosen = {name: getattr(looking, name) for name in ("layer", "head")}
    chosen |= changed_options(options, SwitchingOptions)
    deliver_corpus_effects = load_from_wing("deliver_corpus_effects")
    deliver_corpus_effects(command, options.texts, settings, chosen, options)


def _deliver_inspection(
    trace: Trace,
    looking: InspectOptions,
    options: InspectCommandOptions,
    documents: Mapping[str, str],
) -> None:
    """Deliver what the heads of a trace do, and check their numbers if that is asked for."""
    from attnviz.analysis.inspection.inspection import Inspection

    changed = changed_beside_output(options, *SOURCES) | {"query": options.query}
    text = trace.text or ""
    looking = replace(looking, segments=text_source.chosen_segments(options, documents, text))
    argument = trace.text and text_source.without_documents(documents, text)
    command = Command(name="inspect", argument=argument, options=changed)
    track = partial(with_progress_bar, label="switching heads off", quiet=options.quiet)
    view = Inspection(trace=trace, options=looking, track=track).view_for_command(command=command)
    output.deliver_view(view, options)
    if trace.text == options.text:
        text_source.note_text_names_file(options.text, quiet=options.quiet)
    if options.verify:
        print_checks(run_checks(trace), options)


def refuse_beside_texts(options: InspectCommandOptions) -> None:
    """Refuse, beside --texts, another text or trace, and what is only shown of one text."""
    others = {"a text": options.text, f"{opt.file}": options.file, f"{opt.trace}": options.trace}
    for name, value in others.items():
        if value is not None:
            raise AttnvizError(f"{name} and {opt.texts} are both given", "give one of them")
    if options.by != "effect":
        raise AttnvizError(
            f"{opt.texts} switches heads off on many texts, but {opt.by:is {options.by}}",
            f"give {opt.by:effect}",
            about="texts",
        )
    for name in ("predict", "verify"):
        if getattr(options, name):
            raise AttnvizError(
                f"{opt[name]} is about one text, and {opt.texts} gives many",
                f"leave {opt[name]} out, or give one text",
                about=name,
            )
