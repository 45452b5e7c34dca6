"""What the numbers depend on, in one line: `4 tokens (gpt2) · width 8 · seed 42 · cpu float32`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnviz.traces.origin import Given, Origin
from attnviz.traces.settings import ADDED
from attnviz.traces.trace import Trace
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import counted


def settings_line(trace: Trace, without: Sequence[str] = ()) -> str:
    """The parts that say something, but for those that are not wanted."""
    parts = {
        "tokens": f"{counted(len(trace.tokens), 'token')} ({trace.tokenizer})",
        "memory": f"reads {counted(len(trace.memory), 'more token')}" if trace.memory else "",
        **_shape(trace),
        **_attention(trace),
        **_origin(trace.origin),
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
    variant, first = trace.variant, trace.layers[0]
    windowed = variant.window and "visible" not in first.given
    dropped = any(layer.attended.mixed_by == "dropout" for layer in trace.attentions)
    return {
        "scale": "scaled" if variant.scaled else "not scaled",
        "mask": _mask(trace),
        "window": f"window {variant.window}" if windowed else "",
        "temperature": f"temperature {exact_text(variant.temperature)}"
        if variant.temperature != 1
        else "",
        "dropout": f"dropout {exact_text(variant.dropout)}" if dropped and variant.dropout else "",
        "positions": f"{trace.positions} positions" if _placed(trace) else "",
    }


def _placed(trace: Trace) -> bool:
    """Whether positions are told in any layer, and not all that would be told them is given."""
    if trace.positions in ADDED:
        return trace.layers[0].from_inputs or trace.layers[0].block is not None
    return any(
        layer.before_rotary is not None or layer.attended.bias is not None for layer in trace.layers
    )


def _mask(trace: Trace) -> str:
    if "visible" in trace.layers[0].given:
        return "mask given"
    if trace.variant.causal:
        return "causal"
    return "" if trace.variant.window else "all tokens visible"  # a window says for itself


def _origin(origin: Origin) -> dict[str, str]:
    """Files, and the seed of what is drawn."""
    settings = origin.settings
    file = Path(settings.given).name if isinstance(origin, Given) and settings.given else ""
    vectors = Path(settings.embeddings).name if settings.embeddings else ""
    return {
        "embeddings": f"embeddings of {vectors}" if vectors else "",
        "given": f"matrices of {file}" if file else "",
        "item": f"item {settings.item}" if settings.item else "",
        "seed": f"seed {settings.seed}",
    }
