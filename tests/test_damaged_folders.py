"""Folders that are damaged or odd, by the command that reads them: two lines, and no code is run.

Of saved models, of trainings to continue, of transformers and of their tables of vectors.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import shlex
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnviz.traces.models.folder import model_files
from attnviz.traces.models.shipped import load_model
from tests.conftest import Attnviz
from tests.hostile import files
from tests.hostile.damaged_calls import saved_training
from tests.hostile.files import FolderChange, change_json, change_tensors, replace_file
from tests.hostile.models import transformer_files
from tests.refusals import refusal_lines
from tests.test_static_vectors import write_byte_model

Damage = tuple[Any, ...]  # a change, how the problem begins, and mostly how the hint begins
CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
change_config = partial(files.update_json, CONFIG)
change_settings = partial(files.update_json, CONFIG, "settings")
change_facts = partial(files.update_json, CONFIG, "facts")
change_vocabulary = partial(files.update_json, VOCABULARY)
change_weights = partial(change_tensors, WEIGHTS)


def link_weights_to_themselves(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(WEIGHTS)


def make_config_a_folder(folder: Path) -> None:
    (folder / CONFIG).unlink()
    (folder / CONFIG).mkdir()


LACKING_FILE = "there is no model in 'mine': it has no file"
NO_SAFETENSORS = f"'mine/{WEIGHTS}' is not a safetensors file"
ODD_CONFIG, ODD_VOCABULARY = (
    f"'mine/{name}' is not as attnviz wrote it" for name in (CONFIG, VOCABULARY)
)
WRONG_FACTS = (
    f"{ODD_CONFIG}: something in it is missing or of another kind",
    "save it again: attnviz learn TASK --save FOLDER",
)
SAVED_MODEL: dict[str, Damage] = {
    "cut off": (files.cut_end_off(WEIGHTS), NO_SAFETENSORS),
    "empty": (replace_file(WEIGHTS, b""), NO_SAFETENSORS),
    "a pickle": (replace_file(WEIGHTS, b"\x80\x04]\x94."), NO_SAFETENSORS),
    "a huge header": (replace_file(WEIGHTS, struct.pack("<Q", 2**62)), NO_SAFETENSORS),
    "no numbers": (files.delete_files(WEIGHTS), f"{LACKING_FILE} model.safetensors"),
    "no words": (files.delete_files(VOCABULARY), f"{LACKING_FILE} vocabulary.json"),
    "no config": (files.delete_files(CONFIG), f"{LACKING_FILE} config.json"),
    "a link to itself": (link_weights_to_themselves, f"{LACKING_FILE} model.safetensors"),
    "a folder for a config": (make_config_a_folder, f"{LACKING_FILE} config.json"),
    "no JSON": (replace_file(CONFIG, b"{"), "line 1 of 'mine/config.json' is not valid JSON"),
    "a list": (replace_file(CONFIG, b"[]"), "'mine/config.json' contains no names"),
    "no UTF-8": (replace_file(VOCABULARY, b"\xff"), "'mine/vocabulary.json' is not UTF-8"),
    "nested": (replace_file(CONFIG, b"[" * 100_000), "'mine/config.json' is nested too deep"),
    "of somebody else": (
        replace_file(CONFIG, b'{"model_type": "bert"}'),
        "the config.json in 'mine' describes a larger model than the weights there: 109,482,240 ",
    ),
    "another format": (
        change_config(format=2),
        "'mine/config.json' is not the config of an attnviz model",
    ),
    "a number for a name": (change_config(name=3), ODD_CONFIG),
    "no settings": (change_config(settings=[]), ODD_CONFIG),
    "an unknown setting": (change_settings(depth=3), ODD_CONFIG),
    "an odd setting": (
        change_settings(norm="between"),
        "'mine/config.json': there is no place for the norm 'between'",
    ),
    "a width of text": (change_settings(dim="32"), ODD_CONFIG),
    "heads that do not fit": (
        change_settings(heads=3),
        "'mine/config.json': a width of 32 does not split into 3 equal heads",
    ),
    "a head switched off": (change_settings(without="L0H0"), ODD_CONFIG),
    "a text in the settings": (change_settings(memory="a b"), ODD_CONFIG),
    "positions without end": (change_config(longest=None), ODD_CONFIG),
    "more positions": (change_config(longest=9), f"'positions' in 'mine/{WEIGHTS}' is [8 × 32]"),
    "heads of numbers": (change_config(heads={"L0H0": 3}), ODD_CONFIG),
    "tokens that are a list": (change_facts(tokens=[8, [1]]), *WRONG_FACTS),
    "scores of text": (change_facts(scores={"L0H0": "x"}), *WRONG_FACTS),
    "half a sentence": (change_facts(sentences=1.5), *WRONG_FACTS),
    "a task that is a list": (change_facts(task=[]), *WRONG_FACTS),
    "words that are no list": (change_vocabulary(words="abc"), ODD_VOCABULARY),
    "words that are numbers": (change_vocabulary(words=[1, 2]), ODD_VOCABULARY),
    "a word twice": (change_vocabulary(words=["a", "a"]), ODD_VOCABULARY),
    "more words than rows": (
        change_vocabulary(words=[*"abcdefghijk"]),
        f"'embeddings' in 'mine/{WEIGHTS}' is [10 × 32]",
    ),
    "an answer more": (
        change_vocabulary(answers=[*"abcdefghijk"]),
        f"'w_answers' in 'mine/{WEIGHTS}' is [32 × 10]",
    ),
    "spelled as nothing": (change_vocabulary(spelled={"x": "y"}), ODD_VOCABULARY),
    "asked with nothing": (change_vocabulary(asks="y"), ODD_VOCABULARY),
    "an unknown tokenizer": (change_vocabulary(tokenizer="wrods"), "there is no tokenizer 'wrods'"),
    "a wider model": (
        change_settings(dim=64),
        f"'attention_gain' in 'mine/{WEIGHTS}' is [32], but config.json and vocabulary.json "
        "require [64",
    ),
    "a deeper model": (change_settings(layers=2), f"'mine/{WEIGHTS}' has no 'layers.1.w_query'"),
    "a matrix less": (
        change_weights(lambda tensors: tensors.pop("w_key")),
        f"'mine/{WEIGHTS}' has no 'w_key'",
    ),
    "a matrix more": (
        change_weights(lambda tensors: tensors.update(w_1=torch.ones(2, 2))),
        f"'mine/{WEIGHTS}' has a 'w_1', which the settings in config.json do not use",
    ),
    "not a number": (
        change_weights(lambda tensors: tensors["w_key"].fill_(math.nan)),
        f"'w_key' in 'mine/{WEIGHTS}' has a number that is not finite",
    ),
    "yes and no": (
        change_weights(lambda tensors: tensors.update(w_key=tensors["w_key"] > 0)),
        f"'w_key' in 'mine/{WEIGHTS}' has a number that is not finite",
    ),
}


change_training = partial(files.update_json, "training.json")
change_moment = partial(change_training, "moments")
change_training_tensors = partial(change_tensors, "training.safetensors")


def change_moment_of_query(change: Callable[[torch.Tensor], torch.Tensor]) -> FolderChange:
    """A change of what the optimizer keeps about the matrix of queries."""
    name = "optimizer exp_avg w_query"
    return change_training_tensors(lambda tensors: tensors.update({name: change(tensors[name])}))


def rename_readings(document: dict[str, Any]) -> None:
    for moment in document["moments"]:
        moment["scores"] = {"other": moment["scores"]["opposite"]}


CHANGES_OF_A_TRAINING: dict[str, FolderChange] = {
    "scores of one head": change_moment(0, scores={"opposite": [[0.1], [0.2]]}),
    "scores without a layer": change_moment(0, scores={"opposite": [[0.1, 0.2]]}),
    "scores one deeper": change_moment(0, scores={"opposite": [[[0.1, 0.2], [0.1, 0.2]]]}),
    "scores by no name": change_moment(1, scores={}),
    "a score of 1e300": change_moment(0, scores={"opposite": [[1e300, 0.2], [0.1, 0.2]]}),
    "an infinite loss": change_moment(0, loss=math.inf, accuracy=math.inf),
    "an infinite accuracy": change_moment(1, accuracy=math.inf),
    "a list of steps": change_moment(0, step=[1]),
    "the same step again": change_moment(1, step=0),
    "a list of accuracies": change_moment(1, accuracy=[1]),
    "seconds in words": change_moment(1, seconds="x"),
    "a moment less": change_json("training.json", lambda document: document["moments"].pop()),
    "no moment": change_training(moments=[]),
    "a batch of 1e300": change_training("choices", batch=1e300),
    "400 digits": change_training("choices", until=10**400),
    "another sentence": change_training(watch="a b"),
    "two kinds of task": change_training("asked", file="x", tokenizer="words"),
    "another dtype": change_moment_of_query(torch.Tensor.half),
    "another shape": change_moment_of_query(lambda tensor: tensor[:3].clone()),
    "no finite number": change_moment_of_query(lambda tensor: tensor.fill_(math.inf)),
    "one of its tensors is gone": change_training_tensors(
        lambda tensors: tensors.pop("optimizer exp_avg w_query")
    ),
    "another step": change_training_tensors(
        lambda tensors: tensors["optimizer step w_query"].fill_(9)
    ),
    "weights above 1": change_training_tensors(lambda tensors: tensors["weights.0"].fill_(3)),
    "weights of fewer heads": change_training_tensors(
        lambda tensors: tensors.update({"weights.1": tensors["weights.1"][:, :1].clone()})
    ),
    "weights of fewer moments": change_training_tensors(
        lambda tensors: tensors.update({"weights.1": tensors["weights.1"][:1].clone()})
    ),
}
DAMAGED_TRAINING = (
    "the training in 'mine' is damaged",
    "learn again, or use the model as it is: attnviz run TEXT --model mine",
)
TRAINING: dict[str, Damage] = {
    name: (change, *DAMAGED_TRAINING) for name, change in CHANGES_OF_A_TRAINING.items()
} | {
    "readings that the task does not have": (
        change_json("training.json", rename_readings),
        "the readings of reverse are not those that the model in 'mine' learned",
        "start a new training: attnviz learn reverse",
    )
}


class RunningCode:
    """An object that makes the folder `run` when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("run",)


def pickle_code(folder: Path, dump: Callable[[Any, Any], object] = pickle.dump) -> None:
    """Replace the weights by a pickle that runs code when it is read."""
    (folder / WEIGHTS).unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        dump({"weight": RunningCode()}, file)


def write_index(folder: Path, weight_map: dict[str, str]) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def lose_second_part(folder: Path) -> None:
    """Leave one of two files of weights, and an index that names both."""
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    write_index(folder, {name: f"model-0000{name}-of-00002.safetensors" for name in "12"})


def move_weights_outside(folder: Path) -> None:
    """Move the weights out of the folder, to where its index points."""
    (folder / WEIGHTS).rename(WEIGHTS)
    write_index(folder, dict.fromkeys(load_file(WEIGHTS), f"../{WEIGHTS}"))


MODEL_CODE = """
import os
os.mkdir("run")
print("hello from far away")
from transformers import BertConfig, BertModel
class MineConfig(BertConfig):
    model_type = "mine"
class Mine(BertModel):
    config_class = MineConfig
"""


def add_own_code(folder: Path) -> None:
    auto = {"AutoConfig": "mine.MineConfig", "AutoModel": "mine.Mine"}
    change_config(model_type="mine", architectures=["Mine"], auto_map=auto)(folder)
    (folder / "mine.py").write_text(MODEL_CODE)


def replace_weights_by_gguf(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "model-Q4.gguf")


NO_WEIGHTS = f"the folder 'mine' has no weights: no {WEIGHTS}, no pytorch_model.bin"
SIZE_OF_HEADER = f"'mine/{WEIGHTS}' is damaged or incomplete: its header gives another size than"
MORE_THAN_NUMBERS = "the torch file in 'mine' is refused: it holds more than numbers"
NO_DESCRIPTION = "'mine/config.json' is not JSON that describes a model"
LAYER = "bert.encoder.layer.1"
GPTQ = {"quant_method": "gptq", "bits": 4}
GIT_POINTER = b"version https://git-lfs.github.com/spec/v1\nsize 12345\n"
TRANSFORMER: dict[str, Damage] = {
    "no config": (
        files.delete_files(CONFIG),
        "the folder 'mine' has no config.json, which says what kind of model",
    ),
    "no weights": (files.delete_files(WEIGHTS), NO_WEIGHTS),
    "weights of llama.cpp": (replace_weights_by_gguf, f"{NO_WEIGHTS}, but those of llama.cpp"),
    "no tokenizer": (
        files.delete_files("tokenizer.json", "tokenizer_config.json"),
        "the folder 'mine' has no tokenizer: no tokenizer.json, no vocabulary",
    ),
    "half a tokenizer": (
        files.delete_files("tokenizer.json"),
        "the tokenizer in 'mine' could not be loaded: \"ValueError: Couldn't",
    ),
    "cut off": (files.cut_end_off(WEIGHTS), SIZE_OF_HEADER),
    "other bytes": (replace_file(WEIGHTS, b"\xff" * 2000), SIZE_OF_HEADER),
    "a pickle": (pickle_code, MORE_THAN_NUMBERS),
    "a pickle of torch": (partial(pickle_code, dump=torch.save), MORE_THAN_NUMBERS),
    "a part less": (
        lose_second_part,
        "the folder 'mine' lacks model-00002-of-00002.safetensors: its weights are in 2 files",
    ),
    "weights outside": (
        move_weights_outside,
        f"the {INDEX} in 'mine' names 'model.safetensors' in another folder",
    ),
    "a pointer": (
        replace_file(WEIGHTS, GIT_POINTER),
        f"'mine/{WEIGHTS}' holds no weights: it is a Git LFS pointer",
    ),
    "not a number": (
        change_weights(lambda tensors: tensors[f"{LAYER}.output.dense.bias"][:1].fill_(math.nan)),
        "the model 'mine' (bert) has weights that are infinite or not a number (NaN), in "
        f"{LAYER}.output.dense.bias",
    ),
    "a matrix less": (
        change_weights(lambda tensors: tensors.pop(f"{LAYER}.attention.self.query.weight")),
        "the checkpoint of 'mine' lacks 1 of the model's weights: "
        f"{LAYER}.attention.self.query.weight",
    ),
    "code of its own": (
        add_own_code,
        "the model 'mine' comes with Python code of its own, which is not run by default",
    ),
    "an unknown kind": (
        change_config(model_type="wonder"),
        "the model 'mine' is of a kind that transformers does not know ('wonder')",
    ),
    "no kind": (
        change_config(model_type=""),
        "the config.json in 'mine' does not say which kind of model it is",
    ),
    "fewer than no layers": (
        change_config(num_hidden_layers=-1),
        "the config.json in 'mine' says that num_hidden_layers is -1",
    ),
    "a billion layers": (
        change_config(num_hidden_layers=10**9),
        "the config.json in 'mine' says that num_hidden_layers is 1000",
    ),
    "a layer more": (
        change_config(num_hidden_layers=3),
        "the checkpoint of 'mine' lacks 16 of the model's weights: bert.",
    ),
    "heads that do not fit": (
        change_config(num_attention_heads=3),
        "the model 'mine' could not be loaded: \"ValueError: The hidden",
    ),
    "no heads": (
        change_config(num_attention_heads=0),
        "the model 'mine' could not be loaded: \"ZeroDivisionError",
    ),
    "another width": (
        change_config(hidden_size=10**9),
        "the config.json in 'mine' describes a larger model than the weights there: ",
    ),
    "a width of text": (
        change_config(hidden_size="big"),
        "the model 'mine' could not be loaded: \"StrictDataclassFieldValid",
    ),
    "packed weights": (change_config(quantization_config=GPTQ), "the model 'mine' needs optim"),
    "a list": (replace_file(CONFIG, b"[]"), NO_DESCRIPTION),
    "no JSON": (replace_file(CONFIG, b"{"), NO_DESCRIPTION),
}
TABLE_OF_VECTORS: dict[str, Damage] = {
    "no tokenizer": (files.delete_files("tokenizer.json"), "there is no tokenizer.json in 'mine'"),
    "half a tokenizer": (
        replace_file("tokenizer.json", b"{"),
        "'mine/tokenizer.json' is damaged, or of another version",
    ),
    "no index": (files.delete_files(INDEX), "there are no weights in safetensors in 'mine'"),
    "an odd index": (
        replace_file(INDEX, b'{"weight_map": 3}'),
        f"'mine/{INDEX}' does not say which file holds",
    ),
    "no table": (
        replace_file(INDEX, b'{"weight_map": {}}'),
        "the safetensors of 'mine' contain no table of embeddings",
    ),
    "cut off": (
        replace_file("one.safetensors", b"cut sho"),
        "'mine/one.safetensors' cannot be read as safetensors",
    ),
    "a part less": (
        files.delete_files("one.safetensors"),
        "'mine/one.safetensors' cannot be read as safetensors",
    ),
}


def write_saved_model(folder: Path) -> None:
    files.write_files(folder, model_files(load_model("reverse")))


def write_training(folder: Path) -> None:
    arguments = ("reverse", "--dim=8", "--heads=2", "--layers=2", "--batch=4")
    files.write_files(folder, saved_training(arguments))


def write_transformer(folder: Path) -> None:
    files.write_files(folder, transformer_files("bert"))


# Of each kind of folder: how a good one is written, the command that reads it, and its damage.
KINDS: dict[str, tuple[Callable[[Path], object], str, dict[str, Damage]]] = {
    "saved model": (write_saved_model, "run 'a b c d e f g h' --model", SAVED_MODEL),
    "training": (write_training, "learn --steps 5 --from", TRAINING),
    "transformer": (write_transformer, "inspect 'the animal was tired' --model", TRANSFORMER),
    "table of vectors": (
        write_byte_model,
        "run cat --variant plain --tokenizer words --embeddings",
        TABLE_OF_VECTORS,
    ),
}


@pytest.mark.slow_table("calls", keep=52)
@pytest.mark.parametrize(
    ("kind", "damage"), [(kind, damage) for kind, row in KINDS.items() for damage in row[-1]]
)
def test_a_damaged_folder_is_refused_in_two_lines(
    kind: str, damage: str, attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder, command, damages = KINDS[kind]
    change_folder, expected_problem, *expected_hint = damages[damage]
    write_folder(Path("mine"))
    change_folder(Path("mine"))

    problem, hint = refusal_lines(attnviz(*shlex.split(command), "mine"))

    assert problem.startswith(expected_problem)
    assert hint.startswith("".join(expected_hint))
    assert not Path("run").exists()
