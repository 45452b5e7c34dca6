"""Weights, weighed: by the length of what each hands on, or by the gradient of an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from einops import rearrange
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map
from attnviz.cells import Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.traces.archive import is_stored
from attnviz.traces.origin import trained_behind
from attnviz.traces.trace import Layer, Trace, refuse_weights_alone
from attnviz.traces.weights import array

if TYPE_CHECKING:
    from attnviz.traces.trained.gradients import Gradients


def weighed(maps: tuple[Map, ...], trace: Trace, looking: Looking) -> tuple[Map, ...]:
    """Maps whose cells say more than where a head looks, if that is asked for."""
    if looking.weigh != "weight":
        refuse_weights_alone(trace, f"--weigh {looking.weigh} needs values", "weigh")
    if looking.weigh == "norm":
        return tuple(_by_length(each, trace) for each in maps)
    if looking.weigh == "gradient":
        found = answer_of(trace, looking)
        return tuple(_by_gradient(each, found) for each in maps)
    return maps


@lru_cache(maxsize=1)  # asked for by each step that needs it
def answer_of(trace: Trace, looking: Looking) -> Gradients:
    """The answer whose gradient is taken, and its gradients."""
    from attnviz.traces.trained.gradients import gradients_of

    return gradients_of(trace, looking.toward)


def _by_length(found: Map, trace: Trace) -> Map:
    """After Kobayashi et al. (2020): what is read much may hand on little."""
    assert found.layer is not None
    assert found.head is not None
    lengths = array(lengths_of(found.layer, found.head, trace))
    return replace(found, cells=ByLength(found.cells, lengths), share=False)


def _by_gradient(found: Map, gradients: Gradients) -> Map:
    """To first order, what a weight adds to the score of an answer."""
    assert found.layer is not None
    assert found.head is not None
    gradient = array(gradients.of[found.layer.layer][found.head])
    values = array(found.layer.values_of_heads[found.head])
    return replace(found, cells=ByGradient(found.cells, gradient, values), share=False)


@dataclass(frozen=True, eq=False, repr=False)
class ByGradient(Cells):
    """Each weight times the gradient of an answer: that of what its query gets, along a value."""

    cells: Cells
    gradient: Float[ndarray, "query width"]
    values: Float[ndarray, "key width"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, columns)
        return Patch(patch.values * (self.gradient[rows] @ self.values[columns].T), patch.hidden)


@dataclass(frozen=True, eq=False, repr=False)
class ByLength(Cells):
    """Each weight times the length of what its key hands on."""

    cells: Cells
    lengths: Float[ndarray, "key"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, columns)
        return Patch(patch.values * self.lengths[columns], patch.hidden)


def lengths_of(layer: Layer, head: int, trace: Trace) -> Float[Tensor, "key"]:
    """How long what a head hands on of each key is: its value, through its part of W_o."""
    values, joins = layer.values_of_heads[head], _part_of_w_out(layer, head, trace)
    if joins is None:
        return _lengths(values)
    # A turned vector is as long as before: W_oᵀ = Q R, and of that R alone changes a length.
    triangle = torch.linalg.qr(joins.T.double(), mode="r").R
    return _lengths(values.double() @ triangle.T).to(values)


def _lengths(vectors: Float[Tensor, "key width"]) -> Float[Tensor, "key"]:
    found: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return found


def _part_of_w_out(layer: Layer, head: int, trace: Trace) -> Float[Tensor, "width dim"] | None:
    """The rows of W_o that a head is multiplied with; None where there is no such matrix."""
    heads, _, width = layer.values_of_heads.shape
    w_out = None if layer.projections is None else layer.projections.w_out
    card = trained_behind(trace.origin)
    if w_out is not None and len(w_out) == heads * width and width:
        parts: Tensor = rearrange(w_out, "(head width) dim -> head width dim", head=heads)
        return parts[head]
    if card is None and w_out is None:
        return None
    multiplies = "--weigh norm multiplies values by the matrix that joins heads"
    if card is not None and is_stored(layer, card):
        raise AttnvizError(
            f"{multiplies}, but the file of a trace holds no matrices of a model",
            f"use the model itself: give its text, and --model {card.name}",
            about="weigh",
        )
    name = "this model" if card is None else f"the model '{card.name}' ({card.kind})"
    raise AttnvizError(
        f"{multiplies}, but it could not be found in {name}", "leave --weigh out", about="weigh"
    )
