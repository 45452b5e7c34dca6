"""The heads of an Inspection, or of a comparison of sentences, for interactive pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.map_regrouping import RegroupedCells
from attnviz.analysis.inspection.maps import Map, MapSide, mean_map
from attnviz.analysis.inspection.patterns import BROAD_PATTERN, PATTERN_KINDS
from attnviz.analysis.inspection.sentences import (
    DEFAULT_SENTENCE_NAMES,
    DEFAULT_WEIGHT_NAMES,
    HeadComparison,
    Sentences,
    TokenPairs,
)
from attnviz.analysis.inspection.token_query import build_link, build_token_query
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.traces.trace import Trace
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads, find_telling_row
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.head_kinds import head_flags
from attnviz.views.inspection.heatmap import map_captions, side_axis
from attnviz.views.inspection.map_numbers import measure_name
from attnviz.views.trace_data import lazy_scores

SideKey = tuple[int, tuple[tuple[int, ...], ...]]
SINK_KINDS = frozenset(("first", "separators"))  # where heads attend that find nothing else
DIFFERENCE_NAME = "difference"


@dataclass(frozen=True)
class InitialSelection:
    """The head that a page opens with, and the query and key that were asked for."""

    head: str
    query: int | None = None
    key: int | None = None


def explored_of_inspection(inspection: Inspection) -> HeadExplorer:
    """Returns every traced head, opened at the one asked for; merged maps come first."""
    maps, flags = _explored_maps(inspection), head_flags(inspection)
    names = [each.name for each in maps]
    selection = _initial_selection(inspection, flags)
    sides: dict[SideKey, Axis] = {}
    heads = [
        (*_row_and_column_names(each, inspection), _explored_head(each, inspection, sides))
        for each in maps
    ]
    first_index = names.index(selection.head)
    query = selection.query
    if query is None and selection.key is None:
        query = find_telling_row(heads[first_index][-1])
    border_notes = (GENERATED_NOTE,) if any(side.border for side in sides.values()) else ()
    return arrange_heads(
        heads,
        query=query,
        key=selection.key,
        first=first_index,
        log=inspection.looking.log,
        note=" · ".join((AXES_NOTE, *border_notes)),
        flags=_reindexed_flags(flags, inspection, names),
    )


def _explored_maps(inspection: Inspection) -> Sequence[Map]:
    """Returns all heads' maps, after the merged maps or the mean that sentences speak of."""
    looking, maps = inspection.looking, inspection.maps
    if looking.merge is not None:
        return [*maps, *chain.from_iterable(each.merged_maps for each in maps)]
    if looking.query is not None and len(maps) > 1:  # sentences about a query speak of the mean
        return [mean_map(maps), *maps]
    if looking.head is None:
        return maps
    return replace(inspection, looking=replace(looking, head=None)).maps


def _initial_selection(inspection: Inspection, flags: Sequence[Flag]) -> InitialSelection:
    """Returns the head and tokens asked for, or else the most telling flagged head."""
    looking = inspection.looking
    if looking.source is not None:
        link = build_link(inspection)
        return InitialSelection(link.first[0].map.name, link.token_query.row, link.column)
    if looking.query is not None:
        token_query = build_token_query(inspection, looking.query)
        return InitialSelection(token_query.mean.map.name, token_query.row)
    options = looking.layer, looking.head, looking.merge
    if flags and options == (None, None, None):
        return InitialSelection(inspection.patterns.names[most_telling_head(inspection, flags)])
    return InitialSelection(inspection.maps[0].name)


def most_telling_head(inspection: Inspection, flags: Sequence[Flag]) -> int:
    """Returns the flagged head with the highest score; sinks and broad heads come last."""
    kinds = {kind.short: kind for kind in PATTERN_KINDS}

    def sort_key(flag: Flag) -> tuple[bool, bool, float]:
        kind = kinds[flag.short]
        score = inspection.patterns.score(flag.map_index, kind)
        return kind is BROAD_PATTERN, flag.short in SINK_KINDS, -score

    return min(flags, key=sort_key).map_index


def _reindexed_flags(
    flags: Sequence[Flag], inspection: Inspection, names: Sequence[str]
) -> tuple[Flag, ...]:
    """Returns flags that count heads in the order of `names`; flags of other heads are dropped."""
    pattern_names = inspection.patterns.names
    return tuple(
        replace(flag, map_index=names.index(pattern_names[flag.map_index]))
        for flag in flags
        if pattern_names[flag.map_index] in names
    )


def _row_and_column_names(attention_map: Map, inspection: Inspection) -> tuple[str, str]:
    """Returns the labels of a map's place among the heads: `L3`, `H1`."""
    if attention_map.layer is None or attention_map.head is None:
        return inspection.looking.merge or "mean", "all"
    return f"L{attention_map.layer.layer}", f"H{attention_map.head}"


def _explored_head(
    attention_map: Map, inspection: Inspection, sides: dict[SideKey, Axis]
) -> HeadMap:
    rows, columns, prompt = attention_map.rows, attention_map.columns, inspection.trace.prompt
    key_axis = side_axis("key (is read)", columns, prompt)
    query_axis = side_axis("query (reads)", rows, prompt)
    return HeadMap(
        name=attention_map.name,
        key_axis=sides.setdefault(_side_key(columns), key_axis),
        query_axis=sides.setdefault(_side_key(rows), query_axis),
        weights=attention_map.cells,
        scores=_map_scores(attention_map, inspection),
        share=attention_map.share,
        note=" · ".join(map_captions(_caption_options(attention_map, inspection), [attention_map])),
        measure=measure_name(inspection.looking),
    )


def _side_key(side: MapSide) -> SideKey:
    """Identifies a side, so that maps with the same tokens share one axis."""
    return id(side.tokens), side.groups


def _caption_options(attention_map: Map, inspection: Inspection) -> InspectOptions:
    """Returns the options for a map's caption: only merged maps mention --merge."""
    looking = inspection.looking
    return replace(looking, merge=(looking.merge or "mean") if attention_map.merged_maps else None)


def _map_scores(attention_map: Map, inspection: Inspection) -> Cells | None:
    """Returns the scores before softmax; None if the map shows anything but plain weights."""
    looking = inspection.looking
    is_transformed = looking.weigh != "weight" or looking.words or looking.renormalise
    if attention_map.layer is None or attention_map.head is None or is_transformed:
        return None
    scores = lazy_scores(inspection.trace, attention_map.layer, attention_map.head)
    has_same_shape = attention_map.cells.shape == (scores.shape if scores else ())
    if scores is None or has_same_shape:
        return scores
    return RegroupedCells(scores, attention_map.rows.groups, attention_map.columns.groups)


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Cells):
    """The weights in the second sentence minus those in the first, for paired tokens."""

    first: Cells
    second: Cells
    rows: TokenPairs
    columns: TokenPairs

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        first = _paired_cells(self.first, self.rows.first[rows], self.columns.first[columns])
        second = _paired_cells(self.second, self.rows.second[rows], self.columns.second[columns])
        values = second.values.astype(np.float64) - first.values
        return Patch(values, first.hidden & second.hidden)


def explored_of_sentences(sentences: Sentences, above: str) -> HeadExplorer:
    """Returns the difference of each head, opened at the largest; beside it both sentences."""
    sides: dict[tuple[int, str], Axis] = {}
    heads = sorted(sentences.heads, key=lambda head: _head_numbers(head.first))
    note = f"{' − '.join(short_names(sentences)[::-1])} · above 0 = {above}"
    maps = []
    for index, head in zip(count(len(heads), 2), heads, strict=False):
        layer_number, head_number = _head_numbers(head.first)
        difference = _difference_head(sentences, head, sides)
        difference = replace(difference, note=note, pair=(index, index + 1))
        maps.append((f"L{layer_number}", f"H{head_number}", difference))
    top_head, query = sentences.heads[0], sentences.query
    explored = arrange_heads(
        maps,
        query=sentences.link(top_head).query if query is None else query,
        first=[head.name for head in heads].index(top_head.name),
        note=AXES_NOTE,
    )
    both = chain.from_iterable(_sentence_heads(sentences, head, sides) for head in heads)
    return replace(explored, heads=(*explored.heads, *both))


def difference_cells(sentences: Sentences, head: HeadComparison) -> Cells:
    """Returns how much more attention a head pays in the second sentence, for paired tokens."""
    return Differences(head.first.cells, head.second.cells, sentences.rows, sentences.columns)


def pair_axis(title: str, pairs: TokenPairs) -> Axis:
    """Returns an axis with one label per token pair, numbered as in the first sentence."""
    indices = range(len(pairs))
    return Axis(
        title,
        "token",
        tuple(map(pairs.name, indices)),
        tuple(str(position + 1) for position in pairs.first),
        tuple(pairs.tokens.spaced[position] for position in pairs.first),
        None,
        tuple(position in pairs.tokens.special for position in pairs.first),
    )


def short_names(sentences: Sentences) -> list[str]:
    """Returns `first` and `second`, or the two names that were given, such as data types."""
    has_own_names = sentences.names not in (DEFAULT_SENTENCE_NAMES, DEFAULT_WEIGHT_NAMES)
    return [name if has_own_names else name.split()[0] for name in sentences.names]


def _sentence_heads(
    sentences: Sentences, head: HeadComparison, sides: dict[tuple[int, str], Axis]
) -> Iterator[HeadMap]:
    """Yields a head on the first sentence, then on the second."""
    traces, rows, columns = (sentences.first, sentences.second), sentences.rows, sentences.columns
    paired, maps = (
        ((rows.first, columns.first), (rows.second, columns.second)),
        (head.first, head.second),
    )
    sentence_maps = zip(short_names(sentences), traces, maps, paired, strict=True)
    for name, trace, attention_map, positions in sentence_maps:
        head_map = _single_sentence_head(f"{head.name} · {name}", attention_map, trace, sides)
        own_rows, own_columns = (tuple(map(int, each)) for each in positions)
        yield replace(head_map, chooser_cell=None, paired_positions=(own_rows, own_columns))


def _difference_head(
    sentences: Sentences, head: HeadComparison, sides: dict[tuple[int, str], Axis]
) -> HeadMap:
    return HeadMap(
        name=head.name,
        query_axis=_shared_pair_axis("query (reads)", sentences.rows, sides),
        key_axis=_shared_pair_axis("key (is read)", sentences.columns, sides),
        weights=difference_cells(sentences, head),
        signed=True,
        measure=DIFFERENCE_NAME,
    )


def _single_sentence_head(
    name: str, attention_map: Map, trace: Trace, sides: dict[tuple[int, str], Axis]
) -> HeadMap:
    layer, head, prompt = attention_map.layer, attention_map.head, trace.prompt
    rows, columns = attention_map.rows, attention_map.columns
    key_axis = sides.setdefault((id(columns), ""), side_axis("key (is read)", columns, prompt))
    query_axis = key_axis if rows is columns else side_axis("query (reads)", rows, prompt)
    return HeadMap(
        name=name,
        query_axis=sides.setdefault((id(rows), ""), query_axis),
        key_axis=key_axis,
        weights=attention_map.cells,
        scores=None if layer is None or head is None else lazy_scores(trace, layer, head),
        share=attention_map.share,
    )


def _shared_pair_axis(title: str, pairs: TokenPairs, sides: dict[tuple[int, str], Axis]) -> Axis:
    return sides.setdefault((id(pairs), "pairs"), pair_axis(title, pairs))


def _head_numbers(attention_map: Map) -> tuple[int, int]:
    """Returns the numbers of a map's layer and head; a merged map gets (-1, 0)."""
    layer = -1 if attention_map.layer is None else attention_map.layer.layer
    return layer, attention_map.head or 0


def _paired_cells(cells: Cells, rows: Sequence[int], columns: Sequence[int]) -> Patch:
    """Returns the cells at some rows and columns; an empty patch if there are no rows."""
    if not rows:
        return Patch(np.zeros((0, len(columns))), np.ones((0, len(columns)), dtype=bool))
    patch = cells.window(slice(rows[0], rows[-1] + 1), FULL_SLICE)
    window_indices = np.ix_(np.asarray(rows) - rows[0], np.asarray(columns))
    return Patch(patch.values[window_indices], patch.hidden[window_indices])
