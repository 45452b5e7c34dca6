"""Rules for choices: what is refused, in which words, as rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from attnviz.errors import AttnvizError, cmd, opt


@dataclass(frozen=True)
class Rule:
    """What is refused: about which option, when, what the problem is, and what to try.

    `{it.heads}` in words is the heads of what is checked, `{option}` the option that it is about,
    `{opt.heads}` another.
    """

    about: str
    when: Callable[[Any], object]
    problem: str
    hint: str


def check_rules(it: Any, rules: Iterable[Rule]) -> None:
    """Refuse what a rule refuses: the first of them in their order."""
    for rule in rules:
        if rule.when(it):
            words = {"it": it, "opt": opt, "cmd": cmd, "option": opt[rule.about]}
            problem, hint = (text.format(**words) for text in (rule.problem, rule.hint))
            raise AttnvizError(problem, hint, about=rule.about)


def must_be(
    name: str, bounds: str, holds: Callable[[float], bool], example: str, style: str = "g"
) -> Rule:
    """Return the rule that a number, if it is given, is within bounds."""

    def is_outside(it: Any) -> bool:
        number = getattr(it, name)
        return number is not None and not holds(number)

    problem = f"{{option:is {{it.{name}:{style}}}}}, and must be {bounds}"
    return Rule(name, is_outside, problem, f"try {example}")


def range_rules(name: str, lowest: int, highest: int | None) -> list[Rule]:
    """Return the rules that a whole number is from `lowest` to `highest` (None: no limit)."""
    bounds = f"at least {lowest}" if highest is None else f"from {lowest} to {highest:,}"
    rules = [must_be(name, bounds, lambda it: it >= lowest, f"{{option:{lowest}}}", style="")]
    if highest is not None:
        rules.append(must_be(name, bounds, lambda it: it <= highest, f"{{option:{highest}}}", ""))
    return rules


def typed_rules(names: Iterable[str], problem: str, hint: str) -> list[Rule]:
    """Return the rules that refuse each of these options if it was typed, even with its default."""

    def is_typed(name: str, options: Any) -> bool:
        return name in options.typed

    return [Rule(name, partial(is_typed, name), problem, hint) for name in names]


def rules_for(
    names: Iterable[str], when: Callable[[Any], object], problem: str, hint: str
) -> list[Rule]:
    """Return the rules that refuse each of these options, if it is not as by default, when
    something holds.
    """

    def is_refused(name: str, it: Any) -> bool:
        return getattr(it, name) != getattr(type(it), name) and bool(when(it))

    return [Rule(name, partial(is_refused, name), problem, hint) for name in names]
