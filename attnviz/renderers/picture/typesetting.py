"""Text as it is set in print: a minus as long as a plus, and small letters below the line."""

from __future__ import annotations

import re

MINUS = "−"
HYPHEN_BEFORE_A_NUMBER = re.compile(r"(?<![\w.)])-(?=[\d.∞])")
HYPHEN_BETWEEN_SPACES = re.compile(r"(?<= )-(?= )")
EXPONENT = re.compile(r"(?<=\d)(e)-(?=\d)")
SUBSCRIPTS = {"d_k": "dₖ", "W_o": "Wₒ"}
SUBSCRIPT = re.compile(rf"\b({'|'.join(SUBSCRIPTS)})\b")


def typeset(text: str) -> str:
    """
    >>> typeset("from -0.5 to 3 - 1, over √d_k, softmax-twice, 1e-05")
    'from −0.5 to 3 − 1, over √dₖ, softmax-twice, 1e−05'
    """
    spaced = HYPHEN_BETWEEN_SPACES.sub(MINUS, text)
    signed = EXPONENT.sub(rf"\1{MINUS}", HYPHEN_BEFORE_A_NUMBER.sub(MINUS, spaced))
    return SUBSCRIPT.sub(lambda found: SUBSCRIPTS[found[0]], signed)
