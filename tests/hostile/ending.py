"""Runs a call, and lists the faults of its status, output and files."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pptx
from PIL import Image

from attnviz.cli.app import run_command_line
from tests.hostile.calls import Call
from tests.hostile.damage import CANARY

MOST_SECONDS = 60  # longer than anything may take, on a machine that does much else
COLORS = re.compile("\x1b\\[[0-9;]*m")  # the only escapes that attnviz prints
RIGHT_TO_LEFT_WORD = re.compile(
    "\u200e([^\u200e\n]+)\u200e"
)  # a word that runs to the left, kept in its place
BEFORE_AN_ERROR = re.compile(r"step \d+ · loss |note: ")
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffc\ufffe\uffff\ud800-\udfff]"
)


@dataclass(frozen=True)
class CallResult:
    """A call with its status, output and files."""

    call: Call
    status: int
    out: str
    err: str
    files: dict[str, bytes]
    seconds: float
    elsewhere: tuple[str, ...] = ()  # what it left outside of its folder, or looked up on a network

    @property
    def faults(self) -> list[str]:
        """What no call may do, whatever its arguments."""
        is_check = self.call.arguments[:2] == ("example", "check")
        was_refused = self.status != 0
        fault_holds = {
            f"the status is {self.status}": self.status not in ((0, 1, 2) if is_check else (0, 2)),
            "an error is not two lines": self.status == 2 and not is_check and not self._two_lines,
            "there is a traceback": "Traceback" in self.err,
            "a refused call left files": was_refused and bool(self.files),
            "a temporary file is left": any(".attnviz-" in name for name in self.files),
            "code of a file was run": CANARY in self.files,
            f"it went elsewhere: {self.elsewhere}": bool(self.elsewhere),
            "something unprintable is said": bool(
                UNPRINTABLE.search(
                    RIGHT_TO_LEFT_WORD.sub(r"\1", COLORS.sub("", self.out + self.err))
                )
            ),
            f"it took {self.seconds:.0f} s": self.seconds > MOST_SECONDS,
        }
        faults = [fault for fault, is_fault in fault_holds.items() if is_fault]
        return faults + [fault for file in self.files.items() for fault in _faults_of(*file)]

    @property
    def _two_lines(self) -> bool:
        """Whether an error has two lines, but for the steps of `learn` and notes before it."""
        lines = [line for line in self.err.splitlines() if not BEFORE_AN_ERROR.match(line)]
        return len(lines) == 2 and lines[0].startswith("error: ") and lines[1].startswith(" hint: ")


def _faults_of(name: str, content: bytes) -> list[str]:
    """What an independent reader finds wrong with a file that attnviz wrote."""
    reader = READERS.get(Path(name).suffix)
    try:
        if reader:
            reader(content)
    except Exception as error:  # any error of a reader
        return [f"{name} is not what it says: {error!r}"]
    return []


def _read_json(content: bytes) -> None:
    def refuse(constant: str) -> None:
        if constant != "NaN" or b'"prediction"' not in content:  # which some positions lack
            raise ValueError(constant)

    json.loads(content, parse_constant=refuse)


def _read_arrays(content: bytes) -> None:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for name in arrays:
            array = arrays[name]
            if name.startswith("prediction."):  # positions without answers have NaN
                continue
            if array.dtype.kind == "f" and not np.isfinite(array[~np.isneginf(array)]).all():
                raise ValueError(f"{name} has NaN or infinity")


def _read_rows(content: bytes) -> None:
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    if len({len(row) for row in rows}) != 1:
        raise ValueError("rows of several lengths")


def _read_words(content: bytes) -> None:
    bad_character = UNPRINTABLE.search(content.decode())
    if bad_character:
        raise ValueError(f"{bad_character[0]!r} stands in it")


def _read_drawing(content: bytes) -> None:
    ElementTree.fromstring(content)
    _read_words(content)


def _read_picture(content: bytes) -> None:
    with Image.open(io.BytesIO(content)) as picture:
        picture.load()


def _read_slides(content: bytes) -> None:
    for slide in pptx.Presentation(io.BytesIO(content)).slides:
        _read_words(slide.notes_slide.notes_text_frame.text.encode())


def _read_document(content: bytes) -> None:
    if not content.startswith(b"%PDF-") or not content.rstrip().endswith(b"%%EOF"):
        raise ValueError("it is cut")


READERS = {
    ".json": _read_json,
    ".npz": _read_arrays,
    ".csv": _read_rows,
    ".txt": _read_words,
    ".md": _read_words,
    ".html": _read_words,
    ".svg": _read_drawing,
    ".png": _read_picture,
    ".gif": _read_picture,
    ".pdf": _read_document,
    ".pptx": _read_slides,
}


def run_call(call: Call) -> CallResult:
    """Run a call in a temporary folder, in this process."""
    with tempfile.TemporaryDirectory() as outside, contextlib.ExitStack() as stack:
        folder = str(Path(outside, "a", "b"))
        Path(folder).mkdir(parents=True)
        for name, content in call.files.items():
            with contextlib.suppress(OSError):  # no file can have a name so long
                Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, name).write_bytes(content)
        out = stack.enter_context(contextlib.redirect_stdout(_stream()))
        err = stack.enter_context(contextlib.redirect_stderr(_stream()))
        stack.enter_context(mock.patch.dict(os.environ, call.environment))
        stack.enter_context(mock.patch("sys.stdin", _stdin_of(call.stdin)))
        stack.enter_context(_working_folder(folder))
        hosts = stack.enter_context(_without_network()) if call.offline else []
        start = time.monotonic()
        status = _status(call)
        seconds = time.monotonic() - start
        elsewhere = (*hosts, *_left_outside(call, Path(outside)))
        files = _changed_files(call, Path(folder))
        return CallResult(call, status, _text(out), _text(err), files, seconds, elsewhere)


def _status(call: Call) -> int:
    """The exit status of `python -m attnviz`; a warning counts as an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return run_command_line([*call.arguments])
        except SystemExit as exit_request:
            return exit_request.code if isinstance(exit_request.code, int) else 1
        except BaseException as error:
            traceback.print_exc()
            return 130 if isinstance(error, KeyboardInterrupt) else 1


@contextlib.contextmanager
def _working_folder(folder: str) -> Iterator[None]:
    previous = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(previous)


@contextlib.contextmanager
def _without_network() -> Iterator[list[str]]:
    """Refuse to look up host names; yields a list of those that were requested."""
    hosts: list[str] = []

    def refuse(host: object, *_: object, **__: object) -> None:
        hosts.append(str(host))
        raise OSError("no network here")

    with mock.patch("socket.getaddrinfo", refuse):
        yield hosts


def _left_outside(call: Call, outside: Path) -> list[str]:
    """Files outside the folder of a call whose arguments name no folder above."""
    if any(".." in word for word in call.arguments):
        return []
    return [each.name for at in (outside, outside / "a") for each in at.iterdir()
            if each.name not in "ab"]  # fmt: skip


def _changed_files(call: Call, folder: Path) -> dict[str, bytes]:
    """Files that the call wrote or changed."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    contents = {name: path.read_bytes() for name, path in paths.items()}
    return {name: each for name, each in contents.items() if call.files.get(name) != each}


def _stdin_of(content: bytes | None) -> io.TextIOWrapper | None:
    """A standard input with this content; None where it is closed."""
    return None if content is None else _stream(content)


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(errors="replace")
