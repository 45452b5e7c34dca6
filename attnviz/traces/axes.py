"""The sides of arrays as a file names them: `axes = ["item", "head", "token", "width"]`.

One list is for every array that it fits; `axes.queries = […]` is for one. Words that people have
for a side are understood: the tokens of keys are keys, and what is wide has a width.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.fitting import SHARED_OUT, in_file
from attnviz.traces.readings import HEAD, ITEM, SPREAD, Axes
from attnviz.wording.words import counted, listed

if TYPE_CHECKING:
    from attnviz.traces.parts import Part

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


def separated(contents: Mapping[str, Any], source: str) -> tuple[dict[str, Any], dict[str, Axes]]:
    """The contents without axes, and the axes by name; `""` is for all that they fit."""
    found = {name: each for name, each in contents.items() if name != NAME}
    axes = contents.get(NAME, {})
    named = dict(axes) if isinstance(axes, Mapping) else {"": axes}
    for name in [name for name in found if name.startswith(f"{NAME}.")]:
        named[name.removeprefix(f"{NAME}.")] = found.pop(name)
    return found, {name: _words(name, each, source) for name, each in named.items()}


def said(
    parts: Mapping[str, Part], shapes: Mapping[str, Sequence[int]], axes: Mapping[str, Axes],
    source: str,
) -> dict[str, Axes]:  # fmt: skip
    """The sides of each array that they are named of."""
    found: dict[str, Axes] = {}
    for_all = axes.get("")
    for name, shape in shapes.items() if for_all else ():
        sides = _sides(parts[name], for_all or ())
        if len(sides) == len(shape) and _complete(parts[name], sides):
            found[name] = sides
    if for_all and not found:
        raise _refused(
            f"'{NAME}'{in_file(source)} names {listed(for_all)}, which are the sides of nothing "
            "that is given", "write axes.queries = […] for one matrix", source,
        )  # fmt: skip
    return found | {
        name: _of_one(name, each, parts, shapes, source) for name, each in axes.items() if name
    }


def _of_one(
    name: str, words: Axes, parts: Mapping[str, Part], shapes: Mapping[str, Sequence[int]],
    source: str,
) -> Axes:  # fmt: skip
    if name not in shapes:
        error = unknown("matrix", name, shapes, about=NAME)
        raise _refused(f"{error}, whose {NAME} are named{in_file(source)}", error.hint, source)
    part, shape = parts[name], shapes[name]
    sides = _sides(part, words)
    if not _complete(part, sides):
        raise _refused(
            f"'{NAME}.{name}'{in_file(source)} names {listed(words)}",
            f"'{name}' has the sides {', '.join(part.axes)}, and may have {ITEM}",
            source,
        )
    if len(sides) != len(shape):
        raise _refused(
            f"'{NAME}.{name}'{in_file(source)} names {counted(len(sides), 'side')}, and '{name}' "
            f"has {len(shape)}",
            "name every side once",
            source,
        )
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
            f"'{called}'{in_file(source)} is no list of words",
            'name every side: ["item", "head", "token", "width"]',
            source,
        )
    return tuple(words)


def _split(text: str) -> Any:
    """`["item", "token"]`, or `item token`, or `item, token`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.replace(",", " ").split()


def _refused(problem: str, hint: str, source: str) -> AttnvizError:
    return AttnvizError(problem, hint, about=NAME, file=source)
