"""Reads and checks the TOML of an example; docs/lessons.md explains every key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from attnviz.attention.mistakes import MISTAKES
from attnviz.machine.files import NameInFile
from attnviz.traces import toml_reader as toml
from attnviz.traces.matrix_names import alias_hint, can_be_given, flatten_layers
from attnviz.traces.parts import EXPECTATION_TYPES, GIVEN_NAMES
from attnviz.traces.settings import SHIPPED_NAMES, Settings, untrusted_settings
from attnviz.wings.examples.claims import CLAIMS
from attnviz.wings.examples.constructions import construction_shape, draws_used_by, is_construction
from attnviz.wings.examples.draws import (
    COUNT_TYPE,
    SHAPE_TYPE,
    Recipe,
    read_recipe,
    refuse_unused_draws,
)
from attnviz.wings.examples.example import Example, Expectation

PLAIN_TEXT_TYPE = replace(toml.TEXT_TYPE, phrase="text", hint="write it in quotes")
TOKEN_TYPE = toml.ValueKind(
    lambda value: isinstance(value, str) or toml.is_whole_number(value), "a word, or its number"
)
EXAMPLE_TEXT_TYPES: Mapping[str, toml.ValueKind] = {
    **dict.fromkeys(("title", "source", "notice", "text", "mistake"), PLAIN_TEXT_TYPE),
    "query": TOKEN_TYPE,
}
EXAMPLE_KEYS: Mapping[str, toml.ValueKind] = {
    **EXAMPLE_TEXT_TYPES,
    **dict.fromkeys(("settings", "recipe", "given"), toml.TABLE_TYPE),
    "expect": replace(toml.TABLES_TYPE, fits=lambda value: toml.is_list(value, dict, least=0)),
}
EXPECTATION_PLACE_KEYS: Mapping[str, toml.ValueKind] = {  # where something is expected
    "step": toml.TEXT_TYPE,
    "query": TOKEN_TYPE,
    "item": COUNT_TYPE,
    "layer": replace(toml.int_range(0, toml.MAX_INTEGER), phrase="a whole number from 0"),
    "with": replace(
        toml.TABLE_TYPE, phrase="a table, such as { scale = false }", hint="change its value"
    ),
}
EXPECTATION_VALUE_KEYS: Mapping[str, toml.ValueKind] = {  # what is expected
    "values": toml.ValueKind(
        lambda value: isinstance(value, list) or toml.NUMBER_TYPE.fits(value), "rows of numbers"
    ),
    "shape": SHAPE_TYPE,
    "parameters": COUNT_TYPE,
    "claim": toml.TEXT_TYPE,
    "arithmetic": toml.ValueKind(
        lambda value: toml.is_list(value, str), "a list of sums in quotes"
    ),
}
EXPECTATION_TOLERANCE_KEYS: Mapping[str, toml.ValueKind] = {"tolerance": toml.POSITIVE_TYPE}
PLAIN_EXPECTATION_KEYS = ("item", "layer", "values", "parameters", "claim")  # taken as they are
SETTINGS_NOT_IN_EXAMPLES = ("given", "item", "trust_remote_code")
EXAMPLE_SETTINGS = tuple(
    name for name in Settings.__dataclass_fields__ if name not in SETTINGS_NOT_IN_EXAMPLES
)


def read_example(path: Path) -> Example:
    """Return the example in a file; refuse unknown keys, misspelt matrices, and values that do not
    fit. Nothing is drawn or computed yet."""
    whole = toml.Table.read(path, "lesson", parse_float=Decimal)
    whole.check("key", EXAMPLE_KEYS)
    if "title" not in whole.values:
        raise whole.error("an example needs a title", 'begin with: title = "What it shows"')
    if "mistake" in whole.values:
        whole.refuse_unknown("mistake", whole.text("mistake"), MISTAKES, "mistake")
    recipe = read_recipe(whole.table("recipe"))
    expected = whole.tables("expect")
    changes = [table.values.get("with") for table in expected]
    used = draws_used_by([whole.values.get("given"), *changes])
    refuse_unused_draws(recipe.draws, used, whole.table("recipe"))
    _refuse_loaded(whole.table("settings"))
    return Example(
        name=path.stem,
        path=path,
        **{name: whole.text(name) for name in EXAMPLE_TEXT_TYPES if name in whole.values},
        settings=whole.table("settings").settings(EXAMPLE_SETTINGS, Settings()),
        recipe=recipe,
        given=_given_values(whole.table("given"), "matrix to give", {}, recipe),
        expectations=tuple(_read_expectation(each, recipe) for each in expected),
    )


def _refuse_loaded(table: toml.Table) -> None:
    """Refuse settings that name models or vectors which do not come with attnviz."""
    for name, shipped_names in SHIPPED_NAMES.items():
        value = untrusted_settings(table.values).get(name)
        if isinstance(value, NameInFile):
            raise table.error(
                f"'{name}' is '{value}', and a lesson can only name what comes with attnviz",
                f"known: {', '.join(shipped_names)}",
                name,
            )


def _given_values(
    table: toml.Table, kind: str, settings: Mapping[str, toml.ValueKind], recipe: Recipe
) -> Mapping[str, Any]:
    """Return given matrices and settings by their full names, after a check that all can be made.

    `kind` calls a name in errors ("matrix to give"), and `settings` are the names of settings that
    may be given, too.
    """
    with table.locating_errors():
        values = flatten_layers(table.values)
    for name, value in values.items():
        path = (name,) if name in table.values else name.split(".")
        if not can_be_given(name):
            known_names = [*settings, *GIVEN_NAMES]
            table.refuse_unknown(kind, name, known_names, *path, hint=alias_hint(name))
        if name in settings:
            table.refuse_misfit(name, settings[name])
        elif is_construction(name, value):
            with table.locating_errors(*path, about=f"'{name}': "):
                construction_shape(toml.plain_number(value), recipe.shapes_by_name)
    return {name: toml.plain_number(value) for name, value in values.items()}


def _read_expectation(table: toml.Table, recipe: Recipe) -> Expectation:
    """Return the expectation in a table.

    Refuses one that expects nothing or names neither a step nor a claim, and unknown steps, claims
    and keys.
    """
    known_keys = {**EXPECTATION_PLACE_KEYS, **EXPECTATION_VALUE_KEYS, **EXPECTATION_TOLERANCE_KEYS}
    table.check("key of an expectation", known_keys)
    values, step, claim = table.values, table.values.get("step"), table.values.get("claim")
    if step is None and claim is None:
        hint = f"step = one of {', '.join(EXPECTATION_TYPES)}"
        raise table.error("an expectation names no step", hint)
    if step is not None:
        table.refuse_unknown("step to expect something of", step, EXPECTATION_TYPES, "step")
    if claim is not None:
        table.refuse_unknown("claim", claim, CLAIMS, "claim")
    if not set(EXPECTATION_VALUE_KEYS) & values.keys():
        hint = f"give one of {', '.join(EXPECTATION_VALUE_KEYS)}"
        raise table.error(f"nothing is expected of '{step}'", hint, "step")
    if "tolerance" in values and "values" not in values:
        problem = "'tolerance' says how closely values must be met, and no values are given"
        raise table.error(problem, "give values, or leave it out", "tolerance")
    changes = table.table("with")
    _refuse_loaded(changes)
    settings = {name: toml.kinds_by_class(Settings)[name] for name in EXAMPLE_SETTINGS}
    return Expectation(
        step=step or "softmax",
        line=table.line("step"),
        query=str(values["query"]) if "query" in values else None,
        changes=_given_values(changes, "setting or matrix", settings, recipe),
        tolerance=toml.plain_number(values.get("tolerance")),
        shape=tuple(values["shape"]) if "shape" in values else None,
        arithmetic=tuple(values.get("arithmetic", ())),
        **{name: values[name] for name in PLAIN_EXPECTATION_KEYS if name in values},
    )
