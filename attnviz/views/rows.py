"""The weights of a Trace in long form, one line each, for spreadsheets and data frames."""

from __future__ import annotations

import csv as standard_csv
import io
from collections.abc import Iterator, Sequence

from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.trace import array

COLUMNS = ("layer", "head", "query number", "query", "key number", "key", "weight", "visible")


def csv(trace: Trace) -> Iterator[bytes]:
    yield f"{','.join(COLUMNS)}\n".encode()
    queries = _cells(trace.tokens)
    for layer in trace.attentions:
        keys = _cells(trace.keys_of(layer))
        name = layer.name.strip().removeprefix("L")
        for head in range(layer.heads):
            for query, cell in enumerate(queries):
                start = f"{name},{head},{cell},"
                yield "".join(_lines(layer, head, query, start, keys)).encode()


def _lines(layer: Layer, head: int, query: int, start: str, keys: Sequence[str]) -> Iterator[str]:
    weights = array(layer.attended.mixing[head, query]).tolist()
    visible = ("false", "true")
    for key, weight, seen in zip(keys, weights, layer.visible[query].tolist(), strict=True):
        yield f"{start}{key},{weight!r},{visible[seen]}\n"


def _cells(tokens: Tokens) -> list[str]:
    """`3,learning`: number and label, quoted where the label holds a comma or a quote."""
    return [f"{number},{_quoted(label)}" for number, label in enumerate(tokens.labels, start=1)]


def _quoted(label: str) -> str:
    line = io.StringIO()
    standard_csv.writer(line, lineterminator="").writerow([label])
    return line.getvalue()
