"""Options on what is shown of a result, where it goes, and how it looks.

Whatever a help text lists comes from the table that the option chooses from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from attnviz.cli.help import in_section
from attnviz.machine import files, memory
from attnviz.renderers import suffixes
from attnviz.renderers.colors import DEFAULT_PALETTE, PALETTES, THEMES
from attnviz.renderers.look import TEXT_SIZES
from attnviz.traces.parts import ALL, SHOWN, parts_to_show
from attnviz.views.ways import WAYS

NOT_OF_COMPARISONS = [each for each in suffixes() if each not in suffixes("arrays")]


_SIZES = ", ".join(f"a {kind} {memory.size(amount)}" for kind, amount in files.LARGEST.items())
Limit = Annotated[
    str | None,
    in_section(
        "Output",
        "--limit",
        metavar="SIZE",
        help=f"The largest file that is read, such as 100MB.  [default: {_SIZES}]",
        example="100MB",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Which part of a trace is shown."""

    show: Annotated[
        str | None,
        in_section(
            "Output",
            "--show",
            metavar="NAMES",
            help=f"What to show, with commas: {', '.join(SHOWN)} (of a block), or all.  [default: "
            "weights,context; in a picture weights]",
            short="What to show: --show queries,keys,scores; or all.",
            example="weights",
            among=[*SHOWN, ALL],
            several=True,
        ),
    ] = None
    as_: Annotated[
        str | None,
        in_section(
            "Output",
            "--as",
            metavar="WAY",
            help="How weights are drawn: "
            f"{', '.join(f'{name} ({way.about})' for name, way in WAYS.items())}.",
            short=f"How weights are drawn: {', '.join(WAYS)}.",
            example="arcs",
            among=[*WAYS],
        ),
    ] = None
    predict: Annotated[
        bool,
        in_section(
            "Output",
            "--predict",
            help="With --model: show the three most likely answers at every position that asks "
            "for one.",
        ),
    ] = False
    verify: Annotated[
        bool,
        in_section(
            "Output",
            "--verify",
            help="Check the result: rows sum to 1, hidden weights are 0, torch's own attention "
            "agrees.",
        ),
    ] = False

    def names(self) -> tuple[str, ...] | None:
        """The names after --show; None leaves it to the command."""
        if self.show is None:
            return None
        return tuple(name.strip() for name in self.show.split(",") if name.strip())

    def refuse_unknown(self) -> None:
        """Before anything is computed."""
        if self.show is not None:
            parts_to_show(self.names() or ())


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is shown, and where it goes."""

    query: Annotated[
        str | None,
        in_section(
            "Output",
            "--query",
            metavar="TOKEN",
            help="Show what one token, given as a word or a number, reads (attends to), with the "
            "arithmetic.",
            short="Show what one token reads: --query learning, or its number.",
            example="1",
        ),
    ] = None
    out: Annotated[
        list[Path],
        in_section(
            "Output",
            "--out",
            "-o",
            metavar="FILE",
            help=f"Write a file: {', '.join(suffixes())} (no {' or '.join(NOT_OF_COMPARISONS)} in "
            "compare). May be given several times.",
            short="Write a file; its suffix says of which kind: -o view.html",
            example="heatmap.png",
            show_default=False,
        ),
    ] = field(default_factory=list)
    json: Annotated[
        bool,
        in_section("Output", "--json", help="Print all numbers, as JSON."),
    ] = False
    full: Annotated[
        bool,
        in_section("Output", "--full", help="Show wide vectors and long lists in full."),
    ] = False
    quiet: Annotated[
        bool,
        in_section("Output", "--quiet", "-q", help="Print no notes, only results."),
    ] = False
    no_pager: Annotated[
        bool,
        in_section(
            "Output",
            "--no-pager",
            help="Print output longer than the screen without stopping (otherwise PAGER shows it).",
        ),
    ] = False
    limit: Limit = None


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """How pictures look; theme, colors and numbers hold for the terminal, too."""

    theme: Annotated[
        str | None,
        in_section(
            "Looks",
            "--theme",
            metavar="NAME",
            help=f"{' or '.join(THEMES)}.  [default: light; on a terminal it asks which, "
            "ATTNVIZ_THEME overrides]",
            short=f"{' or '.join(THEMES)}, for pictures and the terminal.",
            example="dark",
            among=THEMES,
        ),
    ] = None
    size: Annotated[
        str | None,
        in_section(
            "Looks",
            "--size",
            metavar="SIZE",
            help="16:9, 4:3, square, inches such as 8x5, or pixels such as 1920x1080.  [default: "
            "what the panels need; slides 16:9]",
            short="The size of a picture: 16:9, 4:3, square, 8x5 (inches), 1920x1080 (pixels).",
            example="16:9",
            among=("16:9", "4:3", "square", "1920x1080"),
        ),
    ] = None
    dpi: Annotated[
        int | None,
        in_section(
            "Looks",
            "--dpi",
            metavar="N",
            help="Pixels per inch.  [default: PNG and slides 200, GIF 100]",
            example="200",
        ),
    ] = None
    transparent: Annotated[
        bool, in_section("Looks", "--transparent", help="Leave out the background.")
    ] = False
    colors: Annotated[
        str,
        in_section(
            "Looks",
            "--colors",
            metavar="NAME",
            help=f"{', '.join(PALETTES)}.",
            among=[*PALETTES],
        ),
    ] = DEFAULT_PALETTE
    text_size: Annotated[
        str | None,
        in_section(
            "Looks",
            "--text-size",
            metavar="SIZE",
            help=f"{', '.join(TEXT_SIZES)}, or the size of labels in points, on a slide (13.33 "
            "inches wide).  [default: medium, 18 points]",
        ),
    ] = None
    footnote: Annotated[
        bool | None,
        in_section(
            "Looks",
            "--footnote/--no-footnote",
            help="Write the settings in small print below a picture.  [default: not on 16:9 and "
            "4:3]",
        ),
    ] = None
    title: Annotated[
        str | None,
        in_section(
            "Looks", "--title", metavar="TEXT", help="A title of your own.", example='"My title"'
        ),
    ] = None
    numbers: Annotated[
        bool | None,
        in_section(
            "Looks",
            "--numbers/--no-numbers",
            help="Write numbers into cells.  [default: if they fit]",
        ),
    ] = None
