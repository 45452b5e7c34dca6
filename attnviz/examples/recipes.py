"""The recipe of an example, read and checked: what is drawn, in which order and shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

from attnviz.errors import unknown
from attnviz.examples import kinds
from attnviz.examples.draws import KINDS, Draw, Recipe
from attnviz.examples.file import ExampleFile
from attnviz.examples.kinds import Kind
from attnviz.traces.by_layer import can_be_given
from attnviz.traces.parts import GIVEN_NAMES
from attnviz.wording.words import counted

RECIPE = ("seed", "skip", "draws")


def recipe_of(table: Mapping[str, Any], file: ExampleFile) -> Recipe:
    """What stands under [recipe]."""
    file.refuse_unknown("key of a recipe", table, RECIPE, "[recipe]")
    file.refuse_other_kinds(table, kinds.RECIPE, "[recipe]")
    draws = tuple(_draw(each, file) for each in table.get("draws", []))
    return Recipe(seed=table.get("seed", 0), skip=table.get("skip", 0), draws=draws)


def refuse_misnamed(draws: Sequence[Draw], used: set[str], file: ExampleFile) -> None:
    """A draw stands alone under its name, and is not nearly called what could be given."""
    counts = Counter(draw.name for draw in draws)
    for name, count in counts.items():
        line = file.line_of_text(name)
        if count > 1:
            raise file.error(f"two draws are called '{name}'", "give each a name of its own", line)
        if name in used:
            continue
        nearest = get_close_matches(name, GIVEN_NAMES, n=1, cutoff=0.8)
        if not can_be_given(name) and nearest:
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
    file.refuse_other_kinds({"name": table["name"]}, kinds.DRAW)
    kind = _kind(table, name, file)
    line = file.line_of_text(name)
    shape = _shape(table[kind], name, kind, line, file)
    options = {option: table[option] for option in KINDS[kind].options if option in table}
    _refuse_other_kinds(table, {**kinds.DRAW, **KINDS[kind].options}, line, file)
    _refuse_odd_bounds(kind, options, line, file)
    if table.get("transposed") and len(shape) < 2:
        hint = "give it two dimensions, such as [2, 3]"
        raise file.error(
            f"the draw '{name}' has one dimension, so it cannot be transposed", hint, line
        )
    return Draw(
        name=name,
        kind=kind,
        shape=shape,
        options={option: kinds.plain(each) for option, each in options.items()},
        **{key: table[key] for key in ("seed", "skip", "transposed") if key in table},
    )


def _kind(table: Mapping[str, Any], name: str, file: ExampleFile) -> str:
    """The one kind of draw that is named, with none but its own keys beside it."""
    found, line = [kind for kind in KINDS if kind in table], file.line_of_text(name)
    if len(found) != 1:
        known = [
            *KINDS,
            *kinds.DRAW,
            *(option for each in KINDS.values() for option in each.options),
        ]
        odd = next((key for key in table if key not in known), None)
        if odd:
            error = unknown("kind of draw", odd, KINDS)
            raise file.error(str(error), error.hint, line)
        hint = f"give one of {', '.join(KINDS)} with its shape"
        raise file.error(f"the draw '{name}' has no kind", hint, line)
    allowed = ("name", found[0], *KINDS[found[0]].options, *kinds.DRAW)
    for key in table:
        if key not in allowed:
            error = unknown(f"key of a draw with {found[0]}", key, dict.fromkeys(allowed))
            raise file.error(str(error), error.hint, line)
    return found[0]


def _shape(
    shape: Any, name: str, kind: str, line: int | None, file: ExampleFile
) -> tuple[int, ...]:
    """The sides of a draw, as many as its kind takes."""
    sides, least = KINDS[kind].sides, KINDS[kind].least
    if not kinds.SHAPE.fits(shape):
        raise file.error(f"the draw '{name}' has no shape", f"{kind} = [4, 3]", line)
    if sides not in (None, len(shape)) or len(shape) < least:
        problem = (
            f"the draw '{name}' has {counted(len(shape), 'dimension')}, but {kind} fills a matrix"
        )
        raise file.error(problem, f"{kind} = [4, 3]", line)
    if prod(shape) > kinds.MOST_NUMBERS:
        hint = f"at most {kinds.MOST_NUMBERS:,} can be drawn"
        raise file.error(f"a draw of {prod(shape):,} numbers is too large", hint, line)
    return tuple(shape)


def _refuse_other_kinds(
    table: Mapping[str, Any], known: Mapping[str, Kind], line: int | None, file: ExampleFile
) -> None:
    for key, kind in known.items():
        if key in table and not kind.fits(table[key]):
            raise file.error(f"'{key}' is not {kind.wanted}", "change its value", line)


def _refuse_odd_bounds(
    kind: str, options: Mapping[str, Any], line: int | None, file: ExampleFile
) -> None:
    """What is drawn between two numbers needs the first to be the smaller one."""
    if kind not in BOUNDS:
        return
    usual = BOUNDS[kind]
    low, high = (options.get(name, number) for name, number in usual.items())
    if low >= high:
        hint = ", ".join(f"{name} = {number}" for name, number in usual.items())
        problem = f"{kind} draws from {' to '.join(usual)}, but here from {low} to {high}"
        raise file.error(problem, f"give {hint}", line)


BOUNDS: Mapping[str, Mapping[str, int]] = {
    "randint": {"low": 0, "high": 10},
    "uniform": {"a": 0, "b": 1},
}
