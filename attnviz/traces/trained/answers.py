"""The output of a trained model: last vectors, and its likeliest tokens, if any.

A model that continues texts answers at every token, one that fills gaps at every [MASK]. As there
may be 250,000 possible answers, only the last positions are scored, and only the answers that are
among the likeliest at one of them are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.errors import AttnvizError, opt, warn_with_note
from attnviz.options.values import AttentionKind
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.answers import Prediction
from attnviz.traces.trace import Outputs
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import reporting_tokenizer_errors, tokenizer_spelling
from attnviz.wording.words import and_list, counted

MAX_SCORED_POSITIONS = 64  # the last of a text
ANSWERS_PER_POSITION = 10


@dataclass(frozen=True)
class AnswerPositions:
    """The positions at which a model predicts a token."""

    next: bool  # whether it predicts the next token, or else the one at the position
    positions: tuple[int, ...]  # whose answers are shown
    scored_positions: tuple[int, ...]  # whose logits are computed


@dataclass(eq=False)
class PassResult:
    """The output of one forward pass: last vectors, and logits at the scored positions."""

    vectors: Float[Tensor, "token dim"] | None = None
    logits: Float[Tensor, "scored answer"] | None = None
    outputs: Any = None  # all that the model returned, if it was kept


@dataclass(eq=False)
class BatchResult:
    """The output of one forward pass on several texts."""

    vectors: Float[Tensor, "item token dim"] | None = None
    logits: Float[Tensor, "item scored answer"] | None = None

    def of_item(self, item: int) -> PassResult:
        batches = (self.vectors, self.logits)
        return PassResult(*(None if batch is None else batch[item] for batch in batches))


def find_answer_positions(
    model: LoadedTransformer, tokens: Tokens, kind: AttentionKind = "self"
) -> AnswerPositions | None:
    """Return the positions at which a model predicts a token; None if it predicts none.

    A model that continues texts does so at the last positions, any other at the first [MASK]s, at
    most `MAX_SCORED_POSITIONS`. Also None where the encoder's attention is shown and only the
    decoder predicts.
    """
    if _find_answer_layer(model) is None or has_decoder_answers(model, kind):
        return None
    last_positions = tuple(range(max(0, len(tokens) - MAX_SCORED_POSITIONS), len(tokens)))
    if model.model.can_generate():
        return AnswerPositions(next=True, positions=last_positions, scored_positions=last_positions)
    mask_id = model.tokenizer.mask_token_id
    masks = tuple(position for position, token_id in enumerate(tokens.ids) if token_id == mask_id)
    masks = masks[:MAX_SCORED_POSITIONS]
    scored_positions = tuple(sorted({*masks, *last_positions}))
    return AnswerPositions(next=False, positions=masks, scored_positions=scored_positions)


def has_decoder_answers(model: LoadedTransformer, kind: AttentionKind) -> bool:
    """Return whether a model's decoder predicts tokens, while the encoder's attention is shown."""
    is_encoder = model.config.is_encoder_decoder and kind == "self"
    return bool(is_encoder) and _find_answer_layer(model) is not None


def _find_answer_layer(model: LoadedTransformer) -> nn.Module | None:
    """Return the module that computes logits, or None if a model has none.

    FSMT names an embedding table instead; then it is the linear layer of the same size.
    """
    try:
        module = model.model.get_output_embeddings()
    except NotImplementedError:
        return None
    if isinstance(module, nn.Embedding):
        linears = (layer for layer in model.model.modules() if isinstance(layer, nn.Linear))
        shape = module.weight.shape
        return next((layer for layer in linears if layer.weight.shape == shape), None)
    return module if isinstance(module, nn.Module) else None


def find_answer_token(
    model: LoadedTransformer, word: str, scores: Float[Tensor, "answer"], about: str
) -> int:
    """Return the id of the token that a word means, with a space before it or without.

    If both are tokens, it is the one with the higher score. Refuses what `answer_token_ids` does.
    """
    single_ids = answer_token_ids(model, word, about)
    return max(single_ids, key=lambda token_id: float(scores[token_id].detach()))


def answer_token_ids(model: LoadedTransformer, word: str, about: str) -> list[int]:
    """Return the ids of the tokens that a word may mean: with a space before it, and without.

    Refuses an unknown word, and one that the model writes as several tokens; `about` is the option
    ("toward") for the message.
    """
    tokenizer, unknown_id = model.tokenizer, model.tokenizer.unk_token_id
    with reporting_tokenizer_errors(model):
        spaced_ids, ids = (
            tokenizer.encode(text, add_special_tokens=False) for text in (f" {word}", word)
        )
    single_ids = [i[0] for i in (spaced_ids, ids) if len(i) == 1 and i[0] != unknown_id]
    if single_ids:
        return single_ids
    pieces = [f"'{piece.label}'" for piece in tokenizer_spelling(tokenizer).pieces_of_ids(ids)]
    words = [piece for piece in pieces if piece.strip("'␣")]  # a space is no answer
    unknown = unknown_id in ids or not words
    raise AttnvizError(
        f"{opt[about]:is '{word}'}, which the model '{model.name}' "
        + ("does not know" if unknown else f"writes as {len(pieces)} tokens: {and_list(pieces)}"),
        "name a token that the model has"
        if unknown
        else "choose a word that is one token of this model",
        about=about,
    )


@contextmanager
def capturing_result(
    model: LoadedTransformer, answer_positions: AnswerPositions | None, kind: AttentionKind
) -> Iterator[BatchResult]:
    """Yield an empty result, which a forward pass inside the `with` block fills in.

    It gets the last vectors of the encoder or decoder that `kind` means, and logits only with
    `answer_positions`.
    """
    result, body = BatchResult(), model.model.base_model
    positions = [] if answer_positions is None else list(answer_positions.scored_positions)
    if model.config.is_encoder_decoder:
        body = model.model.get_encoder() if kind == "self" else model.model.get_decoder()

    def keep_vectors(module: nn.Module, args: Any, outputs: Any) -> None:
        result.vectors = _first_output(outputs, "last_hidden_state")

    def keep_logits(module: nn.Module, args: Any, outputs: Any) -> None:
        result.logits = _first_output(outputs, "logits", "prediction_logits")

    def select_positions(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Leave only the vectors at the scored positions: a pre-hook of the answer layer.

        It also notes the vectors of a model whose body is never called as a whole, such as OPT's.
        """
        vectors, *rest = args
        result.vectors = vectors if result.vectors is None else result.vectors
        return (vectors[..., positions, :], *rest)

    answer_layer = None if answer_positions is None else _find_answer_layer(model)
    with ExitStack() as hooks:  # which are removed at its end
        hooks.enter_context(body.register_forward_hook(keep_vectors))
        if answer_layer is not None:
            hooks.enter_context(answer_layer.register_forward_pre_hook(select_positions))
            hooks.enter_context(model.model.register_forward_hook(keep_logits))
        yield result


def _first_output(outputs: Any, *names: str) -> Tensor | None:
    batches = (getattr(outputs, name, None) for name in names)
    return next((batch for batch in batches if batch is not None), None)


def build_outputs(result: PassResult, with_all_heads: PassResult | None) -> Outputs | None:
    """Return a model's last vectors; None if a pass has none.

    `with_all_heads`: the result of a pass without ablation, whose vectors are added if it is given.
    """
    if result.vectors is None:
        return None
    return Outputs(result.vectors, None if with_all_heads is None else with_all_heads.vectors)


def _note_answers_without_token(
    model: LoadedTransformer, answers: Sequence[int], answer_count: int
) -> None:
    """Give a note if some answers are ids that no token has, as of a table padded to a round size.

    A trained model gives those next to no probability, so that they are hardly ever among answers.
    """
    tokens = len(model.tokenizer)
    if answers and max(answers) >= tokens:
        warn_with_note(
            f"⟨id {max(answers)}⟩ is no word: the model '{model.name}' chooses among "
            f"{answer_count:,} ids, and its vocabulary has {counted(tokens, 'token')}"
        )


def build_prediction(
    model: LoadedTransformer,
    tokens: Tokens,
    answer_positions: AnswerPositions | None,
    result: PassResult,
    with_all_heads: PassResult | None,
) -> Prediction | None:
    """Return the logits and probabilities of a model's likeliest answers; None without logits.

    These are the likeliest `ANSWERS_PER_POSITION` at each scored position, also in the pass without
    ablation (`with_all_heads`) if it is given. The numbers at other positions are NaN.
    """
    if answer_positions is None or result.logits is None:
        return None
    logits = result.logits.float()
    shares = [logits.softmax(-1)]  # probabilities; with heads off, then those with all heads
    if with_all_heads is not None and with_all_heads.logits is not None:
        shares.append(with_all_heads.logits.float().softmax(-1))
    likeliest = torch.cat(shares).topk(min(ANSWERS_PER_POSITION, logits.shape[-1])).indices
    answer_ids: Tensor = torch.unique(likeliest)
    pieces = tokenizer_spelling(model.tokenizer).pieces_of_ids(answer_ids.tolist())
    _note_answers_without_token(model, answer_ids.tolist(), logits.shape[-1])
    mask_token, scored = model.tokenizer.mask_token, list(answer_positions.scored_positions)

    def spread(numbers: Float[Tensor, "scored answer"]) -> Float[Tensor, "token kept"]:
        """Return the kept answers' numbers with a row for every token: NaN if it was not scored."""
        spread_numbers = numbers.new_full((len(tokens), len(answer_ids)), nan)
        spread_numbers[scored] = numbers[:, answer_ids]
        return spread_numbers

    return Prediction(
        answers=tuple(piece.label for piece in pieces),
        answer_ids=tuple(piece.id for piece in pieces),
        answer_texts=tuple(piece.letters.decode(errors="backslashreplace") for piece in pieces),
        predicts="next" if answer_positions.next else "here",
        scoring=None,
        logits=spread(logits),
        probabilities=spread(shares[0]),
        asked_positions=answer_positions.positions,
        with_all_heads=None if len(shares) == 1 else spread(shares[1]),
        asking_words=() if answer_positions.next or mask_token is None else (mask_token,),
        answer_count=logits.shape[-1],
    )
