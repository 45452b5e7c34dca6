"""Vectors from a trained model's table of embeddings, and their principal components.

A token is looked up on its own, as a word in running text: so it has the same vector in every
sentence. Where the model's vocabulary has it in several pieces, it is their mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import counted

TOKENIZER_FILE = "tokenizer.json"
WORD_START_MARKS = (
    "Ġ",
    "▁",
)  # before a piece that begins a word; "##" stands before one that does not
UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<|unk|>")  # what stands for all that a vocabulary lacks
MAX_COMPONENT_WORDS = 25_000  # of which components are found: those with the lowest ids
WORD_TOKENIZER_HINT = "cut the text with --tokenizer words"


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A model's table, and what cuts words into the pieces that it has rows for."""

    name: str
    table: EmbeddingTable
    tokenizer: Any

    def piece_ids(self, word: str) -> list[int]:
        """The ids of a word as it stands in running text: after a space, where that is its own."""
        own_ids, after_space = (self._ids(text) for text in (word, f" {word}"))
        return after_space if word[:1].isalnum() and len(after_space) <= len(own_ids) else own_ids

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def mean_vector(self, ids: Sequence[int]) -> Float64[np.ndarray, "dim"]:
        mean: Float64[np.ndarray, "dim"] = self.table.read_rows(ids).mean(0)
        return mean

    def whole_word_ids(self) -> list[int]:
        """The ids of whole words, letters alone, the lowest first: the most frequent, mostly."""
        ids_by_piece = self.tokenizer.get_vocab(with_added_tokens=False)
        mark = next(
            (
                candidate
                for candidate in WORD_START_MARKS
                if any(map(_starts_with_mark(candidate), ids_by_piece))
            ),
            "",
        )
        word_ids = (number for word, number in ids_by_piece.items() if _is_word(word, mark))
        return sorted(number for number in word_ids if number < self.table.rows)[
            :MAX_COMPONENT_WORDS
        ]


def look_up_vectors(
    folder: Path, name: str, tokens: Tokens, dim: int | None
) -> tuple[Float[Tensor, "token dim"], FromTable]:
    """A vector for each token; reduced to its principal components where fewer are asked for."""
    folder_state = files.read_folder_state(folder)
    lexicon = _load_lexicon(folder, name, folder_state)
    _refuse_excess_width(lexicon, dim)
    words = [
        _lookup_word(piece, label)
        for piece, label in zip(tokens.pieces, tokens.labels, strict=True)
    ]
    ids_by_word = {word: lexicon.piece_ids(word) for word in dict.fromkeys(words)}
    for word, label in zip(words, tokens.labels, strict=True):
        _refuse_unknown_token(lexicon, ids_by_word[word], label)
    vectors_by_word = {word: lexicon.mean_vector(ids) for word, ids in ids_by_word.items()}
    vectors = np.stack([vectors_by_word[word] for word in words])
    width = lexicon.table.width
    if dim in (None, width):
        return torch.from_numpy(vectors), FromTable(width, None)
    components = _word_components(folder, name, dim or 0, folder_state)
    return torch.from_numpy(components.coordinates(vectors)), FromTable(
        width, components.kept_variance
    )


@lru_cache(maxsize=2)
def _load_lexicon(folder: Path, name: str, folder_state: files.FolderState) -> Lexicon:
    """Once, as long as its files stay as they are now."""
    return Lexicon(name, find_table(folder), _read_tokenizer(folder, name))


@lru_cache(maxsize=2)  # of values of --by dim, and of two sentences
def _word_components(
    folder: Path, name: str, dim: int, folder_state: files.FolderState
) -> Components:
    """Of the model's whole words: what tells words apart, and not their endings."""
    lexicon = _load_lexicon(folder, name, folder_state)
    words = lexicon.whole_word_ids()
    if dim >= len(words):
        raise AttnvizError(
            f"--dim is {dim}, but the {counted(len(words), 'whole word')} of '{name}' give fewer "
            "components",
            f"leave --dim out: vectors are then {lexicon.table.width} wide",
            about="dim",
        )
    return principal_components(lexicon.table.read_many_rows(words), dim)


def _read_tokenizer(folder: Path, name: str) -> Any:
    """What cuts texts for the model: no more of transformers is needed."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise AttnvizError(
            f"the vectors of '{name}' need the package tokenizers, which is not installed",
            'pip install "attnviz[models]"',
            about="embeddings",
        ) from None
    if not files.is_file(folder / TOKENIZER_FILE):
        raise AttnvizError(
            f"there is no {TOKENIZER_FILE} in '{folder.name}'",
            "save the model's tokenizer there: tokenizer.save_pretrained(folder)",
            about="embeddings",
        )
    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    except Exception as error:
        if type(error) is not Exception:  # the package raises no other
            raise
        raise AttnvizError(
            f"'{folder / TOKENIZER_FILE}' is damaged, or of another version",
            "download the folder again",
            about="embeddings",
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _lookup_word(piece: bytes, label: str) -> str:
    """What is looked up of a token: its letters, without white space around them."""
    word = piece.decode(errors="replace").strip()
    if not word:
        raise AttnvizError(
            f"'{label}' is white space, which has no vector",
            WORD_TOKENIZER_HINT,
            about="embeddings",
        )
    if "\ufffd" in word:
        raise AttnvizError(
            f"'{label}' is part of a letter, which has no vector",
            WORD_TOKENIZER_HINT,
            about="embeddings",
        )
    return word


def _refuse_unknown_token(lexicon: Lexicon, ids: Sequence[int], label: str) -> None:
    """A token that is unknown has no vector of its own: all such tokens would be one."""
    unknown = {lexicon.tokenizer.token_to_id(name) for name in UNKNOWN_TOKENS}
    if not ids or unknown & {*ids} or max(ids) >= lexicon.table.rows:
        raise AttnvizError(
            f"'{lexicon.name}' has no vector for '{label}': its vocabulary has no such piece",
            "leave it out of the text",
            about="embeddings",
        )


def _refuse_excess_width(lexicon: Lexicon, dim: int | None) -> None:
    if dim is not None and dim > lexicon.table.width:
        raise AttnvizError(
            f"--dim is {dim}, but the vectors of '{lexicon.name}' are {lexicon.table.width} wide",
            f"leave --dim out, or give at most {lexicon.table.width}",
            about="dim",
        )


def _starts_with_mark(mark: str) -> Any:
    return lambda piece: piece.startswith(mark)


def _is_word(piece: str, mark: str) -> bool:
    """
    >>> _is_word("cat", ""), _is_word("##s", ""), _is_word("[CLS]", ""), _is_word("Ġcat", "Ġ")
    (True, False, False, True)
    """
    return piece.startswith(mark) and piece.removeprefix(mark).isalpha()


@dataclass(frozen=True, eq=False)
class Components:
    """Directions at right angles to each other, from a mean: those of the most variance first."""

    mean: Float64[np.ndarray, "dim"]
    directions: Float64[np.ndarray, "dim component"]
    kept_variance: float  # of the variance, from 0 to 1

    def coordinates(
        self, vectors: Float64[np.ndarray, "token dim"]
    ) -> Float64[np.ndarray, "token component"]:
        """How far each vector is from the mean in each direction."""
        coordinates: Float64[np.ndarray, "token component"] = (
            vectors - self.mean
        ) @ self.directions
        return coordinates


def principal_components(rows: Float64[np.ndarray, "row dim"], count: int) -> Components:
    """The first so many components of some rows.

    >>> principal_components(np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]), 1).kept_variance
    1.0
    """
    mean = rows.mean(0)
    centred = rows - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)  # the smallest first
    variances, directions = variances[::-1].clip(min=0), directions[:, ::-1][:, :count]
    total = variances.sum()
    kept_variance = float(variances[:count].sum() / total) if total else 1.0
    return Components(mean, directions * _direction_signs(directions), kept_variance)


def _direction_signs(
    directions: Float64[np.ndarray, "dim component"],
) -> Float64[np.ndarray, "component"]:
    """A direction is as good as its opposite: that with the largest number above 0 is taken."""
    largest = np.abs(directions).argmax(0)
    signs: Float64[np.ndarray, "component"] = np.sign(
        directions[largest, np.arange(directions.shape[1])]
    )
    return signs


Rows = Float64[np.ndarray, "row dim"]

SINGLE_WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"  # which part holds what
EMBEDDING_TABLE_NAMES = (  # how models call their table; some stand in front of it: "bert.embeddings.…"
    "word_embeddings.weight", "wte.weight", "embed_tokens.weight", "shared.weight",
    "embed_in.weight", "tok_embeddings.weight", "word_embedding.weight", "embeddings.weight",
)  # fmt: skip
TABLE_ROWS_AT_ONCE = 4096  # rows that are read together


@dataclass(frozen=True)
class FromTable:
    """Vectors were taken from a model's table; whether they were reduced, and what that kept."""

    width: int  # of the table
    kept: float | None  # of the variance of its words; None: they are as they were


@dataclass(frozen=True)
class EmbeddingTable:
    """Where the rows are; they are read when they are asked for, and no other."""

    path: Path
    name: str
    rows: int
    width: int

    def read_rows(self, ids: Sequence[int]) -> Rows:
        """The rows of these ids, one after the other."""
        with _open_safetensors(self.path) as tensors:
            part = tensors.get_slice(self.name)
            rows = [part[number : number + 1].double().numpy() for number in ids]
        return np.concatenate(rows)

    def read_many_rows(self, ids: Sequence[int]) -> Rows:
        """The same of many, in order of their ids, block by block."""
        is_wanted = np.zeros(self.rows, dtype=bool)
        is_wanted[np.asarray(ids)] = True
        with _open_safetensors(self.path) as tensors:
            part = tensors.get_slice(self.name)
            blocks = [
                part[first : first + TABLE_ROWS_AT_ONCE]
                .double()
                .numpy()[is_wanted[first : first + TABLE_ROWS_AT_ONCE]]
                for first in range(0, self.rows, TABLE_ROWS_AT_ONCE)
            ]
        return np.concatenate(blocks)


def find_table(folder: Path) -> EmbeddingTable:
    """The table of the model in a folder."""
    for path, names in _safetensors_files(folder).items():
        with _open_safetensors(path) as tensors:
            tensor_names = [*tensors.keys()] if names is None else names
            name = _find_table_name(tensor_names)
            if name is not None:
                rows, width = tensors.get_slice(name).get_shape()
                return EmbeddingTable(path, name, rows, width)
    raise AttnvizError(
        f"the safetensors of '{folder.name}' contain no table of embeddings",
        f"name it yourself: --embeddings {folder.name}/{SINGLE_WEIGHTS_FILE}#NAME, with the model's --tokenizer",
        about="embeddings",
    )


def _safetensors_files(folder: Path) -> dict[Path, list[str] | None]:
    """Each file of weights, and what is in it, where an index says so."""
    if files.is_file(folder / SINGLE_WEIGHTS_FILE):
        return {folder / SINGLE_WEIGHTS_FILE: None}
    if not files.is_file(folder / WEIGHTS_INDEX_FILE):
        raise AttnvizError(
            f"there are no weights in safetensors in '{folder.name}'",
            f"save them: model.save_pretrained({str(folder)!r})",
            about="embeddings",
        )
    parts: dict[Path, list[str] | None] = {}
    for name, part in _read_weights_index(folder / WEIGHTS_INDEX_FILE):
        parts.setdefault(folder / Path(part).name, []).append(name)  # type: ignore[union-attr]
    return parts


def _read_weights_index(path: Path) -> list[tuple[str, str]]:
    try:
        weight_map = json.loads(files.read_content(path))["weight_map"]
        return [(str(name), str(part)) for name, part in weight_map.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(
            f"'{path}' does not say which file holds what",
            "download the folder again",
            file=str(path),
        ) from None


def _find_table_name(names: Sequence[str]) -> str | None:
    """The one that is a table of embeddings, if any is: not that of a decoder beside others."""
    for ending in EMBEDDING_TABLE_NAMES:
        matches = [name for name in names if f".{name}".endswith(f".{ending}")]
        if matches:
            return min(matches, key=lambda name: ("decoder" in name, len(name), name))
    return None


@contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as tensors:
            yield tensors
    except (SafetensorError, OSError, ValueError, RuntimeError):
        raise AttnvizError(
            f"'{path}' cannot be read as safetensors",
            "download it again: it may be incomplete",
            file=str(path),
        ) from None
