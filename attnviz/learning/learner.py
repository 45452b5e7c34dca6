"""Learner: a model's parameters, their initial values, forward passes and training steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from attnviz.learning.task import NO_TOKEN, Examples, Task
from attnviz.traces.from_text import add_positions
from attnviz.traces.layers import compute_layers
from attnviz.traces.matrices import Matrices
from attnviz.traces.matrix_names import LAYERS_KEY
from attnviz.traces.models.answers import answer_scores, apply_last_norm
from attnviz.traces.models.card import Card
from attnviz.traces.models.folder import model_shapes
from attnviz.traces.models.model import Model, build_model
from attnviz.traces.plan import Plan, build_plan
from attnviz.traces.settings import Settings, chosen_variant
from attnviz.traces.trace import Layer
from attnviz.vectors import positions
from attnviz.vectors.random_numbers import Seeds


class Learner:
    """A model in training, or several side by side, each with its own sentences and loss.

    AdamW updates every number independently, so that a model learns as it would alone.
    """

    def __init__(self, model: Model, rate: float) -> None:
        self.model = model
        self.plan = model_plan(model, training=True)
        self.parameters = {name: each.requires_grad_() for name, each in model.parameters.items()}
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=rate, fused=True)

    @property
    def optimizer_state(self) -> dict[str, dict[str, Tensor]]:
        """A copy on the CPU of AdamW's state for each parameter, from which training can
        continue."""
        return {
            name: {key: copy_to_cpu(each) for key, each in self.optimizer.state[parameter].items()}
            for name, parameter in self.parameters.items()
        }

    def restore_optimizer(self, optimizer_state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Set the optimizer's state to a saved one, which is empty before the first step."""
        for name, state in optimizer_state.items():
            if state:
                parameter = self.parameters[name]
                self.optimizer.state[parameter] = {
                    kind: tensor.to(parameter.device, copy=True) for kind, tensor in state.items()
                }

    def run(self, ids: Int[Tensor, "*batch token"]) -> ForwardPass:
        return run_learner_model(self.model, self.plan, ids)

    def losses(self, examples: Examples) -> Float[Tensor, "*seed"]:
        """Return the mean cross-entropy of the answers, one number for each model."""
        return mean_losses(self.run(examples.ids), examples)

    def learn(self, examples: Examples) -> Float[Tensor, "*seed"]:
        """Make one training step, and return each model's loss before it."""
        losses = self.losses(examples)
        self.optimizer.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return losses.detach()


def copy_to_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def mean_losses(passed: ForwardPass, examples: Examples) -> Float[Tensor, "*seed"]:
    """Return the mean cross-entropy of the answers wanted; for several models, one number each."""
    logits, answers = passed.logits.flatten(0, -2), examples.answers
    if answers.ndim == 2:
        return functional.cross_entropy(logits, answers.flatten(), ignore_index=NO_TOKEN)
    answer_losses = functional.cross_entropy(
        logits, answers.flatten(), ignore_index=NO_TOKEN, reduction="none"
    ).view(answers.shape)
    return answer_losses.sum((-2, -1)) / (answers != NO_TOKEN).sum((-2, -1))


def share_correct(passed: ForwardPass, examples: Examples) -> Float[Tensor, "*seed"]:
    """Return the share of wanted answers that are right; for several models, one number each."""
    answer_count = (examples.answers != NO_TOKEN).sum((-2, -1))
    return correct_answers(passed, examples).sum((-2, -1)) / answer_count


def correct_answers(
    passed: ForwardPass, examples: Examples
) -> Bool[Tensor, "*seed sentence token"]:
    return (passed.logits.argmax(-1) == examples.answers) & (examples.answers != NO_TOKEN)


def reading_scores(
    passed: ForwardPass, examples: Examples
) -> dict[str, Float[np.ndarray, "layer head"]]:
    """Return for each reading the mean weight of each head on the positions that the reading tells
    to attend to. The mean is over the tokens that have such a position; NaN if there are none."""
    return {
        name: np.stack([_mean_weight_read(layer.attended.weights, keys) for layer in passed.layers])
        for name, keys in examples.readings.items()
    }


def even_reading_scores(passed: ForwardPass, examples: Examples) -> dict[str, float]:
    """Return what the `reading_scores` of a head would be that attends evenly to all that it sees,
    in the first layer."""
    visible = passed.layers[0].visible.float()
    even = (visible / visible.sum(-1, keepdim=True)).expand(len(examples.ids), -1, -1)[:, None]
    return {
        name: float(_mean_weight_read(even, keys)[0]) for name, keys in examples.readings.items()
    }


def _mean_weight_read(
    weights: Float[Tensor, "sentence head query key"], keys: Tensor
) -> np.ndarray:
    """Return each head's mean weight on the positions in `keys`, over all tokens that have one."""
    has_target = keys != NO_TOKEN
    targets = keys.clamp(min=0)[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    weights_read = weights.gather(-1, targets).squeeze(-1) * has_target[:, None]
    return (weights_read.sum((0, 2)) / has_target.sum()).cpu().numpy()


def stack_models(models: Sequence[Model]) -> Model:
    """Return models of the same settings as one, whose parameters have first axes for models and
    for sentences."""
    by_model = [model.parameters for model in models]
    stacked = {
        name: _stack_parameter(name, [parameters[name] for parameters in by_model])
        for name in by_model[0]
    }
    return models[0].with_parameters(stacked)


def _stack_parameter(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """Return one parameter of several models as one tensor.

    Matrices become [model, 1, rows, columns], and vectors [model, 1, 1, columns], to be added to
    rows. w_score becomes [model, 1, columns], as it is multiplied with scores and not added.
    """
    stacked = torch.stack([*tensors])
    is_matrix = stacked.ndim > 2 or name.endswith("w_score")
    return stacked.unsqueeze(1) if is_matrix else stacked[:, None, None, :]


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """The embeddings, layers and logits of one forward pass."""

    embeddings: Float[Tensor, "*batch token dim"]
    layers: tuple[Layer, ...]
    logits: Float[Tensor, "*batch token answer"]


def model_plan(model: Model, *, training: bool = False) -> Plan:
    plan = build_plan(model.settings, Matrices(), model.settings.width)
    return replace(plan, matrices=model.matrices, training=training)


def run_learner_model(model: Model, plan: Plan, ids: Int[Tensor, "*batch token"]) -> ForwardPass:
    assert model.unembedding is not None
    embeddings = embed_ids(model, ids)
    layers = tuple(compute_layers(plan, add_positions(embeddings, plan)))
    vectors = apply_last_norm(layers[-1].outputs, model.unembedding)
    return ForwardPass(embeddings, layers, answer_scores(vectors, model.unembedding))


def embed_ids(
    model: Model, ids: Int[Tensor, "*batch token"]
) -> Float[Tensor, "*seed sentence token dim"]:
    """Return the embedding of each token; of several models stacked, each has its own table and
    sentences."""
    table = model.embeddings
    if table.ndim == 2:
        return functional.embedding(ids, table)
    models = torch.arange(len(table))[:, None, None]
    return table[models, 0, ids]


def new_model(task: Task, settings: Settings) -> Model:
    """Return an untrained model for a task: matrices from N(0, 1/inputs) and embeddings from N(0,
    1). Queries and keys then have variance 1, and scores d_k. Learned positions, if any, reach to
    the longest sentence."""
    card = Card(
        name=task.name,
        about=task.about,
        settings=settings,
        vocabulary=task.vocabulary,
        longest=task.longest if settings.positions == "learned" else None,
    )
    shapes = model_shapes(card).required.items()
    return build_model(card, {name: _new_tensor(card, name, *shape) for name, shape in shapes})


def _new_tensor(card: Card, name: str, *shape: int) -> Tensor:
    """Return an initial tensor; gains are 1, and biases and shifts 0."""
    seeds, kind = Seeds((card.settings.seed,)), name.rpartition(".")[2]
    stream = name.replace(f"{LAYERS_KEY}.", "L").replace(".", " ")  # "L1 w_query"
    if kind.endswith("gain"):
        return torch.ones(shape)
    if kind.startswith("b_") or kind.endswith("shift"):
        return torch.zeros(shape)
    if name == "embeddings":
        return seeds.draw_embeddings(range(shape[0]), shape[1]).float()
    if name == "positions":
        return positions.untrained_positions(shape[0], shape[1], seeds).float()
    if kind == "w_score":
        heads = chosen_variant(card.settings).heads
        return seeds.draw_projection(stream, shape[0] // heads, heads).T.flatten().float()
    return seeds.draw_projection(stream, *shape).float()
