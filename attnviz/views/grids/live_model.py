"""LiveModel: a small model that a page computes, with what its forward pass needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.wording.words import with_summary

HeadPlace = tuple[int, int, int]  # the moment, the layer and the number of a head


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class LiveModel:
    """A model that a page computes for other texts and other settings.

    `facts` are JSON data: how heads attend, in the names of the page's script. Tensors have the
    names of a model file, such as `layers.1.w_query`.
    """

    text: str  # as it was typed
    tokenizer: str
    facts: Mapping[str, Any]
    vocabulary: Mapping[str, Any] | None  # None: any text can be cut, and vectors are drawn
    tensors: Mapping[str, Float[np.ndarray, "*shape"]]
    places: tuple[HeadPlace, ...]  # of the page's heads, in their order
    blocks: Mapping[str, bytes] = field(default_factory=dict)  # of a tokenizer's pieces
    moments: tuple[Mapping[str, Float[np.ndarray, "*shape"]], ...] = ()  # before the last one
    moment_bits: int = 16  # of each of their numbers
