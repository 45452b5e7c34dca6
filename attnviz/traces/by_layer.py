"""What names in a file of matrices mean of which layer: `layers.1.w_query` is `w_query` of layer 1.

Layers count from 0, as `--layer` counts them, and `layers.0.w_query` is `w_query`. TOML may
write a table for each layer (`[layers.1]`, or `[[layers]]` for one after the other), JSON an
object or a list; arrays of NumPy and safetensors have the whole name. Nothing here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.traces.parts import GIVEN_NAMES, LEARNED_NAMES
from attnviz.traces.settings import MOST_LAYERS

LAYERS = "layers"
_OF_LAYER = re.compile(rf"{LAYERS}\.(\d{{1,9}})\.(.+)", re.DOTALL)


def flat(contents: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the whole name of everything that stands in the tables of layers.

    >>> flat({"w_1": 2, "layers": {"1": {"w_1": 3}}}), flat({"layers": [{"w_1": 2}]})
    ({'w_1': 2, 'layers.1.w_1': 3}, {'layers.0.w_1': 2})
    """
    found = {name: value for name, value in contents.items() if name != LAYERS}
    return found | dict(_of_tables(contents.get(LAYERS, {})))


def _of_tables(tables: Any) -> Iterator[tuple[str, Any]]:
    numbered = dict(enumerate(tables)) if isinstance(tables, list) else tables
    if not isinstance(numbered, dict) or not all(isinstance(t, dict) for t in numbered.values()):
        raise AttnvizError(
            f"'{LAYERS}' is not a table of layers",
            f"write [{LAYERS}.1], and w_query = …",
            about=LAYERS,
        )
    for number, table in numbered.items():
        for name, value in table.items():
            yield name_in(number, name), value


def name_in(number: int | str, name: str) -> str:
    """
    >>> name_in(1, "w_query")
    'layers.1.w_query'
    """
    return f"{LAYERS}.{number}.{name}"


def can_be_given(name: str) -> bool:
    """
    >>> can_be_given("scores"), can_be_given("layers.1.w_query"), can_be_given("layers.1.scores")
    (True, True, False)
    """
    found = _OF_LAYER.fullmatch(name)
    return name in GIVEN_NAMES or (found is not None and found[2] in LEARNED_NAMES)


def by_layer(contents: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """What is given of each layer that something is given of, by its own names.

    >>> by_layer({"w_1": 2, "layers.1.w_1": 3})
    {0: {'w_1': 2}, 1: {'w_1': 3}}
    """
    found: dict[int, dict[str, Any]] = {}
    for whole, value in flat(contents).items():
        number, name = _number_and_name(whole)
        if name in found.setdefault(number, {}):
            problem = f"'{name}' of layer {number} is given twice"
            raise AttnvizError(problem, "leave one of them out", about=whole)
        found[number][name] = value
    return dict(sorted(found.items()))


def _number_and_name(whole: str) -> tuple[int, str]:
    found = _OF_LAYER.fullmatch(whole)
    if found is None:
        return 0, whole
    number, name = int(found[1]), found[2]
    if number >= MOST_LAYERS:
        problem = f"'{whole}' is for layer {number:,}, but there can only be {MOST_LAYERS:,} layers"
        raise AttnvizError(problem, "layers count from 0", about=whole)
    if name in GIVEN_NAMES and name not in LEARNED_NAMES:
        raise AttnvizError(
            f"'{whole}' is for one layer, and only learned matrices can be given for one layer",
            f"give '{name}', or for a layer: {', '.join(LEARNED_NAMES)}",
            about=whole,
        )
    return number, name
