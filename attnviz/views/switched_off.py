"""Sentences about heads that are switched off, and what replaces their output."""

from __future__ import annotations

from attnviz.attention.choices import Instead
from attnviz.traces.origin import trained_behind
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.without import Place, heads_off, name_of, without_text
from attnviz.views.reading import name_of_head
from attnviz.wording.words import listed

IN_PLACE: dict[Instead, tuple[str, str]] = {  # of one head, and of several
    "zero": ("its output is replaced by 0", "their outputs are replaced by 0"),
    "mean": (
        "its output is replaced by its mean over the sentence, the same for every token",
        "each output is replaced by its mean over the sentence, the same for every token",
    ),
}

VECTORS: dict[Instead, tuple[str, str]] = {
    "zero": ("its vectors are 0", "their vectors are 0"),
    "mean": (
        "its vectors are replaced by their mean over the sentence",
        "each head's vectors are replaced by their mean over the sentence",
    ),
}


def _not_shown(trace: Trace) -> dict[Place, Instead]:
    """Heads of layers that were not captured: only some layers of a trained model may be."""
    if trained_behind(trace.origin) is None:
        return {}
    there = {layer.layer for layer in trace.layers}
    off = heads_off(trace.origin.settings.without)
    return {place: how for place, how in off.items() if place[0] not in there}


def note_on_heads(trace: Trace) -> tuple[str, ...]:
    """Which heads are switched off, and what the weights shown for them are."""
    off: dict[Instead, list[str]] = {}
    for layer in trace.layers:
        for head, instead in sorted(layer.off.items()):
            off.setdefault(instead, []).append(_subject(trace, layer, head))
    said = tuple(_note(heads, instead) for instead, heads in off.items())
    return (*said, *(_of_one(place, how) for place, how in _not_shown(trace).items()))


def _of_one(place: Place, instead: Instead) -> str:
    return f"{name_of(*place)} is switched off: {IN_PLACE[instead][0]}"


def _note(heads: list[str], instead: Instead) -> str:
    one, several = IN_PLACE[instead]
    if len(heads) == 1:
        return f"{heads[0]} is switched off: {one}; the weights shown are those it would have"
    return (
        f"{listed(heads)} are switched off: {several}; the weights shown are those they would have"
    )


def _subject(trace: Trace, layer: Layer, head: int) -> str:
    if trained_behind(trace.origin) is not None:  # of which one layer may be all that was kept
        return name_of(layer.layer, head)
    only = len(trace.attentions) == 1 and layer.heads == 1
    return "the only head" if only else name_of_head(trace, layer, head)


def without_heads(trace: Trace) -> str:
    """` with L1H1 switched off`; empty where every head is on."""
    names = names_off(trace)
    return f" with {names} switched off" if names else ""


def names_off(trace: Trace) -> str:
    """`L1H0 and L1H1`: the heads that are switched off; empty where every head is on."""
    off = _off(trace)
    return without_text(dict(sorted(off.items()))) if off else ""


def _off(trace: Trace) -> dict[Place, Instead]:
    """Those of a trained model by what was asked for: it keeps the layers that are looked at."""
    if trained_behind(trace.origin) is not None:
        return heads_off(trace.origin.settings.without)
    return {(layer.layer, head): how for layer in trace.layers for head, how in layer.off.items()}


def vectors_of_heads(layer: Layer, shown: list[int]) -> str:
    """The context vectors of those of the shown heads that are switched off."""
    return "".join(
        f" {_called(layer, heads)} switched off: {said[len(heads) > 1]}."
        for instead, said in VECTORS.items()
        if (heads := [each for each in shown if layer.off.get(each) == instead])
    )


def _called(layer: Layer, heads: list[int]) -> str:
    if layer.heads == 1:
        return "The only head is"
    named = listed([str(head) for head in heads])
    return f"Head {named} is" if len(heads) == 1 else f"Heads {named} are"
