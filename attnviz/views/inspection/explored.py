"""All heads of an Inspection, of one sentence or two, for pages to explore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

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
SINK_KINDS = frozenset(("first", "separators"))  # what heads attend to that find nothing else


@dataclass(frozen=True)
class InitialSelection:
    """The head that is looked at first, and the places of the tokens that are asked for."""

    head: str
    query: int | None = None
    key: int | None = None


def explored_of_inspection(inspection: Inspection) -> HeadExplorer:
    """Every head that is kept, that first which is asked for; before heads what they are as one."""
    maps, flags = _explored_maps(inspection), head_flags(inspection)
    names = [attention_map.name for attention_map in maps]
    selection = _initial_selection(inspection, flags)
    sides: dict[SideKey, Axis] = {}
    heads = [
        (
            *_row_and_column_names(attention_map, inspection),
            _explored_head(attention_map, inspection, sides),
        )
        for attention_map in maps
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
    """With one head is every other that was traced; with several as one, each of them."""
    looking, maps = inspection.looking, inspection.maps
    if looking.merge is not None:
        return [
            *maps,
            *(attention_map for merged_map in maps for attention_map in merged_map.merged_maps),
        ]
    if looking.query is not None and len(maps) > 1:  # which is what is said of it
        return [mean_map(maps), *maps]
    if looking.head is None:
        return maps
    return replace(inspection, looking=replace(inspection.looking, head=None)).maps


def _initial_selection(inspection: Inspection, flags: Sequence[Flag]) -> InitialSelection:
    """What is asked for; else the head that tells most of those that are flagged."""
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
    """The head that does one thing most; a sink, or one that reads broadly, is the last to tell."""
    kinds, patterns = (
        {known_kind.short: known_kind for known_kind in PATTERN_KINDS},
        inspection.patterns,
    )

    def told(flag: Flag) -> tuple[bool, bool, float]:
        kind = kinds[flag.short]
        return (
            kind is BROAD_PATTERN,
            flag.short in SINK_KINDS,
            -patterns.score(flag.map_index, kind),
        )

    return min(flags, key=told).map_index


def _reindexed_flags(
    flags: Sequence[Flag], inspection: Inspection, names: Sequence[str]
) -> tuple[Flag, ...]:
    """Flags at the heads that they are about, among all."""
    pattern_names = inspection.patterns.names
    return tuple(
        replace(flag, map_index=names.index(pattern_names[flag.map_index]))
        for flag in flags
        if pattern_names[flag.map_index] in names
    )


def _row_and_column_names(attention_map: Map, inspection: Inspection) -> tuple[str, str]:
    """The names of its row and of its column."""
    if attention_map.layer is None or attention_map.head is None:
        return inspection.looking.merge or "mean", "all"
    return f"L{attention_map.layer.layer}", f"H{attention_map.head}"


def _explored_head(
    attention_map: Map, inspection: Inspection, sides: dict[SideKey, Axis]
) -> HeadMap:
    prompt = inspection.trace.prompt
    for side, title in (
        (attention_map.columns, "key (is read)"),
        (attention_map.rows, "query (reads)"),
    ):
        sides.setdefault(_side_key(side), side_axis(title, side, prompt))
    return HeadMap(
        name=attention_map.name,
        query_axis=sides[_side_key(attention_map.rows)],
        key_axis=sides[_side_key(attention_map.columns)],
        weights=attention_map.cells,
        scores=_map_scores(attention_map, inspection),
        share=attention_map.share,
        note=" · ".join(map_captions(_caption_options(attention_map, inspection), [attention_map])),
        measure=measure_name(inspection.looking),
    )


def _side_key(side: MapSide) -> SideKey:
    """What a side stands for: where it is the same, a sentence reads itself."""
    return id(side.tokens), side.groups


def _caption_options(attention_map: Map, inspection: Inspection) -> InspectOptions:
    """How: what several heads together are is said of no single one."""
    looking = inspection.looking
    if attention_map.merged_maps:
        return replace(looking, merge=looking.merge or "mean")
    return replace(looking, merge=None)


def _map_scores(attention_map: Map, inspection: Inspection) -> Cells | None:
    """What the softmax received, where its result is what is shown, if not all of it."""
    looking = inspection.looking
    is_transformed = looking.weigh != "weight" or looking.words or looking.renormalise
    if attention_map.layer is None or attention_map.head is None or is_transformed:
        return None
    scores = lazy_scores(inspection.trace, attention_map.layer, attention_map.head)
    has_same_shape = attention_map.cells.shape == (scores.shape if scores else ())
    if scores is None or has_same_shape:
        return scores
    return RegroupedCells(scores, attention_map.rows.groups, attention_map.columns.groups)


DIFFERENCE_NAME = "difference"


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Cells):
    """The weights in the second sentence minus those in the first, of tokens that are paired."""

    first: Cells
    second: Cells
    rows: TokenPairs
    columns: TokenPairs

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        first_patch = _paired_cells(self.first, self.rows.first[rows], self.columns.first[columns])
        second_patch = _paired_cells(
            self.second, self.rows.second[rows], self.columns.second[columns]
        )
        values = second_patch.values.astype(np.float64) - first_patch.values
        return Patch(values, first_patch.hidden & second_patch.hidden)


def explored_of_sentences(sentences: Sentences, above: str) -> HeadExplorer:
    """What differs in each head, first in the one that changes most; beside it both sentences."""
    sides: dict[tuple[int, str], Axis] = {}
    sorted_heads = sorted(sentences.heads, key=lambda read_head: _head_sort_key(read_head.first))
    note, query = f"{_subtraction_text(sentences)} · above 0 = {above}", sentences.query
    maps = [
        (
            f"L{_head_sort_key(each.first)[0]}",
            f"H{_head_sort_key(each.first)[1]}",
            replace(_difference_head(sentences, each, sides), note=note, pair=(index, index + 1)),
        )
        for index, each in zip(count(len(sorted_heads), 2), sorted_heads, strict=False)
    ]
    explored = arrange_heads(
        maps,
        query=sentences.link(sentences.heads[0]).query if query is None else query,
        first=[each.name for *_, each in maps].index(sentences.heads[0].name),
        note=AXES_NOTE,
    )
    sentence_maps = [
        head for each in sorted_heads for head in _sentence_heads(sentences, each, sides)
    ]
    return replace(explored, heads=(*explored.heads, *sentence_maps))


def difference_cells(sentences: Sentences, head: HeadComparison) -> Cells:
    """What a head reads more or less in the second sentence."""
    return Differences(head.first.cells, head.second.cells, sentences.rows, sentences.columns)


def pair_axis(title: str, pairs: TokenPairs) -> Axis:
    """A place for each pair of tokens, numbered as in the first sentence."""
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
    """`first` and `second`; or what the numbers are computed in."""
    has_own_names = sentences.names not in (DEFAULT_SENTENCE_NAMES, DEFAULT_WEIGHT_NAMES)
    return [name if has_own_names else name.split()[0] for name in sentences.names]


def _sentence_heads(
    sentences: Sentences, head: HeadComparison, sides: dict[tuple[int, str], Axis]
) -> Iterator[HeadMap]:
    """A head on the first sentence, and on the second."""
    traces, rows, columns = (sentences.first, sentences.second), sentences.rows, sentences.columns
    paired = (rows.first, columns.first), (rows.second, columns.second)
    sentence_maps = zip(
        short_names(sentences), traces, (head.first, head.second), paired, strict=True
    )
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
    layer, head, rows, columns = (
        attention_map.layer,
        attention_map.head,
        attention_map.rows,
        attention_map.columns,
    )
    keys_axis = sides.setdefault(
        (id(columns), ""), side_axis("key (is read)", columns, trace.prompt)
    )
    rows_axis = keys_axis if rows is columns else side_axis("query (reads)", rows, trace.prompt)
    return HeadMap(
        name=name,
        query_axis=sides.setdefault((id(rows), ""), rows_axis),
        key_axis=keys_axis,
        weights=attention_map.cells,
        scores=None if layer is None or head is None else lazy_scores(trace, layer, head),
        share=attention_map.share,
    )


def _shared_pair_axis(title: str, pairs: TokenPairs, sides: dict[tuple[int, str], Axis]) -> Axis:
    return sides.setdefault((id(pairs), "pairs"), pair_axis(title, pairs))


def _subtraction_text(sentences: Sentences) -> str:
    return " − ".join(short_names(sentences)[::-1])


def _head_sort_key(attention_map: Map) -> tuple[int, int]:
    """Of its layer, and its own."""
    return (
        -1 if attention_map.layer is None else attention_map.layer.layer,
        attention_map.head or 0,
    )


def _paired_cells(cells: Cells, rows: Sequence[int], columns: Sequence[int]) -> Patch:
    """Some rows, and of these some columns."""
    if not rows:
        return Patch(np.zeros((0, len(columns))), np.ones((0, len(columns)), dtype=bool))
    patch = cells.window(slice(rows[0], rows[-1] + 1), FULL_SLICE)
    window_indices = np.ix_(np.asarray(rows) - rows[0], np.asarray(columns))
    return Patch(patch.values[window_indices], patch.hidden[window_indices])
