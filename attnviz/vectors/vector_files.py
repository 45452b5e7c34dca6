"""Embeddings from a user's file: a row for each token id, or lines of a word and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float64, Shaped
from torch import Tensor

from attnviz.errors import AttnvizError, is_one_word, opt
from attnviz.machine import files
from attnviz.tokens.tokens import Tokens
from attnviz.vectors.arrays import read_numpy_arrays, read_tensors_and_metadata
from attnviz.wording.words import counted

Matrix = Shaped[np.ndarray, "row dim"]
Vectors = Float64[np.ndarray, "token dim"]

MAX_LINE_LETTERS = 2**22  # more than 65,536 numbers of 17 digits need
MATRIX_SUFFIXES = (".npy", ".npz", ".safetensors")


def load_vectors(name: str, tokens: Tokens) -> Float[Tensor, "token dim"]:
    """Return the vector of each token: its row of a matrix, or its word's line in a text file.

    `name` is a path; `model.safetensors#wte.weight` chooses one tensor of several. Refuses a
    missing file, a token without a vector, and numbers that are not finite.
    """
    path, tensor = files.split_inner_name(name)
    files.refuse_missing_file(path, "take embeddings from")
    files.refuse_larger(path.stat().st_size, f"'{path}'", "file of vectors")
    if path.suffix in MATRIX_SUFFIXES:
        vectors = _rows_of_tokens(_read_matrix_file(path, tensor), tokens, str(path))
    else:
        vectors = _vectors_of_words(path, tokens)
    _refuse_bad_numbers(vectors, tokens, str(path))
    return torch.from_numpy(vectors)


def _rows_of_tokens(matrix: Matrix, tokens: Tokens, path: str) -> Vectors:
    """Return the matrix's row of each token's id; refuse an id beyond the last row."""
    for label, number in zip(tokens.labels, tokens.ids, strict=True):
        if number >= len(matrix):
            raise AttnvizError(
                f"'{path}' has no vector for '{label}': its id is {number}, but the file has "
                f"{counted(len(matrix), 'row')}",
                f"use the {opt.tokenizer} that the vectors were made for",
            )
    return np.asarray(matrix[np.asarray(tokens.ids)], dtype=np.float64)


def _read_matrix_file(path: Path, tensor: str) -> Matrix:
    """Return the matrix called `tensor` in a NumPy or safetensors file, or the only one if "".

    Refuses a file without matrices, and several of which none is chosen.
    """
    if path.suffix == ".safetensors":
        arrays, _ = read_tensors_and_metadata(path)
    else:
        arrays = read_numpy_arrays(path)
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if tensor in matrices:
        return matrices[tensor]
    if len(matrices) == 1 and not tensor:
        return next(iter(matrices.values()))
    if not matrices:
        shapes = ", ".join(str(list(array.shape)) for array in arrays.values())
        raise AttnvizError(
            f"'{path}' holds no matrix of embeddings (shapes found: {shapes or 'none'})",
            "give one row for each token id: [ids, width]",
        )
    names = [name for name in matrices if is_one_word(name)] or ["NAME"]
    raise AttnvizError(
        f"'{path}' holds several matrices" if not tensor else f"'{path}' holds no '{tensor}'",
        f"name one: {path}#{names[0]} (there are: {', '.join(names)})",
    )


def _vectors_of_words(path: Path, tokens: Tokens) -> Vectors:
    """Return the tokens' vectors in a text file such as GloVe's.

    An unknown word is tried in lower case. Refuses a word without a vector, and vectors of
    different widths.
    """
    words = [piece.strip().decode(errors="replace") for piece in tokens.pieces]
    by_word = dict(_read_word_lines(path, {*words, *(word.lower() for word in words)}))
    for word, label in zip(words, tokens.labels, strict=True):
        if word not in by_word and word.lower() not in by_word:
            raise AttnvizError(
                f"'{path}' has no vector for '{label}'",
                f"use {opt.tokenizer:words}, or a file that has all the words of the text",
            )
    vectors = [by_word[word] if word in by_word else by_word[word.lower()] for word in words]
    for word, vector in zip(words, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise AttnvizError(
                f"'{path}' gives '{word}' {counted(len(vector), 'number')}, but '{words[0]}' "
                f"{len(vectors[0])}",
                "give all words the same number of numbers",
            )
    return np.asarray(vectors, dtype=np.float64)


def _read_word_lines(path: Path, words: set[str]) -> Iterator[tuple[str, list[float]]]:
    """Yield each of `words` that a file has, with its vector; skips a first line of counts.

    Words may contain spaces. Refuses lines that are not a word and its numbers.
    """
    number, width = 0, 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(iter(partial(lines.readline, MAX_LINE_LETTERS), ""), 1):
                if len(line) == MAX_LINE_LETTERS:
                    raise ValueError
                parts = line.split()
                if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                    width = int(parts[1])
                    continue
                width = width or len(parts) - 1
                word = " ".join(parts[:-width] if 0 < width < len(parts) else parts[:1])
                if word in words:
                    yield word, [float(part) for part in parts[len(word.split()) :]]
    except UnicodeDecodeError:
        raise AttnvizError(
            f"'{path}' is neither text nor one of {', '.join(MATRIX_SUFFIXES)}",
            "give text with a word and its numbers on each line, or a matrix",
        ) from None
    except ValueError:
        raise AttnvizError(
            f"line {number} of '{path}' is not a word and its numbers",
            "separate the word and the numbers by white space",
        ) from None


def _refuse_bad_numbers(vectors: Vectors, tokens: Tokens, path: str) -> None:
    """Refuse vectors of width 0, and numbers that are not finite."""
    if vectors.shape[1] == 0:
        raise AttnvizError(f"'{path}' has vectors of width 0", "give each token some numbers")
    for label, vector in zip(tokens.labels, vectors, strict=True):
        if not np.isfinite(vector).all():
            raise AttnvizError(
                f"'{path}' has a number that is not finite (NaN or infinity) for '{label}'",
                "fix the file: every number must be finite",
            )
