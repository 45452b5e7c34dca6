"""What is read of a text: cut up, continued or written on, as the settings ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import refuse_nothing
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import Settings, Which
from attnviz.traces.trained.cutting import cut, tokens_of_ids
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import Ids, Reading
from attnviz.traces.trained.writing import continued, decoded, targeted


@dataclass(frozen=True, eq=False)
class Read:
    """The ids that a model takes, and the tokens that read and are read."""

    reading: Reading
    tokens: Tokens
    keys: Tokens
    prompt: int | None = None  # how many tokens were given, where the model wrote the others


def read(model: Loaded, text: str, settings: Settings) -> Read:
    """What a model reads of a text, and what it writes where that is asked for."""
    refuse_nothing(text)
    which = _which(model, settings)
    tokens = cut(model, text, truncate=settings.truncate, room=_room(settings, which))
    if which != "self":
        return _written(model, which, tokens, settings)
    if settings.generate is None:
        return Read(Reading("self", tokens.ids), tokens, tokens)
    ids = continued(model, tokens.ids, settings)
    whole = tokens_of_ids(model, ids, tokens)
    prompt = len(tokens) if len(ids) > len(tokens) else None
    return Read(Reading("self", ids), whole, whole, prompt)


def _room(settings: Settings, which: Which) -> int:
    """How many tokens are added to those of the text itself."""
    return (settings.generate or 0) if which == "self" else 0


def _written(model: Loaded, which: Which, tokens: Tokens, settings: Settings) -> Read:
    target = settings.target
    ids: Ids = decoded(model, tokens.ids, settings) if target is None else targeted(model, target)
    written = tokens_of_ids(model, ids)
    reading = Reading(which, tokens.ids, ids)
    return Read(reading, written, tokens if which == "cross" else written)


def _which(model: Loaded, settings: Settings) -> Which:
    """Which attention is looked at; what only some models have is refused of others."""
    several = bool(model.config.is_encoder_decoder)
    which: Which = settings.attention or "self"
    if which != "self" and not several:
        raise AttnvizError(
            f"--attention is {which}, but the model '{model.name}' ({model.config.model_type}) "
            "does not have both an encoder and a decoder",
            "leave --attention out: this model only has self-attention",
            about="attention",
        )
    if settings.target is not None and (which == "self" or not several):
        raise AttnvizError(
            "--target is what the decoder of an encoder–decoder reads, but "
            + ("--attention is self" if several else f"the model '{model.name}' is not one"),
            "give --attention cross" if several else "leave --target out",
            about="target",
        )
    if settings.generate is not None and several and (which == "self" or settings.target):
        raise AttnvizError(
            "--generate says how much a decoder writes, but "
            + (
                "--target already says what"
                if settings.target
                else "--attention is self: the encoder's"
            ),
            "leave it out" if settings.target else "give --attention decoder, or cross",
            about="generate",
        )
    return which
