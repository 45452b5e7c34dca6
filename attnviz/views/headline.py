"""What was done, in a few words: `causal attention`, whatever options made of a variant's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attnviz.attention.variants import Variant
from attnviz.traces.trace import Trace
from attnviz.views.switched_off import without_heads
from attnviz.views.whose import of_a_model, whose

# When a name says what is so; one that somebody made up may say anything.
HOLDS: dict[str, Callable[[Variant], bool]] = {
    "plain": lambda variant: not variant.scaled,
    "average": lambda variant: not variant.compared,
    "multi-head": lambda variant: variant.heads > 1,
    "causal": lambda variant: variant.causal,
    "scaled": lambda variant: variant.scaled,
}
INSTEAD = ("causal", "scaled")  # what it may be called whose own name says what is not so


def headline(trace: Trace) -> str:
    """The kind of attention, and what is done to its weights that nobody would expect."""
    layer = trace.layers[0]
    off = f"{of_a_model(trace)}{without_heads(trace)}"
    if layer.mistake:
        return f"{_kind(trace)} with a mistake ({layer.mistake}){off}"
    by_hand = layer.attended.mixed_by == "hand"
    return f"{_kind(trace)}{' with weights by hand' * by_hand}{off}"


def _kind(trace: Trace) -> str:
    if trace.handed is not None:
        return f"{_read(trace, across=trace.keys is not trace.tokens)} of {whose(trace.handed)}"
    if trace.trained is not None:
        return _read(trace, across=trace.trained.which == "cross")
    if "scores" in trace.layers[0].given:
        return "attention of given scores"
    if trace.layers[0].w_score is not None:
        return "additive causal attention" if _causal(trace) else "additive attention"
    if not trace.variant.compared and trace.positions == "alibi":
        return "attention by distance alone"
    variant = replace(trace.variant, causal=_causal(trace))
    return f"{_adjective(variant)} attention"


def _read(trace: Trace, *, across: bool) -> str:
    """What a model reads: its text, as far as it may, or another sentence."""
    if across:
        return "cross-attention"
    return "causal attention" if trace.variant.causal else "attention"


def _causal(trace: Trace) -> bool:
    return trace.variant.causal and "visible" not in trace.layers[0].given


def _adjective(variant: Variant) -> str:
    if variant.name == "plain" and variant.scaled:
        return "scaled plain"
    names = (variant.name, *INSTEAD)
    return next((name for name in names if HOLDS.get(name, bool)(variant)), "unscaled")
