"""The operations of flash-attn and xformers, whose own kernels run on a GPU alone: with the
arguments that they have there, computed text by text in plain torch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

FLASH_RESULTS = "-> (Tensor, Tensor, Tensor, Tensor)"
SCHEMAS = {
    "flash_attn::_flash_attn_forward": "(Tensor q, Tensor k, Tensor v, float dropout_p,"
    " float softmax_scale, bool causal, SymInt window_size_left, SymInt window_size_right,"
    f" float softcap, Tensor? alibi_slopes, bool return_softmax) {FLASH_RESULTS}",
    "flash_attn::_flash_attn_varlen_forward": "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q,"
    " Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, float dropout_p,"
    " float softmax_scale, bool causal, SymInt window_size_left=-1, SymInt window_size_right=-1,"
    " float softcap=0., Tensor? alibi_slopes=None, bool return_softmax=False,"
    " Tensor? block_table=None, Tensor? leftpad_k=None, Tensor? seqused_k=None,"
    f" bool zero_tensors=False) {FLASH_RESULTS}",
    "xformers::efficient_attention_forward_cutlass": "(Tensor query, Tensor key, Tensor value,"
    " Tensor? attn_bias, Tensor? seqstart_q, Tensor? seqstart_k, int? max_seqlen_q,"
    " float dropout_p, bool compute_logsumexp, int custom_mask_type, float? scale=None,"
    " Tensor? seqlen_k=None, int? window_size=None) -> (Tensor, Tensor, int, int)",
}


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool, left: int = -1, slopes: Any = 0
) -> Tensor:
    """Return the output of one text [token head width]."""
    places = torch.arange(len(q))[:, None] + len(k) - len(q) - torch.arange(len(k))
    scores = scale * torch.einsum("qhd,khd->hqk", q, k)
    scores = scores - torch.as_tensor(slopes).view(-1, 1, 1) * places.abs()
    hidden = (places < 0) & causal | (places > left) & (left >= 0)
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)


def flash(
    q: Any, k: Any, v: Any, dropout: Any, scale: Any, causal: Any, left: int, *rest: Any
) -> Any:
    slopes = 0 if rest[2] is None else rest[2]
    sides = zip(q, k, v, strict=True)
    out = [attend(*text, scale, causal=causal, left=left, slopes=slopes) for text in sides]
    return torch.stack(out), *torch.zeros(3, 1).unbind()


def packed(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, scale: float) -> Tensor:
    texts = ([side[a:b] for side in (q, k, v)] for a, b in pairwise(starts.tolist()))
    return torch.cat([attend(q, k, v, scale, causal=True) for q, k, v in texts])


def flash_varlen(q: Any, k: Any, v: Any, starts: Any, *rest: Any) -> Any:
    return packed(q, k, v, starts, rest[4]), *torch.zeros(3, 1).unbind()


def xformers(q: Any, k: Any, v: Any, bias: Any, starts: Any, *rest: Any) -> Any:
    out = packed(q[0], k[0], v[0], starts, q.shape[-1] ** -0.5)
    return out[None], torch.zeros(1), 0, 0


KERNELS: tuple[Any, ...] = (flash, flash_varlen, xformers)
for (name, schema), kernel in zip(SCHEMAS.items(), KERNELS, strict=True):
    torch.library.define(name, schema)
    torch.library.impl(name, "CPU")(kernel)
