"""Files of named matrices: TOML, JSON, .npz, .safetensors. Nothing in them is ever run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.traces import texts
from attnviz.traces.axes import NAME as AXES
from attnviz.traces.matrices import Matrices, matrices
from attnviz.traces.parts import GIVEN, READERS
from attnviz.vectors.arrays import IN_FULL, numpy_arrays, safetensors_arrays, safetensors_words

OF_A_CELL = 32  # bytes of what a token reads of another: its score, scaled, hidden, its weight, …


def read(name: str, item: int | None = None, heads: int | None = None) -> Matrices:
    """What a file gives; `item` is the one that is wanted of a batch, counted from 1.

    `heads` is how many there are, if that is said.
    """
    path = Path(name)
    contents = _contents(path)
    try:
        return matrices(contents, name, item, heads)
    except AttnvizError as error:
        raise texts.located(error, path) from None


def _bytes_of(name: str) -> int:
    """What a number under this name takes, in all steps that are computed of it."""
    cells = name in GIVEN and {"token", "key"} <= {*GIVEN[name].axes}
    return OF_A_CELL if cells else IN_FULL


def _contents(path: Path) -> dict[str, Any]:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise AttnvizError(
            f"'{path}' is not a file of matrices", f"give one that ends in {', '.join(READERS)}"
        )
    files.refuse_missing(path, "take matrices from")
    if suffix == ".npz":
        return dict(numpy_arrays(path, texts=True, bytes_of=_bytes_of))
    if suffix == ".safetensors":
        beside = safetensors_words(path).items()
        axes = {name: words for name, words in beside if f"{name}.".startswith(f"{AXES}.")}
        return {**safetensors_arrays(path, _bytes_of), **axes}
    text = texts.read(path, "file of matrices")
    toml = suffix == ".toml"
    contents = texts.toml(text, str(path)) if toml else texts.json_object(text, path)
    if {"given", "draw", "expect"} & contents.keys():
        raise AttnvizError(
            f"'{path}' is a worked example, not a file of matrices",
            f"try: attnviz example show {path}",
        )
    return contents
