"""GGUF files that are damaged, contradictory, incomplete or unsuitable: two lines each."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz import AttnvizError, survey
from attnviz.machine import memory
from attnviz.wings.gguf.config import find_architecture
from attnviz.wings.gguf.file import GGUFFile, read_gguf
from tests.conftest import Attnviz
from tests.gguf.files import add_byte_vocabulary, finish
from tests.refusals import refusal_lines
from tests.tiers import examples

DAMAGED_ERROR = (
    "error: '{path}' is damaged or incomplete: {reason}\n hint: copy or download it again\n"
)
CONVERT_HINT = "convert the model again, with a newer version of llama.cpp"
CONVERT_LINE = f" hint: {CONVERT_HINT}\n"
OTHER_KINDS_HINT = (
    "use a model of one of these kinds: llama, qwen2, qwen3, gemma2, gemma3, phi3, gpt2 (Mistral "
    "is llama); or a folder that transformers wrote"
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
def write_model_file(tmp_path: Path) -> Write:
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


def _overwrite(path: Path, position: int, value: float, code: str = "<Q") -> None:
    content = bytearray(path.read_bytes())
    struct.pack_into(code, content, position, value)
    path.write_bytes(content)


def _position_after(path: Path, name: str) -> int:
    """The position after a name in the header."""
    return path.read_bytes().index(name.encode()) + len(name)


def _read_error(attnviz: Attnviz, path: Path) -> str:
    result = attnviz("inspect", "it was", "--model", str(path))
    assert (result.status, result.out) == (2, "")
    return result.err


HUGE = 2**60
QUERY_MATRIX = "blk.0.attn_q.weight"
TYPE_OFFSET = 4 + 16  # from the end of a tensor's name, over its dimensions and its shape
AFTER_TYPE = TYPE_OFFSET + 4
Damage = Callable[[Path], object]


def cut(end: int) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[:end])


def put(position: int, value: int) -> Damage:
    return lambda path: _overwrite(path, position, value)


def put_after(name: str, offset: int, value: int, code: str = "<Q") -> Damage:
    """Another number behind a name in the header."""
    return lambda path: _overwrite(path, _position_after(path, name) + offset, value, code)


DAMAGE_BY_REASON: dict[str, Damage] = {
    "its tensor 'blk.0.ffn_down.weight' would end at byte {whole:,}, and the file has "
    "{size:,}": cut(-4000),
    "its header has 300 texts, too many for its 2,000 bytes": cut(2000),
    "its header has 11 tensors, too many for its 100 bytes": cut(100),
    "its header has {huge:,} tensors, too many for its {size:,} bytes": put(8, HUGE),
    "its header has {huge:,} metadata entries, too many for its {size:,} bytes": put(16, HUGE),
    "its header says that {huge:,} bytes follow byte 32, and the file has {size:,}": put(24, HUGE),
    "its header has {huge:,} texts, too many for its {size:,} bytes": put_after(
        "tokenizer.ggml.tokens", 8, HUGE
    ),
    "its header says that {huge_list:,} bytes follow byte {start:,}, and the file has "
    "{size:,}": put_after("tokenizer.ggml.token_type", 8, HUGE),
    f"its tensor '{QUERY_MATRIX}' overlaps another one": put_after(QUERY_MATRIX, AFTER_TYPE, 0),
    f"its tensor '{QUERY_MATRIX}' has 99 dimensions": put_after(QUERY_MATRIX, 0, 99, "<I"),
    f"its tensor '{QUERY_MATRIX}' has rows of 32 numbers, which Q4_K cannot have": put_after(
        QUERY_MATRIX, TYPE_OFFSET, 12, "<I"
    ),
}


@pytest.mark.parametrize("reason", DAMAGE_BY_REASON)
def test_a_damaged_file_is_refused_and_what_it_says_is_not_allocated(
    reason: str, write_model_file: Write, attnviz: Attnviz
) -> None:
    path = write_model_file()
    whole, start = path.stat().st_size, _position_after(path, "tokenizer.ggml.token_type") + 16
    DAMAGE_BY_REASON[reason](path)

    tracemalloc.start()
    with pytest.raises(AttnvizError):
        read_gguf(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    numbers = {"huge": HUGE, "huge_list": 4 * HUGE, "whole": whole, "start": start}
    text = reason.format(size=path.stat().st_size, **numbers)
    assert _read_error(attnviz, path) == DAMAGED_ERROR.format(path=path, reason=text)


def test_a_header_of_more_entries_than_any_model_has(tmp_path: Path, attnviz: Attnviz) -> None:
    entry = struct.pack("<Q", 1) + b"k" + struct.pack("<IB", 7, 1)
    for entries, tensors, what in ((100_001, 0, "metadata entries"), (0, 100_001, "tensors")):
        path = tmp_path / "many.gguf"
        counts = struct.pack("<IQQ", 3, tensors, entries)
        path.write_bytes(b"GGUF" + counts + entry * 3 + bytes(24 * 100_001))

        reason = f"its header has 100,001 {what}, more than any model"
        assert _read_error(attnviz, path) == DAMAGED_ERROR.format(path=path, reason=reason)


def test_a_tensor_beyond_the_file(write_model_file: Write, attnviz: Attnviz) -> None:
    path = write_model_file()
    put_after(QUERY_MATRIX, AFTER_TYPE, 2**50)(path)
    assert f"its tensor '{QUERY_MATRIX}' would end at byte {2**50 // 10**12:,}," in _read_error(
        attnviz, path
    )


@pytest.mark.parametrize(("number", "name"), [(16, "IQ2_XXS"), (39, "MXFP4"), (99, "type 99")])
def test_an_unknown_block_type_is_refused_by_name(
    number: int, name: str, write_model_file: Write, attnviz: Attnviz
) -> None:
    path = write_model_file()
    put_after(QUERY_MATRIX, TYPE_OFFSET, number, "<I")(path)

    assert _read_error(attnviz, path) == (
        f"error: '{path}' stores blk.0.attn_q.weight as {name}, which attnviz does not read\n"
        " hint: use a file with other weights: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
        "Q2_K to Q6_K\n"
    )


def test_a_file_that_is_none(tmp_path: Path, write_model_file: Write, attnviz: Attnviz) -> None:
    path = tmp_path / "picture.gguf"
    path.write_bytes(b"\x89PNG\r\n")
    assert _read_error(attnviz, path) == (
        f"error: '{path}' is no GGUF file: it does not begin with GGUF\n"
        " hint: copy or download it again\n"
    )
    path = tmp_path / "absent.gguf"
    assert _read_error(attnviz, path) == (
        f"error: there is no file '{path}' to load a model from\n hint: check its path\n"
    )
    path = tmp_path / "pointer.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    assert _read_error(attnviz, path) == (
        f"error: '{path}' is no GGUF file: it is a Git LFS pointer\n"
        " hint: fetch the file itself: git lfs pull\n"
    )


def test_a_file_of_another_version_or_of_a_big_endian_machine(
    write_model_file: Write, attnviz: Attnviz
) -> None:
    path = write_model_file()
    for version, hint in ((1, CONVERT_LINE), (9, " hint: pip install --upgrade attnviz\n")):
        _overwrite(path, 4, version, "<I")
        assert _read_error(attnviz, path) == (
            f"error: '{path}' is of version {version} of GGUF, and attnviz reads 2 and 3\n{hint}"
        )
    _overwrite(path, 4, 3, ">I")
    assert _read_error(attnviz, path) == (
        f"error: '{path}' is a big-endian GGUF file, and attnviz reads little-endian ones\n"
        " hint: convert it with llama.cpp's own package: pip install gguf; gguf-convert-endian "
        f"{path} little\n"
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

    assert _read_error(attnviz, path) == (
        f"error: '{path}' has a vocabulary without merges, so no text can be cut into its tokens\n"
        + CONVERT_LINE
    )


WIDTH = "the header of '{}' contradicts itself: the width of a head, "
QUOTIENT = "embedding_length / attention.head_count = 32 /"
RULES_HINT = "use a model with one of these rules (tokenizer.ggml.pre): default, "
# By the hint and the problem: what is written in place of the usual.
UNFIT_FILES: dict[str, dict[str, dict[str, Any]]] = {
    RULES_HINT: {
        "'{}' cannot be read: its text is cut by the rule 'klingon', which attnviz does not know": {
            "pre": "klingon"
        },
    },
    "copy or download it again": {
        "'{}' (llama) has 300 tokens, and vectors for 200 of them": {
            "shapes": {"token_embd": (200, 32)}
        },
        "'{}' (llama) lacks blk.0.attn_q.weight and output_norm.weight": {
            "shapes": {"blk.0.attn_q": None, "output_norm": None}
        },
        "'{}' (llama) lacks blk.0.attn_k.weight, blk.0.attn_norm.weight, blk.0.attn_output.weight "
        "and 2 more": {
            "shapes": dict.fromkeys(name for name in SHAPES if name.startswith("blk.0.attn"))
        },
        "'{}' (llama) has blk.0.ssm_a.weight, which its kind of model does not have": {
            "shapes": {"blk.0.ssm_a": (2,)}
        },
        "'{}' (llama) has blk.0.ffn_up.weight as 64 × 32, and its header says 32 × 32": {
            "shapes": {"blk.0.ffn_up": (64, 32)}
        },
        "'{}' (llama) has tensors of 2 layers, and its header says 1": {
            "shapes": {"blk.1.attn_q": (32, 32), "blk.1.attn_k": (32, 32)}
        },
    },
    CONVERT_HINT: {
        "'{}' gives 300 as its tokenizer.ggml.bos_token_id, and it must be a whole number from 0 "
        "to 299": {"bos_token_id": 300},
        f"{WIDTH}{QUOTIENT} 8 = 4, and rope.dimension_count is 16": {
            "head_count": 8,
            "rope_dimension_count": 16,
        },
        f"{WIDTH}{QUOTIENT} 3 is no whole number, and rope.dimension_count is 16": {
            "head_count": 3,
            "rope_dimension_count": 16,
        },
        f"{WIDTH}{QUOTIENT} 3 is no whole number": {"head_count": 3},
        f"{WIDTH}attention.key_length is 8, and rope.dimension_count is 16": {
            "key_length": 8,
            "rope_dimension_count": 16,
        },
    },
    OTHER_KINDS_HINT: {
        "'{}' holds a model of the kind mamba, which attnviz does not read from GGUF files": {
            "kind": "mamba"
        },
    },
    "use a folder that transformers wrote": {
        "'{}' holds a model (llama) with experts, which attnviz does not read from GGUF files": {
            "expert_count": 8
        },
    },
}


@pytest.mark.parametrize(
    ("hint", "problem"), [(hint, problem) for hint in UNFIT_FILES for problem in UNFIT_FILES[hint]]
)
def test_a_file_that_cannot_be_used_is_refused_in_two_lines(
    hint: str, problem: str, write_model_file: Write, attnviz: Attnviz
) -> None:
    path = write_model_file(**UNFIT_FILES[hint][problem])

    lines = refusal_lines(attnviz("inspect", "it was", "--model", str(path)))

    assert lines[0] == problem.format(path)
    assert lines[1] == hint or (hint == RULES_HINT and lines[1].startswith(hint))


def test_heads_that_rotate_only_in_part_are_refused(
    write_model_file: Write, attnviz: Attnviz
) -> None:
    path = write_model_file(rope_dimension_count=8)  # of 16
    assert "(llama) with heads that rotate only in part, which" in _read_error(attnviz, path)


def test_a_split_file_with_missing_parts(
    write_model_file: Write, tmp_path: Path, attnviz: Attnviz
) -> None:
    path = tmp_path / "model-00002-of-00005.gguf"
    shutil.move(write_model_file(), path)
    assert _read_error(attnviz, path) == (
        f"error: the model '{path}' is in 5 parts, and its folder lacks "
        "model-00001-of-00005.gguf, model-00003-of-00005.gguf, model-00004-of-00005.gguf and 1 "
        "more\n hint: copy or download all its parts\n"
    )
    writer = gguf.GGUFWriter(tmp_path / "renamed.gguf", "llama")
    add_byte_vocabulary(writer)
    writer.add_uint16("split.count", 3)
    writer.add_tensor("token_embd.weight", np.ones((300, 32), np.float32))
    path = finish(writer)
    assert _read_error(attnviz, path) == (
        f"error: '{path}' is one of 3 parts of a model, and its name does not say which\n"
        " hint: give the parts their names again: model-00001-of-00003.gguf\n"
    )


def _write_parts(original: GGUFFile, tmp_path: Path) -> Path:
    """Write a file in two parts; return the last one."""
    names = list(original.tensors)
    for number, part in ((1, names[:4]), (2, names[4:])):
        writer = gguf.GGUFWriter(tmp_path / f"model-0000{number}-of-00002.gguf", "llama")
        if number == 1:
            add_byte_vocabulary(writer)
        writer.add_uint16("split.no", number - 1)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(names))
        for name in part:
            writer.add_tensor(name, np.ones(original.tensors[name].shape, np.float32))
        path = finish(writer)
    return path


def test_a_part_under_another_parts_name_is_refused(
    write_model_file: Write, tmp_path: Path, attnviz: Attnviz
) -> None:
    second_part = _write_parts(read_gguf(write_model_file()), tmp_path)
    first_part = second_part.with_name("model-00001-of-00002.gguf")
    content = first_part.read_bytes()
    shutil.copy(first_part, second_part)
    assert _read_error(attnviz, first_part) == (
        f"error: '{second_part}' contains part 1\n hint: copy or download that part again\n"
    )
    put_after("split.count", 4, 5, "<H")(first_part)
    put_after("split.no", 4, 1, "<H")(second_part)
    assert _read_error(attnviz, first_part) == (
        f"error: '{first_part}' is one of 5 parts of a model, and its name says 2\n"
        " hint: give the parts their names again: model-00001-of-00003.gguf\n"
    )
    first_part.write_bytes(content)
    assert _read_error(attnviz, first_part) == (
        f"error: the parts of '{first_part}' have 4 tensors, and the header of the first one "
        "says 11\n"
        " hint: copy or download all its parts again\n"
    )


def test_what_a_header_says_is_no_advice(write_model_file: Write, attnviz: Attnviz) -> None:
    path, name, advice = write_model_file(), b"blk.0.ffn_down.weight", b"x'. hint: run this, it"
    assert len(advice) == len(name) + 1
    path.write_bytes(path.read_bytes().replace(name, advice[:-1]))
    _overwrite(path, path.read_bytes().index(advice[:-1]) + len(name), 99, "<I")

    assert "its tensor 'x’. hint: run this, i' has 99 dimensions" in _read_error(attnviz, path)


def test_a_file_that_is_named_as_part_0_of_0_is_a_whole_one(
    write_model_file: Write, tmp_path: Path
) -> None:
    path = write_model_file().rename(tmp_path / "m-00000-of-00000.gguf")

    assert read_gguf(path).architecture == "llama"


def test_a_split_file_is_read_from_any_of_its_parts(
    write_model_file: Write, tmp_path: Path
) -> None:
    original = read_gguf(write_model_file())

    header = read_gguf(_write_parts(original, tmp_path))

    assert header.architecture == "llama"
    assert {name: tensor.shape for name, tensor in header.tensors.items()} == {
        name: tensor.shape for name, tensor in original.tensors.items()
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

    assert _read_error(attnviz, path) == (
        f"error: '{path}' is no language model: it holds {contents}\n"
        " hint: give the file of a language model\n"
    )


ODD_FACTS = {
    "block_count": (10**6, "1,000,000", "a whole number from 1 to 1,000"),
    "context_length": (2**31, "2,147,483,648", "a whole number from 1 to 2,147,483,647"),
    "head_count": ([2, 2], "2 values", "a whole number from 1 to 2,147,483,647"),
    "layer_norm_rms_eps": (-1.0, "-1.0", "a number above 0"),
}


@pytest.mark.parametrize("name", ODD_FACTS)
def test_facts_that_make_no_sense(name: str, write_model_file: Write, attnviz: Attnviz) -> None:
    value, printed_value, expected = ODD_FACTS[name]
    keys = {"head_count": "attention.head_count"}
    key = keys.get(name, name.replace("layer_norm_rms_eps", "attention.layer_norm_rms_epsilon"))
    path = write_model_file(**{name: value})
    assert _read_error(attnviz, path) == (
        f"error: '{path}' gives {printed_value} as its llama.{key}, and it must be {expected}\n"
        + CONVERT_LINE
    )
    path = write_model_file(**{name: None})
    assert (
        _read_error(attnviz, path)
        == f"error: '{path}' does not give its llama.{key}\n" + CONVERT_LINE
    )


def test_merges_of_another_vocabulary(write_model_file: Write, attnviz: Attnviz) -> None:
    path = write_model_file()
    position = path.read_bytes().index("Ġt".encode())  # a token, and then a merge
    content = bytearray(path.read_bytes())
    content[position : position + 3] = b"\xc4\xa0~"
    path.write_bytes(content)
    assert _read_error(attnviz, path) == (
        f"error: '{path}' has merges of another vocabulary than its own: 'Ġt' is in its merges, "
        "and none of its tokens\n"
        " hint: use another file of this model, or a folder that transformers wrote\n"
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["blk.0.ffn_up.weight", "token_embd.weight"])
def test_weights_that_are_no_numbers_are_refused_by_the_name_in_the_file(
    name: str, number: float, write_model_file: Write, attnviz: Attnviz
) -> None:
    path = write_model_file()
    tensor = read_gguf(path).tensors[name]
    for row in range(tensor.shape[0]):
        _overwrite(path, tensor.start + 4 * 32 * row, number, "<f")
    error = (
        f"error: the model 'model' (llama) has weights that are infinite or not a number (NaN), in "
        f"{name}\n hint: copy or download it again; if you trained it, use an earlier checkpoint\n"
    )

    assert _read_error(attnviz, path) == error
    with pytest.raises(AttnvizError, match=f"NaN.*, in {name}\n"):
        survey(["it was", "was it"], model=path)


@pytest.mark.slow("processes")
def test_what_the_header_alone_refutes_is_refused_before_transformers_is_imported(
    write_model_file: Write,
) -> None:
    path = write_model_file(pre="klingon")
    code = (
        "import sys, attnviz\n"
        "try:\n"
        f"    attnviz.trace('it', model={str(path)!r})\n"
        "except attnviz.AttnvizError as error:\n"
        "    print('klingon' in str(error), 'transformers' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stdout == "True False\n"


def test_a_model_beyond_the_memory_is_refused_by_its_header(
    write_model_file: Write, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model_file()
    numbers = sum(int(np.prod(shape)) for shape in SHAPES.values())
    for free, hint in (
        (10, "close other programs, or take a machine with more memory"),
        (40, "--dtype bfloat16 takes half"),
    ):
        monkeypatch.setattr(memory, "free_bytes", lambda free=free: 1000 * free)

        assert _read_error(attnviz, path) == (
            f"error: the model in '{path}', {numbers:,} numbers as float32, takes about 67.5 KB, "
            f"and there are {free} KB free\n hint: {hint}\n"
        )


def test_no_change_of_a_header_raises_another_error(write_model_file: Write) -> None:
    path = write_model_file()
    content = path.read_bytes()
    header_end = content.index(b"blk.0.ffn_down.weight") + 60

    @settings(max_examples=examples(100), deadline=None)
    @given(st.dictionaries(st.integers(4, header_end), st.integers(0, 255), min_size=1, max_size=4))
    def check(changes: dict[int, int]) -> None:
        damaged_content = bytearray(content)
        for position, value in changes.items():
            damaged_content[position] = value
        path.write_bytes(damaged_content)
        with suppress(AttnvizError):
            header = read_gguf(path)
            find_architecture(header).config(header)

    check()
