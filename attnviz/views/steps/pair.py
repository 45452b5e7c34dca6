"""One score (--key): products of a query and a key, both as arrows, their angle."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError, cmd, opt
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Arrow, Plane, Section, cosine_between, vector_length
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.steps.scene import Scene
from attnviz.views.steps.step_selection import STEPS
from attnviz.wording.numbers import NumberStyle
from attnviz.wording.sums import Sum
from attnviz.wording.words import and_list

Vector = list[float]
PRODUCT_DESCRIPTION = "The numbers are multiplied in pairs, and the products added."
PROJECTION_DESCRIPTION = (
    " It is also how far the key reaches along the query (its projection), times the query's "
    "length."
)
MAX_UPRIGHT_COSINE = 0.01  # the angle is written as 90° or nearly 90°


def refuse_pair(trace: Trace, layer: Layer, query: int | None) -> None:
    """Refuse --key without a query, and where the score is no dot product of a query and a key.

    That is: variants that compare nothing, additive scores, and scores that were given.
    """
    refusals = (
        (
            query is None,
            f"{opt.key} needs a {opt.query}: a score has a query and a key",
            f"add {opt.query:TOKEN}",
        ),
        (
            not trace.variant.compared,
            f"'{trace.variant.name}' attention does not compare queries with keys, so {opt.key} "
            "has no score to show",
            f"use {opt.variant:scaled}, or leave out {opt.key}",
        ),
        (
            layer.w_score is not None,
            f"additive scores are not dot products, so {opt.key} has no lengths and angle to show",
            f"leave out {opt.key}; {cmd.steps:TEXT --query TOKEN --step scores} writes the scores "
            "out",
        ),
        (
            not layer.has_product_scores,
            f"the scores are given, not computed from a query and a key that {opt.key} could draw",
            f"leave out {opt.key}",
        ),
    )
    for is_refused, problem, hint in refusals:
        if is_refused:
            raise AttnvizError(problem, hint, about="key")


def score_pair_step(scene: Scene, key: int) -> Iterator[Section]:
    """Yield the step that adds up one score, with query and key as arrows in a plane, per head."""
    pairs = [(head, *_pair_vectors(scene, head, key)) for head in scene.written_heads]
    names, width = _pair_names(scene, key), scene.layer.head_dim
    title = _pair_title(scene, key)
    planes = tuple(_pair_plane(scene, *pair, key) for pair in pairs)
    yield Section(
        number="5",
        name="scores",
        title=title,
        finding=title[0].upper() + title[1:],
        about=PRODUCT_DESCRIPTION + PROJECTION_DESCRIPTION * all(each.angle for each in planes),
        shapes=f"{names[0]} [{width}] · {names[1]} [{width}] → score",
        formula="score = query·key = |query| |key| cos(angle)",
        tex=r"q \cdot k = |q| \, |k| \cos \theta",
        grids=tuple(_pair_grid(scene, *pair, key) for pair in pairs),
        planes=planes,
        sums=tuple(line for pair in pairs for line in _pair_product_sums(scene, *pair, key)),
        remarks=_masked_key_remarks(scene, key),
    )


def angle_step(scene: Scene) -> Iterator[Section]:
    """Yield the step with the lengths of a query and a key and their angle, per head; nothing
    without --key.
    """
    key = scene.options.key
    if key is None:
        return
    pairs = [(head, *_pair_vectors(scene, head, key)) for head in scene.written_heads]
    names, width = _pair_names(scene, key), scene.layer.head_dim
    yield Section(
        *STEPS["angle"],
        about=_angle_step_description(scene, pairs, key),
        shapes=f"{names[0]} [{width}] · {names[1]} [{width}]",
        formula="score = |query| |key| cos(angle)",
        tex=r"q \cdot k = |q| \, |k| \cos \theta",
        sums=tuple(line for pair in pairs for line in _angle_sums(scene, *pair, key)),
    )


def _pair_title(scene: Scene, key: int) -> str:
    """Return `score of query "this" and key "am": 2.16`; several heads have no number."""
    query = quoted_token(scene.trace.tokens, scene.followed_query)
    scores = scene.layer.attended.scores[scene.written_heads, scene.followed_query, key].tolist()
    score_text = f": {scene.style.for_values(*scores)(scores[0])}" if len(scores) == 1 else ""
    return f"score of query {query} and key {quoted_token(scene.keys, key)}{score_text}"


def _pair_vectors(scene: Scene, head: int, key: int) -> tuple[Vector, Vector]:
    queries, keys = scene.layer.queries_with_keys()
    return queries[head, scene.followed_query].tolist(), keys[head, key].tolist()


def _pair_names(scene: Scene, key: int, head: int | None = None) -> tuple[str, str]:
    """Return `query(this)` and `key(am)`; with `head`, also which heads they belong to."""
    query_suffix, key_suffix = "", ""
    if head is not None:
        (group_heads,) = scene.head_groups(scene.layer.kv_heads, [head]).values()
        query_suffix, key_suffix = scene.head_suffix(head), scene.group_suffix(group_heads)
    key_name = scene.token_name(scene.keys, key)
    return f"query{query_suffix}({scene.query_name})", f"key{key_suffix}({key_name})"


def _pair_grid(scene: Scene, head: int, query: Vector, key: Vector, key_position: int) -> Grid:
    """Return a table of query and key one below the other: numbers in a column are multiplied."""
    vectors = torch.tensor([query, key], dtype=torch.float64)
    rows = plain_axis("vector", _pair_names(scene, key_position))
    title = scene.head_title("the two vectors", head)
    return scene.grid(title, vectors, rows, side="width", head=head)


def _pair_plane(scene: Scene, head: int, query: Vector, key: Vector, key_position: int) -> Plane:
    """Return query and key as two arrows with their lengths and angle, for drawing in a plane."""
    names, cosine = _pair_names(scene, key_position, head), cosine_between(query, key)
    first, second = (
        Arrow(name, length := vector_length(vector), scene.style.for_values(length)(length))
        for name, vector in zip(names, (query, key), strict=True)
    )
    title = f"head {head}" if scene.layer.heads > 1 else ""
    angle, projection = _degrees_text(cosine, scene.style), second.length * (cosine or 0.0)
    projection_text = "" if cosine is None else scene.style.for_values(projection)(projection)
    coordinates = ((query[0], query[1]), (key[0], key[1])) if len(query) == 2 else None
    return Plane(title, (first, second), cosine, angle, projection_text, coordinates)


def _degrees_text(cosine: float | None, style: NumberStyle) -> str:
    """Return the angle of this cosine in whole degrees; with decimals where these would read as a
    right angle or as one direction, which it is not. Empty if there is none.
    """
    if cosine is None:
        return ""
    angle = math.degrees(math.acos(cosine))
    return f"{style.for_values(angle)(angle) if round(angle) % 90 == 0 else round(angle)}°"


def _angle_step_description(scene: Scene, pairs: list[tuple[int, Vector, Vector]], key: int) -> str:
    """Return how the score follows from lengths and angle, and what the angle of a single head
    means for it.
    """
    about = "The score is also the product of both lengths and the cosine of their angle."
    if len(pairs) > 1:
        return about
    plane, score = _pair_plane(scene, *pairs[0], key), scene.stage_row("scores", pairs[0][0])[key]
    return f"{about} {_angle_description(plane, score)}"


def _angle_description(plane: Plane, score: float) -> str:
    """Return what the angle between query and key means for their score."""
    cosine = plane.cosine
    if cosine is None:
        return "One of them has length 0: there is no angle, and the score is 0."
    if score == 0 and cosine:
        return "Their products are so small that they are rounded to 0, and so is the score."
    if plane.on_a_line:
        direction, sign = (
            ("the same direction", "") if cosine > 0 else ("opposite directions", "minus ")
        )
        return f"They point in {direction}: the score is {sign}the product of their lengths."
    if abs(cosine) < MAX_UPRIGHT_COSINE:
        return (
            "They are nearly at right angles: the score is small compared with the product of "
            "their lengths."
        )
    side, sign = ("less", "above") if cosine > 0 else ("more", "below")
    return f"They are {side} than 90° apart, and the score is {sign} 0."


def _pair_product_sums(
    scene: Scene, head: int, query: Vector, key: Vector, key_position: int
) -> Iterator[Sum]:
    """Yield the score as a dot product, and as projection times length if there is an angle."""
    row, cosine = scene.stage_row("scores", head), cosine_between(query, key)
    score, writer = row[key_position], scene.write(_score_name(scene, head, key_position))
    yield writer.dot_product(query, key, score, scene.style.for_values(*row))
    if cosine is not None:
        factors = [vector_length(key) * cosine, vector_length(query)]
        name = f"projection{scene.head_suffix(head)}·|query|"
        yield scene.write(name).factors_product(factors, score)


def _score_name(scene: Scene, head: int, key: int) -> str:
    """Return `score H1(this, am)`."""
    return f"score{scene.head_suffix(head)}{scene.cell_name(key)}"


def _angle_sums(
    scene: Scene, head: int, query: Vector, key: Vector, key_position: int
) -> Iterator[Sum]:
    """Yield both lengths, the cosine and angle, and the score computed from them.

    Cosine, angle and score are left out if a vector has length 0.
    """
    suffix, score = scene.head_suffix(head), scene.stage_row("scores", head)[key_position]
    lengths, names = [*map(vector_length, (query, key))], _pair_names(scene, key_position, head)
    for name, vector, length in zip(names, (query, key), lengths, strict=True):
        yield scene.write(f"|{name}|").vector_length(vector, length)
    cosine = cosine_between(query, key)
    if cosine is not None:
        angle = math.degrees(math.acos(cosine))
        yield scene.write(f"cosine{suffix}").cosine(score, lengths, cosine)
        yield scene.write(f"angle{suffix}").angle(cosine, angle)
        score_writer = scene.write(_score_name(scene, head, key_position))
        yield score_writer.factors_product([*lengths, cosine], score)


def _masked_key_remarks(scene: Scene, key: int) -> tuple[str, ...]:
    """State in which heads the mask sets this score to −∞; empty if none.

    Also empty for a mistake that leaves out the −∞.
    """
    mistake = MISTAKES.get(scene.layer.mistake)
    heads = [f"head {head}" for head in scene.mask_heads if key in scene.masked_keys(head)]
    if not heads or (mistake and not mistake.masked):
        return ()
    opening = f"in {and_list(heads)} " if len(scene.mask_heads) > 1 else ""
    return (f"{opening}the mask hides this key from this query: step 7 sets the score to −∞",)
