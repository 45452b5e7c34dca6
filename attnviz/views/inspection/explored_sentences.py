"""All heads on two sentences, and what each reads more or less in the second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.pairing import Pairs
from attnviz.analysis.inspection.sentences import SENTENCES, WEIGHTS, Read, Sentences
from attnviz.cells import EVERYTHING, Cells, Patch
from attnviz.traces.trace import Trace
from attnviz.views.explored import scores_of
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged
from attnviz.views.inspection.heatmap import axis_of

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
