"""Matrices computed from drawn ones: products, sums, rows, columns, side by side.

Each construction also computes its shape, so that misfits and lack of memory are found before
anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from operator import add
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError, refuse_unknown_name
from attnviz.traces.parts import GIVEN_NAMES, PARTS_BY_GIVEN_NAME
from attnviz.traces.toml_reader import is_number
from attnviz.wording.words import shape_text

if TYPE_CHECKING:  # shapes are checked without torch
    from torch import Tensor

MatrixShape = tuple[int, ...]
MAX_NESTED_CONSTRUCTIONS = 8
COLUMNS_EXAMPLE = '{ columns = ["c_attn", 2, 3] }'  # the second of three equal parts


@dataclass(frozen=True)
class Construction:
    """One operation that computes a matrix from others: functions for its shape and for the
    matrix."""

    example: str  # an example, for hints
    shape: Callable[[list[MatrixShape], Sequence[Any]], MatrixShape]
    make: Callable[[list[Tensor]], Tensor]


def is_construction(name: str, value: Any) -> bool:
    """Return whether the value given for `name` is a draw's name or a construction (`{ product = …
    }`). Numbers and sizes written in the file, and text given for a name that is no matrix, are
    not."""
    numbers = name in PARTS_BY_GIVEN_NAME or name not in GIVEN_NAMES
    return numbers and isinstance(value, (str, Mapping))


def construction_shape(
    value: Any, draw_shapes: Mapping[str, MatrixShape], depth: int = 0
) -> MatrixShape:
    """Return the shape of a draw's name, of written numbers, or of a construction.

    Refuses unknown draws and operations, shapes that do not fit, and constructions nested too deep.
    """
    if isinstance(value, str):
        refuse_unknown_name("draw", value, draw_shapes, from_file=True)
        return draw_shapes[value]
    if not isinstance(value, Mapping):
        return _shape_of_numbers(value)
    if depth == MAX_NESTED_CONSTRUCTIONS:
        raise AttnvizError(
            f"matrices are nested {MAX_NESTED_CONSTRUCTIONS} deep, which is too deep",
            "give a simpler one",
        )
    way, parts = _parse_construction(value)
    return way.shape([construction_shape(part, draw_shapes, depth + 1) for part in parts], parts)


def construct_matrix(value: Any, draws_by_name: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor of a draw's name, of written numbers, or of a construction."""
    import torch

    if isinstance(value, str):
        return draws_by_name[value]
    if isinstance(value, Mapping):
        way, parts = _parse_construction(value)
        return way.make([construct_matrix(part, draws_by_name) for part in parts])
    return torch.tensor(value, dtype=torch.float32)


def construction_size(value: Any, draw_shapes: Mapping[str, MatrixShape]) -> int:
    """Return how many numbers are computed for a value, including intermediate matrices."""
    inner = _parse_construction(value)[1] if isinstance(value, Mapping) else []
    size = prod(construction_shape(value, draw_shapes))
    return size + sum(construction_size(part, draw_shapes) for part in inner)


def draws_used_by(value: Any) -> set[str]:
    """Return every text in a value, or in nested tables and lists of values, as the name of a
    draw."""
    if isinstance(value, str):
        return {value}
    if not isinstance(value, (Mapping, list)):
        return set()
    parts = value.values() if isinstance(value, Mapping) else value
    return {name for part in parts for name in draws_used_by(part)}


def _parse_construction(value: Mapping[str, Any]) -> tuple[Construction, list[Any]]:
    """Return the construction and the parts of a table such as `{ product = ["u", "x"] }`.

    Refuses unknown operations, several in one table, and a list without parts.
    """
    name, parts = next(iter(value.items()), ("", None))
    if len(value) != 1 or name not in CONSTRUCTIONS or not isinstance(parts, list) or not parts:
        example = CONSTRUCTIONS.get(name, CONSTRUCTIONS["product"]).example
        raise AttnvizError("this way to make a matrix is not known", f"write {example}")
    return CONSTRUCTIONS[name], parts


def _shape_of_numbers(value: Any, depth: int = 0) -> MatrixShape:
    """Return the shape of nested lists of numbers, () for a single number.

    Refuses rows of different lengths, and anything but numbers.
    """
    if isinstance(value, list) and value and depth < MAX_NESTED_CONSTRUCTIONS:
        shapes = {_shape_of_numbers(row, depth + 1) for row in value}
        if len(shapes) == 1:
            return (len(value), *shapes.pop())
        raise AttnvizError("the rows of numbers differ in length", "give all rows the same length")
    if not is_number(value):
        raise AttnvizError("this is not a number", "write the name of a draw, or rows of numbers")
    return ()


def _product_shape(shapes: list[MatrixShape], parts: Sequence[Any]) -> MatrixShape:
    """Return the shape of a matrix product; refuse matrices that cannot be multiplied."""
    first, second = _refuse_part_count(2, shapes, "product")
    if min(len(first), len(second)) < 2 or first[-1] != second[-2]:
        hint = "give the second as many rows as the first has columns"
        raise _shape_misfit_error("cannot be multiplied", first, second, hint)
    return (*_broadcast_shape(first[:-2], second[:-2], first, second), first[-2], second[-1])


def _sum_shape(shapes: list[MatrixShape], parts: Sequence[Any]) -> MatrixShape:
    """Return the broadcast shape of a sum; refuse shapes that do not fit each other."""
    shape = shapes[0]
    for other in shapes[1:]:
        shape = _broadcast_shape(shape, other, shape, other)
    return shape


def _broadcast_shape(
    one: MatrixShape, other: MatrixShape, first: MatrixShape, second: MatrixShape
) -> MatrixShape:
    """Return the broadcast shape of `one` and `other`; refuse shapes that do not fit each other.

    `first` and `second` are the shapes that the error shows.
    """
    longest = max(len(one), len(other))
    sides = [(1,) * (longest - len(shape)) + shape for shape in (one, other)]
    pairs = list(zip(*sides, strict=True))
    if any(left != right and 1 not in (left, right) for left, right in pairs):
        hint = "give both the same shape"
        raise _shape_misfit_error("do not fit each other", first, second, hint)
    return tuple(max(pair) for pair in pairs)


def _rows_shape(shapes: list[MatrixShape], parts: Sequence[Any]) -> MatrixShape:
    """Return the shape of the rows of a table that ids select; refuse ids that the table does not
    have."""
    table, ids = _refuse_part_count(2, shapes, "rows")
    if len(table) != 2 or not ids:
        hint = "give a table with rows and columns, and ids"
        raise _shape_misfit_error("are not a table and ids", table, ids, hint)
    for row_id in _written_numbers(parts[1]):
        if not isinstance(row_id, int):
            raise AttnvizError(f"'{row_id}' is not an id", "give whole numbers: ids count from 0")
        _refuse_missing_row(row_id, table[0])
    return (*ids, table[1])


def _columns_shape(shapes: list[MatrixShape], parts: Sequence[Any]) -> MatrixShape:
    """Return the shape of one of several equal parts of a matrix's columns.

    Refuses a number of parts that does not divide the columns, and a part that does not exist.
    """
    matrix_shape, *_ = _refuse_part_count(3, shapes, "columns")
    number, count = parts[1:]
    are_whole = all(isinstance(part, int) for part in (number, count))
    if not are_whole or not 1 <= number <= count:
        raise AttnvizError(f"there is no part {number} of {count}", f"write {COLUMNS_EXAMPLE}")
    if not matrix_shape or matrix_shape[-1] % count:
        raise AttnvizError(
            f"{shape_text(matrix_shape or (1,))} numbers do not split into {count} equal parts "
            "of columns",
            "choose a number that divides the number of columns",
        )
    return (*matrix_shape[:-1], matrix_shape[-1] // count)


def _beside_shape(shapes: list[MatrixShape], parts: Sequence[Any]) -> MatrixShape:
    """Return the shape of matrices placed side by side; an array of three dimensions is several
    matrices. Refuses matrices with different numbers of rows."""
    are_vectors = len(shapes[0]) < 2
    for shape in shapes:
        fits = len(shape) == 1 if are_vectors else len(shape) in (2, 3)
        if not fits or shape[-2:-1] != shapes[0][-2:-1]:
            hint = "give matrices with as many rows"
            raise _shape_misfit_error("cannot be placed side by side", shapes[0], shape, hint)
    columns = sum(shape[-1] * prod(shape[:-2]) for shape in shapes)
    return (*shapes[0][-2:-1], columns)


def _select_rows(parts: list[Tensor]) -> Tensor:
    """Return the rows of a table that ids select; refuse ids that the table does not have."""
    table, ids = parts
    for row_id in (ids.min(), ids.max()):
        _refuse_missing_row(int(row_id.item()), len(table))
    return table[ids.long()]


def _select_columns(parts: list[Tensor]) -> Tensor:
    """Return one of several equal parts of a matrix's columns, counted from 1."""
    matrix, number, count = parts
    return matrix.chunk(int(count.item()), dim=-1)[int(number.item()) - 1]


def _place_side_by_side(parts: list[Tensor]) -> Tensor:
    """Return all matrices side by side; an array of three dimensions is several matrices."""
    import torch

    matrices = [matrix for part in parts for matrix in (part if part.ndim == 3 else [part])]
    return torch.cat(matrices, dim=-1)


def _refuse_part_count(count: int, shapes: list[MatrixShape], name: str) -> list[MatrixShape]:
    """Return the shapes unchanged; refuse any number of them but `count`.

    `name` is the operation.
    """
    if len(shapes) != count:
        problem = f"'{name}' takes {count} parts, and {len(shapes)} are given"
        raise AttnvizError(problem, f"write {CONSTRUCTIONS[name].example}")
    return shapes


def _refuse_missing_row(row: int, count: int) -> None:
    """Refuse a row number, from 0, that a table of `count` rows does not have."""
    if not 0 <= row < count:
        problem = f"there is no row {row} in a table of {count:,}"
        raise AttnvizError(problem, f"rows count from 0, here to {count - 1:,}")


def _written_numbers(value: Any) -> list[Any]:
    """Return the leaves of nested lists; none of draws and constructions, whose numbers are not
    known yet."""
    if isinstance(value, list):
        return [leaf for item in value for leaf in _written_numbers(item)]
    return [] if isinstance(value, (str, Mapping)) else [value]


def _shape_misfit_error(
    why: str, first: MatrixShape, second: MatrixShape, hint: str
) -> AttnvizError:
    """Return the error for two shapes that do not go together; `why` says what cannot be done with
    them."""
    shape_texts = [shape_text(shape) if shape else "1" for shape in (first, second)]
    numbers = "number" if shape_texts[-1] == "1" else "numbers"
    return AttnvizError(f"{' and '.join(shape_texts)} {numbers} {why}", hint)


CONSTRUCTIONS: dict[str, Construction] = {
    "product": Construction(
        '{ product = ["u_query", "x"] }', _product_shape, lambda parts: parts[0] @ parts[1]
    ),
    "sum": Construction('{ sum = ["x", "positions"] }', _sum_shape, partial(reduce, add)),
    "rows": Construction('{ rows = ["table", [0, 4, 5]] }', _rows_shape, _select_rows),
    "columns": Construction(COLUMNS_EXAMPLE, _columns_shape, _select_columns),
    "beside": Construction('{ beside = ["first", "second"] }', _beside_shape, _place_side_by_side),
}
