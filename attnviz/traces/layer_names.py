"""Names of matrices per layer in a file: `layers.1.w_query` is `w_query` of layer 1.

Layers count from 0, and `layers.0.w_query` is `w_query`. TOML may have a table for each layer
(`[layers.1]`, or `[[layers]]` for all in order), JSON an object or a list; NumPy and safetensors
have the full name. Needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.traces.parts import GIVEN_NAMES, LEARNED_NAMES
from attnviz.traces.settings import MAX_LAYERS

LAYERS = "layers"
_LAYER_KEY_PATTERN = re.compile(rf"{LAYERS}\.(\d{{1,9}})\.(.+)", re.DOTALL)


def flatten_layers(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the contents with full names in place of the tables of layers.


    >>> flatten_layers({"w_1": 2, "layers": {"1": {"w_1": 3}}})
    {'w_1': 2, 'layers.1.w_1': 3}
    >>> flatten_layers({"layers": [{"w_1": 2}]})
    {'layers.0.w_1': 2}
    """
    flat_contents = {name: value for name, value in contents.items() if name != LAYERS}
    return flat_contents | dict(_flatten_layer_tables(contents.get(LAYERS, {})))


def _flatten_layer_tables(tables: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tables, list):
        tables = dict(enumerate(tables))
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        problem = f"'{LAYERS}' is not a table of layers"
        raise AttnvizError(problem, f"write [{LAYERS}.1], and w_query = …", about=LAYERS)
    for number, table in tables.items():
        for name, value in table.items():
            yield layer_key(number, name), value


def layer_key(number: int | str, name: str) -> str:
    """
    >>> layer_key(1, "w_query")
    'layers.1.w_query'
    """
    return f"{LAYERS}.{number}.{name}"


def can_be_given(name: str) -> bool:
    """
    >>> can_be_given("scores"), can_be_given("layers.1.w_query"), can_be_given("layers.1.scores")
    (True, True, False)
    """
    match = _LAYER_KEY_PATTERN.fullmatch(name)
    return name in GIVEN_NAMES or (match is not None and match[2] in LEARNED_NAMES)


def group_by_layer(contents: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Groups the contents of a file by layer, leaving out layers of which nothing is given.

    >>> group_by_layer({"w_1": 2, "layers.1.w_1": 3})
    {0: {'w_1': 2}, 1: {'w_1': 3}}
    """
    layers: dict[int, dict[str, Any]] = {}
    for key, value in flatten_layers(contents).items():
        number, name = _split_layer_key(key)
        if name in layers.setdefault(number, {}):
            problem = f"'{name}' of layer {number} is given twice"
            raise AttnvizError(problem, "leave one of them out", about=key)
        layers[number][name] = value
    return dict(sorted(layers.items()))


def _split_layer_key(key: str) -> tuple[int, str]:
    match = _LAYER_KEY_PATTERN.fullmatch(key)
    if match is None:
        return 0, key
    number, name = int(match[1]), match[2]
    if number >= MAX_LAYERS:
        problem = f"'{key}' is for layer {number:,}, but there can only be {MAX_LAYERS:,} layers"
        raise AttnvizError(problem, "layers count from 0", about=key)
    if name in GIVEN_NAMES and name not in LEARNED_NAMES:
        raise AttnvizError(
            f"'{key}' is for one layer, and only learned matrices can be given for one layer",
            f"give '{name}', or for a layer: {', '.join(LEARNED_NAMES)}",
            about=key,
        )
    return number, name
