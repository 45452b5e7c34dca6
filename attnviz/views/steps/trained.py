"""What the steps say of a trained transformer: what it does itself, and what it learned.

Of how a model came by a number nothing is said that the numbers themselves do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.traces.settings import TURNED
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights_alone import refuse_weights_alone as of_weights
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.mask_shape import MaskShape, shape_of
from attnviz.views.reading import token_axis
from attnviz.views.steps.scene import Scene
from attnviz.wording.sums import Sum
from attnviz.wording.words import counted, in_brackets, isolated, listed

ONE_DISTANCE = 1e-5  # how far what is added may vary among equal distances, of the largest of it
EXACT = 1e-6  # relative: a factor that is so near to 1/√d_k is meant to be it
IN_ITS_OWN_WAY = "the model makes in a way of its own: they are shown as it made them."
NOT_KEPT = "The model's matrices make queries, keys and values; no file of a trace has them."
NOT_SCALED = "the model does not scale them"
SCALED_BEFORE = "if the model scales anything, it does so where it makes queries and keys"
WITH_A_SINK = (
    "Each row of scores becomes shares: exp of each over the sum of all in the row, and of a "
    "number that the model learned for each head, its sink. What the sink takes is lost: a row "
    "sums to less than 1."
)
AFTERWARDS = "what the model makes of these vectors next is not shown"
AHEAD = "No token may read the ones after it, as when a text is written."
BUT_FOR_ANSWERS = f"{AFTERWARDS}, but for its answers"


def refuse_weights_alone(trace: Trace) -> None:
    """There is no way to weights that a model handed back as they are, or that were given so."""
    of_weights(trace, "steps lead from vectors to weights, and on", "step")
    if trace.trained is not None and trace.trained.fallback:
        raise AttnvizError(
            f"the model '{trace.trained.name}' ({trace.trained.kind}) hands back weights "
            "alone: there are no steps on the way to them",
            "attnviz inspect shows the weights",
            about="model",
        )


def about_tokens(trace: Trace) -> str:
    """What the model's own tokenizer adds to a text, and where the model went on writing."""
    tokens, told = trace.tokens, ""
    added = dict.fromkeys(tokens.labels[place] for place in sorted(tokens.special))
    if trace.trained is not None and added:
        names = listed([f'"{isolated(label)}"' for label in added])
        told += f" {names} {'is' if len(added) == 1 else 'are'} added to them."
    if trace.prompt is not None and trace.prompt < len(tokens):
        last = len(tokens) - trace.prompt
        which = "The last token" if last == 1 else f"The last {counted(last, 'token')}"
        told += f" {which} the model wrote itself."
    return told


def inputs(here: Scene) -> Section:
    """What attention reads: in the first layer beside the embeddings, where it is not these."""
    entering, number = here.layer.inputs, here.layer.layer
    rows = token_axis("token", here.trace.tokens)
    grids = [here.grid("inputs", entering, rows)]
    about = f"What the attention of layer {number} reads of each token, after layer "
    about += f"{number - 1}."
    if not number:
        grids = [*_embeddings(here), *grids]
        about = _about_embeddings(here)
    if here.layer.key_inputs is not None:
        keys = token_axis("token", here.keys)
        grids.append(here.grid("vectors of the keys", here.layer.key_inputs, keys))
        about += " Keys and values are made of what the encoder made of its own text: Y."
    return Section(
        number="2",
        name="inputs" if number else "embeddings",
        title="inputs" if number else "embeddings",
        about=about,
        shapes=f"inputs {here.size(entering)}",
        grids=tuple(grids),
        remarks=() if number else _table_of_embeddings(here),
    )


def _embeddings(here: Scene) -> list[Grid]:
    rows = token_axis("token", here.trace.tokens)
    return [] if _as_they_are(here) else [here.grid("embeddings", here.trace.embeddings, rows)]


def _as_they_are(here: Scene) -> bool:
    """Whether attention reads the embeddings themselves."""
    embeddings, entering = here.trace.embeddings, here.layer.inputs
    return embeddings.shape == entering.shape and torch.equal(embeddings, entering)


def _about_embeddings(here: Scene) -> str:
    about = (
        "Each id stands for a row of numbers, its embedding: the same for a token everywhere. "
        "They were learned."
    )
    if _as_they_are(here):
        return about
    return f"{about} The inputs are what attention reads in their place."


def _table_of_embeddings(here: Scene) -> tuple[str, ...]:
    ids, width = here.trace.vocabulary, here.trace.embeddings.shape[1]
    if not ids:
        return ()
    numbers = f"{ids:,} × {width} = {ids * width:,} numbers that were learned"
    return (f"the table for all {ids:,} ids has {numbers}",)


def unknown_origin(layer: Layer, names: Sequence[str]) -> str:
    """Of which vectors no matrix was recognised, or none is kept."""
    if layer.projections is None and not {*names} <= layer.given:
        return NOT_KEPT
    unknown = [name for name in names if name in layer.given]
    return f"{listed(unknown).capitalize()} {IN_ITS_OWN_WAY}" if unknown else ""


def matrix_of_head(here: Scene, name: str, matrix: Tensor, head: int) -> Grid:
    """Of a matrix, or a bias, the columns that make the vectors of one head."""
    count = here.layer.heads if name.endswith("query") else here.layer.kv_heads
    ((place, heads),) = here.groups(count, [head]).items()
    width = matrix.shape[-1] // count
    columns = matrix[..., place * width : (place + 1) * width]
    return replace(here.matrix(name, columns), title=here.titled_group(name, heads))


def about_turning(trace: Trace) -> str:
    """Of rotary positions whose angles are no powers of one base, or not of all numbers."""
    if trace.trained is None or trace.positions in TURNED:
        return ""
    return (
        "The model turns queries and keys in a way of its own: at the first position they stay as "
        "they are, and at every other as long as they are."
    )


def by_root(layer: Layer) -> bool:
    """Whether scores are divided by the square root of a head's width."""
    return abs(layer.scale * sqrt(layer.head_dim) - 1) < EXACT


def divisor(layer: Layer) -> str:
    """What scores are divided by, as it is written; nothing where nothing scales them."""
    if by_root(layer):
        return f"√{layer.head_dim}"
    return "" if layer.scale == 1 else f"{1 / layer.scale:.6g}"


def about_scaling(layer: Layer) -> str:
    """Of a model that divides scores by another number than the root of a head's width."""
    if not divisor(layer):
        unknown = {"queries", "keys"} & layer.given
        return f"Scores stay as they are: {SCALED_BEFORE if unknown else NOT_SCALED}."
    return (
        f"The model divides scores by {divisor(layer)}, a number of its own, in place of "
        f"√{layer.head_dim}."
    )


def about_mask(here: Scene) -> str:
    """What each token may read, as the mask has it."""
    visible = here.layer.visible
    if bool(visible.all()):
        return ""
    shape = shape_of(visible)
    if here.keys is here.trace.tokens and shape.named:
        return " ".join(filter(None, (AHEAD if shape.causal else "", _how_far(shape))))
    if visible.ndim == 3:
        return "What each token may read the model decides, in each head on its own."
    return "What each token may read the model decides."


def _how_far(shape: MaskShape) -> str:
    if shape.window is not None:
        return f"A token reads only what is less than {counted(shape.window, 'place')} away."
    return "" if shape.chunk is None else (
        f"A token reads only what is in its own chunk of {counted(shape.chunk, 'token')}."
    )  # fmt: skip


def position_bias(here: Scene, bias: Tensor, sums: tuple[Sum, ...]) -> Section:
    """What a model adds to each score."""
    before = here.stage_before("biased scores").split()[0]
    return Section(
        number="6b",
        name="position-bias",
        title="position bias",
        about=_about_bias(here, bias),
        shapes=f"scores {here.size_of_weights} + bias {in_brackets(*bias.shape)}",
        formula=f"biased = {before} + bias",
        tex=r"S_{ij} + B_{ij}",
        grids=here.scores("biased scores", "biased scores"),
        sums=sums,
    )


def _about_bias(here: Scene, bias: Tensor) -> str:
    own = bias.ndim == 3 and not torch.equal(bias, bias[:1].expand_as(bias))
    about = f"To each score the model adds a number{', another in each head' if own else ''}"
    if here.keys is not here.trace.tokens or not _by_distance(bias):
        return f"{about}."
    return f"{about}. It depends on nothing but how far the key stands before or after the query."


def _by_distance(bias: Tensor) -> bool:
    """Whether the same stands on each diagonal."""
    apart = (bias[..., 1:, 1:] - bias[..., :-1, :-1]).abs()
    return apart.numel() > 0 and bool((apart <= ONE_DISTANCE * bias.abs().max()).all())
