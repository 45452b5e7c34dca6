"""What becomes of scores and weights along a number: one sentence of a Sweep."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.sweeps import Sweep
from attnviz.views.conclusions.claims import FEWEST_SEEDS, ONE_DRAW, Amount, Pair
from attnviz.views.sweep import places
from attnviz.wording.numbers import significant_text

SPREAD, ENTROPY = Amount(significant_text, 2), Amount(significant_text, 2, " bits")


def on_sweep(comparison: Comparison, sweep: Sweep) -> str:
    """From one end of the sweep to the other: what scaling keeps, and what is lost without it."""
    across, called = places(sweep)
    order = np.argsort(across)
    first, last = int(order[0]), int(order[-1])
    noun = "the number of heads" if sweep.by == "heads" else called
    why = _why_never(comparison, sweep)
    if why:
        return f"{why}, and {noun} does not matter."

    def course(measure: str, series: str, amount: Amount) -> str:
        numbers: Tensor = sweep.curves[measure][series]
        return _course(Pair(numbers[first], numbers[last]), amount)

    return (
        f"{_over(sweep.repeats)}, as {noun} goes from {across[first]:g} to {across[last]:g}, the "
        f"spread of unscaled scores {course('spread', 'unscaled', SPREAD)} and the entropy of a "
        f"row {course('entropy', 'unscaled', ENTROPY)}; scaled, the spread "
        f"{course('spread', 'scaled', SPREAD)} and the entropy "
        f"{course('entropy', 'scaled', ENTROPY)}{_too_few(sweep.repeats)}."
    )


def _why_never(comparison: Comparison, sweep: Sweep) -> str:
    """Why there is nothing to see, whatever is drawn."""
    trace = comparison.base.trace
    if trace is not None and not trace.variant.compared:
        return "Nothing is compared, so all scores are 0"
    if int(comparison.base.visible.sum(-1).max()) == 1:
        return "A query sees one token and reads it whole"
    same = float(sweep.curves["entropy"]["unscaled"].std(0, correction=0).max()) == 0
    if same and float(sweep.curves["spread"]["unscaled"].max()) == 0:
        return "All scores are the same, so a query reads all tokens alike"
    return ""


def _over(seeds: int) -> str:
    if seeds == 1:
        return ONE_DRAW
    return f"Over {seeds:,} seeds" if seeds >= FEWEST_SEEDS else f"In the median of {seeds} seeds"


def _too_few(seeds: int) -> str:
    return "" if seeds == 1 or seeds >= FEWEST_SEEDS else ": too few seeds to tell more"


def _course(pair: Pair, amount: Amount) -> str:
    """Rising or falling where 8 of 10 seeds do so; else that it stays, or cannot be told."""
    if not bool((pair.before + pair.after).isfinite().all()):
        return "goes beyond what numbers can hold"
    direction, (before, after) = pair.direction, pair.told(amount)
    if before == after or (not direction and amount.same(*pair.medians)):
        return f"stays at {amount(pair.medians[1])}"
    if len(pair.before) < FEWEST_SEEDS:
        return f"goes from {before} to {after}{amount.unit}"
    if not direction:
        return f"shows no clear change ({before} and {after}{amount.unit})"
    return f"{'rises' if direction > 0 else 'falls'} from {before} to {after}{amount.unit}"
