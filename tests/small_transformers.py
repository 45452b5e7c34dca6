"""Small transformers of many kinds, with tokenizers of their own, made from configs and saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from attnviz.traces.trained.refusals import quiet_transformers

Saved = Callable[[str], Path]
CORPUS = [
    "The animal didn't cross the street because it was too tired.",
    "The trophy doesn't fit in the brown suitcase, because it is too large!",
    "She said that naïve cafés are open; he says they aren't.",
] * 3
TEXT = "The animal didn't cross the street because it was too tired"
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 96,
}
GROUPED = SIZES | {"num_key_value_heads": 2}
OF_GPT = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 96}
OF_T5 = {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 4}
OF_BART = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 96,
}


@dataclass(frozen=True)
class Kind:
    """A kind of model: its classes in transformers, its config, and how it cuts a text up."""

    name: str  # what its classes begin with
    head: str  # what its class ends with
    tokenizer: str  # a key of TOKENIZERS
    options: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "gpt2": Kind("GPT2", "LMHeadModel", "bytes", OF_GPT),
    "gpt2 scaled by layer": Kind(
        "GPT2",
        "LMHeadModel",
        "bytes",
        OF_GPT | {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    ),
    "llama": Kind("Llama", "ForCausalLM", "fallback", GROUPED),
    "mistral": Kind("Mistral", "ForCausalLM", "fallback", GROUPED | {"sliding_window": 5}),
    "gemma2": Kind(
        "Gemma2",
        "ForCausalLM",
        "fallback",
        GROUPED
        | {
            "head_dim": 8,
            "sliding_window": 5,
            "attn_logit_softcapping": 1.5,
            "query_pre_attn_scalar": 8,
        },
    ),
    "gemma3": Kind(
        "Gemma3Text", "ForCausalLM", "fallback", GROUPED | {"head_dim": 8, "sliding_window": 5}
    ),
    "qwen3": Kind("Qwen3", "ForCausalLM", "bytes", GROUPED | {"head_dim": 8}),
    "phi3": Kind("Phi3", "ForCausalLM", "fallback", GROUPED | {"pad_token_id": 0}),
    "mixtral": Kind("Mixtral", "ForCausalLM", "fallback", GROUPED | {"num_local_experts": 2}),
    "gpt-oss": Kind(
        "GptOss",
        "ForCausalLM",
        "bytes",
        GROUPED
        | {"head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 5},
    ),
    "gpt-neox": Kind("GPTNeoX", "ForCausalLM", "bytes", SIZES),
    "gpt-bigcode": Kind("GPTBigCode", "ForCausalLM", "bytes", OF_GPT),
    "opt": Kind(
        "OPT",
        "ForCausalLM",
        "bytes",
        SIZES | {"ffn_dim": 24, "word_embed_proj_dim": 16},
    ),
    "jamba": Kind(
        "Jamba",
        "ForCausalLM",
        "fallback",
        GROUPED
        | {
            "num_experts": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_dt_rank": 2,
            "use_mamba_kernels": False,
        },
    ),
    "bert": Kind("Bert", "ForMaskedLM", "wordpiece", SIZES),
    "bert to classify": Kind("Bert", "ForSequenceClassification", "wordpiece", SIZES),
    "roberta": Kind("Roberta", "ForMaskedLM", "bytes", SIZES),
    "distilbert": Kind(
        "DistilBert",
        "Model",
        "wordpiece",
        {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 64},
    ),
    "albert": Kind("Albert", "Model", "unigram", SIZES | {"embedding_size": 8}),
    "modernbert": Kind(
        "ModernBert",
        "ForMaskedLM",
        "bytes",
        SIZES
        | {"local_attention": 6}
        | dict.fromkeys(("bos_token_id", "cls_token_id"), 1)
        | dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    ),
    "t5": Kind("T5", "ForConditionalGeneration", "unigram", OF_T5 | {"decoder_start_token_id": 0}),
    "bart": Kind("Bart", "ForConditionalGeneration", "bytes", OF_BART),
}
# Others that scale, mask, norm or rotate in their own ways, which the settings line names.
MORE_KINDS = {
    "esm": Kind("Esm", "ForMaskedLM", "wordpiece", SIZES | {"position_embedding_type": "rotary"}),
    "gemma": Kind("Gemma", "ForCausalLM", "fallback", GROUPED | {"head_dim": 8}),
    "granite": Kind("Granite", "ForCausalLM", "bytes", GROUPED | {"attention_multiplier": 0.3}),
    "falcon-h1": Kind(
        "FalconH1",
        "ForCausalLM",
        "bytes",
        GROUPED
        | {
            "key_multiplier": 0.7,
            "mamba_d_ssm": 32,
            "mamba_n_heads": 4,
            "mamba_d_head": 8,
            "mamba_d_state": 8,
        },
    ),
    "llama4": Kind(
        "Llama4Text",
        "ForCausalLM",
        "fallback",
        GROUPED
        | {
            "head_dim": 4,
            "attention_chunk_size": 6,
            "num_local_experts": 2,
            "intermediate_size_mlp": 24,
            "no_rope_layers": [1, 0],
            "layer_types": ["chunked_attention", "full_attention"],
        },
    ),
    "olmo2": Kind("Olmo2", "ForCausalLM", "bytes", GROUPED),
    "cohere2": Kind("Cohere2", "ForCausalLM", "bytes", GROUPED | {"sliding_window": 4}),
    "stablelm": Kind("StableLm", "ForCausalLM", "bytes", GROUPED | {"partial_rotary_factor": 0.5}),
    "starcoder2": Kind("Starcoder2", "ForCausalLM", "bytes", GROUPED | {"sliding_window": 7}),
    "qwen2": Kind(
        "Qwen2",
        "ForCausalLM",
        "bytes",
        GROUPED | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "phi": Kind("Phi", "ForCausalLM", "bytes", GROUPED),
    "persimmon": Kind("Persimmon", "ForCausalLM", "bytes", SIZES),
    "biogpt": Kind("BioGpt", "ForCausalLM", "bytes", SIZES),
    "electra": Kind("Electra", "Model", "wordpiece", SIZES | {"embedding_size": 8}),
    "pegasus": Kind("Pegasus", "ForConditionalGeneration", "unigram", OF_BART),
    "squeezebert": Kind("SqueezeBert", "Model", "wordpiece", SIZES | {"embedding_size": 16}),
    "convbert": Kind("ConvBert", "Model", "wordpiece", SIZES | {"embedding_size": 16}),
    "xglm": Kind(
        "XGLM",
        "ForCausalLM",
        "bytes",
        {"d_model": 16, "num_layers": 2, "attention_heads": 4, "ffn_dim": 24},
    ),
}
# Without the interface by which attention is captured: the weights that they return are used.
KINDS_WITHOUT_CAPTURE = {
    "bloom": Kind("Bloom", "ForCausalLM", "bytes", {"hidden_size": 16, "n_layer": 2, "n_head": 4}),
    "falcon": Kind("Falcon", "ForCausalLM", "bytes", SIZES),
    "mpt": Kind("Mpt", "ForCausalLM", "bytes", {"d_model": 16, "n_layers": 2, "n_heads": 4}),
    "gpt-j": Kind("GPTJ", "ForCausalLM", "bytes", OF_GPT | {"rotary_dim": 4}),
    "gpt-neo": Kind(
        "GPTNeo",
        "ForCausalLM",
        "bytes",
        {
            "hidden_size": 16,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
        },
    ),
    "deberta": Kind(
        "DebertaV2",
        "Model",
        "unigram",
        SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    ),
    "mpnet": Kind("MPNet", "Model", "wordpiece", SIZES),
    "xlnet": Kind(
        "XLNet", "Model", "unigram", {"d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24}
    ),
}
# Their attention, if any, is not a matrix of tokens.
KINDS_WITHOUT_WEIGHTS = {
    "mamba": Kind(
        "Mamba",
        "ForCausalLM",
        "bytes",
        {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    ),
    "fnet": Kind(
        "FNet",
        "Model",
        "wordpiece",
        {"hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24},
    ),
    "longformer": Kind("Longformer", "Model", "bytes", SIZES | {"attention_window": 4}),
}


def save(kind: Kind, folder: Path, *, dtype: torch.dtype = torch.float32, **changes: Any) -> Path:
    """A model with numbers large enough for attention to be uneven, and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = TOKENIZERS[kind.tokenizer]()
    with quiet_transformers():
        _save_model(kind, folder, len(tokenizer), dtype, changes)
    tokenizer.save_pretrained(folder)
    return folder


def _save_model(
    kind: Kind, folder: Path, words: int, dtype: torch.dtype, changes: dict[str, Any]
) -> None:
    import transformers

    config_class = getattr(transformers, f"{kind.name}Config")
    options = {"vocab_size": words} | SPECIAL | kind.options | changes
    config = config_class(**options)
    name = f"{kind.name.removesuffix('Text')}{kind.head}"
    torch.manual_seed(7)
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.4)
    model.to(dtype).save_pretrained(folder)


SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def wordpiece_tokenizer() -> Any:
    """Like BERT's: ## continues a word, and [CLS] and [SEP] surround a text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    special_tokens = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    letters = sorted({each for line in CORPUS for each in line.lower() if each.isascii()} - {" "})
    words = ["the", "animal", "did", "cross", "street", "because", "it", "was", "too", "tire"]
    vocabulary = [*special_tokens, *letters, *(f"##{each}" for each in letters), *words]
    tokenizer = Tokenizer(
        models.WordPiece({each: at for at, each in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return _transformers_tokenizer(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )


def byte_level() -> Any:
    """Like GPT-2's and RoBERTa's: letters stand for bytes, Ġ for a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[*SPECIAL_TOKENS.values(), "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _transformers_tokenizer(
        tokenizer_object=tokenizer, mask_token="<mask>", **SPECIAL_TOKENS
    )


def fallback() -> Any:
    """Like Llama 2's: ▁ for a space, <s> before a text, and bytes for unknown letters."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    letters = sorted({each for line in CORPUS for each in line if each.isascii()} - {" "})
    pairs = [
        ("▁", "t"),
        ("h", "e"),
        ("▁t", "he"),
        ("i", "t"),
        ("▁", "it"),
        ("▁", "T"),
        ("▁T", "he"),
    ]
    tokens = [*SPECIAL_TOKENS.values(), *(f"<0x{each:02X}>" for each in range(256)), "▁", *letters]
    vocabulary = [*tokens, *("".join(pair) for pair in pairs)]
    tokenizer = Tokenizer(
        models.BPE(
            {each: at for at, each in enumerate(vocabulary)},
            pairs,
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return _transformers_tokenizer(tokenizer_object=tokenizer, **SPECIAL_TOKENS)


def unigram_tokenizer() -> Any:
    """Like T5's: ▁ for a space, and </s> after a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted({each for line in CORPUS for each in line if each.isascii()} - {" "})
    words = ["▁The", "▁the", "▁animal", "▁cross", "▁it", "▁was", "▁too", "▁ti", "red", "▁did"]
    pieces = [(each, 0.0) for each in [*SPECIAL_TOKENS.values(), "<unk>"]]
    pieces += [(each, -9.0) for each in ["▁", *letters]] + [(each, -2.0) for each in words]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return _transformers_tokenizer(tokenizer_object=tokenizer, unk_token="<unk>", **SPECIAL_TOKENS)


def _transformers_tokenizer(**fields: Any) -> Any:
    import transformers

    tokenizer_class: Any = transformers.PreTrainedTokenizerFast
    return tokenizer_class(**fields)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "wordpiece": wordpiece_tokenizer,
    "bytes": byte_level,
    "fallback": fallback,
    "unigram": unigram_tokenizer,
}


EVERY = KINDS | MORE_KINDS | KINDS_WITHOUT_CAPTURE | KINDS_WITHOUT_WEIGHTS
