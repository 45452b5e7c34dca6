"""Scales of colour for terminals of 256 and of 16 colours, picked by hand.

A terminal that is asked for a colour that it has not takes the nearest, and hues come out of
order. Here are numbers of its own colours, each lighter than the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from jaxtyping import Int, UInt8

Few = Literal["16", "256"]
Ramp = tuple[int, ...]

# From the darkest to the lightest, which is from 0 to 1 on dark paper.
SEQUENTIAL: Mapping[Few, Mapping[str, Ramp]] = {
    "256": {
        "ocean": (17, 18, 19, 25, 32, 38, 44, 116, 195),
        "greys": (235, 237, 239, 241, 243, 245, 247, 249, 251),
        "viridis": (53, 55, 24, 30, 36, 77, 149, 190, 226),
        "cividis": (17, 18, 239, 60, 243, 101, 143, 179, 185, 227),
        "magma": (17, 53, 90, 126, 168, 203, 209, 216, 222, 229),
    },
    "16": {
        "ocean": (0, 4, 6, 14, 15),
        "greys": (0, 8, 7, 15),
        "viridis": (4, 2, 10, 11),
        "cividis": (4, 8, 3, 11),
        "magma": (0, 5, 9, 11, 15),
    },
}
# From the most below 0 to the most above, 0 in the middle.
DIVERGING: Mapping[Few, Mapping[str, Ramp]] = {
    "256": {
        "dark": (117, 74, 32, 25, 19, 234, 52, 94, 166, 208, 215),
        "light": (19, 25, 32, 74, 153, 255, 223, 209, 166, 160, 88),
    },
    "16": {"dark": (14, 6, 4, 0, 1, 3, 11), "light": (4, 6, 14, 15, 11, 3, 1)},
}

# What xterm shows for the first 16; the others are six levels of red, green and blue, and greys.
SYSTEM = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
LEVELS = (0, 95, 135, 175, 215, 255)
GREYS = 232  # the number of the first


def ramp(few: Few, palette: str, theme: str, kind: str) -> Ramp:
    """The numbers of a scale of colour, from its lowest value to its highest."""
    if kind == "diverging":
        return DIVERGING[few][theme]
    numbers = SEQUENTIAL[few][palette]
    return numbers if theme == "dark" else numbers[::-1]


def looks(numbers: Int[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape 3"]:
    """Red, green and blue of a terminal's colours, as xterm shows them."""
    table = np.array([_look(number) for number in range(256)], dtype=np.uint8)
    seen: UInt8[np.ndarray, "*shape 3"] = table[numbers]
    return seen


def _look(number: int) -> tuple[int, int, int]:
    """
    >>> _look(17), _look(255), _look(4)
    ((0, 0, 95), (238, 238, 238), (0, 0, 238))
    """
    if number < 16:
        red, green, blue = bytes.fromhex(SYSTEM.split()[number])
        return red, green, blue
    if number >= GREYS:
        grey = 8 + 10 * (number - GREYS)
        return grey, grey, grey
    place = number - 16
    return LEVELS[place // 36], LEVELS[place // 6 % 6], LEVELS[place % 6]
