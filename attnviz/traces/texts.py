"""JSON texts and the values that files hold, checked; errors name the file and the line.

JSON is read in time and memory that grow no faster than the text, whatever is in it. Nothing here
needs torch; TOML has a reader of its own, toml_reader.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attnviz.attention.variants import VARIANTS
from attnviz.errors import AttnvizError
from attnviz.machine import files, memory
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.settings import NAMES

_JSON_TEXT = re.compile(r'("[^"]*")(\s*:)?')  # once no quote in it is escaped
# The most bytes that Python takes for a list, an object, a text or its name, and a number.
_OF_JSON = {"[": 96, "{": 256, '"': 32, ":": 64, ",": 40}


def read(path: Path, kind: files.Kind) -> str:
    """A file of UTF-8."""
    return files.decoded(files.read(path, kind), f"'{path}'")


def unescaped(text: str) -> str:
    """A text of TOML or JSON without escaped quotes; every place in it stays where it was.

    >>> unescaped(r'"a\\"b\\\\"')
    '"a__b__"'
    """
    return text.replace("\\\\", "__").replace('\\"', "__")


def json_object(text: str, path: Path) -> dict[str, Any]:
    """A JSON text that is one object."""
    needed = sum(bytes_ * text.count(mark) for mark, bytes_ in _OF_JSON.items())
    memory.refuse_more(len(text) + needed, f"to read '{path}'")
    try:
        contents = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise AttnvizError(
            f"line {error.lineno} of '{path}' is not valid JSON: {error.msg.lower()}",
            "fix that line",
        ) from None
    except ValueError:
        _refuse_long_numbers(text, str(path))
        raise
    except RecursionError:
        raise too_deep(str(path)) from None
    except _TwiceError as twice:
        line = line_of_json(text, str(twice))
        raise AttnvizError(
            f"line {line}: '{path}' gives '{twice}' twice", "leave one of them out"
        ) from None
    if not isinstance(contents, dict):
        raise AttnvizError(
            f"'{path}' contains no names", 'give an object: {"scores": [[1, 2], [3, 4]]}'
        )
    return contents


class _TwiceError(Exception):
    """A name that an object of JSON has twice, of which Python would take the second."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _TwiceError(counts.most_common(1)[0][0])
    return found


def line_of_json(text: str, name: str) -> int | None:
    """The line, from 1, on which a name of JSON stands first, however it is written there."""
    for found in _JSON_TEXT.finditer(unescaped(text)):
        if found[2] and json.loads(text[found.start(1) : found.end(1)]) == name:
            return text.count("\n", 0, found.start()) + 1
    return None


def too_deep(source: str) -> AttnvizError:
    return AttnvizError(f"'{source}' is nested too deeply", "give lists of rows", file=source)


def _refuse_long_numbers(text: str, source: str) -> None:
    """Python reads no whole number of more than some thousand digits."""
    longest = sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else 0
    found = re.search(rf"(?<!\d)\d{{{longest + 1},}}", text) if longest else None
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise AttnvizError(
            f"line {line} of '{source}' has a number of {len(found[0]):,} digits",
            "shorten it: no number of a matrix has so many",
            file=source,
        )


Anything = TypeVar("Anything")


def of_their_types(kind: type[Anything], facts: Mapping[str, Any]) -> Anything:
    """A dataclass of facts that were read; TypeError where one of them is something else.

    Types are looked at first: what a dataclass checks of itself is about values of its types. One
    word of several comes last: a dataclass may know a better word for another.
    """
    hints = get_type_hints(kind)
    wrong = [name for name, value in facts.items() if not fits(value, hints.get(name))]
    if any(get_origin(hints.get(name)) is not Literal for name in wrong):
        raise TypeError(wrong)
    made = kind(**facts)
    if wrong:
        raise TypeError(wrong)
    return made


def fits(value: Any, hint: Any) -> bool:
    """
    >>> fits(2, float), fits("a", int | None), fits("b", Literal["a", "b"]), fits(True, int)
    (True, False, True, False)
    >>> fits([1, [2]], list[int]), fits({"a": 1}, Mapping[str, float]), fits(10**400, float)
    (False, True, False)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is not None or hint is Any:
        return hint is Any or (isinstance(value, origin) and _filled(value, inside))
    if hint is float and isinstance(value, int):  # of any length in JSON
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else hint)


def _filled(value: Any, inside: tuple[Any, ...]) -> bool:
    """Whether all that a Mapping, a list or a tuple holds is of the types that it should be."""
    if isinstance(value, Mapping):
        keys, values = inside
        return all(fits(key, keys) and fits(each, values) for key, each in value.items())
    if isinstance(value, tuple) and inside[-1] is not Ellipsis:
        return len(value) == len(inside) and all(map(fits, value, inside))
    return all(fits(each, inside[0]) for each in value)


OPTION = re.compile(r"--(no-)?([a-z]+(?:-[a-z]+)*)(?: (\d[\d.]*|\w+))?")
NO_KEYS = ("limit",)  # what only a command can be told
VALUES = {*VARIANTS, *TOKENIZERS, *(name for _, known in NAMES.values() for name in known)}


def in_keys(error: AttnvizError, *, but: Collection[str] = ()) -> AttnvizError:
    """An error in the words of a file, which has keys where a command has options.

    >>> in_keys(AttnvizError("--dim is 0", "try --head-dim 4, --no-scale or --variant plain")).hint
    "try head_dim = 4, scale = false or variant = 'plain'"
    """

    def key(found: re.Match[str]) -> str:
        no, option, value = found[1], found[2], found[3] or ""
        if option in (*NO_KEYS, *but):
            return found[0]
        name = option.replace("-", "_")
        if no:
            return f"{name} = false{value and ' ' + value}"
        if value[:1].isdigit():
            return f"{name} = {value}"
        return f"{name} = '{value}'" if value in VALUES else f"{name}{value and ' ' + value}"

    problem, hint = (OPTION.sub(key, text) for text in (str(error), error.hint))
    return AttnvizError(problem, hint, about=error.about, file=error.file)
