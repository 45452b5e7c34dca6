"""Lists, counts, shapes and sentences in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence


def or_list(names: Sequence[str]) -> str:
    """Return the names joined by commas and a final "or".

    >>> or_list(["a"]), or_list(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def counted(number: float, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> counted(1, "token"), counted(2000, "token"), counted(15.5, "step")
    ('1 token', '2,000 tokens', '15.5 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_list(names: Sequence[str]) -> str:
    """Return the names joined by commas and a final "and".

    >>> and_list(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shape_text(sizes: Iterable[object]) -> str:
    """Return sizes with a × between them.

    >>> shape_text((4, 3))
    '4 × 3'
    """
    return " × ".join(str(size) for size in sizes)


def bracketed_shape(*sizes: int) -> str:
    """Return sizes with a × between them, in brackets.

    >>> bracketed_shape(4, 3)
    '[4 × 3]'
    """
    return f"[{shape_text(sizes)}]"


def as_sentence(text: str) -> str:
    """Return the text with a capital first letter and a full stop.

    >>> as_sentence("rows sum to 1")
    'Rows sum to 1.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def numbered_label(number: str, label: str) -> str:
    """Return a number and a label, either of which may be empty: `3 learning`."""
    return f"{number} {bidi_isolated(label)}".strip()


def bidi_isolated(label: str) -> str:
    """Return the label; in a right-to-left script with a mark on both sides, so that numbers beside
    it do not move.
    """
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in label)
    return f"\u200e{label}\u200e" if turned else label
