"""Listener: hears a program between two points, and keeps as much of it as its bounds say."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from attnviz.errors import AttnvizError, opt
from attnviz.wings.listen.attended import Attended
from attnviz.wings.listen.fused import attended_by_flex, exchanging_flex
from attnviz.wings.listen.hearing import Hearing, HearingSwitch
from attnviz.wings.listen.modules import SHARING_COUNT_NAMES, ModuleNames
from attnviz.wording.commands import python_value
from attnviz.wording.surfaces import Mark, Surface, current_surface

FULL_AFTER = 3  # calls in a row of an outermost module of which nothing could be kept


class Keyword(Mark):
    """An option in a message as Python writes it: those of listening are in no table."""

    def __format__(self, value: str) -> str:
        if not value or value.startswith("is "):
            return f"{self.name} {value}".rstrip()
        return f"{self.name}={python_value(self.name, value)}"


def mark_of(name: str) -> Mark:
    """Return what stands for an option of listening in messages."""
    return Keyword(name) if current_surface() is Surface.PYTHON else opt[name]


def refuse_below_1(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            problem = f"{mark_of(name):is {number}}, and must be at least 1"
            raise AttnvizError(problem, f"try {mark_of(name):1}", about=name)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much is kept of what is heard."""

    calls: int | None = None  # of each module
    every: int = 1  # of so many calls of the outermost module, the first
    module: str = "*"
    bytes: int = 2 * 10**9


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module that attends."""

    module: str
    number: int  # of the module's calls that were kept, from 1
    attended: Attended
    labels: Any  # what stands for the tokens, if anything does

    @property
    def items(self) -> int:
        return self.attended.shape[0]


class Listener:
    """Keeps the attention that is computed between `start` and `stop`."""

    def __init__(self, model: nn.Module | None, tokens: Any, bounds: Bounds) -> None:
        self.model, self.tokens, self.bounds = model, tokens, bounds
        self.calls: list[Call] = []
        self.bytes = 0
        self.dropped: Counter[str] = Counter()  # calls of each module that were not kept
        self.smallest_dropped = sys.maxsize
        self.counts: Counter[str] = Counter()
        self.unwanted: dict[str, None] = {}  # modules that attended, and do not fit the pattern
        self.labels: Any = None if callable(tokens) else tokens
        self.round: Counter[str] = Counter()  # calls "kept" and "dropped" since it began
        self.hears_outside = model is None
        self._latest: dict[str, int] = {}  # the place of each module's last call in `calls`
        self._rounds: Counter[Any] = Counter()  # of each outermost module, or function outside
        self._futile_rounds: Counter[int] = Counter()  # in a row, of which nothing was kept
        self._is_newest_kept = False  # whether what was heard last is the last of `calls`
        self._stack = ExitStack()
        self.names = ModuleNames(model, self.begin_round, self.end_round)
        self.hearing = Hearing(self.names.current, self.wants, self.keep, self.forget)
        self._switch = HearingSwitch(self.hearing)

    def start(self) -> None:
        self._stack.enter_context(self.names.following())
        self._stack.enter_context(exchanging_flex(self.hear_flex))
        self._stack.callback(self._switch.turn, on=False)
        self._switch.turn(on=self.hears_outside)

    @property
    def has_ended(self) -> bool:
        """Whether calls passed that were not even counted, as nothing more was kept."""
        is_full = any(count >= FULL_AFTER for count in self._futile_rounds.values())
        return is_full or (self.model is None and not self.hears_outside)

    def stop(self) -> None:
        self._stack.close()

    # -- when it hears: only while something may still be kept, as a mode takes time

    def is_chosen(self, caller: Any) -> bool:
        """Return whether a call of an outermost module, or of a function, is one of `every`."""
        self._rounds[caller] += 1
        return (self._rounds[caller] - 1) % self.bounds.every == 0

    def begin_round(self, root: nn.Module, inputs: Any) -> bool:
        """Return whether a call of an outermost module is heard."""
        hears = self.is_chosen(id(root)) and self._futile_rounds[id(root)] < FULL_AFTER
        self._switch.turn(on=hears)
        self.round = Counter()
        if callable(self.tokens) and hears:
            self.labels = self.tokens(*inputs)
        return hears

    def end_round(self, root: nn.Module) -> None:
        if not self._switch.is_on:
            return  # nor between calls of which nothing is kept, as backward passes
        if self.round["kept"]:
            self._futile_rounds[id(root)] = 0
        elif self.round["dropped"]:
            self._futile_rounds[id(root)] += 1
            self.hears_outside = False
        self.round = Counter()
        self._switch.turn(on=self.hears_outside)

    # -- what it keeps

    def wants(self, module: str) -> bool:
        """Return whether calls of a module are kept at all."""
        if not self.names.is_inside or not (self.names.running or self.is_chosen(module)):
            return False
        self.names.attending.add(self.names.root_of(module))
        names = module, self.names.inside(module)
        if not any(fnmatchcase(name, self.bounds.module) for name in names):
            self.unwanted[module] = None
            return False
        return True

    def keep(self, module: str, attended: Attended) -> None:
        """Keep a call, or let it continue the module's last one, as far as the bounds allow."""
        has_room = self.has_room(module, attended.without_repeats().bytes)
        if not has_room and not (module in self._latest and attended.shape[2] < attended.shape[3]):
            self.drop(module, attended)
            return
        attended = self.with_heads(attended.on_cpu())
        if self._continue_latest(module, attended):
            self.round["kept"] += 1
        elif has_room:
            self.round["kept"] += 1
            self.counts[module] += 1
            self.bytes += attended.bytes
            self._latest[module] = len(self.calls)
            attended = attended.with_plain_mask()
            self.calls.append(Call(module, self.counts[module], attended, self.labels))
            self._is_newest_kept = True
        else:
            self.drop(module, attended)

    def with_heads(self, attended: Attended) -> Attended:
        """Return the same with its heads as far as the module's word tells more, or doubts them."""
        heads = self.names.count()
        if attended.shape[2] == self.names.count(SHARING_COUNT_NAMES):
            attended = attended.unfolded(heads)
        items, found, *_ = attended.shape
        # A module of several heads may have split them before it made queries of their parts.
        is_unsure = attended.may_be_heads or found == 1 < min(items, heads)
        return replace(attended, may_be_heads=is_unsure)

    def has_room(self, module: str, size: int) -> bool:
        limit = self.bounds.calls
        is_below = limit is None or self.counts[module] < limit
        return is_below and self.bytes + size <= self.bounds.bytes

    def drop(self, module: str, attended: Attended) -> None:
        self.smallest_dropped = min(self.smallest_dropped, attended.bytes)
        self.dropped[module] += 1
        self._is_newest_kept = False
        self.round["dropped"] += 1

    def forget(self, module: str) -> None:
        """Forget a module's call, if it was just kept: it turned out not to attend."""
        if self._is_newest_kept and self.calls[-1].module == module:
            self._is_newest_kept = False
            self.bytes -= self.calls.pop().attended.bytes
            self.counts[module] -= 1
            self.round["kept"] -= 1
            self._latest.pop(module, None)

    def _continue_latest(self, module: str, attended: Attended) -> bool:
        """Join a call to the module's last one, if it decodes the next tokens of the same text."""
        place = self._latest.get(module)
        if place is None:
            return False
        call = self.calls[place]
        later = attended.unfolded(call.attended.shape[1]).with_plain_mask()
        whole = call.attended.continued_by(later)
        if whole is None or self.bytes + whole.bytes - call.attended.bytes > self.bounds.bytes:
            return False
        self.bytes += whole.bytes - call.attended.bytes
        self.calls[place] = replace(call, attended=whole, labels=self.labels)
        return True

    def hear_flex(self, arguments: dict[str, Any], result: Any) -> None:
        if self._switch.is_on:
            self.hearing.hear_whole("flex_attention", arguments, result, attended_by_flex)
