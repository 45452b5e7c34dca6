"""PARTS: a table of all tensors of a Trace: names, axes, and how to find them.

`--show` shows some of them, data files hold most, a file of matrices may give some, an example
may expect some, and the steps walk through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError, opt, unknown_name_error
from attnviz.traces.settings import ADDED_POSITIONS
from attnviz.wording.words import and_list

if TYPE_CHECKING:  # --help lists the names of parts without torch
    from torch import Tensor

    from attnviz.attention.block import Block, Residual
    from attnviz.traces.models.answers import AnswerScoring, Prediction
    from attnviz.traces.trace import Layer, Trace
    from attnviz.traces.weights import Stage

    Find = Callable[[Trace, Layer], Tensor | None]


@dataclass(frozen=True)
class Part:
    """One part of a Trace: its description, its dimensions, and its names in files and options."""

    words: str
    sides: str  # "head token key"; given arrays may leave out the side for heads
    find: Find  # returns its tensor in one attention, or None where that has none
    _: KW_ONLY
    data: str = ""  # its name in data files,
    step: str = ""  # in the steps and the expectations of examples,
    show: str = ""  # after --show,
    given: str = ""  # and in a file of matrices; "" where it has none
    stage: Stage | None = None  # of the cells of a head, if it has one number per query and key
    learned: bool = False  # whether training would change it
    binary: bool = False  # whether all its numbers are 0 or 1
    spreads: bool = False  # whether a given side of 1 is broadcast, as one mask for every head
    hides: bool = False  # whether it may contain −∞

    @property
    def axes(self) -> tuple[str, ...]:
        """The dimensions as a file names them: heads of keys and values ("group") are "head"."""
        return tuple("head" if side == "group" else side for side in self.sides.split())

    @property
    def grouped(self) -> bool:
        """Whether the part belongs to keys or values, which may have fewer heads than queries."""
        return bool({"group", "key_width", "value_width"} & {*self.sides.split()})


@dataclass(frozen=True)
class ResidualPart:
    """One part of the residual connection around a sub-layer of a block."""

    data: str
    words: str
    sides: str
    find: Callable[[Residual], Tensor | None]


def matrix_part(name: str, sides: str, description: str) -> Part:
    """Return the part of a projection matrix or bias, with one name in all files and in steps."""

    def find_tensor(trace: Trace, layer: Layer) -> Tensor | None:
        return getattr(layer.projections, name, None)

    return Part(description, sides, find_tensor, data=name, step=name, given=name, learned=True)


def find_token_ids(trace: Trace, layer: Layer) -> Tensor:
    from torch import tensor  # imported already: there is a Trace

    return tensor(trace.tokens.ids)


def find_nothing(trace: Trace, layer: Layer) -> None:
    """Return None: what is given under this name is contained in other parts."""


def find_added_positions(trace: Trace, layer: Layer) -> Tensor | None:
    """Return the position vectors that were added to the embeddings; None if none were, above layer
    0, and in cross-attention.
    """
    adds_positions = trace.positions in ADDED_POSITIONS or "positions" in layer.given
    is_first = layer.layer == 0 and layer.memory is None
    return layer.layer_inputs - trace.embeddings if adds_positions and is_first else None


def find_normed_inputs(trace: Trace, layer: Layer) -> Tensor | None:
    """Return what the LayerNorm before self-attention returns; None without one (--norm pre)."""
    is_normed_before = layer.block is not None and layer.block.norm_placement == "pre"
    return layer.block.attention.sublayer_inputs if is_normed_before and layer.block else None


def find_masked_scores(trace: Trace, layer: Layer) -> Tensor | None:
    """Return the scores with −∞ for hidden keys; None if there is no mask and no key is hidden."""
    has_hidden_keys = not bool(layer.visible.all()) or layer.attended.mask is not None
    return layer.attended.logits.masked_fill(~layer.visible, -inf) if has_hidden_keys else None


def find_joined_heads(trace: Trace, layer: Layer) -> Tensor | None:
    """Return the context vectors of all heads side by side; None with a single head."""
    from attnviz.attention.arithmetic import join_heads  # torch, as above

    return join_heads(layer.attended.contexts) if layer.heads > 1 else None


def find_weighted_values(trace: Trace, layer: Layer) -> Tensor:
    return layer.attended.mixing[..., None] * layer.values_of_heads[:, None]


def mixing_finder(kind: str) -> Find:
    """Return a function that finds the weights after dropout (`kind` "dropout"), or weights given
    by hand ("hand"); it returns None for a layer whose weights were not changed so.
    """
    return lambda trace, layer: layer.attended.mixing if layer.attended.mixed_by == kind else None


def rotated_finder(name: str) -> Find:
    """Return a function that finds the layer's "queries" or "keys" if rotary positions rotated
    them, and otherwise None.
    """
    return lambda trace, layer: getattr(layer, name) if layer.before_rotary else None


def unrotated_finder(name: str) -> Find:
    return lambda trace, layer: getattr(layer.before_rotary or layer, name)


def block_part(
    description: str, sides: str, find: Callable[[Block], Tensor | None], **names: Any
) -> Part:
    """Return a part found in the block of a layer; it has no tensor in a layer without a block.

    `names` are further fields of Part, such as data="hidden".
    """

    def find_tensor(trace: Trace, layer: Layer) -> Tensor | None:
        return None if layer.block is None else find(layer.block)

    return Part(description, sides, find_tensor, **names)


def feed_forward_part(name: str, sides: str, description: str) -> Part:
    """Return the part of a feed-forward matrix or bias, which has one name in all files."""

    def find_tensor(block: Block) -> Tensor | None:
        return getattr(block.feed_forward and block.feed_forward.parameters, name, None)

    return block_part(description, sides, find_tensor, data=name, given=name, learned=True)


def prediction_part(
    description: str, sides: str, find: Callable[[Prediction], Tensor | None], **names: Any
) -> Part:
    """Return a part found in the prediction of a Trace; only the last layer has its tensor."""

    def find_tensor(trace: Trace, layer: Layer) -> Tensor | None:
        last = layer is trace.layers[-1]
        return find(trace.prediction) if last and trace.prediction is not None else None

    return Part(description, sides, find_tensor, **names)


def scoring_part(
    description: str, sides: str, find: Callable[[AnswerScoring], Tensor | None], **names: Any
) -> Part:
    """Return a part of how a model of attnviz scores its answers; a transformer has no tensor."""

    def find_tensor(prediction: Prediction) -> Tensor | None:
        return None if prediction.scoring is None else find(prediction.scoring)

    return prediction_part(description, sides, find_tensor, **names)


def cross_attention_part(part: Part, given_name: str = "") -> Part:
    """Return a copy of the part that is found in the cross-attention of a layer, with `given_name`
    as its only name; it has no tensor in a layer without cross-attention.
    """

    def find_tensor(trace: Trace, layer: Layer) -> Tensor | None:
        return None if layer.cross is None else part.find(trace, layer.cross)

    words = f"{part.words}, of the attention to the memory"
    names: dict[str, Any] = {"data": "", "step": "", "show": "", "given": given_name}
    return replace(part, words=words, find=find_tensor, stage=None, **names)


def residual_part(sublayer: str, part: ResidualPart, **names: Any) -> Part:
    """Return a part of the residual connection of one of SUBLAYERS, such as "attention"."""

    def find_tensor(trace: Trace, layer: Layer) -> Tensor | None:
        residual = None if layer.block is None else layer.block.residuals.get(sublayer)
        return None if residual is None else part.find(residual)

    return Part(f"{part.words}, of {sublayer}", part.sides, find_tensor, **names)


# Rows of one or two lines, so that this reads as a table.
# fmt: off
PARTS_OF_ATTENTION = (  # in the order they are computed
    Part("tokens", "token", find_token_ids, step="tokens", show="tokens"),
    Part("embeddings", "token dim", lambda trace, layer: trace.embeddings,
         step="embeddings", show="embeddings", given="embeddings"),
    Part("inputs", "token dim", lambda trace, layer: layer.inputs, data="inputs", step="inputs"),
    Part("vectors of the keys", "key dim", lambda trace, layer: layer.key_inputs,
         data="key_inputs"),
    Part("embeddings of the keys", "key dim", find_nothing, given="key_embeddings"),
    Part("vectors of the memory", "key dim", lambda trace, layer: layer.memory, data="memory"),
    Part("vectors of the memory", "memory dim",
         lambda trace, layer: getattr(layer.cross, "memory", None), step="memory", given="memory"),
    matrix_part("w_query", "dim query_width", "the matrix that makes queries"),
    matrix_part("w_key", "dim key_width", "the matrix that makes keys"),
    matrix_part("w_value", "dim value_width", "the matrix that makes values"),
    matrix_part("w_score", "query_width", "what additive scores are weighed by"),
    matrix_part("w_out", "joined_width context", "the matrix that joins the heads"),
    matrix_part("b_query", "query_width", "what is added to queries"),
    matrix_part("b_key", "key_width", "what is added to keys"),
    matrix_part("b_value", "value_width", "what is added to values"),
    matrix_part("b_out", "context", "what is added to the joined heads"),
    Part("positions", "token dim", find_added_positions, step="positions"),
    Part("a vector for each position", "position dim", find_nothing, given="positions"),
    Part("what LayerNorm hands on", "token dim", find_normed_inputs, step="norm"),
    Part("queries", "head token width", lambda trace, layer: layer.queries,
         data="queries", show="queries", given="queries"),
    Part("keys", "group key width", lambda trace, layer: layer.keys,
         data="keys", show="keys", given="keys"),
    Part("queries before rotary", "head token width",
         lambda trace, layer: getattr(layer.before_rotary, "queries", None),
         data="queries_before_rotary"),
    Part("keys before rotary", "group key width",
         lambda trace, layer: getattr(layer.before_rotary, "keys", None),
         data="keys_before_rotary"),
    Part("queries", "head token width", unrotated_finder("queries"), step="queries"),
    Part("keys", "group key width", unrotated_finder("keys"), step="keys"),
    Part("values", "group key head_value", lambda trace, layer: layer.values,
         data="values", step="values", show="values", given="values"),
    Part("queries, turned", "head token width", rotated_finder("queries"), step="rotary-queries"),
    Part("keys, turned", "group key width", rotated_finder("keys"), step="rotary-keys"),
    Part("scores", "head token key", lambda trace, layer: layer.attended.scores,
         data="scores", step="scores", show="scores", given="scores", stage="scores"),
    Part("scaled scores", "head token key", lambda trace, layer: layer.attended.scaled_scores,
         data="scaled_scores", step="scaling", show="scaled", stage="scaled scores"),
    Part("capped scores", "head token key", lambda trace, layer: layer.attended.capped_scores,
         data="capped_scores", step="soft-cap", stage="capped scores"),
    Part("what a distance adds to scores", "head token key",
         lambda trace, layer: layer.attended.bias, data="bias"),
    Part("biased scores", "head token key",
         lambda trace, layer: None if layer.attended.bias is None else layer.attended.biased,
         step="alibi", stage="biased scores"),
    Part("what a mask adds to scores", "head token key", lambda trace, layer: layer.attended.mask,
         data="mask", given="mask", spreads=True, hides=True),
    Part("scores with what a mask adds", "head token key",
         lambda trace, layer: None if layer.attended.mask is None else layer.attended.logits,
         step="additive-mask", stage="scores with mask"),
    Part("what each query may read", "head token key", lambda trace, layer: layer.visible,
         data="visible", given="visible", binary=True, spreads=True),
    Part("what is hidden from each query, whatever else is", "head token key", find_nothing,
         given="hidden", binary=True, spreads=True),
    Part("masked scores", "head token key", find_masked_scores,
         step="mask", show="masked", stage="masked scores"),
    Part("scores of a sink, which takes a share of each row", "head",
         lambda trace, layer: layer.attended.sink, data="sink"),
    Part("weights of the softmax", "head token key", lambda trace, layer: layer.attended.weights,
         data="weights", step="softmax", stage="weights"),
    Part("weights after dropout", "head token key", mixing_finder("dropout"),
         data="weights_after_dropout", step="dropout"),
    Part("weights by hand", "head token key", mixing_finder("hand"),
         data="weights_by_hand", given="weights"),
    Part("what dropout leaves", "head token key", find_nothing, given="kept", binary=True),
    Part("weights", "head token key", lambda trace, layer: layer.attended.mixing,
         show="weights", stage="mixing"),
    Part("weighted values", "head token key head_value", find_weighted_values, step="weighted"),
    Part("context vectors of each head", "head token head_value",
         lambda trace, layer: layer.attended.contexts, data="contexts", step="heads"),
    Part("joined heads", "token joined_width", find_joined_heads, step="joined"),
    Part("context vectors", "token context", lambda trace, layer: layer.context,
         data="context", step="context", show="context"),
)


PARTS_OF_BLOCK = (
    block_part("what comes out of attention", "token dim", lambda block: block.attention.outputs,
               step="add-attention"),
    block_part("what feed-forward makes", "token dim",
               lambda block: (
                   None if (stages := block.feed_forward) is None
                   else stages.residual.sublayer_outputs),
               step="feed-forward"),
    block_part("outputs", "token dim", lambda block: block.outputs, step="outputs", show="outputs"),
    block_part("hidden vectors", "token hidden",
               lambda block: getattr(block.feed_forward, "hidden", None), data="hidden"),
    feed_forward_part("w_1", "dim hidden", "the first matrix of feed-forward"),
    feed_forward_part("b_1", "hidden", "what is added to hidden vectors"),
    feed_forward_part("w_2", "hidden dim", "the second matrix of feed-forward"),
    feed_forward_part("b_2", "dim", "what is added to what feed-forward makes"),
)
PARTS_OF_RESIDUAL = (
    ResidualPart("inputs", "what goes in", "token dim", lambda residual: residual.inputs),
    ResidualPart("read", "what the sub-layer reads", "token dim",
                 lambda residual: residual.sublayer_inputs),
    ResidualPart("made", "what it makes", "token dim", lambda residual: residual.sublayer_outputs),
    ResidualPart("added", "the sum of both", "token dim", lambda residual: residual.added),
    ResidualPart("outputs", "what comes out", "token dim", lambda residual: residual.outputs),
    ResidualPart("gain", "the gain of LayerNorm", "dim",
                 lambda residual: getattr(residual.norm, "gain", None)),
    ResidualPart("shift", "the shift of LayerNorm", "dim",
                 lambda residual: getattr(residual.norm, "shift", None)),
)
PARTS_OF_PREDICTION = (
    scoring_part("what the last layer made", "token dim", lambda scoring: scoring.inputs,
                 data="inputs"),
    scoring_part("the gain of the last LayerNorm", "dim",
                 lambda scoring: getattr(scoring.norm, "gain", None), data="last_gain"),
    scoring_part("the shift of the last LayerNorm", "dim",
                 lambda scoring: getattr(scoring.norm, "shift", None), data="last_shift"),
    scoring_part("what answers are made of", "token dim", lambda scoring: scoring.vectors,
                 data="vectors", step="last-norm"),
    scoring_part("a vector for each answer", "dim answer", lambda scoring: scoring.w_answers,
                 data="w_answers"),
    scoring_part("what is added to the scores of answers", "answer",
                 lambda scoring: scoring.b_answers, data="b_answers"),
    prediction_part("scores of answers", "token answer", lambda prediction: prediction.logits,
                    data="logits", step="logits"),
    prediction_part("prediction", "token answer", lambda prediction: prediction.probabilities,
                    data="probabilities", step="prediction", show="prediction"),
    prediction_part("prediction of all heads", "token answer",
                    lambda prediction: prediction.with_all_heads,
                    data="probabilities_with_all_heads"),
)
# fmt: on
SUBLAYERS = ("attention", "cross", "feed_forward")
MATRIX_PARTS = tuple(part for part in PARTS_OF_ATTENTION if part.learned)
PARTS_OF_NORMS = tuple(
    residual_part(sublayer, part, given=f"{sublayer}_{part.data}", learned=True)
    for sublayer in SUBLAYERS
    for part in PARTS_OF_RESIDUAL
    if part.data in ("gain", "shift")
)
PARTS_OF_CROSS_ATTENTION = tuple(
    cross_attention_part(part, given_name=f"cross_{part.data}") for part in MATRIX_PARTS
)
PARTS = (
    *PARTS_OF_ATTENTION,
    *PARTS_OF_BLOCK,
    *PARTS_OF_NORMS,
    *PARTS_OF_CROSS_ATTENTION,
    *PARTS_OF_PREDICTION,
)
PARTS_BY_SHOW_NAME = {part.show: part for part in PARTS if part.show}
SHOW_ALL = "all"  # after --show
SHOW_RECEIVED = "received"  # after --show: no part, but a view of its own
SHOW_NAMES = (*PARTS_BY_SHOW_NAME, SHOW_RECEIVED, SHOW_ALL)
PARTS_BY_STEP = {part.step: part for part in PARTS if part.step}
PARTS_BY_GIVEN_NAME = {part.given: part for part in PARTS if part.given}
OTHER_GIVEN_NAMES = ("tokens", "key_tokens", "memory_tokens", "vocabulary", "axes")
GIVEN_NAMES = (*OTHER_GIVEN_NAMES, *PARTS_BY_GIVEN_NAME)
BIAS_NAMES = ("b_query", "b_key", "b_value", "b_out")
GIVEN_BLOCK_NAMES = tuple(
    part.given
    for part in (*PARTS_OF_BLOCK, *PARTS_OF_NORMS, *PARTS_OF_CROSS_ATTENTION)
    if part.given
)
ATTENTION_MATRIX_NAMES = tuple(
    name for name in GIVEN_NAMES if name not in (*BIAS_NAMES, *GIVEN_BLOCK_NAMES)
)
LEARNED_NAMES = (*(part.given for part in MATRIX_PARTS), *GIVEN_BLOCK_NAMES)  # of each layer
MATRIX_FILE_SUFFIXES = (".toml", ".json", ".npz", ".safetensors")
TRACE_FILE_SUFFIXES = (".npz", ".json")

SENTENCE_STEPS = ("tokens", "embeddings", "positions")  # not of one attention
EXPECTATION_TYPES = {  # what an example may expect
    **PARTS_BY_STEP,
    **{
        f"cross-{part.step}": cross_attention_part(part)
        for part in PARTS_OF_ATTENTION
        if part.step and part.step not in SENTENCE_STEPS
    },
    **{f"block.{part.data}": part for part in PARTS_OF_BLOCK if part.data},
    **{
        f"block.{sublayer}.{part.data}": residual_part(sublayer, part)
        for sublayer in SUBLAYERS
        for part in PARTS_OF_RESIDUAL
    },
}


def parts_to_show(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the parts to show, those of all parts if `all` is among them; `received`
    is shown alone.

    Refuses unknown names and an empty list.
    """
    for name in names:
        if name not in SHOW_NAMES:
            raise unknown_name_error("thing to show", name, SHOW_NAMES[:-1])
    if not names:
        raise AttnvizError(
            "there is nothing to show", f"name some of: {', '.join(SHOW_NAMES[:-1])}, or all"
        )
    if SHOW_RECEIVED in names and len({*names}) > 1:
        raise AttnvizError(
            f"{opt.show:{SHOW_RECEIVED}} colours the text, and shows no tables beside it",
            f"ask for {opt.show:{SHOW_RECEIVED}} alone, or leave it out",
            about="show",
        )
    return tuple(PARTS_BY_SHOW_NAME) if SHOW_ALL in names else tuple(names)


def refuse_scores_of_streams(names: Sequence[str] | None) -> None:
    """Refuse parts that `--stream` computes only with all scores in memory, before it begins."""
    asked = parts_to_show(names) if names else ()
    scores = [name for name in asked if name != SHOW_RECEIVED
              and PARTS_BY_SHOW_NAME[name].stage not in (None, "mixing")]  # fmt: skip
    if scores:
        raise AttnvizError(
            f"{opt.stream} computes weights where they are shown, and {and_list(scores)} would "
            "need all scores at once",
            f"leave {opt.stream} out, or show something else, such as {opt.show:received}",
            about="show",
        )


def learned_tensors(
    trace: Trace, layer: Layer, parts: Iterable[Part] = PARTS_OF_ATTENTION
) -> dict[str, Tensor]:
    """Return the projection matrices and biases of one attention, by name, without missing ones;
    of PARTS_OF_BLOCK, those of feed-forward.
    """
    tensors = {part.data: part.find(trace, layer) for part in parts if part.learned}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}
