"""A Model: matrices that were learned, or written by hand, and the words that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attnviz.attention.block import Norm
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.card import Card
from attnviz.traces.models.sight import Sights
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
