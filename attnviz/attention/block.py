"""A transformer block around attention: residuals, layer normalisation, feed-forward.

A sub-layer f (attention, or feed-forward) stands in a residual: x + f(x). It is normalised
after ("post", as in the first transformer), or what f reads is ("pre", as in GPT-2), or nothing
is ("none").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnviz.attention.arithmetic import project
from attnviz.attention.variants import Activation, NormPlacement

Vectors = Float[Tensor, "*batch token dim"]
Hidden = Float[Tensor, "*batch token hidden"]

NORM_EPSILON = 1e-5  # torch's


@dataclass(frozen=True, eq=False)
class Norm:
    """What LayerNorm multiplies with, and adds, once a vector has mean 0 and variance 1."""

    gain: Float[Tensor, "... dim"]
    shift: Float[Tensor, "... dim"]


@dataclass(frozen=True, eq=False)
class FeedForward:
    """Two matrices and an activation between them; each token goes through by itself."""

    w_1: Float[Tensor, "*batch dim hidden"]
    b_1: Float[Tensor, "... hidden"]
    w_2: Float[Tensor, "*batch hidden dim"]
    b_2: Float[Tensor, "... dim"]
    activation: Activation


@dataclass(frozen=True, eq=False)
class Residual:
    """A sub-layer and what is around it, in the order it happened."""

    norm: Norm | None  # None: in a block without any
    inputs: Vectors
    sublayer_inputs: Vectors  # the inputs, or LayerNorm of them
    sublayer_outputs: Vectors
    added: Vectors  # inputs + sublayer_outputs
    outputs: Vectors  # the sum, or LayerNorm of it


@dataclass(frozen=True, eq=False)
class FeedForwardStages:
    """What feed-forward makes of each token."""

    residual: Residual
    hidden: Hidden  # between the two matrices
    parameters: FeedForward


@dataclass(frozen=True, eq=False)
class Block:
    """What surrounds a layer's attention."""

    norm_placement: NormPlacement
    attention: Residual
    cross: Residual | None
    feed_forward: FeedForwardStages | None  # None: attention is all there is to it

    @property
    def required_feed_forward(self) -> FeedForwardStages:
        """Its feed-forward, where there is one."""
        assert self.feed_forward is not None
        return self.feed_forward

    @property
    def outputs(self) -> Vectors:
        """What leaves the block."""
        last = self.cross or self.attention
        return last.outputs if self.feed_forward is None else self.feed_forward.residual.outputs

    @property
    def residuals(self) -> dict[str, Residual]:
        """The sub-layers in their order."""
        residuals = {
            "attention": self.attention,
            "cross": self.cross,
            "feed_forward": None if self.feed_forward is None else self.feed_forward.residual,
        }
        return {name: residual for name, residual in residuals.items() if residual is not None}


def layer_norm(vectors: Vectors, norm: Norm) -> Vectors:
    """Each vector with mean 0 and variance 1, then stretched and shifted.

    Of several models side by side each has a gain and a shift of its own.
    """
    if norm.gain.ndim > 1:
        normed = functional.layer_norm(vectors, vectors.shape[-1:], eps=NORM_EPSILON)
        return normed * norm.gain + norm.shift
    return functional.layer_norm(vectors, vectors.shape[-1:], norm.gain, norm.shift, NORM_EPSILON)


def hidden_activations(vectors: Vectors, parameters: FeedForward) -> Hidden:
    """The first half of feed-forward: another width, and the activation."""
    activation = FEED_FORWARD_ACTIVATIONS[parameters.activation]
    return activation(project(vectors, parameters.w_1, parameters.b_1))


def feed_forward(hidden: Hidden, parameters: FeedForward) -> Vectors:
    """The second half: back to the width of an embedding."""
    return project(hidden, parameters.w_2, parameters.b_2)


def norm_before_sublayer(inputs: Vectors, norm: Norm | None, placement: NormPlacement) -> Vectors:
    """What a sub-layer reads."""
    return layer_norm(inputs, norm) if norm is not None and placement == "pre" else inputs


def build_residual(
    inputs: Vectors,
    sublayer_inputs: Vectors,
    sublayer_outputs: Vectors,
    norm: Norm | None,
    placement: NormPlacement,
) -> Residual:
    """x + f(x), normalised where the place says."""
    added = inputs + sublayer_outputs
    outputs = layer_norm(added, norm) if norm is not None and placement == "post" else added
    return Residual(norm, inputs, sublayer_inputs, sublayer_outputs, added, outputs)


def relu(vectors: Tensor) -> Tensor:
    """What is below 0 becomes 0."""
    return vectors.relu()


def gelu(vectors: Tensor) -> Tensor:
    """x times the share of a normal distribution that lies below x."""
    return vectors * (1 + torch.erf(vectors / 2**0.5)) / 2


def gelu_tanh(vectors: Tensor) -> Tensor:
    """The same, nearly: the share by a formula without an integral, as GPT-2 has it."""
    cubic = vectors + 0.044715 * vectors**3
    return vectors * (1 + torch.tanh((2 / pi) ** 0.5 * cubic)) / 2


FEED_FORWARD_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
}
