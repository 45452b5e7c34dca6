"""A trained model's table of embeddings: a row for each piece of its vocabulary, in safetensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from attnviz.errors import AttnvizError
from attnviz.machine import files

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
