"""`attnviz steps`: every number on the way from a text to its context vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from attnviz.cli import output, source
from attnviz.cli.groups import (
    Attention,
    Blocks,
    Matrices,
    Output,
    Pictures,
    Source,
    accepts,
    command_line,
    refuse_mistake,
    settings,
)
from attnviz.errors import AttnvizError
from attnviz.views import exports
from attnviz.views.view import Result

if TYPE_CHECKING:
    from attnviz.traces.trace import Trace

PANEL = "Steps"
SECONDS = (0.1, 60.0)


@dataclass(frozen=True, kw_only=True)
class Walking:
    """Which steps are shown, and how their numbers are written."""

    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            metavar="STEPS",
            help="Show part: a name (scores), a number (5), from one to another (5-8), or several "
            "with commas.",
            rich_help_panel=PANEL,
        ),
    ] = None
    digits: Annotated[
        int,
        typer.Option(
            "--digits",
            metavar="N",
            help="How many digits behind the point numbers are written with.",
            rich_help_panel=PANEL,
        ),
    ] = 2
    layer: Annotated[
        int,
        typer.Option(
            "--layer", metavar="N", help="Which of several layers, from 0.", rich_help_panel=PANEL
        ),
    ] = 0
    head: Annotated[
        int | None,
        typer.Option(
            "--head",
            metavar="N",
            help="One head alone, from 0.  [default: all]",
            rich_help_panel=PANEL,
        ),
    ] = None
    seconds_per_step: Annotated[
        float,
        typer.Option(
            "--seconds-per-step",
            metavar="S",
            help="How long a .gif shows each step.",
            rich_help_panel=PANEL,
        ),
    ] = 2.5


@accepts(Source, Walking, Attention, Matrices, Blocks, Output, Pictures)
def steps(
    text_source: Source,
    walking: Walking,
    attention: Attention,
    matrices: Matrices,
    blocks: Blocks,
    wanted: Output,
    pictures: Pictures,
) -> None:
    """Show every number on the way, step by step; with --query its arithmetic.

    Ten steps: tokens, embeddings, projections, queries, scores, scaling, mask, softmax, weighted
    values, context. With --out they become course notes (.md), one picture (.png, .svg, .pdf),
    an animation (.gif), or a file for each step (-o steps-{step}.png).
    """
    output.check(wanted, pictures, [*exports.EXPORTS])
    check(walking, wanted)
    refuse_mistake(attention.variant)
    chosen = settings(text_source, attention, matrices, blocks)
    text = source.read_or_given(text_source, matrices.given)
    groups = (text_source, walking, attention, matrices, blocks, wanted, pictures)
    command = command_line("steps", *groups)

    from attnviz.traces.from_text import trace

    made = trace(text, chosen, command=command)
    output.print_result(result(made, walking, wanted), wanted, pictures)


def check(walking: Walking, wanted: Output) -> None:
    """Refuse a pace that nobody can follow, and names of files with a place for nothing."""
    for path in wanted.out:
        odd = [each for each in re.findall(r"\{\w*\}", str(path)) if each != output.STEP]
        if odd:
            raise AttnvizError(
                f"'{odd[0]}' in '{path}' stands for nothing", f"{output.STEP} stands for each step"
            )
    if not SECONDS[0] <= walking.seconds_per_step <= SECONDS[1]:
        nearest = min(max(walking.seconds_per_step, SECONDS[0]), SECONDS[1])
        raise AttnvizError(
            f"--seconds-per-step is {walking.seconds_per_step:g}, and must be from "
            f"{SECONDS[0]:g} to {SECONDS[1]:g}",
            f"try --seconds-per-step {nearest:g}",
        )


def result(made: Trace, walking: Walking, wanted: Output, title: str = "") -> Result:
    """The walk of a trace, wherever it came from, as what can be printed and written."""
    from attnviz.views import trace as trace_grids
    from attnviz.views.grids import grids
    from attnviz.views.steps.walk import Walk, chosen, walk

    query = None if wanted.query is None else trace_grids.find_query(made.tokens, wanted.query)
    asked = Walk(
        query=query,
        head=walking.head,
        layer=walking.layer,
        digits=walking.digits,
        full=wanted.full,
    )
    sections = chosen(walk(made, asked), walking.step)
    settings_line = trace_grids.settings_line(made)
    return Result(
        title=title or f"{trace_grids.headline(made)}, step by step",
        settings=settings_line,
        screen=lambda: sections,
        picture=lambda: sections,
        exports={suffix: partial(exports.named(suffix), made) for suffix in exports.EXPORTS},
        provenance=made.provenance,
        caption=lambda drawn: grids.caption(drawn, settings_line),
        steps=sections,
        seconds=walking.seconds_per_step,
    )
