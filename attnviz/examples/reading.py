"""An example's file, read and checked.

docs/examples.md has one with every key explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError, unknown
from attnviz.examples import value_types
from attnviz.examples.claims import CLAIMS
from attnviz.examples.constructions import is_made, names_in, shape_of
from attnviz.examples.draws import Recipe, recipe_of, refuse_misnamed
from attnviz.examples.example import Example, Expectation
from attnviz.examples.value_types import ExampleFile
from attnviz.machine.files import NameInFile
from attnviz.traces import texts
from attnviz.traces.by_layer import can_be_given, flat
from attnviz.traces.parts import EXPECTED, GIVEN_NAMES
from attnviz.traces.settings import COMES_WITH_ATTNVIZ, Settings, as_information
from attnviz.traces.texts import in_keys

WORDS = ("title", "source", "notice", "text", "query", "mistake")
KEYS = (*WORDS, "settings", "recipe", "given", "expect")
WHERE = ("step", "query", "item", "layer", "with")  # something is expected,
WHAT = ("values", "shape", "parameters", "claim", "arithmetic")  # what it is,
HOW = ("tolerance",)  # and how closely it must be met
NOT_IN_A_LESSON = ("given", "item", "trust_remote_code")
SETTINGS = tuple(each.name for each in fields(Settings) if each.name not in NOT_IN_A_LESSON)
HEAD = "[[expect]]"


def read(path: Path) -> Example:
    """The example of a file."""
    text = texts.read(path, "lesson")
    file = ExampleFile(path, text)
    contents = texts.toml(text, str(path), parse_float=Decimal)
    file.refuse_unknown("key", contents, KEYS)
    if "title" not in contents:
        raise file.error("an example needs a title", 'begin with: title = "What it shows"', 1)
    recipe = recipe_of(_table(contents, "recipe", file), file)
    refuse_misnamed(recipe.draws, _used(contents), file)
    example = Example(
        name=path.stem,
        path=path,
        **{name: _text(contents, name, file) for name in WORDS if name in contents},
        settings=_settings(_table(contents, "settings", file), file),
        recipe=recipe,
        given=_given(_table(contents, "given", file), recipe, file),
        expectations=tuple(_expectations(contents.get("expect", []), recipe, file)),
    )
    if example.mistake is not None and example.mistake not in MISTAKES:
        error = unknown("mistake", example.mistake, MISTAKES)
        raise file.error(str(error), error.hint, file.line("mistake"))
    return example


def _table(contents: Mapping[str, Any], name: str, file: ExampleFile) -> Mapping[str, Any]:
    value = contents.get(name, {})
    if not isinstance(value, dict):
        raise file.error(f"'{name}' is not a table", f"write [{name}]", file.line(name))
    return value


def _text(contents: Mapping[str, Any], name: str, file: ExampleFile) -> str:
    value = contents[name]
    if name == "query" and isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise file.error(f"'{name}' is not text", "write it in quotes", file.line(name))
    return value.strip()


def _settings(table: Mapping[str, Any], file: ExampleFile) -> Settings:
    file.refuse_unknown("setting", table, SETTINGS, "[settings]")
    file.refuse_other_kinds(table, value_types.of_settings(), "[settings]")
    _refuse_what_is_loaded(table, file, "[settings]")
    named = as_information({name: value_types.plain(each) for name, each in table.items()})
    try:
        return Settings(**named)
    except AttnvizError as error:
        line = file.line(error.about if error.about in table else "settings", "[settings]")
        told = in_keys(error)
        raise file.error(str(told), told.hint, line) from None


def _refuse_what_is_loaded(
    table: Mapping[str, Any], file: ExampleFile, after: str, number: int = 0
) -> None:
    """A lesson can take a model, or its vectors, only of those that come with attnviz."""
    for name in ("model", "embeddings"):
        named = as_information(table).get(name)
        if isinstance(named, NameInFile):
            raise file.error(
                f"'{name}' is '{named}', and a lesson can only name what comes with attnviz",
                f"known: {', '.join(COMES_WITH_ATTNVIZ[name])}",
                file.line(name, after, number),
            )


def _given(table: Mapping[str, Any], recipe: Recipe, file: ExampleFile) -> Mapping[str, Any]:
    table = _in_layers(table, file)
    known = [*GIVEN_NAMES, *filter(can_be_given, table)]
    file.refuse_unknown("matrix to give", table, known, "[given]")
    return {
        name: _giving(name, value, recipe, file, partial(file.line, name, "[given]"))
        for name, value in table.items()
    }


def _in_layers(table: Mapping[str, Any], file: ExampleFile) -> Mapping[str, Any]:
    """The same with the whole names of what stands in tables of layers."""
    try:
        return flat(table)
    except AttnvizError as error:
        raise file.error(str(error), error.hint, file.line(error.about)) from None


def _used(contents: Mapping[str, Any]) -> set[str]:
    """The draws that anything is made of, wherever it is given; odd tables are refused later."""
    expected = contents.get("expect", [])
    expected = [each for each in expected if isinstance(each, dict)] if expected else []
    tables = [contents.get("given"), *(each.get("with") for each in expected)]
    return names_in([table for table in tables if isinstance(table, dict)])


def _giving(
    name: str, value: Any, recipe: Recipe, file: ExampleFile, line: Callable[[], int | None]
) -> Any:
    """A matrix as it is written; one that is drawn, or made of draws, once it is sure it can be."""
    given = _numbers(value)
    if is_made(name, given):
        try:
            shape_of(given, recipe.shapes)
        except AttnvizError as error:
            raise file.error(f"'{name}': {error}", error.hint, line()) from None
    return given


def _expectations(tables: Any, recipe: Recipe, file: ExampleFile) -> Iterable[Expectation]:
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        line = file.line("expect")
        raise file.error("'expect' is not a list of tables", f"write {HEAD} for each", line)
    for number, table in enumerate(tables):
        yield _expectation(table, number, recipe, file)


def _expectation(
    table: Mapping[str, Any], number: int, recipe: Recipe, file: ExampleFile
) -> Expectation:
    file.refuse_unknown("key of an expectation", table, (*WHERE, *WHAT, *HOW), HEAD, number)
    file.refuse_other_kinds(table, value_types.EXPECTED, HEAD, number)
    _refuse_odd_step(table, number, file)
    _refuse_odd_claim(table, number, file)
    _refuse_what_is_loaded(table.get("with", {}), file, HEAD, number)
    line = file.line("step", HEAD, number)
    return Expectation(
        step=table.get("step") or "softmax",
        line=file.line("", HEAD, number) if line is None else line,
        query=None if "query" not in table else str(table["query"]),
        item=table.get("item", 1),
        layer=table.get("layer"),
        changes=_changes(table.get("with", {}), number, recipe, file),
        values=table.get("values"),
        tolerance=value_types.plain(table.get("tolerance")),
        shape=tuple(table["shape"]) if "shape" in table else None,
        parameters=table.get("parameters"),
        claim=table.get("claim"),
        arithmetic=tuple(table.get("arithmetic", ())),
    )


def _changes(
    table: Mapping[str, Any], number: int, recipe: Recipe, file: ExampleFile
) -> Mapping[str, Any]:
    """Settings, and matrices, that differ where something is expected."""
    table = _in_layers(table, file)
    known = [*SETTINGS, *GIVEN_NAMES, *filter(can_be_given, table)]
    file.refuse_unknown("setting or matrix", table, known, HEAD, number)
    file.refuse_other_kinds(table, value_types.of_settings(), HEAD, number)
    line = partial(file.line, "with", HEAD, number)
    return {
        name: value_types.plain(each)
        if name in SETTINGS
        else _giving(name, each, recipe, file, line)
        for name, each in table.items()
    }


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
    if "tolerance" in table and "values" not in table:
        problem = "'tolerance' says how closely values must be met, and no values are given"
        hint = "give values, or leave it out"
        raise file.error(problem, hint, file.line("tolerance", HEAD, number))


def _refuse_odd_claim(table: Mapping[str, Any], number: int, file: ExampleFile) -> None:
    claim = table.get("claim")
    if claim is not None and claim not in CLAIMS:
        error = unknown("claim", str(claim), CLAIMS)
        raise file.error(str(error), error.hint, file.line("claim", HEAD, number))


def _numbers(value: Any) -> Any:
    """The same with plain floats, wherever they stand."""
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    if isinstance(value, dict):
        return {name: _numbers(each) for name, each in value.items()}
    return value_types.plain(value)
