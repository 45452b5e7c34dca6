"""Files that are read, with what to say if they cannot be; and written, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

from attnviz import memory
from attnviz.errors import AttnvizError

Kind = Literal["text", "lesson", "file of matrices", "file of arrays", "trace"]
LARGEST: dict[Kind, int] = {  # bytes, of what is read whole
    "text": 10 * 10**6,
    "lesson": 10 * 10**6,
    "file of matrices": 20 * 10**6,
    "file of arrays": 2 * 10**9,
    "trace": 2 * 10**9,
}
_ALLOWED: ContextVar[int | None] = ContextVar("allowed", default=None)


def allow(size: str | None) -> None:
    """From now on files may be so large, whatever is in them; None: as they may be by default."""
    _ALLOWED.set(None if size is None else memory.amount_of(size, "--limit"))


def largest(kind: Kind) -> int:
    """How many bytes something of this kind may have."""
    return _ALLOWED.get() or LARGEST[kind]


def refuse_larger(amount: int, name: str, kind: Kind) -> None:
    """Refuse what would take longer, or more memory, than anybody may have meant."""
    if amount > largest(kind):
        raise AttnvizError(
            f"{name} has more than {memory.size(largest(kind))}, the most that a {kind} may have",
            f"give less, or allow more with: --limit {memory.roomy(amount)}",
        )


def whole(stream: BinaryIO, name: str, kind: Kind) -> bytes:
    """Everything that is in a stream, which may have no end."""
    content = stream.read(largest(kind) + 1)
    refuse_larger(len(content), name, kind)
    return content


def read(path: Path, kind: Kind = "text") -> bytes:
    """What is in a file."""
    try:
        with path.open("rb") as file:
            refuse_larger(os.fstat(file.fileno()).st_size, f"'{path}'", kind)
            return whole(file, f"'{path}'", kind)
    except FileNotFoundError:
        raise AttnvizError(f"there is no file '{path}'", "check its name and folder") from None
    except IsADirectoryError:
        raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AttnvizError(f"'{path}' cannot be read: {reason}", "check its permissions") from None


def decoded(content: bytes, name: str) -> str:
    """UTF-8 as text; `name` is what it is called in messages."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttnvizError(
            f"{name} is not UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}",
            "save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
        ) from None


def file_and_name(name: str) -> tuple[Path, str]:
    """A file, and the name of what is wanted in it: `model.safetensors#wte.weight`.

    >>> file_and_name("model.safetensors#wte.weight")[1]
    'wte.weight'
    """
    path, _, inner = (name, "", "") if Path(name).is_file() else name.partition("#")
    return Path(path), inner


def refuse_missing(path: Path, purpose: str) -> None:
    if not path.is_file():
        raise AttnvizError(f"there is no file '{path}' to {purpose}", "check its path")


def refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it")


def _refuse_existing(path: Path) -> None:
    """A file that its owner has locked stays, and so does what is no file."""
    if not path.exists():
        return
    if not path.is_file():
        raise AttnvizError(f"'{path}' is no plain file", "choose another name")
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise AttnvizError(f"'{path}' is read-only", "choose another name, or make it writable")


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed for it."""
    _refuse_existing(path)
    try:
        folder = next(parent for parent in path.resolve().parents if parent.exists())
    except (RuntimeError, OSError):  # what Python says of links that lead back to themselves
        raise AttnvizError(f"'{path}' is a link to itself", "choose another name") from None
    if not folder.is_dir():
        raise AttnvizError(
            f"'{folder}' is a file, so '{path}' cannot be in it", "choose another folder"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AttnvizError(
            f"'{path}' cannot be written: no permission in '{folder}'", "choose another folder"
        )


class AllOrNothing:
    """Several files that appear together when the block ends, or not at all if it fails.

    Each is written beside its place under another name and renamed at the end, so that whoever
    interrupts, or runs out of disk, keeps the files that were there before.
    """

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path]] = []
        self._made_folders: list[Path] = []

    def __enter__(self) -> AllOrNothing:
        return self

    def write(self, path: Path, chunks: Iterable[bytes]) -> None:
        place = path.resolve()
        try:
            self._make_folders(place.parent)
            import tempfile  # which a name that is misspelt need not wait for

            number, name = tempfile.mkstemp(dir=place.parent, prefix=".attnviz-")
            self._written.append((Path(name), place))
            with os.fdopen(number, "wb") as file:
                file.writelines(chunks)
            Path(name).chmod(_mode(place))
        except OSError as error:
            raise _unwritable(path, error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self._rename()
            return
        for temporary, _ in self._written:
            temporary.unlink(missing_ok=True)
        for folder in reversed(self._made_folders):
            with suppress(OSError):
                folder.rmdir()

    def _rename(self) -> None:
        for temporary, place in self._written:
            try:
                temporary.replace(place)
            except OSError as error:
                temporary.unlink(missing_ok=True)
                raise _unwritable(place, error) from None

    def _make_folders(self, folder: Path) -> None:
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir()
            self._made_folders.append(parent)


def _mode(place: Path) -> int:
    """What the file had before, or what a new file gets from this user's umask."""
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _unwritable(path: Path, error: OSError) -> AttnvizError:
    reason = (error.strerror or str(error)).lower()
    return AttnvizError(f"'{path}' cannot be written: {reason}", "choose another file or folder")
