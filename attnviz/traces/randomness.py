"""Finds out what in a Trace was drawn from a seed and affects what is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from attnviz.traces.origin import UNDRAWN_ORIGINS, FromExample, FromModel, FromSeed
from attnviz.traces.trace import Layer, Trace

VECTORS, PROJECTIONS, POSITIONS = "vectors", "projections", "positions"
DROPOUT = "dropout"
PARTS_WITHOUT_VALUES = ("queries", "keys", "scores", "scaled", "masked", "weights")  # of --show


def random_weight_sources(trace: Trace, *, by_hand: bool = True) -> tuple[str, ...]:
    """Return what was drawn from the seed among the things weights are computed from, such as
    "projections"; nothing for examples, transformers and external weights.

    Weights given by hand depend on nothing drawn; with `by_hand` False, they are ignored, and the
    answer is about the weights of the softmax.
    """
    if isinstance(trace.origin, UNDRAWN_ORIGINS):
        return ()
    first_layer = trace.layers[0]
    uses_given_weights = by_hand and first_layer.attended.mixed_by == "hand"  # and not a mistake
    given_names = first_layer.given if uses_given_weights else first_layer.given - {"weights"}
    sources = {*_query_and_key_sources(trace, replace(first_layer, given=given_names))}
    other_layers = [layer for layer in trace.attention_layers if layer is not first_layer]
    if trace.variant.projected and _any_layer_draws(other_layers, "w_query", "w_key"):
        sources.add(PROJECTIONS)
    if any(map(_layer_drops_randomly, trace.attention_layers[:-1])):  # inputs of those above
        sources.add(DROPOUT)
    has_random_memory = trace.memory is not None and "memory" not in first_layer.given
    if has_random_memory and trace.origin.vectors is None:
        sources.add(VECTORS)
    return tuple(name for name in (VECTORS, PROJECTIONS, POSITIONS, DROPOUT) if name in sources)


def random_output_sources(trace: Trace) -> tuple[str, ...]:
    """Return what was drawn from the seed among the things outputs are computed from, besides
    weights: "dropout", "values", "output projection", "feed-forward".
    """
    if isinstance(trace.origin, UNDRAWN_ORIGINS):
        return ()
    first_layer = trace.layers[0]
    draws_values = any(_random_vector_sources(trace, first_layer, "value"))
    is_random = {
        DROPOUT: has_random_dropout(trace),
        "values": "values" not in first_layer.given and draws_values,
        "output projection": trace.variant.joined
        and _any_layer_draws(trace.attention_layers, "w_out"),
        "feed-forward": any(map(_has_random_feed_forward, trace.layers)),
    }
    return tuple(name for name in is_random if is_random[name])


def has_random_dropout(trace: Trace) -> bool:
    return any(map(_layer_drops_randomly, trace.attention_layers))


def _layer_drops_randomly(layer: Layer) -> bool:
    return layer.attended.mixed_by == "dropout" and "kept" not in layer.given


def depends_on_seed(trace: Trace) -> bool:
    if isinstance(trace.origin, UNDRAWN_ORIGINS) and not isinstance(trace.origin, FromExample):
        return False
    first_layer = trace.layers[0]
    uses_inputs = first_layer.uses_inputs or first_layer.block is not None
    has_random_memory = trace.memory is not None and "memory" not in first_layer.given
    reads_others = first_layer.key_inputs is not None or has_random_memory
    return (
        (uses_inputs and (has_random_embeddings(trace) or _has_random_positions(trace)))
        or (reads_others and trace.origin.settings.embeddings is None)
        or has_random_dropout(trace)
        or any(map(_has_random_projections, trace.attention_layers))
        or any(map(_has_random_feed_forward, trace.layers))
    )


def _has_random_positions(trace: Trace) -> bool:
    """Return whether the position vectors are "learned" ones that were drawn: no model has them."""
    return trace.positions == "learned" and trace.model is None


def _has_random_projections(layer: Layer) -> bool:
    projections = layer.projections
    names = ("w_query", "w_key", "w_value", "w_score", "w_out")
    return any(
        getattr(projections, name, None) is not None and name not in layer.given for name in names
    )


def _has_random_feed_forward(layer: Layer) -> bool:
    has_feed_forward = layer.block is not None and layer.block.feed_forward is not None
    return has_feed_forward and _any_layer_draws([layer], "w_1", "w_2")


def _any_layer_draws(layers: Sequence[Layer], *names: str) -> bool:
    """Return whether one of these matrices ("w_query") is not given in one of the layers."""
    return any(name not in layer.given for layer in layers for name in names)


def has_random_embeddings(trace: Trace) -> bool:
    """Return whether the embeddings of the tokens were drawn, not loaded, given or of a model."""
    origin = trace.origin
    if isinstance(origin, UNDRAWN_ORIGINS | FromModel) or origin.vectors is not None:
        return False
    return isinstance(origin, FromSeed) or origin.matrices.embeddings is None


def shows_weights_only(part_names: Collection[str]) -> bool:
    return all(name in PARTS_WITHOUT_VALUES for name in part_names)


def _query_and_key_sources(trace: Trace, layer: Layer) -> Iterator[str]:
    """Yield what was drawn among the things the scores of a layer are computed from; nothing if
    scores or weights are given, or queries and keys are not compared.
    """
    if not trace.variant.compared or layer.given & {"scores", "weights"}:
        return
    if layer.w_score is not None and "w_score" not in layer.given:
        yield PROJECTIONS
    for name, vectors in (("query", "queries"), ("key", "keys")):
        if vectors not in layer.given:
            yield from _random_vector_sources(trace, layer, name)


def _random_vector_sources(trace: Trace, layer: Layer, name: str) -> Iterator[str]:
    """Yield what was drawn among the things a "query", "key" or "value" is computed from."""
    if name != "query" and layer.key_inputs is not None:
        no_file = trace.origin.settings.embeddings is None
        draws_vectors = no_file and "key_embeddings" not in layer.given
    else:
        draws_vectors = has_random_embeddings(trace)
    if draws_vectors:
        yield VECTORS
    if trace.variant.projected and f"w_{name}" not in layer.given:
        yield PROJECTIONS
    if _has_random_positions(trace):
        yield POSITIONS
