"""The recipe of an example, read and checked: what is drawn, in which order and shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

from attnviz.errors import unknown
from attnviz.examples import kinds
from attnviz.examples.draws import KINDS, OPTIONS, Draw, Recipe
from attnviz.examples.file import ExampleFile
from attnviz.traces.by_layer import can_be_given
from attnviz.traces.parts import GIVEN_NAMES

RECIPE = ("seed", "skip", "draws")


def recipe_of(table: Mapping[str, Any], file: ExampleFile) -> Recipe:
    """What stands under [recipe]."""
    file.refuse_unknown("key of a recipe", table, RECIPE, "[recipe]")
    file.refuse_other_kinds(table, kinds.RECIPE, "[recipe]")
    draws = tuple(_draw(each, file) for each in table.get("draws", []))
    return Recipe(seed=table.get("seed", 0), skip=table.get("skip", 0), draws=draws)


def refuse_misnamed(draws: Sequence[Draw], used: set[str], file: ExampleFile) -> None:
    """A draw stands alone under its name, and is not nearly called what could be given."""
    names = [draw.name for draw in draws]
    for name in names:
        line = file.line_of_text(name)
        if names.count(name) > 1:
            raise file.error(f"two draws are called '{name}'", "give each a name of its own", line)
        nearest = get_close_matches(name, GIVEN_NAMES, n=1, cutoff=0.8)
        if not can_be_given(name) and name not in used and nearest:
            hint = f"did you mean '{nearest[0]}'?"
            raise file.error(f"the draw '{name}' is not used", hint, line)


def _draw(table: Any, file: ExampleFile) -> Draw:
    """`{ name = "w_query", linear = [3, 2], bias = false }`"""
    if not isinstance(table, dict) or "name" not in table:
        raise file.error(
            "a draw has no name",
            'write { name = "embeddings", rand = [4, 3] }',
            file.line("draws"),
        )
    name = str(table["name"])
    kind = _kind(table, name, file)
    line = file.line_of_text(name)
    shape = table[kind]
    whole = isinstance(shape, list) and shape and all(isinstance(n, int) and n > 0 for n in shape)
    if not whole or (kind == "linear" and len(shape) != 2):
        raise file.error(f"the draw '{name}' has no shape", f"{kind} = [4, 3]", line)
    options = {option: table[option] for option in OPTIONS.get(kind, ()) if option in table}
    _refuse_too_many(shape, line, file)
    _refuse_odd_options(kind, options, line, file)
    return Draw(name=name, kind=kind, shape=tuple(shape), options=options)


def _kind(table: Mapping[str, Any], name: str, file: ExampleFile) -> str:
    """The one kind of draw that is named, with none but its own keys beside it."""
    found, line = [kind for kind in KINDS if kind in table], file.line_of_text(name)
    if len(found) != 1:
        known = [*KINDS, "name", *(option for each in OPTIONS.values() for option in each)]
        odd = next((key for key in table if key not in known), None)
        if odd:
            error = unknown("kind of draw", odd, KINDS)
            raise file.error(str(error), error.hint, line)
        hint = f"give one of {', '.join(KINDS)} with its shape"
        raise file.error(f"the draw '{name}' is of no kind", hint, line)
    allowed = ("name", found[0], *OPTIONS.get(found[0], ()))
    for key in table:
        if key not in allowed:
            error = unknown(f"key of a draw with {found[0]}", key, allowed)
            raise file.error(str(error), error.hint, line)
    return found[0]


def _refuse_too_many(shape: list[int], line: int | None, file: ExampleFile) -> None:
    if prod(shape) > kinds.MOST_NUMBERS:
        hint = f"at most {kinds.MOST_NUMBERS:,} can be drawn"
        raise file.error(f"a draw of {prod(shape):,} numbers is too large", hint, line)


def _refuse_odd_options(
    kind: str, options: Mapping[str, Any], line: int | None, file: ExampleFile
) -> None:
    if kind == "randint":
        low, high = options.get("low", 0), options.get("high", 10)
        if not (kinds.is_whole(low) and kinds.is_whole(high) and low < high):
            problem = f"randint draws from low to high, here {low} to {high}"
            raise file.error(problem, "give low = 0, high = 10", line)
    if kind == "linear" and not isinstance(options.get("bias", True), bool):
        raise file.error("'bias' is not true or false", "write it so", line)
