"""The whole of a Trace under the names that design and README give: as JSON, and as .npz."""

from __future__ import annotations

import io
import json as standard_json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.attention.block import Block, Residual
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Projections, Trace
from attnviz.views.trace import array

Contents = dict[str, Any]


def contents(trace: Trace) -> Contents:
    """Everything in a Trace, by name; tensors are still tensors, None is what the trace has not."""
    named = {
        "attnviz": asdict(trace.provenance),
        "text": trace.tokens.text,
        "tokens": _tokens(trace.tokens),
        "variant": trace.variant.name,
        "embeddings": trace.embeddings,
        "layers": [_layer(layer) for layer in trace.layers],
    }
    if trace.keys is not trace.tokens:
        named |= {"key_text": trace.keys.text, "key_tokens": _tokens(trace.keys)}
    if trace.memory is not None:
        named |= {"memory_text": trace.memory.text, "memory_tokens": _tokens(trace.memory)}
    return named


def json(trace: Trace) -> Iterator[bytes]:
    """One object on one line for each array's row, so that it can be read and compared."""
    return written(contents(trace))


def written(named: Contents) -> Iterator[bytes]:
    """Named contents as JSON, chunk by chunk."""
    yield from (chunk.encode() for chunk in _json(named, ""))
    yield b"\n"


def npz(trace: Trace) -> Iterator[bytes]:
    """The same arrays; their names are paths into the JSON, such as `layers.0.weights`."""
    arrays = {name: _plain(value) for name, value in _flat(contents(trace), "")}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    yield file.getvalue()


def _tokens(tokens: Tokens) -> Contents:
    return {
        "ids": list(tokens.ids),
        "labels": list(tokens.labels),
        "bytes": [piece.hex() for piece in tokens.pieces],
    }


def _layer(layer: Layer) -> Contents:
    named = _attention(layer)
    if layer.cross is not None:
        named["cross"] = _attention(layer.cross)
    if layer.block is not None:
        named["block"] = _block(layer.block)
    return named


def _attention(layer: Layer) -> Contents:
    attended = layer.attended
    of_hand = attended.mixing if attended.mixed_by == "hand" else None
    dropped = attended.mixing if attended.mixed_by == "dropout" else None
    extra = {
        **_biases(layer.projections),
        "queries_before_rotary": layer.unturned and layer.unturned.queries,
        "keys_before_rotary": layer.unturned and layer.unturned.keys,
        "bias": attended.bias,
        "weights_by_hand": of_hand,
    }
    return {
        "layer": layer.layer,
        "scale": layer.scale,
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        "inputs": layer.inputs,
        **{name: layer.projections and getattr(layer.projections, name) for name in _MATRICES},
        "queries": layer.queries,
        "keys": layer.keys,
        "values": layer.values,
        "scores": attended.scores,
        "scaled_scores": attended.scaled_scores,
        "visible": layer.visible,
        "weights": attended.weights,
        "weights_after_dropout": dropped,
        "context": layer.context,
        **{name: value for name, value in extra.items() if value is not None},
    }


_MATRICES = ("w_query", "w_key", "w_value", "w_out")


def _biases(projections: Projections | None) -> Contents:
    names = ("b_query", "b_key", "b_value", "b_out")
    return {name: getattr(projections, name) for name in names} if projections else {}


def _block(block: Block) -> Contents:
    """What surrounds attention: each sub-layer with its residual, and the feed-forward matrices."""
    names = {"attention": block.attention, "cross": block.cross, "feed_forward": block.feed_forward}
    parameters = block.parameters
    return {
        "norm": block.place,
        **{name: _residual(each) for name, each in names.items() if each is not None},
        "hidden": block.hidden,
        "activation": parameters.activation,
        **{name: getattr(parameters, name) for name in ("w_1", "b_1", "w_2", "b_2")},
    }


def _residual(residual: Residual) -> Contents:
    return {
        "inputs": residual.inputs,
        "read": residual.read,
        "made": residual.made,
        "added": residual.added,
        "outputs": residual.outputs,
        "gain": residual.norm.gain,
        "shift": residual.norm.shift,
    }


def _json(value: Any, indent: str) -> Iterator[str]:
    """Objects with a line for each key; arrays with a line for each of their innermost rows."""
    deeper = indent + " "
    if isinstance(value, Tensor) and value.ndim > 1:
        yield from _lines("[]", ((deeper, _json(row, deeper)) for row in value), indent)
    elif isinstance(value, Tensor):
        yield standard_json.dumps(value.tolist())
    elif isinstance(value, dict):
        items = (
            (f"{deeper}{standard_json.dumps(key)}: ", _json(value[key], deeper)) for key in value
        )
        yield from _lines("{}", items, indent)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _lines("[]", ((deeper, _json(item, deeper)) for item in value), indent)
    else:
        yield standard_json.dumps(value, ensure_ascii=False)


def _lines(brackets: str, items: Iterator[tuple[str, Iterator[str]]], indent: str) -> Iterator[str]:
    separator = brackets[0] + "\n"
    for start, chunks in items:
        yield separator + start
        yield from chunks
        separator = ",\n"
    yield f"\n{indent}{brackets[1]}"


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every leaf with its path; what the trace has not is left out."""
    if isinstance(value, dict) and path != "attnviz":
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}.{number}")
    elif value is not None:
        yield path, value


def _plain(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return array(value)
    return np.asarray(standard_json.dumps(value) if isinstance(value, dict) else value)
