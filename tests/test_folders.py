"""Folders of attnviz learn --save: nothing in them is trusted, and no two saves are mixed."""

from __future__ import annotations

import builtins
import io
import json
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnviz import trace
from attnviz.cli.learn import LearnCommandOptions, continue_training
from attnviz.errors import AttnvizError
from attnviz.learning import progress
from attnviz.learning.choices import Choices, refuse_save_folder
from attnviz.learning.lookup import PYTHON_TASK_HINT, task_of
from attnviz.learning.progress import Progress, write_progress
from attnviz.learning.training import Training
from attnviz.machine.atomic_files import AllOrNothing
from attnviz.traces.models import folder
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.trace import Trace
from tests.conftest import Attnviz, unchecked
from tests.hostile import damage
from tests.hostile.files import (
    change_json,
    change_tensors,
    places,
    replace_value,
    update_json,
    value_at,
)
from tests.refusals import refusal_lines
from tests.tiers import examples

LETTERS = "a b c d e f g h"
MODEL_FILES = ("config.json", "vocabulary.json", "model.safetensors")
TRAINING_FILES = ("training.safetensors", "training.json")
JSON_FILES = ("config.json", "vocabulary.json", "training.json")
GRAMMAR = """
asks = "verb"
answers = "noun"
watch = "the key is"
[words]
noun = ["key", "door", "cat", "dog", "fox", "cow"]
verb = ["is", "was"]
[[sentences]]
patterns = ["the {noun} {verb}"]
"""
LINES_OF_TEXT = "the cat sat\nthe dog sat\nthe cat ran\nthe dog ran\n"


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(steps: int, seed: int = 42) -> Progress:
    """The progress after training to reverse letters with two layers of two heads."""
    task = task_of("reverse")
    settings_of_run = replace(task.settings, variant="multi-head", heads=2, layers=2, seed=seed)
    training = Training(task, settings_of_run, Choices(steps=steps, until=math.inf, batch=4))
    with unchecked():
        for _ in training:
            pass
    return training.progress()


@pytest.fixture(scope="module")
def first_progress() -> Progress:
    return train(2)


@pytest.fixture(scope="module")
def second_progress() -> Progress:
    return train(3, seed=7)


@pytest.fixture
def model_folder(first_progress: Progress, work_folder: Path) -> Path:
    progress.write_progress(work_folder / "m", first_progress)
    return work_folder / "m"


def use_folder(model_folder: Path) -> Trace:
    """Continue a training for one step, as attnviz learn --from, and use it, as --model."""
    with unchecked():
        training = continue_training(LearnCommandOptions(from_=model_folder), Choices(), {})
        next(iter(training), None)
        training.progress()
        view = training.learned().view()
        for suffix in (".txt", ".csv"):
            view.render(suffix)
        result = trace(LETTERS, model=str(model_folder))
        result.view().render(".txt")
        return result


# A folder may not run code, open a file outside it, or use the network.


def test_a_training_on_a_python_file_is_not_continued(attnviz: Attnviz, model_folder: Path) -> None:
    (model_folder / "evil.py").write_text("open('PWNED', 'w')\n", encoding="utf-8")
    update_json("training.json", asked={"task": "m/evil.py"})(model_folder)

    assert refusal_lines(attnviz("learn", "--from", "m", "--steps", "5")) == (
        "'m' learns 'm/evil.py', a task written in Python, which no folder holds",
        f"in Python, {PYTHON_TASK_HINT}",
    )
    assert attnviz("learn", "mine.py", "--from", "m", "--steps", "5").err == (
        "error: 'm' learns 'm/evil.py', but mine.py is given\n hint: leave mine.py out, or --from\n"
    )
    assert refusal_lines(attnviz("learn", "m/evil.py", "--from", "m", "--steps", "5"))[0] == (
        "'m/evil.py' is a Python file, and Python files are not run"
    )
    assert not Path("PWNED").exists()


def test_a_saved_training_on_a_task_of_the_library_is_used_but_not_continued(
    attnviz: Attnviz, work_folder: Path
) -> None:
    training = Training(replace(task_of("reverse"), name="mine"), choices=Choices(steps=2, batch=4))
    list(training)
    write_progress(work_folder / "m", training.progress())

    assert attnviz("run", LETTERS, "--model", "m").status == 0
    problem, hint = refusal_lines(attnviz("learn", "--from", "m", "--steps", "3"))
    assert problem == "'m' learns 'mine', a task written in Python, which no folder holds"
    assert hint.startswith("in Python, attnviz.learn(Task(…)) trains on a task of your own")


TASKS_FROM_FILES = {
    "grammar": ("mine.toml", GRAMMAR, ("mine.toml",)),
    "lines": ("lines.txt", LINES_OF_TEXT, ("--file", "lines.txt")),
}


@pytest.mark.parametrize("kind", TASKS_FROM_FILES)
def test_a_grammar_and_lines_stand_in_the_folder(
    attnviz: Attnviz, work_folder: Path, kind: str
) -> None:
    name, text, words = TASKS_FROM_FILES[kind]
    (work_folder / name).write_text(text, encoding="utf-8")
    with unchecked():
        attnviz("learn", *words, "--steps", "3", "--save", "whole", "-q")
        attnviz("learn", *words, "--steps", "2", "--save", "part", "-q")
        (work_folder / name).unlink()
        continued = attnviz("learn", "--from", "part", "--steps", "3", "--save", "part", "-q")

    assert continued.status == 0, continued.err
    for file_name in (*MODEL_FILES[:2], "training.json"):
        continued_document, document_of_one_run = (
            json.loads((work_folder / m / file_name).read_text()) for m in ("part", "whole")
        )
        for document in (continued_document, document_of_one_run):
            document.pop("save")
            [moment.pop("seconds") for moment in document.get("moments", ())]
        assert continued_document == document_of_one_run
    continued_parameters, parameters_of_one_run = (
        folder.read_learned_model(work_folder / file_name).parameters
        for file_name in ("part", "whole")
    )
    assert all(
        torch.equal(continued_parameters[file_name], parameters_of_one_run[file_name])
        for file_name in parameters_of_one_run
    )


@pytest.mark.slow("training")
@pytest.mark.parametrize("kind", TASKS_FROM_FILES)
def test_a_file_that_is_typed_again_has_the_words_that_the_model_learned(
    attnviz: Attnviz, work_folder: Path, kind: str
) -> None:
    name, text, words = TASKS_FROM_FILES[kind]
    (work_folder / name).write_text(text, encoding="utf-8")
    attnviz("learn", *words, "--steps", "2", "--save", "m", "-q")

    assert attnviz("learn", *words, "--from", "m", "--steps", "3", "-q").status == 0
    changed_text = text.replace("cat", "rat")
    (work_folder / name).write_text(changed_text, encoding="utf-8")
    assert attnviz("learn", *words, "--from", "m", "--steps", "3").err.startswith(
        f"error: the words of {name} are not those that the model in 'm' learned\n"
        " hint: start a new training: "
    )
    change_json("training.json", lambda document: document.pop("source"))(work_folder / "m")
    assert attnviz("learn", "--from", "m", "--steps", "3").err.startswith(
        "error: the training in 'm' is damaged\n"
    )


def test_what_stands_in_the_folder_is_bounded_and_checked(
    attnviz: Attnviz, model_folder: Path
) -> None:
    choices = {"file": "lines.txt", "tokenizer": "words"}
    for source, problem in {
        "a b\n" * 3_000_000: "what is learned from has more than 10 MB, the most that a text may",
        "one": "the task that 'm' holds is damaged: 'lines.txt': there is only one line",
    }.items():
        update_json("training.json", asked=choices, source=source)(model_folder)
        assert attnviz("learn", "--from", "m").err.startswith(f"error: {problem}")


@pytest.fixture
def names_opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every file that Python opens, and every name that it asks a network about."""
    names: list[str] = []

    def recording(call: Callable[..., Any]) -> Callable[..., Any]:
        def record_and_call(argument: Any, *more_arguments: Any, **keywords: Any) -> Any:
            names.append(str(argument))
            return call(argument, *more_arguments, **keywords)

        return record_and_call

    for module, name in ((io, "open"), (builtins, "open"), (socket, "getaddrinfo")):
        monkeypatch.setattr(module, name, recording(getattr(module, name)))
    return names


@pytest.mark.slow("calls")
def test_no_text_of_a_folder_opens_a_file_runs_it_or_asks_anybody(
    model_folder: Path, work_folder: Path, names_opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = work_folder / "decoy"
    decoy.mkdir()
    (decoy / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    for name in ("evil.py", "evil.toml"):
        (decoy / name).write_text("open('PWNED', 'w')\n", encoding="utf-8")
    monkeypatch.setattr("tiktoken.load.read_file", lambda path: pytest.fail(path))
    names = ("cl100k_base", "attacker/model", str(decoy), *map(str, decoy.glob("evil*")))
    use_folder(model_folder)
    # The files of the folder, and those in which a machine says how much memory it has.
    harmless_names = {*names_opened}

    for file in JSON_FILES:
        content = (model_folder / file).read_text(encoding="utf-8")
        document = json.loads(content)
        texts = [
            value_path
            for value_path in places(document)
            if isinstance(value_at(document, value_path), str)
        ]
        for value_path, name in product(texts, names):
            (model_folder / file).write_text(
                json.dumps(replace_value(document, value_path, name)), encoding="utf-8"
            )
            names_opened.clear()
            with suppress(AttnvizError):
                use_folder(model_folder)
            assert {*names_opened} <= harmless_names, (file, value_path, name)
        (model_folder / file).write_text(content, encoding="utf-8")
    assert not Path("PWNED").exists()


def test_a_tokenizer_that_a_model_names_is_not_downloaded(
    attnviz: Attnviz, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "none")
    update_json("vocabulary.json", tokenizer="o200k_base")(model_folder)

    assert attnviz("run", LETTERS, "--model", "m").err == (
        "error: the model's tokenizer is 'o200k_base', and tiktoken has no copy of it on this "
        "machine\n"
        " hint: download it: attnviz run TEXT --tokenizer o200k_base\n"
    )
    with pytest.raises(AttnvizError, match="the model's tokenizer is 'o200k_base', and tiktoken"):
        Vocabulary(tokenizer="o200k_base", words=("a",)).cut("a")


# A folder may hold what attnviz wrote; anything else is refused in two lines.

DEEP_LIST: Any = 1
for _ in range(50):
    DEEP_LIST = [DEEP_LIST]
ODD_VALUES = (*damage.ODD_VALUES, "\ud800", 1e300, {"a": [1]}, [[0.1]], [[[0.1]]], DEEP_LIST)


@pytest.mark.slow("calls")
@given(
    file=st.sampled_from(JSON_FILES), index=st.integers(0), odd_value=st.sampled_from(ODD_VALUES)
)
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_changed_in_a_folder_is_a_result_or_two_lines(
    model_folder: Path, first_progress: Progress, file: str, index: int, odd_value: Any
) -> None:
    for name, content in progress.files_with_digest(first_progress).items():
        (model_folder / name).write_bytes(content)
    document = json.loads((model_folder / file).read_text(encoding="utf-8"))
    paths = [*places(document)]
    changes = replace_value(document, paths[index % len(paths)], odd_value)
    (model_folder / file).write_text(json.dumps(changes), encoding="utf-8")

    lines: tuple[str, ...] = ()
    try:
        weights = use_folder(model_folder).weights
    except AttnvizError as error:
        lines = (str(error), error.hint)
    if lines:
        assert all(line and "\n" not in line for line in lines)
    else:
        assert torch.isfinite(weights).all()


def test_answers_that_overflow_are_refused(attnviz: Attnviz, model_folder: Path) -> None:
    change_tensors("model.safetensors", lambda tensors: tensors["w_answers"].fill_(3e38))(
        model_folder
    )

    assert refusal_lines(attnviz("run", LETTERS, "--model", "m", "--predict")) == (
        "the scores of the answers are too large for float32, whose largest number is 3.4e+38",
        "try smaller numbers, or --dtype float64",
    )


# All files of a folder are of one save, even if another was interrupted.


def test_the_same_save_is_the_same_bytes_and_another_is_marked_otherwise(
    first_progress: Progress, second_progress: Progress, model_folder: Path
) -> None:
    def mark(place: Path) -> str:
        return str(json.loads((place / "config.json").read_text(encoding="utf-8"))["save"])

    content_before = {each.name: each.read_bytes() for each in model_folder.iterdir()}
    progress.write_progress(model_folder, progress.read_progress(model_folder))
    assert {each.name: each.read_bytes() for each in model_folder.iterdir()} == content_before
    mark_of_first_save = mark(model_folder)
    progress.write_progress(model_folder, second_progress)
    assert mark(model_folder) != mark_of_first_save


@pytest.mark.slow("training")
@pytest.mark.parametrize("has_marks", [True, False], ids=["marked", "as they once were written"])
def test_files_of_two_saves_are_never_taken_for_one(
    first_progress: Progress, second_progress: Progress, work_folder: Path, has_marks: bool
) -> None:
    def contents(saved_progress: Progress) -> dict[str, bytes]:
        return (
            progress.files_with_digest(saved_progress)
            if saved_progress is second_progress or has_marks
            else files_without_mark(saved_progress)
        )

    saves = contents(first_progress), contents(second_progress)
    for save_numbers in product((0, 1), repeat=len(saves[0])):
        save_by_file = dict(zip(saves[0], save_numbers, strict=True))
        for name, number in save_by_file.items():
            (work_folder / name).write_bytes(saves[number][name])
        if len({save_by_file[name] for name in MODEL_FILES}) == 1:
            # This is one model, whatever training is beside it.
            folder.read_learned_model(work_folder)
        else:
            with pytest.raises(AttnvizError, match=r"the last save into .* was interrupted"):
                folder.read_learned_model(work_folder)
        if len({*save_numbers}) == 1:
            progress.read_progress(work_folder)
        else:
            with pytest.raises(AttnvizError, match=r"the last save into .* was interrupted"):
                progress.read_progress(work_folder)


def files_without_mark(saved_progress: Progress) -> dict[str, bytes]:
    return folder.model_files(saved_progress.model) | progress.training_files(saved_progress)


def test_a_save_that_was_broken_off_is_said_in_two_lines(
    attnviz: Attnviz, model_folder: Path, second_progress: Progress
) -> None:
    files = progress.files_with_digest(second_progress)
    for number, (name, content) in enumerate(files.items(), start=1):
        (model_folder / name).write_bytes(content)
        is_whole_model = number >= len(MODEL_FILES)
        run_result, learn_result = (
            attnviz(*words)
            for words in (("run", LETTERS, "--model", "m"), ("learn", "--from", "m"))
        )
        problem = (
            "error: the last save into 'm' was interrupted, or a file there was changed: its "
            "files do not belong together\n"
            " hint: "
        )
        save_again = "save it again: attnviz learn TASK --save FOLDER\n"
        assert (run_result.status, run_result.err) == (
            (0, run_result.err) if is_whole_model else (2, problem + save_again)
        )
        if number < len(files):
            use_as_it_is = "learn again, or use the model as it is: attnviz run TEXT --model m\n"
            assert learn_result.err == problem + (use_as_it_is if is_whole_model else save_again)
        refuse_save_folder(model_folder)  # an interrupted save can be replaced


def test_a_folder_is_saved_into_again_wherever_a_first_save_broke_off(
    first_progress: Progress, work_folder: Path
) -> None:
    model_folder = work_folder / "m"
    model_folder.mkdir()
    (model_folder / ".attnviz-0123456789abcdef").write_bytes(b"half")
    refuse_save_folder(model_folder)
    for name, content in progress.files_with_digest(first_progress).items():
        (model_folder / name).write_bytes(content)
        refuse_save_folder(model_folder)
    progress.write_progress(model_folder, first_progress)

    assert sorted(each.name for each in model_folder.iterdir()) == sorted(
        [*MODEL_FILES, *TRAINING_FILES]
    )


def test_files_appear_in_the_order_that_they_are_written_in(
    work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_in_order: list[str] = []
    replace_file = Path.replace

    def record_and_replace(self: Path, to: Path) -> Path:
        names_in_order.append(to.name)
        return replace_file(self, to)

    monkeypatch.setattr(Path, "replace", record_and_replace)
    with AllOrNothing() as together:
        for name in ("b", "c", "a"):
            together.write(work_folder / name, [b"x"])

    assert names_in_order == ["b", "c", "a"]
