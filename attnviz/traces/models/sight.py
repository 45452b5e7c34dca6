"""What each head of a model written by hand may read, and how much it prefers what is near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.traces.matrices import Matrices

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
