"""Trained models on long texts: masks as rules, contexts by tiles, maps made while the model runs.

Short texts that are made to go the long way must give what they give the short way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz import AttnvizError, Trace, inspect, trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention import long_attention, tiles
from attnviz.attention.mask_rule import MaskRule
from attnviz.traces.long_weights import StreamedWeights, reporting_progress
from attnviz.traces.trained import band_masks, captured_attention
from attnviz.traces.trained.band_masks import BandMasks, MaskRuleLost, find_band
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved

BANDS: dict[str, list[tuple[int | None, int | None]]] = {  # before and after, of each layer
    "llama": [(None, 0)] * 2,
    "mistral": [(4, 0)] * 2,
    "gemma2": [(4, 0), (None, 0)],
    "gemma3": [(4, 0)] * 2,
    "gpt-oss": [(4, 0), (None, 0)],
    "bert": [(None, None)] * 2,
    "modernbert": [(None, None), (3, 3)],
}
SENTENCE = "The animal didn't cross the street because it was too tired"


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every text as a long one, in small tiles."""
    monkeypatch.setattr(band_masks, "LARGEST_MATRIX", 0)
    monkeypatch.setattr(band_masks, "CELLS_AT_ONCE", 64)
    monkeypatch.setattr(captured_attention, "CAPTURED_CELLS_AT_ONCE", 1)
    monkeypatch.setitem(tiles.KEYS_PER_TILE, "cpu", 8)
    monkeypatch.setitem(long_attention.ROWS_AT_ONCE, "cpu", 8)


def assert_same(short_trace: Trace, streamed_trace: Trace) -> None:
    """Check that a streamed Trace has the numbers of a Trace of the same text."""
    for one, other in zip(streamed_trace.layers, short_trace.layers, strict=True):
        weights, expected = one.weights, other.weights.whole()
        assert isinstance(weights, StreamedWeights)
        assert torch.allclose(weights.whole(), expected, atol=1e-5)
        # Sums are taken in another order, by instructions that differ between processors.
        assert torch.allclose(one.context, other.context, rtol=1e-4, atol=1e-5)
        assert torch.allclose(one.attended.contexts, other.attended.contexts, rtol=1e-4, atol=1e-5)
        assert torch.equal(one.visible, other.visible)
        for head in range(one.heads):
            maps, place = weights.map_of(head)
            assert torch.allclose(maps.pooled[place].float(), expected[head], atol=1e-5)
            summary, index = weights.summary_of(head)
            assert summary.received is not None
            received = summary.received[index].float()
            assert torch.allclose(received, expected[head].sum(0), atol=1e-5)
    assert (streamed_trace.prediction is None) == (short_trace.prediction is None)
    if short_trace.prediction is not None and streamed_trace.prediction is not None:
        probabilities = streamed_trace.prediction.probabilities
        expected = short_trace.prediction.probabilities
        assert torch.allclose(probabilities, expected, atol=1e-5, equal_nan=True)


def trace_both_ways(
    request: pytest.FixtureRequest, folder: Path, **settings: Any
) -> tuple[Trace, Trace]:
    """The Trace of a short text, and that of the same text read as a long one."""
    short_trace = trace(TEXT, model=str(folder), **settings)
    request.getfixturevalue("long_way")
    return short_trace, trace(TEXT, model=str(folder), stream=True, **settings)


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize("kind", BANDS)
def test_a_model_computes_the_same_the_long_way(
    kind: str, small_transformer: Saved, request: pytest.FixtureRequest
) -> None:
    short_trace, streamed_trace = trace_both_ways(request, small_transformer(kind))
    assert_same(short_trace, streamed_trace)
    rules = [layer.mask_rule for layer in streamed_trace.layers]
    assert [(rule.before, rule.after) for rule in rules] == BANDS[kind]
    assert all(rule.matrix is None for rule in rules)
    assert streamed_trace.variant == short_trace.variant


@pytest.mark.slow_table("models", keep=1)
@pytest.mark.parametrize("attention", ["self", "decoder", "cross"])
@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_an_encoder_decoder_computes_the_same_the_long_way(
    kind: str, attention: Any, small_transformer: Saved, request: pytest.FixtureRequest
) -> None:
    target = {} if attention == "self" else {"target": "It slept on the street"}
    traces = trace_both_ways(request, small_transformer(kind), attention=attention, **target)

    assert_same(*traces)


def test_heads_are_switched_off_the_long_way(
    small_transformer: Saved, request: pytest.FixtureRequest
) -> None:
    assert_same(*trace_both_ways(request, small_transformer("llama"), without="L0H1,L1H0=mean"))


def test_a_mask_that_a_model_changes_is_built_as_a_matrix(
    small_transformer: Saved, long_way: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a model that adds its own numbers to the mask that it is given."""
    folder = str(small_transformer("llama"))
    expected = trace(TEXT, model=folder)

    def lose_rule(self: BandMasks, *inputs: Any) -> MaskRule | None:
        if self.is_used:
            raise MaskRuleLost
        return None

    monkeypatch.setattr(BandMasks, "rule_of", lose_rule)
    trace_without_rule = trace(TEXT, model=folder)

    assert expected.layers[0].mask_rule.matrix is None
    assert trace_without_rule.layers[0].mask_rule.matrix is not None
    assert torch.allclose(trace_without_rule.weights, expected.weights, atol=1e-5)


def test_what_is_no_mask_of_this_pass_is_not_taken_for_one() -> None:
    masks = BandMasks(is_used=True)
    assert masks.rule_of(torch.ones(1, 1, 3, 3, dtype=torch.bool), 3, 3) is None
    stand_in = torch.zeros(1, 1, 1, 1, dtype=torch.bool).expand(1, 1, 9, 9)
    masks.known.append((stand_in, MaskRule(after=0)))

    assert masks.rule_of(stand_in[:, :, :, :9], 9, 9) is masks.known[0][1]
    for other_mask in (stand_in[:, :, 4:], ~stand_in, stand_in.clone()):
        with pytest.raises(MaskRuleLost):
            masks.rule_of(other_mask, 9, 9)


@dataclass
class Band:
    """A mask as transformers builds it, of some of its rows."""

    before: int | None
    after: int | None
    chunk: int = 10**6

    def build(self, *, q_length: int, kv_length: int, q_offset: int = 0, **options: Any) -> Any:
        query = torch.arange(q_length)[:, None] + q_offset
        key = torch.arange(kv_length) + options.get("kv_offset", 0)
        visible = query // self.chunk == key // self.chunk
        if self.before is not None:
            visible &= query - key <= self.before
        if self.after is not None:
            visible &= key - query <= self.after
        return visible[None, None]


@given(
    before=st.none() | st.integers(0, 30),
    after=st.none() | st.integers(0, 30),
    queries=st.integers(1, 20),
    earlier=st.integers(0, 6),
)
def test_a_band_is_found_as_it_is(
    before: int | None, after: int | None, queries: int, earlier: int
) -> None:
    band, keys = Band(before, after), queries + earlier
    sizes = {"batch_size": 1, "q_length": queries, "kv_length": keys, "q_offset": earlier}
    rule = find_band(band.build, sizes)

    assert rule is not None
    assert torch.equal(
        rule.visible(queries, keys, torch.device("cpu")),
        band.build(q_length=queries, kv_length=keys, q_offset=earlier)[0, 0],
    )
    rows = range(0, queries, 3)
    some_rows = rule.visible_rows(rows, keys, torch.device("cpu"))
    assert torch.equal(some_rows, rule.visible(queries, keys, torch.device("cpu"))[::3])


@pytest.mark.parametrize(
    "band", [Band(None, 0, chunk=4), Band(None, None, chunk=3), Band(None, -1)]
)
def test_a_mask_that_is_no_band_stays_a_matrix(band: Band) -> None:
    sizes = {"batch_size": 1, "q_length": 10, "kv_length": 10}
    assert find_band(band.build, sizes) is None


@pytest.mark.slow("models")
def test_what_the_overview_says_is_the_same_the_long_way(attnviz: Attnviz) -> None:
    with_matrices, without_matrices = (
        attnviz("inspect", SENTENCE, *options) for options in ((), ("--stream",))
    )

    assert without_matrices.out == with_matrices.out
    assert without_matrices.status == with_matrices.status == 0


def test_one_head_of_a_long_text_is_shown_with_its_numbers(attnviz: Attnviz) -> None:
    result = attnviz("inspect", SENTENCE, "--stream", "--layer", "5", "--head", "11", "--full")

    assert "means along the text · L5H11" in result.out
    assert "share of all attention received · L5H11" in result.out
    assert "L5H11: most tokens attend to " in result.out


def test_a_query_in_all_heads_names_the_key_that_most_heads_attend_to() -> None:
    inspection = inspect(SENTENCE, query="it", stream=True)
    weights = inspection.trace.weights[:, :, 10]
    first = int((weights.argmax(-1) == 0).sum())
    share = f"{weights[..., 0].mean():.0%}".replace("%", "\xa0%")
    ratio = weights[..., 0].mean() * weights.shape[-1]  # there is no mask

    assert inspection.view().headline == (
        f'In {first} of 72 heads "it" (token 11) attends most to [CLS] (token 1), which receives '
        f"{share} of its attention on average, {ratio:.1f} times an even spread"
    )


@pytest.mark.slow_table("formats", keep=3)
@pytest.mark.parametrize("suffix", [".json", ".npz", ".csv", ".html", ".svg"])
@pytest.mark.parametrize("head", [(), ("--layer", "5", "--head", "11")], ids=["all", "one"])
def test_a_long_text_is_written_in_every_form(
    suffix: str, head: tuple[str, ...], attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / f"heads{suffix}"
    result = attnviz("inspect", SENTENCE, "--stream", *head, "-o", str(path))

    assert result.status == 0, result.err
    if suffix == ".json":
        maps = json.loads(path.read_text())["maps"]
        assert np.shape(maps["L5H11"]["map"])[-2:] == (15, 15)
        assert len(maps) == (1 if head else 72)


def test_the_switch_is_said_once_with_what_a_block_stands_for(attnviz: Attnviz) -> None:
    result = attnviz("inspect", SENTENCE, "--memory-budget", "1KB", "--layer", "5",
                     "--resolution", "7")  # fmt: skip
    assert "all weights of 15 tokens would take 10.8 KB: they are computed only where" in result.err
    assert "a block of the map stands for at least 3 × 3 tokens" in result.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ({"merge": "rollout"}, "--merge rollout needs all weights at once, and of this text they "
         "are computed only where they are shown", "leave --merge out, or leave --stream out"),
        ({"as_": "arcs"}, "--as arcs needs all weights at once, and of this text they are computed "
         "only where they are shown", "leave --as out, or leave --stream out"),
        ({"pool": "max"}, "--pool max is a choice for the maps of one layer, and all are shown",
         "choose a layer, too: --layer 0; or leave --pool out"),
    ],
)  # fmt: skip
def test_what_needs_all_weights_at_once_is_refused(
    options: Any, problem: str, hint: str, attnviz: Attnviz, tmp_path: Path
) -> None:
    [(name, value)] = options.items()
    out = ("-o", str(tmp_path / "x.png")) if name == "as_" else ()
    option = [f"--{name.rstrip('_')}", *filter(None, [value])]
    result = attnviz("inspect", SENTENCE, "--stream", *option, *out)

    assert result.status == 2
    assert " ".join(result.err.split()) == f"error: {problem} hint: {hint}"


@pytest.mark.slow_table("models", keep=1)
@pytest.mark.parametrize("kind", ["llama", "gpt-oss", "modernbert"])
def test_rows_and_maps_of_a_long_text_are_checked_and_a_wrong_map_is_noticed(
    kind: str, small_transformer: Saved, long_way: None
) -> None:
    result = trace(TEXT, model=str(small_transformer(kind)), stream=True)
    checks = verify_trace(result)
    assert [check.claim for check in checks if check.failed] == []
    assert [check.claim for check in checks if check.claim.startswith("L1: ")][-2:] == [
        "L1: tiles of the text give the same context vectors",
        "L1: a row of each head's map is what its queries give",
    ]

    weights = result.layers[1].weights
    assert isinstance(weights, StreamedWeights)
    maps, index = weights.map_of(1)
    maps.pooled[index, len(maps.pooled[index]) // 2, 0] += 0.01
    assert [check.claim for check in verify_trace(result) if check.failed] == [
        "L1: a row of each head's map is what its queries give"
    ]


@pytest.mark.slow("models")
def test_inspect_checks_the_numbers_of_a_long_text(attnviz: Attnviz) -> None:
    result = attnviz("inspect", SENTENCE, "--stream", "--layer", "5", "--verify")
    assert result.status == 0, result.err
    assert "a row of each head's map is what its queries give" in " ".join(result.out.split())


def test_progress_counts_the_rows_of_all_layers(small_transformer: Saved) -> None:
    reports: list[tuple[int, int]] = []
    with reporting_progress(lambda total, done: reports.append((total, done))):
        result = trace(TEXT, model=str(small_transformer("llama")), stream=True)

    assert reports[-1] == (2 * 4 * len(result.tokens),) * 2
    assert reports == sorted(reports)


def test_vectors_that_do_not_fit_are_refused_before_the_model_reads(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(small_transformer("llama"))
    monkeypatch.setattr("attnviz.attention.devices.free_memory", lambda device: 10_000)
    with pytest.raises(AttnvizError, match="the vectors of 51 tokens in 2 layers"):
        trace(TEXT, model=folder, stream=True)
