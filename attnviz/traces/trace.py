"""Trace, Layer, Projections and Provenance; layers of which only the weights are known."""

from __future__ import annotations

import pkgutil
import platform
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from types import EllipsisType
from typing import Any, ClassVar, overload

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attnviz.attention.arithmetic import (
    AttentionStages,
    StagesWithoutTerms,
    Visible,
    repeat_groups,
)
from attnviz.attention.block import Block
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.options.values import AblationValue, Positions
from attnviz.tokens.tokens import Tokens
from attnviz.traces.indexing import index_heads, index_layers
from attnviz.traces.long_weights import LongWeights, StreamedWeights, TextSummary
from attnviz.traces.models.answers import Prediction
from attnviz.traces.models.model import Model
from attnviz.traces.origin import (
    FromSeed,
    FromTransformer,
    FromWeights,
    Origin,
    TrainedCard,
    origin_model,
)
from attnviz.traces.result import INSPECT_FUNCTION, RanksHeads, Rows, Showable
from attnviz.traces.weights import InMemoryWeights, Weights, stack_layer_weights, tensor_to_numpy
from attnviz.wording.keywords import built_by, with_checked_arguments
from attnviz.wording.words import counted, shape_text, with_summary

Heads = Float[Tensor, "head query key"]

GIVEN_LABEL = "given"  # in place of a tokenizer, where tokens were given
PARTS_BEYOND_WEIGHTS = frozenset(("scores", "queries", "keys", "values"))


@with_summary
@dataclass(frozen=True, eq=False)
class Projections:
    """The projection matrices and biases of an attention; None for those it does not have."""

    w_query: Float[Tensor, "*batch dim out"] | None = None
    w_key: Float[Tensor, "*batch dim keys_out"] | None = None
    w_value: Float[Tensor, "*batch dim values_out"] | None = None
    w_out: Float[Tensor, "*batch joined context"] | None = None
    w_score: Float[Tensor, "*batch out"] | None = None  # of additive scoring
    b_query: Float[Tensor, "out"] | None = None
    b_key: Float[Tensor, "keys_out"] | None = None
    b_value: Float[Tensor, "values_out"] | None = None
    b_out: Float[Tensor, "context"] | None = None


@with_summary
@dataclass(frozen=True, eq=False)
class BeforeRotary:
    """Queries and keys before rotary positions rotate them."""

    queries: Float[Tensor, "*batch head query width"]
    keys: Float[Tensor, "*batch group key width"]


def no_summary_error() -> AttnvizError:
    return AttnvizError(
        "the weights of this text are in memory, and have no summary",
        "take them from .weights; a summary is of trace(text, stream=True)",
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Layer:
    """One layer of attention, in the order of computation, with the block around it if any."""

    layer: int
    scale: float
    head_dim: int  # width of a head's queries; of its values, if the scores were given
    inputs: Float[Tensor, "*batch query dim"]
    key_inputs: Float[Tensor, "*batch key dim"] | None = None  # None: keys are made of the inputs
    projections: Projections | None
    before_rotary: BeforeRotary | None = None
    queries: Float[Tensor, "*batch head query width"] | None  # None: the scores were given
    keys: Float[Tensor, "*batch group key width"] | None  # neighbouring heads share a group
    values: Float[Tensor, "*batch group key value_width"]
    mask_rule: MaskRule
    attended: AttentionStages
    context: Float[Tensor, "*batch query context"]  # heads joined and projected
    memory: Float[Tensor, "*batch key dim"] | None = None  # key inputs of cross-attention
    cross: Layer | None = None  # the cross-attention of the block
    block: Block | None = None
    given: frozenset[str] = frozenset()  # names of parts that were given, not computed
    mistake: str = ""  # the mistake made on purpose
    off: Mapping[int, AblationValue] = field(default_factory=dict)  # heads switched off
    weights_on_demand: Weights | None = None  # if the weights are not in memory

    @cached_property
    def visible(self) -> Visible:
        """Which keys each query may attend to, as a matrix; refused if it has no room in memory."""
        rule, (queries, keys) = self.mask_rule, self.size
        if rule.matrix is not None:
            return rule.matrix
        subject = f"the mask of {counted(queries, 'token')} as a matrix"
        memory.refuse_too_little_memory(queries * keys, subject)
        return rule.visible(queries, keys, self.inputs.device)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return self.inputs.shape[-2], self.values.shape[-2]

    @property
    def weights(self) -> Weights:
        """The scores and weights as cells; views use these, and never whole matrices."""
        return self.weights_on_demand or InMemoryWeights(
            self.attended, self.visible, self.mistake, self.width_ratio
        )

    @property
    def long_weights(self) -> LongWeights | None:
        """The weights of a long text, computed where they are shown; None if they are in memory."""
        weights = self.weights_on_demand
        return weights if isinstance(weights, LongWeights) else None

    @property
    def streamed_weights(self) -> StreamedWeights | None:
        """The same, or those of a long text that a trained model read."""
        weights = self.weights_on_demand
        return weights if isinstance(weights, StreamedWeights) else None

    @property
    def summary(self) -> TextSummary:
        """What is measured of a long text; refused if its weights are in memory."""
        if self.long_weights is None:
            raise no_summary_error()
        return TextSummary(self.long_weights)

    @property
    def heads(self) -> int:
        """The number of heads (of queries); `layer[11]` are the weights of one."""
        return self.weights.heads

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of heads, queries and keys."""
        return self.weights.shape

    def __len__(self) -> int:
        """Return the number of heads."""
        return self.heads

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the weights [query, key] of each head."""
        return iter(self.weights)

    @with_checked_arguments
    def __getitem__(self, key: Any) -> Tensor:
        """Return the weights [query, key] of a head, `layer[11]`, or of several, stacked."""
        return index_heads(self.weights.cut_head, self.heads, key, self.layer)

    def hidden_rows(self, head: int) -> list[int]:
        """Return the queries, by position from 0, for which every key is hidden from a head."""
        return (self.visible_counts(head) == 0).nonzero().flatten().tolist()

    def visible_counts(self, head: int) -> Int[Tensor, "query"]:
        """Return how many keys a head lets each query attend to."""
        return self.mask_rule.for_head(head).visible_counts(*self.size, self.inputs.device)

    @property
    def has_masks_of_heads(self) -> bool:
        """Whether each head has a mask of its own."""
        return self.mask_rule.matrix is not None and self.mask_rule.matrix.ndim == 3

    def empty_rows(self, head: int) -> list[int]:
        """Return the queries of a head for which every key is hidden and every weight is 0; a
        mistake, or weights given by hand, can give weight to hidden keys.
        """
        mixing = self.weights.cells("mixing", head)
        return [query for query in self.hidden_rows(head) if not mixing.row(query).values.any()]

    @property
    def w_score(self) -> Tensor | None:
        """The vector of additive scoring; None for scores by dot product."""
        return None if self.projections is None else self.projections.w_score

    @property
    def has_product_scores(self) -> bool:
        """Whether scores are dot products of queries and keys: neither given nor additive."""
        has_queries_and_keys = self.queries is not None and self.keys is not None
        return has_queries_and_keys and "scores" not in self.given and self.w_score is None

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and values; there may be more heads of queries."""
        return self.values.shape[-3]

    @property
    def keys_of_heads(self) -> Float[Tensor, "*batch head key width"] | None:
        """The keys of each head, repeated for heads that share them; None if there are no keys."""
        return None if self.keys is None else repeat_groups(self.keys, self.heads)

    def queries_with_keys(self) -> tuple[Tensor, Tensor]:
        """Return the queries and the keys of each head, of a layer that has both."""
        queries, keys = self.queries, self.keys_of_heads
        assert queries is not None
        assert keys is not None
        return queries, keys

    @property
    def values_of_heads(self) -> Float[Tensor, "*batch head key value_width"]:
        """The values of each head, repeated for heads that share them."""
        return repeat_groups(self.values, self.heads)

    @property
    def width_ratio(self) -> float:
        """√(model width) / √(head width): one of the mistakes confuses the two."""
        return sqrt(self.inputs.shape[-1] / self.head_dim)

    @property
    def weights_alone(self) -> bool:
        """Whether only the weights of the layer are known: no scores, queries, keys and values."""
        return self.queries is None and {"scores", "queries", "keys", "values"} <= self.given

    @property
    def uses_inputs(self) -> bool:
        """Whether anything was computed from the inputs.

        False if values are given, with scores or with queries and keys.
        """
        has_given_scores = "scores" in self.given or {"queries", "keys"} <= self.given
        return not (has_given_scores and "values" in self.given)

    @property
    def layer_inputs(self) -> Float[Tensor, "*batch query dim"]:
        """The vectors that come into the layer; in a block, before any LayerNorm."""
        return self.inputs if self.block is None else self.block.attention.inputs

    @property
    def outputs(self) -> Float[Tensor, "*batch query context"]:
        """The inputs of the next layer: outputs of the block, or context vectors without one."""
        return self.context if self.block is None else self.block.outputs

    @property
    def attention_layers(self) -> tuple[Layer, ...]:
        """The self-attention, and the cross-attention if there is one."""
        return (self,) if self.cross is None else (self, self.cross)

    def __repr__(self) -> str:
        """Return a line like `<Layer L0: 2 heads, 4 × 4 weights each>`."""
        size = shape_text(self.size)
        return f"<Layer {self.name}: {counted(self.heads, 'head')}, {size} weights each>"

    @property
    def name(self) -> str:
        """`L0`, or `L0 cross` for cross-attention to a second sentence."""
        return f"L{self.layer}" if self.memory is None else f"L{self.layer} cross"

    def head_name(self, head: int) -> str:
        """`L0H1`, or `L0 cross H1` for cross-attention to a second sentence."""
        return f"{self.name}{' ' if self.memory is not None else ''}H{head}"


@with_summary
@dataclass(frozen=True)
class Provenance:
    """What is needed to compute a Trace again, without folders and names of a machine."""

    version: str
    command: str | None
    settings: Mapping[str, Any]
    seed: int
    device: str
    dtype: str
    versions: Mapping[str, str]


def library_versions(**others: str) -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute; `others` follow torch."""
    python, numpy = platform.python_version(), np.__version__
    return {"python": python, "torch": torch.__version__, **others, "numpy": numpy}


def join_provenances(provenances: Sequence[Provenance]) -> Provenance:
    """Return the first provenance; a setting that is not the same in all has a list of values, None
    where one lacks it."""
    names = dict.fromkeys(name for each in provenances for name in each.settings)
    values = {name: [each.settings.get(name) for each in provenances] for name in names}
    settings = {name: each[0] if all(value == each[0] for value in each) else each
                for name, each in values.items()}  # fmt: skip
    return replace(provenances[0], settings=settings)


@with_summary
@dataclass(frozen=True, eq=False)
class Outputs:
    """The last vector of each token in a trained transformer."""

    vectors: Float[Tensor, "token dim"]
    with_all_heads: Float[Tensor, "token dim"] | None = None  # if `vectors` have heads off


@built_by('attnviz.trace("…")')
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trace(RanksHeads, Showable):
    """Everything that was computed for one sentence; `keys` are the tokens it attends to.

    `memory` is a second sentence for cross-attention. `vocabulary` is the number of ids of the
    tokenizer or model, if known.

    >>> from attnviz import trace
    >>> result = trace("I am", variant="multi-head")
    >>> result.tokens.labels, len(result.layers), result.layers[0].heads
    (('I', 'am'), 1, 2)
    >>> result.layers[0].queries.shape  # head, token, width
    torch.Size([2, 2, 4])
    """

    table_choices: ClassVar = {"show": ("weights",)}

    tokens: Tokens
    keys: Tokens
    memory: Tokens | None = None
    tokenizer: str
    vocabulary: int | None = None
    variant: Variant
    positions: Positions = "none"
    embeddings: Float[Tensor, "token dim"]
    layers: tuple[Layer, ...]
    prediction: Prediction | None = None  # of a model that predicts answers
    prompt: int | None = None  # number of given tokens, if the model generated the others
    outputs: Outputs | None = None  # of a trained model
    origin: Origin
    provenance: Provenance

    @property
    def weights(self) -> Float[Tensor, "layer head query key"]:
        """The weights that values are mixed by, of all heads, as `--show weights` shows them.

        Refuses layers with different numbers of heads, and a tensor that does not fit in memory.

        >>> from attnviz import trace
        >>> trace("I am", variant="causal").weights[0, 0, 0]
        tensor([1., 0.])
        """
        return stack_layer_weights([layer.weights for layer in self.layers])

    @overload
    def __getitem__(self, key: int) -> Layer: ...
    @overload
    def __getitem__(self, key: slice | list[int]) -> tuple[Layer, ...]: ...
    @overload
    def __getitem__(self, key: tuple[Any, ...] | EllipsisType) -> Tensor: ...
    @overload
    def __getitem__(self, key: str | list[str]) -> Any: ...
    @with_checked_arguments
    def __getitem__(self, key: Any) -> Any:
        """Return what a key names: `trace[5, 11]` and `trace["L5H11"]` are the weights of a head,
        `trace[5]` is the layer with that number, `trace[5, :]` and `trace[:, 11]` stack weights.

        Further indices choose queries and keys, by position or word: `trace["L5H11", "it"]`.
        Refuses what is not there.
        """
        return index_layers(self.layers, key, (self.tokens, self.keys))

    @property
    def summary(self) -> TextSummary:
        """What is measured of a long text, whose weights are computed only where they are shown:
        its map of blocks, what each token receives, the entropy of each row, exact rows.

        Refuses a text whose weights are in memory, and several layers, each of which has its own.

        >>> from attnviz import trace
        >>> summary = trace("I am learning this", stream=True).summary
        >>> summary.map.shape, summary.received.shape, summary.rows(2).shape
        (torch.Size([1, 4, 4]), torch.Size([1, 4]), torch.Size([1, 1, 4]))
        """
        if len(self.attention_layers) > 1:
            raise AttnvizError(
                f"there are {len(self.attention_layers)} layers, and each has a summary",
                "take that of one: trace.layers[0].summary",
            )
        return self.layers[0].summary

    def __len__(self) -> int:
        """Return the number of layers."""
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        """Yield the layers, each of which yields the weights of its heads."""
        return iter(self.layers)

    @property
    def ranking(self) -> Rows[Any]:
        """The heads as `inspect(trace)` ranks them: by how clearly they do one thing."""
        ranking: Rows[Any] = pkgutil.resolve_name(INSPECT_FUNCTION)(self).ranking
        return ranking

    def segments(
        self,
        kind: str | Mapping[str, str | range] = "paragraphs",
        *,
        query: int | str | None = None,
    ) -> Any:
        """Return an Inspection of what a token, by default the last one, reads of each part of the
        text, in each head: `trace(prompt, model="smollm2").segments("sentences")`.

        `kind` is "sentences", "lines", "paragraphs", "roles" or a .toml file; or texts, or ranges
        of tokens from 0, by name.
        """
        return pkgutil.resolve_name(INSPECT_FUNCTION)(self, segments=kind, query=query)

    @property
    def n_layers(self) -> int:
        """The number of layers that were kept."""
        return len(self.layers)

    @property
    def n_heads(self) -> int:
        """The number of heads in a layer, the largest if layers differ."""
        return max(layer.heads for layer in self.layers)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of layers, heads, queries and keys: the shape of `weights`."""
        return (self.n_layers, self.n_heads, len(self.tokens), len(self.keys))

    @with_checked_arguments
    def numpy(self) -> Shaped[np.ndarray, "..."]:
        """Return the weights of all heads as an array [layer, head, query, key]."""
        return tensor_to_numpy(self.weights)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Shaped[np.ndarray, "..."]:
        """Return the weights as an array: `np.asarray(trace)`."""
        return np.asarray(self.numpy(), dtype)

    def __repr__(self) -> str:
        """Return a line like `<Trace 'I am': 2 tokens, 1 layer × 1 head>`."""
        heads = " or ".join(map(str, sorted({layer.heads for layer in self.layers})))
        layers = counted(len(self.layers), "layer")
        size = f"{counted(len(self.tokens), 'token')}, {layers} × {heads}"
        ending = "" if heads == "1" else "s"
        return f"<Trace {reprlib.repr(self.tokens.text)}: {size} head{ending}>"

    @property
    def text(self) -> str | None:
        """The text that was tokenized; None if tokens were given.

        Of a transformer, the text of its encoder, if it has one.
        """
        if isinstance(self.origin, FromTransformer):
            return self.origin.text
        return None if self.tokenizer == GIVEN_LABEL else self.tokens.text

    @property
    def model(self) -> Model | None:
        """The small model of attnviz that was used; None without one, and for transformers."""
        return origin_model(self.origin)

    @property
    def trained(self) -> TrainedCard | None:
        """The card of the trained transformer (name, kind, size); None without one."""
        return self.origin.card if isinstance(self.origin, FromTransformer) else None

    @property
    def external_origin(self) -> FromWeights | None:
        """The origin of weights computed outside attnviz (from_weights); None for other Traces."""
        return self.origin if isinstance(self.origin, FromWeights) else None

    @property
    def weights_alone(self) -> bool:
        """Whether only weights are known of the first layer: no scores, queries, keys, values."""
        return self.layers[0].weights_alone

    @property
    def items(self) -> int:
        """The number of items in the batch that this Trace is one of; 1 without a batch."""
        return 1 if isinstance(self.origin, FromSeed) else self.origin.matrices.items

    @property
    def attentions(self) -> tuple[Heads, ...]:
        """The weights [head, query, key] of each layer, as `outputs.attentions` of transformers
        has them, but without its dimension of batches.

        Refuses a layer whose weights do not fit in memory.
        """
        return tuple(stack_layer_weights([layer.weights])[0] for layer in self.layers)

    @cached_property
    def attention_layers(self) -> tuple[Layer, ...]:
        """Every attention of every layer, self-attention before cross-attention."""
        return tuple(each for layer in self.layers for each in layer.attention_layers)

    @cached_property
    def rows_without_weights(self) -> tuple[tuple[Layer, int, int], ...]:
        """Every query without weights, as attention, head (0 for a shared mask) and row."""
        return tuple(
            (layer, head, row)
            for layer in self.attention_layers
            for head in range(layer.heads if layer.has_masks_of_heads else 1)
            for row in layer.empty_rows(head)
        )

    def keys_of(self, layer: Layer) -> Tokens:
        """Return the tokens that a layer attends to: the second sentence's for cross-attention."""
        return self.keys if layer.memory is None or self.memory is None else self.memory


class WeightsOnly(StagesWithoutTerms):
    """Stages of an attention of which only the weights are known.

    In place of the unknown scores stand the logarithms of the weights, whose softmax they are.
    """

    def __init__(self, weights: Heads, visible: Bool[Tensor, "*#head query key"]) -> None:
        """Keep the weights, before and after (absent) dropout, with context vectors of width 0."""
        contexts = weights.new_zeros(*weights.shape[:2], 0)
        # Not by setattr: AttentionStages is frozen.
        self.__dict__.update(weights=weights, mixing=weights, contexts=contexts, visible=visible)

    def select_part(self, part: Callable[[Tensor], Tensor]) -> WeightsOnly:
        return WeightsOnly(part(self.weights), part(self.__dict__["visible"]))

    @cached_property
    def scores(self) -> Heads:
        """The logarithms of the weights, 0 where a key is hidden."""
        return self.weights.log().masked_fill(~self.__dict__["visible"], 0)

    @property
    def scaled_scores(self) -> Heads:
        """The logarithms, too: the scale is 1."""
        return self.scores


def weights_only_reason(trace: Trace) -> str:
    return "only weights are given" if trace.external_origin else "the model returns only weights"


def refuse_weights_only(trace: Trace, request: str, about: str) -> None:
    """Refuse a Trace whose weights were computed outside attnviz, for a request that needs more.

    `request` begins the message, `about` is the option.
    """
    if trace.external_origin is not None:
        raise AttnvizError(
            f"{request}, but only weights are given",
            "let attnviz read a model itself, which gives all of it: attnviz.trace(text, model=…)",
            about=about,
        )


def weights_only_layer(
    number: int,
    weights: Heads,
    *,
    visible: Bool[Tensor, "*#head query key"],
    inputs: Float[Tensor, "query dim"],
    key_inputs: Float[Tensor, "key dim"] | None = None,
    given_parts: frozenset[str] = PARTS_BEYOND_WEIGHTS,
) -> Layer:
    """Return a layer of which only weights and mask are known, with values and context of width 0.

    `inputs` may have width 0 as well. `given_parts` are the names that it counts as given.
    """
    heads, queries, keys = weights.shape
    return Layer(
        layer=number,
        scale=1.0,
        head_dim=max(1, inputs.shape[-1] // heads),
        inputs=inputs,
        key_inputs=key_inputs,
        projections=None,
        queries=None,
        keys=None,
        values=weights.new_zeros(heads, keys, 0),
        mask_rule=MaskRule(matrix=visible),
        attended=WeightsOnly(weights, visible),
        context=weights.new_zeros(queries, 0),
        given=given_parts,
    )
