"""What a comparison comes to: one sentence in plain words, made from the figures.

Of numbers that were drawn it says what holds over many seeds; of a single draw, what is shown and
that it is random; of numbers that were given, what is true of them. Each kind of sentence is a
table of findings: when something may be said, and what it says.
"""

from __future__ import annotations

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.repeats import Repeats
from attnviz.analysis.sweeps import Sweep
from attnviz.views.conclusions.course import in_short, on_sweep
from attnviz.views.conclusions.mistakes import on_mistakes, title_on_mistakes
from attnviz.views.conclusions.rounding import on_rounding
from attnviz.views.conclusions.scaling import on_scale, title_on_scale
from attnviz.views.conclusions.sharpness import on_sharpness, reader, title_on_sharpness


def conclusion(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """The sentence for what was compared."""
    again = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return on_sweep(comparison, sweep)
    if any(each.mistake for each in comparison.alternatives):
        return on_mistakes(comparison, again)
    if _all_hidden(comparison):
        return f"There is nothing to compare: every key is masked for {reader(comparison)}."
    if comparison.by in ("dtype", "device"):
        return on_rounding(comparison)
    if comparison.by == "scale":
        return on_scale(comparison, again)
    return on_sharpness(comparison, again)


def title_of(
    comparison: Comparison, sweep: Sweep | None = None, repeats: Repeats | None = None
) -> str:
    """The same in few words: what stands over a picture."""
    again = repeats if repeats is not None and repeats.finite else None
    if sweep is not None:
        return in_short(comparison, sweep).rstrip(".")
    if any(each.mistake for each in comparison.alternatives):
        return title_on_mistakes(comparison, again)
    if _all_hidden(comparison) or comparison.by in ("dtype", "device"):
        return conclusion(comparison).rstrip(".")
    titled = title_on_scale if comparison.by == "scale" else title_on_sharpness
    return titled(comparison, again)


def _all_hidden(comparison: Comparison) -> bool:
    """Whether nothing that is shown may be read, in any way: every weight is 0, and stays so."""
    ways = comparison.alternatives
    return not any(bool(each.visible[..., comparison.rows, :].any()) for each in ways)
