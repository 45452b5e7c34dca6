"""Choosing steps by name, by number or by range."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.wording.words import counted

if TYPE_CHECKING:  # whoever misspells a step need not wait for numpy
    from attnviz.views.grids.section import Section

ATTENTION_STEP_NAMES = (  # whatever the variant is
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
STEP_REQUIREMENTS = {  # what a step that is not there would need
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
LAYER_STEP_NAMES = (
    "inputs",
    "by-hand",
    "feed-forward-norm",
    "add-feed-forward",
    "add-cross-attention",
    "last-norm",
)
STEP_ALIASES = {
    "keys": "queries",
    "values": "queries",
    "weights": "softmax",
    "positions": "embeddings",
}

StepNumber = tuple[int, str]  # 4b is (4, "b")
BEFORE_ALL, AFTER_ALL = (0, ""), (999, "")


def refuse_unknown_step(selection: str | None) -> None:
    """Refuse a name that no step of any walk has, before there is a walk."""
    names = [*ATTENTION_STEP_NAMES, *STEP_REQUIREMENTS, *LAYER_STEP_NAMES, *STEP_ALIASES]
    names += [f"cross-{name}" for name in (*names, "norm")]
    for part in (selection or "").split(","):
        name = part.strip()
        is_known = name in ("", *names) or re.fullmatch(r"\d+[a-z]?", name)
        if not is_known and not _range_ends(dict.fromkeys(names, BEFORE_ALL), name):
            raise unknown_name_error("step", name, [*ATTENTION_STEP_NAMES, *STEP_REQUIREMENTS])


def refuse_missing_head(head: int | None, count: int) -> None:
    if head is not None and not 0 <= head < count:
        raise AttnvizError(
            f"there is no head {head}: there {'is' if count == 1 else 'are'} "
            f"{counted(count, 'head')}, numbered from 0",
            f"try --head {count - 1}",
            about="head",
        )


def select_steps(sections: Sequence[Section], selection: str | None) -> list[Section]:
    """The steps that are asked for, in their order: `scores`, `5`, `5-8`, `5,softmax`."""
    if selection is None:
        return list(sections)
    names = [name.strip() for name in selection.split(",") if name.strip()]
    numbers = {section.number for name in names for section in _matching_sections(sections, name)}
    if not numbers:
        raise AttnvizError(
            "--step is empty", f"use --step scores, or another of: {_steps_text(sections)}"
        )
    return [section for section in sections if section.number in numbers]


def _matching_sections(sections: Sequence[Section], part: str) -> list[Section]:
    name = STEP_ALIASES.get(part, part)
    exact = [section for section in sections if name in (section.number, section.name)]
    order_by_name = {section.name: _step_order(section.number) for section in sections}
    order_by_name |= {
        alias: order_by_name[name] for alias, name in STEP_ALIASES.items() if name in order_by_name
    }
    ends = [] if exact else _range_ends(order_by_name, part)
    if ends:
        inside = [
            section for section in sections if ends[0] <= _step_order(section.number) <= ends[1]
        ]
        if not inside:
            problem = f"there are no steps {part}"
            raise AttnvizError(problem, f"the steps are: {_steps_text(sections)}")
        return inside
    if not exact:
        raise _missing_step_error(sections, part)
    return exact


def _missing_step_error(sections: Sequence[Section], part: str) -> AttnvizError:
    if part in STEP_REQUIREMENTS:
        return AttnvizError(
            f"there is no step '{part}' here", f"it needs {STEP_REQUIREMENTS[part]}"
        )
    if re.fullmatch(r"\d+[a-z]?", part):
        return AttnvizError(f"there is no step {part}", f"the steps are: {_steps_text(sections)}")
    return unknown_name_error("step", part, [section.name for section in sections])


def _range_ends(order_by_name: Mapping[str, StepNumber], part: str) -> list[StepNumber]:
    """The first and the last of a range, of numbers or of names (`5-8`, `scores-softmax`, `5-`)."""
    for dash in re.finditer("[-–]", part):
        first_text, last_text = part[: dash.start()].strip(), part[dash.end() :].strip()
        ends = [
            _range_end(first_text, order_by_name, BEFORE_ALL),
            _range_end(last_text, order_by_name, AFTER_ALL),
        ]
        if (first_text or last_text) and ends[0] is not None and ends[1] is not None:
            # 4-5 holds 4b, and so does 1-4, but not 5-8.
            return [ends[0], ends[1] if ends[1][1] else (ends[1][0], "z")]
    return []


def _range_end(
    text: str, order_by_name: Mapping[str, StepNumber], open_end: StepNumber
) -> StepNumber | None:
    if not text:
        return open_end
    return _step_order(text) if re.fullmatch(r"\d+[a-z]?", text) else order_by_name.get(text)


def _step_order(number: str) -> StepNumber:
    """
    >>> sorted(["10", "4b", "4", "5"], key=_step_order)
    ['4', '4b', '5', '10']
    """
    return int(number.rstrip("abcdefghijklmnopqrstuvwxyz")), number.lstrip("0123456789")


def _steps_text(sections: Sequence[Section]) -> str:
    return ", ".join(f"{section.number} {section.name}" for section in sections)
