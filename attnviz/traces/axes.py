"""The dimensions of arrays in a file: as named, as they can be read, and in the usual order.

One list is for every array that it fits; `axes.queries = […]` is for one. Words that people have
for a side are understood: the tokens of keys are keys, and what is wide has a width.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from einops import rearrange

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.traces.given_arrays import Numbers
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME, Part
from attnviz.traces.shape_checks import (
    HEAD_SIDES_BY_WIDTH,
    HEAD_WIDTH_BY_WIDTH,
    in_file,
    refuse_other_sides,
)
from attnviz.wording.words import and_list, counted, shape_text

if TYPE_CHECKING:
    from attnviz.traces.parts import Part


ITEM, HEAD, GROUP = "item", "head", "group"
LEADING_SIDES = (ITEM, HEAD)
BROADCAST_SIDES = (ITEM, HEAD, "token")  # a mask with a side of 1 here is the same for all
AXES_KEY = "axes"
SIDE_ALIASES = {  # what a word may stand for, the first of which is a side of the array
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
    """The contents without axes, and the axes by name; `""` is for all that they fit."""
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
    """The sides of each array that they are named of."""
    sides_by_name: dict[str, Axes] = {}
    common_axes = axes.get("", ())
    for name, shape in shapes.items() if common_axes else ():
        sides = _words_as_sides(PARTS_BY_GIVEN_NAME[name], common_axes)
        if len(sides) == len(shape) and _are_complete_sides(PARTS_BY_GIVEN_NAME[name], sides):
            sides_by_name[name] = sides
    if common_axes and not sides_by_name:
        problem = (
            f"'{AXES_KEY}'{in_file(source)} names {and_list(common_axes)}, but nothing given has these "
            "dimensions"
        )
        raise _axes_error(
            problem, f"name the dimensions of one matrix: {AXES_KEY}.queries = […]", source
        )
    own_axes = {name: words for name, words in axes.items() if name}
    return sides_by_name | {
        name: _resolve_array_axes(name, words, shapes, source) for name, words in own_axes.items()
    }


def _resolve_array_axes(
    name: str, words: Axes, shapes: Mapping[str, Sequence[int]], source: str
) -> Axes:
    """The sides that are named of one array, if they are its own."""
    key = f"'{AXES_KEY}.{name}'{in_file(source)}"
    if name not in shapes:
        error = unknown_name_error("matrix", name, shapes)
        raise _axes_error(
            f"{key} names the dimensions of something that is not given", error.hint, source
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
    """The words as sides of this part; a word that is none of them stays as it is."""
    own_sides = [*part.axes]
    if HEAD in words and HEAD not in own_sides:
        own_sides = [HEAD_WIDTH_BY_WIDTH.get(side, side) for side in own_sides]
    return tuple(
        word
        if word in own_sides
        else next(
            (side for side in SIDE_ALIASES.get(word, ()) if side in own_sides or side == ITEM), word
        )
        for word in words
    )


def _are_complete_sides(part: Part, sides: Axes) -> bool:
    """Whether sides are all that the part has, each once, and no other."""
    own_sides = set(part.axes)
    if HEAD in sides and HEAD not in own_sides and own_sides & HEAD_WIDTH_BY_WIDTH.keys():
        own_sides = {HEAD_WIDTH_BY_WIDTH.get(side, side) for side in own_sides} | {HEAD}
    optional_sides = {ITEM, *BROADCAST_SIDES} if part.spreads else {ITEM, HEAD}
    allowed_sides = own_sides | ({ITEM, HEAD} if part.spreads else {ITEM})
    return (
        len(set(sides)) == len(sides) and own_sides - optional_sides <= set(sides) <= allowed_sides
    )


def _parse_axis_words(name: str, value: Any, source: str) -> Axes:
    """A list of words; one text of them, as in what safetensors says beside its numbers."""
    words = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(words, str):
        words = _split_axis_text(words)
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


def _split_axis_text(text: str) -> Any:
    """`["item", "token"]`, or `item token`, or `item, token`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.replace(",", " ").split()


def _axes_error(problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=AXES_KEY, file=source)


Axes = tuple[str, ...]  # what the sides count: ("item", "token", "dim")
Sizes = Mapping[str, int]  # how long they are
AxesByName = dict[str, Axes]  # of each array, by its name

MAX_READINGS_IN_MESSAGE = 3  # readings in one message


@dataclass(frozen=True)
class UnresolvedArray:
    """An array by its name and shape, with every reading of it that is possible."""

    name: str
    part: Part
    shape: tuple[int, ...]
    candidate_axes: tuple[Axes, ...]

    def side_sizes(self, axes: Axes) -> dict[str, int]:
        """What a reading says of the sizes of all; without a side for heads there is one."""
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
        """Whether a reading has a side for items, or for heads, only where there may be one."""
        broadcast_sizes = (1,) if self.part.spreads else ()
        sides = zip(axes, self.shape, strict=True)
        return all(
            size in broadcast_sizes or side not in LEADING_SIDES or side in leading
            for side, size in sides
        )

    def essential_axes(self, axes: Axes) -> Axes:
        """A reading without sides of 1 that change nothing."""
        negligible_sides = BROADCAST_SIDES if self.part.spreads else LEADING_SIDES
        sides = zip(axes, self.shape, strict=True)
        return tuple(side for side, size in sides if size > 1 or side not in negligible_sides)


def possible_axes(part: Part, ndim: int) -> tuple[Axes, ...]:
    """Every order of sides that is usual for an array of so many, the most usual first."""
    sides = part.axes
    sides_without_head = tuple(side for side in sides if side != HEAD)
    candidates = [sides_without_head]
    if sides_without_head != sides or part.spreads:
        candidates.append((HEAD, *sides_without_head))
    candidates += _per_head_axes(sides_without_head)
    if not part.learned:  # what is learned is the same for every item
        candidates += [(ITEM, *axes) for axes in candidates]
        if sides_without_head != sides and "key" not in sides_without_head[1:]:
            candidates.append(
                (ITEM, sides_without_head[0], HEAD, *sides_without_head[1:])
            )  # as Keras has it
    if part.spreads:
        candidates += [sides_without_head[1:], (ITEM, *sides_without_head[1:])]
    return tuple(axes for axes in dict.fromkeys(candidates) if len(axes) == ndim)


def _per_head_axes(sides_without_head: Axes) -> Iterator[Axes]:
    """A matrix for each head, in place of one that makes all of them side by side."""
    for index, side in enumerate(sides_without_head):
        if side in HEAD_WIDTH_BY_WIDTH:
            head_sides = (
                *sides_without_head[:index],
                HEAD_WIDTH_BY_WIDTH[side],
                *sides_without_head[index + 1 :],
            )
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
    """The one reading of all arrays that fits; None where none does.

    `counts` are sizes that are known, `heads` how many there are if somebody said it, and an
    `item` that is asked for is one of a batch.
    """
    known_sizes = dict(counts) if heads is None else {**counts, HEAD: heads}
    readings = _simplest_readings(
        arrays, known_sizes, needs_item=item is not None, has_heads=(heads or 1) > 1
    )
    if not readings and heads is not None:  # what does not fit is said where heads are planned,
        return interpret_axes(arrays, counts, item=item, source=source)
    if not readings and item is not None:  # and where one of a batch is taken
        return interpret_axes(arrays, counts, source=source)
    if len(readings) > 1:
        raise _ambiguous_axes_error(arrays, readings, source)
    return readings[0] if readings else None


def closest_axes(arrays: Sequence[UnresolvedArray], counts: Sizes) -> AxesByName:
    """A reading of arrays that do not fit, so that it can be said which does not."""
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
    """The readings with the fewest kinds of sides before the usual ones, each once."""
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
    """The arrays with those of their readings that are allowed; the surest come first."""
    candidates = [
        UnresolvedArray(
            array.name,
            array.part,
            array.shape,
            tuple(axes for axes in array.candidate_axes if array.is_allowed(axes, leading)),
        )
        for array in arrays
    ]
    return sorted(candidates, key=lambda array: len(array.candidate_axes))


def _consistent_readings(
    arrays: Sequence[UnresolvedArray], known_sizes: Sizes
) -> Iterator[AxesByName]:
    """Every way to read the arrays so that sides which count the same are equally long."""
    if not arrays:
        yield {}
        return
    first_array, other_arrays = arrays[0], arrays[1:]
    for axes in first_array.candidate_axes:
        sizes = first_array.side_sizes(axes)
        if not _conflicting_sides(known_sizes, sizes):
            for other_axes in _consistent_readings(other_arrays, {**known_sizes, **sizes}):
                yield {first_array.name: axes, **other_axes}


def _conflicting_sides(known_sizes: Sizes, sizes: Sizes) -> list[str]:
    """Sides that are longer or shorter than was known; heads side by side included."""
    conflicts = [side for side, size in sizes.items() if known_sizes.get(side, size) != size]
    all_sizes = {**known_sizes, **sizes}
    for joined_side, (heads, width) in HEAD_SIDES_BY_WIDTH.items():
        if {joined_side, width, heads} <= all_sizes.keys() and all_sizes[heads] * all_sizes[
            width
        ] != all_sizes[joined_side]:
            conflicts.append(joined_side)
    if all_sizes.get(HEAD, 0) % all_sizes.get(
        GROUP, 1
    ):  # heads share those of keys and values out evenly
        conflicts.append(HEAD if HEAD in sizes else GROUP)
    return conflicts


def _ambiguous_axes_error(
    arrays: Sequence[UnresolvedArray], readings: Sequence[AxesByName], source: str
) -> AttnvizError:
    """Two readings, in words, with how to say which."""
    ambiguous = next(array for array in arrays if len(_distinct_axes(array, readings)) > 1)
    candidates = list(_distinct_axes(ambiguous, readings).values())
    shapes_text = " or ".join(
        _axes_with_sizes_text(axes, ambiguous.shape)
        for axes in candidates[:MAX_READINGS_IN_MESSAGE]
    )
    settings_text = " or ".join(
        f"axes.{ambiguous.name} = {_axes_as_toml(axes)}"
        for axes in candidates[:MAX_READINGS_IN_MESSAGE]
    )
    return AttnvizError(
        f"'{ambiguous.name}'{in_file(source)} is {shape_text(ambiguous.shape)}, which could be {shapes_text}",
        f"say which in the file{_npz_hint(source)}: {settings_text}{_item_or_heads_hint(readings, ambiguous)}",
        about=ambiguous.name,
        file=source,
    )


def _npz_hint(source: str) -> str:
    """How a file of arrays holds words: where nobody would think of it."""
    return ", as an array of words of that name" if source.endswith(".npz") else ""


def _distinct_axes(array: UnresolvedArray, readings: Iterable[AxesByName]) -> dict[Axes, Axes]:
    """The readings of one array that differ."""
    return {array.essential_axes(reading[array.name]): reading[array.name] for reading in readings}


def _item_or_heads_hint(readings: Sequence[AxesByName], array: UnresolvedArray) -> str:
    """What an option would say, where it is enough."""
    with_items, with_heads = (
        [reading for reading in readings if any(side in axes for axes in reading.values())]
        for side in LEADING_SIDES
    )
    if (
        len(readings) != 2
        or len(with_items) != 1
        or len(with_heads) != 1
        or with_items == with_heads
    ):
        return ""
    axes = with_heads[0][array.name]
    return f"; or give --item 1, or --heads {array.shape[axes.index(HEAD)]}" if HEAD in axes else ""


def _axes_with_sizes_text(axes: Axes, shape: Sequence[int]) -> str:
    """
    >>> _axes_with_sizes_text(("item", "token", "width"), (2, 1, 8))
    '2 items × 1 token × width 8'
    """
    words = [
        counted(size, side) if side in (*LEADING_SIDES, "token", "key") else f"width {size}"
        for side, size in zip(axes, shape, strict=True)
    ]
    return " × ".join(words)


def _axes_as_toml(axes: Axes) -> str:
    """
    >>> _axes_as_toml(("item", "token"))
    '["item", "token"]'
    """
    return "[" + ", ".join(f'"{side}"' for side in axes) + "]"


Arrays = Mapping[str, Numbers]


@dataclass(frozen=True, eq=False)
class AlignedArrays:
    """One item of what was given, and how many there are."""

    arrays: dict[str, Numbers]
    items: int
    heads: int | None  # how many there are, where matrices of each stand side by side
    kv_heads: int | None  # and of those that make keys and values


def align_arrays(
    arrays: Arrays,
    axes: Mapping[str, Axes],
    counts: Sizes,
    *,
    item: int | None,
    heads: int | None,
    source: str,
) -> AlignedArrays:
    """The arrays, once it is known what their sides count; `axes` are those that are named."""
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
    """Each with the sides that are named, or with every order of sides that is usual."""
    shapes = {name: array.shape for name, array in arrays.items()}
    named_axes = resolve_named_axes(shapes, axes, source)
    unresolved = [
        UnresolvedArray(name, PARTS_BY_GIVEN_NAME[name], shape, (named_axes[name],))
        if name in named_axes
        else UnresolvedArray(
            name,
            PARTS_BY_GIVEN_NAME[name],
            shape,
            possible_axes(PARTS_BY_GIVEN_NAME[name], len(shape)),
        )
        for name, shape in shapes.items()
    ]
    for array in unresolved:
        refuse_other_sides(array.name, array.shape, array.part.sides, array.candidate_axes, source)
    return unresolved


def _sizes_by_side(arrays: Sequence[UnresolvedArray], readings: AxesByName) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for array in arrays:
        sizes = {**array.side_sizes(readings[array.name]), **sizes}
    return sizes


def _head_counts(readings: AxesByName, sizes: Sizes) -> tuple[int | None, int | None]:
    """How many there are, where a matrix for each says it that is one of all then."""
    per_head_parts = [PARTS_BY_GIVEN_NAME[name] for name, axes in readings.items() if HEAD in axes]
    are_grouped = [part.grouped for part in per_head_parts if HEAD not in part.axes]
    heads = None if all(are_grouped) else sizes.get(HEAD)
    return heads, sizes.get(GROUP) if any(are_grouped) else None


def _arrange_array(array: Numbers, axes: Axes, name: str, sizes: Sizes) -> Numbers:
    """The array with its sides in the order of the part: items, heads, and the others.

    Matrices of each head stand side by side, and a mask for all queries is written out.
    """
    spreads, own_sides = PARTS_BY_GIVEN_NAME[name].spreads, PARTS_BY_GIVEN_NAME[name].axes
    leading_sides = (ITEM, HEAD) if spreads and HEAD not in own_sides else (ITEM,)
    target = [side for side in leading_sides if side in axes]
    for side in own_sides:
        split_pattern = (
            f"(head {HEAD_WIDTH_BY_WIDTH.get(side)})"
            if HEAD in axes and HEAD not in own_sides
            else "1"
        )
        target.append(
            side if side in axes else split_pattern if side in HEAD_WIDTH_BY_WIDTH else "1"
        )
    arranged: Numbers = rearrange(array, f"{' '.join(axes)} -> {' '.join(target)}")
    tokens = sizes.get("token", 1)
    if spreads and arranged.shape[-2] == 1:
        arranged = np.repeat(arranged, tokens, axis=-2)
    return arranged


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


def _count_batch_items(batched: Arrays, source: str) -> int:
    counts = {
        name: len(array)
        for name, array in batched.items()
        if len(array) > 1 or not PARTS_BY_GIVEN_NAME[name].spreads
    }
    first_name, items = next(iter(counts.items()), ("", 1))
    for name, count in counts.items():
        if count != items:
            raise AttnvizError(
                f"'{name}'{in_file(source)} is a batch of {count}, but '{first_name}' is one of {items}",
                "give both the same number of items",
                about=name,
                file=source,
            )
    return items
