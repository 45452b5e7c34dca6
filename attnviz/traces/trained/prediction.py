"""What a trained model makes in the end: its last vectors, and what it answers, if it does.

A model that continues texts answers at every token, one that fills gaps at every [MASK]. There may
be a quarter of a million answers: they are scored at the last places alone, and of all answers
those are kept that are among the likeliest anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.settings import AttentionKind
from attnviz.traces.trace import Outputs
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import tokenizer_spelling

MAX_SCORED_POSITIONS = 64  # at which answers are scored, the last of a text
ANSWERS_PER_POSITION = 10  # answers of each place


@dataclass(frozen=True)
class AnswerPositions:
    """Where a model answers, and at which places answers are scored."""

    next: bool  # what comes after each token; or else what belongs at each
    positions: tuple[int, ...]  # that something is asked for
    scored: tuple[int, ...]


@dataclass(eq=False)
class PassResult:
    """What one pass of a model came to."""

    vectors: Float[Tensor, "token dim"] | None = None
    logits: Float[Tensor, "place answer"] | None = None


def find_answer_positions(
    model: LoadedTransformer, tokens: Tokens, which: AttentionKind = "self"
) -> AnswerPositions | None:
    """What a model answers of these tokens; None of one that has no answers.

    Beside an encoder the tokens of the decoder are answered.
    """
    if _find_answer_layer(model) is None or has_decoder_answers(model, which):
        return None
    last_positions = tuple(range(max(0, len(tokens) - MAX_SCORED_POSITIONS), len(tokens)))
    if model.model.can_generate():
        return AnswerPositions(next=True, positions=last_positions, scored=last_positions)
    mask_id = model.tokenizer.mask_token_id
    mask_positions = [
        position for position, token_id in enumerate(tokens.ids) if token_id == mask_id
    ][:MAX_SCORED_POSITIONS]
    return AnswerPositions(
        next=False,
        positions=tuple(mask_positions),
        scored=tuple(sorted({*mask_positions, *last_positions})),
    )


def has_decoder_answers(model: LoadedTransformer, which: AttentionKind) -> bool:
    """Whether what answers is a decoder, and its encoder is looked at."""
    is_encoder = model.config.is_encoder_decoder and which == "self"
    return bool(is_encoder) and _find_answer_layer(model) is not None


def _find_answer_layer(model: LoadedTransformer) -> nn.Module | None:
    """The module that scores every answer; FSMT names a table of the same size."""
    try:
        module = model.model.get_output_embeddings()
    except NotImplementedError:
        return None
    if isinstance(module, nn.Embedding):
        linear_layers = (layer for layer in model.model.modules() if isinstance(layer, nn.Linear))
        return next(
            (layer for layer in linear_layers if layer.weight.shape == module.weight.shape), None
        )
    return module if isinstance(module, nn.Module) else None


@contextmanager
def capturing_result(
    model: LoadedTransformer,
    answer_positions: AnswerPositions | None,
    which: AttentionKind = "self",
) -> Iterator[PassResult]:
    """While this lasts, what the model comes to is kept."""
    result = PassResult()
    hooks = [_body_module(model, which).register_forward_hook(_vectors_hook(result))]
    scoring = _find_answer_layer(model)
    if answer_positions is not None and scoring is not None:
        hooks.append(
            scoring.register_forward_pre_hook(_positions_hook(answer_positions.scored, result))
        )
        hooks.append(model.model.register_forward_hook(_logits_hook(result)))
    try:
        yield result
    finally:
        for hook in hooks:
            hook.remove()


def _body_module(model: LoadedTransformer, which: AttentionKind) -> nn.Module:
    """What makes the vectors of the tokens that are looked at."""
    if not model.config.is_encoder_decoder:
        body: nn.Module = model.model.base_model
        return body
    module: nn.Module = model.model.get_encoder() if which == "self" else model.model.get_decoder()
    return module


def _vectors_hook(result: PassResult) -> Callable[..., None]:
    def keep(module: nn.Module, args: Any, outputs: Any) -> None:
        vectors = getattr(outputs, "last_hidden_state", None)
        result.vectors = None if vectors is None else vectors[0]

    return keep


def _logits_hook(result: PassResult) -> Callable[..., None]:
    def keep(module: nn.Module, args: Any, outputs: Any) -> None:
        candidates = (getattr(outputs, name, None) for name in ("logits", "prediction_logits"))
        logits = next((candidate for candidate in candidates if candidate is not None), None)
        result.logits = None if logits is None else logits[0]

    return keep


def _positions_hook(
    positions: Sequence[int], result: PassResult
) -> Callable[..., tuple[Tensor, ...]]:
    """Of the vectors of all tokens those of some: no others are scored.

    They are the last ones of a model whose body is never called as a whole, as OPT's.
    """

    def select_positions(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        vectors, *rest = args
        result.vectors = vectors[0] if result.vectors is None else result.vectors
        return (vectors[..., list(positions), :], *rest)

    return select_positions


def build_outputs(result: PassResult, with_all_heads: PassResult | None) -> Outputs | None:
    """The last vectors of a model; where heads are off, beside those that it makes with all."""
    if result.vectors is None:
        return None
    return Outputs(result.vectors, None if with_all_heads is None else with_all_heads.vectors)


def build_prediction(
    model: LoadedTransformer,
    tokens: Tokens,
    answer_positions: AnswerPositions | None,
    result: PassResult,
    with_all_heads: PassResult | None = None,
) -> Prediction | None:
    """What a model answers, and what it would with all its heads, if some are off."""
    if answer_positions is None or result.logits is None:
        return None
    logits = result.logits.float()
    shares = logits.softmax(-1)
    full_shares = None if with_all_heads is None else _answer_shares(with_all_heads)
    answer_ids = _likeliest_answer_ids(
        shares if full_shares is None else torch.cat([shares, full_shares])
    )
    spread = _AllPositions(len(tokens), answer_positions.scored, answer_ids)
    mask_token = model.tokenizer.mask_token
    return Prediction(
        answers=tuple(
            piece.label
            for piece in tokenizer_spelling(model.tokenizer).pieces_of_ids(answer_ids.tolist())
        ),
        predicts="next" if answer_positions.next else "here",
        scoring=None,
        logits=spread(logits),
        probabilities=spread(shares),
        asked=answer_positions.positions,
        with_all_heads=None if full_shares is None else spread(full_shares),
        asks=() if answer_positions.next or mask_token is None else (mask_token,),
        of=logits.shape[-1],
    )


def _answer_shares(result: PassResult) -> Float[Tensor, "place answer"] | None:
    return None if result.logits is None else result.logits.float().softmax(-1)


def _likeliest_answer_ids(shares: Float[Tensor, "place answer"]) -> Tensor:
    """The answers that are among the likeliest of any place, in the order of their ids."""
    answer_ids: Tensor = torch.unique(
        shares.topk(min(ANSWERS_PER_POSITION, shares.shape[-1])).indices
    )
    return answer_ids


@dataclass(frozen=True, eq=False)
class _AllPositions:
    """Numbers of some places and of all answers, as those of all places and of some answers."""

    tokens: int
    scored: Sequence[int]
    answer_ids: Tensor

    def __call__(self, numbers: Float[Tensor, "place answer"]) -> Float[Tensor, "token kept"]:
        spread = numbers.new_full((self.tokens, len(self.answer_ids)), nan)
        spread[list(self.scored)] = numbers[:, self.answer_ids]
        return spread
