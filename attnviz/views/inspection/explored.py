"""All heads of an Inspection, of one sentence or two, for pages to explore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side, mean_of
from attnviz.analysis.inspection.patterns import BROADLY, KINDS
from attnviz.analysis.inspection.regrouped import Regrouped
from attnviz.analysis.inspection.sentences import SENTENCES, WEIGHTS, Pairs, Read, Sentences
from attnviz.analysis.inspection.token_query import asked_of, link_of
from attnviz.cells import EVERYTHING, Cells, Patch
from attnviz.traces.trace import Trace
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged, telling_row
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.heads import flags_of
from attnviz.views.inspection.heatmap import axis_of, captions_of
from attnviz.views.inspection.numbers import called
from attnviz.views.trace_data import scores_of

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


DIFFERENCE = "difference"


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Cells):
    """The weights in the second sentence minus those in the first, of tokens that are paired."""

    first: Cells
    second: Cells
    rows: Pairs
    columns: Pairs

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        one = _of_pairs(self.first, self.rows.first[rows], self.columns.first[columns])
        other = _of_pairs(self.second, self.rows.second[rows], self.columns.second[columns])
        values = other.values.astype(np.float64) - one.values
        return Patch(values, one.hidden & other.hidden)


def explored_of_sentences(sentences: Sentences, above: str) -> Explored:
    """What differs in each head, first in the one that changes most; beside it both sentences."""
    sides: dict[tuple[int, str], Axis] = {}
    read = sorted(sentences.heads, key=lambda one: _number(one.first))
    note, asked = f"{_subtracted(sentences)} · above 0 = {above}", sentences.query
    maps = [
        (
            f"L{_number(each.first)[0]}",
            f"H{_number(each.first)[1]}",
            replace(_difference(sentences, each, sides), note=note, pair=(place, place + 1)),
        )
        for place, each in zip(count(len(read), 2), read, strict=False)
    ]
    found = arranged(
        maps,
        query=sentences.link(sentences.heads[0]).query if asked is None else asked,
        first=[each.name for *_, each in maps].index(sentences.heads[0].name),
        note=AXES_NOTE,
    )
    both = [head for each in read for head in _both(sentences, each, sides)]
    return replace(found, heads=(*found.heads, *both))


def difference_of(sentences: Sentences, read: Read) -> Cells:
    """What a head reads more or less in the second sentence."""
    return Differences(read.first.cells, read.second.cells, sentences.rows, sentences.columns)


def pair_axis(title: str, pairs: Pairs) -> Axis:
    """A place for each pair of tokens, numbered as in the first sentence."""
    places = range(len(pairs))
    return Axis(
        title,
        "token",
        tuple(map(pairs.name, places)),
        tuple(str(place + 1) for place in pairs.first),
        tuple(pairs.tokens.spaced[place] for place in pairs.first),
        None,
        tuple(place in pairs.tokens.special for place in pairs.first),
    )


def short_names(sentences: Sentences) -> list[str]:
    """`first` and `second`; or what the numbers are computed in."""
    given = sentences.names not in (SENTENCES, WEIGHTS)
    return [each if given else each.split()[0] for each in sentences.names]


def _both(
    sentences: Sentences, read: Read, sides: dict[tuple[int, str], Axis]
) -> Iterator[HeadMap]:
    """A head on the first sentence, and on the second."""
    traces, rows, columns = (sentences.first, sentences.second), sentences.rows, sentences.columns
    paired = (rows.first, columns.first), (rows.second, columns.second)
    both = zip(short_names(sentences), traces, (read.first, read.second), paired, strict=True)
    for name, trace, found, places in both:
        alone = _alone(f"{read.name} · {name}", found, trace, sides)
        own_rows, own_columns = (tuple(map(int, each)) for each in places)
        yield replace(alone, place=None, paired=(own_rows, own_columns))


def _difference(sentences: Sentences, read: Read, sides: dict[tuple[int, str], Axis]) -> HeadMap:
    return HeadMap(
        name=read.name,
        reads=_pairs("query (reads)", sentences.rows, sides),
        read=_pairs("key (is read)", sentences.columns, sides),
        weights=difference_of(sentences, read),
        signed=True,
        measure=DIFFERENCE,
    )


def _alone(name: str, found: Map, trace: Trace, sides: dict[tuple[int, str], Axis]) -> HeadMap:
    layer, head, rows, columns = found.layer, found.head, found.rows, found.columns
    of_keys = sides.setdefault((id(columns), ""), axis_of("key (is read)", columns, trace.prompt))
    of_rows = of_keys if rows is columns else axis_of("query (reads)", rows, trace.prompt)
    return HeadMap(
        name=name,
        reads=sides.setdefault((id(rows), ""), of_rows),
        read=of_keys,
        weights=found.cells,
        scores=None if layer is None or head is None else scores_of(trace, layer, head),
        share=found.share,
    )


def _pairs(title: str, pairs: Pairs, sides: dict[tuple[int, str], Axis]) -> Axis:
    return sides.setdefault((id(pairs), "pairs"), pair_axis(title, pairs))


def _subtracted(sentences: Sentences) -> str:
    return " − ".join(short_names(sentences)[::-1])


def _number(found: Map) -> tuple[int, int]:
    """Of its layer, and its own."""
    return (-1 if found.layer is None else found.layer.layer, found.head or 0)


def _of_pairs(cells: Cells, rows: Sequence[int], columns: Sequence[int]) -> Patch:
    """Some rows, and of these some columns."""
    if not rows:
        return Patch(np.zeros((0, len(columns))), np.ones((0, len(columns)), dtype=bool))
    patch = cells.window(slice(rows[0], rows[-1] + 1), EVERYTHING)
    places = np.ix_(np.asarray(rows) - rows[0], np.asarray(columns))
    return Patch(patch.values[places], patch.hidden[places])
