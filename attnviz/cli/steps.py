"""`attnviz steps`: every number on the way from a text to its context vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from attnviz.cli import output
from attnviz.cli.help import section_option
from attnviz.cli.options import TypedOptions, accept_options, validated_settings
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.run import note_likely_mistakes, trace_from_options
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    ModelOptions,
    SavedOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.errors import AttnvizError
from attnviz.renderers import PAGE_PLACEHOLDER, STEP_PLACEHOLDER, Look, suffixes
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings, chosen_variant
from attnviz.traces.trained.model_location import is_trained
from attnviz.views.steps import step_selection

_steps_option = partial(section_option, "Steps")


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """The options of `attnviz steps` about which steps are shown, and how numbers are written."""

    step: Annotated[
        str | None,
        _steps_option(
            metavar="STEPS",
            help="Show only some steps: a name (scores), a number (5), a range (5-8), or several "
            "with commas.",
            short="Show only some steps: a name (--step scores), a number (5), or a range (5-8).",
            example="scores",
            among=[*step_selection.ATTENTION_STEP_NAMES, *step_selection.STEP_REQUIREMENTS],
            several=True,
        ),
    ] = None
    key: Annotated[
        str | None,
        _steps_option(
            metavar="TOKEN",
            help="With --query: only the score of this key, in step 5 as two arrows and the angle "
            "between them.",
        ),
    ] = None
    digits: Annotated[
        int,
        _steps_option(
            metavar="N",
            help="How many decimals numbers have.",
            short="How many decimals numbers have, if not 2: --digits 4",
        ),
    ] = 2
    layer: Annotated[
        int | None,
        _steps_option(metavar="N", help="Which of several layers, from 0.  [default: the first]"),
    ] = None
    head: Annotated[
        int | None,
        _steps_option(metavar="N", help="Only this head, from 0.  [default: all]", example="0"),
    ] = None
    seconds_per_step: Annotated[
        float,
        _steps_option(
            metavar="S",
            help="How many seconds a .gif shows each step; the film lasts at most five times that.",
        ),
    ] = Look.seconds

    def walk_options(self, outputs: OutputOptions) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("key", "step", "head", "layer", "digits")}
        return own | {"query": outputs.query, "full": outputs.full}


@accept_options(without=("resolution", "pool", "log"))
def steps_command(
    text: TextOptions,
    saved: SavedOptions,
    options: StepOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    blocks: BlockOptions,
    without: WithoutOptions,
    long_text: LongTextOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: TypedOptions,
) -> None:
    """Show every number, step by step; with --query the arithmetic.

    Ten steps: tokens, embeddings, projections, queries, scores, scaling, mask, softmax, weighted
    values, context. With --out they become course notes (.md), slides (.pptx), one picture (.png,
    .svg, .pdf), an animation (.gif), or a file for each step (-o steps-{step}.png).

    \b
    attnviz steps "I am learning this" --query learning
    attnviz steps "I am learning this" --step scores-softmax -o softmax.gif
    """
    output.refuse_undeliverable(outputs, pictures, suffixes())
    refuse_step_options(options, outputs)
    groups = (model, trained, attention, matrices, blocks, without, long_text)
    settings = validated_settings(saved.trace, typed, text, *groups)
    refuse_missing_steps(options, saved, settings)

    options_of_line = (long_text, options, outputs, pictures)
    trace = trace_from_options(
        "steps", text, saved, settings, *options_of_line, while_tracing=_preparing(outputs.query)
    )

    from attnviz.views.steps.walk import steps

    view = steps(trace, **options.walk_options(outputs)).view()
    output.deliver_view(view, outputs, pictures, options.seconds_per_step)
    note_likely_mistakes(text, saved, settings, trace, quiet=outputs.quiet)


def _preparing(query: str | None) -> Callable[[], AbstractContextManager[None]]:
    """Return what computes of a long text only what the steps of one token need, and refuses it
    without a token.
    """

    def prepare() -> AbstractContextManager[None]:
        from attnviz.views.steps.walk import preparing_steps

        return preparing_steps(query)

    return prepare


def refuse_step_options(options: StepOptions, outputs: OutputOptions) -> None:
    """Refuse unknown steps, unknown {placeholders} in file names, and an impossible pace."""
    for path in outputs.out:
        for placeholder in re.findall(r"\{\w*\}", str(path)):
            if placeholder not in (STEP_PLACEHOLDER, PAGE_PLACEHOLDER):
                raise AttnvizError(
                    f"'{placeholder}' in '{path}' has no meaning",
                    f"{STEP_PLACEHOLDER} stands for each step",
                )
    Look(seconds=options.seconds_per_step)  # which refuses a pace that nobody can follow
    step_selection.refuse_unknown_step(options.step)


def refuse_missing_steps(options: StepOptions, saved: SavedOptions, settings: Settings) -> None:
    """Refuse a --layer or --head that does not exist, where that is known before computing.

    Of a saved trace, a file of matrices or a trained transformer it is not known yet.
    """
    if saved.trace is None and settings.given is None and not is_trained(settings.model):
        decided_settings = early_checks.with_model_settings(settings)
        early_checks.refuse_missing_layer(options.layer or 0, decided_settings.layers or 1)
        step_selection.refuse_missing_head(options.head, chosen_variant(decided_settings).heads)
