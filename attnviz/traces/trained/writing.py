"""What a decoder writes: the likeliest token, again and again."""

from __future__ import annotations

from typing import Any

import torch

from attnviz.errors import AttnvizError, mention
from attnviz.traces.settings import Settings
from attnviz.traces.trained.cutting import tokenizing
from attnviz.traces.trained.listening import Listener, listening
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.passing import Ids, running
from attnviz.traces.trained.passing import Reading as Read
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.without import heads_off
from attnviz.wording.words import counted

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
    written = _without_end(model, _written(model, ids, settings.generate, settings), len(ids))
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
    return _without_end(model, _written(model, ids, count, settings), 1)


def targeted(model: Loaded, target: str) -> Ids:
    """The same of a text that a person gives."""
    with tokenizing(model):
        ids = tuple(model.tokenizer(text_target=target, verbose=False)["input_ids"])
    start = _said(model, "decoder_start_token_id")
    begun = ids if start is None else (start, *ids)
    return _without_end(model, begun, 1)


def _written(model: Loaded, ids: Ids, count: int, settings: Settings) -> Ids:
    """Greedily, with the attention that is listened to: heads that are off stay off."""
    given = torch.tensor([ids], device=model.model.device)
    off = heads_off(settings.without)
    listener = Listener(layers=(), off=off)
    with quietly(), running(model, Read("self", ids)), listening(model.model, listener):
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
