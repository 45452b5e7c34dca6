"""Lists, counts, shapes and sentences in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence


def or_list(names: Sequence[str]) -> str:
    """The names joined by commas and a final "or".

    >>> or_list(["a"]), or_list(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def counted(number: float, noun: str) -> str:
    """A number with its noun, in the plural unless the number is 1.

    >>> counted(1, "token"), counted(2000, "token"), counted(15.5, "step")
    ('1 token', '2,000 tokens', '15.5 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_list(names: Sequence[str]) -> str:
    """The names joined by commas and a final "and".

    >>> and_list(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shape_text(sizes: Iterable[object]) -> str:
    """
    >>> shape_text((4, 3))
    '4 × 3'
    """
    return " × ".join(str(size) for size in sizes)


def bracketed_shape(*sizes: int) -> str:
    """
    >>> bracketed_shape(4, 3)
    '[4 × 3]'
    """
    return f"[{shape_text(sizes)}]"


def as_sentence(text: str) -> str:
    """
    >>> as_sentence("rows sum to 1")
    'Rows sum to 1.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def numbered_label(number: str, label: str) -> str:
    """A number and a label, either of which may be empty: `3 learning`."""
    return f"{number} {bidi_isolated(label)}".strip()


def bidi_isolated(label: str) -> str:
    """A label; one in a right-to-left script is isolated, so that numbers beside it keep their
    place.
    """
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in label)
    return f"\u200e{label}\u200e" if turned else label
