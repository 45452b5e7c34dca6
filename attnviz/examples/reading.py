"""An example's file, read and checked; every error names the file and the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Any

from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError, unknown
from attnviz.examples import kinds
from attnviz.examples.checking import FOUND
from attnviz.examples.claims import CLAIMS
from attnviz.examples.draws import KINDS, OPTIONS, Draw, Recipe
from attnviz.examples.example import Example, Expectation
from attnviz.examples.kinds import Kind
from attnviz.traces import matrix_files
from attnviz.traces.matrices import NAMES
from attnviz.traces.settings import Settings

TOP = ("title", "source", "notice", "text", "query", "mistake", "settings", "recipe", "given",
       "expect")  # fmt: skip
RECIPE = ("seed", "skip", "draws")
EXPECT = ("step", "query", "item", "with", "values", "shape", "parameters", "claim", "arithmetic")
SETTINGS = tuple(each.name for each in fields(Settings) if each.name not in ("given", "item"))
COMBINED = ("product", "rows")


@dataclass(frozen=True)
class Source:
    """A file that is read, for its errors."""

    path: Path
    text: str

    def line(self, key: str, after: str = "", number: int = 0) -> int | None:
        """The line of a key; `after` the so-manyth line that is a heading, if there is one."""
        lines = self.text.splitlines()
        heads = [place for place, line in enumerate(lines) if line.strip() == after]
        start = heads[number] if after and number < len(heads) else 0
        found = matrix_files.line_of("\n".join(lines[start:]), key) if key else 1
        return None if found is None else found + start

    def where(self, line: int | None) -> str:
        return f"'{self.path}'" if line is None else f"line {line} of '{self.path}'"

    def error(self, problem: str, hint: str, line: int | None = None) -> AttnvizError:
        return AttnvizError(f"{self.where(line)}: {problem}", hint)

    def refuse_other_kinds(
        self, table: Mapping[str, Any], known: Mapping[str, Kind], after: str = "", number: int = 0
    ) -> None:
        for key, value in table.items():
            if key in known and not known[key].fits(value):
                line = self.line(key, after, number)
                raise self.error(f"'{key}' is not {known[key].wanted}", "write it so", line)

    def refuse_unknown(
        self, kind: str, keys: Iterable[str], known: Iterable[str], after: str = "", number: int = 0
    ) -> None:
        for key in keys:
            if key not in known:
                error = unknown(kind, key, known)
                raise self.error(str(error), error.hint, self.line(key, after, number))


def read(path: Path) -> Example:
    """The example of a file."""
    text = matrix_files.text_of(path)
    source = Source(path, text)
    contents = matrix_files.toml(text, str(path), parse_float=Decimal)
    source.refuse_unknown("key", contents, TOP)
    if "title" not in contents:
        raise source.error("an example needs a title", 'begin with: title = "What it shows"', 1)
    recipe = _recipe(_table(contents, "recipe", source), source)
    example = Example(
        name=path.stem,
        path=path,
        **{name: _text(contents, name, source) for name in TOP[:6] if name in contents},
        settings=_settings(_table(contents, "settings", source), source),
        recipe=recipe,
        given=_given(_table(contents, "given", source), recipe, source),
        expectations=tuple(_expectations(contents.get("expect", []), source)),
    )
    if example.mistake is not None and example.mistake not in MISTAKES:
        error = unknown("mistake", example.mistake, MISTAKES)
        raise source.error(str(error), error.hint, source.line("mistake"))
    return example


def _table(contents: Mapping[str, Any], name: str, source: Source) -> Mapping[str, Any]:
    value = contents.get(name, {})
    if not isinstance(value, dict):
        raise source.error(f"'{name}' is no table", f"write [{name}]", source.line(name))
    return value


def _text(contents: Mapping[str, Any], name: str, source: Source) -> str:
    value = contents[name]
    if name == "query" and isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise source.error(f"'{name}' is no text", "write it in quotes", source.line(name))
    return value.strip()


def _settings(table: Mapping[str, Any], source: Source) -> Settings:
    source.refuse_unknown("setting", table, SETTINGS, "[settings]")
    source.refuse_other_kinds(table, kinds.of_settings(), "[settings]")
    try:
        return Settings(**{name: _number(each) for name, each in table.items()})
    except AttnvizError as error:
        said = str(error)
        blamed = [name for name, value in table.items()
                  if f"--{name.replace('_', '-')} " in said or f"'{value}'" in said]  # fmt: skip
        line = source.line([*blamed, "settings"][0], "[settings]")
        raise source.error(said, error.hint, line) from None


def _recipe(table: Mapping[str, Any], source: Source) -> Recipe:
    source.refuse_unknown("key of a recipe", table, RECIPE, "[recipe]")
    source.refuse_other_kinds(table, kinds.RECIPE, "[recipe]")
    draws = tuple(_draw(each, source) for each in table.get("draws", []))
    return Recipe(seed=table.get("seed", 0), skip=table.get("skip", 0), draws=draws)


def _draw(table: Any, source: Source) -> Draw:
    """`{ name = "w_query", linear = [3, 2], bias = false }`"""
    if not isinstance(table, dict) or "name" not in table:
        raise source.error(
            "a draw has no name", 'write { name = "embeddings", rand = [4, 3] }',
            source.line("draws"),
        )  # fmt: skip
    kinds = [kind for kind in KINDS if kind in table]
    line = _line_of_text(source, str(table["name"]))
    if len(kinds) != 1:
        known = [*KINDS, "name", *(option for each in OPTIONS.values() for option in each)]
        odd = next((key for key in table if key not in known), None)
        error = unknown("kind of draw", odd, KINDS) if odd else None
        raise source.error(
            str(error) if error else f"the draw '{table['name']}' is of no kind",
            error.hint if error else f"give one of {', '.join(KINDS)} with its shape",
            line,
        )
    (kind,) = kinds
    allowed = ("name", kind, *OPTIONS.get(kind, ()))
    for key in table:
        if key not in allowed:
            error = unknown(f"key of a draw with {kind}", key, allowed)
            raise source.error(str(error), error.hint, line)
    shape = table[kind]
    whole = isinstance(shape, list) and shape and all(isinstance(n, int) and n > 0 for n in shape)
    if not whole or (kind == "linear" and len(shape) != 2):
        raise source.error(f"the draw '{table['name']}' has no shape", f"{kind} = [4, 3]", line)
    options = {name: table[name] for name in OPTIONS.get(kind, ()) if name in table}
    _refuse_what_cannot_be_drawn(kind, shape, options, line, source)
    return Draw(name=str(table["name"]), kind=kind, shape=tuple(shape), options=options)


def _refuse_what_cannot_be_drawn(
    kind: str, shape: list[int], options: Mapping[str, Any], line: int | None, source: Source
) -> None:
    if prod(shape) > kinds.MOST_NUMBERS:
        raise source.error(
            f"a draw of {prod(shape):,} numbers is too large",
            f"at most {kinds.MOST_NUMBERS:,} can be drawn", line,
        )  # fmt: skip
    if kind == "randint":
        low, high = options.get("low", 0), options.get("high", 10)
        if not (kinds.is_whole(low) and kinds.is_whole(high) and low < high):
            raise source.error(f"randint draws from low to high, here {low} to {high}",
                               "give low = 0, high = 10", line)  # fmt: skip
    if kind == "linear" and not isinstance(options.get("bias", True), bool):
        raise source.error("'bias' is not true or false", "write it so", line)


def _refuse_misnamed(draws: Sequence[Draw], given: Mapping[str, Any], source: Source) -> None:
    """A draw stands alone under its name, and is not nearly called what could be given."""
    names = [draw.name for draw in draws]
    used = {wanted for value in given.values() for wanted in _draws_of(value)}
    for name in names:
        line = _line_of_text(source, name)
        if names.count(name) > 1:
            raise source.error(
                f"two draws are called '{name}'", "give each a name of its own", line
            )
        nearest = get_close_matches(name, NAMES, n=1, cutoff=0.8)
        if name not in NAMES and name not in used and nearest:
            raise source.error(f"the draw '{name}' is not used", f"did you mean '{nearest[0]}'?",
                               line)  # fmt: skip


def _given(table: Mapping[str, Any], recipe: Recipe, source: Source) -> Mapping[str, Any]:
    source.refuse_unknown("matrix to give", table, NAMES, "[given]")
    drawn = [draw.name for draw in recipe.draws]
    _refuse_misnamed(recipe.draws, table, source)
    for name, value in table.items():
        for wanted in _draws_of(value):
            if wanted not in drawn:
                error = unknown("draw", wanted, drawn)
                raise source.error(f"'{name}': {error}", error.hint, source.line(name, "[given]"))
        if isinstance(value, dict) and (len(value) != 1 or len(_draws_of(value)) != 2):
            raise source.error(
                f"'{name}' is made in no known way", 'write { product = ["u_query", "x"] }',
                source.line(name, "[given]"),
            )  # fmt: skip
    return {name: _numbers(value) for name, value in table.items()}


def _draws_of(value: Any) -> list[str]:
    """The draws that a given name hangs on."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        found = [value.get(each, []) for each in COMBINED]
        return [str(name) for names in found if isinstance(names, list) for name in names]
    return []


def _expectations(tables: Any, source: Source) -> Iterable[Expectation]:
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise source.error("what is expected is no list of tables", "write [[expect]] for each",
                           source.line("expect"))  # fmt: skip
    for number, table in enumerate(tables):
        yield _expectation(table, number, source)


def _expectation(table: Mapping[str, Any], number: int, source: Source) -> Expectation:
    head = "[[expect]]"
    source.refuse_unknown("key of an expectation", table, EXPECT, head, number)
    source.refuse_other_kinds(table, kinds.EXPECTED, head, number)
    line = source.line("step", head, number)
    step = table.get("step")
    if step is None and "claim" not in table:
        raise source.error("an expectation names no step", f"step = one of {', '.join(FOUND)}",
                           source.line("", head, number))  # fmt: skip
    if step is not None and step not in FOUND:
        error = unknown("step to expect something of", str(step), FOUND)
        raise source.error(str(error), error.hint, line)
    claim = table.get("claim")
    if claim is not None and claim not in CLAIMS:
        error = unknown("claim", str(claim), CLAIMS)
        raise source.error(str(error), error.hint, source.line("claim", head, number))
    if not set(EXPECT[4:]) & table.keys():
        raise source.error(f"nothing is expected of '{step}'",
                           f"give one of {', '.join(EXPECT[4:])}", line)  # fmt: skip
    changes = table.get("with", {})
    source.refuse_unknown("setting or matrix", changes, (*SETTINGS, *NAMES), head, number)
    source.refuse_other_kinds(changes, kinds.of_settings(), head, number)
    return Expectation(
        step=step or "softmax",
        line=source.line("", head, number) if line is None else line,
        query=None if "query" not in table else str(table["query"]),
        item=table.get("item", 1),
        changes={name: _numbers(each) for name, each in changes.items()},
        values=table.get("values"),
        shape=tuple(table["shape"]) if "shape" in table else None,
        parameters=table.get("parameters"),
        claim=claim,
        arithmetic=tuple(table.get("arithmetic", ())),
    )


def _line_of_text(source: Source, word: str) -> int | None:
    pattern = re.compile(rf"""["']{re.escape(word)}["']""")
    lines = enumerate(source.text.splitlines(), start=1)
    return next((number for number, line in lines if pattern.search(line)), None)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _numbers(value: Any) -> Any:
    """The same with plain floats: digits as written matter only in what is expected."""
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    return _number(value)
