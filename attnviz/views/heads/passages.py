"""Tokens where they stand in a text: labels, passages around them, paragraphs."""

from __future__ import annotations

from attnviz.heads.side import label_at
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import bidi_isolated, counted

PASSAGE_TOKENS = 4  # on either side of a token that is listed


def counted_text(tokens: int, unit: str = "token") -> str:
    """Return a number of tokens, or of words, with commas: `131,072 tokens`."""
    return counted(tokens, unit).replace(str(tokens), f"{tokens:,}")


def quoted_label(tokens: Tokens, position: int) -> str:
    """Return a token's label in quotes; a special token has none: `"it"`, `[CLS]`."""
    label = bidi_isolated(label_at(tokens, position))
    return label if position in tokens.special else f'"{label}"'


def passage(tokens: Tokens, position: int) -> str:
    """Return the labels of a token and of those around it, its own in brackets."""
    span = tokens_around(tokens, position, PASSAGE_TOKENS)
    before, after = range(span.start, position), range(position + 1, span.stop)
    own = f"{' ' * tokens.spaced[position]}[{label_at(tokens, position)}]"
    text = f"{running_text(tokens, before)}{own}{running_text(tokens, after)}".strip()
    return f"{'…' * (span.start > 0)}{text}{'…' * (span.stop < len(tokens))}"


def tokens_around(tokens: Tokens, position: int, reach: int) -> range:
    """Return the positions of a token and of so many on either side of it."""
    return range(max(0, position - reach), min(len(tokens), position + reach + 1))


def running_text(tokens: Tokens, positions: range) -> str:
    """Return the labels of some tokens as they stand in the text."""
    return "".join(" " * tokens.spaced[each] + label_at(tokens, each) for each in positions)


def paragraph_starts(tokens: Tokens) -> tuple[int, ...]:
    """Return the positions, from 0, at which paragraphs begin: after an empty line, or in a text
    without empty lines after each line break. The first token counts where there are others.
    """
    by_breaks: dict[int, list[int]] = {1: [], 2: []}
    breaks = 0
    for position, piece in enumerate(tokens.pieces):
        if piece.strip():
            for least, starts in by_breaks.items():
                if breaks >= least:
                    starts.append(position)
            breaks = 0
        breaks += piece.count(b"\n")
    starts = by_breaks[2] or by_breaks[1]
    return (0, *starts) if starts else ()
