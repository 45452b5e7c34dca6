"""Choosing steps by name, by number or by range."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, unknown
from attnviz.wording.words import counted

if TYPE_CHECKING:  # whoever misspells a step need not wait for numpy
    from attnviz.views.grids.section import Section

OF_ATTENTION = (  # whatever the variant is
    "tokens",
    "embeddings",
    "projections",
    "queries",
    "scores",
    "scaling",
    "mask",
    "softmax",
    "weighted",
    "context",
)
NEEDS = {  # what a step that is not there would need
    "rotary": "--positions rotary, and queries and keys",
    "soft-cap": "--soft-cap 50",
    "alibi": "--positions alibi",
    "position-bias": "a trained model that adds a bias to scores, as T5 does: --model FOLDER",
    "additive-mask": "a 'mask' in the --given file",
    "why": "a model whose heads have named dimensions, such as --model toy",
    "dropout": "--dropout 0.1, and weights computed by a softmax",
    "norm": "--layers 1 --norm pre",
    "feed-forward": "--layers 1 without --attention-only",
    "add-attention": "--layers 1",
    "memory": "--memory TEXT",
    "logits": "a model that answers: --model agreement",
    "prediction": "a model that answers: --model agreement",
}
OF_LAYERS = (
    "inputs",
    "by-hand",
    "feed-forward-norm",
    "add-feed-forward",
    "add-cross-attention",
    "last-norm",
)
ALIASES = {"keys": "queries", "values": "queries", "weights": "softmax", "positions": "embeddings"}

Number = tuple[int, str]  # 4b is (4, "b")
BEFORE_ALL, AFTER_ALL = (0, ""), (999, "")


def refuse_unknown_step(wanted: str | None) -> None:
    """Refuse a name that no step of any walk has, before there is a walk."""
    names = [*OF_ATTENTION, *NEEDS, *OF_LAYERS, *ALIASES]
    names += [f"cross-{name}" for name in (*names, "norm")]
    for each in (wanted or "").split(","):
        name = each.strip()
        known = name in ("", *names) or re.fullmatch(r"\d+[a-z]?", name)
        if not known and not _ends(dict.fromkeys(names, BEFORE_ALL), name):
            raise unknown("step", name, [*OF_ATTENTION, *NEEDS])


def refuse_missing_head(head: int | None, count: int) -> None:
    if head is not None and not 0 <= head < count:
        raise AttnvizError(
            f"there is no head {head}: there {'is' if count == 1 else 'are'} "
            f"{counted(count, 'head')}, numbered from 0",
            f"try --head {count - 1}",
            about="head",
        )


def chosen(sections: Sequence[Section], wanted: str | None) -> list[Section]:
    """The steps that are asked for, in their order: `scores`, `5`, `5-8`, `5,softmax`."""
    if wanted is None:
        return list(sections)
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    found = {section.number for name in names for section in _found(sections, name)}
    if not found:
        raise AttnvizError(
            "--step is empty", f"use --step scores, or another of: {_listed(sections)}"
        )
    return [section for section in sections if section.number in found]


def _found(sections: Sequence[Section], wanted: str) -> list[Section]:
    name = ALIASES.get(wanted, wanted)
    exact = [each for each in sections if name in (each.number, each.name)]
    places = {each.name: _order(each.number) for each in sections}
    places |= {alias: places[name] for alias, name in ALIASES.items() if name in places}
    ends = [] if exact else _ends(places, wanted)
    if ends:
        within = [each for each in sections if ends[0] <= _order(each.number) <= ends[1]]
        if not within:
            problem = f"there are no steps {wanted}"
            raise AttnvizError(problem, f"the steps are: {_listed(sections)}")
        return within
    if not exact:
        raise _missing(sections, wanted)
    return exact


def _missing(sections: Sequence[Section], wanted: str) -> AttnvizError:
    if wanted in NEEDS:
        return AttnvizError(f"there is no step '{wanted}' here", f"it needs {NEEDS[wanted]}")
    if re.fullmatch(r"\d+[a-z]?", wanted):
        return AttnvizError(f"there is no step {wanted}", f"the steps are: {_listed(sections)}")
    return unknown("step", wanted, [each.name for each in sections])


def _ends(places: Mapping[str, Number], wanted: str) -> list[Number]:
    """The first and the last of a range, of numbers or of names (`5-8`, `scores-softmax`, `5-`)."""
    for dash in re.finditer("[-–]", wanted):
        first, last = wanted[: dash.start()].strip(), wanted[dash.end() :].strip()
        ends = [_end(first, places, BEFORE_ALL), _end(last, places, AFTER_ALL)]
        if (first or last) and ends[0] is not None and ends[1] is not None:
            # 4-5 holds 4b, and so does 1-4, but not 5-8.
            return [ends[0], ends[1] if ends[1][1] else (ends[1][0], "z")]
    return []


def _end(text: str, places: Mapping[str, Number], open_end: Number) -> Number | None:
    if not text:
        return open_end
    return _order(text) if re.fullmatch(r"\d+[a-z]?", text) else places.get(text)


def _order(number: str) -> Number:
    """
    >>> sorted(["10", "4b", "4", "5"], key=_order)
    ['4', '4b', '5', '10']
    """
    return int(number.rstrip("abcdefghijklmnopqrstuvwxyz")), number.lstrip("0123456789")


def _listed(sections: Sequence[Section]) -> str:
    return ", ".join(f"{each.number} {each.name}" for each in sections)
