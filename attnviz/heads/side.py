"""Side: the rows or the columns of a head, each of which stands for one token or a block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attnviz.tokens.tokens import Tokens, piece_label


@dataclass(frozen=True, eq=False)
class Side:
    """Some tokens of a text, one after another, in blocks of one size; the last may be smaller."""

    tokens: Tokens
    span: range  # positions, from 0
    size: int = 1

    def __len__(self) -> int:
        """Return the number of blocks."""
        return -(-len(self.span) // self.size)

    @property
    def blocks(self) -> list[range]:
        starts = range(0, len(self.span), self.size)
        return [self.span[start : start + self.size] for start in starts]

    @property
    def as_slice(self) -> slice:
        return slice(self.span.start, self.span.stop)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the tokens."""
        return self.tokens.labels[self.as_slice]

    def in_blocks(self, most: int) -> Side:
        """Return the side with the smallest blocks, made of those that are there, of which there
        are `most`."""
        return replace(self, size=self.size * max(1, -(-len(self.span) // (self.size * most))))

    def means(self, values: Float[np.ndarray, "token"]) -> Float[np.ndarray, "block"]:
        """Return the mean of each block of the values of the side's tokens."""
        firsts = np.arange(0, len(values), self.size)
        counts = np.diff(np.append(firsts, len(values)))
        means: Float[np.ndarray, "block"] = np.add.reduceat(values, firsts) / counts
        return means


def whole_side(tokens: Tokens) -> Side:
    """Return all tokens of a text, each by itself."""
    return Side(tokens, range(len(tokens)))


def label_at(tokens: Tokens, position: int) -> str:
    """Return the label of one token, without making those of all tokens."""
    return tokens.words[position] if tokens.words else piece_label(tokens.pieces[position])
