"""stub"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.attention import arithmetic
from attnviz.attention.mask_rule import MaskRule
from attnviz.cells import FULL_SLICE


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionSummary:
    contexts: Tensor
    pooled: Tensor
    hidden: Tensor
    row_height: int
    column_width: int
    pool: str
    log_sums: Tensor
    entropy: Tensor
    largest_weight: Tensor
    largest_position: Tensor
    on_first: Tensor
    on_self: Tensor
    on_previous: Tensor
    mean_distance: Tensor
    received: Tensor
    by_distance: Tensor
    distance_edges: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class LongAttention:
    queries: Tensor
    keys: Tensor
    values: Tensor
    scale: float
    mask: MaskRule
    soft_cap: float | None = None
    slopes: Tensor | None = None
    w_score: Tensor | None = None

    def rows(self, rows=FULL_SLICE, columns=FULL_SLICE):
        H = self.queries.shape[0]
        K = self.keys.shape[1]
        s = (
            arithmetic.similarity(self.queries[:, rows], arithmetic.repeat_groups(self.keys, H))
            * self.scale
        )
        if self.slopes is not None:
            q = torch.arange(self.queries.shape[1])[rows]
            k = torch.arange(self.keys.shape[1])
            s = s - self.slopes[:, None, None] * (q[:, None] - k[None]).abs()
        return arithmetic.attention_weights(
            s, self.mask.visible(self.queries.shape[1], K, self.queries.device)[..., rows, :]
        )[..., columns]

    def summarize(self, *, resolution=512, pool="mean", statistics=True, progress=None):
        H, T, K = self.queries.shape[0], self.queries.shape[1], self.keys.shape[1]
        h, w = -(-T // resolution), -(-K // resolution)
        ctx, pooled, hid, ent, lw, lp, f, s, p, md = [], [], [], [], [], [], [], [], [], []
        rec = torch.zeros(H, K)
        edges = [0, 1]
        while edges[-1] < max(T, K):
            edges.append(edges[-1] * 2)
        edges = torch.tensor(edges)
        by = torch.zeros(H, len(edges) - 1)
        vals = arithmetic.repeat_groups(self.values, H)
        ki = torch.arange(K)
        for a in range(0, T, h):
            r = slice(a, min(a + h, T))
            wt = self.rows(r).float()
            ctx.append(wt @ vals.float())
            pad = torch.nn.functional.pad(wt, (0, -K % w))
            pooled.append(pad.reshape(H, wt.shape[1], -1, w).sum(-1).mean(1))
            vis = self.mask.visible(T, K, self.queries.device)[r]
            vp = torch.nn.functional.pad(vis.float(), (0, -K % w)).reshape(vis.shape[0], -1, w)
            hid.append(vp.sum((0, 2)) == 0)
            ent.append(-(wt * wt.clamp_min(1e-30).log2()).sum(-1))
            m = wt.max(-1)
            lw.append(m.values)
            lp.append(m.indices)
            qi = torch.arange(T)[r]
            f.append(wt[..., 0])
            s.append(wt[:, range(len(qi)), qi.clamp_max(K - 1)])
            p.append(wt[:, range(len(qi)), (qi - 1).clamp_min(0)] * (qi > 0))
            d = (qi[:, None] - ki[None]).abs()
            md.append((wt * d).sum(-1))
            rec += wt.sum(1)
            b = torch.bucketize(d, edges, right=True) - 1
            by.index_add_(1, b.flatten(), wt.flatten(1))
        c = lambda x: torch.cat(x, 1)
        return AttentionSummary(
            contexts=c(ctx),
            pooled=torch.stack(pooled, 1),
            hidden=torch.stack(hid),
            row_height=h,
            column_width=w,
            pool=pool,
            log_sums=c(lw),
            entropy=c(ent),
            largest_weight=c(lw),
            largest_position=c(lp),
            on_first=c(f),
            on_self=c(s),
            on_previous=c(p),
            mean_distance=c(md),
            received=rec,
            by_distance=by,
            distance_edges=edges,
        )
