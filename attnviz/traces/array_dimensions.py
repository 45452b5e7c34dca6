"""Finds out what each axis of given arrays counts, and puts the axes in the usual order.

A "side" is a dimension of an array, named by what it counts: "item" (of a batch), "head",
"token", "width", … A "reading" of an array is one guess of its sides, in order. A file may name
them: `axes = […]` for every array that it fits, `axes.queries = […]` for one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME, Part
from attnviz.wording.words import and_list, counted, shape_text

Axes = tuple[str, ...]  # what the sides count: ("item", "token", "dim")
Sizes = Mapping[str, int]  # length by side
AxesByName = dict[str, Axes]  # by the name of the array
Arrays = Mapping[str, Numbers]

ITEM, HEAD, GROUP = "item", "head", "group"
LEADING_SIDES = (ITEM, HEAD)
BROADCAST_SIDES = (ITEM, HEAD, "token")  # a mask with a side of 1 here is the same for all
AXES_KEY = "axes"
MAX_READINGS_IN_MESSAGE = 3
SIDE_ALIASES = {  # sides that a word may stand for: the first that the array has
    "batch": (ITEM,),
    "query": ("token",),
    "token": ("token", "key"),
    "width": (
        "width",
        "head_value",
        "query_width",
        "key_width",
        "value_width",
        "joined_width",
        "dim",
        "context",
        "hidden",
    ),
    "dim": ("dim", "context", "width", "head_value"),
}
PART_SIDES = [side for part in PARTS_BY_GIVEN_NAME.values() for side in part.axes]
KNOWN_SIDES = tuple(dict.fromkeys([ITEM, *PART_SIDES, *SIDE_ALIASES]))


def split_off_axes(
    contents: Mapping[str, Any], source: str
) -> tuple[dict[str, Any], dict[str, Axes]]:
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


def resolve_named_axes(
    shapes: Mapping[str, Sequence[int]], axes: Mapping[str, Axes], source: str
) -> dict[str, Axes]:
    """Return the names of dimensions ("head", "token") of each array for which the file says them.

    Common axes count for every array that they fit, axes of one array take precedence. Refuses
    common axes that fit no array, and axes of an array that is missing or that they do not fit.
    """
    sides_by_name: dict[str, Axes] = {}
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


def _resolve_array_axes(
    name: str, words: Axes, shapes: Mapping[str, Sequence[int]], source: str
) -> Axes:
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
        next((side for side in (word, *SIDE_ALIASES.get(word, ())) if side in own_sides), word)
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
    for word in words:
        if word not in KNOWN_SIDES:
            error = unknown_name_error("side", word, KNOWN_SIDES)
            raise _axes_error(f"{error} of a matrix{in_file(source)}", error.hint, source)
    return tuple(words)


def _axes_error(problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=AXES_KEY, file=source)


@dataclass(frozen=True)
class UnresolvedArray:
    """The name and shape of an array, with its candidate axes (names for its dimensions)."""

    name: str
    part: Part
    shape: tuple[int, ...]
    candidate_axes: tuple[Axes, ...]

    def side_sizes(self, axes: Axes) -> dict[str, int]:
        """Return the length of each dimension, whose names are `axes`, with two exceptions.

        Heads of keys and values count as "group". An array that could have a dimension for heads,
        and has none, has 1 head; broadcast dimensions of length 1 are left out.
        """
        sizes = dict(zip(axes, self.shape, strict=True))
        if self.part.spreads:
            return {
                side: size
                for side, size in sizes.items()
                if size > 1 or side not in BROADCAST_SIDES
            }
        if HEAD in self.part.axes:
            sizes.setdefault(HEAD, 1)
        if self.part.grouped and HEAD in sizes:
            sizes[GROUP] = sizes.pop(HEAD)
        return sizes

    def is_allowed(self, axes: Axes, leading: frozenset[str]) -> bool:
        """Return whether `axes` has no dimension for items or heads except those in `leading`;
        dimensions of length 1 in masks that are broadcast do not count.
        """
        return all(
            (size == 1 and self.part.spreads) or side not in LEADING_SIDES or side in leading
            for side, size in zip(axes, self.shape, strict=True)
        )

    def essential_axes(self, axes: Axes) -> Axes:
        """Return `axes` without dimensions of length 1 for items and heads; in masks, also for
        queries.
        """
        negligible_sides = BROADCAST_SIDES if self.part.spreads else LEADING_SIDES
        sides = zip(axes, self.shape, strict=True)
        return tuple(side for side, size in sides if size > 1 or side not in negligible_sides)


def possible_axes(part: Part, ndim: int) -> tuple[Axes, ...]:
    """Return the names that `ndim` dimensions of this part can have, in each usual order: alone,
    per head, in a batch; the most usual first, and nothing if it never has so many dimensions.
    """
    sides = tuple(side for side in part.axes if side != HEAD)
    candidates = [sides]
    if sides != part.axes or part.spreads:
        candidates.append((HEAD, *sides))
    candidates += _per_head_axes(sides)
    if not part.learned:  # what is learned is the same for every item
        candidates += [(ITEM, *axes) for axes in candidates]
        if sides != part.axes and "key" not in sides[1:]:
            candidates.append((ITEM, sides[0], HEAD, *sides[1:]))  # as Keras has it
    if part.spreads:
        candidates += [sides[1:], (ITEM, *sides[1:])]
    return tuple(axes for axes in dict.fromkeys(candidates) if len(axes) == ndim)


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


def interpret_axes(
    arrays: Sequence[UnresolvedArray],
    counts: Sizes,
    *,
    heads: int | None = None,
    item: int | None = None,
    source: str = "",
) -> AxesByName | None:
    """Return names for the dimensions of each array such that all arrays fit together, or None.

    The fewest dimensions for items and heads win. `counts` are the known lengths by dimension,
    `heads` is the number of heads if the user gave it; with an `item`, some array must have a
    dimension for items. If nothing fits `heads`, it is ignored, then `item`. Refuses arrays that
    fit in more than one order.
    """
    known_sizes = dict(counts) if heads is None else {**counts, HEAD: heads}
    readings = _simplest_readings(
        arrays, known_sizes, needs_item=item is not None, has_heads=(heads or 1) > 1
    )
    # build_plan reports heads that do not fit, align_arrays an item.
    if not readings and heads is not None:
        return interpret_axes(arrays, counts, item=item, source=source)
    if not readings and item is not None:
        return interpret_axes(arrays, counts, source=source)
    if len(readings) > 1:
        raise _ambiguous_axes_error(arrays, readings, source)
    return readings[0] if readings else None


def closest_axes(arrays: Sequence[UnresolvedArray], counts: Sizes) -> AxesByName:
    """Return the names of dimensions that have the fewest conflicts, for arrays that do not fit
    together, so that a later error can say which array is wrong.
    """
    known_sizes, axes_by_name = dict(counts), {}
    for array in arrays:
        conflict_counts = [
            len(_conflicting_sides(known_sizes, array.side_sizes(axes)))
            for axes in array.candidate_axes
        ]
        axes = array.candidate_axes[conflict_counts.index(min(conflict_counts))]
        axes_by_name[array.name] = axes
        known_sizes = {**array.side_sizes(axes), **known_sizes}
    return axes_by_name


def _simplest_readings(
    arrays: Sequence[UnresolvedArray], known_sizes: Sizes, *, needs_item: bool, has_heads: bool
) -> list[AxesByName]:
    """Return the readings of all arrays with the fewest kinds of leading dimensions.

    A reading holds names for the dimensions of each array, such that all fit together.

    Leading dimensions are those of items and heads. At most MAX_READINGS_IN_MESSAGE + 1 readings.
    `needs_item`: some array must have a dimension for items; `has_heads`: dimensions for heads are
    allowed from the start.
    """
    required_sides = frozenset({HEAD}) if has_heads else frozenset()
    ranks = [
        [required_sides],
        [required_sides | {ITEM}, required_sides | {HEAD}],
        [frozenset(LEADING_SIDES)],
    ]
    for rank in ranks:
        readings = chain.from_iterable(
            _consistent_readings(_with_allowed_axes(arrays, leading), known_sizes)
            for leading in rank
        )
        distinct_readings: dict[tuple[Axes, ...], AxesByName] = {}
        for reading in readings:
            if not needs_item or any(ITEM in axes for axes in reading.values()):
                distinct_readings.setdefault(
                    tuple(array.essential_axes(reading[array.name]) for array in arrays), reading
                )
            if len(distinct_readings) > MAX_READINGS_IN_MESSAGE:
                break
        if distinct_readings:
            return list(distinct_readings.values())
    return []


def _with_allowed_axes(
    arrays: Iterable[UnresolvedArray], leading: frozenset[str]
) -> list[UnresolvedArray]:
    """Return the arrays with only those candidate axes that have no leading dimensions (items,
    heads) except those in `leading`; arrays with the fewest candidates come first.
    """
    allowed_axes = (
        tuple(axes for axes in array.candidate_axes if array.is_allowed(axes, leading))
        for array in arrays
    )
    candidates = [
        replace(array, candidate_axes=axes)
        for array, axes in zip(arrays, allowed_axes, strict=True)
    ]
    return sorted(candidates, key=lambda array: len(array.candidate_axes))


def _consistent_readings(
    arrays: Sequence[UnresolvedArray], known_sizes: Sizes
) -> Iterator[AxesByName]:
    """Yield all names for dimensions, by array, in which dimensions that count the same are equally
    long.
    """
    if not arrays:
        yield {}
        return
    first, *others = arrays
    for axes in first.candidate_axes:
        sizes = first.side_sizes(axes)
        if not _conflicting_sides(known_sizes, sizes):
            for other_axes in _consistent_readings(others, {**known_sizes, **sizes}):
                yield {first.name: axes, **other_axes}


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


def _ambiguous_axes_error(
    arrays: Sequence[UnresolvedArray], readings: Sequence[AxesByName], source: str
) -> AttnvizError:
    """Return an error that lists what the dimensions of the first ambiguous array may be."""
    ambiguous = next(array for array in arrays if len(_distinct_axes(array, readings)) > 1)
    name, shape = ambiguous.name, ambiguous.shape
    candidates = list(_distinct_axes(ambiguous, readings).values())[:MAX_READINGS_IN_MESSAGE]
    shapes = " or ".join(_axes_with_sizes_text(axes, shape) for axes in candidates)
    settings = " or ".join(f"axes.{name} = {_axes_as_toml(axes)}" for axes in candidates)
    npz_hint = ", as an array of words of that name" if source.endswith(".npz") else ""
    option_hint = _item_or_heads_hint(readings, ambiguous)
    problem = f"is {shape_text(shape)}, which could be {shapes}"
    hint = f"say which in the file{npz_hint}: {settings}{option_hint}"
    return array_error(name, problem, hint, source)


def _distinct_axes(array: UnresolvedArray, readings: Iterable[AxesByName]) -> dict[Axes, Axes]:
    """Return the names of one array's dimensions in each reading, one for each essential axes, the
    key.
    """
    return {array.essential_axes(reading[array.name]): reading[array.name] for reading in readings}


def _item_or_heads_hint(readings: Sequence[AxesByName], array: UnresolvedArray) -> str:
    """Return a hint to give --item or --heads if there are two readings, one with a batch and one
    with heads; "" otherwise.
    """
    with_items, with_heads = (
        [reading for reading in readings if any(side in axes for axes in reading.values())]
        for side in LEADING_SIDES
    )
    lengths = (len(readings), len(with_items), len(with_heads))
    if lengths != (2, 1, 1) or with_items == with_heads:
        return ""
    axes = with_heads[0][array.name]
    return (
        f"; or give {opt.item:1}, or {opt.heads:{array.shape[axes.index(HEAD)]}}"
        if HEAD in axes
        else ""
    )


def _axes_with_sizes_text(axes: Axes, shape: Sequence[int]) -> str:
    """Return names and lengths of dimensions in words.

    >>> _axes_with_sizes_text(("item", "token", "width"), (2, 1, 8))
    '2 items × 1 token × width 8'
    """
    words = [
        counted(size, side) if side in (*LEADING_SIDES, "token", "key") else f"width {size}"
        for side, size in zip(axes, shape, strict=True)
    ]
    return " × ".join(words)


def _axes_as_toml(axes: Axes) -> str:
    """Return names of dimensions as a TOML list.

    >>> _axes_as_toml(("item", "token"))
    '["item", "token"]'
    """
    return "[" + ", ".join(f'"{side}"' for side in axes) + "]"


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
    counts from 1. Joins matrices that are given per head. Refuses arrays that fit in more than one
    order, arrays with an impossible number of dimensions, batches of different sizes, and an item
    that is not there.
    """
    unresolved = _unresolved_arrays(arrays, axes, source)
    readings = interpret_axes(
        unresolved, counts, heads=heads, item=item, source=source
    ) or closest_axes(unresolved, counts)
    sizes = {**_sizes_by_side(unresolved, readings), **counts}
    arranged = {name: _arrange_array(arrays[name], readings[name], name, sizes) for name in arrays}
    batched = {name: array for name, array in arranged.items() if ITEM in readings[name]}
    items = _count_batch_items(batched, source)
    _refuse_missing_item(item, items, batched, source)
    selected_arrays = {
        name: array[min(item or 1, len(array)) - 1] for name, array in batched.items()
    }
    return AlignedArrays(arranged | selected_arrays, items, *_head_counts(readings, sizes))


def _unresolved_arrays(
    arrays: Arrays, axes: Mapping[str, Axes], source: str
) -> list[UnresolvedArray]:
    """Return each array with the dimensions that the file names, or with every usual order.

    Refuses an array with an impossible number of dimensions.
    """
    shapes = {name: array.shape for name, array in arrays.items()}
    named_axes = resolve_named_axes(shapes, axes, source)
    unresolved = []
    for name, shape in shapes.items():
        part = PARTS_BY_GIVEN_NAME[name]
        candidates = (named_axes[name],) if name in named_axes else possible_axes(part, len(shape))
        refuse_other_sides(name, shape, part.sides, candidates, source)
        unresolved.append(UnresolvedArray(name, part, shape, candidates))
    return unresolved


def _sizes_by_side(arrays: Sequence[UnresolvedArray], readings: AxesByName) -> dict[str, int]:
    """Return the length of every dimension; where arrays disagree, the first array decides."""
    sizes: dict[str, int] = {}
    for array in arrays:
        sizes = {**array.side_sizes(readings[array.name]), **sizes}
    return sizes


def _head_counts(readings: AxesByName, sizes: Sizes) -> tuple[int | None, int | None]:
    """Return the number of heads and of key-value heads, each None where it is not known: the first
    is known if a matrix like w_query, the second if one like w_key is given per head.
    """
    per_head_parts = [PARTS_BY_GIVEN_NAME[name] for name, axes in readings.items() if HEAD in axes]
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
