"""`attnviz compare`: ways of attending side by side, subtracted and measured."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from attnviz.cli import output, source
from attnviz.cli.groups import (
    Attention,
    Matrices,
    Output,
    Pictures,
    Source,
    accepts,
    command_line,
    refuse_mistake,
    settings,
)
from attnviz.views import exports
from attnviz.views.view import Result

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison
    from attnviz.analysis.sweeps import Step, Sweep
    from attnviz.traces.settings import Settings
    from attnviz.views.grids.grids import Drawable

PANEL = "Comparison"


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """What is compared with what."""

    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="What differs: scale, variant, mask (with common mistakes), dim, heads, "
            "temperature, positions, seed, dtype, device, tokenizer.",
            rich_help_panel=PANEL,
        ),
    ] = "scale"
    values: Annotated[
        str | None,
        typer.Option(
            "--values",
            metavar="A,B,…",
            help="Its values, with commas; each has sensible ones.",
            rich_help_panel=PANEL,
        ),
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="VALUE",
            help="The value that the others are subtracted from.  [default: the first]",
            rich_help_panel=PANEL,
        ),
    ] = None
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            metavar="N",
            help="How many seeds the curves of a numeric --by are drawn over.",
            rich_help_panel=PANEL,
        ),
    ] = 20
    curves: Annotated[
        bool,
        typer.Option("--curves", help="Show the curves alone.", rich_help_panel=PANEL),
    ] = False


@accepts(Source, Contrast, Attention, Matrices, Output, Pictures)
def compare(
    text_source: Source,
    contrast: Contrast,
    attention: Attention,
    matrices: Matrices,
    wanted: Output,
    pictures: Pictures,
) -> None:
    """Show ways of attending side by side, their differences, and measures.

    Without options: softmax of the raw scores beside softmax of the scaled ones, which shows why
    scores are divided by the square root of a head's width.
    """
    output.check(wanted, pictures, [*exports.COMPARISON_EXPORTS])
    refuse_mistake(attention.variant)
    chosen = settings(text_source, attention, matrices)
    text = source.read_or_given(text_source, matrices.given)
    groups = (text_source, contrast, attention, matrices, wanted, pictures)
    command = command_line("compare", *groups)

    from attnviz.analysis import comparison, sweeps
    from attnviz.views import trace as trace_grids

    sweeps.check_repeats(contrast.repeats)
    values = None if contrast.values is None else _split(contrast.values)
    made = comparison.compare(
        text, chosen, by=contrast.by, values=values, reference=contrast.reference, command=command
    )
    if wanted.query is not None:
        tokens = made.ways[made.reference].tokens
        made = comparison.restricted(made, trace_grids.find_query(tokens, wanted.query))
    swept = _sweep(text, chosen, made, contrast, wanted)
    output.print_result(result(made, swept, contrast, wanted, pictures), wanted, pictures)


def result(
    made: Comparison, swept: Sweep | None, contrast: Contrast, wanted: Output, pictures: Pictures
) -> Result:
    from attnviz.views import comparison as drawing
    from attnviz.views.grids import grids

    charts: list[Drawable] = list(drawing.curves(swept)) if swept else []
    table = drawing.measures_table(made)
    rows = drawing.rows_of_measures(made) if wanted.full and made.query is None else []
    size = None if pictures.size is None else output.inches(pictures.size)
    columns = None if contrast.curves else drawing.columns(made, len(charts), size)
    settings_line, conclusion = drawing.settings_line(made), drawing.conclusion(made, swept)
    notes = [*drawing.mistakes(made), *drawing.changes_listed(made), conclusion]
    tables = [*drawing.on_screen(made), table, *rows, *charts]
    return Result(
        title=f"compared by {made.by}",
        picture_title=conclusion,
        settings=settings_line,
        screen=lambda: charts if contrast.curves else tables,
        picture=lambda: charts if contrast.curves else drawing.for_picture(made, charts, columns),
        exports={
            suffix: partial(exports.comparison_export(suffix), made, swept)
            for suffix in exports.COMPARISON_EXPORTS
        },
        provenance=made.provenance,
        caption=lambda drawn: grids.caption(drawn, settings_line),
        closing=[conclusion] if contrast.curves else notes,
        columns=columns,
    )


def _sweep(
    text: str | None, chosen: Settings, made: Comparison, contrast: Contrast, wanted: Output
) -> Sweep | None:
    from attnviz.analysis.comparison import BY
    from attnviz.analysis.sweeps import sweep
    from attnviz.errors import AttnvizError

    if not BY[contrast.by].numeric:
        if contrast.curves:
            numeric = [f"--by {by.name}" for by in BY.values() if by.numeric]
            raise AttnvizError(
                f"there are no curves by {contrast.by}: its values are no scale of numbers",
                f"try {', '.join(numeric)}",
            )
        return None
    if text is None or chosen.given is not None:
        if contrast.curves:
            raise AttnvizError(
                "curves are drawn over many seeds, and given matrices hang on none",
                "leave --curves or --given out",
            )
        return None
    values = [way.name for way in made.ways]
    track = partial(_tracked, quiet=wanted.quiet)
    return sweep(text, chosen, contrast.by, values, contrast.repeats, track)


def _tracked(steps: Sequence[Step], *, quiet: bool) -> Iterable[Step]:
    """A progress bar on standard error, when somebody is there to see it."""
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, "drawing seeds", console=Console(stderr=True), transient=True)


def _split(values: str) -> list[str]:
    return [value.strip() for value in values.split(",") if value.strip()]
