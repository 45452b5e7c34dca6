"""What of a Trace is left to chance: what was drawn from a seed, and bears on what is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from attnviz.traces.origin import Drawn, FromExample, FromModel, FromTransformer, FromWeights
from attnviz.traces.trace import Layer, Trace

VECTORS, PROJECTIONS, POSITIONS = "vectors", "projections", "positions"
DROPOUT = "dropout"
# As a tutorial draws them, as a model learned them, or as they were computed elsewhere.
OF_OTHERS = FromExample | FromTransformer | FromWeights
BEFORE_WEIGHTS = ("queries", "keys", "scores", "scaled", "masked", "weights")  # as --show has them


def drawn_for_weights(trace: Trace, *, by_hand: bool = True) -> tuple[str, ...]:
    """What the weights were made of that was drawn: vectors, projections, positions.

    Not `by_hand`: those of the softmax, also where others were given to take their place.
    """
    if isinstance(trace.origin, OF_OTHERS):
        return ()
    first = trace.layers[0]
    weighed = by_hand and first.attended.mixed_by == "hand"  # and by no mistake in their place
    made = first.given if weighed else first.given - {"weights"}
    found = {*_of_queries_and_keys(trace, replace(first, given=made))}
    others = [layer for layer in trace.attentions if layer is not first]
    if trace.variant.projected and any(_draws(each, "w_query", "w_key") for each in others):
        found.add(PROJECTIONS)
    if any(map(_drops_by_chance, trace.attentions[:-1])):  # which those above it read
        found.add(DROPOUT)
    if trace.memory is not None and trace.origin.vectors is None and "memory" not in first.given:
        found.add(VECTORS)
    return tuple(name for name in (VECTORS, PROJECTIONS, POSITIONS, DROPOUT) if name in found)


def drawn_after_weights(trace: Trace) -> tuple[str, ...]:
    """What was drawn of all that context vectors and outputs are made of, but for the weights.

    Dropout is no part of them: the weights are those before it.
    """
    if isinstance(trace.origin, OF_OTHERS):
        return ()
    first = trace.layers[0]
    own = "values" in first.given
    return tuple(
        name
        for name, drawn in (
            (DROPOUT, dropped_by_chance(trace)),
            ("values", not own and any(_of(trace, first, "value"))),
            ("output projection", trace.variant.joined and _any_draws(trace.attentions, "w_out")),
            ("feed-forward", any(map(_feed_forward_drawn, trace.layers))),
        )
        if drawn
    )


def dropped_by_chance(trace: Trace) -> bool:
    """Whether dropout took weights that nobody named."""
    return any(map(_drops_by_chance, trace.attentions))


def _drops_by_chance(layer: Layer) -> bool:
    return layer.attended.mixed_by == "dropout" and "kept" not in layer.given


def depends_on_seed(trace: Trace) -> bool:
    """Whether anything at all that a Trace holds was drawn from its seed."""
    if isinstance(trace.origin, FromTransformer | FromWeights):
        return False
    first = trace.layers[0]
    used = first.from_inputs or first.block is not None
    named = trace.origin.settings.embeddings is not None
    return (
        (used and (embeddings_drawn(trace) or _positions_drawn(trace)))
        or (first.key_inputs is not None and not named)
        or (trace.memory is not None and "memory" not in first.given and not named)
        or dropped_by_chance(trace)
        or any(map(_projections_drawn, trace.attentions))
        or any(map(_feed_forward_drawn, trace.layers))
    )


def _positions_drawn(trace: Trace) -> bool:
    return trace.positions == "learned" and trace.model is None


def _projections_drawn(layer: Layer) -> bool:
    """Whether a matrix that is there was not given."""
    made = layer.projections
    names = ("w_query", "w_key", "w_value", "w_score", "w_out")
    return any(getattr(made, name, None) is not None and name not in layer.given for name in names)


def _feed_forward_drawn(layer: Layer) -> bool:
    return _feeds(layer) and _draws(layer, "w_1", "w_2")


def _feeds(layer: Layer) -> bool:
    """Whether feed-forward follows its attention."""
    return layer.block is not None and layer.block.fed is not None


def _any_draws(layers: Sequence[Layer], *names: str) -> bool:
    return any(_draws(layer, *names) for layer in layers)


def _draws(layer: Layer, *names: str) -> bool:
    """Whether a layer draws one of these, rather than to be given it."""
    return any(name not in layer.given for name in names)


def embeddings_drawn(trace: Trace) -> bool:
    """Whether the vectors of the tokens are nobody's own."""
    origin = trace.origin
    own = FromExample | FromModel | FromTransformer | FromWeights
    if isinstance(origin, own) or origin.vectors is not None:
        return False
    return isinstance(origin, Drawn) or origin.matrices.embeddings is None


def weights_shown_alone(shown: Collection[str]) -> bool:
    """Whether nothing of the values is shown."""
    return all(name in BEFORE_WEIGHTS for name in shown)


def _of_queries_and_keys(trace: Trace, layer: Layer) -> Iterator[str]:
    if not trace.variant.compared or layer.given & {"scores", "weights"}:
        return
    if layer.w_score is not None and "w_score" not in layer.given:
        yield PROJECTIONS
    for name, vectors in (("query", "queries"), ("key", "keys")):
        if vectors not in layer.given:
            yield from _of(trace, layer, name)


def _of(trace: Trace, layer: Layer, name: str) -> Iterator[str]:
    """What is drawn of what a query, a key or a value is made of."""
    of_other_keys = name != "query" and layer.key_inputs is not None
    if _key_embeddings_drawn(trace, layer) if of_other_keys else embeddings_drawn(trace):
        yield VECTORS
    if trace.variant.projected and f"w_{name}" not in layer.given:
        yield PROJECTIONS
    if _positions_drawn(trace):
        yield POSITIONS


def _key_embeddings_drawn(trace: Trace, layer: Layer) -> bool:
    """Whether the vectors of other tokens, that are read, are nobody's own."""
    return trace.origin.settings.embeddings is None and "key_embeddings" not in layer.given
