"""Writes small models as GGUF files with llama.cpp's own package.

The rules are those of llama.cpp's convert_hf_to_gguf.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor, nn

CORPUS = ["The animal didn't cross the street because it was too tired. In 2024, it's 3.14!"] * 3
END = "<|end|>"


def train_byte_tokenizer(pre_tokenizer: Any, vocabulary: int = 300) -> Tokenizer:
    """Return a byte-level tokenizer with merges of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


GPT2_TOKENIZER = train_byte_tokenizer(pre_tokenizers.ByteLevel(add_prefix_space=False))


def merges_of(tokenizer: Tokenizer) -> list[str]:
    """Return the merges of a tokenizer, as a GGUF file writes them."""
    import json

    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def add_byte_vocabulary(
    writer: gguf.GGUFWriter,
    tokenizer: Tokenizer = GPT2_TOKENIZER,
    pre: str = "gpt-2",
    merge_count: int = 0,
) -> None:
    """Add a byte-level vocabulary, whose first token is special, with its first merges (0: all)."""
    vocabulary = tokenizer.get_vocab()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(sorted(vocabulary, key=lambda token: vocabulary[token]))
    token_types = [gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(vocabulary) - 1)
    writer.add_token_types(token_types)
    writer.add_token_merges(merges_of(tokenizer)[: merge_count or None])
    writer.add_eos_token_id(0)


def finish(writer: gguf.GGUFWriter) -> Path:
    """Write a file, and return its path."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(str(writer.path))


def write_model(
    path: Path,
    model: nn.Module,
    architecture: str,
    facts: Mapping[str, Any],
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
) -> Path:
    """Write a model of transformers as a GGUF file, rows of 32 numbers in blocks of `kind`.

    `facts` are methods of the writer by what follows `add_`, with their values.
    """
    config: Any = model.config
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in facts.items():
        getattr(writer, f"add_{name}")(value)
    add_byte_vocabulary(writer)
    architectures = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}
    layers = config.num_hidden_layers
    names = gguf.get_tensor_name_map(architectures[architecture], layers)
    tied_names = {"lm_head.weight"} if config.tie_word_embeddings else set()
    for name, weights in model.state_dict().items():
        if name in tied_names:
            continue
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert gguf_name is not None, name
        numbers = _convert_as_llama_cpp(weights, name, architecture, config).numpy()
        has_blocks = numbers.ndim == 2 and numbers.shape[1] == 32
        block = kind if has_blocks else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name, gguf.quantize(numbers, block), raw_dtype=block)
    for name, factors in factors_of_rotation(config).items():
        writer.add_tensor(f"{name}.weight", np.array(factors, np.float32))
    return finish(writer)


def _convert_as_llama_cpp(weights: Tensor, name: str, architecture: str, config: Any) -> Tensor:
    """Return a tensor as convert_hf_to_gguf.py changes it."""
    if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        halves = weights.reshape(heads, 2, len(weights) // heads // 2, *weights.shape[1:])
        return halves.swapaxes(1, 2).reshape(weights.shape).contiguous()
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return weights + 1
    if architecture == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return weights.T.contiguous()
    return weights


def factors_of_rotation(config: Any) -> dict[str, list[float]]:
    """Return the factors of rotation that convert_hf_to_gguf.py writes as tensors."""
    rotation = getattr(config, "rope_parameters", None) or {}
    if rotation.get("rope_type") == "longrope":
        return {
            "rope_factors_long": rotation["long_factor"],
            "rope_factors_short": rotation["short_factor"],
        }
    if rotation.get("rope_type") != "llama3":
        return {}
    frequencies = rotation["rope_theta"] ** -(
        torch.arange(0, config.head_dim, 2).float() / config.head_dim
    )
    wave_lengths = 2 * torch.pi / frequencies
    low, high, factor = (
        rotation[name] for name in ("low_freq_factor", "high_freq_factor", "factor")
    )
    context = rotation["original_max_position_embeddings"]
    smoothness = (context / wave_lengths - low) / (high - low)
    interpolated = 1 / ((1 - smoothness) / factor + smoothness)
    factors = torch.where(wave_lengths > context / low, torch.tensor(factor), interpolated)
    factors = torch.where(wave_lengths < context / high, torch.tensor(1.0), factors)
    return {"rope_freqs": factors.tolist()}
