"""What weighed weights, and several heads together, are; and what they do not show."""

from __future__ import annotations

from attnviz.analysis.inspection.looking import Looking, Merge
from attnviz.views.inspection.weighing import ABOUT

MERGED: dict[Merge, str] = {
    "mean": "mean = the sum over the heads / their number · it hides what single heads do",
    "max": "max = the largest weight of any head, cell by cell · rows do not sum to 1, and "
    "neighbouring cells may come from different heads",
    "rollout": "rollout = A of the last layer × … × A of the first · A = ½ mean of the heads + ½ "
    "residual connection (Abnar & Zuidema 2020) · it shows where information could come from; it "
    "ignores values and feed-forward layers",
}


def captions_of(looking: Looking) -> tuple[str, ...]:
    """What stands below a map, or a row of one."""
    weighed = ABOUT.get(looking.weigh)
    merged = None if looking.merge is None else MERGED[looking.merge]
    return tuple(each for each in (weighed, merged) if each)
