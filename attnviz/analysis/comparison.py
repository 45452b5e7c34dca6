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
    ABLATION_ASPECT,
    ASPECTS,
    TEXT_ASPECT,
    choose_aspect,
    choose_reference,
    choose_values,
    refuse_ablation_alone,
    refuse_model_change,
)
from attnviz.analysis.measures import Measures, Weights, measure_weights
from attnviz.analysis.second_sentence import second_source, sentence_names
from attnviz.attention import arithmetic
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import Cells, StoredCells
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, tokens_of_words
from attnviz.traces.early_checks import refuse_missing_layer
from attnviz.traces.from_text import estimate_source_memory, trace_source
from attnviz.traces.memory_estimate import refuse_oversized_comparison
from attnviz.traces.parts import GIVEN_BLOCK_NAMES
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, chosen_variant
from attnviz.traces.source import (
    Source,
    build_source,
    embedding_width,
    source_command,
    source_tokens,
    with_vectors,
)
from attnviz.traces.trace import Layer, Provenance, Trace, refuse_weights_only
from attnviz.traces.trained.model_location import is_trained
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.wording.commands import Command
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.words import and_list

COMPARE_KEYWORDS = (
    "by",
    "other",
    "values",
    "reference",
    "layer",
)  # keywords beside those of Settings
MIN_VISIBLE_WEIGHT = 1e-6  # a weight, or a difference, that is none


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
    def uses_scores_alone(self) -> bool:
        """Whether the softmax is taken of scores that are only divided, not bent or added to.

        Then it is a theorem that dividing them by more makes no row sharper. By log(divisor), the
        derivative of a row's entropy in nats is the variance of what the softmax gets, under the
        row's weights; and a variance is never negative.
        """
        if self.layer is None:
            return False
        attended = self.layer.attended
        extra_terms = (attended.capped_scores, attended.bias, attended.mask)
        return all(term is None for term in extra_terms)

    def cells(self, head: int | None) -> Cells:
        """The weights of a head, or in the mean of all."""
        values, masked = (
            tensor_to_numpy(_head_or_mean_weights(self.weights, head)),
            ~tensor_to_numpy(self.visible_cells(head)),
        )
        leaks = (abs(values) > MIN_VISIBLE_WEIGHT) & bool(self.mistake)  # and is to be seen
        return StoredCells(values, masked & ~leaks)

    def visible_cells(self, head: int | None) -> Bool[Tensor, "query key"]:
        """What a head may read, or any head."""
        by_head: Tensor = self.visible if self.visible.ndim == 3 else self.visible[None]
        return by_head.any(0) if head is None else head_mask(head, self.visible)

    @property
    def correct_weights(self) -> Weights:
        """Of a mistake: what the weights of the same scores should be."""
        assert self.layer is not None
        return arithmetic.attention_weights(self.layer.attended.logits, self.visible)

    def largest_error(self, rows: slice) -> float:
        """How far a mistake's weights are from those, at most."""
        return float((self.weights - self.correct_weights)[:, rows].abs().max())


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
        counts = {len(alternative.weights) for alternative in self.alternatives}
        return counts.pop() if len(counts) == 1 else None

    def difference(self, place: int, head: int | None) -> Cells | None:
        """What an alternative reads more or less than the reference, in a head or in the mean."""
        difference = self.differences[place]
        if difference is None:
            return None
        values = tensor_to_numpy(_head_or_mean_weights(difference, head))
        visible = tensor_to_numpy(
            self.alternatives[place].visible_cells(head) | self.base.visible_cells(head)
        )
        return StoredCells(values, ~visible & (abs(values) <= MIN_VISIBLE_WEIGHT))


@with_checked_arguments
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
        refuse_weights_only(text, "kinds of attention are compared by vectors and scores", "by")
    aspect = choose_aspect(by, values, texts=other is not None)
    source = build_source(text, settings, COMPARE_KEYWORDS, **changes)
    _refuse_trained_sentences(source, other)
    _refuse_blocks(source)
    _refuse_given_parts(source, aspect)
    number = _choose_layer(source, layer)
    alternatives = _build_alternatives(source, aspect, values, other, command, number)
    first = alternatives[0].trace
    names = [alternative.name for alternative in alternatives]
    contrasted = contrast_alternatives(alternatives, aspect, choose_reference(names, reference))
    values_text = None if values is None else ",".join(names)
    named_aspect = None if aspect in ("scale", TEXT_ASPECT) else aspect
    options = {"by": named_aspect, "values": values_text, "reference": reference, "layer": layer}
    repeat_command = source_command("compare", source, **options)
    return replace(
        contrasted,
        provenance=first.provenance if first else None,
        command=repeat_command and replace(repeat_command, second=other),
    )


def _choose_layer(source: Source, requested: int | None) -> int:
    """The number of the layer that is compared."""
    layers = source.resolved_settings.layers or 1
    if requested and source.model is None:
        raise AttnvizError(
            f"--layer is {requested}, but only a single attention layer is compared",
            "leave --layer out, or compare the attention of a --model",
            about="layer",
        )
    if requested is not None:
        refuse_missing_layer(requested, layers)
    return layers - 1 if requested is None else requested


def _refuse_trained_sentences(source: Source, other_text: str | None) -> None:
    """Two sentences that a transformer reads are compared head by head, of any length."""
    if other_text is not None and source.model is None and is_trained(source.settings.model):
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
    matrices = source.matrices
    block_parts = [name for name in matrices.tensors if name in (*GIVEN_BLOCK_NAMES, "memory")]
    if block_parts or matrices.upper_layers:
        parts_phrase = (
            and_list(block_parts) if block_parts else "matrices of layers above the first"
        )
        raise AttnvizError(
            "compare works on a single attention layer, not on transformer blocks, and "
            f"'{matrices.source}' gives {parts_phrase}",
            "leave them out of the file, or see a block with attnviz run or attnviz steps: "
            "--layers 1",
            about=block_parts[0] if block_parts else "layers",
            file=matrices.source,
        )


def _refuse_given_parts(source: Source, by: str) -> None:
    """What is given is the same in every way of attending, whatever that way is called."""
    if by == "tokenizer" and source.text is None:
        raise AttnvizError(
            "there is no text to tokenize: the tokens are given",
            "give a text, or compare by something else",
        )
    if source.model is None:
        refuse_ablation_alone(by)
    else:
        refuse_model_change(by, source.model)
    given_parts = [
        name
        for name in _PARTS_UNCHANGED_BY_ASPECT.get(by, ())
        if getattr(source.matrices, name) is not None
    ]
    if given_parts:
        raise AttnvizError(
            f"{source.matrices.source_text} gives '{given_parts[0]}', which --by {by} would not change",
            f"leave '{given_parts[0]}' out, or compare by something else",
            file=source.matrices.source,
        )


_PARTS_UNCHANGED_BY_ASPECT = {"mask": ("visible",), "dim": ("queries", "keys", "scores")}


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
    all_visible = torch.ones(queries, keys, dtype=torch.bool) if visible is None else visible
    tokens = tokens_of_words(labels or [str(number + 1) for number in range(keys)])
    alternatives = [
        Alternative(
            name,
            arithmetic.attention_weights(scores * scale, all_visible),
            all_visible,
            tokens,
            tokens,
        )
        for name, scale in (("unscaled", 1.0), ("scaled", width**-0.5))
    ]
    return contrast_alternatives(alternatives, "scale", 0)


def contrast_alternatives(
    alternatives: Sequence[Alternative], by: str, reference: int
) -> Comparison:
    """Measure each alternative, and subtract the reference from it."""
    base = alternatives[reference]
    pairs = [_comparable_weights(base, alternative, by) for alternative in alternatives]
    measures = [
        measure_weights(
            alternative.weights, alternative.visible, _matched_reference(pair, alternative.weights)
        )
        for alternative, pair in zip(alternatives, pairs, strict=True)
    ]
    differences = [
        None if pair is None or alternative is base else pair[1].double() - pair[0].double()
        for alternative, pair in zip(alternatives, pairs, strict=True)
    ]
    changes = [
        None if difference is None or pair is None else _largest_change(difference, *pair)
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


def restrict_to_query(comparison: Comparison, query: int) -> Comparison:
    """The same comparison of one query's row alone."""
    changes: list[LargestChange | None] = []
    for alternative, difference in zip(
        comparison.alternatives, comparison.differences, strict=True
    ):
        pair = _comparable_weights(comparison.base, alternative, comparison.by)
        if difference is None or pair is None:
            changes.append(None)
            continue
        before, after = (weights[:, query : query + 1] for weights in pair)
        change = _largest_change(difference[:, query : query + 1], before, after)
        changes.append(replace(change, query=query))
    return replace(comparison, query=query, changes=tuple(changes))


def build_alternative(
    source: Source, by: str, name: str, command: str | None = None, number: int = 0
) -> Alternative:
    """The way of attending that a value stands for."""
    mistake = MISTAKES.get(name) if by == "mask" else None
    trace = trace_source(
        _source_with_choice(source, by, name),
        mistake=mistake.name if mistake else "",
        command=command,
    )
    layer = trace.layers[number]
    return Alternative(
        name=name,
        weights=layer.attended.weights,
        visible=layer.visible,
        tokens=trace.tokens,
        keys=trace.keys,
        mistake=mistake.about if mistake else "",
        trace=trace,
        number=number,
    )


def _build_alternatives(
    source: Source,
    by: str,
    values: Sequence[object] | None,
    other_text: str | None,
    command: str | None,
    number: int,
) -> list[Alternative]:
    """What is compared: two sentences, or one in several ways."""
    if other_text is not None:
        sources = (source, second_source(source, other_text))
        _refuse_memory_of_all(sources)
        pairs = zip(sources, sentence_names(*sources), strict=True)
        return [
            build_alternative(one_source, by, name, command, number) for one_source, name in pairs
        ]
    names = _drop_scale_mistake(source, choose_values(by, values), is_requested=values is not None)
    if "model-scale" in names:
        source = replace(source, settings=_narrow_head_settings(source))
    _refuse_memory_of_all([_source_with_choice(source, by, name) for name in names])
    return [build_alternative(source, by, name, command, number) for name in names]


def _drop_scale_mistake(
    source: Source, names: tuple[str, ...], *, is_requested: bool
) -> tuple[str, ...]:
    """Where nothing is scaled, nothing can be scaled by mistake."""
    settings = source.resolved_settings
    if "model-scale" not in names or chosen_variant(settings).scaled:
        return names
    if is_requested:
        raise AttnvizError(
            "'model-scale' divides scores by the wrong number, but here scores are not divided "
            "at all",
            "leave it out of --values, or give --scale",
        )
    return tuple(name for name in names if name != "model-scale")


def _source_with_choice(source: Source, by: str, name: str) -> Source:
    """The same source in the way that a value stands for."""
    choose = ASPECTS[by].choose
    new_source = replace(source, settings=choose(source.settings, name))
    if source.model is None or by == ABLATION_ASPECT:  # a model itself has all of its heads
        return new_source
    # What its own settings say goes as well: a window, where there is to be none.
    return replace(
        new_source, model=replace(source.model, settings=choose(source.model.settings, name))
    )


def _refuse_memory_of_all(sources: Sequence[Source]) -> None:
    """Each way may fit in memory, and all of them not."""
    needs, cells = zip(*map(estimate_source_memory, sources), strict=True)
    refuse_oversized_comparison(needs, cells, len(source_tokens(sources[0])))


def _narrow_head_settings(source: Source) -> Settings:
    """To show √(model width) taken for √(head width) the two must differ: a head half as wide."""
    settings = source.settings
    if source.model is not None:
        return settings
    given_widths = source.matrices.sizes.keys() & {"width", "query_width"}
    is_fixed = settings.heads is not None or settings.head_dim is not None or given_widths
    variant = chosen_variant(settings)
    if is_fixed or not variant.projected or variant.heads > 1:
        return settings
    tokens = source_tokens(source)
    dim = embedding_width(with_vectors(source, tokens))
    return replace(settings, head_dim=max(1, dim // 2))


def _head_or_mean_weights(weights: Weights, head: int | None) -> Float[Tensor, "query key"]:
    head_weights: Tensor = weights.mean(0) if head is None else weights[head]
    return head_weights


def _comparable_weights(
    base: Alternative, alternative: Alternative, by: str
) -> tuple[Weights, Weights] | None:
    """The weights of both, head by head; their means if the heads are not as many.

    Tokens have to be the same, but of two sentences, which are compared place by place.
    """
    has_same_tokens = by == TEXT_ASPECT or base.tokens.ids == alternative.tokens.ids
    if base.weights.shape[1:] != alternative.weights.shape[1:] or not has_same_tokens:
        return None
    base_weights, other_weights = base.weights.cpu(), alternative.weights.cpu()
    if len(base_weights) == len(other_weights):
        return base_weights, other_weights
    return base_weights.mean(0, keepdim=True), other_weights.mean(0, keepdim=True)


def _matched_reference(pair: tuple[Weights, Weights] | None, weights: Weights) -> Weights | None:
    """The reference's weights, as many heads of them as there are to be held against it."""
    if pair is None:
        return None
    reference = pair[0].to(weights.device)
    return reference if len(reference) == len(weights) else reference.expand_as(weights)


def _largest_change(difference: Weights, before: Weights, after: Weights) -> LargestChange:
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
