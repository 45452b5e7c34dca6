"""attnviz learn: what is said, written and refused; and that it goes on where it was stopped."""

from __future__ import annotations

import csv
import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from attnviz.errors import AttnvizError
from attnviz.learning import progress
from attnviz.learning.choices import Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.progress import Moment
from attnviz.learning.task_names import TASKS
from attnviz.learning.training import Training, learn
from attnviz.traces.models import folder
from attnviz.traces.settings import Settings
from tests.conftest import Attnviz, unchecked

FORTY_STEPS = Choices(steps=40, until=math.inf)  # of reverse, which is learned after 22


def stopped_training(at: int) -> Training:
    """A training of the task reverse that is interrupted at step `at`."""
    training = Training(task_of("reverse"), choices=FORTY_STEPS)
    training.stopped = lambda: training.moments[-1].step >= at
    with unchecked():
        for _ in training:
            pass
    return training


@pytest.fixture(scope="module")
def whole_training() -> Training:
    return stopped_training(at=1000)


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def progress_figures(moments: Sequence[Moment]) -> list[tuple[int, float, float]]:
    return [(each.step, each.loss, each.accuracy) for each in moments]


def test_alone_it_lists_the_tasks_and_how_long_they_take(attnviz: Attnviz) -> None:
    output = " ".join(attnviz("learn").out.split())

    for name, row in TASKS.items():
        assert f"{name} {row.about}, in about {row.seconds:g} s: {row.teaches}" in output


def test_in_a_pipe_there_is_a_line_every_so_often_and_then_what_was_learned(
    attnviz: Attnviz,
) -> None:
    result = attnviz("learn", "reverse")

    assert result.status == 0
    first, *_, last = result.err.splitlines()
    assert first.startswith("step 0 · loss 2.")
    steps = [int(line.split()[1]) for line in result.err.splitlines()]
    assert steps == sorted(set(steps))
    assert f"step {steps[-1]} " in last
    assert result.out.startswith(
        f"After {steps[-1]} steps, every letter is right; L0H0 reads the opposite letter ("
    )


def test_the_same_seed_learns_the_same_and_another_does_not(attnviz: Attnviz) -> None:
    first_run, same_seed, other_seed = (
        attnviz("learn", "reverse", "--steps", "5", "--seed", seed) for seed in ("1", "1", "2")
    )

    assert (first_run.out, first_run.err) == (same_seed.out, same_seed.err)
    assert first_run.err != other_seed.err


def test_quiet_says_nothing_beside_the_result(attnviz: Attnviz) -> None:
    assert attnviz("learn", "reverse", "--steps", "2", "-q").err == ""


def test_json_is_all_that_stands_on_standard_output(attnviz: Attnviz) -> None:
    result = attnviz("learn", "reverse", "--steps", "2", "--json")

    assert json.loads(result.out)
    assert result.err.startswith("step 0")


def test_files_are_written_and_what_was_learned_is_said(
    attnviz: Attnviz, work_folder: Path
) -> None:
    result = attnviz("learn", "reverse", "--steps", "3", "-o", "a.json", "-o", "a.txt")

    assert "wrote a.json\nwrote a.txt\n" in result.err
    assert result.out.startswith("After 3 steps, ")
    assert " ".join(result.out.split()) in " ".join(Path("a.txt").read_text().split())


@pytest.mark.slow("training")
def test_steps_are_all_learned_unless_it_is_said_how_right_it_is_to_be(attnviz: Attnviz) -> None:
    def last_step(*options: str) -> int:
        return int(attnviz("learn", "reverse", *options).err.splitlines()[-1].split()[1])

    assert last_step("--steps", "40") == 40
    assert last_step("--steps", "40", "--until", "0.5") < 15
    assert last_step("--until", "0.5") < 15


def test_the_settings_are_the_tasks_own_but_for_what_was_typed(attnviz: Attnviz) -> None:
    own_output = attnviz("learn", "reverse", "--steps", "1").out
    other_output = attnviz(
        "learn", "reverse", "--steps", "1", "--heads", "2", "--dim", "16", "--feed-forward", "8"
    ).out

    assert "width 32 · 1 head of width 32" in own_output
    assert "no feed-forward" in own_output
    other_output = " ".join(other_output.split())
    assert "width 16 · 2 heads of width 8" in other_output
    assert "no feed-forward" not in other_output
    assert "learned positions" in other_output


def test_a_sentence_of_ones_own_is_watched(attnviz: Attnviz) -> None:
    out = attnviz("learn", "reverse", "--steps", "1", "--watch", "h g f e d c b a").out

    assert "\n1 h " in out


def test_help_leaves_to_the_task_what_is_usual_for_a_run(attnviz: Attnviz) -> None:
    learn_help = " ".join(attnviz("learn", "--help-all").out.split())
    run_help = " ".join(attnviz("run", "--layers", "2", "--help-all").out.split())

    assert "How many numbers represent a token. [default: the task's]" in learn_help
    assert "How many numbers represent a token. [default: 8]" in run_help
    assert "(none). [default: the task's]" in learn_help
    assert "(none). [default: post]" in run_help
    assert "another random seed. [default: 42]" in learn_help
    assert "if not 8" not in attnviz("learn", "--help").out


@pytest.mark.slow("training")
def test_lines_that_are_held_out_are_measured_once_each(
    attnviz: Attnviz, work_folder: Path
) -> None:
    """Of 20 lines two are held out: the accuracy is a share of their 5 answers, ends included."""
    held_out = {10: "red green", 20: "one two three"}
    lines = [held_out.get(number, f"a b c{number}") for number in range(1, 21)]
    (work_folder / "lines.txt").write_text("\n".join(lines))

    out = attnviz("learn", "--file", "lines.txt", "--steps", "9", "-o", "a.csv").out
    output = " ".join(attnviz("learn", "--file", "lines.txt", "--steps", "9").out.split())

    assert "loss on the sentences learned from · accuracy in 2 held-out sentences" in output
    accuracies = [
        float(row["accuracy"])
        for row in csv.DictReader((work_folder / "a.csv").read_text().splitlines())
    ]
    assert all(5 * share == pytest.approx(round(5 * share), abs=1e-5) for share in accuracies)
    assert out.startswith("After 9 steps, ")


@pytest.mark.slow("training")
def test_data_keep_the_command_also_where_it_asks_for_what_is_usual_for_a_run(
    attnviz: Attnviz, work_folder: Path
) -> None:
    options = "--steps 2 --positions none --norm post --out a.json"
    attnviz("learn", "reverse", *shlex.split(options))
    learn_data = json.loads((work_folder / "a.json").read_text())["attnviz"]
    attnviz(
        "compare", "--learn", "reverse", "--by", "heads", "--repeats", "2", *shlex.split(options)
    )
    compare_data = json.loads((work_folder / "a.json").read_text())["attnviz"]

    assert learn_data["command"] == f"attnviz learn reverse {options}"
    assert (learn_data["settings"]["norm"], learn_data["settings"]["positions"]) == ("post", "none")
    assert (learn_data["settings"]["task"], learn_data["settings"]["model"]) == ("reverse", None)
    assert "--positions none --norm post" in compare_data["command"]


GRAMMAR = """
asks = "verb"
answers = "verb"
watch = "the cats sleep"

[words]
noun = { one = ["cat", "dog", "bird"], many = ["cats", "dogs", "birds"] }
verb = { one = ["sleeps", "runs", "sings"], many = ["sleep", "run", "sing"] }

[[sentences]]
patterns = ["the {noun x} {verb x}"]
"""


@pytest.mark.slow("training")
def test_a_grammar_that_says_nothing_of_its_model_gets_one_that_learns(
    attnviz: Attnviz, work_folder: Path
) -> None:
    (work_folder / "mine.toml").write_text(GRAMMAR)

    output = " ".join(attnviz("learn", "mine.toml", "--steps", "40").out.split())

    assert "width 32 · 2 heads of width 16 · 2 layers (pre-norm)" in output
    assert "learned positions" in output
    assert "After 40 steps, every verb is right" in output


def test_attention_alone_learns_as_well(tmp_path: Path) -> None:
    """Settings that name no layers are of attention without a block around it."""
    settings = Settings(variant="scaled", dim=32, positions="learned")
    training = learn(task_of("reverse"), settings, Choices(rate=0.01, steps=60))
    (tmp_path / "m").mkdir()
    for name, content in folder.model_files(training.model).items():
        (tmp_path / "m" / name).write_bytes(content)

    assert not [name for name in training.model.parameters if "gain" in name]
    assert training.moments[-1].accuracy > 0.9
    assert "layer" not in training.view().settings
    assert (
        folder.read_learned_model(tmp_path / "m").parameters.keys()
        == training.model.parameters.keys()
    )


REFUSALS = {
    "no task": (["--steps", "3"], "there is no task to learn", "name one of: reverse, "),
    "task": (["revers"], "there is no task 'revers'", "did you mean 'reverse'? known: "),
    "own task": (
        ["copy"],
        "there is no task 'copy'",
        "known: reverse, sort, induction, agreement, pronouns, brackets; or a task of your own: a "
        "grammar, such as mine.toml (docs/learning.md)\n",
    ),
    "steps": (["reverse", "--steps", "0"], "--steps is 0, and must be from 1 to 10,000,000", ""),
    "until": (["reverse", "--until", "99"], "--until is 99, and must be above 0", "try --until"),
    "rate": (["reverse", "--rate", "-1"], "--rate is -1, and must be above 0", "try --rate 0.003"),
    "batch": (["reverse", "--batch", "0"], "--batch is 0, and must be from 1", "try --batch 1"),
    "nan": (["reverse", "--rate", "nan"], "--rate is nan, and must be above 0", ""),
    "unknown word": (["reverse", "--watch", "a z"], "the model has never seen 'z'", "it knows: a"),
    "long sentence": (
        ["reverse", "--watch", "a b c d e f g h a"],
        "the sentence to watch has 9 tokens, but the model only learns positions for 8",
        "give a shorter one",
    ),
    "no sentence": (
        ["reverse", "--watch", " "],
        "there is no word in the sentence to watch",
        "give one, or leave it out: --watch 'a b c d e f g h'",
    ),
    "query": (["reverse", "--query", "z"], "no token of the sentence is 'z'", "the tokens are: "),
    "heads": (["reverse", "--heads", "3"], "a width of 32 does not split into 3 equal heads", ""),
    "variant": (["reverse", "-v", "casual"], "there is no variant 'casual'", "did you mean"),
    "too large": (
        ["reverse", "--dim", "65536"],
        "learning reverse with these settings takes",
        "learn from fewer sentences at once (--batch), or a smaller model",
    ),
    "too many": (
        ["reverse", "--batch", "65536", "--heads", "32", "--layers", "999"],
        "learning",
        "",
    ),
    "not for it": (["reverse", "--memory", "a"], "attnviz learn has no option --memory", ""),
    "two tasks": (
        ["reverse", "sort"],
        "'sort' is one word too many",
        "attnviz learn takes one TASK",
    ),
    "a file": (["reverse", "--save", "file"], "'file' is a file", "give the name of a folder"),
    "not ours": (
        ["reverse", "--save", "full"],
        "'full' contains something other",
        "give the name of",
    ),
    "no folder": (["--from", "no"], "there is no folder 'no'", "attnviz learn TASK --save FOLDER"),
    "nothing there": (["--from", "full"], "there is no training in 'full'", "attnviz learn TASK"),
    "suffix": (["reverse", "-o", "a.npz"], "there is no format for '.npz'", ""),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_mistake_gets_two_lines(attnviz: Attnviz, work_folder: Path, name: str) -> None:
    arguments, problem, hint = REFUSALS[name]
    (work_folder / "file").write_text("x")
    (work_folder / "full").mkdir()
    (work_folder / "full" / "config.json").write_text("{}")

    result = attnviz("learn", *arguments)

    assert result.status == 2
    assert result.err.startswith(f"error: {problem}")
    assert f"\n hint: {hint}" in result.err
    assert len(result.err.splitlines()) == 2


@pytest.mark.slow_table("training", keep=1)
@pytest.mark.parametrize("stop_at", [0, 1, 16])
def test_what_was_broken_off_goes_on_to_the_same_end(
    whole_training: Training, tmp_path: Path, stop_at: int
) -> None:
    part = stopped_training(stop_at)
    assert part.ended == "interrupted"
    assert part.moments[-1].step == stop_at
    progress.write_progress(tmp_path, part.progress())

    checkpoint = progress.read_progress(tmp_path)
    continued_training = Training(
        part.task, checkpoint.model.settings, checkpoint.choices, checkpoint.watch, checkpoint
    )
    steps = [each.step for each in continued_training]

    assert steps[0] == next(each.step for each in whole_training.moments if each.step > stop_at)
    assert progress_figures(continued_training.moments) == progress_figures(whole_training.moments)
    assert continued_training.ended == whole_training.ended == "steps"
    for one, other in zip(continued_training.moments, whole_training.moments, strict=True):
        assert all(map(np.array_equal, one.weights, other.weights))
        assert all(np.array_equal(one.scores[name], other.scores[name]) for name in one.scores)
    parameters, expected = (
        each.learned().model.parameters for each in (continued_training, whole_training)
    )
    assert all(torch.equal(parameters[name], expected[name]) for name in expected)


@pytest.mark.slow("training")
def test_on_the_command_line_it_goes_on_as_well(attnviz: Attnviz, work_folder: Path) -> None:
    def model(name: str) -> dict[str, torch.Tensor]:
        return folder.read_learned_model(work_folder / name).parameters

    attnviz("learn", "reverse", "--steps", "30", "--save", "whole")
    result_of_saving = attnviz("learn", "reverse", "--steps", "16", "--save", "part")
    assert "wrote part; use it with: attnviz run TEXT --model part" in result_of_saving.err
    result = attnviz("learn", "--from", "part", "--steps", "30", "--save", "part")

    assert result.status == 0, result.err
    assert all(torch.equal(each, model("whole")[name]) for name, each in model("part").items())
    assert sorted(path.name for path in (work_folder / "part").iterdir()) == [
        "config.json",
        "model.safetensors",
        "training.json",
        "training.safetensors",
        "vocabulary.json",
    ]


def test_what_cannot_go_on_gets_two_lines(attnviz: Attnviz, work_folder: Path) -> None:
    attnviz("learn", "reverse", "--steps", "30", "--save", "done")

    def refusal(*arguments: str) -> str:
        result = attnviz("learn", "--from", "done", *arguments)
        assert result.status == 2
        assert len(result.err.splitlines()) == 2
        return result.err

    assert "has already learned for 30 steps\n hint: try --steps 60" in refusal()
    assert "and --heads would change them" in refusal("--heads", "2")
    assert "and --watch would change them" in refusal("--watch", "a b")
    assert "'done' learns 'reverse', but sort is given" in refusal("sort")
    assert "every letter is right already; the goal is 0.9" in refusal(
        "--until", "0.9", "--steps", "90"
    )


def test_what_was_learned_is_drawn_later_from_what_was_kept(
    attnviz: Attnviz, work_folder: Path
) -> None:
    first = attnviz("learn", "reverse", "--steps", "30", "--save", "done", "-o", "then.csv")
    later = attnviz("learn", "--from", "done", "-o", "later.csv")

    assert first.status == later.status == 0
    assert (work_folder / "later.csv").read_bytes() == (work_folder / "then.csv").read_bytes()
    assert first.out == later.out


def test_a_training_that_is_damaged_is_refused(attnviz: Attnviz, work_folder: Path) -> None:
    attnviz("learn", "reverse", "--steps", "2", "--save", "m")
    history, state = (
        work_folder / "m" / name for name in ("training.json", "training.safetensors")
    )
    intact_contents = {path: path.read_bytes() for path in (history, state)}
    history_data = json.loads(intact_contents[history])
    damages = {
        history: [b"", b"[]", b"{}", b'{"format": 2}', intact_contents[history][:200]]
        + [json.dumps({**history_data, name: 3}).encode() for name in history_data],
        state: [
            b"",
            b"x" * 99,
            intact_contents[state][:-5],
            (work_folder / "m" / "model.safetensors").read_bytes(),
        ],
    }
    for path, contents in damages.items():
        for content in contents:
            path.write_bytes(content)
            result = attnviz("learn", "--from", "m", "--steps", "3")
            assert (result.status, len(result.err.splitlines())) == (2, 2), (content, result.err)
        path.write_bytes(intact_contents[path])
    assert attnviz("learn", "--from", "m", "--steps", "3").status == 0


def test_a_loss_that_is_no_number_is_said_and_the_last_good_model_kept(
    attnviz: Attnviz, work_folder: Path
) -> None:
    result = attnviz(
        "learn", "reverse", "--rate", "1000", "--norm", "none", "--steps", "300", "--save", "m"
    )

    assert result.status == 0
    assert "The loss is no longer finite" in " ".join(result.out.split())
    assert "note: a lower --rate than 1000 may help" in result.err
    parameters = folder.read_learned_model(work_folder / "m").parameters
    assert all(each.isfinite().all() for each in parameters.values())


def test_who_stops_before_the_first_step_has_learned_nothing() -> None:
    training = stopped_training(at=0)

    assert training.learned().view().headline.startswith("Before the first step, ")


def test_choices_leave_open_what_others_decide() -> None:
    assert Choices(rate=0.1).over(Choices(rate=1.0, steps=3)) == Choices(rate=0.1, steps=3)
    with pytest.raises(AttnvizError):
        Choices(steps=10**9)


@pytest.mark.slow_table("training", keep=3)
@pytest.mark.parametrize(
    "options",
    [
        ("--variant", "plain"),
        ("--variant", "average"),
        ("--variant", "multi-head"),
        ("--scoring", "additive"),
        ("--kv-heads", "1", "--heads", "2"),
        ("--positions", "rotary"),
        ("--positions", "alibi"),
        ("--positions", "none"),
        ("--norm", "post"),
        ("--window", "2"),
        ("--temperature", "2", "--soft-cap", "5", "--no-scale"),
        ("--layers", "2", "--activation", "gelu", "--head-dim", "4"),
        ("--causal", "--batch", "1", "--dim", "7"),
    ],
    ids=" ".join,
)
def test_it_learns_in_any_way_of_attending(
    attnviz: Attnviz, work_folder: Path, options: tuple[str, ...]
) -> None:
    result = attnviz("learn", "reverse", "--steps", "2", "-o", "a.json", "--save", "m", *options)

    assert result.status == 0, result.err
    assert attnviz("run", "a b", "--model", "m", "-q").status == 0
