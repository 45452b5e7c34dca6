"""The sides of arrays as a file names them: `axes = ["item", "head", "token", "width"]`.

One list is for every array that it fits; `axes.queries = […]` is for one. Words that people have
for a side are understood: the tokens of keys are keys, and what is wide has a width.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.fitting import SHARED_OUT, in_file
from attnviz.traces.part import Part
from attnviz.traces.parts import GIVEN
from attnviz.traces.readings import HEAD, ITEM, SPREAD, Axes
from attnviz.wording.words import counted, listed

NAME = "axes"
MEANT = {  # what a word may stand for, the first of which is a side of the array
    "batch": (ITEM,),
    "query": ("token",),
    "token": ("token", "key"),
    "width": (
        "width",
        "head_value",
        "query_width",
        "key_width",
        "value_width",
        "joined_width",
        "dim",
        "context",
        "hidden",
    ),
    "dim": ("dim", "context", "width", "head_value"),
}
OWN = [side for part in GIVEN.values() for side in part.axes]
KNOWN = tuple(dict.fromkeys([ITEM, *OWN, *MEANT]))


def separated(contents: Mapping[str, Any], source: str) -> tuple[dict[str, Any], dict[str, Axes]]:
    """The contents without axes, and the axes by name; `""` is for all that they fit."""
    found = {name: each for name, each in contents.items() if name != NAME}
    axes = contents.get(NAME, {})
    named = dict(axes) if isinstance(axes, Mapping) else {"": axes}
    for name in [name for name in found if name.startswith(f"{NAME}.")]:
        named[name.removeprefix(f"{NAME}.")] = found.pop(name)
    return found, {name: _words(name, each, source) for name, each in named.items()}


def said(
    shapes: Mapping[str, Sequence[int]], axes: Mapping[str, Axes], source: str
) -> dict[str, Axes]:
    """The sides of each array that they are named of."""
    found: dict[str, Axes] = {}
    for_all = axes.get("", ())
    for name, shape in shapes.items() if for_all else ():
        sides = _sides(GIVEN[name], for_all)
        if len(sides) == len(shape) and _complete(GIVEN[name], sides):
            found[name] = sides
    if for_all and not found:
        problem = (
            f"'{NAME}'{in_file(source)} names {listed(for_all)}, but nothing given has these "
            "dimensions"
        )
        raise _refused(problem, f"name the dimensions of one matrix: {NAME}.queries = […]", source)
    own = {name: words for name, words in axes.items() if name}
    return found | {name: _of_one(name, words, shapes, source) for name, words in own.items()}


def _of_one(name: str, words: Axes, shapes: Mapping[str, Sequence[int]], source: str) -> Axes:
    """The sides that are named of one array, if they are its own."""
    called = f"'{NAME}.{name}'{in_file(source)}"
    if name not in shapes:
        error = unknown("matrix", name, shapes)
        raise _refused(
            f"{called} names the dimensions of something that is not given", error.hint, source
        )
    part, shape = GIVEN[name], shapes[name]
    sides = _sides(part, words)
    if not _complete(part, sides):
        hint = f"the dimensions of '{name}' are {listed(part.axes)}; a batch also has {ITEM}"
        raise _refused(f"{called} names {listed(words)}", hint, source)
    if len(sides) != len(shape):
        problem = (
            f"{called} names {counted(len(sides), 'dimension')}, but '{name}' has {len(shape)}"
        )
        raise _refused(problem, "name every dimension once", source)
    return sides


def _sides(part: Part, words: Axes) -> Axes:
    """The words as sides of this part; a word that is none of them stays as it is."""
    own = [*part.axes]
    if HEAD in words and HEAD not in own:
        own = [SHARED_OUT.get(side, side) for side in own]
    return tuple(
        word
        if word in own
        else next((side for side in MEANT.get(word, ()) if side in own or side == ITEM), word)
        for word in words
    )


def _complete(part: Part, sides: Axes) -> bool:
    """Whether sides are all that the part has, each once, and no other."""
    own = set(part.axes)
    if HEAD in sides and HEAD not in own and own & SHARED_OUT.keys():
        own = {SHARED_OUT.get(side, side) for side in own} | {HEAD}
    left_out = {ITEM, *SPREAD} if part.spreads else {ITEM, HEAD}
    may = own | ({ITEM, HEAD} if part.spreads else {ITEM})
    return len(set(sides)) == len(sides) and own - left_out <= set(sides) <= may


def _words(name: str, value: Any, source: str) -> Axes:
    """A list of words; one text of them, as in what safetensors says beside its numbers."""
    words = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(words, str):
        words = _split(words)
    if (
        not isinstance(words, (list, tuple))
        or not words
        or not all(isinstance(each, str) for each in words)
    ):
        called = f"{NAME}.{name}" if name else NAME
        raise _refused(
            f"'{called}'{in_file(source)} is not a list of words",
            'name every dimension: ["item", "head", "token", "width"]',
            source,
        )
    for each in words:
        if each not in KNOWN:
            error = unknown("side", each, KNOWN)
            raise _refused(f"{error} of a matrix{in_file(source)}", error.hint, source)
    return tuple(words)


def _split(text: str) -> Any:
    """`["item", "token"]`, or `item token`, or `item, token`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.replace(",", " ").split()


def _refused(problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=NAME, file=source)
