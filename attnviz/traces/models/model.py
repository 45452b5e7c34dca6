"""A Model: its card and tensors, and which tokens each head may attend to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.block import Norm
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.card import Card
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME
from attnviz.wording.words import counted, with_summary

LAYER_PREFIX = "layers."
SightDirection = Literal["all", "before", "after"]
SIGHT_DIRECTIONS: tuple[SightDirection, ...] = get_args(SightDirection)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Which keys a head may attend to, and what their distance adds to its scores."""

    sees: SightDirection = "all"
    itself: float | None = 0.0  # added to a token's score with itself; None: it is masked
    near: float = 0.0  # subtracted from a score for each position of distance


FULL_SIGHT = Sight()
Sights = Sequence[Sequence[Sight]]  # of each layer, of each head


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class Unembedding:
    """The matrix that turns last vectors into logits of answers.

    `norm`, if any, comes before it.
    """

    norm: Norm | None
    w_answers: Float[Tensor, "*batch dim answer"]
    b_answers: Float[Tensor, "answer"] | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Model(Card):
    """A complete model: its card, its tensors, and which keys each head may attend to.

    While several seeds are trained at once, every tensor has an axis of seeds first.
    """

    embeddings: Float[Tensor, "*batch word dim"]
    matrices: Matrices  # of all layers, with the position vectors if they are learned
    unembedding: Unembedding | None  # None: it predicts nothing
    sights: Sights = ()  # which tokens heads may attend to; (): as the settings say

    def __repr__(self) -> str:
        numbers = sum(tensor.numel() for tensor in self.parameters.values())
        return f"<Model {self.name!r}: {counted(numbers, 'number')}>"

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Every tensor that the model has, by its name in a model file."""
        tensors: dict[str, Tensor | None] = {"embeddings": self.embeddings}
        tensors |= self.matrices.tensors_of_all_layers
        if self.unembedding is not None:
            norm = self.unembedding.norm
            tensors |= {
                "last_gain": None if norm is None else norm.gain,
                "last_shift": None if norm is None else norm.shift,
                "w_answers": self.unembedding.w_answers,
                "b_answers": self.unembedding.b_answers,
            }
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    def with_parameters(self, tensors: Mapping[str, Tensor]) -> Model:
        """Return a copy of the model with all its tensors replaced, named as in `parameters`."""
        above = [
            replace(layer, **tensors_of_layer(tensors, number))
            for number, layer in enumerate(self.matrices.upper_layers, start=1)
        ]
        matrices: dict[str, Any] = {name: tensors[name] for name in self.matrices.tensors}
        return replace(
            self,
            embeddings=tensors["embeddings"],
            matrices=replace(self.matrices, **matrices, upper_layers=tuple(above)),
            unembedding=None if self.unembedding is None else unembedding_of(tensors),
        )

    def like(self, reference: Tensor) -> Model:
        tensors = {name: tensor.to(reference) for name, tensor in self.parameters.items()}
        return self.with_parameters(tensors)


def tensors_of_layer(tensors: Mapping[str, Tensor], number: int) -> dict[str, Any]:
    """Return the tensors of layer `number` (1 or higher), without 'layers.1.' in their names."""
    prefix = f"{LAYER_PREFIX}{number}."
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors[name] for name in names}


def unembedding_of(tensors: Mapping[str, Tensor]) -> Unembedding:
    """Return the unembedding made of a model's tensors: 'w_answers', with bias and norm if any."""
    gain = tensors.get("last_gain")
    norm = None if gain is None else Norm(gain, tensors["last_shift"])
    return Unembedding(
        norm=norm, w_answers=tensors["w_answers"], b_answers=tensors.get("b_answers")
    )


def build_model(card: Card, tensors: Mapping[str, Tensor], sights: Sights = ()) -> Model:
    """Return the model of a card and of tensors, named as in `Model.parameters`; checks nothing.

    Without the tensor 'w_answers' it has no unembedding, and predicts nothing.
    """
    layers = range(1, card.settings.layers or 1)
    first_names = (PARTS_BY_GIVEN_NAME.keys() & tensors.keys()) - {"embeddings"}
    first: dict[str, Any] = {name: tensors[name] for name in first_names}
    return Model(
        **{field.name: getattr(card, field.name) for field in fields(Card)},
        embeddings=tensors["embeddings"],
        matrices=Matrices(
            **first,
            upper_layers=tuple(Matrices(**tensors_of_layer(tensors, number)) for number in layers),
        ),
        unembedding=unembedding_of(tensors) if "w_answers" in tensors else None,
        sights=sights,
    )


def restrict_sight(matrices: Matrices, sights: Sights, count: int) -> Matrices:
    """Return the matrices of all layers with the masks that `sights` give for `count` tokens.

    Each layer gets `hidden` (masked keys) and `mask` (what is added to scores), where any head
    needs them. The matrices are returned as they are if no head masks keys or adds to scores.
    """
    all_sights = [sight for layer in sights for sight in layer]
    if all(sight == FULL_SIGHT for sight in all_sights):
        return matrices
    hides = any(sight.sees != "all" or sight.itself is None for sight in all_sights)
    adds = any(sight.near or sight.itself for sight in all_sights)
    first, *above = (
        replace(
            layer_matrices,
            hidden=_sight_mask(layer, count) if hides else None,
            mask=_sight_bias(layer, count) if adds else None,
        )
        for layer_matrices, layer in zip((matrices, *matrices.upper_layers), sights, strict=True)
    )
    return replace(first, upper_layers=tuple(above))


def _sight_mask(sights: Sequence[Sight], count: int) -> Bool[Tensor, "head query key"]:
    """Return, for each head, True where a query may not attend to a key."""
    distance = _signed_distances(count)
    itself, nothing = distance == 0, torch.zeros_like(distance) > 0
    hidden = {"all": nothing, "before": distance > 0, "after": distance < 0}
    return torch.stack([hidden[sight.sees] | (itself & (sight.itself is None)) for sight in sights])


def _sight_bias(sights: Sequence[Sight], count: int) -> Float[Tensor, "head query key"]:
    """Return what each head adds to scores: `itself` on the diagonal, minus `near` × distance."""
    distance, diagonal = _signed_distances(count).abs(), torch.eye(count)
    return torch.stack(
        [(sight.itself or 0.0) * diagonal - sight.near * distance for sight in sights]
    )


def _signed_distances(count: int) -> Float[Tensor, "query key"]:
    position = torch.arange(count, dtype=torch.float32)
    return position[None, :] - position[:, None]
