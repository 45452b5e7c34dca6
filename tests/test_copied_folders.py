"""transformers reads a copy of a model's small files, in which no name of another file is left."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnviz import AttnvizError, trace
from attnviz.errors import Note
from attnviz.traces.settings import Settings
from attnviz.traces.trained import checked_folder
from attnviz.traces.trained.checked_folder import checked_copy
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.model_location import ModelLocation
from tests.conftest import Attnviz
from tests.hostile.files import update_json
from tests.refusals import refusal_lines
from tests.small_transformers import KINDS, Saved, save

TEXT = "the animal was tired"
OUTSIDE_WORD = "outsideword"
BYTES_IN_ORDER, BYTES_BACKWARDS = [*range(256)], [*range(255, -1, -1)]


@pytest.fixture
def folder(small_transformer: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder of a small BERT, called `mine`, which a test may change."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(small_transformer("bert"), "mine"))


def vocabulary(folder: Path) -> set[str]:
    return {*load_transformer(Settings(model=str(folder))).tokenizer.get_vocab()}


def write_outside(folder: Path) -> Path:
    """Write files of a tokenizer with one more word, beside the model's folder."""
    outside = folder.resolve().parent / "outside"
    outside.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", OUTSIDE_WORD]
    (outside / "vocab.txt").write_text("\n".join(words))
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["vocab"] = {word: number for number, word in enumerate(words)}
    (outside / "tokenizer.1.0.0.json").write_text(json.dumps(content))
    return outside


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize(
    "key", ["vocab", "vocab_file", "tokenizer_file", "fast_tokenizer_files", "init_inputs"]
)
def test_a_tokenizer_reads_no_file_that_a_file_names(key: str, file: str, folder: Path) -> None:
    outside = write_outside(folder)
    path = str(outside / ("tokenizer.1.0.0.json" if "tokenizer" in key else "vocab.txt"))
    if not (folder / file).exists():
        (folder / file).write_text("{}")
    words = vocabulary(folder)

    named: Any = [path] if key in ("fast_tokenizer_files", "init_inputs") else path
    update_json(file, **{key: named})(folder)

    assert vocabulary(folder) == words
    assert OUTSIDE_WORD not in words


def test_a_file_too_deep_to_be_written_again_is_not_read(folder: Path, attnviz: Attnviz) -> None:
    outside = write_outside(folder)
    path = folder / "tokenizer_config.json"
    named = {"fast_tokenizer_files": [str(outside / "tokenizer.1.0.0.json")], "zz": 0}
    content = json.dumps(json.loads(path.read_text()) | named)
    path.write_text(content.replace('"zz": 0', f'"zz": {"[" * 900}{"]" * 900}'))

    problem, _ = refusal_lines(attnviz("inspect", TEXT, "--model", "mine"))
    assert problem.startswith("the tokenizer in 'mine' could not be loaded: \"RecursionError")


def test_another_version_of_a_config_is_not_read(folder: Path) -> None:
    (folder / "config.1.0.json").write_text('{"model_type": "bert", "num_labels": 100000000}')
    update_json("config.json", configuration_files=["config.1.0.json"])(folder)

    assert load_transformer(Settings(model=str(folder))).config.num_labels == 2


def test_only_files_of_a_config_and_a_tokenizer_are_copied(folder: Path) -> None:
    for name in ("preprocessor_config.json", "processor_config.json", "evil.py", "merges.txt"):
        (folder / name).write_text("{}")

    with checked_copy(ModelLocation("mine", folder)) as copy:
        assert copy.folder is not None
        names = {path.name for path in copy.folder.iterdir()}

    assert {"config.json", "tokenizer.json", "tokenizer_config.json", "merges.txt"} <= names
    assert names.isdisjoint(("preprocessor_config.json", "processor_config.json", "evil.py"))
    assert not copy.folder.exists()


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("name", ["AutoFeatureExtractor", "AutoFeatureExtractorFast"])
def test_an_answer_on_standard_input_runs_no_code(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_checked: bool
) -> None:
    """Also if the class of the tokenizer were not looked at: what it needs is not copied."""
    if not is_checked:
        monkeypatch.setattr(checked_folder, "_is_tokenizer", lambda _: True)
    update_json("tokenizer_config.json", tokenizer_class=name)(folder)
    code = {"auto_map": {"AutoFeatureExtractor": "evil.Extractor"}}
    (folder / "preprocessor_config.json").write_text(json.dumps(code))
    (folder / "evil.py").write_text("open('ran', 'w').close()\nclass Extractor: pass\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))

    with pytest.raises(AttnvizError, match="tokenizer"):
        trace(TEXT, model=str(folder))

    assert sys.stdin.read() == "y\n" * 9
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        *((name, name) for name in ("RagModel", "DiaProcessor", "AutoTokenizer")),
        ("RagModelFast", "RagModel"),  # transformers also looks for it without the ending
    ],
)
@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_class_that_is_no_tokenizer_is_refused(
    file: str, name: str, class_name: str, folder: Path, attnviz: Attnviz
) -> None:
    update_json("tokenizer_config.json", tokenizer_class=None)(folder)
    update_json(file, tokenizer_class=name)(folder)

    assert refusal_lines(attnviz("inspect", TEXT, "--model", "mine")) == (
        f"the files of 'mine' name '{class_name}' as the class of its tokenizer, but it is no "
        "tokenizer",
        "use the tokenizer of the original model",
    )


@pytest.mark.parametrize("name", ["AutoTokenizer", "CLIPProcessor"])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_class_that_transformers_does_not_take_is_not_refused(
    file: str, name: str, small_transformer: Saved, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_transformer("qwen2"), tmp_path / "qwen2"))
    ids = trace(TEXT, model=str(folder)).tokens.ids
    update_json("tokenizer_config.json", tokenizer_class=None)(folder)
    update_json(file, tokenizer_class=name)(folder)

    assert trace(TEXT, model=str(folder)).tokens.ids == ids


def test_a_good_class_of_a_tokenizer_s_own_file_counts_more_than_that_of_the_config(
    folder: Path,
) -> None:
    update_json("config.json", tokenizer_class="RagModel")(folder)

    assert len(trace(TEXT, model=str(folder)).layers) == 2


def test_an_error_of_transformers_names_the_folder_and_not_its_copy(
    folder: Path, attnviz: Attnviz
) -> None:
    (folder / "tokenizer.json").write_text("{")

    error = attnviz("inspect", TEXT, "--model", "mine").err

    assert error.startswith("error: the tokenizer in 'mine' could not be loaded: ")
    assert "attnviz-" not in error


def write_ranks(folder: Path, numbers: list[int]) -> None:
    """Write a vocabulary of tiktoken in which the n-th byte has the n-th of these numbers."""
    lines = (f"{base64.b64encode(bytes([n])).decode()} {rank}\n" for n, rank in enumerate(numbers))
    (folder / "tiktoken.model").write_text("".join(lines))
    (folder / "tokenizer.json").unlink()


@pytest.mark.filterwarnings("ignore:⟨id")  # of the model, which has more ids than bytes
def test_a_vocabulary_of_tiktoken_is_that_of_the_folder_and_stored_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tiktoken stores a copy by the name that was given, which another model may have, too."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "store"))
    ids = []
    for place, numbers in (("one", BYTES_IN_ORDER), ("two", BYTES_BACKWARDS)):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        write_ranks(save(KINDS["llama"], Path("mine")), numbers)
        ids.append(trace("it", model="mine", device="cpu").tokens.ids)

    assert ids[0] != ids[1]
    assert not (tmp_path / "store").exists()
    assert os.environ["TIKTOKEN_CACHE_DIR"] == str(tmp_path / "store")


def number_of_a_rank(folder: Path) -> None:
    write_ranks(folder, [*range(255), 10**9])


def number_of_an_added_token(folder: Path) -> None:
    token = {"1000000000": {"content": "x"}}
    update_json("tokenizer_config.json", added_tokens_decoder=token)(folder)


def count_of_special_tokens(folder: Path) -> None:
    content = {"config": {"default_num_special_tokens": 10**9}, "vocab": []}
    (folder / "tekken.json").write_text(json.dumps(content))


def number_of_a_rank_in_a_file_of_another_system(folder: Path) -> None:
    number_of_a_rank(folder)
    path = folder / "tiktoken.model"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))


def numbers_as_texts(folder: Path) -> None:
    (folder / "added_tokens.json").write_text('{"<x>": "2147483648"}')


def numbers_with_a_point(folder: Path) -> None:
    (folder / "added_tokens.json").write_text('{"<x>": 2147483648.0}')


@pytest.mark.parametrize(
    "change",
    [
        *(number_of_a_rank, number_of_an_added_token, count_of_special_tokens),
        *(number_of_a_rank_in_a_file_of_another_system, numbers_as_texts, numbers_with_a_point),
    ],
)
def test_a_number_that_no_token_has_is_refused(
    change: Callable[[Path], None], folder: Path, attnviz: Attnviz
) -> None:
    change(folder)

    problem, _ = refusal_lines(attnviz("inspect", TEXT, "--model", "mine"))
    assert problem.endswith(
        "numbers or counts tokens above 16,777,216, which no vocabulary reaches"
    )


def test_a_vocabulary_larger_than_any_is_not_read(folder: Path, attnviz: Attnviz) -> None:
    with (folder / "vocab.txt").open("wb") as file:
        file.truncate(50 * 2**30)

    problem, _ = refusal_lines(attnviz("inspect", TEXT, "--model", "mine"))
    assert problem == "'mine/vocab.txt' has 53.7 GB, more than a tokenizer may have (134.2 MB)"


@pytest.mark.parametrize("name", ["tokenizer_config.json", "vocab.txt", "special_tokens_map.json"])
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_not_read(name: str, folder: Path) -> None:
    """Nobody writes to the pipe, and the device has no end."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("Windows has no such files")
    path = folder / name
    for make in (os.mkfifo, lambda path: Path(path).symlink_to("/dev/zero")):
        path.unlink(missing_ok=True)
        make(path)
        assert len(trace(TEXT, model=str(folder)).layers) == 2


def test_a_large_file_that_is_no_tokenizer_s_is_left_alone(folder: Path) -> None:
    with (folder / "corpus.txt").open("wb") as file:
        file.truncate(2**28)

    assert len(trace(TEXT, model=str(folder)).layers) == 2


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def query_weights(weights: dict[str, torch.Tensor]) -> list[str]:
    return [name for name in weights if name.endswith("query.weight")]


def add_adapter(weights: dict[str, torch.Tensor]) -> None:
    for name in query_weights(weights):
        for part, shape in (("A", (2, 16)), ("B", (16, 2))):
            weights[name.replace("weight", f"lora_{part}.default.weight")] = torch.ones(shape)


def add_scales(weights: dict[str, torch.Tensor]) -> None:
    for name in query_weights(weights):
        weights[f"{name}_scale"] = torch.ones(1)


def store_codes(weights: dict[str, torch.Tensor]) -> None:
    for name in query_weights(weights):
        weights[name] = (100 * weights[name]).to(torch.int8)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (add_adapter, "has 4 tensors that change its weights, and that transformers leaves out: "),
        (add_scales, "has 2 tensors that change its weights, and that transformers leaves out: "),
        (store_codes, "are packed, and its config.json does not say how: "),
    ],
)
def test_weights_that_others_change_are_refused(
    change: Callable[[dict[str, torch.Tensor]], object], problem: str, folder: Path
) -> None:
    change_weights(folder, change)

    with pytest.raises(AttnvizError, match=problem):
        trace(TEXT, model=str(folder))


def test_weights_packed_in_an_unknown_way_are_refused(folder: Path) -> None:
    update_json("config.json", quantization_config={"quant_method": "mystery"})(folder)

    with pytest.raises(AttnvizError, match="in a way that transformers does not know: 'mystery'"):
        trace(TEXT, model=str(folder))


def test_a_config_of_fewer_layers_than_the_weights_have_is_noted(
    folder: Path, attnviz: Attnviz
) -> None:
    update_json("config.json", num_hidden_layers=1)(folder)

    result = attnviz("run", TEXT, "--model", "mine")

    assert result.status == 0
    assert result.err.startswith("note: the model 'mine' does not use 16 weights of its files: "), (
        result.err
    )


def test_a_model_generates_the_likeliest_tokens_whatever_its_file_asks_for(
    small_transformer: Saved, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_transformer("gpt2"), tmp_path / "gpt2"))
    words = trace(TEXT, model=str(folder), generate=4).tokens.pieces
    path = folder / "generation_config.json"
    costly: dict[str, Any] = {"encoder_no_repeat_ngram_size": 10**9, "assistant_early_exit": 10**9}
    others = {"do_sample": True, "temperature": 9.0, "stop_strings": ["a"], "num_beams": 3}
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | costly | others))

    assert trace(TEXT, model=str(folder), generate=4).tokens.pieces == words


@pytest.mark.parametrize("key", ["pad_token", "additional_special_tokens", "vocab_size"])
def test_what_names_no_file_is_kept(key: str) -> None:
    assert checked_folder.without_file_names({key: "x"}) == {key: "x"}


@pytest.mark.parametrize("name", ["logit_scale", "k_scale", "encoder.layer.0.attention.v_scale"])
def test_a_scale_of_something_else_is_no_scale_of_weights(
    name: str, folder: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Such as that of CLIP, whose text part does not use it, or those of stored keys and values."""
    change_weights(folder, lambda weights: weights.update({name: torch.ones(1)}))

    assert len(trace(TEXT, model=str(folder)).layers) == 2
    assert not [each for each in recwarn if issubclass(each.category, Note)]


@pytest.mark.parametrize(
    "name",
    [
        *("encoder.layer.0.rotary_emb.cos_cached", "bert.encoder.layer.1.attn.causal_mask"),
        *("mtp.layers.0.eh_proj.weight", "vision_tower.encoder.layers.0.mlp.fc1.weight"),
    ],
)
def test_tables_that_are_computed_and_other_parts_are_not_noted(
    name: str, folder: Path, recwarn: pytest.WarningsRecorder
) -> None:
    change_weights(folder, lambda weights: weights.update({name: torch.ones(2, 2)}))

    assert len(trace(TEXT, model=str(folder)).layers) == 2
    assert [str(each.message) for each in recwarn if issubclass(each.category, Note)] == []


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_weights_of_a_layer_that_the_model_does_not_use_are_noted(
    prefix: str, folder: Path, recwarn: pytest.WarningsRecorder
) -> None:
    name = f"{prefix}encoder.layer.1.attention.self.query.lost"
    change_weights(folder, lambda weights: weights.update({name: torch.ones(2)}))

    trace(TEXT, model=str(folder))

    [note] = [str(each.message) for each in recwarn if issubclass(each.category, Note)]
    assert note == f"the model '{folder}' does not use 1 weight of its files: {name}"


@pytest.mark.parametrize("value", [0, True])
def test_a_number_in_the_place_of_a_vocabulary_s_name_is_left_out(value: object) -> None:
    """Python would open it as a file that is already open."""
    assert checked_folder.without_file_names({"vocab_file": value, "vocab": value}) == {}


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_removes_the_copy(number: int, folder: Path, tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from attnviz.machine.exit_handling import exit_on_signals\n"
        "from attnviz.traces.trained.checked_folder import checked_copy\n"
        "from attnviz.traces.trained.model_location import ModelLocation\n"
        f"signal.signal({int(number)}, signal.SIG_DFL)\n"  # a shell may ignore it in the background
        "exit_on_signals()\n"
        "with checked_copy(ModelLocation('mine', Path('mine'))) as copy:\n"
        "    print(copy.folder, copy.folder.is_dir(), flush=True)\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    signal.pause()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )

    place, was_there = run.stdout.split()
    assert run.returncode == 128 + number, run.stderr
    assert was_there == "True"
    assert not Path(place).exists()
