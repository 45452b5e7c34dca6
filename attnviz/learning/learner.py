"""A Learner: the numbers of a model, how they start, and how one step changes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnviz.attention.block import Norm
from attnviz.learning.task import NOTHING, Examples, Task
from attnviz.traces.from_text import placed
from attnviz.traces.layers import layers
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model, Unembedding
from attnviz.traces.models.prediction import normed, scores_of_answers
from attnviz.traces.plan import Plan, planned
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Layer
from attnviz.vectors import positions
from attnviz.vectors.drawn import Seeds


class Learner:
    """A model while it learns; or several side by side, each by its own sentences and its own loss.

    AdamW changes every number by itself, so that a model among others learns as it would alone.
    """

    def __init__(self, model: Model, rate: float) -> None:
        self.model = model
        self.plan = plan_of(model, training=True)
        self.parameters = {name: each.requires_grad_() for name, each in model.parameters.items()}
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=rate, fused=True)

    @property
    def kept(self) -> dict[str, dict[str, Tensor]]:
        """What the optimizer knows of each parameter now, for going on another time."""
        return {
            name: {kind: apart(each) for kind, each in self.optimizer.state[parameter].items()}
            for name, parameter in self.parameters.items()
        }

    def go_on(self, kept: Mapping[str, Mapping[str, Tensor]]) -> None:
        """With what the optimizer knew when it was kept; before the first step that is nothing."""
        for name, each in kept.items():
            if each:
                parameter = self.parameters[name]
                self.optimizer.state[parameter] = {
                    kind: tensor.to(parameter.device, copy=True) for kind, tensor in each.items()
                }

    def through(self, ids: Int[Tensor, "*batch token"]) -> Passed:
        """What the model makes of sentences."""
        return through(self.model, self.plan, ids)

    def losses(self, examples: Examples) -> Float[Tensor, "*seed"]:
        """How far the answers are from right: the cross-entropy of each that is asked for."""
        return losses_of(self.through(examples.ids), examples)

    def learn(self, examples: Examples) -> Float[Tensor, "*seed"]:
        """One step; and the losses before it."""
        losses = self.losses(examples)
        self.optimizer.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return losses.detach()


def apart(tensor: Tensor) -> Tensor:
    """Its numbers as they are now, in memory of their own."""
    return tensor.detach().to("cpu", copy=True)


def losses_of(passed: Passed, examples: Examples) -> Float[Tensor, "*seed"]:
    """The mean over the answers that are asked for; of several models that of each."""
    logits, answers = passed.logits.flatten(0, -2), examples.answers
    if answers.ndim == 2:
        return functional.cross_entropy(logits, answers.flatten(), ignore_index=NOTHING)
    of_each = functional.cross_entropy(
        logits, answers.flatten(), ignore_index=NOTHING, reduction="none"
    ).view(answers.shape)
    return of_each.sum((-2, -1)) / (answers != NOTHING).sum((-2, -1))


def accuracies_of(passed: Passed, examples: Examples) -> Float[Tensor, "*seed"]:
    """How many of the answers that are asked for are right."""
    asked = examples.answers != NOTHING
    right = (passed.logits.argmax(-1) == examples.answers) & asked
    return right.sum((-2, -1)) / asked.sum((-2, -1))


def scores_of_heads(
    passed: Passed, examples: Examples
) -> dict[str, Float[np.ndarray, "layer head"]]:
    """Of each reading: how much weight each head puts on what it should read then, on average."""
    return {
        name: np.stack([_score(layer.attended.weights, read) for layer in passed.layers])
        for name, read in examples.readings.items()
    }


def _score(weights: Float[Tensor, "sentence head query key"], read: Tensor) -> np.ndarray:
    there = read != NOTHING
    chosen = read.clamp(min=0)[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    put = weights.gather(-1, chosen).squeeze(-1) * there[:, None]
    found: np.ndarray = (put.sum((0, 2)) / there.sum()).cpu().numpy()
    return found


def side_by_side(models: Sequence[Model]) -> Model:
    """Models of the same settings as one: with an axis of models, and one for their sentences."""
    named = [each.parameters for each in models]
    return models[0].with_parameters(
        {name: _stacked(name, [each[name] for each in named]) for name in named[0]}
    )


def _stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """Matrices as [model, 1, rows, columns], and vectors so that they are added to rows.

    What weighs additive scores is added to nothing: it is multiplied with each of them.
    """
    together = torch.stack([*tensors])
    whole = together.ndim > 2 or name.endswith("w_score")
    return together.unsqueeze(1) if whole else together[:, None, None, :]


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


def fresh(task: Task, settings: Settings) -> Model:
    """Matrices N(0, 1/inputs), vectors N(0, 1): queries and keys of variance 1, scores of d_k."""
    seeds, dim = Seeds((settings.seed,)), settings.width
    plan = planned(settings, Matrices(), dim)
    words = task.vocabulary
    made = [_of_layer(plan, number, dim) for number in range(settings.layers or 1)]
    if settings.positions == "learned":
        made[0]["positions"] = positions.learned(task.longest, dim, seeds)
    first, *above = map(_matrices, made)
    norm = Norm(torch.ones(dim), torch.zeros(dim)) if settings.norm == "pre" else None
    return Model(
        name=task.name,
        about=task.about,
        settings=settings,
        vocabulary=words,
        embeddings=seeds.embed(range(len(words.words)), dim).float(),
        matrices=_with_layers(first, above),
        unembedding=Unembedding(
            norm=norm, w_answers=seeds.projection("w_answers", dim, len(words.answers)).float()
        ),
        longest=task.longest if settings.positions == "learned" else None,
    )


def _with_layers(first: Matrices, above: list[Matrices]) -> Matrices:
    return replace(first, above=tuple(above))


def _matrices(named: dict[str, Tensor]) -> Matrices:
    in_float32: dict[str, Any] = {name: each.float() for name, each in named.items()}
    return Matrices(**in_float32)


def _of_layer(plan: Plan, number: int, dim: int) -> dict[str, Tensor]:
    """The matrices of one layer, by their names; gains are 1, and whatever is added is 0."""
    stream = f"L{number} " if number else ""
    variant, seeds, width = plan.variant, plan.seeds, plan.width or 1
    shapes = _shapes_of_attention(plan, dim)
    if plan.settings.feeds:
        wide = plan.hidden_width(dim)
        shapes |= {"w_1": (dim, wide), "w_2": (wide, dim)}
    found: dict[str, Any] = {
        name: seeds.projection(f"{stream}{name}", *shape) for name, shape in shapes.items()
    }
    if variant.additive:
        found["w_score"] = seeds.projection(f"{stream}w_score", width, variant.heads).T.flatten()
    if plan.settings.feeds:
        found |= {"b_1": torch.zeros(wide), "b_2": torch.zeros(dim)}
    if plan.settings.blocks and plan.settings.norm != "none":
        for name in ("attention", "feed_forward")[: 2 if plan.settings.feeds else 1]:
            found |= {f"{name}_gain": torch.ones(dim), f"{name}_shift": torch.zeros(dim)}
    return found


def _shapes_of_attention(plan: Plan, dim: int) -> dict[str, tuple[int, int]]:
    """Of the matrices that a variant has: embeddings that are compared themselves have none."""
    variant, width = plan.variant, plan.width or 1
    groups = variant.kv_heads or variant.heads
    found: dict[str, tuple[int, int]] = {}
    if variant.projected:
        found |= {
            "w_query": (dim, variant.heads * width),
            "w_key": (dim, groups * width),
            "w_value": (dim, groups * plan.value_width),
        }
    if variant.joined:
        found["w_out"] = (variant.heads * plan.value_width, dim)
    return found
