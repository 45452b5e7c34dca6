"""Any call, in any surroundings and over any files, ends in a result or in two lines."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import pytest

from tests.hostile import contents, ending
from tests.hostile.calls import Call, random_call
from tests.hostile.damage import CANARY, CODE, DAMAGE_BY_SUFFIX, PICKLE, damage_file
from tests.hostile.ending import CallResult, run_call
from tests.hostile.failed_calls import CHANGED_VALUES, FAILED_CALLS, call_with_changed_value

CALLS_PER_TEST = 100  # in one test


@pytest.mark.draws(1500, CALLS_PER_TEST)
@pytest.mark.usefixtures("quick")
def test_calls_by_chance_give_a_result_or_two_lines(first: int) -> None:
    endings = {seed: run_call(random_call(seed)) for seed in range(first, first + CALLS_PER_TEST)}

    assert {seed: describe_ending(each) for seed, each in endings.items() if each.faults} == {}


@pytest.mark.slow_table("calls", keep=6)
@pytest.mark.parametrize("call", FAILED_CALLS, ids=lambda call: " ".join(call.arguments)[:60])
def test_what_once_ended_badly_ends_well(call: Call) -> None:
    ending = run_call(call)

    assert ending.faults == [], describe_ending(ending)


@pytest.mark.parametrize("name", CHANGED_VALUES)
def test_a_folder_that_once_ended_badly_ends_well(name: str) -> None:
    ending = run_call(call_with_changed_value(name))

    assert ending.faults == [], describe_ending(ending)


@pytest.mark.slow("calls")
def test_calls_by_chance_try_most_things() -> None:
    calls = [random_call(seed) for seed in range(2000)]

    assert {call.arguments[0] for call in calls} >= {
        *("run", "compare", "steps", "inspect", "example", "learn", "heads"),
        *("survey", "pairs", "quiz", "explore", "demo", "schema"),
    }
    options = {word.partition("=")[0] for call in calls for word in call.arguments}
    assert options >= {
        *("--stream", "--window", "--live", "--chat", "--generate", "--checkpoints", "--texts"),
        *("--part", "--pairs", "--questions"),
    }
    outputs = {Path(word).suffix for call in calls for word in call.arguments if "out" in word}
    assert outputs >= {".gif", ".html", ".npz"}
    assert outputs & {".pptx", ".pdf", ".png", ".svg"}
    assert sum(bool(call.files) for call in calls) > 200
    assert sum(run_call(call).status == 0 for call in calls[:100]) >= 35


def test_a_fifth_of_the_calls_read_damaged_files_of_every_format() -> None:
    calls = [random_call(seed) for seed in range(1000)]
    calls_of_file_readers = [call for call in calls if call.offline]
    formats = {Path(name).suffix for call in calls_of_file_readers for name in call.files}

    assert len(calls_of_file_readers) == 200
    assert {call.arguments[0] for call in calls_of_file_readers} == {
        *("run", "steps", "compare", "inspect", "heads", "learn", "example"),
        *("survey", "pairs", "quiz"),
    }
    assert formats >= {".toml", ".json", ".npz", ".safetensors", ".txt", ".py", ".bin"}
    assert formats >= {".gguf", ".jinja"}
    folders = {Path(name).parts[0] for call in calls_of_file_readers for name in call.files}
    assert folders >= {"mine", "trained", "chatting", "run", "lesson.toml", "lines.txt"}
    assert sum("mine/code.py" in call.files for call in calls_of_file_readers) >= 3


@pytest.mark.parametrize("suffix", DAMAGE_BY_SUFFIX)
def test_damage_is_seldom_the_same_and_never_none(suffix: str) -> None:
    content = {
        ".json": b'{"a": [1, 2], "b": {"c": "d"}}',
        ".toml": b"a = 1\nb = [2, 3]\n",
        ".npz": contents.arrays_of({"a": [[1, 2], [3, 4]], "b": [1]}),
        ".safetensors": contents.tensors_of({"a": [[1, 2], [3, 4]], "b": [1]}),
        ".gguf": bytes(range(1, 200)),
    }[suffix]
    damaged_contents = [damage_file(f"a{suffix}", content, Random(seed)) for seed in range(40)]

    assert len({*damaged_contents}) > 20
    assert sum(each == content for each in damaged_contents) < 5


def test_code_that_is_run_leaves_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for run in (lambda: pickle.loads(PICKLE), lambda: exec(CODE)):
        run()

        assert [path.name for path in tmp_path.iterdir()] == [CANARY]
        (tmp_path / CANARY).unlink()


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (CODE, "code of a file was run"),
        (b"open('../x', 'w').close()", "it went elsewhere: ('x',)"),
    ],
)
def test_code_that_a_call_runs_is_seen(
    code: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "run_command_line", lambda _: exec(Path("code.py").read_bytes()))
    faults = run_call(Call(("learn", "code.py"), {"code.py": code}, offline=True)).faults

    assert any(each.startswith(fault) for each in faults), faults


def test_a_call_that_asks_a_hub_is_seen() -> None:
    faults = run_call(Call(("run", "a b", "--model=owner/name"), offline=True)).faults

    assert any(each.startswith("it went elsewhere: (") for each in faults), faults


def test_what_ends_badly_is_seen() -> None:
    def faults(status: int, out: str, err: str, **files: bytes) -> int:
        names = {name.replace("_", "."): content for name, content in files.items()}
        return len(CallResult(Call(("run",)), status, out, err, names, seconds=1).faults)

    assert faults(0, "\x1b[1mbold\x1b[0m", "note: one", a_json=b"[1]") == 0
    assert faults(2, "", "error: one\n hint: two\n") == 0
    assert faults(1, "", "Traceback") == 2
    assert faults(2, "\x1b[2J", "no hint") == 2
    assert faults(2, "", "error: one\n hint: two\n", a_txt=b"") == 1
    assert faults(0, "", "", a_json=b"[NaN]", a_svg=b"<svg>", a_npz=b"PK", a_md=b"\x1b") == 4


def describe_ending(ending: CallResult) -> str:
    """What somebody must know to repair it: faults, call and errors."""
    return f"{ending.faults}: {ending.call}\n{ending.err}"
