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
from attnviz.traces.trace import Outputs
from attnviz.traces.trained.cutting import spelling_of
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import Reading, part_of, passed, run
from attnviz.traces.trained.reading import Read

PLACES = 64  # at which answers are scored, the last of a text
LIKELIEST = 10  # answers of each place


@dataclass(frozen=True)
class Asked:
    """Where a model answers, and at which places answers are scored."""

    next: bool  # what comes after each token; or else what belongs at each
    places: tuple[int, ...]  # that something is asked for
    scored: tuple[int, ...]


def asked_of(model: Loaded, what: Read) -> Asked | None:
    """What a model answers of these tokens; None of what has no answers, as an encoder."""
    beside = model.config.is_encoder_decoder and what.reading.which == "self"
    if beside or _answers_by(model) is None:
        return None
    ids = what.tokens.ids
    last = tuple(range(max(0, len(ids) - PLACES), len(ids)))
    if model.model.can_generate():
        return Asked(next=True, places=last, scored=last)
    gap = model.tokenizer.mask_token_id
    gaps = [place for place, each in enumerate(ids) if each == gap][:PLACES]
    return Asked(next=False, places=tuple(gaps), scored=tuple(sorted({*gaps, *last})))


def _answers_by(model: Loaded) -> nn.Module | None:
    """The module that scores every answer."""
    try:
        found = model.model.get_output_embeddings()
    except NotImplementedError:
        return None
    return found if isinstance(found, nn.Module) else None


@dataclass(eq=False)
class Ending:
    """What one pass of a model comes to."""

    asked: Asked | None
    vectors: Float[Tensor, "token dim"] | None = None
    logits: Float[Tensor, "place answer"] | None = None

    def run(self, model: Loaded, reading: Reading) -> Any:
        """A pass of the whole model if it answers; what the part makes that is looked at."""
        part = part_of(model, reading.which)
        with _kept(_body(model, reading), self._keep_vectors):
            if self.asked is None:
                return run(model, reading)
            found: list[Any] = []
            with _kept(part, found.append), self._few_scored(model):
                self._keep_logits(run(model, reading, whole=True))
        return found[0]

    def _keep_vectors(self, outputs: Any) -> None:
        vectors = getattr(outputs, "last_hidden_state", None)
        self.vectors = None if vectors is None else vectors[0]

    def _keep_logits(self, outputs: Any) -> None:
        named = (getattr(outputs, name, None) for name in ("logits", "prediction_logits"))
        logits = next((each for each in named if each is not None), None)
        self.logits = None if logits is None else logits[0]

    @contextmanager
    def _few_scored(self, model: Loaded) -> Iterator[None]:
        """Of the vectors of all tokens those of some: no others are scored."""
        scoring, asked = _answers_by(model), self.asked
        assert scoring is not None
        assert asked is not None

        def few(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            vectors, *rest = args
            return (vectors[:, list(asked.scored)], *rest)

        hook = scoring.register_forward_pre_hook(few)
        try:
            yield
        finally:
            hook.remove()


def _body(model: Loaded, reading: Reading) -> nn.Module:
    """What makes the last vectors of the tokens that read."""
    if reading.which == "self":
        body: nn.Module = part_of(model, "self")
        return body
    decoder: nn.Module = model.model.get_decoder()
    return decoder


@contextmanager
def _kept(module: nn.Module, keep: Callable[[Any], None]) -> Iterator[None]:
    """While this lasts, what a module hands back is kept."""
    hook = module.register_forward_hook(lambda _, args, outputs: keep(outputs))
    try:
        yield
    finally:
        hook.remove()


def with_all_heads(model: Loaded, reading: Reading, made: Ending) -> Ending:
    """What a model comes to when none of its heads is off."""
    whole = Ending(made.asked)
    passed(model, reading, layers=(), through=whole.run)
    return whole


def outputs_of(made: Ending, whole: Ending | None) -> Outputs | None:
    """The last vectors of a model; where heads are off, beside those that it makes with all."""
    if made.vectors is None:
        return None
    return Outputs(made.vectors, None if whole is None else whole.vectors)


def predicted(
    model: Loaded, tokens: Tokens, made: Ending, whole: Ending | None = None
) -> Prediction | None:
    """What a model answers, and what it would with all its heads, if some are off."""
    asked = made.asked
    if asked is None or made.logits is None:
        return None
    logits = made.logits.float()
    shares = logits.softmax(-1)
    before = None if whole is None else _shares(whole)
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
