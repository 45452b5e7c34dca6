"""Models in memory: traced as they are, and unchanged afterwards."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from attnviz import AttnvizError, compare, compare_sentences, inspect, load, steps, trace
from attnviz.analysis.head_accuracy import rank
from attnviz.errors import Note
from attnviz.traces.origin import FromTransformer
from attnviz.traces.settings import Settings
from attnviz.traces.trained import matrix_recognition, model_attention, model_state
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from tests import not_none
from tests.small_transformers import TEXT, TOKENIZERS, Saved

OTHER_TEXT = TEXT.replace("tired", "wide")
ModelAndTokenizer = dict[str, Any]  # the keywords `model` and `tokenizer`


def load_with_transformers(folder: Path, **options: Any) -> ModelAndTokenizer:
    """A model and its tokenizer, loaded without attnviz and with the fastest attention."""
    with quiet_transformers():
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, config.architectures[0])
        model = kind.from_pretrained(folder, **options)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    return {"model": model, "tokenizer": tokenizer}


@pytest.fixture
def llama(small_transformer: Saved) -> ModelAndTokenizer:
    return load_with_transformers(small_transformer("llama"))


def state_of(model: nn.Module) -> Iterator[Any]:
    """All state of a model that a caller can see: attributes, hooks, configs, gradients."""
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            yield name, key, [*value.items()] if isinstance(value, dict) else value
        config = getattr(module, "config", None)
        yield name, None if config is None else {**vars(config)}
    for name, parameter in model.named_parameters():
        yield name, id(parameter), parameter._version, parameter.requires_grad, parameter.grad


def is_same_state(before: list[Any], after: list[Any]) -> bool:
    return repr(before) == repr(after)


@pytest.mark.slow_table("models", keep=3)
@pytest.mark.parametrize("name", ["llama", "bert", "gpt2", "t5", "bart", "gpt-oss", "gpt-j"])
def test_a_model_in_memory_gives_what_its_folder_gives(name: str, small_transformer: Saved) -> None:
    folder = small_transformer(name)
    keywords = load_with_transformers(folder)
    state_before = [*state_of(keywords["model"])]

    from_memory, from_folder = trace(TEXT, **keywords), trace(TEXT, model=folder)

    assert torch.equal(from_memory.weights, from_folder.weights)
    assert [layer.given for layer in from_memory.layers] == [
        layer.given for layer in from_folder.layers
    ]
    assert from_memory.provenance.settings["in_memory"]
    assert "in_memory" not in from_folder.provenance.settings
    assert is_same_state(state_before, [*state_of(keywords["model"])])


def test_its_weights_are_those_that_it_returns_itself(llama: ModelAndTokenizer) -> None:
    llama_trace = trace(TEXT, **llama)
    ids = llama["tokenizer"](TEXT, return_tensors="pt")
    llama["model"].set_attn_implementation("eager")
    with torch.no_grad():
        expected_layers = llama["model"](**ids, output_attentions=True).attentions

    assert torch.equal(llama_trace.weights, torch.cat([*expected_layers]))


def test_changed_weights_are_used_and_nothing_is_loaded_again(llama: ModelAndTokenizer) -> None:
    trace_before = trace(TEXT, **llama)
    with torch.no_grad():
        llama["model"].model.layers[1].self_attn.q_proj.weight.mul_(3)
    trace_after = trace(TEXT, **llama)

    assert torch.equal(trace_before.weights[0], trace_after.weights[0])
    assert not torch.allclose(trace_before.weights[1], trace_after.weights[1], atol=1e-2)
    projections = not_none(trace_after.layers[1].projections)
    matrix = llama["model"].model.layers[1].self_attn.q_proj.weight.T
    assert torch.equal(not_none(projections.w_query), matrix)


@pytest.mark.parametrize("is_failing", [False, True])
def test_it_is_exactly_as_before_also_after_an_error(
    llama: ModelAndTokenizer, is_failing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, calls = llama["model"], []
    model.model.layers[0].register_forward_hook(lambda *_: calls.append(1))
    model.train()
    model.model.norm.eval()
    model.model.layers[1].requires_grad_(False)
    ids = llama["tokenizer"](TEXT, return_tensors="pt")["input_ids"]
    model(ids).logits.sum().backward()
    calls.clear()
    state_before = [*state_of(model)]
    if is_failing:
        monkeypatch.setattr(model.lm_head, "forward", raise_error)
        state_before = [*state_of(model)]
        with pytest.raises(AttnvizError, match="stopped on purpose"):
            trace(TEXT, **llama)
    else:
        llama_trace = trace(TEXT, **llama)
        inspect(llama_trace, weigh="gradient").view()
        assert inspect(llama_trace, by="effect").effects.heads
        trace(TEXT, generate=2, **llama)

    assert calls  # hooks of the caller see every pass
    assert is_same_state(state_before, [*state_of(model)])


def raise_error(*args: Any, **keywords: Any) -> Any:
    raise ValueError("stopped on purpose")


@pytest.mark.slow("models")
def test_all_that_takes_a_model_takes_one_in_memory(
    llama: ModelAndTokenizer, small_transformer: Saved
) -> None:
    folder = small_transformer("llama")
    views: list[Callable[..., Any]] = [
        lambda **model: inspect(TEXT, layer=1, **model).view(),
        lambda **model: inspect(TEXT, weigh="gradient", **model).view(),
        lambda **model: inspect(TEXT, weigh="norm", **model).view(),
        lambda **model: inspect(TEXT, by="effect", **model).view(),
        lambda **model: compare_sentences(TEXT, OTHER_TEXT, **model).view(),
        lambda **model: steps(TEXT, query="it", **model).view(),
    ]
    for view in views:
        view_of_memory, view_of_folder = view(**llama), view(model=folder)
        assert (view_of_memory.headline, view_of_memory.title) == (
            view_of_folder.headline,
            view_of_folder.title,
        )
        assert view_of_memory.command is None  # none could make it again


def test_a_saved_trace_says_that_the_model_was_in_memory_and_takes_it_again(
    llama: ModelAndTokenizer, tmp_path: Path
) -> None:
    llama_trace = trace(TEXT, **llama)
    assert "a model in memory" in llama_trace.view().settings
    llama_trace.save(tmp_path / "trace.npz")
    restored = load(str(tmp_path / "trace.npz"))

    assert torch.equal(restored.weights, llama_trace.weights)
    assert restored.trained == llama_trace.trained
    assert "a model in memory" in restored.view().settings
    assert_refused(
        lambda: inspect(restored).effects,
        "the trace is of a model in memory, 'llama', which it does not contain",
        "give that model: inspect(trace, model=model, tokenizer=tokenizer); or its folder",
    )
    effects_of_restored, effects_of_trace = (
        inspect(each, **llama).effects for each in (restored, llama_trace)
    )
    assert [head.name for head in effects_of_restored.heads] == [
        head.name for head in effects_of_trace.heads
    ]
    inspect(restored, **llama).save(tmp_path / "again.npz")
    assert load(str(tmp_path / "again.npz")).trained == llama_trace.trained


def test_copies_and_pickles_leave_the_model_out(llama: ModelAndTokenizer) -> None:
    llama_trace = trace(TEXT, **llama)
    for each in (copy.copy(llama_trace.origin), pickle.loads(pickle.dumps(llama_trace.origin))):
        assert isinstance(each, FromTransformer)
        assert each.in_memory is None
        assert each.card == llama_trace.trained


@pytest.mark.slow("models")
def test_a_model_is_freed_with_its_last_trace(small_transformer: Saved) -> None:
    keywords = load_with_transformers(small_transformer("bert"))
    bert_trace, model_reference = trace(TEXT, **keywords), weakref.ref(keywords["model"])
    del keywords
    gc.collect()
    assert model_reference() is not None
    del bert_trace
    gc.collect()
    assert model_reference() is None


def assert_refused(call: Callable[[], object], problem: str, hint: str) -> None:
    with pytest.raises(AttnvizError) as refusal:
        call()
    assert (str(refusal.value), refusal.value.hint) == (problem, hint)


class OtherModel(nn.Module):
    """A model that is not of the transformers library."""


@pytest.mark.parametrize(
    ("changes", "problem", "hint"),
    [
        (
            {"tokenizer": None},
            "the model 'llama' is given without its tokenizer",
            "give it, too: tokenizer=tokenizer",
        ),
        (
            {"tokenizer": "gpt2"},
            "tokenizer is 'gpt2', but a model in memory needs the tokenizer itself",
            "load it: transformers.AutoTokenizer.from_pretrained('gpt2')",
        ),
        (
            {"tokenizer": OtherModel()},
            "the tokenizer is of type OtherModel, which is no tokenizer of transformers",
            "try transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)",
        ),
        (
            {"model": OtherModel()},
            "the model is of type OtherModel, which is no model of transformers",
            "show the weights that it computes: attnviz.from_weights(weights, tokens)",
        ),
        (
            {"model": "minilm"},
            "a tokenizer is given, but the model is not one in memory",
            "give both: model=model, tokenizer=tokenizer; a named model has a tokenizer",
        ),
        (
            {"dtype": "float64"},
            "dtype is float64, but the model 'llama' in memory is float32",
            "leave 'dtype' out, or change the model first: model.to(torch.float64)",
        ),
        (
            {"device": "cuda"},
            "device is cuda, but the model 'llama' in memory is on cpu",
            "leave 'device' out, or change the model first: model.to('cuda')",
        ),
        (
            {"heads": 2},
            "'heads' is given, but the trained model 'llama' decides that itself",
            "leave 'heads' out: a model decides that itself",
        ),
    ],
)
def test_a_mistake_is_told_in_two_lines(
    changes: ModelAndTokenizer, problem: str, hint: str, llama: ModelAndTokenizer
) -> None:
    for call in (trace, inspect, steps):
        assert_refused(lambda call=call: call(TEXT, **{**llama, **changes}), problem, hint)  # type: ignore[misc]


def test_what_is_nothing_for_a_transformer_is_refused(llama: ModelAndTokenizer) -> None:
    problem = "the trained model 'llama' decides how it attends, so nothing can be compared by mask"
    hint = "give two sentences: compare_sentences(text, other, model=model, tokenizer=tokenizer)"
    llama_trace = trace(TEXT, **llama)
    assert_refused(lambda: compare(TEXT, by="mask", **llama), problem, hint)
    assert_refused(lambda: compare(llama_trace, by="mask"), problem, hint)
    assert_refused(
        lambda: rank(llama["model"]),
        "the model 'llama' is in memory, but rank only takes models that learned a task of attnviz",
        "see the effect of each head on a text: inspect(text, model=model, tokenizer=tokenizer, "
        'by="effect")',
    )
    assert_refused(
        lambda: steps(llama_trace, **llama),
        "'model' says how to trace a text, but a finished Trace is given",
        "leave 'model' out, or give the text",
    )


def test_the_tokenizer_of_another_model_is_refused(small_transformer: Saved) -> None:
    keywords = load_with_transformers(small_transformer("bert")) | {
        "tokenizer": TOKENIZERS["bytes"]()
    }
    count = keywords["model"].get_input_embeddings().num_embeddings
    with pytest.raises(AttnvizError) as refusal:
        trace(TEXT, **keywords)

    largest = max(keywords["tokenizer"](TEXT)["input_ids"])
    assert str(refusal.value) == (
        f"the tokenizer makes id {largest}, but the model 'bert' only has embeddings for {count}"
    )
    assert refusal.value.hint == "use the tokenizer that the model was trained with"


def test_a_model_in_training_mode_is_run_without_dropout_and_says_so(
    small_transformer: Saved, llama: ModelAndTokenizer
) -> None:
    bert = load_with_transformers(small_transformer("bert"))
    expected = trace(TEXT, **bert).weights
    bert["model"].train()
    with pytest.warns(Note, match="^the model is in training mode; here it ran in evaluation mode"):
        bert_trace = trace(TEXT, **bert)
    llama["model"].train()
    trace(TEXT, **llama)  # which has no dropout, so that there is nothing to say

    assert torch.equal(bert_trace.weights, expected)
    assert bert["model"].training


def test_a_model_that_changed_after_its_trace_is_not_run_in_its_place(
    llama: ModelAndTokenizer,
) -> None:
    llama_trace = trace(TEXT, **llama)
    llama["model"].model.layers[0].self_attn.q_proj.weight.data.mul_(9)  # counted nowhere
    with pytest.raises(
        AttnvizError, match=r"^'llama' is not the model that made the trace any more"
    ):
        _ = inspect(llama_trace).effects
    with torch.no_grad():
        llama["model"].model.layers[0].self_attn.v_proj.weight.mul_(2)
    for call in (lambda: steps(llama_trace), lambda: inspect(llama_trace, weigh="norm").maps):
        assert_refused(
            call,
            "the model 'llama' changed after the trace was made, so its matrices are others",
            "trace the text again",
        )


def test_attention_that_cannot_be_exchanged_must_be_eager(small_transformer: Saved) -> None:
    assert_refused(
        lambda: trace(TEXT, **load_with_transformers(small_transformer("falcon"))),
        "the model 'falcon' (falcon) was loaded with attn_implementation='sdpa', which does not "
        "return its weights",
        "load it again with attn_implementation='eager'",
    )
    eager_falcon = load_with_transformers(small_transformer("falcon"), attn_implementation="eager")
    trace_of_folder = trace(TEXT, model=small_transformer("falcon"))
    assert torch.equal(trace(TEXT, **eager_falcon).weights, trace_of_folder.weights)


def test_the_check_and_the_search_are_done_once_for_each_state_of_a_model(
    llama: ModelAndTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []
    searches: list[int] = []
    record_calls(monkeypatch, model_attention, "measure_eager_difference", checks)
    record_calls(monkeypatch, matrix_recognition, "_find_matrices", searches)
    for text in (TEXT, OTHER_TEXT, TEXT[:20]):
        trace(text, **llama)
    assert (len(checks), len(searches)) == (1, 2)  # one search for each layer
    with torch.no_grad():
        llama["model"].model.embed_tokens.weight.add_(0)  # as any step of training
    trace(TEXT, **llama)
    assert (len(checks), len(searches)) == (2, 4)
    llama["model"].double()
    assert trace(TEXT, **llama).provenance.dtype == "float64"
    assert (len(checks), len(searches)) == (3, 6)


def test_what_is_changed_between_two_calls_is_noticed(llama: ModelAndTokenizer) -> None:
    model = llama["model"]
    attention = model.model.layers[0].self_attn
    first_trace = trace(TEXT, **llama)
    hook = attention.k_proj.register_forward_hook(lambda module, inputs, keys: keys + 1)
    hooked_trace = trace(TEXT, **llama)
    hook.remove()
    keys = [each_trace.layers[0].keys for each_trace in (first_trace, hooked_trace)]
    assert not torch.equal(not_none(keys[0]), not_none(keys[1]))
    assert "keys" in hooked_trace.layers[0].given
    assert "keys" not in first_trace.layers[0].given

    output_width, input_width = attention.o_proj.weight.shape
    attention.o_proj = torch.nn.Linear(input_width, output_width, bias=False)
    trace_with_other_matrix = trace(TEXT, **llama)
    projections = not_none(trace_with_other_matrix.layers[0].projections)
    assert torch.equal(not_none(projections.w_out), attention.o_proj.weight.T)

    model.set_attn_implementation("sdpa")
    model.train()
    assert torch.equal(trace(TEXT, **llama).weights, trace_with_other_matrix.weights)
    assert model.config._attn_implementation == "sdpa"
    assert attention.training


def record_calls(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: list[int]) -> None:
    function = getattr(module, name)

    def record_and_call(*arguments: Any) -> Any:
        calls.append(1)
        return function(*arguments)

    monkeypatch.setattr(module, name, record_and_call)


def test_a_short_text_is_checked_again_by_a_longer_one(
    llama: ModelAndTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []
    record_calls(monkeypatch, model_attention, "measure_eager_difference", checks)
    positions = [trace(text, **llama).positions for text in ("I", TEXT, TEXT)]

    assert len(checks) == 2
    assert positions[1:] == ["rotary-halves"] * 2  # which one token alone cannot show


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "gpt-neox", "t5", "opt"])
def test_matrices_of_an_earlier_text_are_those_that_a_search_finds(
    name: str, small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    keywords = load_with_transformers(small_transformer(name))
    trace(TEXT[:9], **keywords)
    trace_with_known_matrices = trace(OTHER_TEXT, **keywords)
    model_state.results_for_model(keywords["model"]).clear()
    fresh_trace = trace(OTHER_TEXT, **keywords)

    for known_layer, fresh_layer in zip(
        trace_with_known_matrices.layers, fresh_trace.layers, strict=True
    ):
        assert (known_layer.scale, known_layer.given) == (fresh_layer.scale, fresh_layer.given)
        assert torch.equal(known_layer.context, fresh_layer.context)
        assert torch.equal(known_layer.inputs, fresh_layer.inputs)
        for matrix in ("w_query", "w_key", "w_value", "w_out"):
            known_matrix, fresh_matrix = (
                getattr(known_layer.projections, matrix),
                getattr(fresh_layer.projections, matrix),
            )
            assert torch.equal(known_matrix, fresh_matrix)


def test_an_adapter_is_part_of_the_model(small_transformer: Saved) -> None:
    peft: Any = import_module("peft")
    keywords = load_with_transformers(small_transformer("llama"))
    weights_without_adapter = trace(TEXT, **keywords).weights
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "o_proj"])
    with quiet_transformers():
        keywords["model"] = peft.get_peft_model(keywords["model"], config)
    assert torch.equal(
        trace(TEXT, **keywords).weights, weights_without_adapter
    )  # it adds 0 to begin with
    for name, parameter in keywords["model"].named_parameters():
        if "lora_B" in name:
            parameter.data.normal_()

    adapted_trace = trace(TEXT, **keywords)
    assert not torch.allclose(adapted_trace.weights, weights_without_adapter, atol=1e-2)
    assert adapted_trace.layers[0].projections is not None
    assert adapted_trace.layers[0].projections.w_query is None  # no one matrix makes the queries
    assert adapted_trace.layers[0].projections.w_out is None
    with keywords["model"].disable_adapter():
        assert torch.equal(trace(TEXT, **keywords).weights, weights_without_adapter)
    merged_model = load_with_transformers(small_transformer("llama")) | {
        "model": keywords["model"].merge_and_unload()
    }
    assert torch.allclose(trace(TEXT, **merged_model).weights, adapted_trace.weights, atol=1e-5)


def test_a_model_whose_weights_are_elsewhere_until_they_are_needed(
    small_transformer: Saved,
) -> None:
    accelerate: Any = import_module("accelerate")
    keywords = load_with_transformers(small_transformer("llama"))
    trace_before = trace(TEXT, **keywords)
    accelerate.cpu_offload(keywords["model"], execution_device=torch.device("cpu"))
    assert keywords["model"].lm_head.weight.is_meta

    offloaded_trace = trace(TEXT, **keywords)
    assert torch.equal(offloaded_trace.weights, trace_before.weights)
    assert inspect(offloaded_trace, by="effect").effects.heads
    assert keywords["model"].lm_head.weight.is_meta


def test_quantised_weights_are_never_taken_for_a_matrix(small_transformer: Saved) -> None:
    """Like layers of bitsandbytes: linear, with weights stored as bytes."""
    keywords = load_with_transformers(small_transformer("llama"))
    expected = trace(TEXT, **keywords)
    for layer in keywords["model"].model.layers:
        for name in ("q_proj", "o_proj"):
            setattr(layer.self_attn, name, ByteLinear(getattr(layer.self_attn, name)))

    quantised_trace = trace(TEXT, **keywords)
    assert torch.equal(quantised_trace.weights, expected.weights)
    assert quantised_trace.layers[0].projections is not None
    assert quantised_trace.layers[0].projections.w_query is None
    assert quantised_trace.layers[0].projections.w_value is not None
    assert quantised_trace.provenance.dtype == "float32"


class ByteLinear(nn.Linear):
    """A linear layer that keeps its weights as bytes."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=False)
        weight_bytes = linear.weight.detach().clone().view(torch.uint8)
        self.weight = nn.Parameter(weight_bytes, requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.weight.view(torch.float32).T


def test_a_coarse_dtype_is_judged_by_its_own_rounding(small_transformer: Saved) -> None:
    keywords = load_with_transformers(small_transformer("llama"), dtype=torch.bfloat16)
    keywords["model"].model.layers[0].unused = nn.Parameter(torch.zeros(1))  # of float32
    bfloat16_trace = trace(TEXT, **keywords)

    assert bfloat16_trace.trained is not None
    assert (bfloat16_trace.provenance.dtype, bfloat16_trace.trained.fallback) == ("bfloat16", False)
    keywords["model"].model.layers[0].input_layernorm.float()
    assert_refused(
        lambda: trace(TEXT, **keywords),
        "the model 'llama' (llama) cannot be run as bfloat16: "
        '"expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16"',
        "convert all of it to one dtype: model.float()",
    )


def test_a_path_names_a_model(small_transformer: Saved) -> None:
    folder = small_transformer("bert")
    assert torch.equal(trace(TEXT, model=folder).weights, trace(TEXT, model=str(folder)).weights)


def test_a_loaded_folder_is_left_as_it_was_loaded(small_transformer: Saved) -> None:
    settings = Settings(model=str(small_transformer("t5")))
    state_before = [*state_of(load_transformer(settings).model)]
    trace(TEXT, settings)
    assert is_same_state(state_before, [*state_of(load_transformer(settings).model)])
