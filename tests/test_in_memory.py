"""Models in memory: traced as they are, and left exactly as they were."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
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
from tests.small_transformers import TEXT, TOKENIZERS, Saved

OTHER_TEXT = TEXT.replace("tired", "wide")
Given = dict[str, Any]  # the keywords `model` and `tokenizer`


def load_model(folder: Path, **options: Any) -> Given:
    """A model and its tokenizer, as one loads them without attnviz: with the fastest attention."""
    with quiet_transformers():
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, config.architectures[0])
        model = kind.from_pretrained(folder, **options)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    return {"model": model, "tokenizer": tokenizer}


@pytest.fixture
def llama(small_transformer: Saved) -> Given:
    return load_model(small_transformer("llama"))


def state_of(model: nn.Module) -> Iterator[Any]:
    """Everything about a model that a caller could see: attributes, hooks, configs, gradients."""
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            yield name, key, [*value.items()] if isinstance(value, dict) else value
        config = getattr(module, "config", None)
        yield name, None if config is None else {**vars(config)}
    for name, parameter in model.named_parameters():
        yield name, id(parameter), parameter._version, parameter.requires_grad, parameter.grad


def same(before: list[Any], after: list[Any]) -> bool:
    return repr(before) == repr(after)


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2", "t5", "bart", "gpt-oss", "gpt-j"])
def test_a_model_in_memory_gives_what_its_folder_gives(name: str, small_transformer: Saved) -> None:
    folder = small_transformer(name)
    given = load_model(folder)
    before = [*state_of(given["model"])]

    made, named = trace(TEXT, **given), trace(TEXT, model=folder)

    assert torch.equal(made.weights, named.weights)
    assert [layer.given for layer in made.layers] == [layer.given for layer in named.layers]
    assert made.provenance.settings["in_memory"]
    assert "in_memory" not in named.provenance.settings
    assert same(before, [*state_of(given["model"])])


def test_its_weights_are_those_that_it_returns_itself(llama: Given) -> None:
    made = trace(TEXT, **llama)
    ids = llama["tokenizer"](TEXT, return_tensors="pt")
    llama["model"].set_attn_implementation("eager")
    with torch.no_grad():
        theirs = llama["model"](**ids, output_attentions=True).attentions

    assert torch.equal(made.weights, torch.cat([*theirs]))


def test_changed_weights_are_used_and_nothing_is_loaded_again(llama: Given) -> None:
    before = trace(TEXT, **llama)
    with torch.no_grad():
        llama["model"].model.layers[1].self_attn.q_proj.weight.mul_(3)
    after = trace(TEXT, **llama)

    assert torch.equal(before.weights[0], after.weights[0])
    assert not torch.allclose(before.weights[1], after.weights[1], atol=1e-2)
    projections = after.layers[1].projections
    assert projections is not None
    matrix = llama["model"].model.layers[1].self_attn.q_proj.weight.T
    assert projections.w_query is not None
    assert torch.equal(projections.w_query, matrix)


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_exactly_as_before_also_after_an_error(
    llama: Given, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, calls = llama["model"], []
    model.model.layers[0].register_forward_hook(lambda *_: calls.append(1))
    model.train()
    model.model.norm.eval()
    model.model.layers[1].requires_grad_(False)
    ids = llama["tokenizer"](TEXT, return_tensors="pt")["input_ids"]
    model(ids).logits.sum().backward()
    calls.clear()
    before = [*state_of(model)]
    if fails:
        monkeypatch.setattr(model.lm_head, "forward", stops)
        before = [*state_of(model)]
        with pytest.raises(AttnvizError, match="stopped on purpose"):
            trace(TEXT, **llama)
    else:
        made = trace(TEXT, **llama)
        inspect(made, weigh="gradient").view()
        assert inspect(made, by="effect").effects.heads
        trace(TEXT, generate=2, **llama)

    assert calls  # hooks of the caller see every pass
    assert same(before, [*state_of(model)])


def stops(*args: Any, **named: Any) -> Any:
    raise ValueError("stopped on purpose")


def test_all_that_takes_a_model_takes_one_in_memory(llama: Given, small_transformer: Saved) -> None:
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
        ours, named = view(**llama), view(model=folder)
        assert (ours.headline, ours.title) == (named.headline, named.title)
        assert ours.command is None  # none could make it again


def test_a_saved_trace_says_that_the_model_was_in_memory_and_takes_it_again(
    llama: Given, tmp_path: Path
) -> None:
    made = trace(TEXT, **llama)
    assert "a model in memory" in made.view().settings
    made.save(tmp_path / "trace.npz")
    again = load(str(tmp_path / "trace.npz"))

    assert torch.equal(again.weights, made.weights)
    assert again.trained == made.trained
    assert "a model in memory" in again.view().settings
    assert_refused(
        lambda: inspect(again).effects,
        "the trace is of a model in memory, 'llama', which it does not contain",
        "give that model: inspect(trace, model=model, tokenizer=tokenizer); or its folder",
    )
    first, second = (inspect(each, **llama).effects for each in (again, made))
    assert [head.name for head in first.heads] == [head.name for head in second.heads]
    inspect(again, **llama).save(tmp_path / "again.npz")
    assert load(str(tmp_path / "again.npz")).trained == made.trained


def test_copies_and_pickles_leave_the_model_out(llama: Given) -> None:
    made = trace(TEXT, **llama)
    for each in (copy.copy(made.origin), pickle.loads(pickle.dumps(made.origin))):
        assert isinstance(each, FromTransformer)
        assert each.in_memory is None
        assert each.card == made.trained


def test_a_model_is_freed_with_its_last_trace(small_transformer: Saved) -> None:
    given = load_model(small_transformer("bert"))
    made, freed = trace(TEXT, **given), weakref.ref(given["model"])
    del given
    gc.collect()
    assert freed() is not None
    del made
    gc.collect()
    assert freed() is None


def assert_refused(call: Callable[[], object], problem: str, hint: str) -> None:
    with pytest.raises(AttnvizError) as told:
        call()
    assert (str(told.value), told.value.hint) == (problem, hint)


class Own(nn.Module):
    """A model of no library."""


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
            {"tokenizer": Own()},
            "the tokenizer is of type Own, which is no tokenizer of transformers",
            "try transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)",
        ),
        (
            {"model": Own()},
            "the model is of type Own, which is no model of transformers",
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
    changes: Given, problem: str, hint: str, llama: Given
) -> None:
    for call in (trace, inspect, steps):
        assert_refused(lambda call=call: call(TEXT, **{**llama, **changes}), problem, hint)  # type: ignore[misc]


def test_what_is_nothing_for_a_transformer_is_refused(llama: Given) -> None:
    problem = "the trained model 'llama' decides how it attends, so nothing can be compared by mask"
    hint = "give two sentences: compare_sentences(text, other, model=model, tokenizer=tokenizer)"
    made = trace(TEXT, **llama)
    assert_refused(lambda: compare(TEXT, by="mask", **llama), problem, hint)
    assert_refused(lambda: compare(made, by="mask"), problem, hint)
    assert_refused(
        lambda: rank(llama["model"]),
        "the model 'llama' is in memory, but rank only takes models that learned a task of attnviz",
        "see the effect of each head on a text: inspect(text, model=model, tokenizer=tokenizer, "
        'by="effect")',
    )
    assert_refused(
        lambda: steps(made, **llama),
        "'model' says how to trace a text, but a finished Trace is given",
        "leave 'model' out, or give the text",
    )


def test_the_tokenizer_of_another_model_is_refused(small_transformer: Saved) -> None:
    given = load_model(small_transformer("bert")) | {"tokenizer": TOKENIZERS["bytes"]()}
    count = given["model"].get_input_embeddings().num_embeddings
    with pytest.raises(AttnvizError) as told:
        trace(TEXT, **given)

    largest = max(given["tokenizer"](TEXT)["input_ids"])
    assert str(told.value) == (
        f"the tokenizer makes id {largest}, but the model 'bert' only has embeddings for {count}"
    )
    assert told.value.hint == "use the tokenizer that the model was trained with"


def test_a_model_in_training_mode_is_run_without_dropout_and_says_so(
    small_transformer: Saved, llama: Given
) -> None:
    bert = load_model(small_transformer("bert"))
    expected = trace(TEXT, **bert).weights
    bert["model"].train()
    with pytest.warns(Note, match="^the model is in training mode; here it ran in evaluation mode"):
        made = trace(TEXT, **bert)
    llama["model"].train()
    trace(TEXT, **llama)  # which has no dropout, so that there is nothing to say

    assert torch.equal(made.weights, expected)
    assert bert["model"].training


def test_a_model_that_changed_after_its_trace_is_not_run_in_its_place(llama: Given) -> None:
    made = trace(TEXT, **llama)
    llama["model"].model.layers[0].self_attn.q_proj.weight.data.mul_(9)  # counted nowhere
    with pytest.raises(
        AttnvizError, match=r"^'llama' is not the model that made the trace any more"
    ):
        _ = inspect(made).effects
    with torch.no_grad():
        llama["model"].model.layers[0].self_attn.v_proj.weight.mul_(2)
    for call in (lambda: steps(made), lambda: inspect(made, weigh="norm").maps):
        assert_refused(
            call,
            "the model 'llama' changed after the trace was made, so its matrices are others",
            "trace the text again",
        )


def test_attention_that_cannot_be_exchanged_must_be_eager(small_transformer: Saved) -> None:
    assert_refused(
        lambda: trace(TEXT, **load_model(small_transformer("falcon"))),
        "the model 'falcon' (falcon) was loaded with attn_implementation='sdpa', which does not "
        "return its weights",
        "load it again with attn_implementation='eager'",
    )
    eager = load_model(small_transformer("falcon"), attn_implementation="eager")
    named = trace(TEXT, model=small_transformer("falcon"))
    assert torch.equal(trace(TEXT, **eager).weights, named.weights)


def test_the_check_and_the_search_are_done_once_for_each_state_of_a_model(
    llama: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    searched: list[int] = []
    count(monkeypatch, model_attention, "measure_eager_difference", checked)
    count(monkeypatch, matrix_recognition, "_find_matrices", searched)
    for text in (TEXT, OTHER_TEXT, TEXT[:20]):
        trace(text, **llama)
    assert (len(checked), len(searched)) == (1, 2)  # one search for each layer
    with torch.no_grad():
        llama["model"].model.embed_tokens.weight.add_(0)  # as any step of training
    trace(TEXT, **llama)
    assert (len(checked), len(searched)) == (2, 4)
    llama["model"].double()
    assert trace(TEXT, **llama).provenance.dtype == "float64"
    assert (len(checked), len(searched)) == (3, 6)


def test_what_is_changed_between_two_calls_is_noticed(llama: Given) -> None:
    model = llama["model"]
    attention = model.model.layers[0].self_attn
    first = trace(TEXT, **llama)
    hook = attention.k_proj.register_forward_hook(lambda module, given, keys: keys + 1)
    hooked = trace(TEXT, **llama)
    hook.remove()
    keys = [traced.layers[0].keys for traced in (first, hooked)]
    assert keys[0] is not None
    assert keys[1] is not None
    assert not torch.equal(keys[0], keys[1])
    assert "keys" in hooked.layers[0].given
    assert "keys" not in first.layers[0].given

    wide, narrow = attention.o_proj.weight.shape
    attention.o_proj = torch.nn.Linear(narrow, wide, bias=False)
    other = trace(TEXT, **llama)
    replaced = other.layers[0].projections
    assert replaced is not None
    assert replaced.w_out is not None
    assert torch.equal(replaced.w_out, attention.o_proj.weight.T)

    model.set_attn_implementation("sdpa")
    model.train()
    assert torch.equal(trace(TEXT, **llama).weights, other.weights)
    assert model.config._attn_implementation == "sdpa"
    assert attention.training


def count(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: list[int]) -> None:
    function = getattr(module, name)

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return function(*arguments)

    monkeypatch.setattr(module, name, counting)


def test_a_short_text_is_checked_again_by_a_longer_one(
    llama: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    count(monkeypatch, model_attention, "measure_eager_difference", checked)
    positions = [trace(text, **llama).positions for text in ("I", TEXT, TEXT)]

    assert len(checked) == 2
    assert positions[1:] == ["rotary-halves"] * 2  # which one token alone cannot show


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "gpt-neox", "t5", "opt"])
def test_matrices_of_an_earlier_text_are_those_that_a_search_finds(
    name: str, small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = load_model(small_transformer(name))
    trace(TEXT[:9], **given)
    known = trace(OTHER_TEXT, **given)
    model_state.results_for_model(given["model"]).clear()
    fresh = trace(OTHER_TEXT, **given)

    for ours, theirs in zip(known.layers, fresh.layers, strict=True):
        assert (ours.scale, ours.given) == (theirs.scale, theirs.given)
        assert torch.equal(ours.context, theirs.context)
        assert torch.equal(ours.inputs, theirs.inputs)
        for matrix in ("w_query", "w_key", "w_value", "w_out"):
            first, second = getattr(ours.projections, matrix), getattr(theirs.projections, matrix)
            assert torch.equal(first, second)


def test_an_adapter_is_part_of_the_model(small_transformer: Saved) -> None:
    peft = pytest.importorskip("peft")
    given = load_model(small_transformer("llama"))
    plain = trace(TEXT, **given).weights
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "o_proj"])
    with quiet_transformers():
        given["model"] = peft.get_peft_model(given["model"], config)
    assert torch.equal(trace(TEXT, **given).weights, plain)  # it adds 0 to begin with
    for name, parameter in given["model"].named_parameters():
        if "lora_B" in name:
            parameter.data.normal_()

    made = trace(TEXT, **given)
    assert not torch.allclose(made.weights, plain, atol=1e-2)
    assert made.layers[0].projections is not None
    assert made.layers[0].projections.w_query is None  # no one matrix makes the queries
    assert made.layers[0].projections.w_out is None
    with given["model"].disable_adapter():
        assert torch.equal(trace(TEXT, **given).weights, plain)
    merged = load_model(small_transformer("llama")) | {"model": given["model"].merge_and_unload()}
    assert torch.allclose(trace(TEXT, **merged).weights, made.weights, atol=1e-5)


def test_a_model_whose_weights_are_elsewhere_until_they_are_needed(
    small_transformer: Saved,
) -> None:
    accelerate = pytest.importorskip("accelerate")
    given = load_model(small_transformer("llama"))
    plain = trace(TEXT, **given)
    accelerate.cpu_offload(given["model"], execution_device=torch.device("cpu"))
    assert given["model"].lm_head.weight.is_meta

    made = trace(TEXT, **given)
    assert torch.equal(made.weights, plain.weights)
    assert inspect(made, by="effect").effects.heads
    assert given["model"].lm_head.weight.is_meta


def test_quantised_weights_are_never_taken_for_a_matrix(small_transformer: Saved) -> None:
    """As bitsandbytes has them: a Linear whose weight is made of bytes."""
    given = load_model(small_transformer("llama"))
    expected = trace(TEXT, **given)
    for layer in given["model"].model.layers:
        for name in ("q_proj", "o_proj"):
            setattr(layer.self_attn, name, Bytes(getattr(layer.self_attn, name)))

    made = trace(TEXT, **given)
    assert torch.equal(made.weights, expected.weights)
    assert made.layers[0].projections is not None
    assert made.layers[0].projections.w_query is None
    assert made.layers[0].projections.w_value is not None
    assert made.provenance.dtype == "float32"


class Bytes(nn.Linear):
    """A linear layer that keeps its weights as bytes."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False)
        packed = plain.weight.detach().clone().view(torch.uint8)
        self.weight = nn.Parameter(packed, requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.weight.view(torch.float32).T


def test_a_coarse_dtype_is_judged_by_its_own_rounding(small_transformer: Saved) -> None:
    given = load_model(small_transformer("llama"), dtype=torch.bfloat16)
    given["model"].model.layers[0].unused = nn.Parameter(torch.zeros(1))  # of float32
    made = trace(TEXT, **given)

    assert made.trained is not None
    assert (made.provenance.dtype, made.trained.fallback) == ("bfloat16", False)
    given["model"].model.layers[0].input_layernorm.float()
    assert_refused(
        lambda: trace(TEXT, **given),
        "the model 'llama' (llama) cannot be run as bfloat16: expected m1 and m2 to have the same "
        "dtype, but got: float != c10::BFloat16",
        "convert all of it to one dtype: model.float()",
    )


def test_a_path_names_a_model(small_transformer: Saved) -> None:
    folder = small_transformer("bert")
    assert torch.equal(trace(TEXT, model=folder).weights, trace(TEXT, model=str(folder)).weights)


def test_a_loaded_folder_is_left_as_it_was_loaded(small_transformer: Saved) -> None:
    settings = Settings(model=str(small_transformer("t5")))
    before = [*state_of(load_transformer(settings).model)]
    trace(TEXT, settings)
    assert same(before, [*state_of(load_transformer(settings).model)])
