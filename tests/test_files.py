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
from tests.refusals import refusal_lines


def half_written_content() -> Iterator[bytes]:
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

    def write_interrupted() -> None:
        with atomic_files.AllOrNothing() as together:
            together.write(tmp_path / "a.txt", [b"after"])
            together.write(tmp_path / "new" / "b.txt", half_written_content())

    with pytest.raises(KeyboardInterrupt):
        write_interrupted()

    assert (tmp_path / "a.txt").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_new_file_has_the_rights_that_this_user_gives_and_an_old_one_keeps_its(
    tmp_path: Path,
) -> None:
    old_file = tmp_path / "old.txt"
    old_file.write_text("before")
    old_file.chmod(0o640)
    mask = os.umask(0o022)

    with atomic_files.AllOrNothing() as together:
        together.write(old_file, [b"x"])
        together.write(tmp_path / "new.txt", [b"x"])

    os.umask(mask)
    assert old_file.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o644


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")

    with atomic_files.AllOrNothing() as together:
        together.write(tmp_path / "link.txt", [b"after"])

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"


def test_what_is_locked_or_no_file_stays(tmp_path: Path) -> None:
    locked_file, pipe, loop = (tmp_path / name for name in ("locked.txt", "pipe.txt", "loop.txt"))
    locked_file.write_text("before")
    locked_file.chmod(0o444)
    os.mkfifo(pipe)
    loop.symlink_to(loop)

    problems = {
        locked_file: "is read-only",
        pipe: "is not a regular file",
        loop: "is a link to itself",
    }
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
    abandoned_file, file_of_living_run, file_of_user = (
        tmp_path / f".attnviz-{name}" for name in ("0123456789abcdef", "fedcba9876543210", "notes")
    )
    for each in (abandoned_file, file_of_living_run, file_of_user):
        each.write_text("half")

    with file_of_living_run.open() as living_file:
        fcntl.flock(living_file, fcntl.LOCK_EX)
        with atomic_files.AllOrNothing() as together:
            together.write(tmp_path / "a.txt", [b"x"])

    assert sorted(tmp_path.iterdir()) == sorted(
        [file_of_living_run, file_of_user, tmp_path / "a.txt"]
    )


def test_what_is_being_written_is_left_alone_by_others(tmp_path: Path) -> None:
    with atomic_files.AllOrNothing() as our_files:
        our_files.write(tmp_path / "a.txt", [b"ours"])
        with atomic_files.AllOrNothing() as their_files:
            their_files.write(tmp_path / "b.txt", [b"theirs"])

    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_where_one_cannot_appear_the_others_are_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("before")

    def write_blocked() -> None:
        with atomic_files.AllOrNothing() as together:
            for name in ("old.txt", "new.txt", "folder", "last.txt"):
                together.write(tmp_path / name, [b"after"])
            (tmp_path / "folder").mkdir()  # by somebody else, meanwhile

    with pytest.raises(AttnvizError, match="folder' cannot be written: is a directory"):
        write_blocked()

    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "old.txt"]
    assert (tmp_path / "old.txt").read_text() == "before"


def test_a_file_cannot_be_in_a_file_that_is_written_with_it(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert refusal_lines(attnviz("run", "a b", "-o", "c.json", "-o", "c.json/b.svg")) == (
        "'c.json' is to be a file, so 'c.json/b.svg' cannot be in it",
        "choose another folder",
    )
    assert list(tmp_path.iterdir()) == []


def occupy(path: Path, kind: str) -> None:
    """Create something at the path that no output may replace."""
    if kind == "locked":
        path.write_text("OLD")
        path.chmod(0o444)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/null")


@pytest.mark.parametrize("kind", ["locked", "folder", "pipe", "device", "long"])
@pytest.mark.parametrize("placeholder", ["step", "page"])
def test_a_name_with_a_place_in_it_is_checked_when_it_is_known(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, placeholder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    start = "s" * 245 if kind == "long" else "s"
    occupied_path = Path("s-06-scaling.svg" if placeholder == "step" else "s-1.svg")
    occupy(occupied_path, kind)
    command = (
        ["steps", "I am", "--step", "scores,scaling"] if placeholder == "step" else ["run", "I am"]
    )
    name = f"{start}-{{{placeholder}}}{'x' * 5 if kind == 'long' else ''}.svg"

    result = attnviz(*command, "-o", name)

    assert result.status == 2
    assert "error: 's" in result.err
    assert [each.name for each in tmp_path.iterdir()] == (
        [occupied_path.name] if kind != "long" else []
    )
    assert kind != "locked" or occupied_path.read_text() == "OLD"


LONG_NAME = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "a", "-o", f"{LONG_NAME}.png"],
        ["run", "a", "-o", f"{LONG_NAME}/a.png"],
        ["run", "a", "-o", f"{'long/' * 1000}a.png"],
        ["run", "--given", f"{LONG_NAME}.toml"],
        ["run", "a", "--embeddings", f"{LONG_NAME}.txt"],
        ["run", "a", "--embeddings", f"{LONG_NAME}.safetensors#x"],
        ["run", "--file", f"{LONG_NAME}.txt"],
        ["run", "--trace", f"{LONG_NAME}.npz"],
        ["example", "show", f"{LONG_NAME}.toml"],
        ["example", "check", f"{LONG_NAME}.toml"],
    ],
    ids=lambda arguments: " ".join(arguments)[:24],
)
def test_a_name_that_is_too_long_gets_two_lines(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    result = attnviz(*arguments)

    assert (result.status, len(result.err.splitlines())) == (2, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn", "reverse", "--save", f"new/{LONG_NAME}"],
        ["learn", "reverse", "--save", f"new/{LONG_NAME}/m"],
        ["learn", "reverse", "-o", f"new/{LONG_NAME}.csv"],
        ["learn", "reverse", "--save", "m", "-o", f"new/{LONG_NAME}.json"],
        ["run", "a", "-o", f"new/{'ä' * 126}.csv"],
        ["run", "a", "-o", f"{'new/' * 1100}a.csv"],
    ],
    ids=lambda arguments: " ".join(arguments)[:34],
)
def test_a_name_that_is_too_long_in_a_new_folder_is_refused_before_any_work(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "attnviz.learning.training.Training.__init__", lambda *_: pytest.fail("it works")
    )

    path = shorten_text(
        arguments[-1] + "/config.json" * (arguments[-2] == "--save"), MAX_QUOTED_PATH_LETTERS
    )
    assert attnviz(*arguments).err == (
        f"error: '{path}' cannot be written: file name too long\n"
        " hint: choose another file or folder\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "folder"),
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
    arguments: tuple[str, ...],
    folder: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal_lines(attnviz(*arguments)) == (
        f"there is no folder '{folder}'",
        f"make it with: mkdir -p {shlex.quote(folder)}",
    )
    assert list(tmp_path.iterdir()) == []


def test_the_library_makes_no_folder_either(tmp_path: Path) -> None:
    with pytest.raises(AttnvizError, match="there is no folder"):
        trace("I am", tokenizer="words").save(tmp_path / "new" / "z.json")

    assert list(tmp_path.iterdir()) == []


def test_the_longest_path_is_one_that_a_temporary_name_fits_beside(tmp_path: Path) -> None:
    longest_path_bytes, temporary_name_bytes = 4096 - 1, len(".attnviz-0123456789abcdef")
    assert temporary_name_bytes == files.TEMPORARY_NAME_BYTES

    def path_of(length: int, name: str) -> Path:
        """A path of so many bytes, in folders that do not exist."""
        left = length - len(f"{tmp_path}//{name}")
        parts = ["d" * 99] * (left // 100) + ["d" * (left % 100)] * (left % 100 > 0)
        return tmp_path.joinpath(*parts, name)

    for name in ("a.csv", "a" * temporary_name_bytes):
        longest_allowed = longest_path_bytes - max(0, temporary_name_bytes - len(name))
        for length in (
            longest_allowed - 2,
            longest_allowed - 1,
            longest_allowed,
            longest_allowed + 1,
        ):
            path = path_of(length, name)
            if len(str(path)) > longest_allowed:
                with pytest.raises(AttnvizError, match="file name too long"):
                    files.refuse_unwritable(path)
            else:
                files.refuse_unwritable(path)
                with atomic_files.AllOrNothing() as together:
                    together.write(path, [b"x"])


@pytest.mark.parametrize(
    ("kind", "description"), [("folder", "a folder"), ("pipe", "not a regular file")]
)
def test_what_is_no_file_holds_no_matrices(
    attnviz: Attnviz, tmp_path: Path, kind: str, description: str
) -> None:
    occupy(tmp_path / "x.toml", kind)

    assert refusal_lines(attnviz("run", "--given", str(tmp_path / "x.toml"))) == (
        f"'{tmp_path / 'x.toml'}' is {description}: there is nothing to take matrices from",
        "give the name of a file",
    )


def test_a_folder_that_is_gone_gets_two_lines(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    result = attnviz("run", "a", "-o", "a.json")

    assert result.status == 2
    assert result.err.startswith(
        "error: 'a.json' cannot be written: the current folder no longer exists"
    )


def test_a_pipe_that_nobody_writes_to_is_waited_for_and_that_is_said(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    notes_by_patience = {}
    for patience, pause in ((0.05, 0.6), (60, 0)):
        monkeypatch.setattr(files, "PIPE_WAIT_SECONDS", patience)
        writer = threading.Timer(pause, pipe.write_text, ["I am\n"])
        writer.start()
        result = attnviz("run", "--file", str(pipe), "-t", "words", "-q")
        writer.join()
        assert (result.status, "2 am" in result.out) == (0, True)
        notes_by_patience[patience] = result.err

    assert notes_by_patience == {0.05: f"note: waiting for data from '{pipe}'\n", 60: ""}


class ProcessEnded(BaseException):
    """Raised instead of ending the process."""


@pytest.fixture
def exit_statuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The exit statuses of signals, which do not end the process."""
    statuses: list[int] = []

    def record_status(status: int) -> None:
        statuses.append(status)
        raise ProcessEnded

    monkeypatch.setattr(os, "_exit", record_status)
    monkeypatch.setattr(exit_handling, "_EXIT_STATE", exit_handling._ExitState())
    previous_handlers = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exit_handling.exit_on_signals()
    yield statuses
    for number, handler in previous_handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_from_itself_and_no_file_is_left(
    tmp_path: Path, exit_statuses: list[int], number: signal.Signals
) -> None:
    def interrupted_content() -> Iterator[bytes]:
        yield b"half"
        assert len(list((tmp_path / "new").iterdir())) == 1
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except ProcessEnded:
            assert list(tmp_path.iterdir()) == []  # before anything else could hear of it
            raise

    def write() -> None:
        with atomic_files.AllOrNothing() as together:
            together.write(tmp_path / "new" / "a.txt", interrupted_content())

    with pytest.raises((ProcessEnded, ValueError)):
        write()

    assert exit_statuses == [128 + number]


def test_while_files_appear_a_signal_waits(tmp_path: Path, exit_statuses: list[int]) -> None:
    def write() -> None:
        with exit_handling.delay_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            with atomic_files.AllOrNothing() as together:
                together.write(tmp_path / "a.txt", [b"whole"])
                together.write(tmp_path / "b.txt", [b"whole"])
            assert exit_statuses == []

    with pytest.raises(ProcessEnded):
        write()

    assert exit_statuses == [143]
    assert [each.read_text() for each in tmp_path.iterdir()] == ["whole", "whole"]


def test_who_wants_a_signal_ignored_is_obeyed(exit_statuses: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    exit_handling.exit_on_signals()
    os.kill(os.getpid(), signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert exit_statuses == []


def test_a_name_with_a_zero_byte_is_that_of_no_file() -> None:
    with pytest.raises(AttnvizError, match="there is no file"):
        files.read_content(Path("a\x00b"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
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
        (
            ["pairs", "a.txt", "-o", "b/../a.txt"],
            "is read by this command, and would be overwritten",
        ),
        (
            ["quiz", "a.txt", "-o", "a.txt"],
            "'a.txt' is read by this command, and would be overwritten",
        ),
        (
            ["compare", "a", "--checkpoints", "[b]", "-o", "b/generation_config.json"],
            "'b/generation_config.json' has the name of a file of the model in 'b'",
        ),
        (
            ["inspect", "a", "--model", "b", "-o", "b/vocab.txt"],
            "'b/vocab.txt' has the name of a file of the model in 'b'",
        ),
    ],
    ids=lambda arguments: " ".join(arguments[:3]) if isinstance(arguments, list) else "",
)
def test_what_is_read_and_the_files_of_a_model_are_not_written_over(
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "a.json"):
        Path(name).write_text("{}")
    Path("b").mkdir()
    Path("b/config.json").write_text("{}")
    Path("link.json").symlink_to("a.json")

    result = attnviz(*arguments)

    assert result.status == 2
    assert problem in result.err.splitlines()[0]
    assert (Path("a.txt").read_text(), Path("a.json").read_text()) == ("{}", "{}")
    assert [path.name for path in Path("b").iterdir()] == ["config.json"]


def test_a_link_in_the_folder_of_a_model_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("{}")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").symlink_to("../blob")

    with pytest.raises(AttnvizError, match="has the name of a file of the model"):
        atomic_files.refuse_overwriting([folder / "config.json"], [folder])


def test_other_files_may_stand_beside_a_model_or_have_its_name() -> None:
    def is_refused(path: str, *others: str) -> bool:
        try:
            atomic_files.refuse_overwriting([Path(path)], others)
        except AttnvizError:
            return True
        return False

    assert is_refused("toy/config.json", "toy")
    assert is_refused("toy/numbers.json", "toy/numbers.json")
    assert not is_refused("toy/numbers.json", "toy/config.json", "\0")
    assert not is_refused("toy", "toy/config.json", "\0")
    assert not is_refused("toy/numbers.json", "toy")
    for name in ("generation_config", "tokenizer.4.0", "model.safetensors.index", "chat_template"):
        assert is_refused(f"toy/{name}.json", "toy")
    assert not is_refused("toy/heads.txt", "toy")
