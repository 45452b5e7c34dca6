"""Principal components: the directions in which vectors differ most, and what is kept by a few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True, eq=False)
class Components:
    """Directions at right angles to each other, from a mean: those of the most variance first."""

    mean: Float64[np.ndarray, "dim"]
    directions: Float64[np.ndarray, "dim component"]
    kept: float  # of the variance, from 0 to 1

    def of(
        self, vectors: Float64[np.ndarray, "token dim"]
    ) -> Float64[np.ndarray, "token component"]:
        """How far each vector is from the mean in each direction."""
        found: Float64[np.ndarray, "token component"] = (vectors - self.mean) @ self.directions
        return found


def principal(rows: Float64[np.ndarray, "row dim"], count: int) -> Components:
    """The first so many components of some rows.

    >>> principal(np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]), 1).kept
    1.0
    """
    mean = rows.mean(0)
    centred = rows - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)  # the smallest first
    variances, directions = variances[::-1].clip(min=0), directions[:, ::-1][:, :count]
    total = variances.sum()
    kept = float(variances[:count].sum() / total) if total else 1.0
    return Components(mean, directions * _signs(directions), kept)


def _signs(directions: Float64[np.ndarray, "dim component"]) -> Float64[np.ndarray, "component"]:
    """A direction is as good as its opposite: that with the largest number above 0 is taken."""
    largest = np.abs(directions).argmax(0)
    found: Float64[np.ndarray, "component"] = np.sign(
        directions[largest, np.arange(directions.shape[1])]
    )
    return found
