"""The walk of a Trace: each step with what it does and why, its shapes, tables and arithmetic.

Attention has ten steps, whose numbers are the same in every variant. What some variants add
stands between two of them (`4b rotary`); what a transformer block adds follows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.trace import Trace
from attnviz.views.grids.grids import Section, same_scale
from attnviz.views.steps import attention as ten
from attnviz.views.steps import block as around
from attnviz.views.steps.moments import moments_of
from attnviz.views.steps.scene import Scene, scene
from attnviz.views.steps.scene import Walk as Walk

NEEDS = {  # what a step that is not there would need
    "rotary": "--positions rotary",
    "alibi": "--positions alibi",
    "dropout": "--dropout 0.1",
    "norm": "--layers 1 --norm pre",
    "feed-forward": "--layers 1",
    "add-attention": "--layers 1",
    "memory": "--memory TEXT",
}
ALIASES = {"keys": "queries", "values": "queries", "weights": "softmax", "positions": "embeddings"}


def walk(trace: Trace, asked: Walk | None = None) -> list[Section]:
    """Every step of one layer, with its number."""
    here = scene(trace, asked or Walk())
    own = [section for make in ten.OWN for section in make(here)]
    block = list(around.after_attention(here)) if here.layer.block else []
    made = [*own, *_numbered(block, 11)]
    return [_finished(each, here) for each in made]


def _finished(section: Section, here: Scene) -> Section:
    """With one scale of colours, what is left out said, and what an animation shows of it."""
    return replace(
        section,
        grids=tuple(same_scale(section.grids)),
        remarks=(*section.remarks, *_left_out(section, here)),
        moments=moments_of(section, here),
    )


def _left_out(section: Section, here: Scene) -> tuple[str, ...]:
    """What is not written out, said where something is."""
    if len(section.sums) < 2 or section.name.startswith(("add-", "feed-", "norm", "queries")):
        return ()
    return here.left_out()


def chosen(sections: Sequence[Section], wanted: str | None) -> list[Section]:
    """The steps that are asked for: by name, by number, or from one to another (`5-8`)."""
    if wanted is None:
        return list(sections)
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    found = {section.number for name in names for section in _found(sections, name)}
    if not found:
        raise AttnvizError("--step names no step", f"try --step scores, or {_some(sections)}")
    return [section for section in sections if section.number in found]


def _found(sections: Sequence[Section], wanted: str) -> list[Section]:
    name = ALIASES.get(wanted, wanted)
    exact = [each for each in sections if name in (each.number, each.name)]
    ends = [] if exact else _ends(sections, wanted)
    if ends:
        within = [each for each in sections if ends[0] <= _order(each.number) <= ends[1]]
        if not within:
            raise AttnvizError(f"there are no steps {wanted}", f"there are {_some(sections)}")
        return within
    if not exact:
        raise _missing(sections, wanted)
    return exact


def _missing(sections: Sequence[Section], wanted: str) -> AttnvizError:
    if wanted in NEEDS:
        return AttnvizError(f"there is no step '{wanted}' here", f"it needs {NEEDS[wanted]}")
    if re.fullmatch(r"\d+[a-z]?", wanted):
        return AttnvizError(f"there is no step {wanted}", f"there are {_some(sections)}")
    return unknown("step", wanted, [each.name for each in sections])


def _ends(sections: Sequence[Section], wanted: str) -> list[tuple[int, str]]:
    """The first and the last of a range, of numbers or of names (`5-8`, `scores-softmax`, `5-`)."""
    places = {each.name: _order(each.number) for each in sections}
    places |= {alias: places[name] for alias, name in ALIASES.items() if name in places}
    for dash in re.finditer("[-–]", wanted):
        first, last = wanted[: dash.start()].strip(), wanted[dash.end() :].strip()
        ends = [_end(first, places, (0, "")), _end(last, places, (999, ""))]
        if (first or last) and ends[0] is not None and ends[1] is not None:
            # 4-5 holds 4b, and so does 1-4, but not 5-8.
            return [ends[0], ends[1] if ends[1][1] else (ends[1][0], "z")]
    return []


def _end(
    text: str, places: Mapping[str, tuple[int, str]], open_end: tuple[int, str]
) -> tuple[int, str] | None:
    if not text:
        return open_end
    return _order(text) if re.fullmatch(r"\d+[a-z]?", text) else places.get(text)


def _order(number: str) -> tuple[int, str]:
    """
    >>> sorted(["10", "4b", "4", "5"], key=_order)
    ['4', '4b', '5', '10']
    """
    return int(number.rstrip("abcdefghijklmnopqrstuvwxyz")), number.lstrip("0123456789")


def _some(sections: Sequence[Section]) -> str:
    return ", ".join(f"{each.number} {each.name}" for each in sections)


def _numbered(sections: Sequence[Section], first: int) -> list[Section]:
    return [
        replace(section, number=str(number)) for number, section in enumerate(sections, start=first)
    ]
