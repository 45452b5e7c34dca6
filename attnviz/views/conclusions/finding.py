"""A finding: when something may be said, and what it says. A sentence is a table of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Finding(Generic[Facts]):
    """What may be said of facts, and only where they make it true."""

    name: str
    holds: Callable[[Facts], bool]
    says: Callable[[Facts], str]
    title: Callable[[Facts], str] | None = None  # the same in as few words as stand over a picture


def otherwise(_: object) -> bool:
    """What is left when nothing before it could be said."""
    return True


def said(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    """The first that may be said."""
    return found(table, facts).says(facts)


def titled(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    """The same as a title."""
    finding = found(table, facts)
    return (finding.title or finding.says)(facts).rstrip(".")


def found(table: Sequence[Finding[Facts]], facts: Facts) -> Finding[Facts]:
    return next(each for each in table if each.holds(facts))
