"""Attention over long texts, computed without a matrix: it is held against the plain arithmetic."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor
from torch.testing import assert_close

from attnviz.analysis.measures import entropy, normalize_rows
from attnviz.attention import arithmetic, fused_calls, long_attention, tiles
from attnviz.attention.arithmetic import AttentionStages
from attnviz.attention.long_attention import (
    AttentionSummary,
    LongAttention,
    SummaryChoice,
    summarize_part,
)
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.variants import VARIANTS, Variant
from attnviz.cells import StoredCells
from attnviz.vectors.positions import alibi_slopes, distance_bias

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of few tokens, so that short texts have many."""
    monkeypatch.setattr(long_attention, "ROWS_AT_ONCE", {"cpu": 8})
    monkeypatch.setattr(tiles, "KEYS_PER_TILE", {"cpu": 12})


def join_parts(parts: Iterable[AttentionSummary]) -> AttentionSummary:
    """Return the summary of which these are the parts: their sums, and the larger of maxima."""
    return reduce(_add_parts, parts)


def _add_parts(first: AttentionSummary, second: AttentionSummary) -> AttentionSummary:
    joined = {}
    for name, value in vars(first).items():
        other = getattr(second, name)
        if not isinstance(value, Tensor) or name == "hidden":
            joined[name] = value
        elif name == "pooled" and first.pool == "max":
            joined[name] = torch.maximum(value, other)
        else:
            joined[name] = value + other
    return AttentionSummary(**joined)


def random_attention(
    query_count: int, key_count: int, dtype: torch.dtype = torch.float64, **changes: Any
) -> LongAttention:
    """Two heads that share the keys of one group, with values of another width."""
    generator = torch.Generator().manual_seed(query_count * 1000 + key_count)
    vectors = [
        torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)
        for size in ((2, query_count, 6), (1, key_count, 6), (1, key_count, 5))
    ]
    names = dict(zip(("queries", "keys", "values"), vectors, strict=True))
    return LongAttention(**{"scale": 0.4, "mask": MaskRule(), **names, **changes})


def whole_attention(attention: LongAttention) -> AttentionStages:
    """The same by the plain arithmetic, in the same precision."""
    heads, queries, keys = attention.shape
    dtype = torch.float64 if attention.queries.dtype == torch.float64 else torch.float32
    keys_of_heads = arithmetic.repeat_groups(attention.keys.to(dtype), heads)
    score: Any = arithmetic.similarity
    extra = () if attention.w_score is None else (attention.w_score,)
    if extra:
        score = arithmetic.additive_similarity
    bias = attention.bias
    if attention.slopes is not None:
        places = torch.arange(queries)[:, None] + attention.mask.offset
        distance = (places - torch.arange(keys)).abs()
        bias = -attention.slopes[:, None, None] * distance
    return arithmetic.compute_attention(
        score(attention.queries.to(dtype), keys_of_heads, *extra),
        attention.values.to(dtype),
        visible_cells(attention),
        scale=attention.scale,
        soft_cap=attention.soft_cap,
        bias=bias,
        mask=attention.mask_scores,
        sink=attention.sink,
    )


def visible_cells(attention: LongAttention) -> Tensor:
    """The rule as a matrix for each head, by comparing all positions at once."""
    heads, queries, keys = attention.shape
    rule = attention.mask
    ahead = torch.arange(keys) - (torch.arange(queries)[:, None] + rule.offset)
    band = (rule.before is None or ahead >= -rule.before) & torch.ones_like(ahead, dtype=torch.bool)
    band &= torch.tensor(True) if rule.after is None else ahead <= rule.after
    return (band if rule.matrix is None else band & rule.matrix).expand(heads, queries, keys)


def assert_same(attention: LongAttention, resolution: int = 5) -> None:
    """Every field of the summary equals what the whole matrix gives, and so do all rows."""
    stages = whole_attention(attention)
    weights = stages.weights
    tolerance = TOLERANCE[weights.dtype]

    def assert_field(actual: Tensor | None, expected: Tensor) -> None:
        assert actual is not None
        assert_close(actual.double(), expected.double(), atol=tolerance, rtol=tolerance)

    summary = attention.summarize(SummaryChoice(resolution=resolution))
    assert_field(attention.rows(slice(None)), weights)
    assert_field(summary.contexts, stages.contexts)
    for name, expected in expected_statistics(attention, weights).items():
        assert_field(getattr(summary, name), expected)
    assert_largest(summary, weights)
    hidden = ~visible_cells(attention).numpy()
    for head in range(len(weights)):
        cells = StoredCells(weights[head].numpy(), hidden[head])
        pooled = cells.pooled(summary.row_height, summary.column_width, share=True)
        assert_field(summary.pooled[head], torch.from_numpy(pooled.values))
        blocks = (
            summary.hidden
            if summary.hidden.ndim == 2
            else summary.hidden[head % len(summary.hidden)]
        )
        assert blocks.tolist() == pooled.hidden.tolist()


def expected_statistics(
    attention: LongAttention, weights: Float[Tensor, "head query key"]
) -> dict[str, Tensor]:
    """The statistics by their definitions."""
    _, queries, keys = weights.shape
    place = torch.arange(queries)[:, None] + attention.mask.offset
    distance = (place - torch.arange(keys)).abs()
    shares = normalize_rows(weights)
    edges = attention.distance_edges()
    bins = [(distance >= low) & (distance < high) for low, high in pairwise(edges)]
    return {
        "entropy": entropy(shares),
        "largest_weight": weights.amax(-1),
        "on_first": weights[..., 0],
        "on_self": (weights * (torch.arange(keys) == place)).sum(-1),
        "on_previous": (weights * (torch.arange(keys) == place - 1)).sum(-1),
        "mean_distance": (shares * distance).sum(-1),
        "received": weights.sum(-2),
        "by_distance": torch.stack([(weights * each).sum((1, 2)) for each in bins], -1) / queries,
    }


def assert_largest(summary: AttentionSummary, weights: Float[Tensor, "head query key"]) -> None:
    """The largest weight is where it is said to be; a row without keys has none."""
    assert summary.largest_position is not None
    empty = weights.sum(-1) == 0
    assert (summary.largest_position[empty] == -1).all()
    weights_there = weights.gather(-1, summary.largest_position.clamp(min=0)[..., None])[..., 0]
    assert_close(weights_there, weights.amax(-1), atol=1e-6, rtol=1e-6)


LENGTHS = st.tuples(st.integers(1, 45), st.integers(1, 45))
REACHES = st.none() | st.integers(0, 30)


SCALES = st.sampled_from([0.4, 9.0, 200.0])  # logits are within bounds, beyond them, far beyond


@given(LENGTHS, REACHES, REACHES, st.integers(0, 20), st.integers(1, 60), SCALES)
def test_any_length_window_offset_resolution_and_scale_gives_the_numbers_of_the_matrix(
    lengths: tuple[int, int],
    before: int | None,
    after: int | None,
    offset: int,
    resolution: int,
    scale: float,
) -> None:
    rule = MaskRule(before=before, after=after, offset=offset)
    assert_same(random_attention(*lengths, mask=rule, scale=scale), resolution)


@given(LENGTHS, REACHES, SCALES, st.integers(1, 9), st.data())
def test_any_matrix_in_a_band_gives_the_numbers_of_the_matrix(
    lengths: tuple[int, int], before: int | None, scale: float, sparsity: int, data: st.DataObject
) -> None:
    """Tiles are hidden wholly, in part, or not at all, and so are rows."""
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    heads = data.draw(st.integers(1, 2))
    tiles_hidden = np.kron(generator.integers(0, 3, (heads, 8, 8)), np.ones((1, 6, 6)))
    noise = generator.integers(0, sparsity, (heads, 48, 48))
    visible = np.where(tiles_hidden == 1, noise > 0, tiles_hidden == 0)
    matrix = torch.from_numpy(visible[:, : lengths[0], : lengths[1]])
    rule = MaskRule(before=before, after=data.draw(REACHES), matrix=matrix)
    assert_same(random_attention(*lengths, mask=rule, scale=scale))


@given(LENGTHS, st.integers(1, 60), SCALES, REACHES, st.booleans())
@example(lengths=(45, 45), resolution=9, scale=200.0, after=None, statistics=False)
def test_maxima_of_blocks_are_those_of_the_matrix(
    lengths: tuple[int, int], resolution: int, scale: float, after: int | None, statistics: bool
) -> None:
    attention = random_attention(*lengths, scale=scale, mask=MaskRule(after=after))

    summary = attention.summarize(SummaryChoice(resolution, "max", statistics))

    height, width = summary.row_height, summary.column_width
    weights = whole_attention(attention).weights.numpy()
    row_starts, column_starts = (
        range(0, size, step) for size, step in zip(lengths, (height, width), strict=True)
    )
    expected = np.maximum.reduceat(
        np.maximum.reduceat(weights, row_starts, axis=1), column_starts, axis=2
    )
    assert_close(summary.pooled, torch.from_numpy(expected), atol=1e-12, rtol=1e-10)


WINDOWED_VARIANTS = Variant("windowed", "", window=7), Variant("local", "", window=7, causal=True)


@pytest.mark.parametrize(
    "variant", [*VARIANTS.values(), *WINDOWED_VARIANTS], ids=lambda each: each.name
)
def test_each_variant_hides_what_it_does_not_see(variant: Variant) -> None:
    rule = MaskRule.of_variant(variant)
    hidden = rule.hidden(slice(3, 30), slice(0, 25), torch.device("cpu"))
    expected = [
        [
            (variant.causal and key > query)
            or (variant.window is not None and abs(query - key) >= variant.window)
            for query in range(3, 30)
        ]
        for key in range(25)
    ]
    assert hidden.tolist() == expected

    queries = random_attention(30, 25).queries * variant.compared
    scale = arithmetic.score_scale(variant, 6)
    assert_same(random_attention(30, 25, queries=queries, scale=scale, mask=rule))


EXTRAS: dict[str, Any] = {
    "alibi": {"slopes": torch.tensor(alibi_slopes(2))},
    "soft cap": {"soft_cap": 0.5},
    "sink": {"sink": torch.tensor([0.3, 50.0], dtype=torch.float64)},
    "bias of each head": {"bias": torch.arange(3200.0).view(2, 40, 40) % 7},
    "scores of a mask": {"mask_scores": torch.arange(1600.0).view(40, 40) / 99},
    "a mask of -inf": {"mask_scores": (1 - torch.eye(40)).log()},
    "additive": {"w_score": torch.linspace(-1, 1, 12, dtype=torch.float64)},
    "large scores": {"scale": 200.0},
    "a negative scale": {"scale": -200.0},
    "small scores": {"scale": 0.1, "bias": torch.full((1, 40, 40), -500.0)},
    "one matrix": {"mask": MaskRule(matrix=torch.eye(40).roll(3, 0) + torch.eye(40) > 0)},
    "a matrix in a band": {
        "mask": MaskRule(before=9, matrix=torch.arange(1600).view(40, 40) % 3 > 0)
    },
    "a matrix for each head": {
        "mask": MaskRule(matrix=torch.arange(3200).view(2, 40, 40) // 70 % 3 > 0)
    },
    "rows without keys": {"mask": MaskRule(matrix=(torch.arange(40) > 20)[:, None].expand(40, 40))},
}  # fmt: skip


@pytest.mark.slow_table("long texts", keep=7)
@pytest.mark.parametrize("extra", EXTRAS)
def test_whatever_changes_scores_gives_the_numbers_of_the_matrix(extra: str) -> None:
    attention = random_attention(40, 40, **EXTRAS[extra])
    assert_same(attention)
    assert_same(replace(attention, mask=replace(attention.mask, after=0)), resolution=512)


def test_slopes_give_the_bias_of_alibi() -> None:
    bias = distance_bias(2, 9, 9)
    with_bias = random_attention(9, 9, bias=bias)
    slopes = torch.tensor(alibi_slopes(2))
    assert_close(
        replace(with_bias, bias=None, slopes=slopes).rows(slice(9)), with_bias.rows(slice(9))
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [0.4, 30.0])
def test_other_dtypes_are_computed_in_32_bits(dtype: torch.dtype, scale: float) -> None:
    assert_same(random_attention(40, 40, dtype, scale=scale, mask=MaskRule(after=0)))


def test_no_exponential_is_denormal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those take a processor up to 200 times as long."""
    exponents: list[Tensor] = []
    exp_ = torch.Tensor.exp_

    def record_exponents(tensor: Tensor) -> Tensor:
        exponents.append(tensor.clone())
        return exp_(tensor)

    monkeypatch.setattr(torch.Tensor, "exp_", record_exponents)

    steep_attention = random_attention(40, 40, torch.float32, slopes=torch.tensor([30.0, 9.0]))
    steep_attention.summarize(SummaryChoice(statistics=False))

    tiles_seen = [tensor for tensor in exponents if tensor.ndim == 2]
    assert tiles_seen
    assert min(float(tensor.min()) for tensor in tiles_seen) >= -88


def test_a_row_without_keys_has_zeros_and_no_largest_weight() -> None:
    summary = random_attention(3, 3, mask=MaskRule(matrix=torch.zeros(3, 3) > 0)).summarize(
        SummaryChoice()
    )

    assert summary.hidden.all()
    assert summary.log_sums.tolist() == [[-torch.inf] * 3] * 2
    for name in ("contexts", "pooled", "entropy", "largest_weight", "mean_distance", "by_distance"):
        assert not getattr(summary, name).any(), name
    assert summary.largest_position is not None
    assert summary.largest_position.tolist() == [[-1] * 3] * 2


@given(st.integers(1, 45), st.integers(1, 60), st.integers(1, 7), st.booleans())
def test_parts_joined_equal_the_whole(
    tokens: int, resolution: int, ranks: int, maximum: bool
) -> None:
    attention = random_attention(tokens, tokens, mask=MaskRule(after=0))
    choice = SummaryChoice(resolution, "max" if maximum else "mean")
    blocks = attention.row_blocks()

    parts = [summarize_part(attention, blocks[rank::ranks], choice) for rank in range(ranks)]

    expected = attention.summarize(SummaryChoice(resolution, choice.pool))
    for name, value in vars(join_parts(parts)).items():
        if isinstance(value, Tensor):
            assert_close(value, getattr(expected, name), atol=1e-12, rtol=1e-12, msg=name)


def test_a_summary_of_some_heads_is_that_part_of_all() -> None:
    matrix = torch.arange(800).view(2, 20, 20) // 70 % 3 > 0
    attention = random_attention(20, 20, mask=MaskRule(matrix=matrix))

    one_head, all_heads = (
        attention.summarize(SummaryChoice(heads=[1])),
        attention.summarize(SummaryChoice()),
    )

    for name in ("contexts", "pooled", "hidden", "entropy", "received", "by_distance"):
        assert_close(getattr(one_head, name), getattr(all_heads, name)[1:])
    assert_close(attention.rows(slice(4, 9), heads=[1]), attention.rows(slice(4, 9))[1:])


def test_a_window_is_a_part_of_the_exact_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = random_attention(30, 40, mask=MaskRule(after=0, offset=10))
    weights = whole_attention(attention).weights
    monkeypatch.setattr(long_attention, "CELLS_OF_ROWS", 100)

    assert_close(attention.rows(slice(7, 20), slice(5, 33)), weights[:, 7:20, 5:33])
    assert_close(attention.rows(slice(-2, None)), weights[:, -2:])


def test_progress_counts_the_queries_of_all_heads() -> None:
    counts: list[int] = []
    random_attention(20, 20).summarize(SummaryChoice(), counts.append)
    assert counts == [8, 16, 20, 28, 36, 40]


@pytest.fixture
def _fresh_kernel_check() -> Iterator[None]:
    fused_calls._checked_kernel.cache_clear()
    yield
    fused_calls._checked_kernel.cache_clear()


RULES = (MaskRule(), MaskRule(after=0), MaskRule(before=9, after=2), MaskRule(after=0, offset=7))


@pytest.mark.usefixtures("_fresh_kernel_check")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_calls_and_tiles_agree(
    rule: MaskRule, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Tensor] = []

    def kernel(*vectors: Tensor) -> tuple[Tensor, Tensor]:
        calls.extend(vectors)
        return fused_calls._cpu_kernel(*vectors)

    monkeypatch.setattr(fused_calls, "is_faster_than_tiles", lambda device: True)
    monkeypatch.setattr(fused_calls, "KERNELS", {"cpu": kernel})

    assert_same(random_attention(33, 40, dtype, mask=rule))

    assert len(calls) > 3  # more than its check


def _missing_kernel(*vectors: Tensor) -> tuple[Tensor, Tensor]:
    raise AttributeError("no such op")


def _inexact_kernel(*vectors: Tensor) -> tuple[Tensor, Tensor]:
    contexts, log_sums = fused_calls._cpu_kernel(*vectors)
    return contexts, log_sums * 1.001


@pytest.mark.usefixtures("_fresh_kernel_check")
@pytest.mark.parametrize("kernel", [_missing_kernel, _inexact_kernel])
def test_a_fused_call_that_is_missing_or_wrong_is_not_used(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_calls, "is_faster_than_tiles", lambda device: True)
    monkeypatch.setattr(fused_calls, "KERNELS", {"cpu": kernel})

    assert fused_calls.attend(*random_attention(5, 5).queries[[0, 1, 0]]) is None
    assert_same(random_attention(33, 40, mask=MaskRule(after=0)))


@contextmanager
def threads(monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[None]:
    """Let this many threads of torch compute a summary; checks that torch still has as many."""
    monkeypatch.setattr(long_attention, "CELLS_FOR_THREADS", 0)
    thread_count = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
        assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(thread_count)


def test_several_threads_give_the_same_numbers_and_leave_torch_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attention = random_attention(40, 40, mask=MaskRule(after=0))
    summary_of_one_thread = attention.summarize(SummaryChoice())
    with threads(monkeypatch, 3):
        summary_of_threads = attention.summarize(SummaryChoice())

    for name, value in vars(summary_of_threads).items():
        if isinstance(value, Tensor):
            assert torch.equal(value, getattr(summary_of_one_thread, name)), name


def test_an_interrupted_summary_ends_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with threads(monkeypatch, 2), pytest.raises(KeyboardInterrupt):
        random_attention(400, 400).summarize(SummaryChoice(), interrupt)


def test_an_error_in_one_thread_ends_the_others_after_their_tile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block of queries may take seconds, and Ctrl-C must not."""
    has_begun, tiles_computed = threading.Event(), []

    def logits(block: tiles.QueryBlock, keys: slice) -> Tensor:
        if block.rows.start == 0:
            has_begun.wait(timeout=5)
            raise KeyboardInterrupt
        has_begun.set()
        time.sleep(0.02)
        tiles_computed.append(keys)
        return torch.zeros(len(range(400)[keys]), block.count, dtype=torch.float64)

    monkeypatch.setattr(tiles.QueryBlock, "logits", logits)
    monkeypatch.setattr(long_attention, "ROWS_AT_ONCE", {"cpu": 200})
    with threads(monkeypatch, 2), pytest.raises(KeyboardInterrupt):
        random_attention(400, 400).summarize(SummaryChoice())

    assert len(tiles_computed) < 400 // 12  # tiles of the other block


MEMORY_SCRIPT = """
import resource, torch
from attnviz.attention.long_attention import LongAttention, SummaryChoice
from attnviz.attention.mask_rule import MaskRule

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def summarize(tokens):
    vectors = torch.randn(1, tokens, 8)
    rule = MaskRule(before=600, after=0)
    attention = LongAttention(queries=vectors, keys=vectors, values=vectors, scale=1, mask=rule)
    attention.summarize(SummaryChoice())

summarize(1000)
before = peak()
summarize(20_000)
print(peak() - before)
"""


@pytest.mark.slow("long texts")
def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    process = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(process.stdout) < 60e6  # the matrix would take 1.6 GB
