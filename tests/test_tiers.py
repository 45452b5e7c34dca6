"""Which cases `make test` leaves out, and that each defect that it should notice can be planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import LONGEST, tiers
from tests.conftest import ROOT
from tests.planted_defects import DEFECTS, Defect
from tests.tiers import SLOW_BEFORE, SlowCases

CONFTEST = """
import pytest
from tests.tiers import mark_slow_cases

@pytest.fixture
def chromium():
    pass

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_slow_cases(items)
"""
SUITE = """
import pytest

@pytest.mark.slow("training")
def test_training():
    pass

@pytest.mark.slow_table("formats", keep=2)
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".gif"])
def test_formats(suffix):
    pass

@pytest.mark.parametrize("size", ["4:3", "16:9"])
@pytest.mark.parametrize("view", range(7))
def test_large_product(view, size):
    pass

@pytest.mark.parametrize("size", ["4:3", "16:9"])
@pytest.mark.parametrize("view", range(6))
def test_small_product(view, size):
    pass

@pytest.mark.draws(20, 10)
@pytest.mark.parametrize("first", [0, 10])
def test_draws(first):
    pass

def test_first_page(chromium):
    pass

def test_second_page(chromium):
    pass
"""


def collect(folder: Path, suite: str, tier: str) -> subprocess.CompletedProcess[str]:
    """What pytest collects of a suite of its own, whose cases are marked as they are here."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(suite)
    words = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*words, "-W", "ignore", "-m", tier], cwd=folder, capture_output=True, text=True,
        check=False, timeout=LONGEST, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def collected_names(folder: Path, tier: str) -> set[str]:
    lines = collect(folder, SUITE, tier).stdout.splitlines()
    return {line.removeprefix("test_it.py::test_") for line in lines if "::" in line}


def test_each_tier_has_the_cases_that_the_other_leaves_out(tmp_path: Path) -> None:
    quick, slow = (collected_names(tmp_path, tier) for tier in ("not slow", "slow"))

    assert slow == {
        *("training", "formats[.svg]", "formats[.gif]", "draws[10]", "second_page"),
        *(f"large_product[{view}-16:9]" for view in range(1, 7)),
    }
    assert len(quick) == 2 + (14 - 6) + 12 + 1 + 1
    assert not quick & slow


def test_a_kind_of_slow_test_that_is_not_in_the_table_is_refused(tmp_path: Path) -> None:
    result = collect(tmp_path, SUITE.replace('"training"', '"learning"'), "slow")

    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_it.py::test_training: 'learning' is no kind of slow test" in result.stderr


def test_unmarked_cases_that_are_slow_twice_in_a_row_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "MOST_TESTS", 3)
    cache: dict[str, Any] = {}
    config: Any = SimpleNamespace(
        cache=SimpleNamespace(
            get=lambda key, default: cache.get(key, default), set=cache.__setitem__
        )
    )

    def report_run(**seconds: float) -> list[str]:
        """The lines of the summary after a run of these cases."""
        lines: list[str] = []
        reporter: Any = SimpleNamespace(section=lines.append, line=lines.append)
        slow_cases = SlowCases(config)
        for name, duration in seconds.items():
            keywords = {"slow": 1} if name == "marked" else {}
            report: Any = SimpleNamespace(
                when="call", nodeid=name, duration=duration, keywords=keywords
            )
            slow_cases.pytest_runtest_logreport(report)
        slow_cases.pytest_terminal_summary(reporter)
        return lines

    assert report_run(quick=0.1, busy=1.5, once=1.2, marked=9) == []
    assert cache == {SLOW_BEFORE: ["busy", "once"]}
    assert report_run(busy=1.4) == []  # a part of the suite tells nothing
    _, *cases, _ = report_run(quick=0.1, busy=1.4, once=0.9, marked=9)
    assert cases == ["1.4 s busy"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_every_defect_can_be_planted(defect: Defect) -> None:
    text = (ROOT / "attnviz" / defect.file).read_text("utf-8")

    assert text.count(defect.right) == 1
    assert len(DEFECTS) == 24
