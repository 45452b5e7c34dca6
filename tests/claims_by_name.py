"""ClaimsByName: checks of what findings claim, registered by the names of the findings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

Claim = TypeVar("Claim", bound=Callable[..., bool])


class ClaimsByName(Generic[Claim]):
    """A decorator for checks; a check is for sentences of some findings that match a pattern."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[tuple[re.Pattern[str], Claim]]] = {}

    def __call__(self, *findings: str, pattern: str) -> Callable[[Claim], Claim]:
        def register(claim: Claim) -> Claim:
            for name in findings:
                self.by_name.setdefault(name, []).append((re.compile(f"^{pattern}$"), claim))
            return claim

        return register

    def matches(self, name: str, sentence: str) -> list[tuple[Claim, re.Match[str]]]:
        """The checks of a finding for a sentence, each with what its pattern matched."""
        return [
            (claim, match)
            for pattern, claim in self.by_name[name]
            if (match := pattern.match(sentence))
        ]
