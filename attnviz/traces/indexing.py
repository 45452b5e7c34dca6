"""Indexing of results by numbers, names, lists and slices: `trace["L5H11", "it"]`.

Layers have the numbers of the model, also where only some of them were kept. Numbers below 0 count
from the end.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import HEAD_PATTERN, LAYER_PATTERN
from attnviz.wording.words import shape_text

INDEX_HINT = 'try [5, 11], ["L5H11"], [5] for a layer, or [:, 11]'
INDEX_ERRORS = (IndexError, TypeError, ValueError, RuntimeError)  # of torch


def index_layers(layers: Sequence[Any], key: Any, sides: tuple[Tokens, Tokens]) -> Any:
    """Return what a key of a Trace names: a layer, several as a tuple, or weights as a tensor.

    A key with a head gives the weights [query, key]; where a part of it is a slice or a list, the
    weights are stacked. Further indices choose queries and keys, also by the words of `sides`, the
    tokens of queries and of keys. Refuses what is not there.
    """
    if key is Ellipsis:
        key = (slice(None), slice(None))
    if _is_list_of_heads(key):
        return torch.stack([index_layers(layers, word, sides) for word in key])
    numbers = [layer.layer for layer in layers]
    first, *rest = _split_key(key, 4, numbers)
    if len(rest) > 1:
        words = zip(rest[1:3], sides, strict=False)
        rest[1:3] = [_positions_of_words(part, tokens) for part, tokens in words]
    chosen = _choose(first, numbers, "layer")
    if not rest:
        return layers[chosen] if isinstance(chosen, int) else tuple(layers[at] for at in chosen)
    if isinstance(chosen, int):
        return layers[chosen][tuple(rest)]
    return _stacked([layers[at][tuple(rest)] for at in chosen])


def index_heads(
    cut_head: Callable[[int, Sequence[Any]], Tensor], heads: int, key: Any, layer: int | None = None
) -> Tensor:
    """Return what a key of a layer names: the weights [query, key] of a head, or several stacked.

    Further indices choose queries and keys. `cut_head` gives the weights of a head that they
    choose; `layer` is the number of the layer, if a name such as "L5H11" may be given.
    """
    first, *rest = _with_all_dimensions(key if isinstance(key, tuple) else (key,), 3)
    if isinstance(first, str) and (match := HEAD_PATTERN.fullmatch(first)):
        if match[1] is not None and int(match[1]) != layer:
            raise AttnvizError(f"'{first}' is a head of another layer", f"try 'H{match[2]}'")
        first = int(match[2])
    chosen = _choose(first, range(heads), "head")
    if isinstance(chosen, int):
        return cut_head(chosen, rest)
    return _stacked([cut_head(head, rest) for head in chosen])


def index_rows(rows: Sequence[Any], key: Any) -> Any:
    """Return what a key names among rows that have the names of heads: a row, `[5, 11]` or
    `["L5H11"]`, or a tuple of several, `[5]` or `[:, 11]`. Refuses what is not there.
    """
    by_name = {row.name: row for row in rows}
    if isinstance(key, str) and key in by_name:
        return by_name[key]
    if _is_list_of_heads(key):
        return tuple(index_rows(rows, word) for word in key)
    matches = {name: HEAD_PATTERN.fullmatch(name) for name in by_name}
    head_ids = {(int(m[1]), int(m[2])): by_name[name] for name, m in matches.items() if m}
    if not head_ids:
        name = rows[0].name
        raise AttnvizError(f"all heads are merged into one: {name}", f"try [{name!r}]")
    layers = sorted({layer for layer, _ in head_ids})
    first, *rest = _split_key(key, 2, layers)
    chosen = _choose(first, layers, "layer")
    chosen_layers = [layers[at] for at in ([chosen] if isinstance(chosen, int) else chosen)]
    heads = sorted({head for layer, head in head_ids if layer in chosen_layers})
    place = _choose(rest[0] if rest else slice(None), heads, "head")
    if len(rest) > 1:
        raise AttnvizError("the index names more than a layer and a head", INDEX_HINT)
    chosen_heads = [heads[at] for at in ([place] if isinstance(place, int) else place)]
    places = [(layer, head) for layer in chosen_layers for head in chosen_heads]
    picked = tuple(head_ids[each] for each in places if each in head_ids)
    return picked[0] if isinstance(chosen, int) and isinstance(place, int) else picked


def _is_list_of_heads(key: Any) -> bool:
    """Return whether a key is a list with names of heads, such as ["L5H11", "L3H1"]."""
    is_list = isinstance(key, list)
    return is_list and any(isinstance(word, str) and "H" in word.upper() for word in key)


def _split_key(key: Any, dimensions: int, layers: Sequence[int]) -> list[Any]:
    """Return the parts of a key whose first may be the name of a head: "L5H11", or "H11" where
    there is only one layer."""
    first, *rest = key if isinstance(key, tuple) else (key,)
    match = HEAD_PATTERN.fullmatch(first) if isinstance(first, str) else None
    if match and match[3] is None and (match[1] or len(layers) == 1):
        first, rest = int(match[1] or layers[0]), [int(match[2]), *rest]
    return _with_all_dimensions([first, *rest], dimensions)


def _with_all_dimensions(parts: Sequence[Any], dimensions: int) -> list[Any]:
    """Return the parts of a key with `:` for each dimension that `...` leaves out."""
    at = next((at for at, part in enumerate(parts) if part is Ellipsis), None)
    if at is None:
        return [*parts]
    more = [slice(None)] * (dimensions - len(parts) + 1)
    return [*parts[:at], *more, *parts[at + 1 :]]


def _positions_of_words(part: Any, tokens: Tokens) -> Any:
    """Return a part of a key, a word or a list of words as positions of tokens."""
    if isinstance(part, list):
        return [_positions_of_words(item, tokens) for item in part]
    return tokens.index(part) if isinstance(part, str) else part


def _choose(key: Any, numbers: Sequence[int], kind: str) -> int | list[int]:
    """Return the position among `numbers` that a key names, or several for a slice or a list.

    A slice leaves numbers out that are not there; anything else that is not there is refused.
    """
    if isinstance(key, slice):
        try:
            wanted = range(max(numbers) + 1)[key]
        except (TypeError, ValueError):
            raise _key_error(key, kind) from None
        return [at for at, number in enumerate(numbers) if number in wanted]
    if isinstance(key, (list, range)) or getattr(key, "ndim", 0) == 1:
        positions = [_choose(item, numbers, kind) for item in key]
        return [at for at in positions if isinstance(at, int)]
    if isinstance(key, str) and (match := LAYER_PATTERN.fullmatch(key)) and kind == "layer":
        key = int(match[1])
    if isinstance(key, (bool, str)) or not hasattr(key, "__index__"):
        raise _key_error(key, kind)
    try:
        number = operator.index(key)
    except TypeError:
        raise _key_error(key, kind) from None
    if -len(numbers) <= number < 0:
        return number % len(numbers)
    if number not in numbers:
        known = f"{kind}s are {numbers[0]} to" if len(numbers) > 1 else f"only {kind} is"
        problem = f"there is no {kind} {number}: the {known} {numbers[-1]}"
        raise AttnvizError(problem, f"try {numbers[-1]}")
    return numbers.index(number)


def cut_weights(weights: Tensor, rest: Sequence[Any]) -> Tensor:
    """Return the queries and keys of a head's weights that the rest of an index chooses."""
    try:
        return weights[tuple(rest)] if rest else weights
    except INDEX_ERRORS:
        raise misfit_index_error(weights.shape) from None


def misfit_index_error(shape: Sequence[int]) -> AttnvizError:
    return AttnvizError(
        f"a head has {shape_text(shape)} weights here, and the index names others",
        'count queries and keys from 0; a Trace knows their words: trace[5, 11, "it"]',
    )


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors of one shape as one; refuse none, and those of several shapes."""
    if not parts or len({part.shape for part in parts}) > 1:
        problem = "chooses nothing" if not parts else "chooses heads with weights of several shapes"
        raise AttnvizError(f"the index {problem}", INDEX_HINT)
    return torch.stack([*parts])


def _key_error(key: object, kind: str) -> AttnvizError:
    return AttnvizError(f"{reprlib.repr(key)} names no {kind}", INDEX_HINT)
