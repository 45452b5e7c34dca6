"""What of the numbers is random, said once and in plain words."""

from __future__ import annotations

from collections.abc import Collection

from attnviz.traces.chance import (
    DROPOUT,
    PROJECTIONS,
    VECTORS,
    drawn_after_weights,
    drawn_for_weights,
    embeddings_drawn,
    weights_shown_alone,
)
from attnviz.traces.trace import Trace
from attnviz.views.whose import beyond_what_it_learned
from attnviz.wording.words import listed

SHAPE_ALONE = "this shows the mechanism, not what the words mean"
BEFORE_ALL = ("tokens", "embeddings")


def caveat_of_softmax(trace: Trace) -> str:
    """Of its weights alone, before any that were given take their place."""
    before = drawn_for_weights(trace, by_hand=False)
    return f"{_kinds(before)}: {SHAPE_ALONE}" if before else ""


def caveat(trace: Trace, shown: Collection[str]) -> str:
    """Of the parts that are shown; nothing where all that they are made of was given.

    What a model never learned to read is no better than chance.
    """
    beyond = beyond_what_it_learned(trace)
    if beyond:
        return beyond
    if all(name in BEFORE_ALL for name in shown):
        drawn = "embeddings" in shown and embeddings_drawn(trace)
        return f"random vectors: {SHAPE_ALONE}" if drawn else ""
    before = drawn_for_weights(trace)
    if before:
        return f"{_kinds(before)}: {SHAPE_ALONE}"
    after = () if weights_shown_alone(shown) else drawn_after_weights(trace)
    if not after:
        return ""
    which = " before it" if DROPOUT in after else ""
    return f"random {listed(after)}: the weights{which} are real, what is made of them is not"


def _kinds(drawn: tuple[str, ...]) -> str:
    """What is random; and what is not, where one could think so."""
    if VECTORS in drawn:
        return "random vectors"
    if drawn == (DROPOUT,):
        return f"random {DROPOUT}"
    return f"given vectors, random {PROJECTIONS if PROJECTIONS in drawn else drawn[0]}"
