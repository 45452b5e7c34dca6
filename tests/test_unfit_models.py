"""Models that stop at a text, change when they read one, or need more than that: two lines each."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from attnviz import AttnvizError, trace
from attnviz.traces.settings import Settings
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.model_location import ModelLocation
from attnviz.traces.trained.refusals import quiet_transformers, reporting_load_errors
from tests.conftest import Attnviz
from tests.refusals import refusal_lines, refusal_of
from tests.small_transformers import OF_BART, SIZES, SPECIAL, TOKENIZERS, Kind, Saved, save

TEXT = "The animal was too tired"
LONG_TEXT = "The animal was too tired to cross the street. " * 4
WORDS = len(TOKENIZERS["wordpiece"]())
TEXT_CONFIG = SIZES | SPECIAL | {"vocab_size": WORDS}
PICTURE_CONFIG = {**SIZES, "image_size": 16, "patch_size": 8}
FSMT = {"langs": ["en", "de"], "src_vocab_size": WORDS, "tgt_vocab_size": WORDS}
PROPHETNET = {
    "hidden_size": 16,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 96,
}
PERCEIVER = {
    "num_latents": 4,
    "d_latents": 16,
    "d_model": 16,
    "num_self_attends_per_block": 1,
    "num_self_attention_heads": 4,
    "num_cross_attention_heads": 4,
}
START_ID = {"decoder_start_token_id": 1}
KINDS = {
    "fsmt": Kind("FSMT", "ForConditionalGeneration", "wordpiece", OF_BART | FSMT | START_ID),
    "prophetnet": Kind(
        "ProphetNet", "ForConditionalGeneration", "wordpiece", PROPHETNET | START_ID
    ),
    "perceiver": Kind("Perceiver", "Model", "wordpiece", PERCEIVER),
    "xmod": Kind("Xmod", "Model", "wordpiece", SIZES),
    "bigbird": Kind("BigBird", "Model", "wordpiece", SIZES | {"block_size": 2}),
    "clip": Kind(
        "CLIP", "Model", "wordpiece", {"text_config": TEXT_CONFIG, "vision_config": PICTURE_CONFIG}
    ),
    "vilt": Kind("Vilt", "Model", "wordpiece", PICTURE_CONFIG),
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder = tmp_path_factory.mktemp("unfit")

    def save_model(name: str) -> str:
        path = folder / name
        return str(path if path.is_dir() else save(KINDS[name], path))

    return save_model


@pytest.mark.parametrize(
    ("name", "problem", "hint"),
    [
        (
            "perceiver",
            "the model 'perceiver' (perceiver) cannot be run on a text: "
            "\"PerceiverModel.forward() missing 1 required positional argument: 'inputs'\"",
            "look at its config.json, or use another model",
        ),
        (
            "xmod",
            "the model 'xmod' (xmod) cannot be run on a text: "
            '"Input language unknown. Please call `XmodPreTrainedModel.set_default_language()`"',
            "look at its config.json, or use another model",
        ),
        (
            "clip",
            "the model 'clip' (clip) also takes pixel_values, and cannot be run on a text alone",
            "save the part that reads text: model.text_model.save_pretrained(folder)",
        ),
        (
            "vilt",
            "the model 'vilt' (vilt) also takes pixel_values, and cannot be run on a text alone",
            "use a model of text",
        ),
    ],
)
def test_a_model_that_stops_at_a_text_is_refused_in_two_lines(
    name: str, problem: str, hint: str, folder_of: Callable[[str], str], attnviz: Attnviz
) -> None:
    result = attnviz("inspect", TEXT, "--model", folder_of(name))

    assert (result.status, result.err) == (2, f"error: {problem}\n hint: {hint}\n")


@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_an_adapter_alone_is_refused_with_the_command_that_merges_it(
    tmp_path: Path, attnviz: Attnviz, small_transformer: Saved, has_tokenizer: bool
) -> None:
    folder = tmp_path / "lora"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"task_type": "CAUSAL_LM"}')
    (folder / "adapter_model.safetensors").write_bytes(b"")
    if has_tokenizer:
        TOKENIZERS["bytes"]().save_pretrained(folder)

    problem, hint = refusal_of(lambda: trace(TEXT, model=str(folder)))
    assert problem == f"'{folder}' has an adapter (PEFT) without the model that it changes"
    assert hint.startswith(
        "give the adapted model that is in memory: model=model, tokenizer=tokenizer; or save both"
    )
    for words in (
        ["inspect", TEXT, f"--model={folder}"],
        ["compare", TEXT, f"--model={small_transformer('bert')}", f"--model={folder}"],
    ):
        refusal, advice = refusal_lines(attnviz(*words))
        assert refusal.removeprefix(f"{folder}: ") == problem
        assert advice.startswith("save both together, in another folder: python -c ")
        assert "peft.AutoPeftModelForCausalLM.from_pretrained" in advice


def test_transformers_that_cannot_be_imported_are_blamed_and_not_the_model() -> None:
    """As where torchvision was built for another torch."""

    def load() -> None:
        with reporting_load_errors(ModelLocation("minilm", Path())):
            try:
                raise RuntimeError("operator torchvision::nms does not exist")
            except RuntimeError as error:
                raise ModuleNotFoundError(
                    "Could not import module 'BertModel'. Are its requirements defined correctly?"
                ) from error

    problem, hint = refusal_of(load)
    assert problem == (
        "the model 'minilm' cannot be loaded, because transformers cannot be imported here: "
        '"RuntimeError: operator torchvision::nms does not exist"'
    )
    assert hint == "install versions of torch, torchvision and transformers that fit each other"


def test_a_model_without_numbers_is_refused_before_it_runs(small_transformer: Saved) -> None:
    loaded = load_transformer(Settings(model=str(small_transformer("bert"))))
    model = deepcopy(loaded.model).to("meta")

    problem, hint = refusal_of(lambda: trace(TEXT, model=model, tokenizer=loaded.tokenizer))
    assert "is on the device 'meta', where weights have sizes and no numbers" in problem
    assert hint == "load its weights first: model = type(model).from_pretrained(folder)"


def test_the_part_that_reads_text_can_be_looked_at_where_the_hint_puts_it(
    folder_of: Callable[[str], str], tmp_path: Path
) -> None:
    with quiet_transformers():
        model = transformers.CLIPModel.from_pretrained(folder_of("clip"))
        model.text_model.save_pretrained(tmp_path / "text")
    TOKENIZERS["wordpiece"]().save_pretrained(tmp_path / "text")

    result = trace(TEXT, model=str(tmp_path / "text"))

    assert result.trained is not None
    assert not result.trained.fallback


@pytest.mark.parametrize("attention", ["decoder", "cross"])
def test_what_a_decoder_of_fsmt_reads_is_shown_as_it_hands_it_back(
    attention: Any, folder_of: Callable[[str], str]
) -> None:
    result = trace(TEXT, model=folder_of("fsmt"), attention=attention, target="the street")
    model = load_transformer(Settings(model=folder_of("fsmt"))).model
    ids = {"input_ids": list(result.keys.ids), "decoder_input_ids": list(result.tokens.ids)}
    if attention == "decoder":
        ids["input_ids"] = list(trace(TEXT, model=folder_of("fsmt")).tokens.ids)
    with torch.no_grad():
        outputs = model(**{name: torch.tensor([each]) for name, each in ids.items()},
                        output_attentions=True, use_cache=False)  # fmt: skip

    expected_weights = (
        outputs.decoder_attentions if attention == "decoder" else outputs.cross_attentions
    )
    assert torch.equal(result.weights, torch.cat([*expected_weights]))
    table = model.model.decoder.embed_tokens.weight
    assert torch.equal(result.embeddings, table[list(result.tokens.ids)])
    assert result.prediction is not None
    expected = outputs.logits[0].softmax(-1).max(-1).values
    assert torch.allclose(result.prediction.probabilities.max(-1).values, expected)


def test_several_streams_of_a_decoder_are_no_table_of_its_tokens(
    folder_of: Callable[[str], str],
) -> None:
    with pytest.raises(AttnvizError, match=r"returns weights of 1 × 4 × \d+ × \d+, which do"):
        trace(TEXT, model=folder_of("prophetnet"), attention="cross", target="the street")
    result = trace(TEXT, model=folder_of("prophetnet"), attention="decoder", target="the street")
    assert result.prediction is not None


def test_what_a_text_changes_of_a_model_is_undone_before_the_next(
    folder_of: Callable[[str], str],
) -> None:
    """Of a short text BigBird reads everything; and so it would of all texts after it."""
    first_trace, _, last_trace = (
        trace(each, model=folder_of("bigbird")) for each in (LONG_TEXT, TEXT, LONG_TEXT)
    )

    assert torch.equal(first_trace.weights > 0, last_trace.weights > 0)
    assert (first_trace.weights == 0).any()  # it reads some blocks, and not all


def test_no_other_model_is_loaded_again(small_transformer: Saved) -> None:
    for name in ("gpt2", "bart"):
        settings = Settings(model=str(small_transformer(name)))
        model = load_transformer(settings)
        trace(TEXT, settings)
        trace(TEXT, settings, **({"generate": 2} if name == "gpt2" else {"attention": "decoder"}))
        assert load_transformer(settings) is model


def test_the_dtype_that_a_model_cannot_have_is_the_one_that_is_asked_for(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    result = attnviz(
        "inspect", TEXT, "--model", str(small_transformer("xlnet")), "--dtype", "float64"
    )

    assert result.err == (
        "error: the model 'xlnet' (xlnet) cannot be run as float64: "
        '"expected scalar type Float but found Double"'
        "\n hint: leave --dtype out\n"
    )


def test_another_dtype_is_no_advice_where_that_is_not_what_stops_a_model(
    small_transformer: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = transformers.BertModel

    def raise_error(*args: Any, **options: Any) -> Any:
        raise RuntimeError("shape '[1, 2]' is invalid for input of size 3")

    monkeypatch.setattr(kind, "forward", raise_error)
    with pytest.raises(AttnvizError, match='cannot be run on this text: "shape') as error:
        trace(TEXT, model=str(small_transformer("bert")), dtype="float64")
    assert error.value.hint == "look at its config.json, or save the model again"


def test_a_model_of_pictures_is_told_that_it_reads_no_text(
    tmp_path: Path, attnviz: Attnviz
) -> None:
    config: Any = transformers.ViTConfig
    with quiet_transformers():
        transformers.ViTModel(config(**PICTURE_CONFIG)).save_pretrained(tmp_path / "v")

    result = attnviz("inspect", TEXT, "--model", str(tmp_path / "v"))

    assert result.err == (
        "error: the model 'v' (vit) does not read text: it takes pixel_values\n"
        " hint: use a model of text\n"
    )
