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
from attnviz.traces.settings import Which
from attnviz.traces.trace import Outputs
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.pieces import spelling_of

PLACES = 64  # at which answers are scored, the last of a text
LIKELIEST = 10  # answers of each place


@dataclass(frozen=True)
class Asked:
    """Where a model answers, and at which places answers are scored."""

    next: bool  # what comes after each token; or else what belongs at each
    places: tuple[int, ...]  # that something is asked for
    scored: tuple[int, ...]


@dataclass(eq=False)
class Ending:
    """What one pass of a model came to."""

    vectors: Float[Tensor, "token dim"] | None = None
    logits: Float[Tensor, "place answer"] | None = None


def asked_of(model: Loaded, tokens: Tokens, which: Which = "self") -> Asked | None:
    """What a model answers of these tokens; None of one that has no answers.

    Beside an encoder the tokens of the decoder are answered.
    """
    if _answers_by(model) is None or decoder_answers(model, which):
        return None
    last = tuple(range(max(0, len(tokens) - PLACES), len(tokens)))
    if model.model.can_generate():
        return Asked(next=True, places=last, scored=last)
    gap = model.tokenizer.mask_token_id
    gaps = [place for place, each in enumerate(tokens.ids) if each == gap][:PLACES]
    return Asked(next=False, places=tuple(gaps), scored=tuple(sorted({*gaps, *last})))


def decoder_answers(model: Loaded, which: Which) -> bool:
    """Whether what answers is a decoder, and its encoder is looked at."""
    several = model.config.is_encoder_decoder and which == "self"
    return bool(several) and _answers_by(model) is not None


def _answers_by(model: Loaded) -> nn.Module | None:
    """The module that scores every answer; FSMT names a table of the same size."""
    try:
        found = model.model.get_output_embeddings()
    except NotImplementedError:
        return None
    if isinstance(found, nn.Embedding):
        linear = (each for each in model.model.modules() if isinstance(each, nn.Linear))
        return next((each for each in linear if each.weight.shape == found.weight.shape), None)
    return found if isinstance(found, nn.Module) else None


@contextmanager
def ending(model: Loaded, asked: Asked | None, which: Which = "self") -> Iterator[Ending]:
    """While this lasts, what the model comes to is kept."""
    made = Ending()
    hooks = [_body(model, which).register_forward_hook(_keeps_vectors(made))]
    scoring = _answers_by(model)
    if asked is not None and scoring is not None:
        hooks.append(scoring.register_forward_pre_hook(_at(asked.scored, made)))
        hooks.append(model.model.register_forward_hook(_keeps_logits(made)))
    try:
        yield made
    finally:
        for each in hooks:
            each.remove()


def _body(model: Loaded, which: Which) -> nn.Module:
    """What makes the vectors of the tokens that are looked at."""
    if not model.config.is_encoder_decoder:
        body: nn.Module = model.model.base_model
        return body
    found: nn.Module = model.model.get_encoder() if which == "self" else model.model.get_decoder()
    return found


def _keeps_vectors(made: Ending) -> Callable[..., None]:
    def keep(module: nn.Module, args: Any, outputs: Any) -> None:
        vectors = getattr(outputs, "last_hidden_state", None)
        made.vectors = None if vectors is None else vectors[0]

    return keep


def _keeps_logits(made: Ending) -> Callable[..., None]:
    def keep(module: nn.Module, args: Any, outputs: Any) -> None:
        named = (getattr(outputs, name, None) for name in ("logits", "prediction_logits"))
        logits = next((each for each in named if each is not None), None)
        made.logits = None if logits is None else logits[0]

    return keep


def _at(places: Sequence[int], made: Ending) -> Callable[..., tuple[Tensor, ...]]:
    """Of the vectors of all tokens those of some: no others are scored.

    They are the last ones of a model whose body is never called as a whole, as OPT's.
    """

    def chosen(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        vectors, *rest = args
        made.vectors = vectors[0] if made.vectors is None else made.vectors
        return (vectors[..., list(places), :], *rest)

    return chosen


def outputs_of(made: Ending, with_all_heads: Ending | None) -> Outputs | None:
    """The last vectors of a model; where heads are off, beside those that it makes with all."""
    if made.vectors is None:
        return None
    return Outputs(made.vectors, None if with_all_heads is None else with_all_heads.vectors)


def predicted(
    model: Loaded,
    tokens: Tokens,
    asked: Asked | None,
    made: Ending,
    with_all_heads: Ending | None = None,
) -> Prediction | None:
    """What a model answers, and what it would with all its heads, if some are off."""
    if asked is None or made.logits is None:
        return None
    logits = made.logits.float()
    shares = logits.softmax(-1)
    before = None if with_all_heads is None else _shares(with_all_heads)
    kept = _likeliest(shares if before is None else torch.cat([shares, before]))
    everywhere = _Everywhere(len(tokens), asked.scored, kept)
    gap = model.tokenizer.mask_token
    return Prediction(
        answers=tuple(each.label for each in spelling_of(model.tokenizer).written(kept.tolist())),
        predicts="next" if asked.next else "here",
        scoring=None,
        logits=everywhere(logits),
        probabilities=everywhere(shares),
        asked=asked.places,
        with_all_heads=None if before is None else everywhere(before),
        asks=() if asked.next or gap is None else (gap,),
        of=logits.shape[-1],
    )


def _shares(made: Ending) -> Float[Tensor, "place answer"] | None:
    return None if made.logits is None else made.logits.float().softmax(-1)


def _likeliest(shares: Float[Tensor, "place answer"]) -> Tensor:
    """The answers that are among the likeliest of any place, in the order of their ids."""
    found: Tensor = torch.unique(shares.topk(min(LIKELIEST, shares.shape[-1])).indices)
    return found


@dataclass(frozen=True, eq=False)
class _Everywhere:
    """Numbers of some places and of all answers, as those of all places and of some answers."""

    tokens: int
    scored: Sequence[int]
    kept: Tensor

    def __call__(self, numbers: Float[Tensor, "place answer"]) -> Float[Tensor, "token kept"]:
        made = numbers.new_full((self.tokens, len(self.kept)), nan)
        made[list(self.scored)] = numbers[:, self.kept]
        return made
