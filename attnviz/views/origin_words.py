"""Phrases on where a model's numbers come from, and what its author says of its heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attnviz.traces.models.model import FULL_SIGHT, Model, Sight
from attnviz.traces.origin import FromWeights, is_unmodified_model, origin_table
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.axes import Axis, dimension_axis, named_dimensions
from attnviz.views.grids.grid import Grid
from attnviz.views.reading import has_single_attention
from attnviz.views.view import Group
from attnviz.wording.numbers import exact_text, percent_text
from attnviz.wording.words import and_list, counted

READS_VERB, READ_VERB = "reads", "read"  # the verb for one head, and for several
EMBEDDING_SIDES = ("dim", "context")  # axes of tensors that count the dimensions of embeddings
HEAD_SIDES = {"width": "asks", "head_value": "hands"}  # those of one head: the field with names
JOINED_HEAD_SIDES = {  # those of all heads side by side
    "query_width": "asks",
    "key_width": "asks",
    "value_width": "hands",
    "joined_width": "hands",
}


def parameters_origin_text(trace: Trace, *, is_plural: bool = True) -> str:
    """Return `are given`, or for a model `were learned` or `were written by hand`; in the singular
    unless `is_plural`.
    """
    if trace.trained is None and trace.model is None:
        return "are given" if is_plural else "is given"
    by_hand = trace.model is not None and trace.model.by_hand
    return f"{'were' if is_plural else 'was'} {'written by hand' if by_hand else 'learned'}"


def parameter_count_suffix(trace: Trace) -> str:
    """Return what follows a number of parameters: `to learn`, or for a model `that were learned` or
    `written by hand`.
    """
    if trace.trained is None and trace.model is None:
        return "to learn"
    by_hand = trace.model is not None and trace.model.by_hand
    return "written by hand" if by_hand else "that were learned"


def model_suffix(trace: Trace) -> str:
    """Return ` of the model agreement`; empty without a model."""
    model = trace.trained or trace.model
    return "" if model is None else f" of the model {model.name}"


def weights_owner(source: FromWeights) -> str:
    return source.name or "given weights"


def embedding_table_note(trace: Trace) -> str:
    """Return sentences, after a space, on the trained model whose embeddings the tokens have, and
    on dimensions left out; empty without such a model.
    """
    table = origin_table(trace.origin)
    if table is None:
        return ""
    model_name = Path(trace.origin.settings.embeddings or "").name
    description = (
        f" They are trained: rows of {model_name}'s embedding table, before its first layer."
        f" A token that {model_name} splits into several pieces gets the mean of their rows."
    )
    if table.kept is None:
        return description
    return (
        f"{description} Only {trace.embeddings.shape[1]} of {table.width} dimensions are kept: "
        "the first principal components of its word vectors, "
        f"with {percent_text(table.kept, 1)} of their variance."
    )


def head_role_notes(trace: Trace) -> tuple[str, ...]:
    """Return what each head was written to do, or for a trained model what it attended to most in
    its test.

    Empty without a model or roles, and for a trained model whose settings were changed.
    """
    model = trace.model
    if model is None or not model.heads:
        return ()
    if model.by_hand:
        suffix = "" if is_unmodified_model(trace.origin) else " (as written)"
        names = {head: head for head in model.heads}
        if has_single_attention(trace):
            names = {head: f"head {head.partition('H')[2]}" for head in model.heads}
        return tuple(f"{names[head]}{suffix}: {does}" for head, does in model.heads.items())
    return tuple(_measured_roles(model)) if is_unmodified_model(trace.origin) else ()


def _measured_roles(model: Model) -> Iterator[str]:
    """Yield one sentence such as `In 500 sentences not used in training, L1H1 reads the subject (99
    % of its attention); …`; nothing where the model's file has no valid scores.
    """
    count, scores = model.facts.get("sentences"), model.facts.get("scores")
    if not isinstance(count, int) or count < 1 or not isinstance(scores, dict):
        return
    scores_by_role: dict[str, dict[str, float]] = {}
    for head, role in model.heads.items():
        if isinstance(scores.get(head), float) and 0 <= scores[head] <= 1:
            scores_by_role.setdefault(role, {})[head] = scores[head]
    role_texts = [_role_text(role, heads) for role, heads in scores_by_role.items()]
    if role_texts:
        yield f"In {counted(count, 'sentence')} not used in training, {'; '.join(role_texts)}"


def _role_text(role: str, heads: Mapping[str, float]) -> str:
    """Return what one or several heads do, and the share of attention that takes: `L0H0 and L0H1
    read … (90 % to 95 % of their attention)`; `heads` maps names to shares.
    """
    lowest, highest = (percent_text(bound(heads.values())) for bound in (min, max))
    if len(heads) == 1:
        return f"{next(iter(heads))} {role} ({lowest} of its attention)"
    is_reading = role.startswith(READS_VERB)
    plural_role = role.replace(READS_VERB, READ_VERB, 1) if is_reading else f"each {role}"
    span = lowest if lowest == highest else f"{lowest} to {highest}"
    return f"{and_list([*heads])} {plural_role} ({span} of their attention)"


def untrained_length_note(trace: Trace) -> str:
    """Return a note that the sentence has a length the model never saw in training; empty
    otherwise, and where training lengths are unknown.
    """
    lengths, count = trained_lengths(trace), len(trace.tokens)
    if lengths is None or lengths.shortest <= count <= lengths.longest:
        return ""
    return f"{lengths.note}; this one has {count}, a length it never saw in training"


@dataclass(frozen=True)
class TrainedLengths:
    """The numbers of tokens that a model was trained on, and a note that says so."""

    shortest: int
    longest: int
    note: str


def trained_lengths(trace: Trace) -> TrainedLengths | None:
    """Return the lengths of the sentences that a model was trained on; None if not known."""
    model = trace.model
    lengths = None if model is None else model.facts.get("tokens")
    if model is None or not isinstance(lengths, list) or len(lengths) != 2:
        return None
    if not all(isinstance(number, int) for number in lengths):
        return None
    shortest, longest = lengths
    span = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
    # Such a model was trained on every beginning of its sentences, so no length is too short.
    reads_beginnings = trace.variant.causal and model.vocabulary.predicts == "next"
    note = f"{model.name} was trained on sentences of {span} tokens"
    return TrainedLengths(0 if reads_beginnings else shortest, longest, note)


def written_head_role(trace: Trace, layer: Layer, head: int) -> str:
    """Return what a head was written to do; empty for learned heads, which only numbers describe,
    and for changed settings.
    """
    model = trace.model
    if model is None or not model.by_hand or not is_unmodified_model(trace.origin):
        return ""
    return model.heads.get(f"{layer.name}H{head}", "")


def add_role_titles(trace: Trace, groups: Sequence[Group]) -> list[Group]:
    """Return the groups with what each head of a model written by hand was written to do, added to
    the titles of its weights; other groups and models are unchanged.
    """
    layers = {f"weights {layer.name}": layer for layer in trace.layers}
    return [
        _with_role_titles(trace, layers[group.name], group)
        if group.name in layers and group.kind == "free"
        else group
        for group in groups
    ]


def _with_role_titles(trace: Trace, layer: Layer, group: Group) -> Group:
    """Return the group with what each head was written to do after the panel titles."""
    panels = (
        replace(panel, title=f"{panel.title}: {sentence}")
        if isinstance(panel, Grid) and (sentence := written_head_role(trace, layer, head))
        else panel
        for head, panel in enumerate(group.panels)
    )
    return replace(group, panels=tuple(panels))


def head_sight(trace: Trace, layer: Layer, head: int) -> Sight:
    """Return which keys a head may attend to and what is added to its scores; FULL_SIGHT where the
    model's author restricted nothing.
    """
    model = trace.model
    sights = () if model is None else model.sights
    return sights[layer.layer][head] if sights else FULL_SIGHT


def sentences_by_heads(
    trace: Trace, layer: Layer, heads: Sequence[int], text_of: Callable[[Sight], str]
) -> tuple[str, ...]:
    """Return `In head 0 and head 1, ….` for each different text on the sight of these heads; heads
    with an empty text are left out.

    `text_of` is `sight_text` (which keys they may attend to) or `preferences_text` (what is added
    to their scores).
    """
    text_by_head = {head: text_of(head_sight(trace, layer, head)) for head in heads}
    heads_by_text = {
        text: [head for head in text_by_head if text_by_head[head] == text]
        for text in text_by_head.values()
        if text
    }
    return tuple(
        f"In {and_list([f'head {number}' for number in heads])}, {clause}."
        for clause, heads in heads_by_text.items()
    )


def sight_text(sight: Sight) -> str:
    """Return which words a head may attend to, as a clause; empty for all words."""
    reads_itself = sight.itself is not None
    if sight.sees == "all":
        return "" if reads_itself else "a word may read every word except itself"
    return f"a word may read {'itself and' if reads_itself else 'only'} the words {sight.sees} it"


def preferences_text(sight: Sight) -> str:
    """Return what is added to or subtracted from scores, as a clause; empty for nothing."""
    parts = []
    if sight.itself:
        parts.append(f"{exact_text(sight.itself)} is added to the score of a word with itself")
    if sight.near:
        parts.append(f"{exact_text(sight.near)} is subtracted per position of distance")
    return and_list(parts) if parts else ""


def vector_axis(trace: Trace, layer: Layer, side: str, count: int, head: int = 0) -> Axis:
    """Return the axis of vectors of `count` numbers: with the names of a model written by hand if
    there are exactly `count`, else numbered.

    `side` is the name of the tensor's axis: 'dim', 'head_value'.
    """
    names = dimension_names(trace, layer, side, head)
    return named_dimensions(names) if len(names) == count else dimension_axis(count)


def dimension_names(trace: Trace, layer: Layer, side: str, head: int = 0) -> Sequence[str]:
    """Return the name of each dimension along the axis `side` of a tensor ('dim', 'head_value',
    'query_width'); empty without a model written by hand and for axes without names.

    Axes that join all heads have the names of every head, each with `H0` before it if there are
    several; `head` counts only for axes of one head.
    """
    model = trace.model
    if model is None:
        return ()
    if side in EMBEDDING_SIDES:
        return model.dimensions
    if side in HEAD_SIDES:
        names_by_head: Mapping[str, Sequence[str]] = getattr(model, HEAD_SIDES[side])
        return names_by_head.get(f"{layer.name}H{head}", ())
    if side not in JOINED_HEAD_SIDES:
        return ()
    names_by_head = getattr(model, JOINED_HEAD_SIDES[side])
    return [
        f"H{head} {name}" if layer.heads > 1 else name
        for head in range(layer.heads)
        for name in names_by_head.get(f"{layer.name}H{head}", ())
    ]
