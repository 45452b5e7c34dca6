"""What `make` installs, and what is published: the locks, the wheel, the source distribution."""

from __future__ import annotations

import re
import subprocess
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnviz.traces.texts import toml
from tests.conftest import ROOT

LOCKS = ("requirements.lock", "requirements-cuda.lock")
ALWAYS = {".gitignore", "LICENSE", "README.md", "pyproject.toml"}  # hatchling adds them to an sdist
PINNED = re.compile(r"[a-z0-9-]+==[\w.]+( ; [^;\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@cache
def locked(name: str) -> dict[str, list[str]]:
    """Each requirement of a lock with the rest of its lines: hashes."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", "").splitlines()
    return {line.split(" --")[0].strip(): line.split()[-line.count("--hash") :] for line in lines}


@cache
def project() -> Any:
    return toml((ROOT / "pyproject.toml").read_text(), "pyproject.toml")


def here() -> dict[str, Requirement]:
    """The requirements of the lock that are for this Python and this machine, by name."""
    every = [Requirement(each) for each in locked("requirements.lock")]
    found = [each for each in every if each.marker is None or each.marker.evaluate()]
    assert len({each.name for each in found}) == len(found)
    return {each.name: each for each in found}


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_is_one_version_with_its_hashes_and_no_address(name: str) -> None:
    for requirement, hashes in locked(name).items():
        assert PINNED.fullmatch(requirement), requirement
        assert hashes, requirement
        assert all(map(HASH.fullmatch, hashes)), requirement


def test_the_lock_has_all_that_attnviz_asks_for_in_a_version_that_fits() -> None:
    described = project()["project"]
    extras = described["optional-dependencies"]
    asked = [*described["dependencies"], *extras["dev"], *extras["models"], *extras["slides"]]

    for each in map(Requirement, [*asked, *project()["build-system"]["requires"]]):
        if each.marker is None or each.marker.evaluate():
            version = str(here()[canonicalize_name(each.name)].specifier).removeprefix("==")
            assert each.specifier.contains(version), each


def test_the_lock_has_all_that_its_packages_ask_for() -> None:
    """But for what is left out on purpose: pip resolves nothing, and would not notice a gap."""
    present = here().keys() | set(project()["tool"]["uv"]["exclude-dependencies"])
    for installed in metadata.distributions():
        name = canonicalize_name(installed.name)
        if name in here() and here()[name].specifier.contains(installed.version):
            for each in map(Requirement, installed.requires or ()):
                if each.marker is None or each.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(each.name) in present, f"{name}: {each}"


def test_what_only_cuda_needs_is_in_a_lock_of_its_own() -> None:
    small, large = (" ".join(locked(name)) for name in LOCKS)

    assert not re.search("nvidia|cuda|triton", small)
    assert re.search("nvidia", large)
    assert locked(LOCKS[0]).keys() & locked(LOCKS[1]).keys() >= {"torch==2.13.0"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows what belongs to it")
def test_the_source_distribution_has_every_file_of_a_clone() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}

    included = {each.distribution_path for each in SdistBuilder(str(ROOT)).recurse_included_files()}

    assert tracked - included == ALWAYS


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
