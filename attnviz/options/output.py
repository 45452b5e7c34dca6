"""The options about what is shown, where it goes, and how pictures and terminals look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnviz.options.option import NOT_IN_PYTHON, option_group, options_under

PART_NAMES = "attnviz.traces.parts"
DRAWING_WAYS = "attnviz.views.drawing_ways:DRAWING_WAYS"
COLORS = "attnviz.renderers.colors"
LOOK = "attnviz.renderers.look"
output_option = options_under("Output")
look_option = options_under("Looks")

# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class ShowOptions:
    """Which part of a trace is shown, and if it is checked."""

    show: str | None = output_option(metavar="NAMES", example="weights",
        choices=f"{PART_NAMES}:SHOW_NAMES", several=True,
        sources={"parts": f"{PART_NAMES}:PARTS_BY_SHOW_NAME"},
        short="What to show: --show queries,keys,scores; all; or received.",
        help="What to show, with commas: {parts} (of a block), or all; or received: the text, "
        "coloured by how much attention each token receives.  [default: weights,context; in a "
        "picture weights]")
    as_: str | None = output_option(None, "--as", metavar="WAY", example="arcs",
        choices=DRAWING_WAYS, short="How weights are drawn: {choices}.",
        help="How weights are drawn: {choices:about}.")
    predict: bool = output_option(False,
        also="prediction predictions logits next next-token top-k topk answer",
        help="With --model: show the three most likely answers at every position that asks for "
        "one.")
    verify: bool = output_option(False, python=NOT_IN_PYTHON, also="check test assert",
        help="Check the result: rows sum to 1, hidden weights are 0, torch's own attention agrees.")

    @property
    def other_parts(self) -> str:
        """The names after --show, but weights."""
        return ", ".join(name for name in self.part_names() or () if name != "weights")

    def part_names(self) -> tuple[str, ...] | None:
        """Return the names after --show, split at commas; None if the option is not given."""
        if self.show is None:
            return None
        return tuple(name.strip() for name in self.show.split(",") if name.strip())


LIMIT_FACTS: dict[str, Any] = {
    "metavar": "SIZE",
    "help": "The largest file that is read, such as 100MB.  [default: {limits}]",
    "example": "100MB",
    "sources": {"limits": "attnviz.machine.files:size_limits"},
    "python": NOT_IN_PYTHON,
}


@option_group(frozen=True, kw_only=True)
class LimitOptions:
    """The largest file that is read."""

    limit: str | None = output_option(**LIMIT_FACTS)


@option_group(frozen=True, kw_only=True)
class OutputOptions:
    """What is shown, and where it goes."""

    query: str | None = output_option(metavar="TOKEN", example="1", is_token=True,
        also="token word focus select highlight explain",
        short="Show what one token reads: --query learning, or its number.",
        help="Show what one token, given as a word or a number (-1: the last), reads (attends "
        "to), with the arithmetic.")
    out: list[Path] = output_option([], "--out", "-o", metavar="FILE", example="heatmap.png",
        aliases=("--output",), shows_default=False,
        sources={"suffixes": "attnviz.renderers:suffixes",
            "arrays": "attnviz.renderers:array_suffixes"}, is_path=True, python="save(",
        also="save write to export outfile output-file dest",
        short="Write a file; its suffix says of which kind: -o view.html",
        help="Write a file: {suffixes} (no {arrays:or} in compare). May be given several times.")
    json: bool = output_option(False, python=NOT_IN_PYTHON,
        help="Print all numbers, as JSON; attnviz schema describes it.")
    full: bool = output_option(False, help="Show wide vectors and long lists in full.")
    quiet: bool = output_option(False, "--quiet", "-q", python=NOT_IN_PYTHON,
        also="silent no-notes", help="Print no notes, only results.")
    no_pager: bool = output_option(False, python=NOT_IN_PYTHON,
        help="Print output longer than the screen without stopping (otherwise PAGER shows it).")
    limit: str | None = output_option(**LIMIT_FACTS)


@option_group(frozen=True, kw_only=True)
class PictureOptions:
    """How pictures look; theme, colors and numbers hold for the terminal, too."""

    theme: str | None = look_option(metavar="NAME", example="dark", choices=f"{COLORS}:THEMES",
        short="{choices:or}, for pictures and the terminal.",
        help="{choices:or}.  [default: light; on a terminal it asks which, ATTNVIZ_THEME "
        "overrides]")
    size: str | None = look_option(metavar="SIZE", example="16:9",
        choices=("16:9", "4:3", "square", "1920x1080"),
        short="The size of a picture: 16:9, 4:3, square, 8x5 (inches), 85x60mm, 1920x1080.",
        help="16:9, 4:3, square, inches such as 8x5 or 3.3x2.5in (also cm, mm, pt), or pixels "
        "such as 1920x1080.  [default: what the panels need; slides 16:9]")
    dpi: int | None = look_option(metavar="N", example="200",
        help="Pixels per inch.  [default: PNG and slides 200, GIF 100]")
    transparent: bool = look_option(False, help="Leave out the background.")
    colors: str = look_option("ocean", metavar="NAME", choices=f"{COLORS}:PALETTES",
        aliases=("--colour", "--colours", "--color", "--cmap"),
        also="palette colormap colourmap color-map", help="{choices}.")
    text_size: str | None = look_option(metavar="SIZE",
        sources={"sizes": f"{LOOK}:TEXT_SIZE_POINTS"}, also="fontsize font-size textsize letters",
        help="{sizes}, or the size of labels in points, on a slide (13.33 inches wide).  "
        "[default: medium, 18 points]")
    points: float | None = look_option(metavar="N", example="8",
        help="The size of letters on paper, in points, whatever the size of the picture: for "
        "papers.  [default: in proportion to the picture]")
    font: str | None = look_option(metavar="NAME", example="serif", choices=f"{LOOK}:GENERIC_FONTS",
        help="{choices}, or a family that is installed, such as STIXGeneral.  [default: sans]")
    footnote: bool | None = look_option(
        help="Write the settings in small print below a picture.  [default: not on 16:9 and 4:3, "
        "nor with --points]")
    title: str | None = look_option(metavar="TEXT", example='"My title"',
        help="A title of your own.")
    numbers: bool | None = look_option(help="Write numbers into cells.  [default: if they fit]")
    vectors: bool | None = look_option(
        help="Store queries and keys in a page, which shows the arithmetic of each cell with "
        "them.  [default: if they fit]")


@option_group(frozen=True, kw_only=True)
class DeliveryOptions(OutputOptions, PictureOptions):
    """What is shown, where it goes, and how it looks."""


@option_group(frozen=True, kw_only=True)
class LiveOptions:
    """A page that computes."""

    live: bool = output_option(False, short="With -o page.html: a page in which texts are typed.",
        help="Put the model into the page (-o page.html): there you type other texts, switch "
        "scaling, mask, positions and heads, and see at once what changes.")
