"""Notes below tables: rows without keys, given weights, random numbers, heads that are off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pkgutil import resolve_name

import torch

from attnviz.attention.arithmetic import MixedBy
from attnviz.attention.variants import Instead
from attnviz.traces.chance import (
    DROPOUT,
    PROJECTIONS,
    VECTORS,
    drawn_after_weights,
    drawn_for_weights,
    embeddings_drawn,
    weights_shown_alone,
)
from attnviz.traces.origin import FromWeights, trained_behind
from attnviz.traces.settings import HeadPlace, heads_off, name_of, without_text
from attnviz.traces.trace import Layer, Trace
from attnviz.views.facts import ROUNDING
from attnviz.views.grids.axes import NOTHING, SUM_TO_ONE
from attnviz.views.origin_words import beyond_what_it_learned
from attnviz.views.reading import alone, name_of_head
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted, listed


@dataclass(frozen=True)
class ClosingNote:
    """A kind of sentence below everything else: which traces need it, and where it is written."""

    is_needed: Callable[[Trace], bool]
    sentences: str  # "module:function", imported only where it is needed
    takes_query: bool = False


def _has_shifted_vectors(trace: Trace) -> bool:
    outputs = trace.outputs
    answers = trace.prediction is not None
    return outputs is not None and outputs.with_all_heads is not None and not answers


CLOSING_NOTES = {  # in the order in which they are read
    "given weights": ClosingNote(
        lambda trace: trace.handed is not None, "attnviz.views.notes:on_given_weights"
    ),
    "heads off": ClosingNote(
        lambda trace: bool(names_off(trace)), "attnviz.views.notes:note_on_heads"
    ),
    "what heads do": ClosingNote(
        lambda trace: trace.model is not None and bool(trace.model.heads),
        "attnviz.views.origin_words:what_heads_do",
    ),
    "answers": ClosingNote(
        lambda trace: trace.prediction is not None,
        "attnviz.views.prediction:answered",
        takes_query=True,
    ),
    "shifted vectors": ClosingNote(_has_shifted_vectors, "attnviz.views.vector_shift:moved"),
}


def closing_notes(
    trace: Trace, query: int | None = None, names: Iterable[str] = CLOSING_NOTES
) -> tuple[str, ...]:
    """The sentences below everything else, of the rows of the table with these names."""
    needed = [CLOSING_NOTES[name] for name in names if CLOSING_NOTES[name].is_needed(trace)]
    return tuple(
        sentence
        for note in needed
        for sentence in resolve_name(note.sentences)(trace, *[query] * note.takes_query)
    )


IN_PLACE: dict[Instead, tuple[str, str]] = {  # of one head, and of several
    "zero": ("its output is replaced by 0", "their outputs are replaced by 0"),
    "mean": (
        "its output is replaced by its mean over the sentence, the same for every token",
        "each output is replaced by its mean over the sentence, the same for every token",
    ),
}

VECTORS_OFF: dict[Instead, tuple[str, str]] = {
    "zero": ("its vectors are 0", "their vectors are 0"),
    "mean": (
        "its vectors are replaced by their mean over the sentence",
        "each head's vectors are replaced by their mean over the sentence",
    ),
}


def _not_shown(trace: Trace) -> dict[HeadPlace, Instead]:
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


def _of_one(place: HeadPlace, instead: Instead) -> str:
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


def _off(trace: Trace) -> dict[HeadPlace, Instead]:
    """Those of a trained model by what was asked for: it keeps the layers that are looked at."""
    if trained_behind(trace.origin) is not None:
        return heads_off(trace.origin.settings.without)
    return {(layer.layer, head): how for layer in trace.layers for head, how in layer.off.items()}


def vectors_of_heads(layer: Layer, shown: list[int]) -> str:
    """The context vectors of those of the shown heads that are switched off."""
    return "".join(
        f" {_called(layer, heads)} switched off: {said[len(heads) > 1]}."
        for instead, said in VECTORS_OFF.items()
        if (heads := [each for each in shown if layer.off.get(each) == instead])
    )


def _called(layer: Layer, heads: list[int]) -> str:
    if layer.heads == 1:
        return "The only head is"
    named = listed([str(head) for head in heads])
    return f"Head {named} is" if len(heads) == 1 else f"Heads {named} are"


MOST_NAMED = 8  # rows; more are counted
OTHERS_SUM = "every other row sums to 1"


def note_on_rows(trace: Trace, mixed_by: MixedBy, whole: bool) -> str:
    """The note on all weights of a trace: said once, so it must hold for each of its tables.

    `whole` says whether each row of a table sums to 1.
    """
    blind = note_on_blind(trace)
    if not blind:
        return SUM_TO_ONE if whole else ""
    others = mixed_by == "softmax" and any(bool(each.visible.any()) for each in trace.attentions)
    return f"{blind} · {OTHERS_SUM}" if others else blind


def note_on_blind(trace: Trace) -> str:
    """Which rows read nothing, if there are any."""
    count = len(trace.blind)
    if not count:
        return ""
    few = count <= MOST_NAMED
    named = listed([*_names(trace)]) if few else f"{count:,} rows"
    return f"{named} {'reads' if count == 1 else 'read'} {NOTHING}"


def _names(trace: Trace) -> Iterator[str]:
    """`row 2`; of which head or layer, where they are not alike."""
    for layer, head, row in trace.blind:
        of_layer = "" if alone(trace) else f" of {layer.name}"
        by_head = layer.visible.ndim == 3
        of = f" of {name_of_head(trace, layer, head)}" if by_head else of_layer
        yield f"row {row + 1}{of}"


BY_ITS_ZEROS = (
    "the weights are treated as causal: every weight above the diagonal is 0, in every head"
)


def given_parts(trace: Trace, given: FromWeights) -> dict[str, str]:
    """The parts of the settings line, by what each is about."""
    heads = sorted({layer.heads for layer in trace.layers})
    of_each = " or ".join(map(str, heads))
    across = trace.keys is not trace.tokens
    return {
        "kind": f"weights of {given.name}" if given.name else "",
        "heads": f"{counted(len(trace.layers), 'layer')} × {of_each} "
        f"head{'' if heads == [1] else 's'}",
        "which": f"reads {counted(len(trace.keys), 'token')}" if across else "",
        "mask": "causal" if trace.variant.causal else "",
    }


def on_given_weights(trace: Trace) -> Iterator[str]:
    """What their zeros imply about a mask, and which rows do not sum to 1."""
    if trace.handed is None:
        return
    if trace.variant.causal:
        yield BY_ITS_ZEROS
    sums = torch.cat([each.attended.weights.double().sum(-1).flatten() for each in trace.layers])
    odd = sums[(sums - 1).abs() >= ROUNDING]
    if len(odd):
        low, high = share_text(float(odd.min())), share_text(float(odd.max()))
        span = f"the sum is {low}" if low == high else f"sums from {low} to {high}"
        yield f"{_which(len(odd), len(sums))} to 1: {span}"


def _which(odd: int, rows: int) -> str:
    """`3 of 12 rows do not sum`"""
    if odd == rows > 1:
        return f"none of {rows:,} rows sums"
    several = f"{odd:,} of {rows:,} rows" if rows > 1 else "its only row"
    return f"{several} do{'es' * (odd == 1)} not sum"


SHAPE_ALONE = "this shows the mechanism, not what the words mean"
BEFORE_ALL = ("tokens", "embeddings")


def caveat_of_softmax(trace: Trace) -> str:
    """For the softmax's own weights, before any given ones replace them."""
    before = drawn_for_weights(trace, by_hand=False)
    return f"{_kinds(before)}: {SHAPE_ALONE}" if before else ""


def caveat(trace: Trace, shown: Collection[str]) -> str:
    """For the parts that are shown; empty where everything they are computed from was given.

    On lengths that it was never trained on, a model is no better than chance.
    """
    beyond = beyond_what_it_learned(trace)
    if beyond:
        return beyond
    if all(name in BEFORE_ALL for name in shown):
        drawn = "embeddings" in shown and embeddings_drawn(trace)
        return f"random vectors: {SHAPE_ALONE}" if drawn else ""
    before = drawn_for_weights(trace)
    if before:
        return f"{_kinds(before)}: {SHAPE_ALONE}"
    after = () if weights_shown_alone(shown) else drawn_after_weights(trace)
    if not after:
        return ""
    which = " before it" if DROPOUT in after else ""
    return f"random {listed(after)}: the weights{which} are real, what is computed from them is not"


def _kinds(drawn: tuple[str, ...]) -> str:
    """What is random; and what is not, where a reader might think it is."""
    if VECTORS in drawn:
        return "random vectors"
    if drawn == (DROPOUT,):
        return f"random {DROPOUT}"
    return f"given vectors, random {PROJECTIONS if PROJECTIONS in drawn else drawn[0]}"
