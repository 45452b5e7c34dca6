"""VARIANTS: the variants of attention as a table; names of other choices, such as norms.

A variant is added by adding a row. Every command-line option that changes attention replaces one
property of a row, see `traces/settings.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from attnviz.errors import unknown_name_error
from attnviz.options.values import Activation, NormPlacement, ScoreKind

NORMS: tuple[NormPlacement, ...] = get_args(NormPlacement)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
DEVICE_KINDS = ("cpu", "cuda", "mps", "xpu")
DEVICES = ("auto", *DEVICE_KINDS)
SCORE_KINDS: dict[ScoreKind, str] = {
    "dot": "query · key",
    "additive": "w_score · tanh(query + key), as in Bahdanau's attention",
}


@dataclass(frozen=True)
class Variant:
    """One variant of attention: what is computed, and which keys each query may attend to."""

    name: str
    about: str
    projected: bool = True  # queries, keys and values are x W; else x itself
    compared: bool = True  # queries are compared with keys; else every score is 0
    additive: bool = False  # a score is w · tanh(query + key) instead of their dot product
    scaled: bool = True  # scores are divided by the square root of a head's width
    causal: bool = False  # a token attends only to itself and those before it
    window: int | None = None  # a token attends only to those at a distance below this
    heads: int = 1
    kv_heads: int | None = None  # of keys and values, if fewer than of queries
    joined: bool = False  # the heads' context vectors are joined and multiplied by W_o
    temperature: float = 1.0  # scores are divided by it, too
    soft_cap: float | None = None  # scores become soft_cap · tanh(score / soft_cap)
    dropout: float = 0.0  # the share of weights that is zeroed


VARIANT_ALIASES = {  # names in textbooks and libraries
    **dict.fromkeys(("masked", "autoregressive", "decoder", "gpt"), "causal"),
    "mha": "multi-head",
    **dict.fromkeys(("softmax", "self", "bidirectional", "encoder"), "scaled"),
    **dict.fromkeys(("dot", "unscaled"), "plain"),
    **dict.fromkeys(("uniform", "mean"), "average"),
}

VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("plain", "raw dot products of the embeddings", projected=False, scaled=False),
        Variant("scaled", "queries, keys and values; scores divided by √d_k"),
        Variant("causal", "scaled, and no token sees the ones after it", causal=True),
        Variant(
            "multi-head",
            "causal, in several smaller heads, joined",
            causal=True,
            heads=2,
            joined=True,
        ),
        Variant(
            "average",
            "no comparison: the mean of a token and those before it",
            projected=False,
            compared=False,
            scaled=False,
            causal=True,
        ),
    )
}


def refuse_unknown_device(name: str) -> None:
    """Refuse names that are no device on any machine; does not check this one (needs torch)."""
    if name != "auto" and not re.fullmatch(rf"({'|'.join(DEVICE_KINDS)})(:\d+)?", name):
        raise unknown_name_error("device", name, DEVICES)
