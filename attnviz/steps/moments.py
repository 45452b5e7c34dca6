"""What an animation shows of a step: the followed token's row, cell by cell.

The tables keep their places and fill up: what is not yet computed is NaN, and drawn empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz import attention
from attnviz.grids import Grid, Section
from attnviz.steps import arithmetic, sums
from attnviz.steps.scenes import Scene
from attnviz.trace_grids import array, token_axis


def moments_of(section: Section, here: Scene) -> tuple[Section, ...]:
    """The moments of a step, if it is one that an animation lingers on."""
    if section.name not in MOMENTS or here.layer.memory is not None:
        return ()
    walk = replace(here.walk, query=here.followed, head=here.shown_heads[0], full=False)
    return tuple(MOMENTS[section.name](section, replace(here, walk=walk)))


def _scores(section: Section, here: Scene) -> Iterator[Section]:
    """One key after the other beside the query."""
    layer = here.layer
    if layer.queries is None or layer.keys is None or not here.trace.variant.compared:
        return
    queries = token_axis("query", here.trace.tokens)
    (query,) = here.heads("query", layer.queries, queries, followed=True)
    (keys,) = here.heads("keys", layer.keys, token_axis("key", here.keys))
    (row,) = here.scores("scores", layer.attended.scores, "")
    lines = sums.scores(here, layer)
    for place, (done, line) in enumerate(
        zip(_reveals(here, here.written_keys), lines, strict=True)
    ):
        one = _rows_alone(keys, [here.written_keys[place]])
        yield _moment(section, "the query meets a key", (query, one, _columns(row, done)), line)


def _softmax(section: Section, here: Scene) -> Iterator[Section]:
    """One weight after the other, below the scores that they are made of."""
    attended = here.layer.attended
    if here.walk.mistake:
        return
    (scores,) = here.scores("masked scores", attended.logits, "", masked=True)
    (row,) = here.weights(attended.weights, "softmax")
    lines = sums.softmax(here, here.layer)
    for done, line in zip(_reveals(here, here.visible_keys), lines, strict=True):
        yield _moment(section, "scores become shares", (scores, _columns(row, done)), line)


def _weighted(section: Section, here: Scene) -> Iterator[Section]:
    """One value after the other, times its weight."""
    layer, row, head = here.layer, here.followed, here.shown_heads[0]
    made = attention.weighted(layer.attended.mixing[:, row], layer.values)
    keys = token_axis("key", here.keys)
    (weights,) = here.weights(layer.attended.mixing, layer.attended.mixed_by)
    (values,) = here.heads("values", layer.values, keys)
    (products,) = here.heads("weighted values", made, keys)
    lines = sums.weighted(here, layer, made)
    for done, line in zip(_reveals(here, here.visible_keys), lines, strict=True):
        shown = (weights, values, _rows_alone(products, done))
        yield _moment(section, f"each value times its weight{here.of_head(head)}", shown, line)


def _context(section: Section, here: Scene) -> Iterator[Section]:
    """The weighted values added up, one number of the context vector after the other."""
    layer, row, head = here.layer, here.followed, here.shown_heads[0]
    made = attention.weighted(layer.attended.mixing[:, row], layer.values)
    (products,) = here.heads("weighted values", made, token_axis("key", here.keys))
    contexts = layer.attended.contexts
    axis = token_axis("query (reads)", here.trace.tokens)
    (result,) = here.heads("context vector", contexts, axis, followed=True)
    name = here.name(here.trace.tokens, row)
    columns, ends = array(made[head]), contexts[head, row].tolist()
    for place in range(min(len(ends), arithmetic.TERMS)):
        last = place + 1 == min(len(ends), arithmetic.TERMS)
        done = range(len(ends) if last else place + 1)
        left = f"context({name}), number {place + 1}"
        seen = columns[here.layer.visible[row].cpu().numpy(), place].tolist()
        line = arithmetic.lines([arithmetic.total(left, seen, place, ends, here.style)])[0]
        yield _moment(section, "added up, they are what it has read",
                      (products, _columns(result, done)), line)  # fmt: skip


MOMENTS: dict[str, Callable[[Section, Scene], Iterator[Section]]] = {
    "scores": _scores,
    "softmax": _softmax,
    "weighted": _weighted,
    "context": _context,
}


def _moment(section: Section, about: str, grids: tuple[Grid, ...], line: str) -> Section:
    alone = " ".join(line.split())  # nothing stands below it that its signs are aligned with
    return Section(section.number, section.name, section.title, about, grids=grids, sums=(alone,))


def _reveals(here: Scene, keys: Sequence[int]) -> Iterator[list[int]]:
    """The keys that are done after each; those that are not written out come with the last."""
    for place, key in enumerate(keys):
        last = place + 1 == len(keys)
        yield list(range(len(here.keys) if last else key + 1))


def _columns(grid: Grid, done: Sequence[int]) -> Grid:
    """The grid with nothing yet in the other columns."""
    left_out = np.isin(np.arange(grid.values.shape[1]), done, invert=True)
    return replace(grid, values=np.where(left_out[None, :], np.nan, grid.values))


def _rows_alone(grid: Grid, shown: Sequence[int]) -> Grid:
    """The grid with nothing in the other rows."""
    left_out = np.isin(np.arange(grid.values.shape[0]), shown, invert=True)
    return replace(grid, values=np.where(left_out[:, None], np.nan, grid.values))
