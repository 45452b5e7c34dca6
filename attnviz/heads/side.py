"""Side: the rows or the columns of a head: tokens, words, or blocks of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attnviz.tokens.grouping import Grouping, Groups
from attnviz.tokens.tokens import Tokens, piece_label


@dataclass(frozen=True, eq=False)
class Side:
    """Some tokens of a text, or groups of its tokens, one after another, in blocks of one size;
    the last block may be smaller."""

    tokens: Tokens
    span: range  # which of all tokens or groups, counted from 0
    size: int = 1
    grouping: Grouping | None = None  # without one, each token stands by itself

    def __len__(self) -> int:
        """Return the number of blocks."""
        return -(-len(self.span) // self.size)

    def __repr__(self) -> str:
        return f"<Side: {len(self)} of {self.whole.stop}>"

    @property
    def whole(self) -> range:
        """All tokens or groups of the text, of which the span is a part."""
        return range(len(self.tokens if self.grouping is None else self.grouping.groups))

    @property
    def is_whole(self) -> bool:
        return self.size == 1 and self.span == self.whole

    # What stands in the span, block by block or each by itself

    @property
    def blocks(self) -> list[range]:
        starts = range(0, len(self.span), self.size)
        return [self.span[start : start + self.size] for start in starts]

    @property
    def as_slice(self) -> slice:
        return slice(self.span.start, self.span.stop)

    @cached_property
    def groups(self) -> Groups:
        """The positions of the tokens that each stands for."""
        if self.grouping is None:
            return tuple((position,) for position in self.span)
        return self.grouping.groups[self.span.start : self.span.stop]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        if self.grouping is None and self.is_whole:
            return self.tokens.labels
        return tuple(map(self.label, self.span))

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The number of each, from 1, as in the whole text."""
        return tuple(map(self.number, self.span))

    @cached_property
    def spaced(self) -> tuple[bool, ...]:
        return tuple(self.tokens.spaced[group[0]] for group in self.groups)

    @cached_property
    def special(self) -> tuple[bool, ...]:
        return tuple(self.tokens.special.issuperset(group) for group in self.groups)

    @property
    def unit(self) -> str:
        """What each stands for: a token, a word, or a sentence."""
        return "token" if self.grouping is None else self.grouping.unit

    def is_special(self, place: int) -> bool:
        """Return whether a tokenizer added one of all tokens or groups."""
        group = (place,) if self.grouping is None else self.grouping.groups[place]
        return self.tokens.special.issuperset(group)

    def number(self, place: int) -> int:
        """Return the number of one of all tokens or groups, from 1, as in the whole text."""
        return place + 1 if self.grouping is None else self.grouping.numbers[place]

    def label(self, place: int) -> str:
        """Return the label of one of all tokens or groups, without making those of the others."""
        if self.grouping is None:
            return label_at(self.tokens, place)
        return self.grouping.labels[place]

    # Other sides of the same text

    def part(self, span: range) -> Side:
        """Return some of all tokens or groups, each by itself."""
        return replace(self, span=span, size=1)

    def in_groups(self, grouping: Grouping) -> Side:
        """Return a whole side of groups of the same tokens."""
        return Side(self.tokens, range(len(grouping.groups)), grouping=grouping)

    def in_blocks(self, most: int) -> Side:
        """Return the side with the smallest blocks, made of those that are there, of which there
        are `most`."""
        return replace(self, size=self.size * max(1, -(-len(self.span) // (self.size * most))))

    def means(self, values: Float[np.ndarray, "token"]) -> Float[np.ndarray, "block"]:
        """Return the mean of each block of the values of the side's tokens."""
        firsts = np.arange(0, len(values), self.size)
        counts = np.diff(np.append(firsts, len(values)))
        return np.asarray(np.add.reduceat(values, firsts) / counts)


def token_side(tokens: Tokens) -> Side:
    """Return rows or columns that stand for one token each."""
    return Side(tokens, range(len(tokens)))


def label_at(tokens: Tokens, position: int) -> str:
    """Return the label of one token, without making those of all tokens."""
    return tokens.words[position] if tokens.words else piece_label(tokens.pieces[position])
