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

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import Map
from attnviz.cells import Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.traces.archive import is_from_archive
from attnviz.traces.origin import trained_card
from attnviz.traces.trace import Layer, Trace, refuse_weights_only
from attnviz.traces.weights import tensor_to_numpy

if TYPE_CHECKING:
    from attnviz.traces.trained.gradients import Gradients


def weigh_maps(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """Maps whose cells say more than where a head looks, if that is asked for."""
    if options.weigh != "weight":
        refuse_weights_only(trace, f"--weigh {options.weigh} needs values", "weigh")
    if options.weigh == "norm":
        return tuple(_weigh_by_length(head_map, trace) for head_map in maps)
    if options.weigh == "gradient":
        gradients = find_answer_gradients(trace, options)
        return tuple(_weigh_by_gradient(head_map, gradients) for head_map in maps)
    return maps


@lru_cache(maxsize=1)  # asked for by each step that needs it
def find_answer_gradients(trace: Trace, options: InspectOptions) -> Gradients:
    """The answer whose gradient is taken, and its gradients."""
    from attnviz.traces.trained.gradients import answer_gradients

    return answer_gradients(trace, options.toward)


def _weigh_by_length(head_map: Map, trace: Trace) -> Map:
    """After Kobayashi et al. (2020): what is read much may hand on little."""
    assert head_map.layer is not None
    assert head_map.head is not None
    lengths = tensor_to_numpy(passed_on_lengths(head_map.layer, head_map.head, trace))
    return replace(head_map, cells=LengthWeightedCells(head_map.cells, lengths), share=False)


def _weigh_by_gradient(head_map: Map, gradients: Gradients) -> Map:
    """To first order, what a weight adds to the score of an answer."""
    assert head_map.layer is not None
    assert head_map.head is not None
    gradient = tensor_to_numpy(gradients.by_layer[head_map.layer.layer][head_map.head])
    values = tensor_to_numpy(head_map.layer.values_of_heads[head_map.head])
    return replace(
        head_map, cells=GradientWeightedCells(head_map.cells, gradient, values), share=False
    )


@dataclass(frozen=True, eq=False, repr=False)
class GradientWeightedCells(Cells):
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
class LengthWeightedCells(Cells):
    """Each weight times the length of what its key hands on."""

    cells: Cells
    lengths: Float[ndarray, "key"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, columns)
        return Patch(patch.values * self.lengths[columns], patch.hidden)


def passed_on_lengths(layer: Layer, head: int, trace: Trace) -> Float[Tensor, "key"]:
    """How long what a head hands on of each key is: its value, through its part of W_o."""
    values, w_out_rows = layer.values_of_heads[head], _w_out_rows(layer, head, trace)
    if w_out_rows is None:
        return _vector_lengths(values)
    # A turned vector is as long as before: W_oᵀ = Q R, and of that R alone changes a length.
    triangle = torch.linalg.qr(w_out_rows.T.double(), mode="r").R
    return _vector_lengths(values.double() @ triangle.T).to(values)


def _vector_lengths(vectors: Float[Tensor, "key width"]) -> Float[Tensor, "key"]:
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return lengths


def _w_out_rows(layer: Layer, head: int, trace: Trace) -> Float[Tensor, "width dim"] | None:
    """The rows of W_o that a head is multiplied with; None where there is no such matrix."""
    heads, _, width = layer.values_of_heads.shape
    w_out = None if layer.projections is None else layer.projections.w_out
    card = trained_card(trace.origin)
    if w_out is not None and len(w_out) == heads * width and width:
        parts: Tensor = rearrange(w_out, "(head width) dim -> head width dim", head=heads)
        return parts[head]
    if card is None and w_out is None:
        return None
    multiplies = "--weigh norm multiplies values by the matrix that joins heads"
    if card is not None and is_from_archive(layer, card):
        raise AttnvizError(
            f"{multiplies}, but the file of a trace holds no matrices of a model",
            f"use the model itself: give its text, and --model {card.name}",
            about="weigh",
        )
    name = "this model" if card is None else f"the model '{card.name}' ({card.kind})"
    raise AttnvizError(
        f"{multiplies}, but it could not be found in {name}", "leave --weigh out", about="weigh"
    )
