"""Weights times the length of value vectors, or times the gradient of an answer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.errors import AttnvizError, opt
from attnviz.heads.changes import weigh
from attnviz.heads.head import Head
from attnviz.traces.archive import is_from_archive
from attnviz.traces.trace import Layer, Trace, refuse_weights_only
from attnviz.traces.trained.model_in_memory import refuse_changed_model
from attnviz.traces.weights import tensor_to_numpy

if TYPE_CHECKING:
    from attnviz.traces.trained.gradients import Gradients


def weigh_maps(maps: tuple[Head, ...], trace: Trace, options: InspectOptions) -> tuple[Head, ...]:
    """Return the maps with their weights multiplied as `options.weigh` says: by value lengths
    ("norm"), by gradients ("gradient"), or not at all ("weight"). Refuses the first two for a trace
    that has only weights."""
    if options.weigh != "weight":
        refuse_weights_only(trace, f"{opt.weigh:{options.weigh}} needs values", "weigh")
    if options.weigh == "norm":
        refuse_changed_model(trace)
        return tuple(_weigh_by_length(head, trace) for head in maps)
    if options.weigh == "gradient":
        gradients = find_answer_gradients(trace, options)
        return tuple(_weigh_by_gradient(head, gradients) for head in maps)
    return maps


@lru_cache(maxsize=1)  # several views of one inspection call it
def find_answer_gradients(trace: Trace, options: InspectOptions) -> Gradients:
    """Return the answer that `options.toward` chooses, with the gradients of its score by layer."""
    from attnviz.traces.trained.gradients import answer_gradients

    return answer_gradients(trace, options.toward)


def _weigh_by_length(head: Head, trace: Trace) -> Head:
    """Return the head with each weight times the length of the vector its key passes on (Kobayashi
    et al. 2020)."""
    lengths = tensor_to_numpy(passed_on_lengths(head.layer, head.number, trace))
    return weigh(head, lambda _, keys: lengths[None, keys])


def _weigh_by_gradient(head: Head, gradients: Gradients) -> Head:
    """Return the head with each weight times its gradient, which is the product of its query's
    context gradient and its key's value: to first order its part of an answer's score."""
    gradient = tensor_to_numpy(gradients.by_layer[head.layer.layer][head.number])
    values = tensor_to_numpy(head.layer.values_of_heads[head.number])
    return weigh(head, lambda rows, keys: gradient[rows] @ values[keys].T)


def passed_on_lengths(layer: Layer, head: int, trace: Trace) -> Float[Tensor, "key"]:
    """Return for each key the length of its value vector after the head's rows of W_o, or of the
    value itself in an attention without W_o. Refuses a model whose W_o is not known."""
    values, w_out_rows = layer.values_of_heads[head], _w_out_rows(layer, head, trace)
    vectors = values
    if w_out_rows is not None:
        # Of W_oᵀ = Q R only R changes lengths, and it is smaller.
        triangle = torch.linalg.qr(w_out_rows.T.double(), mode="r").R
        vectors = values.double() @ triangle.T
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return lengths.to(values)


def _w_out_rows(layer: Layer, head: int, trace: Trace) -> Float[Tensor, "width dim"] | None:
    """Return the rows of W_o that multiply a head's context vectors; None if the attention has no
    W_o. Refuses a trained model whose W_o could not be found or is not in the trace's file."""
    heads, _, width = layer.values_of_heads.shape
    w_out = None if layer.projections is None else layer.projections.w_out
    card = trace.trained
    if w_out is not None and len(w_out) == heads * width and width:
        parts: Tensor = rearrange(w_out, "(head width) dim -> head width dim", head=heads)
        return parts[head]
    if card is None and w_out is None:
        return None
    multiplies = f"{opt.weigh:norm} multiplies values by the matrix that joins heads"
    if card is not None and is_from_archive(layer, card):
        raise AttnvizError(
            f"{multiplies}, but the file of a trace holds no matrices of a model",
            f"use the model itself: give its text, and {opt.model:{card.name}}",
            about="weigh",
        )
    name = "this model" if card is None else f"the model '{card.name}' ({card.kind})"
    raise AttnvizError(
        f"{multiplies}, but it could not be found in {name}",
        f"leave {opt.weigh} out",
        about="weigh",
    )
