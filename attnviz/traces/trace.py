"""What happened to a sentence, kept: a Trace and its Layers. `tracing` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.arithmetic import Attended
from attnviz.attention.block import Block
from attnviz.attention.variants import Variant
from attnviz.tokens.tokens import Tokens

Heads = Float[Tensor, "head token width"]


@dataclass(frozen=True, eq=False)
class Projections:
    """The matrices that make queries, keys and values, and the one that joins the heads.

    None is what is not there: no biases, no matrix for what was given.
    """

    w_query: Float[Tensor, "dim out"] | None
    w_key: Float[Tensor, "dim out"] | None
    w_value: Float[Tensor, "dim values_out"] | None
    w_out: Float[Tensor, "values_out context"] | None
    b_query: Float[Tensor, "out"] | None = None
    b_key: Float[Tensor, "out"] | None = None
    b_value: Float[Tensor, "values_out"] | None = None
    b_out: Float[Tensor, "context"] | None = None


@dataclass(frozen=True, eq=False)
class Unturned:
    """Queries and keys before rotary positions turned them."""

    queries: Heads
    keys: Heads


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of attention, in the order things happened; in a block with what surrounds it."""

    layer: int
    scale: float
    head_dim: int  # the width of a head's queries; of its values, where the scores were given
    inputs: Float[Tensor, "query dim"]
    projections: Projections | None
    unturned: Unturned | None
    queries: Float[Tensor, "head query width"] | None  # None: the scores were given
    keys: Float[Tensor, "head key width"] | None
    values: Float[Tensor, "head key value_width"]
    visible: Bool[Tensor, "query key"]
    attended: Attended
    context: Float[Tensor, "query context"]  # the heads joined, and projected
    memory: Float[Tensor, "key dim"] | None = None  # what cross-attention reads instead of inputs
    cross: Layer | None = None  # the attention of a block to a second sentence
    block: Block | None = None
    read: Float[Tensor, "key dim"] | None = None  # what keys are made of, if not of the inputs
    given: frozenset[str] = frozenset()  # what was not made here
    mistake: str = ""  # the one that made the weights, if one did

    @property
    def heads(self) -> int:
        return self.attended.weights.shape[0]

    @property
    def from_inputs(self) -> bool:
        """Whether anything was made of the inputs, or all was given."""
        compared = "scores" in self.given or {"queries", "keys"} <= self.given
        return not (compared and "values" in self.given)

    @property
    def outputs(self) -> Float[Tensor, "query context"]:
        """What the next layer reads."""
        return self.context if self.block is None else self.block.feed_forward.outputs

    @property
    def attentions(self) -> tuple[Layer, ...]:
        """The attention to the sentence itself, and the one to a second, if there is one."""
        return (self,) if self.cross is None else (self, self.cross)

    @property
    def name(self) -> str:
        """`L0`, and `L0 cross` for attention to a second sentence."""
        return f"L{self.layer}" if self.memory is None else f"L{self.layer} cross "


@dataclass(frozen=True)
class Provenance:
    """What made an artefact, so that it can be made again; no names, no paths of a machine."""

    version: str
    command: str | None
    settings: dict[str, Any]
    seed: int
    device: str
    dtype: str
    versions: dict[str, str]


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything that happened to one sentence; `keys` are the tokens that are read.

    `memory` is the second sentence, that cross-attention reads. `vocabulary` counts the ids
    that a table of embeddings would have rows for, where somebody knows.
    """

    tokens: Tokens
    keys: Tokens
    variant: Variant
    embeddings: Float[Tensor, "token dim"]
    layers: tuple[Layer, ...]
    provenance: Provenance
    memory: Tokens | None = None
    vocabulary: int | None = None

    @property
    def attentions(self) -> tuple[Layer, ...]:
        """Every attention of every layer, in the order they happened."""
        return tuple(each for layer in self.layers for each in layer.attentions)

    def keys_of(self, layer: Layer) -> Tokens:
        """The tokens that a layer's attention reads."""
        return self.keys if layer.memory is None or self.memory is None else self.memory
