"""`attnviz steps`: every number on the way from a text to its context vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from attnviz.cli import output, source
from attnviz.cli.help import in_section
from attnviz.cli.options import Typed, accepts, refuse_both, refuse_others, settings_of
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.run import traced
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
from attnviz.renderers import PAGE, STEP, Look, suffixes
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings, chosen_variant
from attnviz.traces.trained.place import is_trained
from attnviz.views.steps import choosing

PANEL = "Steps"


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """Which steps are shown, and how their numbers are written."""

    step: Annotated[
        str | None,
        in_section(
            PANEL,
            "--step",
            metavar="STEPS",
            help="Show only some steps: a name (scores), a number (5), a range (5-8), or several "
            "with commas.",
            short="Show only some steps: a name (--step scores), a number (5), or a range (5-8).",
            example="scores",
            among=[*choosing.OF_ATTENTION, *choosing.NEEDS],
            several=True,
        ),
    ] = None
    key: Annotated[
        str | None,
        in_section(
            PANEL,
            "--key",
            metavar="TOKEN",
            help="With --query: only the score of this key, in step 5 as two arrows and the angle "
            "between them.",
        ),
    ] = None
    digits: Annotated[
        int,
        in_section(
            PANEL,
            "--digits",
            metavar="N",
            help="How many decimals numbers have.",
            short="How many decimals numbers have, if not 2: --digits 4",
        ),
    ] = 2
    layer: Annotated[
        int | None,
        in_section(
            PANEL,
            "--layer",
            metavar="N",
            help="Which of several layers, from 0.  [default: the first]",
        ),
    ] = None
    head: Annotated[
        int | None,
        in_section(
            PANEL,
            "--head",
            metavar="N",
            help="Only this head, from 0.  [default: all]",
            example="0",
        ),
    ] = None
    seconds_per_step: Annotated[
        float,
        in_section(
            PANEL,
            "--seconds-per-step",
            metavar="S",
            help="How many seconds a .gif shows each step; the film lasts at most five times that.",
        ),
    ] = Look.seconds

    def asked(self, wanted: OutputOptions) -> dict[str, Any]:
        """What is asked of the steps."""
        return {
            "query": wanted.query,
            "key": self.key,
            "step": self.step,
            "head": self.head,
            "layer": self.layer,
            "digits": self.digits,
            "full": wanted.full,
        }


@accepts(
    TextOptions,
    SavedOptions,
    StepOptions,
    ModelOptions,
    TrainedOptions,
    AttentionOptions,
    MatrixOptions,
    BlockOptions,
    WithoutOptions,
    OutputOptions,
    PictureOptions,
)
def steps(
    text: TextOptions,
    saved: SavedOptions,
    walking: StepOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    blocks: BlockOptions,
    without: WithoutOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Show every number, step by step; with --query the arithmetic.

    Ten steps: tokens, embeddings, projections, queries, scores, scaling, mask, softmax, weighted
    values, context. With --out they become course notes (.md), slides (.pptx), one picture (.png,
    .svg, .pdf), an animation (.gif), or a file for each step (-o steps-{step}.png).

    \b
    attnviz steps "I am learning this" --query learning
    attnviz steps "I am learning this" --step scores-softmax -o softmax.gif
    """
    output.refuse_undeliverable(wanted, pictures, suffixes())
    refuse_odd_steps(walking, wanted)
    chosen = typed.of(text, model, trained, attention, matrices, blocks, without)
    refuse_both(saved.trace, chosen)
    refuse_others(model.model, chosen)
    settings = settings_of(text, model, trained, attention, matrices, blocks, without)
    refuse_missing_steps(walking, saved, settings)
    trace = traced("steps", text, saved, settings, walking, wanted, pictures)

    from attnviz.views.steps.walk import steps as walked

    view = walked(trace, **walking.asked(wanted)).view()
    output.deliver(view, wanted, pictures, walking.seconds_per_step)
    source.ask_about_a_file(text.text, quiet=wanted.quiet)
    source.tell_of_items(trace, settings.item, quiet=wanted.quiet or saved.trace is not None)


def refuse_odd_steps(walking: StepOptions, wanted: OutputOptions) -> None:
    """Refuse a pace that nobody can follow, and names of files with a place for nothing."""
    for path in wanted.out:
        odd = [each for each in re.findall(r"\{\w*\}", str(path)) if each not in (STEP, PAGE)]
        if odd:
            raise AttnvizError(
                f"'{odd[0]}' in '{path}' has no meaning", f"{STEP} stands for each step"
            )
    Look(seconds=walking.seconds_per_step)  # which refuses what nobody can follow
    choosing.refuse_unknown_step(walking.step)


def refuse_missing_steps(walking: StepOptions, saved: SavedOptions, settings: Settings) -> None:
    """Refuse a layer and a head that there will not be, where no file says how many there are."""
    if saved.trace is None and settings.given is None and not is_trained(settings.model):
        decided = early_checks.decided(settings)
        early_checks.refuse_missing_layer(walking.layer or 0, decided.layers or 1)
        choosing.refuse_missing_head(walking.head, chosen_variant(decided).heads)
