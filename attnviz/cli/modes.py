"""Mode: one of the things that a command can do, with the options that only this needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from attnviz.options.option import own_options
from attnviz.wording.rules import Rule


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One of the things that a command can do: when, with which options, and by which function."""

    about: str  # for help: "transformer blocks"
    example: str  # what chooses it: "--layers 2"
    is_chosen: Callable[[Any], object]
    groups: Sequence[type] = ()  # options that help lists in this mode alone
    others: Collection[str] = ()  # names of further ones
    unlisted: Sequence[type] = ()  # options that a model decides in this mode
    rules: Sequence[Rule] = ()  # what this mode refuses
    deliver: Callable[..., None] | None = None  # of modes that exclude each other

    @property
    def own(self) -> set[str]:
        """The names of the options that help lists in this mode alone."""
        return {*self.others, *names_of(*self.groups)}


def names_of(*groups: type) -> list[str]:
    """Return the names of the options of these groups."""
    return [each.name for group in groups for each in own_options(group)]


def unlisted_options(options: Any, modes: Sequence[Mode]) -> set[str]:
    """Return the names of options that help leaves out: those of modes that were not chosen, and
    those that the chosen ones refuse."""
    chosen_modes = [mode for mode in modes if mode.is_chosen(options)]
    if all(mode.deliver for mode in modes):  # they exclude each other
        chosen_modes = chosen_modes[:1]
    own_names = {name for mode in chosen_modes for name in mode.own}
    other_names = {name for mode in modes if mode not in chosen_modes for name in mode.own}
    for mode in chosen_modes:
        other_names |= {*names_of(*mode.unlisted)}
        refused_names = (rule.about for rule in mode.rules if _is_refused(rule, options))
        other_names |= {*refused_names}
    return other_names - own_names


def _is_refused(rule: Rule, options: Any) -> bool:
    """Return whether a rule refuses the option that it is about, if this alone is typed, too."""
    return bool(rule.when(SimpleNamespace(**{**vars(options), "typed": {rule.about}})))
