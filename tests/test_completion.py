"""Completion by the Tab key: the words a shell receives, and how it is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from attnviz.analysis.aspects import ASPECTS
from attnviz.attention.variants import VARIANTS
from attnviz.cli import help
from attnviz.cli.app import COMMANDS
from attnviz.renderers.colors import PALETTES
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.views.steps.step_selection import ATTENTION_STEP_NAMES, STEP_REQUIREMENTS
from attnviz.wings.examples.example_names import example_titles
from attnviz.wings.examples.group import EXAMPLE_COMMANDS
from tests import run_process
from tests.conftest import ROOT, Attnviz


def completions(shell: str, line: str, **environment: str) -> list[str]:
    """The completions that a shell of this kind receives for a line that is being typed."""
    typed_words = line.split(" ")
    protocol = {
        "_ATTNVIZ_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(typed_words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    process = run_process(
        [sys.executable, "-m", "attnviz"], env={**os.environ, **protocol, **environment}, cwd=ROOT
    )
    assert process.stderr == ""
    return process.stdout.splitlines()


@pytest.mark.slow_table("processes", keep=3)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("attnviz ", [*COMMANDS]),
        ("attnviz co", ["compare"]),
        ("attnviz run a --vari", ["--variant"]),
        ("attnviz run a --variant ", [*VARIANTS]),
        ("attnviz inspect a --model mi", ["minilm"]),
        ("attnviz run a -v ca", ["causal"]),
        ("attnviz run a --tokenizer ", [*TOKENIZERS]),
        ("attnviz run a --colors ", [*PALETTES]),
        ("attnviz run a --show queries,k", ["queries,keys"]),
        ("attnviz run a --no-c", ["--no-causal"]),
        ("attnviz compare a --by te", ["temperature", "text"]),
        ("attnviz example s", ["show"]),
        ("attnviz example show dave-c", ["dave-causal"]),
        ("attnviz example check ", [*example_titles()]),
        ("attnviz hello --the", ["--theme"]),
        ("attnviz run a --nonsense --the", ["--theme"]),
        ("attnviz help ", [*COMMANDS]),
        ("attnviz help example ", [*EXAMPLE_COMMANDS]),
        ("attnviz help run ", []),
        ("attnviz steps a --step ", [*ATTENTION_STEP_NAMES, *STEP_REQUIREMENTS]),
        (
            "attnviz steps a --step scores,s",
            ["scores,scaling", "scores,softmax", "scores,soft-cap"],
        ),
        ("attnviz compare a --by mask --values ", [*ASPECTS["mask"].values()]),
        ("attnviz compare a --by mask --values causal,wi", ["causal,window"]),
        ("attnviz compare a --values ", ["unscaled", "scaled"]),
        ("attnviz run a --dim ", []),
    ],
)
def test_bash_is_told_what_a_word_may_become(line: str, expected: list[str]) -> None:
    assert [word for word in completions("bash", line) if word] == expected


def test_zsh_and_fish_are_told_what_each_is_about() -> None:
    assert 'causal":"scaled, and no token sees' in "\n".join(
        completions("zsh", "attnviz run a -v ca")
    )
    assert completions("fish", "attnviz run a -t w") == ["words\twords and punctuation marks"]


@pytest.mark.slow_table("processes", keep=1)
@pytest.mark.parametrize("line", ["attnviz ", "attnviz run a --show ", "attnviz example show "])
def test_completing_loads_nothing_heavy(line: str) -> None:
    code = (
        "import sys, runpy\n"
        "sys.argv = ['attnviz']\n"
        "from attnviz.cli.app import run_command_line as main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted({'torch', 'numpy', 'matplotlib', 'tiktoken'} & sys.modules.keys()))"
    )
    protocol = {"_ATTNVIZ_COMPLETE": "complete_bash", "COMP_WORDS": line}
    cursor = {"COMP_CWORD": str(len(line.split(" ")) - 1)}
    process = run_process(
        [sys.executable, "-c", code], env={**os.environ, **protocol, **cursor}, cwd=ROOT
    )
    assert process.stdout.splitlines()[-1] == ""
    assert len(process.stdout.splitlines()) > 1


@pytest.mark.parametrize("shell", help.SHELLS)
def test_the_lines_for_a_shell_are_printed_and_installed(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    monkeypatch.setattr(help, "_parent_shell", str)

    printed = attnviz("--show-completion")
    assert (printed.status, printed.err) == (0, "")
    assert f"_ATTNVIZ_COMPLETE=complete_{shell}" in printed.out

    monkeypatch.delenv("SHELL")
    assert attnviz("--show-completion", shell) == printed

    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    installed = attnviz("--install-completion")
    assert (installed.status, installed.err) == (0, "")
    path = Path(installed.out.removeprefix("wrote ").partition(";")[0])
    assert path.is_relative_to(tmp_path)
    assert path.read_text().strip() == printed.out.strip()


@pytest.mark.parametrize(
    ("shell", "problem"),
    [("/bin/tcsh", "completion is not available for the shell 'tcsh'"), ("", "no shell was found")],
)
def test_another_shell_is_refused(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, shell: str, problem: str
) -> None:
    monkeypatch.setenv("SHELL", shell)
    monkeypatch.setattr(help, "_parent_shell", str)

    assert attnviz("--show-completion").err == (
        f"error: {problem}\n hint: call it from one of: bash, zsh, fish\n"
    )


def test_a_shell_that_is_named_and_not_known_is_refused(attnviz: Attnviz) -> None:
    for option in ("--show-completion", "--install-completion"):
        assert attnviz(option, "tcsh").err == (
            "error: there is no completion for the shell 'tcsh'\n hint: known: bash, zsh, fish\n"
        )


def test_lines_that_cannot_be_installed_can_be_printed(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/fish")
    monkeypatch.setattr(help, "_parent_shell", str)
    (tmp_path / ".config").write_text("a file, where a folder is wanted")

    result = attnviz("--install-completion")

    assert result.status == 2
    assert (
        "cannot be written: not a directory\n hint: print the lines with attnviz --show-completion"
        in result.err
    )


def test_a_real_bash_completes(tmp_path: Path, attnviz: Attnviz) -> None:
    command = tmp_path / "attnviz"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attnviz "$@"\n')
    command.chmod(0o755)
    script = "\n".join(
        [
            'eval "$(SHELL=/bin/bash attnviz --show-completion)"',
            "COMP_WORDS=(attnviz run a --variant m) COMP_CWORD=4",
            "_attnviz_completion attnviz",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    )
    search_path = f"{tmp_path}:{os.environ['PATH']}"
    process = run_process(
        ["bash", "-c", script], env={**os.environ, "PATH": search_path, "PYTHONPATH": str(ROOT)}
    )

    assert (process.stdout, process.stderr) == ("multi-head\n", "")
