"""Files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnviz import files
from attnviz.errors import AttnvizError
from attnviz.renderers import writing


def broken() -> Iterator[bytes]:
    yield b"half"
    raise KeyboardInterrupt


def test_files_appear_together_with_the_folders_they_need(tmp_path: Path) -> None:
    with writing.AllOrNothing() as together:
        together.write(tmp_path / "a.txt", [b"one ", b"two"])
        together.write(tmp_path / "deep" / "er" / "b.txt", [b"three"])
        assert not (tmp_path / "a.txt").exists()

    assert (tmp_path / "a.txt").read_bytes() == b"one two"
    assert (tmp_path / "deep" / "er" / "b.txt").read_bytes() == b"three"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "deep"]


def test_an_interrupted_run_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")

    def interrupted() -> None:
        with writing.AllOrNothing() as together:
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

    with writing.AllOrNothing() as together:
        together.write(old, [b"x"])
        together.write(tmp_path / "new.txt", [b"x"])

    os.umask(mask)
    assert old.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o644


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")

    with writing.AllOrNothing() as together:
        together.write(tmp_path / "link.txt", [b"after"])

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"


def test_what_is_locked_or_no_file_stays(tmp_path: Path) -> None:
    locked, pipe, loop = (tmp_path / name for name in ("locked.txt", "pipe.txt", "loop.txt"))
    locked.write_text("before")
    locked.chmod(0o444)
    os.mkfifo(pipe)
    loop.symlink_to(loop)

    problems = {locked: "is read-only", pipe: "is no plain file", loop: "is a link to itself"}
    for path, problem in problems.items():
        with pytest.raises(AttnvizError, match=problem):
            files.refuse_unwritable(path)


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    with writing.AllOrNothing() as together:
        together.write(tmp_path / ("a" * 251 + ".txt"), [b"x"])

    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(AttnvizError, match="is a folder"):
        files.refuse_folder(tmp_path)
    with pytest.raises(AttnvizError, match="is a file, so"):
        files.refuse_unwritable(tmp_path / "file" / "a.png")
