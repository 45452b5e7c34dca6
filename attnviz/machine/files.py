"""Files that are read, with limits, and what a name in a data file may make attnviz do: nothing."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, Literal

from attnviz.errors import AttnvizError, Note
from attnviz.machine import memory
from attnviz.wording.commands import shell_quoted

MAX_PATH_BYTES = 255, 4096  # bytes of a name, and of a path with its end, where no disk says it
TEMPORARY_NAME_BYTES = 25  # of what is written beside its place: machine/writing.py
PIPE_WAIT_SECONDS = (
    1.0  # seconds, after which a pipe that nobody writes to is said to be waited for
)

FolderState = tuple[tuple[str, int, int], ...]  # of files: paths, sizes, and when they were written
FileKind = Literal[
    "text",
    "lesson",
    "grammar",
    "task",
    "file of matrices",
    "file of arrays",
    "trace",
    "file of vectors",
    "model",
]
MAX_FILE_BYTES: dict[
    FileKind, int
] = {  # bytes; all is read whole, but for vectors, of which some are kept
    "text": 10 * 10**6,
    "lesson": 10 * 10**6,
    "grammar": 10 * 10**6,
    "task": 10 * 10**6,
    "file of matrices": 20 * 10**6,
    "file of arrays": 2 * 10**9,
    "trace": 2 * 10**9,
    "file of vectors": 10 * 10**9,
    "model": 20 * 10**6,
}
_ALLOWED_BYTES: ContextVar[int | None] = ContextVar("allowed", default=None)


def set_size_limit(size: str | None) -> None:
    """From now on files may be so large, whatever is in them; None: as they may be by default."""
    _ALLOWED_BYTES.set(None if size is None else memory.parse_size(size, "--limit"))


def size_limit(kind: FileKind) -> int:
    """How many bytes something of this kind may have."""
    return _ALLOWED_BYTES.get() or MAX_FILE_BYTES[kind]


def refuse_larger(amount: int, name: str, kind: FileKind) -> None:
    """Refuse what would take longer, or more memory, than anybody may have meant."""
    if amount > size_limit(kind):
        raise AttnvizError(
            f"{name} has more than {memory.format_size(size_limit(kind))}, the most that a {kind} may have",
            f"give less, or allow more with: --limit {memory.format_size_limit(amount)}",
        )


def read_stream(stream: BinaryIO, name: str, kind: FileKind) -> bytes:
    """Everything that is in a stream, which may have no end."""
    content = stream.read(size_limit(kind) + 1)
    refuse_larger(len(content), name, kind)
    return content


def read_content(path: Path, kind: FileKind = "text") -> bytes:
    """What is in a file."""
    try:
        with _noting_pipe_wait(path), path.open("rb") as file:
            refuse_larger(os.fstat(file.fileno()).st_size, f"'{path}'", kind)
            return read_stream(file, f"'{path}'", kind)
    except (FileNotFoundError, ValueError):  # which Python says of a name with a zero byte
        raise AttnvizError(f"there is no file '{path}'", "check its name and folder") from None
    except IsADirectoryError:
        raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it") from None
    except OSError as error:
        reason_text = error_reason(error)
        raise AttnvizError(
            f"'{path}' cannot be read: {reason_text}", "check its permissions"
        ) from None


@contextmanager
def _noting_pipe_wait(path: Path) -> Iterator[None]:
    """A pipe is read when somebody writes to it, and nobody may know that it is waited for."""
    note = Note(f"waiting for data from '{path}'")
    timer = threading.Timer(PIPE_WAIT_SECONDS, warnings.warn, [note])
    timer.daemon = True
    if path.is_fifo():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def is_file(path: Path) -> bool:
    """Whether a file is there; a name that is too long for one is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_folder_state(folder: Path) -> FolderState:
    """By which it can be told whether any file of a folder is another by now."""
    try:
        folder_files = [entry for entry in sorted(folder.resolve().iterdir()) if entry.is_file()]
        stats = [entry.stat() for entry in folder_files]
    except OSError:  # whoever reads them says what is wrong
        return ()
    pairs = zip(folder_files, stats, strict=True)
    return tuple((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in pairs)


def decode_utf8(content: bytes, name: str) -> str:
    """UTF-8 as text; `name` is what it is called in messages."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttnvizError(
            f"{name} is not UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}",
            "save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
        ) from None


def split_inner_name(name: str) -> tuple[Path, str]:
    """A file, and the name of what is wanted in it: `model.safetensors#wte.weight`.

    >>> split_inner_name("model.safetensors#wte.weight")[1]
    'wte.weight'
    """
    path, _, inner = (name, "", "") if is_file(Path(name)) else name.partition("#")
    return Path(path), inner


def refuse_missing_file(path: Path, purpose: str) -> None:
    if is_file(path):
        return
    with suppress(OSError):  # a name that is too long for anything
        if path.exists():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise AttnvizError(
                f"'{path}' is {kind}: there is nothing to {purpose}", "give the name of a file"
            )
    raise AttnvizError(f"there is no file '{path}' to {purpose}", "check its path")


def refuse_folder(path: Path) -> None:
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long, for one
        raise unwritable_file_error(path, error) from None
    if is_folder:
        raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it")


def _refuse_locked_file(path: Path) -> None:
    """A file that its owner has locked stays, and so does what is no file."""
    try:
        exists = path.exists()
    except OSError as error:  # a name that is too long, for one
        raise unwritable_file_error(path, error) from None
    if not exists:
        return
    if not path.is_file():
        raise AttnvizError(f"'{path}' is not a regular file", "choose another name")
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise AttnvizError(f"'{path}' is read-only", "choose another name, or make it writable")


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed for it."""
    _refuse_locked_file(path)
    try:
        target = path.resolve()
        folder = next(parent for parent in target.parents if parent.exists())
    except FileNotFoundError:
        raise AttnvizError(
            f"'{path}' cannot be written: the current folder no longer exists",
            "cd to another folder",
        ) from None
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
    _refuse_long_path(path, target, folder)


def refuse_missing_folder(path: Path) -> None:
    """Refuse a new file, or folder, in a folder that does not exist: its name may be misspelt."""
    for folder in (path.parent, path.resolve().parent):  # of the name, and of where a link leads
        if not folder.is_dir():
            raise AttnvizError(
                f"there is no folder '{folder}'",
                f"make it with: mkdir -p {shell_quoted(str(folder))}",
            )


def _refuse_long_path(path: Path, target: Path, folder: Path) -> None:
    """Refuse names that nobody has tried yet, because the folders before them are not there."""
    name_limit, path_limit = MAX_PATH_BYTES
    if hasattr(os, "pathconf"):
        with suppress(OSError):  # a disk that does not say
            name_limit, path_limit = (
                os.pathconf(folder, limit_name) for limit_name in ("PC_NAME_MAX", "PC_PATH_MAX")
            )
    parts = [len(os.fsencode(part)) for part in target.relative_to(folder).parts]
    temporary = len(os.fsencode(target.parent)) + 1 + TEMPORARY_NAME_BYTES
    if max(parts) > name_limit or max(temporary, len(os.fsencode(target))) >= path_limit:
        raise unwritable_file_error(
            path, OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        )


def unwritable_file_error(path: Path, error: OSError) -> AttnvizError:
    reason_text = error_reason(error)
    return AttnvizError(
        f"'{path}' cannot be written: {reason_text}", "choose another file or folder"
    )


def error_reason(error: OSError) -> str:
    """What the system says is wrong."""
    return (error.strerror or str(error)).lower()


class NameInFile(str):
    """A name that a data file gave: text like any other, but whoever would load it refuses.

    What somebody types, or hands to the library, is a plain `str`, and takes its place.
    """

    __slots__ = ()


def name_in_file(name: object, shipped_names: Container[object] = ()) -> object:
    """A name as a file gives it; one of those that come with attnviz needs no permission.

    >>> type(name_in_file("minilm", ("minilm",))), type(name_in_file("owner/name", ("minilm",)))
    (<class 'str'>, <class 'attnviz.machine.files.NameInFile'>)
    """
    return NameInFile(name) if isinstance(name, str) and name not in shipped_names else name


def refuse_name_in_file(name: str, kind: str, hint: str, *, about: str = "") -> None:
    """Refuse to load what only a file names; everything that loads by a name begins with this."""
    if isinstance(name, NameInFile):
        raise AttnvizError(
            f"the {kind} '{name}' is named in a data file, and attnviz loads only what you name "
            "yourself",
            hint,
            about=about,
        )
