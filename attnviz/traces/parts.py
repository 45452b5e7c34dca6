"""Everything that a Trace holds, by name: the one table of its parts.

`--show` shows some of them, data files hold most, a file of matrices may give some, an example
may expect some, and the steps walk through them. A part is a tensor of one attention of a Trace,
or None where that attention has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.part import (
    Part,
    ResidualPart,
    added_positions,
    ids_of_tokens,
    joined_heads,
    masked_scores,
    mixed_by,
    normed,
    of_block,
    of_cross,
    of_feed_forward,
    of_matrix,
    of_norm,
    of_prediction,
    of_residual,
    of_scoring,
    turned,
    unturned,
    weighted_values,
)

if TYPE_CHECKING:  # --help lists the names of parts, and needs no torch
    from torch import Tensor

    from attnviz.traces.trace import Layer, Trace


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
