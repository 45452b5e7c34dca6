"""What the numbers depend on, in one line: `4 tokens (gpt2) · width 8 · seed 42 · cpu float32`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnviz.attention.choices import Place
from attnviz.traces.origin import Drawn, Given, Origin
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.wording.words import counted

NORM: dict[Place, str] = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}


def settings_line(trace: Trace, without: Sequence[str] = ()) -> str:
    """The parts that say something, but for those that are not wanted."""
    parts = {
        "tokens": f"{counted(len(trace.tokens), 'token')} ({trace.tokenizer})",
        "memory": f"reads {counted(len(trace.memory), 'more token')}" if trace.memory else "",
        **_shape(trace),
        **_attention(trace),
        **_origin(trace.origin),
        "item": _item(trace),
        "dtype": f"{trace.provenance.device} {trace.provenance.dtype}",
    }
    return " · ".join(part for name, part in parts.items() if part and name not in without)


def _shape(trace: Trace) -> dict[str, str]:
    """Widths, heads and layers."""
    first, layers = trace.layers[0], counted(len(trace.layers), "layer")
    several = layers if len(trace.layers) > 1 else ""
    return {
        "dim": f"width {first.inputs.shape[-1]}" if first.from_inputs else "",
        "heads": f"{counted(first.heads, 'head')} of width {first.head_dim}{_unjoined(trace)}",
        "layers": f"{layers} ({NORM[first.block.place]})" if first.block else several,
    }


def _unjoined(trace: Trace) -> str:
    """Heads that are projected have a last matrix, but for those that are given without it."""
    last = getattr(trace.layers[0].projections, "w_out", None)
    expected = trace.layers[0].heads > 1 and trace.variant.projected
    return " joined without w_out" if expected and last is None else ""


def _attention(trace: Trace) -> dict[str, str]:
    """What the variant does, once every option is heard."""
    variant = trace.variant
    return {
        "scale": "scaled" if variant.scaled else "not scaled",
        "mask": _mask(trace),
        "window": f"window {variant.window}" if variant.window else "",
        "temperature": f"temperature {variant.temperature:g}" if variant.temperature != 1 else "",
        "dropout": f"dropout {variant.dropout:g}" if variant.dropout else "",
        "positions": _positions(trace),
        "position base": _position_base(trace),
    }


def _positions(trace: Trace) -> str:
    if "positions" in trace.layers[0].given:
        return "positions given"
    return f"{trace.positions} positions" if trace.positions != "none" else ""


def _position_base(trace: Trace) -> str:
    """That of the angles, if it is another than in the papers."""
    base = trace.origin.settings.position_base
    return "" if base == Settings.position_base else f"position base {base:.15g}"


def _mask(trace: Trace) -> str:
    given = trace.layers[0].given
    if "visible" in given:
        return "mask given"
    if given & {"hidden", "mask"}:
        return "causal, and a mask given" if trace.variant.causal else "mask given"
    return "causal" if trace.variant.causal else "all tokens visible"


def _item(trace: Trace) -> str:
    """Which of a batch it is."""
    if isinstance(trace.origin, Drawn) or trace.items == 1:
        return ""
    return f"item {trace.origin.matrices.item} of {trace.items}"


def _origin(origin: Origin) -> dict[str, str]:
    """Files, and the seed of what is drawn."""
    settings = origin.settings
    file = Path(settings.given).name if isinstance(origin, Given) and settings.given else ""
    vectors = Path(settings.embeddings).name if settings.embeddings else ""
    return {
        "embeddings": f"embeddings of {vectors}" if vectors else "",
        "given": f"matrices of {file}" if file else "",
        "seed": f"seed {settings.seed}",
    }
