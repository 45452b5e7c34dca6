"""Parses JSON and checks the values of files; errors name the file and the line.

Time and memory grow no faster than the text, whatever is in it. TOML is read by toml_reader.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attnviz.errors import AttnvizError
from attnviz.machine import files, memory

_JSON_TEXT_PATTERN = re.compile(r'("[^"]*")(\s*:)?')  # in text without escaped quotes
_BYTES_BY_JSON_MARK = {"[": 96, "{": 256, '"': 32, ":": 64, ",": 40}  # at most, of Python objects

Anything = TypeVar("Anything")


def read_text_file(path: Path, kind: files.FileKind) -> str:
    """Return the text of a UTF-8 file; refuses other encodings. `kind` ("trace") is for errors."""
    return files.decode_utf8(files.read_content(path, kind), f"'{path}'")


def blank_escapes(text: str) -> str:
    """Return TOML or JSON with __ for escaped quotes and backslashes; positions stay the same.

    >>> blank_escapes(r'"a\\"b\\\\"')
    '"a__b__"'
    """
    return text.replace("\\\\", "__").replace('\\"', "__")


def parse_json_object(text: str, path: Path) -> dict[str, Any]:
    """Return the contents of a JSON text as a dict.

    Refuses, with the line where possible, a text that is not valid, contains no object, gives a
    name twice, is nested too deeply, has overlong numbers or does not fit in memory.
    """
    needed_bytes = sum(bytes_ * text.count(mark) for mark, bytes_ in _BYTES_BY_JSON_MARK.items())
    memory.refuse_too_little_memory(len(text) + needed_bytes, f"to read '{path}'")
    try:
        contents = json.loads(text, object_pairs_hook=_refuse_duplicate_names)
    except json.JSONDecodeError as error:
        raise AttnvizError(
            f"line {error.lineno} of '{path}' is not valid JSON: {error.msg.lower()}",
            "fix that line",
        ) from None
    except ValueError:
        _refuse_long_numbers(text, str(path))
        raise
    except RecursionError:
        raise depth_error(str(path)) from None
    except _DuplicateNameError as duplicate:
        line = line_of_json(text, str(duplicate))
        raise AttnvizError(
            f"line {line}: '{path}' gives '{duplicate}' twice", "leave one of them out"
        ) from None
    if not isinstance(contents, dict):
        raise AttnvizError(
            f"'{path}' contains no names", 'give an object: {"scores": [[1, 2], [3, 4]]}'
        )
    return contents


class _DuplicateNameError(Exception):
    """A name that a JSON object has twice; json.loads would silently take the second."""


def _refuse_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs of a JSON object as a dict; raises _DuplicateNameError if a name comes twice."""
    contents = dict(pairs)
    if len(contents) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DuplicateNameError(counts.most_common(1)[0][0])
    return contents


def line_of_json(text: str, name: str) -> int | None:
    """Return the line, from 1, of the first JSON key of this name; None if there is none."""
    for match in _JSON_TEXT_PATTERN.finditer(blank_escapes(text)):
        if match[2] and json.loads(text[match.start(1) : match.end(1)]) == name:
            return text.count("\n", 0, match.start()) + 1
    return None


def depth_error(source: str) -> AttnvizError:
    return AttnvizError(f"'{source}' is nested too deeply", "give lists of rows", file=source)


def _refuse_long_numbers(text: str, source: str) -> None:
    """Refuse whole numbers with more digits than Python parses, giving their line."""
    longest = sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else 0
    match = re.search(rf"(?<!\d)\d{{{longest + 1},}}", text) if longest else None
    if match:
        line = text.count("\n", 0, match.start()) + 1
        raise AttnvizError(
            f"line {line} of '{source}' has a number of {len(match[0]):,} digits",
            "shorten it: no number of a matrix has so many",
            file=source,
        )


def build_checked(kind: type[Anything], facts: Mapping[str, Any]) -> Anything:
    """Return a dataclass built from the facts of a file; raises TypeError for a wrong type.

    Literals are checked last, so that the dataclass can raise an error that suggests a word.
    """
    hints = get_type_hints(kind)
    wrong_names = [name for name, value in facts.items() if not fits_type(value, hints.get(name))]
    if any(get_origin(hints.get(name)) is not Literal for name in wrong_names):
        raise TypeError(wrong_names)
    instance = kind(**facts)
    if wrong_names:
        raise TypeError(wrong_names)
    return instance


def fits_type(value: Any, hint: Any) -> bool:
    """Return whether a value has an annotated type, also inside lists, tuples and mappings.

    Whole numbers are floats, too, if these can hold them; true and false are no numbers.

    >>> fits_type(2, float), fits_type("a", int | None), fits_type("b", Literal["a", "b"])
    (True, False, True)
    >>> fits_type([1, [2]], list[int]), fits_type({"a": 1}, Mapping[str, float])
    (False, True)
    >>> fits_type(True, int), fits_type(10**400, float)
    (False, False)
    """
    origin, inner_types = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits_type(value, option) for option in inner_types)
    if origin is Literal:
        return value in inner_types
    if hint is Any:
        return True
    if origin is not None:
        return isinstance(value, origin) and _contents_fit_types(value, inner_types)
    if hint is float and isinstance(value, int):  # of any length in JSON
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else hint)


def _contents_fit_types(value: Any, inner_types: tuple[Any, ...]) -> bool:
    """Return whether the elements of a mapping, a list or a tuple have the annotated types."""
    if isinstance(value, Mapping):
        keys, values = inner_types
        return all(fits_type(key, keys) and fits_type(item, values) for key, item in value.items())
    if isinstance(value, tuple) and inner_types[-1] is not Ellipsis:
        return len(value) == len(inner_types) and all(map(fits_type, value, inner_types))
    return all(fits_type(item, inner_types[0]) for item in value)
