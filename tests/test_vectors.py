"""Vectors of one's own: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attnviz import trace
from attnviz.errors import AttnvizError
from attnviz.traces.trace import Trace


def trace_vectors(path: Path | str, text: str = "the cat", **settings: Any) -> Trace:
    return trace(text, embeddings=str(path), **({"tokenizer": "words"} | settings))


def refusal(path: Path | str, text: str = "the cat", **settings: Any) -> str:
    with pytest.raises(AttnvizError) as error:
        trace_vectors(path, text, **settings)
    return str(error.value).replace(str(path), path.name if isinstance(path, Path) else "")


def test_a_matrix_gives_each_id_its_row(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.arange(256 * 3, dtype=np.float32).reshape(256, 3))

    result = trace_vectors(tmp_path / "e.npy", "ab", tokenizer="bytes")

    assert result.embeddings.tolist() == [[291, 292, 293], [294, 295, 296]]
    assert result.provenance.settings["embeddings"] == "e.npy"
    assert result.provenance.settings["dim"] == 3


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_one_of_several_matrices_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"e{suffix}"
    tensors = {"wte": torch.ones(256, 2), "wpe": torch.zeros(256, 2), "bias": torch.zeros(3)}
    if suffix == ".npz":
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
        np.savez(path, **arrays)
    else:
        save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, path)

    assert trace_vectors(f"{path}#wte", "ab", tokenizer="bytes").embeddings.tolist() == [
        [1, 1],
        [1, 1],
    ]
    assert refusal(path, "ab", tokenizer="bytes") == f"'e{suffix}' holds several matrices"


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_text_gives_each_word_its_line(tmp_path: Path, header: str) -> None:
    (tmp_path / "glove.txt").write_text(f"{header}the 1 2\ncat 3 4\ndog 5 6\n")

    assert trace_vectors(tmp_path / "glove.txt", "The cat").embeddings.tolist() == [[1, 2], [3, 4]]
    assert trace_vectors(
        tmp_path / "glove.txt", "the dog", tokenizer="gpt2"
    ).embeddings.tolist() == [
        [1, 2],
        [5, 6],
    ]


def test_a_word_may_hold_spaces_and_tabs_separate_as_well(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("the\t1\t2\nat name@domain.com 0.1 0.2\ncat 3 4\nat 5 6\n")

    assert trace_vectors(tmp_path / "g.txt", "the cat at").embeddings.tolist() == [
        [1, 2],
        [3, 4],
        [5, 6],
    ]


def test_a_word_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 1 2\n")

    assert refusal(tmp_path / "glove.txt") == "'glove.txt' has no vector for 'cat'"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "the 1 2\ncat 3 nan\n",
            "'g.txt' has a number that is not finite (NaN or infinity) for 'cat'",
        ),
        ("the 1 2\ncat 3\n", "'g.txt' gives 'cat' 1 number, but 'the' 2"),
        ("the 1 2\ncat 3 x\n", "line 2 of 'g.txt' is not a word and its numbers"),
        ("the\ncat\n", "'g.txt' has vectors of width 0"),
    ],
)
def test_bad_text_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "g.txt").write_text(content)

    assert refusal(tmp_path / "g.txt") == problem


def test_bad_matrices_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros(5))
    np.save(tmp_path / "short.npy", np.zeros((50, 2)))
    np.save(tmp_path / "nan.npy", np.full((256, 2), np.nan))
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "pickled.npz", a=np.array([{}]))
    (tmp_path / "rubbish.npy").write_text("no numbers")
    (tmp_path / "rubbish.safetensors").write_text("no numbers")
    (tmp_path / "rubbish.bin").write_bytes(b"\xff\xfe\x00")

    def problem(name: str) -> str:
        return refusal(tmp_path / name, "ab", tokenizer="bytes")

    assert problem("flat.npy") == "'flat.npy' holds no matrix of embeddings (shapes found: [5])"
    assert (
        problem("short.npy")
        == "'short.npy' has no vector for 'a': its id is 97, but the file has 50 rows"
    )
    assert "not finite" in problem("nan.npy")
    assert problem("words.npy") == "'words.npy' holds <U1 where numbers are needed"
    assert (
        problem("pickled.npy")
        == "'pickled.npy' holds pickled data, which could run code, and is refused"
    )
    assert (
        problem("pickled.npz")
        == "'pickled.npz' holds pickled data, which could run code, and is refused"
    )
    assert problem("rubbish.npy") == "'rubbish.npy' is not a NumPy file"
    assert problem("rubbish.safetensors") == "'rubbish.safetensors' is not a safetensors file"
    assert "is neither text nor one of" in problem("rubbish.bin")
    assert problem(
        "missing.npy"
    ) == "there is no file 'missing.npy' to take embeddings from".replace(
        "'missing.npy'", "'missing.npy'"
    )


def test_a_width_that_contradicts_the_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.ones((256, 3)))

    assert refusal(tmp_path / "e.npy", "ab", tokenizer="bytes", dim=4) == (
        "dim is 4, but the embeddings are 3 wide"
    )
    assert trace_vectors(tmp_path / "e.npy", "ab", tokenizer="bytes", dim=3).embeddings.shape == (
        2,
        3,
    )
