"""Folders that attnviz learn --save writes: none is trusted, and none is half old and half new."""

from __future__ import annotations

import builtins
import io
import json
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from attnviz import trace
from attnviz.cli.learn import LearnOptions, continue_training
from attnviz.errors import AttnvizError
from attnviz.learning import progress
from attnviz.learning.choices import Choices, refuse_save_folder
from attnviz.learning.lookup import task_of
from attnviz.learning.progress import Progress
from attnviz.learning.training import Training
from attnviz.machine.atomic_files import AllOrNothing
from attnviz.traces.models import folder
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.trace import Trace
from tests.conftest import Attnviz, unchecked

LETTERS = "a b c d e f g h"
OF_A_MODEL = ("config.json", "vocabulary.json", "model.safetensors")
OF_A_TRAINING = ("training.safetensors", "training.json")
JSON = ("config.json", "vocabulary.json", "training.json")
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
LINES = "the cat sat\nthe dog sat\nthe cat ran\nthe dog ran\n"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def after(steps: int, seed: int = 42) -> Progress:
    """Reversing letters with two layers of two heads, for so many steps."""
    task = task_of("reverse")
    chosen = replace(task.settings, variant="multi-head", heads=2, layers=2, seed=seed)
    training = Training(task, chosen, Choices(steps=steps, until=math.inf, batch=4))
    with unchecked():
        for _ in training:
            pass
    return training.progress()


@pytest.fixture(scope="module")
def first() -> Progress:
    return after(2)


@pytest.fixture(scope="module")
def second() -> Progress:
    return after(3, seed=7)


@pytest.fixture
def saved(first: Progress, there: Path) -> Path:
    progress.write_progress(there / "m", first)
    return there / "m"


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    contents = json.loads(path.read_text(encoding="utf-8"))
    change(contents)
    path.write_text(json.dumps(contents), encoding="utf-8")


def update(changes: dict[str, Any], contents: dict[str, Any]) -> None:
    contents.update(changes)


def use(place: Path) -> Trace:
    """What attnviz learn --from does with a folder, and one look further; and what --model does."""
    with unchecked():
        training = continue_training(LearnOptions(from_=place), Choices(), {})
        next(iter(training), None)
        training.progress()
        view = training.learned().view()
        for suffix in (".txt", ".csv"):
            view.render(suffix)
        result = trace(LETTERS, model=str(place))
        result.view().render(".txt")
        return result


# What a folder may not do: run code, open a file that is not in it, or ask anybody.


def test_no_python_runs_because_a_folder_names_it(attnviz: Attnviz, saved: Path) -> None:
    (saved / "evil.py").write_text("open('PWNED', 'w')\n", encoding="utf-8")
    changed(saved / "training.json", lambda told: told.update(asked={"task": "m/evil.py"}))

    ended = attnviz("learn", "--from", "m", "--steps", "5")

    assert (ended.status, ended.out, ended.err) == (
        2,
        "",
        "error: 'm' learns m/evil.py, a Python file, and no Python is run just because a folder "
        "names it\n"
        " hint: if you trust that file, give it as well: attnviz learn m/evil.py --from m\n",
    )
    assert attnviz("learn", "mine.py", "--from", "m", "--steps", "5").err == (
        "error: 'm' learns m/evil.py, but mine.py is given\n hint: leave mine.py out, or --from\n"
    )
    assert not Path("PWNED").exists()


def test_a_python_task_goes_on_when_its_path_is_typed(attnviz: Attnviz, there: Path) -> None:
    source = "from attnviz.learning.lookup import task_of\ntask = task_of('reverse')\n"
    (there / "mine.py").write_text(source, encoding="utf-8")
    attnviz("learn", "mine.py", "--steps", "2", "--batch", "4", "--save", "m", "-q")
    (there / "moved").mkdir()
    (there / "mine.py").rename(there / "moved" / "mine.py")
    there.joinpath("m", "evil.py").write_text("open('PWNED', 'w')\n", encoding="utf-8")

    assert "hint: if you trust" in attnviz("learn", "--from", "m", "--steps", "3").err
    again = attnviz("learn", "moved/mine.py", "--from", "m", "--steps", "3", "--save", "m", "-q")
    assert again.status == 0, again.err
    told = json.loads((there / "m" / "training.json").read_text(encoding="utf-8"))
    assert (told["asked"], told["source"]) == ({"task": "moved/mine.py"}, "")
    assert not Path("PWNED").exists()


OWN = {
    "grammar": ("mine.toml", GRAMMAR, ("mine.toml",)),
    "lines": ("lines.txt", LINES, ("--file", "lines.txt")),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_grammar_and_lines_stand_in_the_folder(attnviz: Attnviz, there: Path, kind: str) -> None:
    name, text, words = OWN[kind]
    (there / name).write_text(text, encoding="utf-8")
    with unchecked():
        attnviz("learn", *words, "--steps", "3", "--save", "whole", "-q")
        attnviz("learn", *words, "--steps", "2", "--save", "part", "-q")
        (there / name).unlink()
        gone_on = attnviz("learn", "--from", "part", "--steps", "3", "--save", "part", "-q")

    assert gone_on.status == 0, gone_on.err
    for each in (*OF_A_MODEL[:2], "training.json"):
        one, other = (json.loads((there / m / each).read_text()) for m in ("part", "whole"))
        for told in (one, other):
            told.pop("save")
            [moment.pop("seconds") for moment in told.get("moments", ())]
        assert one == other
    ours, theirs = (
        folder.read_learned_model(there / each).parameters for each in ("part", "whole")
    )
    assert all(torch.equal(ours[each], theirs[each]) for each in theirs)


@pytest.mark.parametrize("kind", OWN)
def test_a_file_that_is_typed_again_has_the_words_that_the_model_learned(
    attnviz: Attnviz, there: Path, kind: str
) -> None:
    name, text, words = OWN[kind]
    (there / name).write_text(text, encoding="utf-8")
    attnviz("learn", *words, "--steps", "2", "--save", "m", "-q")

    assert attnviz("learn", *words, "--from", "m", "--steps", "3", "-q").status == 0
    changed_text = text.replace("cat", "rat")
    (there / name).write_text(changed_text, encoding="utf-8")
    assert attnviz("learn", *words, "--from", "m", "--steps", "3").err.startswith(
        f"error: the words of {name} are not those that the model in 'm' learned\n"
        " hint: start a new training: "
    )
    changed(there / "m" / "training.json", lambda contents: contents.pop("source"))
    assert attnviz("learn", "--from", "m", "--steps", "3").err.startswith(
        "error: the training in 'm' is damaged\n"
    )


def test_what_stands_in_the_folder_is_bounded_and_checked(attnviz: Attnviz, saved: Path) -> None:
    asked = {"file": "lines.txt", "tokenizer": "words"}
    for source, problem in {
        "a b\n" * 3_000_000: "what is learned from has more than 10 MB, the most that a text may",
        "one": "the task that 'm' holds is damaged: 'lines.txt': there is only one line",
    }.items():
        holds = {"asked": asked, "source": source}
        changed(saved / "training.json", partial(update, holds))
        assert attnviz("learn", "--from", "m").err.startswith(f"error: {problem}")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every file that Python opens, and every name that it asks a network about."""
    found: list[str] = []

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def note(first: Any, *rest: Any, **named: Any) -> Any:
            found.append(str(first))
            return call(first, *rest, **named)

        return note

    for module, name in ((io, "open"), (builtins, "open"), (socket, "getaddrinfo")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    return found


def nodes(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value of a JSON document."""
    yield at
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nodes(each, (*at, name))


def at(value: Any, way: tuple[str | int, ...]) -> Any:
    for name in way:
        value = value[name]
    return value


def put(value: Any, way: tuple[str | int, ...], new: Any) -> Any:
    """The same document with another value at one place."""
    if not way:
        return new
    found = json.loads(json.dumps(value))
    at(found, way[:-1])[way[-1]] = new
    return found


def test_no_text_of_a_folder_opens_a_file_runs_it_or_asks_anybody(
    saved: Path, there: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = there / "decoy"
    decoy.mkdir()
    (decoy / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    for name in ("evil.py", "evil.toml"):
        (decoy / name).write_text("open('PWNED', 'w')\n", encoding="utf-8")
    monkeypatch.setattr("tiktoken.load.read_file", lambda path: pytest.fail(path))
    names = ("cl100k_base", "attacker/model", str(decoy), *map(str, decoy.glob("evil*")))
    use(saved)
    own = {*opened}  # what is in the folder, and where a machine says how much memory it has

    for file in JSON:
        content = (saved / file).read_text(encoding="utf-8")
        told = json.loads(content)
        texts = [way for way in nodes(told) if isinstance(at(told, way), str)]
        for way, name in product(texts, names):
            (saved / file).write_text(json.dumps(put(told, way, name)), encoding="utf-8")
            opened.clear()
            with suppress(AttnvizError):
                use(saved)
            assert {*opened} <= own, (file, way, name)
        (saved / file).write_text(content, encoding="utf-8")
    assert not Path("PWNED").exists()


def test_a_tokenizer_that_a_model_names_is_not_downloaded(
    attnviz: Attnviz, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "none")
    changed(saved / "vocabulary.json", lambda told: told.update(tokenizer="o200k_base"))

    assert attnviz("run", LETTERS, "--model", "m").err == (
        "error: the model's tokenizer is 'o200k_base', and tiktoken has no copy of it on this "
        "machine\n"
        " hint: download it: attnviz run TEXT --tokenizer o200k_base\n"
    )
    with pytest.raises(AttnvizError, match="the model's tokenizer is 'o200k_base', and tiktoken"):
        Vocabulary(tokenizer="o200k_base", words=("a",)).cut("a")


# What a folder may hold: what attnviz wrote, and of anything else it is said in two lines.

DEEP: Any = 1
for _ in range(50):
    DEEP = [DEEP]
NUMBERS: tuple[Any, ...] = (True, 0, -1, 0.5, math.inf, math.nan, 1e300, 10**400)
ODD: tuple[Any, ...] = (
    None,
    "",
    "x",
    "\ud800",
    *NUMBERS,
    [],
    {},
    {"a": [1]},
    [8, [1]],
    [[0.1]],
    [[[0.1]]],
    DEEP,
)


@given(file=st.sampled_from(JSON), place=st.integers(0), odd=st.sampled_from(ODD))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_changed_in_a_folder_is_a_result_or_two_lines(
    saved: Path, first: Progress, file: str, place: int, odd: Any
) -> None:
    for name, content in progress.files_with_digest(first).items():
        (saved / name).write_bytes(content)
    told = json.loads((saved / file).read_text(encoding="utf-8"))
    ways = [*nodes(told)]
    changes = put(told, ways[place % len(ways)], odd)
    (saved / file).write_text(json.dumps(changes), encoding="utf-8")

    lines: tuple[str, ...] = ()
    try:
        weights = use(saved).weights
    except AttnvizError as error:
        lines = (str(error), error.hint)
    if lines:
        assert all(line and "\n" not in line for line in lines)
    else:
        assert torch.isfinite(weights).all()


def moment(number: int, **changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["moments"][number].update(changes)


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "scores of one head": moment(0, scores={"opposite": [[0.1], [0.2]]}),
    "scores without a layer": moment(0, scores={"opposite": [[0.1, 0.2]]}),
    "scores one deeper": moment(0, scores={"opposite": [[[0.1, 0.2], [0.1, 0.2]]]}),
    "scores by no name": moment(1, scores={}),
    "a score of 1e300": moment(0, scores={"opposite": [[1e300, 0.2], [0.1, 0.2]]}),
    "an infinite loss": moment(0, loss=math.inf, accuracy=math.inf),
    "an infinite accuracy": moment(1, accuracy=math.inf),
    "a list of steps": moment(0, step=[1]),
    "the same step again": moment(1, step=0),
    "a list of accuracies": moment(1, accuracy=[1]),
    "seconds in words": moment(1, seconds="x"),
    "a moment less": lambda told: told["moments"].pop(),
    "no moment": lambda told: told.update(moments=[]),
    "a batch of 1e300": lambda told: told["choices"].update(batch=1e300),
    "400 digits": lambda told: told["choices"].update(until=10**400),
    "another sentence": lambda told: told.update(watch="a b"),
    "two kinds of task": lambda told: told["asked"].update(file="x", tokenizer="words"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_history_that_no_training_has_is_refused(
    attnviz: Attnviz, saved: Path, damage: str
) -> None:
    changed(saved / "training.json", DAMAGED[damage])

    assert attnviz("learn", "--from", "m", "--steps", "5").err == (
        "error: the training in 'm' is damaged\n"
        " hint: learn again, or use the model as it is: attnviz run TEXT --model m\n"
    )


def test_readings_that_the_task_does_not_have_are_refused(attnviz: Attnviz, saved: Path) -> None:
    def renamed(told: dict[str, Any]) -> None:
        for each in told["moments"]:
            each["scores"] = {"other": each["scores"]["opposite"]}

    changed(saved / "training.json", renamed)

    assert attnviz("learn", "--from", "m", "--steps", "5").err == (
        "error: the readings of reverse are not those that the model in 'm' learned\n"
        " hint: start a new training: attnviz learn reverse\n"
    )


def tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Other numbers in a file, and the words beside them as they were."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    words = json.loads(content[8 : 8 + length])["__metadata__"]
    found = load_file(path)
    change(found)
    save_file(found, path, words)


KEPT = "optimizer exp_avg w_query"
OF_THE_OPTIMIZER: dict[str, Callable[[dict[str, torch.Tensor]], object]] = {
    "another dtype": lambda found: found.update({KEPT: found[KEPT].half()}),
    "another shape": lambda found: found.update({KEPT: found[KEPT][:3].clone()}),
    "no finite number": lambda found: found[KEPT].fill_(math.inf),
    "one of its tensors is gone": lambda found: found.pop(KEPT),
    "another step": lambda found: found["optimizer step w_query"].fill_(9),
    "weights above 1": lambda found: found["weights.0"].fill_(3),
    "weights of fewer heads": lambda found: found.update(
        {"weights.1": found["weights.1"][:, :1].clone()}
    ),
    "weights of fewer moments": lambda found: found.update(
        {"weights.1": found["weights.1"][:1].clone()}
    ),
}


@pytest.mark.parametrize("damage", OF_THE_OPTIMIZER)
def test_numbers_that_no_training_keeps_are_refused(saved: Path, damage: str) -> None:
    tensors(saved / "training.safetensors", OF_THE_OPTIMIZER[damage])

    with pytest.raises(AttnvizError, match=r"the training in .* is damaged"):
        progress.read_progress(saved)


@pytest.mark.parametrize(
    "facts",
    [{"tokens": [8, [1]]}, {"scores": {"L0H0": "x"}}, {"sentences": 1.5}, {"task": []}],
    ids=str,
)
def test_facts_of_another_type_are_refused(
    attnviz: Attnviz, saved: Path, facts: dict[str, Any]
) -> None:
    changed(saved / "config.json", lambda told: told["facts"].update(facts))

    assert attnviz("run", LETTERS, "--model", "m").err == (
        "error: 'm/config.json' is not as attnviz wrote it: something in it is missing or of "
        "another kind\n"
        " hint: save it again: attnviz learn TASK --save FOLDER\n"
    )


def test_answers_that_overflow_are_refused(attnviz: Attnviz, saved: Path) -> None:
    tensors(saved / "model.safetensors", lambda found: found["w_answers"].fill_(3e38))

    ended = attnviz("run", LETTERS, "--model", "m", "--predict")

    assert (ended.status, ended.err) == (
        2,
        "error: the scores of the answers are too large for float32, whose largest number is "
        "3.4e+38\n"
        " hint: try smaller numbers, or --dtype float64\n",
    )


# What is in a folder is of one save, whatever broke off another.


def test_the_same_save_is_the_same_bytes_and_another_is_marked_otherwise(
    first: Progress, second: Progress, saved: Path
) -> None:
    def mark(place: Path) -> str:
        return str(json.loads((place / "config.json").read_text(encoding="utf-8"))["save"])

    before = {each.name: each.read_bytes() for each in saved.iterdir()}
    progress.write_progress(saved, progress.read_progress(saved))
    assert {each.name: each.read_bytes() for each in saved.iterdir()} == before
    one = mark(saved)
    progress.write_progress(saved, second)
    assert mark(saved) != one


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "as they once were written"])
def test_files_of_two_saves_are_never_taken_for_one(
    first: Progress, second: Progress, there: Path, marked: bool
) -> None:
    def contents(of: Progress) -> dict[str, bytes]:
        return progress.files_with_digest(of) if of is second or marked else unmarked(of)

    saves = contents(first), contents(second)
    for chosen in product((0, 1), repeat=len(saves[0])):
        which = dict(zip(saves[0], chosen, strict=True))
        for name, number in which.items():
            (there / name).write_bytes(saves[number][name])
        if len({which[name] for name in OF_A_MODEL}) == 1:
            folder.read_learned_model(there)  # which is one model, whatever training is beside it
        else:
            with pytest.raises(AttnvizError, match=r"the last save into .* was interrupted"):
                folder.read_learned_model(there)
        if len({*chosen}) == 1:
            progress.read_progress(there)
        else:
            with pytest.raises(AttnvizError, match=r"the last save into .* was interrupted"):
                progress.read_progress(there)


def unmarked(of: Progress) -> dict[str, bytes]:
    return folder.model_files(of.model) | progress.training_files(of)


def test_a_save_that_was_broken_off_is_said_in_two_lines(
    attnviz: Attnviz, saved: Path, second: Progress
) -> None:
    files = progress.files_with_digest(second)
    for number, (name, content) in enumerate(files.items(), start=1):
        (saved / name).write_bytes(content)
        whole = number >= len(OF_A_MODEL)
        ran, learned = (
            attnviz(*words)
            for words in (("run", LETTERS, "--model", "m"), ("learn", "--from", "m"))
        )
        problem = (
            "error: the last save into 'm' was interrupted, or a file there was changed: its "
            "files do not belong together\n"
            " hint: "
        )
        again = "save it again: attnviz learn TASK --save FOLDER\n"
        assert (ran.status, ran.err) == ((0, ran.err) if whole else (2, problem + again))
        if number < len(files):
            otherwise = "learn again, or use the model as it is: attnviz run TEXT --model m\n"
            assert learned.err == problem + (otherwise if whole else again)
        refuse_save_folder(saved)  # what is broken off can be saved over


def test_a_folder_is_saved_into_again_wherever_a_first_save_broke_off(
    first: Progress, there: Path
) -> None:
    place = there / "m"
    place.mkdir()
    (place / ".attnviz-0123456789abcdef").write_bytes(b"half")
    refuse_save_folder(place)
    for name, content in progress.files_with_digest(first).items():
        (place / name).write_bytes(content)
        refuse_save_folder(place)
    progress.write_progress(place, first)

    assert sorted(each.name for each in place.iterdir()) == sorted([*OF_A_MODEL, *OF_A_TRAINING])


def test_files_appear_in_the_order_that_they_are_written_in(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed: list[str] = []
    rename = Path.replace

    def noted(self: Path, to: Path) -> Path:
        renamed.append(to.name)
        return rename(self, to)

    monkeypatch.setattr(Path, "replace", noted)
    with AllOrNothing() as together:
        for name in ("b", "c", "a"):
            together.write(there / name, [b"x"])

    assert renamed == ["b", "c", "a"]
