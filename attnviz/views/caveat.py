"""A warning that some of the numbers are random, and what that means."""

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
    """For the softmax's own weights, before any given ones replace them."""
    before = drawn_for_weights(trace, by_hand=False)
    return f"{_kinds(before)}: {SHAPE_ALONE}" if before else ""


def caveat(trace: Trace, shown: Collection[str]) -> str:
    """For the parts that are shown; empty where everything they are computed from was given.

    On lengths that it was never trained on, a model is no better than chance.
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
    return f"random {listed(after)}: the weights{which} are real, what is computed from them is not"


def _kinds(drawn: tuple[str, ...]) -> str:
    """What is random; and what is not, where a reader might think it is."""
    if VECTORS in drawn:
        return "random vectors"
    if drawn == (DROPOUT,):
        return f"random {DROPOUT}"
    return f"given vectors, random {PROJECTIONS if PROJECTIONS in drawn else drawn[0]}"
