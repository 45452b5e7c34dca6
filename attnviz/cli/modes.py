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


def chosen_mode(options: Any, modes: Sequence[Mode]) -> Mode:
    """Return the first mode that the options choose."""
    return next(mode for mode in modes if mode.is_chosen(options))


def unlisted_options(options: Any, modes: Sequence[Mode]) -> set[str]:
    """Return the names of options that help leaves out: those of modes that were not chosen, and
    those that the chosen ones refuse."""
    chosen = [mode for mode in modes if mode.is_chosen(options)]
    if all(mode.deliver for mode in modes):
        chosen = chosen[:1]
    others = set[str]().union(*(mode.own for mode in modes if mode not in chosen))
    taken = set[str]().union(*(mode.own for mode in chosen))
    rules = [rule for mode in chosen for rule in mode.rules]
    refused = {rule.about for rule in rules if rule.when(_with_typed(options, rule.about))}
    decided = {name for mode in chosen for name in names_of(*mode.unlisted)}
    return (others | refused | decided) - taken


def _with_typed(options: Any, name: str) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(options), "typed": {name}})
