"""Texts that hold named values (TOML and JSON), checked; errors name the key and its line.

Both are read in time and memory that grow no faster than the text, whatever is in it. Nothing
here needs torch.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attnviz.attention.variants import VARIANTS
from attnviz.errors import AttnvizError, unknown
from attnviz.machine import files, memory
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.aliases import meant
from attnviz.traces.settings import NAMES

MOST_PARTS = 16  # of a name with dots
MOST_NAMES = 250_000  # in a TOML text: each takes up to 1 kB
DEEPEST = 100  # lists and tables in each other
LONGEST_WORD = 1000  # digits of a number, or letters of a name
_WORD = rf"""(?:[\w+-]{{1,{LONGEST_WORD}}}|"[^"\n]*"|'[^'\n]*')"""
_NAME = rf"{_WORD}(?:[ \t]*\.[ \t]*{_WORD}){{0,{MOST_PARTS}}}"
# What a TOML text is made of, once no quote in it is escaped. A string of several lines is matched
# without its end, too: so no place of the text is looked at more than a few times.
_PIECES = re.compile(
    rf"""\#[^\n]*|"{{3}}.*?(?:"{{3,5}}|\Z)|'{{3}}.*?(?:'{{3,5}}|\Z)"""
    rf"""|(?P<long>[\w+-]{{{LONGEST_WORD + 1},}})|(?P<name>{_NAME})|(?P<value>=)"""
    rf"""|(?P<heading>^[ \t]*\[[ \t\[]*(?={_NAME}[ \t]*\]))|(?P<start>[\[{{])|(?P<end>[\]}}])""",
    re.DOTALL | re.MULTILINE,
)
_JSON_TEXT = re.compile(r'("[^"]*")(\s*:)?')  # once no quote in it is escaped
# The most bytes that Python takes for a list, an object, a text or its name, and a number.
_OF_JSON = {"[": 96, "{": 256, '"': 32, ":": 64, ",": 40}


def read(path: Path, kind: files.Kind) -> str:
    """A file of UTF-8."""
    return files.decoded(files.read(path, kind), f"'{path}'")


def toml(text: str, source: str, **options: Any) -> dict[str, Any]:
    """A TOML text as tables, lists and values."""
    _refuse_costly(text, source)
    try:
        contents: dict[str, Any] = _loads()(text, **options)
    except RecursionError:
        raise _too_deep(source) from None
    except (ValueError, ArithmeticError) as error:
        told = str(error) if isinstance(error, ValueError) else "a number that is too large"
        raise AttnvizError(
            f"'{source}' is not valid TOML: {told[:1].lower()}{told[1:]}",
            "write each line as name = value, with words in quotes",
            file=source,
        ) from None
    return contents


def _refuse_costly(text: str, source: str) -> None:
    """Refuse what takes TOML's reader far more time, or memory, than the text is long."""
    names = depth = 0
    for piece in _PIECES.finditer(_unescaped(text)):
        kind, dots = piece.lastgroup, piece[0].count(".")
        parts = len(re.findall(_WORD, piece[0])) if kind == "name" and dots > 1 else 0
        names += max(parts - 1, 0) + (kind in ("value", "heading"))
        if kind in ("heading", "start", "end"):
            depth += -1 if kind == "end" else max(piece[0].count("["), 1)
            if depth > DEEPEST:
                raise _too_deep(source)
        if kind == "long":
            problem = f"a name or a number of more than {LONGEST_WORD:,} characters"
        elif parts > MOST_PARTS:
            problem = f"a name of more than {MOST_PARTS} parts"
        elif names > MOST_NAMES:
            problem = f"the last of more than {MOST_NAMES:,} names"
        else:
            continue
        line = text.count("\n", 0, piece.start()) + 1
        raise AttnvizError(
            f"line {line} of '{source}' has {problem}",
            "shorten it: no file for attnviz needs so many",
            file=source,
        )


def _unescaped(text: str) -> str:
    """A text of TOML or JSON without escaped quotes; every place in it stays where it was.

    >>> _unescaped(r'"a\\"b\\\\"')
    '"a__b__"'
    """
    return text.replace("\\\\", "__").replace('\\"', "__")


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
    if len(key) > LONGEST_WORD:
        return None
    word = re.escape(key)
    bare = "" if not key or re.search(r"\s", key) else f"|{word}"
    pattern = re.compile(rf"""(^|[{{,])\s*("{word}"|'{word}'{bare})\s*[=:]""")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if pattern.search(line)), None)


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
        raise _too_deep(str(path)) from None
    except _TwiceError as twice:
        line = _line_of_json(text, str(twice))
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


def _line_of_json(text: str, name: str) -> int:
    """The line, from 1, on which a name of JSON stands first, however it is written there."""
    for found in _JSON_TEXT.finditer(_unescaped(text)):
        if found[2] and json.loads(text[found.start(1) : found.end(1)]) == name:
            return text.count("\n", 0, found.start()) + 1
    raise ValueError(name)


def _too_deep(source: str) -> AttnvizError:
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


def located(error: AttnvizError, path: Path) -> AttnvizError:
    """The same error with the line of what it is about, in files that have lines."""
    if path.suffix.lower() not in (".toml", ".json") or not error.about:
        return error
    line = line_of(read(path, "file of matrices"), error.about)
    return error if line is None else error.told(f"line {line}: {error}")


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


@dataclass(frozen=True)
class LinedFile:
    """A file that is read."""

    path: Path
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def _headings(self) -> Mapping[str, list[int]]:
        """Where each heading stands, as often as it does."""
        found: dict[str, list[int]] = {}
        for place, line in enumerate(self.lines):
            if line.lstrip().startswith("["):
                found.setdefault(line.strip(), []).append(place)
        return found

    def line(self, key: str, after: str = "", number: int = 0) -> int | None:
        """The line of a key, the first in the file or after a heading; `number` counts headings.

        After one of several headings the key is looked for until the next one.
        """
        places = self._headings.get(after, [])[number : number + 2] if after else []
        start, end = (*places, None, None)[:2]
        if not key:
            return (start or 0) + 1
        if (start, end, key) not in self._found:
            self._found[start, end, key] = line_of("\n".join(self.lines[start:end]), key)
        found = self._found[start, end, key]
        return None if found is None else found + (start or 0)

    @cached_property
    def _found(self) -> dict[tuple[int | None, int | None, str], int | None]:
        """The line of each key that was looked for between two others: asked for many times."""
        return {}

    def error(self, problem: str, hint: str, line: int | None = None) -> AttnvizError:
        where = f"'{self.path}'" if line is None else f"line {line} of '{self.path}'"
        return AttnvizError(f"{where}: {problem}", hint, file=str(self.path))

    def refuse_unknown(
        self, kind: str, keys: Iterable[str], known: Iterable[str], after: str = "", number: int = 0
    ) -> None:
        """Refuse the first key that is none of those that are known."""
        for key in keys:
            if key not in known:
                error = unknown(kind, key, known)
                hint = meant(key) if "matrix" in kind else ""
                raise self.error(str(error), hint or error.hint, self.line(key, after, number))
