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
# Others that scale, mask, norm or turn in ways of their own: what their settings line says.
MORE = {
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
# Outside the interface by which attention is listened to: their own weights are taken.
OUTSIDE = {
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
# Nothing of their attention is a matrix of tokens.
BLIND = {
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

    config = getattr(transformers, f"{kind.name}Config")
    options = {"vocab_size": words} | SPECIAL | kind.options | changes
    made = config(**options)
    name = f"{kind.name.removesuffix('Text')}{kind.head}"
    torch.manual_seed(7)
    model = getattr(transformers, name)(made)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.4)
    model.to(dtype).save_pretrained(folder)


SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
NAMED = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def wordpiece() -> Any:
    """As BERT's: ## begins what goes on with a word, and [CLS] and [SEP] stand around a text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    letters = sorted({each for line in CORPUS for each in line.lower() if each.isascii()} - {" "})
    words = ["the", "animal", "did", "cross", "street", "because", "it", "was", "too", "tire"]
    vocabulary = [*special, *letters, *(f"##{each}" for each in letters), *words]
    made = Tokenizer(
        models.WordPiece({each: at for at, each in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return _as_transformers_has_it(
        tokenizer_object=made,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )


def byte_level() -> Any:
    """As GPT-2's and RoBERTa's: letters that stand for bytes, Ġ for a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[*NAMED.values(), "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    return _as_transformers_has_it(tokenizer_object=made, mask_token="<mask>", **NAMED)


def fallback() -> Any:
    """As Llama 2's: ▁ for a space, <s> before a text, and bytes of what is not known."""
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
    tokens = [*NAMED.values(), *(f"<0x{each:02X}>" for each in range(256)), "▁", *letters]
    vocabulary = [*tokens, *("".join(pair) for pair in pairs)]
    made = Tokenizer(
        models.BPE(
            {each: at for at, each in enumerate(vocabulary)},
            pairs,
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return _as_transformers_has_it(tokenizer_object=made, **NAMED)


def unigram() -> Any:
    """As T5's: ▁ for a space, and </s> after a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted({each for line in CORPUS for each in line if each.isascii()} - {" "})
    words = ["▁The", "▁the", "▁animal", "▁cross", "▁it", "▁was", "▁too", "▁ti", "red", "▁did"]
    pieces = [(each, 0.0) for each in [*NAMED.values(), "<unk>"]]
    pieces += [(each, -9.0) for each in ["▁", *letters]] + [(each, -2.0) for each in words]
    made = Tokenizer(models.Unigram(pieces, unk_id=3))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return _as_transformers_has_it(tokenizer_object=made, unk_token="<unk>", **NAMED)


def _as_transformers_has_it(**named: Any) -> Any:
    import transformers

    kind: Any = transformers.PreTrainedTokenizerFast
    return kind(**named)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "wordpiece": wordpiece,
    "bytes": byte_level,
    "fallback": fallback,
    "unigram": unigram,
}


EVERY = KINDS | MORE | OUTSIDE | BLIND
