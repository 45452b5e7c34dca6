"""`attnviz listen`: a program runs as it would alone, and what it attends to is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Attnviz

PROGRAM = """
import os, sys
import torch
from torch.nn import functional

import beside

def attend(count):
    x = torch.randn(1, 2, count, 4, generator=torch.Generator().manual_seed(0))
    functional.scaled_dot_product_attention(x, x, x, is_causal=True)

is_first = sys.path[0] == os.path.dirname(os.path.abspath(__file__))
print(__name__, sys.argv[1:], beside.NAME, is_first)
attend(3)
{ending}
"""
LONGEST = 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    return tmp_path


def write_program(folder: Path, ending: str = "") -> Path:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(ending=ending))
    return path


def run_apart(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run attnviz in a process of its own: a program may end the one that it is in."""
    return subprocess.run(
        [sys.executable, "-m", "attnviz", "listen", *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST,
        env={**__import__("os").environ, **environment},
    )  # fmt: skip


@pytest.mark.slow("processes")
@pytest.mark.parametrize(
    ("ending", "status", "error"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no data')", 1, "no data"),
        ("os._exit(4)", 4, ""),
        ("import signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", 130, ""),
        ("raise KeyboardInterrupt", 130, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_output_and_status_are_the_programs_own(
    folder: Path, ending: str, status: int, error: str
) -> None:
    write_program(folder, ending)

    done = run_apart(folder, "-o", "view.html", "program.py", "--epochs", "1", "-o", "x")

    assert done.stdout == "__main__ ['--epochs', '1', '-o', 'x'] beside True\n"
    assert done.returncode == status
    assert error in done.stderr
    assert "wrote view.html" in done.stderr
    assert "wings/listen" not in done.stderr
    assert (folder / "view.html").is_file()


@pytest.mark.slow("processes")
def test_a_program_that_exits_at_once_keeps_its_status_whatever_was_heard(folder: Path) -> None:
    (folder / "program.py").write_text("import os\nprint(1, flush=True)\nos._exit(0)\n")

    done = run_apart(folder, "program.py")

    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.startswith("note: nothing attended\n hint: ")


@pytest.mark.slow("processes")
def test_numbers_may_go_into_a_pipe_that_ends(folder: Path) -> None:
    write_program(folder)
    command = f"{sys.executable} -m attnviz listen --json program.py | head -1; echo $PIPESTATUS"

    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder, capture_output=True, text=True, check=True, timeout=LONGEST,
    )  # fmt: skip

    assert done.stdout.splitlines() == ["__main__ [] beside True", "0"]
    assert done.stderr == ""


@pytest.mark.slow("processes")
def test_a_module_runs_as_after_python_m(folder: Path) -> None:
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    write_program(folder).rename(package / "module.py")

    done = run_apart(folder, "-m", "package.module", "--epochs", "1")

    assert done.stdout.startswith("__main__ ['--epochs', '1'] beside")
    assert "attend " in done.stderr


@pytest.mark.slow("processes")
def test_each_process_of_torchrun_writes_a_file_of_its_own(folder: Path) -> None:
    write_program(folder)

    run_apart(folder, "-o", "view.html", "program.py", RANK="1", WORLD_SIZE="2")

    assert [path.name for path in folder.glob("*.html")] == ["view.rank1.html"]


def test_a_program_that_is_missing_or_no_program_is_refused(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert attnviz("listen").err == (
        "error: there is no program to listen to\n hint: try: attnviz listen train.py\n"
    )
    assert attnviz("listen", "train.py").err == (
        "error: there is no file 'train.py' to run (a module comes after -m)\n"
        " hint: check its path\n"
    )
    refusal = attnviz("listen", "-m", "no_package.train").err
    assert "there is no module 'no_package.train'" in refusal
    assert "hint: give a name as after python -m, or a file without -m" in refusal


def test_what_was_heard_is_listed(attnviz: Attnviz, folder: Path) -> None:
    result = attnviz("listen", str(write_program(folder)))

    assert result.status == 0
    lines = result.err.splitlines()
    assert lines[0] == "heard 1 attention in 1 module"
    assert lines[2].split("  ")[0] == "module"
    assert lines[3].split()[:4] == ["attend", "3", "2", "causal"]


def test_a_program_that_attends_to_nothing_is_refused_with_the_reason(
    attnviz: Attnviz, folder: Path
) -> None:
    path = folder / "program.py"
    path.write_text("import torch\ntorch.randn(2, 3).softmax(-1)\n")

    result = attnviz("listen", str(path))

    assert result.status == 2
    assert result.err == (
        "error: nothing attended\n"
        " hint: there was a softmax of 2 × 3 in program: nothing is multiplied by its result\n"
    )


def test_labels_are_read_from_a_file(attnviz: Attnviz, folder: Path) -> None:
    (folder / "words.txt").write_text("I\nam\nlearning\n")
    page = folder / "view.html"

    result = attnviz("listen", "--labels", str(folder / "words.txt"), "-o", str(page),
                     str(write_program(folder)))  # fmt: skip

    assert result.status == 0, result.err
    assert "learning" in page.read_text()


def test_a_traceback_has_the_lines_of_the_program_alone(attnviz: Attnviz, folder: Path) -> None:
    path = write_program(folder, "torch.zeros(4).view(3)")

    result = attnviz("listen", str(path))

    assert result.status == 1
    files = [line.strip() for line in result.err.splitlines() if line.startswith("  File ")]
    assert len(files) == 1
    assert files[0].startswith(f'File "{path}", line ')
