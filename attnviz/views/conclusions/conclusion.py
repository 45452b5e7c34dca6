"""What a comparison comes to: one sentence in plain words, made from the figures.

Of numbers that were drawn it says what holds over many seeds; of a single draw, what is shown and
that it is random; of numbers that were given, what is true of them.
"""

from __future__ import annotations

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.repeats import Repeats
from attnviz.analysis.sweeps import Sweep
from attnviz.views.conclusions.course import on_sweep
from attnviz.views.conclusions.mistakes import on_mistakes
from attnviz.views.conclusions.scaling import on_scale
from attnviz.views.conclusions.sharpness import on_sharpness
from attnviz.wording.numbers import tiny_text
from attnviz.wording.words import listed


def conclusion(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """The sentence for what was compared."""
    again = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return on_sweep(comparison, sweep)
    if any(each.mistake for each in comparison.alternatives):
        return on_mistakes(comparison, again)
    if comparison.by in ("dtype", "device"):
        return _on_rounding(comparison)
    if comparison.by == "scale":
        return on_scale(comparison, again)
    return on_sharpness(comparison, again)


def _on_rounding(comparison: Comparison) -> str:
    """What dtypes and devices change, which is nothing but the last digits."""
    rows = slice(None) if comparison.query is None else comparison.query
    found = {
        each.name: float(difference[:, rows].abs().max())
        for each, difference in zip(comparison.alternatives, comparison.differences, strict=True)
        if difference is not None
    }
    base = comparison.base.name
    differ = [f"{name} by {tiny_text(error)}" for name, error in found.items() if error]
    same = [name for name, error in found.items() if not error]
    kept = f"the weights of {listed(same)} are those of {base}, to the last digit" if same else ""
    if not differ:
        return f"{kept[0].upper()}{kept[1:]}."
    told = f"At most, weights differ from those of {base} in {listed(differ)}"
    return f"{told}; {kept}." if kept else f"{told}."
