"""Lists, counts, shapes and sentences in words."""

from __future__ import annotations

import reprlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

ShownClass = TypeVar("ShownClass", bound=type)


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


def short_list(names: Sequence[str], most: int = 3) -> str:
    """Return at most `most` names joined by commas and a final "and", and how many more there are.

    >>> short_list(["a", "b", "c"]), short_list(["a", "b", "c", "d", "e"])
    ('a, b and c', 'a, b, c and 2 more')
    """
    more = len(names) - most
    return and_list([*names[:most], f"{more:,} more"] if more > 0 else names)


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


def listed_label(label: str) -> str:
    """Return a label as it stands beside its number: in quotation marks where it has no letter and
    no digit, as `"-"`, which would be read as a part of the number.
    """
    isolated = bidi_isolated(label)
    return isolated if any(map(str.isalnum, label)) or not label else f'"{isolated}"'


def bidi_isolated(label: str) -> str:
    """Return the label; in a right-to-left script with a mark on both sides, so that numbers beside
    it do not move.
    """
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in label)
    return f"\u200e{label}\u200e" if turned else label


def field_summary(value: Any) -> str:
    """Return a dataclass as one line: short fields in full, tensors by shape, others by length.

    >>> from attnviz.traces.settings import Settings
    >>> field_summary(Settings(heads=2))[:49]
    "<Settings: tokenizer 'gpt2', variant 'scaled', he"
    """
    parts = filter(
        None, (_field_text(each.name, getattr(value, each.name)) for each in fields(value))
    )
    return f"<{type(value).__name__}: {', '.join(parts)}>"


def _field_text(name: str, value: Any) -> str:
    """Return one field in words, such as "3 layers"; empty where it says nothing."""
    if isinstance(value, str | int | float):
        return f"{name} {reprlib.repr(value)}" if value not in ("", False) else ""
    if is_dataclass(value):  # a result is shown, and numbers are too many
        return f"{name} {value!r}" if hasattr(value, "_repr_html_") else ""
    if getattr(value, "ndim", 0):
        return f"{name} {shape_text(value.shape)}"
    if isinstance(value, Sized) and not isinstance(value, Mapping) and len(value):
        return f"{len(value)} {name}"
    return ""


def with_summary(shown_class: ShownClass) -> ShownClass:
    """Decorate a dataclass of many numbers: it is printed by its `field_summary`."""
    shown_class.__repr__ = field_summary  # type: ignore[assignment, method-assign]
    return shown_class
