"""What every test starts from: checked shapes, no colours by chance, and a command line to call."""

from __future__ import annotations

import gc
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

# Before torch is imported: a second thread for matrices of three rows would only wait for a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib
import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook
from matplotlib import font_manager
from typer.utils import get_params_from_function

# Before anything imports them: every call in these modules is checked against its shapes.
SHAPED = (
    "attnviz.cells",
    "attnviz.attention.arithmetic",
    "attnviz.attention.block",
    "attnviz.vectors.embedding_tables",
    "attnviz.vectors.random_numbers",
    "attnviz.vectors.vector_files",
    "attnviz.vectors.positions",
    "attnviz.traces.from_text",
    "attnviz.traces.layers",
    "attnviz.traces.plan",
    "attnviz.traces.trace",
    "attnviz.traces.weights",
)
install_import_hook(SHAPED, "beartype.beartype")


class ShapeChecks(type(config)):  # type: ignore[misc]
    """The configuration of jaxtyping, with which the first calls of each test are checked.

    Thousands more of the same functions would find nothing new, and take a fifth of the time.
    """

    FIRST_CALLS = 200
    left = FIRST_CALLS
    is_off = False

    @property
    def jaxtyping_disable(self) -> bool:
        """Read by jaxtyping at every call of a function whose shapes it may check."""
        if self.is_off or self.left == 0:
            return True
        self.left -= 1
        return False

    @jaxtyping_disable.setter
    def jaxtyping_disable(self, is_off: bool) -> None:
        self.is_off = is_off

    def begin_test(self, is_off: bool) -> None:
        self.left, self.is_off = self.FIRST_CALLS, is_off


config.__class__ = ShapeChecks
shape_checks = cast(ShapeChecks, config)

from attnviz.cli.app import run_command_line  # noqa: E402
from attnviz.renderers.picture import glyphs  # noqa: E402
from tests.browser import browser  # noqa: E402
from tests.tiers import (  # noqa: E402
    QUICK_PROFILE,
    SlowCases,
    mark_slow_cases,
    put_long_files_first,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from attnviz.traces.trace import Trace

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"

if os.name == "nt":  # where there are no pseudo-terminals, and no pipes with names
    topics = "background files guesses help live memory pager run"
    collect_ignore = [f"test_{topic}.py" for topic in topics.split()]

COLORS = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORFGBG", "COLORTERM")

# At home every run looks for new counterexamples; CI repeats the same ones, so that what lands
# is judged by the change and not by luck.
settings.register_profile("attnviz", deadline=None, derandomize="CI" in os.environ, max_examples=50)
settings.register_profile(QUICK_PROFILE, settings.get_profile("attnviz"), max_examples=10)
settings.load_profile("attnviz")


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


Attnviz = Callable[..., Result]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")
    parser.addoption("--times", type=int, default=1, help="how often to draw anew what is drawn")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "not slow":
        settings.load_profile(QUICK_PROFILE)  # of random examples, too, the first are quick
    config.pluginmanager.register(SlowCases(config))


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow_cases(items)
    put_long_files_first(items)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`first` is the first number of a chunk of random draws; --times N draws N times as many."""
    marker = metafunc.definition.get_closest_marker("draws")
    if marker is not None:
        draws, chunk = marker.args
        last = draws * metafunc.config.getoption("--times")
        metafunc.parametrize("first", range(0, last, chunk))


def pytest_collection_finish() -> None:
    """Tests live as long as the process: the garbage collector need not look at them again.

    Collecting after every 700 new objects, Python's default, took 7 % of the time of tests that
    draw pictures.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@contextmanager
def unchecked() -> Iterator[None]:
    """Training, and a thousand small runs, take four times as long where every shape is checked."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


@pytest.fixture
def quick() -> Iterator[None]:
    """Shapes that are checked elsewhere are not here."""
    with unchecked():
        yield


@pytest.fixture(autouse=True)
def shapes_checked_in_quick_tests(request: pytest.FixtureRequest) -> None:
    """Slow cases call the same functions as quick ones."""
    shape_checks.begin_test(is_off=request.node.get_closest_marker("slow") is not None)


UNSET = (*COLORS, "COLUMNS", "LINES", "PAGER", "LESS", "ATTNVIZ_THEME")


@pytest.fixture(autouse=True, scope="session")
def plain_surroundings() -> Iterator[None]:
    """For what outlives a test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in UNSET:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def options_read_once() -> Iterator[None]:
    """Whenever a command is called, typer reads its function anew: here thousands of times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_params_from_function", cache(get_params_from_function))
        yield


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="session")
def matplotlibs_own_fonts() -> Iterator[None]:
    """What a test draws depends on no font of the machine; a test about others brings its own.

    They are listed anew: matplotlib's own list is kept in a file that may be an old one.
    """
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    manager, all_fonts = font_manager.fontManager, font_manager.fontManager.ttflist
    manager.ttflist = [
        font_manager.ttfFontProperty(font_manager.get_font(path))
        for path in sorted(folder.glob("*.ttf"))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glyphs, "_installed_fonts", list)
        yield
    manager.ttflist = all_fonts


@pytest.fixture
def attnviz(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Attnviz:
    """Call the command line in this process: `attnviz("run", "I am", stdin=b"")`.

    Each call has a context of its own, as each process has: no --limit reaches the next test.
    """

    def call(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        status = copy_context().run(run_command_line, list(arguments))
        captured = capfd.readouterr()
        return Result(status, captured.out, captured.err)

    return call


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Hold a text against tests/golden/NAME, or write it there with --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def small_transformer(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small transformer of some kind, made when the first test asks for it."""
    from tests.small_transformers import EVERY, save  # which imports torch

    folder = tmp_path_factory.mktemp("transformers")

    def saved(name: str) -> Path:
        path: Path = folder / name.replace(" ", "-")
        return path if path.is_dir() else save(EVERY[name], path)

    return saved


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of pages, which takes as long to start as to open four of them."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def four_heads() -> Trace:
    """What several files of tests look at on a page: two layers of two heads."""
    from tests.pages_by_hand import trace_of_four_heads

    return trace_of_four_heads()


@pytest.fixture(scope="module")
def page_path(four_heads: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of these heads."""
    from tests.pages_by_hand import page_of_four_heads

    return page_of_four_heads(four_heads, tmp_path_factory.mktemp("page"))


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own to work in, with the sample texts in it."""
    shutil.copytree(ROOT / "sample_texts", tmp_path / "sample_texts")
    monkeypatch.chdir(tmp_path)
    return tmp_path
