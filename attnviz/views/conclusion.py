"""What a comparison comes to: one sentence in plain words, made from the figures."""

from __future__ import annotations

import numpy as np

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.sweeps import Sweep
from attnviz.views.measures import means_of, name_of
from attnviz.views.sweep import places
from attnviz.wording.numbers import tiny_text
from attnviz.wording.words import listed, sentence

VISIBLE = 1e-4  # what a mistake must change to be called one
ALIKE = 0.005  # tokens, or shares of entropy: nobody sees a smaller difference
THOUSAND = 1000


def conclusion(comparison: Comparison, sweep: Sweep | None = None) -> str:
    """The sentence for what was compared."""
    if sweep is not None:
        return _on_sweep(sweep)
    if any(each.mistake for each in comparison.alternatives):
        return _on_mistakes(comparison)
    if comparison.by in ("dtype", "device"):
        return _on_rounding(comparison)
    if comparison.by == "scale" and len(comparison.alternatives) == 2:
        return _on_scale(comparison)
    return _on_sharpness(comparison)


def _on_sharpness(comparison: Comparison) -> str:
    # Counts of tokens can be held against each other only where there are as many to read.
    alike = len({len(each.keys) for each in comparison.alternatives}) == 1
    measure = "effective" if alike else "share"
    found = [means_of(comparison, measures)[measure] for measures in comparison.measures]
    words = "{:.2f} tokens a query" if alike else "{:.0%} of the largest entropy"
    sharpest, flattest = int(np.nanargmin(found)), int(np.nanargmax(found))
    if found[flattest] - found[sharpest] < ALIKE:
        return f"All of them read alike: {words.format(found[0])}."
    names = [name_of(comparison, each) for each in comparison.alternatives]
    return (
        f"'{names[sharpest]}' reads most sharply, {words.format(found[sharpest])}, "
        f"and '{names[flattest]}' most evenly, {words.format(found[flattest])}."
    )


def _on_scale(comparison: Comparison) -> str:
    by_name = {
        each.name: means_of(comparison, measures)
        for each, measures in zip(comparison.alternatives, comparison.measures, strict=True)
    }
    unscaled, scaled = by_name["unscaled"], by_name["scaled"]
    before, after = unscaled["effective"], scaled["effective"]
    if abs(after - before) < ALIKE:
        return f"Scaling changes nothing here: {_why_nothing(comparison)}."
    start = (
        f"Divided by {_divisor(comparison)}, the scores let a query read {after:.2f} tokens "
        f"instead of {before:.2f}"
    )
    times = scaled["gradient"] / max(unscaled["gradient"], 1e-12)
    if times <= 1:
        return f"{start}."
    amount = f"{times:.1f} times" if times < THOUSAND else "over a thousand times"
    return f"{start}, and give the softmax {amount} the gradient."


def _why_nothing(comparison: Comparison) -> str:
    base, query = comparison.base, comparison.query
    visible = base.visible if query is None else base.visible[query]
    if int(visible.sum(-1).max()) == 1:
        return "a query sees one token, and reads it whole"
    if base.trace is not None and not base.trace.variant.compared:
        return "nothing is compared, so all scores are 0"
    return "the scores are too small, or too large, for it to matter"


def _divisor(comparison: Comparison) -> str:
    layer = comparison.alternatives[0].layer
    return "√d_k" if layer is None else f"√{layer.head_dim}"


def _on_rounding(comparison: Comparison) -> str:
    """What dtypes and devices change, which is nothing but the last digits."""
    errors = [
        f"{each.name} by {tiny_text(float(difference.abs().max()))}"
        for each, difference in zip(comparison.alternatives, comparison.differences, strict=True)
        if difference is not None
    ]
    return f"At most, weights differ from those of {comparison.base.name} in {listed(errors)}."


def _on_mistakes(comparison: Comparison) -> str:
    """Which mistakes leak, which break the rows, which only reshape them, and which do nothing."""
    leaks: list[str] = []
    breaks: list[str] = []
    reshapes: list[str] = []
    idle: list[str] = []
    for each, measures in zip(comparison.alternatives, comparison.measures, strict=True):
        if not each.mistake:
            continue
        mean = means_of(comparison, measures)
        if mean["hidden"] > VISIBLE:
            leaks.append(f"{each.name} ({mean['hidden']:.2f})")
        if mean["row_error"] > VISIBLE:
            breaks.append(each.name)
        elif mean["hidden"] <= VISIBLE:
            differs = each.from_what_is_right(comparison.query) > VISIBLE
            (reshapes if differs else idle).append(each.name)
    parts = [
        f"hidden tokens get weight in {listed(leaks)}" if leaks else "",
        f"rows do not sum to 1 in {listed(breaks)}" if breaks else "",
        f"only the shape of the rows tells {listed(reshapes)}" if reshapes else "",
        f"here {listed(idle)} cannot be told from what is right" if idle else "",
    ]
    return sentence("; ".join(part for part in parts if part))


def _on_sweep(sweep: Sweep) -> str:
    """From one end of the sweep to the other: what scaling keeps, and what is lost without it."""
    across, called = places(sweep)
    order = np.argsort(across)
    first, last = int(order[0]), int(order[-1])
    if float(sweep.curves["spread"]["unscaled"].max()) == 0:
        return "Nothing is compared, so all scores are 0 and no width or scale matters."
    noun = "the number of heads" if sweep.by == "heads" else called

    def ends(measure: str, series: str) -> str:
        median = sweep.curves[measure][series].quantile(0.5, dim=1)
        return f"from {median[first]:.2g} to {median[last]:.2g}"

    return (
        f"As {noun} goes from {across[first]:g} to {across[last]:g}, the spread of unscaled "
        f"scores goes {ends('spread', 'unscaled')} and the entropy of a row "
        f"{ends('entropy', 'unscaled')} bits; scaled, they go {ends('spread', 'scaled')} and "
        f"{ends('entropy', 'scaled')}."
    )
