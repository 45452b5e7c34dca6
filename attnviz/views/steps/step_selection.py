"""Chooses steps of a walk by name, number or range (--step)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, opt, unknown_name_error
from attnviz.wording.words import counted

if TYPE_CHECKING:  # a misspelled step is reported without importing numpy
    from attnviz.views.grids.section import Section

STEPS: Mapping[str, tuple[str, str, str]] = {  # by name, which stands second: number, name, title
    name: (number, name, title)
    for number, name, title in (
        ("1", "tokens", "tokens"),
        ("2", "embeddings", "embeddings"),
        ("2", "inputs", "inputs"),
        ("", "memory", "memory"),  # numbered where it stands, like all without a number
        ("3", "projections", "projections"),
        ("4", "queries", "queries, keys, values"),
        ("4b", "rotary", "rotary positions"),
        ("5", "scores", "scores"),
        ("6", "scaling", "scaling"),
        ("6a", "soft-cap", "soft cap"),
        ("6b", "alibi", "ALiBi"),
        ("6b", "position-bias", "position bias"),
        ("6c", "additive-mask", "additive mask"),
        ("7", "mask", "mask"),
        ("8", "softmax", "softmax"),
        ("8a", "why", "why these weights"),
        ("8b", "dropout", "dropout"),
        ("8b", "by-hand", "weights by hand"),
        ("8c", "angle", "lengths and angle"),
        ("9", "weighted", "weighted values"),
        ("10", "context", "context vectors"),
        ("", "feed-forward", "feed-forward"),
        ("", "logits", "scores of the answers"),
        ("", "prediction", "prediction"),
    )
}
ATTENTION_STEP_NAMES = tuple(  # of every variant
    name for name, (number, *_) in STEPS.items() if number.isdecimal() and name != "inputs"
)
STEP_REQUIREMENTS = {  # what the other steps need
    "rotary": f"{opt.positions:rotary}, and queries and keys",
    "soft-cap": f"{opt.soft_cap:50}",
    "alibi": f"{opt.positions:alibi}",
    "position-bias": f"a trained model that adds a bias to scores, as T5 does: {opt.model:FOLDER}",
    "additive-mask": f"a 'mask' in the {opt.given} file",
    "why": f"a model whose heads have named dimensions, such as {opt.model:toy}",
    "angle": f"{opt.query:TOKEN} {opt.key:TOKEN}",
    "dropout": f"{opt.dropout:0.1}, and weights computed by a softmax",
    "norm": f"{opt.layers:1} {opt.norm:pre}",
    "feed-forward": f"{opt.layers:1} without {opt.attention_only}",
    "add-attention": f"{opt.layers:1}",
    "memory": f"{opt.memory:TEXT}",
    "logits": f"a model that answers: {opt.model:agreement}",
    "prediction": f"a model that answers: {opt.model:agreement}",
}
STEP_CHOICES = (*ATTENTION_STEP_NAMES, *STEP_REQUIREMENTS)  # which help and completion offer
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
MIN_STEP_NUMBER, MAX_STEP_NUMBER = (0, ""), (999, "")


def refuse_unknown_step(selection: str | None) -> None:
    """Refuse a selection with a name that no walk has, before a walk is computed.

    Numbers, ranges, aliases and empty parts pass; whether a walk has the step is not checked.
    """
    names = [*STEP_CHOICES, *LAYER_STEP_NAMES, *STEP_ALIASES]
    names += [f"cross-{name}" for name in (*names, "norm")]
    for part in (selection or "").split(","):
        name = part.strip()
        is_known = name in ("", *names) or re.fullmatch(r"\d+[a-z]?", name)
        if not is_known and not _range_ends(dict.fromkeys(names, MIN_STEP_NUMBER), name):
            raise unknown_name_error("step", name, STEP_CHOICES)


def refuse_missing_head(head: int | None, count: int) -> None:
    """Refuse a head that is below 0 or not below `count`, the number of heads; None passes."""
    if head is not None and not 0 <= head < count:
        raise AttnvizError(
            f"there is no head {head}: there {'is' if count == 1 else 'are'} "
            f"{counted(count, 'head')}, numbered from 0",
            f"try {opt.head:{count - 1}}",
            about="head",
        )


def select_steps(sections: Sequence[Section], selection: str | None) -> list[Section]:
    """Return the selected steps in the order of the walk: `scores`, `5`, `5-8`, `5,softmax`.

    Without a selection, all. Refuses an empty selection, and steps that are unknown or not in this
    walk.
    """
    if selection is None:
        return list(sections)
    names = [name.strip() for name in selection.split(",") if name.strip()]
    numbers = {section.number for name in names for section in _matching_sections(sections, name)}
    if not numbers:
        hint = f"use {opt.step:scores}, or another of: {_steps_text(sections)}"
        raise AttnvizError(f"{opt.step:is empty}", hint)
    return [section for section in sections if section.number in numbers]


def _matching_sections(sections: Sequence[Section], part: str) -> list[Section]:
    """Return the steps that one part of a selection matches: a name, alias, number or range.

    Refuses a part that matches none, with a hint on what a known step would need.
    """
    name = STEP_ALIASES.get(part, part)
    exact = [section for section in sections if name in (section.number, section.name)]
    order_by_name = {section.name: _step_order(section.number) for section in sections}
    order_by_name |= {
        alias: order_by_name[name] for alias, name in STEP_ALIASES.items() if name in order_by_name
    }
    if exact:
        return exact
    steps_hint = f"the steps are: {_steps_text(sections)}"
    ends = _range_ends(order_by_name, part)
    if ends:
        inside = [each for each in sections if ends[0] <= _step_order(each.number) <= ends[1]]
        if not inside:
            raise AttnvizError(f"there are no steps {part}", steps_hint)
        return inside
    if part in STEP_REQUIREMENTS:
        hint = f"it needs {STEP_REQUIREMENTS[part]}"
        raise AttnvizError(f"there is no step '{part}' here", hint)
    if re.fullmatch(r"\d+[a-z]?", part):
        raise AttnvizError(f"there is no step {part}", steps_hint)
    raise unknown_name_error("step", part, [section.name for section in sections])


def _range_ends(order_by_name: Mapping[str, StepNumber], part: str) -> list[StepNumber]:
    """Return the first and last step of `5-8`, `scores-softmax` or `5-`; empty if it is no range.

    `order_by_name` gives the place in the order for each name that may begin or end a range.
    """
    for dash in re.finditer("[-–]", part):
        first_text, last_text = part[: dash.start()].strip(), part[dash.end() :].strip()
        first = _range_end(first_text, order_by_name, MIN_STEP_NUMBER)
        last = _range_end(last_text, order_by_name, MAX_STEP_NUMBER)
        if (first_text or last_text) and first is not None and last is not None:
            return [first, last if last[1] else (last[0], "z")]  # 1-4 and 4-5 include step 4b
    return []


def _range_end(
    text: str, order_by_name: Mapping[str, StepNumber], open_end: StepNumber
) -> StepNumber | None:
    """Return where one end of a range is in the order; for an empty text `open_end`.

    None if the text is neither a number nor a known name.
    """
    if not text:
        return open_end
    return _step_order(text) if re.fullmatch(r"\d+[a-z]?", text) else order_by_name.get(text)


def _step_order(number: str) -> StepNumber:
    """Return a key that sorts step numbers: 4b comes after 4 and before 5.

    >>> sorted(["10", "4b", "4", "5"], key=_step_order)
    ['4', '4b', '5', '10']
    """
    return int(number.rstrip("abcdefghijklmnopqrstuvwxyz")), number.lstrip("0123456789")


def _steps_text(sections: Sequence[Section]) -> str:
    """Return the steps with number and name, for a hint: `5 scores, 6 scaling`."""
    return ", ".join(f"{section.number} {section.name}" for section in sections)
