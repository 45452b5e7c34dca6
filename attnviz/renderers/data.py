"""The numbers behind a View as files: JSON, NumPy's .npz, and rows of text.

In chunks, because the weights of a few thousand tokens are hundreds of megabytes of digits.
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

import numpy as np

from attnviz.renderers import Look
from attnviz.views.view import Column, Data, View
from attnviz.wording.printable import exact_json, printable

FACTS = ("attnviz", "trace")  # contents that are one text in .npz: nobody computes with them

# What a spreadsheet takes for a formula: these at the start of more than a number or a sign.
FORMULA = re.compile(r"[=@＝＋－＠].|[+-](?![\d.,]*$)", re.DOTALL)


def json(view: View, look: Look) -> Iterator[bytes]:
    """An object; arrays with a line for each row, so that they can be read and compared."""
    yield from (chunk.encode() for chunk in _json(_contents(view), ""))
    yield b"\n"


def npz(view: View, look: Look) -> Iterator[bytes]:
    """The same arrays; their names are paths into the JSON, such as `layers.0.weights`."""
    arrays: dict[str, Any] = {name: _plain(value) for name, value in _flat(_contents(view), "")}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    yield file.getvalue()


def csv(view: View, look: Look) -> Iterator[bytes]:
    """A line for each row; nothing in a cell that has no number."""
    data = _data(view)
    yield f"{','.join(data.header)}\n".encode()
    for lines in data.lines():
        start = ",".join(_quoted(str(each)) for each in lines.start)
        cells = zip(*map(_cells, lines.columns), strict=True)
        yield "".join([f"{start},{','.join(rest)}\n" for rest in cells]).encode()


def _cells(column: Column) -> Iterable[str]:
    if isinstance(column, tuple):
        return _words(column)
    return ["" if number is None else repr(number) for number in column]


@lru_cache(maxsize=8)  # the same keys stand beside each query
def _words(column: tuple[str, ...]) -> list[str]:
    return [_quoted(word) for word in column]


def _quoted(word: str) -> str:
    """As the rules of CSV have it; what a spreadsheet would compute has an apostrophe before it.

    >>> _quoted("a"), _quoted("a, b"), _quoted("=1+1"), _quoted("-"), _quoted("-5")
    ('a', '"a, b"', "'=1+1", '-', '-5')
    """
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


def _json(value: Any, indent: str) -> Iterator[str]:
    """Objects with a line for each key; arrays with a line for each of their innermost rows."""
    deeper = indent + " "
    if isinstance(value, np.ndarray) and value.ndim > 1:
        yield from _lines("[]", ((deeper, _json(row, deeper)) for row in value), indent)
    elif isinstance(value, np.ndarray):
        yield standard_json.dumps(value.tolist())
    elif isinstance(value, Mapping):
        items = (
            (f"{deeper}{standard_json.dumps(key)}: ", _json(value[key], deeper)) for key in value
        )
        yield from _lines("{}", items, indent)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _lines("[]", ((deeper, _json(item, deeper)) for item in value), indent)
    else:
        yield exact_json(value)


def _lines(brackets: str, items: Iterable[tuple[str, Iterator[str]]], indent: str) -> Iterator[str]:
    separator = brackets[0] + "\n"
    for start, chunks in items:
        yield separator + start
        yield from chunks
        separator = ",\n"
    yield f"\n{indent}{brackets[1]}"


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
