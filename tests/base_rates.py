"""Base rates of a weight with loops: what other tokens give the same key, or at its distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def others_of(weights: np.ndarray, query: int, key: int, special: Sequence[int] = ()) -> float:
    """With loops: the mean of what other tokens give the same key; 0 if there are none."""
    others = [
        weights[row, key]
        for row in range(len(weights))
        if row not in (query, key, *special) and weights[row, key] > 0
    ]
    return float(sum(others) / len(others)) if others else 0.0


def base_of(weights: np.ndarray, query: int, key: int, special: Sequence[int] = ()) -> float:
    """With loops: that, or what other tokens give the key at the same distance, if it is more; the
    first token is no such key."""
    distant = [
        weights[row, row + key - query]
        for row in range(len(weights))
        if row not in (query, *special)
        and row + key - query in {*range(1, len(weights))} - {*special}
        and weights[row, row + key - query] > 0
    ]
    others = others_of(weights, query, key, special)
    return max(others, float(sum(distant) / len(distant)) if distant else 0.0)
