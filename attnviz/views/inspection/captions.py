"""What weighed weights, and several heads together, are; and what they do not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnviz.analysis.inspection.looking import Looking, Merge
from attnviz.analysis.inspection.maps import Map
from attnviz.views.facts import sums_to_one
from attnviz.views.inspection.weighing import ABOUT

MERGED: dict[Merge, str] = {
    "mean": "mean = the sum over the heads / their number · it hides what single heads do",
    "max": "max = the largest weight of any head, cell by cell · rows do not sum to 1, and "
    "neighbouring cells may come from different heads",
    "rollout": "estimates where information could come from; ignores values and feed-forward "
    "layers · Abnar & Zuidema 2020 · rollout = product over layers of ½ mean of heads + ½ residual "
    "connection{divided}",
}
DIVIDED = ", each row divided by its sum"  # of rollout, which is a product of rows that sum to 1


def captions_of(looking: Looking, maps: Sequence[Map]) -> tuple[str, ...]:
    """What stands below maps, or a row of one."""
    weighed = ABOUT.get(looking.weigh)
    merged = "" if looking.merge is None else MERGED[looking.merge]
    if looking.merge == "rollout":
        whole = all(sums_to_one(head.cells) for each in maps for head in _heads_of(each))
        merged = merged.format(divided="" if whole else DIVIDED)
    return tuple(each for each in (weighed, merged) if each)


def _heads_of(found: Map) -> Iterator[Map]:
    """The single heads that a map is made of."""
    if not found.of:
        yield found
    for each in found.of:
        yield from _heads_of(each)
