"""Reads TOML files: finds the line of each key, and checks tables; no torch."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.machine import files
from attnviz.traces import structured_text
from attnviz.traces.settings import Settings, untrusted_settings
from attnviz.traces.structured_text import blank_escapes, depth_error, fits_type
from attnviz.wording.surfaces import Surface, speaking

MAX_NAME_PARTS = 16  # of a name with dots
MAX_LIST_NAMES = 250_000  # in a TOML text: each takes up to 1 kB
MAX_NESTING_DEPTH = 100  # nested lists and tables
MAX_WORD_CHARACTERS = 1000  # digits of a number, or letters of a name
MAX_DRAW_VALUE = 1e30  # float32 holds what is computed from it
MAX_INTEGER = 2**63 - 1
MAX_LISTED_NAMES = 10_000  # names in a list of names
_WORD_PATTERN = rf"""(?:[\w+-]{{1,{MAX_WORD_CHARACTERS}}}|"[^"\n]*"|'[^'\n]*')"""
_NAME_PATTERN = rf"{_WORD_PATTERN}(?:[ \t]*\.[ \t]*{_WORD_PATTERN}){{0,{MAX_NAME_PARTS}}}"
# The pieces of a TOML text without escaped quotes. A string of several lines also matches without
# its end, so that no part of the text is scanned more than a few times.
_TOML_PIECE_PATTERN = re.compile(
    rf"""\#[^\n]*|"{{3}}.*?(?:"{{3,5}}|\Z)|'{{3}}.*?(?:'{{3,5}}|\Z)"""
    rf"""|(?P<long>[\w+-]{{{MAX_WORD_CHARACTERS + 1},}})|(?P<name>{_NAME_PATTERN})"""
    rf"""|(?P<value>=)|(?P<comma>,)|(?P<heading>^[ \t]*\[[ \t\[]*(?={_NAME_PATTERN}[ \t]*\]))"""
    r"""|(?P<start>[\[{])|(?P<end>[\]}])""",
    re.DOTALL | re.MULTILINE,
)


def parse(text: str, source: str, **options: Any) -> dict[str, Any]:
    """Return the contents of a TOML text; `source` is the file, for errors.

    `options` are those of tomllib.loads. Refuses invalid texts, and texts that would take far more
    time or memory than their length.
    """
    _refuse_costly(text, source)
    try:
        contents: dict[str, Any] = _toml_loader()(text, **options)
    except RecursionError:
        raise depth_error(source) from None
    except (ValueError, ArithmeticError) as error:
        problem = str(error) if isinstance(error, ValueError) else "a number that is too large"
        raise AttnvizError(
            f"'{source}' is not valid TOML: {problem[:1].lower()}{problem[1:]}",
            "write each line as name = value, with words in quotes",
            file=source,
        ) from None
    return contents


def read_rows_by_word(path: Path, table: str) -> dict[str, str]:
    """Return what a table of a file of attnviz has for each word; its keys are words with spaces
    between them."""
    rows: dict[str, str] = parse(path.read_text("utf-8"), path.name)[table]
    return {word: row for words, row in rows.items() for word in words.split()}


def _refuse_costly(text: str, source: str) -> None:
    """Refuse a text that would take the parser far more time or memory than its length: with deep
    nesting, overlong words, names of many parts, or very many names.
    """
    names = depth = 0
    for piece in _TOML_PIECE_PATTERN.finditer(blank_escapes(text)):
        kind, dots = piece.lastgroup, piece[0].count(".")
        parts = len(re.findall(_WORD_PATTERN, piece[0])) if kind == "name" and dots > 1 else 0
        names += max(parts - 1, 0) + (kind in ("value", "heading"))
        if kind in ("heading", "start", "end"):
            depth += -1 if kind == "end" else max(piece[0].count("["), 1)
            if depth > MAX_NESTING_DEPTH:
                raise depth_error(source)
        if kind == "long":
            problem = f"a name or a number of more than {MAX_WORD_CHARACTERS:,} characters"
        elif parts > MAX_NAME_PARTS:
            problem = f"a name of more than {MAX_NAME_PARTS} parts"
        elif names > MAX_LIST_NAMES:
            problem = f"the last of more than {MAX_LIST_NAMES:,} names"
        else:
            continue
        line = text.count("\n", 0, piece.start()) + 1
        raise AttnvizError(
            f"line {line} of '{source}' has {problem}",
            "shorten it: no file for attnviz needs so many",
            file=source,
        )


def _toml_loader() -> Callable[..., dict[str, Any]]:
    """Return the parser's `loads`, imported when it is needed."""
    if sys.version_info >= (3, 11):
        from tomllib import loads
    else:
        from tomli import loads
    parser: Callable[..., dict[str, Any]] = loads
    return parser


@dataclass(slots=True)
class KeyLines:
    """The line of a key in a TOML text, with the lines of its elements (if it is a list), and the
    keys inside it.

    The tables of a list are keys named by their index, from "0".
    """

    line: int
    elements: list[int] = field(default_factory=list)
    keys: dict[str, KeyLines] = field(default_factory=dict)

    def find(self, path: Iterable[str | int]) -> int:
        """Return the line of the key, or element of a list, at a path of names and indices; if it
        is missing, the line of the last key on the path that is there.
        """
        node, line = self, self.line
        for key in path:
            if isinstance(key, int) and key < len(node.elements):
                line = node.elements[key]
            if str(key) not in node.keys:
                return line
            node = node.keys[str(key)]
            line = node.line
        return line

    def search(self, name: str) -> int | None:
        """Return the first line of a key at any depth, or None; a name with dots may be a path.

        >>> key_lines("[given]\\nlayers.1.w_query = 2").search("layers.1.w_query")
        2
        """
        lines, nodes = [], [self]
        while nodes:
            start = nodes.pop()
            nodes += start.keys.values()
            for path in ([name], name.split(".")):
                node: KeyLines | None = start
                for key in path:
                    node = node and node.keys.get(key)
                lines += [node.line] if node else []
        return min(lines, default=None)

    def enter(self, names: Sequence[str], line: int, is_list: bool = False) -> KeyLines:
        """Add the key on a line, at a path of names inside this key, if it is new, and return it.

        Of a list of tables, the last table is returned; `is_list` adds a new one.
        """
        node = self
        for number, name in enumerate(names, start=1):
            node = node.keys.setdefault(name, KeyLines(line))
            if is_list and number == len(names):
                node.keys[str(len(node.elements))] = KeyLines(line)
                node.elements.append(line)
            if node.elements:
                node = node.keys[str(len(node.elements) - 1)]
        return node


def key_lines(text: str) -> KeyLines:
    """Return the line, from 1, of each key of a valid TOML text, as a tree of keys.

    >>> lines = key_lines('[a]\\nb = ["x",\\n"y"]\\n[[c]]\\nd = { e = 1 }')
    >>> [lines.find(path) for path in (["a", "b"], ["a", "b", 1], ["c", 0], ["c", 0, "d", "e"])]
    [2, 3, 4, 5]
    """
    whole = table = node = KeyLines(1)  # `node` is the last key that is not inside a value
    line, position, depth, opens_table, expects_element = 1, 0, 0, 0, False
    words = slice(0)  # the last name, which may be a key
    for piece in _TOML_PIECE_PATTERN.finditer(blank_escapes(text)):
        kind, span = piece.lastgroup, slice(*piece.span())
        line, position = line + text.count("\n", position, span.start), span.start
        if kind == "heading" and not depth:
            opens_table = piece[0].count("[")
        elif kind == "name" and opens_table:
            table = whole.enter(_key_names(text[span]), line, is_list=opens_table > 1)
            opens_table = 0
        elif kind == "value":
            key = (node if depth else table).enter(_key_names(text[words]), line)
            node = node if depth else key
        elif kind == "comma":
            expects_element = depth == 1
        elif kind == "end":
            depth = max(depth - 1, 0)  # 0 after a heading
        elif not piece[0].startswith("#"):
            if expects_element:
                node.elements.append(line)
            words, opens = span, kind in ("heading", "start")
            expects_element = opens and not depth
            depth += max(piece[0].count("["), 1) if opens else 0
    return whole


def _key_names(key: str) -> list[str]:
    """Return the names in a TOML key with dots, without quotes.

    >>> _key_names('a . "b.c"')
    ['a', 'b.c']
    """
    words = [key[slice(*word.span())] for word in re.finditer(_WORD_PATTERN, blank_escapes(key))]
    return [_toml_loader()(f"x = {word}")["x"] if word[0] in "\"'" else word for word in words]


def with_line_number(error: AttnvizError, path: Path) -> AttnvizError:
    """Return the error with the line of the key it is about in its message; unchanged if the file
    is not TOML or JSON, or the key is not found.
    """
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json") or not error.about:
        return error
    text = structured_text.read_text_file(path, "file of matrices")
    is_json = suffix == ".json"
    search = partial(structured_text.line_of_json, text) if is_json else key_lines(text).search
    line = search(error.about)
    return error if line is None else error.with_problem(f"line {line}: {error}")


@dataclass(frozen=True)
class ValueKind:
    """The values that a key takes: a check, and the words of its error."""

    fits: Callable[[Any], bool]
    phrase: str  # "a whole number, such as 42"
    hint: str = "change its value"  # {key} is the key, {heading} its path with dots


def is_whole_number(value: Any) -> bool:
    """Return whether a value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any, minimum: float = -MAX_DRAW_VALUE) -> bool:
    """Return whether a value is a number, not a bool, from `minimum` to MAX_DRAW_VALUE."""
    number = plain_number(value)  # Decimal's NaN cannot be compared
    is_numeric = isinstance(number, float) or is_whole_number(number)
    return is_numeric and minimum <= number <= MAX_DRAW_VALUE


def is_list(value: Any, element: type, least: int = 1) -> bool:
    """Return whether a value is a list of `least` or more elements of one type, none of them ""."""
    fits = isinstance(value, list) and all(isinstance(item, element) for item in value)
    return fits and len(value) >= least and "" not in value


def plain_number(value: Any) -> Any:
    """Return the value with floats in place of Decimals, also in lists and tables."""
    if isinstance(value, list):
        return [plain_number(item) for item in value]
    if isinstance(value, dict):
        return {name: plain_number(item) for name, item in value.items()}
    return float(value) if isinstance(value, Decimal) else value


def int_range(least: int, most: int) -> ValueKind:
    phrase = f"a whole number from {least} to {most:,}"
    return ValueKind(lambda value: is_whole_number(value) and least <= value <= most, phrase)


def one_word_of(*words: str) -> ValueKind:
    return ValueKind(lambda value: value in words, f"one of {', '.join(words)}")


TEXT_TYPE = ValueKind(lambda value: isinstance(value, str), "text in quotes")
WHOLE_NUMBER_TYPE = ValueKind(is_whole_number, "a whole number, such as 42")
NUMBER_TYPE = ValueKind(
    lambda value: fits_type(plain_number(value), float), "a number, such as 0.5"
)
POSITIVE_TYPE = ValueKind(lambda value: is_number(value, 0), "a number from 0, such as 0.02")
BOOLEAN_TYPE = ValueKind(lambda value: isinstance(value, bool), "true or false")
NAMES_TYPE = ValueKind(
    lambda value: is_list(value, str), "a list of names", 'write {key} = ["animal", "place"]'
)
TABLE_TYPE = ValueKind(lambda value: isinstance(value, dict), "a table", "write [{heading}]")
TABLES_TYPE = ValueKind(
    lambda value: is_list(value, dict), "a list of tables", "write [[{heading}]] for each"
)
_KINDS_BY_TYPE = {bool: BOOLEAN_TYPE, int: WHOLE_NUMBER_TYPE, float: NUMBER_TYPE, str: TEXT_TYPE}


@cache
def kinds_by_class(fields: type) -> dict[str, ValueKind]:
    """Return the kind of value of each field of a dataclass, by its annotation; a Literal is text.

    >>> kinds_by_class(Settings)["heads"].phrase, kinds_by_class(Settings)["scoring"].phrase
    ('a whole number, such as 42', 'text in quotes')
    """
    kinds = {}
    for name, hint in get_type_hints(fields).items():
        types = [str if get_origin(t) is Literal else t for t in (hint, *get_args(hint))]
        kinds[name] = next(_KINDS_BY_TYPE[t] for t in types if t in _KINDS_BY_TYPE)
    return kinds


@dataclass(frozen=True)
class TomlFile:
    """The path and text of a TOML file; the lines of its keys are found when an error needs one."""

    path: Path
    text: str

    @cached_property
    def lines(self) -> KeyLines:
        return key_lines(self.text)


@dataclass(frozen=True)
class Table:
    """A table of a TOML file, with its path of keys; the whole file has the empty path."""

    file: TomlFile
    values: Mapping[str, Any]
    path: tuple[str | int, ...] = ()

    @classmethod
    def read(
        cls, path: Path, kind: files.FileKind, text: str | None = None, **options: Any
    ) -> Table:
        """Return a whole TOML file as a table, or its `text` if it was read before.

        `kind` is what the file is, for messages; `options` are those of tomllib.loads.
        """
        file = TomlFile(path, structured_text.read_text_file(path, kind) if text is None else text)
        return cls(file, parse(file.text, str(path), **options))

    def line(self, *keys: str | int) -> int:
        """Return the line of a key, or of an element of its list; if missing, that of the table."""
        return self.file.lines.find((*self.path, *keys))

    def error(self, problem: str, hint: str, *keys: str | int) -> AttnvizError:
        where = f"line {self.line(*keys)} of '{self.file.path}'"
        return AttnvizError(f"{where}: {problem}", hint, file=str(self.file.path))

    @contextmanager
    def locating_errors(
        self, *keys: str | int, about: str = "", options: bool = False
    ) -> Iterator[None]:
        """Add the file and a line to errors raised inside, unless they have a file.

        The line is that of the key an error is about, if it is in this table, otherwise that of
        `keys`. `about` begins the message. With `options`, errors about options are about keys.
        """
        try:
            with speaking(Surface.TOML) if options else nullcontext():
                yield
        except AttnvizError as error:
            if error.file:
                raise
            if error.about in self.values and error.about:
                keys = (error.about,)
            raise self.error(f"{about}{error}", error.hint, *keys) from None

    def refuse_unknown(
        self,
        kind: str,
        name: str,
        known_names: Collection[str],
        *keys: str,
        hint: str = "",
        from_file: bool = False,
    ) -> None:
        """Refuse a name that is not among the known ones: a key, or a word in the value at `keys`.

        `kind` is what it names, for the message: "setting".
        """
        if name not in known_names:
            error = unknown_name_error(kind, name, known_names, from_file=from_file)
            raise self.error(str(error), hint or error.hint, *(keys or [name]))

    def refuse_misfit(self, key: str, kind: ValueKind) -> None:
        if not kind.fits(self.values[key]):
            raise self.error(f"'{key}' is not {kind.phrase}", self._hint(key, kind), key)

    def _hint(self, key: str, kind: ValueKind) -> str:
        heading = ".".join(part for part in (*self.path, key) if isinstance(part, str))
        return kind.hint.replace("{key}", key).replace("{heading}", heading)

    def check(self, kind: str, kinds: Mapping[str, ValueKind], *needed: str) -> None:
        """Refuse unknown keys, values of the wrong kind, and a table without its needed keys.

        `kind` is what the keys are, for the message; `kinds` holds the kind of value for each key.
        """
        for key in self.values:
            self.refuse_unknown(kind, key, kinds)
            self.refuse_misfit(key, kinds[key])
        for key in needed:
            if key not in self.values:
                raise self.error(f"there is no '{key}'", self._hint(key, kinds[key]))

    def table(self, key: str) -> Table:
        return Table(self.file, self.values.get(key, {}), (*self.path, key))

    def tables(self, key: str) -> list[Table]:
        tables = enumerate(self.values.get(key, []))
        return [Table(self.file, table, (*self.path, key, number)) for number, table in tables]

    def text(self, key: str) -> str:
        return str(self.values.get(key, "")).strip()

    def names(self, key: str) -> tuple[str, ...]:
        """Return the list of names at a key, empty if it is missing.

        Refuses a name that is there twice, and more than MAX_LISTED_NAMES names.
        """
        names = self.values.get(key, [])
        if len(names) > MAX_LISTED_NAMES:
            problem = f"'{key}' has {len(names):,} names"
            raise self.error(problem, f"give at most {MAX_LISTED_NAMES:,}", key)
        self.refuse_twice(Counter(names), key, f"is in '{key}' twice")
        return tuple(names)

    def refuse_twice(self, counts: Counter[str], key: str, problem: str) -> None:
        """Refuse a name counted more than once; `problem` follows the name in the message."""
        for name, count in counts.most_common(1):
            if count > 1:
                raise self.error(f"'{name}' {problem}", "leave one of them out", key)

    def settings(self, names: Collection[str], base: Settings, **others: Any) -> Settings:
        """Return `base` with the settings in this table, and with `others`.

        Refuses keys that are not `names` settings, and values that are wrong. The settings permit
        and download nothing.
        """
        self.check("setting", {name: kinds_by_class(Settings)[name] for name in names})
        with self.locating_errors(options=True):
            return replace(base, **{**untrusted_settings(plain_number(self.values)), **others})
