"""Files appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnviz import trace
from attnviz.errors import MAX_QUOTED_PATH_LETTERS, AttnvizError, shorten_text
from attnviz.machine import atomic_files, exit_handling, files
from tests.conftest import Attnviz


def broken() -> Iterator[bytes]:
    yield b"half"
    raise KeyboardInterrupt


def test_files_appear_together_with_the_folders_they_need(tmp_path: Path) -> None:
    with atomic_files.AllOrNothing() as together:
        together.write(tmp_path / "a.txt", [b"one ", b"two"])
        together.write(tmp_path / "deep" / "er" / "b.txt", [b"three"])
        assert not (tmp_path / "a.txt").exists()

    assert (tmp_path / "a.txt").read_bytes() == b"one two"
    assert (tmp_path / "deep" / "er" / "b.txt").read_bytes() == b"three"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "deep"]


def test_an_interrupted_run_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")

    def interrupted() -> None:
        with atomic_files.AllOrNothing() as together:
            together.write(tmp_path / "a.txt", [b"after"])
            together.write(tmp_path / "new" / "b.txt", broken())

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert (tmp_path / "a.txt").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_new_file_has_the_rights_that_this_user_gives_and_an_old_one_keeps_its(
    tmp_path: Path,
) -> None:
    old = tmp_path / "old.txt"
    old.write_text("before")
    old.chmod(0o640)
    mask = os.umask(0o022)

    with atomic_files.AllOrNothing() as together:
        together.write(old, [b"x"])
        together.write(tmp_path / "new.txt", [b"x"])

    os.umask(mask)
    assert old.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o644


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")

    with atomic_files.AllOrNothing() as together:
        together.write(tmp_path / "link.txt", [b"after"])

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"


def test_what_is_locked_or_no_file_stays(tmp_path: Path) -> None:
    locked, pipe, loop = (tmp_path / name for name in ("locked.txt", "pipe.txt", "loop.txt"))
    locked.write_text("before")
    locked.chmod(0o444)
    os.mkfifo(pipe)
    loop.symlink_to(loop)

    problems = {locked: "is read-only", pipe: "is not a regular file", loop: "is a link to itself"}
    for path, problem in problems.items():
        with pytest.raises(AttnvizError, match=problem):
            files.refuse_unwritable(path)


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    with atomic_files.AllOrNothing() as together:
        together.write(tmp_path / ("a" * 251 + ".txt"), [b"x"])

    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(AttnvizError, match="is a folder"):
        files.refuse_folder(tmp_path)
    with pytest.raises(AttnvizError, match="is a file, so"):
        files.refuse_unwritable(tmp_path / "file" / "a.png")


def test_what_a_killed_run_left_is_removed_by_the_next_and_nothing_else_is(tmp_path: Path) -> None:
    abandoned, held, own = (
        tmp_path / f".attnviz-{name}" for name in ("0123456789abcdef", "fedcba9876543210", "notes")
    )
    for each in (abandoned, held, own):
        each.write_text("half")

    with held.open() as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        with atomic_files.AllOrNothing() as together:
            together.write(tmp_path / "a.txt", [b"x"])

    assert sorted(tmp_path.iterdir()) == sorted([held, own, tmp_path / "a.txt"])


def test_what_is_being_written_is_left_alone_by_others(tmp_path: Path) -> None:
    with atomic_files.AllOrNothing() as ours:
        ours.write(tmp_path / "a.txt", [b"ours"])
        with atomic_files.AllOrNothing() as theirs:
            theirs.write(tmp_path / "b.txt", [b"theirs"])

    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_where_one_cannot_appear_the_others_are_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("before")

    def blocked() -> None:
        with atomic_files.AllOrNothing() as together:
            for name in ("old.txt", "new.txt", "folder", "last.txt"):
                together.write(tmp_path / name, [b"after"])
            (tmp_path / "folder").mkdir()  # by somebody else, meanwhile

    with pytest.raises(AttnvizError, match="folder' cannot be written: is a directory"):
        blocked()

    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "old.txt"]
    assert (tmp_path / "old.txt").read_text() == "before"


def test_a_file_cannot_be_in_a_file_that_is_written_with_it(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = attnviz("run", "a b", "-o", "c.json", "-o", "c.json/b.svg")

    assert (ended.status, ended.err) == (
        2,
        "error: 'c.json' is to be a file, so 'c.json/b.svg' cannot be in it\n"
        " hint: choose another folder\n",
    )
    assert list(tmp_path.iterdir()) == []


def _take(place: Path, kind: str) -> None:
    """Let there be something at a place that nobody may write over."""
    if kind == "locked":
        place.write_text("OLD")
        place.chmod(0o444)
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/null")


@pytest.mark.parametrize("kind", ["locked", "folder", "pipe", "device", "long"])
@pytest.mark.parametrize("place", ["step", "page"])
def test_a_name_with_a_place_in_it_is_checked_when_it_is_known(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    start = "s" * 245 if kind == "long" else "s"
    taken = Path("s-06-scaling.svg" if place == "step" else "s-1.svg")
    _take(taken, kind)
    command = ["steps", "I am", "--step", "scores,scaling"] if place == "step" else ["run", "I am"]
    name = f"{start}-{{{place}}}{'x' * 5 if kind == 'long' else ''}.svg"

    ended = attnviz(*command, "-o", name)

    assert ended.status == 2
    assert "error: 's" in ended.err
    assert [each.name for each in tmp_path.iterdir()] == ([taken.name] if kind != "long" else [])
    assert kind != "locked" or taken.read_text() == "OLD"


LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["run", "a", "-o", f"{LONG}.png"],
        ["run", "a", "-o", f"{LONG}/a.png"],
        ["run", "a", "-o", f"{'long/' * 1000}a.png"],
        ["run", "--given", f"{LONG}.toml"],
        ["run", "a", "--embeddings", f"{LONG}.txt"],
        ["run", "a", "--embeddings", f"{LONG}.safetensors#x"],
        ["run", "--file", f"{LONG}.txt"],
        ["run", "--trace", f"{LONG}.npz"],
        ["example", "show", f"{LONG}.toml"],
        ["example", "check", f"{LONG}.toml"],
    ],
    ids=lambda words: " ".join(words)[:24],
)
def test_a_name_that_is_too_long_gets_two_lines(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = attnviz(*words)

    assert (ended.status, len(ended.err.splitlines())) == (2, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["learn", "reverse", "--save", f"new/{LONG}"],
        ["learn", "reverse", "--save", f"new/{LONG}/m"],
        ["learn", "reverse", "-o", f"new/{LONG}.csv"],
        ["learn", "reverse", "--save", "m", "-o", f"new/{LONG}.json"],
        ["run", "a", "-o", f"new/{'ä' * 126}.csv"],
        ["run", "a", "-o", f"{'new/' * 1100}a.csv"],
    ],
    ids=lambda words: " ".join(words)[:34],
)
def test_a_name_that_is_too_long_in_a_new_folder_is_refused_before_any_work(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "attnviz.learning.training.Training.__init__", lambda *_: pytest.fail("it works")
    )

    path = shorten_text(
        words[-1] + "/config.json" * (words[-2] == "--save"), MAX_QUOTED_PATH_LETTERS
    )
    assert attnviz(*words).err == (
        f"error: '{path}' cannot be written: file name too long\n"
        " hint: choose another file or folder\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (("run", "a", "-o", "new/a.json"), "new"),
        (("steps", "a", "-o", "here.csv", "-o", "my new/deep/a.gif"), "my new/deep"),
        (("learn", "reverse", "--save", "new/model"), "new"),
    ],
)
def test_a_folder_that_does_not_exist_is_asked_for_and_not_made(
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    folder: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = attnviz(*words)

    assert result.status == 2
    assert result.err == (
        f"error: there is no folder '{folder}'\n"
        f" hint: make it with: mkdir -p {shlex.quote(folder)}\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_library_makes_no_folder_either(tmp_path: Path) -> None:
    with pytest.raises(AttnvizError, match="there is no folder"):
        trace("I am", tokenizer="words").save(tmp_path / "new" / "z.json")

    assert list(tmp_path.iterdir()) == []


def test_the_longest_path_is_one_that_a_temporary_name_fits_beside(tmp_path: Path) -> None:
    most, unfinished = 4096 - 1, len(".attnviz-0123456789abcdef")
    assert unfinished == files.TEMPORARY_NAME_BYTES

    def path_of(length: int, name: str) -> Path:
        """A file in folders that are not there, with a path of so many bytes."""
        left = length - len(f"{tmp_path}//{name}")
        parts = ["d" * 99] * (left // 100) + ["d" * (left % 100)] * (left % 100 > 0)
        return tmp_path.joinpath(*parts, name)

    for name in ("a.csv", "a" * unfinished):
        longest = most - max(0, unfinished - len(name))
        for length in (longest - 2, longest - 1, longest, longest + 1):
            path = path_of(length, name)
            if len(str(path)) > longest:
                with pytest.raises(AttnvizError, match="file name too long"):
                    files.refuse_unwritable(path)
            else:
                files.refuse_unwritable(path)
                with atomic_files.AllOrNothing() as together:
                    together.write(path, [b"x"])


@pytest.mark.parametrize(("kind", "told"), [("folder", "a folder"), ("pipe", "not a regular file")])
def test_what_is_no_file_holds_no_matrices(
    attnviz: Attnviz, tmp_path: Path, kind: str, told: str
) -> None:
    _take(tmp_path / "x.toml", kind)

    ended = attnviz("run", "--given", str(tmp_path / "x.toml"))

    assert (ended.status, ended.err) == (
        2,
        f"error: '{tmp_path / 'x.toml'}' is {told}: there is nothing to take matrices from\n"
        " hint: give the name of a file\n",
    )


def test_a_folder_that_is_gone_gets_two_lines(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    ended = attnviz("run", "a", "-o", "a.json")

    assert ended.status == 2
    assert ended.err.startswith(
        "error: 'a.json' cannot be written: the current folder no longer exists"
    )


def test_a_pipe_that_nobody_writes_to_is_waited_for_and_that_is_said(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = {}
    for patience, pause in ((0.05, 0.6), (60, 0)):
        monkeypatch.setattr(files, "PIPE_WAIT_SECONDS", patience)
        writer = threading.Timer(pause, pipe.write_text, ["I am\n"])
        writer.start()
        ended = attnviz("run", "--file", str(pipe), "-t", "words", "-q")
        writer.join()
        assert (ended.status, "2 am" in ended.out) == (0, True)
        said[patience] = ended.err

    assert said == {0.05: f"note: waiting for data from '{pipe}'\n", 60: ""}


class Left(BaseException):
    """In place of the end of the process."""


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Signals are ours, and the process does not end."""
    left: list[int] = []

    def leave(status: int) -> None:
        left.append(status)
        raise Left

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(exit_handling, "_EXIT_STATE", exit_handling._ExitState())
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exit_handling.exit_on_signals()
    yield left
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_from_itself_and_no_file_is_left(
    tmp_path: Path, signalled: list[int], number: signal.Signals
) -> None:
    def interrupted() -> Iterator[bytes]:
        yield b"half"
        assert len(list((tmp_path / "new").iterdir())) == 1
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except Left:
            assert list(tmp_path.iterdir()) == []  # before anything else could hear of it
            raise

    def write() -> None:
        with atomic_files.AllOrNothing() as together:
            together.write(tmp_path / "new" / "a.txt", interrupted())

    with pytest.raises((Left, ValueError)):
        write()

    assert signalled == [128 + number]


def test_while_files_appear_a_signal_waits(tmp_path: Path, signalled: list[int]) -> None:
    def write() -> None:
        with exit_handling.delay_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            with atomic_files.AllOrNothing() as together:
                together.write(tmp_path / "a.txt", [b"whole"])
                together.write(tmp_path / "b.txt", [b"whole"])
            assert signalled == []

    with pytest.raises(Left):
        write()

    assert signalled == [143]
    assert [each.read_text() for each in tmp_path.iterdir()] == ["whole", "whole"]


def test_who_wants_a_signal_ignored_is_obeyed(signalled: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    exit_handling.exit_on_signals()
    os.kill(os.getpid(), signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signalled == []


def test_a_name_with_a_zero_byte_is_that_of_no_file() -> None:
    with pytest.raises(AttnvizError, match="there is no file"):
        files.read_content(Path("a\x00b"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["run", "--file", "a.txt", "-o", "./a.txt"],
            "'a.txt' is read by this command, and would be overwritten",
        ),
        (
            ["run", "--given", "a.json", "-o", "b/../a.json"],
            "is read by this command, and would be overwritten",
        ),
        (
            ["steps", "--trace", "a.json", "-o", "link.json"],
            "is read by this command, and would be overwritten",
        ),
        (
            ["run", "a", "--embeddings", "a.txt#x", "-o", "a.txt"],
            "is read by this command, and would be overwritten",
        ),
        (
            ["learn", "reverse", "--save", "b", "-o", "b/config.json"],
            "'b/config.json' has the name of a file of the model in 'b'",
        ),
        (
            ["heads", "--model", "b", "-o", "b/vocabulary.json"],
            "'b/vocabulary.json' has the name of a file of the model in 'b'",
        ),
    ],
    ids=lambda words: " ".join(words[:3]) if isinstance(words, list) else "",
)
def test_what_is_read_and_the_files_of_a_model_are_not_written_over(
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "a.json"):
        Path(name).write_text("{}")
    Path("b").mkdir()
    Path("link.json").symlink_to("a.json")

    result = attnviz(*words)

    assert result.status == 2
    assert problem in result.err.splitlines()[0]
    assert (Path("a.txt").read_text(), Path("a.json").read_text()) == ("{}", "{}")
    assert list(Path("b").iterdir()) == []


def test_other_files_may_stand_beside_a_model_or_have_its_name() -> None:
    def refused(path: str, *others: str) -> bool:
        try:
            atomic_files.refuse_overwriting([Path(path)], others)
        except AttnvizError:
            return True
        return False

    assert refused("toy/config.json", "toy")
    assert refused("toy/numbers.json", "toy/numbers.json")
    assert not refused("toy/numbers.json", "toy/config.json", "\0")
    assert not refused("toy", "toy/config.json", "\0")
    assert not refused("toy/numbers.json", "toy")
