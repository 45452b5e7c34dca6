"""Two tiers of tests: `make test` leaves out slow cases, and `make test-all` runs every case.

A case is slow by what it is. Three kinds are recognised here: random draws beyond the first, cases
of a product of tables that add no new row, and pages in a browser beyond the first of each file.
Tests with random examples of hypothesis run in both tiers, in the first with few of them. Other
tests say what they are:

    @pytest.mark.slow("training")                    the whole test
    @pytest.mark.slow_table("formats", keep=2)       all rows of its table but two, spread over it
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby

import pytest
from hypothesis import settings

SLOW_KINDS = {
    "draws": "random draws beyond the first",
    "products": "cases of several tables at once that have no row of their own",
    "browser": "pages in a browser beyond the first of each file",
    "documentation": "console blocks of pages beyond the README",
    "formats": "one story told in every format, theme or size",
    "training": "models that are trained",
    "models": "forward passes of transformers",
    "processes": "commands in a process or a terminal of their own",
    "films": "pictures that move, frame by frame",
    "pictures": "whole pages of pictures, drawn and measured",
    "sentences": "many views, each sentence of which is checked",
    "calls": "hundreds of calls of the command line",
    "seeds": "many seeds at once",
    "long texts": "texts of thousands of tokens",
}
QUICK_PROFILE = "quick"  # of hypothesis
SMALL_PRODUCT = 12  # cases: a product of tables up to this size is kept whole
PAGES_OF_A_FILE = 1  # in a browser
LONGEST_FILE = "test_option_pairs.py"  # takes longer than all other slow tests together
ROW_TYPES = (str, int, float, bytes, tuple, type(None))


def examples(number: int) -> int:
    """As many random examples, of which `make test` draws one in ten, and at least five."""
    quick = settings.get_current_profile_name() == QUICK_PROFILE
    return max(number // 10, 5) if quick else number


def put_long_files_first(items: list[pytest.Item]) -> None:
    """Sort files: the longest first, then by their number of tests. A file goes to one worker, and
    a worker that began a long one last would be alone in the end.
    """
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name != LONGEST_FILE, -counts[item.path]))


def mark_slow_cases(items: Sequence[pytest.Item]) -> None:
    """Add the marker `slow` to every case that `make test` leaves out."""
    for kind, cases in _slow_cases([item for item in items if isinstance(item, pytest.Function)]):
        for case in cases:
            case.add_marker(pytest.mark.slow(kind))


def _slow_cases(items: list[pytest.Function]) -> Iterator[tuple[str, Iterable[pytest.Function]]]:
    """Yield kinds of slow cases with their cases; refuse a marker with a kind that is none."""
    for case in items:
        for marker in (*case.iter_markers("slow"), *case.iter_markers("slow_table")):
            if marker.args[0] not in SLOW_KINDS:
                raise pytest.UsageError(
                    f"{case.nodeid}: '{marker.args[0]}' is no kind of slow test"
                )
    for _, group in groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        cases = [*group]
        if table := cases[0].get_closest_marker("slow_table"):
            yield table.args[0], _without_some_rows(cases, **table.kwargs)
        elif len(cases) > SMALL_PRODUCT:
            yield "products", _cases_without_a_row_of_their_own(cases)
    yield "draws", [case for case in items if _is_later_draw(case)]
    pages = defaultdict(list)
    for case in items:
        if "chromium" in case.fixturenames:
            pages[case.path].append(case)
    for of_a_file in pages.values():
        yield "browser", of_a_file[PAGES_OF_A_FILE:]


def _without_some_rows(cases: list[pytest.Function], *, keep: int) -> list[pytest.Function]:
    """The cases of a table but for `keep` of them: the first, and others spread evenly."""
    quick_rows = {number * len(cases) // keep for number in range(keep)}
    return [case for number, case in enumerate(cases) if number not in quick_rows]


def _cases_without_a_row_of_their_own(cases: list[pytest.Function]) -> list[pytest.Function]:
    """The cases of which every parameter has had its value in an earlier case."""
    earlier_rows: set[tuple[str, Hashable]] = set()
    cases_without_new_rows = []
    for case in cases:
        rows = {(name, _row_key(value)) for name, value in case.callspec.params.items()}
        if len(rows) > 1 and rows <= earlier_rows:
            cases_without_new_rows.append(case)
        earlier_rows |= rows
    return cases_without_new_rows


def _row_key(value: object) -> Hashable:
    """Equal for the same row of a table, whatever it holds."""
    return repr(value) if isinstance(value, ROW_TYPES) else id(value)


def _is_later_draw(case: pytest.Function) -> bool:
    return case.get_closest_marker("draws") is not None and case.callspec.params["first"] != 0


SLOW_SECONDS = 1.0
SLOW_BEFORE = "attnviz/slow"  # in pytest's cache
MOST_TESTS = 5000  # fewer are a part of the suite


class SlowCases:
    """Names the unmarked cases that took over a second in this run and in the one before."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A fixture is set up for the first case that needs it, so only the test itself counts.

        Random examples do not count: in `make test` they are few.
        """
        if report.when == "call" and not {"slow", "hypothesis"} & {*report.keywords}:
            self.seconds[report.nodeid] = report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        cache = getattr(self.config, "cache", None)
        if cache is None or len(self.seconds) < MOST_TESTS:
            return
        slow = {case: took for case, took in self.seconds.items() if took > SLOW_SECONDS}
        before = cache.get(SLOW_BEFORE, [])
        cache.set(SLOW_BEFORE, sorted(slow))
        if twice := sorted(slow.keys() & before):
            terminalreporter.section("cases of `make test` that took over a second, twice in a row")
            for case in twice:
                terminalreporter.line(f"{slow[case]:.1f} s {case}")
            terminalreporter.line("Mark them as slow (tests/tiers.py), or make them cheaper.")
