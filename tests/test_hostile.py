"""Whatever is typed, in whatever surroundings, over whatever files: a result, or two lines."""

from __future__ import annotations

import pytest

from tests.hostile.calls import Call, invented
from tests.hostile.ending import Ended, ended
from tests.hostile.found import FOUND

CALLS = 100  # in one test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many tests as there are hundreds of calls: --calls 20000 (make fuzz)."""
    if "first" in metafunc.fixturenames:
        metafunc.parametrize("first", range(0, metafunc.config.getoption("--calls"), CALLS))


@pytest.mark.usefixtures("quick")
def test_calls_by_chance_give_a_result_or_two_lines(first: int) -> None:
    endings = {seed: ended(invented(seed)) for seed in range(first, first + CALLS)}

    assert {seed: _told(each) for seed, each in endings.items() if each.faults} == {}


@pytest.mark.parametrize("call", FOUND, ids=lambda call: " ".join(call.arguments)[:60])
def test_what_once_ended_badly_ends_well(call: Call) -> None:
    ending = ended(call)

    assert ending.faults == [], _told(ending)


def test_calls_by_chance_try_most_things() -> None:
    calls = [invented(seed) for seed in range(1000)]

    assert {call.arguments[0] for call in calls} >= {"run", "compare", "steps", "example"}
    assert sum(bool(call.files) for call in calls) > 200
    assert sum(ended(call).status == 0 for call in calls[:100]) >= 45


def test_what_ends_badly_is_seen() -> None:
    def faults(status: int, out: str, err: str, **files: bytes) -> int:
        names = {name.replace("_", "."): content for name, content in files.items()}
        return len(Ended(Call(("run",)), status, out, err, names, seconds=1).faults)

    assert faults(0, "\x1b[1mbold\x1b[0m", "note: one", a_json=b"[1]") == 0
    assert faults(2, "", "error: one\n hint: two\n") == 0
    assert faults(1, "", "Traceback") == 2
    assert faults(2, "\x1b[2J", "no hint") == 2
    assert faults(2, "", "error: one\n hint: two\n", a_txt=b"") == 1
    assert faults(0, "", "", a_json=b"[NaN]", a_svg=b"<svg>", a_npz=b"PK", a_md=b"\x1b") == 4


def _told(ending: Ended) -> str:
    """What somebody who mends it must know."""
    return f"{ending.faults}: {ending.call}\n{ending.err}"
