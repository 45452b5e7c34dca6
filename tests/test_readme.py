"""README and docs are true: every console block is run, and prints what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from attnviz.traces.parts import GIVEN_NAMES, PARTS_BY_STEP
from attnviz.wings.examples.claims import CLAIMS
from attnviz.wings.examples.constructions import CONSTRUCTIONS
from attnviz.wings.examples.draws import DRAW_KINDS, DRAW_TYPES, RECIPE_TYPES
from attnviz.wings.examples.example_files import (
    EXAMPLE_KEYS,
    EXPECTATION_PLACE_KEYS,
    EXPECTATION_TOLERANCE_KEYS,
    EXPECTATION_VALUE_KEYS,
)
from tests import LONGEST
from tests.conftest import ROOT, Attnviz
from tests.warm import can_run, warm_process

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]*)\n(?P<output>.*?)```", re.DOTALL)
SAMPLES = ROOT / "sample_texts"
MOST_LINES_OF_README, MOST_PAGES, MOST_WORDS = 190, 17, 25_000


def read_blocks(page: Path) -> dict[str, str]:
    """The output of each console block of a page, by its command."""
    return {block["command"]: block["output"] for block in BLOCK.finditer(page.read_text("utf-8"))}


def every_block() -> Iterator[ParameterSet]:
    for page in PAGES:
        marks = [] if page == README else [pytest.mark.slow("documentation")]
        for command in read_blocks(page):
            yield pytest.param(str(page.relative_to(ROOT)), command, marks=marks)


def run_line(line: str, folder: Path) -> str:
    """What a line of a shell prints, both streams, into a pipe or a file."""
    shutil.copytree(SAMPLES, folder / "sample_texts")
    return "".join(run_pipeline(pipeline, folder) for pipeline in split_line(line, ";"))


def run_pipeline(pipeline: str, folder: Path) -> str:
    """The same of one that has no `;`, where attnviz need not start anew."""
    first, *others = split_line(pipeline, "|")
    if not can_run(first):
        return run_in_shell(pipeline, "", folder)
    output = warm_process()(first, folder)
    return run_in_shell(" | ".join(others), output, folder) if others else output


def split_line(line: str, sign: str) -> list[str]:
    """The parts of a line between signs that are not quoted."""
    quoted = r"'[^']*'|\"[^\"]*\""
    return [part.strip() for part in re.findall(rf"(?:{quoted}|[^{sign}'\"])+", line)]


def run_in_shell(line: str, given: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    completed = subprocess.run(
        ["bash", "-c", line], cwd=folder, env={**os.environ, "PATH": path}, input=given,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip
    return completed.stdout


@pytest.fixture(scope="module")
def outputs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[str]]]:
    """What each command of a tested block prints, in a thread, while other tests wait for it."""
    commands = {
        str(item.callspec.params["command"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == "test_a_console_block_prints_what_it_says"
    }
    with ThreadPoolExecutor(1) as running:
        yield {
            command: running.submit(run_line, command, tmp_path_factory.mktemp("block"))
            for command in sorted(commands)
        }


@pytest.mark.parametrize(("name", "command"), [*every_block()])
def test_a_console_block_prints_what_it_says(
    name: str, command: str, outputs: dict[str, Future[str]], request: pytest.FixtureRequest
) -> None:
    page = ROOT / name
    output = outputs[command].result()
    if request.config.getoption("--update-golden"):
        text = page.read_text("utf-8")
        block = rf"(```console\n\$ {re.escape(command)}\n).*?```"
        updated = re.sub(block, lambda match: f"{match[1]}{output}```", text, flags=re.DOTALL)
        page.write_text(updated, "utf-8")

    assert read_blocks(page)[command] == output


EXPECT = "[[expect]]"  # of an example


def test_the_example_with_every_key_is_one(attnviz: Attnviz, tmp_path: Path) -> None:
    page = (DOCS / "lessons.md").read_text("utf-8")
    [code] = [each for each in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if EXPECT in each]
    (tmp_path / "lesson.toml").write_text(code, "utf-8")

    result = attnviz("example", "check", str(tmp_path / "lesson.toml"))

    assert result.status == 0, result.out
    assert "1 example, 6 expectations, 6 printed numbers: all ✓" in result.out
    assert all(
        name in code
        for name in (
            *EXAMPLE_KEYS,
            *RECIPE_TYPES,
            *EXPECTATION_PLACE_KEYS,
            *EXPECTATION_VALUE_KEYS,
            *EXPECTATION_TOLERANCE_KEYS,
            *DRAW_TYPES,
        )
    )
    assert [name for name in (*PARTS_BY_STEP, *GIVEN_NAMES) if not _is_named(name, code)] == []
    assert all(f"{start}…" in code for start in ("cross-", "block."))
    assert all(" ".join(claim.split()) in _comments(code) for claim in CLAIMS)


def _is_named(name: str, text: str) -> bool:
    """In full, or with others that begin or end like it: `w_…`, `…_gain`."""
    begin, end = re.findall(r"\b(\w+_)…", text), re.findall(r"…(_\w+)", text)
    return name in text or name.startswith(tuple(begin)) or name.endswith(tuple(end))


def test_the_page_about_lessons_names_every_draw_and_every_way_to_make_a_matrix() -> None:
    page = (DOCS / "lessons.md").read_text("utf-8")

    options = {option for kind in DRAW_KINDS.values() for option in kind.options}
    assert all(re.search(rf"`[^`]*\b{name}\b", page) for name in {*DRAW_KINDS, *options})
    assert all(f"`{{ {way} = [" in page for way in CONSTRUCTIONS)


def _comments(text: str) -> str:
    """The text without what makes it several lines of comments."""
    return " ".join(text.replace("#", " ").split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_links_to_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    links = re.findall(r"\]\(([^)h#][^)#]*)(?:#[^)]*)?\)|(?:src|srcset)=\"([^\"]+)\"", text)

    assert links or page != README
    assert all((page.parent / (link or picture)).exists() for link, picture in links)


def test_the_readme_and_the_docs_are_short_and_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    pages = [page.name for page in PAGES if page not in (README, DOCS / "README.md")]
    pages_for_users = [DOCS / name for name in pages if name != "architecture.md"]

    assert len(README.read_text("utf-8").splitlines()) <= MOST_LINES_OF_README
    assert [name for name in pages if f"]({name})" not in index] == []
    assert len(pages_for_users) <= MOST_PAGES
    assert sum(len(page.read_text("utf-8").split()) for page in pages_for_users) <= MOST_WORDS


def commands_of_samples() -> list[str]:
    text = (SAMPLES / "README.md").read_text("utf-8")
    return re.findall(r"^ *(attnviz run .*)$", text, re.MULTILINE)


@pytest.mark.slow_table("documentation", keep=6)
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
