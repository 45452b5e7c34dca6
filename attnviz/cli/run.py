"""`attnviz run`: a sentence to tables, pictures or data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from attnviz.cli import output, source
from attnviz.cli.groups import (
    Attention,
    Blocks,
    Matrices,
    Output,
    Pictures,
    Shown,
    Source,
    accepts,
    command_line,
    refuse_mistake,
    settings,
)
from attnviz.views import exports
from attnviz.views.view import Result

if TYPE_CHECKING:
    from attnviz.traces.trace import Trace

ON_SCREEN = ("weights", "context")
IN_A_PICTURE = ("weights",)


@accepts(Source, Attention, Matrices, Blocks, Shown, Output, Pictures)
def run(
    text_source: Source,
    attention: Attention,
    matrices: Matrices,
    blocks: Blocks,
    shown: Shown,
    wanted: Output,
    pictures: Pictures,
) -> None:
    """Show which token of a sentence reads which.

    Without --out the result is printed: numbers while they fit, blocks of colour when they do
    not. With --out it is written to files, and their suffixes say what kind they are.
    """
    output.check(wanted, pictures, [*exports.EXPORTS])
    refuse_mistake(attention.variant)
    chosen = settings(text_source, attention, matrices, blocks)
    text = source.read_or_given(text_source, matrices.given)
    groups = (text_source, attention, matrices, blocks, shown, wanted, pictures)
    command = command_line("run", *groups)

    from attnviz.traces.from_text import (
        trace,  # torch: two seconds, which --help and errors need not wait
    )

    made = trace(text, chosen, command=command)
    output.print_result(result(made, shown, wanted), wanted, pictures)
    if shown.verify:
        print_checks(made, wanted)


def result(made: Trace, shown: Shown, wanted: Output) -> Result:
    """A trace, wherever it came from, as what can be printed and written."""
    from attnviz.views import trace as trace_grids
    from attnviz.views.grids import grids

    names = shown.names()
    trace_grids.check_shown(ON_SCREEN if names is None else names)
    query = None if wanted.query is None else trace_grids.find_query(made.tokens, wanted.query)
    readings = [] if query is None else trace_grids.readings(made, query)
    on_screen = (*ON_SCREEN, *(("outputs",) if made.layers[0].block else ()))
    settings_line = trace_grids.settings_line(made)
    return Result(
        title=trace_grids.headline(made),
        settings=settings_line,
        screen=lambda: readings or trace_grids.draw(made, names or on_screen),
        picture=lambda: readings or trace_grids.draw(made, names or IN_A_PICTURE),
        exports={suffix: partial(exports.named(suffix), made) for suffix in exports.EXPORTS},
        provenance=made.provenance,
        caption=lambda drawn: grids.caption(drawn, settings_line),
        readings=readings,
    )


def print_checks(made: Trace, wanted: Output) -> None:
    """The self-checks; a check that fails is a bug of ours, and the exit status says so."""
    from attnviz.analysis.checks import verify

    checks = verify(made)
    for each in checks:
        typer.echo(f"{'✓' if each.passed else '✗'} {each.claim}: {each.found}", err=wanted.json)
    if not all(each.passed for each in checks):
        raise typer.Exit(1)
