"""The frames of an animated step: the followed token's row fills cell by cell.

Tables keep their size and fill up: cells that are not computed yet are NaN and drawn empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.attention.arithmetic import join_heads
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import CellSource, Section
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.reading import token_axis
from attnviz.views.steps import step_sums
from attnviz.views.steps.scene import Scene
from attnviz.wording.sums import MAX_TERMS, Sum


def step_moments(section: Section, scene: Scene) -> tuple[Section, ...]:
    """Return the frames of a step, for the followed query and the first shown head.

    Empty for steps that are not animated, and for attention to a second sentence.
    """
    if section.name not in MOMENT_MAKERS or scene.layer.memory is not None:
        return ()
    options = replace(
        scene.options, query=scene.followed_query, key=None, head=scene.shown_heads[0], full=False
    )
    return tuple(MOMENT_MAKERS[section.name](section, replace(scene, options=options)))


def _score_moments(section: Section, scene: Scene) -> Iterator[Section]:
    """Yield a frame per key, beside the query: the key, its score and the sum.

    Nothing if scores are not computed from queries and keys.
    """
    layer = scene.layer
    has_sums = layer.has_product_scores or layer.w_score is not None
    if layer.queries is None or layer.keys is None:
        return
    if not has_sums or not scene.trace.variant.compared:
        return
    queries = token_axis("query", scene.trace.tokens)
    (query,) = scene.head_grids("query", layer.queries, queries, side="width", followed=True)
    (keys,) = scene.head_grids("keys", layer.keys, token_axis("key", scene.keys), side="width")
    (row,) = scene.score_grids("scores", "scores")
    lines = step_sums.score_sums(scene, layer)
    about = f"the query is compared with a key{_selection_suffix(scene)}"
    for key, revealed, line in _keys_with_sums(scene, scene.written_keys, lines):
        grids = (query, _keep(keys, rows=[key]), _keep(row, columns=revealed))
        yield _moment_section(section, about, grids, line, (0, 0, None), (1, key, None))


def _softmax_moments(section: Section, scene: Scene) -> Iterator[Section]:
    """Yield a frame per weight, below the scores; nothing for a mistake in the mask or softmax."""
    if scene.layer.mistake:
        return
    name = "masked scores" if scene.has_masked_keys else scene.stage_before("masked scores")
    (scores,) = scene.score_grids(name, "masked scores")
    (row,) = scene.weight_grids("weights", "softmax")
    masked = scene.masked_keys(scene.shown_heads[0])
    keys = [key for key in scene.visible_keys if key not in masked]
    lines = step_sums.softmax_sums(scene, scene.layer)
    about = f"scores become weights{_selection_suffix(scene)}"
    for key, revealed, line in _keys_with_sums(scene, keys, lines):
        grids = (scores, _keep(row, columns=revealed))
        yield _moment_section(section, about, grids, line, (0, 0, key))


def _weighted_value_moments(section: Section, scene: Scene) -> Iterator[Section]:
    """Yield a frame per visible key: its weight, its value, and the product."""
    layer, keys = scene.layer, token_axis("key", scene.keys)
    (weights,) = scene.weight_grids("mixing", layer.attended.mixed_by)
    (values,) = scene.head_grids("values", layer.values, keys, side="head_value")
    (products,) = scene.weighted_grids()
    lines = step_sums.weighted_value_sums(scene, layer)
    about = f"each value times its weight{_selection_suffix(scene)}"
    for key, revealed, line in _keys_with_sums(scene, scene.visible_keys, lines):
        grids = (weights, values, _keep(products, rows=revealed))
        yield _moment_section(section, about, grids, line, (0, 0, key), (1, key, None))


def _context_moments(section: Section, scene: Scene) -> Iterator[Section]:
    """Yield a frame per number of the context vector that is written out, then the output matrix.

    The last of them reveals all numbers. A query that reads nothing has only the output matrix.
    """
    head, contexts = scene.shown_heads[0], scene.layer.attended.contexts
    (products,) = scene.weighted_grids()
    rows = token_axis("query (reads)", scene.trace.tokens)
    (result,) = scene.head_grids("context vector", contexts, rows, side="head_value", followed=True)
    columns = tensor_to_numpy(scene.weighted_values[head])
    ends = contexts[head, scene.followed_query].tolist()
    has_read = bool(scene.read_keys) and head not in scene.layer.off
    written_count = min(len(ends), MAX_TERMS) if has_read else 0
    suffix = _selection_suffix(scene, of_keys=False)
    about = f"the weighted values add up to the context vector{suffix}"
    for number in range(written_count):
        revealed = range(len(ends) if number + 1 == written_count else number + 1)
        writer = scene.write(f"context({scene.query_name}), number {number + 1}")
        read_values = columns[scene.read_keys, number].tolist()
        line = writer.vector_entry(read_values, number, ends)
        grids = (products, _keep(result, columns=revealed))
        yield _moment_section(section, about, grids, line, (0, None, number))
    yield from _output_moments(section, scene)


def _output_moments(section: Section, scene: Scene) -> Iterator[Section]:
    """Yield one frame with the joined heads times the output matrix; nothing without one."""
    layer = scene.layer
    if layer.projections is None or layer.projections.w_out is None:
        return
    axis = token_axis("query (reads)", scene.trace.tokens)
    joined, name, vector = join_heads(layer.attended.contexts), "context", "the context vector"
    if layer.heads > 1:
        name, vector = "joined heads", "the concatenated heads"
    grids = (
        scene.grid(name, joined, axis, side="joined_width", followed=True),
        scene.matrix_grid("w_out", layer.projections.w_out),
        scene.grid("output", layer.context, axis, followed=True),
    )
    token = quoted_token(scene.trace.tokens, scene.followed_query)
    about = f"{vector} times the output matrix, for {token}"
    yield _moment_section(section, about, grids, step_sums.context_sums(scene, layer)[-1])


def _selection_suffix(scene: Scene, *, of_keys: bool = True) -> str:
    """Return ` (head 0 of 2)`, which also counts the keys written out if not all are; else empty.

    `of_keys` is False for frames that do not go through keys.
    """
    key_count, written_count = len(scene.keys), len(scene.written_keys)
    parts = []
    if scene.layer.heads > 1:
        parts.append(f"head {scene.shown_heads[0]} of {scene.layer.heads}")
    if of_keys and written_count < key_count:
        parts.append(f"the {written_count} of {key_count:,} keys with the largest weights")
    return f" ({', '.join(parts)})" if parts else ""


MOMENT_MAKERS: dict[str, Callable[[Section, Scene], Iterator[Section]]] = {
    "scores": _score_moments,
    "softmax": _softmax_moments,
    "weighted": _weighted_value_moments,
    "context": _context_moments,
}


def _moment_section(
    section: Section, about: str, grids: tuple[Grid, ...], line: Sum, *made_of: CellSource
) -> Section:
    """Return a frame of a step with one sum; `made_of` marks the cells that it is computed from."""
    return Section(
        number=section.number,
        name=section.name,
        title=section.title,
        about=about,
        grids=grids,
        sums=(line,),
        cell_sources=made_of,
    )


def _keys_with_sums(
    scene: Scene, keys: Sequence[int], lines: Sequence[Sum]
) -> Iterator[tuple[int, Sequence[int], Sum]]:
    """Yield each key, the keys revealed in its frame, and its sum; the last frame reveals all."""
    for count, (key, line) in enumerate(zip(keys, lines, strict=True), start=1):
        yield key, range(len(scene.keys)) if count == len(keys) else keys[:count], line


def _keep(grid: Grid, *, rows: Sequence[int] = (), columns: Sequence[int] = ()) -> Grid:
    """Return the grid with all rows but these, or all columns but these, left empty."""
    row_indices, column_indices = np.indices(grid.values.shape)
    is_kept = np.isin(row_indices, rows) | np.isin(column_indices, columns)
    return grid.with_values(np.where(is_kept, grid.values, np.nan))
