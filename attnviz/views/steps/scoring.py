"""The steps from queries and keys to the scores that a softmax is taken of."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attnviz.views.facts import multiplied
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import told_of_preferences
from attnviz.views.steps import pair, sums, trained
from attnviz.views.steps.scene import Scene
from attnviz.wording.numbers import exact_text

ADDITIVE = (
    "A mask of numbers is added to the scores: the lower a number, the smaller its cell's weight "
    "after the softmax."
)


def scores(here: Scene) -> Iterator[Section]:
    """How well each query matches each key."""
    layer = here.layer
    if here.asked.key is not None:
        yield from pair.score(here, here.asked.key)
        return
    compared = here.trace.variant.compared and multiplied(layer)
    if layer.w_score is not None:
        yield _additive_scores(here, layer.w_score)
        return
    shapes = f"scores {here.size_of_weights}"
    if compared and layer.queries is not None and layer.keys is not None:
        keys = layer.keys.transpose(-2, -1)
        shapes = f"queries {here.size(layer.queries)} · keysᵀ {here.size(keys)} → {shapes}"
    yield Section(
        number="5",
        name="scores",
        title="scores",
        about=_about_scores(here),
        shapes=shapes,
        formula="scores = Q Kᵀ" if compared else "",
        tex=r"S = Q K^\top" if compared else "",
        grids=here.scores("scores", "scores", AXES_NOTE),
        sums=sums.scores(here, layer) if compared else (),
    )


def _additive_scores(here: Scene, w_score: Tensor) -> Section:
    layer = here.layer
    assert layer.queries is not None
    assert layer.keys is not None
    made_of = f"queries {here.size(layer.queries)} + keys {here.size(layer.keys)}"
    return Section(
        number="5",
        name="scores",
        title="scores",
        about="Each query is added to each key, and tanh limits every number to -1 to 1. The "
        "score is their sum weighted by w_score: the larger it is, the better query and key match.",
        shapes=f"{made_of}, w_score {here.size(w_score)} → scores {here.size_of_weights}",
        formula="score = w_score · tanh(query + key)",
        tex=r"S_{ij} = w \cdot \tanh(q_i + k_j)",
        grids=here.scores("scores", "scores", AXES_NOTE),
        sums=sums.additive_scores(here, layer),
    )


def _about_scores(here: Scene) -> str:
    if not here.trace.variant.compared:
        return "Queries and keys are not compared: every score is 0."
    if not multiplied(here.layer):
        return "The scores are given: how well each query matches each key."
    return (
        "Each score is the dot product of a query and a key: their numbers are multiplied in pairs "
        "and the products added. The larger the score, the better the two match."
    )


def scaling(here: Scene) -> Iterator[Section]:
    """Scores over the root of a head's width, and over the temperature."""
    divisors = sums.divisors(here, here.layer)
    yield Section(
        number="6",
        name="scaling",
        title="scaling",
        about=_about_scaling(here),
        shapes=f"scores {here.size_of_weights}",
        formula=f"scaled = {' / '.join(['scores', *divisors])}" if divisors else "",
        tex=_scaling_in_tex(here),
        grids=here.scores("scaled scores", "scaled scores") if divisors else (),
        sums=sums.scaling(here, here.layer) if divisors else (),
    )


def _about_scaling(here: Scene) -> str:
    variant = here.trace.variant
    hot = variant.temperature != 1
    if here.trace.trained is not None and not trained.by_root(here.layer):
        return trained.about_scaling(here.layer)
    if not variant.scaled and here.trace.trained is None:
        if hot:
            return f"Scores are divided by the temperature, here {exact_text(variant.temperature)}."
        return "The scores are not scaled."
    about = f"Scores are divided by √d_k, here √{here.layer.head_dim}"
    if here.layer.head_dim == 1:
        about += ", which is 1 and changes nothing."
    else:
        about += (
            ": sums of more products tend to be larger, and with large scores the softmax gives "
            "nearly all the weight to the largest."
        )
    also = f" They are also divided by the temperature, here {exact_text(variant.temperature)}."
    return about + also if hot else about


def _scaling_in_tex(here: Scene) -> str:
    variant = here.trace.variant
    if here.trace.trained is not None:
        by = trained.divisor(here.layer).replace("√", r"\sqrt ")
        return rf"\frac{{S}}{{{by}}}" if by else ""
    below = [rf"\sqrt{{{here.layer.head_dim}}}"] if variant.scaled else []
    below += [f"{exact_text(variant.temperature)}"] if variant.temperature != 1 else []
    divisor = r" \cdot ".join(below)
    return rf"\frac{{S}}{{{divisor}}}" if below else ""


def soft_cap(here: Scene) -> Iterator[Section]:
    """Scores limited by a cap."""
    cap = here.trace.variant.soft_cap
    if cap is None or here.layer.attended.capped_scores is None:
        return
    yield Section(
        number="6a",
        name="soft-cap",
        title="soft cap",
        about=f"tanh keeps scores between -{exact_text(cap)} and {exact_text(cap)}: the further a "
        "score is from 0, the more it is reduced.",
        shapes=f"scores {here.size_of_weights}",
        formula=f"capped = {exact_text(cap)} · tanh(score / {exact_text(cap)})",
        tex=rf"{exact_text(cap)} \tanh(S_{{ij}} / {exact_text(cap)})",
        grids=here.scores("capped scores", "capped scores"),
        sums=sums.soft_cap(here, here.layer),
    )


def alibi(here: Scene) -> Iterator[Section]:
    """What is subtracted from a score for distance."""
    bias, layer = here.layer.attended.bias, here.layer
    if bias is None:
        return
    if here.trace.trained is not None:
        if bias.any():  # T5 has one of zeros, between encoder and decoder
            yield trained.position_bias(here, bias, sums.position_bias(here, layer))
        return
    yield Section(
        number="6b",
        name="alibi",
        title="ALiBi",
        about=_about_alibi(here.layer.heads),
        shapes=f"scores {here.size_of_weights}",
        formula=f"biased = {here.stage_before('biased scores').split()[0]} - slope · distance",
        tex=r"S_{ij} - m\,|i - j|",
        grids=here.scores("biased scores", "biased scores"),
        sums=sums.alibi(here, here.layer),
    )


def _about_alibi(heads: int) -> str:
    about = (
        "A slope times the distance of its two tokens is subtracted from each score: nothing for "
        "the token itself, one slope for a neighbour, two for the next. Distant tokens count less"
    )
    return f"{about}; each head has its own slope." if heads > 1 else f"{about}."


def additive_mask(here: Scene) -> Iterator[Section]:
    """What a mask of numbers adds to scores."""
    added = here.layer.attended.mask
    if added is None:
        return
    yield Section(
        number="6c",
        name="additive-mask",
        title="additive mask",
        about=" ".join([ADDITIVE, *told_of_preferences(here.trace, here.layer, here.shown_heads)]),
        shapes=f"scores {here.size_of_weights} + mask {here.size(added)}",
        formula="scores + mask",
        tex=r"S_{ij} + M_{ij}",
        grids=here.scores("scores with mask", "scores with mask"),
        sums=sums.additive_mask(here, here.layer),
    )
