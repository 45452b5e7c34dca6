"""Whatever a process is born into, streams that are closed or full, variables, settings of others:
a command does what it does anywhere.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import tiktoken.load

from attnviz.cli.app import run_command_line
from attnviz.tokens import encodings
from tests import LONGEST
from tests.conftest import ROOT, Attnviz


def test_a_standard_input_that_is_closed_has_no_text(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    assert run_command_line(["run"]) == 2
    assert capfd.readouterr().err.startswith("error: there is no text\n")


def test_a_standard_input_that_is_only_written_to_gets_two_lines(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    with open(number) as stream:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stream)

        assert run_command_line(["run"]) == 2

    assert capfd.readouterr().err == (
        "error: standard input cannot be read: bad file descriptor\n"
        " hint: give a text, or a file with --file\n"
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["run", "a b", "-t", "words", "-o", "x.json"], 0),
        (["run", "a", "--dim", "x"], 2),
        (["run", "a", "--file", "no.txt"], 2),
        (["example", "check", "no.toml"], 2),
    ],
)
def test_a_standard_error_that_is_full_changes_no_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    full_stream = open("/dev/full", "w", buffering=1)  # noqa: SIM115, PTH123, it cannot be closed
    monkeypatch.setattr(sys, "stderr", full_stream)

    assert run_command_line(words) == status
    assert Path("x.json").exists() == (status == 0)

    monkeypatch.undo()
    os.dup2(os.open(os.devnull, os.O_WRONLY), full_stream.fileno())
    full_stream.close()


@pytest.mark.slow("processes")
def test_pictures_are_drawn_whatever_matplotlib_is_told_elsewhere(tmp_path: Path) -> None:
    """By Jupyter, by whoever builds packages, in a home that cannot be written, by this folder."""
    (tmp_path / "matplotlibrc").write_text("no.such.key: 1\nfont.size: 99\n")
    (tmp_path / "passing").mkdir()
    odd_variables = {
        "MPLBACKEND": "module://no_such_package.backend_inline",
        "SOURCE_DATE_EPOCH": "yesterday",
        "HOME": "/proc/nobody",
        "TMPDIR": str(tmp_path / "passing"),
        "PYTHONPATH": str(ROOT),
    }
    other_variables = {
        name: each for name, each in os.environ.items() if not name.startswith("MPL")
    }

    process = subprocess.run(
        [sys.executable, "-m", "attnviz", "run", "a b", "-t", "words", "-o", "x.pdf"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=other_variables | odd_variables, timeout=LONGEST,
    )  # fmt: skip

    assert (process.returncode, process.stdout, process.stderr) == (0, "", "wrote x.pdf\n")
    assert list((tmp_path / "passing").iterdir()) == []


def test_settings_that_matplotlib_cannot_read_are_said(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"n\xe9: 1\n")
    code = "import attnviz.renderers.picture"

    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=LONGEST,
    )  # fmt: skip

    message = "\nattnviz.errors.AttnvizError: matplotlib refuses its settings: 'utf-8'"
    assert message in process.stderr  # and below it what to try, where tracebacks have notes


def test_a_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "DOWNLOAD_TIMEOUT_SECONDS", (0.3, 0.3))
    original = tiktoken.load.read_file

    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        url = f"http://127.0.0.1:{silent_server.getsockname()[1]}/x"
        with encodings._with_download_timeout(), pytest.raises(OSError, match="timed out"):
            tiktoken.load.read_file(url)

    assert tiktoken.load.read_file is original


def test_a_page_in_place_of_an_encoding_is_refused(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    def sign_in_page(url: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(content=b"<html>sign in</html>", raise_for_status=lambda: None)

    monkeypatch.setattr(requests, "get", sign_in_page)

    assert attnviz("run", "a", "-t", "cl100k_base").err == (
        "error: what was downloaded is not 'cl100k_base' but something else, such as a sign-in "
        "page\n"
        " hint: sign in to the network, point TIKTOKEN_CACHE_DIR at a copy, or use --tokenizer "
        "gpt2\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["example", "show", "running-sum", "--step", "1"],
        ["example", "check", "running-sum"],
        ["run", "I am learning this", "--verify"],
        ["run", "I am", "--title", "A title of many words, for a screen of few columns"],
    ],
    ids=" ".join,
)
def test_words_are_wrapped_on_a_narrow_screen(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    lines = attnviz(*words).out.splitlines()

    assert [line for line in lines if len(line) > 40] == []
    assert len(lines) > 3
