"""The steps from queries and keys to the scores that the softmax receives."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from attnviz.cells import FULL_SLICE
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.section import Section
from attnviz.views.head_vectors import (
    divisor_text,
    divisor_texts,
    is_scaled_by_root,
    temperature_text,
)
from attnviz.views.origin_words import preferences_text, sentences_by_heads
from attnviz.views.steps import pair, step_sums, trained
from attnviz.views.steps.scene import Scene
from attnviz.views.steps.step_selection import STEPS
from attnviz.wording.numbers import exact_text

MIN_LARGE_SCORE = 1.0  # below it, a softmax is nearly even with and without scaling
ADDITIVE_MASK_DESCRIPTION = (
    "A mask of numbers is added to the scores: the lower a number, the smaller its cell's weight "
    "after the softmax."
)


def scores_step(scene: Scene) -> Iterator[Section]:
    """Yield the step with the scores: how well each query matches each key.

    With --key, it draws the one score of that key; additive and given scores are described as such.
    """
    layer, formula, tex = scene.layer, "", ""
    if scene.options.key is not None:
        yield from pair.score_pair_step(scene, scene.options.key)
        return
    shapes = f"scores {scene.weights_size_text}"
    if layer.w_score is not None:
        assert layer.queries is not None
        assert layer.keys is not None
        sizes = map(scene.size_text, (layer.queries, layer.keys, layer.w_score))
        shapes = "queries {} + keys {}, w_score {} → {}".format(*sizes, shapes)
        formula, tex = "score = w_score · tanh(query + key)", r"S_{ij} = w \cdot \tanh(q_i + k_j)"
    elif scene.trace.variant.compared and layer.has_product_scores:
        formula, tex = "scores = Q Kᵀ", r"S = Q K^\top"
        if layer.queries is not None and layer.keys is not None:
            sizes = map(scene.size_text, (layer.queries, layer.keys.transpose(-2, -1)))
            shapes = "queries {} · keysᵀ {} → {}".format(*sizes, shapes)
    yield Section(
        *STEPS["scores"],
        about=_scores_description(scene),
        shapes=shapes,
        formula=formula,
        tex=tex,
        grids=scene.score_grids("scores", "scores", AXES_NOTE),
        sums=step_sums.score_sums(scene, layer) if formula else (),
    )


def _scores_description(scene: Scene) -> str:
    """Return what a score is: a dot product, additive, given, or always 0 because nothing is
    compared.
    """
    if scene.layer.w_score is not None:
        return (
            "Each query is added to each key, and tanh limits every number to -1 to 1. The score "
            "is their sum weighted by w_score: the larger it is, the better query and key match."
        )
    if not scene.trace.variant.compared:
        return "Queries and keys are not compared: every score is 0."
    if not scene.layer.has_product_scores:
        return "The scores are given: how well each query matches each key."
    return (
        "Each score is the dot product of a query and a key: their numbers are multiplied in pairs "
        "and the products added. The larger the score, the better the two match."
    )


def scaling_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that divides scores by √d_k and the temperature; tables only if it does."""
    divisors = divisor_texts(scene.trace, scene.layer)
    yield Section(
        *STEPS["scaling"],
        about=_scaling_description(scene),
        shapes=f"scores {scene.weights_size_text}",
        formula=f"scaled = {' / '.join(['scores', *divisors])}" if divisors else "",
        tex=_scaling_tex(scene),
        grids=scene.score_grids("scaled scores", "scaled scores") if divisors else (),
        sums=step_sums.scaling_sums(scene, scene.layer) if divisors else (),
    )


def _scaling_description(scene: Scene) -> str:
    """Return what scores are divided by and why, or that they are not scaled."""
    variant = scene.trace.variant
    has_temperature = variant.temperature != 1
    if scene.trace.trained is not None and not is_scaled_by_root(scene.layer):
        return trained.own_scaling_text(scene.layer)
    if not variant.scaled and scene.trace.trained is None:
        if has_temperature:
            temperature = temperature_text(variant.temperature)
            return f"Scores are divided by the temperature, here {temperature}."
        return "The scores are not scaled."
    about = f"Scores are divided by √d_k, here √{scene.layer.head_dim}"
    if scene.layer.head_dim == 1:
        about += ", which is 1 and changes nothing."
    elif _has_large_scores(scene):
        about += (
            ": sums of more products tend to be larger, and with large scores the softmax gives "
            "nearly all the weight to the largest."
        )
    else:
        about += "."
    if has_temperature:
        temperature = temperature_text(variant.temperature)
        about += f" They are also divided by the temperature, here {temperature}."
    return about


def _has_large_scores(scene: Scene) -> bool:
    """Whether any score that is shown is so large that scaling matters to the softmax."""
    cells = [scene.layer.weights.cells("scores", head) for head in scene.shown_heads]
    if scene.options.query is None:
        scores = [each.window(FULL_SLICE, FULL_SLICE).values for each in cells]
    else:
        scores = [each.row(scene.followed_query).values for each in cells]
    return max(float(np.nanmax(np.abs(each))) for each in scores) >= MIN_LARGE_SCORE


def _roots_in_tex(text: str) -> str:
    r"""Return a text with roots in TeX: `\sqrt{64}` for `√64`."""
    return re.sub(r"√(\d+)", r"\\sqrt{\1}", text)


def _scaling_tex(scene: Scene) -> str:
    """Return the division in TeX; empty without scaling."""
    variant = scene.trace.variant
    if scene.trace.trained is not None:
        root_tex = _roots_in_tex(divisor_text(scene.layer))
        return rf"\frac{{S}}{{{root_tex}}}" if root_tex else ""
    factors = [rf"\sqrt{{{scene.layer.head_dim}}}"] if variant.scaled else []
    temperature_tex = _roots_in_tex(temperature_text(variant.temperature))
    factors += [temperature_tex] if variant.temperature != 1 else []
    divisor = r" \cdot ".join(factors)
    return rf"\frac{{S}}{{{divisor}}}" if factors else ""


def soft_cap_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that limits scores by tanh; nothing without a soft cap."""
    if scene.trace.variant.soft_cap is None or scene.layer.attended.capped_scores is None:
        return
    cap = exact_text(scene.trace.variant.soft_cap)
    yield Section(
        *STEPS["soft-cap"],
        about=f"tanh keeps scores between -{cap} and {cap}: the further a score is from 0, the "
        "more it is reduced.",
        shapes=f"scores {scene.weights_size_text}",
        formula=f"capped = {cap} · tanh(score / {cap})",
        tex=rf"{cap} \tanh(S_{{ij}} / {cap})",
        grids=scene.score_grids("capped scores", "capped scores"),
        sums=step_sums.soft_cap_sums(scene, scene.layer),
    )


def alibi_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that adds ALiBi's distance penalty or a model's learned position bias.

    Nothing without either, or if the learned bias is 0 everywhere.
    """
    bias = scene.layer.attended.bias
    if bias is None:
        return
    if scene.trace.trained is not None:
        if bias.any():  # T5 has a bias of zeros between encoder and decoder
            sums = step_sums.addition_sums(scene, "biased scores", bias)
            yield trained.position_bias_step(scene, bias, sums)
        return
    yield Section(
        *STEPS["alibi"],
        about=_alibi_description(scene.layer.heads),
        shapes=f"scores {scene.weights_size_text}",
        formula=f"biased = {scene.stage_before('biased scores').split()[0]} - slope · distance",
        tex=r"S_{ij} - m\,|i - j|",
        grids=scene.score_grids("biased scores", "biased scores"),
        sums=step_sums.alibi_sums(scene, scene.layer),
    )


def _alibi_description(heads: int) -> str:
    about = (
        "A slope times the distance of its two tokens is subtracted from each score: nothing for "
        "the token itself, one slope for a neighbour, two for the next. Distant tokens count less"
    )
    return f"{about}; each head has its own slope." if heads > 1 else f"{about}."


def additive_mask_step(scene: Scene) -> Iterator[Section]:
    """Yield the step that adds a mask of numbers to the scores; nothing without such a mask."""
    mask = scene.layer.attended.mask
    if mask is None:
        return
    texts = sentences_by_heads(scene.trace, scene.layer, scene.shown_heads, preferences_text)
    yield Section(
        *STEPS["additive-mask"],
        about=" ".join([ADDITIVE_MASK_DESCRIPTION, *texts]),
        shapes=f"scores {scene.weights_size_text} + mask {scene.size_text(mask)}",
        formula="scores + mask",
        tex=r"S_{ij} + M_{ij}",
        grids=scene.score_grids("scores with mask", "scores with mask"),
        sums=step_sums.addition_sums(scene, "scores with mask", mask),
    )
