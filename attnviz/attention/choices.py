"""Words for what can be chosen of a transformer block; apart, for lists of them need no torch."""

from __future__ import annotations

from typing import Literal, get_args

Place = Literal["post", "pre"]  # of the norm
Activation = Literal["relu", "gelu"]

NORMS: tuple[Place, ...] = get_args(Place)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
