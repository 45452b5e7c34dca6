"""The steps of a transformer block: residuals, cross-attention, feed-forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from attnviz.attention.block import Block, FeedForwardStages, Norm, Residual
from attnviz.options.values import Activation, NormPlacement
from attnviz.traces import parts
from attnviz.traces.trace import Layer
from attnviz.views.attention_facts import has_learned_norm, is_normalised
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import parameter_count_suffix, parameters_origin_text
from attnviz.views.reading import token_axis
from attnviz.views.steps import attention_steps, score_steps, step_sums, vector_steps
from attnviz.views.steps.scene import Scene, parameter_count_text
from attnviz.views.steps.step_selection import STEPS
from attnviz.views.trace import tokens_grid

ACTIVATION_EFFECTS: dict[Activation, str] = {
    "relu": "negative numbers become 0",
    "gelu": "negative numbers are moved towards 0",
    "gelu-tanh": "negative numbers are moved towards 0, by a formula with tanh",
}
RESIDUAL_FORMULAS: dict[NormPlacement, tuple[str, str]] = {  # plain, and in TeX
    "post": ("outputs = LayerNorm(x + f(x))", r"\mathrm{LayerNorm}(x + f(x))"),
    "pre": ("outputs = x + f(LayerNorm(x))", r"x + f(\mathrm{LayerNorm}(x))"),
    "none": ("outputs = x + f(x)", "x + f(x)"),
}
SUBLAYER_PHRASES = {"feed-forward": "the feed-forward layer"}  # others are called by their names
CROSS_ATTENTION_STEPS = (  # without a mask: nothing of the second sentence is hidden
    vector_steps.projections_step,
    vector_steps.vectors_step,
    score_steps.scores_step,
    score_steps.scaling_step,
    score_steps.soft_cap_step,
    attention_steps.softmax_step,
    attention_steps.mixing_steps,
    attention_steps.weighted_values_step,
    attention_steps.context_step,
)


def steps_before_attention(scene: Scene) -> Iterator[Section]:
    """Yield the LayerNorm of attention's input in a pre-norm block; nothing in other layers."""
    block = scene.layer.block
    if block is not None and block.norm_placement == "pre":
        yield _pre_norm_step(scene, block.attention, "2b", "norm")


def steps_after_attention(scene: Scene) -> Iterator[Section]:
    """Yield the block's steps after attention, not yet numbered; nothing without a block.

    The last has a remark on how many parameters the layer has in all.
    """
    block = scene.layer.block
    if block is None:
        return
    steps = list(_sublayer_steps(scene, block))
    last_step = steps.pop()
    yield from steps
    yield replace(last_step, remarks=(*last_step.remarks, _parameter_total_note(scene, block)))


def _sublayer_steps(scene: Scene, block: Block) -> Iterator[Section]:
    """Yield the steps after attention: its residual, cross-attention and feed-forward, in order."""
    yield _residual_step(scene, block, block.attention, "attention")
    if scene.layer.cross is not None and block.cross is not None:
        if block.norm_placement == "pre":
            yield _pre_norm_step(scene, block.cross, "", "cross-norm")
        # A key of --key is one of the sentence's own.
        options = replace(scene.options, key=None)
        yield from _cross_attention_steps(replace(scene, layer=scene.layer.cross, options=options))
        yield _residual_step(scene, block, block.cross, "cross-attention")
    if block.feed_forward is None:
        return
    if block.norm_placement == "pre":
        yield _pre_norm_step(scene, block.feed_forward.residual, "", "feed-forward-norm")
    yield _feed_forward_step(scene, block, block.feed_forward)
    yield _residual_step(scene, block, block.feed_forward.residual, "feed-forward")


def _cross_attention_steps(scene: Scene) -> Iterator[Section]:
    """Yield the steps of attention to a second sentence; their names begin with `cross-`."""
    yield _memory_step(scene, scene.layer)
    for section in (section for make in CROSS_ATTENTION_STEPS for section in make(scene)):
        title = f"{section.title} (cross-attention)"
        yield replace(section, name=f"cross-{section.name}", title=title)


def _memory_step(scene: Scene, layer: Layer) -> Section:
    """Return the step that shows the tokens and vectors of the second sentence."""
    assert layer.memory is not None
    are_vectors_given = "memory" in scene.trace.layers[0].given
    rows = token_axis("token", scene.keys)
    return Section(
        *STEPS["memory"],
        about="A second sentence is read as well: queries come from the first, keys and values "
        f"from the second.{' Its vectors are given.' if are_vectors_given else ''}",
        shapes=f"memory {scene.size_text(layer.memory)}",
        grids=(
            tokens_grid("tokens of the memory", scene.keys, "token"),
            scene.grid("vectors of the memory", layer.memory, rows),
        ),
    )


def _residual_step(scene: Scene, block: Block, residual: Residual, sublayer: str) -> Section:
    """Return the step x + f(x), and in a post-norm block its LayerNorm.

    `sublayer` is 'attention', 'cross-attention' or 'feed-forward'.
    """
    rows, is_post_norm = token_axis("token", scene.trace.tokens), block.norm_placement == "post"
    grids = [scene.grid("sum", residual.added, rows, followed=True)]
    about = (
        f"Residual connection: the output of {SUBLAYER_PHRASES.get(sublayer, sublayer)} is added "
        "to its input, so it only has to compute a change."
    )
    if residual.norm is not None and is_post_norm:
        grids.append(scene.grid("normed", residual.outputs, rows, followed=True))
        about += f" {_norm_description(residual.outputs, residual.norm)}"
    sizes = scene.size_text(residual.inputs), scene.size_text(residual.sublayer_outputs)
    formula, tex = RESIDUAL_FORMULAS[block.norm_placement]
    return Section(
        number="",
        name=f"add-{sublayer}",
        title="add & norm" if is_post_norm else "add",
        about=about,
        shapes="input {} + sub-layer output {}".format(*sizes),
        formula=formula,
        tex=tex,
        grids=tuple(grids),
        sums=step_sums.residual_sums(scene, residual),
        remarks=(_gain_and_shift_note(scene, residual.inputs),) if is_post_norm else (),
    )


def _pre_norm_step(scene: Scene, residual: Residual, number: str, name: str) -> Section:
    """Return the LayerNorm step before a sub-layer in a pre-norm block; `name` is the step's."""
    assert residual.norm is not None
    vectors_before_and_after = (residual.inputs, residual.sublayer_inputs)
    return layer_norm_step(scene, vectors_before_and_after, residual.norm, number, name)


def layer_norm_step(
    scene: Scene, vector_pair: tuple[Tensor, Tensor], norm: Norm, number: str, name: str
) -> Section:
    """Return a LayerNorm step; `vector_pair` holds the vectors before and after the LayerNorm."""
    before, after = vector_pair
    rows, is_learned = token_axis("token", scene.trace.tokens), has_learned_norm(norm)
    formula = "normed = (x - mean) / √(variance + 1e-05)" + " · gain + shift" * is_learned
    tex = r"\frac{x - \mu}{\sqrt{\sigma^2 + 10^{-5}}}" + r" \, \gamma + \beta" * is_learned
    return Section(
        number=number,
        name=name,
        title="LayerNorm",
        about=_norm_description(after, norm),
        shapes=f"normed {scene.size_text(after)}",
        formula=formula,
        tex=tex,
        grids=(scene.grid("normed", after, rows, followed=True),),
        sums=step_sums.norm_sums(scene, before, after, norm),
        remarks=(_gain_and_shift_note(scene, before),),
    )


def _norm_description(outputs: Tensor, norm: Norm) -> str:
    """Describe LayerNorm; mean 0 and variance 1, gain and shift are mentioned only if true here."""
    about = "LayerNorm subtracts the mean from each vector and divides by √(variance + 1e-05)"
    if is_normalised(outputs, norm):
        about = "LayerNorm shifts and scales each vector to mean 0 and variance 1"
    if has_learned_norm(norm):
        about += "; then each number is multiplied by a gain, and a shift is added"
    return f"{about}."


def _gain_and_shift_note(scene: Scene, normed_vectors: Tensor) -> str:
    """Return how many numbers gain and shift have: `gain and shift: 2 × 8 = 16 numbers …`."""
    width, suffix = normed_vectors.shape[1], parameter_count_suffix(scene.trace)
    return f"gain and shift: 2 × {width} = {2 * width:,} numbers {suffix}"


def _feed_forward_step(scene: Scene, block: Block, feed_forward: FeedForwardStages) -> Section:
    """Return the step of the feed-forward layer: first matrix, activation, second matrix."""
    rows, activation = token_axis("token", scene.trace.tokens), feed_forward.parameters.activation
    residual, hidden = feed_forward.residual, feed_forward.hidden
    inputs, outputs = residual.sublayer_inputs, residual.sublayer_outputs
    function = activation.replace("-", "_")  # or it would read as a difference
    sizes = tuple(map(scene.size_text, (inputs, hidden, outputs)))
    width = inputs.shape[1]
    return Section(
        *STEPS["feed-forward"],
        about="For each token separately: a matrix "
        f"{_width_change_text(width, hidden.shape[1])}, {activation} is applied "
        f"({ACTIVATION_EFFECTS[activation]}), and a second matrix maps it back to width {width}."
        f"{_matrices_origin_note(scene)}",
        shapes="input {} → hidden {} → output {}".format(*sizes),
        formula=f"output = {function}(x W_1 + b_1) W_2 + b_2",
        tex=rf"\mathrm{{{function}}}(x W_1 + b_1) W_2 + b_2".replace("_tanh", r"\_tanh"),
        grids=(
            scene.grid("hidden", hidden, rows, side="hidden", followed=True),
            scene.grid("output", outputs, rows, followed=True),
        ),
        sums=step_sums.feed_forward_sums(scene, block),
        remarks=(
            parameter_count_text(
                scene, parts.learned_tensors(scene.trace, scene.layer, parts.PARTS_OF_BLOCK)
            ),
        ),
    )


def _matrices_origin_note(scene: Scene) -> str:
    """State which of the two feed-forward matrices were given; empty if both are random."""
    matrix_names = ("w_1", "w_2")
    given_names = [name for name in matrix_names if name in scene.layer.given]
    if len(given_names) == len(matrix_names):
        return f" Both {parameters_origin_text(scene.trace)}."
    if not given_names:
        return ""
    (random_name,) = (name for name in matrix_names if name not in given_names)
    return f" {given_names[0]} is given; {random_name} is random (set by the seed)."


def _width_change_text(width: int, hidden: int) -> str:
    """Return what the first matrix does to a vector of this width; `hidden` is the width it makes.

    >>> _width_change_text(8, 32), _width_change_text(8, 1), _width_change_text(8, 8)
    ('widens its vector to 32', 'narrows its vector to 1', 'maps its vector to another of width 8')
    """
    if width == hidden:
        return f"maps its vector to another of width {width}"
    return f"{'widens' if hidden > width else 'narrows'} its vector to {hidden}"


def _parameter_total_note(scene: Scene, block: Block) -> str:
    """Return how many parameters the layer has in all: projections, feed-forward and norms."""
    matrices = [
        matrix
        for layer in scene.layer.attention_layers
        for matrix in parts.learned_tensors(scene.trace, layer).values()
    ]
    matrices += parts.learned_tensors(scene.trace, scene.layer, parts.PARTS_OF_BLOCK).values()
    for residual in block.residuals.values():
        matrices += [residual.norm.gain, residual.norm.shift] if residual.norm else []
    count = sum(matrix.numel() for matrix in matrices)
    return f"in total, this layer has {count:,} numbers {parameter_count_suffix(scene.trace)}"
