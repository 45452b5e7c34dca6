"""One score: a query and a key as arrows, with their lengths, their angle and its cosine."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import unmasked
from attnviz.errors import AttnvizError
from attnviz.traces.trace import Layer, Trace
from attnviz.views.facts import multiplied
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred
from attnviz.views.grids.section import Arrow, Plane, Section, cosine_of, length_of
from attnviz.views.origin_words import axis_of
from attnviz.views.steps.scene import Scene
from attnviz.wording import sums
from attnviz.wording.numbers import Style
from attnviz.wording.sums import Sum
from attnviz.wording.words import listed

Vector = list[float]
NEARLY_UPRIGHT = 0.01  # cosines below: the angle reads 90° or nearly so


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
    if not multiplied(layer):
        raise AttnvizError(
            "the scores are given, not computed from a query and a key that --key could draw",
            "leave out --key",
        )


def score(here: Scene, key: int) -> Iterator[Section]:
    """The two vectors of one score, in the plane that both lie in."""
    pairs = [(head, *_vectors(here, head, key)) for head in here.written_heads]
    planes = tuple(_plane(here, head, query, other, key) for head, query, other in pairs)
    name = _names(here, key)[0]
    width = here.layer.head_dim
    yield Section(
        number="5",
        name="scores",
        title=_title(here, key),
        finding=_title(here, key),
        about=_about(here, key, planes),
        shapes=f"{name} [{width}] · {_names(here, key)[1]} [{width}] → score",
        formula="score = |query| |key| cos(angle)",
        tex=r"q \cdot k = |q| \, |k| \cos \theta",
        grids=tuple(_grid(here, head, query, other, key) for head, query, other in pairs),
        planes=planes,
        sums=tuple(line for pair in pairs for line in _sums(here, *pair, key)),
        remarks=_hidden(here, key),
    )


def _title(here: Scene, key: int) -> str:
    """`this · am = 2.16: the score is a dot product`; of several heads without a number."""
    pair = f"{here.query_name} · {here.name(here.keys, key)}"
    scores = here.layer.attended.scores[here.written_heads, here.followed, key].tolist()
    number = f" = {here.style.of(*scores)(scores[0])}" if len(scores) == 1 else ""
    return f"{pair}{number}: the score is a dot product"


def _vectors(here: Scene, head: int, key: int) -> tuple[Vector, Vector]:
    layer = here.layer
    keys = layer.keys_of_heads
    assert layer.queries is not None
    assert keys is not None
    return layer.queries[head, here.followed].tolist(), keys[head, key].tolist()


def _names(here: Scene, key: int, head: int | None = None) -> tuple[str, str]:
    """What both are called; of one head with its number, and a key with all that share it."""
    of_query, of_key = "", ""
    if head is not None:
        (sharing,) = here.groups(here.layer.kv_heads, [head]).values()
        of_query, of_key = here.of_head(head), here.of_group(sharing)
    return f"query{of_query}({here.query_name})", f"key{of_key}({here.name(here.keys, key)})"


def _grid(here: Scene, head: int, query: Vector, key: Vector, place: int) -> Grid:
    """Both vectors, one below the other: numbers in the same column are multiplied."""
    cells = unmasked(np.array([query, key]))
    rows = plain_axis("vector", _names(here, place))
    columns = axis_of(here.trace, here.layer, "width", len(query), head)
    title = here.titled("the two vectors", head)
    return Grid(title, rows, columns, cells, centred("value", cells), decimals=here.asked.digits)


def _plane(here: Scene, head: int, query: Vector, key: Vector, place: int) -> Plane:
    names, cosine = _names(here, place, head), cosine_of(query, key)
    first, second = (
        Arrow(name, length := length_of(vector), here.style.of(length)(length))
        for name, vector in zip(names, (query, key), strict=True)
    )
    title = f"head {head}" if here.layer.heads > 1 else ""
    return Plane(title, (first, second), cosine, _degrees(cosine, here.style))


def _degrees(cosine: float | None, style: Style) -> str:
    if cosine is None:
        return ""
    angle = math.degrees(math.acos(cosine))
    return f"{style.of(angle)(angle)}°"


def _about(here: Scene, key: int, planes: tuple[Plane, ...]) -> str:
    """What is drawn; and of one head alone what its angle says."""
    about = "The query and the key, drawn in one plane, with their true lengths and angle."
    if len(planes) > 1:
        return about
    score = here.row("scores", here.written_heads[0])[key]
    return f"{about} {_about_angle(planes[0], score)}"


def _about_angle(plane: Plane, score: float) -> str:
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
    if abs(cosine) < NEARLY_UPRIGHT:
        return (
            "They are nearly at right angles: the score is small compared with the product of "
            "their lengths."
        )
    side, sign = ("less", "above") if cosine > 0 else ("more", "below")
    return f"They are {side} than 90° apart, and the score is {sign} 0."


def _sums(here: Scene, head: int, query: Vector, key: Vector, place: int) -> Iterator[Sum]:
    """The score as a sum of products; lengths, cosine and angle; and the score made of them."""
    style, of_head = here.style, here.of_head(head)
    row = here.row("scores", head)
    left = f"score{of_head}({here.query_name}, {here.name(here.keys, place)})"
    yield sums.dot(left, query, key, row[place], style, style.of(*row))
    lengths = [length_of(query), length_of(key)]
    for name, vector, length in zip(_names(here, place, head), (query, key), lengths, strict=True):
        yield sums.length(f"|{name}|", vector, length, style)
    cosine = cosine_of(query, key)
    if cosine is not None:
        angle = math.degrees(math.acos(cosine))
        yield sums.cosine(f"cosine{of_head}", row[place], lengths, cosine, style)
        yield sums.angle(f"angle{of_head}", cosine, angle, style)
        yield sums.polar(left, lengths, cosine, row[place], style)


def _hidden(here: Scene, key: int) -> tuple[str, ...]:
    """What happens to a score that the mask hides."""
    mistake = MISTAKES.get(here.layer.mistake)
    hidden = [head for head in here.masks if key in here.masked_keys(head)]
    if not hidden or (mistake and not mistake.masked):
        return ()
    where = f"in {listed([f'head {head}' for head in hidden])} " if len(here.masks) > 1 else ""
    return (f"{where}the mask hides this key from this query: step 7 sets the score to −∞",)
