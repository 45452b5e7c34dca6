"""Arrays with their sides in the order of the table of parts, and one item of those in a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from einops import rearrange

from attnviz.errors import AttnvizError
from attnviz.traces.arrays import Numbers
from attnviz.traces.axes import said
from attnviz.traces.fitting import SHARED_OUT, in_file, refuse_other_sides
from attnviz.traces.parts import GIVEN
from attnviz.traces.readings import (
    GROUP,
    HEAD,
    ITEM,
    Axes,
    Readings,
    Sided,
    Sizes,
    nearest,
    possible,
    read,
)

Arrays = Mapping[str, Numbers]


@dataclass(frozen=True, eq=False)
class InOrder:
    """One item of what was given, and how many there are."""

    arrays: dict[str, Numbers]
    items: int
    heads: int | None  # how many there are, where matrices of each stand side by side
    kv_heads: int | None  # and of those that make keys and values


def in_order(
    arrays: Arrays,
    axes: Mapping[str, Axes],
    counts: Sizes,
    *,
    item: int | None,
    heads: int | None,
    source: str,
) -> InOrder:
    """The arrays, once it is known what their sides count; `axes` are those that are named."""
    sided = _sided(arrays, axes, source)
    readings = read(sided, counts, heads=heads, item=item, source=source) or nearest(sided, counts)
    sizes = {**_sizes(sided, readings), **counts}
    arranged = {name: _arranged(arrays[name], readings[name], name, sizes) for name in arrays}
    batched = {name: each for name, each in arranged.items() if ITEM in readings[name]}
    items = _number_of_items(batched, source)
    _refuse_missing_item(item, items, batched, source)
    one = {name: each[min(item or 1, len(each)) - 1] for name, each in batched.items()}
    return InOrder(arranged | one, items, *_heads(readings, sizes))


def _sided(arrays: Arrays, axes: Mapping[str, Axes], source: str) -> list[Sided]:
    """Each with the sides that are named, or with every order of sides that is usual."""
    shapes = {name: each.shape for name, each in arrays.items()}
    named = said(shapes, axes, source)
    sided = [
        Sided(name, GIVEN[name], shape, (named[name],))
        if name in named
        else Sided(name, GIVEN[name], shape, possible(GIVEN[name], len(shape)))
        for name, shape in shapes.items()
    ]
    for each in sided:
        refuse_other_sides(each.name, each.shape, each.part.sides, each.readings, source)
    return sided


def _sizes(sided: Sequence[Sided], readings: Readings) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in sided:
        found = {**each.sizes(readings[each.name]), **found}
    return found


def _heads(readings: Readings, sizes: Sizes) -> tuple[int | None, int | None]:
    """How many there are, where a matrix for each says it that is one of all then."""
    several = [GIVEN[name] for name, axes in readings.items() if HEAD in axes]
    grouped = [part.grouped for part in several if HEAD not in part.axes]
    heads = None if all(grouped) else sizes.get(HEAD)
    return heads, sizes.get(GROUP) if any(grouped) else None


def _arranged(array: Numbers, axes: Axes, name: str, sizes: Sizes) -> Numbers:
    """The array with its sides in the order of the part: items, heads, and the others.

    Matrices of each head stand side by side, and a mask for all queries is written out.
    """
    spreads, own = GIVEN[name].spreads, GIVEN[name].axes
    before = (ITEM, HEAD) if spreads and HEAD not in own else (ITEM,)
    target = [side for side in before if side in axes]
    for side in own:
        by_head = f"(head {SHARED_OUT.get(side)})" if HEAD in axes and HEAD not in own else "1"
        target.append(side if side in axes else by_head if side in SHARED_OUT else "1")
    found: Numbers = rearrange(array, f"{' '.join(axes)} -> {' '.join(target)}")
    tokens = sizes.get("token", 1)
    if spreads and found.shape[-2] == 1:
        found = np.repeat(found, tokens, axis=-2)
    return found


def _refuse_missing_item(item: int | None, items: int, batched: Arrays, source: str) -> None:
    if item is not None and not batched:
        raise AttnvizError(
            f"--item {item} is given, but there is no batch{in_file(source)}",
            "leave --item out",
            about="item",
            file=source,
        )
    if not 1 <= (item or 1) <= items:
        raise AttnvizError(
            f"there is no item {item}{in_file(source)}: it holds a batch of {items}",
            f"give --item 1 to {items}",
            about="item",
            file=source,
        )


def _number_of_items(batched: Arrays, source: str) -> int:
    counts = {
        name: len(each)
        for name, each in batched.items()
        if len(each) > 1 or not GIVEN[name].spreads
    }
    first, items = next(iter(counts.items()), ("", 1))
    for name, count in counts.items():
        if count != items:
            raise AttnvizError(
                f"'{name}'{in_file(source)} is a batch of {count}, but '{first}' is one of {items}",
                "give both the same number of items",
                about=name,
                file=source,
            )
    return items
