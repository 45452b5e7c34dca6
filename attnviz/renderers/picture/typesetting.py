"""Text as it is set in print: a minus as long as a plus, and small letters below the line."""

from __future__ import annotations

import re

MINUS = "−"
HYPHEN_BEFORE_A_NUMBER = re.compile(r"(?<![\w.)])-(?=[\d.∞])")
HYPHEN_BETWEEN_SPACES = re.compile(r"(?<= )-(?= )")
EXPONENT = re.compile(r"(?<=\d)(e)-(?=\d)")
SUBSCRIPTS = {"d_k": "dₖ", "W_o": "Wₒ"}
BELOW = "\N{FUNCTION APPLICATION}"  # takes no room; what follows stands below the line
LOWERED = re.compile(rf"{BELOW}(\w+)")
NAME_OF_A_MATRIX = re.compile(r"\b([WwBb])_([a-z]+\d?|\d)\b")
SUBSCRIPT = re.compile(rf"\b({'|'.join(SUBSCRIPTS)})\b")


def typeset(text: str) -> str:
    """
    >>> typeset("from -0.5 to 3 - 1, over √d_k, softmax-twice, 1e-05")
    'from −0.5 to 3 − 1, over √dₖ, softmax-twice, 1e−05'
    """
    spaced = HYPHEN_BETWEEN_SPACES.sub(MINUS, text)
    signed = EXPONENT.sub(rf"\1{MINUS}", HYPHEN_BEFORE_A_NUMBER.sub(MINUS, spaced))
    return SUBSCRIPT.sub(lambda found: SUBSCRIPTS[found[0]], signed)


def with_names(text: str) -> str:
    """With names of matrices as in a formula: only in words of ours, a token may be `w_key`, too.

    >>> with_names("Q = X W_query + b_query, joined w_out") == (
    ...     f"Q = X W{BELOW}query + b{BELOW}query, joined W{BELOW}out"
    ... )
    True
    """
    return NAME_OF_A_MATRIX.sub(_name, text)


def _name(found: re.Match[str]) -> str:
    letter = found[1].replace("w", "W").replace("B", "b")
    return f"{letter}{BELOW}{found[2]}"
