"""Which tokens of two sentences stand for each other.

Tokens that are the same are paired as difflib pairs them, by their ids; and where as many others
stand between two such stretches in both sentences, these are paired place by place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import isolated


@dataclass(frozen=True)
class Pairs:
    """Places of one sentence, and those that stand for them in the other; both in order."""

    tokens: Tokens
    others: Tokens
    first: tuple[int, ...]
    second: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def replaced(self) -> tuple[int, ...]:
        """Which of the pairs are of tokens that are not the same."""
        pairs = zip(self.first, self.second, strict=True)
        return tuple(
            number
            for number, (one, other) in enumerate(pairs)
            if self.tokens.ids[one] != self.others.ids[other]
        )

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """Which of the pairs are of one token that is in both sentences, and is not special."""
        special = self.tokens.special
        return tuple(
            number
            for number, place in enumerate(self.first)
            if number not in self.replaced and place not in special
        )

    def labels(self, pair: int) -> tuple[str, str]:
        """What stands there in each sentence."""
        one, other = self.first[pair], self.second[pair]
        return isolated(self.tokens.labels[one]), isolated(self.others.labels[other])

    def name(self, pair: int) -> str:
        """The label of both: `tired/wide`, where they are not the same token."""
        one, other = self.labels(pair)
        return f"{one}/{other}" if pair in self.replaced else one


def paired(tokens: Tokens, others: Tokens) -> Pairs:
    """The tokens of two sentences that stand for each other."""
    both = list(_places(tokens, others))
    if not both:
        raise AttnvizError(
            "the two sentences have no token in common, so nothing can be compared",
            "give sentences that differ in a word or two",
        )
    first, second = zip(*both, strict=True)
    return Pairs(tokens, others, tuple(first), tuple(second))


def _places(tokens: Tokens, others: Tokens) -> Iterator[tuple[int, int]]:
    matched = SequenceMatcher(None, tokens.ids, others.ids, autojunk=False)
    for kind, one, one_end, other, other_end in matched.get_opcodes():
        if kind == "equal" or (kind == "replace" and one_end - one == other_end - other):
            yield from zip(range(one, one_end), range(other, other_end), strict=True)
