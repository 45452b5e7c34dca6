"""GGUF files that are damaged, lie, lack something or hold something else: two lines each."""

from __future__ import annotations

import shutil
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz import AttnvizError
from attnviz.machine import memory
from attnviz.traces.trained.gguf_config import find_architecture
from attnviz.traces.trained.gguf_file import read_gguf
from tests.conftest import Attnviz
from tests.gguf_files import add_byte_vocabulary, finish

DAMAGED = "error: '{path}' is damaged or incomplete: {reason}\n hint: copy or download it again\n"
CONVERT = " hint: convert the model again, with a newer version of llama.cpp\n"
OTHER_KINDS = (
    " hint: use a model of one of these kinds: llama, qwen2, qwen3, gemma2, gemma3, phi3, gpt2 "
    "(Mistral is llama); or a folder that transformers wrote\n"
)
FACTS = {
    "embedding_length": 32,
    "feed_forward_length": 32,
    "block_count": 1,
    "head_count": 2,
    "context_length": 64,
    "layer_norm_rms_eps": 1e-5,
}
SHAPES = {
    "token_embd": (300, 32),
    "output_norm": (32,),
    "blk.0.attn_norm": (32,),
    "blk.0.attn_q": (32, 32),
    "blk.0.attn_k": (32, 32),
    "blk.0.attn_v": (32, 32),
    "blk.0.attn_output": (32, 32),
    "blk.0.ffn_norm": (32,),
    "blk.0.ffn_gate": (32, 32),
    "blk.0.ffn_up": (32, 32),
    "blk.0.ffn_down": (32, 32),
}
NO_SHAPES: dict[str, tuple[int, ...] | None] = {}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a small llama, with another kind, other facts, or other tensors (None: left out)."""

    def write_file(
        kind: str = "llama",
        shapes: Mapping[str, tuple[int, ...] | None] = NO_SHAPES,
        **facts: object,
    ) -> Path:
        writer = gguf.GGUFWriter(tmp_path / "model.gguf", kind)
        pre = str(facts.pop("pre", "gpt-2"))
        add_byte_vocabulary(writer, pre=pre)
        for name, value in {**FACTS, **facts}.items():
            if value is not None:
                getattr(writer, f"add_{name}")(value)
        for name, shape in {**SHAPES, **shapes}.items():
            if shape is not None:
                writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
        return finish(writer)

    return write_file


def _change(path: Path, position: int, value: int, code: str = "<Q") -> None:
    content = bytearray(path.read_bytes())
    struct.pack_into(code, content, position, value)
    path.write_bytes(content)


def _after(path: Path, name: str) -> int:
    """Return where what follows a name in the header begins."""
    return path.read_bytes().index(name.encode()) + len(name)


def _error(attnviz: Attnviz, path: Path) -> str:
    result = attnviz("inspect", "it was", "--model", str(path))
    assert (result.status, result.out) == (2, "")
    return result.err


def test_a_truncated_file(write: Write, attnviz: Attnviz) -> None:
    path = write()
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-4000])

    assert _error(attnviz, path) == DAMAGED.format(
        path=path,
        reason=f"its tensor 'blk.0.ffn_down.weight' would end at byte {size:,}, and the file has "
        f"{size - 4000:,}",
    )
    path.write_bytes(path.read_bytes()[:2000])
    reason = "its header has 300 texts, too many for its 2,000 bytes"
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)
    path.write_bytes(path.read_bytes()[:100])
    reason = "its header has 11 tensors, too many for its 100 bytes"
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)


HUGE = 2**60
LIES = {
    "tensors": (8, "its header has {huge} tensors, too many for its {size} bytes"),
    "facts": (16, "its header has {huge} facts, too many for its {size} bytes"),
    "the length of a name": (
        24,
        "its header says that {huge} bytes follow byte 32, and the file has {size}",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_about_a_count_allocates_nothing(
    lie: str, write: Write, attnviz: Attnviz
) -> None:
    path, (position, reason) = write(), LIES[lie]
    _change(path, position, HUGE)

    tracemalloc.start()
    with pytest.raises(AttnvizError):
        read_gguf(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    text = reason.format(huge=f"{HUGE:,}", size=f"{path.stat().st_size:,}")
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=text)


def test_a_list_that_is_said_to_be_longer_than_the_file(write: Write, attnviz: Attnviz) -> None:
    path = write()
    _change(path, _after(path, "tokenizer.ggml.tokens") + 8, HUGE)

    reason = f"its header has {HUGE:,} texts, too many for its {path.stat().st_size:,} bytes"
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)
    path = write()
    place = _after(path, "tokenizer.ggml.token_type") + 8
    _change(path, place, HUGE)
    reason = (
        f"its header says that {4 * HUGE:,} bytes follow byte {place + 8:,}, and the file has "
        f"{path.stat().st_size:,}"
    )
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)


def test_a_tensor_beyond_the_file_or_on_top_of_another(write: Write, attnviz: Attnviz) -> None:
    path = write()
    place = _after(path, "blk.0.attn_q.weight") + 4 + 16 + 4  # dimensions, shape, type
    _change(path, place, 2**50)
    assert f"its tensor 'blk.0.attn_q.weight' would end at byte {2**50 // 10**12:,}," in _error(
        attnviz, path
    )
    _change(path, place, 0)
    reason = "its tensor 'blk.0.attn_q.weight' overlaps another one"
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)


def test_a_tensor_of_impossible_shape(write: Write, attnviz: Attnviz) -> None:
    path = write()
    place = _after(path, "blk.0.attn_q.weight")
    _change(path, place, 99, "<I")
    reason = "its tensor 'blk.0.attn_q.weight' has 99 dimensions"
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)
    _change(path, place, 2, "<I")
    _change(path, place + 4 + 16, 12, "<I")  # Q4_K, in blocks of 256
    reason = "its tensor 'blk.0.attn_q.weight' has rows of 32 numbers, which Q4_K cannot have"
    assert _error(attnviz, path) == DAMAGED.format(path=path, reason=reason)


@pytest.mark.parametrize(("number", "name"), [(16, "IQ2_XXS"), (39, "MXFP4"), (99, "type 99")])
def test_an_unknown_block_type_is_refused_by_name(
    number: int, name: str, write: Write, attnviz: Attnviz
) -> None:
    path = write()
    _change(path, _after(path, "blk.0.attn_q.weight") + 4 + 16, number, "<I")

    assert _error(attnviz, path) == (
        f"error: '{path}' stores blk.0.attn_q.weight as {name}, which attnviz does not read\n"
        " hint: use a file with other weights: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
        "Q2_K to Q6_K\n"
    )


def test_a_file_that_is_none(tmp_path: Path, write: Write, attnviz: Attnviz) -> None:
    path = tmp_path / "picture.gguf"
    path.write_bytes(b"\x89PNG\r\n")
    assert _error(attnviz, path) == (
        f"error: '{path}' is no GGUF file: it does not begin with GGUF\n"
        " hint: copy or download it again\n"
    )
    path = tmp_path / "absent.gguf"
    assert _error(attnviz, path) == (
        f"error: there is no file '{path}' to load a model from\n hint: check its path\n"
    )
    path = write()
    for version, more in ((1, ""), (3 << 24, " (it may be of a big-endian machine)")):
        _change(path, 4, version, "<I")
        assert _error(attnviz, path) == (
            f"error: '{path}' is of version {version} of GGUF{more}, and attnviz reads 2 and 3\n"
            + CONVERT
        )


def test_a_vocabulary_without_merges(tmp_path: Path, attnviz: Attnviz) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b"])
    for name, value in FACTS.items():
        getattr(writer, f"add_{name}")(value)
    for name, shape in SHAPES.items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
    path = finish(writer)

    assert _error(attnviz, path) == (
        f"error: '{path}' has a vocabulary without merges, so no text can be cut into its tokens\n"
        + CONVERT
    )


def test_a_vocabulary_of_an_unknown_kind(write: Write, attnviz: Attnviz) -> None:
    path = write(pre="klingon")
    assert _error(attnviz, path).startswith(
        f"error: the vocabulary of '{path}' is split by 'klingon', which attnviz does not know\n"
        " hint: use a model whose vocabulary is one of these: default, gpt-2, gpt2, "
    )
    path = write(shapes={"token_embd": (200, 32)})
    assert _error(attnviz, path) == (
        f"error: '{path}' (llama) has 300 tokens, and vectors for 200 of them\n"
        " hint: copy or download it again\n"
    )
    path = write(bos_token_id=300)
    assert _error(attnviz, path) == (
        f"error: '{path}' gives 300 as its tokenizer.ggml.bos_token_id, and it must be a whole "
        "number from 0 to 299\n" + CONVERT
    )


def test_a_split_file_with_missing_parts(write: Write, tmp_path: Path, attnviz: Attnviz) -> None:
    path = tmp_path / "model-00002-of-00005.gguf"
    shutil.move(write(), path)
    assert _error(attnviz, path) == (
        f"error: the model '{path}' is in 5 parts, and its folder lacks "
        "model-00001-of-00005.gguf, model-00003-of-00005.gguf, model-00004-of-00005.gguf and 1 "
        "more\n hint: copy or download all its parts\n"
    )
    writer = gguf.GGUFWriter(tmp_path / "renamed.gguf", "llama")
    add_byte_vocabulary(writer)
    writer.add_uint16("split.count", 3)
    writer.add_tensor("token_embd.weight", np.ones((300, 32), np.float32))
    path = finish(writer)
    assert _error(attnviz, path) == (
        f"error: '{path}' is one of 3 parts of a model, and its name does not say which\n"
        " hint: give the parts their names again: model-00001-of-00003.gguf\n"
    )


def test_a_split_file_is_read_from_any_of_its_parts(write: Write, tmp_path: Path) -> None:
    whole = read_gguf(write())
    names = list(whole.tensors)
    for number, part in ((1, names[:4]), (2, names[4:])):
        writer = gguf.GGUFWriter(tmp_path / f"model-0000{number}-of-00002.gguf", "llama")
        if number == 1:
            add_byte_vocabulary(writer)
        writer.add_uint16("split.no", number - 1)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(names))
        for name in part:
            writer.add_tensor(name, np.ones(whole.tensors[name].shape, np.float32))
        path = finish(writer)

    header = read_gguf(path)

    assert header.architecture == "llama"
    assert {name: tensor.shape for name, tensor in header.tensors.items()} == {
        name: tensor.shape for name, tensor in whole.tensors.items()
    }


@pytest.mark.parametrize(
    ("kind", "general_type", "contents"),
    [
        ("clip", "mmproj", "the part of a model that reads pictures or sound"),
        ("llama", "adapter", "an adapter, which needs the model that it was made for"),
        ("flux", None, "a model of the kind flux, without a vocabulary"),
    ],
)
def test_a_gguf_file_that_is_not_a_language_model(
    kind: str, general_type: str | None, contents: str, tmp_path: Path, attnviz: Attnviz
) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", kind)
    if general_type is not None:
        writer.add_type(general_type)
    writer.add_tensor("weight", np.ones((2, 32), np.float32))
    path = finish(writer)

    assert _error(attnviz, path) == (
        f"error: '{path}' is no language model: it holds {contents}\n"
        " hint: give the file of a language model\n"
    )


def test_other_kinds_of_models_are_refused_by_name(write: Write, attnviz: Attnviz) -> None:
    path = write("mamba")
    assert _error(attnviz, path) == (
        f"error: '{path}' holds a model of the kind mamba, which attnviz does not read from GGUF "
        "files\n" + OTHER_KINDS
    )
    path = write(expert_count=8)
    assert _error(attnviz, path) == (
        f"error: '{path}' holds a model (llama) with experts, which attnviz does not read from "
        "GGUF files\n hint: use a folder that transformers wrote\n"
    )


ODD_FACTS = {
    "block_count": (10**6, "1000000", "a whole number from 1 to 1,000"),
    "head_count": ([2, 2], "2 values", "a whole number from 1 on"),
    "layer_norm_rms_eps": (-1.0, "-1.0", "a number above 0"),
}


@pytest.mark.parametrize("name", ODD_FACTS)
def test_facts_that_make_no_sense(name: str, write: Write, attnviz: Attnviz) -> None:
    value, shown, wanted = ODD_FACTS[name]
    keys = {"head_count": "attention.head_count"}
    key = keys.get(name, name.replace("layer_norm_rms_eps", "attention.layer_norm_rms_epsilon"))
    path = write(**{name: value})
    assert _error(attnviz, path) == (
        f"error: '{path}' gives {shown} as its llama.{key}, and it must be {wanted}\n" + CONVERT
    )
    path = write(**{name: None})
    assert _error(attnviz, path) == f"error: '{path}' does not give its llama.{key}\n" + CONVERT


OTHER_TENSORS: dict[str, tuple[dict[str, tuple[int, ...] | None], str]] = {
    "missing": ({"blk.0.attn_q": None}, "lacks model.layers.0.self_attn.q_proj.weight"),
    "unknown": (
        {"blk.0.ssm_a": (2,)},
        "has blk.0.ssm_a.weight, which its kind of model does not have",
    ),
    "of another shape": (
        {"blk.0.ffn_up": (64, 32)},
        "has blk.0.ffn_up.weight as 64 × 32, and its facts say 32 × 32",
    ),
}


@pytest.mark.parametrize("name", OTHER_TENSORS)
def test_tensors_that_are_not_those_of_the_facts(name: str, write: Write, attnviz: Attnviz) -> None:
    shapes, fault = OTHER_TENSORS[name]
    path = write(shapes=shapes)
    assert _error(attnviz, path) == (
        f"error: '{path}' (llama) {fault}\n hint: copy or download it again\n"
    )


def test_a_model_beyond_the_memory_is_refused_by_its_header(
    write: Write, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write()
    monkeypatch.setattr(memory, "free_bytes", lambda: 10_000)
    numbers = sum(int(np.prod(shape)) for shape in SHAPES.values())

    assert _error(attnviz, path) == (
        f"error: the model in '{path}', {numbers:,} numbers as float32, takes about 67.5 KB, and "
        "there are 10 KB free\n hint: --dtype bfloat16 takes half\n"
    )


def test_no_change_of_a_header_raises_another_error(write: Write) -> None:
    path = write()
    content = path.read_bytes()
    end = content.index(b"blk.0.ffn_down.weight") + 60

    @settings(max_examples=100, deadline=None)
    @given(st.dictionaries(st.integers(4, end), st.integers(0, 255), min_size=1, max_size=4))
    def check(changes: dict[int, int]) -> None:
        changed = bytearray(content)
        for place, value in changes.items():
            changed[place] = value
        path.write_bytes(changed)
        with suppress(AttnvizError):
            header = read_gguf(path)
            find_architecture(header).config(header)

    check()
