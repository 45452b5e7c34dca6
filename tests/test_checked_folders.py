"""A folder of transformers is loaded from the files that were checked, and builds no more."""

from __future__ import annotations

import json
import shutil
import socket
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnviz import AttnvizError, trace
from attnviz.machine.panics import silencing_panics
from attnviz.traces.settings import Settings
from attnviz.traces.trained import loading, model_location
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import keeping_offline, quiet_transformers
from tests.conftest import Attnviz
from tests.hostile.files import update_json
from tests.refusals import refusal_lines
from tests.small_transformers import KINDS, TEXT, Saved, save

WEIGHTS, CONFIG = "model.safetensors", "config.json"
SHORT_TEXT = "the animal was tired"
DETR = {
    "model_type": "detr",
    "architectures": ["DetrForObjectDetection"],
    "backbone": "owner/name",
    "use_timm_backbone": False,
}
RAG = {
    "architectures": ["RagModel"],
    "model_type": "rag",
    "question_encoder": {"model_type": "bert"},
    "generator": {"model_type": "bart"},
}


@pytest.fixture
def folder(small_transformer: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder of a small BERT, called `mine`, which a test may change."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(small_transformer("bert"), "mine"))


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections that are tried; none of them is made."""
    tried: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        tried.append(arguments)
        raise OSError("there is no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return tried


def test_transformers_asks_no_hub_for_a_folder_even_where_its_config_is_not_refused(
    folder: Path, connections: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    update_json(CONFIG, **DETR)(folder)
    monkeypatch.setattr(loading, "refuse_unusable_folder", lambda folder: None)
    with pytest.raises(AttnvizError):
        trace(SHORT_TEXT, model=str(folder))
    assert not connections

    with quiet_transformers(), pytest.raises(Exception):  # noqa: B017, PT011
        import_module("transformers").AutoConfig.from_pretrained(folder, local_files_only=True)
    assert connections  # so the canary above would have been noticed


def test_a_hub_can_be_asked_again_after_a_folder_was_loaded(
    folder: Path, connections: list[object]
) -> None:
    from huggingface_hub import constants

    trace(SHORT_TEXT, model=str(folder))
    assert not constants.HF_HUB_OFFLINE
    with suppress(ZeroDivisionError), keeping_offline(), keeping_offline():
        assert constants.is_offline_mode()
        raise ZeroDivisionError
    assert not constants.is_offline_mode()


def adapt(folder: Path, layers: tuple[str, ...] = ("query",)) -> Any:
    """Save an adapter that changes attention beside its model; returns the adapted model."""
    peft: Any = import_module("peft")
    with quiet_transformers():
        from transformers import AutoModelForMaskedLM

        base = AutoModelForMaskedLM.from_pretrained(folder)
        model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=[*layers]))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data.fill_(0.5)
        model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_folder_with_an_adapter_is_refused_whether_its_model_is_complete_or_not(
    is_complete: bool, folder: Path, attnviz: Attnviz
) -> None:
    adapt(folder)
    if not is_complete:
        kept = {
            name: each for name, each in load_file(folder / WEIGHTS).items() if "key" not in name
        }
        save_file(kept, folder / WEIGHTS, {"format": "pt"})

    assert refusal_lines(attnviz("inspect", SHORT_TEXT, "--model", "mine")) == (
        "the folder 'mine' has an adapter (PEFT) beside the model that it changes",
        "move the files adapter_* to another folder; to apply them, save "
        "PeftModel.from_pretrained(model, FOLDER).merge_and_unload(), of peft",
    )


def test_an_adapter_is_applied_by_what_the_refusal_advises(folder: Path) -> None:
    peft: Any = import_module("peft")
    adapted = adapt(folder).merge_and_unload()
    Path("adapter").mkdir()
    for path in [*folder.glob("adapter_*")]:
        path.rename(Path("adapter", path.name))
    without_adapter = trace(SHORT_TEXT, model=str(folder)).weights
    with quiet_transformers():
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        model = AutoModelForMaskedLM.from_pretrained(folder)
        merged = peft.PeftModel.from_pretrained(model, "adapter").merge_and_unload()
        merged.save_pretrained("merged")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.save_pretrained("merged")

    weights = trace(SHORT_TEXT, model="merged").weights
    assert torch.equal(weights, trace(SHORT_TEXT, model=adapted, tokenizer=tokenizer).weights)
    assert not torch.allclose(weights, without_adapter)


def test_the_weights_that_a_config_chooses_are_read_and_checked(
    folder: Path, attnviz: Attnviz
) -> None:
    weights = trace(SHORT_TEXT, model=str(folder)).weights
    (folder / WEIGHTS).rename(folder / "other.safetensors")
    half = {name: each.half() for name, each in load_file(folder / "other.safetensors").items()}
    save_file(half, folder / WEIGHTS, {"format": "pt"})
    update_json(CONFIG, transformers_weights="other.safetensors")(folder)

    chosen = trace(SHORT_TEXT, model=str(folder))
    assert torch.equal(chosen.weights, weights)
    assert chosen.trained is not None
    assert chosen.trained.stored_as == "float32"
    (folder / "other.safetensors").write_bytes(b"cut off")
    problem, _ = refusal_lines(attnviz("inspect", SHORT_TEXT, "--model", "mine"))
    assert problem.startswith("'mine/other.safetensors' is damaged or incomplete")


@pytest.mark.parametrize(
    "name", ["../other.safetensors", "/etc/passwd", "pytorch_model.bin", "adapter_model.bin", 3, []]
)
def test_a_config_that_chooses_no_file_of_its_folder_is_refused(
    name: object, folder: Path, attnviz: Attnviz
) -> None:
    shutil.copy(folder / WEIGHTS, "other.safetensors")
    update_json(CONFIG, transformers_weights=name)(folder)

    problem, _ = refusal_lines(attnviz("inspect", SHORT_TEXT, "--model", "mine"))
    assert problem == (
        f"the config.json in 'mine' chooses '{name}' for its weights, which is no file of "
        "safetensors in that folder"
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_labels": 10**8}, "has num_labels of 100000000"),
        ({"id2label": {str(number): "x" for number in range(100_001)}}, "has id2label of 100001"),
        ({"text_config": {"num_hidden_layers": 10**8}}, "has num_hidden_layers of 100000000"),
        ({"encoder_layers": 1001}, "has encoder_layers of 1001"),
        ({"model_type": "swin", "depths": [2, 10**9]}, "has depths of 1000000004"),
        ({"attention_types": [[["global"], 10**9]]}, "has attention_types of 1000000001"),
        ({"mamba_chunk_size": 10**7}, "has mamba_chunk_size of 10000000"),
        ({"attention_window": [8, 10**7]}, "has attention_window of 10000000"),
        ({"max_seq_len": 10**9}, "has max_seq_len of 1000000000"),
        ({"parts": [{"model_type": "bert"}] * 32}, "has 33 parts with a model_type"),
        (RAG, "describes a larger model than the weights there: 515,773,"),
        (
            {"max_position_embeddings": 10**7},
            "describes a larger model than the weights there: 160",
        ),
        ({"num_hidden_layers": 1000}, "the weights there: over 1,168 matrices and vectors"),
        (
            {"model_type": "gpt_neo", "architectures": ["GPTNeoModel"], "num_layers": 2}
            | {"hidden_size": 16, "num_heads": 4, "max_position_embeddings": 10**5}
            | {"attention_types": [[["global"], 2]], "vocab_size": 60, "classifier_dropout": 0.1},
            "the weights there: tables of 20 GB",
        ),
    ],
)
def test_a_config_of_more_than_its_weights_is_refused_before_it_is_made(
    changes: dict[str, Any], problem: str, folder: Path, attnviz: Attnviz
) -> None:
    update_json(CONFIG, **changes)(folder)

    begin = time.process_time()
    text = refusal_lines(attnviz("inspect", SHORT_TEXT, "--model", "mine"))[0]
    assert text.startswith("the config.json in 'mine' ")
    assert problem in text
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("weight_map", [None, 3, "abc", [1], {}])
def test_an_index_without_a_table_of_files_is_refused(
    weight_map: object, folder: Path, attnviz: Attnviz
) -> None:
    (folder / WEIGHTS).rename(folder / "other.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": weight_map}))

    assert refusal_lines(attnviz("inspect", SHORT_TEXT, "--model", "mine")) == (
        f"the folder 'mine' has an {WEIGHTS}.index.json without files: its weights are in 0 files",
        "copy or download the whole model again",
    )


@pytest.mark.parametrize(
    "counts",
    [
        {"attention_window": [512] * 24},
        {"attention_types": [[["global", "local"], 12]]},
        {"depths": [2, 2, 18, 2], "block_sizes": [4, 4, 4], "cross_attention_layers": [3, 998]},
        {"mamba_chunk_size": 256, "attention_chunk_size": 8192, "block_size": 64},
        {"text_config": {"model_type": "bert"}, "vision_config": {"model_type": "vit"}},
    ],
)
def test_the_counts_of_usual_configs_are_not_refused(counts: dict[str, Any], folder: Path) -> None:
    update_json(CONFIG, **counts)(folder)

    assert len(trace(SHORT_TEXT, model=str(folder)).layers) == 2


def test_a_model_without_its_unused_weights_is_loaded(folder: Path) -> None:
    """Such as BertModel without its pooler, and a position table that transformers computes."""
    update_json(CONFIG, architectures=["BertModel"])(folder)
    weights = {
        name.removeprefix("bert."): each
        for name, each in load_file(folder / WEIGHTS).items()
        if name.startswith("bert.")
    }
    assert not [name for name in weights if "pooler" in name]
    save_file(weights, folder / WEIGHTS, {"format": "pt"})

    assert len(trace(SHORT_TEXT, model=str(folder)).layers) == 2


def test_a_model_generates_as_its_own_file_or_an_older_models_config_says(tmp_path: Path) -> None:
    folder = save(KINDS["bart"], tmp_path / "bart")
    update_json("generation_config.json", forced_bos_token_id=3)(folder)
    model = load_transformer(Settings(model=str(folder))).model
    assert model.generation_config.forced_bos_token_id == 3

    (folder / "generation_config.json").unlink()
    update_json(CONFIG, forced_bos_token_id=2)(folder)
    model = load_transformer(Settings(model=str(folder))).model
    assert model.generation_config.forced_bos_token_id == 2


def break_tokenizer(folder: Path) -> None:
    """Have the tokenizer cut by a pattern that takes exponential time, and then panics."""
    pattern = {"pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    update_json("tokenizer.json", pre_tokenizer={"type": "Split"} | pattern, normalizer=None)(
        folder
    )


@pytest.mark.parametrize("command", ["inspect --model", "run --tokenizer spaces --embeddings"])
def test_a_panic_of_a_tokenizer_is_two_lines(
    command: str, folder: Path, attnviz: Attnviz, capfd: pytest.CaptureFixture[str]
) -> None:
    break_tokenizer(folder)
    name, *options = command.split()

    problem, _ = refusal_lines(attnviz(name, f"{'a' * 40}!", *options, "mine"))
    assert problem.startswith("the tokenizer of 'mine' cannot cut this text")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_the_end_of_a_process_is_no_error_of_a_model(
    ending: type[BaseException], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise ending

    monkeypatch.setattr(loading, "_load_model", end)
    with pytest.raises(ending):
        load_transformer(Settings(model=str(folder)))
    with pytest.raises(ending), silencing_panics():
        raise ending


def test_a_model_of_a_hub_is_downloaded_and_then_checked_as_a_folder_is(
    folder: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested_patterns: list[list[str]] = []

    def download(name: str, allow_patterns: list[str]) -> str:
        requested_patterns.append(allow_patterns)
        return str(folder)

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)

    downloaded = trace(SHORT_TEXT, model="owner/name")
    assert downloaded.trained is not None
    assert downloaded.trained.name == "owner/name"
    assert requested_patterns == [loading.FOLDER_PATTERNS]
    (folder / model_location.ADAPTER_FILE).write_text(json.dumps({"peft_type": "LORA"}))
    problem, _ = refusal_lines(attnviz("inspect", TEXT, "--model", "owner/name"))
    assert "has an adapter (PEFT)" in problem
