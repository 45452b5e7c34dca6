"""The options that commands share, declared once, in groups.

Whatever a help text lists comes from the table that the option chooses from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from attnviz.attention.choices import ACTIVATIONS
from attnviz.attention.variants import VARIANTS
from attnviz.renderers import suffixes
from attnviz.renderers.colors import DEFAULT_PALETTE, PALETTES, THEMES
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.parts import GIVEN_NAMES, READERS, SAVED, SHOWN
from attnviz.traces.settings import DEFAULT_DIM, DTYPES, POSITIONS, Settings

NOT_OF_COMPARISONS = [each for each in suffixes() if each not in suffixes("arrays")]
_MATRICES = ", ".join([*(name for name in GIVEN_NAMES if not name.startswith("b_")), "b_…"])
_VARIANTS = "; ".join(f"{name} ({variant.about})" for name, variant in VARIANTS.items())


def _option(panel: str, *names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Where the sentence comes from, and how it is cut into tokens."""

    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            help="The sentence, in quotes; - reads it from standard input.",
            rich_help_panel="Text",
            show_default=False,
        ),
    ] = None
    file: Annotated[
        Path | None,
        _option("Text", "--file", metavar="PATH", help="Read the text from a UTF-8 file."),
    ] = None
    tokenizer: Annotated[
        str,
        _option(
            "Text",
            "--tokenizer",
            "-t",
            metavar="NAME",
            help=f"How the text is cut up: {', '.join(TOKENIZERS)}, or an encoding that tiktoken "
            "knows, such as o200k_base.",
        ),
    ] = Settings.tokenizer


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """The fields of Settings that say what attention does; None leaves it to the variant."""

    variant: Annotated[
        str,
        _option("Attention", "--variant", "-v", metavar="NAME", help=f"The kind: {_VARIANTS}."),
    ] = Settings.variant
    dim: Annotated[
        int | None,
        _option(
            "Attention",
            "--dim",
            "-d",
            metavar="N",
            help=f"How many numbers stand for a token.  [default: {DEFAULT_DIM}]",
        ),
    ] = None
    heads: Annotated[
        int | None,
        _option(
            "Attention",
            "--heads",
            "-H",
            metavar="N",
            help="How many times attention is done side by side.  [default: the variant's]",
        ),
    ] = None
    head_dim: Annotated[
        int | None,
        _option(
            "Attention",
            "--head-dim",
            metavar="N",
            help="The width of one head.  [default: dim over heads]",
        ),
    ] = None
    scale: Annotated[
        bool | None,
        _option(
            "Attention",
            "--scale/--no-scale",
            help="Divide scores by the square root of a head's width.  [default: the variant's]",
        ),
    ] = None
    causal: Annotated[
        bool | None,
        _option(
            "Attention",
            "--causal/--no-causal",
            help="Hide from each token the ones after it.  [default: the variant's]",
        ),
    ] = None
    window: Annotated[
        int | None,
        _option(
            "Attention",
            "--window",
            metavar="N",
            help="Show a token only the N nearest: itself, N-1 before it and, unless causal, "
            "N-1 after it.",
        ),
    ] = None
    temperature: Annotated[
        float | None,
        _option(
            "Attention",
            "--temperature",
            metavar="X",
            help="Divide scores by X, too: below 1 sharper, above 1 flatter.",
        ),
    ] = None
    dropout: Annotated[
        float | None,
        _option(
            "Attention",
            "--dropout",
            metavar="P",
            help="Zero this share of the weights, and raise the rest, as in training.",
        ),
    ] = None
    positions: Annotated[
        str,
        _option(
            "Numbers",
            "--positions",
            metavar="KIND",
            help=f"Tell tokens where they stand: {', '.join(POSITIONS)}.",
        ),
    ] = Settings.positions
    embeddings: Annotated[
        str | None,
        _option(
            "Numbers",
            "--embeddings",
            metavar="FILE",
            help="Vectors of your own: .npy or .safetensors with a row for each token id, or text "
            "with a word and its numbers on each line (GloVe, word2vec).",
        ),
    ] = None
    seed: Annotated[
        int,
        _option("Numbers", "--seed", "-s", metavar="N", help="Another seed draws other numbers."),
    ] = Settings.seed
    device: Annotated[
        str,
        _option(
            "Numbers",
            "--device",
            metavar="NAME",
            help="Where to compute: auto, cpu, cuda, cuda:1, mps, …",
        ),
    ] = Settings.device
    dtype: Annotated[
        str,
        _option("Numbers", "--dtype", metavar="NAME", help=f"How precisely: {', '.join(DTYPES)}."),
    ] = Settings.dtype


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """Matrices of a person's own."""

    given: Annotated[
        str | None,
        _option(
            "Numbers",
            "--given",
            metavar="FILE",
            help=f"Matrices of your own ({', '.join(READERS)}): {_MATRICES}. What is missing is "
            "computed or drawn.",
        ),
    ] = None
    item: Annotated[
        int | None,
        _option(
            "Numbers", "--item", metavar="N", help="Which of a batch in it, from 1.  [default: 1]"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SavedOptions:
    """A trace that was written before."""

    trace: Annotated[
        str | None,
        _option(
            "Text",
            "--trace",
            metavar="FILE",
            help=f"In place of a text: a trace that -o wrote as {' or '.join(SAVED)}.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """The transformer blocks that attention stands in."""

    layers: Annotated[
        int | None,
        _option(
            "Transformer block",
            "--layers",
            metavar="N",
            help="Stack N blocks: attention, add and LayerNorm, feed-forward, add and LayerNorm.",
        ),
    ] = None
    norm: Annotated[
        str,
        _option(
            "Transformer block",
            "--norm",
            metavar="PLACE",
            help="Normalise after each part (post) or before it (pre).",
        ),
    ] = Settings.norm
    activation: Annotated[
        str,
        _option(
            "Transformer block",
            "--activation",
            metavar="NAME",
            help=f"The activation in feed-forward: {' or '.join(ACTIVATIONS)}.",
        ),
    ] = Settings.activation
    feed_forward: Annotated[
        int | None,
        _option(
            "Transformer block",
            "--feed-forward",
            metavar="N",
            help="How wide feed-forward is inside.  [default: 4 times dim]",
        ),
    ] = None
    memory: Annotated[
        str | None,
        _option(
            "Transformer block",
            "--memory",
            metavar="TEXT",
            help="A second sentence, that each block reads, too (cross-attention).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Which part of a trace is shown."""

    show: Annotated[
        str | None,
        _option(
            "Output",
            "--show",
            metavar="NAMES",
            help=f"What to show, with commas: {', '.join(SHOWN)} (of a block).  [default: "
            "weights,context; in a picture weights]",
        ),
    ] = None
    verify: Annotated[
        bool,
        _option(
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


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is shown, and where it goes."""

    query: Annotated[
        str | None,
        _option(
            "Output",
            "--query",
            metavar="TOKEN",
            help="Show what one token reads, in steps with its arithmetic; name it by its word "
            "or its number.",
        ),
    ] = None
    out: Annotated[
        list[Path],
        _option(
            "Output",
            "--out",
            "-o",
            metavar="FILE",
            help=f"Write a file: {', '.join(suffixes())} (no {' or '.join(NOT_OF_COMPARISONS)} in "
            "compare). May be given several times.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    json: Annotated[
        bool,
        _option("Output", "--json", help="Print everything that happened, as JSON."),
    ] = False
    full: Annotated[
        bool,
        _option("Output", "--full", help="Show all of wide vectors and long lists."),
    ] = False
    quiet: Annotated[
        bool,
        _option("Output", "--quiet", "-q", help="Print no notes, only results."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """How pictures look; theme, colors and numbers hold for the terminal, too."""

    theme: Annotated[
        str | None,
        _option(
            "Looks",
            "--theme",
            metavar="NAME",
            help=f"{' or '.join(THEMES)}.  [default: light; on a terminal what it seems to be]",
        ),
    ] = None
    size: Annotated[
        str | None,
        _option(
            "Looks",
            "--size",
            metavar="SIZE",
            help="16:9, 4:3, square, or inches such as 8x5.  [default: what the panels need]",
        ),
    ] = None
    dpi: Annotated[
        int | None,
        _option(
            "Looks", "--dpi", metavar="N", help="Pixels to an inch.  [default: PNG 200, GIF 100]"
        ),
    ] = None
    transparent: Annotated[
        bool, _option("Looks", "--transparent", help="Leave out the background.")
    ] = False
    colors: Annotated[
        str, _option("Looks", "--colors", metavar="NAME", help=f"{', '.join(PALETTES)}.")
    ] = DEFAULT_PALETTE
    title: Annotated[
        str | None, _option("Looks", "--title", metavar="TEXT", help="A title of your own.")
    ] = None
    numbers: Annotated[
        bool | None,
        _option(
            "Looks",
            "--numbers/--no-numbers",
            help="Write numbers into cells.  [default: while they fit]",
        ),
    ] = None
