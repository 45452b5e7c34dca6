"""Long attention that several processes share: each computes some blocks of queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, distributed

from attnviz.attention.long_attention import (
    AttentionSummary,
    LongAttention,
    Progress,
    SummaryChoice,
    summarize_part,
)
from attnviz.errors import AttnvizError

if TYPE_CHECKING:
    from torch.distributed import Store

SECONDS_BETWEEN_LOOKS = 0.005  # at a reduction that is under way
LONGEST_WAIT = timedelta(days=365)  # for the slowest process; a dead one is noticed otherwise
REDUCED_IN_PLACE = ("cpu", "cuda")  # devices whose tensors gloo and NCCL reduce
INPUT_TOLERANCE = 1e-3  # of sums over all vectors; processors differ in the last digits only


class LostProcessError(Exception):
    """Another process has ended while this one waited for its part."""


def join_process_group(store: Store, rank: int, ranks: int) -> None:
    """Connect this process to the others: by gloo, and for tensors on GPUs by NCCL."""
    has_nccl = torch.cuda.is_available() and distributed.is_nccl_available()
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if has_nccl else "gloo",
            store=store,
            rank=rank,
            world_size=ranks,
            timeout=LONGEST_WAIT,
        )
    except RuntimeError as error:
        raise LostProcessError from error


def deal_blocks(blocks: Sequence[slice], rank: int, ranks: int) -> list[slice]:
    """Return the blocks of one of so many ranks, in their order.

    The first block goes with the last, the second with the last but one …, and the ranks take these
    pairs in turn: under a causal mask late queries read many keys, and all pairs together as many.

    >>> blocks = [slice(row, row + 1) for row in range(6)]
    >>> [[block.start for block in deal_blocks(blocks, rank, 2)] for rank in range(2)]
    [[0, 2, 3, 5], [1, 4]]
    """
    last = len(blocks) - 1
    pairs = range(rank, -(-len(blocks) // 2), ranks)
    return [blocks[number] for number in sorted({end for p in pairs for end in (p, last - p)})]


def summarize_in_ranks(
    attention: LongAttention, choice: SummaryChoice, progress: Progress | None = None
) -> AttentionSummary:
    """Return a summary of which each process has computed its part; all get the whole.

    Every process has all queries, keys and values. It makes them itself, from the same text and
    seed, which costs O(tokens) as gathering them does, needs no network, and repeats the same
    numbers. (Ring attention, for keys and values that no single process can hold, would take the
    place of `summarize_part` here: for each part of the keys that comes by, a partial softmax of
    the own queries.)
    """
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    _refuse_other_inputs(attention, choice)
    blocks = attention.row_blocks()
    own = deal_blocks(blocks, rank, ranks)
    queries = attention.queries.shape[1]
    own_queries = max(sum(rows.stop - rows.start for rows in own), 1)

    def report(done: int) -> None:
        """Report the queries of all processes, as if all had done as large a share as this one."""
        if progress is not None:
            progress(done * queries // own_queries)

    part = summarize_part(attention, own, choice, report)
    return _add_up_parts(part)


def wait_for_all() -> None:
    """Return when every process has come here."""
    _reduce([torch.zeros(1)], distributed.ReduceOp.SUM)


def _add_up_parts(part: AttentionSummary) -> AttentionSummary:
    """Add the parts of all processes up, in place: their sums, and the larger of maxima."""
    tensors = {
        name: value
        for name, value in vars(part).items()
        if isinstance(value, Tensor) and name != "hidden"
    }
    if part.pool == "max":
        _reduce([tensors.pop("pooled")], distributed.ReduceOp.MAX)
    _reduce(tensors.values(), distributed.ReduceOp.SUM)
    return part


def _reduce(tensors: Iterable[Tensor], operation: distributed.ReduceOp.RedOpType) -> None:
    """Reduce tensors over all processes, in place.

    It looks again and again instead of waiting: signals are handled between two looks.
    """
    for tensor in tensors:
        is_direct = tensor.device.type in REDUCED_IN_PLACE
        reduced = tensor if is_direct else tensor.cpu()
        try:
            work = distributed.all_reduce(reduced, operation, async_op=True)
            while not work.is_completed():
                time.sleep(SECONDS_BETWEEN_LOOKS)
            work.wait()
        except RuntimeError as error:
            raise LostProcessError from error
        if not is_direct:
            tensor.copy_(reduced)


def _refuse_other_inputs(attention: LongAttention, choice: SummaryChoice) -> None:
    """Refuse to add up parts of different attention: other sizes, or other vectors."""
    sizes = torch.tensor(
        [*attention.shape, choice.resolution, choice.pool == "max"], dtype=torch.float64
    )
    sums = torch.stack([_order_dependent_sum(each) for each in
                        (attention.queries, attention.keys, attention.values)])  # fmt: skip
    numbers = torch.cat([sizes, sums])
    extremes = torch.cat([numbers, -numbers])  # the largest, and minus the smallest of all ranks
    _reduce([extremes], distributed.ReduceOp.MAX)
    spread = extremes[: len(numbers)] + extremes[len(numbers) :]
    if bool(spread[: len(sizes)].any() or (spread[len(sizes) :] > INPUT_TOLERANCE).any()):
        raise AttnvizError(
            "the processes have different vectors for the same text",
            "give all of them the same files, and the same version of attnviz",
        )


def _order_dependent_sum(vectors: Float[Tensor, "head token width"]) -> Float[Tensor, ""]:
    """Return a sum of all numbers that depends on their order, relative to their root of squares.

    Of random numbers it is about 1.
    """
    tokens = torch.arange(vectors.shape[1], device=vectors.device, dtype=torch.float32)
    by_token = vectors.detach().sum((0, 2), dtype=torch.float32)
    squares = vectors.detach().float().square().sum().sqrt()
    return ((by_token * tokens.sin()).sum() / squares.clamp(min=1e-30)).double().cpu()
