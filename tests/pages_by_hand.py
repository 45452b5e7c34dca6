"""A page of four heads for tests in a browser, and functions that wait for it and read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import attnviz as library
from attnviz.traces.trace import Trace
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.trace_data import explore_trace
from attnviz.views.view import View

if TYPE_CHECKING:
    from playwright.sync_api import Page

WORDS = ["I", "am", "here", "=1+1", "am"]  # the first is marked as a special token
VIEWS = ("sentence", "matrix", "lines", "overview")


def trace_of_four_heads() -> Trace:
    return library.trace("I am here now am", tokenizer="words", layers=2, heads=2, causal=True)


def page_of_four_heads(trace: Trace, folder: Path) -> Path:
    return write_page(replace(trace.view(), head_explorer=lambda: _with_words(trace)), folder)


def _with_words(trace: Trace) -> HeadExplorer:
    explorer = explore_trace(trace)
    special_tokens = (True, *([False] * (len(WORDS) - 1)))
    axis = replace(explorer.heads[0].query_axis, labels=tuple(WORDS), special=special_tokens)
    heads = tuple(replace(each, query_axis=axis, key_axis=axis) for each in explorer.heads)
    return replace(explorer, heads=heads)


def write_page(view: View, folder: Path) -> Path:
    path = folder / "x.html"
    path.write_bytes(view.render(".html"))
    return path


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for a condition; playwright's own waiting needs eval, which no page allows."""
    for _ in range(1_500):
        if condition():
            return
        page.wait_for_timeout(20)
    raise AssertionError("the condition never became true")


def wait_for_frames(page: Page, milliseconds: int = 60) -> None:
    """Wait for what the page draws in its next frames, however slow they are."""
    frames = "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, pause)))"
    page.evaluate(f"pause => new Promise(done => {frames})", milliseconds)


def visible_ids(page: Page, *names: str) -> list[str]:
    return [name for name in names if page.locator(f"#{name}").is_visible()]
