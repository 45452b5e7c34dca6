"""Operations that are a whole attention: torch's fused ones, and those that packages register."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnviz.wings.listen.attended import Attended

SDPA = "scaled_dot_product_attention"
SDPA_ARGUMENTS = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
FUSED = "scaled_dot_product"  # in the names of torch's operations, one for each kernel
# Those with tokens before heads, or with texts packed into one row.
KERNEL_NAMES = frozenset(("_flash_attention_forward", "_efficient_attention_forward"))
PACKAGES = ("flash_attn", "xformers", "torch_attn")
# What operations call each part.
NAMES = {
    "queries": ("query", "q"),
    "keys": ("key", "k"),
    "values": ("value", "v"),
    "added": ("attn_mask", "attn_bias", "bias"),
    "scale": ("scale", "softmax_scale"),
    "dropout": ("dropout_p", "p"),
    "is_causal": ("is_causal", "causal", "custom_mask_type"),
    "query_starts": ("cu_seqlens_q", "cu_seq_q", "cum_seq_q", "seqstart_q"),
    "key_starts": ("cu_seqlens_k", "cu_seq_k", "cum_seq_k", "seqstart_k"),
    "slopes": ("alibi_slopes",),
    "unread": (
        "block_table", "page_table", "leftpad_k", "seqused_k", "seqlen_k", "k_new", "window_size",
    ),
}  # fmt: skip
TOP_LEFT = 1  # xformers' custom_mask_type, of a causal mask whose first query is the first key's


def find_part(arguments: Mapping[str, Any], part: str) -> Any:
    """Return an argument by one of its names; None if none of them is given."""
    given = (arguments.get(name) for name in NAMES[part])
    return next((value for value in given if value is not None), None)


def attended_by_name(arguments: Mapping[str, Any], result: Any, way: str = SDPA) -> Attended:
    """Return the attention of an operation on queries, keys and values, by the names of its
    arguments.
    """
    added, scale = find_part(arguments, "added"), find_part(arguments, "scale")
    queries = find_part(arguments, "queries")
    is_boolean = added is not None and added.dtype == torch.bool
    return Attended(
        way=way,
        queries=queries,
        keys=find_part(arguments, "keys"),
        values=find_part(arguments, "values"),
        outputs=result[0] if isinstance(result, (tuple, list)) else result,
        scale=1 / sqrt(queries.shape[-1]) if scale is None else float(scale),
        soft_cap=arguments.get("softcap") or None,
        mask=added if is_boolean else None,
        bias=None if is_boolean else added,
        first_position=0 if find_part(arguments, "is_causal") else None,
        dropout=bool(find_part(arguments, "dropout")),
    ).in_four_dimensions()


def attended_by_package(arguments: Mapping[str, Any], result: Any, way: str) -> Attended | None:
    """Return the attention of an operation that has tokens before heads, and may have texts of
    several lengths in one row; None if its keys are elsewhere than in one tensor.
    """
    starts = [find_part(arguments, name) for name in ("query_starts", "key_starts")]
    sides = [find_part(arguments, name) for name in ("queries", "keys", "values")]
    dimensions = {side.ndim if isinstance(side, Tensor) else 0 for side in sides}
    is_unread = find_part(arguments, "unread") is not None
    if is_unread or not dimensions <= ({4} if starts[0] is None else {3, 4}):
        return None
    outputs = result[0] if isinstance(result, (tuple, list)) else result
    by_side = zip((*sides, outputs), (starts[0], starts[1], starts[1], starts[0]), strict=True)
    queries, keys, values, outputs = (_heads_first(side, start) for side, start in by_side)
    named = {**arguments, "query": queries, "key": keys, "value": values}
    return _with_positions(attended_by_name(named, outputs, way), arguments, *starts)


def _heads_first(side: Tensor, starts: Tensor | None) -> Tensor:
    """Return tokens [item token head width], or packed ones, as [item head token width]; of short
    texts the end is empty.
    """
    if starts is not None:
        packed, sizes = side.flatten(0, -3)[: int(starts[-1])], starts.diff().tolist()
        side = pad_sequence(list(torch.split(packed, sizes)), batch_first=True)
    return side.transpose(1, 2)


def _with_positions(
    attended: Attended, arguments: Mapping[str, Any], *starts: Tensor | None
) -> Attended:
    """Return the same without keys that are after a query, outside of the window around it or after
    the end of its text, and with ALiBi's biases. The last query is the last key's.
    """
    is_causal, slopes = attended.first_position is not None, find_part(arguments, "slopes")
    is_top_left = arguments.get("custom_mask_type") == TOP_LEFT
    left, right = (arguments.get(f"window_size_{side}") for side in ("left", "right"))
    left, right = (-1 if size is None else size for size in (left, 0 if is_causal else right))
    sizes = attended.shape[2:]
    if starts[0] is None and left < 0 and right <= 0 and slopes is None:  # long texts have no table
        is_shifted = is_causal and not is_top_left
        return replace(attended, first_position=sizes[1] - sizes[0]) if is_shifted else attended
    device = attended.values.device
    counts = [
        torch.tensor([size], device=device) if start is None else start.diff()
        for size, start in zip(sizes, starts, strict=True)
    ]
    query_counts, key_counts = (count[:, None, None, None].to(device) for count in counts)
    queries, keys = (torch.arange(size, device=device) for size in sizes)
    shift = 0 if is_top_left else key_counts - query_counts
    distance = keys - queries[:, None] - shift
    visible = (queries[:, None] < query_counts) & (keys < key_counts)
    visible &= (distance >= -left) | (left < 0)
    visible &= (distance <= right) | (right < 0)
    bias = attended.bias
    if slopes is not None:
        bias = -slopes.reshape(-1, attended.shape[1], 1, 1) * distance.abs()
    return replace(attended, mask=visible, bias=bias, first_position=None)
