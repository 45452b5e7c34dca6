"""A Sweep, as curves: what becomes of each measure, scaled and unscaled."""

from __future__ import annotations

import numpy as np

from attnviz.analysis.seeds import BAND
from attnviz.analysis.sweeps import SERIES, Sweep
from attnviz.views.grids.grid import Curve, Curves
from attnviz.wording.numbers import percent

TITLES = {
    "spread": "spread of the scores",
    "entropy": "entropy (bits)",
    "peak": "peak",
    "gradient": "softmax gradient",
}


def curves_of(sweep: Sweep) -> list[Curves]:
    """A panel for each measure, scaled and unscaled, with the band that 8 of 10 seeds lie in."""
    return [_curves(sweep, name, title) for name, title in TITLES.items()]


def places(sweep: Sweep) -> tuple[tuple[float, ...], str]:
    """Where along a side the values lie, and what that side is called."""
    if sweep.by == "dim" and len(set(sweep.widths)) == len(sweep.widths):
        return tuple(float(width) for width in sweep.widths), "d_k"
    return sweep.values, sweep.by


def _curves(sweep: Sweep, name: str, title: str) -> Curves:
    across, called = places(sweep)
    order = np.argsort(across)
    lines = [_curve(series, sweep.curves[name][series].numpy()[order]) for series in SERIES]
    if name == "spread" and sweep.by != "temperature":
        root = np.sqrt(np.array(sweep.widths, dtype=float))[order]
        lines.append(Curve("√d_k", root, root, root, dashed=True))
    band = f"median of {sweep.repeats:,} seeds, band: the middle {percent(BAND[1] - BAND[0])}"
    seeds = "one seed" if sweep.repeats == 1 else band
    return Curves(title, called, tuple(sorted(across)), tuple(lines), note=seeds)


def _curve(name: str, repeats: np.ndarray) -> Curve:
    low, middle, high = np.quantile(repeats, [BAND[0], 0.5, BAND[1]], axis=1)
    return Curve(name, middle, low, high)
