"""A Model: its matrices, its card, and what each head may read."""

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
from attnviz.wording.words import counted

LAYER_PREFIX = "layers."


@dataclass(frozen=True, eq=False, kw_only=True)
class Unembedding:
    """From the last vectors to a score for each answer; a pre-norm stack ends in a norm."""

    norm: Norm | None
    w_answers: Float[Tensor, "*batch dim answer"]
    b_answers: Float[Tensor, "answer"] | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Model(Card):
    """Weights and words, and what people should know of them.

    In training the tensors of several models may stand side by side, with an axis of seeds first.
    """

    embeddings: Float[Tensor, "*batch word dim"]
    matrices: Matrices  # of all layers; and the vectors of its positions, if it learned them
    unembedding: Unembedding | None  # None: it predicts nothing
    sights: Sights = ()  # what the heads of each layer may read; none: what the settings say

    def __repr__(self) -> str:
        numbers = sum(tensor.numel() for tensor in self.parameters.values())
        return f"<Model {self.name!r}: {counted(numbers, 'number')}>"

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Every tensor by its name, as a file keeps them."""
        tensors: dict[str, Tensor | None] = {
            "embeddings": self.embeddings,
            **self.matrices.tensors_of_all_layers,
        }
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
        """The same model with other numbers."""
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
        """The same with every tensor on another's device and in its dtype."""
        return self.with_parameters(
            {name: tensor.to(reference) for name, tensor in self.parameters.items()}
        )


def tensors_of_layer(tensors: Mapping[str, Tensor], number: int) -> dict[str, Any]:
    """Those of one layer above the first, by their own names."""
    prefix = f"{LAYER_PREFIX}{number}."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def unembedding_of(tensors: Mapping[str, Tensor]) -> Unembedding:
    """What there is of the last step among named tensors."""
    gain = tensors.get("last_gain")
    norm = None if gain is None else Norm(gain, tensors["last_shift"])
    return Unembedding(
        norm=norm, w_answers=tensors["w_answers"], b_answers=tensors.get("b_answers")
    )


def build_model(card: Card, tensors: Mapping[str, Tensor], sights: Sights = ()) -> Model:
    """A model of its card and its tensors, by the names that `parameters` gives them."""
    layers = range(1, card.settings.layers or 1)
    first: dict[str, Any] = {
        name: each
        for name, each in tensors.items()
        if name in PARTS_BY_GIVEN_NAME and name != "embeddings"
    }
    return Model(
        **{each.name: getattr(card, each.name) for each in fields(Card)},
        embeddings=tensors["embeddings"],
        matrices=Matrices(
            **first,
            upper_layers=tuple(Matrices(**tensors_of_layer(tensors, number)) for number in layers),
        ),
        unembedding=unembedding_of(tensors) if "w_answers" in tensors else None,
        sights=sights,
    )


SightDirection = Literal["all", "before", "after"]
SIGHT_DIRECTIONS: tuple[SightDirection, ...] = get_args(SightDirection)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Which words of a sentence a head may read."""

    sees: SightDirection = "all"
    itself: float | None = 0.0  # what is added where a word reads itself; None: it may not
    near: float = 0.0  # what each place of distance takes from a score


FULL_SIGHT = Sight()
Sights = Sequence[Sequence[Sight]]  # of each layer, of each head


def restrict_sight(matrices: Matrices, sights: Sights, count: int) -> Matrices:
    """With what its heads may read of a sentence of so many words."""
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
    """What each head may not read."""
    distance = _signed_distances(count)
    hidden_by_kind = {
        "all": torch.zeros_like(distance) > 0,
        "before": distance > 0,
        "after": distance < 0,
    }
    return torch.stack(
        [
            hidden_by_kind[sight.sees] | ((distance == 0) & (sight.itself is None))
            for sight in sights
        ]
    )


def _sight_bias(sights: Sequence[Sight], count: int) -> Float[Tensor, "head query key"]:
    """What is added to scores: something to a word's own, and the less the further away."""
    distance, diagonal = _signed_distances(count).abs(), torch.eye(count)
    return torch.stack(
        [(sight.itself or 0.0) * diagonal - sight.near * distance for sight in sights]
    )


def _signed_distances(count: int) -> Float[Tensor, "query key"]:
    """How far behind each word every other stands."""
    position = torch.arange(count, dtype=torch.float32)
    return position[None, :] - position[:, None]
