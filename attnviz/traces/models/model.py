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
from attnviz.traces.parts import GIVEN
from attnviz.wording.words import counted

ABOVE = "layers."


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
        numbers = sum(each.numel() for each in self.parameters.values())
        return f"<Model {self.name!r}: {counted(numbers, 'number')}>"

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Every tensor by its name, as a file keeps them."""
        found: dict[str, Tensor | None] = {
            "embeddings": self.embeddings,
            **self.matrices.of_all_layers,
        }
        if self.unembedding is not None:
            norm = self.unembedding.norm
            found |= {
                "last_gain": None if norm is None else norm.gain,
                "last_shift": None if norm is None else norm.shift,
                "w_answers": self.unembedding.w_answers,
                "b_answers": self.unembedding.b_answers,
            }
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def with_parameters(self, named: Mapping[str, Tensor]) -> Model:
        """The same model with other numbers."""
        above = [
            replace(each, **of_layer(named, number))
            for number, each in enumerate(self.matrices.above, start=1)
        ]
        matrices: dict[str, Any] = {name: named[name] for name in self.matrices.tensors}
        return replace(
            self,
            embeddings=named["embeddings"],
            matrices=replace(self.matrices, **matrices, above=tuple(above)),
            unembedding=None if self.unembedding is None else unembedding_of(named),
        )

    def like(self, other: Tensor) -> Model:
        """The same with every tensor on another's device and in its dtype."""
        return self.with_parameters(
            {name: each.to(other) for name, each in self.parameters.items()}
        )


def of_layer(named: Mapping[str, Tensor], number: int) -> dict[str, Any]:
    """Those of one layer above the first, by their own names."""
    start = f"{ABOVE}{number}."
    return {
        name.removeprefix(start): each for name, each in named.items() if name.startswith(start)
    }


def unembedding_of(named: Mapping[str, Tensor]) -> Unembedding:
    """What there is of the last step among named tensors."""
    gain = named.get("last_gain")
    norm = None if gain is None else Norm(gain, named["last_shift"])
    return Unembedding(norm=norm, w_answers=named["w_answers"], b_answers=named.get("b_answers"))


def made_of(card: Card, named: Mapping[str, Tensor], sights: Sights = ()) -> Model:
    """A model of its card and its tensors, by the names that `parameters` gives them."""
    layers = range(1, card.settings.layers or 1)
    first: dict[str, Any] = {
        name: each for name, each in named.items() if name in GIVEN and name != "embeddings"
    }
    return Model(
        **{each.name: getattr(card, each.name) for each in fields(Card)},
        embeddings=named["embeddings"],
        matrices=Matrices(
            **first, above=tuple(Matrices(**of_layer(named, number)) for number in layers)
        ),
        unembedding=unembedding_of(named) if "w_answers" in named else None,
        sights=sights,
    )


Sees = Literal["all", "before", "after"]
SEES: tuple[Sees, ...] = get_args(Sees)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Which words of a sentence a head may read."""

    sees: Sees = "all"
    itself: float | None = 0.0  # what is added where a word reads itself; None: it may not
    near: float = 0.0  # what each place of distance takes from a score


EVERYTHING = Sight()
Sights = Sequence[Sequence[Sight]]  # of each layer, of each head


def sighted(matrices: Matrices, sights: Sights, count: int) -> Matrices:
    """With what its heads may read of a sentence of so many words."""
    every = [sight for layer in sights for sight in layer]
    if all(sight == EVERYTHING for sight in every):
        return matrices
    hides = any(sight.sees != "all" or sight.itself is None for sight in every)
    adds = any(sight.near or sight.itself for sight in every)
    first, *above = (
        replace(
            each,
            hidden=_hidden(layer, count) if hides else None,
            mask=_added(layer, count) if adds else None,
        )
        for each, layer in zip((matrices, *matrices.above), sights, strict=True)
    )
    return replace(first, above=tuple(above))


def _hidden(sights: Sequence[Sight], count: int) -> Bool[Tensor, "head query key"]:
    """What each head may not read."""
    away = _places_away(count)
    of_heads = {"all": torch.zeros_like(away) > 0, "before": away > 0, "after": away < 0}
    return torch.stack(
        [of_heads[sight.sees] | ((away == 0) & (sight.itself is None)) for sight in sights]
    )


def _added(sights: Sequence[Sight], count: int) -> Float[Tensor, "head query key"]:
    """What is added to scores: something to a word's own, and the less the further away."""
    away, own = _places_away(count).abs(), torch.eye(count)
    return torch.stack([(sight.itself or 0.0) * own - sight.near * away for sight in sights])


def _places_away(count: int) -> Float[Tensor, "query key"]:
    """How far behind each word every other stands."""
    place = torch.arange(count, dtype=torch.float32)
    return place[None, :] - place[:, None]
