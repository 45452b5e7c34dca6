"""What each side of an array that is given counts: as it is said, or as only one reading fits.

`2 × 4 × 8` may be two sentences of a batch, or two heads. All arrays are read together: sides
that count the same are equally long. A reading that needs batch and heads is looked for where
none does with one of them. Where two are left, nobody guesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError
from attnviz.traces.fitting import HEADS_OF, SHARED_OUT, in_file
from attnviz.wording.words import counted, shape_text

if TYPE_CHECKING:
    from attnviz.traces.part import Part

Axes = tuple[str, ...]  # what the sides count: ("item", "token", "dim")
Sizes = Mapping[str, int]  # how long they are
Readings = dict[str, Axes]  # of each array, by its name

ITEM, HEAD, GROUP = "item", "head", "group"
LEADING = (ITEM, HEAD)
SPREAD = (ITEM, HEAD, "token")  # a mask with a side of 1 here is the same for all
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
