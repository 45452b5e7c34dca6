"""Matrices made from drawn ones: products, sums, rows, columns, and rows of matrices.

Each way is a row of a table, with the shape that comes out, so that what does not fit, and what
there is no memory for, is said before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.parts import GIVEN, GIVEN_NAMES
from attnviz.traces.toml_reader import is_number
from attnviz.wording.words import shape_text

if TYPE_CHECKING:  # whether shapes fit is known without torch
    from torch import Tensor

Shape = tuple[int, ...]
DEEPEST = 8  # ways within each other


@dataclass(frozen=True)
class Way:
    """One way to make a matrix of others: its shape of theirs, and the matrix itself."""

    written: str  # for a hint
    shape: Callable[[list[Shape], Sequence[Any]], Shape]
    make: Callable[[list[Tensor]], Tensor]


def is_made(name: str, value: Any) -> bool:
    """Whether what stands under a name says how numbers are made; words are not, nor sides."""
    numbers = name in GIVEN or name not in GIVEN_NAMES
    return numbers and isinstance(value, (str, Mapping))


def shape_of(value: Any, drawn: Mapping[str, Shape], depth: int = 0) -> Shape:
    """The shape of what is made, once it is sure that it can be; `drawn` has those of draws."""
    if isinstance(value, str):
        if value not in drawn:
            raise unknown("draw", value, drawn)
        return drawn[value]
    if not isinstance(value, Mapping):
        return _shape_of_numbers(value)
    if depth == DEEPEST:
        raise AttnvizError(
            f"matrices are nested {DEEPEST} deep, which is too deep", "give a simpler one"
        )
    way, parts = _way(value)
    return way.shape([shape_of(part, drawn, depth + 1) for part in parts], parts)


def made(value: Any, drawn: Mapping[str, Tensor]) -> Tensor:
    """A draw, numbers as they are written, or what is made of them."""
    import torch

    if isinstance(value, str):
        return drawn[value]
    if isinstance(value, Mapping):
        way, parts = _way(value)
        return way.make([made(part, drawn) for part in parts])
    return torch.tensor(value, dtype=torch.float32)


def numbers_in(value: Any, drawn: Mapping[str, Shape]) -> int:
    """How many numbers are made on the way to it, with its own."""
    inner = _way(value)[1] if isinstance(value, Mapping) else []
    return prod(shape_of(value, drawn)) + sum(numbers_in(part, drawn) for part in inner)


def names_in(value: Any) -> set[str]:
    """The draws that something is made of, or a table of several."""
    if isinstance(value, str):
        return {value}
    if not isinstance(value, (Mapping, list)):
        return set()
    parts = value.values() if isinstance(value, Mapping) else value
    return {name for part in parts for name in names_in(part)}


def _way(value: Mapping[str, Any]) -> tuple[Way, list[Any]]:
    """`{ product = ["u", "x"] }`: the way, and what it takes."""
    name, parts = next(iter(value.items()), ("", None))
    if len(value) != 1 or name not in WAYS or not isinstance(parts, list) or not parts:
        written = WAYS.get(name, WAYS["product"]).written
        raise AttnvizError("this way to make a matrix is not known", f"write {written}")
    return WAYS[name], parts


def _shape_of_numbers(value: Any, depth: int = 0) -> Shape:
    """The shape of numbers as they are written; a single one has no sides."""
    if isinstance(value, list) and value and depth < DEEPEST:
        shapes = {_shape_of_numbers(each, depth + 1) for each in value}
        if len(shapes) == 1:
            return (len(value), *shapes.pop())
        raise AttnvizError("the rows of numbers differ in length", "give all rows the same length")
    if not is_number(value):
        raise AttnvizError("this is not a number", "write the name of a draw, or rows of numbers")
    return ()


def _of_product(shapes: list[Shape], parts: Sequence[Any]) -> Shape:
    first, second = _as_many(2, shapes, "product")
    if min(len(first), len(second)) < 2 or first[-1] != second[-2]:
        raise _misfit(
            "cannot be multiplied",
            first,
            second,
            "give the second as many rows as the first has columns",
        )
    return (*_together(first[:-2], second[:-2], first, second), first[-2], second[-1])


def _of_sum(shapes: list[Shape], parts: Sequence[Any]) -> Shape:
    found = shapes[0]
    for other in shapes[1:]:
        found = _together(found, other, found, other)
    return found


def _together(one: Shape, other: Shape, first: Shape, second: Shape) -> Shape:
    """The shape of both at once: where one has a single row, it is used for all."""
    longest = max(len(one), len(other))
    sides = [(1,) * (longest - len(each)) + each for each in (one, other)]
    pairs = list(zip(*sides, strict=True))
    if any(left != right and 1 not in (left, right) for left, right in pairs):
        raise _misfit("do not fit each other", first, second, "give both the same shape")
    return tuple(max(pair) for pair in pairs)


def _of_rows(shapes: list[Shape], parts: Sequence[Any]) -> Shape:
    table, ids = _as_many(2, shapes, "rows")
    if len(table) != 2 or not ids:
        raise _misfit(
            "are not a table and ids", table, ids, "give a table with rows and columns, and ids"
        )
    for each in _leaves(parts[1]):
        if not isinstance(each, int):
            raise AttnvizError(f"'{each}' is not an id", "give whole numbers: ids count from 0")
        _refuse_missing_row(each, table[0])
    return (*ids, table[1])


def _of_columns(shapes: list[Shape], parts: Sequence[Any]) -> Shape:
    whole, *_ = _as_many(3, shapes, "columns")
    number, count = parts[1:]
    counted = all(isinstance(each, int) for each in (number, count))
    if not counted or not 1 <= number <= count:
        raise AttnvizError(f"there is no part {number} of {count}", f"write {COLUMNS}")
    if not whole or whole[-1] % count:
        raise AttnvizError(
            f"{shape_text(whole or (1,))} numbers do not split into {count} equal parts of columns",
            "choose a number that divides the number of columns",
        )
    return (*whole[:-1], whole[-1] // count)


def _of_beside(shapes: list[Shape], parts: Sequence[Any]) -> Shape:
    """Matrices side by side; one of three sides stands for the matrices in it."""
    sides = min(len(shapes[0]), 2)
    for shape in shapes:
        fits = len(shape) == 1 if sides == 1 else len(shape) in (2, 3)
        if not fits or shape[-2:-1] != shapes[0][-2:-1]:
            raise _misfit(
                "cannot be placed side by side", shapes[0], shape, "give matrices with as many rows"
            )
    columns = sum(shape[-1] * prod(shape[:-2]) for shape in shapes)
    return (*shapes[0][-2:-1], columns)


def _rows(parts: list[Tensor]) -> Tensor:
    table, ids = parts
    for each in (ids.min(), ids.max()):
        _refuse_missing_row(int(each.item()), len(table))
    return table[ids.long()]


def _columns(parts: list[Tensor]) -> Tensor:
    whole, number, count = parts
    return whole.chunk(int(count.item()), dim=-1)[int(number.item()) - 1]


def _beside(parts: list[Tensor]) -> Tensor:
    import torch

    matrices = [each for part in parts for each in (part if part.ndim == 3 else [part])]
    return torch.cat(matrices, dim=-1)


def _product(parts: list[Tensor]) -> Tensor:
    return parts[0] @ parts[1]


def _sum(parts: list[Tensor]) -> Tensor:
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found


def _as_many(count: int, shapes: list[Shape], name: str) -> list[Shape]:
    if len(shapes) != count:
        problem = f"'{name}' takes {count} parts, and {len(shapes)} are given"
        raise AttnvizError(problem, f"write {WAYS[name].written}")
    return shapes


def _refuse_missing_row(wanted: int, count: int) -> None:
    if not 0 <= wanted < count:
        raise AttnvizError(
            f"there is no row {wanted} in a table of {count:,}",
            f"rows count from 0, here to {count - 1:,}",
        )


def _leaves(value: Any) -> list[Any]:
    """The numbers of a list of lists; of a draw none, for they are not yet known."""
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [] if isinstance(value, (str, Mapping)) else [value]


def _misfit(why: str, first: Shape, second: Shape, hint: str) -> AttnvizError:
    told = [shape_text(shape) if shape else "1" for shape in (first, second)]
    numbers = "number" if told[-1] == "1" else "numbers"
    return AttnvizError(f"{' and '.join(told)} {numbers} {why}", hint)


COLUMNS = '{ columns = ["c_attn", 2, 3] }'  # the second of three equal parts
WAYS: dict[str, Way] = {
    "product": Way('{ product = ["u_query", "x"] }', _of_product, _product),
    "sum": Way('{ sum = ["x", "positions"] }', _of_sum, _sum),
    "rows": Way('{ rows = ["table", [0, 4, 5]] }', _of_rows, _rows),
    "columns": Way(COLUMNS, _of_columns, _columns),
    "beside": Way('{ beside = ["first", "second"] }', _of_beside, _beside),
}
