"""What a release says of itself: one version everywhere, its tag, and what pip takes with it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from trove_classifiers import classifiers as known_classifiers

from attnviz.traces import toml_reader
from attnviz.version import __version__
from tests import LONGEST
from tests.conftest import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
CHECK_TAG = ROOT / ".ci" / "check-tag"
ADDRESS_PLACEHOLDER = "<the project's address>"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
INSTALLS_TORCH = re.compile(r"(?<!uv )pip install (?!--no-deps|pre-commit|jsonschema)\S")
WITHOUT_CUDA_LINK = "#without-cuda"
NEARBY_LINES = 6


def project() -> Any:
    return toml_reader.parse((ROOT / "pyproject.toml").read_text("utf-8"), "pyproject.toml")


def workflow(name: str) -> Any:
    """Return a workflow; its key `on` is True in YAML 1.1."""
    return yaml.safe_load((WORKFLOWS / name).read_text("utf-8"))


def check_tag(tag: str) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    return subprocess.run(
        [bash, str(CHECK_TAG), tag], capture_output=True, text=True, timeout=LONGEST
    )


def test_the_changelog_opens_with_changes_to_come_then_with_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == __version__


def test_the_classifiers_are_known_and_name_every_python_that_is_tested() -> None:
    described = project()["project"]
    pythons = workflow("nightly.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    named = [each for each in described["classifiers"] if each.startswith(prefix)]

    assert set(described["classifiers"]) <= set(known_classifiers)
    assert described["classifiers"] == sorted(described["classifiers"])
    assert named == [f"Programming Language :: Python :: {each}" for each in pythons]
    assert all(SpecifierSet(described["requires-python"]).contains(each) for each in pythons)
    assert not SpecifierSet(described["requires-python"]).contains("3.9")


def test_the_classifiers_name_every_system_that_is_tested() -> None:
    systems = {"ubuntu": "POSIX :: Linux", "macos": "MacOS", "windows": "Microsoft :: Windows"}
    tested = workflow("nightly.yml")["jobs"]["test"]["strategy"]["matrix"]["os"]
    prefix = "Operating System :: "
    named = {each for each in project()["project"]["classifiers"] if each.startswith(prefix)}

    assert named == {prefix + systems[each.partition("-")[0]] for each in tested}


def test_the_tag_of_this_version_may_be_published() -> None:
    result = check_tag(f"v{__version__}")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("tag", [__version__, f"v{__version__}.1", "v9.9.9", f"w{__version__}", ""])
def test_another_tag_is_refused(tag: str) -> None:
    result = check_tag(tag)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: the tag is '{tag}', and attnviz/version.py says {__version__}\n"
        f" hint: git tag v{__version__}; or write the new version there, in CITATION.cff and in "
        "CHANGELOG.md\n"
    )


def test_a_tag_is_checked_and_tested_before_it_is_published() -> None:
    described = workflow("publish.yml")
    jobs = described["jobs"]
    build_commands = [each["run"] for each in jobs["build"]["steps"] if "run" in each]

    assert described[True] == {"push": {"tags": ["v*"]}}
    assert build_commands == ['.ci/check-tag "$GITHUB_REF_NAME"', "make wheel"]
    assert jobs["publish"]["needs"] == ["test", "build"]
    assert jobs["publish"]["environment"] == "release"
    assert all("run" not in each for each in jobs["publish"]["steps"])


def test_only_the_job_that_publishes_may_prove_who_it_is() -> None:
    permissions = {
        name: job["permissions"] for name, job in workflow("publish.yml")["jobs"].items()
    }

    assert permissions == {
        "test": {"contents": "read"},
        "build": {"contents": "read"},
        "publish": {"id-token": "write"},
    }


def test_the_missing_address_has_one_place_and_the_files_that_need_it_are_named() -> None:
    releasing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

    assert releasing.count(ADDRESS_PLACEHOLDER) == 1
    assert (
        f"# [project.urls] is still to be filled with {ADDRESS_PLACEHOLDER}: CONTRIBUTING.md."
        in (ROOT / "pyproject.toml").read_text("utf-8")
    )
    assert "urls" not in project()["project"]


def test_hooks_before_a_commit_run_what_is_installed_for_tests() -> None:
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    commands = [hook["entry"].split() for hook in repository["hooks"]]
    programs = [Path(command[0]) for command in commands]

    assert repository["repo"] == "local"  # nothing is downloaded
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert [command[1:3] for command in commands[:2]] == [
        ["check", "--force-exclude"],
        ["format", "--force-exclude"],
    ]
    assert {program.parent.as_posix() for program in programs} == {".venv/bin"}
    for program in programs:
        assert shutil.which(program.name, path=str(Path(sys.executable).parent)), program
    assert (ROOT / commands[2][-1]).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_where_pip_takes_torch_the_size_of_its_cuda_build_stands(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if page.name == "install.md" or not INSTALLS_TORCH.search(line):
            continue
        nearby = "\n".join(lines[max(0, number - NEARBY_LINES) : number + NEARBY_LINES + 1])
        assert WITHOUT_CUDA_LINK in nearby, f"{page.name}: {line}"
        assert "4.9 GB" in nearby, f"{page.name}: {line}"


def test_the_page_on_installing_begins_its_part_on_pip_with_the_build_without_cuda() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    before, after = page.split("### Without CUDA\n")
    constraints = (ROOT / "constraints.txt").read_text("utf-8")
    [torch] = re.findall(r"^torch==\S+", constraints, re.MULTILINE)

    assert not INSTALLS_TORCH.search(before)
    assert "4.9 GB" in after.split("### ")[0]
    assert f"`{torch}`" in after.split("### ")[0]
