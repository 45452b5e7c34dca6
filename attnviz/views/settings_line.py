"""What the numbers depend on, in one line: `4 tokens (gpt2) · width 8 · seed 42 · cpu float32`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnviz.traces.origin import Drawn, Given, Origin
from attnviz.traces.trace import Trace
from attnviz.wording.words import counted


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
        "heads": f"{counted(first.heads, 'head')} of width {first.head_dim}",
        "layers": f"{layers} ({first.block.place}-norm)" if first.block else several,
    }


def _attention(trace: Trace) -> dict[str, str]:
    """What the variant does, once every option is heard."""
    variant = trace.variant
    return {
        "scale": "scaled" if variant.scaled else "not scaled",
        "mask": _mask(trace),
        "window": f"window {variant.window}" if variant.window else "",
        "temperature": f"temperature {variant.temperature:g}" if variant.temperature != 1 else "",
        "dropout": f"dropout {variant.dropout:g}" if variant.dropout else "",
        "positions": f"{trace.positions} positions" if trace.positions != "none" else "",
    }


def _mask(trace: Trace) -> str:
    if "visible" in trace.layers[0].given:
        return "mask given"
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
