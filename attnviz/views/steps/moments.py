"""What an animation shows of a step: the followed token's row, cell by cell.

The tables keep their places and fill up: what is not yet computed is NaN, and drawn empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.attention.arithmetic import join_heads
from attnviz.traces.weights import array
from attnviz.views.facts import multiplied
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Part, Section
from attnviz.views.reading import in_quotes, token_axis
from attnviz.views.steps import sums
from attnviz.views.steps.scene import Scene
from attnviz.wording.sums import TERMS, Sum, total


def moments_of(section: Section, here: Scene) -> tuple[Section, ...]:
    """The moments of a step, if it is one that an animation lingers on."""
    if section.name not in MOMENTS or here.layer.memory is not None:
        return ()
    followed = replace(here.asked, query=here.followed, key=None)
    asked = replace(followed, head=here.shown_heads[0], full=False)
    return tuple(MOMENTS[section.name](section, replace(here, asked=asked)))


def _scores(section: Section, here: Scene) -> Iterator[Section]:
    """One key after the other beside the query."""
    layer = here.layer
    compared = multiplied(layer) or layer.w_score is not None
    if layer.queries is None or layer.keys is None or not compared:
        return
    if not here.trace.variant.compared:
        return
    queries = token_axis("query", here.trace.tokens)
    (query,) = here.heads("query", layer.queries, queries, side="width", followed=True)
    (keys,) = here.heads("keys", layer.keys, token_axis("key", here.keys), side="width")
    (row,) = here.scores("scores", "scores")
    write = sums.scores if layer.w_score is None else sums.additive_scores
    lines = write(here, layer)
    for place, (done, line) in enumerate(
        zip(_reveals(here, here.written_keys), lines, strict=True)
    ):
        key = here.written_keys[place]
        shown = (query, _rows_alone(keys, [key]), _columns(row, done))
        about = f"the query is compared with a key{_which(here)}"
        yield _moment(section, about, shown, line, (0, 0, None), (1, key, None))


def _softmax(section: Section, here: Scene) -> Iterator[Section]:
    """One weight after the other, below the scores that they are made of."""
    if here.layer.mistake:
        return
    name = "masked scores" if here.hides else here.stage_before("masked scores")
    (scores,) = here.scores(name, "masked scores")
    (row,) = here.weights("weights", "softmax")
    lines = sums.softmax(here, here.layer)
    masked = here.masked_keys(here.shown_heads[0])
    shared = [key for key in here.visible_keys if key not in masked]
    for key, done, line in zip(shared, _reveals(here, shared), lines, strict=True):
        shown = (scores, _columns(row, done))
        about = f"scores become weights{_which(here)}"
        yield _moment(section, about, shown, line, (0, 0, key))


def _weighted(section: Section, here: Scene) -> Iterator[Section]:
    """One value after the other, times its weight."""
    layer, keys = here.layer, token_axis("key", here.keys)
    (weights,) = here.weights("mixing", layer.attended.mixed_by)
    (values,) = here.heads("values", layer.values, keys, side="head_value")
    (products,) = here.heads(
        "weighted values", here.weighted, keys, side="head_value", scale="weighted"
    )
    written = sums.weighted(here, layer)
    keys_read = here.visible_keys
    for key, done, line in zip(keys_read, _reveals(here, keys_read), written, strict=True):
        shown = (weights, values, _rows_alone(products, done))
        about = f"each value times its weight{_which(here)}"
        yield _moment(section, about, shown, line, (0, 0, key), (1, key, None))


def _context(section: Section, here: Scene) -> Iterator[Section]:
    """The weighted values added up, one number of the context vector after another."""
    head, axis = here.shown_heads[0], token_axis("key", here.keys)
    contexts = here.layer.attended.contexts
    (products,) = here.heads(
        "weighted values", here.weighted, axis, side="head_value", scale="weighted"
    )
    rows = token_axis("query (reads)", here.trace.tokens)
    (result,) = here.heads("context vector", contexts, rows, side="head_value", followed=True)
    columns, ends = array(here.weighted[head]), contexts[head, here.followed].tolist()
    made = bool(here.read_keys) and head not in here.layer.off
    shown = min(len(ends), TERMS) if made else 0
    for place in range(shown):
        done = range(len(ends) if place + 1 == shown else place + 1)
        left = f"context({here.query_name}), number {place + 1}"
        seen = columns[here.read_keys, place].tolist()
        line = total(left, seen, place, ends, here.style)
        about = f"the weighted values add up to the context vector{_which(here, of_keys=False)}"
        yield _moment(section, about, (products, _columns(result, done)), line, (0, None, place))
    yield from _joined(section, here)


def _joined(section: Section, here: Scene) -> Iterator[Section]:
    """The concatenated heads, and their product with the output matrix."""
    layer = here.layer
    if layer.projections is None or layer.projections.w_out is None:
        return
    axis = token_axis("query (reads)", here.trace.tokens)
    joined = join_heads(layer.attended.contexts)
    grids = (
        here.grid(
            "joined heads" if layer.heads > 1 else "context",
            joined,
            axis,
            side="joined_width",
            followed=True,
        ),
        here.matrix("w_out", layer.projections.w_out),
        here.grid("output", layer.context, axis, followed=True),
    )
    vector = "the concatenated heads" if layer.heads > 1 else "the context vector"
    about = f"{vector} times the output matrix, for {in_quotes(here.trace.tokens, here.followed)}"
    yield _moment(section, about, grids, sums.context(here, layer)[-1])


def _which(here: Scene, *, of_keys: bool = True) -> str:
    """Which head is followed of several, and which keys of very many."""
    heads, keys, written = here.layer.heads, len(here.keys), len(here.written_keys)
    parts = []
    if heads > 1:
        parts.append(f"head {here.shown_heads[0]} of {heads}")
    if of_keys and written < keys:
        parts.append(f"the {written} of {keys:,} keys with the largest weights")
    return f" ({', '.join(parts)})" if parts else ""


MOMENTS: dict[str, Callable[[Section, Scene], Iterator[Section]]] = {
    "scores": _scores,
    "softmax": _softmax,
    "weighted": _weighted,
    "context": _context,
}


def _moment(
    section: Section, about: str, grids: tuple[Grid, ...], line: Sum, *made_of: Part
) -> Section:
    return Section(
        number=section.number,
        name=section.name,
        title=section.title,
        about=about,
        grids=grids,
        sums=(line,),
        made_of=made_of,
    )


def _reveals(here: Scene, keys: Sequence[int]) -> Iterator[list[int]]:
    """The keys that are done after each; those that are not written out come with the last."""
    for place in range(len(keys)):
        last = place + 1 == len(keys)
        yield list(range(len(here.keys))) if last else list(keys[: place + 1])


def _columns(grid: Grid, done: Sequence[int]) -> Grid:
    """The grid with nothing yet in the other columns."""
    left_out = np.isin(np.arange(grid.values.shape[1]), done, invert=True)
    return grid.with_values(np.where(left_out[None, :], np.nan, grid.values))


def _rows_alone(grid: Grid, shown: Sequence[int]) -> Grid:
    """The grid with nothing in the other rows."""
    left_out = np.isin(np.arange(grid.values.shape[0]), shown, invert=True)
    return grid.with_values(np.where(left_out[:, None], np.nan, grid.values))
