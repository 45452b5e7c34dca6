"""The one table of all parts of a Trace: their names, dimensions, and how they are found.

`--show` shows some of them, data files hold most, a file of matrices may give some, an example
may expect some, and the steps walk through them. A part is a tensor of one attention of a Trace,
or None where that attention has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError, unknown
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


OF_ATTENTION = (  # in the order of the path
    Part("tokens", "token", ids_of_tokens, step="tokens", show="tokens"),
    Part(
        "embeddings",
        "token dim",
        lambda trace, layer: trace.embeddings,
        step="embeddings",
        show="embeddings",
        given="embeddings",
    ),
    Part("inputs", "token dim", lambda trace, layer: layer.inputs, data="inputs", step="inputs"),
    Part(
        "vectors of the keys", "key dim", lambda trace, layer: layer.key_inputs, data="key_inputs"
    ),
    Part(
        "embeddings of the keys",
        "key dim",
        lambda trace, layer: None,  # with positions, where there are any, they are what is read
        given="key_embeddings",
    ),
    Part("vectors of the memory", "key dim", lambda trace, layer: layer.memory, data="memory"),
    Part(
        "vectors of the memory",
        "memory dim",
        lambda trace, layer: layer.cross.memory if layer.cross else None,
        step="memory",
        given="memory",
    ),
    of_matrix("w_query", "dim query_width", "the matrix that makes queries"),
    of_matrix("w_key", "dim key_width", "the matrix that makes keys"),
    of_matrix("w_value", "dim value_width", "the matrix that makes values"),
    of_matrix("w_score", "query_width", "what additive scores are weighed by"),
    of_matrix("w_out", "joined_width context", "the matrix that joins the heads"),
    of_matrix("b_query", "query_width", "what is added to queries"),
    of_matrix("b_key", "key_width", "what is added to keys"),
    of_matrix("b_value", "value_width", "what is added to values"),
    of_matrix("b_out", "context", "what is added to the joined heads"),
    Part("positions", "token dim", added_positions, step="positions"),
    Part(
        "a vector for each position",
        "position dim",
        lambda trace, layer: None,  # it is in what entered
        given="positions",
    ),
    Part("what LayerNorm hands on", "token dim", normed, step="norm"),
    Part(
        "queries",
        "head token width",
        lambda trace, layer: layer.queries,
        data="queries",
        show="queries",
        given="queries",
    ),
    Part(
        "keys",
        "group key width",
        lambda trace, layer: layer.keys,
        data="keys",
        show="keys",
        given="keys",
    ),
    Part(
        "queries before rotary",
        "head token width",
        lambda trace, layer: getattr(layer.before_rotary, "queries", None),
        data="queries_before_rotary",
    ),
    Part(
        "keys before rotary",
        "group key width",
        lambda trace, layer: getattr(layer.before_rotary, "keys", None),
        data="keys_before_rotary",
    ),
    Part("queries", "head token width", unturned("queries"), step="queries"),
    Part("keys", "group key width", unturned("keys"), step="keys"),
    Part(
        "values",
        "group key head_value",
        lambda trace, layer: layer.values,
        data="values",
        step="values",
        show="values",
        given="values",
    ),
    Part("queries, turned", "head token width", turned("queries"), step="rotary-queries"),
    Part("keys, turned", "group key width", turned("keys"), step="rotary-keys"),
    Part(
        "scores",
        "head token key",
        lambda trace, layer: layer.attended.scores,
        data="scores",
        step="scores",
        show="scores",
        given="scores",
        stage="scores",
    ),
    Part(
        "scaled scores",
        "head token key",
        lambda trace, layer: layer.attended.scaled_scores,
        data="scaled_scores",
        step="scaling",
        show="scaled",
        stage="scaled scores",
    ),
    Part(
        "capped scores",
        "head token key",
        lambda trace, layer: layer.attended.capped_scores,
        data="capped_scores",
        step="soft-cap",
        stage="capped scores",
    ),
    Part(
        "what a distance adds to scores",
        "head token key",
        lambda trace, layer: layer.attended.bias,
        data="bias",
    ),
    Part(
        "biased scores",
        "head token key",
        lambda trace, layer: None if layer.attended.bias is None else layer.attended.biased,
        step="alibi",
        stage="biased scores",
    ),
    Part(
        "what a mask adds to scores",
        "head token key",
        lambda trace, layer: layer.attended.mask,
        data="mask",
        given="mask",
        spreads=True,
        hides=True,
    ),
    Part(
        "scores with what a mask adds",
        "head token key",
        lambda trace, layer: None if layer.attended.mask is None else layer.attended.logits,
        step="additive-mask",
        stage="scores with mask",
    ),
    Part(
        "what each query may read",
        "head token key",
        lambda trace, layer: layer.visible,
        data="visible",
        given="visible",
        binary=True,
        spreads=True,
    ),
    Part(
        "what is hidden from each query, whatever else is",
        "head token key",
        lambda trace, layer: None,  # it is in what each query may read
        given="hidden",
        binary=True,
        spreads=True,
    ),
    Part(
        "masked scores",
        "head token key",
        masked_scores,
        step="mask",
        show="masked",
        stage="masked scores",
    ),
    Part(
        "scores of a sink, which takes a share of each row",
        "head",
        lambda trace, layer: layer.attended.sink,
        data="sink",
    ),
    Part(
        "weights of the softmax",
        "head token key",
        lambda trace, layer: layer.attended.weights,
        data="weights",
        step="softmax",
        stage="weights",
    ),
    Part(
        "weights after dropout",
        "head token key",
        mixed_by("dropout"),
        data="weights_after_dropout",
        step="dropout",
    ),
    Part(
        "weights by hand",
        "head token key",
        mixed_by("hand"),
        data="weights_by_hand",
        given="weights",
    ),
    Part(
        "what dropout leaves",
        "head token key",
        lambda trace, layer: None,  # it is in the weights that are left
        given="kept",
        binary=True,
    ),
    Part(
        "weights",
        "head token key",
        lambda trace, layer: layer.attended.mixing,
        show="weights",
        stage="mixing",
    ),
    Part("weighted values", "head token key head_value", weighted_values, step="weighted"),
    Part(
        "context vectors of each head",
        "head token head_value",
        lambda trace, layer: layer.attended.contexts,
        data="contexts",
        step="heads",
    ),
    Part("joined heads", "token joined_width", joined_heads, step="joined"),
    Part(
        "context vectors",
        "token context",
        lambda trace, layer: layer.context,
        data="context",
        step="context",
        show="context",
    ),
)


OF_BLOCK = (
    of_block(
        "what comes out of attention",
        "token dim",
        lambda block: block.attention.outputs,
        step="add-attention",
    ),
    of_block(
        "what feed-forward makes",
        "token dim",
        lambda block: None if block.fed is None else block.fed.residual.sublayer_outputs,
        step="feed-forward",
    ),
    of_block(
        "outputs",
        "token dim",
        lambda block: block.outputs,
        step="outputs",
        show="outputs",
    ),
    of_block(
        "hidden vectors",
        "token hidden",
        lambda block: None if block.fed is None else block.fed.hidden,
        data="hidden",
    ),
    of_feed_forward("w_1", "dim hidden", "the first matrix of feed-forward"),
    of_feed_forward("b_1", "hidden", "what is added to hidden vectors"),
    of_feed_forward("w_2", "hidden dim", "the second matrix of feed-forward"),
    of_feed_forward("b_2", "dim", "what is added to what feed-forward makes"),
)
OF_RESIDUAL = (
    ResidualPart("inputs", "what goes in", "token dim", lambda each: each.inputs),
    ResidualPart(
        "read", "what the sub-layer reads", "token dim", lambda each: each.sublayer_inputs
    ),
    ResidualPart("made", "what it makes", "token dim", lambda each: each.sublayer_outputs),
    ResidualPart("added", "the sum of both", "token dim", lambda each: each.added),
    ResidualPart("outputs", "what comes out", "token dim", lambda each: each.outputs),
    ResidualPart("gain", "the gain of LayerNorm", "dim", of_norm("gain")),
    ResidualPart("shift", "the shift of LayerNorm", "dim", of_norm("shift")),
)
OF_PREDICTION = (
    of_scoring("what the last layer made", "token dim", lambda made: made.inputs, data="inputs"),
    of_scoring(
        "the gain of the last LayerNorm",
        "dim",
        lambda made: None if made.norm is None else made.norm.gain,
        data="last_gain",
    ),
    of_scoring(
        "the shift of the last LayerNorm",
        "dim",
        lambda made: None if made.norm is None else made.norm.shift,
        data="last_shift",
    ),
    of_scoring(
        "what answers are made of",
        "token dim",
        lambda made: made.vectors,
        data="vectors",
        step="last-norm",
    ),
    of_scoring(
        "a vector for each answer", "dim answer", lambda made: made.w_answers, data="w_answers"
    ),
    of_scoring(
        "what is added to the scores of answers",
        "answer",
        lambda made: made.b_answers,
        data="b_answers",
    ),
    of_prediction(
        "scores of answers", "token answer", lambda made: made.logits, data="logits", step="logits"
    ),
    of_prediction(
        "prediction",
        "token answer",
        lambda made: made.probabilities,
        data="probabilities",
        step="prediction",
        show="prediction",
    ),
    of_prediction(
        "prediction of all heads",
        "token answer",
        lambda made: made.with_all_heads,
        data="probabilities_with_all_heads",
    ),
)
SUBLAYERS = ("attention", "cross", "feed_forward")

MATRICES = tuple(part for part in OF_ATTENTION if part.learned)
OF_NORMS = tuple(
    of_residual(sublayer, part, given=f"{sublayer}_{part.data}", learned=True)
    for sublayer in SUBLAYERS
    for part in OF_RESIDUAL
    if part.data in ("gain", "shift")
)
OF_CROSS = tuple(of_cross(part, given=f"cross_{part.data}") for part in MATRICES)
PARTS = (*OF_ATTENTION, *OF_BLOCK, *OF_NORMS, *OF_CROSS, *OF_PREDICTION)
SHOWN = {part.show: part for part in PARTS if part.show}
ALL = "all"  # of them, after --show
STEPS = {part.step: part for part in PARTS if part.step}
GIVEN = {part.given: part for part in PARTS if part.given}
GIVEN_NAMES = ("tokens", "key_tokens", "memory_tokens", "vocabulary", "axes", *GIVEN)  # of a file
BIASES = ("b_query", "b_key", "b_value", "b_out")
OF_A_BLOCK = tuple(part.given for part in (*OF_BLOCK, *OF_NORMS, *OF_CROSS) if part.given)
LEARNED_NAMES = (*(part.given for part in MATRICES), *OF_A_BLOCK)  # of each layer
READERS = (".toml", ".json", ".npz", ".safetensors")  # how such a file may end,
SAVED = (".npz", ".json")  # and how one of a whole Trace

OF_SENTENCE = ("tokens", "embeddings", "positions")  # there is one of each, whoever attends
EXPECTED = {  # what an example may expect: steps, those of cross-attention, what a block holds
    **STEPS,
    **{
        f"cross-{part.step}": of_cross(part)
        for part in OF_ATTENTION
        if part.step and part.step not in OF_SENTENCE
    },
    **{f"block.{part.data}": part for part in OF_BLOCK if part.data},
    **{
        f"block.{sublayer}.{part.data}": of_residual(sublayer, part)
        for sublayer in SUBLAYERS
        for part in OF_RESIDUAL
    },
}


def parts_to_show(names: Sequence[str]) -> tuple[str, ...]:
    """The names that are asked for, once it is sure that each stands for something."""
    for name in names:
        if name not in (*SHOWN, ALL):
            raise unknown("thing to show", name, SHOWN)
    if not names:
        raise AttnvizError("there is nothing to show", f"name some of: {', '.join(SHOWN)}, or all")
    return tuple(SHOWN) if ALL in names else tuple(names)


def learned(trace: Trace, layer: Layer) -> dict[str, Tensor]:
    """The matrices and biases of one attention that training would change, by name."""
    return _learned(OF_ATTENTION, trace, layer)


def learned_in_block(trace: Trace, layer: Layer) -> dict[str, Tensor]:
    """The matrices and biases of a block's feed-forward, by name."""
    return _learned(OF_BLOCK, trace, layer)


def _learned(parts: Iterable[Part], trace: Trace, layer: Layer) -> dict[str, Tensor]:
    found = {part.data: part.find(trace, layer) for part in parts if part.learned}
    return {name: tensor for name, tensor in found.items() if tensor is not None}
