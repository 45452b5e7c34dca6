"""The token ids that a model reads: of a text, of its continuation, and of a decoder's target."""

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

DEFAULT_GENERATED_TOKENS = 20  # of a decoder, unless --generate says how many
GREEDY_OPTIONS: dict[str, Any] = {  # override what a checkpoint's generation config may ask for
    "do_sample": False,
    "num_beams": 1,
    "min_length": 0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "renormalize_logits": False,
    "forced_eos_token_id": None,
}
ENDED_AT_ONCE_NOTE = "the model ended the text at once, and added nothing"


@dataclass(frozen=True, eq=False)
class PreparedInput:
    """The ids that a model takes, and the tokens of the attention's queries and keys."""

    model_input: ModelInput
    tokens: Tokens
    keys: Tokens
    prompt: int | None = None  # number of tokens of the prompt; None: nothing was generated


def prepare_input(model: LoadedTransformer, text: str, settings: Settings) -> PreparedInput:
    """Returns the input ids and tokens of a text, with the generated ones if they are wanted."""
    refuse_empty_text(text)
    which = _choose_attention(model, settings)
    new_tokens = (settings.generate or 0) if which == "self" else 0
    tokens = cut_text(model, text, truncate=settings.truncate, room=new_tokens)
    if which != "self":
        target = settings.target
        target_ids: TokenIds = (
            generate_decoder_ids(model, tokens.ids, settings)
            if target is None
            else encode_target(model, target)
        )
        queries = tokens_of_ids(model, target_ids)
        keys = tokens if which == "cross" else queries
        return PreparedInput(ModelInput(which, tokens.ids, target_ids), queries, keys)
    if settings.generate is None:
        return PreparedInput(ModelInput("self", tokens.ids), tokens, tokens)
    ids = continue_text(model, tokens.ids, settings)
    all_tokens = tokens_of_ids(model, ids, tokens)
    prompt = len(tokens) if len(ids) > len(tokens) else None
    return PreparedInput(ModelInput("self", ids), all_tokens, all_tokens, prompt)


def _choose_attention(model: LoadedTransformer, settings: Settings) -> AttentionKind:
    """Returns the kind of attention to show; refuses settings that the model cannot follow."""
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
        reason, hint = f"the model '{model.name}' is not one", "leave --target out"
        if is_encoder_decoder:
            reason, hint = "--attention is self", "give --attention cross"
        problem = f"--target is what the decoder of an encoder–decoder reads, but {reason}"
        raise AttnvizError(problem, hint, about="target")
    if settings.generate is None or not is_encoder_decoder:
        return which
    if which == "self" or settings.target:
        reason = "--attention is self: the encoder's"
        hint = "give --attention decoder, or cross"
        if settings.target:
            reason, hint = "--target already says what", "leave it out"
        problem = f"--generate says how much a decoder writes, but {reason}"
        raise AttnvizError(problem, hint, about="generate")
    return which


def continue_text(model: LoadedTransformer, ids: TokenIds, settings: Settings) -> TokenIds:
    """Returns the ids of a text and of its continuation by a decoder, without the end token."""
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
    added = len(text_ids) - len(ids)
    if added < settings.generate:
        note = f"the model ended the text after {counted(added, 'token')}"
        warn_with_note(note if added else ENDED_AT_ONCE_NOTE)
    return text_ids


def generate_decoder_ids(model: LoadedTransformer, ids: TokenIds, settings: Settings) -> TokenIds:
    """Returns what an encoder–decoder's decoder reads: its start token and its own output."""
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
    """Returns what an encoder–decoder's decoder reads of a given target: start token and text."""
    with reporting_tokenizer_errors(model):
        ids = tuple(model.tokenizer(text_target=target, verbose=False)["input_ids"])
    start_id = _generation_setting(model, "decoder_start_token_id")
    started_ids = ids if start_id is None else (start_id, *ids)
    return _strip_end_token(model, started_ids, 1)


def _generate_greedily(
    model: LoadedTransformer, ids: TokenIds, count: int, settings: Settings
) -> TokenIds:
    """Returns `ids` and up to `count` generated ones; ablated heads stay ablated meanwhile."""
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
            use_cache=not off,  # mean ablation needs all tokens at every step
            **GREEDY_OPTIONS,
        )
    return tuple(output_ids[0].tolist())


def _strip_end_token(model: LoadedTransformer, ids: TokenIds, least: int) -> TokenIds:
    """Removes an end token at the end of ids longer than `least`: nothing attends to it."""
    end_ids = _generation_setting(model, "eos_token_id")
    has_ended = ids[-1] in end_ids if isinstance(end_ids, list | tuple) else ids[-1] == end_ids
    return ids[:-1] if len(ids) > least and has_ended else ids


def _generation_setting(model: LoadedTransformer, name: str) -> Any:
    """Returns a setting of the generation config, else of the config; None if neither has it."""
    configs = (getattr(model.model, "generation_config", None), model.text_config, model.config)
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)
