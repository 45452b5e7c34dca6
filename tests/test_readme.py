"""The README is true: every console block is run, and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attnviz.examples.claims import CLAIMS
from attnviz.examples.draws import KINDS
from attnviz.examples.reading import KEYS, WHAT, WHERE
from attnviz.examples.recipes import RECIPE
from attnviz.traces.parts import EXPECTED, GIVEN_NAMES
from tests.conftest import ROOT, Attnviz

README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]*)\n(?P<output>.*?)```", re.DOTALL)
SAMPLES = ROOT / "sample_texts"


def blocks() -> list[tuple[str, str]]:
    return [
        (found["command"], found["output"]) for found in BLOCK.finditer(README.read_text("utf-8"))
    ]


def printed(command: str, folder: Path) -> str:
    """What a command prints, both streams, into a pipe of 80 columns."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path, "COLUMNS": "80"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("command", [command for command, _ in blocks()])
def test_a_console_block_prints_what_it_says(
    command: str, samples: Path, request: pytest.FixtureRequest
) -> None:
    output = printed(command, samples)
    if request.config.getoption("--update-golden"):
        text = README.read_text("utf-8")
        block = rf"(```console\n\$ {re.escape(command)}\n).*?```"
        README.write_text(
            re.sub(block, lambda found: f"{found[1]}{output}```", text, flags=re.DOTALL)
        )

    assert dict(blocks())[command] == output


def test_the_readmes_example_with_every_key_is_one(attnviz: Attnviz, tmp_path: Path) -> None:
    code = re.search(r"```toml\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert code
    (tmp_path / "lesson.toml").write_text(code[1], "utf-8")

    result = attnviz("example", "check", str(tmp_path / "lesson.toml"))

    assert result.status == 0, result.out
    assert "1 example, 6 expectations, 6 printed numbers: all ✓" in result.out
    assert all(name in code[1] for name in (*KEYS, *RECIPE, *WHERE, *WHAT, *KINDS))
    assert all(name in code[1] or f"{name[:2]}…" in code[1] for name in (*EXPECTED, *GIVEN_NAMES))
    assert all(" ".join(claim.split()) in _comments(code[1]) for claim in CLAIMS)


def _comments(text: str) -> str:
    """The text without what makes it several lines of comments."""
    return " ".join(text.replace("#", " ").split())


def test_the_readmes_library_works() -> None:
    code = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert code

    done = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("tensor([[1.0000, 0.0000, 0.0000, 0.0000],")


def test_every_file_that_the_readme_links_to_is_there() -> None:
    text = README.read_text("utf-8")
    links = re.findall(r"\]\(([^)h][^)]*)\)|(?:src|srcset)=\"([^\"]+)\"", text)

    assert len(links) >= 4
    assert all((ROOT / (link or picture)).exists() for link, picture in links)


def commands_of_samples() -> list[str]:
    text = (SAMPLES / "README.md").read_text("utf-8")
    return re.findall(r"^ *(attnviz run .*)$", text, re.MULTILINE)


@pytest.mark.parametrize("command", commands_of_samples())
def test_the_commands_beside_the_sample_texts_work(
    attnviz: Attnviz, samples: Path, command: str, recwarn: pytest.WarningsRecorder
) -> None:
    result = attnviz(*command.split()[1:])

    assert result.status == 0, result.err


def test_the_samples_are_all_described_with_their_true_number_of_tokens() -> None:
    from attnviz.tokens.tokenizers import tokenize

    text = (SAMPLES / "README.md").read_text("utf-8")
    for path in SAMPLES.glob("*.txt"):
        count = len(tokenize(path.read_text("utf-8").removesuffix("\n"), "gpt2"))
        entry = next(line for line in text.splitlines() if f"`{path.name}`" in line)
        assert f"{count:,} tokens" in entry
