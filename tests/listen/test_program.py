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
print(__name__, sys.argv[1:], beside.NAME, is_first and os.path.isabs(__file__))
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


def test_nothing_to_show_is_a_note_of_two_lines_as_the_status_is_the_programs(
    attnviz: Attnviz, folder: Path
) -> None:
    path = folder / "program.py"
    path.write_text("import torch\ntorch.randn(2, 3).softmax(-1)\n")

    result = attnviz("listen", "-o", str(folder / "view.html"), str(path))

    assert result.status == 0
    assert result.err == (
        "note: nothing attended\n"
        " hint: there was a softmax of 2 × 3 in program: no product of it with a matrix was "
        "seen\n"
    )


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--item", "9"], "note: there is no item 9 in a batch of 1; item 1 is shown"),
        (["--labels", "beside.py"], "note: 1 label cannot stand for the 3 tokens"),
    ],
)
def test_choices_that_do_not_fit_do_not_lose_what_was_heard(
    attnviz: Attnviz, folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], note: str
) -> None:
    write_program(folder)
    monkeypatch.chdir(folder)

    result = attnviz("listen", *words, "-o", "view.html", "program.py")

    assert (result.status, (folder / "view.html").is_file()) == (0, True)
    assert note in result.err


def test_numbers_are_written_to_a_file_as_standard_output_is_the_programs(
    attnviz: Attnviz, folder: Path
) -> None:
    result = attnviz("listen", "--json", str(write_program(folder)))

    assert result.err.startswith("error: attnviz listen has no option --json")


@pytest.mark.slow("processes")
def test_models_that_are_made_while_one_listens_are_heard(folder: Path) -> None:
    """Each has parameters that it copies and gives up; their memory may become that of keys."""
    (folder / "program.py").write_text(
        "import torch\nfrom torch import nn\n"
        "for _ in range(4):\n"
        "    model = nn.Transformer(32, 4, 1, 1, 16, batch_first=True)\n"
        "    model(torch.randn(2, 5, 32), torch.randn(2, 7, 32))\n"
    )

    done = run_apart(folder, "program.py")

    assert done.stderr.startswith("heard 12 attentions in 12 modules")


@pytest.mark.slow("processes")
def test_a_folder_runs_as_after_python(folder: Path) -> None:
    (folder / "beside").mkdir()
    write_program(folder).rename(folder / "beside" / "__main__.py")
    (folder / "beside.py").rename(folder / "beside" / "beside.py")

    done = run_apart(folder, "beside", "--epochs", "1")

    assert done.stdout == "__main__ ['--epochs', '1'] beside True\n"


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
