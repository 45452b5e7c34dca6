"""What CI runs: it installs a browser where it can, and runs the tests wherever it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from attnviz.traces import toml_reader
from tests import LONGEST
from tests.conftest import ROOT

SCRIPT = ROOT / ".ci" / "run"
WORKFLOWS = ROOT / ".github" / "workflows"
ONE_SYSTEM = "./.github/workflows/one-system.yml"
NEEDED = ("bash", "dirname", "timeout")
RECORD = '#!{bash}\necho "{name} $*" >> {log}\nexit {status}\n'

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="no script of CI comes with this copy")


def ran(folder: Path, *, user: int = 0, apt: int | None = 0, browser: str = "") -> list[str]:
    """What it calls where `apt-get` ends with a status, or is not there at all."""
    programs, log = folder / "bin", folder / "log"
    programs.mkdir()
    log.touch()
    bash = shutil.which("bash")
    for name in NEEDED:
        (programs / name).symlink_to(shutil.which(name) or name)
    statuses = {"make": 0, **({} if apt is None else {"apt-get": apt}), browser: 0}
    written = {
        name: RECORD.format(bash=bash, name=name, log=log, status=status)
        for name, status in statuses.items()
        if name
    }
    for name, text in {**written, "id": f"#!{bash}\necho {user}\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [str(bash), str(SCRIPT)], env={**os.environ, "PATH": str(programs)}, check=True,
        capture_output=True, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert bool(done.stderr) == (apt not in (0, None))
    return [
        line.split(" -o ")[0] if "apt" in line else line for line in log.read_text().split("\n")
    ]


TESTED = ["make lint", "make test", "make test-rest", ""]


def test_a_browser_is_installed_where_there_is_none(tmp_path: Path) -> None:
    assert ran(tmp_path) == ["apt-get -qq", "apt-get -qq", *TESTED]


def test_the_tests_run_where_none_can_be_installed(tmp_path: Path) -> None:
    assert ran(tmp_path, apt=100) == ["apt-get -qq", *TESTED]


@pytest.mark.parametrize(
    "surroundings", [{"browser": "chromium"}, {"user": 1000}, {"apt": None}], ids=str
)
def test_nothing_is_installed_where_that_is_not_needed_or_not_allowed(
    tmp_path: Path, surroundings: dict[str, object]
) -> None:
    assert ran(tmp_path, **surroundings) == TESTED  # type: ignore[arg-type]


def workflow(name: str) -> Any:
    """Return a workflow; its key `on` is True in YAML 1.1."""
    return yaml.safe_load((WORKFLOWS / name).read_text("utf-8"))


def test_a_push_is_tested_once_with_the_newest_python() -> None:
    described = workflow("test.yml")
    [job] = described["jobs"].values()
    newest = workflow("nightly.yml")["jobs"]["test"]["strategy"]["matrix"]["python"][-1]

    assert described[True].keys() == {"push", "pull_request"}
    assert described["concurrency"] == {
        "group": "test-${{ github.ref }}", "cancel-in-progress": True,
    }  # fmt: skip
    assert job["uses"] == ONE_SYSTEM
    assert job["with"] == {"os": "ubuntu-latest", "python": newest}


def test_every_system_and_python_is_tested_every_night_and_by_hand() -> None:
    described = workflow("nightly.yml")
    [job] = described["jobs"].values()
    oldest = toml_reader.parse((ROOT / "pyproject.toml").read_text(), "pyproject.toml")["project"]

    assert described[True].keys() == {"schedule", "workflow_dispatch"}
    assert job["uses"] == ONE_SYSTEM
    assert job["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in range(10, 15)]
    assert oldest["requires-python"] == ">=3.10"
    assert [name.partition("-")[0] for name in job["strategy"]["matrix"]["os"]] == [
        "ubuntu", "macos", "windows",
    ]  # fmt: skip


def test_each_system_runs_the_same_script() -> None:
    [job] = workflow("one-system.yml")["jobs"].values()

    assert [each["run"] for each in job["steps"] if "if" not in each and "run" in each] == [
        SCRIPT.relative_to(ROOT).as_posix()
    ]


@pytest.mark.parametrize("name", ["test", "nightly", "one-system", "publish"])
def test_a_workflow_may_do_nothing_but_what_its_jobs_need(name: str) -> None:
    described = workflow(f"{name}.yml")

    assert described["permissions"] == {}
    for job in described["jobs"].values():
        assert job["permissions"] in ({"contents": "read"}, {"id-token": "write"})
        for step in job.get("steps", ()):
            if str(step.get("uses", "")).startswith("actions/checkout"):
                assert step["with"] == {"persist-credentials": False}


def test_every_workflow_that_is_there_is_known() -> None:
    names = {path.stem for path in WORKFLOWS.glob("*")}

    assert names == {"test", "nightly", "one-system", "publish"}
