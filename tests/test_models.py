"""Models: `--model` in run, steps and compare, and what it refuses."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnviz import AttnvizError, compare, load, steps, trace
from attnviz.learning.learner import new_model
from attnviz.learning.lookup import task_of
from attnviz.learning.task_names import TASKS
from attnviz.traces.models import folder
from attnviz.traces.models.card import (
    CHANGEABLE_SETTINGS,
    FIXED_SETTING_REASONS,
    RUN_SETTINGS,
)
from attnviz.traces.models.model import Model
from attnviz.traces.models.model_names import CONFIG_FILE, shipped_names
from attnviz.traces.models.shipped import load_model
from attnviz.traces.settings import Settings
from attnviz.traces.trained.model_location import HUB_NAME
from tests.conftest import Attnviz
from tests.hostile.files import update_json, write_files
from tests.refusals import refusal_lines

AGREEMENT = "the old keys near the small cabinet"
LETTERS = "a b c d e f g h"


def write_model(model: Model, place: Path) -> Path:
    """Write a model into a new folder, as --save does."""
    return write_files(place, folder.model_files(model))


@pytest.fixture
def saved_folder(tmp_path: Path) -> Path:
    return write_model(load_model("reverse"), tmp_path / "mine")


# What is computed.


def test_a_model_is_computed_as_torch_computes_it() -> None:
    """Two pre-norm layers of two causal heads, written once more with torch's own modules."""
    model, model_trace = load_model("agreement"), trace(AGREEMENT, model="agreement")
    numbers = model.parameters
    x = (
        numbers["embeddings"][list(model_trace.tokens.ids)]
        + numbers["positions"][: len(model_trace.tokens)]
    )
    for layer in range(2):
        layer_parameters = {
            name.rpartition(".")[2]: each
            for name, each in numbers.items()
            if name.startswith("layers.1.") == bool(layer)
        }
        x = transformer_block(x, layer_parameters, model.settings.temperature or 1.0)
    assert model.unembedding is not None
    norm = nn.functional.layer_norm(x, x.shape[-1:], numbers["last_gain"], numbers["last_shift"])
    expected = (norm @ numbers["w_answers"]).softmax(-1)

    assert model_trace.prediction is not None
    assert torch.allclose(model_trace.prediction.probabilities, expected, atol=1e-5)


def transformer_block(
    x: torch.Tensor, parameters: dict[str, torch.Tensor], temperature: float
) -> torch.Tensor:
    width = x.shape[-1:]
    normalized = nn.functional.layer_norm(
        x, width, parameters["attention_gain"], parameters["attention_shift"]
    )
    query, key, value = (
        (normalized @ parameters[f"w_{name}"]).view(len(x), 2, -1).transpose(0, 1) for name in KINDS
    )
    contexts = nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=1 / (query.shape[-1] ** 0.5 * temperature)
    )
    x = x + contexts.transpose(0, 1).reshape(len(x), -1) @ parameters["w_out"]
    normalized = nn.functional.layer_norm(
        x, width, parameters["feed_forward_gain"], parameters["feed_forward_shift"]
    )
    return (
        x
        + (normalized @ parameters["w_1"] + parameters["b_1"]).relu() @ parameters["w_2"]
        + parameters["b_2"]
    )


KINDS = ("query", "key", "value")


def test_the_verb_reads_its_subject(attnviz: Attnviz) -> None:
    result = attnviz("run", AGREEMENT, "--model", "agreement")

    assert result.status == 0
    model_trace = trace(AGREEMENT, model="agreement")
    subject = model_trace.tokens.labels.index("keys")
    assert max(float(head[-1, subject]) for head in model_trace.layers[1].attended.weights) > 0.9
    assert 'At "?" the model answers "are"' in result.out
    assert (
        "causal attention of the model agreement" in result.out or "model agreement" in result.out
    )


def test_a_folder_is_the_same_model(saved_folder: Path) -> None:
    folder_trace, shipped_trace = (
        trace(LETTERS, model=str(saved_folder)),
        trace(LETTERS, model="reverse"),
    )

    assert torch.equal(
        folder_trace.layers[0].attended.weights, shipped_trace.layers[0].attended.weights
    )


def test_what_is_written_is_read_again_to_the_byte(saved_folder: Path) -> None:
    contents = folder.model_files(folder.read_learned_model(saved_folder))

    assert contents == {name: (saved_folder / name).read_bytes() for name in contents}


def test_nothing_of_a_model_is_random(attnviz: Attnviz) -> None:
    for name in shipped_names():
        output = attnviz("run", sentence_for(name), "--model", name).out
        assert "random" not in output
        assert "seed" not in output


def sentence_for(name: str) -> str:
    """A text that a model knows: the one that its task watches."""
    return "the dog chased the cat" if name == "toy" else task_of(name).watch


# A trace comes back, and is made again.


def test_a_token_that_can_attend_to_itself_alone_is_not_said_to_give_itself_its_attention() -> None:
    title = trace(AGREEMENT, model="agreement", window=1).view().headline

    assert title == "Each token attends only to itself"


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("name", ["agreement", "toy"])
def test_a_trace_of_a_model_comes_back(tmp_path: Path, name: str, suffix: str) -> None:
    saved_trace = trace(sentence_for(name), model=name)
    file, second_file = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    saved_trace.view().save(file)
    read_trace = load(str(file))
    read_trace.view().save(second_file)

    assert second_file.read_bytes() == file.read_bytes()
    assert read_trace.view().closing == saved_trace.view().closing
    read_differences, saved_differences = (
        compare(each).differences[1] for each in (saved_trace, read_trace)
    )
    assert read_differences is not None
    assert saved_differences is not None
    assert torch.equal(read_differences, saved_differences)


def test_the_command_makes_it_again(attnviz: Attnviz, saved_folder: Path) -> None:
    view = trace(LETTERS, model="reverse", temperature=2.0).view()
    assert view.command is not None
    assert view.command.line == f"attnviz run '{LETTERS}' --temperature 2.0 --model reverse"
    folder_command = trace(LETTERS, model=str(saved_folder)).view().command
    assert folder_command is not None
    assert folder_command.line == f"attnviz run '{LETTERS}' --model ./mine"


# What a model has decided, and what can be asked of it.


REFUSALS_OF_OPTIONS = {
    "--dim=16": "is 16, but the model 'reverse' has 32",
    "--heads=2": "is 2, but the model 'reverse' has 1",
    "--layers=3": "is 3, but the model 'reverse' has 1",
    "--positions=none": "is none, but the model 'reverse' has learned",
    "--tokenizer=gpt2": "is gpt2, but the model 'reverse' has words",
    "--given=x.toml": "names matrices, but the model 'reverse' has its own",
    "--embeddings=x.npy": "names vectors, but the model 'reverse' has its own",
    "--memory=a b": "is a second sentence, but the model 'reverse' reads only one",
}


@pytest.mark.parametrize("option", REFUSALS_OF_OPTIONS)
@pytest.mark.parametrize("command", ["run", "steps"])
def test_what_a_model_has_decided_is_not_asked_for(
    attnviz: Attnviz, command: str, option: str
) -> None:
    name = option.partition("=")[0]

    assert refusal_lines(attnviz(command, LETTERS, "--model", "reverse", option)) == (
        f"{name} {REFUSALS_OF_OPTIONS[option]}",
        f"leave {name} out, or --model",
    )


def test_every_setting_is_decided_by_the_model_or_can_be_asked_of_it() -> None:
    model = load_model("reverse")
    for each in fields(Settings):
        value = getattr(model.settings, each.name)
        if each.name in FIXED_SETTING_REASONS or each.name in CHANGEABLE_SETTINGS:
            continue
        other: Any = 3 if isinstance(value, int | None) else 0.5 if value == 1e4 else "other"
        if each.name in RUN_SETTINGS:
            model.refuse_other_settings({each.name: other})
            continue
        with pytest.raises(AttnvizError, match="reverse"):
            model.refuse_other_settings({each.name: other})


def test_what_a_model_has_can_be_named(attnviz: Attnviz) -> None:
    assert attnviz("run", LETTERS, "--model", "reverse", "--layers", "1", "--dim", "32").status == 0


@pytest.mark.parametrize(
    "choices", [{"temperature": 2.0}, {"scale": False}, {"causal": True}, {"window": 2}], ids=str
)
def test_what_a_model_can_be_asked_changes_its_weights(choices: dict[str, Any]) -> None:
    changed_trace = trace(LETTERS, model="reverse", **choices)
    plain_trace = trace(LETTERS, model="reverse")

    assert not torch.equal(
        changed_trace.layers[0].attended.weights, plain_trace.layers[0].attended.weights
    )


def test_matrices_of_ones_own_are_no_models() -> None:
    from attnviz.traces.matrices import parse_matrices

    with pytest.raises(AttnvizError, match="the model 'reverse' has its own"):
        trace(LETTERS, model="reverse", given=parse_matrices({"tokens": ["a"]}))


# Texts that it cannot read, and those that it never learned to.


def test_words_that_it_does_not_know_are_refused_with_those_that_it_does(attnviz: Attnviz) -> None:
    problem, hint = refusal_lines(attnviz("run", "a b z", "--model", "reverse"))

    assert problem == "the model has never seen 'z'"
    assert "a b c d e f g h i j" in hint


def test_a_text_is_no_longer_than_its_positions(attnviz: Attnviz) -> None:
    result = attnviz("run", f"{LETTERS} a", "--model", "reverse")

    assert result.err == (
        "error: the text has 9 tokens (words), but the model 'reverse' only has positions for 8\n"
        " hint: give a shorter text\n"
    )


def test_there_is_a_text(attnviz: Attnviz) -> None:
    assert "there is no text" in attnviz("run", "--model", "reverse").err


UNSEEN_LENGTH = "a length it never saw in training"


@pytest.mark.parametrize(("text", "is_shorter"), [("a b c", True), (LETTERS, False)])
def test_a_text_shorter_than_any_that_it_saw_is_said_to_be(
    attnviz: Attnviz, text: str, is_shorter: bool
) -> None:
    output = " ".join(attnviz("run", text, "--model", "reverse").out.split())

    assert (UNSEEN_LENGTH in output) == is_shorter
    if is_shorter:
        assert "reverse was trained on sentences of 8 tokens; this one has 3" in output


def test_of_what_is_written_from_left_to_right_a_beginning_is_no_shorter_text() -> None:
    model = load_model("sort")
    view = trace(task_of("sort").watch.split()[0], model="sort").view()

    assert model.vocabulary.predicts == "next"
    assert UNSEEN_LENGTH not in view.screen.caveat


# Models that do not exist.


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("agrement", "there is no model 'agrement'"),
        ("nowhere/at/all", "there is no folder 'nowhere/at/all' with a model"),
        ("none.toml", "there is no file 'none.toml' with a model"),
        ("x" * 5000, "there is no model 'x"),
    ],
)
def test_a_model_that_is_not_there(attnviz: Attnviz, name: str, problem: str) -> None:
    assert refusal_lines(attnviz("run", LETTERS, "--model", name))[0].startswith(problem)


def test_a_misspelt_model_is_asked_about(attnviz: Attnviz) -> None:
    assert "did you mean 'agreement'?" in attnviz("run", "a", "--model", "agrement").err


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("gpt2", "openai-community/gpt2"),
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("BERT", "google-bert/bert-base-uncased"),
    ],
)
def test_a_well_known_model_is_named_with_its_owner(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, full_name: str
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))

    assert attnviz("run", "a", "--model", name).err == (
        f"error: there is no model '{name}'\n"
        f" hint: use its full name on the hub: --model {full_name}\n"
    )
    assert HUB_NAME.fullmatch(full_name)


def test_scores_that_no_head_has_are_not_said(attnviz: Attnviz, saved_folder: Path) -> None:
    update_json(CONFIG_FILE, heads={"L0H0": "reads the opposite letter"})(saved_folder)
    for score, sentences in ((7.0, 128), (0.9, -3)):
        facts = {"scores": {"L0H0": score}, "sentences": sentences}
        update_json(CONFIG_FILE, "facts", **facts)(saved_folder)

        assert "of its attention" not in attnviz("run", LETTERS, "--model", str(saved_folder)).out


@pytest.mark.parametrize("model", ["toy", *TASKS])
def test_without_a_text_one_is_named_that_the_model_reads(attnviz: Attnviz, model: str) -> None:
    problem, hint = attnviz("run", "--model", model).err.splitlines()

    assert problem == "error: there is no text"
    assert hint.startswith(" hint: give a sentence, such as: attnviz run ")
    assert attnviz(*shlex.split(hint.partition("as: attnviz ")[2])).status == 0
    assert model not in TASKS or TASKS[model].watch == task_of(model).watch


def test_the_sentence_of_a_task_is_not_named_for_other_words(
    attnviz: Attnviz, saved_folder: Path
) -> None:
    update_json(CONFIG_FILE, "facts", task="agreement")(saved_folder)

    assert (
        f"such as: attnviz run 'a b c' --model {saved_folder}"
        in attnviz("run", "--model", str(saved_folder)).err
    )


def test_no_name_is_no_model(attnviz: Attnviz) -> None:
    output = attnviz("run", LETTERS, "--model", "").err

    assert output.startswith("error: there is no model ''\n hint: known: toy, reverse, ")
    assert ", pronouns, minilm, smollm2; or a folder with a model in it; or owner/name" in output


# What steps and comparisons say.


def test_steps_say_that_numbers_were_learned() -> None:
    view = steps(trace(AGREEMENT, model="agreement")).view()
    sentences = " ".join(" ".join((each.about, *each.remarks)) for each in view.sections)

    assert "They were learned." in sentences
    assert "Both were learned." in sentences
    assert "A learned vector for the position is added" in sentences
    assert "numbers that were learned" in sentences
    assert "given" not in sentences
    assert "drawn from a seed" not in sentences
    assert "to learn" not in sentences


def test_steps_of_another_layer_can_be_asked_for(attnviz: Attnviz) -> None:
    assert attnviz("steps", AGREEMENT, "--model", "agreement", "--layer", "1").status == 0
    output = attnviz("steps", AGREEMENT, "--model", "agreement", "--layer", "2").err
    assert output.startswith("error: there is no layer 2: layers count from 0, and there are 2\n")


def test_the_last_layer_is_compared_unless_another_is_asked_for() -> None:
    model_trace = trace(AGREEMENT, model="agreement")
    first, last = compare(model_trace, layer=0), compare(model_trace)

    assert torch.equal(last.base.weights, trace(AGREEMENT, model="agreement", scale=False)
                       .layers[1].attended.weights)  # fmt: skip
    assert "weights of L1" in last.view().settings
    assert "the same in all: embeddings" in last.view().settings
    assert "weights of L0" in first.view().settings
    assert "the same in all: queries, keys, values" in first.view().settings


def test_two_texts_are_compared_under_one_model(attnviz: Attnviz) -> None:
    other_text = "the old key near the small cabinets"
    output = attnviz("compare", AGREEMENT, other_text, "--model", "agreement").out

    assert 'first text: at "?" the model answers "are"' in output
    assert 'second text: at "?" the model answers "is"' in output


def test_what_is_answered_alike_is_said_once(attnviz: Attnviz) -> None:
    output = " ".join(attnviz("compare", "maplemaple", "--model", "induction").out.split())

    assert 'unscaled and scaled: after "e" (10) the model expects "m" (' in output
    assert output.count("the model expects") == 1


def test_a_probability_of_1_is_not_said_to_be_more(attnviz: Attnviz) -> None:
    """In bfloat16 what is nearly certain is certain."""
    output = attnviz("compare", LETTERS, "--model", "reverse", "--by", "dtype").out

    assert (
        "float64, float32, bfloat16 and float16: at the 8 positions the model answers "
        "h g f e d c b a (each 99 % or more)"
    ) in " ".join(output.split())
    assert "100\xa0%" not in output


def test_there_are_no_curves_of_a_model(attnviz: Attnviz) -> None:
    result = attnviz("compare", LETTERS, "--model", "reverse", "--by", "temperature", "--curves")

    assert result.err == (
        "error: curves are drawn over many seeds, but the numbers of a model do not depend on a "
        "seed\n"
        " hint: leave --curves or --model out\n"
    )


@pytest.mark.parametrize("by", ["dim", "heads", "variant", "positions", "seed", "tokenizer"])
def test_what_would_need_another_model_is_not_compared(attnviz: Attnviz, by: str) -> None:
    problem, hint = refusal_lines(attnviz("compare", LETTERS, "--model", "reverse", "--by", by))

    assert problem == f"--by {by} would change the model 'reverse' itself, which is already built"
    assert hint.endswith(
        "compare it by scale, mask, temperature, dtype, device, without, or with a second sentence"
    )


def test_a_window_of_a_model_is_none_where_there_is_to_be_none(tmp_path: Path) -> None:
    model = load_model("reverse")
    windowed_model = replace(model, settings=replace(model.settings, window=2))
    folder_name = str(write_model(windowed_model, tmp_path / "narrow"))
    comparison = compare(LETTERS, model=folder_name, by="mask", values=("none", "causal"))

    assert bool(comparison.alternatives[0].visible.all())


def test_a_layer_belongs_to_a_model(attnviz: Attnviz) -> None:
    assert attnviz("compare", "I am", "--layer", "1").err == (
        "error: --layer is 1, but only a single attention layer is compared\n"
        " hint: leave --layer out, or compare the attention of a --model\n"
    )


# Others that learned something else.


SETTINGS_BY_SHAPE: dict[str, dict[str, Any]] = {
    "post-norm": {"norm": "post"},
    "no norm": {"norm": "none"},
    "feed-forward": {"attention_only": False, "feed_forward": 5, "activation": "gelu"},
    "shared keys": {"heads": 4, "kv_heads": 2},
    "additive": {"scoring": "additive"},
    "rotary": {"positions": "rotary", "position_base": 500.0},
    "sinusoidal": {"positions": "sinusoidal", "layers": 3},
    "a narrow head": {"heads": 2, "head_dim": 6},
}


@pytest.mark.parametrize("shape", SETTINGS_BY_SHAPE)
def test_models_of_other_shapes_are_written_and_read(tmp_path: Path, shape: str) -> None:
    task = task_of("reverse")
    model = new_model(task, replace(task.settings, **SETTINGS_BY_SHAPE[shape]))
    place = write_model(model, tmp_path / "mine")
    model_trace = trace(LETTERS, model=str(place))

    assert folder.read_learned_model(place).parameters.keys() == model.parameters.keys()
    assert "random" not in model_trace.view().screen.caveat
    assert "seed" not in model_trace.view().settings
