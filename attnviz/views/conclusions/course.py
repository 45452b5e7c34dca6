"""What becomes of scores and weights along a number: one sentence of a Sweep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.sweeps import Sweep
from attnviz.views.conclusions.claims import FEWEST_SEEDS, ONE_DRAW, Amount, Pair
from attnviz.views.sweep import places
from attnviz.wording.numbers import significant_text

AMOUNTS = {"spread": Amount(significant_text, 2), "entropy": Amount(significant_text, 2, " bits")}


def on_sweep(comparison: Comparison, sweep: Sweep) -> str:
    """From one end of the sweep to the other: what scaling keeps, and what is lost without it."""
    course = _courses(sweep)
    return _why_never(comparison, sweep) or (
        f"{_start(sweep)}, the spread of unscaled scores {course('spread', 'unscaled')} and the "
        f"entropy of a row {course('entropy', 'unscaled')}; scaled, the spread "
        f"{course('spread', 'scaled')} and the entropy {course('entropy', 'scaled')}"
        f"{_too_few(sweep.repeats)}."
    )


def in_short(comparison: Comparison, sweep: Sweep) -> str:
    """The same in as few words as stand over a picture."""
    course = _courses(sweep)
    return _why_never(comparison, sweep) or (
        f"{_start(sweep)}, the entropy of a row {course('entropy', 'unscaled')} unscaled; "
        f"scaled, it {course('entropy', 'scaled')}{_too_few(sweep.repeats)}."
    )


def _courses(sweep: Sweep) -> Callable[[str, str], str]:
    first, last = _ends(sweep)

    def course(measure: str, series: str) -> str:
        numbers: Tensor = sweep.curves[measure][series]
        return _course(Pair(numbers[first], numbers[last]), AMOUNTS[measure])

    return course


def _ends(sweep: Sweep) -> tuple[int, int]:
    order = np.argsort(places(sweep)[0])
    return int(order[0]), int(order[-1])


def _start(sweep: Sweep) -> str:
    across, _ = places(sweep)
    first, last = (across[place] for place in _ends(sweep))
    return f"{_over(sweep.repeats)}, as {_noun(sweep)} goes from {first:g} to {last:g}"


def _noun(sweep: Sweep) -> str:
    return "the number of heads" if sweep.by == "heads" else places(sweep)[1]


def _why_never(comparison: Comparison, sweep: Sweep) -> str:
    """That there is nothing to see, whatever is drawn, and why."""
    trace, rest = comparison.base.trace, f", and {_noun(sweep)} does not matter."
    if trace is not None and not trace.variant.compared:
        return f"Nothing is compared, so all scores are 0{rest}"
    if int(comparison.base.visible.sum(-1).max()) == 1:
        return f"A query sees one token and reads it whole{rest}"
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
