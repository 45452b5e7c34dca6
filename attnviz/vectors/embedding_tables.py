"""Vectors from a trained model's embedding table, and their principal components.

Each token is looked up by itself, as a word in running text, so it has the same vector in every
text. The vector of a word of several pieces is their mean.
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

from attnviz.errors import AttnvizError, opt
from attnviz.machine import files
from attnviz.machine.panics import is_panic, silencing_panics
from attnviz.tokens.tokenizer_limits import refuse_growing_files
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import counted

TOKENIZER_FILE = "tokenizer.json"
WORD_START_MARKS = ("Ġ", "▁")  # of other vocabularies "##" marks pieces within a word
UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<|unk|>")
MAX_COMPONENT_WORDS = 25_000  # those with the lowest ids, mostly the most frequent
SINGLE_WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"  # which file holds which tensor
EMBEDDING_TABLE_NAMES = (  # may have a prefix, such as "bert.embeddings."
    "word_embeddings.weight", "wte.weight", "embed_tokens.weight", "shared.weight",
    "embed_in.weight", "tok_embeddings.weight", "word_embedding.weight", "embeddings.weight",
)  # fmt: skip
TABLE_ROWS_AT_ONCE = 4096
Rows = Float64[np.ndarray, "row dim"]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A model's embedding table and its tokenizer."""

    name: str
    table: EmbeddingTable
    tokenizer: Any

    def piece_ids(self, word: str) -> list[int]:
        """Return the ids of the pieces of a word in running text.

        The word has a space before it if that takes no more pieces.
        """
        ids: list[int] = self.tokenizer.encode(word, add_special_tokens=False).ids
        spaced_ids: list[int] = self.tokenizer.encode(f" {word}", add_special_tokens=False).ids
        return spaced_ids if word[:1].isalnum() and len(spaced_ids) <= len(ids) else ids

    def whole_word_ids(self) -> list[int]:
        """Return the ids, in ascending order, of pieces that are whole words of letters.

        Only the lowest `MAX_COMPONENT_WORDS` are returned.
        """
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=False)
        marks = {piece[:1] for piece in vocabulary}
        mark = next((mark for mark in WORD_START_MARKS if mark in marks), "")
        word_ids = (number for word, number in vocabulary.items() if _is_word(word, mark))
        word_ids = (number for number in word_ids if number < self.table.rows)
        return sorted(word_ids)[:MAX_COMPONENT_WORDS]


def look_up_vectors(
    folder: Path, name: str, tokens: Tokens, dim: int | None
) -> tuple[Float[Tensor, "token dim"], FromTable]:
    """Return each token's vector in a model's embedding table, and the facts of that table.

    A word of several pieces gets the mean of their vectors. With a `dim` below the table's width,
    vectors are coordinates along that many principal components. Refuses a larger `dim`, and a
    token that has no vector.
    """
    folder_state = files.read_folder_state(folder)
    lexicon = _load_lexicon(folder, name, folder_state)
    width = lexicon.table.width
    if dim is not None and dim > width:
        raise AttnvizError(
            f"{opt.dim:is {dim}}, but the vectors of '{name}' are {width} wide",
            f"leave {opt.dim} out, or give at most {width}",
            about="dim",
        )
    words = list(map(_lookup_word, tokens.pieces, tokens.labels))
    with _reporting_tokenizer_errors(f"the tokenizer of '{name}' cannot cut this text"):
        ids_by_word = {word: lexicon.piece_ids(word) for word in dict.fromkeys(words)}
    for word, label in zip(words, tokens.labels, strict=True):
        _refuse_unknown_token(lexicon, ids_by_word[word], label)
    means = {word: lexicon.table.read_rows(ids).mean(0) for word, ids in ids_by_word.items()}
    vectors = np.stack([means[word] for word in words])
    if dim in (None, width):
        return torch.from_numpy(vectors), FromTable(width, None)
    components = _word_components(folder, name, dim or 0, folder_state)
    reduced = torch.from_numpy(components.coordinates(vectors))
    return reduced, FromTable(width, components.kept_variance)


@lru_cache(maxsize=2)
def _load_lexicon(folder: Path, name: str, folder_state: files.FolderState) -> Lexicon:
    """Return the embedding table and tokenizer in a model's folder.

    The cache holds them as long as the files (`folder_state`) do not change.
    """
    return Lexicon(name, find_table(folder), _read_tokenizer(folder, name))


@lru_cache(maxsize=2)  # for two values of --by dim, and for two texts
def _word_components(
    folder: Path, name: str, dim: int, folder_state: files.FolderState
) -> Components:
    """Return the first `dim` principal components of the vectors of a model's whole words.

    Pieces such as endings are left out, so that the components tell words apart. Refuses a `dim`
    that is not below the number of words.
    """
    lexicon = _load_lexicon(folder, name, folder_state)
    words = lexicon.whole_word_ids()
    if dim >= len(words):
        raise AttnvizError(
            f"{opt.dim:is {dim}}, but the {counted(len(words), 'whole word')} of '{name}' give "
            "fewer components",
            f"leave {opt.dim} out: vectors are then {lexicon.table.width} wide",
            about="dim",
        )
    return principal_components(lexicon.table.read_many_rows(words), dim)


def _read_tokenizer(folder: Path, name: str) -> Any:
    """Return a model's tokenizer, loaded without transformers; it neither cuts nor pads texts.

    Refuses a missing or damaged file, and a tokenizer that makes far more of a text than it is.
    """
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
    refuse_growing_files(folder, "embeddings")
    with _reporting_tokenizer_errors(
        f"'{folder / TOKENIZER_FILE}' is damaged, or of another version"
    ):
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@contextmanager
def _reporting_tokenizer_errors(problem: str) -> Iterator[None]:
    """Raise an error of the package tokenizers inside the `with` block as an AttnvizError."""
    try:
        with silencing_panics():
            yield
    except BaseException as error:
        if type(error) is not Exception and not is_panic(error):  # the package raises no others
            raise
        raise AttnvizError(problem, "download the folder again", about="embeddings") from None


def _lookup_word(piece: bytes, label: str) -> str:
    """Return the text of a token without white space; refuses one without whole letters."""
    word = piece.decode(errors="replace").strip()
    if not word or "\ufffd" in word:
        problem = f"'{label}' is {'part of a letter' if word else 'white space'}"
        hint = f"cut the text with {opt.tokenizer:words}"
        raise AttnvizError(f"{problem}, which has no vector", hint, about="embeddings")
    return word


def _refuse_unknown_token(lexicon: Lexicon, ids: Sequence[int], label: str) -> None:
    """Refuse a token whose piece `ids` are unknown, or beyond the embedding table.

    All unknown tokens share one vector, which says nothing about them.
    """
    unknown = {lexicon.tokenizer.token_to_id(name) for name in UNKNOWN_TOKENS}
    if not ids or unknown & {*ids} or max(ids) >= lexicon.table.rows:
        raise AttnvizError(
            f"'{lexicon.name}' has no vector for '{label}': its vocabulary has no such piece",
            "leave it out of the text",
            about="embeddings",
        )


def _is_word(piece: str, mark: str) -> bool:
    """Return whether a piece is a whole word of letters, where `mark` ('Ġ') begins each word.

    >>> _is_word("cat", ""), _is_word("##s", ""), _is_word("[CLS]", ""), _is_word("Ġcat", "Ġ")
    (True, False, False, True)
    """
    return piece.startswith(mark) and piece.removeprefix(mark).isalpha()


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components: orthogonal directions around a mean, by falling variance."""

    mean: Float64[np.ndarray, "dim"]
    directions: Float64[np.ndarray, "dim component"]
    kept_variance: float  # share of the variance, from 0 to 1

    def coordinates(
        self, vectors: Float64[np.ndarray, "token dim"]
    ) -> Float64[np.ndarray, "token component"]:
        """Return the vectors' coordinates along the directions, counted from the mean."""
        return np.asarray((vectors - self.mean) @ self.directions)


def principal_components(rows: Rows, count: int) -> Components:
    """Return the first `count` principal components of the rows, with how much they explain.

    >>> principal_components(np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]), 1).kept_variance
    1.0
    """
    mean = rows.mean(0)
    centred = rows - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)  # the smallest first
    variances, directions = variances[::-1].clip(min=0), directions[:, ::-1][:, :count]
    total = variances.sum()
    kept_variance = float(variances[:count].sum() / total) if total else 1.0
    # Of a direction and its opposite, take the one whose largest number is positive.
    largest = np.abs(directions).argmax(0)
    signs = np.sign(directions[largest, np.arange(directions.shape[1])])
    return Components(mean, directions * signs, kept_variance)


@dataclass(frozen=True)
class FromTable:
    """The origin of vectors that were taken from an embedding table."""

    width: int  # of the table
    kept: float | None  # share of the variance after reduction; None: not reduced


@dataclass(frozen=True)
class EmbeddingTable:
    """An embedding table in a file, of which only the wanted rows are read."""

    path: Path
    name: str
    rows: int
    width: int

    def read_rows(self, ids: Sequence[int]) -> Rows:
        """Return the rows of these ids, read one by one."""
        with _open_safetensors(self.path) as tensors:
            part = tensors.get_slice(self.name)
            rows = [part[number : number + 1].double().numpy() for number in ids]
        return np.concatenate(rows)

    def read_many_rows(self, ids: Sequence[int]) -> Rows:
        """Return the rows of these ids in ascending order, read in large blocks."""
        is_wanted = np.zeros(self.rows, dtype=bool)
        is_wanted[np.asarray(ids)] = True
        starts = range(0, self.rows, TABLE_ROWS_AT_ONCE)
        parts = [slice(start, start + TABLE_ROWS_AT_ONCE) for start in starts]
        with _open_safetensors(self.path) as tensors:
            table = tensors.get_slice(self.name)
            blocks = [table[part].double().numpy()[is_wanted[part]] for part in parts]
        return np.concatenate(blocks)


def find_table(folder: Path) -> EmbeddingTable:
    """Return the embedding table of the model in a folder; refuse a folder without one."""
    for path, names in _safetensors_files(folder).items():
        with _open_safetensors(path) as tensors:
            name = _find_table_name([*tensors.keys()] if names is None else names)
            if name is not None:
                rows, width = tensors.get_slice(name).get_shape()
                return EmbeddingTable(path, name, rows, width)
    raise AttnvizError(
        f"the safetensors of '{folder.name}' contain no table of embeddings",
        f"name it yourself: {opt.embeddings:{folder.name}/{SINGLE_WEIGHTS_FILE}#NAME}, "
        f"with the model's {opt.tokenizer}",
        about="embeddings",
    )


def _safetensors_files(folder: Path) -> dict[Path, list[str] | None]:
    """Return a model's weight files, each with the names of its tensors if an index gives them.

    Without an index they are None. Refuses a folder without such files.
    """
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
    """Return each tensor's name with its file's, from an index; refuse a file that is none."""
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
    """Return which of the names of tensors is that of the embedding table; None if none is.

    One without "decoder" in its name is preferred.
    """
    for ending in EMBEDDING_TABLE_NAMES:
        matches = [name for name in names if f".{name}".endswith(f".{ending}")]
        if matches:
            return min(matches, key=lambda name: ("decoder" in name, len(name), name))
    return None


@contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file for the `with` block; refuse one that cannot be read."""
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
