"""Names of matrices in files: `layers.1.w_query`, and what other libraries call them.

Layers count from 0, and `layers.0.w_query` is `w_query`. TOML may have a table for each layer
(`[layers.1]`, or `[[layers]]` for all in order), JSON an object or a list; NumPy and safetensors
have the full name. What others call them is in matrix_aliases.toml. Needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.traces import toml_reader
from attnviz.traces.parts import GIVEN_NAMES, LEARNED_NAMES
from attnviz.traces.settings import MAX_LAYERS

LAYERS_KEY = "layers"
_LAYER_KEY_PATTERN = re.compile(rf"{LAYERS_KEY}\.(\d{{1,9}})\.(.+)", re.DOTALL)


def flatten_layers(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents with full names (`layers.1.w_1`) in place of the tables of layers.

    Refuses `layers` that are neither a table of tables nor a list of tables.

    >>> flatten_layers({"w_1": 2, "layers": {"1": {"w_1": 3}}})
    {'w_1': 2, 'layers.1.w_1': 3}
    >>> flatten_layers({"layers": [{"w_1": 2}]})
    {'layers.0.w_1': 2}
    """
    flat_contents = {name: value for name, value in contents.items() if name != LAYERS_KEY}
    return flat_contents | dict(_flatten_layer_tables(contents.get(LAYERS_KEY, {})))


def _flatten_layer_tables(tables: Any) -> Iterator[tuple[str, Any]]:
    """Yield full names and values of the tables of layers; refuses anything but tables."""
    if isinstance(tables, list):
        tables = dict(enumerate(tables))
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        problem = f"'{LAYERS_KEY}' is not a table of layers"
        raise AttnvizError(problem, f"write [{LAYERS_KEY}.1], and w_query = …", about=LAYERS_KEY)
    for number, table in tables.items():
        for name, value in table.items():
            yield layer_key(number, name), value


def layer_key(number: int | str, name: str) -> str:
    """Return the full name of a layer's matrix.

    >>> layer_key(1, "w_query")
    'layers.1.w_query'
    """
    return f"{LAYERS_KEY}.{number}.{name}"


def can_be_given(name: str) -> bool:
    """Return whether a file may give this matrix; for one layer, only learned matrices.

    >>> can_be_given("scores"), can_be_given("layers.1.w_query"), can_be_given("layers.1.scores")
    (True, True, False)
    """
    match = _LAYER_KEY_PATTERN.fullmatch(name)
    return name in GIVEN_NAMES or (match is not None and match[2] in LEARNED_NAMES)


def group_by_layer(contents: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the contents of a file by layer number, in order, without layers that give nothing.

    Refuses names that are given twice, layer numbers from MAX_LAYERS, and matrices of one layer
    that are not learned.

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
    """Return the layer number and the matrix name of a full name; layer 0 if it has no number.

    Refuses layer numbers from MAX_LAYERS, and matrices that cannot be given for one layer.
    """
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


ALIAS_FILE = Path(__file__).with_name("matrix_aliases.toml")
_KIND_SUFFIX = re.compile(r"[._]?(weights?|bias|kernel)$")  # h.0.attn.c_proj.weight
TRANSPOSE_HINT = " Transpose the matrix of a torch.nn.Linear first: weight.T"


@cache
def table_by_word(table: str) -> Mapping[str, str]:
    """Return what a table of matrix_aliases.toml has for each name."""
    return toml_reader.read_rows_by_word(ALIAS_FILE, table)


def alias_hint(name: str) -> str:
    """Return a hint that gives attnviz's name of a matrix for a name used elsewhere; "" if unknown.

    >>> alias_hint("h.0.attn.q_proj.bias"), alias_hint("Q"), alias_hint("color")
    ("did you mean 'b_query'?", "did you mean 'queries'?", '')
    """
    full_name = name.lower().replace("-", "_")
    suffix = _KIND_SUFFIX.search(full_name)
    stems = [(full_name, "")] + ([(full_name[: suffix.start()], suffix[1])] if suffix else [])
    for stem, kind in stems:
        for alias in (".".join(stem.split(".")[-2:]), stem.split(".")[-1]):
            if hint := table_by_word("hints").get(alias) or _suggest_name(alias, kind):
                return hint
    return ""


def _suggest_name(alias: str, kind: str) -> str:
    """Return "did you mean …?" for a name used elsewhere, "" if it is unknown.

    `kind` is its suffix ("weight", "bias" or ""). A hint to transpose follows for linear layers.
    """
    name = table_by_word("names").get(alias)
    weight, _, bias = table_by_word("layers").get(alias, "").partition(" ")
    if kind == "bias":
        name = bias
    elif not name or (kind and weight):
        name = weight
    # c_attn and c_proj of GPT-2 are stored as x W needs them.
    is_linear = name == weight and weight.startswith("w_") and "c_" not in alias
    return f"did you mean '{name}'?{TRANSPOSE_HINT if is_linear else ''}" if name else ""
