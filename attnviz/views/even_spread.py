"""How a share compares with even attention to all tokens that the mask leaves visible."""

from __future__ import annotations

from attnviz.wording.numbers import fixed_text

FINDING_RATIO = 1.5  # times an even spread, from which what a token receives is a finding
SAME_RATIO = 0.05  # relative difference up to which a share is that of an even spread
FEW_TOKENS = 10  # below, their number has a decimal
COUNT_TOLERANCE = 1e-6  # of a number of tokens, relative
EVEN_NOTE = "× even = times what it would receive of even attention to all visible tokens"


def ratio_to_even(share: float, even: float) -> float | None:
    """Return how many times the share of an even spread a share is; None if that is nothing."""
    return share / even if even else None


def ratio_text(ratio: float) -> str:
    """Return a ratio with one decimal, from 10 on with none.

    >>> ratio_text(0.94), ratio_text(9.96), ratio_text(1234.5)
    ('0.9', '10', '1,234')
    """
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def even_words(share: float, even: float) -> str:
    """Return how a share compares with that of an even spread.

    >>> even_words(0.6, 0.2), even_words(0.2, 0.2), even_words(0.2, 0.0)
    ('3.0 times an even spread', 'as with an even spread', 'although no query may attend to it')
    """
    ratio = ratio_to_even(share, even)
    if ratio is None:
        return "although no query may attend to it"
    if abs(ratio - 1) <= SAME_RATIO:
        return "as with an even spread"
    return f"{ratio_text(ratio)} times an even spread"


def even_remark(share: float, even: float) -> str:
    """Return the same for a line of a table: `3.0 × even`; a dash where nobody can attend."""
    ratio = ratio_to_even(share, even)
    return "–" if ratio is None else f"{ratio_text(ratio)} × even"


def breadth_words(broad: float, allowed: float, tokens: int) -> str:
    """Return how broad attention is: over how many tokens an even spread would be as broad, beside
    how many the mask allows (both are means, 2 to the power of the entropy), of so many `tokens`.

    >>> print(breadth_words(514.2, 788.3, 2136))
    as broad as an even spread over 514 of 2,136 tokens; the mask alone allows 788
    >>> print(breadth_words(2.21, 2.21, 4))
    as broad as the mask allows, an even spread over 2.2 of 4 tokens
    """
    digits = 1 if min(broad, allowed) < FEW_TOKENS else 0
    spread, limit = (_count_text(each, digits) for each in (broad, allowed))
    of_all = f"of {tokens:,} token{'s' * (tokens != 1)}"
    is_limited = allowed < tokens * (1 - COUNT_TOLERANCE)
    if spread == limit and is_limited:
        return f"as broad as the mask allows, an even spread over {spread} {of_all}"
    if spread == limit:
        return f"as broad as an even spread over all {of_all.removeprefix('of ')}"
    mask = f"; the mask alone allows {limit}" if is_limited else ""
    return f"as broad as an even spread over {spread} {of_all}{mask}"


def _count_text(number: float, digits: int) -> str:
    return f"{float(fixed_text(number, digits)):,.{digits}f}"
