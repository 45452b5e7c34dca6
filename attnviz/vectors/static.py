"""Static vectors of tokens: rows of a trained model's table of embeddings, before any layer.

A token is looked up on its own, as a word in running text: so it has the same vector in every
sentence. Where the model's vocabulary has it in several pieces, it is their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from attnviz.vectors.components import Components, principal
from attnviz.vectors.table import FromTable, Table, table_in
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
