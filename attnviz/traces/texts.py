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

from attnviz.errors import AttnvizError
from attnviz.machine import files


def read(path: Path, kind: files.Kind) -> str:
    """A file of UTF-8."""
    return files.decoded(files.read(path, kind), f"'{path}'")


def toml(text: str, source: str, **options: Any) -> dict[str, Any]:
    """A TOML text as tables, lists and values."""
    try:
        contents: dict[str, Any] = _loads()(text, **options)
    except RecursionError:
        raise _too_deep(source) from None
    except (ValueError, ArithmeticError) as error:
        _refuse_long_numbers(text, source)
        told = str(error) if isinstance(error, ValueError) else "a number beyond all bounds"
        raise AttnvizError(
            f"'{source}' is not valid TOML: {told[:1].lower()}{told[1:]}",
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
        contents = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise AttnvizError(
            f"line {error.lineno} of '{path}' is not valid JSON: {error.msg.lower()}",
            "mend that line",
        ) from None
    except ValueError:
        _refuse_long_numbers(text, str(path))
        raise
    except RecursionError:
        raise _too_deep(str(path)) from None
    except _TwiceError as twice:
        line = line_of(text, str(twice))
        raise AttnvizError(
            f"line {line}: '{path}' gives '{twice}' twice", "leave one of them out"
        ) from None
    if not isinstance(contents, dict):
        raise AttnvizError(
            f"'{path}' holds no names", 'give an object: {"scores": [[1, 2], [3, 4]]}'
        )
    return contents


class _TwiceError(Exception):
    """A name that an object of JSON has twice, of which Python would take the second."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return found


def _too_deep(source: str) -> AttnvizError:
    return AttnvizError(f"'{source}' is nested too deep", "give lists of rows", file=source)


def _refuse_long_numbers(text: str, source: str) -> None:
    """Python reads no whole number of more than some thousand digits."""
    longest = sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else 0
    found = re.search(rf"\d[\d_]{{{longest},}}", text) if longest else None
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise AttnvizError(
            f"line {line} of '{source}' has a number of {len(found[0]):,} digits",
            "no number of a matrix has so many",
            file=source,
        )


def located(error: AttnvizError, path: Path) -> AttnvizError:
    """The same error with the line of what it is about, in files that have lines."""
    if path.suffix.lower() not in (".toml", ".json") or not error.about:
        return error
    line = line_of(read(path, "file of matrices"), error.about)
    return error if line is None else error.told(f"line {line}: {error}")
