"""Options for what is shown, where it goes, and how pictures and terminals look.

Whatever a help text lists comes from the table that the option chooses from.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attnviz.cli.help import section_option
from attnviz.machine import files, memory
from attnviz.renderers import Look, suffixes
from attnviz.renderers.colors import DEFAULT_PALETTE, PALETTES, THEMES
from attnviz.renderers.look import GENERIC_FONTS, TEXT_SIZE_POINTS, size_and_dpi
from attnviz.traces.parts import PARTS_BY_SHOW_NAME, SHOW_NAMES, parts_to_show
from attnviz.views.drawing_ways import DRAWING_WAYS

if TYPE_CHECKING:
    from rich.console import Console

    from attnviz.renderers.terminal.screen import ColorDepth, Screen


_output_option = partial(section_option, "Output")
_look_option = partial(section_option, "Looks")
ARRAY_SUFFIXES = [suffix for suffix in suffixes() if suffix not in suffixes("arrays")]
COLORS_BY_SYSTEM: dict[str, ColorDepth] = {  # by rich's names of a terminal's colours
    "standard": "16",
    "windows": "16",
    "256": "256",
    "truecolor": "truecolor",
}
PIPE_COLUMNS = 80
_FILE_LIMITS_TEXT = ", ".join(
    f"a {kind} {memory.format_size(amount)}" for kind, amount in files.MAX_FILE_BYTES.items()
)
Limit = Annotated[
    str | None,
    _output_option(
        "--limit",
        metavar="SIZE",
        help=f"The largest file that is read, such as 100MB.  [default: {_FILE_LIMITS_TEXT}]",
        example="100MB",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The options of `attnviz run` about which part of a trace is shown, and if it is checked."""

    show: Annotated[
        str | None,
        _output_option(
            metavar="NAMES",
            help=f"What to show, with commas: {', '.join(PARTS_BY_SHOW_NAME)} (of a block), or "
            "all; or received: the text, coloured by how much attention each token receives.  "
            "[default: weights,context; in a picture weights]",
            short="What to show: --show queries,keys,scores; all; or received.",
            example="weights",
            among=SHOW_NAMES,
            several=True,
        ),
    ] = None
    as_: Annotated[
        str | None,
        _output_option(
            "--as",
            metavar="WAY",
            help="How weights are drawn: "
            f"{', '.join(f'{name} ({way.about})' for name, way in DRAWING_WAYS.items())}.",
            short=f"How weights are drawn: {', '.join(DRAWING_WAYS)}.",
            example="arcs",
            among=[*DRAWING_WAYS],
        ),
    ] = None
    predict: Annotated[
        bool,
        _output_option(
            "--predict",
            help="With --model: show the three most likely answers at every position that asks "
            "for one.",
        ),
    ] = False
    verify: Annotated[
        bool,
        _output_option(
            "--verify",
            help="Check the result: rows sum to 1, hidden weights are 0, torch's own attention "
            "agrees.",
        ),
    ] = False

    def part_names(self) -> tuple[str, ...] | None:
        """Return the names after --show, split at commas; None if the option is not given."""
        if self.show is None:
            return None
        return tuple(name.strip() for name in self.show.split(",") if name.strip())

    def refuse_unknown(self) -> None:
        """Refuse unknown names after --show, before anything is computed."""
        if self.show is not None:
            parts_to_show(self.part_names() or ())


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options about what is shown, and where it goes: --query, --out, --json and others."""

    query: Annotated[
        str | None,
        _output_option(
            metavar="TOKEN",
            help="Show what one token, given as a word or a number (-1: the last), reads (attends "
            "to), with the arithmetic.",
            short="Show what one token reads: --query learning, or its number.",
            example="1",
        ),
    ] = None
    out: Annotated[
        list[Path],
        _output_option(
            "--out",
            "-o",
            metavar="FILE",
            help=f"Write a file: {', '.join(suffixes())} (no {' or '.join(ARRAY_SUFFIXES)} in "
            "compare). May be given several times.",
            short="Write a file; its suffix says of which kind: -o view.html",
            example="heatmap.png",
            show_default=False,
        ),
    ] = field(default_factory=list)
    json: Annotated[
        bool,
        _output_option("--json", help="Print all numbers, as JSON; attnviz schema describes it."),
    ] = False
    full: Annotated[
        bool, _output_option("--full", help="Show wide vectors and long lists in full.")
    ] = False
    quiet: Annotated[
        bool, _output_option("--quiet", "-q", help="Print no notes, only results.")
    ] = False
    no_pager: Annotated[
        bool,
        _output_option(
            "--no-pager",
            help="Print output longer than the screen without stopping (otherwise PAGER shows it).",
        ),
    ] = False
    limit: Limit = None


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """The options about how pictures look; theme, colors and numbers hold for the terminal, too."""

    theme: Annotated[
        str | None,
        _look_option(
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
        _look_option(
            metavar="SIZE",
            help="16:9, 4:3, square, inches such as 8x5 or 3.3x2.5in (also cm, mm, pt), or pixels "
            "such as 1920x1080.  [default: what the panels need; slides 16:9]",
            short="The size of a picture: 16:9, 4:3, square, 8x5 (inches), 85x60mm, 1920x1080.",
            example="16:9",
            among=("16:9", "4:3", "square", "1920x1080"),
        ),
    ] = None
    dpi: Annotated[
        int | None,
        _look_option(
            metavar="N",
            help="Pixels per inch.  [default: PNG and slides 200, GIF 100]",
            example="200",
        ),
    ] = None
    transparent: Annotated[
        bool, _look_option("--transparent", help="Leave out the background.")
    ] = False
    colors: Annotated[
        str, _look_option(metavar="NAME", help=f"{', '.join(PALETTES)}.", among=[*PALETTES])
    ] = DEFAULT_PALETTE
    text_size: Annotated[
        str | None,
        _look_option(
            metavar="SIZE",
            help=f"{', '.join(TEXT_SIZE_POINTS)}, or the size of labels in points, on a slide "
            "(13.33 inches wide).  [default: medium, 18 points]",
        ),
    ] = None
    points: Annotated[
        float | None,
        _look_option(
            metavar="N",
            help="The size of letters on paper, in points, whatever the size of the picture: for "
            "papers.  [default: in proportion to the picture]",
            example="8",
        ),
    ] = None
    font: Annotated[
        str | None,
        _look_option(
            metavar="NAME",
            help=f"{', '.join(GENERIC_FONTS)}, or a family that is installed, such as "
            "STIXGeneral.  [default: sans]",
            example="serif",
            among=[*GENERIC_FONTS],
        ),
    ] = None
    footnote: Annotated[
        bool | None,
        _look_option(
            "--footnote/--no-footnote",
            help="Write the settings in small print below a picture.  [default: not on 16:9 and "
            "4:3, nor with --points]",
        ),
    ] = None
    title: Annotated[
        str | None, _look_option(metavar="TEXT", help="A title of your own.", example='"My title"')
    ] = None
    numbers: Annotated[
        bool | None,
        _look_option(
            "--numbers/--no-numbers", help="Write numbers into cells.  [default: if they fit]"
        ),
    ] = None
    vectors: Annotated[
        bool | None,
        _look_option(
            "--vectors/--no-vectors",
            help="Store queries and keys in a page, which shows the arithmetic of each cell with "
            "them.  [default: if they fit]",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """The option for a page that computes."""

    live: Annotated[
        bool,
        _output_option(
            "--live",
            help="Put the model into the page (-o page.html): there you type other texts, switch "
            "scaling, mask, positions and heads, and see at once what changes.",
            short="With -o page.html: a page in which texts are typed.",
        ),
    ] = False


def look_from_options(pictures: PictureOptions, seconds: float = Look.seconds) -> Look:
    """Return the Look of the pictures; refuse sizes and colours that cannot be drawn.

    `seconds`: how long an animation shows each step.
    """
    size, dpi = size_and_dpi(pictures.size, pictures.dpi)
    looks = {name: value for name, value in vars(pictures).items() if value is not None}
    looks.pop("title", None)  # the only option that is no field of a Look
    return Look(**looks | {"size": size, "dpi": dpi, "seconds": seconds})


def screen_from_options(
    console: Console, outputs: OutputOptions, pictures: PictureOptions
) -> Screen:
    """Return the Screen for standard output: its columns, lines, colours and theme.

    The theme is --theme, else that of the terminal, which is asked; dark if there are no colours.
    """
    from attnviz.cli.background import terminal_theme
    from attnviz.renderers.terminal.screen import Screen

    system = "" if console.no_color else console.color_system or ""
    colors = COLORS_BY_SYSTEM.get(system, "none")
    return Screen(
        width=_screen_columns(console, outputs),
        height=console.height if sys.stdout.isatty() else None,
        colors=colors,
        theme=pictures.theme or ("dark" if colors == "none" else terminal_theme()),
        palette=pictures.colors,
        numbers=pictures.numbers,
        full=outputs.full,
    )


def _screen_columns(console: Console, outputs: OutputOptions) -> int | None:
    """Return the width for lines of text: that of the terminal, or COLUMNS; 80 for a pipe.

    None, which cuts nothing, for a pipe with --full.
    """
    columns_variable = os.environ.get("COLUMNS", "")
    if console.is_terminal or (columns_variable.isdigit() and int(columns_variable)):
        return console.width or PIPE_COLUMNS
    return None if outputs.full else PIPE_COLUMNS
