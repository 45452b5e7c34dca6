"""Queries, keys and values of heads, for the arithmetic of the cells of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attnviz.cells import FULL_SLICE, Cells
from attnviz.machine.memory import format_size
from attnviz.renderers.page.packing import (
    BITS_OF_A_BYTE,
    EXACT_BITS,
    FINE_BITS,
    PackedTable,
    pack_table,
    unpack_vectors,
)
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, HeadVectors

MAX_EXACT_NUMBERS = 2**13  # of all vectors; more are stored in 16 bits
MAX_VECTOR_BYTES = 1_500_000  # or as many as the weights take
MAX_CHOSEN_BYTES = 18_000_000  # with --vectors: 24 MB of base64
PRODUCT = "q\u00a0·\u00a0k"
VISIBLE_ERROR = 5e-4  # a smaller one is not worth a word


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedVectors:
    """The vectors of all heads as tables, with what the script needs beside them; or a note on why
    a page has none.
    """

    tables: Mapping[str, PackedTable] = field(default_factory=dict)
    about: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by index of the head
    exactness: str = ""
    note: str = ""


def pack_vectors(
    heads: Sequence[HeadMap], weight_bytes: int, reason: str, chosen: bool | None
) -> PackedVectors:
    """Return the queries and keys of the heads, if they fit into the page; and values, if they do.

    `weight_bytes`: what the weights take; `reason`: why there are none to store; `chosen`: True
    stores as many as a page can hold, False none.
    """
    vectors = {index: head.vectors for index, head in enumerate(heads) if head.vectors is not None}
    if not vectors:
        return _without_vectors(reason)
    if chosen is False:
        return _without_vectors("left out by --no-vectors")
    limit = MAX_CHOSEN_BYTES if chosen else max(MAX_VECTOR_BYTES, weight_bytes)
    without_values = {index: replace(head, values=None) for index, head in vectors.items()}
    for stored in (vectors, without_values):
        numbers = sum(map(_number_count, stored.values()))
        bits = EXACT_BITS if numbers <= MAX_EXACT_NUMBERS else FINE_BITS
        size = int(numbers * bits // BITS_OF_A_BYTE)
        if size <= limit:
            packed = _pack_each(stored, bits)
            size = sum(len(table.block) for table in packed.tables.values())
            if size <= limit:
                return packed
    hint = "--vectors stores them" if size <= MAX_CHOSEN_BYTES else "a shorter text has room"
    return _without_vectors(f"queries and keys would take {format_size(size)}; {hint}")


def _without_vectors(reason: str) -> PackedVectors:
    return PackedVectors(note=f"no arithmetic of single cells: {reason}" if reason else "")


def without_stored_vectors(explorer: HeadExplorer) -> HeadExplorer:
    """Return the heads of a page that computes queries and keys, and so need not store them."""
    return replace(explorer, heads=tuple(replace(head, vectors=None) for head in explorer.heads))


def _number_count(vectors: HeadVectors) -> float:
    """Return how many numbers the queries, keys and values of a head have, its share of those that
    several heads have in common.
    """
    (queries, width), (keys, _) = vectors.queries.shape, vectors.keys.shape
    value_width = 0 if vectors.values is None else vectors.values.shape[1]
    return width * queries + (width + value_width) * keys / vectors.key_heads


def _pack_each(vectors: Mapping[int, HeadVectors], bits: int) -> PackedVectors:
    """Return the vectors of all heads in `bits` bits; equal tables are stored once."""
    tables: dict[bytes, tuple[str, PackedTable]] = {}

    def add_table(cells: Cells) -> tuple[str, PackedTable]:
        table = pack_table(cells.stored(), bits)
        return tables.setdefault(table.block, (f"vectors-{len(tables)}", table))

    about, errors = dict[int, dict[str, Any]](), list[float]()
    for index, head in vectors.items():
        (queries, packed_queries), (keys, packed_keys) = map(add_table, (head.queries, head.keys))
        terms = [{"name": name, "table": add_table(cells)[0]} for name, cells in head.terms]
        about[index] = {"queries": queries, "keys": keys, **_score_facts(head, terms)}
        if head.values is not None:
            about[index]["values"] = add_table(head.values)[0]
        if head.mistake is not None:
            wrong = {name: getattr(head.mistake, name) for name in ("cause", "about", "axis")}
            about[index]["mistake"] = {**wrong, "table": add_table(head.mistake.inputs)[0]}
        errors.append(_product_error(head, packed_queries, packed_keys))
    return PackedVectors(
        tables=dict(tables.values()), about=about, exactness=exactness_note(bits, max(errors))
    )


def _score_facts(vectors: HeadVectors, terms: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return what makes scores of products as JSON data, without what a head does not have."""
    facts = {
        "divisors": vectors.divisors or None,
        "scoreVector": vectors.score_vector or None,
        "softCap": vectors.soft_cap,
        "slope": vectors.slope,
        "terms": terms or None,
        "sink": vectors.sink,
        "mixedBy": vectors.mixed_by,
    }
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return {"scale": vectors.scale, **known}


def exactness_note(bits: int, error: float) -> str:
    """Return how exact stored queries and keys are; `error` is the largest difference between the
    sum of their products and the score that was computed.

    >>> exactness_note(16, 2.13e-4)
    'queries and keys are rounded to 16 bits: their products add up to q\xa0·\xa0k within 0.0003'
    """
    step = 10.0 ** math.floor(math.log10(error)) if error else 1.0
    bound = f"{math.ceil(error / step) * step:.1g}"
    if bits < EXACT_BITS:
        return (
            f"queries and keys are rounded to {bits} bits: their products add up to "
            f"{PRODUCT} within {bound}"
        )
    if error < VISIBLE_ERROR:
        return "queries and keys are stored exactly"
    return f"queries and keys are stored exactly; {PRODUCT} was computed within {bound}"


def _product_error(vectors: HeadVectors, queries: PackedTable, keys: PackedTable) -> float:
    """Return the largest difference between a score as it was computed and as the script adds it
    up from stored queries and keys; 0 where a number is not finite.
    """
    first, second = unpack_vectors(queries), unpack_vectors(keys)
    products = vectors.products.window(FULL_SLICE, FULL_SLICE).values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        if vectors.score_vector:
            rows = [np.tanh(query + second) @ np.array(vectors.score_vector) for query in first]
            differences = abs(np.stack(rows) - products)
        else:
            differences = abs(first @ second.T - products)
    return float(differences[np.isfinite(differences)].max(initial=0.0))
