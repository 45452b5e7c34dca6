"""`attnviz compare`: ways of attending side by side, subtracted and measured."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from attnviz.analysis.aspects import ASPECTS
from attnviz.cli import output, source
from attnviz.cli.help import in_section
from attnviz.cli.making import AttentionOptions, MatrixOptions, SavedOptions, TextOptions
from attnviz.cli.options import Typed, accepts, command_line, refuse_both, settings_of
from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError
from attnviz.renderers import suffixes

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison
    from attnviz.analysis.sweeps import Step, Sweep
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace

PANEL = "Comparison"
_LISTED = ", ".join(
    f"{name} ({aspect.about})" if aspect.about else name for name, aspect in ASPECTS.items()
)


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared with what."""

    by: Annotated[
        str,
        in_section(
            PANEL,
            "--by",
            metavar="WHAT",
            help=f"What differs: {_LISTED}.",
        ),
    ] = "scale"
    values: Annotated[
        str | None,
        in_section(
            PANEL,
            "--values",
            metavar="A,B,…",
            help="Its values, with commas; each has sensible ones.",
        ),
    ] = None
    reference: Annotated[
        str | None,
        in_section(
            PANEL,
            "--reference",
            metavar="VALUE",
            help="The value that the others are subtracted from.  [default: the first]",
        ),
    ] = None
    repeats: Annotated[
        int,
        in_section(
            PANEL,
            "--repeats",
            metavar="N",
            help="How many seeds the curves of a numeric --by are drawn over.",
        ),
    ] = 20
    curves: Annotated[
        bool,
        in_section(PANEL, "--curves", help="Show the curves alone."),
    ] = False

    def names(self) -> list[str] | None:
        """The values after --values; None leaves them to what is compared."""
        if self.values is None:
            return None
        return [value.strip() for value in self.values.split(",") if value.strip()]


@accepts(
    TextOptions,
    SavedOptions,
    ComparisonOptions,
    AttentionOptions,
    MatrixOptions,
    OutputOptions,
    PictureOptions,
)
def compare(
    text: TextOptions,
    saved: SavedOptions,
    chosen: ComparisonOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Show ways of attending side by side, their differences, and measures.

    Without options: softmax of the raw scores beside softmax of the scaled ones, which shows why
    scores are divided by the square root of a head's width.
    """
    output.refuse_undeliverable(wanted, pictures, suffixes("arrays"))
    refuse_both(saved.trace, typed.of(text, matrices))
    settings = settings_of(text, attention, matrices)
    if saved.trace is None:
        origin: str | Trace | None = source.read_or_given(text, matrices.given)
        command = command_line("compare", text, settings, chosen, wanted, pictures)
    else:
        from attnviz.cli.saved import read_again

        origin = read_again("compare", saved.trace, chosen, wanted, pictures, **typed.of(attention))
        settings = origin.origin.settings
        command = origin.provenance.command or ""
    comparison = compared(origin, settings, chosen, wanted, command)
    sweep = swept(origin, settings, comparison, chosen, wanted)
    view = comparison.view(sweep=sweep, curves_alone=chosen.curves, full=wanted.full)
    output.deliver(view, wanted, pictures)


def compared(
    text: str | Trace | None,
    settings: Settings,
    chosen: ComparisonOptions,
    wanted: OutputOptions,
    command: str,
) -> Comparison:
    """The comparison, of all queries or of one."""
    from attnviz.analysis import comparison, sweeps  # torch, for which errors need not wait
    from attnviz.tokens.finding import find_query

    sweeps.refuse_odd_repeats(chosen.repeats)
    found = comparison.compare(
        text,
        settings,
        by=chosen.by,
        values=chosen.names(),
        reference=chosen.reference,
        command=command,
    )
    if wanted.query is None:
        return found
    return comparison.restricted(found, find_query(found.base.tokens, wanted.query))


def swept(
    text: str | Trace | None,
    settings: Settings,
    comparison: Comparison,
    chosen: ComparisonOptions,
    wanted: OutputOptions,
) -> Sweep | None:
    """Curves over many seeds, where the values are numbers and numbers are drawn."""
    from attnviz.analysis.sweeps import sweep
    from attnviz.traces.origin import Drawn

    if not ASPECTS[chosen.by].numeric:
        if chosen.curves:
            numeric = [f"--by {name}" for name, aspect in ASPECTS.items() if aspect.numeric]
            raise AttnvizError(
                f"there are no curves by {chosen.by}: its values are no scale of numbers",
                f"try {', '.join(numeric)}",
            )
        return None
    traced = comparison.base.trace
    if traced is None or not isinstance(traced.origin, Drawn) or text is None:
        if chosen.curves:
            raise AttnvizError(
                "curves are drawn over many seeds, and given matrices depend on none",
                "leave --curves or --given out",
            )
        return None
    values = [each.name for each in comparison.alternatives]
    track = partial(_tracked, quiet=wanted.quiet)
    return sweep(text, settings, chosen.by, values, chosen.repeats, track)


def _tracked(steps: Sequence[Step], *, quiet: bool) -> Iterable[Step]:
    """A progress bar on standard error, when somebody is there to see it."""
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, "drawing seeds", console=Console(stderr=True), transient=True)
