"""trace_transformer(): traces a text, and loads the model of a Trace again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attention.long_attention import SummaryChoice
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError, cmd, model_error, opt, warn_with_note
from attnviz.machine.context_values import context_value
from attnviz.options.values import AblationValue, AttentionKind
from attnviz.traces.inputs import refuse_changes_to_trace
from attnviz.traces.memory_estimate import TrainedSizes, trained_streaming_note
from attnviz.traces.origin import FromModel, FromTransformer, TrainedCard
from attnviz.traces.settings import TRAINED_ONLY_SETTINGS, HeadId, Settings, parse_heads_off
from attnviz.traces.trace import Layer, Provenance, Trace, library_versions, refuse_weights_only
from attnviz.traces.trained.answers import (
    AnswerPositions,
    build_outputs,
    build_prediction,
    find_answer_positions,
    has_decoder_answers,
)
from attnviz.traces.trained.captured_attention import MAP_BLOCKS, WeightsOnDemand
from attnviz.traces.trained.forward_pass import ModelInput, PreparedInput, prepare_input
from attnviz.traces.trained.loading import LoadedTransformer, load_transformer
from attnviz.traces.trained.model_attention import (
    EAGER_TOLERANCE,
    ModelAttention,
    compute_model_attention,
    largest_difference,
    run_with_all_heads,
)
from attnviz.traces.trained.model_location import is_trained
from attnviz.traces.trained.pieces import tokenizer_spelling
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.version import __version__
from attnviz.wording.keywords import replace_choices

EMBEDDINGS_METHOD = "get_input_embeddings"  # which decoders of some models, such as FSMT's, lack
GIVE_TRANSFORMER_HINT = f"give a transformer: {opt.model:minilm}, a folder, or a name on a hub"
# What a record says of a transformer, in its names: settings, the config's activation, card facts
TRANSFORMER_SETTINGS = (*TRAINED_ONLY_SETTINGS, "without")
ACTIVATION_NAMES = ("hidden_act", "hidden_activation", "activation_function", "activation",
                    "dense_act_fn")  # fmt: skip
CARD_FACTS = ("parameters", "layers", "heads", "kv_heads", "head_dim", "stored_as", "in_memory")
UNTRUSTED_SETTINGS = ("model", "trust_remote_code")  # which a trace file may not choose
MAX_WEIGHT_DIFFERENCE = 1e-3  # of one model on two machines; two models differ by tenths
InputCheck = Callable[[LoadedTransformer, PreparedInput], object]
_input_check: ContextVar[InputCheck | None] = ContextVar("input_check", default=None)


def checking_input(check: InputCheck) -> AbstractContextManager[None]:
    """Call `check` inside the block with each model and what it is about to read, so that what is
    not there can be refused before the model runs.

    A block inside another one replaces its check.
    """
    return context_value(_input_check, check)


def trace_transformer(
    text: str | None,
    settings: Settings,
    *,
    layers: Collection[int] | None = None,
    command: str | None = None,
    in_memory: LoadedTransformer | None = None,
    streams: bool = True,
) -> Trace:
    """Return the Trace of a trained model on a text, with all layers or those in `layers`.

    If heads are ablated, it also has the outputs without ablation. Refuses None as the text.
    `command` is stored in the provenance; `in_memory` is the caller's model, if the settings name
    none. `streams`: whether a long text may be measured while the model reads it.
    """
    if text is None:
        raise AttnvizError("there is no text that the model could read", "give a sentence")
    model = in_memory or load_transformer(settings)
    with quiet_transformers(), torch.no_grad():
        prepared = prepare_input(model, text, settings)
        if (check := _input_check.get()) is not None:
            check(model, prepared)
        model_input, full_result = prepared.model_input, None
        answer_positions = find_answer_positions(model, prepared.tokens, model_input.kind)
        choice, note = None, ""
        if streams:
            choice, note = choose_summary(model, prepared, settings, layers)
        attention = compute_model_attention(
            model, model_input, settings, layers, answer_positions, choice
        )
        if note and attention.layers[0].streamed_weights is not None:
            warn_with_note(note)
        if settings.without:
            full_result = run_with_all_heads(model, model_input, answer_positions)
        embeddings = _token_embeddings(model, model_input)
    card = _transformer_card(model, attention, model_input.kind, in_memory is not None)
    return Trace(
        tokens=prepared.tokens,
        keys=prepared.keys,
        tokenizer=model.name,
        vocabulary=model.model.get_input_embeddings().num_embeddings,
        variant=_transformer_variant(card, attention),
        positions=attention.positions,
        embeddings=embeddings,
        layers=attention.layers,
        prediction=build_prediction(
            model, prepared.tokens, answer_positions, attention.result, full_result
        ),
        outputs=build_outputs(attention.result, full_result),
        prompt=prepared.prompt,
        origin=FromTransformer(
            settings=settings,
            card=card,
            text=text,
            positions=attention.positions,
            position_base=attention.position_base,
            in_memory=in_memory,
        ),
        provenance=transformer_provenance(
            settings, model, _attention_facts(card, attention) | _summary_facts(choice), command
        ),
    )


def choose_summary(
    model: LoadedTransformer,
    prepared: PreparedInput,
    settings: Settings,
    layers: Collection[int] | None,
) -> tuple[SummaryChoice | None, str]:
    """Return what is measured of each layer while the model reads a long text, and a note on it;
    None for a text whose weights fit the memory budget.

    Where the heads of all layers are kept, their maps are no finer than they are shown.
    """
    config, heads = model.text_config, model.heads
    width = getattr(config, "hidden_size", None) or 1
    head_width = getattr(config, "head_dim", None) or width // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    resolution = settings.resolution if layers else MAP_BLOCKS
    sizes = TrainedSizes(
        layers=len(layers or ()) or model.layers,
        heads=heads,
        queries=len(prepared.tokens),
        keys=len(prepared.keys),
        token_numbers=2 * width + (heads + 2 * key_heads) * head_width,
    )
    dtype: torch.dtype = getattr(torch, settings.dtype)
    shown = replace(settings, resolution=resolution)
    note = trained_streaming_note(shown, sizes, dtype, torch.device(model.device))
    if note is None:
        return None, ""
    for name in () if layers else ("pool", "resolution"):
        if (value := getattr(settings, name)) != getattr(Settings, name):
            raise AttnvizError(
                f"{opt[name]:{value}} is a choice for the maps of one layer, and all are shown",
                f"choose a layer, too: {opt.layer:0}; or leave {opt[name]} out",
                about=name,
            )
    return SummaryChoice(resolution, settings.pool, statistics=False), note


def _summary_facts(choice: SummaryChoice | None) -> dict[str, Any]:
    """Return what a record says of the maps of a long text; nothing of another text."""
    return {} if choice is None else {"resolution": choice.resolution, "pool": choice.pool}


def _transformer_card(
    model: LoadedTransformer, attention: ModelAttention, kind: AttentionKind, in_memory: bool
) -> TrainedCard:
    """Return the facts of a model: its size, its heads, and how exactly they were captured."""
    first, difference = attention.layers[0], attention.eager_difference
    return TrainedCard(
        name=model.name,
        kind=model.config.model_type,
        parameters=attention.parameters,
        layers=len(attention.layer_numbers),
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.head_dim,
        stored_as=model.stored_as,
        which=kind,
        eager=None if difference is None else difference.weights,
        vectors=None if difference is None else difference.vectors,
        compared=0 if difference is None else difference.tokens,
        fallback=difference is None,
        in_memory=in_memory,
        decoder_answers=has_decoder_answers(model, kind),
    )


def _transformer_variant(card: TrainedCard, attention: ModelAttention) -> Variant:
    """Return the attention variant of a model, derived from its first layer."""
    layer = attention.layers[0]
    rule, several = layer.mask_rule, layer.size[0] > 1
    looks_ahead = rule.after != 0 if rule.matrix is None else bool(rule.matrix.triu(1).any())
    return Variant(
        name=card.kind,
        about=f"as the model {card.name} attends",
        scaled=abs(layer.scale * card.head_dim**0.5 - 1) < 1e-6,
        causal=card.which != "cross" and several and not looks_ahead,
        heads=card.heads,
        kv_heads=card.kv_heads,
        joined=True,
        soft_cap=attention.soft_cap,
    )


def _token_embeddings(
    model: LoadedTransformer, model_input: ModelInput
) -> Float[Tensor, "token dim"]:
    """Return the embeddings of the tokens that make queries, before positions are added."""
    is_decoder = model_input.kind != "self"
    module = model.model.get_decoder() if is_decoder else model.model
    ids = model_input.decoder_ids if is_decoder else model_input.ids
    tables = (submodule for submodule in module.modules() if isinstance(submodule, nn.Embedding))
    table = module.get_input_embeddings() if hasattr(module, EMBEDDINGS_METHOD) else next(tables)
    vectors: Tensor = table(torch.tensor(ids, device=model.device))
    return vectors


def transformer_provenance(
    settings: Settings, model: LoadedTransformer, facts: Mapping[str, Any], command: str | None
) -> Provenance:
    """Return what a result was made with: command, the model, the options given for it, and
    versions. `facts` are added; of the settings those about random vectors are left out, since none
    is true of the model, and so is what is None, False or empty."""
    import transformers

    device, backend = str(model.device), getattr(model.tokenizer, "backend_tokenizer", None)
    activations = (getattr(model.text_config, name, None) for name in ACTIVATION_NAMES)
    chosen = {name: getattr(settings, name) for name in TRANSFORMER_SETTINGS}
    recorded = {
        "model": model.name,
        "model_type": model.config.model_type,
        "tokenizer": None if backend is None else type(backend.model).__name__,  # such as WordPiece
        "activation": next(filter(None, activations), None),
        "stored_as": model.stored_as,
        **chosen,
        **facts,
        "device": device,
        "dtype": settings.dtype,
    }
    return Provenance(
        version=__version__,
        command=command,
        settings={
            name: value
            for name, value in recorded.items()
            if value is not None and value is not False
        },
        seed=settings.seed,
        device=device,
        dtype=settings.dtype,
        versions=library_versions(transformers=transformers.__version__)
        | {"instructions": torch.backends.cpu.get_cpu_capability()},
    )


def _attention_facts(card: TrainedCard, attention: ModelAttention) -> dict[str, Any]:
    """Return what a record says of a model's size and attention, and of how it was captured."""
    facts = {name: getattr(card, name) for name in CARD_FACTS}
    if attention.positions != "none":  # else they are not known: learned ones leave no trace
        facts |= {"positions": attention.positions, "position_base": attention.position_base}
    if card.fallback:
        return facts | {"weights": "returned by the model, not captured"}
    return facts | {
        "largest difference of a weight from eager attention": card.eager,
        "difference of the last vectors": card.vectors,
        "tokens compared": card.compared,
    }


@dataclass(frozen=True, eq=False)
class ModelRun:
    """A model with its input, the positions of its answers, and the heads that are ablated."""

    card: TrainedCard
    model: LoadedTransformer
    model_input: ModelInput
    answer_positions: AnswerPositions | None
    off: Mapping[HeadId, AblationValue]

    def answer_label(self, answer: int) -> str:
        return tokenizer_spelling(self.model.tokenizer).pieces_of_ids([answer])[0].label


def with_given_model(
    trace: Trace, in_memory: LoadedTransformer | None, changes: Mapping[str, Any]
) -> Trace:
    """Return the Trace with a model of the caller, by which it can be run again.

    That is one in memory, or the `model` and `trust_remote_code` in `changes`. Refuses all other
    changes, and any model for a Trace that is not of a transformer.
    """
    allowed = () if trace.trained is None else UNTRUSTED_SETTINGS  # others are never reloaded
    refuse_changes_to_trace({name: changes[name] for name in changes if name not in allowed})
    if in_memory is not None:
        if not isinstance(trace.origin, FromTransformer):
            refuse_changes_to_trace({"model": None})
        else:
            return replace(trace, origin=replace(trace.origin, in_memory=in_memory))
    settings = replace_choices(trace.origin.settings, changes)
    return replace(trace, origin=replace(trace.origin, settings=settings)) if changes else trace


def prepare_model_run(trace: Trace, purpose: str, about: str) -> ModelRun:
    """Reload the model of a Trace with its input, to run it again.

    Refuses a Trace of given weights, of no transformer, and of one whose heads cannot be captured.
    The error begins with `purpose` ("--weigh gradient takes …"); `about` is the option ('weigh').
    """
    refuse_weights_only(trace, purpose, about)
    origin = trace.origin
    if not isinstance(origin, FromTransformer):
        hint = GIVE_TRANSFORMER_HINT
        if about == "by" and isinstance(origin, FromModel) and trace.prediction is not None:
            model_name = origin.settings.model
            hint = f"use {cmd.heads:--model {model_name}} to rank the heads of this model"
        problem = f"{purpose} of a trained transformer, but this is not one"
        raise AttnvizError(problem, hint, about=about)
    if origin.card.fallback:
        raise AttnvizError(
            f"{purpose} of a transformer, but the model '{origin.card.name}' ({origin.card.kind}) "
            "only returns its weights",
            f"leave {opt[about]} out",
            about=about,
        )
    model, prepared = reload_model(trace)
    return ModelRun(
        origin.card,
        model,
        prepared.model_input,
        find_answer_positions(model, prepared.tokens, prepared.model_input.kind),
        parse_heads_off(origin.settings.without),
    )


def no_answer_error(run: ModelRun, purpose: str, about: str, other_way: str = "") -> AttnvizError:
    """Return the error for a model without answers, or a text without a mask token.

    It begins with `purpose` ("--weigh gradient takes …"); `other_way` begins the hint for a model
    without answers.
    """
    if run.answer_positions is None:
        problem, alternative = run.card.no_answers
        reason = f"and '{run.card.name}' ({run.card.kind}) {problem}"
        hint = f"{other_way}{alternative}"
    else:
        mask = run.model.tokenizer.mask_token
        reason, hint = f"but there is no {mask} in the text", f"write {mask} in place of a word"
    return AttnvizError(f"{purpose}, {reason}", hint, about=about)


def reload_model(trace: Trace) -> tuple[LoadedTransformer, PreparedInput]:
    """Return the model that made a Trace, and its input, including what the model generated.

    Refuses a model that is no transformer, and, for a Trace from a file, one that does not give the
    same weights.
    """
    origin = trace.origin
    assert isinstance(origin, FromTransformer), "of no transformer"
    if origin.in_memory is None:
        model = _load_model_again(origin)
    else:
        model = replace(origin.in_memory, results=None)  # it may have changed since
    attention = trace.layers[0].weights_on_demand
    is_from_file = not isinstance(attention, WeightsOnDemand) or attention.captured.module is None
    with quiet_transformers(), torch.no_grad():
        if is_from_file or origin.card.which != "self":
            prepared = prepare_input(model, origin.text or "", origin.settings)
        else:
            model_input = ModelInput("self", trace.tokens.ids)
            prepared = PreparedInput(model_input, trace.tokens, trace.keys)
        if is_from_file or origin.in_memory is not None:  # which the caller may have changed
            _refuse_other_model(model, prepared, trace, origin)
    return model, prepared


def _load_model_again(origin: FromTransformer) -> LoadedTransformer:
    """Return the model that the settings of a Trace name; refuse one of a model in memory."""
    name = origin.settings.model
    if name is None:
        raise model_error(
            f"the trace is of a model in memory, '{origin.card.name}', which it does not contain",
            "give that model: inspect(trace, model=model, tokenizer=tokenizer); or its folder",
        )
    if not is_trained(name):
        raise model_error(
            f"the trace is of a trained transformer, but '{name}' is not one",
            "name the model that made the trace",
        )
    return load_transformer(origin.settings)


def _refuse_other_model(
    model: LoadedTransformer, prepared: PreparedInput, trace: Trace, origin: FromTransformer
) -> None:
    """Refuse a model that did not make the Trace, by its size, tokens and attention weights.

    A model in memory may have made it, and have changed since.
    """
    count, trace_count = model.model.num_parameters(), origin.card.parameters
    if count != trace_count:
        reason = f"it has {count:,} numbers, but the model of the trace had {trace_count:,}"
    elif (prepared.tokens.ids, prepared.keys.ids) != (trace.tokens.ids, trace.keys.ids):
        reason = "it cuts the text into different tokens"
    else:
        numbers = [layer.layer for layer in trace.layers]
        layers = compute_model_attention(
            model, prepared.model_input, origin.settings, numbers, None
        ).layers
        difference = inf
        if numbers == [layer.layer for layer in layers]:
            difference = max(map(_layer_weight_difference, trace.layers, layers))
        if difference <= max(MAX_WEIGHT_DIFFERENCE, 2 * EAGER_TOLERANCE[origin.settings.dtype]):
            return
        reason = f"its weights differ from those of the trace, by up to {difference:.2g}"
    raise model_error(
        f"'{model.name}' is not the model that made the trace"
        f"{' any more' if origin.in_memory else ''}: {reason}",
        "trace the text again"
        if origin.in_memory
        else f"name that model with {opt.model}, or trace the text again with this one",
    )


def _layer_weight_difference(first: Layer, second: Layer) -> float:
    """Return the largest difference between the weights of two layers, in any head.

    It is infinite if they have different numbers of heads.
    """
    if first.heads != second.heads:
        return inf
    cell_pairs = (
        [layer.weights.cells("weights", head) for layer in (first, second)]
        for head in range(first.heads)
    )
    return max(
        largest_difference(*(torch.from_numpy(band.values) for band in bands))
        for pair in cell_pairs
        for bands in zip(*(cells.bands() for cells in pair), strict=True)
    )
