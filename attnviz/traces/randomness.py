"""What of a Trace is left to chance: what was drawn from a seed, and bears on what is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from attnviz.traces.origin import FromExample, FromModel, FromSeed, FromTransformer, FromWeights
from attnviz.traces.trace import Layer, Trace

VECTORS, PROJECTIONS, POSITIONS = "vectors", "projections", "positions"
DROPOUT = "dropout"
# As a tutorial draws them, as a model learned them, or as they were computed elsewhere.
UNDRAWN_ORIGINS = FromExample | FromTransformer | FromWeights
PARTS_WITHOUT_VALUES = (
    "queries",
    "keys",
    "scores",
    "scaled",
    "masked",
    "weights",
)  # as --show has them


def random_weight_sources(trace: Trace, *, by_hand: bool = True) -> tuple[str, ...]:
    """What the weights were made of that was drawn: vectors, projections, positions.

    Not `by_hand`: those of the softmax, also where others were given to take their place.
    """
    if isinstance(trace.origin, UNDRAWN_ORIGINS):
        return ()
    first_layer = trace.layers[0]
    uses_given_weights = (
        by_hand and first_layer.attended.mixed_by == "hand"
    )  # and by no mistake in their place
    given_names = first_layer.given if uses_given_weights else first_layer.given - {"weights"}
    sources = {*_query_and_key_sources(trace, replace(first_layer, given=given_names))}
    other_layers = [layer for layer in trace.attentions if layer is not first_layer]
    if trace.variant.projected and any(
        _draws_any_of(other_layer, "w_query", "w_key") for other_layer in other_layers
    ):
        sources.add(PROJECTIONS)
    if any(map(_layer_drops_randomly, trace.attentions[:-1])):  # which those above it read
        sources.add(DROPOUT)
    if (
        trace.memory is not None
        and trace.origin.vectors is None
        and "memory" not in first_layer.given
    ):
        sources.add(VECTORS)
    return tuple(name for name in (VECTORS, PROJECTIONS, POSITIONS, DROPOUT) if name in sources)


def random_output_sources(trace: Trace) -> tuple[str, ...]:
    """What was drawn of all that context vectors and outputs are made of, but for the weights.

    Dropout is no part of them: the weights are those before it.
    """
    if isinstance(trace.origin, UNDRAWN_ORIGINS):
        return ()
    first_layer = trace.layers[0]
    has_given_values = "values" in first_layer.given
    return tuple(
        name
        for name, is_random in (
            (DROPOUT, has_random_dropout(trace)),
            (
                "values",
                not has_given_values and any(_random_vector_sources(trace, first_layer, "value")),
            ),
            (
                "output projection",
                trace.variant.joined and _any_layer_draws(trace.attentions, "w_out"),
            ),
            ("feed-forward", any(map(_has_random_feed_forward, trace.layers))),
        )
        if is_random
    )


def has_random_dropout(trace: Trace) -> bool:
    """Whether dropout took weights that nobody named."""
    return any(map(_layer_drops_randomly, trace.attentions))


def _layer_drops_randomly(layer: Layer) -> bool:
    return layer.attended.mixed_by == "dropout" and "kept" not in layer.given


def depends_on_seed(trace: Trace) -> bool:
    """Whether anything at all that a Trace holds was drawn from its seed."""
    if isinstance(trace.origin, FromTransformer | FromWeights):
        return False
    first_layer = trace.layers[0]
    uses_inputs = first_layer.uses_inputs or first_layer.block is not None
    has_named_embeddings = trace.origin.settings.embeddings is not None
    return (
        (uses_inputs and (has_random_embeddings(trace) or _has_random_positions(trace)))
        or (first_layer.key_inputs is not None and not has_named_embeddings)
        or (
            trace.memory is not None
            and "memory" not in first_layer.given
            and not has_named_embeddings
        )
        or has_random_dropout(trace)
        or any(map(_has_random_projections, trace.attentions))
        or any(map(_has_random_feed_forward, trace.layers))
    )


def _has_random_positions(trace: Trace) -> bool:
    return trace.positions == "learned" and trace.model is None


def _has_random_projections(layer: Layer) -> bool:
    """Whether a matrix that is there was not given."""
    projections = layer.projections
    names = ("w_query", "w_key", "w_value", "w_score", "w_out")
    return any(
        getattr(projections, name, None) is not None and name not in layer.given for name in names
    )


def _has_random_feed_forward(layer: Layer) -> bool:
    return _has_feed_forward(layer) and _draws_any_of(layer, "w_1", "w_2")


def _has_feed_forward(layer: Layer) -> bool:
    """Whether feed-forward follows its attention."""
    return layer.block is not None and layer.block.feed_forward is not None


def _any_layer_draws(layers: Sequence[Layer], *names: str) -> bool:
    return any(_draws_any_of(layer, *names) for layer in layers)


def _draws_any_of(layer: Layer, *names: str) -> bool:
    """Whether a layer draws one of these, rather than to be given it."""
    return any(name not in layer.given for name in names)


def has_random_embeddings(trace: Trace) -> bool:
    """Whether the vectors of the tokens are nobody's own."""
    origin = trace.origin
    undrawn_origins = FromExample | FromModel | FromTransformer | FromWeights
    if isinstance(origin, undrawn_origins) or origin.vectors is not None:
        return False
    return isinstance(origin, FromSeed) or origin.matrices.embeddings is None


def shows_weights_only(part_names: Collection[str]) -> bool:
    """Whether nothing of the values is shown."""
    return all(name in PARTS_WITHOUT_VALUES for name in part_names)


def _query_and_key_sources(trace: Trace, layer: Layer) -> Iterator[str]:
    if not trace.variant.compared or layer.given & {"scores", "weights"}:
        return
    if layer.w_score is not None and "w_score" not in layer.given:
        yield PROJECTIONS
    for name, vectors in (("query", "queries"), ("key", "keys")):
        if vectors not in layer.given:
            yield from _random_vector_sources(trace, layer, name)


def _random_vector_sources(trace: Trace, layer: Layer, name: str) -> Iterator[str]:
    """What is drawn of what a query, a key or a value is made of."""
    reads_other_keys = name != "query" and layer.key_inputs is not None
    if (
        _has_random_key_embeddings(trace, layer)
        if reads_other_keys
        else has_random_embeddings(trace)
    ):
        yield VECTORS
    if trace.variant.projected and f"w_{name}" not in layer.given:
        yield PROJECTIONS
    if _has_random_positions(trace):
        yield POSITIONS


def _has_random_key_embeddings(trace: Trace, layer: Layer) -> bool:
    """Whether the vectors of other tokens, that are read, are nobody's own."""
    return trace.origin.settings.embeddings is None and "key_embeddings" not in layer.given
