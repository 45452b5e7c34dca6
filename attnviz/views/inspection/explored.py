"""The heads of an Inspection, or of two compared Traces, for interactive pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.patterns import BROAD_PATTERN, PATTERN_KINDS, sampled_queries
from attnviz.analysis.inspection.token_query import build_link, build_token_query
from attnviz.analysis.inspection.two_sentences import (
    DEFAULT_NAMES,
    HeadComparison,
    TokenPairs,
    TraceComparison,
)
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE, Cells, Patch
from attnviz.errors import shorten_text
from attnviz.heads.changes import RegroupedCells, mean_head
from attnviz.heads.head import Head
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis
from attnviz.views.grids.explorer import (
    HeadExplorer,
    HeadMap,
    HeadVectors,
    arrange_heads,
    find_telling_row,
)
from attnviz.views.grids.overview import Flag
from attnviz.views.head_vectors import missing_vectors_reason, read_head_vectors
from attnviz.views.heads.explorer import SharedAxes, map_of_head
from attnviz.views.inspection.generated import generated_tokens
from attnviz.views.inspection.head_kinds import common_kind, head_flags
from attnviz.views.inspection.heatmap import map_captions
from attnviz.views.inspection.map_numbers import measure_name
from attnviz.views.trace_data import lazy_scores

MAX_SHORT_NAME_LETTERS = 18  # of a model, above a map or a column
SINK_KINDS = frozenset(("first", "separators"))  # where heads attend that find nothing else
DIFFERENCE_NAME = "difference"


def explored_of_inspection(inspection: Inspection) -> HeadExplorer:
    """Return all heads for an interactive page, with the selection it opens with.

    Merged maps or a query's mean come first, and so does the mean where the model generated tokens.
    The page opens with the head, query and key asked for, else with the row before the first
    generated token, or with the most telling head and a telling row of it.
    """
    maps, flags = _explored_maps(inspection), head_flags(inspection)
    names = [head.name for head in maps]
    first_name, query, key = _initial_selection(inspection, flags)
    sides: SharedAxes = {}
    heads = [_explored_head(head, inspection, sides) for head in maps]
    first_index = names.index(first_name)
    tokens = generated_tokens(inspection.trace, maps[0].rows)
    if query is None:
        query = tokens[0].row if tokens else find_telling_row(heads[first_index][-1])
    border_notes = (GENERATED_NOTE,) if any(side.border for side in sides.values()) else ()
    return arrange_heads(
        heads,
        query=query,
        key=key,
        first=first_index,
        log=inspection.options.log,
        note=" · ".join((AXES_NOTE, *border_notes)),
        without_vectors=missing_vectors_reason(
            inspection.trace, inspection.trace.attention_layers[0]
        ),
        flags=_reindexed_flags(flags, inspection, names),
        generated=tuple((token.row, token.label, token.probability) for token in tokens),
    )


def _explored_maps(inspection: Inspection) -> Sequence[Head]:
    """Return the maps of all heads, also if only one head was asked for.

    With --merge the merged maps come first; with a query and several maps, their mean does.
    """
    looking, maps = inspection.options, inspection.maps
    if looking.merge is not None:
        return [*maps, *chain.from_iterable(each.merged_heads for each in maps)]
    shows_mean = looking.query is not None or _is_about_generated_text(inspection)
    if shows_mean and len(maps) > 1:  # sentences about a query speak of the mean
        return [mean_head(maps), *maps]
    if looking.head is None:
        return maps
    return replace(inspection, options=replace(looking, head=None)).maps


def _is_about_generated_text(inspection: Inspection) -> bool:
    """Return whether the model generated tokens, and nothing else than all heads was asked for."""
    looking = inspection.options
    chosen = looking.source, looking.query, looking.layer, looking.head, looking.merge
    is_plain = (
        looking.weigh == "weight"
        and looking.by == "pattern"
        and not any(each is not None for each in chosen)
    )
    return is_plain and bool(generated_tokens(inspection.trace, inspection.maps[0].rows))


def _initial_selection(
    inspection: Inspection, flags: Sequence[Flag]
) -> tuple[str, int | None, int | None]:
    """Return the name of a head, a query and a key as they were asked for: the strongest head of a
    link or by effect; for a query the head that its title names, or the mean.

    With none of these options it is the strongest head of the kind that the title is about, else
    the most telling of the flagged heads, or the first map.
    """
    looking = inspection.options
    if looking.source is not None:
        link = build_link(inspection.maps, inspection.options)
        return link.top_links[0].map.name, link.token_query.row, link.column
    if looking.query is not None:
        token_query = build_token_query(inspection.maps, inspection.options, looking.query)
        best = token_query.peaks[0]  # which the title names, if it stands out
        name = best.name if token_query.names_head else token_query.mean.map.name
        return name, token_query.row, None
    if looking.by == "effect" and inspection.effects.heads:
        return inspection.effects.heads[0].name, None, None
    if _is_about_generated_text(inspection):
        return mean_head(inspection.maps).name, None, None
    options = looking.layer, looking.head, looking.merge
    if flags and options == (None, None, None):
        kind, count = common_kind(inspection.patterns)
        heads = [flag.map_index for flag in flags if count > 1 and flag.short == kind.short]
        head = heads[0] if heads else most_telling_head(inspection, flags)
        return inspection.patterns.names[head], None, None
    return inspection.maps[0].name, None, None


def most_telling_head(inspection: Inspection, flags: Sequence[Flag]) -> int:
    """Return the index of the flagged head with the highest score.

    Heads that attend to the first token or separators are taken only if there are no others, and
    broad heads last of all.
    """
    kinds = {kind.short: kind for kind in PATTERN_KINDS}

    def sort_key(flag: Flag) -> tuple[bool, bool, float]:
        kind = kinds[flag.short]
        score = inspection.patterns.score(flag.map_index, kind)
        return kind is BROAD_PATTERN, flag.short in SINK_KINDS, -score

    return min(flags, key=sort_key).map_index


def _reindexed_flags(
    flags: Sequence[Flag], inspection: Inspection, names: Sequence[str]
) -> tuple[Flag, ...]:
    """Return the flags with their heads' indices in `names`; flags of other heads are dropped."""
    pattern_names = inspection.patterns.names
    return tuple(
        replace(flag, map_index=names.index(pattern_names[flag.map_index]))
        for flag in flags
        if pattern_names[flag.map_index] in names
    )


def _explored_head(
    head: Head, inspection: Inspection, sides: SharedAxes
) -> tuple[str, str, HeadMap]:
    """Return the labels of the row and column in which a page lists a map, `L3` and `H1`, and it.

    A merged map gets the name of the merge and `all`; a mean that was not asked for, too.
    """
    row, column, merge = f"L{head.layer.layer}", f"H{head.number}", None
    if head.merged_heads:
        merge = inspection.options.merge or "mean"
        row, column = merge, "all"
    head_map = replace(
        map_of_head(head, sides, prompt=inspection.trace.prompt),
        scores=_map_scores(head, inspection),
        vectors=_map_vectors(head, inspection),
        note=" · ".join(map_captions(replace(inspection.options, merge=merge), [head])),
        measure=measure_name(inspection.options),
    )
    return row, column, head_map


def _map_scores(attention_map: Head, inspection: Inspection) -> Cells | None:
    """Return a head's scores before the softmax, grouped as the map groups its tokens.

    None if there are none, if maps are merged, and with options that change weights: --weigh,
    --words or renormalised rows.
    """
    looking = inspection.options
    is_transformed = looking.weigh != "weight" or looking.unit != "token" or looking.renormalise
    if attention_map.merged_heads or is_transformed:
        return None
    scores = lazy_scores(inspection.trace, attention_map.layer, attention_map.number)
    has_same_shape = attention_map.cells.shape == (scores.shape if scores else ())
    if scores is None or has_same_shape:
        return scores
    return RegroupedCells(scores, attention_map.rows.groups, attention_map.columns.groups)


def _map_vectors(attention_map: Head, inspection: Inspection) -> HeadVectors | None:
    """Return a head's queries and keys; None where cells are not those of its tokens: of merged
    maps, with --weigh, and where tokens are merged or left out.
    """
    layer = attention_map.layer
    if attention_map.merged_heads or inspection.options.weigh != "weight":
        return None
    if inspection.options.renormalise or attention_map.cells.shape != layer.size:
        return None
    return read_head_vectors(inspection.trace, layer, attention_map.number)


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Cells):
    """The weights in the second sentence minus those in the first, for paired tokens.

    A cell is hidden only if it is hidden in both sentences.
    """

    first: Cells
    second: Cells
    rows: TokenPairs
    columns: TokenPairs

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        """Return the differences at some rows and columns of the paired tokens."""
        first = _paired_cells(self.first, self.rows.first[rows], self.columns.first[columns])
        second = _paired_cells(self.second, self.rows.second[rows], self.columns.second[columns])
        values = second.values.astype(np.float64) - first.values
        return Patch(values, first.hidden & second.hidden)


def explored_of_sentences(sentences: TraceComparison, above: str) -> HeadExplorer:
    """Return the difference of each head for an interactive page, then each head on both sentences.

    The page opens with the head that changes most. `above` says what a difference above 0 means.
    """
    sides: SharedAxes = {}
    heads = sorted(sentences.heads, key=lambda head: _head_numbers(head.first))
    note = f"{' − '.join(short_names(sentences)[::-1])} · above 0 = {above}"
    maps = []
    for index, head in zip(count(len(heads), 2), heads, strict=False):
        layer_number, head_number = _head_numbers(head.first)
        difference = HeadMap(
            name=head.name,
            query_axis=_shared_pair_axis("query (reads)", sentences.rows, sides),
            key_axis=_shared_pair_axis("key (is read)", sentences.columns, sides),
            weights=difference_cells(sentences, head),
            signed=True,
            measure=DIFFERENCE_NAME,
            note=note,
            pair=(index, index + 1),
        )
        maps.append((f"L{layer_number}", f"H{head_number}", difference))
    top_head, query = sentences.heads[0], sentences.query
    explored = arrange_heads(
        maps,
        query=sentences.link(top_head).row if query is None else query,
        first=[head.name for head in heads].index(top_head.name),
        note=AXES_NOTE,
    )
    sentence_heads = chain.from_iterable(_sentence_heads(sentences, head, sides) for head in heads)
    return replace(explored, heads=(*explored.heads, *sentence_heads))


def difference_cells(sentences: TraceComparison, head: HeadComparison) -> Cells:
    """Return a head's weights in the second sentence minus the first's, for paired tokens."""
    return Differences(head.first.cells, head.second.cells, sentences.rows, sentences.columns)


def change_by_others(sentences: TraceComparison, head: HeadComparison) -> float:
    """Return by how much other tokens change their weight on the key of a head's link, on average.

    They are all paired tokens that see the key, except the query, the key and special tokens; of
    long texts evenly spaced ones. NaN without any.
    """
    link, rows, cells = sentences.link(head), sentences.rows, difference_cells(sentences, head)
    is_other = np.array([position not in rows.tokens.special for position in rows.first])
    is_other[link.row] = False
    if rows is sentences.columns:
        is_other[link.column] = False
    sampled = range(len(rows))[sampled_queries(len(rows))]
    rows_at_once = max(1, CELLS_PER_BAND // (len(sentences.columns) * sampled.step))
    changes: list[float] = []
    for start in range(0, len(sampled), rows_at_once):
        part = sampled[start : start + rows_at_once]
        band = slice(part.start, part.stop, part.step)
        patch = cells.window(band, slice(link.column, link.column + 1))
        seeing = is_other[band] & ~patch.hidden[:, 0]
        changes += abs(patch.values[seeing, 0]).tolist()
    return float(np.mean(changes)) if changes else np.nan


def pair_axis(title: str, pairs: TokenPairs) -> Axis:
    """Return an axis with a label per pair of tokens, numbered as in the first sentence."""
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


def short_names(sentences: TraceComparison) -> list[str]:
    """Return the names of the two models or runs compared, shortened so that they fit above a map;
    `first` and `second` if they have no names, or none that differ then.
    """
    names = [shorten_text(name, MAX_SHORT_NAME_LETTERS) for name in sentences.names]
    if sentences.names in DEFAULT_NAMES or names[0] == names[1]:
        return ["first", "second"]
    return names


def _sentence_heads(
    sentences: TraceComparison, head: HeadComparison, sides: SharedAxes
) -> Iterator[HeadMap]:
    """Yield a head's map on the first sentence, then on the second, with paired positions."""
    traces, rows, columns = (sentences.first, sentences.second), sentences.rows, sentences.columns
    paired = (rows.first, columns.first), (rows.second, columns.second)
    maps = head.first, head.second
    sentence_maps = zip(short_names(sentences), traces, maps, paired, strict=True)
    for name, trace, attention_map, positions in sentence_maps:
        head_map = map_of_head(attention_map, sides, prompt=trace.prompt)
        head_map = replace(head_map, name=f"{head.name} · {name}")
        if not (sentences.options.words or attention_map.merged_heads):
            scores = lazy_scores(trace, attention_map.layer, attention_map.number)
            head_map = replace(head_map, scores=scores)
        own_rows, own_columns = (tuple(map(int, each)) for each in positions)
        yield replace(head_map, chooser_cell=None, paired_positions=(own_rows, own_columns))


def _shared_pair_axis(title: str, pairs: TokenPairs, sides: SharedAxes) -> Axis:
    return sides.setdefault((id(pairs), ()), pair_axis(title, pairs))


def _head_numbers(attention_map: Head) -> tuple[int, int]:
    """Return the numbers of a map's layer and head; without a layer -1, without a head 0."""
    if attention_map.merged_heads:
        return -1, 0
    return attention_map.layer.layer, attention_map.number


def _paired_cells(cells: Cells, rows: Sequence[int], columns: Sequence[int]) -> Patch:
    """Return the cells at these rows and columns as a patch, which is empty without rows.

    Rows must be in ascending order: those between the first and the last are read at once.
    """
    if not rows:
        return Patch(np.zeros((0, len(columns))), np.ones((0, len(columns)), dtype=bool))
    patch = cells.window(slice(rows[0], rows[-1] + 1), FULL_SLICE)
    window_indices = np.ix_(np.asarray(rows) - rows[0], np.asarray(columns))
    return Patch(patch.values[window_indices], patch.hidden[window_indices])
