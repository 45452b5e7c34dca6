"""Trace, Layer, Projections, Provenance; and layers of which only the weights are known."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.arithmetic import AttentionStages, MixedBy, Visible, repeat_groups
from attnviz.attention.block import Block
from attnviz.attention.variants import AblationValue, Variant
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.model import Model
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.origin import (
    FromSeed,
    FromTransformer,
    FromWeights,
    Origin,
    TrainedCard,
    external_origin,
    origin_model,
    trained_card,
)
from attnviz.traces.result import Showable
from attnviz.traces.settings import Positions
from attnviz.traces.weights import InMemoryWeights, Weights, head_mask, stack_layer_weights
from attnviz.wording.words import counted, shape_text

GIVEN_LABEL = "given"  # in place of the name of a tokenizer, where no text was cut up


@dataclass(frozen=True, eq=False)
class Projections:
    """The matrices that make queries, keys and values, and the one that joins the heads.

    None is what is not there: no biases, no matrix for what was given.
    """

    w_query: Float[Tensor, "*batch dim out"] | None = None
    w_key: Float[Tensor, "*batch dim keys_out"] | None = None
    w_value: Float[Tensor, "*batch dim values_out"] | None = None
    w_out: Float[Tensor, "*batch joined context"] | None = None
    w_score: Float[Tensor, "*batch out"] | None = None  # of additive scores
    b_query: Float[Tensor, "out"] | None = None
    b_key: Float[Tensor, "keys_out"] | None = None
    b_value: Float[Tensor, "values_out"] | None = None
    b_out: Float[Tensor, "context"] | None = None


@dataclass(frozen=True, eq=False)
class BeforeRotary:
    """Queries and keys before rotary positions turned them."""

    queries: Float[Tensor, "*batch head query width"]
    keys: Float[Tensor, "*batch group key width"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Layer:
    """One layer of attention, in the order things happened; in a block with what surrounds it."""

    layer: int
    scale: float
    head_dim: int  # the width of a head's queries; of its values, where the scores were given
    inputs: Float[Tensor, "*batch query dim"]
    key_inputs: Float[Tensor, "*batch key dim"] | None = (
        None  # what keys are made of, if not of these
    )
    projections: Projections | None
    before_rotary: BeforeRotary | None = None
    queries: Float[Tensor, "*batch head query width"] | None  # None: the scores were given
    keys: Float[Tensor, "*batch group key width"] | None  # neighbouring heads share a group's
    values: Float[Tensor, "*batch group key value_width"]
    visible: Visible
    attended: AttentionStages
    context: Float[Tensor, "*batch query context"]  # the heads joined, and projected
    memory: Float[Tensor, "*batch key dim"] | None = (
        None  # what cross-attention reads instead of inputs
    )
    cross: Layer | None = None  # the attention of a block to a second sentence
    block: Block | None = None
    given: frozenset[str] = frozenset()  # what was not made here
    mistake: str = ""  # the one that made the weights, if one did
    off: Mapping[int, AblationValue] = field(default_factory=dict)  # heads that are switched off
    weights_on_demand: Weights | None = (
        None  # who answers for the weights, if it is not the matrices
    )

    @property
    def weights(self) -> Weights:
        """What is shown asks here for rows, windows and blocks, and never for whole matrices."""
        return self.weights_on_demand or InMemoryWeights(
            self.attended, self.visible, self.mistake, self.width_ratio
        )

    @property
    def heads(self) -> int:
        return self.weights.heads

    def hidden_rows(self, head: int) -> list[int]:
        """The queries from which everything is hidden in a head."""
        rows: list[int] = (~head_mask(head, self.visible).any(-1)).nonzero().flatten().tolist()
        return rows

    def empty_rows(self, head: int) -> list[int]:
        """Those of them that read nothing: neither a mistake nor a hand gave them weights."""
        mixing = self.weights.cells("mixing", head)
        return [query for query in self.hidden_rows(head) if not mixing.row(query).values.any()]

    @property
    def w_score(self) -> Tensor | None:
        """What additive scores are weighed by; None where scores are products."""
        return None if self.projections is None else self.projections.w_score

    @property
    def has_product_scores(self) -> bool:
        """Whether scores are products of queries and keys: not given, and not additive."""
        has_queries_and_keys = self.queries is not None and self.keys is not None
        return has_queries_and_keys and "scores" not in self.given and self.w_score is None

    @property
    def kv_heads(self) -> int:
        """How many heads of keys and values there are: of queries there may be more."""
        return self.values.shape[-3]

    @property
    def keys_of_heads(self) -> Float[Tensor, "*batch head key width"] | None:
        """The keys that each head compares its queries with, those of its group."""
        return None if self.keys is None else repeat_groups(self.keys, self.heads)

    @property
    def values_of_heads(self) -> Float[Tensor, "*batch head key value_width"]:
        """The values that each head mixes, those of its group."""
        return repeat_groups(self.values, self.heads)

    @property
    def width_ratio(self) -> float:
        """√(model width) over √(head width), which one mistake takes for the other."""
        return sqrt(self.inputs.shape[-1] / self.head_dim)

    @property
    def weights_alone(self) -> bool:
        """Whether nothing of it is known but its weights."""
        return self.queries is None and {"scores", "queries", "keys", "values"} <= self.given

    @property
    def uses_inputs(self) -> bool:
        """Whether anything was made of the inputs, or all was given."""
        has_given_scores = "scores" in self.given or {"queries", "keys"} <= self.given
        return not (has_given_scores and "values" in self.given)

    @property
    def layer_inputs(self) -> Float[Tensor, "*batch query dim"]:
        """What entered the layer: of a block, before any norm."""
        return self.inputs if self.block is None else self.block.attention.inputs

    @property
    def outputs(self) -> Float[Tensor, "*batch query context"]:
        """What the next layer reads."""
        return self.context if self.block is None else self.block.outputs

    @property
    def attentions(self) -> tuple[Layer, ...]:
        """The attention to the sentence itself, and the one to a second, if there is one."""
        return (self,) if self.cross is None else (self, self.cross)

    def __repr__(self) -> str:
        """`<Layer L0: 2 heads, 4 × 4 weights each>`"""
        size = shape_text(self.visible.shape[-2:])
        return f"<Layer {self.name}: {counted(self.heads, 'head')}, {size} weights each>"

    @property
    def name(self) -> str:
        """`L0`, and `L0 cross` for attention to a second sentence."""
        return f"L{self.layer}" if self.memory is None else f"L{self.layer} cross"


@dataclass(frozen=True)
class Provenance:
    """What made an artefact, so that it can be made again; no names, no paths of a machine."""

    version: str
    command: str | None
    settings: Mapping[str, Any]
    seed: int
    device: str
    dtype: str
    versions: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a trained model makes of each token in the end."""

    vectors: Float[Tensor, "token dim"]
    with_all_heads: Float[Tensor, "token dim"] | None = None  # the same, where some are off


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trace(Showable):
    """Everything that happened to one sentence; `keys` are the tokens that are read.

    `memory` is the second sentence, that cross-attention reads. `vocabulary` counts the ids
    that a table of embeddings would have rows for, where somebody knows.

    >>> from attnviz import trace
    >>> made = trace("I am", variant="multi-head")
    >>> made.tokens.labels, len(made.layers), made.layers[0].heads
    (('I', 'am'), 1, 2)
    >>> made.layers[0].queries.shape  # head, token, width
    torch.Size([2, 2, 4])
    """

    tokens: Tokens
    keys: Tokens
    memory: Tokens | None = None
    tokenizer: str
    vocabulary: int | None = None
    variant: Variant
    positions: Positions = "none"
    embeddings: Float[Tensor, "token dim"]
    layers: tuple[Layer, ...]
    prediction: Prediction | None = None  # of a model that answers
    prompt: int | None = None  # how many tokens were given, where the model wrote the others
    outputs: Outputs | None = None  # of a trained model
    origin: Origin
    provenance: Provenance

    @property
    def weights(self) -> Float[Tensor, "layer head query key"]:
        """Who reads whom, by how much: the weights of all heads, as `--show weights` has them.

        >>> from attnviz import trace
        >>> trace("I am", variant="causal").weights[0, 0, 0]
        tensor([1., 0.])
        """
        return stack_layer_weights([layer.weights for layer in self.layers])

    def __repr__(self) -> str:
        """`<Trace 'I am': 2 tokens, 1 layer × 1 head>`"""
        heads = " or ".join(map(str, sorted({layer.heads for layer in self.layers})))
        layers = counted(len(self.layers), "layer")
        size_text = f"{counted(len(self.tokens), 'token')}, {layers} × {heads}"
        return f"<Trace {reprlib.repr(self.tokens.text)}: {size_text} head{'' if heads == '1' else 's'}>"

    @property
    def text(self) -> str | None:
        """The text that was cut up; None where tokens were given."""
        if isinstance(self.origin, FromTransformer):
            return self.origin.text
        return None if self.tokenizer == GIVEN_LABEL else self.tokens.text

    @property
    def model(self) -> Model | None:
        """The model whose numbers they are, if they are a model's."""
        return origin_model(self.origin)

    @property
    def trained(self) -> TrainedCard | None:
        """What is known of the trained transformer that was listened to, if one was."""
        return trained_card(self.origin)

    @property
    def handed(self) -> FromWeights | None:
        """What is known of weights that were computed elsewhere, if they were."""
        return external_origin(self.origin)

    @property
    def weights_alone(self) -> bool:
        """Whether nothing of its attention is known but the weights."""
        return self.layers[0].weights_alone

    @property
    def items(self) -> int:
        """How many there are in the batch that it is one of."""
        return 1 if isinstance(self.origin, FromSeed) else self.origin.matrices.items

    @cached_property
    def attentions(self) -> tuple[Layer, ...]:
        """Every attention of every layer, in the order they happened."""
        return tuple(attention for layer in self.layers for attention in layer.attentions)

    @cached_property
    def blind(self) -> tuple[tuple[Layer, int, int], ...]:
        """Attention, head and row of what reads nothing; head 0 where all have one mask."""
        return tuple(
            (layer, head, row)
            for layer in self.attentions
            for head in range(layer.heads if layer.visible.ndim == 3 else 1)
            for row in layer.empty_rows(head)
        )

    def keys_of(self, layer: Layer) -> Tokens:
        """The tokens that a layer's attention reads."""
        return self.keys if layer.memory is None or self.memory is None else self.memory


PARTS_BEYOND_WEIGHTS = frozenset(("scores", "queries", "keys", "values"))  # by others, or not known
Heads = Float[Tensor, "head query key"]


class WeightsOnly(AttentionStages):
    """Weights, and in place of the scores what their softmax could be of."""

    capped_scores = None
    bias = None
    mask = None
    sink = None
    mixed_by: MixedBy = "softmax"

    def __init__(self, weights: Heads, visible: Bool[Tensor, "*#head query key"]) -> None:
        heads, queries, _ = weights.shape
        no_contexts = weights.new_zeros(heads, queries, 0)
        attributes = {
            "weights": weights,
            "mixing": weights,
            "contexts": no_contexts,
            "visible": visible,
        }
        self.__dict__.update(attributes)  # frozen, as every Attended is

    def of_part(self, part: Callable[[Tensor], Tensor]) -> WeightsOnly:
        return WeightsOnly(part(self.weights), part(self.__dict__["visible"]))

    @cached_property
    def scores(self) -> Heads:
        hidden: Tensor = ~self.__dict__["visible"]
        return self.weights.log().masked_fill(hidden, 0)

    @property
    def scaled_scores(self) -> Heads:
        return self.scores


def weights_only_reason(trace: Trace) -> str:
    """Why nothing else can be shown of it."""
    return "only weights are given" if trace.handed else "the model returns only weights"


def refuse_weights_only(trace: Trace, request: str, about: str) -> None:
    """Refuse what needs more than weights that were computed elsewhere."""
    if trace.handed is not None:
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
    """A layer that has weights, and what it read, as far as that is known."""
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
        visible=visible,
        attended=WeightsOnly(weights, visible),
        context=weights.new_zeros(queries, 0),
        given=given_parts,
    )
