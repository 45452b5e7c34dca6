"""AllOrNothing: writes several files completely or not at all, whatever ends the run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from attnviz.errors import AttnvizError
from attnviz.machine import exit_handling
from attnviz.machine.files import (
    refuse_folder,
    refuse_missing_folder,
    refuse_unwritable,
    reporting_unwritable,
    split_inner_name,
    unwritable_file_error,
)

try:
    import fcntl
except ImportError:  # Windows: abandoned files cannot be told from those being written
    fcntl = None  # type: ignore[assignment]

TEMPORARY_PREFIX = ".attnviz-"
# Files in a model's folder whose suffix `-o` could write, too.
MODEL_FILE = re.compile(
    r"((.*_)?config|tokenizer.*|added_tokens|special_tokens_map|chat_template|.*\.index|training"
    r"|trainer_state|vocab|vocabulary)\.json|(vocab|merges)\.txt",
    re.IGNORECASE,
)
TEMPORARY_NAME = re.compile(rf"{re.escape(TEMPORARY_PREFIX)}[0-9a-f]{{16}}")  # see files.py


def refuse_unwritable_paths(paths: Sequence[Path]) -> None:
    """Refuse output paths that cannot be written, such as a folder or one without permission.

    Also refuses paths of which one would be a folder of the other, and a path in a missing folder.
    """
    for path in paths:
        refuse_folder(path)
        refuse_unwritable(path)
    targets = {path: path.resolve() for path in paths}
    for path, target in targets.items():
        for other_path, other_target in targets.items():
            if target in other_target.parents:
                raise AttnvizError(
                    f"'{path}' is to be a file, so '{other_path}' cannot be in it",
                    "choose another folder",
                )
    for path in paths:
        refuse_missing_folder(path)


def refuse_overwriting(paths: Iterable[Path], other_names: Iterable[str | Path]) -> None:
    """Refuse an output path that is one of the files the command reads, `other_names`.

    If one of these is a folder with a model, the names of model files there are refused, too.
    """
    for path in paths:
        for other_name in other_names:
            with suppress(OSError, ValueError, RuntimeError):  # reported when the file is read
                target, link = path.resolve(), path.parent.resolve() / path.name
                other_target = split_inner_name(str(other_name))[0].resolve()
                if target == other_target:
                    raise AttnvizError(
                        f"'{path}' is read by this command, and would be overwritten",
                        "write to another file",
                    )
                if any(
                    each.parent == other_target and MODEL_FILE.fullmatch(each.name)
                    for each in (target, link)
                ):
                    raise AttnvizError(
                        f"'{path}' has the name of a file of the model in '{other_name}'",
                        "choose another name",
                    )


@dataclass(frozen=True)
class _TemporaryFile:
    """A file that is written under a temporary name next to its target, and renamed at the end."""

    temporary: Path
    target: Path
    path: Path  # as the user gave it


class AllOrNothing:
    """Several files that appear together when the `with` block ends, or not at all if it fails.

    Each is written under a temporary name next to its target and renamed at the end. So an
    interrupt or a full disk leaves the previous files as they were. Temporary files of a run that
    was killed are removed by the next run that writes to that folder.
    """

    def __init__(self) -> None:
        self._files: list[_TemporaryFile] = []
        self._backups: dict[Path, Path] = {}  # target: the previous file, under another name
        self._made_folders: list[Path] = []
        self._swept_folders: set[Path] = set()
        self._locks = ExitStack()

    def __enter__(self) -> AllOrNothing:
        self._locks.enter_context(exit_handling.undo_on_signal(self._undo))
        return self

    def write(self, path: Path, chunks: Iterable[bytes]) -> None:
        """Write a file under its temporary name; makes folders that are missing.

        Refuses a path that cannot be written.
        """
        target = path.resolve()
        with reporting_unwritable(path):
            self._make_folders(target.parent)
            self._sweep(target.parent)
            with self._open_temporary(path, target) as stream:
                stream.writelines(chunks)
            self._files[-1].temporary.chmod(_file_mode(target))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._locks:
            if kind is None:
                with exit_handling.delay_signals():
                    self._rename_all()
            else:
                self._undo()

    def _open_temporary(self, path: Path, target: Path) -> BinaryIO:
        """Open a new, locked temporary file beside `target`.

        It is listed before it exists, so that it can be undone. `path` is the target as the user
        gave it.
        """
        while True:
            self._files.append(_TemporaryFile(_unused_path(target.parent), target, path))
            stream = self._files[-1].temporary.open("xb")
            self._locks.callback(os.close, os.dup(stream.fileno()))  # keeps the lock
            if _take_lock(stream.fileno()) and os.fstat(stream.fileno()).st_nlink:
                return stream
            stream.close()
            self._files.pop().temporary.unlink(missing_ok=True)  # another run just swept it

    def _rename_all(self) -> None:
        """Rename all temporary files to their targets.

        If one cannot be renamed, the previous files are restored and the error is raised.
        """
        renamed: list[Path] = []
        try:
            for file in self._files:
                self._back_up(file.target)
                file.temporary.replace(file.target)
                renamed.append(file.target)
        except BaseException as error:
            for target in reversed(renamed):
                self._restore(target)
            self._undo()
            if isinstance(error, OSError):
                raise unwritable_file_error(file.path, error) from None
            raise
        finally:
            for backup in self._backups.values():
                backup.unlink(missing_ok=True)

    def _back_up(self, target: Path) -> None:
        """Give the previous file at `target` a second name, from which it can be restored.

        Does nothing if only one file is written, or if there is no previous one.
        """
        if len(self._files) > 1 and target not in self._backups:
            with suppress(OSError):  # there is no such file, or the disk has no hard links
                backup = _unused_path(target.parent)
                os.link(target, backup)
                self._backups[target] = backup

    def _restore(self, target: Path) -> None:
        """Put the previous file back at `target`, or remove the new one if none is kept."""
        if target in self._backups:
            self._backups[target].replace(target)
        else:
            target.unlink(missing_ok=True)

    def _undo(self) -> None:
        for file in self._files:
            file.temporary.unlink(missing_ok=True)
        for folder in reversed(self._made_folders):
            with suppress(OSError):
                folder.rmdir()

    def _make_folders(self, folder: Path) -> None:
        """Make a folder and those that it is in, if missing, and list them for `_undo`."""
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            self._made_folders.append(parent)
            try:
                parent.mkdir()
            except FileExistsError:  # another process has just made it
                self._made_folders.remove(parent)

    def _sweep(self, folder: Path) -> None:
        """Remove the temporary files that killed runs have left in a folder."""
        if folder in self._swept_folders or fcntl is None:
            return
        self._swept_folders.add(folder)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if TEMPORARY_NAME.fullmatch(entry.name):
                    _remove_abandoned(Path(entry.path))


def _unused_path(folder: Path) -> Path:
    return folder / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"


def _take_lock(number: int) -> bool:
    """Return False if another process has locked the open file `number`; else lock it.

    The lock lasts until the process ends. True is also returned where there are no locks.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # other than this one: the disk has no locks
        return not isinstance(error, BlockingIOError)
    return True


def _remove_abandoned(path: Path) -> None:
    """Remove a file that no process has locked; keeps it if that cannot be determined."""
    with suppress(OSError):
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(number)


def _file_mode(target: Path) -> int:
    """Return the permissions of the previous file, or those that the umask gives a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
