"""The walk of a Trace: each step with what it does and why, its shapes, tables and arithmetic.

Attention has ten steps, whose numbers are the same in every variant. What some variants add
stands between two of them (`4b rotary`); what a transformer block adds follows them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from attnviz.errors import AttnvizError, unknown
from attnviz.grids import Section, same_scale
from attnviz.steps import around, ten
from attnviz.steps.moments import moments_of
from attnviz.steps.scenes import Scene, scene
from attnviz.steps.scenes import Walk as Walk
from attnviz.traces import Trace

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
    span = re.fullmatch(r"(\d+[a-z]?)\s*[-–]\s*(\d+[a-z]?)", wanted)
    if span:
        first, last = _order(span[1]), (_order(span[2])[0], _order(span[2])[1] or "z")
        within = [each for each in sections if first <= _order(each.number) <= last]
        if not within:
            raise AttnvizError(f"there are no steps {wanted}", f"there are {_some(sections)}")
        return within
    name = ALIASES.get(wanted, wanted)
    exact = [each for each in sections if name in (each.number, each.name)]
    if not exact and re.fullmatch(r"\d+[a-z]?", wanted):
        raise AttnvizError(f"there is no step {wanted}", f"there are {_some(sections)}")
    if not exact:
        raise unknown("step", wanted, [each.name for each in sections])
    return exact


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
