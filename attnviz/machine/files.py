"""Reads files within size limits, checks paths for writing, marks names found in files."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Container, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from attnviz.errors import AttnvizError, Note, opt
from attnviz.machine import memory
from attnviz.wording.commands import shell_quote

MAX_PATH_BYTES = 255, 4096  # of a name, and of a path with its final zero byte, by default
TEMPORARY_NAME_BYTES = 25  # of a temporary file in machine/atomic_files.py
LFS_START, LFS_HINT = b"version https://git-lfs", "fetch the file itself: git lfs pull"
PIPE_WAIT_SECONDS = 1.0  # before a note says that a pipe is being waited for

FolderState = tuple[tuple[str, int, int], ...]  # path, size and time of change of each file
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
MAX_FILE_BYTES: dict[FileKind, int] = {  # all are read as a whole, except those of vectors
    **dict.fromkeys(("text", "lesson", "grammar", "task"), 10 * 10**6),
    "file of matrices": 20 * 10**6,
    "file of arrays": 2 * 10**9,
    "trace": 2 * 10**9,
    "file of vectors": 10 * 10**9,
    "model": 20 * 10**6,
}
_ALLOWED_BYTES: ContextVar[int | None] = ContextVar("allowed", default=None)


def set_size_limit(size: str | None) -> None:
    """Set the largest size of files of all kinds, such as "2GB"; refuse what is no size.

    None: the default of each kind.
    """
    _ALLOWED_BYTES.set(None if size is None else memory.parse_size(size, opt.limit))


def size_limits() -> list[str]:
    """Return the largest size of each kind of file, in words."""
    return [f"a {kind} {memory.format_size(amount)}" for kind, amount in MAX_FILE_BYTES.items()]


def size_limit(kind: FileKind) -> int:
    return _ALLOWED_BYTES.get() or MAX_FILE_BYTES[kind]


def refuse_larger(amount: int, name: str, kind: FileKind) -> None:
    """Refuse `amount` bytes if a file of this kind may not have so many.

    Such a file is likely to be given by mistake. `name` is the file's in the error.
    """
    if amount > size_limit(kind):
        raise AttnvizError(
            f"{name} has more than {memory.format_size(size_limit(kind))}, the most that a {kind} "
            "may have",
            f"give less, or allow more with: {opt.limit:{memory.format_size_limit(amount)}}",
        )


def read_stream(stream: BinaryIO, name: str, kind: FileKind) -> bytes:
    """Return the content of a stream; refuse one beyond the size limit, as it may be endless.

    `name` is that of the stream in the error.
    """
    content = stream.read(size_limit(kind) + 1)
    refuse_larger(len(content), name, kind)
    return content


def read_content(path: Path, kind: FileKind = "text") -> bytes:
    """Return the content of a file; refuse one that is missing, unreadable or too large."""
    with reporting_unreadable(path), _noting_pipe_wait(path), path.open("rb") as file:
        refuse_larger(os.fstat(file.fileno()).st_size, f"'{path}'", kind)
        return read_stream(file, f"'{path}'", kind)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without a line break at its end; refuse one that is missing,
    unreadable, too large, or not UTF-8."""
    text = decode_utf8(read_content(path), f"'{path}'")
    return without_last_break(text)


def without_last_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


@contextmanager
def reporting_unreadable(path: Path) -> Iterator[None]:
    """Raise an error of opening or reading a file inside the `with` block as an AttnvizError."""
    try:
        yield
    except (FileNotFoundError, ValueError):  # ValueError: a name with a zero byte
        raise AttnvizError(f"there is no file '{path}'", "check its name and folder") from None
    except IsADirectoryError:
        raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it") from None
    except OSError as error:
        problem = f"'{path}' cannot be read: {error_reason(error)}"
        raise AttnvizError(problem, "check its permissions") from None


def read_lines(path: Path) -> Generator[str, None, None]:
    """Return the lines of a UTF-8 file, without line breaks, read one after another.

    Refuses a file that is missing or unreadable at once, and later a line that is too long or is
    not UTF-8.
    """
    with reporting_unreadable(path):
        file = path.open("rb")
    return iterate_lines(file, f"'{path}'")


def iterate_lines(stream: BinaryIO, name: str) -> Generator[str, None, None]:
    """Yield the lines of a stream as `read_lines` does, and close it at the end; `name` is the
    stream's in errors."""
    with stream:
        limit = size_limit("text")
        for number, line in enumerate(iter(partial(stream.readline, limit + 1), b""), 1):
            line_name = f"line {number:,} of {name}"
            refuse_larger(len(line), line_name, "text")
            yield decode_utf8(line, line_name).rstrip("\r\n")


@contextmanager
def _noting_pipe_wait(path: Path) -> Iterator[None]:
    """Give a note if a pipe has no data after a second, as the run would wait silently."""
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
    """Return whether a path is that of a file; False for a name that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file only says which file Git LFS has in its place."""
    with path.open("rb") as file:
        return file.read(len(LFS_START)) == LFS_START


def read_folder_state(folder: Path) -> FolderState:
    """Return the path, size and time of change of each file in a folder, or of one file, to notice
    changes.

    It is () if the folder or file cannot be read.
    """
    try:
        entries = [folder] if folder.is_file() else folder.resolve().iterdir()
        paths = [path for path in sorted(entries) if path.is_file()]
        stats = {str(path): path.stat() for path in paths}
    except OSError:  # reported when the files are read
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items())


def decode_utf8(content: bytes, name: str) -> str:
    """Return UTF-8 bytes as text, without a byte order mark; refuse other bytes.

    `name` is that of the source in the error.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttnvizError(
            f"{name} is not UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}",
            "save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
        ) from None


def split_inner_name(name: str) -> tuple[Path, str]:
    """Return a file's path, and the name of a part of it after `#`, or "".

    >>> split_inner_name("model.safetensors#wte.weight")[1]
    'wte.weight'
    """
    path, _, inner = (name, "", "") if is_file(Path(name)) else name.partition("#")
    return Path(path), inner


def refuse_missing_file(path: Path, purpose: str) -> None:
    """Refuse a path where no regular file is.

    `purpose` is what the file is for, such as "take embeddings from".
    """
    if is_file(path):
        return
    with suppress(OSError):  # too long a name
        if path.exists():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise AttnvizError(
                f"'{path}' is {kind}: there is nothing to {purpose}", "give the name of a file"
            )
    raise AttnvizError(f"there is no file '{path}' to {purpose}", "check its path")


def refuse_folder(path: Path) -> None:
    """Refuse to write to a path that is a folder."""
    with reporting_unwritable(path):  # too long a name, for example
        if path.is_dir():
            raise AttnvizError(f"'{path}' is a folder", "give the name of a file in it")


def _refuse_locked_file(path: Path) -> None:
    """Refuse to overwrite a read-only file, and anything that is not a regular file."""
    with reporting_unwritable(path):  # too long a name, for example
        if not path.exists():
            return
    if not path.is_file():
        raise AttnvizError(f"'{path}' is not a regular file", "choose another name")
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise AttnvizError(f"'{path}' is read-only", "choose another name, or make it writable")


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed for it.

    That is one that is read-only, too long, no regular file, or in a folder without permission. A
    missing folder is not refused.
    """
    if "\0" in str(path):
        error = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        raise unwritable_file_error(path, error)
    _refuse_locked_file(path)
    try:
        target = path.resolve()
        folder = next(parent for parent in target.parents if parent.exists())
    except FileNotFoundError:
        raise AttnvizError(
            f"'{path}' cannot be written: the current folder no longer exists",
            "cd to another folder",
        ) from None
    except (RuntimeError, OSError):  # of a link that leads back to itself
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
    """Refuse a path in a folder that does not exist: its name may be misspelt."""
    for folder in (path.parent, path.resolve().parent):  # of the path, and of a link's target
        if not folder.is_dir():
            raise AttnvizError(
                f"there is no folder '{folder}'",
                f"make it with: mkdir -p {shell_quote(str(folder))}",
            )


def _refuse_long_path(path: Path, target: Path, folder: Path) -> None:
    """Refuse too long a path, also where missing folders hide that from the system.

    `target` is the path with links resolved, `folder` the nearest folder that exists.
    """
    name_limit, path_limit = MAX_PATH_BYTES
    if hasattr(os, "pathconf"):
        with suppress(OSError):  # not known for this disk
            name_limit, path_limit = (
                os.pathconf(folder, limit_name) for limit_name in ("PC_NAME_MAX", "PC_PATH_MAX")
            )
    parts = [len(os.fsencode(part)) for part in target.relative_to(folder).parts]
    temporary = len(os.fsencode(target.parent)) + 1 + TEMPORARY_NAME_BYTES
    if max(parts) > name_limit or max(temporary, len(os.fsencode(target))) >= path_limit:
        error = OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        raise unwritable_file_error(path, error)


@contextmanager
def reporting_unwritable(path: Path) -> Iterator[None]:
    """Raise an error of the system inside the `with` block as an AttnvizError about a file."""
    try:
        yield
    except OSError as error:
        raise unwritable_file_error(path, error) from None


def unwritable_file_error(path: Path, error: OSError) -> AttnvizError:
    problem = f"'{path}' cannot be written: {error_reason(error)}"
    return AttnvizError(problem, "choose another file or folder")


def error_reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class NameInFile(str):
    """A name from a data file: a string that loaders refuse.

    A name that the user types, or gives to the library, is a plain `str` and replaces it.
    """

    __slots__ = ()


def name_in_file(name: object, shipped_names: Container[object] = ()) -> object:
    """Return a name from a data file marked as a NameInFile.

    What is not a string, and a name of something shipped with attnviz, is returned as it is.

    >>> type(name_in_file("minilm", ("minilm",))), type(name_in_file("owner/name", ("minilm",)))
    (<class 'str'>, <class 'attnviz.machine.files.NameInFile'>)
    """
    return NameInFile(name) if isinstance(name, str) and name not in shipped_names else name


def refuse_name_in_file(name: str, kind: str, hint: str, *, about: str = "") -> None:
    """Refuse a NameInFile: what only a data file names is not loaded.

    Every function that loads a name calls this. `kind` says what the name is of, such as "model".
    """
    if isinstance(name, NameInFile):
        raise AttnvizError(
            f"the {kind} '{name}' is named in a data file, and attnviz loads only what you name "
            "yourself",
            hint,
            about=about,
        )
