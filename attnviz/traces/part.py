"""One part of a Trace: what people call it, what its sides count, and how it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from attnviz.traces.settings import ADDED

if TYPE_CHECKING:  # --help lists the names of parts, and needs no torch
    from torch import Tensor

    from attnviz.attention.block import Block, Residual
    from attnviz.traces.models.prediction import Prediction, Scoring
    from attnviz.traces.trace import Layer, Trace
    from attnviz.traces.weights import Stage

    Find = Callable[[Trace, Layer], Tensor | None]


@dataclass(frozen=True)
class Part:
    """One part: what people call it, what its sides count, and the names that it goes by."""

    words: str
    sides: str  # "head token key"; what has a side for heads may be given without it
    find: Find
    _: KW_ONLY
    data: str = ""  # in data files
    step: str = ""  # in the steps, and in what an example expects
    show: str = ""  # after --show
    given: str = ""  # in a file of matrices
    stage: Stage | None = None  # one number for each pair of tokens: asked for cell by cell
    learned: bool = False  # whether training would change it
    binary: bool = False  # whether it says yes or no: 1 or 0
    spreads: bool = False  # whether, given, a side of 1 stands for all: a mask for every head
    hides: bool = False  # whether −∞ may stand in it

    @property
    def axes(self) -> tuple[str, ...]:
        """Its sides in the words of a file, in which heads of keys and values are heads."""
        return tuple("head" if side == "group" else side for side in self.sides.split())

    @property
    def grouped(self) -> bool:
        """Whether its heads are those of keys and values, that there may be fewer of."""
        return bool({"group", "key_width", "value_width"} & {*self.sides.split()})


@dataclass(frozen=True)
class ResidualPart:
    """One part of the residual that a sub-layer of a block stands in."""

    data: str
    words: str
    sides: str
    find: Callable[[Residual], Tensor | None]


def of_matrix(name: str, sides: str, words: str) -> Part:
    """A matrix or a bias of the attention, which has one name everywhere."""

    def found(trace: Trace, layer: Layer) -> Tensor | None:
        return getattr(layer.projections, name, None)

    return Part(words, sides, found, data=name, step=name, given=name, learned=True)


def ids_of_tokens(trace: Trace, layer: Layer) -> Tensor:
    from torch import tensor  # torch is there, for there is a Trace

    return tensor(trace.tokens.ids)


def added_positions(trace: Trace, layer: Layer) -> Tensor | None:
    added = trace.positions in ADDED or "positions" in layer.given
    first = layer.layer == 0 and layer.memory is None
    return layer.entering - trace.embeddings if added and first else None


def normed(trace: Trace, layer: Layer) -> Tensor | None:
    before = layer.block is not None and layer.block.place == "pre"
    return layer.block.attention.sublayer_inputs if before and layer.block else None


def masked_scores(trace: Trace, layer: Layer) -> Tensor | None:
    hides = not bool(layer.visible.all()) or layer.attended.mask is not None
    return layer.attended.logits.masked_fill(~layer.visible, -inf) if hides else None


def joined_heads(trace: Trace, layer: Layer) -> Tensor | None:
    from attnviz.attention.arithmetic import join_heads  # torch, as above

    return join_heads(layer.attended.contexts) if layer.heads > 1 else None


def weighted_values(trace: Trace, layer: Layer) -> Tensor:
    """What each key hands to each query."""
    return layer.attended.mixing[..., None] * layer.values_of_heads[:, None]


def mixed_by(kind: str) -> Find:
    """What takes the place of the softmax's weights, if something of this kind does."""
    return lambda trace, layer: layer.attended.mixing if layer.attended.mixed_by == kind else None


def turned(name: str) -> Find:
    return lambda trace, layer: getattr(layer, name) if layer.before_rotary else None


def unturned(name: str) -> Find:
    return lambda trace, layer: getattr(layer.before_rotary or layer, name)


def of_block(words: str, sides: str, find: Callable[[Block], Tensor | None], **names: Any) -> Part:
    """A part that there is in a transformer block alone."""

    def found(trace: Trace, layer: Layer) -> Tensor | None:
        return None if layer.block is None else find(layer.block)

    return Part(words, sides, found, **names)


def of_feed_forward(name: str, sides: str, words: str) -> Part:
    """A matrix or a bias of feed-forward, which has one name everywhere."""

    def found(block: Block) -> Tensor | None:
        return None if block.fed is None else getattr(block.fed.parameters, name, None)

    return of_block(words, sides, found, data=name, given=name, learned=True)


def of_norm(name: str) -> Callable[[Residual], Tensor | None]:
    """Of its LayerNorm, if it has one."""
    return lambda residual: getattr(residual.norm, name, None)


def of_prediction(
    words: str, sides: str, find: Callable[[Prediction], Tensor | None], **names: Any
) -> Part:
    """A part of what a model answers, which the last of its layers leads to."""

    def found(trace: Trace, layer: Layer) -> Tensor | None:
        last = layer is trace.layers[-1]
        return find(trace.prediction) if last and trace.prediction is not None else None

    return Part(words, sides, found, **names)


def of_scoring(
    words: str, sides: str, find: Callable[[Scoring], Tensor | None], **names: Any
) -> Part:
    """A part of how answers get their scores, where that is known."""

    def found(made: Prediction) -> Tensor | None:
        return None if made.scoring is None else find(made.scoring)

    return of_prediction(words, sides, found, **names)


def of_cross(part: Part, given: str = "") -> Part:
    """The same part of the attention to a second sentence."""

    def found(trace: Trace, layer: Layer) -> Tensor | None:
        return None if layer.cross is None else part.find(trace, layer.cross)

    words = f"{part.words}, of the attention to the memory"
    return replace(
        part, words=words, find=found, data="", step="", show="", given=given, stage=None
    )


def of_residual(sublayer: str, part: ResidualPart, **names: Any) -> Part:
    """A part of the residual of one sub-layer of a block, where there is one."""

    def found(trace: Trace, layer: Layer) -> Tensor | None:
        residual = None if layer.block is None else layer.block.residuals.get(sublayer)
        return None if residual is None else part.find(residual)

    return Part(f"{part.words}, of {sublayer}", part.sides, found, **names)
