"""The steps that a transformer block adds: residuals, attention to memory, feed-forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attnviz.attention.block import Block, Residual
from attnviz.views import trace as trace_grids
from attnviz.views.grids.grids import Section
from attnviz.views.steps import attention as ten
from attnviz.views.steps import sums
from attnviz.views.steps.scene import Scene, count_of
from attnviz.views.trace import token_axis


def after_attention(here: Scene) -> Iterator[Section]:
    """What follows the ten steps, in its order, not yet numbered."""
    block = here.layer.block
    assert block is not None
    yield _added(here, block, block.attention, "attention")
    if here.layer.cross is not None and block.cross is not None:
        if block.place == "pre":
            yield ten.norm_before(here, block.cross, "", "cross-norm")
        yield from _crossed(replace(here, layer=here.layer.cross))
        yield _added(here, block, block.cross, "cross-attention")
    if block.place == "pre":
        yield ten.norm_before(here, block.feed_forward, "", "feed-forward-norm")
    yield _feed_forward(here, block)
    last = _added(here, block, block.feed_forward, "feed-forward")
    yield replace(last, remarks=(*last.remarks, _all(here, block)))


def _crossed(here: Scene) -> Iterator[Section]:
    """The steps of attention to a second sentence, where nothing is hidden."""
    yield _memory(here)
    steps = (ten.projections, ten.vectors, ten.scores, ten.scaling, ten.softmax, ten.mixing,
             ten.weighted, ten.context)  # fmt: skip
    for section in (section for make in steps for section in make(here)):
        title = f"{section.title} (cross-attention)"
        yield replace(section, name=f"cross-{section.name}", title=title)


def _memory(here: Scene) -> Section:
    layer = here.layer
    assert layer.memory is not None
    rows = token_axis("token", here.keys)
    return Section(
        "", "memory", "memory",
        "A second sentence is read, too: queries come from the first, keys and values from it.",
        shapes=f"memory {here.size(layer.memory)}",
        grids=(trace_grids.tokens_grid("tokens of the memory", here.keys, "token"),
               here.grid("vectors of the memory", layer.memory, rows)),
    )  # fmt: skip


def _added(here: Scene, block: Block, around: Residual, of: str) -> Section:
    rows = token_axis("token", here.trace.tokens)
    post = block.place == "post"
    grids = [here.grid("sum", around.added, rows, followed=True)]
    about = f"What {of} made is added to what went in, so that nothing is lost on the way."
    if post:
        grids.append(here.grid("normed", around.outputs, rows, followed=True))
        about += " LayerNorm moves each vector to a mean of 0 and stretches it to a variance of 1."
    width = around.inputs.shape[1]
    return Section(
        "", f"add-{of}", "add & norm" if post else "add", about,
        shapes=f"inputs {here.size(around.inputs)} + made {here.size(around.made)}",
        formula="outputs = LayerNorm(x + f(x))" if post else "outputs = x + f(LayerNorm(x))",
        tex=r"\mathrm{LayerNorm}(x + f(x))" if post else r"x + f(\mathrm{LayerNorm}(x))",
        grids=tuple(grids), sums=sums.added(here, around),
        remarks=(f"gain and shift: 2 × {width} = {2 * width:,} numbers to learn",) if post else (),
    )  # fmt: skip


def _feed_forward(here: Scene, block: Block) -> Section:
    rows, given = token_axis("token", here.trace.tokens), block.parameters
    hidden = given.w_1.shape[1]
    bend = {"relu": "what is below 0 becomes 0", "gelu": "what is below 0 fades out"}
    return Section(
        "", "feed-forward", "feed-forward",
        f"Each token by itself: a matrix widens its vector to {hidden}, {given.activation} bends "
        f"it ({bend[given.activation]}), and a second matrix brings it back.",
        shapes=f"read {here.size(block.feed_forward.read)} → hidden {here.size(block.hidden)} → "
        f"made {here.size(block.feed_forward.made)}",
        formula=f"made = {given.activation}(x W_1 + b_1) W_2 + b_2",
        tex=rf"\mathrm{{{given.activation}}}(x W_1 + b_1) W_2 + b_2",
        grids=(here.grid("hidden", block.hidden, rows, followed=True),
               here.grid("made", block.feed_forward.made, rows, followed=True)),
        sums=sums.fed_forward(here, block),
        remarks=(count_of({name: getattr(given, name) for name in ("w_1", "b_1", "w_2", "b_2")}),),
    )  # fmt: skip


def _all(here: Scene, block: Block) -> str:
    """How many numbers a layer has to learn in all."""
    names = ("w_query", "w_key", "w_value", "w_out", "b_query", "b_key", "b_value", "b_out")
    matrices = [getattr(each.projections, name, None) for each in here.layer.attentions
                for name in names]  # fmt: skip
    parameters = block.parameters
    matrices += [parameters.w_1, parameters.b_1, parameters.w_2, parameters.b_2]
    matrices += [
        each for around in block.residuals for each in (around.norm.gain, around.norm.shift)
    ]
    count = sum(each.numel() for each in matrices if each is not None)
    return f"in all this layer has {count:,} numbers to learn"
