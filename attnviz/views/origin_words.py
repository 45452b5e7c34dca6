"""Where the numbers of a model come from, in words, and what its author says about its heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attnviz.traces.models.card import CAN_BE_ASKED
from attnviz.traces.models.model import EVERYTHING, Model, Sight
from attnviz.traces.origin import FromWeights, table_behind
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.axes import Axis, dimension_axis, named_dimensions
from attnviz.views.grids.grid import Grid
from attnviz.views.reading import alone
from attnviz.views.view import Group
from attnviz.wording.numbers import exact_text, percent
from attnviz.wording.words import counted, listed

READS, READ = "reads", "read"  # of one head, and of several


def are_given(trace: Trace, *, several: bool = True) -> str:
    """`are given`; for a model, `were learned` or `were written by hand`."""
    if trace.trained is None and trace.model is None:
        return "are given" if several else "is given"
    by_hand = trace.model is not None and trace.model.by_hand
    return f"{'were' if several else 'was'} {'written by hand' if by_hand else 'learned'}"


def to_learn(trace: Trace) -> str:
    """How parameters are described after their number: `800 numbers to learn`."""
    if trace.trained is None and trace.model is None:
        return "to learn"
    by_hand = trace.model is not None and trace.model.by_hand
    return "written by hand" if by_hand else "that were learned"


def of_a_model(trace: Trace) -> str:
    """` of the model agreement`, of what is done to a sentence."""
    model = trace.trained or trace.model
    return "" if model is None else f" of the model {model.name}"


def whose(given: FromWeights) -> str:
    """Whose weights were handed over, where that is said."""
    return given.name or "given weights"


def of_a_table(trace: Trace) -> str:
    """Which trained model's embeddings the tokens have, if they have any."""
    table = table_behind(trace.origin)
    if table is None:
        return ""
    whose = Path(trace.origin.settings.embeddings or "").name
    about = f" They are trained: rows of {whose}'s embedding table, before its first layer."
    about += f" A token that {whose} splits into several pieces gets the mean of their rows."
    if table.kept is None:
        return about
    left, kept = trace.embeddings.shape[1], percent(table.kept, 1)
    return (
        f"{about} Only {left} of {table.width} dimensions are kept: the first principal components "
        f"of its word vectors, with {kept} of their variance."
    )


def what_heads_do(trace: Trace) -> tuple[str, ...]:
    """What each head was written to do, or what it attended to most when the model was tested."""
    model = trace.model
    if model is None or not model.heads:
        return ()
    if model.by_hand:
        told = "" if as_written(trace) else " (as written)"
        return tuple(f"{_called(trace, head)}{told}: {does}" for head, does in model.heads.items())
    return tuple(_examined(model)) if as_written(trace) else ()


def as_written(trace: Trace) -> bool:
    """Whether a model's heads are what they were made to be: nothing changes what they see."""
    settings = trace.origin.settings
    return all(getattr(settings, name) is None for name in CAN_BE_ASKED)


def _called(trace: Trace, head: str) -> str:
    """`head 1` of the only layer, else `L0H1`."""
    return f"head {head.partition('H')[2]}" if alone(trace) else head


def _examined(model: Model) -> Iterator[str]:
    """`L1H1 reads the subject (99 % of its attention); L0H0 and L0H1 read the token before …`"""
    count, scores = model.facts.get("sentences"), model.facts.get("scores")
    if not isinstance(count, int) or count < 1 or not isinstance(scores, dict):
        return
    doing: dict[str, dict[str, float]] = {}
    for head, does in model.heads.items():
        if isinstance(scores.get(head), float) and 0 <= scores[head] <= 1:
            doing.setdefault(does, {})[head] = scores[head]
    told = [_done(does, heads) for does, heads in doing.items()]
    if told:
        yield f"in {counted(count, 'sentence')} not used in training, {'; '.join(told)}"


def _done(does: str, heads: Mapping[str, float]) -> str:
    """What one head does, or several do, and how much of their attention that takes."""
    low, high = (percent(each(heads.values())) for each in (min, max))
    if len(heads) == 1:
        return f"{next(iter(heads))} {does} ({low} of its attention)"
    several = does.replace(READS, READ, 1) if does.startswith(READS) else f"each {does}"
    span = low if low == high else f"{low} to {high}"
    return f"{listed([*heads])} {several} ({span} of their attention)"


def beyond_what_it_learned(trace: Trace) -> str:
    """That a model was never trained on so few tokens, or so many, where that matters."""
    model = trace.model
    lengths = () if model is None else _lengths(model.facts.get("tokens"))
    if model is None or not lengths:
        return ""
    count, (shortest, longest) = len(trace.tokens), lengths
    begun = trace.variant.causal and model.vocabulary.predicts == "next"  # as every sentence is
    if count <= longest and (begun or count >= shortest):
        return ""
    span = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
    return (
        f"{model.name} was trained on sentences of {span} tokens; this one has {count}, "
        "a length it never saw in training"
    )


def _lengths(told: object) -> tuple[int, ...]:
    """The shortest and the longest length; nothing where a file says something else."""
    numbers = told if isinstance(told, list) and len(told) == 2 else ()
    return tuple(each for each in numbers if isinstance(each, int))


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


OF_MODEL = ("dim", "context")  # sides of tensors that count the numbers of an embedding,
OF_HEAD = {"width": "asks", "head_value": "hands"}  # those of one head, and by whom they are named,
OF_ALL_HEADS = {  # and those of all heads side by side
    "query_width": "asks",
    "key_width": "asks",
    "value_width": "hands",
    "joined_width": "hands",
}


def axis_of(trace: Trace, layer: Layer, side: str, count: int, head: int = 0) -> Axis:
    """A side that counts the numbers of vectors, as the table of parts calls it; of one head."""
    names = names_of(trace, layer, side, head)
    return named_dimensions(names) if len(names) == count else dimension_axis(count)


def names_of(trace: Trace, layer: Layer, side: str, head: int = 0) -> Sequence[str]:
    """The name of each number; nothing where nobody gave any."""
    model = trace.model
    if model is None:
        return ()
    if side in OF_MODEL:
        return model.dimensions
    if side in OF_HEAD:
        of_heads: Mapping[str, Sequence[str]] = getattr(model, OF_HEAD[side])
        return of_heads.get(f"{layer.name}H{head}", ())
    if side in OF_ALL_HEADS:
        of_heads = getattr(model, OF_ALL_HEADS[side])
        return _side_by_side(of_heads, layer)
    return ()


def _side_by_side(of_heads: Mapping[str, Sequence[str]], layer: Layer) -> Sequence[str]:
    """`H0 animal`, where there are several heads."""
    return [
        f"H{head} {name}" if layer.heads > 1 else name
        for head in range(layer.heads)
        for name in of_heads.get(f"{layer.name}H{head}", ())
    ]
