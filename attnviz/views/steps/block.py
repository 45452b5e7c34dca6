"""The steps that a transformer block adds: residuals, attention to memory, feed-forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from attnviz.attention.block import Block, Fed, Norm, Residual
from attnviz.attention.variants import Activation, Place
from attnviz.traces import parts
from attnviz.traces.trace import Layer
from attnviz.views.facts import learned, normalised
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import are_given, to_learn
from attnviz.views.reading import token_axis
from attnviz.views.steps import attention, scoring, sums, vectors
from attnviz.views.steps.scene import Scene, count_of
from attnviz.views.trace import tokens_grid

ACTIVATIONS: dict[Activation, str] = {
    "relu": "negative numbers become 0",
    "gelu": "negative numbers are moved towards 0",
    "gelu-tanh": "negative numbers are moved towards 0, by a formula with tanh",
}
# What comes out of a residual, for terminal and Markdown; by where the norm stands.
OUTPUTS: dict[Place, tuple[str, str]] = {
    "post": ("outputs = LayerNorm(x + f(x))", r"\mathrm{LayerNorm}(x + f(x))"),
    "pre": ("outputs = x + f(LayerNorm(x))", r"x + f(\mathrm{LayerNorm}(x))"),
    "none": ("outputs = x + f(x)", "x + f(x)"),
}
SUBLAYERS = {
    "attention": "attention",
    "cross-attention": "cross-attention",
    "feed-forward": "the feed-forward layer",
}
CROSS_ATTENTION = (  # to a second sentence, of which nothing is hidden
    vectors.projections,
    vectors.vectors,
    scoring.scores,
    scoring.scaling,
    scoring.soft_cap,
    attention.softmax,
    attention.mixing,
    attention.weighted,
    attention.context,
)


def before_attention(here: Scene) -> Iterator[Section]:
    """LayerNorm of what attention reads, in a pre-norm block."""
    block = here.layer.block
    if block is not None and block.place == "pre":
        yield _norm(here, block.attention, "2b", "norm")


def after_attention(here: Scene) -> Iterator[Section]:
    """What follows the ten steps, in its order, not yet numbered."""
    block = here.layer.block
    if block is None:
        return
    steps = list(_after_attention(here, block))
    last = steps.pop()
    yield from steps
    yield replace(last, remarks=(*last.remarks, _all_to_learn(here, block)))


def _after_attention(here: Scene, block: Block) -> Iterator[Section]:
    yield _added(here, block, block.attention, "attention")
    if here.layer.cross is not None and block.cross is not None:
        if block.place == "pre":
            yield _norm(here, block.cross, "", "cross-norm")
        # A key of --key is one of the sentence's own.
        asked = replace(here.asked, key=None)
        yield from _crossed(replace(here, layer=here.layer.cross, asked=asked))
        yield _added(here, block, block.cross, "cross-attention")
    if block.fed is None:
        return
    if block.place == "pre":
        yield _norm(here, block.fed.residual, "", "feed-forward-norm")
    yield _feed_forward(here, block, block.fed)
    yield _added(here, block, block.fed.residual, "feed-forward")


def _crossed(here: Scene) -> Iterator[Section]:
    """The steps of attention to a second sentence."""
    yield _memory(here, here.layer)
    for section in (section for make in CROSS_ATTENTION for section in make(here)):
        title = f"{section.title} (cross-attention)"
        yield replace(section, name=f"cross-{section.name}", title=title)


def _memory(here: Scene, layer: Layer) -> Section:
    assert layer.memory is not None
    given = "memory" in here.trace.layers[0].given
    rows = token_axis("token", here.keys)
    return Section(
        number="",
        name="memory",
        title="memory",
        about="A second sentence is read as well: queries come from the first, keys and values "
        f"from the second.{' Its vectors are given.' if given else ''}",
        shapes=f"memory {here.size(layer.memory)}",
        grids=(
            tokens_grid("tokens of the memory", here.keys, "token"),
            here.grid("vectors of the memory", layer.memory, rows),
        ),
    )


def _added(here: Scene, block: Block, residual: Residual, of: str) -> Section:
    """x + f(x), and LayerNorm of it where that comes after."""
    rows, post = token_axis("token", here.trace.tokens), block.place == "post"
    grids = [here.grid("sum", residual.added, rows, followed=True)]
    about = (
        f"Residual connection: the output of {SUBLAYERS[of]} is added to its input, so it only has "
        "to compute a change."
    )
    if residual.norm is not None and post:
        grids.append(here.grid("normed", residual.outputs, rows, followed=True))
        about += f" {_about_norm(residual.outputs, residual.norm)}"
    inputs, made = here.size(residual.inputs), here.size(residual.sublayer_outputs)
    return Section(
        number="",
        name=f"add-{of}",
        title="add & norm" if post else "add",
        about=about,
        shapes=f"input {inputs} + sub-layer output {made}",
        formula=OUTPUTS[block.place][0],
        tex=OUTPUTS[block.place][1],
        grids=tuple(grids),
        sums=sums.added(here, residual),
        remarks=(_gain_and_shift(here, residual.inputs),) if post else (),
    )


def _norm(here: Scene, residual: Residual, number: str, name: str) -> Section:
    """LayerNorm of what a sub-layer reads, in a pre-norm block."""
    assert residual.norm is not None
    return normed(here, (residual.inputs, residual.sublayer_inputs), residual.norm, number, name)


def normed(
    here: Scene, vectors: tuple[Tensor, Tensor], norm: Norm, number: str, name: str
) -> Section:
    """LayerNorm of vectors: as they were, and as they are then."""
    before, after = vectors
    rows, own = token_axis("token", here.trace.tokens), learned(norm)
    tex = r"\frac{x - \mu}{\sqrt{\sigma^2 + 10^{-5}}}"
    return Section(
        number=number,
        name=name,
        title="LayerNorm",
        about=_about_norm(after, norm),
        shapes=f"normed {here.size(after)}",
        formula=f"normed = (x - mean) / √(variance + 1e-05){' · gain + shift' if own else ''}",
        tex=tex + (r" \, \gamma + \beta" if own else ""),
        grids=(here.grid("normed", after, rows, followed=True),),
        sums=sums.normed(here, before, after, norm),
        remarks=(_gain_and_shift(here, before),),
    )


def _about_norm(made: Tensor, norm: Norm) -> str:
    """What LayerNorm does; mean 0 and variance 1 are said only where they hold."""
    about = "LayerNorm subtracts the mean from each vector and divides by √(variance + 1e-05)"
    if normalised(made, norm):
        about = "LayerNorm shifts and scales each vector to mean 0 and variance 1"
    own = "; then each number is multiplied by a gain, and a shift is added" * learned(norm)
    return f"{about}{own}."


def _gain_and_shift(here: Scene, vectors: Tensor) -> str:
    width = vectors.shape[1]
    return f"gain and shift: 2 × {width} = {2 * width:,} numbers {to_learn(here.trace)}"


def _feed_forward(here: Scene, block: Block, fed: Fed) -> Section:
    rows, activation = token_axis("token", here.trace.tokens), fed.parameters.activation
    made = fed.residual
    function = activation.replace("-", "_")  # or it would read as a difference
    sizes = [here.size(each) for each in (made.sublayer_inputs, fed.hidden, made.sublayer_outputs)]
    widths = made.sublayer_inputs.shape[1], fed.hidden.shape[1]
    return Section(
        number="",
        name="feed-forward",
        title="feed-forward",
        about=f"For each token separately: a matrix {_widens(*widths)}, {activation} is applied "
        f"({ACTIVATIONS[activation]}), and a second matrix maps it back to width {widths[0]}."
        f"{_given(here)}",
        shapes="input {} → hidden {} → output {}".format(*sizes),
        formula=f"output = {function}(x W_1 + b_1) W_2 + b_2",
        tex=rf"\mathrm{{{function}}}(x W_1 + b_1) W_2 + b_2".replace("_tanh", r"\_tanh"),
        grids=(
            here.grid("hidden", fed.hidden, rows, side="hidden", followed=True),
            here.grid("output", made.sublayer_outputs, rows, followed=True),
        ),
        sums=sums.fed_forward(here, block),
        remarks=(count_of(here, parts.learned_in_block(here.trace, here.layer)),),
    )


def _given(here: Scene) -> str:
    """Where the matrices come from, if one was given."""
    both = ("w_1", "w_2")
    given = [name for name in both if name in here.layer.given]
    if len(given) == len(both):
        return f" Both {are_given(here.trace)}."
    drawn = [name for name in both if name not in given]
    return f" {given[0]} is given; {drawn[0]} is random (set by the seed)." if given else ""


def _widens(width: int, hidden: int) -> str:
    """
    >>> _widens(8, 32), _widens(8, 1), _widens(8, 8)
    ('widens its vector to 32', 'narrows its vector to 1', 'maps its vector to another of width 8')
    """
    if width == hidden:
        return f"maps its vector to another of width {width}"
    return f"{'widens' if hidden > width else 'narrows'} its vector to {hidden}"


def _all_to_learn(here: Scene, block: Block) -> str:
    """How many parameters the layer has in all."""
    matrices = [
        each
        for layer in here.layer.attentions
        for each in parts.learned(here.trace, layer).values()
    ]
    matrices += parts.learned_in_block(here.trace, here.layer).values()
    for residual in block.residuals.values():
        matrices += [residual.norm.gain, residual.norm.shift] if residual.norm else []
    count = sum(each.numel() for each in matrices)
    return f"in total, this layer has {count:,} numbers {to_learn(here.trace)}"
