"""Words for what can be chosen of a block and of a device; apart, for lists need no torch."""

from __future__ import annotations

import re
from typing import Literal, get_args

from attnviz.errors import unknown

Place = Literal["post", "pre", "none"]  # of the norm
Activation = Literal["relu", "gelu", "gelu-tanh"]
Instead = Literal["zero", "mean"]  # of what a head makes that is switched off

KINDS = ("cpu", "cuda", "mps", "xpu")  # of devices
DEVICES = ("auto", *KINDS)
Scoring = Literal["dot", "additive"]
SCORINGS: dict[Scoring, str] = {  # how a query is held against a key
    "dot": "query · key",
    "additive": "w_score · tanh(query + key), as in Bahdanau's attention",
}
NORMS: tuple[Place, ...] = get_args(Place)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


def refuse_unknown_device(name: str) -> None:
    """A name that no machine has; whether this one has it, torch alone knows."""
    if name != "auto" and not re.fullmatch(rf"({'|'.join(KINDS)})(:\d+)?", name):
        raise unknown("device", name, DEVICES)
