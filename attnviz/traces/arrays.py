"""Numbers that somebody gives as full, finite arrays; or what is wrong with them, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from attnviz.errors import AttnvizError
from attnviz.traces.fitting import in_file
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.traces.parts import Part

Array = Shaped[np.ndarray, "..."]
Numbers = Float64[np.ndarray, "..."]

DEEPEST = 8  # lists in lists: no matrix has more sides
FLOATS = (int, float, bool, np.number, np.bool_)


def array(name: str, value: Any, part: Part, source: str) -> Numbers:
    """What is given under a name, as numbers that a float can hold."""
    found = _of_lists(name, value, source) if isinstance(value, list) else np.asarray(value)
    if found.dtype.kind not in "fiub" or found.size == 0 or found.ndim == 0:
        raise _no_numbers(name, source)
    if found.dtype.kind == "b" and not part.binary:
        problem = f"'{name}'{in_file(source)} has true or false where numbers are needed"
        raise _refused(name, problem, "give rows of numbers: [[1, 2], …]", source)
    with np.errstate(over="ignore"):  # a long double may be too large: infinite, and so refused
        numbers = np.ascontiguousarray(found, dtype=np.float64)
    hides = np.isneginf(numbers) & part.hides
    _refuse_odd(name, numbers, ~np.isfinite(numbers) & ~hides, source)
    if part.binary:
        _refuse_other_than_0_and_1(name, numbers, source)
    return numbers


def place_told(place: tuple[int, ...]) -> str:
    """Counted from 1.

    >>> place_told((0, 2)), place_told((1, 0, 2))
    ('row 1, column 3', 'row 1, column 3 of part 2')
    """
    from_1 = [index + 1 for index in place]
    if len(from_1) == 1:
        return f"place {from_1[0]}"
    row = f"row {from_1[-2]}, column {from_1[-1]}"
    return row if len(from_1) == 2 else f"{row} of part {'.'.join(map(str, from_1[:-2]))}"


def _of_lists(name: str, value: list[Any], source: str) -> Array:
    """Lists in lists, each as long and as deep as the others beside it."""
    shape: list[int] = []
    level: list[Any] = [value]
    while any(isinstance(each, list) for each in level):
        _refuse_uneven(name, level, shape, source)
        shape.append(len(level[0]))
        level = [each for row in level for each in row]
        if len(shape) > DEEPEST:
            problem = f"'{name}'{in_file(source)} is nested more than {DEEPEST} deep"
            raise _refused(name, problem, "give rows of numbers: [[1, 2], …]", source)
    return _numbers(name, level, tuple(shape), source)


def _numbers(name: str, level: list[Any], shape: tuple[int, ...], source: str) -> Array:
    """Numbers one after another in their shape; true and false stay what they are."""
    kinds = {type(each) for each in level}
    if not all(issubclass(kind, FLOATS) for kind in kinds):
        raise _no_numbers(name, source)
    if kinds <= {bool, np.bool_}:
        return np.asarray(level, dtype=bool).reshape(shape)
    if bool in kinds:
        problem = f"'{name}'{in_file(source)} mixes numbers with true and false"
        raise _refused(name, problem, "use only one of the two", source)
    try:
        return np.asarray(level, dtype=np.float64).reshape(shape)
    except OverflowError:
        large = next(place for place, each in enumerate(level) if not _is_float(each))
        told = place_told(tuple(map(int, np.unravel_index(large, shape))))
        problem = f"'{name}'{in_file(source)} has a number at {told} that no float can hold"
        raise _refused(name, problem, "the largest is 1.8e308", source) from None


def _is_float(number: Any) -> bool:
    try:
        return bool(np.isfinite(float(number)))
    except OverflowError:
        return False


def _refuse_uneven(name: str, level: list[Any], shape: list[int], source: str) -> None:
    """Lists beside each other are all lists, and as long as each other."""
    lengths = [len(each) if isinstance(each, list) else None for each in level]
    odd = next((place for place, each in enumerate(lengths) if each != lengths[0]), None)
    if odd is None:
        return
    place = tuple(int(each) for each in np.unravel_index(odd, tuple(shape)))
    first, here = lengths[0], lengths[odd]
    if first is None or here is None:
        told = f"{_kind(here)} at {place_told(place)}, and {_kind(first)} before it"
        problem = f"'{name}'{in_file(source)} has {told}"
    else:
        inside = next(each for row in level for each in row)
        noun = "row" if isinstance(inside, list) else "number"
        of = f"part {'.'.join(str(each + 1) for each in place[:-1])} of " if place[1:] else ""
        where = f"row {place[-1] + 1} of {of}'{name}'{in_file(source)}"
        problem = f"{where} has {counted(here, noun)}, but row 1 has {first}"
    raise _refused(name, problem, "give every row the same length", source)


def _kind(length: int | None) -> str:
    return "a number" if length is None else "a list"


def _refuse_odd(name: str, numbers: Numbers, odd: Array, source: str) -> None:
    found = np.argwhere(odd)
    if found.size:
        place = tuple(found[0].tolist())
        told = "NaN" if np.isnan(numbers[place]) else "infinity"
        problem = f"'{name}'{in_file(source)} has {told} at {place_told(place)}"
        hint = "make every number finite; only 'mask' may have -inf, which hides"
        raise _refused(name, problem, hint, source)


def _refuse_other_than_0_and_1(name: str, numbers: Numbers, source: str) -> None:
    found = np.argwhere((numbers != 0) & (numbers != 1))
    if found.size:
        place = tuple(found[0].tolist())
        told = f"{numbers[place]:g} at {place_told(place)}"
        problem = f"'{name}'{in_file(source)} has {told}, but it must say yes or no"
        raise _refused(name, problem, "give 1 or 0, or true or false", source)


def _no_numbers(name: str, source: str) -> AttnvizError:
    problem = f"'{name}'{in_file(source)} is not a matrix of numbers"
    return _refused(name, problem, "give rows of numbers: [[1, 2], …]", source)


def _refused(name: str, problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=name, file=source)
