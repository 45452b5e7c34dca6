"""Recognises masks of long texts that are a band of keys; keeps them as a MaskRule.

transformers builds a model's mask from a predicate, as a matrix of queries × keys, and hands it
from layer to layer. For a long text a band is found instead, by building some rows at a time, and
a single number goes through the model's code in place of the matrix. It has the matrix's shape,
and the attention function recognises it by its memory. A model whose code changes its masks loses
the rule; then the pass has to be repeated with matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.attention.mask_rule import MaskRule
from attnviz.machine import memory
from attnviz.wording.words import counted

LARGEST_MATRIX = 2**22  # cells of a mask, 2,048 × 2,048, up to which a matrix is built
CELLS_AT_ONCE = 2**22
MATRIX_COPIES = 3  # of a mask that is no band: it, and temporary ones
MaskBuilder = Callable[..., Tensor | None]


class MaskRuleLost(Exception):
    """The error of a model whose code changes its masks, so that a rule is not recognised."""


@dataclass(eq=False)
class BandMasks:
    """The masks of one forward pass that are bands, with what stands for each in the model."""

    is_used: bool = False  # else every mask is a matrix
    known: list[tuple[Tensor, MaskRule]] = field(default_factory=list)

    def build(
        self, build_mask: MaskBuilder, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Tensor | None:
        """Return a mask by transformers' function, or for a large band what stands for it.

        A large mask that is no band is refused if it does not fit in memory.
        """
        if arguments or not self.is_used or keywords["batch_size"] != 1:
            return build_mask(*arguments, **keywords)
        queries, keys = keywords["q_length"], keywords["kv_length"]
        if queries * keys <= LARGEST_MATRIX:
            return build_mask(**keywords)
        first = build_mask(**{**keywords, "q_length": 1})
        if first is None:  # no mask is needed
            return None
        rule = find_band(build_mask, keywords)
        if rule is None:
            subject = f"the mask of {counted(queries, 'token')} as a matrix"
            memory.refuse_too_little_memory(MATRIX_COPIES * queries * keys, subject)
            return build_mask(**keywords)
        stand_in = first.new_zeros(1, 1, 1, 1).expand(1, 1, queries, keys)
        self.known.append((stand_in, rule))
        return stand_in

    def rule_of(self, mask: Tensor, queries: int, keys: int) -> MaskRule | None:
        """Return the rule for which a mask stands; None for a matrix.

        Raises MaskRuleLost for any other mask in a pass that has rules: it may be made of one.
        """
        for stand_in, rule in self.known:
            if mask.data_ptr() == stand_in.data_ptr() and not any(mask.stride()[-2:]):
                if mask.shape != stand_in.shape or mask.shape[-2:] != (queries, keys):
                    raise MaskRuleLost
                return rule
        if self.known:
            raise MaskRuleLost
        return None


def find_band(build_mask: MaskBuilder, keywords: Mapping[str, Any]) -> MaskRule | None:
    """Return the rule by which every row of a mask is one band of keys; None if it is not one."""
    queries, keys = keywords["q_length"], keywords["kv_length"]
    query_offset, key_offset = (int(keywords.get(f"{side}_offset", 0)) for side in ("q", "kv"))
    step = max(1, CELLS_AT_ONCE // keys)
    parts = []
    for first in range(0, queries, step):
        part = {"q_length": min(step, queries - first), "q_offset": query_offset + first}
        rows = build_mask(**{**keywords, **part})
        if rows is None:
            return None
        # A mask of numbers adds 0 to the scores of visible keys.
        ends = _row_ends(rows[0, 0] if rows.dtype == torch.bool else rows[0, 0] == 0)
        if ends is None:
            return None
        parts.append(ends)
    starts, stops = (torch.cat(ends) for ends in zip(*parts, strict=True))
    offset = query_offset - key_offset
    positions = torch.arange(offset, offset + queries, device=starts.device)
    before = int((positions - starts).max()) if bool(starts.any()) else None
    after = int((stops - 1 - positions).max()) if bool((stops < keys).any()) else None
    if min(before or 0, after or 0) < 0:
        return None
    band_starts = torch.zeros_like(starts) if before is None else positions - before
    band_stops = torch.full_like(stops, keys) if after is None else positions + after + 1
    is_band = torch.equal(band_starts.clamp(0, keys), starts)
    if not is_band or not torch.equal(band_stops.clamp(0, keys), stops):
        return None
    return MaskRule(before=before, after=after, offset=offset)


def _row_ends(
    visible: Bool[Tensor, "query key"],
) -> tuple[Int[Tensor, "query"], Int[Tensor, "query"]] | None:
    """Return where the visible keys of each row begin and end; None if they are not side by side,
    or a row has none."""
    flags, keys = visible.to(torch.uint8), visible.shape[1]
    starts, stops = flags.argmax(1), keys - flags.flip(1).argmax(1)
    if not torch.equal(stops - starts, visible.sum(1)):
        return None
    return starts, stops
