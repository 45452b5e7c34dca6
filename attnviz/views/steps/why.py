"""Why a token attends to what it does, for heads whose dimensions have names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from attnviz.cells import unmasked
from attnviz.traces.weights import array
from attnviz.views.grids.axes import named_dimensions
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import names_of, sentence_of
from attnviz.views.reading import token_axis
from attnviz.views.steps import sums
from attnviz.views.steps.scene import Scene
from attnviz.wording.numbers import percent
from attnviz.wording.sums import TERMS
from attnviz.wording.words import listed, sentence

ABOUT = (
    "Each number of a query says how strongly the token asks for something; the same number of a "
    "key says how strongly a token is found by it."
)
WRITTEN_OUT = "(--query TOKEN shows what that token asks for)"
LEAST = 0.005  # smaller weights are left out


def why(here: Scene) -> Iterator[Section]:
    """What each head looks for, and which of its features a query and its keys have."""
    layer, asked = here.layer, here.asked.query is not None
    if not names_of(here.trace, layer, "width") or layer.queries is None or layer.keys is None:
        return
    yield Section(
        number="8a",
        name="why",
        title="why these weights",
        about=" ".join([ABOUT, *_sentences(here)]),
        grids=tuple(_meeting(here, head) for head in _asking(here)) if asked else (),
        sums=sums.matches(here, layer),
        remarks=tuple(_told(here)) if asked else (WRITTEN_OUT,),
    )


def _asking(here: Scene) -> Iterator[int]:
    """The heads in which the followed token asks for anything."""
    return (head for head in here.written_heads if _vectors(here, head)[0].any())


def _sentences(here: Scene) -> Iterator[str]:
    """`In head 0, a word that refers back looks for a noun before it.`"""
    for head in here.shown_heads:
        said = sentence_of(here.trace, here.layer, head)
        if said:
            yield f"In head {head}, {said}." if here.layer.heads > 1 else sentence(said)


def _meeting(here: Scene, head: int) -> Grid:
    """The products of the followed query's numbers and each key's, before they are added up."""
    query, keys = _vectors(here, head)
    cells = unmasked(keys * query)
    return Grid(
        here.titled(f"{here.query_name} times each key", head),
        token_axis("key", here.keys),
        named_dimensions(names_of(here.trace, here.layer, "width", head)),
        cells,
        centred("score", cells),
        decimals=here.asked.digits,
    )


def _vectors(
    here: Scene, head: int
) -> tuple[Float[np.ndarray, "width"], Float[np.ndarray, "key width"]]:
    queries, keys = here.layer.queries, here.layer.keys_of_heads
    assert queries is not None
    assert keys is not None
    return array(queries[head, here.followed]), array(keys[head])


def _told(here: Scene) -> Iterator[str]:
    """What the followed token asks for in each head, and what the tokens it reads are found by."""
    for head in here.written_heads:
        query, keys = _vectors(here, head)
        of_head, name = f"head {head}: " if here.layer.heads > 1 else "", here.query_name
        asks, weights = _amounts(here, head, query), here.row("weights", head)
        yield f'{of_head}"{name}" asks for {asks or "nothing, so every score is 0"}'
        for key in _most_read(weights) if asks else ():
            has = _amounts(here, head, keys[key])
            other, weight = here.name(here.keys, key), percent(weights[key])
            yield f'{of_head}"{other}" ({weight}) is found by {has or "nothing"}'


def _most_read(weights: Sequence[float]) -> list[int]:
    """The keys with weights worth mentioning, the largest first."""
    order = np.argsort(-np.asarray(weights), kind="stable")[:TERMS].tolist()
    return [key for key in order if weights[key] >= LEAST]


def _amounts(here: Scene, head: int, vector: Float[np.ndarray, "width"]) -> str:
    """`animal 14, place 8 and singular 6`: the numbers that are not 0, by name."""
    numbers: list[float] = vector.tolist()
    names, write = names_of(here.trace, here.layer, "width", head), here.style.of(*numbers)
    pairs = zip(names, numbers, strict=True)
    there = [f"{name} {write(number)}" for name, number in pairs if number]
    return listed(there) if there else ""
