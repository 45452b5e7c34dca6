"""A Learner: the numbers of a model, and how one step changes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnviz.learning.task import NOTHING, Examples
from attnviz.traces.models.forward import Passed, plan_of, through
from attnviz.traces.models.model import Model


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
