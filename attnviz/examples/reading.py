"""An example's file, read and checked.

README's "Worked examples" has one with every key explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError, unknown
from attnviz.examples import kinds
from attnviz.examples.claims import CLAIMS
from attnviz.examples.draws import Recipe
from attnviz.examples.example import Example, Expectation
from attnviz.examples.file import ExampleFile, in_keys
from attnviz.examples.recipes import recipe_of, refuse_misnamed
from attnviz.traces import texts
from attnviz.traces.by_layer import can_be_given, flat
from attnviz.traces.parts import EXPECTED, GIVEN_NAMES
from attnviz.traces.settings import Settings

WORDS = ("title", "source", "notice", "text", "query", "mistake")
KEYS = (*WORDS, "settings", "recipe", "given", "expect")
WHERE = ("step", "query", "item", "with")  # something is expected,
WHAT = ("values", "shape", "parameters", "claim", "arithmetic")  # and what it is
SETTINGS = tuple(each.name for each in fields(Settings) if each.name not in ("given", "item"))
COMBINED = ("product", "rows")
HEAD = "[[expect]]"


def read(path: Path) -> Example:
    """The example of a file."""
    text = texts.read(path)
    file = ExampleFile(path, text)
    contents = texts.toml(text, str(path), parse_float=Decimal)
    file.refuse_unknown("key", contents, KEYS)
    if "title" not in contents:
        raise file.error("an example needs a title", 'begin with: title = "What it shows"', 1)
    recipe = recipe_of(_table(contents, "recipe", file), file)
    example = Example(
        name=path.stem,
        path=path,
        **{name: _text(contents, name, file) for name in WORDS if name in contents},
        settings=_settings(_table(contents, "settings", file), file),
        recipe=recipe,
        given=_given(_table(contents, "given", file), recipe, file),
        expectations=tuple(_expectations(contents.get("expect", []), file)),
    )
    if example.mistake is not None and example.mistake not in MISTAKES:
        error = unknown("mistake", example.mistake, MISTAKES)
        raise file.error(str(error), error.hint, file.line("mistake"))
    return example


def _table(contents: Mapping[str, Any], name: str, file: ExampleFile) -> Mapping[str, Any]:
    value = contents.get(name, {})
    if not isinstance(value, dict):
        raise file.error(f"'{name}' is no table", f"write [{name}]", file.line(name))
    return value


def _text(contents: Mapping[str, Any], name: str, file: ExampleFile) -> str:
    value = contents[name]
    if name == "query" and isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise file.error(f"'{name}' is no text", "write it in quotes", file.line(name))
    return value.strip()


def _settings(table: Mapping[str, Any], file: ExampleFile) -> Settings:
    file.refuse_unknown("setting", table, SETTINGS, "[settings]")
    file.refuse_other_kinds(table, kinds.of_settings(), "[settings]")
    try:
        return Settings(**{name: _number(each) for name, each in table.items()})
    except AttnvizError as error:
        line = file.line(error.about if error.about in table else "settings", "[settings]")
        told = in_keys(error)
        raise file.error(str(told), told.hint, line) from None


def _given(table: Mapping[str, Any], recipe: Recipe, file: ExampleFile) -> Mapping[str, Any]:
    table = _in_layers(table, file)
    known = [*GIVEN_NAMES, *filter(can_be_given, table)]
    file.refuse_unknown("matrix to give", table, known, "[given]")
    used = {wanted for value in table.values() for wanted in _draws_of(value)}
    refuse_misnamed(recipe.draws, used, file)
    drawn = [draw.name for draw in recipe.draws]
    for name, value in table.items():
        line = file.line(name, "[given]")
        for wanted in _draws_of(value):
            if wanted not in drawn:
                error = unknown("draw", wanted, drawn)
                raise file.error(f"'{name}': {error}", error.hint, line)
        if isinstance(value, dict) and (len(value) != 1 or len(_draws_of(value)) != 2):
            hint = 'write { product = ["u_query", "x"] }'
            raise file.error(f"'{name}' is made in no known way", hint, line)
    return {name: _numbers(value) for name, value in table.items()}


def _in_layers(table: Mapping[str, Any], file: ExampleFile) -> Mapping[str, Any]:
    """The same with the whole names of what stands in tables of layers."""
    try:
        return flat(table)
    except AttnvizError as error:
        raise file.error(str(error), error.hint, file.line(error.about)) from None


def _draws_of(value: Any) -> list[str]:
    """The draws that something given is made of."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        found = [value.get(each, []) for each in COMBINED]
        return [str(name) for names in found if isinstance(names, list) for name in names]
    return []


def _expectations(tables: Any, file: ExampleFile) -> Iterable[Expectation]:
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        line = file.line("expect")
        raise file.error("what is expected is no list of tables", f"write {HEAD} for each", line)
    for number, table in enumerate(tables):
        yield _expectation(table, number, file)


def _expectation(table: Mapping[str, Any], number: int, file: ExampleFile) -> Expectation:
    file.refuse_unknown("key of an expectation", table, (*WHERE, *WHAT), HEAD, number)
    file.refuse_other_kinds(table, kinds.EXPECTED, HEAD, number)
    _refuse_odd_step(table, number, file)
    _refuse_odd_claim(table, number, file)
    line = file.line("step", HEAD, number)
    changes = table.get("with", {})
    known = [*SETTINGS, *GIVEN_NAMES, *filter(can_be_given, changes)]
    file.refuse_unknown("setting or matrix", changes, known, HEAD, number)
    file.refuse_other_kinds(changes, kinds.of_settings(), HEAD, number)
    return Expectation(
        step=table.get("step") or "softmax",
        line=file.line("", HEAD, number) if line is None else line,
        query=None if "query" not in table else str(table["query"]),
        item=table.get("item", 1),
        changes={name: _numbers(each) for name, each in changes.items()},
        values=table.get("values"),
        shape=tuple(table["shape"]) if "shape" in table else None,
        parameters=table.get("parameters"),
        claim=table.get("claim"),
        arithmetic=tuple(table.get("arithmetic", ())),
    )


def _refuse_odd_step(table: Mapping[str, Any], number: int, file: ExampleFile) -> None:
    step, line = table.get("step"), file.line("step", HEAD, number)
    if step is None and "claim" not in table:
        hint = f"step = one of {', '.join(EXPECTED)}"
        raise file.error("an expectation names no step", hint, file.line("", HEAD, number))
    if step is not None and step not in EXPECTED:
        error = unknown("step to expect something of", str(step), EXPECTED)
        raise file.error(str(error), error.hint, line)
    if not set(WHAT) & table.keys():
        hint = f"give one of {', '.join(WHAT)}"
        raise file.error(f"nothing is expected of '{step}'", hint, line)


def _refuse_odd_claim(table: Mapping[str, Any], number: int, file: ExampleFile) -> None:
    claim = table.get("claim")
    if claim is not None and claim not in CLAIMS:
        error = unknown("claim", str(claim), CLAIMS)
        raise file.error(str(error), error.hint, file.line("claim", HEAD, number))


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _numbers(value: Any) -> Any:
    """The same with plain floats: digits as written matter only in what is expected."""
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    return _number(value)
