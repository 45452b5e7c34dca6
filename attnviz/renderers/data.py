"""The numbers behind a View as files: JSON, NumPy's .npz, and rows of text.

In chunks, because the weights of a few thousand tokens are hundreds of megabytes of digits. orjson
writes those digits, in a tenth of the time that Python's own json takes for them.
"""

from __future__ import annotations

import csv as standard_csv
import io
import json as standard_json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import orjson
from orjson import Fragment

from attnviz.renderers import Look
from attnviz.views.view import Column, Data, Lines, View, Words
from attnviz.wording.printable import exact_json, printable

FACTS = ("attnviz", "trace")  # contents that are one text in .npz: nobody computes with them
NUMBERS_AT_ONCE = 2**13  # what is worked on stays in the processor's cache
BYTES_AT_ONCE = 2**24

# What a spreadsheet takes for a formula: these at the start of more than a number or a sign.
FORMULA = re.compile(r"[=@＝＋－＠].|[+-](?![\d.,]*$)", re.DOTALL)


def json(view: View, look: Look) -> Iterator[bytes]:
    """An object; arrays with a line for each row, so that they can be read and compared."""
    yield from _json(_contents(view), "")
    yield b"\n"


def npz(view: View, look: Look) -> Iterator[bytes]:
    """The same arrays; their names are paths into the JSON, such as `layers.0.weights`."""
    sink = _Sink()
    with ZipFile(sink, "w") as file:  # type: ignore[call-overload]  # what is written will do
        for name, value in _flat(_contents(view), ""):
            for _ in _written(file, name, _plain(value)):
                yield from sink.taken()
    yield from sink.taken()


def csv(view: View, look: Look) -> Iterator[bytes]:
    """A line for each row; nothing in a cell that has no number."""
    data = _data(view)
    yield ",".join(data.header).encode()
    yield from map(_rows, data.lines())
    yield b"\n"


class _Sink:
    """What a zip file is written to: nothing is kept but what is not yet taken."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def write(self, chunk: bytes | memoryview) -> int:
        self._chunks.append(bytes(chunk))
        return len(chunk)

    def flush(self) -> None:
        pass

    def taken(self) -> list[bytes]:
        chunks, self._chunks = self._chunks, []
        return chunks


def _written(file: ZipFile, name: str, array: np.ndarray) -> Iterator[None]:
    """One array, a few megabytes at a time; fractions hardly shrink, and are stored as they are."""
    member = ZipInfo(f"{name}.npy")  # of the year 1980: the same bytes on every day
    member.compress_type = ZIP_STORED if array.dtype.kind == "f" else ZIP_DEFLATED
    kind = np.lib.format.dtype_to_descr(array.dtype)
    told = {"descr": kind, "fortran_order": False, "shape": array.shape}
    flat, together = array.ravel(), BYTES_AT_ONCE // max(array.itemsize, 1)
    with file.open(member, "w", force_zip64=True) as opened:
        np.lib.format.write_array_header_1_0(opened, told)
        for first in range(0, flat.size, together):
            opened.write(flat[first : first + together].tobytes())
            yield


def _rows(lines: Lines) -> bytes:
    """Lines that begin alike, each behind a line break; orjson writes what is between commas."""
    start = "".join(f"{each if isinstance(each, int) else _quoted(each)}," for each in lines.start)
    *numbers, last = lines.numbers
    columns = [*map(_cells, numbers), _edges(last, lines.words)]
    cells: list[Any] = [Fragment(_begins(lines.words)[0])]
    cells *= 1 + len(columns) * len(columns[0])
    for place, column in enumerate(columns, start=1):
        cells[place :: len(columns)] = column
    # No word has a line break in it: where one is, a line begins.
    return orjson.dumps(cells)[1:-1].replace(b"\n", f"\n{start}".encode())


def _cells(column: Column) -> list[Any]:
    """Numbers for orjson, and nothing where there is none."""
    if not isinstance(column, np.ndarray):
        return [Fragment(_digits(number)) for number in column]
    return column.tolist() if np.isfinite(column).all() else _cells(column.tolist())


def _digits(number: float | None) -> str:
    return "" if number is None else standard_json.dumps(number)


def _edges(column: Column, words: Words) -> list[Fragment]:
    """The last cell of each line, and how the next line begins."""
    if isinstance(column, np.ndarray) and column.dtype == bool:
        true, false = _behind("true", words), _behind("false", words)
        return list(true if column.all() else np.where(column, true, false))
    numbers = column.tolist() if isinstance(column, np.ndarray) else column
    pairs = zip(numbers, [*_begins(words)[1:], ""], strict=True)
    return [Fragment(_digits(number) + begin) for number, begin in pairs]


@lru_cache(maxsize=8)  # the same keys are beside each query
def _behind(cell: str, words: Words) -> np.ndarray:
    """The same, where every line ends in this cell."""
    return np.array([Fragment(cell + begin) for begin in (*_begins(words)[1:], "")])


@lru_cache(maxsize=8)
def _begins(words: Words) -> list[str]:
    """The words of each line, behind the break before them."""
    of_each_line = zip(*words.columns, strict=True)
    return [f"\n{','.join(map(_quoted, of_a_line))}" for of_a_line in of_each_line]


@lru_cache(maxsize=1024)
def _quoted(word: str) -> str:
    """As the rules of CSV have it; what a spreadsheet would compute has an apostrophe before it.

    >>> _quoted("a"), _quoted("a, b"), _quoted("=1+1"), _quoted("-"), _quoted("-5")
    ('a', '"a, b"', "'=1+1", '-', '-5')
    """
    if word.isalnum():
        return word
    file = io.StringIO()
    text = f"'{word}" if FORMULA.match(word) else word
    standard_csv.writer(file, lineterminator="").writerow([printable(text)])
    return file.getvalue()


def _data(view: View) -> Data:
    assert view.data is not None, "a view of something that has no data"
    return view.data


def _contents(view: View) -> dict[str, Any]:
    provenance = None if view.provenance is None else asdict(view.provenance)
    return {"attnviz": provenance, **_data(view).document()}


def _json(value: Any, indent: str) -> Iterator[bytes]:
    """Objects with a line for each key; arrays with a line for each of their innermost rows."""
    deeper = indent + " "
    if isinstance(value, np.ndarray) and (value.ndim < 2 or not value.size):
        yield _array(value)
    elif isinstance(value, np.ndarray) and value.ndim == 2:
        yield from _lines("[]", (("", [chunk]) for chunk in _matrix(value, deeper)), indent)
    elif isinstance(value, np.ndarray):
        yield from _lines("[]", (("", _json(part, deeper)) for part in value), indent)
    elif isinstance(value, Mapping) and value:
        items = ((f"{standard_json.dumps(key)}: ", _json(value[key], deeper)) for key in value)
        yield from _lines("{}", items, indent)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _lines("[]", (("", _json(item, deeper)) for item in value), indent)
    else:
        yield exact_json(value).encode()


def _lines(
    brackets: str, items: Iterable[tuple[str, Iterable[bytes]]], indent: str
) -> Iterator[bytes]:
    separator = brackets[0]
    for start, chunks in items:
        yield f"{separator}\n{indent} {start}".encode()
        yield from chunks
        separator = ","
    yield f"\n{indent}{brackets[1]}".encode()


def _matrix(matrix: np.ndarray, indent: str) -> Iterator[bytes]:
    """As many rows at once as are worked on fast, with a line for each."""
    together = max(1, NUMBERS_AT_ONCE // max(1, matrix.shape[1]))
    for first in range(0, len(matrix), together):
        rows = _array(matrix[first : first + together])
        yield rows[1:-1].replace(b"],[", f"],\n{indent}[".encode())


def _array(numbers: np.ndarray) -> bytes:
    """An array as JSON: fractions in the fewest digits that are read as the same float64."""
    if numbers.ndim and np.isfinite(numbers).all():
        exact = numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers
        return orjson.dumps(np.ascontiguousarray(exact), option=orjson.OPT_SERIALIZE_NUMPY)
    # NaN and Infinity, as Python writes and reads them: for orjson they are nothing.
    return standard_json.dumps(numbers.tolist(), separators=(",", ":")).encode()


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every leaf with its path; what there is not is left out."""
    if isinstance(value, Mapping) and path not in FACTS:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}.{number}")
    elif value is not None:
        yield path, value


def _plain(value: Any) -> np.ndarray:
    return np.asarray(standard_json.dumps(value) if isinstance(value, Mapping) else value)
