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

TOKENIZER = "tokenizer.json"
MARKS = ("Ġ", "▁")  # before a piece that begins a word; "##" stands before one that does not
UNKNOWN = ("[UNK]", "<unk>", "<|unk|>")  # what stands for all that a vocabulary lacks
MOST_WORDS = 25_000  # of which components are found: those with the lowest ids
BY_WORDS = "cut the text with --tokenizer words"


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A model's table, and what cuts words into the pieces that it has rows for."""

    name: str
    table: Table
    tokenizer: Any

    def pieces(self, word: str) -> list[int]:
        """The ids of a word as it stands in running text: after a space, where that is its own."""
        alone, after_space = (self._ids(text) for text in (word, f" {word}"))
        return after_space if word[:1].isalnum() and len(after_space) <= len(alone) else alone

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def vector(self, ids: Sequence[int]) -> Float64[np.ndarray, "dim"]:
        mean: Float64[np.ndarray, "dim"] = self.table.at(ids).mean(0)
        return mean

    def words(self) -> list[int]:
        """The ids of whole words, letters alone, the lowest first: the most frequent, mostly."""
        known = self.tokenizer.get_vocab(with_added_tokens=False)
        mark = next((each for each in MARKS if any(map(_begins(each), known))), "")
        found = (number for word, number in known.items() if _is_word(word, mark))
        return sorted(number for number in found if number < self.table.rows)[:MOST_WORDS]


def vectors_of(
    folder: Path, name: str, tokens: Tokens, dim: int | None
) -> tuple[Float[Tensor, "token dim"], FromTable]:
    """A vector for each token; reduced to its principal components where fewer are asked for."""
    now = files.state_of(folder)
    lexicon = _lexicon(folder, name, now)
    _refuse_wider(lexicon, dim)
    words = [_word(piece, label) for piece, label in zip(tokens.pieces, tokens.labels, strict=True)]
    cut = {word: lexicon.pieces(word) for word in dict.fromkeys(words)}
    for word, label in zip(words, tokens.labels, strict=True):
        _refuse_unknown(lexicon, cut[word], label)
    found = {word: lexicon.vector(ids) for word, ids in cut.items()}
    vectors = np.stack([found[word] for word in words])
    width = lexicon.table.width
    if dim in (None, width):
        return torch.from_numpy(vectors), FromTable(width, None)
    components = _components(folder, name, dim or 0, now)
    return torch.from_numpy(components.of(vectors)), FromTable(width, components.kept)


@lru_cache(maxsize=2)
def _lexicon(folder: Path, name: str, now: files.State) -> Lexicon:
    """Once, as long as its files stay as they are now."""
    return Lexicon(name, table_in(folder), _tokenizer(folder, name))


@lru_cache(maxsize=2)  # of values of --by dim, and of two sentences
def _components(folder: Path, name: str, dim: int, now: files.State) -> Components:
    """Of the model's whole words: what tells words apart, and not their endings."""
    lexicon = _lexicon(folder, name, now)
    words = lexicon.words()
    if dim >= len(words):
        raise AttnvizError(
            f"--dim is {dim}, but the {counted(len(words), 'whole word')} of '{name}' give fewer "
            "components",
            f"leave --dim out: vectors are then {lexicon.table.width} wide",
            about="dim",
        )
    return principal(lexicon.table.among(words), dim)


def _tokenizer(folder: Path, name: str) -> Any:
    """What cuts texts for the model: no more of transformers is needed."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise AttnvizError(
            f"the vectors of '{name}' need the package tokenizers, which is not installed",
            'pip install "attnviz[models]"',
            about="embeddings",
        ) from None
    if not files.is_file(folder / TOKENIZER):
        raise AttnvizError(
            f"there is no {TOKENIZER} in '{folder.name}'",
            "save the model's tokenizer there: tokenizer.save_pretrained(folder)",
            about="embeddings",
        )
    try:
        made = Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:
        if type(error) is not Exception:  # the package raises no other
            raise
        raise AttnvizError(
            f"'{folder / TOKENIZER}' is damaged, or of another version",
            "download the folder again",
            about="embeddings",
        ) from None
    made.no_truncation()
    made.no_padding()
    return made


def _word(piece: bytes, label: str) -> str:
    """What is looked up of a token: its letters, without white space around them."""
    word = piece.decode(errors="replace").strip()
    if not word:
        raise AttnvizError(
            f"'{label}' is white space, which has no vector", BY_WORDS, about="embeddings"
        )
    if "\ufffd" in word:
        raise AttnvizError(
            f"'{label}' is part of a letter, which has no vector", BY_WORDS, about="embeddings"
        )
    return word


def _refuse_unknown(lexicon: Lexicon, ids: Sequence[int], label: str) -> None:
    """A token that is unknown has no vector of its own: all such tokens would be one."""
    unknown = {lexicon.tokenizer.token_to_id(name) for name in UNKNOWN}
    if not ids or unknown & {*ids} or max(ids) >= lexicon.table.rows:
        raise AttnvizError(
            f"'{lexicon.name}' has no vector for '{label}': its vocabulary has no such piece",
            "leave it out of the text",
            about="embeddings",
        )


def _refuse_wider(lexicon: Lexicon, dim: int | None) -> None:
    if dim is not None and dim > lexicon.table.width:
        raise AttnvizError(
            f"--dim is {dim}, but the vectors of '{lexicon.name}' are {lexicon.table.width} wide",
            f"leave --dim out, or give at most {lexicon.table.width}",
            about="dim",
        )


def _begins(mark: str) -> Any:
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
    kept: float  # of the variance, from 0 to 1

    def of(
        self, vectors: Float64[np.ndarray, "token dim"]
    ) -> Float64[np.ndarray, "token component"]:
        """How far each vector is from the mean in each direction."""
        found: Float64[np.ndarray, "token component"] = (vectors - self.mean) @ self.directions
        return found


def principal(rows: Float64[np.ndarray, "row dim"], count: int) -> Components:
    """The first so many components of some rows.

    >>> principal(np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]), 1).kept
    1.0
    """
    mean = rows.mean(0)
    centred = rows - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)  # the smallest first
    variances, directions = variances[::-1].clip(min=0), directions[:, ::-1][:, :count]
    total = variances.sum()
    kept = float(variances[:count].sum() / total) if total else 1.0
    return Components(mean, directions * _signs(directions), kept)


def _signs(directions: Float64[np.ndarray, "dim component"]) -> Float64[np.ndarray, "component"]:
    """A direction is as good as its opposite: that with the largest number above 0 is taken."""
    largest = np.abs(directions).argmax(0)
    found: Float64[np.ndarray, "component"] = np.sign(
        directions[largest, np.arange(directions.shape[1])]
    )
    return found


Rows = Float64[np.ndarray, "row dim"]

WHOLE = "model.safetensors"
IN_PARTS = "model.safetensors.index.json"  # which part holds what
NAMES = (  # how models call their table; some stand in front of it: "bert.embeddings.…"
    "word_embeddings.weight", "wte.weight", "embed_tokens.weight", "shared.weight",
    "embed_in.weight", "tok_embeddings.weight", "word_embedding.weight", "embeddings.weight",
)  # fmt: skip
AT_ONCE = 4096  # rows that are read together


@dataclass(frozen=True)
class FromTable:
    """Vectors were taken from a model's table; whether they were reduced, and what that kept."""

    width: int  # of the table
    kept: float | None  # of the variance of its words; None: they are as they were


@dataclass(frozen=True)
class Table:
    """Where the rows are; they are read when they are asked for, and no other."""

    path: Path
    name: str
    rows: int
    width: int

    def at(self, ids: Sequence[int]) -> Rows:
        """The rows of these ids, one after the other."""
        with _opened(self.path) as tensors:
            part = tensors.get_slice(self.name)
            found = [part[number : number + 1].double().numpy() for number in ids]
        return np.concatenate(found)

    def among(self, ids: Sequence[int]) -> Rows:
        """The same of many, in order of their ids, block by block."""
        wanted = np.zeros(self.rows, dtype=bool)
        wanted[np.asarray(ids)] = True
        with _opened(self.path) as tensors:
            part = tensors.get_slice(self.name)
            blocks = [
                part[first : first + AT_ONCE].double().numpy()[wanted[first : first + AT_ONCE]]
                for first in range(0, self.rows, AT_ONCE)
            ]
        return np.concatenate(blocks)


def table_in(folder: Path) -> Table:
    """The table of the model in a folder."""
    for path, names in _files(folder).items():
        with _opened(path) as tensors:
            there = [*tensors.keys()] if names is None else names
            name = _called(there)
            if name is not None:
                rows, width = tensors.get_slice(name).get_shape()
                return Table(path, name, rows, width)
    raise AttnvizError(
        f"the safetensors of '{folder.name}' contain no table of embeddings",
        f"name it yourself: --embeddings {folder.name}/{WHOLE}#NAME, with the model's --tokenizer",
        about="embeddings",
    )


def _files(folder: Path) -> dict[Path, list[str] | None]:
    """Each file of weights, and what is in it, where an index says so."""
    if files.is_file(folder / WHOLE):
        return {folder / WHOLE: None}
    if not files.is_file(folder / IN_PARTS):
        raise AttnvizError(
            f"there are no weights in safetensors in '{folder.name}'",
            f"save them: model.save_pretrained({str(folder)!r})",
            about="embeddings",
        )
    parts: dict[Path, list[str] | None] = {}
    for name, part in _index(folder / IN_PARTS):
        parts.setdefault(folder / Path(part).name, []).append(name)  # type: ignore[union-attr]
    return parts


def _index(path: Path) -> list[tuple[str, str]]:
    try:
        found = json.loads(files.read(path))["weight_map"]
        return [(str(name), str(part)) for name, part in found.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(
            f"'{path}' does not say which file holds what",
            "download the folder again",
            file=str(path),
        ) from None


def _called(names: Sequence[str]) -> str | None:
    """The one that is a table of embeddings, if any is: not that of a decoder beside others."""
    for ending in NAMES:
        found = [name for name in names if f".{name}".endswith(f".{ending}")]
        if found:
            return min(found, key=lambda name: ("decoder" in name, len(name), name))
    return None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
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
