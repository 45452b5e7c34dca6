"""`attnviz steps`: every number on the way from a text to its context vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from attnviz.cli import output
from attnviz.cli.options import accept_options, validated_settings
from attnviz.cli.run import SETTING_GROUPS, note_likely_mistakes, trace_from_options
from attnviz.errors import AttnvizError
from attnviz.options.option import option_class
from attnviz.options.output import DeliveryOptions, OutputOptions
from attnviz.options.steps import StepOptions
from attnviz.options.traces import (
    BlockOptions,
    LongTextOptions,
    MatrixOptions,
    SavedOptions,
    TracingOptions,
)
from attnviz.renderers import PAGE_PLACEHOLDER, STEP_PLACEHOLDER, Look, suffixes
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings, chosen_variant
from attnviz.traces.trained.model_location import is_trained
from attnviz.views.steps import step_selection


@option_class(frozen=True, kw_only=True)
class StepsOptions(
    TracingOptions,
    SavedOptions,
    StepOptions,
    MatrixOptions,
    BlockOptions,
    LongTextOptions,
    DeliveryOptions,
):
    """The options of `attnviz steps`."""


@accept_options(without=("resolution", "pool", "log"))
def steps_command(options: StepsOptions) -> None:
    """Show every number, step by step; with --query the arithmetic.

    Ten steps: tokens, embeddings, projections, queries, scores, scaling, mask, softmax, weighted
    values, context. With --out they become course notes (.md), slides (.pptx), one picture (.png,
    .svg, .pdf), an animation (.gif), or a file for each step (-o steps-{step}.png).

    \b
    attnviz steps "I am learning this" --query learning
    attnviz steps "I am learning this" --step scores-softmax -o softmax.gif
    """
    output.refuse_undeliverable(options, suffixes())
    refuse_step_options(options, options.out)
    settings = validated_settings(options, *SETTING_GROUPS, model=options.model)
    refuse_missing_steps(options, settings)

    def preparing() -> AbstractContextManager[None]:
        """Compute of a long text only what the steps of one token need; refuse it without one."""
        from attnviz.views.steps.walk import preparing_steps

        return preparing_steps(options.query)

    trace = trace_from_options("steps", options, settings, while_tracing=preparing)

    from attnviz.views.steps.walk import steps

    view = steps(trace, **walk_options(options, options)).view()
    output.deliver_view(view, options, options.seconds_per_step)
    note_likely_mistakes(options, settings, trace, quiet=options.quiet)


def walk_options(options: StepOptions, outputs: OutputOptions) -> dict[str, Any]:
    """Return what is chosen of the steps of a trace, as keywords."""
    own = {name: getattr(options, name) for name in ("key", "step", "head", "layer", "digits")}
    return own | {"query": outputs.query, "full": outputs.full}


def refuse_step_options(options: StepOptions, paths: Sequence[Path]) -> None:
    """Refuse unknown steps, unknown {placeholders} in file names, and an impossible pace."""
    for path in paths:
        for placeholder in re.findall(r"\{\w*\}", str(path)):
            if placeholder not in (STEP_PLACEHOLDER, PAGE_PLACEHOLDER):
                raise AttnvizError(
                    f"'{placeholder}' in '{path}' has no meaning",
                    f"{STEP_PLACEHOLDER} stands for each step",
                )
    Look(seconds=options.seconds_per_step)  # which refuses a pace that nobody can follow
    step_selection.refuse_unknown_step(options.step)


def refuse_missing_steps(options: StepsOptions, settings: Settings) -> None:
    """Refuse a --layer or --head that does not exist, where that is known before computing.

    Of a saved trace, a file of matrices or a trained transformer it is not known yet.
    """
    if options.trace is None and settings.given is None and not is_trained(settings.model):
        decided_settings = early_checks.with_model_settings(settings)
        early_checks.refuse_missing_layer(options.layer or 0, decided_settings.layers or 1)
        step_selection.refuse_missing_head(options.head, chosen_variant(decided_settings).heads)
