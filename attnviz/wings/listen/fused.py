"""A whole attention as one operation: torch's, those of packages, and flex_attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import sqrt
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import _disable_current_modes

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
# No dispatch mode can see flex_attention: its code is exchanged while one listens.
FLEX_ARGUMENTS = ("query", "key", "value", "score_mod", "block_mask", "scale", "enable_gqa")
FlexListener = Callable[[dict[str, Any], Any], None]  # takes the arguments and the result
FLEX: Any = flex_attention
_original = FunctionType(FLEX.__code__, FLEX.__globals__, argdefs=FLEX.__defaults__)
_original.__kwdefaults__ = FLEX.__kwdefaults__
_listeners: list[FlexListener] = []


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


@contextmanager
def exchanging_flex(listener: FlexListener) -> Iterator[None]:
    """Call `listener` after each call of flex_attention inside the block, by whatever name a
    program imported it: the function stays, and has other code.
    """
    _listeners.append(listener)
    FLEX.__code__ = _stand_in.__code__
    try:
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            FLEX.__code__ = _original.__code__


def _stand_in(*inputs, **keywords):  # type: ignore[no-untyped-def]
    from attnviz.wings.listen.fused import call_flex  # its globals are those of flex_attention

    return call_flex(inputs, keywords)


def call_flex(inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call flex_attention without any mode, which it refuses, and tell the listeners."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        result = _original(*inputs, **keywords)
    arguments = dict(zip(FLEX_ARGUMENTS, inputs, strict=False)) | keywords
    for listener in _listeners:
        listener(arguments, result)
    return result


def attended_by_flex(arguments: dict[str, Any], result: Any, way: str) -> Attended:
    with _disable_current_modes(), torch.no_grad():
        attended = attended_by_name(arguments, result, way)
        return _with_terms(attended, arguments.get("score_mod"), arguments.get("block_mask"))


def _with_terms(attended: Attended, score_mod: Any, block_mask: Any) -> Attended:
    """Return the same with what a score_mod adds to the scaled scores as its bias, and with which
    keys a block_mask lets a query attend to.
    """
    queries, keys = attended.queries, attended.keys
    assert queries is not None
    assert keys is not None
    sizes = (*queries.shape[:3], keys.shape[2])
    indices = [torch.arange(size, device=queries.device) for size in sizes]
    visible = bias = None
    if block_mask is not None:
        visible = _over_all(block_mask.mask_mod, indices)
    if score_mod is not None:
        shared = keys.repeat_interleave(sizes[1] // keys.shape[1], dim=1)
        scores = queries.float() @ shared.float().mT * attended.scale
        bias = _over_all(score_mod, indices, scores) - scores
    return replace(attended, mask=visible, bias=bias)


def _over_all(function: Any, indices: list[Tensor], *scores: Tensor) -> Tensor:
    """Call a function of a batch, a head, a query and a key, or of their score before these, for
    all of them.
    """
    for mapped in (3, 2, 1, 0):  # the innermost dimension first
        dims = [0 if at == mapped else None for at in range(4)]
        function = torch.vmap(function, in_dims=(*[0] * len(scores), *dims))
    result: Tensor = function(*scores, *indices)
    return result
