"""Overviews written by hand: heads that read each in their own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnviz.views.grids.axes import Axis
from attnviz.views.grids.overview import Flag, Overview

KINDS = ("previous token", "next token", "first token (sink)", "itself", "separators",
         "same token", "induction", "broad")  # fmt: skip


def overview_by_hand(
    layers: int,
    heads: int,
    queries: int = 15,
    keys: int | None = None,
    *,
    causal: bool = False,
    groups: int | None = None,
    flags: int = len(KINDS),
    words: Sequence[str] = (),
    **changes: Any,
) -> Overview:
    """Heads that read the first token, themselves, the one before, or what is near."""
    keys = queries if keys is None else keys
    maps = [_map(number, queries, keys, causal) for number in range(layers * heads)]
    hidden = np.arange(keys)[None, :] > np.arange(queries)[:, None] if causal else np.zeros(1, bool)
    places = tuple((layer, head) for layer in range(layers) for head in range(heads))
    token_words = [*words] or [f"word{place}" for place in range(max(queries, keys))]
    fields: dict[str, Any] = {
        "title": "all heads",
        "rows": _numbered_axis("layer", "L", layers),
        "columns": _numbered_axis("head", "H", heads),
        "groups": tuple(head * groups // heads for head in range(heads)) if groups else (),
        "names": tuple(f"L{layer}H{head}" for layer, head in places),
        "map_cells": places,
        "values": np.stack(maps).astype(np.float32),
        "hidden": np.broadcast_to(hidden, (len(maps), queries, keys)).copy(),
        "query_axis": _token_axis("query (reads)", token_words[:queries]),
        "key_axis": _token_axis("key (is read)", token_words[:keys]),
        "tokens_per_row": np.ones(queries),
        "tokens_per_column": np.ones(keys),
        "note": "each map: rows attend to columns",
        "flags": tuple(
            Flag(number * 7 % len(maps), kind, kind.split()[0], ".98")
            for number, kind in enumerate(KINDS[:flags])
        ),
    }
    return Overview(**fields | changes)


def _map(number: int, queries: int, keys: int, causal: bool) -> np.ndarray:
    query, key = np.arange(queries)[:, None], np.arange(keys)[None, :]
    scores = [5.0 * (key == 0), 5.0 * (key == query), 5.0 * (key == query - 1),
              -0.4 * abs(query - key), 0.0 * (key + query)][number % 5]  # fmt: skip
    weights = np.where((key > query) & causal, 0, np.exp(scores))
    shares: np.ndarray = weights / weights.sum(1, keepdims=True)
    return shares


def _numbered_axis(counts: str, letter: str, count: int) -> Axis:
    names = tuple(f"{letter}{number}" for number in range(count))
    return Axis(counts, counts, names, ("",) * count)


def _token_axis(title: str, words: Sequence[str]) -> Axis:
    numbers = tuple(str(place) for place in range(1, len(words) + 1))
    return Axis(title, "token", tuple(words), numbers, (True,) * len(words))
