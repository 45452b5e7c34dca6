"""Parses given numbers into full, finite arrays; errors name what is wrong, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from attnviz.errors import AttnvizError
from attnviz.traces.matrix_names import table_by_word
from attnviz.wording.words import counted, shape_text

if TYPE_CHECKING:
    from torch import Tensor

    from attnviz.traces.parts import Part


KnownSizes = Mapping[str, tuple[int, str]]  # length by side, and the tensor that it is known from

JOINED_AND_HEAD_WIDTHS = (  # tensor, side of all heads together, side of one head
    ("queries", "query_width", "width"),
    ("keys", "key_width", "width"),
    ("values", "value_width", "head_value"),
)
HEAD_SIDES_BY_WIDTH = {  # a joined width is the product of these sides
    "query_width": ("head", "width"),
    "key_width": ("group", "width"),
    "value_width": ("group", "head_value"),
    "joined_width": ("head", "head_value"),
}
HEAD_WIDTH_BY_WIDTH = {joined: width for joined, (_, width) in HEAD_SIDES_BY_WIDTH.items()}


def refuse_misfits(
    tensors: Mapping[str, Tensor], sides: Mapping[str, str], counts: KnownSizes, source: str
) -> None:
    """Refuse tensors with a wrong number of dimensions, or that disagree about a length.

    Dimensions are named by what they count. `sides` holds these names by tensor ("head token key"),
    `counts` the lengths that are known beforehand.
    """
    known_sizes = dict(counts)
    for name, tensor in tensors.items():
        own_sides = tensor_sides(sides[name], tensor)
        fitting_sides = own_sides if tensor.ndim == len(own_sides) else []
        refuse_other_sides(name, tensor.shape, sides[name], fitting_sides, source)
        for side, size in zip(own_sides, tensor.shape, strict=True):
            expected_size, first_name = known_sizes.setdefault(side, (size, name))
            if size != expected_size:
                count = _count_with_verb(expected_size, table_by_word("sides")[side])
                reason = f"according to '{first_name}' there {count}"
                raise _wrong_shape_error(name, tensor, sides[name], known_sizes, reason, source)
    _refuse_misfit_head_widths(tensors, sides, known_sizes, source)


def _count_with_verb(count: int, words: str) -> str:
    """Return a count with its verb and a noun that is singular for 1; `words` begin with a plural.

    >>> _count_with_verb(2, "heads of keys and values"), _count_with_verb(1, "answers")
    ('are 2 heads of keys and values', 'is 1 answer')
    """
    noun, *other_words = words.split()
    verb = "is" if count == 1 else "are"
    return " ".join([verb, counted(count, noun.removesuffix("s")), *other_words])


def tensor_sides(sides: str, tensor: Tensor) -> list[str]:
    """Return the names of a tensor's dimensions as a list, without the leading "head" or "group" if
    the tensor has one dimension less.
    """
    names = sides.split()
    return names[1:] if names[0] in ("head", "group") and tensor.ndim == len(names) - 1 else names


def in_file(source: str) -> str:
    """Return " in 'file.toml'" for messages; "" without a file."""
    return f" in '{source}'" if source else ""


def array_error(name: str, problem: str, hint: str, source: str) -> AttnvizError:
    """Return an error of an array, as `'mask' in 'file.toml' is not a matrix of numbers`.

    `problem` is what follows the name and the file.
    """
    return AttnvizError(f"'{name}'{in_file(source)} {problem}", hint, about=name, file=source)


def refuse_other_sides(
    name: str, shape: Sequence[int], sides: str, readings: Sequence[object], source: str
) -> None:
    """Refuse an array for which there are no `readings` (possible orders of dimensions).

    `sides` are the usual ones ("head token key"), for the message.
    """
    if readings:
        return
    starts_with_heads = sides.startswith(("head ", "group "))
    heads_hint = "heads come first, and may be left out; " if starts_with_heads else ""
    problem = f"is {shape_text(shape)}, which is not {_sides_text(sides)}"
    raise array_error(name, problem, f"{heads_hint}a batch comes before them", source)


def _refuse_misfit_head_widths(
    tensors: Mapping[str, Tensor], sides: Mapping[str, str], known_sizes: KnownSizes, source: str
) -> None:
    """Refuse queries, keys or values of heads whose widths do not add up to the joined width that
    another matrix asks for.
    """
    for name, joined_side, head_side in JOINED_AND_HEAD_WIDTHS:
        if name in tensors and joined_side in known_sizes:
            joined_width, maker = known_sizes[joined_side]
            heads, _, head_width = tensors[name].shape
            if heads * head_width != joined_width:
                shape = {**known_sizes, head_side: (joined_width // heads, maker)}
                reason = f"'{maker}' makes them {joined_width} wide"
                raise _wrong_shape_error(name, tensors[name], sides[name], shape, reason, source)


def _wrong_shape_error(
    name: str, tensor: Tensor, sides: str, known_sizes: KnownSizes, reason: str, source: str
) -> AttnvizError:
    """Return an error that gives a tensor's shape, the expected shape, and the reason as a hint."""
    names, shape = tensor_sides(sides, tensor), tuple(tensor.shape)
    if names[0] in ("head", "group") and shape[0] == 1:
        names, shape = names[1:], shape[1:]
    expected_shape = shape_text(
        known_sizes[side][0] if side in known_sizes else "any" for side in names
    )
    problem = f"is {shape_text(shape)}, but should be {expected_shape}"
    return array_error(name, problem, reason, source)


def _sides_text(sides: str) -> str:
    """Return names of dimensions in words, as users know them.

    >>> _sides_text("head token key")
    '(heads ×) tokens × keys'
    """
    heads = "(heads ×)"
    words = {"head": heads, "group": heads, "token": "tokens", "key": "keys", "dim": "width"}
    parts = [words.get(side, side.replace("_", " ")) for side in sides.split()]
    return " × ".join(parts).replace("(heads ×) × ", "(heads ×) ")


Array = Shaped[np.ndarray, "..."]
Numbers = Float64[np.ndarray, "..."]

MAX_LIST_DEPTH = 8  # no matrix has more sides
ROWS_HINT = "give rows of numbers: [[1, 2], …]"
NUMBER_TYPES = (int, float, bool, np.number, np.bool_)


def parse_array(name: str, value: Any, part: Part, source: str) -> Numbers:
    """Return the value that is given under a name as an array of float64; truth values as 0 and 1.

    Refuses values that are no numbers, ragged lists, empty or single values, truth values where the
    part needs numbers, other numbers than 0 and 1 where it is binary, NaN, and infinity, except −∞
    where the part allows it (a mask).
    """
    raw = _array_from_lists(name, value, source) if isinstance(value, list) else np.asarray(value)
    if raw.dtype.kind not in "fiub" or raw.size == 0 or raw.ndim == 0:
        raise array_error(name, "is not a matrix of numbers", ROWS_HINT, source)
    if raw.dtype.kind == "b" and not part.binary:
        raise array_error(name, "has true or false where numbers are needed", ROWS_HINT, source)
    with np.errstate(over="ignore"):  # a too large long double becomes infinite and is refused
        numbers = np.ascontiguousarray(raw, dtype=np.float64)
    is_hiding = np.isneginf(numbers) & part.hides
    _refuse_nonfinite(name, numbers, ~np.isfinite(numbers) & ~is_hiding, source)
    if part.binary:
        _refuse_other_than_0_and_1(name, numbers, source)
    return numbers


def cell_position_text(indices: tuple[int, ...]) -> str:
    """Return the position of a cell in words, counted from 1.

    >>> cell_position_text((0, 2)), cell_position_text((1, 0, 2))
    ('row 1, column 3', 'row 1, column 3 of part 2')
    """
    from_1 = [index + 1 for index in indices]
    if len(from_1) == 1:
        return f"place {from_1[0]}"
    row = f"row {from_1[-2]}, column {from_1[-1]}"
    return row if len(from_1) == 2 else f"{row} of part {'.'.join(map(str, from_1[:-2]))}"


def _array_from_lists(name: str, value: list[Any], source: str) -> Array:
    """Return nested lists as an array; refuses unequal lengths or depths, and deep nesting."""
    shape: list[int] = []
    level: list[Any] = [value]
    while any(isinstance(item, list) for item in level):
        _refuse_ragged_lists(name, level, shape, source)
        shape.append(len(level[0]))
        level = [item for row in level for item in row]
        if len(shape) > MAX_LIST_DEPTH:
            raise array_error(name, f"is nested more than {MAX_LIST_DEPTH} deep", ROWS_HINT, source)
    return _numbers_in_shape(name, level, tuple(shape), source)


def _numbers_in_shape(name: str, level: list[Any], shape: tuple[int, ...], source: str) -> Array:
    """Return a flat list of numbers as an array of this shape: bool for truth values, else float64.

    Refuses other values, a mixture of numbers and truth values, and numbers too large for a float.
    """
    types = {type(number) for number in level}
    if not all(issubclass(kind, NUMBER_TYPES) for kind in types):
        raise array_error(name, "is not a matrix of numbers", ROWS_HINT, source)
    if types <= {bool, np.bool_}:
        return np.asarray(level, dtype=bool).reshape(shape)
    if bool in types:
        problem = "mixes numbers with true and false"
        raise array_error(name, problem, "use only one of the two", source)
    try:
        return np.asarray(level, dtype=np.float64).reshape(shape)
    except OverflowError:
        too_large = next(index for index, number in enumerate(level) if not _fits_float(number))
        position = cell_position_text(tuple(map(int, np.unravel_index(too_large, shape))))
        problem = f"has a number at {position} that no float can hold"
        raise array_error(name, problem, "the largest is 1.8e308", source) from None


def _fits_float(number: Any) -> bool:
    try:
        return bool(np.isfinite(float(number)))
    except OverflowError:
        return False


def _refuse_ragged_lists(name: str, level: list[Any], shape: list[int], source: str) -> None:
    """Refuse a level of nested lists that mixes lists with numbers, or lists of unequal lengths.

    `shape` holds the lengths of the levels above.
    """
    lengths = [len(item) if isinstance(item, list) else None for item in level]
    deviating = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if deviating is None:
        return
    hint = "give every row the same length"
    indices = tuple(map(int, np.unravel_index(deviating, tuple(shape))))
    first, odd = lengths[0], lengths[deviating]
    if first is None or odd is None:
        kinds = ("a number", "a list") if odd is None else ("a list", "a number")
        where = cell_position_text(indices)
        problem = f"has {kinds[0]} at {where}, and {kinds[1]} before it"
        raise array_error(name, problem, hint, source)
    first_item = next(item for row in level for item in row)
    noun = "row" if isinstance(first_item, list) else "number"
    parts = ".".join(str(index + 1) for index in indices[:-1])
    outer_part = f"part {parts} of " if parts else ""
    odd_row = f"row {indices[-1] + 1} of {outer_part}'{name}'{in_file(source)}"
    problem = f"{odd_row} has {counted(odd, noun)}, but row 1 has {first}"
    raise AttnvizError(problem, hint, about=name, file=source)


def _refuse_nonfinite(name: str, numbers: Numbers, is_nonfinite: Array, source: str) -> None:
    """Refuse an array if `is_nonfinite` is True anywhere, naming the first such position."""
    positions = np.argwhere(is_nonfinite)
    if positions.size:
        indices = tuple(positions[0].tolist())
        value = "NaN" if np.isnan(numbers[indices]) else "infinity"
        problem = f"has {value} at {cell_position_text(indices)}"
        hint = "make every number finite; only 'mask' may have -inf, which hides"
        raise array_error(name, problem, hint, source)


def _refuse_other_than_0_and_1(name: str, numbers: Numbers, source: str) -> None:
    """Refuse an array that contains anything but 0 and 1."""
    positions = np.argwhere((numbers != 0) & (numbers != 1))
    if positions.size:
        indices = tuple(positions[0].tolist())
        value = f"{numbers[indices]:g} at {cell_position_text(indices)}"
        problem = f"has {value}, but it must say yes or no"
        raise array_error(name, problem, "give 1 or 0, or true or false", source)
