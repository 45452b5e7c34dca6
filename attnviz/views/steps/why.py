"""Why a token attends to what it does, for heads whose dimensions have names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from attnviz.cells import unmasked_cells
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import named_dimensions
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import dimension_names, written_head_role
from attnviz.views.reading import token_axis
from attnviz.views.steps import sums
from attnviz.views.steps.scene import Scene
from attnviz.wording.numbers import percent_text
from attnviz.wording.sums import MAX_TERMS
from attnviz.wording.words import and_list, as_sentence

WHY_DESCRIPTION = (
    "Each number of a query says how strongly the token asks for something; the same number of a "
    "key says how strongly a token is found by it."
)
FOLLOW_TOKEN_HINT = "(--query TOKEN shows what that token asks for)"
MIN_WRITTEN_WEIGHT = 0.005  # smaller weights are left out


def why_step(scene: Scene) -> Iterator[Section]:
    """Yields what each head looks for, and which features a query and its keys have."""
    layer, is_followed = scene.layer, scene.options.query is not None
    if layer.queries is None or layer.keys is None:
        return
    if not dimension_names(scene.trace, layer, "width"):
        return
    heads = scene.written_heads if is_followed else ()
    yield Section(
        number="8a",
        name="why",
        title="why these weights",
        about=" ".join([WHY_DESCRIPTION, *_head_sentences(scene)]),
        grids=tuple(
            _product_grid(scene, head) for head in heads if _query_and_keys(scene, head)[0].any()
        ),
        sums=sums.match_sums(scene, layer),
        remarks=tuple(_feature_remarks(scene)) if is_followed else (FOLLOW_TOKEN_HINT,),
    )


def _head_sentences(scene: Scene) -> Iterator[str]:
    """Yields `In head 0, a word that refers back looks for a noun before it.`"""
    for head in scene.shown_heads:
        role = written_head_role(scene.trace, scene.layer, head)
        if role:
            yield f"In head {head}, {role}." if scene.layer.heads > 1 else as_sentence(role)


def _product_grid(scene: Scene, head: int) -> Grid:
    """Returns the followed query's numbers times those of each key, not yet added up."""
    query, keys = _query_and_keys(scene, head)
    cells = unmasked_cells(keys * query)
    return Grid(
        scene.head_title(f"{scene.query_name} times each key", head),
        token_axis("key", scene.keys),
        named_dimensions(dimension_names(scene.trace, scene.layer, "width", head)),
        cells,
        centred_scale("score", cells),
        decimals=scene.options.digits,
    )


def _query_and_keys(
    scene: Scene, head: int
) -> tuple[Float[np.ndarray, "width"], Float[np.ndarray, "key width"]]:
    queries, keys = scene.layer.queries, scene.layer.keys_of_heads
    assert queries is not None
    assert keys is not None
    return tensor_to_numpy(queries[head, scene.followed_query]), tensor_to_numpy(keys[head])


def _feature_remarks(scene: Scene) -> Iterator[str]:
    """Yields what the followed token asks for, and the features of the keys with most weight."""
    for head in scene.written_heads:
        query, keys = _query_and_keys(scene, head)
        prefix = f"head {head}: " if scene.layer.heads > 1 else ""
        features, weights = _features_text(scene, head, query), scene.stage_row("weights", head)
        yield f'{prefix}"{scene.query_name}" asks for {features or "nothing, so every score is 0"}'
        order = np.argsort(-np.asarray(weights), kind="stable")[:MAX_TERMS].tolist()
        for key in (key for key in order if features and weights[key] >= MIN_WRITTEN_WEIGHT):
            key_name = f'"{scene.token_name(scene.keys, key)}" ({percent_text(weights[key])})'
            key_features = _features_text(scene, head, keys[key]) or "nothing"
            yield f"{prefix}{key_name} is found by {key_features}"


def _features_text(scene: Scene, head: int, vector: Float[np.ndarray, "width"]) -> str:
    """Returns the nonzero numbers by name: `animal 14, place 8 and singular 6`."""
    numbers: list[float] = vector.tolist()
    names = dimension_names(scene.trace, scene.layer, "width", head)
    write = scene.style.for_values(*numbers)
    pairs = zip(names, numbers, strict=True)
    features = [f"{name} {write(number)}" for name, number in pairs if number]
    return and_list(features) if features else ""
