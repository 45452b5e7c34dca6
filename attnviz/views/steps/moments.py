"""What an animation shows of a step: the followed token's row, cell by cell.

The tables keep their places and fill up: what is not yet computed is NaN, and drawn empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.attention import arithmetic as attention
from attnviz.views.grids.grids import Grid, Section
from attnviz.views.steps import sums
from attnviz.views.steps.scene import Scene
from attnviz.views.trace import array, token_axis
from attnviz.wording import sums as arithmetic


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
        yield _moment(
            section, f"the query meets a key{_which(here)}", (query, one, _columns(row, done)), line
        )


def _softmax(section: Section, here: Scene) -> Iterator[Section]:
    """One weight after the other, below the scores that they are made of."""
    attended = here.layer.attended
    if here.layer.mistake:
        return
    hides = not bool(here.layer.visible.all())
    name = "masked scores" if hides else "scaled scores"
    (scores,) = here.scores(name, attended.logits, "", masked=True)
    (row,) = here.weights(attended.weights, "softmax")
    lines = sums.softmax(here, here.layer)
    shared = [key for key in here.visible_keys if here.layer.visible[here.followed, key]]
    for done, line in zip(_reveals(here, shared), lines, strict=True):
        yield _moment(
            section, f"scores become shares{_which(here)}", (scores, _columns(row, done)), line
        )


def _weighted(section: Section, here: Scene) -> Iterator[Section]:
    """One value after the other, times its weight."""
    layer, row = here.layer, here.followed
    made = attention.weighted(layer.attended.mixing[:, row], layer.values)
    keys = token_axis("key", here.keys)
    (weights,) = here.weights(layer.attended.mixing, layer.attended.mixed_by)
    (values,) = here.heads("values", layer.values, keys)
    (products,) = here.heads("weighted values", made, keys, scale="weighted")
    lines = sums.weighted(here, layer, made)
    for done, line in zip(_reveals(here, here.visible_keys), lines, strict=True):
        shown = (weights, values, _rows_alone(products, done))
        yield _moment(section, f"each value times its weight{_which(here)}", shown, line)


def _context(section: Section, here: Scene) -> Iterator[Section]:
    """The weighted values added up, one number of the context vector after the other."""
    layer, row, head = here.layer, here.followed, here.shown_heads[0]
    made = attention.weighted(layer.attended.mixing[:, row], layer.values)
    (products,) = here.heads(
        "weighted values", made, token_axis("key", here.keys), scale="weighted"
    )
    contexts = layer.attended.contexts
    axis = token_axis("query (reads)", here.trace.tokens)
    (result,) = here.heads("context vector", contexts, axis, followed=True)
    name = here.name(here.trace.tokens, row)
    columns, ends = array(made[head]), contexts[head, row].tolist()
    for place in range(min(len(ends), arithmetic.TERMS)):
        last = place + 1 == min(len(ends), arithmetic.TERMS)
        done = range(len(ends) if last else place + 1)
        left = f"context({name}), number {place + 1}"
        seen = columns[here.read_keys, place].tolist()
        line = arithmetic.lines([arithmetic.total(left, seen, place, ends, here.style)])[0]
        about = f"added up, they are what it has read{_which(here)}"
        yield _moment(section, about, (products, _columns(result, done)), line)
    yield from _joined(section, here)


def _joined(section: Section, here: Scene) -> Iterator[Section]:
    """The heads side by side, and what the last matrix makes of them."""
    layer, row = here.layer, here.followed
    if layer.projections is None or layer.projections.w_out is None:
        return
    axis = token_axis("query (reads)", here.trace.tokens)
    joined = here.grid("joined heads", attention.join_heads(layer.attended.contexts), axis,
                       followed=True)  # fmt: skip
    matrix = here.matrix("w_out", layer.projections.w_out)
    output = here.grid("output", layer.context, axis, followed=True)
    line = sums.context(here, layer)[-1]
    about = (
        f"the heads side by side, mixed by the last matrix, for {here.name(here.trace.tokens, row)}"
    )
    yield _moment(section, about, (joined, matrix, output), line)


def _which(here: Scene) -> str:
    """Which head is followed of several, and which keys of very many."""
    heads, keys = here.layer.heads, len(here.keys)
    parts = [f"head {here.shown_heads[0]} of {heads}"] if heads > 1 else []
    parts += [f"the {len(here.written_keys)} of {keys:,} keys that weigh most"] * (
        len(here.written_keys) < keys
    )
    return f" ({', '.join(parts)})" if parts else ""


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
    for place in range(len(keys)):
        last = place + 1 == len(keys)
        yield list(range(len(here.keys))) if last else list(keys[: place + 1])


def _columns(grid: Grid, done: Sequence[int]) -> Grid:
    """The grid with nothing yet in the other columns."""
    left_out = np.isin(np.arange(grid.values.shape[1]), done, invert=True)
    return replace(grid, values=np.where(left_out[None, :], np.nan, grid.values))


def _rows_alone(grid: Grid, shown: Sequence[int]) -> Grid:
    """The grid with nothing in the other rows."""
    left_out = np.isin(np.arange(grid.values.shape[0]), shown, invert=True)
    return replace(grid, values=np.where(left_out[:, None], np.nan, grid.values))
