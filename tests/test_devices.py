"""Where the arithmetic runs: the same numbers everywhere, and a text that fits in memory."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from attnviz import trace
from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.options.values import Dtype
from attnviz.traces.settings import Settings
from tests.conftest import Attnviz


def test_a_device_that_this_machine_has_not_is_refused_with_those_it_has(attnviz: Attnviz) -> None:
    result = attnviz("run", "a", "--device", "cuda:77")

    assert result.status == 2
    assert result.err == (
        "error: this machine has no device 'cuda:77'\n"
        f" hint: choose one of: {', '.join(devices.available_devices())}\n"
    )


def test_a_text_that_would_not_fit_in_memory_is_refused_with_the_size_it_would_take(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "free_memory", lambda device: 8_000_000)

    result = attnviz(
        *("run", "a" * 1000, "-t", "chars", "-v", "multi-head", "--device", "cpu"),
        *("--memory-budget", "1GB"),
    )

    assert result.err == (
        "error: 1,000 tokens make 2,000,000 weights; all steps together take 51.4 MB, and cpu "
        "has 8 MB free\n"
        " hint: give at most about 392 tokens, fewer heads, or --dtype bfloat16\n"
    )


def test_the_hint_names_the_longest_text_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "free_memory", lambda device: 8_000_000)
    multi_head = Settings(variant="multi-head", memory_budget="1GB")

    trace("a" * 392, multi_head, tokenizer="chars")
    with pytest.raises(AttnvizError, match="393 tokens make 308,898 weights"):
        trace("a" * 393, multi_head, tokenizer="chars")


def simulate_devices(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    device_counts = {kind: sum(each == kind for each in kinds) for kind in ("cuda", "xpu")}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: device_counts["cuda"])
    monkeypatch.setattr(torch.xpu, "device_count", lambda: device_counts["xpu"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)


@pytest.mark.parametrize(
    ("kinds", "dtype", "expected"),
    [
        ([], "float32", "cpu"),
        (["mps"], "float32", "mps"),
        (["mps"], "float64", "cpu"),  # which mps cannot compute in
        (["cuda", "cuda"], "float64", "cuda"),
        (["xpu", "xpu"], "float32", "xpu:0"),
        (["mps", "xpu", "cuda"], "float32", "cuda"),
    ],
)
def test_auto_is_the_fastest_device_that_knows_the_dtype(
    monkeypatch: pytest.MonkeyPatch, kinds: list[str], dtype: str, expected: str
) -> None:
    simulate_devices(monkeypatch, *kinds)

    assert devices.choose_device("auto", dtype) == torch.device(expected)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:1"])
def test_a_device_is_the_one_that_was_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    simulate_devices(monkeypatch, "cuda", "cuda")

    assert devices.choose_device(name, "float32") == torch.device(name)


@pytest.mark.parametrize(
    ("name", "dtype", "problem", "hint"),
    [
        (
            "cuda:2",
            "float32",
            "this machine has no device 'cuda:2'",
            "choose one of: cpu, mps, cuda:0",
        ),
        (
            "mps",
            "float64",
            "mps cannot compute in float64",
            'try device="cpu", or dtype="float32"',
        ),
        ("cud", "float32", "there is no device 'cud'", "did you mean 'cuda'?"),
        ("cpu:a", "float32", "there is no device 'cpu:a'", "did you mean 'cpu'?"),
    ],
)
def test_a_device_that_cannot_be_had_is_refused_with_what_can(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, problem: str, hint: str
) -> None:
    simulate_devices(monkeypatch, "mps", "cuda")

    with pytest.raises(AttnvizError) as refusal:
        devices.choose_device(name, dtype)

    assert str(refusal.value) == problem
    assert refusal.value.hint.startswith(hint)


@pytest.mark.parametrize("device", devices.available_devices())
def test_every_device_shows_the_same_numbers(device: str) -> None:
    on_cpu, on_device = (
        trace("I am learning this", device="cpu"),
        trace("I am learning this", device=device),
    )

    assert torch.equal(on_cpu.embeddings, on_device.embeddings.cpu())
    assert_close(on_cpu.layers[0].context, on_device.layers[0].context.cpu(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_every_dtype_shows_the_same_numbers_as_far_as_it_can(dtype: Dtype) -> None:
    exact, rounded = trace("I am learning this"), trace("I am learning this", dtype=dtype)

    assert rounded.layers[0].context.dtype is getattr(torch, dtype)
    assert_close(exact.layers[0].context, rounded.layers[0].context.float(), atol=5e-2, rtol=5e-2)
