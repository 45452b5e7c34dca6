"""Texts that hold named values, TOML and JSON; and the line of a name, for what is wrong with it.

Nothing here needs torch.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnviz import files
from attnviz.errors import AttnvizError


def read(path: Path, kind: files.Kind) -> str:
    """A file of UTF-8."""
    return files.decoded(files.read(path, kind), f"'{path}'")


def toml(text: str, source: str, **options: Any) -> dict[str, Any]:
    """A TOML text as tables, lists and values."""
    try:
        contents: dict[str, Any] = _loads()(text, **options)
    except ValueError as error:
        raise AttnvizError(
            f"'{source}' is not valid TOML: {str(error)[:1].lower()}{str(error)[1:]}",
            "a line is a name, =, and a value; words stand in quotes",
            file=source,
        ) from None
    return contents


def _loads() -> Callable[..., dict[str, Any]]:
    """TOML's reader, which a name that is misspelt need not wait for."""
    if sys.version_info >= (3, 11):
        from tomllib import loads
    else:
        from tomli import loads
    found: Callable[..., dict[str, Any]] = loads
    return found


def line_of(text: str, key: str) -> int | None:
    """The line, from 1, on which a key of TOML or JSON stands first.

    >>> line_of("a = 1\\nb = 2", "b")
    2
    """
    pattern = re.compile(rf"""(^|[{{,])\s*["']?{re.escape(key)}["']?\s*[=:]""")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if pattern.search(line)), None)


def json_object(text: str, path: Path) -> dict[str, Any]:
    """A JSON text that is one object."""
    try:
        contents = json.loads(text)
    except json.JSONDecodeError as error:
        raise AttnvizError(
            f"line {error.lineno} of '{path}' is not valid JSON: {error.msg.lower()}",
            "mend that line",
        ) from None
    except RecursionError:
        raise AttnvizError(f"'{path}' is nested too deep", "give lists of rows") from None
    if not isinstance(contents, dict):
        raise AttnvizError(
            f"'{path}' holds no names", 'give an object: {"scores": [[1, 2], [3, 4]]}'
        )
    return contents


def located(error: AttnvizError, path: Path) -> AttnvizError:
    """The same error with the line of what it is about, in files that have lines."""
    if path.suffix.lower() not in (".toml", ".json") or not error.about:
        return error
    line = line_of(read(path, "file of matrices"), error.about)
    return error if line is None else error.told(f"line {line}: {error}")
