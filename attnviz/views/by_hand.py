"""What the author of a model written by hand says about its heads, and what each may read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnviz.traces.models.sight import EVERYTHING, Sight
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.grid import Grid
from attnviz.views.view import Group
from attnviz.views.whose import as_written
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import listed


def sentence_of(trace: Trace, layer: Layer, head: int) -> str:
    """What a head was written to do; nothing for learned heads, which only numbers describe."""
    model = trace.model
    if model is None or not model.by_hand or not as_written(trace):
        return ""
    return model.heads.get(f"{layer.name}H{head}", "")


def titled_by_sentences(trace: Trace, groups: Sequence[Group]) -> list[Group]:
    """Weights, as pictures have them: with what each head looks for over them."""
    layers = {f"weights {layer.name}": layer for layer in trace.layers}
    return [
        _titled(trace, layers[group.name], group)
        if group.name in layers and group.kind == "free"
        else group
        for group in groups
    ]


def _titled(trace: Trace, layer: Layer, group: Group) -> Group:
    panels = (
        replace(panel, title=f"{panel.title}: {sentence}")
        if isinstance(panel, Grid) and (sentence := sentence_of(trace, layer, head))
        else panel
        for head, panel in enumerate(group.panels)
    )
    return replace(group, panels=tuple(panels))


def sight_of(trace: Trace, layer: Layer, head: int) -> Sight:
    """What a head may read, and what it prefers, where somebody wrote it."""
    model = trace.model
    sights = () if model is None else model.sights
    return sights[layer.layer][head] if sights else EVERYTHING


def told_of_sights(trace: Trace, layer: Layer, heads: Sequence[int]) -> tuple[str, ...]:
    """What is masked in heads, each thing said once: `In head 0, a word may read …`"""
    told = {head: _seen(sight_of(trace, layer, head)) for head in heads}
    return _of_heads(told)


def told_of_preferences(trace: Trace, layer: Layer, heads: Sequence[int]) -> tuple[str, ...]:
    """What is added to scores in heads, each thing said once."""
    return _of_heads({head: _added(sight_of(trace, layer, head)) for head in heads})


def _of_heads(told: dict[int, str]) -> tuple[str, ...]:
    said = {each: [head for head in told if told[head] == each] for each in told.values() if each}
    return tuple(
        f"In {listed([f'head {n}' for n in heads])}, {what}." for what, heads in said.items()
    )


def _seen(sight: Sight) -> str:
    own = sight.itself is not None
    if sight.sees == "all":
        return "" if own else "a word may read every word except itself"
    where = f"the words {sight.sees} it"
    return f"a word may read itself and {where}" if own else f"a word may read only {where}"


def _added(sight: Sight) -> str:
    parts = list(_parts_added(sight))
    return listed(parts) if parts else ""


def _parts_added(sight: Sight) -> Iterator[str]:
    if sight.itself:
        yield f"{exact_text(sight.itself)} is added to the score of a word with itself"
    if sight.near:
        yield f"{exact_text(sight.near)} is subtracted per position of distance"
