"""compare(): kinds of attention on one sentence, their weights and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis import aspects
from attnviz.analysis.inspection.two_sentences import TraceComparison, compare_two_traces
from attnviz.analysis.measures import LargestChange, Measures, Weights, measure_weights
from attnviz.analysis.row_changes import RowChanges, compare_long_rows
from attnviz.attention import arithmetic
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import Cells, StoredCells
from attnviz.errors import AttnvizError, cmd, opt
from attnviz.machine import files
from attnviz.tokens.tokens import Tokens, tokens_of_words
from attnviz.traces import early_checks
from attnviz.traces.early_checks import refuse_missing_layer
from attnviz.traces.from_text import estimate_source_memory, trace_source
from attnviz.traces.inputs import (
    Source,
    build_source,
    embedding_width,
    source_command,
    source_tokens,
    with_vectors,
)
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.memory_estimate import streams_comparison
from attnviz.traces.parts import GIVEN_BLOCK_NAMES
from attnviz.traces.result import Showable
from attnviz.traces.settings import (
    SettingKeywords,
    Settings,
    chosen_variant,
    format_head_id,
    settings_refused,
)
from attnviz.traces.trace import Layer, Provenance, Trace, refuse_weights_only
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.model_location import is_trained
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.wording.commands import Command
from attnviz.wording.keywords import built_by, with_checked_arguments, with_checked_settings
from attnviz.wording.printable import printable_text
from attnviz.wording.words import and_list, counted, shape_text, with_summary

if TYPE_CHECKING:
    from typing_extensions import Unpack

MAX_HEADS_PAIRED = 16  # in larger models only single heads are tried
MAX_HEADS_ALONE = 3  # more are switched off only together
MAX_NAME_LETTERS = 24  # longer sentences are named "first text", "second text"
VECTOR_PARTS = ("embeddings", "key_embeddings", "queries", "keys", "values")
SINGLE_SENTENCE_PARTS = (*VECTOR_PARTS, "scores", "weights", "visible", "hidden", "mask", "kept")


def second_source(source: Source, other_text: str) -> Source:
    """Return the source with the other sentence in place of its text.

    Refuses equal sentences, given tokens instead of a text, matrices given for one sentence only,
    and sentences with different numbers of tokens.
    """
    if source.text is None:
        raise AttnvizError(
            "tokens are given in place of the first sentence, so a second sentence cannot be "
            "compared with it",
            "give both sentences as text, or leave the second out",
        )
    if other_text == source.text:
        raise AttnvizError(
            "both sentences are the same",
            f"give another one, or compare ways of reading it: {opt.by}",
        )
    for name in SINGLE_SENTENCE_PARTS:
        if getattr(source.matrices, name) is not None:
            raise source.matrices.error(
                f"{source.matrices.source_text} gives '{name}' for one sentence, but there are two",
                f"leave '{name}' or the second sentence out",
            )
    other_sentence = replace(source, text=other_text, vectors=None)
    early_checks.refuse_unequal_lengths(
        source_tokens(source), source_tokens(other_sentence), source.tokenizer
    )
    return other_sentence


def sentence_names(source: Source, other: Source) -> tuple[str, str]:
    """Return what two sentences are called: their own words if both are short and differ, otherwise
    "first text" and "second text"."""
    texts = [" ".join(printable_text(sentence.text or "").split()) for sentence in (source, other)]
    if len(set(texts)) == 1 or not all(0 < len(text) <= MAX_NAME_LETTERS for text in texts):
        return "first text", "second text"
    return texts[0], texts[1]


def find_in_both(sentences: Sequence[Tokens], name: int | str) -> int:
    """Return the position of the token that `name` means, as `Tokens.index` does. The name needs to
    be found in one of the sentences only. Refuses a name that is ambiguous in either sentence,
    found in neither, or at different positions in the two."""
    positions: set[int] = set()
    errors = []
    for tokens in sentences:
        try:
            positions.add(tokens.index(name, "query"))
        except AttnvizError as error:
            errors.append((len(tokens.find(str(name))), error))
    ambiguous_errors = [error for times, error in errors if times > 1]
    if ambiguous_errors or not positions:
        raise (ambiguous_errors or [error for _, error in errors])[0]
    if len(positions) > 1:
        known = [*map(str, sorted(positions))]
        numbers = [str(position + 1) for position in sorted(positions)]
        raise AttnvizError(
            f"'{name}' is at different positions in the two sentences",
            f"give its position: {opt.query:{numbers[0]}} or {' or '.join(numbers[1:])}",
            python_hint=f"give its position: query={' or '.join(known)}",
        )
    return positions.pop()


def combine_tokens(tokens: Tokens, other_tokens: Tokens) -> Tokens:
    """Return the other sentence's tokens, labelled `learning/teaching` where the two labels differ.

    Both sentences must have the same number of tokens.
    """
    pairs = zip(tokens.labels, other_tokens.labels, strict=True)
    return replace(
        other_tokens,
        words=tuple(first if first == second else f"{first}/{second}" for first, second in pairs),
    )


MIN_VISIBLE_WEIGHT = 1e-6  # smaller weights and differences count as 0
_PARTS_UNCHANGED_BY_ASPECT = {"mask": ("visible",), "dim": ("queries", "keys", "scores")}


@with_summary
@dataclass(frozen=True, eq=False)
class ScoredTokens:
    """The softmax of scores that are given without a Trace."""

    weights: Weights
    visible: Bool[Tensor, "query key"]
    tokens: Tokens
    keys: Tokens


@with_summary
@dataclass(frozen=True, eq=False)
class Alternative:
    """One of the kinds of attention that are compared: a layer of a Trace, or given scores."""

    name: str
    source: Trace | ScoredTokens
    number: int = 0  # of the layer that is compared
    mistake: str = ""  # what is wrong with it, if it is a mistake

    @property
    def trace(self) -> Trace | None:
        """None if only scores were given."""
        return self.source if isinstance(self.source, Trace) else None

    @property
    def layer(self) -> Layer | None:
        """The attention layer that is compared; None if only scores were given."""
        return None if self.trace is None else self.trace.layers[self.number]

    @property
    def tokens(self) -> Tokens:
        return self.source.tokens

    @property
    def keys(self) -> Tokens:
        return self.source.keys

    @property
    def weights(self) -> Weights:
        """All weights as matrices; of a long text refused if they do not fit in memory."""
        if isinstance(self.source, ScoredTokens):
            return self.source.weights
        return self.source.layers[self.number].attended.weights

    @property
    def visible(self) -> Bool[Tensor, "*head query key"]:
        if isinstance(self.source, ScoredTokens):
            return self.source.visible
        return self.source.layers[self.number].visible

    @property
    def long_weights(self) -> LongWeights | None:
        """The weights of a long text, computed where they are shown; None if they are in memory."""
        return None if self.layer is None else self.layer.long_weights

    @property
    def heads(self) -> int:
        return len(self.weights) if self.layer is None else self.layer.heads

    @property
    def uses_scores_alone(self) -> bool:
        """Whether the logits are scores divided by a number: no soft cap, bias or additive mask.

        Then dividing by more never makes a row sharper: the derivative of its entropy in nats by
        log(divisor) is the variance of the logits under the row's weights, which is at least 0.
        """
        if self.layer is None:
            return False
        attended = self.layer.attended
        return all(term is None for term in (attended.capped_scores, attended.bias, attended.mask))

    def cells(self, head: int | None) -> Cells:
        """Return the weights of one head, or for None the mean over heads, as a table.

        Masked cells are hidden, except those to which a deliberate mistake gives weight.
        """
        values = tensor_to_numpy(_head_or_mean_weights(self.weights, head))
        # Weight that a mistake gives to masked keys is shown.
        leaks = (abs(values) > MIN_VISIBLE_WEIGHT) & bool(self.mistake)
        return StoredCells(values, ~tensor_to_numpy(self.visible_cells(head)) & ~leaks)

    def visible_cells(self, head: int | None) -> Bool[Tensor, "query key"]:
        """Return which keys each query may attend to in one head, or for None in at least one
        head."""
        by_head: Tensor = self.visible if self.visible.ndim == 3 else self.visible[None]
        return by_head.any(0) if head is None else head_mask(head, self.visible)

    @property
    def correct_weights(self) -> Weights:
        """The softmax of this alternative's logits under its mask, without its deliberate
        mistake."""
        assert self.layer is not None
        return arithmetic.attention_weights(self.layer.attended.logits, self.visible)

    def largest_error(self, rows: slice) -> float:
        return float((self.weights - self.correct_weights)[:, rows].abs().max())


@built_by('attnviz.compare("…")')
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Showable):
    """Kinds of attention and how they differ from the reference: for matrices by measures and
    differences of weights; for a long text, whose weights are not in memory, by `row_changes`. All
    of it is computed when it is first asked for.

    >>> from attnviz import compare
    >>> found = compare("I am", by="mask", values=["causal", "none"])
    >>> found.alternatives[1].name, found.changes[1].query
    ('none', 0)
    """

    by: str
    alternatives: tuple[Alternative, ...]
    reference: int
    query: int | None = None  # the only query that is shown; None shows all
    provenance: Provenance | None = None
    command: Command | None = None  # which repeats this comparison

    @property
    def base(self) -> Alternative:
        """The reference: the alternative that the others are compared with."""
        return self.alternatives[self.reference]

    @property
    def is_long(self) -> bool:
        """Whether it is about a long text, whose weights are computed where they are shown."""
        return self.base.long_weights is not None

    @property
    def rows(self) -> slice:
        """The rows that are shown, as a slice: all, or the row of `query`."""
        return slice(None) if self.query is None else slice(self.query, self.query + 1)

    @property
    def heads(self) -> int | None:
        """The number of heads, or None if the alternatives have different numbers."""
        counts = {alternative.heads for alternative in self.alternatives}
        return counts.pop() if len(counts) == 1 else None

    @cached_property
    def measures(self) -> tuple[Measures, ...]:
        """The measures of each alternative's weights."""
        measures = []
        for each in self.alternatives:
            pair, weights = self._comparable_weights(each), each.weights
            # The mean of heads is the reference of each head.
            base = None if pair is None else pair[0].to(weights.device).expand_as(weights)
            measures.append(measure_weights(weights, each.visible, base))
        return tuple(measures)

    @cached_property
    def differences(self) -> tuple[Weights | None, ...]:
        """Each alternative's weights minus the reference's; None for the reference itself and for
        alternatives with other tokens.
        """
        pairs = map(self._comparable_weights, self.alternatives)
        return tuple(
            None if pair is None or each is self.base else pair[1].double() - pair[0].double()
            for each, pair in zip(self.alternatives, pairs, strict=True)
        )

    @cached_property
    def row_changes(self) -> tuple[RowChanges | None, ...]:
        """How the rows that are shown differ from those of the reference, for a long text in one
        pass over its weights; None for the reference. Empty for weights in memory.
        """
        if not self.is_long:
            return ()
        weights = [each.long_weights for each in self.alternatives if each.long_weights is not None]
        base = weights.pop(self.reference)
        rows = None if self.query is None else self.rows
        changes = iter(compare_long_rows(base, weights, rows))
        return tuple(None if each is self.base else next(changes) for each in self.alternatives)

    @cached_property
    def changes(self) -> tuple[LargestChange | None, ...]:
        """The largest change of each alternative's weights, in the rows that are shown; None where
        there is no difference.
        """
        if self.is_long:
            return tuple(None if each is None else each.largest for each in self.row_changes)
        return tuple(map(self._largest_change, self.alternatives, self.differences))

    def _largest_change(
        self, alternative: Alternative, difference: Weights | None
    ) -> LargestChange | None:
        pair = self._comparable_weights(alternative)
        if difference is None or pair is None:
            return None
        sizes = difference[:, self.rows].abs()
        head, cell = divmod(int(sizes.argmax()), sizes[0].numel())
        row, key = divmod(cell, sizes.shape[-1])
        query = row + (self.query or 0)
        before, after = (float(weights[head, query, key]) for weights in pair)
        return LargestChange(None if len(sizes) == 1 else head, query, key, before, after)

    def _comparable_weights(self, alternative: Alternative) -> tuple[Weights, Weights] | None:
        """Return the weights of the reference and of an alternative on the CPU, or their means over
        heads if the numbers of heads differ. Returns None if the tokens or shapes differ; two
        different sentences are compared by position."""
        base, other = self.base.weights, alternative.weights
        has_same_tokens = (
            self.by == aspects.TEXT_ASPECT or self.base.tokens.ids == alternative.tokens.ids
        )
        if base.shape[1:] != other.shape[1:] or not has_same_tokens:
            return None
        if len(base) == len(other):
            return base.cpu(), other.cpu()
        return base.cpu().mean(0, keepdim=True), other.cpu().mean(0, keepdim=True)

    def difference(self, index: int, head: int | None) -> Cells:
        """Return the weights of an alternative that has a difference, minus the reference's, in one
        head or for None in the mean of heads; cells masked in both and equal in both are hidden."""
        difference = self.differences[index]
        assert difference is not None
        values = tensor_to_numpy(_head_or_mean_weights(difference, head))
        either = self.alternatives[index].visible_cells(head) | self.base.visible_cells(head)
        hidden = ~tensor_to_numpy(either) & (abs(values) <= MIN_VISIBLE_WEIGHT)
        return StoredCells(values, hidden)


@overload
def compare(
    text: Trace,
    settings: Trace,
    *,
    names: tuple[str, str] | None = None,
    layer: int | None = None,
    head: int | None = None,
    query: int | str | None = None,
) -> TraceComparison: ...


@overload
def compare(
    text: str | Path | Trace | None,
    settings: Settings | None = None,
    *,
    by: str | None = None,
    other: str | Path | None = None,
    values: Sequence[object] | None = None,
    reference: object = None,
    layer: int | None = None,
    command: str | None = None,
    **changes: Unpack[SettingKeywords],
) -> Comparison: ...


@with_checked_settings(settings_refused)
def compare(
    text: str | Path | Trace | None,
    settings: Settings | Trace | None = None,
    *,
    names: tuple[str, str] | None = None,
    head: int | str | None = None,
    query: int | str | None = None,
    by: str | None = None,
    other: str | Path | None = None,
    values: Sequence[object] | None = None,
    reference: object = None,
    layer: int | None = None,
    command: str | None = None,
    **changes: Unpack[SettingKeywords],
) -> Comparison | TraceComparison:
    """Compare kinds of attention on a text with the first of them, or with `reference`.

    `by` is the setting that is varied ("mask"; by default the scale) and `values` its values. A
    Trace in place of the text is traced again. With an `other` text both texts are compared in the
    same kind of attention. `layer` is the layer of a model to compare: by default the last. Refuses
    transformer blocks without a model, and given matrices that make `by` pointless. A text whose
    weights exceed `memory_budget`, or any with `stream`, is compared without matrices of weights.

    Two finished Traces are compared head by head, without any of these: `compare(before, after)`.
    `names` are what they are called, `layer` and `head` choose heads, `query` one token's rows.

    >>> from attnviz import compare, trace
    >>> compare("I am learning this", by="mask", values=["causal", "none"]).view().closing[0]
    'largest change from causal to none: I → I: 1.0 → .28'
    >>> compare(trace("I am", seed=1), trace("I am", seed=2)).names
    ('seed 1', 'seed 2')
    """
    about_two: dict[str, Any] = {"names": names, "head": head, "query": query}
    about_one = {"by": by, "other": other, "values": values, "reference": reference, **changes}
    if isinstance(text, Trace) and isinstance(settings, Trace):
        _refuse_given_choices(about_one, "two finished Traces are compared as they are")
        return compare_two_traces(text, settings, layer=layer, **about_two)
    _refuse_given_choices(about_two, "only two Traces are compared head by head")
    chosen = _settings_for_text(text, settings)
    if isinstance(other, Path):
        other = files.read_text(other)
    aspect = aspects.choose_aspect(by, values, texts=other is not None)
    in_memory, settings_changes = take_model_in_memory(changes)
    source = build_source(text, chosen, **settings_changes)
    _refuse_transformer(source, text, in_memory, aspect)
    _refuse_blocks(source)
    _refuse_given_parts(source, aspect)
    number = _choose_layer(source, layer)
    sources = _choose_sources(source, aspect, values, other)
    streams = _streams(sources, source.settings, aspect, has_chosen_values=values is not None)
    if streams and values is None:
        right = [name for name in sources if name not in MISTAKES]
        sources = _choose_sources(source, aspect, right, other)
    index = aspects.choose_reference([*sources], reference)
    alternatives = tuple(
        build_alternative(each, aspect, name, command, number, streams=streams)
        for name, each in sources.items()
    )
    repeat_command = source_command(
        "compare",
        source,
        by=None if aspect in ("scale", aspects.TEXT_ASPECT) else aspect,
        values=None if values is None else ",".join(sources),
        reference=reference,
        layer=layer,
    )
    first = alternatives[0].trace
    return Comparison(
        aspect,
        alternatives,
        index,
        provenance=first.provenance if first else None,
        command=repeat_command and replace(repeat_command, second=other),
    )


def _settings_for_text(
    text: str | Path | Trace | None, settings: Settings | Trace | None
) -> Settings | None:
    """Return the settings with which a text is traced; refuses a Trace in their place, and a Trace
    of weights alone, which has no vectors to trace again.
    """
    if isinstance(settings, Trace):
        raise AttnvizError(
            "a text is compared with a Trace", "give two Traces, or compare_sentences(text, trace)"
        )
    if isinstance(text, Trace):
        refuse_weights_only(text, "kinds of attention are compared by vectors and scores", "by")
    return settings


def _refuse_given_choices(choices: Mapping[str, object], reason: str) -> None:
    """Refuse the first choice that is not None; `reason` begins the message."""
    for name, value in choices.items():
        if value is not None:
            raise AttnvizError(
                f"{reason}, but '{name}' is given", f"leave '{name}' out", about=name
            )


def _choose_layer(source: Source, requested: int | None) -> int:
    """Return the number of the layer that is compared: the requested one, by default the last.

    Refuses a layer that does not exist, and any but layer 0 where no model is given.
    """
    layers = source.resolved_settings.layers or 1
    if requested and source.model is None:
        raise AttnvizError(
            f"{opt.layer:is {requested}}, but only a single attention layer is compared",
            f"leave {opt.layer} out, or compare the attention of a {opt.model}",
            about="layer",
        )
    if requested is not None:
        refuse_missing_layer(requested, layers)
    return layers - 1 if requested is None else requested


def _refuse_transformer(
    source: Source, text: str | Path | Trace | None, in_memory: LoadedTransformer | None, by: str
) -> None:
    """Refuse a transformers model, unless it is to run in another way (`by`), such as its dtype.

    Two sentences in it are compared by `compare_sentences`; nothing else of it can be varied.
    """
    card = text.trained if isinstance(text, Trace) else None
    is_named = source.model is None and is_trained(source.settings.model)
    if in_memory is None and card is None and not is_named:
        return
    if by in aspects.MODEL_RUN_ASPECTS and is_named:
        return
    name = in_memory.name if in_memory else card.name if card else source.settings.model
    hint = "give two sentences: compare_sentences(text, other, model=model, tokenizer=tokenizer)"
    if is_named:
        hint = f"give two sentences: {cmd.compare:TEXT OTHER --model {source.settings.model}}"
    if by == aspects.TEXT_ASPECT:
        problem = "is compared head by head, with both sentences"
    else:
        problem = f"decides how it attends, so nothing can be compared by {by}"
    raise AttnvizError(f"the trained model '{name}' {problem}", hint)


def _refuse_blocks(source: Source) -> None:
    """Refuse transformer blocks, block matrices and a second sentence to attend to (`memory`),
    unless the source is a model, whose attention can be compared inside its blocks."""
    if source.model is not None:  # the attention of a model can be compared inside blocks, too
        return
    if source.settings.has_blocks:
        raise AttnvizError(
            "compare works on a single attention layer, not on transformer blocks",
            f"leave layers and memory out, or see a block with {cmd.run} or {cmd.steps}",
        )
    matrices = source.matrices
    block_parts = [name for name in matrices.tensors if name in (*GIVEN_BLOCK_NAMES, "memory")]
    if block_parts or matrices.upper_layers:
        parts = and_list(block_parts) if block_parts else "matrices of layers above the first"
        raise matrices.error(
            "compare works on a single attention layer, not on transformer blocks, and "
            f"'{matrices.source}' gives {parts}",
            f"leave them out of the file, or see a block with {cmd.run} or {cmd.steps}: "
            f"{opt.layers:1}",
            about=block_parts[0] if block_parts else "layers",
        )


def _refuse_given_parts(source: Source, by: str) -> None:
    """Refuse an aspect (`by`) that could not change anything: the tokenizer where tokens are given,
    ablation without a model, a change of a model that is already built, and an aspect that a given
    matrix overrides."""
    if by == "tokenizer" and source.text is None:
        raise AttnvizError(
            "there is no text to tokenize: the tokens are given",
            "give a text, or compare by something else",
        )
    if source.model is None:
        aspects.refuse_ablation_alone(by)
    else:
        aspects.refuse_model_change(by, source.model)
    for name in _PARTS_UNCHANGED_BY_ASPECT.get(by, ()):
        if getattr(source.matrices, name) is not None:
            raise source.matrices.error(
                f"{source.matrices.source_text} gives '{name}', which {opt.by:{by}} would not "
                "change",
                f"leave '{name}' out, or compare by something else",
            )


@with_checked_arguments
def compare_scores(
    scores: Float[Tensor, "head query key"],
    width: int,
    visible: Bool[Tensor, "query key"] | None = None,
    tokens: Sequence[str] | None = None,
) -> Comparison:
    """Compare the softmax of given scores with the softmax of the scores divided by √width.

    The first, "unscaled", is the reference. `visible` is the mask (by default all keys), and
    `tokens` name the keys (by default numbers). Refuses a width below 1, and a mask or tokens of
    another size.

    >>> import torch
    >>> found = compare_scores(torch.tensor([[[8.0, 0.0], [0.0, 8.0]]]), 64)
    >>> [alternative.name for alternative in found.alternatives]
    ['unscaled', 'scaled']
    """
    queries, keys = scores.shape[-2:]
    if width < 1:
        raise AttnvizError(f"width is {width}, and must be at least 1", "try width=64")
    if visible is not None and visible.shape != (queries, keys):
        problem = f"the mask is {shape_text(visible.shape)}, and the scores {queries} × {keys}"
        raise AttnvizError(problem, "give True or False for each query and key")
    if tokens is not None and (len(tokens) != keys or not all(tokens)):
        problem = f"there are {counted(len(tokens), 'token')} for {counted(keys, 'key')}"
        raise AttnvizError(problem, "name each key, or leave 'tokens' out")
    mask = torch.ones(queries, keys, dtype=torch.bool) if visible is None else visible
    keys_as_tokens = tokens_of_words(tokens or [str(number + 1) for number in range(keys)])
    weights = [arithmetic.attention_weights(scores * scale, mask) for scale in (1.0, width**-0.5)]
    alternatives = [
        Alternative(name, ScoredTokens(rows, mask, keys_as_tokens, keys_as_tokens))
        for name, rows in zip(("unscaled", "scaled"), weights, strict=True)
    ]
    return Comparison("scale", tuple(alternatives), 0)


def build_alternative(
    source: Source, by: str, name: str, command: str | None, number: int, *, streams: bool
) -> Alternative:
    """Trace the source of the value `name` of the setting `by`, and return layer `number` as an
    alternative; if it `streams`, without matrices of weights. If `by` is "mask", `name` may also be
    a deliberate mistake."""
    mistake = MISTAKES.get(name) if by == "mask" else None
    if streams:
        source = replace(source, settings=replace(source.settings, stream=True))
    trace = trace_source(
        source, mistake=mistake.name if mistake else "", command=command, needs_matrices=not streams
    )
    return Alternative(name, trace, number, mistake.about if mistake else "")


def _choose_sources(
    source: Source, by: str, values: Sequence[object] | None, other_text: str | None
) -> dict[str, Source]:
    """Return two sentences, or one sentence with each value of the setting `by`, by name."""
    if other_text is not None:
        other = second_source(source, other_text)
        pairs = list(zip((source, other), sentence_names(source, other), strict=True))
    else:
        if by == aspects.ABLATION_ASPECT and values is None:
            values = _telling_ablation(source)
        names = aspects.choose_values(by, values)
        names = _drop_scale_mistake(source, names, is_requested=values is not None)
        if "model-scale" in names:
            source = replace(source, settings=_narrow_head_settings(source))
        pairs = [(source, name) for name in names]
    return {name: _source_with_choice(each, by, name) for each, name in pairs}


def _telling_ablation(source: Source) -> tuple[str, ...] | None:
    """Return "none", and the heads to switch off beside it: those of the setting `without`; else
    the head that changes an answer, or the pair if no head alone does, or the head that weakens the
    answers most. Of a few heads each alone is compared, too. None for a model without answers.
    """
    if source.settings.without:
        return _alone_and_together(source.settings.without.split(","))
    whole = trace_source(source)
    if whole.prediction is None or not whole.prediction.asked_positions:
        return None
    asked = [*whole.prediction.asked_positions]
    best = whole.prediction.probabilities[asked].argmax(-1, keepdim=True)

    def effect(names: str) -> tuple[bool, float]:
        """Return whether all answers stay, and the mean probability of what they were."""
        without = trace_source(
            _source_with_choice(source, aspects.ABLATION_ASPECT, names)
        ).prediction
        assert without is not None  # as in the whole model
        probabilities = without.probabilities[asked]
        stay = torch.equal(probabilities.argmax(-1, keepdim=True), best)
        return stay, float(probabilities.gather(-1, best).mean())

    heads = [
        format_head_id(each.layer, head) for each in whole.layers for head in range(each.heads)
    ]
    single = min(heads, key=effect)
    if not effect(single)[0] or len(heads) > MAX_HEADS_PAIRED:
        return aspects.NO_HEADS_OFF, single
    pair = min(map("+".join, combinations(heads, 2)), key=effect, default=single)
    return _alone_and_together([single] if effect(pair)[0] else pair.split("+"))


def _alone_and_together(heads: Sequence[str]) -> tuple[str, ...]:
    """Return the names of "none", of each of these heads off alone, if they are few, and of all."""
    alone = heads if 1 < len(heads) <= MAX_HEADS_ALONE else ()
    return aspects.NO_HEADS_OFF, *alone, "+".join(heads)


def _streams(
    sources: Mapping[str, Source], settings: Settings, by: str, *, has_chosen_values: bool
) -> bool:
    """Return whether weights are computed only where they are shown; refuses Traces that take too
    much memory together, before any is computed.
    """
    reason = aspects.UNSTREAMED_ASPECTS.get(by, "")
    if by == "mask" and has_chosen_values and (mistakes := sources.keys() & MISTAKES.keys()):
        reason = f"the mistake '{min(mistakes)}' needs all of them at once"
    estimates = [estimate_source_memory(each) for each in sources.values()]
    return streams_comparison(estimates, settings, reason)


def _drop_scale_mistake(
    source: Source, names: tuple[str, ...], *, is_requested: bool
) -> tuple[str, ...]:
    """Return the names to compare without the mistake "model-scale" where the variant does not
    scale scores. Refuses that mistake there if the user gave it (`is_requested`)."""
    settings = source.resolved_settings
    if "model-scale" not in names or chosen_variant(settings).scaled:
        return names
    if is_requested:
        raise AttnvizError(
            "'model-scale' divides scores by the wrong number, but here scores are not divided "
            "at all",
            f"leave it out of {opt.values}, or give {opt.scale}",
        )
    return tuple(name for name in names if name != "model-scale")


def _source_with_choice(source: Source, by: str, name: str) -> Source:
    """Return the source with the setting `by` ("mask") changed to the value `name`, also in its
    model. Refuses a value that the setting cannot have."""
    choose, model = aspects.ASPECTS[by].choose, source.model
    if model is not None and by != aspects.ABLATION_ASPECT:
        # such as a window that the mask none removes
        model = replace(model, settings=choose(model.settings, name))
    return replace(source, settings=choose(source.settings, name), model=model)


def _narrow_head_settings(source: Source) -> Settings:
    """Return settings with heads half as wide as the model, so that √(model width) and √(head
    width) differ. Settings of a model, with given heads, head width or matrices, or with several
    heads stay as they are."""
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
    return weights.mean(0) if head is None else weights[head]
