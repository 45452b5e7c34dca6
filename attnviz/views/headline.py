"""The kind of attention (`causal attention`), and the title over parts of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from attnviz.attention.variants import Variant
from attnviz.traces.parts import SHOWN
from attnviz.traces.trace import Trace
from attnviz.views.conclusions.weights import title_of
from attnviz.views.products import OF_CONTEXT, OF_SCORES, asks_for
from attnviz.views.switched_off import without_heads
from attnviz.views.whose import of_a_model, whose
from attnviz.wording.words import counted, listed

# When a name says what is so; one that somebody made up may say anything.
HOLDS: dict[str, Callable[[Variant], bool]] = {
    "plain": lambda variant: not variant.scaled,
    "average": lambda variant: not variant.compared,
    "multi-head": lambda variant: variant.heads > 1,
    "causal": lambda variant: variant.causal,
    "scaled": lambda variant: variant.scaled,
}
MIXED = " of each head, before W_o mixes them"
INSTEAD = ("causal", "scaled")  # what it may be called whose own name says what is not so


def headline(trace: Trace) -> str:
    """The kind of attention, and anything unusual that is done to its weights."""
    layer = trace.layers[0]
    off = f"{of_a_model(trace)}{without_heads(trace)}"
    if layer.mistake:
        return f"{_kind(trace)} with a mistake ({layer.mistake}){off}"
    by_hand = layer.attended.mixed_by == "hand"
    return f"{_kind(trace)}{' with weights by hand' * by_hand}{off}"


def title_of_parts(trace: Trace, show: Sequence[str] | None, query: int | None) -> str:
    """The title over parts of a trace: what their numbers show, or what they are."""
    wanted = show or ("weights",)
    products = " and ".join(_products(trace, wanted))
    if products or "weights" in wanted:
        return products or title_of(trace, query)
    words = listed(list(dict.fromkeys(SHOWN[name].words for name in wanted)))
    return f"{words[:1].upper()}{words[1:]} of {counted(len(trace.tokens), 'token')}"


def _products(trace: Trace, show: Sequence[str]) -> Iterator[str]:
    """The equations that the parts make, in every attention."""
    every = trace.attentions
    if asks_for(OF_SCORES, show) and all(each.multiplied for each in every):
        yield "Q · Kᵀ = scores"
    if asks_for(OF_CONTEXT, show) and not any(each.off for each in every):
        mixed = any(getattr(each.projections, "w_out", None) is not None for each in every)
        yield f"W · V = context{MIXED * mixed}"


def _kind(trace: Trace) -> str:
    if trace.handed is not None:
        return f"{_read(trace, across=trace.keys is not trace.tokens)} of {whose(trace.handed)}"
    if trace.trained is not None:
        return _read(trace, across=trace.trained.which == "cross")
    if "scores" in trace.layers[0].given:
        return "attention from given scores"
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
