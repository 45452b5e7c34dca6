"""Turns the facts of a GGUF file into the config of a transformers model.

llama.cpp renames the tensors of a model, and changes some: it reorders the rows of Llama's queries
and keys, adds 1 to Gemma's norms, and transposes GPT-2's matrices. How all this is undone stands
here, too; nothing imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError, model_error
from attnviz.wings.gguf.file import CONVERT_HINT, GGUFFile, plain_or_quoted
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from torch import Tensor

Config = dict[str, Any]
MAX_LAYERS, MAX_HEAD_WIDTH, MAX_GPT2_POSITIONS = 1000, 2**16, 2**13
# What transformers calls a tensor of llama.cpp, first outside and then inside of the layers.
LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk": "model.layers",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
QWEN3_NAMES = LLAMA_NAMES | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
GEMMA_NAMES = QWEN3_NAMES | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
PHI3_NAMES = LLAMA_NAMES | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
GPT2_NAMES = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "blk": "transformer.h",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
FREQUENCY_FACTORS = "rope_freqs.weight"  # what Llama 3 divides the frequencies of rotation by
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"  # of Phi-3


def _llama_config(file: GGUFFile) -> Config:
    """Return the config of a model like Llama; other kinds change some of it."""
    heads, width = file.count(".attention.head_count"), file.count(".embedding_length")
    head_dim = file.count(".attention.key_length", width // heads, most=MAX_HEAD_WIDTH)
    layers = _count_layers(file)
    if file.count(".attention.value_length", head_dim) != head_dim:
        raise _unusual_model(file, "values of another width than keys")
    _refuse_other_rotation(file, head_dim, heads, width)
    if file.has(".expert_count") and file.count(".expert_count", least=0):
        raise _unusual_model(file, "experts")
    token_ids = {
        f"{name}_token_id": file.count(key, least=0) if file.has(key) else None
        for name, key in (
            ("bos", "tokenizer.ggml.bos_token_id"),
            ("eos", "tokenizer.ggml.eos_token_id"),
            ("pad", "tokenizer.ggml.padding_token_id"),
        )
    }
    return {
        "vocab_size": file.tensor("token_embd.weight").shape[0],
        "hidden_size": width,
        "intermediate_size": file.count(".feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": file.count(".attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": file.count(".context_length"),
        "rms_norm_eps": file.number(".attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rotation(file),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        **token_ids,
    }


def _count_layers(file: GGUFFile) -> int:
    """Return how many layers a model has; refuse a file with tensors of another number."""
    layers = file.count(".block_count", most=MAX_LAYERS)
    found = len({name.split(".")[1] for name in file.tensors if name.startswith("blk.")})
    if found != layers:
        raise file.wrong_tensors(
            f"has tensors of {counted(found, 'layer')}, and its header says {layers:,}"
        )
    return layers


def _refuse_other_rotation(file: GGUFFile, head_dim: int, heads: int, width: int) -> None:
    """Refuse heads that rotate only in part, except in Phi-3, and a header in which the width of
    heads and the count of numbers that rotate contradict each other."""
    rotated = file.count(".rope.dimension_count", head_dim)
    is_given, is_whole = file.has(".attention.key_length"), width % heads == 0
    if rotated > head_dim or rotated % 2 or not (is_given or is_whole):
        value = f"= {head_dim:,}" if is_whole else "is no whole number"
        size = (
            f"attention.key_length is {head_dim:,}"
            if is_given
            else f"embedding_length / attention.head_count = {width:,} / {heads:,} {value}"
        )
        rotation = f", and rope.dimension_count is {rotated:,}" * file.has(".rope.dimension_count")
        raise model_error(
            f"the header of '{file.path}' contradicts itself: the width of a head, {size}"
            f"{rotation}",
            CONVERT_HINT,
        )
    if rotated != head_dim and file.architecture != "phi3":
        raise _unusual_model(file, "heads that rotate only in part")


def _rotation(file: GGUFFile) -> Config:
    """Return how positions rotate queries and keys, as transformers writes it."""
    kind = file.text(".rope.scaling.type", "none")
    rotation: Config = {
        "rope_type": "default" if kind == "none" else kind,
        "rope_theta": file.number(".rope.freq_base", 10_000.0),
    }
    if kind not in ("none", "linear", "yarn"):
        raise _unusual_model(file, f"positions scaled by {plain_or_quoted(kind)}")
    if kind != "none":
        rotation["factor"] = file.number(".rope.scaling.factor")
    if kind == "yarn":
        original = file.count(".rope.scaling.original_context_length")
        rotation["original_max_position_embeddings"] = original
        for name in ("beta_fast", "beta_slow"):
            if file.has(f".rope.scaling.yarn_{name}"):
                rotation[name] = file.number(f".rope.scaling.yarn_{name}")
    return rotation


def _gemma_config(file: GGUFFile) -> Config:
    """Return what the configs of Gemma 2 and 3 have in common.

    The largest model of each has another scale of scores, which its file does not say; llama.cpp
    knows it by the number of layers, too.
    """
    config = _llama_config(file)
    is_largest = config["num_hidden_layers"] == {"gemma2": 46, "gemma3": 62}[file.architecture]
    width_by_heads = config["hidden_size"] // config["num_attention_heads"]
    config["query_pre_attn_scalar"] = width_by_heads if is_largest else config["head_dim"]
    config["hidden_activation"] = "gelu_pytorch_tanh"
    return config


def _gemma2_config(file: GGUFFile) -> Config:
    return _gemma_config(file) | {
        "sliding_window": file.count(".attention.sliding_window", 4096),
        "attn_logit_softcapping": file.number(".attn_logit_softcapping", 50.0),
        "final_logit_softcapping": file.number(".final_logit_softcapping", 30.0),
    }


def _gemma3_config(file: GGUFFile) -> Config:
    """Return the config of Gemma 3: of six layers, five see a window and rotate faster."""
    config, cap = _gemma_config(file), ".final_logit_softcapping"
    is_windowed = file.has(".attention.sliding_window")
    kinds = [
        "sliding_attention" if is_windowed and (layer + 1) % 6 else "full_attention"
        for layer in range(config["num_hidden_layers"])
    ]
    local = {"rope_type": "default", "rope_theta": file.number(".rope.freq_base_swa", 10_000.0)}
    global_base = file.number(".rope.freq_base", 1_000_000.0)
    return config | {
        "layer_types": kinds,
        "sliding_window": file.count(".attention.sliding_window", 4096),
        "final_logit_softcapping": file.number(cap) if file.has(cap) else None,
        "rope_parameters": {
            "sliding_attention": local,
            "full_attention": config["rope_parameters"] | {"rope_theta": global_base},
        },
    }


def _phi3_config(file: GGUFFile) -> Config:
    """Return the config of Phi-3, whose long texts rotate by factors that are tensors."""
    config = _llama_config(file)
    config["sliding_window"] = file.count(".attention.sliding_window", 0, least=0) or None
    head_dim = config.pop("head_dim")  # the width by heads, in transformers
    original = file.count(
        ".rope.scaling.original_context_length", config["max_position_embeddings"]
    )
    rotation = config["rope_parameters"]
    dimensions = file.count(".rope.dimension_count", head_dim)
    rotation["partial_rotary_factor"] = dimensions / head_dim
    config["original_max_position_embeddings"] = original
    if LONG_FACTORS in file.tensors:
        rotation |= {
            "rope_type": "longrope",
            "long_factor": file.read_factors(LONG_FACTORS, dimensions // 2),
            "short_factor": file.read_factors(SHORT_FACTORS, dimensions // 2),
            "original_max_position_embeddings": original,
        }
        if file.has(".rope.scaling.attn_factor"):
            rotation["attention_factor"] = file.number(".rope.scaling.attn_factor")
    return config


def _gpt2_config(file: GGUFFile) -> Config:
    width = file.count(".embedding_length")
    return {
        "vocab_size": file.tensor("token_embd.weight").shape[0],
        "n_positions": file.count(".context_length", most=MAX_GPT2_POSITIONS),  # squared in a mask
        "n_embd": width,
        "n_layer": _count_layers(file),
        "n_head": file.count(".attention.head_count"),
        "n_inner": file.count(".feed_forward_length", 4 * width),
        "layer_norm_epsilon": file.number(".attention.layer_norm_epsilon"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "bos_token_id": file.count("tokenizer.ggml.bos_token_id", 0, least=0),
        "eos_token_id": file.count("tokenizer.ggml.eos_token_id", 0, least=0),
    }


def _keep(rows: Tensor, _name: str, _config: Config) -> Tensor:
    return rows


def _undo_rotary_order(rows: Tensor, name: str, config: Config) -> Tensor:
    """Return rows of queries or keys with the two halves of a head apart, as transformers has them.

    llama.cpp puts the two numbers that rotate together next to each other.
    """
    kinds = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    part = name.split(".")[-2]
    if part not in kinds:
        return rows
    pairs = rows.view(config[kinds[part]], -1, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


def _subtract_one(rows: Tensor, name: str, _config: Config) -> Tensor:
    return rows - 1 if name.endswith("norm.weight") else rows


def _transpose(rows: Tensor, name: str, _config: Config) -> Tensor:
    is_in_layer = name.startswith("blk.") and rows.ndim == 2
    return rows.T.contiguous() if is_in_layer else rows


@dataclass(frozen=True)
class Architecture:
    """How the files of a kind of model are read: config, names of tensors, a change to undo."""

    kind: str  # in transformers
    model_class: str
    config: Callable[[GGUFFile], Config]
    names: Mapping[str, str]
    undo: Callable[[Tensor, str, Config], Tensor] = _keep


ARCHITECTURES = {
    "llama": Architecture(
        "llama", "LlamaForCausalLM", _llama_config, LLAMA_NAMES, _undo_rotary_order
    ),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", _llama_config, LLAMA_NAMES),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", _llama_config, QWEN3_NAMES),
    "gemma2": Architecture(
        "gemma2", "Gemma2ForCausalLM", _gemma2_config, GEMMA_NAMES, _subtract_one
    ),
    "gemma3": Architecture(
        "gemma3_text", "Gemma3ForCausalLM", _gemma3_config, GEMMA_NAMES, _subtract_one
    ),
    "phi3": Architecture("phi3", "Phi3ForCausalLM", _phi3_config, PHI3_NAMES),
    "gpt2": Architecture("gpt2", "GPT2LMHeadModel", _gpt2_config, GPT2_NAMES, _transpose),
}


def find_architecture(file: GGUFFile) -> Architecture:
    """Return how a file is read; refuse a kind of model that is not known, by its name."""
    if file.architecture not in ARCHITECTURES:
        raise model_error(
            f"'{file.path}' holds a model of the kind {plain_or_quoted(file.architecture)}, "
            "which attnviz does not read from GGUF files",
            f"use a model of one of these kinds: {', '.join(ARCHITECTURES)} (Mistral is llama); or "
            "a folder that transformers wrote",
        )
    return ARCHITECTURES[file.architecture]


def _unusual_model(file: GGUFFile, feature: str) -> AttnvizError:
    return model_error(
        f"'{file.path}' holds a model ({file.architecture}) with {feature}, which attnviz does not "
        "read from GGUF files",
        "use a folder that transformers wrote",
    )
