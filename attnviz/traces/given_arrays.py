"""Parses given numbers into full, finite arrays; errors name what is wrong, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from attnviz.errors import AttnvizError
from attnviz.traces.shape_checks import in_file
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.traces.parts import Part

Array = Shaped[np.ndarray, "..."]
Numbers = Float64[np.ndarray, "..."]

MAX_LIST_DEPTH = 8  # no matrix has more sides
NUMBER_TYPES = (int, float, bool, np.number, np.bool_)


def parse_array(name: str, value: Any, part: Part, source: str) -> Numbers:
    """Returns the value that is given under a name as finite float64 numbers."""
    raw = _array_from_lists(name, value, source) if isinstance(value, list) else np.asarray(value)
    if raw.dtype.kind not in "fiub" or raw.size == 0 or raw.ndim == 0:
        raise _not_a_matrix_error(name, source)
    if raw.dtype.kind == "b" and not part.binary:
        problem = f"'{name}'{in_file(source)} has true or false where numbers are needed"
        raise _array_error(name, problem, "give rows of numbers: [[1, 2], …]", source)
    with np.errstate(over="ignore"):  # a too large long double becomes infinite and is refused
        numbers = np.ascontiguousarray(raw, dtype=np.float64)
    is_hiding = np.isneginf(numbers) & part.hides
    _refuse_nonfinite(name, numbers, ~np.isfinite(numbers) & ~is_hiding, source)
    if part.binary:
        _refuse_other_than_0_and_1(name, numbers, source)
    return numbers


def cell_position_text(indices: tuple[int, ...]) -> str:
    """Returns the position of a cell in words, counted from 1.

    >>> cell_position_text((0, 2)), cell_position_text((1, 0, 2))
    ('row 1, column 3', 'row 1, column 3 of part 2')
    """
    from_1 = [index + 1 for index in indices]
    if len(from_1) == 1:
        return f"place {from_1[0]}"
    row = f"row {from_1[-2]}, column {from_1[-1]}"
    return row if len(from_1) == 2 else f"{row} of part {'.'.join(map(str, from_1[:-2]))}"


def _array_from_lists(name: str, value: list[Any], source: str) -> Array:
    """Returns nested lists as an array; all lists of a level must be equally long and deep."""
    shape: list[int] = []
    level: list[Any] = [value]
    while any(isinstance(item, list) for item in level):
        _refuse_ragged_lists(name, level, shape, source)
        shape.append(len(level[0]))
        level = [item for row in level for item in row]
        if len(shape) > MAX_LIST_DEPTH:
            problem = f"'{name}'{in_file(source)} is nested more than {MAX_LIST_DEPTH} deep"
            raise _array_error(name, problem, "give rows of numbers: [[1, 2], …]", source)
    return _numbers_in_shape(name, level, tuple(shape), source)


def _numbers_in_shape(name: str, level: list[Any], shape: tuple[int, ...], source: str) -> Array:
    """Returns the numbers as an array of this shape; true and false stay bool."""
    types = {type(number) for number in level}
    if not all(issubclass(kind, NUMBER_TYPES) for kind in types):
        raise _not_a_matrix_error(name, source)
    if types <= {bool, np.bool_}:
        return np.asarray(level, dtype=bool).reshape(shape)
    if bool in types:
        problem = f"'{name}'{in_file(source)} mixes numbers with true and false"
        raise _array_error(name, problem, "use only one of the two", source)
    try:
        return np.asarray(level, dtype=np.float64).reshape(shape)
    except OverflowError:
        too_large = next(index for index, number in enumerate(level) if not _fits_float(number))
        position = cell_position_text(tuple(map(int, np.unravel_index(too_large, shape))))
        problem = f"'{name}'{in_file(source)} has a number at {position} that no float can hold"
        raise _array_error(name, problem, "the largest is 1.8e308", source) from None


def _fits_float(number: Any) -> bool:
    try:
        return bool(np.isfinite(float(number)))
    except OverflowError:
        return False


def _refuse_ragged_lists(name: str, level: list[Any], shape: list[int], source: str) -> None:
    """Refuse a level of nested lists that mixes lists with numbers, or has unequal lengths."""
    lengths = [len(item) if isinstance(item, list) else None for item in level]
    deviating = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if deviating is None:
        return
    indices = tuple(map(int, np.unravel_index(deviating, tuple(shape))))
    first, odd = lengths[0], lengths[deviating]
    if first is None or odd is None:
        kinds = ("a number", "a list") if odd is None else ("a list", "a number")
        where = cell_position_text(indices)
        problem = f"'{name}'{in_file(source)} has {kinds[0]} at {where}, and {kinds[1]} before it"
    else:
        first_item = next(item for row in level for item in row)
        noun = "row" if isinstance(first_item, list) else "number"
        parts = ".".join(str(index + 1) for index in indices[:-1])
        outer_part = f"part {parts} of " if parts else ""
        odd_row = f"row {indices[-1] + 1} of {outer_part}'{name}'{in_file(source)}"
        problem = f"{odd_row} has {counted(odd, noun)}, but row 1 has {first}"
    raise _array_error(name, problem, "give every row the same length", source)


def _refuse_nonfinite(name: str, numbers: Numbers, is_nonfinite: Array, source: str) -> None:
    positions = np.argwhere(is_nonfinite)
    if positions.size:
        indices = tuple(positions[0].tolist())
        value = "NaN" if np.isnan(numbers[indices]) else "infinity"
        problem = f"'{name}'{in_file(source)} has {value} at {cell_position_text(indices)}"
        hint = "make every number finite; only 'mask' may have -inf, which hides"
        raise _array_error(name, problem, hint, source)


def _refuse_other_than_0_and_1(name: str, numbers: Numbers, source: str) -> None:
    positions = np.argwhere((numbers != 0) & (numbers != 1))
    if positions.size:
        indices = tuple(positions[0].tolist())
        value = f"{numbers[indices]:g} at {cell_position_text(indices)}"
        problem = f"'{name}'{in_file(source)} has {value}, but it must say yes or no"
        raise _array_error(name, problem, "give 1 or 0, or true or false", source)


def _not_a_matrix_error(name: str, source: str) -> AttnvizError:
    problem = f"'{name}'{in_file(source)} is not a matrix of numbers"
    return _array_error(name, problem, "give rows of numbers: [[1, 2], …]", source)


def _array_error(name: str, problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=name, file=source)
