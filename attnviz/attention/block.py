"""A transformer block around attention: residual connections, layer norm, feed-forward.

A sub-layer f (attention or feed-forward) has a residual connection: x + f(x). The norm is applied
to that sum ("post", as in the first transformer), to f's input ("pre", as in GPT-2), or not at all
("none").
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
from attnviz.options.values import Activation, NormPlacement
from attnviz.wording.words import with_summary

Vectors = Float[Tensor, "*batch token dim"]
Hidden = Float[Tensor, "*batch token hidden"]

NORM_EPSILON = 1e-5  # torch's


@dataclass(frozen=True, eq=False)
class Norm:
    """The parameters of LayerNorm: a vector of mean 0 and variance 1 times `gain` plus `shift`."""

    gain: Float[Tensor, "... dim"]
    shift: Float[Tensor, "... dim"]


@with_summary
@dataclass(frozen=True, eq=False)
class FeedForward:
    """The parameters of feed-forward: two matrices with an activation between them."""

    w_1: Float[Tensor, "*batch dim hidden"]
    b_1: Float[Tensor, "... hidden"]
    w_2: Float[Tensor, "*batch hidden dim"]
    b_2: Float[Tensor, "... dim"]
    activation: Activation


@with_summary
@dataclass(frozen=True, eq=False)
class Residual:
    """The stages of a sub-layer with its residual connection and norm, in their order."""

    norm: Norm | None  # None: in a block without norms
    inputs: Vectors
    sublayer_inputs: Vectors  # the inputs, or LayerNorm of them
    sublayer_outputs: Vectors
    added: Vectors  # inputs + sublayer_outputs
    outputs: Vectors  # the sum, or LayerNorm of it


@with_summary
@dataclass(frozen=True, eq=False)
class FeedForwardStages:
    """The stages of feed-forward for each token."""

    residual: Residual
    hidden: Hidden  # between the two matrices
    parameters: FeedForward


@with_summary
@dataclass(frozen=True, eq=False)
class Block:
    """The sub-layers of a transformer block."""

    norm_placement: NormPlacement
    attention: Residual
    cross: Residual | None
    feed_forward: FeedForwardStages | None  # None: the block has attention only

    @property
    def required_feed_forward(self) -> FeedForwardStages:
        assert self.feed_forward is not None
        return self.feed_forward

    @property
    def outputs(self) -> Vectors:
        last = self.cross or self.attention
        return last.outputs if self.feed_forward is None else self.feed_forward.residual.outputs

    @property
    def residuals(self) -> dict[str, Residual]:
        """The sub-layers that the block has, by name, in their order."""
        residuals = {
            "attention": self.attention,
            "cross": self.cross,
            "feed_forward": None if self.feed_forward is None else self.feed_forward.residual,
        }
        return {name: residual for name, residual in residuals.items() if residual is not None}


def layer_norm(vectors: Vectors, norm: Norm) -> Vectors:
    """Return LayerNorm of each vector: mean 0 and variance 1, times the gain plus the shift."""
    if norm.gain.ndim > 1:  # of several models, each with a gain and a shift of its own
        normed = functional.layer_norm(vectors, vectors.shape[-1:], eps=NORM_EPSILON)
        return normed * norm.gain + norm.shift
    return functional.layer_norm(vectors, vectors.shape[-1:], norm.gain, norm.shift, NORM_EPSILON)


def hidden_activations(vectors: Vectors, parameters: FeedForward) -> Hidden:
    """Return the hidden activations: the first matrix of feed-forward, then its activation."""
    activation = FEED_FORWARD_ACTIVATIONS[parameters.activation]
    return activation(project(vectors, parameters.w_1, parameters.b_1))


def feed_forward(hidden: Hidden, parameters: FeedForward) -> Vectors:
    """Return the outputs of feed-forward: the hidden activations times its second matrix."""
    return project(hidden, parameters.w_2, parameters.b_2)


def norm_before_sublayer(inputs: Vectors, norm: Norm | None, placement: NormPlacement) -> Vectors:
    """Return a sub-layer's input, normalised if there is a norm and it comes first ("pre")."""
    return layer_norm(inputs, norm) if norm is not None and placement == "pre" else inputs


def build_residual(
    inputs: Vectors,
    sublayer_inputs: Vectors,
    sublayer_outputs: Vectors,
    norm: Norm | None,
    placement: NormPlacement,
) -> Residual:
    """Return the stages of x + f(x), whose outputs are normalised if the norm comes last ("post").

    x is `inputs`, and f(x) is `sublayer_outputs`.
    """
    added = inputs + sublayer_outputs
    outputs = layer_norm(added, norm) if norm is not None and placement == "post" else added
    return Residual(norm, inputs, sublayer_inputs, sublayer_outputs, added, outputs)


def gelu(vectors: Tensor) -> Tensor:
    """Return x · Φ(x), with Φ the distribution function of the standard normal distribution."""
    return vectors * (1 + torch.erf(vectors / 2**0.5)) / 2


def gelu_tanh(vectors: Tensor) -> Tensor:
    """Return GELU by the approximation with tanh that GPT-2 uses."""
    cubic = vectors + 0.044715 * vectors**3
    return vectors * (1 + torch.tanh((2 / pi) ** 0.5 * cubic)) / 2


FEED_FORWARD_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
}
