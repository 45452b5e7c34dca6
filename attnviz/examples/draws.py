"""Numbers drawn as a tutorial draws them: torch's own generator, in the order of the recipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a recipe is read without torch
    from torch import Generator, Tensor


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw: what it is called, which kind it is, and its shape."""

    name: str
    kind: str
    shape: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A seed, how many uniform draws are skipped, and what is drawn then."""

    seed: int = 0
    skip: int = 0
    draws: tuple[Draw, ...] = ()


def drawn(recipe: Recipe) -> dict[str, Tensor]:
    """Everything that a recipe draws, by name; a bias of `w_query` is called `b_query`.

    A generator of our own gives the numbers that torch.manual_seed would.
    """
    import torch

    stream = torch.Generator().manual_seed(recipe.seed)
    torch.rand(recipe.skip, generator=stream)
    found: dict[str, Tensor] = {}
    for draw in recipe.draws:
        numbers = KINDS[draw.kind](draw.shape, stream, **draw.options)
        names = [draw.name, _bias_of(draw.name)]
        found |= dict(zip(names, numbers, strict=False))
    return found


def _bias_of(name: str) -> str:
    """
    >>> _bias_of("w_query"), _bias_of("layers.1.cross_w_out"), _bias_of("linear")
    ('b_query', 'layers.1.cross_b_out', 'b_linear')
    """
    return re.sub(r"^((?:layers\.\d+\.)?(?:cross_)?)(?:w_)?", r"\1b_", name)


def _rand(shape: Sequence[int], stream: Generator) -> list[Tensor]:
    import torch

    return [torch.rand(*shape, generator=stream)]


def _randn(shape: Sequence[int], stream: Generator) -> list[Tensor]:
    import torch

    return [torch.randn(*shape, generator=stream)]


def _randint(shape: Sequence[int], stream: Generator, low: int = 0, high: int = 10) -> list[Tensor]:
    import torch

    return [torch.randint(low, high, tuple(shape), generator=stream).float()]


def _linear(shape: Sequence[int], stream: Generator, bias: bool = True) -> list[Tensor]:
    """What torch.nn.Linear begins with: its matrix, from the left as x W, and its bias."""
    import torch

    inputs, outputs = shape
    weight = torch.empty(outputs, inputs)
    torch.nn.init.kaiming_uniform_(weight, a=sqrt(5), generator=stream)
    if not bias:
        return [weight.T]
    reach = 1 / sqrt(inputs)
    return [weight.T, torch.empty(outputs).uniform_(-reach, reach, generator=stream)]


KINDS: dict[str, Callable[..., list[Tensor]]] = {
    "rand": _rand,
    "randn": _randn,
    "randint": _randint,
    "linear": _linear,
}
OPTIONS = {"randint": ("low", "high"), "linear": ("bias",)}  # of a kind, beside name and shape
