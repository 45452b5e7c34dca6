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

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.arrays import Numbers
from attnviz.traces.fitting import HEADS_OF, SHARED_OUT, in_file, refuse_other_sides
from attnviz.traces.parts import GIVEN, Part
from attnviz.wording.words import counted, listed, shape_text

if TYPE_CHECKING:
    from attnviz.traces.parts import Part


ITEM, HEAD, GROUP = "item", "head", "group"
LEADING = (ITEM, HEAD)
SPREAD = (ITEM, HEAD, "token")  # a mask with a side of 1 here is the same for all
NAME = "axes"
MEANT = {  # what a word may stand for, the first of which is a side of the array
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
OWN = [side for part in GIVEN.values() for side in part.axes]
KNOWN = tuple(dict.fromkeys([ITEM, *OWN, *MEANT]))


def separated(contents: Mapping[str, Any], source: str) -> tuple[dict[str, Any], dict[str, Axes]]:
    """The contents without axes, and the axes by name; `""` is for all that they fit."""
    found = {name: each for name, each in contents.items() if name != NAME}
    axes = contents.get(NAME, {})
    named = dict(axes) if isinstance(axes, Mapping) else {"": axes}
    for name in [name for name in found if name.startswith(f"{NAME}.")]:
        named[name.removeprefix(f"{NAME}.")] = found.pop(name)
    return found, {name: _words(name, each, source) for name, each in named.items()}


def said(
    shapes: Mapping[str, Sequence[int]], axes: Mapping[str, Axes], source: str
) -> dict[str, Axes]:
    """The sides of each array that they are named of."""
    found: dict[str, Axes] = {}
    for_all = axes.get("", ())
    for name, shape in shapes.items() if for_all else ():
        sides = _sides(GIVEN[name], for_all)
        if len(sides) == len(shape) and _complete(GIVEN[name], sides):
            found[name] = sides
    if for_all and not found:
        problem = (
            f"'{NAME}'{in_file(source)} names {listed(for_all)}, but nothing given has these "
            "dimensions"
        )
        raise _refused(problem, f"name the dimensions of one matrix: {NAME}.queries = […]", source)
    own = {name: words for name, words in axes.items() if name}
    return found | {name: _of_one(name, words, shapes, source) for name, words in own.items()}


def _of_one(name: str, words: Axes, shapes: Mapping[str, Sequence[int]], source: str) -> Axes:
    """The sides that are named of one array, if they are its own."""
    called = f"'{NAME}.{name}'{in_file(source)}"
    if name not in shapes:
        error = unknown("matrix", name, shapes)
        raise _refused(
            f"{called} names the dimensions of something that is not given", error.hint, source
        )
    part, shape = GIVEN[name], shapes[name]
    sides = _sides(part, words)
    if not _complete(part, sides):
        hint = f"the dimensions of '{name}' are {listed(part.axes)}; a batch also has {ITEM}"
        raise _refused(f"{called} names {listed(words)}", hint, source)
    if len(sides) != len(shape):
        problem = (
            f"{called} names {counted(len(sides), 'dimension')}, but '{name}' has {len(shape)}"
        )
        raise _refused(problem, "name every dimension once", source)
    return sides


def _sides(part: Part, words: Axes) -> Axes:
    """The words as sides of this part; a word that is none of them stays as it is."""
    own = [*part.axes]
    if HEAD in words and HEAD not in own:
        own = [SHARED_OUT.get(side, side) for side in own]
    return tuple(
        word
        if word in own
        else next((side for side in MEANT.get(word, ()) if side in own or side == ITEM), word)
        for word in words
    )


def _complete(part: Part, sides: Axes) -> bool:
    """Whether sides are all that the part has, each once, and no other."""
    own = set(part.axes)
    if HEAD in sides and HEAD not in own and own & SHARED_OUT.keys():
        own = {SHARED_OUT.get(side, side) for side in own} | {HEAD}
    left_out = {ITEM, *SPREAD} if part.spreads else {ITEM, HEAD}
    may = own | ({ITEM, HEAD} if part.spreads else {ITEM})
    return len(set(sides)) == len(sides) and own - left_out <= set(sides) <= may


def _words(name: str, value: Any, source: str) -> Axes:
    """A list of words; one text of them, as in what safetensors says beside its numbers."""
    words = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(words, str):
        words = _split(words)
    if (
        not isinstance(words, (list, tuple))
        or not words
        or not all(isinstance(each, str) for each in words)
    ):
        called = f"{NAME}.{name}" if name else NAME
        raise _refused(
            f"'{called}'{in_file(source)} is not a list of words",
            'name every dimension: ["item", "head", "token", "width"]',
            source,
        )
    for each in words:
        if each not in KNOWN:
            error = unknown("side", each, KNOWN)
            raise _refused(f"{error} of a matrix{in_file(source)}", error.hint, source)
    return tuple(words)


def _split(text: str) -> Any:
    """`["item", "token"]`, or `item token`, or `item, token`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.replace(",", " ").split()


def _refused(problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=NAME, file=source)


Axes = tuple[str, ...]  # what the sides count: ("item", "token", "dim")
Sizes = Mapping[str, int]  # how long they are
Readings = dict[str, Axes]  # of each array, by its name

MOST_TOLD = 3  # readings in one message


@dataclass(frozen=True)
class Sided:
    """An array by its name and shape, with every reading of it that is possible."""

    name: str
    part: Part
    shape: tuple[int, ...]
    readings: tuple[Axes, ...]

    def sizes(self, axes: Axes) -> dict[str, int]:
        """What a reading says of the sizes of all; without a side for heads there is one."""
        found = dict(zip(axes, self.shape, strict=True))
        if self.part.spreads:
            return {side: size for side, size in found.items() if size > 1 or side not in SPREAD}
        if HEAD in self.part.axes:
            found.setdefault(HEAD, 1)
        if self.part.grouped and HEAD in found:
            found[GROUP] = found.pop(HEAD)
        return found

    def allowed(self, axes: Axes, leading: frozenset[str]) -> bool:
        """Whether a reading has a side for items, or for heads, only where there may be one."""
        free = (1,) if self.part.spreads else ()
        sides = zip(axes, self.shape, strict=True)
        return all(size in free or side not in LEADING or side in leading for side, size in sides)

    def essence(self, axes: Axes) -> Axes:
        """A reading without sides of 1 that change nothing."""
        empty = SPREAD if self.part.spreads else LEADING
        sides = zip(axes, self.shape, strict=True)
        return tuple(side for side, size in sides if size > 1 or side not in empty)


def possible(part: Part, ndim: int) -> tuple[Axes, ...]:
    """Every order of sides that is usual for an array of so many, the most usual first."""
    sides = part.axes
    core = tuple(side for side in sides if side != HEAD)
    found = [core]
    if core != sides or part.spreads:
        found.append((HEAD, *core))
    found += _by_head(core)
    if not part.learned:  # what is learned is the same for every item
        found += [(ITEM, *axes) for axes in found]
        if core != sides and "key" not in core[1:]:
            found.append((ITEM, core[0], HEAD, *core[1:]))  # as Keras has it
    if part.spreads:
        found += [core[1:], (ITEM, *core[1:])]
    return tuple(axes for axes in dict.fromkeys(found) if len(axes) == ndim)


def _by_head(core: Axes) -> Iterator[Axes]:
    """A matrix for each head, in place of one that makes all of them side by side."""
    for place, side in enumerate(core):
        if side in SHARED_OUT:
            own = (*core[:place], SHARED_OUT[side], *core[place + 1 :])
            yield (HEAD, *own)
            if place:
                yield (*own[:place], HEAD, *own[place:])


def read(
    arrays: Sequence[Sided],
    counts: Sizes,
    *,
    heads: int | None = None,
    item: int | None = None,
    source: str = "",
) -> Readings | None:
    """The one reading of all arrays that fits; None where none does.

    `counts` are sizes that are known, `heads` how many there are if somebody said it, and an
    `item` that is asked for is one of a batch.
    """
    known = dict(counts) if heads is None else {**counts, HEAD: heads}
    found = _simplest(arrays, known, item=item is not None, heads=(heads or 1) > 1)
    if not found and heads is not None:  # what does not fit is said where heads are planned,
        return read(arrays, counts, item=item, source=source)
    if not found and item is not None:  # and where one of a batch is taken
        return read(arrays, counts, source=source)
    if len(found) > 1:
        raise _ambiguous(arrays, found, source)
    return found[0] if found else None


def nearest(arrays: Sequence[Sided], counts: Sizes) -> Readings:
    """A reading of arrays that do not fit, so that it can be said which does not."""
    known, found = dict(counts), {}
    for each in arrays:
        clashes = [len(_clashes(known, each.sizes(axes))) for axes in each.readings]
        axes = each.readings[clashes.index(min(clashes))]
        found[each.name] = axes
        known = {**each.sizes(axes), **known}
    return found


def _simplest(arrays: Sequence[Sided], known: Sizes, *, item: bool, heads: bool) -> list[Readings]:
    """The readings with the fewest kinds of sides before the usual ones, each once."""
    said = frozenset({HEAD}) if heads else frozenset()
    ranks = [[said], [said | {ITEM}, said | {HEAD}], [frozenset(LEADING)]]
    for rank in ranks:
        every = chain.from_iterable(_fitting(_kept(arrays, leading), known) for leading in rank)
        found: dict[tuple[Axes, ...], Readings] = {}
        for each in every:
            if not item or any(ITEM in axes for axes in each.values()):
                found.setdefault(tuple(one.essence(each[one.name]) for one in arrays), each)
            if len(found) > MOST_TOLD:
                break
        if found:
            return list(found.values())
    return []


def _kept(arrays: Iterable[Sided], leading: frozenset[str]) -> list[Sided]:
    """The arrays with those of their readings that are allowed; the surest come first."""
    kept = [
        Sided(
            each.name,
            each.part,
            each.shape,
            tuple(axes for axes in each.readings if each.allowed(axes, leading)),
        )
        for each in arrays
    ]
    return sorted(kept, key=lambda each: len(each.readings))


def _fitting(arrays: Sequence[Sided], known: Sizes) -> Iterator[Readings]:
    """Every way to read the arrays so that sides which count the same are equally long."""
    if not arrays:
        yield {}
        return
    first, rest = arrays[0], arrays[1:]
    for axes in first.readings:
        sizes = first.sizes(axes)
        if not _clashes(known, sizes):
            for others in _fitting(rest, {**known, **sizes}):
                yield {first.name: axes, **others}


def _clashes(known: Sizes, sizes: Sizes) -> list[str]:
    """Sides that are longer or shorter than was known; heads side by side included."""
    clashes = [side for side, size in sizes.items() if known.get(side, size) != size]
    both = {**known, **sizes}
    for whole, (heads, width) in HEADS_OF.items():
        if {whole, width, heads} <= both.keys() and both[heads] * both[width] != both[whole]:
            clashes.append(whole)
    if both.get(HEAD, 0) % both.get(GROUP, 1):  # heads share those of keys and values out evenly
        clashes.append(HEAD if HEAD in sizes else GROUP)
    return clashes


def _ambiguous(arrays: Sequence[Sided], found: Sequence[Readings], source: str) -> AttnvizError:
    """Two readings, in words, with how to say which."""
    each = next(one for one in arrays if len(_essences(one, found)) > 1)
    readings = list(_essences(each, found).values())
    told = " or ".join(_told(axes, each.shape) for axes in readings[:MOST_TOLD])
    names = " or ".join(f"axes.{each.name} = {_listed(axes)}" for axes in readings[:MOST_TOLD])
    return AttnvizError(
        f"'{each.name}'{in_file(source)} is {shape_text(each.shape)}, which could be {told}",
        f"say which in the file{_in_arrays(source)}: {names}{_shorter(found, each)}",
        about=each.name,
        file=source,
    )


def _in_arrays(source: str) -> str:
    """How a file of arrays holds words: where nobody would think of it."""
    return ", as an array of words of that name" if source.endswith(".npz") else ""


def _essences(each: Sided, found: Iterable[Readings]) -> dict[Axes, Axes]:
    """The readings of one array that differ."""
    return {each.essence(readings[each.name]): readings[each.name] for readings in found}


def _shorter(found: Sequence[Readings], each: Sided) -> str:
    """What an option would say, where it is enough."""
    items, heads = (
        [all_ for all_ in found if any(side in axes for axes in all_.values())] for side in LEADING
    )
    if len(found) != 2 or len(items) != 1 or len(heads) != 1 or items == heads:
        return ""
    axes = heads[0][each.name]
    return f"; or give --item 1, or --heads {each.shape[axes.index(HEAD)]}" if HEAD in axes else ""


def _told(axes: Axes, shape: Sequence[int]) -> str:
    """
    >>> _told(("item", "token", "width"), (2, 1, 8))
    '2 items × 1 token × width 8'
    """
    words = [
        counted(size, side) if side in (*LEADING, "token", "key") else f"width {size}"
        for side, size in zip(axes, shape, strict=True)
    ]
    return " × ".join(words)


def _listed(axes: Axes) -> str:
    """
    >>> _listed(("item", "token"))
    '["item", "token"]'
    """
    return "[" + ", ".join(f'"{side}"' for side in axes) + "]"


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
