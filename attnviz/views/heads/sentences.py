"""Words on attention: names of tokens and heads; who attends most, gives and receives."""

from __future__ import annotations

from attnviz.heads.side import Side
from attnviz.tokens.tokens import Tokens
from attnviz.views.attention_facts import MaskShape
from attnviz.views.conclusions.findings import ComparedAmount
from attnviz.views.even_spread import even_words
from attnviz.views.heads.passages import quoted_label
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import bidi_isolated, counted

ITSELF = "itself"


def quoted_token(tokens: Tokens, position: int) -> str:
    """Return a token of a short text, with its position (from 1) where its label occurs twice:
    `"it" (3)`.
    """
    name, labels = quoted_label(tokens, position), tokens.labels
    return name if labels.count(labels[position]) == 1 else f"{name} ({position + 1})"


def numbered_name(side: Side, place: int) -> str:
    """Return a token of a long text, whose labels are not counted: `"it" (token 2,001)`."""
    label = bidi_isolated(side.label(place))
    name = label if side.is_special(place) else f'"{label}"'
    return f"{name} ({side.unit} {side.number(place):,})"


def side_text(side: Side) -> str:
    """Return what a side shows by its numbers: `tokens 1,200–1,300`, `word 7`."""
    first, last = side.number(side.span[0]), side.number(side.span[-1])
    return f"{side.unit} {first:,}" if first == last else f"{side.unit}s {first:,}–{last:,}"


def heads_text(count: int, total: int) -> str:
    """Return how many of several heads there are.

    >>> heads_text(2, 2), heads_text(6, 6), heads_text(70, 72)
    ('both heads', 'all 6 heads', '70 of 72 heads')
    """
    if count < total:
        return f"{count} of {counted(total, 'head')}"
    return "both heads" if total == 2 else f"all {total} heads"


def visible_keys_text(shape: MaskShape | None) -> str:
    """Return which keys a mask of a shape lets a token attend to: `itself and earlier tokens`.

    Empty without a mask, and for one that no simple rule describes exactly.
    """
    if shape is None or not shape.is_exact or shape.chunk is not None:
        return ""
    if shape.window is None:
        return "itself and earlier tokens" if shape.causal else ""
    before = shape.window - 1
    if before == 0:
        return ITSELF
    if shape.causal:
        return f"itself and the {'token' if before == 1 else f'{before} tokens'} before it"
    return "itself and its neighbours" if before == 1 else f"tokens up to {before} places away"


def attends_to(who: str, whom: str, how: str = "") -> str:
    """Return who attends to whom, and how: `only`, `equally`.

    >>> attends_to('"it"', "itself", "only")
    '"it" attends only to itself'
    """
    return f"{who} attends{f' {how}' * bool(how)} to {whom}"


def attends_most(who: str, whom: str, *, among: str = "", verb: str = "attends") -> str:
    """Return what tokens attend to most; `among`: of which tokens alone.

    >>> attends_most('"it"', '"cat"', among=", of tokens 1–9,")
    '"it" attends most, of tokens 1–9, to "cat"'
    """
    return f"{who} {verb} most{among} to {whom}"


def gives(who: str, whom: str, amount: str, *, verb: str = "gives", whose: str = "its") -> str:
    """Return how much of a token's attention another gets, in words.

    >>> gives('"it"', '"cat"', "40 %")
    '"it" gives "cat" 40 % of its attention'
    """
    return f"{who} {verb} {whom} {amount} of {whose} attention"


def receives(whom: str, amount: ComparedAmount, whose: str) -> str:
    """Return how much of someone's attention a token receives, beside its base rate.

    >>> receives('"cat"', ComparedAmount("40 %", "as with an even spread"), "its attention")
    '"cat" receives 40 % of its attention, as with an even spread'
    """
    return f"{whom} receives {amount.text} of {whose}, {amount.base}"


def beside_even(share: float, even: float, digits: int = 0) -> ComparedAmount:
    """Return a share of attention beside what it would be if the attention were even."""
    return ComparedAmount(percent_text(share, digits), even_words(share, even))
