"""What a model reads: a text as it is, as a prompt, or as it continues it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from attnviz.errors import AttnvizError, mention
from attnviz.tokens.tokenizers import refuse_nothing
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import Settings, Which, heads_off
from attnviz.traces.trained.listening import Listener, listening
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import Ids, Reading, running
from attnviz.traces.trained.pieces import cut, tokenizing, tokens_of_ids
from attnviz.traces.trained.refusals import quietly
from attnviz.wording.words import counted


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


MOST_WRITTEN = 20  # tokens, unless --generate says how many
PLAIN: dict[str, Any] = {  # what a checkpoint may ask for beside the likeliest token
    "do_sample": False,
    "num_beams": 1,
    "min_length": 0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "renormalize_logits": False,
    "forced_eos_token_id": None,
}


def continued(model: Loaded, ids: Ids, settings: Settings) -> Ids:
    """A text and what a decoder adds to it, without the token by which it ends."""
    assert settings.generate is not None
    if not model.model.can_generate():
        raise AttnvizError(
            f"the model '{model.name}' cannot continue a text: it was saved as "
            f"{type(model.model).__name__}, which predicts no next token",
            "leave --generate out, or use a decoder with its language-model head",
            about="generate",
        )
    written = _without_end(model, _generate(model, ids, settings.generate, settings), len(ids))
    if len(written) < len(ids) + settings.generate:
        added = len(written) - len(ids)
        note = f"the model ended the text after {counted(added, 'token')}" if added else ENDED
        mention(note)
    return written


ENDED = "the model ended the text at once, and added nothing"


def decoded(model: Loaded, ids: Ids, settings: Settings) -> Ids:
    """What a decoder reads beside an encoder: its start token, and what it writes itself."""
    if not model.model.can_generate():
        raise AttnvizError(
            f"the model '{model.name}' was saved without the part that writes, so its decoder has "
            "nothing to read",
            "say what it reads: --target TEXT",
            about="target",
        )
    count = MOST_WRITTEN if settings.generate is None else settings.generate
    return _without_end(model, _generate(model, ids, count, settings), 1)


def targeted(model: Loaded, target: str) -> Ids:
    """The same of a text that a person gives."""
    with tokenizing(model):
        ids = tuple(model.tokenizer(text_target=target, verbose=False)["input_ids"])
    start = _said(model, "decoder_start_token_id")
    begun = ids if start is None else (start, *ids)
    return _without_end(model, begun, 1)


def _generate(model: Loaded, ids: Ids, count: int, settings: Settings) -> Ids:
    """Greedily, with the attention that is listened to: heads that are off stay off."""
    given = torch.tensor([ids], device=model.model.device)
    off = heads_off(settings.without)
    listener = Listener(layers=(), off=off)
    with quietly(), running(model, Reading("self", ids)), listening(model.model, listener):
        found = model.model.generate(
            input_ids=given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=count,
            use_cache=not off,  # a mean over the sentence is one over all of it
            **PLAIN,
        )
    return tuple(found[0].tolist())


def _without_end(model: Loaded, ids: Ids, least: int) -> Ids:
    """Nothing is read after the token that ends a text: it has no part in what is shown."""
    ends = _said(model, "eos_token_id")
    ended = ids[-1] in ends if isinstance(ends, list | tuple) else ids[-1] == ends
    return ids[:-1] if len(ids) > least and ended else ids


def _said(model: Loaded, name: str) -> Any:
    """What a model says of how it writes; its config, where it does not write itself."""
    places = (getattr(model.model, "generation_config", None), model.text_config, model.config)
    told = (getattr(place, name, None) for place in places)
    return next((each for each in told if each is not None), None)
