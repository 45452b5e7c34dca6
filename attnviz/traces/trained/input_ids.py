"""What a model reads: a text as it is, as a prompt, or as it continues it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from attnviz.errors import AttnvizError, warn_with_note
from attnviz.tokens.tokenizers import refuse_empty_text
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import AttentionKind, Settings, parse_heads_off
from attnviz.traces.trained.capture import Listener, capturing_attention
from attnviz.traces.trained.forward_pass import ModelInput, TokenIds, reporting_run_errors
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import cut_text, reporting_tokenizer_errors, tokens_of_ids
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.wording.words import counted


@dataclass(frozen=True, eq=False)
class PreparedInput:
    """The ids that a model takes, and the tokens that read and are read."""

    model_input: ModelInput
    tokens: Tokens
    keys: Tokens
    prompt: int | None = None  # how many tokens were given, where the model wrote the others


def prepare_input(model: LoadedTransformer, text: str, settings: Settings) -> PreparedInput:
    """What a model reads of a text, and what it writes where that is asked for."""
    refuse_empty_text(text)
    which = _choose_attention(model, settings)
    tokens = cut_text(
        model, text, truncate=settings.truncate, room=_reserved_token_count(settings, which)
    )
    if which != "self":
        return _prepare_decoder_input(model, which, tokens, settings)
    if settings.generate is None:
        return PreparedInput(ModelInput("self", tokens.ids), tokens, tokens)
    ids = continue_text(model, tokens.ids, settings)
    all_tokens = tokens_of_ids(model, ids, tokens)
    prompt = len(tokens) if len(ids) > len(tokens) else None
    return PreparedInput(ModelInput("self", ids), all_tokens, all_tokens, prompt)


def _reserved_token_count(settings: Settings, which: AttentionKind) -> int:
    """How many tokens are added to those of the text itself."""
    return (settings.generate or 0) if which == "self" else 0


def _prepare_decoder_input(
    model: LoadedTransformer, which: AttentionKind, tokens: Tokens, settings: Settings
) -> PreparedInput:
    target = settings.target
    ids: TokenIds = (
        generate_decoder_ids(model, tokens.ids, settings)
        if target is None
        else encode_target(model, target)
    )
    decoder_tokens = tokens_of_ids(model, ids)
    model_input = ModelInput(which, tokens.ids, ids)
    return PreparedInput(
        model_input, decoder_tokens, tokens if which == "cross" else decoder_tokens
    )


def _choose_attention(model: LoadedTransformer, settings: Settings) -> AttentionKind:
    """Which attention is looked at; what only some models have is refused of others."""
    is_encoder_decoder = bool(model.config.is_encoder_decoder)
    which: AttentionKind = settings.attention or "self"
    if which != "self" and not is_encoder_decoder:
        raise AttnvizError(
            f"--attention is {which}, but the model '{model.name}' ({model.config.model_type}) "
            "does not have both an encoder and a decoder",
            "leave --attention out: this model only has self-attention",
            about="attention",
        )
    if settings.target is not None and (which == "self" or not is_encoder_decoder):
        raise AttnvizError(
            "--target is what the decoder of an encoder–decoder reads, but "
            + (
                "--attention is self"
                if is_encoder_decoder
                else f"the model '{model.name}' is not one"
            ),
            "give --attention cross" if is_encoder_decoder else "leave --target out",
            about="target",
        )
    if (
        settings.generate is not None
        and is_encoder_decoder
        and (which == "self" or settings.target)
    ):
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


DEFAULT_GENERATED_TOKENS = 20  # tokens, unless --generate says how many
GREEDY_OPTIONS: dict[str, Any] = {  # what a checkpoint may ask for beside the likeliest token
    "do_sample": False,
    "num_beams": 1,
    "min_length": 0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "renormalize_logits": False,
    "forced_eos_token_id": None,
}


def continue_text(model: LoadedTransformer, ids: TokenIds, settings: Settings) -> TokenIds:
    """A text and what a decoder adds to it, without the token by which it ends."""
    assert settings.generate is not None
    if not model.model.can_generate():
        raise AttnvizError(
            f"the model '{model.name}' cannot continue a text: it was saved as "
            f"{type(model.model).__name__}, which predicts no next token",
            "leave --generate out, or use a decoder with its language-model head",
            about="generate",
        )
    text_ids = _strip_end_token(
        model, _generate_greedily(model, ids, settings.generate, settings), len(ids)
    )
    if len(text_ids) < len(ids) + settings.generate:
        added = len(text_ids) - len(ids)
        note = (
            f"the model ended the text after {counted(added, 'token')}"
            if added
            else ENDED_AT_ONCE_NOTE
        )
        warn_with_note(note)
    return text_ids


ENDED_AT_ONCE_NOTE = "the model ended the text at once, and added nothing"


def generate_decoder_ids(model: LoadedTransformer, ids: TokenIds, settings: Settings) -> TokenIds:
    """What a decoder reads beside an encoder: its start token, and what it writes itself."""
    if not model.model.can_generate():
        raise AttnvizError(
            f"the model '{model.name}' was saved without the part that writes, so its decoder has "
            "nothing to read",
            "say what it reads: --target TEXT",
            about="target",
        )
    count = DEFAULT_GENERATED_TOKENS if settings.generate is None else settings.generate
    return _strip_end_token(model, _generate_greedily(model, ids, count, settings), 1)


def encode_target(model: LoadedTransformer, target: str) -> TokenIds:
    """The same of a text that a person gives."""
    with reporting_tokenizer_errors(model):
        ids = tuple(model.tokenizer(text_target=target, verbose=False)["input_ids"])
    start_id = _reading_sentences(model, "decoder_start_token_id")
    started_ids = ids if start_id is None else (start_id, *ids)
    return _strip_end_token(model, started_ids, 1)


def _generate_greedily(
    model: LoadedTransformer, ids: TokenIds, count: int, settings: Settings
) -> TokenIds:
    """Greedily, with the attention that is listened to: heads that are off stay off."""
    prompt_ids = torch.tensor([ids], device=model.model.device)
    off = parse_heads_off(settings.without)
    listener = Listener(layers=(), off=off)
    with (
        quiet_transformers(),
        reporting_run_errors(model, ModelInput("self", ids)),
        capturing_attention(model.model, listener),
    ):
        output_ids = model.model.generate(
            input_ids=prompt_ids,
            attention_mask=torch.ones_like(prompt_ids),
            max_new_tokens=count,
            use_cache=not off,  # a mean over the sentence is one over all of it
            **GREEDY_OPTIONS,
        )
    return tuple(output_ids[0].tolist())


def _strip_end_token(model: LoadedTransformer, ids: TokenIds, least: int) -> TokenIds:
    """Nothing is read after the token that ends a text: it has no part in what is shown."""
    end_ids = _reading_sentences(model, "eos_token_id")
    has_ended = ids[-1] in end_ids if isinstance(end_ids, list | tuple) else ids[-1] == end_ids
    return ids[:-1] if len(ids) > least and has_ended else ids


def _reading_sentences(model: LoadedTransformer, name: str) -> Any:
    """What a model says of how it writes; its config, where it does not write itself."""
    configs = (getattr(model.model, "generation_config", None), model.text_config, model.config)
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)
