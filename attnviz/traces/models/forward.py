"""From ids to answers, for traces and for training: the one way through a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnviz.traces.from_text import placed
from attnviz.traces.layers import layers
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model
from attnviz.traces.models.prediction import normed, scores_of_answers
from attnviz.traces.plan import Plan, planned
from attnviz.traces.trace import Layer


@dataclass(frozen=True, eq=False)
class Passed:
    """What happened to ids on their way through a model."""

    embeddings: Float[Tensor, "*batch token dim"]
    layers: tuple[Layer, ...]
    logits: Float[Tensor, "*batch token answer"]


def plan_of(model: Model, *, training: bool = False) -> Plan:
    """What is decided by the model's settings; its matrices are those that they ask for."""
    plan = planned(model.settings, Matrices(), model.settings.width)
    return replace(plan, matrices=model.matrices, training=training)


def through(model: Model, plan: Plan, ids: Int[Tensor, "*batch token"]) -> Passed:
    """Embeddings, layers, and a score for each answer at each token."""
    assert model.unembedding is not None
    embeddings = embedded(model, ids)
    done = tuple(layers(plan, placed(embeddings, plan)))
    vectors = normed(done[-1].outputs, model.unembedding)
    return Passed(embeddings, done, scores_of_answers(vectors, model.unembedding))


def embedded(
    model: Model, ids: Int[Tensor, "*batch token"]
) -> Float[Tensor, "*seed sentence token dim"]:
    """The vector of each token; of several models side by side those of each, of its sentences."""
    table = model.embeddings
    if table.ndim == 2:
        return functional.embedding(ids, table)
    of_model = torch.arange(len(table))[:, None, None]
    return table[of_model, 0, ids]
