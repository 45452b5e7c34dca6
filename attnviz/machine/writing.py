"""Files that are written together: all of them whole, or none, whatever ends the run."""

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
from attnviz.machine import leaving
from attnviz.machine.files import (
    file_and_name,
    refuse_folder,
    refuse_missing_folder,
    refuse_unwritable,
    unwritable,
)

try:
    import fcntl
except ImportError:  # not everywhere: there nobody can tell whose file is abandoned
    fcntl = None  # type: ignore[assignment]

PREFIX = ".attnviz-"
OF_MODELS = {  # names of files in their folders that `-o` could write, too
    "added_tokens.json", "config.json", "generation_config.json", "model.safetensors.index.json",
    "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "training.json",
    "vocab.json", "vocab.txt", "vocabulary.json",
}  # fmt: skip
UNFINISHED = re.compile(rf"{re.escape(PREFIX)}[0-9a-f]{{16}}")  # files.LONGEST_TEMPORARY letters


def refuse_paths(paths: Sequence[Path]) -> None:
    """Refuse what cannot be written, each alone or beside the others."""
    for path in paths:
        refuse_folder(path)
        refuse_unwritable(path)
    places = {path: path.resolve() for path in paths}
    for path, place in places.items():
        for other, inner in places.items():
            if place in inner.parents:
                raise AttnvizError(
                    f"'{path}' is to be a file, so '{other}' cannot be in it",
                    "choose another folder",
                )
    for path in paths:
        refuse_missing_folder(path)


def refuse_lost(paths: Iterable[Path], named: Iterable[str | Path]) -> None:
    """Refuse to write over what else is named: a file that is read, or a model's own files."""
    for path in paths:
        for other in named:
            with suppress(OSError, ValueError, RuntimeError):  # whoever reads it says what is wrong
                place, theirs = path.resolve(), file_and_name(str(other))[0].resolve()
                if place == theirs:
                    raise AttnvizError(
                        f"'{path}' is read by this command, and would be overwritten",
                        "write to another file",
                    )
                if place.parent == theirs and place.name.lower() in OF_MODELS:
                    raise AttnvizError(
                        f"'{path}' has the name of a file of the model in '{other}'",
                        "choose another name",
                    )


@dataclass(frozen=True)
class _Written:
    """A file under another name beside its place, which it gets when all are whole."""

    temporary: Path
    place: Path
    path: Path  # as it was given


class AllOrNothing:
    """Several files that appear together when the block ends, or not at all if it fails.

    Each is written beside its place under another name and renamed at the end, so that whoever
    interrupts, or runs out of disk, keeps the files that were there before. What a run that was
    killed left in a folder is removed by the next one that writes there.
    """

    def __init__(self) -> None:
        self._written: list[_Written] = []
        self._kept: dict[Path, Path] = {}  # what was at a place, under another name
        self._made_folders: list[Path] = []
        self._swept: set[Path] = set()
        self._open = ExitStack()

    def __enter__(self) -> AllOrNothing:
        self._open.enter_context(leaving.undoing(self._undo))
        return self

    def write(self, path: Path, chunks: Iterable[bytes]) -> None:
        place = path.resolve()
        try:
            self._make_folders(place.parent)
            self._sweep(place.parent)
            with self._started(path, place) as stream:
                stream.writelines(chunks)
            self._written[-1].temporary.chmod(_mode(place))
        except OSError as error:
            raise unwritable(path, error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._open:
            if kind is None:
                with leaving.undisturbed():
                    self._appear()
            else:
                self._undo()

    def _started(self, path: Path, place: Path) -> BinaryIO:
        """A new file that is locked, and known before it is there."""
        while True:
            self._written.append(_Written(_unused(place.parent), place, path))
            stream = self._written[-1].temporary.open("xb")
            self._open.callback(os.close, os.dup(stream.fileno()))  # which keeps the lock
            if _locked(stream.fileno()) and os.fstat(stream.fileno()).st_nlink:
                return stream
            stream.close()
            self._written.pop().temporary.unlink(missing_ok=True)  # it was swept just now

    def _appear(self) -> None:
        """Rename all; what was at those places comes back if one cannot be renamed."""
        renamed: list[Path] = []
        try:
            for each in self._written:
                self._keep(each.place)
                each.temporary.replace(each.place)
                renamed.append(each.place)
        except BaseException as error:
            for place in reversed(renamed):
                self._put_back(place)
            self._undo()
            if isinstance(error, OSError):
                raise unwritable(each.path, error) from None
            raise
        finally:
            for kept in self._kept.values():
                kept.unlink(missing_ok=True)

    def _keep(self, place: Path) -> None:
        """A second name of what is there, where more than one file is at stake."""
        if len(self._written) > 1 and place not in self._kept:
            with suppress(OSError):  # there is nothing; or this disk knows no second names
                kept = _unused(place.parent)
                os.link(place, kept)
                self._kept[place] = kept

    def _put_back(self, place: Path) -> None:
        if place in self._kept:
            self._kept[place].replace(place)
        else:
            place.unlink(missing_ok=True)

    def _undo(self) -> None:
        for each in self._written:
            each.temporary.unlink(missing_ok=True)
        for folder in reversed(self._made_folders):
            with suppress(OSError):
                folder.rmdir()

    def _make_folders(self, folder: Path) -> None:
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            self._made_folders.append(parent)
            try:
                parent.mkdir()
            except FileExistsError:  # somebody else has made it meanwhile
                self._made_folders.remove(parent)

    def _sweep(self, folder: Path) -> None:
        """Remove what runs that were killed have left there."""
        if folder in self._swept or fcntl is None:
            return
        self._swept.add(folder)
        with suppress(OSError), os.scandir(folder) as found:
            for each in found:
                if UNFINISHED.fullmatch(each.name):
                    _remove_abandoned(Path(each.path))


def _unused(folder: Path) -> Path:
    return folder / f"{PREFIX}{os.urandom(8).hex()}"


def _locked(number: int) -> bool:
    """Take the lock that a file has while somebody writes it; it goes when he does."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this disk knows no locks
        return True
    return True


def _remove_abandoned(path: Path) -> None:
    """A file that nobody holds; whoever cannot be asked keeps his."""
    with suppress(OSError):
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(number)


def _mode(place: Path) -> int:
    """What the file had before, or what a new file gets from this user's umask."""
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
