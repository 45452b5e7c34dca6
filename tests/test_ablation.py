"""Passes without some heads: begun at a layer and batched, they equal separate whole passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attnviz import trace
from attnviz.traces.trained import ablation as ablation_module
from attnviz.traces.trained.ablation import BlockOutputs, HeadAblation, HeadSet
from attnviz.traces.trained.answers import PassResult
from attnviz.traces.trained.capture import AttentionCall
from attnviz.traces.trained.forward_pass import capture_pass
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import ModelRun, prepare_model_run
from tests.small_transformers import TEXT, Saved

KINDS = (  # plain; with groups and a soft cap; with a sink; without layer_idx; one block for all
    "gpt2", "gemma2", "gpt-oss", "distilbert", "albert", "jamba", "modernbert", "esm",
)  # fmt: skip
DECODER_KINDS = (
    ("t5", "self", None), ("t5", "decoder", None), ("t5", "cross", None), ("bart", "cross", None),
)  # fmt: skip


def run_of(folder: str, attention: Any = None, **settings: Any) -> ModelRun:
    trace_of_model = trace(TEXT, model=folder, attention=attention, **settings)
    return prepare_model_run(trace_of_model, "this runs it", "by")


def ablation_of(run: ModelRun) -> HeadAblation:
    return HeadAblation(run.model, run.model_input, run.answer_positions, run.off)


def separate_pass(run: ModelRun, heads: HeadSet) -> PassResult:
    """The result of one whole pass without these heads, which shares nothing with another."""
    with quiet_transformers(), torch.no_grad():
        captured_pass = capture_pass(
            run.model,
            run.model_input,
            layers=(),
            off={**run.off, **dict.fromkeys(heads, "zero")},
            answer_positions=run.answer_positions,
        )
    assert captured_pass is not None
    return captured_pass.result


def assert_same(first: PassResult, second: PassResult) -> None:
    for ours, theirs in ((first.vectors, second.vectors), (first.logits, second.logits)):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def single_heads(ablation: HeadAblation) -> list[HeadSet]:
    return [(head,) for head in ablation.head_ids]


@pytest.mark.slow_table("models", keep=3)
@pytest.mark.parametrize(
    ("kind", "attention", "cells_at_once"),
    [*((kind, None, None) for kind in KINDS), *DECODER_KINDS, ("bart", "cross", 1)],
)
def test_passes_begun_at_a_layer_are_what_whole_ones_are(
    kind: str,
    attention: str | None,
    cells_at_once: int | None,
    small_transformer: Saved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of long texts, which are attended to in parts."""
    if cells_at_once:
        monkeypatch.setattr(ablation_module, "CAPTURED_CELLS_AT_ONCE", cells_at_once)
    run = run_of(str(small_transformer(kind)), attention)
    ablation = ablation_of(run)
    first, last = ablation.head_ids[0], ablation.head_ids[-1]
    results = [*ablation.results_without([*single_heads(ablation), (first, last)])]

    assert len(results) == len(ablation.head_ids) + 1
    for heads, result in results:
        assert_same(result, separate_pass(run, heads))
    assert not ablation.checks.is_unsafe
    assert len(ablation.checks.safe_indexes) == len({layer for layer, _ in ablation.head_ids})


@pytest.mark.slow("models")
def test_heads_of_minilm_that_are_off_stay_off_in_copies() -> None:
    run = run_of("minilm", without="L2H3,L4H0=mean")
    ablation = ablation_of(run)
    for heads, result in ablation.results_without([((0, 5),), ((4, 1),), ((5, 11),)]):
        assert_same(result, separate_pass(run, heads))


def test_blocks_before_the_layer_are_not_computed_again(small_transformer: Saved) -> None:
    run = run_of(str(small_transformer("gpt2")))
    ablation = ablation_of(run)
    assert ablation.full_result is not None
    blocks, computed_blocks = run.model.model.transformer.h, []
    hooks = [block.mlp.register_forward_hook(lambda *_, at=at: computed_blocks.append(at))
             for at, block in enumerate(blocks)]  # fmt: skip
    assert len([*ablation.results_without([((1, head),) for head in range(4)])]) == 4
    for hook in hooks:
        hook.remove()
    assert computed_blocks == [1]  # once, for four heads


def test_a_model_that_cannot_be_begun_at_a_layer_is_run_in_separate_passes(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(str(small_transformer("gpt2")))

    @contextmanager
    def replaying_something_else(self: BlockOutputs, *_: object) -> Iterator[None]:
        hook = run.model.model.transformer.h[0].register_forward_hook(
            lambda *three: three[2].roll(1, -1)
        )
        yield
        hook.remove()

    monkeypatch.setattr(BlockOutputs, "replaying", replaying_something_else)
    ablation = ablation_of(run)
    results = [*ablation.results_without(single_heads(ablation))]
    assert ablation.checks.is_unsafe
    for heads, result in results:
        assert_same(result, separate_pass(run, heads))


def test_a_model_is_afterwards_as_it_was(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a pass that fails halfway."""
    run = run_of(str(small_transformer("gpt2")))
    model = run.model.model
    ablation = ablation_of(run)
    before = [len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules()]
    assert [*ablation.results_without([((1, 0),)])]
    monkeypatch.setattr(model.lm_head, "forward", lambda *_: 1 / 0)
    ablation.checks.safe_indexes.clear()
    with pytest.raises(Exception, match="division by zero"):
        [*ablation.results_without([((1, 0),)])]
    monkeypatch.undo()
    assert all("forward" not in vars(each) for each in model.modules())
    after = [len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules()]
    assert after == before


@pytest.mark.parametrize("limit", ["MAX_BATCH_TOKENS", "MAX_BATCH_LOGITS"])
def test_batches_are_as_small_as_the_memory_asks(
    limit: str, small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(str(small_transformer("gpt2")))
    expected = [result for _, result in ablation_of(run).results_without([((0, 1),), ((0, 2),)])]
    monkeypatch.setattr(ablation_module, limit, 1)
    copies, attend = list[int](), ablation_module.AblationListener.attend

    def noting(self: Any, call: AttentionCall) -> torch.Tensor:
        copies.append(len(call.query))
        return attend(self, call)

    monkeypatch.setattr(ablation_module.AblationListener, "attend", noting)
    results = [result for _, result in ablation_of(run).results_without([((0, 1),), ((0, 2),)])]
    assert max(copies) <= 2  # one, and at first one to check
    for ours, theirs in zip(results, expected, strict=True):
        assert_same(ours, theirs)
