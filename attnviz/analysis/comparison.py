"""Ways of attending side by side on the same sentence, subtracted and measured.

What may be compared is the table of `aspects.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.aspects import (
    ASPECTS,
    TEXT,
    WITHOUT,
    chosen_aspect,
    chosen_reference,
    chosen_values,
    refuse_no_model,
    refuse_of_a_model,
)
from attnviz.analysis.measures import Measures, Weights, measure
from attnviz.analysis.texts import names_of, other_source
from attnviz.attention import arithmetic
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import Cells, Whole
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, named
from attnviz.traces.early_checks import refuse_missing_layer
from attnviz.traces.from_text import needed_for, trace_of
from attnviz.traces.memory_estimate import refuse_ways
from attnviz.traces.parts import OF_A_BLOCK
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, chosen_variant
from attnviz.traces.source import (
    Source,
    command_of,
    source_of,
    tokens_of,
    width_of,
    with_vectors,
)
from attnviz.traces.trace import Layer, Provenance, Trace, refuse_weights_alone
from attnviz.traces.trained.place import is_trained
from attnviz.traces.weights import array, mask_of
from attnviz.wording.commands import Command
from attnviz.wording.keywords import of_its_kinds
from attnviz.wording.words import listed

OWN = ("by", "other", "values", "reference", "layer")  # keywords beside those of Settings
NEXT_TO_NOTHING = 1e-6  # a weight, or a difference, that is none


@dataclass(frozen=True, eq=False)
class Alternative:
    """One way of attending: what it is called, what it does, and what is wrong with it if it is."""

    name: str
    weights: Weights
    visible: Bool[Tensor, "*head query key"]
    tokens: Tokens
    keys: Tokens
    mistake: str = ""
    trace: Trace | None = None  # none where only scores were given
    number: int = 0  # of the layer that is compared

    @property
    def layer(self) -> Layer | None:
        """The attention that is compared."""
        return None if self.trace is None else self.trace.layers[self.number]

    @property
    def of_scores_alone(self) -> bool:
        """Whether the softmax is taken of scores that are only divided, not bent or added to.

        Then it is a theorem that dividing them by more makes no row sharper. By log(divisor), the
        derivative of a row's entropy in nats is the variance of what the softmax gets, under the
        row's weights; and a variance is never negative.
        """
        if self.layer is None:
            return False
        attended = self.layer.attended
        others = (attended.capped_scores, attended.bias, attended.mask)
        return all(each is None for each in others)

    def cells(self, head: int | None) -> Cells:
        """The weights of a head, or in the mean of all."""
        values, masked = array(_of_head(self.weights, head)), ~array(self.seen(head))
        leaks = (abs(values) > NEXT_TO_NOTHING) & bool(self.mistake)  # and is to be seen
        return Whole(values, masked & ~leaks)

    def seen(self, head: int | None) -> Bool[Tensor, "query key"]:
        """What a head may read, or any head."""
        by_head: Tensor = self.visible if self.visible.ndim == 3 else self.visible[None]
        return by_head.any(0) if head is None else mask_of(head, self.visible)

    @property
    def right(self) -> Weights:
        """Of a mistake: what the weights of the same scores should be."""
        assert self.layer is not None
        return arithmetic.attention_weights(self.layer.attended.logits, self.visible)

    def from_what_is_right(self, rows: slice) -> float:
        """How far a mistake's weights are from those, at most."""
        return float((self.weights - self.right)[:, rows].abs().max())


@dataclass(frozen=True)
class LargestChange:
    """The cell that differs most from the reference."""

    head: int | None  # None: in the mean of the heads
    query: int
    key: int
    before: float
    after: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Showable):
    """Alternatives, what each measures, and how far each is from the reference.

    >>> from attnviz import compare
    >>> found = compare("I am", by="mask", values=["causal", "none"])
    >>> found.alternatives[1].name, found.changes[1].query
    ('none', 0)
    """

    by: str
    alternatives: tuple[Alternative, ...]
    reference: int
    measures: tuple[Measures, ...]
    differences: tuple[Weights | None, ...]  # None: for the reference, and for other tokens
    changes: tuple[LargestChange | None, ...]
    query: int | None = None  # shown alone, if it is not None
    provenance: Provenance | None = None
    command: Command | None = None  # the one that would make it, where there is one

    @property
    def base(self) -> Alternative:
        """The one that the others are held against."""
        return self.alternatives[self.reference]

    @property
    def rows(self) -> slice:
        """The rows that are shown: all, or the one of the query that is shown alone."""
        return slice(None) if self.query is None else slice(self.query, self.query + 1)

    @property
    def heads(self) -> int | None:
        """How many all alternatives have; None where they have not as many."""
        counts = {len(each.weights) for each in self.alternatives}
        return counts.pop() if len(counts) == 1 else None

    def difference(self, place: int, head: int | None) -> Cells | None:
        """What an alternative reads more or less than the reference, in a head or in the mean."""
        difference = self.differences[place]
        if difference is None:
            return None
        values = array(_of_head(difference, head))
        seen = array(self.alternatives[place].seen(head) | self.base.seen(head))
        return Whole(values, ~seen & (abs(values) <= NEXT_TO_NOTHING))


@of_its_kinds
def compare(
    text: str | Trace | None,
    settings: Settings | None = None,
    *,
    by: str | None = None,
    other: str | None = None,
    values: Sequence[object] | None = None,
    reference: object = None,
    layer: int | None = None,
    command: str | None = None,
    **changes: Any,
) -> Comparison:
    """Ways of attending to a text, held against the first of them, or against `reference`.

    In place of a text a Trace will do: it knows what it was made of. With an `other` text both
    are attended to in one way, and held against each other. Of a model's layers one is compared:
    the last, unless another is asked for.

    >>> from attnviz import compare
    >>> compare("I am learning this", by="mask", values=["causal", "none"]).view().closing[0]
    'largest change from causal to none: I → I: 1.0 → .28'
    """
    if isinstance(text, Trace):
        refuse_weights_alone(text, "kinds of attention are compared by vectors and scores", "by")
    aspect = chosen_aspect(by, values, texts=other is not None)
    source = source_of(text, settings, OWN, **changes)
    _refuse_trained(source, other)
    _refuse_blocks(source)
    _refuse_what_is_given(source, aspect)
    number = _layer_of(source, layer)
    alternatives = _alternatives(source, aspect, values, other, command, number)
    first = alternatives[0].trace
    names = [each.name for each in alternatives]
    contrasted = contrast(alternatives, aspect, chosen_reference(names, reference))
    listed = None if values is None else ",".join(names)
    named = None if aspect in ("scale", TEXT) else aspect
    asked = {"by": named, "values": listed, "reference": reference, "layer": layer}
    again = command_of("compare", source, **asked)
    return replace(
        contrasted,
        provenance=first.provenance if first else None,
        command=again and replace(again, second=other),
    )


def _layer_of(source: Source, asked: int | None) -> int:
    """The number of the layer that is compared."""
    layers = source.decided.layers or 1
    if asked and source.model is None:
        raise AttnvizError(
            f"--layer is {asked}, but only a single attention layer is compared",
            "leave --layer out, or compare the attention of a --model",
            about="layer",
        )
    if asked is not None:
        refuse_missing_layer(asked, layers)
    return layers - 1 if asked is None else asked


def _refuse_trained(source: Source, other: str | None) -> None:
    """Two sentences that a transformer reads are compared head by head, of any length."""
    if other is not None and source.model is None and is_trained(source.settings.model):
        raise AttnvizError(
            f"the trained model '{source.settings.model}' is compared head by head, with both "
            "sentences",
            f"use attnviz compare TEXT OTHER --model {source.settings.model}; in Python "
            "compare_sentences(text, other)",
        )


def _refuse_blocks(source: Source) -> None:
    if source.model is not None:  # whose attention is what it is, wherever it stands
        return
    if source.settings.blocks:
        raise AttnvizError(
            "compare works on a single attention layer, not on transformer blocks",
            "leave layers and memory out, or see a block with attnviz run or attnviz steps",
        )
    given = source.matrices
    of_block = [name for name in given.tensors if name in (*OF_A_BLOCK, "memory")]
    if of_block or given.above:
        told = listed(of_block) if of_block else "matrices of layers above the first"
        raise AttnvizError(
            "compare works on a single attention layer, not on transformer blocks, and "
            f"'{given.source}' gives {told}",
            "leave them out of the file, or see a block with attnviz run or attnviz steps: "
            "--layers 1",
            about=of_block[0] if of_block else "layers",
            file=given.source,
        )


def _refuse_what_is_given(source: Source, by: str) -> None:
    """What is given is the same in every way of attending, whatever that way is called."""
    if by == "tokenizer" and source.text is None:
        raise AttnvizError(
            "there is no text to tokenize: the tokens are given",
            "give a text, or compare by something else",
        )
    if source.model is None:
        refuse_no_model(by)
    else:
        refuse_of_a_model(by, source.model)
    given = [
        name for name in _NOT_COMPARED.get(by, ()) if getattr(source.matrices, name) is not None
    ]
    if given:
        raise AttnvizError(
            f"{source.matrices.called} gives '{given[0]}', which --by {by} would not change",
            f"leave '{given[0]}' out, or compare by something else",
            file=source.matrices.source,
        )


_NOT_COMPARED = {"mask": ("visible",), "dim": ("queries", "keys", "scores")}


def compare_scores(
    scores: Float[Tensor, "head query key"],
    width: int,
    visible: Bool[Tensor, "query key"] | None = None,
    labels: Sequence[str] | None = None,
) -> Comparison:
    """Softmax of given scores as they are, beside softmax of them divided by √width.

    >>> import torch
    >>> from attnviz import compare_scores
    >>> found = compare_scores(torch.tensor([[[8.0, 0.0], [0.0, 8.0]]]), 64)
    >>> [each.name for each in found.alternatives]
    ['unscaled', 'scaled']
    """
    queries, keys = scores.shape[-2:]
    seen = torch.ones(queries, keys, dtype=torch.bool) if visible is None else visible
    shown = named(labels or [str(number + 1) for number in range(keys)])
    alternatives = [
        Alternative(name, arithmetic.attention_weights(scores * scale, seen), seen, shown, shown)
        for name, scale in (("unscaled", 1.0), ("scaled", width**-0.5))
    ]
    return contrast(alternatives, "scale", 0)


def contrast(alternatives: Sequence[Alternative], by: str, reference: int) -> Comparison:
    """Measure each alternative, and subtract the reference from it."""
    base = alternatives[reference]
    pairs = [_comparable(base, other, by) for other in alternatives]
    measures = [
        measure(other.weights, other.visible, _matched(pair, other.weights))
        for other, pair in zip(alternatives, pairs, strict=True)
    ]
    differences = [
        None if pair is None or other is base else pair[1].double() - pair[0].double()
        for other, pair in zip(alternatives, pairs, strict=True)
    ]
    changes = [
        None if difference is None or pair is None else _largest(difference, *pair)
        for difference, pair in zip(differences, pairs, strict=True)
    ]
    return Comparison(
        by=by,
        alternatives=tuple(alternatives),
        reference=reference,
        measures=tuple(measures),
        differences=tuple(differences),
        changes=tuple(changes),
    )


def restricted(comparison: Comparison, query: int) -> Comparison:
    """The same comparison of one query's row alone."""
    changes: list[LargestChange | None] = []
    for other, difference in zip(comparison.alternatives, comparison.differences, strict=True):
        pair = _comparable(comparison.base, other, comparison.by)
        if difference is None or pair is None:
            changes.append(None)
            continue
        before, after = (each[:, query : query + 1] for each in pair)
        change = _largest(difference[:, query : query + 1], before, after)
        changes.append(replace(change, query=query))
    return replace(comparison, query=query, changes=tuple(changes))


def alternative(
    source: Source, by: str, name: str, command: str | None = None, number: int = 0
) -> Alternative:
    """The way of attending that a value stands for."""
    mistake = MISTAKES.get(name) if by == "mask" else None
    traced = trace_of(
        _chosen(source, by, name), mistake=mistake.name if mistake else "", command=command
    )
    layer = traced.layers[number]
    return Alternative(
        name=name,
        weights=layer.attended.weights,
        visible=layer.visible,
        tokens=traced.tokens,
        keys=traced.keys,
        mistake=mistake.about if mistake else "",
        trace=traced,
        number=number,
    )


def _alternatives(
    source: Source,
    by: str,
    values: Sequence[object] | None,
    other: str | None,
    command: str | None,
    number: int,
) -> list[Alternative]:
    """What is compared: two sentences, or one in several ways."""
    if other is not None:
        both = (source, other_source(source, other))
        _refuse_too_much(both)
        pairs = zip(both, names_of(*both), strict=True)
        return [alternative(each, by, name, command, number) for each, name in pairs]
    names = _with_a_scale(source, chosen_values(by, values), asked=values is not None)
    if "model-scale" in names:
        source = replace(source, settings=_with_a_narrow_head(source))
    _refuse_too_much([_chosen(source, by, name) for name in names])
    return [alternative(source, by, name, command, number) for name in names]


def _with_a_scale(source: Source, names: tuple[str, ...], *, asked: bool) -> tuple[str, ...]:
    """Where nothing is scaled, nothing can be scaled by mistake."""
    settings = source.decided
    if "model-scale" not in names or chosen_variant(settings).scaled:
        return names
    if asked:
        raise AttnvizError(
            "'model-scale' divides scores by the wrong number, but here scores are not divided "
            "at all",
            "leave it out of --values, or give --scale",
        )
    return tuple(name for name in names if name != "model-scale")


def _chosen(source: Source, by: str, name: str) -> Source:
    """The same source in the way that a value stands for."""
    choose = ASPECTS[by].choose
    chosen = replace(source, settings=choose(source.settings, name))
    if source.model is None or by == WITHOUT:  # a model itself has all of its heads
        return chosen
    # What its own settings say goes as well: a window, where there is to be none.
    return replace(
        chosen, model=replace(source.model, settings=choose(source.model.settings, name))
    )


def _refuse_too_much(sources: Sequence[Source]) -> None:
    """Each way may fit in memory, and all of them not."""
    needs, cells = zip(*map(needed_for, sources), strict=True)
    refuse_ways(needs, cells, len(tokens_of(sources[0])))


def _with_a_narrow_head(source: Source) -> Settings:
    """To show √(model width) taken for √(head width) the two must differ: a head half as wide."""
    settings = source.settings
    if source.model is not None:
        return settings
    given = source.matrices.sizes.keys() & {"width", "query_width"}
    own = settings.heads is not None or settings.head_dim is not None or given
    variant = chosen_variant(settings)
    if own or not variant.projected or variant.heads > 1:
        return settings
    tokens = tokens_of(source)
    dim = width_of(with_vectors(source, tokens))
    return replace(settings, head_dim=max(1, dim // 2))


def _of_head(weights: Weights, head: int | None) -> Float[Tensor, "query key"]:
    chosen: Tensor = weights.mean(0) if head is None else weights[head]
    return chosen


def _comparable(base: Alternative, other: Alternative, by: str) -> tuple[Weights, Weights] | None:
    """The weights of both, head by head; their means if the heads are not as many.

    Tokens have to be the same, but of two sentences, which are compared place by place.
    """
    same = by == TEXT or base.tokens.ids == other.tokens.ids
    if base.weights.shape[1:] != other.weights.shape[1:] or not same:
        return None
    ours, theirs = base.weights.cpu(), other.weights.cpu()
    if len(ours) == len(theirs):
        return ours, theirs
    return ours.mean(0, keepdim=True), theirs.mean(0, keepdim=True)


def _matched(pair: tuple[Weights, Weights] | None, weights: Weights) -> Weights | None:
    """The reference's weights, as many heads of them as there are to be held against it."""
    if pair is None:
        return None
    reference = pair[0].to(weights.device)
    return reference if len(reference) == len(weights) else reference.expand_as(weights)


def _largest(difference: Weights, before: Weights, after: Weights) -> LargestChange:
    sizes = difference.abs()
    head, row = divmod(int(sizes.argmax()), difference[0].numel())
    query, key = divmod(row, difference.shape[-1])
    cell = head, query, key
    return LargestChange(
        head=None if len(difference) == 1 else head,
        query=query,
        key=key,
        before=float(before[cell]),
        after=float(after[cell]),
    )
