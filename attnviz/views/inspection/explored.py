"""All heads of an Inspection, as they are looked at, for somebody to look around in by himself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnviz.analysis.inspection.asked import asked_of, link_of
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.analysis.inspection.merged import mean_of
from attnviz.analysis.inspection.patterns import BROADLY, KINDS
from attnviz.analysis.inspection.regrouped import Regrouped
from attnviz.cells import Cells
from attnviz.views.explored import scores_of
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged, telling_row
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.captions import captions_of
from attnviz.views.inspection.heads import flags_of
from attnviz.views.inspection.heatmap import axis_of
from attnviz.views.inspection.numbers import called

Places = tuple[int, tuple[tuple[int, ...], ...]]
SINKS = frozenset(("first", "separators"))  # what heads attend to that find nothing else


@dataclass(frozen=True)
class Wanted:
    """The head that is looked at first, and the places of the tokens that are asked for."""

    head: str
    query: int | None = None
    key: int | None = None


def explored_of_inspection(inspection: Inspection) -> Explored:
    """Every head that is kept, that first which is asked for; before heads what they are as one."""
    maps, flags = _maps(inspection), flags_of(inspection)
    names = [each.name for each in maps]
    wanted = _wanted(inspection, flags)
    sides: dict[Places, Axis] = {}
    heads = [(*_place(each, inspection), _head(each, inspection, sides)) for each in maps]
    first = names.index(wanted.head)
    query = wanted.query
    if query is None and wanted.key is None:
        query = telling_row(heads[first][-1])
    goes_on = (GOES_ON,) if any(side.border for side in sides.values()) else ()
    return arranged(
        heads,
        query=query,
        key=wanted.key,
        first=first,
        log=inspection.looking.log,
        note=" · ".join((AXES_NOTE, *goes_on)),
        flags=_placed(flags, inspection, names),
    )


def _maps(inspection: Inspection) -> Sequence[Map]:
    """With one head is every other that was traced; with several as one, each of them."""
    looking, maps = inspection.looking, inspection.maps
    if looking.merge is not None:
        return [*maps, *(each for one in maps for each in one.of)]
    if looking.query is not None and len(maps) > 1:  # which is what is said of it
        return [mean_of(maps), *maps]
    if looking.head is None:
        return maps
    return replace(inspection, looking=replace(inspection.looking, head=None)).maps


def _wanted(inspection: Inspection, flags: Sequence[Flag]) -> Wanted:
    """What is asked for; else the head that tells most of those that are flagged."""
    looking = inspection.looking
    if looking.source is not None:
        link = link_of(inspection)
        return Wanted(link.first[0].map.name, link.asked.row, link.column)
    if looking.query is not None:
        asked = asked_of(inspection, looking.query)
        return Wanted(asked.mean.map.name, asked.row)
    asked_for = looking.layer, looking.head, looking.merge
    if flags and asked_for == (None, None, None):
        return Wanted(inspection.patterns.names[most_telling(inspection, flags)])
    return Wanted(inspection.maps[0].name)


def most_telling(inspection: Inspection, flags: Sequence[Flag]) -> int:
    """The head that does one thing most; a sink, or one that reads broadly, is the last to tell."""
    kinds, found = {each.short: each for each in KINDS}, inspection.patterns

    def told(flag: Flag) -> tuple[bool, bool, float]:
        kind = kinds[flag.short]
        return kind is BROADLY, flag.short in SINKS, -found.score(flag.map, kind)

    return min(flags, key=told).map


def _placed(
    flags: Sequence[Flag], inspection: Inspection, names: Sequence[str]
) -> tuple[Flag, ...]:
    """Flags at the heads that they are about, among all."""
    of = inspection.patterns.names
    return tuple(
        replace(each, map=names.index(of[each.map])) for each in flags if of[each.map] in names
    )


def _place(found: Map, inspection: Inspection) -> tuple[str, str]:
    """The names of its row and of its column."""
    if found.layer is None or found.head is None:
        return inspection.looking.merge or "mean", "all"
    return f"L{found.layer.layer}", f"H{found.head}"


def _head(found: Map, inspection: Inspection, sides: dict[Places, Axis]) -> HeadMap:
    prompt = inspection.trace.prompt
    for side, title in ((found.columns, "key (is read)"), (found.rows, "query (reads)")):
        sides.setdefault(_places(side), axis_of(title, side, prompt))
    return HeadMap(
        name=found.name,
        reads=sides[_places(found.rows)],
        read=sides[_places(found.columns)],
        weights=found.cells,
        scores=_scores(found, inspection),
        share=found.share,
        note=" · ".join(captions_of(_looked_at(found, inspection), [found])),
        measure=called(inspection.looking),
    )


def _places(side: Side) -> Places:
    """What a side stands for: where it is the same, a sentence reads itself."""
    return id(side.tokens), side.groups


def _looked_at(found: Map, inspection: Inspection) -> Looking:
    """How: what several heads together are is said of no single one."""
    looking = inspection.looking
    if found.of:
        return replace(looking, merge=looking.merge or "mean")
    return replace(looking, merge=None)


def _scores(found: Map, inspection: Inspection) -> Cells | None:
    """What the softmax received, where its result is what is shown, if not all of it."""
    looking = inspection.looking
    changed = looking.weigh != "weight" or looking.words or looking.renormalise
    if found.layer is None or found.head is None or changed:
        return None
    scores = scores_of(inspection.trace, found.layer, found.head)
    whole = found.cells.shape == (scores.shape if scores else ())
    if scores is None or whole:
        return scores
    return Regrouped(scores, found.rows.groups, found.columns.groups)
