"""GGUF files: every tensor is llama.cpp's, and every model gives the numbers of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from attnviz.traces.settings import Settings
from attnviz.traces.trained.gguf_blocks import read_tensor
from attnviz.traces.trained.gguf_file import BLOCK_TYPES, BlockType, read_gguf
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from tests.gguf_files import (
    CORPUS,
    GPT2_TOKENIZER,
    add_byte_vocabulary,
    finish,
    write_model,
)

SIZES: dict[str, Any] = {
    "vocab_size": GPT2_TOKENIZER.get_vocab_size(),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": None,
}
FACTS: dict[str, Any] = {
    "embedding_length": 32,
    "feed_forward_length": 48,
    "block_count": 2,
    "head_count": 4,
    "head_count_kv": 2,
    "context_length": 64,
    "layer_norm_rms_eps": 1e-5,
}
WIDE = {"key_length": 16, "value_length": 16}
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}
YARN = {
    "rope_type": "yarn",
    "factor": 2.0,
    "rope_theta": 1e4,
    "original_max_position_embeddings": 32,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 3.0],
    "original_max_position_embeddings": 32,
}
LOCAL = {"rope_type": "default", "rope_theta": 1e4}
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    # name: class in transformers, kind in the file, options of the config, facts in the file
    "llama": ("Llama", "llama", {}, {}),
    "llama with tied embeddings": ("Llama", "llama", {"tie_word_embeddings": True}, {}),
    "llama with biases": ("Llama", "llama", {"attention_bias": True}, {}),
    "llama 3": ("Llama", "llama", {"rope_parameters": LLAMA3}, {"rope_freq_base": 100.0}),
    "llama, linear": (
        "Llama",
        "llama",
        {"rope_parameters": LINEAR},
        {
            "rope_freq_base": 5e5,
            "rope_scaling_type": gguf.RopeScalingType.LINEAR,
            "rope_scaling_factor": 4.0,
        },
    ),
    "mistral": ("Mistral", "llama", {"sliding_window": None, "head_dim": 16}, WIDE),
    "qwen2, yarn": (
        "Qwen2",
        "qwen2",
        {"rope_parameters": YARN},
        {
            "rope_scaling_type": gguf.RopeScalingType.YARN,
            "rope_scaling_factor": 2.0,
            "rope_scaling_orig_ctx_len": 32,
        },
    ),
    "qwen3": ("Qwen3", "qwen3", {"head_dim": 16}, WIDE),
    "gemma2": (
        "Gemma2",
        "gemma2",
        {
            "head_dim": 16,
            "sliding_window": 5,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "tie_word_embeddings": True,
        },
        {
            **WIDE,
            "sliding_window": 5,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        "Gemma3",
        "gemma3",
        {
            "head_dim": 16,
            "sliding_window": 5,
            "query_pre_attn_scalar": 16,
            "num_hidden_layers": 7,
            "tie_word_embeddings": True,
            "rope_parameters": {"sliding_attention": LOCAL, "full_attention": LINEAR},
        },
        {
            **WIDE,
            "sliding_window": 5,
            "block_count": 7,
            "rope_freq_base": 5e5,
            "rope_scaling_type": gguf.RopeScalingType.LINEAR,
            "rope_scaling_factor": 4.0,
        },
    ),
    "phi3": (
        "Phi3",
        "phi3",
        {"rope_parameters": LONG, "original_max_position_embeddings": 32, "sliding_window": 5},
        {"rope_dimension_count": 4, "rope_scaling_orig_ctx_len": 32, "sliding_window": 5},
    ),
}
TEXT = CORPUS[0]


def _compare_with_original(path: Path, original: Any) -> None:
    loaded = load_transformer(Settings(model=str(path)))
    ids = torch.tensor([loaded.tokenizer(TEXT)["input_ids"]])
    with torch.no_grad():
        ours, theirs = loaded.model(ids).logits, original(ids).logits

    assert ids[0].tolist() == GPT2_TOKENIZER.encode(TEXT).ids
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    assert loaded.stored_as == "float32"
    assert loaded.model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_a_gguf_file_gives_the_numbers_of_transformers(
    name: str, tmp_path: Path
) -> None:
    import transformers

    class_name, kind, options, facts = MODELS[name]
    config_name = "Gemma3TextConfig" if class_name == "Gemma3" else f"{class_name}Config"
    config = getattr(transformers, config_name)(**SIZES | {"rms_norm_eps": 1e-5} | options)
    torch.manual_seed(0)
    with quiet_transformers():
        model = getattr(transformers, f"{class_name}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.3)
    path = write_model(tmp_path / "model.gguf", model, kind, FACTS | facts)

    _compare_with_original(path, model)


def test_gpt2_in_a_gguf_file_gives_the_numbers_of_transformers(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=SIZES["vocab_size"], n_embd=32, n_layer=2, n_head=4, n_positions=64
    )
    model = GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.3)
    names = ("embedding_length", "block_count", "head_count", "context_length")
    facts = {name: FACTS[name] for name in names} | {"layer_norm_eps": 1e-5}
    path = write_model(tmp_path / "model.gguf", model, "gpt2", facts)

    _compare_with_original(path, model)


@pytest.mark.parametrize(("number", "block"), BLOCK_TYPES.items())
def test_every_number_of_a_block_is_that_of_llama_cpp(
    number: int, block: BlockType, tmp_path: Path
) -> None:
    kind = gguf.GGMLQuantizationType(number)
    content = np.random.default_rng(1).integers(0, 256, (3, 5 * block.size), np.uint8)
    content[:, 1 :: max(block.size, 4)] &= 0x3B  # no infinite number
    writer = gguf.GGUFWriter(tmp_path / "blocks.gguf", "llama")
    add_byte_vocabulary(writer)
    writer.add_tensor("rows", content, raw_dtype=kind)
    path = finish(writer)

    ours = read_tensor(read_gguf(path).tensors["rows"], torch.float32).numpy()

    with np.errstate(all="ignore"):
        theirs = gguf.dequantize(gguf.GGUFReader(path).tensors[0].data, kind)
    assert ours.shape == theirs.shape == (3, 5 * block.numbers)
    np.testing.assert_array_equal(ours, theirs)
