"""Traces of attention that was heard."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose, sqrt
from typing import Any

import torch
from torch import Tensor

from attnviz.errors import Note
from attnviz.tokens.tokens import numbered_tokens
from attnviz.traces.external.from_weights import from_weights
from attnviz.traces.from_text import trace
from attnviz.traces.matrices import Matrices
from attnviz.traces.origin import FromMatrices, FromProgram, FromWeights
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.wings.listen.attended import Attended

SCALE_TOLERANCE = 1e-4


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
def trace_attended(module: str, attended: Attended, item: int, labels: Any) -> Trace:
    """Return the Trace of one item (from 1) of an attention, with these labels where they fit."""
    queries, keys = token_labels(attended, item, labels)
    if attended.queries is None or attended.keys is None:
        return _trace_weights(module, attended, item, queries, keys)
    # Queries are multiplied by what the program's scale is beside that of the settings.
    is_unscaled = isclose(attended.scale, 1, rel_tol=SCALE_TOLERANCE)
    factor = attended.scale if is_unscaled else attended.scale * sqrt(attended.queries.shape[-1])
    is_square = attended.shape[2] == attended.shape[3]
    is_causal = attended.mask is None and attended.first_position == 0 and is_square
    matrices = Matrices(
        tokens=tuple(queries),
        key_tokens=None if attended.is_of_one_text and queries == keys else tuple(keys),
        item=item,
        items=attended.shape[0],
        heads=attended.shape[1],
        kv_heads=attended.keys.shape[1],
        queries=attended.queries[item - 1].float() * factor,
        keys=attended.keys[item - 1].float(),
        values=attended.values[item - 1].float(),
        mask=None if attended.bias is None else _of_item(attended.bias, item).float(),
        visible=None if is_causal else _visible(attended, item),
    )
    settings = Settings(
        variant="causal" if is_causal else Settings.variant,
        soft_cap=attended.soft_cap,
        scale=False if is_unscaled else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # of long texts: names options that listening lacks
        given = trace(None, settings, given=matrices)
    return _with_origin(given, module, attended.way)


def _with_origin(heard: Trace, module: str, way: str) -> Trace:
    """Return a Trace that says where its numbers are from, instead of settings that drew none."""
    given = heard.origin
    assert isinstance(given, FromMatrices)
    origin = FromProgram(
        settings=given.settings, matrices=given.matrices, module=module, operation=way
    )
    facts = {"heard in": module, "computed by": way, "item": given.matrices.item}
    provenance = replace(heard.provenance, settings=facts)
    return replace(heard, origin=origin, provenance=provenance)


def _trace_weights(
    module: str, attended: Attended, item: int, queries: Sequence[str], keys: Sequence[str]
) -> Trace:
    """Return the Trace of an attention of which only the weights are known."""
    assert attended.weights is not None
    is_one_text = attended.is_of_one_text and queries == keys[-len(queries) :]
    sides = (keys, None) if is_one_text else (queries, keys)
    return from_weights((attended.weights,), sides[0], keys=sides[1], item=item, name=module)


def join_layers(traces: Mapping[str, Trace]) -> Trace:
    """Return one Trace with the layers of several, by their names, which have the same tokens."""
    first = next(iter(traces.values()))
    if len(traces) == 1:
        return first
    layers = tuple(replace(each.layers[0], layer=at) for at, each in enumerate(traces.values()))
    joint, origin = replace(first, layers=layers), first.origin
    if isinstance(origin, FromWeights):
        return replace(joint, origin=replace(origin, name=joint_name([*traces])))
    origins = (each.origin for each in traces.values())
    ways = dict.fromkeys(each.operation for each in origins if isinstance(each, FromProgram))
    return _with_origin(joint, joint_name([*traces]), " and ".join(ways))


def joint_name(names: Sequence[str]) -> str:
    """Return one name for several modules.

    >>> joint_name(["layers.0.attn", "layers.1.attn"]), joint_name(["encode", "decode", "mix"])
    ('layers.*.attn', 'encode and 2 more')
    """
    parts = [name.split(".") for name in names]
    columns = [{*column} for column in zip(*parts, strict=False)]
    is_alike = len({*map(len, parts)}) == 1
    if is_alike and all(len(each) == 1 or all(map(str.isdigit, each)) for each in columns):
        return ".".join("*" if len(each) > 1 else min(each) for each in columns)
    return f"{names[0]} and {len(names) - 1} more"


def _of_item(tensor: Tensor, item: int) -> Tensor:
    """Return one item [head query key] of what may be the same for all."""
    return tensor[min(item - 1, len(tensor) - 1)]


def _visible(attended: Attended, item: int) -> Tensor | None:
    """Return which keys are visible, for all heads or for each; None if all are."""
    if attended.mask is None and attended.first_position is None:
        return None
    visible = _of_item(attended.visible(), item)
    return visible[0] if bool((visible == visible[:1]).all()) else visible


def token_labels(attended: Attended, item: int, labels: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return labels of the queries and of the keys: those that are given, where they are as many,
    else x1, x2, … Queries that are fewer than the keys of the same text are its last tokens.
    """
    *_, queries, keys = attended.shape
    names = list_labels(labels, item)
    key_names = names if len(names) == keys else numbered_tokens(keys).labels
    if attended.is_of_one_text:
        return key_names[keys - queries :], key_names
    return names if len(names) == queries else numbered_tokens(queries).labels, key_names


def list_labels(given: Any, item: int) -> list[str]:
    """Return the labels of one item: of a text, of a list for all, or of a list of lists."""
    labels = given.tolist() if isinstance(given, Tensor) else () if given is None else given
    labels = labels.split() if isinstance(labels, str) else list(labels)
    if labels and all(isinstance(each, (list, tuple)) for each in labels):
        labels = labels[min(item, len(labels)) - 1]
    return [str(each) for each in labels]


def difference_from_outputs(attended: Attended, heard: Trace, item: int) -> float | None:
    """Return how far weights · values are from what the program computed, relative to the largest
    number; None if it dropped some weights.
    """
    if attended.dropout:
        return None
    outputs, layer = attended.outputs[item - 1].float(), heard.layers[0]
    contexts = layer.attended.contexts
    if layer.weights_alone:
        contexts = layer.attended.weights @ attended.values[item - 1].float()
    differences = [
        (contexts[head] - outputs[head])[torch.as_tensor(layer.visible_counts(head)) > 0].abs()
        for head in range(layer.heads)
    ]
    largest = max((float(each.max()) for each in differences if each.numel()), default=None)
    return None if largest is None else largest / max(float(outputs.abs().max()), 1e-12)
