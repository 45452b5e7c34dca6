"""Which of very many heads have a slide of their own."""

from __future__ import annotations

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.views.inspection.heads import flags_of, title_of_head
from attnviz.views.inspection.heatmap import heatmaps
from attnviz.views.view import FINDINGS, Excerpt, Group, Name

FEW = 16  # heads: each has a slide of its own; of more those alone that do most of something
REST = "--layer 0, or --head 0, makes a slide for each of its heads"


def slides_of(inspection: Inspection, overview: Group) -> Excerpt:
    """All heads small, and the heads that do most of each kind."""
    flags, count = flags_of(inspection), len(inspection.maps)
    shown = range(count) if count <= FEW else dict.fromkeys(each.map for each in flags)
    grids = heatmaps(inspection, [inspection.maps[place] for place in shown])
    titles = tuple(Name(title_of_head(inspection, place)) for place in shown)
    groups = (overview, Group(FINDINGS, tuple(grids), over=titles))
    return Excerpt(groups, "" if count <= FEW else _rest(len(shown), count))


def _rest(shown: int, count: int) -> str:
    """How many have one, and how others would get one."""
    which = "none" if not shown else f"{shown} of {count} heads, the strongest of each kind"
    return f"heads with slides of their own: {which}; {REST}"
