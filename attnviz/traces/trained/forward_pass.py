"""Runs a model, also to generate tokens; its errors become two lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.long_attention import SummaryChoice
from attnviz.errors import AttnvizError, model_error, opt, warn_with_note
from attnviz.machine import memory
from attnviz.machine.context_values import context_value
from attnviz.options.values import AblationValue, AttentionKind
from attnviz.tokens.tokenizer_limits import within_limit
from attnviz.tokens.tokenizers import refuse_empty_text
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import HeadId, Settings, parse_heads_off
from attnviz.traces.trained.answers import AnswerPositions, PassResult, capturing_result
from attnviz.traces.trained.band_masks import BandMasks, MaskRuleLost
from attnviz.traces.trained.capture import CannotCapture, LayerOutput, Listener, capturing_attention
from attnviz.traces.trained.captured_attention import CapturedAttention
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_state import ModelResults
from attnviz.traces.trained.pieces import cut_text, reporting_tokenizer_errors, tokens_of_ids
from attnviz.traces.trained.refusals import quiet_transformers, shorten_message
from attnviz.wording.words import and_list, counted

DEFAULT_GENERATED_TOKENS = 20  # of a decoder, unless --generate says how many
GREEDY_OPTIONS: dict[str, Any] = {  # override what a checkpoint's generation config may ask for
    "do_sample": False,
    "num_beams": 1,
    "min_length": 0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "renormalize_logits": False,
    "forced_eos_token_id": None,
    "return_dict_in_generate": False,
}
_new_text_listener: ContextVar[Callable[[str], None] | None] = ContextVar(
    "new_text_listener", default=None
)
ENDED_AT_ONCE_NOTE = "the model ended the text at once, and added nothing"


@dataclass(frozen=True, eq=False)
class PreparedInput:
    """The ids that a model takes, and the tokens of the attention's queries and keys."""

    model_input: ModelInput
    tokens: Tokens
    keys: Tokens
    prompt: int | None = None  # number of tokens of the prompt; None: nothing was generated


def prepare_input(model: LoadedTransformer, text: str, settings: Settings) -> PreparedInput:
    """Return the ids that a model reads of a text, and the tokens of its queries and keys.

    They include the tokens that `settings.generate` adds. The decoder of an encoder–decoder reads
    `settings.target`, or what it generates itself. Refuses an empty or too long text, and settings
    that do not fit the model.
    """
    refuse_empty_text(text)
    kind = _choose_attention(model, settings)
    new_tokens = (settings.generate or 0) if kind == "self" else 0
    tokens = cut_text(model, text, truncate=settings.truncate, room=new_tokens, chat=settings.chat)
    _refuse_unknown_ids(model, tokens.ids)
    if kind != "self":
        target = settings.target
        target_ids: TokenIds = (
            generate_decoder_ids(model, tokens.ids, settings)
            if target is None
            else encode_target(model, target)
        )
        queries = tokens_of_ids(model, target_ids)
        keys = tokens if kind == "cross" else queries
        return PreparedInput(ModelInput(kind, tokens.ids, target_ids), queries, keys)
    if settings.generate is None:
        return PreparedInput(ModelInput("self", tokens.ids), tokens, tokens)
    ids = continue_text(model, tokens.ids, settings)
    all_tokens = tokens_of_ids(model, ids, tokens)
    prompt = len(tokens) if len(ids) > len(tokens) else None
    return PreparedInput(ModelInput("self", ids), all_tokens, all_tokens, prompt)


def _refuse_unknown_ids(model: LoadedTransformer, ids: TokenIds) -> None:
    """Refuse ids beyond the model's embeddings, which another model's tokenizer makes.

    A GPU could not be used any more after reading them.
    """
    try:
        count = getattr(model.model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # of a model of text and pictures
        return
    if count is not None and max(ids) >= count:
        raise AttnvizError(
            f"the tokenizer makes id {max(ids):,}, but the model '{model.name}' only has "
            f"embeddings for {count:,}",
            "use the tokenizer that the model was trained with",
            about="tokenizer",
        )


def _choose_attention(model: LoadedTransformer, settings: Settings) -> AttentionKind:
    """Return the kind of attention to show: that of `settings.attention`, else "self".

    Refuses --attention, --target and --generate that do not fit the model or each other.
    """
    is_encoder_decoder = bool(model.config.is_encoder_decoder)
    kind: AttentionKind = settings.attention or "self"
    if kind != "self" and not is_encoder_decoder:
        raise AttnvizError(
            f"{opt.attention:is {kind}}, but the model '{model.name}' ({model.config.model_type}) "
            "does not have both an encoder and a decoder",
            f"leave {opt.attention} out: this model only has self-attention",
            about="attention",
        )
    if settings.target is not None and (kind == "self" or not is_encoder_decoder):
        reason, hint = f"the model '{model.name}' is not one", f"leave {opt.target} out"
        if is_encoder_decoder:
            reason, hint = f"{opt.attention} is self", f"give {opt.attention:cross}"
        problem = f"{opt.target} is what the decoder of an encoder–decoder reads, but {reason}"
        raise AttnvizError(problem, hint, about="target")
    if settings.generate is None or not is_encoder_decoder:
        return kind
    if kind == "self" or settings.target:
        reason = f"{opt.attention} is self: the encoder's"
        hint = f"give {opt.attention:decoder}, or cross"
        if settings.target:
            reason, hint = f"{opt.target} already says what", "leave it out"
        problem = f"{opt.generate} says how much a decoder writes, but {reason}"
        raise AttnvizError(problem, hint, about="generate")
    return kind


def continue_text(model: LoadedTransformer, ids: TokenIds, settings: Settings) -> TokenIds:
    """Return `ids` followed by at most `settings.generate` tokens that the model adds.

    An end token at the end is removed, and a note says if the model ended early. Refuses a model
    that cannot generate.
    """
    assert settings.generate is not None
    if not model.model.can_generate():
        raise AttnvizError(
            f"the model '{model.name}' cannot continue a text: it was saved as "
            f"{type(model.model).__name__}, which predicts no next token",
            f"leave {opt.generate} out, or use a decoder with its language-model head",
            about="generate",
        )
    text_ids = _strip_end_token(
        model, _generate_greedily(model, ids, settings.generate, settings), len(ids)
    )
    added = len(text_ids) - len(ids)
    if not added:
        refuse_infinite_weights(model)  # of which every answer is the first token
    if added < settings.generate:
        note = f"the model ended the text after {counted(added, 'token')}"
        warn_with_note(note if added else ENDED_AT_ONCE_NOTE)
    return text_ids


def generate_decoder_ids(model: LoadedTransformer, ids: TokenIds, settings: Settings) -> TokenIds:
    """Return the ids that a decoder reads without a target: its start token and its own output.

    The output has at most `settings.generate` tokens (20 if that is None), without the end token.
    Refuses a model that cannot generate.
    """
    if not model.model.can_generate():
        raise AttnvizError(
            f"the model '{model.name}' was saved without the part that writes, so its decoder has "
            "nothing to read",
            f"say what it reads: {opt.target:TEXT}",
            about="target",
        )
    count = DEFAULT_GENERATED_TOKENS if settings.generate is None else settings.generate
    return _strip_end_token(model, _generate_greedily(model, ids, count, settings), 1)


def encode_target(model: LoadedTransformer, target: str) -> TokenIds:
    """Return the ids that an encoder–decoder's decoder reads of a given target.

    These are the start token, if the model has one, and those of the target without the end token.
    """
    with reporting_tokenizer_errors(model):
        cut = partial(model.tokenizer, text_target=target, verbose=False)
        ids = tuple(within_limit(cut, len(target))["input_ids"])
    start_id = _generation_setting(model, "decoder_start_token_id")
    started_ids = ids if start_id is None else (start_id, *ids)
    return _strip_end_token(model, started_ids, 1)


def streaming_new_text(listener: Callable[[str], None]) -> AbstractContextManager[None]:
    """Call `listener` with each word that a model generates inside the `with` block, as it comes.

    The words together are the new text, with its spaces and without special tokens.
    """
    return context_value(_new_text_listener, listener)


def _build_streamer(model: LoadedTransformer) -> Any:
    """Return the streamer that `generate` calls with each new token; None if nobody listens."""
    listener = _new_text_listener.get()
    if listener is None:
        return None
    from transformers import TextStreamer

    streamer = TextStreamer(model.tokenizer, skip_prompt=True, skip_special_tokens=True)
    # instead of printing the words:
    streamer.on_finalized_text = lambda text, stream_end=False: listener(text)  # type: ignore[method-assign]
    return streamer


def _generate_greedily(
    model: LoadedTransformer, ids: TokenIds, count: int, settings: Settings
) -> TokenIds:
    """Return what the model generates from `ids`: at most `count` new ids, each the likeliest.

    A decoder's output begins with `ids`, an encoder–decoder's with the start token. The heads in
    `settings.without` are ablated meanwhile.
    """
    prompt_ids = torch.tensor([ids], device=model.device)
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
            streamer=_build_streamer(model),
            **GREEDY_OPTIONS,
        )
    return tuple(output_ids[0].tolist())


def _strip_end_token(model: LoadedTransformer, ids: TokenIds, least: int) -> TokenIds:
    """Return ids without their last one if that is an end token and they are more than `least`."""
    end_ids = _generation_setting(model, "eos_token_id")
    has_ended = ids[-1] in end_ids if isinstance(end_ids, list | tuple) else ids[-1] == end_ids
    return ids[:-1] if len(ids) > least and has_ended else ids


def _generation_setting(model: LoadedTransformer, name: str) -> Any:
    """Return a setting of the generation config, else of the config; None if neither has it."""
    configs = (getattr(model.model, "generation_config", None), model.text_config, model.config)
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)


TokenIds = tuple[int, ...]
DTYPE_ERRORS = re.compile("dtype|scalar ?type|float|double|half|not implemented for", re.IGNORECASE)
PROBE_TOKENS = 32  # the first tokens, on which captured and eager attention are compared


@dataclass(frozen=True)
class ModelInput:
    """The token ids that a model reads; `decoder_ids` are those of an encoder–decoder's decoder."""

    kind: AttentionKind
    ids: TokenIds
    decoder_ids: TokenIds = ()

    @property
    def queries(self) -> TokenIds:
        return self.decoder_ids or self.ids

    @property
    def probe(self) -> ModelInput:
        """The same input with only its first `PROBE_TOKENS` tokens."""
        return replace(
            self, ids=self.ids[:PROBE_TOKENS], decoder_ids=self.decoder_ids[:PROBE_TOKENS]
        )


@dataclass(frozen=True, eq=False)
class CapturedPass:
    """The attention that was captured during a forward pass, and the pass's result."""

    captured: tuple[CapturedAttention, ...]
    outputs: Mapping[int, LayerOutput]  # by number of captured layers, where W_out was recognised
    layer_numbers: tuple[int, ...]  # of all layers that attend, captured or not
    result: PassResult
    off: Mapping[HeadId, AblationValue]


def capture_pass(
    model: LoadedTransformer,
    model_input: ModelInput,
    *,
    layers: Collection[int] | None = None,
    off: Mapping[HeadId, AblationValue] | None = None,
    answer_positions: AnswerPositions | None = None,
    known: ModelResults | None = None,
    choice: SummaryChoice | None = None,
) -> CapturedPass | None:
    """Run the model with its attention captured, and return both; None if it cannot be captured.

    `layers`: the numbers of the layers to capture (None: all); `off`: the heads to ablate. The
    result has logits only with `answer_positions`. `known`: results about the model, which have the
    modules that take part in its attention after the first pass. `choice`: what is measured of
    each captured layer while the model runs, as of a long text.
    """
    known = {} if known is None else known
    key = "modules", model_input.kind, None if layers is None else frozenset(layers)
    for has_rules in (True, False):
        listener = Listener(
            kind=model_input.kind,
            layers=layers,
            off=off or {},
            modules=known.get(key, ()),
            band_masks=BandMasks(is_used=has_rules),
            choice=choice,
            layer_count=model.layers,
        )
        try:
            with capturing_attention(model.model, listener):
                result, _ = run_model(model, model_input, answer_positions)
        except CannotCapture:
            return None
        except MaskRuleLost:
            continue
        break
    if not listener.layer_numbers:
        return None
    known[key] = listener.modules or listener.used_modules
    return CapturedPass(
        tuple(listener.captured),
        listener.outputs,
        tuple(listener.layer_numbers),
        result,
        listener.off,
    )


def run_model(
    model: LoadedTransformer,
    model_input: ModelInput,
    answer_positions: AnswerPositions | None = None,
    **keywords: Any,
) -> tuple[PassResult, Any]:
    """Return a forward pass's result and the model's raw outputs.

    The result has logits only with `answer_positions`; `keywords` are passed to the model. Errors
    of the model are raised as AttnvizError.
    """
    part = model_part(model, model_input.kind, answers=answer_positions is not None)
    with (
        reporting_run_errors(model, model_input),
        capturing_result(model, answer_positions, model_input.kind) as result,
    ):
        outputs = part(**model_tensors(model, model_input), **keywords)
    first = result.of_item(0)
    if not is_finite(first):
        refuse_infinite_weights(model)
    return first, outputs


def is_finite(result: PassResult) -> bool:
    """Return whether no number that a pass computed is NaN or infinite, but for logits of -∞."""
    numbers = (result.vectors, result.logits)
    return all(each is None or bool(each.max().isfinite()) for each in numbers)


def refuse_infinite_weights(model: LoadedTransformer) -> None:
    """Refuse a model with weights that are infinite or NaN, and name the first tensor of them."""
    for name, weights in model.model.named_parameters():
        is_known = weights.is_floating_point() and weights.device.type != "meta"
        if is_known and not bool(weights.float().isfinite().all()):
            raise model_error(
                f"the model '{model.name}' ({model.config.model_type}) has weights that are "
                f"infinite or not a number (NaN), in {model.names_in_file.get(name, name)}",
                "copy or download it again; if you trained it, use an earlier checkpoint",
            )


def refuse_infinite_result(model: LoadedTransformer, result: PassResult) -> None:
    """Refuse a result with numbers that are infinite or none, of a model with finite weights."""
    if not is_finite(result):
        is_narrow = model.dtype in ("float16", "bfloat16")
        raise AttnvizError(
            f"the model '{model.name}' ({model.config.model_type}) computes numbers on this text "
            f"that are infinite or not a number (NaN), as {model.dtype}",
            f"give {opt.dtype:float32}" if is_narrow else "use another text, or another model",
            about="dtype" if is_narrow else "model",
        )


def model_tensors(model: LoadedTransformer, model_input: ModelInput) -> dict[str, Tensor]:
    """Return the token ids as keyword arguments of the model: batches of one text."""
    ids_by_name = {"input_ids": model_input.ids}
    if model_input.kind != "self":
        ids_by_name["decoder_input_ids"] = model_input.decoder_ids
    device = model.device
    return {name: torch.tensor([ids], device=device) for name, ids in ids_by_name.items()}


def model_part(model: LoadedTransformer, kind: AttentionKind, *, answers: bool = False) -> Any:
    """Return the module to run: the encoder of an encoder–decoder for its self-attention.

    Otherwise the whole model if `answers` are wanted, else the model without its output layer.
    """
    if kind == "self" and model.config.is_encoder_decoder:
        return model.model.get_encoder()
    return model.model if answers else model.model.base_model


class CannotRun(AttnvizError):
    """The error of a model that fails while it reads a text."""


@contextmanager
def reporting_run_errors(model: LoadedTransformer, model_input: ModelInput) -> Iterator[None]:
    """Raise an error of the model inside the `with` block as an AttnvizError.

    Where the memory of a GPU is too small, it says how many tokens fit. AttnvizError, CannotCapture
    and a lack of main memory are raised as they are.
    """
    try:
        yield
    except (AttnvizError, CannotCapture, MaskRuleLost):
        raise
    except torch.OutOfMemoryError:
        count = len(model_input.ids)
    except Exception as error:  # whatever the model's own code raises
        if memory.is_out_of_memory(error):
            raise
        raise _run_error(model, error) from error
    else:
        return
    fitting = _count_fitting_tokens(model, model_input)
    raise AttnvizError(
        f"{model.device} does not have enough memory for {counted(count, 'token')}",
        (f"the first {fitting:,} of them fit; or " if fitting else "")
        + f"try {opt.dtype:bfloat16}, or {opt.device:cpu}",
        about="device",
    )


def _run_error(model: LoadedTransformer, error: Exception) -> CannotRun:
    """Return the error for a model that failed with `error`.

    Its hint follows from the cause: the dtype, the config, or inputs other than text.
    """
    model_phrase = f"the model '{model.name}' ({model.config.model_type})"
    message = shorten_message(str(error) or type(error).__name__)
    if model.dtype != "float32" and DTYPE_ERRORS.search(message):
        problem, hint = f"cannot be run as {model.dtype}", f"leave {opt.dtype} out"
        if model.in_memory:
            hint = "convert all of it to one dtype: model.float()"
        return CannotRun(f"{model_phrase} {problem}: {message}", hint, about="dtype")
    if isinstance(error, RuntimeError):
        problem = "cannot be run on this text"
        hint = "look at its config.json, or save the model again"
    elif model.other_inputs:
        inputs = and_list(model.other_inputs)  # whose absence makes an error of any kind
        problem = f"{model_phrase} also takes {inputs}, and cannot be run on a text alone"
        return CannotRun(problem, model.text_part or "use a model of text", about="model")
    else:
        problem, hint = "cannot be run on a text", "look at its config.json, or use another model"
    return CannotRun(f"{model_phrase} {problem}: {message}", hint, about="model")


def _count_fitting_tokens(model: LoadedTransformer, model_input: ModelInput) -> int:
    """Return how many of the first tokens fit in a GPU's memory, found by halving; 0 if none do."""
    count = len(model_input.ids) // 2
    while count:
        torch.cuda.empty_cache()
        try:
            shorter = replace(model_input, ids=model_input.ids[:count])
            listener = Listener(kind=model_input.kind)
            with capturing_attention(model.model, listener), torch.no_grad():
                model_part(model, model_input.kind)(**model_tensors(model, shorter))
        except torch.OutOfMemoryError:
            count //= 2
        else:
            return count
    return 0
