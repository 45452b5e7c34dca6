"""Files of named matrices: TOML, JSON, .npz, .safetensors. Nothing in them is ever run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from attnviz import files
from attnviz.errors import AttnvizError
from attnviz.traces import matrices as giving
from attnviz.traces.matrices import Given
from attnviz.vectors import loaded as vectors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

READERS = (".toml", ".json", ".npz", ".safetensors")


def read(name: str, item: int | None = None) -> Given:
    """What a file gives; `item` is the one that is wanted of a batch, counted from 1."""
    path = Path(name)
    contents = _contents(path)
    try:
        return giving.given(contents, name, item)
    except AttnvizError as error:
        raise located(error, path) from None


def toml(text: str, source: str, **options: Any) -> dict[str, Any]:
    """A TOML text as tables, lists and values."""
    try:
        contents: dict[str, Any] = tomllib.loads(text, **options)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (?:line (\d+)[^)]*|end of document)\)", str(error))
        where = f"line {place[1]} of " if place and place[1] else "the end of " if place else ""
        reason = re.sub(r" \(at .*\)", "", str(error))
        raise AttnvizError(
            f"{where}'{source}' is no TOML: {reason[:1].lower()}{reason[1:]}",
            "a line is a name, =, and a value; words stand in quotes",
        ) from None
    return contents


def text_of(path: Path) -> str:
    return files.decoded(files.read(path), f"'{path}'")


def line_of(text: str, key: str) -> int | None:
    """The line, from 1, on which a key of TOML or JSON stands first.

    >>> line_of("a = 1\\nb = 2", "b")
    2
    """
    pattern = re.compile(rf"""(^|[{{,])\s*["']?{re.escape(key)}["']?\s*[=:]""")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if pattern.search(line)), None)


def _contents(path: Path) -> dict[str, Any]:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise AttnvizError(
            f"'{path}' is no file of matrices", f"give one that ends in {', '.join(READERS)}"
        )
    if not path.is_file():
        raise AttnvizError(f"there is no file '{path}' to take matrices from", "check its path")
    if suffix == ".npz":
        return dict(vectors.numpy_arrays(path, texts=True))
    if suffix == ".safetensors":
        return dict(vectors.safetensors_arrays(path))
    text = text_of(path)
    contents = toml(text, str(path)) if suffix == ".toml" else _json(text, path)
    if {"given", "draw", "expect"} & contents.keys():
        raise AttnvizError(
            f"'{path}' is a worked example, not a file of matrices",
            f"try: attnviz example show {path}",
        )
    return contents


def _json(text: str, path: Path) -> dict[str, Any]:
    try:
        contents = json.loads(text)
    except json.JSONDecodeError as error:
        raise AttnvizError(
            f"line {error.lineno} of '{path}' is no JSON: {error.msg.lower()}", "mend that line"
        ) from None
    except RecursionError:
        raise AttnvizError(f"'{path}' is nested too deep", "give lists of rows") from None
    if not isinstance(contents, dict):
        raise AttnvizError(
            f"'{path}' holds no names", 'give an object: {"scores": [[1, 2], [3, 4]]}'
        )
    return contents


def located(error: AttnvizError, path: Path) -> AttnvizError:
    """The same error with the line of the name that it speaks of, in files that have lines."""
    named = re.search(r"'([^']+)'", str(error))
    if path.suffix.lower() not in (".toml", ".json") or named is None:
        return error
    line = line_of(text_of(path), named[1])
    return error if line is None else AttnvizError(f"line {line}: {error}", error.hint)
