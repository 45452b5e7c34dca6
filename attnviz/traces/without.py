"""Heads that are switched off, as `L1H1,L0H0=mean` names them: what they read then goes nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from attnviz.attention.choices import Instead
from attnviz.errors import AttnvizError
from attnviz.wording.words import listed

INSTEAD: tuple[Instead, ...] = get_args(Instead)
NAMED = re.compile(r"(?:L(\d{1,9}))?H(\d{1,9})(?:=(\w*))?", re.IGNORECASE)
MOST_NAMED = 12  # heads that an error lists

Place = tuple[int, int]  # layer and head, both from 0


def heads_off(without: str | None) -> dict[Place, Instead]:
    """What stands in place of what each of these heads makes.

    >>> heads_off("L1H1, H0=mean")
    {(1, 1): 'zero', (0, 0): 'mean'}
    """
    found: dict[Place, Instead] = {}
    for word in [] if without is None else without.split(","):
        place, instead = _read(word.strip())
        if place in found:
            raise _refused(f"names {name_of(*place)} twice")
        found[place] = instead
    return found


def of_layer(without: str | None, number: int) -> dict[int, Instead]:
    """Those of one layer, by the head."""
    return {head: how for (layer, head), how in heads_off(without).items() if layer == number}


def without_text(off: Mapping[Place, Instead]) -> str:
    """
    >>> without_text({(1, 1): "zero", (0, 0): "mean"})
    'L1H1 and L0H0 (replaced by its mean)'
    """
    means = {"zero": "", "mean": " (replaced by its mean)"}
    return listed([f"{name_of(*place)}{means[how]}" for place, how in off.items()])


def name_of(layer: int, head: int) -> str:
    return f"L{layer}H{head}"


def refuse_missing_heads(without: str | None, layers: int, heads: int) -> None:
    """Refuse heads that there are not, or will not be."""
    for layer, head in heads_off(without):
        if layer >= layers or head >= heads:
            raise AttnvizError(
                f"--without names {name_of(layer, head)}, but there is no such head",
                f"there {'is' if layers * heads == 1 else 'are'} {_all(layers, heads)}",
                about="without",
            )


def _all(layers: int, heads: int) -> str:
    """
    >>> _all(2, 2), _all(12, 12)
    ('L0H0, L0H1, L1H0 and L1H1', '144 heads, from L0H0 to L11H11')
    """
    if layers * heads > MOST_NAMED:
        return f"{layers * heads} heads, from L0H0 to {name_of(layers - 1, heads - 1)}"
    return listed([name_of(layer, head) for layer in range(layers) for head in range(heads)])


def _read(word: str) -> tuple[Place, Instead]:
    match = NAMED.fullmatch(word)
    if match is None:
        raise _refused(f"has '{word}', which names no head" if word else "names no head")
    layer, head, how = match.groups()
    instead = next((each for each in INSTEAD if each == (how or "zero").lower()), None)
    if instead is None or how == "":
        raise _refused(
            f"has '{word}', but the output of a head can only become {' or '.join(INSTEAD)}"
        )
    return (int(layer or 0), int(head)), instead


def _refused(problem: str) -> AttnvizError:
    return AttnvizError(
        f"--without {problem}",
        "try --without L1H1 (layer 1, head 1), or --without L0H0=mean",
        about="without",
    )
