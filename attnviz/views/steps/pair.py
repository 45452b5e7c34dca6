"""One score: a query and a key as arrows, with their lengths, their angle and its cosine."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.traces.trace import Layer, Trace
from attnviz.views.facts import has_product_scores
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale
from attnviz.views.grids.section import Arrow, Plane, Section, cosine_between, vector_length
from attnviz.views.origin_words import vector_axis
from attnviz.views.steps.scene import Scene
from attnviz.wording import sums
from attnviz.wording.numbers import NumberStyle
from attnviz.wording.sums import Sum
from attnviz.wording.words import and_list

Vector = list[float]
MAX_UPRIGHT_COSINE = 0.01  # cosines below: the angle reads 90° or nearly so


def refuse_pair(trace: Trace, layer: Layer, query: int | None) -> None:
    """Refuse a --key where there is no score to draw."""
    if query is None:
        raise AttnvizError(
            "--key needs a --query: a score has a query and a key", "add --query TOKEN"
        )
    if not trace.variant.compared:
        raise AttnvizError(
            f"'{trace.variant.name}' attention does not compare queries with keys, so --key has no "
            "score to show",
            "use --variant scaled, or leave out --key",
        )
    if layer.w_score is not None:
        raise AttnvizError(
            "additive scores are not dot products, so --key has no lengths and angle to show",
            "leave out --key; attnviz steps TEXT --query TOKEN --step scores writes the scores out",
        )
    if not has_product_scores(layer):
        raise AttnvizError(
            "the scores are given, not computed from a query and a key that --key could draw",
            "leave out --key",
        )


def score_pair_step(scene: Scene, key: int) -> Iterator[Section]:
    """The two vectors of one score, in the plane that both lie in."""
    pairs = [(head, *_pair_vectors(scene, head, key)) for head in scene.written_heads]
    planes = tuple(
        _pair_plane(scene, head, query_vector, key_vector, key)
        for head, query_vector, key_vector in pairs
    )
    name = _pair_names(scene, key)[0]
    width = scene.layer.head_dim
    yield Section(
        number="5",
        name="scores",
        title=_pair_title(scene, key),
        finding=_pair_title(scene, key),
        about=_pair_description(scene, key, planes),
        shapes=f"{name} [{width}] · {_pair_names(scene, key)[1]} [{width}] → score",
        formula="score = |query| |key| cos(angle)",
        tex=r"q \cdot k = |q| \, |k| \cos \theta",
        grids=tuple(
            _pair_grid(scene, head, query_vector, key_vector, key)
            for head, query_vector, key_vector in pairs
        ),
        planes=planes,
        sums=tuple(line for pair in pairs for line in _pair_sums(scene, *pair, key)),
        remarks=_masked_key_remarks(scene, key),
    )


def _pair_title(scene: Scene, key: int) -> str:
    """`this · am = 2.16: the score is a dot product`; of several heads without a number."""
    pair_text = f"{scene.query_name} · {scene.token_name(scene.keys, key)}"
    scores = scene.layer.attended.scores[scene.written_heads, scene.followed_query, key].tolist()
    score_text = f" = {scene.style.for_values(*scores)(scores[0])}" if len(scores) == 1 else ""
    return f"{pair_text}{score_text}: the score is a dot product"


def _pair_vectors(scene: Scene, head: int, key: int) -> tuple[Vector, Vector]:
    layer = scene.layer
    keys = layer.keys_of_heads
    assert layer.queries is not None
    assert keys is not None
    return layer.queries[head, scene.followed_query].tolist(), keys[head, key].tolist()


def _pair_names(scene: Scene, key: int, head: int | None = None) -> tuple[str, str]:
    """What both are called; of one head with its number, and a key with all that share it."""
    query_suffix, key_suffix = "", ""
    if head is not None:
        (group_heads,) = scene.head_groups(scene.layer.kv_heads, [head]).values()
        query_suffix, key_suffix = scene.head_suffix(head), scene.group_suffix(group_heads)
    return (
        f"query{query_suffix}({scene.query_name})",
        f"key{key_suffix}({scene.token_name(scene.keys, key)})",
    )


def _pair_grid(
    scene: Scene, head: int, query_vector: Vector, key_vector: Vector, key_position: int
) -> Grid:
    """Both vectors, one below the other: numbers in the same column are multiplied."""
    cells = unmasked_cells(np.array([query_vector, key_vector]))
    rows = plain_axis("vector", _pair_names(scene, key_position))
    columns = vector_axis(scene.trace, scene.layer, "width", len(query_vector), head)
    title = scene.head_title("the two vectors", head)
    return Grid(
        title, rows, columns, cells, centred_scale("value", cells), decimals=scene.options.digits
    )


def _pair_plane(
    scene: Scene, head: int, query_vector: Vector, key_vector: Vector, key_position: int
) -> Plane:
    names, cosine = _pair_names(scene, key_position, head), cosine_between(query_vector, key_vector)
    first, second = (
        Arrow(name, length := vector_length(vector), scene.style.for_values(length)(length))
        for name, vector in zip(names, (query_vector, key_vector), strict=True)
    )
    title = f"head {head}" if scene.layer.heads > 1 else ""
    return Plane(title, (first, second), cosine, _degrees_text(cosine, scene.style))


def _degrees_text(cosine: float | None, style: NumberStyle) -> str:
    if cosine is None:
        return ""
    angle = math.degrees(math.acos(cosine))
    return f"{style.for_values(angle)(angle)}°"


def _pair_description(scene: Scene, key: int, planes: tuple[Plane, ...]) -> str:
    """What is drawn; and of one head alone what its angle says."""
    about = "The query and the key, drawn in one plane, with their true lengths and angle."
    if len(planes) > 1:
        return about
    score = scene.stage_row("scores", scene.written_heads[0])[key]
    return f"{about} {_angle_description(planes[0], score)}"


def _angle_description(plane: Plane, score: float) -> str:
    cosine = plane.cosine
    if cosine is None:
        return "One of them has length 0: there is no angle, and the score is 0."
    if score == 0 and cosine:
        return "Their products are so small that they are rounded to 0, and so is the score."
    if plane.on_a_line:
        same = "They point in the same direction: the score is the product of their lengths."
        opposite = (
            "They point in opposite directions: the score is minus the product of their lengths."
        )
        return same if cosine > 0 else opposite
    if abs(cosine) < MAX_UPRIGHT_COSINE:
        return (
            "They are nearly at right angles: the score is small compared with the product of "
            "their lengths."
        )
    side, sign = ("less", "above") if cosine > 0 else ("more", "below")
    return f"They are {side} than 90° apart, and the score is {sign} 0."


def _pair_sums(
    scene: Scene, head: int, query_vector: Vector, key_vector: Vector, key_position: int
) -> Iterator[Sum]:
    """The score as a sum of products; lengths, cosine and angle; and the score made of them."""
    style, of_head = scene.style, scene.head_suffix(head)
    row = scene.stage_row("scores", head)
    left_side = f"score{of_head}({scene.query_name}, {scene.token_name(scene.keys, key_position)})"
    yield sums.dot_product_sum(
        left_side, query_vector, key_vector, row[key_position], style, style.for_values(*row)
    )
    lengths = [vector_length(query_vector), vector_length(key_vector)]
    for name, vector, length in zip(
        _pair_names(scene, key_position, head), (query_vector, key_vector), lengths, strict=True
    ):
        yield sums.vector_length_sum(f"|{name}|", vector, length, style)
    cosine = cosine_between(query_vector, key_vector)
    if cosine is not None:
        angle = math.degrees(math.acos(cosine))
        yield sums.cosine_sum(f"cosine{of_head}", row[key_position], lengths, cosine, style)
        yield sums.angle_sum(f"angle{of_head}", cosine, angle, style)
        yield sums.polar_product_sum(left_side, lengths, cosine, row[key_position], style)


def _masked_key_remarks(scene: Scene, key: int) -> tuple[str, ...]:
    """What happens to a score that the mask hides."""
    mistake = MISTAKES.get(scene.layer.mistake)
    masking_heads = [head for head in scene.mask_heads if key in scene.masked_keys(head)]
    if not masking_heads or (mistake and not mistake.masked):
        return ()
    heads_text = (
        f"in {and_list([f'head {head}' for head in masking_heads])} "
        if len(scene.mask_heads) > 1
        else ""
    )
    return (f"{heads_text}the mask hides this key from this query: step 7 sets the score to −∞",)
