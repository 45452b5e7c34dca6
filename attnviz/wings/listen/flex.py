"""flex_attention, which no dispatch mode can see: its code is exchanged while one listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import _disable_current_modes

from attnviz.wings.listen.attended import Attended
from attnviz.wings.listen.fused import attended_by_name

FLEX_ARGUMENTS = ("query", "key", "value", "score_mod", "block_mask", "scale", "enable_gqa")
FlexListener = Callable[[dict[str, Any], Any], None]  # takes the arguments and the result
FLEX: Any = flex_attention
_original = FunctionType(FLEX.__code__, FLEX.__globals__, argdefs=FLEX.__defaults__)
_original.__kwdefaults__ = FLEX.__kwdefaults__
_listeners: list[FlexListener] = []


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
    from attnviz.wings.listen.flex import call_flex  # its globals are those of flex_attention

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
