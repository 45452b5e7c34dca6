"""Finds out what each axis of given arrays counts, and puts the axes in the usual order.

A "side" is a dimension of an array, named by what it counts: "item" (of a batch), "head",
"token", "width", … Three layouts are guessed from the number of dimensions: alone, per head, in a
batch. Others are named in the file: `axes = […]` for every array that it fits, `axes.queries = […]`
for one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from einops import rearrange

from attnviz.errors import AttnvizError, opt, unknown_name_error
from attnviz.traces.given_arrays import (
    HEAD_SIDES_BY_WIDTH,
    HEAD_WIDTH_BY_WIDTH,
    Numbers,
    array_error,
    in_file,
    refuse_other_sides,
)
from attnviz.traces.matrix_names import table_by_word
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME, Part
from attnviz.wording.words import and_list, counted, shape_text

Axes = tuple[str, ...]  # what the sides count: ("item", "token", "dim")
Sizes = Mapping[str, int]  # length by side
AxesByName = dict[str, Axes]  # by the name of the array
Arrays = Mapping[str, Numbers]
Shapes = Mapping[str, Sequence[int]]  # by the name of the array

ITEM, HEAD, GROUP = "item", "head", "group"
BROADCAST_SIDES = (ITEM, HEAD, "token")  # a mask with a side of 1 here is the same for all
AXES_KEY = "axes"
PART_SIDES = [side for part in PARTS_BY_GIVEN_NAME.values() for side in part.axes]


def split_off_axes(contents: Mapping[str, Any], source: str) -> tuple[dict[str, Any], AxesByName]:
    """Return the contents of a file without its `axes` keys, and the names of dimensions by array.

    The array name "" stands for every array. Refuses other values than lists of known names
    ("token").
    """
    matrices = {name: value for name, value in contents.items() if name != AXES_KEY}
    axes = contents.get(AXES_KEY, {})
    axes_by_name = dict(axes) if isinstance(axes, Mapping) else {"": axes}
    for name in [name for name in matrices if name.startswith(f"{AXES_KEY}.")]:
        axes_by_name[name.removeprefix(f"{AXES_KEY}.")] = matrices.pop(name)
    return matrices, {
        name: _parse_axis_words(name, value, source) for name, value in axes_by_name.items()
    }


def resolve_named_axes(shapes: Shapes, axes: Mapping[str, Axes], source: str) -> AxesByName:
    """Return the names of dimensions ("head", "token") of each array for which the file says them.

    Common axes count for every array that they fit, axes of one array take precedence. Refuses
    common axes that fit no array, and axes of an array that is missing or that they do not fit.
    """
    sides_by_name: AxesByName = {}
    common_axes = axes.get("", ())
    for name, shape in shapes.items() if common_axes else ():
        part = PARTS_BY_GIVEN_NAME[name]
        sides = _words_as_sides(part, common_axes)
        if len(sides) == len(shape) and _are_complete_sides(part, sides):
            sides_by_name[name] = sides
    if common_axes and not sides_by_name:
        words = and_list(common_axes)
        problem = (
            f"'{AXES_KEY}'{in_file(source)} names {words}, but nothing given has these dimensions"
        )
        hint = f"name the dimensions of one matrix: {AXES_KEY}.queries = […]"
        raise _axes_error(problem, hint, source)
    return sides_by_name | {
        name: _resolve_array_axes(name, words, shapes, source)
        for name, words in axes.items()
        if name
    }


def _resolve_array_axes(name: str, words: Axes, shapes: Shapes, source: str) -> Axes:
    """Return the dimensions that `axes.name` gives one array.

    Refuses them if the array is not given, or has other dimensions or another number of dimensions.
    """
    key = f"'{AXES_KEY}.{name}'{in_file(source)}"
    if name not in shapes:
        problem = f"{key} names the dimensions of something that is not given"
        raise _axes_error(
            problem, unknown_name_error("matrix", name, shapes, from_file=True).hint, source
        )
    part, shape = PARTS_BY_GIVEN_NAME[name], shapes[name]
    sides = _words_as_sides(part, words)
    if not _are_complete_sides(part, sides):
        hint = f"the dimensions of '{name}' are {and_list(part.axes)}; a batch also has {ITEM}"
        raise _axes_error(f"{key} names {and_list(words)}", hint, source)
    if len(sides) != len(shape):
        problem = f"{key} names {counted(len(sides), 'dimension')}, but '{name}' has {len(shape)}"
        raise _axes_error(problem, "name every dimension once", source)
    return sides


def _words_as_sides(part: Part, words: Axes) -> Axes:
    """Return the dimension of this part that each word of a file ('query', 'batch') stands for;
    other words stay as they are.
    """
    own_sides = {ITEM, *part.axes}
    if HEAD in words and HEAD not in own_sides:
        own_sides = {HEAD_WIDTH_BY_WIDTH.get(side, side) for side in own_sides}
    return tuple(
        next(
            (
                side
                for side in (word, *table_by_word("side words").get(word, "").split())
                if side in own_sides
            ),
            word,
        )
        for word in words
    )


def _are_complete_sides(part: Part, sides: Axes) -> bool:
    """Return whether `sides` can name the dimensions of the part in a file.

    None may come twice or belong to another part, and only items, heads, and the broadcast
    dimensions of masks may be missing.
    """
    own_sides = set(part.axes)
    if HEAD in sides and HEAD not in own_sides and own_sides & HEAD_WIDTH_BY_WIDTH.keys():
        own_sides = {HEAD_WIDTH_BY_WIDTH.get(side, side) for side in own_sides} | {HEAD}
    optional_sides = {ITEM, *BROADCAST_SIDES} if part.spreads else {ITEM, HEAD}
    allowed_sides = own_sides | ({ITEM, HEAD} if part.spreads else {ITEM})
    return (
        len(set(sides)) == len(sides) and own_sides - optional_sides <= set(sides) <= allowed_sides
    )


def _parse_axis_words(name: str, value: Any, source: str) -> Axes:
    """Return the dimension names in a value: a list, a JSON list as text, or words in one text.

    `name` is the array that they are for, '' for all. Refuses other values and unknown dimension
    names.
    """
    words = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(words, str):  # '["item", "token"]', 'item token' or 'item, token'
        try:
            words = json.loads(words)
        except (ValueError, RecursionError):
            words = words.replace(",", " ").split()
    if (
        not isinstance(words, (list, tuple))
        or not words
        or not all(isinstance(word, str) for word in words)
    ):
        key = f"{AXES_KEY}.{name}" if name else AXES_KEY
        raise _axes_error(
            f"'{key}'{in_file(source)} is not a list of words",
            'name every dimension: ["item", "head", "token", "width"]',
            source,
        )
    known_sides = list(dict.fromkeys([ITEM, *PART_SIDES, *table_by_word("side words")]))
    for word in words:
        if word not in known_sides:
            error = unknown_name_error("side", word, known_sides)
            raise _axes_error(f"{error} of a matrix{in_file(source)}", error.hint, source)
    return tuple(words)


def _axes_error(problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=AXES_KEY, file=source)


def guessed_layouts(part: Part) -> tuple[Axes, ...]:
    """Return the orders of dimensions that are guessed, each from the number of dimensions: alone,
    per head, and in a batch (unless the part is learned, and so the same for every item).
    """
    sides = tuple(side for side in part.axes if side != HEAD)
    with_heads = part.axes if HEAD in part.axes else next(_per_head_axes(sides), sides)
    return (sides, with_heads) if part.learned else (sides, with_heads, (ITEM, *with_heads))


def possible_axes(part: Part, ndim: int) -> tuple[Axes, ...]:
    """Return the usual orders of `ndim` dimensions of this part: the guessed one first, if there is
    one, then those that only a file can name.
    """
    sides = tuple(side for side in part.axes if side != HEAD)
    orders = [*guessed_layouts(part), *_per_head_axes(sides)]
    if not part.learned:
        orders.append((ITEM, *sides))
        if HEAD in part.axes and "key" not in sides[1:]:
            orders.append((ITEM, sides[0], HEAD, *sides[1:]))  # as Keras has it
    if part.spreads:
        orders += [sides[1:], (ITEM, *sides[1:])]
    return tuple(axes for axes in dict.fromkeys(orders) if len(axes) == ndim)


def _per_head_axes(sides: Axes) -> Iterator[Axes]:
    """Yield the dimensions of one matrix per head, with "head" first or before the head's own
    width, in place of one matrix for all heads.
    """
    for index, side in enumerate(sides):
        if side in HEAD_WIDTH_BY_WIDTH:
            head_sides = (*sides[:index], HEAD_WIDTH_BY_WIDTH[side], *sides[index + 1 :])
            yield (HEAD, *head_sides)
            if index:
                yield (*head_sides[:index], HEAD, *head_sides[index:])


def _axes_of_arrays(
    arrays: Arrays, named_axes: AxesByName, known_sizes: Sizes, *, item: int | None, source: str
) -> AxesByName:
    """Return what the dimensions of each array count: what the file says, or the guessed layout.

    Refuses an array of which another usual order fits what else is known, where the guess does not,
    and one that could be a batch as well, if something else is one or an `item` is given.
    """
    axes_by_name, sizes = dict(named_axes), dict(known_sizes)
    for name, axes in named_axes.items():
        sizes = {**_side_sizes(name, axes, arrays[name].shape), **sizes}
    unnamed = [name for name in arrays if name not in named_axes]
    # What is learned comes last: its heads are joined, so that no later check could count them.
    for name in sorted(unnamed, key=lambda name: PARTS_BY_GIVEN_NAME[name].learned):
        axes_by_name[name] = axes = _guess_axes(name, arrays[name].shape, sizes, source)
        sizes = {**_side_sizes(name, axes, arrays[name].shape), **sizes}
    asks_for_batch = item is not None and not any(ITEM in each for each in axes_by_name.values())
    for name in unnamed:
        shape, axes = arrays[name].shape, axes_by_name[name]
        as_batch = (ITEM, *axes[1:])
        is_as_long = asks_for_batch or shape[0] == sizes.get(ITEM, 1) > 1
        could_be_batch = as_batch in possible_axes(PARTS_BY_GIVEN_NAME[name], len(shape))
        if is_as_long and could_be_batch and axes != as_batch:
            raise _unclear_axes_error(name, shape, [as_batch, axes], source)
    return axes_by_name


def _guess_axes(name: str, shape: Sequence[int], sizes: Sizes, source: str) -> Axes:
    """Return the guessed layout of an array; refuse an array without one, and one that only another
    usual order lets agree with the known sizes.

    Where no order agrees with them, a later error says which matrix is wrong, unless heads are
    joined.
    """
    part = PARTS_BY_GIVEN_NAME[name]
    orders = possible_axes(part, len(shape))
    refuse_other_sides(name, shape, part.sides, orders, source)
    conflicts = {axes: _conflicting_sides(sizes, _side_sizes(name, axes, shape)) for axes in orders}
    fitting_orders = [axes for axes in orders if not conflicts[axes]]
    for axes in guessed_layouts(part):
        joins_other_heads = part.learned and {HEAD, GROUP} & {*conflicts.get(axes, ())}
        is_refused_later = not fitting_orders and not joins_other_heads
        if len(axes) == len(shape) and (axes in fitting_orders or is_refused_later):
            return axes
    raise _unclear_axes_error(name, shape, fitting_orders or orders, source)


def _side_sizes(name: str, axes: Axes, shape: Sequence[int]) -> dict[str, int]:
    """Return the length of each dimension of an array, whose names are `axes`, with two exceptions.

    Heads of keys and values count as "group". An array that could have a dimension for heads, and
    has none, has 1 head; broadcast dimensions of length 1 are left out.
    """
    part, sizes = PARTS_BY_GIVEN_NAME[name], dict(zip(axes, shape, strict=True))
    if part.spreads:
        return {
            side: size for side, size in sizes.items() if size > 1 or side not in BROADCAST_SIDES
        }
    if HEAD in part.axes:
        sizes.setdefault(HEAD, 1)
    if part.grouped and HEAD in sizes:
        sizes[GROUP] = sizes.pop(HEAD)
    return sizes


def _conflicting_sides(known_sizes: Sizes, sizes: Sizes) -> list[str]:
    """Return the dimensions whose sizes differ from the known sizes, joined widths that are not
    heads times the width of a head, and the dimension of heads that key-value heads cannot share
    evenly.
    """
    conflicts = [side for side, size in sizes.items() if known_sizes.get(side, size) != size]
    merged = {**known_sizes, **sizes}
    conflicts += [
        joined
        for joined, (heads, width) in HEAD_SIDES_BY_WIDTH.items()
        if {joined, width, heads} <= merged.keys()
        and merged[heads] * merged[width] != merged[joined]
    ]
    if merged.get(HEAD, 0) % merged.get(GROUP, 1):  # each key-value head serves equally many heads
        conflicts.append(HEAD if HEAD in sizes else GROUP)
    return conflicts


def _unclear_axes_error(
    name: str, shape: Sequence[int], orders: Iterable[Axes], source: str
) -> AttnvizError:
    """Return an error that asks for `axes`, with the `orders` that fit the array."""
    examples = " or ".join("[" + ", ".join(f'"{side}"' for side in axes) + "]" for axes in orders)
    npz_hint = ", each as an array of words" if source.endswith(".npz") else ""
    return array_error(
        name,
        f"is {shape_text(shape)}, but what its dimensions count is not clear",
        f"name them{npz_hint}: {AXES_KEY}.{name} = {examples}; '{AXES_KEY}' alone is for "
        "every matrix that has such dimensions",
        source,
    )


@dataclass(frozen=True, eq=False)
class AlignedArrays:
    """The given arrays of one item of a batch, with their dimensions in the usual order."""

    arrays: dict[str, Numbers]
    items: int  # in the batch
    heads: int | None  # where matrices were given per head
    kv_heads: int | None  # where matrices of keys or values were given per head


def align_arrays(
    arrays: Arrays,
    axes: Mapping[str, Axes],
    counts: Sizes,
    *,
    item: int | None,
    heads: int | None,
    source: str,
) -> AlignedArrays:
    """Return the arrays of one item of a batch with their dimensions in the usual order.

    `axes` are the dimensions that the file names, `counts` the known lengths by dimension, `item`
    counts from 1. Joins matrices that are given per head. Refuses arrays whose dimensions only the
    file can name, arrays with an impossible number of dimensions, batches of different sizes, and
    an item that is not there.
    """
    shapes = {name: array.shape for name, array in arrays.items()}
    named_axes = resolve_named_axes(shapes, axes, source)
    known_sizes = dict(counts) if heads is None else {**counts, HEAD: heads}
    axes_by_name = _axes_of_arrays(arrays, named_axes, known_sizes, item=item, source=source)
    sizes = dict(counts)
    for name, shape in shapes.items():  # where arrays disagree, the first decides
        sizes = {**_side_sizes(name, axes_by_name[name], shape), **sizes}
    arranged = {
        name: _arrange_array(arrays[name], axes_by_name[name], name, sizes) for name in arrays
    }
    batched = {name: array for name, array in arranged.items() if ITEM in axes_by_name[name]}
    items = _count_batch_items(batched, source)
    _refuse_missing_item(item, items, batched, source)
    selected_arrays = {
        name: array[min(item or 1, len(array)) - 1] for name, array in batched.items()
    }
    return AlignedArrays(arranged | selected_arrays, items, *_head_counts(axes_by_name, sizes))


def _head_counts(axes_by_name: AxesByName, sizes: Sizes) -> tuple[int | None, int | None]:
    """Return the number of heads and of key-value heads, each None where it is not known: the first
    is known if a matrix like w_query, the second if one like w_key is given per head.
    """
    per_head_parts = [
        PARTS_BY_GIVEN_NAME[name] for name, axes in axes_by_name.items() if HEAD in axes
    ]
    are_grouped = [part.grouped for part in per_head_parts if HEAD not in part.axes]
    heads = None if all(are_grouped) else sizes.get(HEAD)
    return heads, sizes.get(GROUP) if any(are_grouped) else None


def _arrange_array(array: Numbers, axes: Axes, name: str, sizes: Sizes) -> Numbers:
    """Return the array with its dimensions in the usual order: items, heads, and the others.

    Matrices per head are joined side by side, missing dimensions have length 1, and a mask of one
    row is repeated for every query.
    """
    spreads, own_sides = PARTS_BY_GIVEN_NAME[name].spreads, PARTS_BY_GIVEN_NAME[name].axes
    leading_sides = (ITEM, HEAD) if spreads and HEAD not in own_sides else (ITEM,)
    target = [side for side in leading_sides if side in axes]
    joins_heads = HEAD in axes and HEAD not in own_sides
    for side in own_sides:
        width = HEAD_WIDTH_BY_WIDTH.get(side) if joins_heads else None
        target.append(side if side in axes else f"(head {width})" if width else "1")
    arranged: Numbers = rearrange(array, f"{' '.join(axes)} -> {' '.join(target)}")
    if spreads and arranged.shape[-2] == 1:
        arranged = np.repeat(arranged, sizes.get("token", 1), axis=-2)
    return arranged


def _refuse_missing_item(item: int | None, items: int, batched: Arrays, source: str) -> None:
    """Refuse an item (from 1) that the batch does not have, or any item if there is no batch."""
    if item is not None and not batched:
        raise AttnvizError(
            f"{opt.item:{item}} is given, but there is no batch{in_file(source)}",
            f"leave {opt.item} out",
            about="item",
            file=source,
        )
    if not 1 <= (item or 1) <= items:
        raise AttnvizError(
            f"there is no item {item}{in_file(source)}: it holds a batch of {items}",
            f"give {opt.item:1} to {items}",
            about="item",
            file=source,
        )


def _count_batch_items(batched: Arrays, source: str) -> int:
    """Return the number of items in the batch, 1 without any; refuses batches of unequal size."""
    counts = {
        name: len(array)
        for name, array in batched.items()
        if len(array) > 1 or not PARTS_BY_GIVEN_NAME[name].spreads
    }
    first_name, items = next(iter(counts.items()), ("", 1))
    for name, count in counts.items():
        if count != items:
            problem = f"is a batch of {count}, but '{first_name}' is one of {items}"
            raise array_error(name, problem, "give both the same number of items", source)
    return items
