"""listen(): a model of transformers that generates, with padding and heads that share keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import attnviz

pytestmark = pytest.mark.slow("models")
transformers = pytest.importorskip("transformers")
TEXTS = torch.tensor([[5, 6, 7, 8, 9], [0, 0, 3, 4, 5]])
PADDED = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
NEW = 4  # tokens; the last is not read any more


def llama(attention: str) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
        vocab_size=64, intermediate_size=64, attn_implementation=attention,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def generate(model: Any, texts: torch.Tensor, mask: torch.Tensor, **choices: Any) -> torch.Tensor:
    result: torch.Tensor = model.generate(
        texts, attention_mask=mask, max_new_tokens=NEW, do_sample=False, pad_token_id=0,
        eos_token_id=None, **choices,
    )  # fmt: skip
    return result[:, :-1]


def weights_in_one_call(texts: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    """The weights [item head query key] of each layer, as transformers itself returns them."""
    whole = torch.nn.functional.pad(mask, (0, texts.shape[1] - mask.shape[1]), value=1)
    positions = (whole.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        outputs = llama("eager")(
            texts, attention_mask=whole, position_ids=positions, output_attentions=True
        )
    return list(outputs.attentions)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("items", [[0, 1], [0], [1]], ids=["both", "unpadded", "padded"])
def test_a_generation_is_one_table_with_all_heads_for_each_layer(
    cache: str, items: list[int]
) -> None:
    model = llama("sdpa")
    with attnviz.listen(model) as heard:
        texts = generate(model, TEXTS[items], PADDED[items], cache_implementation=cache)

    expected = weights_in_one_call(texts, PADDED[items])
    assert len(heard) == len(expected) == 2
    for at, item in enumerate(items):
        start = int((PADDED[item] == 0).sum())  # queries before see nothing that counts
        for trace, weights in zip(heard.with_item(at + 1), expected, strict=True):
            assert trace.weights.shape == (1, 4, 8, 8)
            shown, own = trace.weights[0][:, start:], weights[at][:, start:]
            torch.testing.assert_close(shown, own, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_generation_that_is_heard_from_its_middle_has_all_heads(cache: str) -> None:
    model, calls = llama("sdpa"), 0
    listening = attnviz.listen(model)

    def listen_from_the_second(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            listening.__enter__()

    model.register_forward_pre_hook(listen_from_the_second)
    texts = generate(model, TEXTS, PADDED, cache_implementation=cache)
    listening.__exit__()

    expected = weights_in_one_call(texts, PADDED)
    assert len(listening) == 2
    for trace, weights in zip(listening, expected, strict=True):
        torch.testing.assert_close(trace.weights[0], weights[0][:, -2:], atol=1e-5, rtol=1e-4)
