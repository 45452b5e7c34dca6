"""The numbers behind a View as files: JSON, NumPy's .npz, and rows of text.

They are written in chunks, because the weights of a few thousand tokens are hundreds of megabytes
of digits. orjson writes the digits ten times as fast as Python's own json.
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
from attnviz.views.view import (
    QUANTISATION_COLUMN,
    NumberColumn,
    TableData,
    TableLines,
    View,
    WordColumns,
)
from attnviz.wording.printable import exact_json, printable_text

SINGLE_TEXT_PATHS = ("attnviz", "trace")  # objects that .npz holds as one text each
JSON_NUMBERS_AT_ONCE = 2**13  # so few stay in the processor's cache
BYTES_AT_ONCE = 2**24
# A sign alone, or before a number, is no formula for a spreadsheet.
SPREADSHEET_FORMULA = re.compile(r"[=@＝＋－＠].|[+-](?![\d.,]*$)", re.DOTALL)


def json(view: View, look: Look) -> Iterator[bytes]:
    """Yield the view's data as a JSON object in bytes, with a line for each row of an array."""
    yield from _json_chunks(_json_contents(view), "")
    yield b"\n"


def npz(view: View, look: Look) -> Iterator[bytes]:
    """Yield the view's data as an archive of arrays, named by their paths: `layers.0.weights`.

    None is left out; the provenance and the trace's origin are one JSON text each.
    """
    sink = _ChunkSink()
    with ZipFile(sink, "w") as file:  # type: ignore[call-overload]  # a sink has all it needs
        for name, value in _flat_leaves(_json_contents(view), ""):
            plain = standard_json.dumps(value) if isinstance(value, Mapping) else value
            for _ in _write_array(file, name, np.asarray(plain)):
                yield from sink.take_chunks()
    yield from sink.take_chunks()


def csv(view: View, look: Look) -> Iterator[bytes]:
    """Yield the view's data as CSV: a header, then a line per row; missing numbers are empty.

    The last column says how a model stores its weights, if it does so in few bits.
    """
    data, ending = _data_of_view(view), ""
    yield ",".join(data.header).encode()
    if view.quantisation:
        yield f",{QUANTISATION_COLUMN}".encode()
        ending = f",{_csv_word(view.quantisation)}"
    for lines in data.lines():
        yield _csv_lines(lines, ending)
    yield b"\n"


class _ChunkSink:
    """A file that a zip archive is written to; it keeps the chunks until they are taken."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def write(self, chunk: bytes | memoryview) -> int:
        self._chunks.append(bytes(chunk))
        return len(chunk)

    def flush(self) -> None:
        """Do nothing; ZipFile calls it."""
        pass

    def take_chunks(self) -> list[bytes]:
        chunks, self._chunks = self._chunks, []
        return chunks


def _write_array(file: ZipFile, name: str, array: np.ndarray) -> Iterator[None]:
    """Write an array into the archive, yielding after each few megabytes.

    Floats hardly compress, and are stored as they are; other numbers are compressed.
    """
    member = ZipInfo(f"{name}.npy")  # of the year 1980: the same bytes on every day
    member.compress_type = ZIP_STORED if array.dtype.kind == "f" else ZIP_DEFLATED
    dtype_text = np.lib.format.dtype_to_descr(array.dtype)
    array_header = {"descr": dtype_text, "fortran_order": False, "shape": array.shape}
    flat, numbers_at_once = array.ravel(), BYTES_AT_ONCE // max(array.itemsize, 1)
    with file.open(member, "w", force_zip64=True) as opened:
        np.lib.format.write_array_header_1_0(opened, array_header)
        for first in range(0, flat.size, numbers_at_once):
            opened.write(flat[first : first + numbers_at_once].tobytes())
            yield


def _csv_lines(lines: TableLines, ending: str) -> bytes:
    """Return CSV lines that share their first words, each behind a line break and with `ending` as
    its end.

    orjson writes them, since it is fast.
    """
    words = (word if isinstance(word, int) else _csv_word(word) for word in lines.start)
    start = "".join(f"{word}," for word in words)
    *numbers, last = lines.numbers
    columns = [*map(_csv_cells, numbers), _last_cells(last, lines.words)]
    cells: list[Any] = [Fragment(_line_starts(lines.words)[0])]
    cells *= 1 + len(columns) * len(columns[0])
    for position, column in enumerate(columns, start=1):
        cells[position :: len(columns)] = column
    # No word holds a line break, so each one begins a line.
    text = orjson.dumps(cells)[1:-1].replace(b"\n", f"{ending}\n{start}".encode())
    return text[len(ending.encode()) :] + ending.encode() * bool(text)


def _csv_cells(column: NumberColumn) -> list[Any]:
    """Return a column of numbers as orjson can write them, NaN and None as empty cells."""
    if not isinstance(column, np.ndarray):
        return [Fragment(_number_digits(number)) for number in column]
    return column.tolist() if np.isfinite(column).all() else _csv_cells(column.tolist())


def _number_digits(number: float | None) -> str:
    return "" if number is None else standard_json.dumps(number)


def _last_cells(column: NumberColumn, words: WordColumns) -> list[Fragment]:
    """Return the last cell of each line, each followed by the start of the next line.

    `words`: the words that begin the lines.
    """
    if isinstance(column, np.ndarray) and column.dtype == bool:
        true, false = _uniform_last_cells("true", words), _uniform_last_cells("false", words)
        return list(true if column.all() else np.where(column, true, false))
    numbers = column.tolist() if isinstance(column, np.ndarray) else column
    pairs = zip(numbers, [*_line_starts(words)[1:], ""], strict=True)
    return [Fragment(_number_digits(number) + begin) for number, begin in pairs]


@lru_cache(maxsize=8)  # the same keys are beside each query
def _uniform_last_cells(cell: str, words: WordColumns) -> np.ndarray:
    """Return the last cells of lines that all end in the text `cell`, such as 'true'.

    Each is followed by the start of the next line, from `words`.
    """
    return np.array([Fragment(cell + begin) for begin in (*_line_starts(words)[1:], "")])


@lru_cache(maxsize=8)
def _line_starts(words: WordColumns) -> list[str]:
    """Return the words that begin each line, separated by commas, behind a line break."""
    words_by_line = zip(*words.columns, strict=True)
    return [f"\n{','.join(map(_csv_word, line_words))}" for line_words in words_by_line]


@lru_cache(maxsize=1024)
def _csv_word(word: str) -> str:
    """Return a word as CSV quotes it; an apostrophe precedes what a spreadsheet would compute.

    >>> _csv_word("a"), _csv_word("a, b"), _csv_word("=1+1"), _csv_word("-"), _csv_word("-5")
    ('a', '"a, b"', "'=1+1", '-', '-5')
    """
    if word.isalnum():
        return word
    file = io.StringIO()
    text = f"'{word}" if SPREADSHEET_FORMULA.match(word) else word
    standard_csv.writer(file, lineterminator="").writerow([printable_text(text)])
    return file.getvalue()


def _data_of_view(view: View) -> TableData:
    assert view.data is not None, "a view of something that has no data"
    return view.data


def _json_contents(view: View) -> dict[str, Any]:
    """Return the object that the JSON file holds: provenance, kind, then the view's data."""
    provenance = None if view.provenance is None else asdict(view.provenance)
    data = _data_of_view(view)
    return {"attnviz": provenance, "kind": data.kind, **data.document()}


def _json_chunks(value: Any, indent: str) -> Iterator[bytes]:
    """Yield a value as JSON: objects with a line for each key, arrays with one for each row.

    `indent`: the spaces before lines at this depth.
    """
    deeper = indent + " "
    if isinstance(value, np.ndarray) and (value.ndim < 2 or not value.size):
        yield _json_array(value)
    elif isinstance(value, np.ndarray) and value.ndim == 2:
        yield from _json_items(
            "[]", (("", [chunk]) for chunk in _json_matrix(value, deeper)), indent
        )
    elif isinstance(value, Mapping) and value:
        items = (
            (f"{standard_json.dumps(key)}: ", _json_chunks(value[key], deeper)) for key in value
        )
        yield from _json_items("{}", items, indent)
    elif isinstance(value, np.ndarray) or _is_list_of_objects(value):
        yield from _json_items("[]", (("", _json_chunks(item, deeper)) for item in value), indent)
    else:
        yield exact_json(value).encode()


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _json_items(
    brackets: str, items: Iterable[tuple[str, Iterable[bytes]]], indent: str
) -> Iterator[bytes]:
    """Yield (start, chunks) items on lines of their own between `brackets`, '[]' or '{}'."""
    separator = brackets[0]
    for start, chunks in items:
        yield f"{separator}\n{indent} {start}".encode()
        yield from chunks
        separator = ","
    yield f"\n{indent}{brackets[1]}".encode()


def _json_matrix(matrix: np.ndarray, indent: str) -> Iterator[bytes]:
    """Yield the rows of a matrix, a line for each, as many at once as is fast; without brackets."""
    rows_at_once = max(1, JSON_NUMBERS_AT_ONCE // max(1, matrix.shape[1]))
    for first in range(0, len(matrix), rows_at_once):
        rows = _json_array(matrix[first : first + rows_at_once])
        yield rows[1:-1].replace(b"],[", f"],\n{indent}[".encode())


def _json_array(numbers: np.ndarray) -> bytes:
    """Return an array as JSON on one line: floats in the fewest digits that give the same float64.

    NaN and infinities are written as Python's json writes them.
    """
    if numbers.ndim and np.isfinite(numbers).all():
        exact = numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers
        return orjson.dumps(np.ascontiguousarray(exact), option=orjson.OPT_SERIALIZE_NUMPY)
    # NaN and Infinity as Python writes and reads them: orjson writes null.
    return standard_json.dumps(numbers.tolist(), separators=(",", ":")).encode()


def _flat_leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of every leaf, such as ('layers.0.weights', …); None is left out.

    The provenance and the trace's origin count as leaves.
    """
    if isinstance(value, Mapping) and path not in SINGLE_TEXT_PATHS:
        for key, inner in value.items():
            yield from _flat_leaves(inner, f"{path}.{key}" if path else key)
    elif _is_list_of_objects(value):
        for number, inner in enumerate(value):
            yield from _flat_leaves(inner, f"{path}.{number}")
    elif value is not None:
        yield path, value
