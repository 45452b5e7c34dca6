"""Operations that are a whole attention: torch's fused ones, and those that packages register."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from attnviz.wings.listen.attended import Attended

SDPA = "scaled_dot_product_attention"
SDPA_ARGUMENTS = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
FUSED_NAMES = frozenset((
    SDPA,
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_fused_attention_overrideable",
))  # fmt: skip
PACKAGES = ("flash_attn", "xformers")


@cache
def is_packaged(func: Any) -> bool:
    """Return whether an operation is one of flash-attn or xformers, which register theirs."""
    return str(func._schema.name).split("::")[0].startswith(PACKAGES)


def attended_by_name(
    arguments: Mapping[str, Any], result: Any, *, crossed: bool, way: str = SDPA
) -> Attended:
    """Return the attention of an operation on queries, keys and values, by the names of its
    arguments.
    """
    mask = arguments.get("attn_mask", arguments.get("attn_bias"))
    scale = arguments.get("scale")
    is_boolean = mask is not None and mask.dtype == torch.bool
    return Attended(
        way=way,
        queries=arguments["query"],
        keys=arguments["key"],
        values=arguments["value"],
        outputs=result[0] if isinstance(result, (tuple, list)) else result,
        scale=1 / sqrt(arguments["query"].shape[-1]) if scale is None else float(scale),
        soft_cap=arguments.get("softcap") or None,
        mask=mask if is_boolean else arguments.get("visible"),
        bias=None if is_boolean else mask,
        first_position=0 if arguments.get("is_causal") else None,
        dropout=bool(arguments.get("dropout_p")),
        crossed=crossed,
    ).in_four_dimensions()


def attended_by_package(
    func: Any, arguments: Mapping[str, Any], result: Any, *, crossed: bool
) -> Attended | None:
    """Return the attention of an operation of flash-attn or xformers, which have tokens before
    heads; None if it has no queries, keys and values of four dimensions, as one of many texts in
    one row.
    """
    sides = [arguments.get(name, arguments.get(name[0])) for name in ("query", "key", "value")]
    if not all(isinstance(side, Tensor) and side.ndim == 4 for side in sides):
        return None
    queries, keys, values = (side.transpose(1, 2) for side in sides)
    outputs = result[0] if isinstance(result, (tuple, list)) else result
    distance = torch.arange(keys.shape[2]) - torch.arange(queries.shape[2])[:, None]
    distance = distance - (keys.shape[2] - queries.shape[2])  # the last query is the last key's
    distance = distance.to(queries.device)
    usual = {
        "query": queries,
        "key": keys,
        "value": values,
        "attn_mask": _added_to_scores(arguments, distance, queries.shape[1]),
        "visible": _visible_in_window(arguments, distance),
        "scale": arguments.get("softmax_scale", arguments.get("scale")),
        "softcap": arguments.get("softcap"),
        "dropout_p": arguments.get("dropout_p", arguments.get("p")),
    }
    way = str(func._schema.name).split("::")[0]
    return attended_by_name(usual, outputs.transpose(1, 2), crossed=crossed, way=way)


def _visible_in_window(arguments: Mapping[str, Any], distance: Tensor) -> Tensor | None:
    """Return which keys are neither after a query nor outside of the window around it."""
    left, right = (arguments.get(f"window_size_{side}", -1) for side in ("left", "right"))
    if arguments.get("causal"):
        right = 0
    if left < 0 and right < 0:
        return None
    visible = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        visible &= distance >= -left
    if right >= 0:
        visible &= distance <= right
    return visible[None, None]


def _added_to_scores(arguments: Mapping[str, Any], distance: Tensor, heads: int) -> Tensor | None:
    """Return a bias that was given, or that of ALiBi's slopes."""
    slopes = arguments.get("alibi_slopes")
    if slopes is None:
        bias: Tensor | None = arguments.get("attn_bias", arguments.get("bias"))
        return bias
    added: Tensor = -slopes.reshape(-1, heads, 1, 1) * distance.abs()
    return added
