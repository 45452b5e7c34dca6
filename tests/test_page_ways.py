"""Pages of ways that are compared, and what is said of numbers that are not wholly known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import attnviz as library
from attnviz.analysis.comparison import compare
from attnviz.renderers import render
from attnviz.renderers.page.page import SCRIPT_FILES
from attnviz.traces.trace import Trace
from attnviz.views.grids.explorer import arrange_heads
from attnviz.views.trace_data import explore_trace
from tests import not_none
from tests.browser import page_in_browser
from tests.pages_by_hand import wait_for_frames, wait_until, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = Path(__file__).parents[1] / "attnviz" / "renderers" / "page"


def test_ways_of_one_head_stand_side_by_side_and_differences_are_not_read(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    ways = compare("I am learning this", by="mask", values=["causal", "zero-scores"])
    path.write_bytes(render(ways.view(), ".html"))
    with page_in_browser(
        chromium, path, "#head=2", viewport={"width": 1280, "height": 800}
    ) as page:
        assert "All ways" in page.inner_text("#overview")
        maps = page.locator("#overview [role=gridcell]")
        wait_until(page, lambda: (box := maps.last.bounding_box()) is not None and box["x"] > 0)
        boxes = [box for each in maps.all() if (box := each.bounding_box())]
        assert len(boxes) == 3
        assert len({box["y"] for box in boxes}) == 1
        assert boxes == sorted(boxes, key=lambda box: box["x"])

        maps.first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.head") == "1"

        tokens, says = (
            page.locator("#sentence .token"),
            page.locator("#sentence .says"),
        )
        boxes_before = [each.bounding_box() for each in tokens.all()]
        tokens.last.hover()
        wait_until(page, lambda: "by difference" in says.inner_text())
        assert says.inner_text().endswith("by difference: all are 0")
        tokens.nth(1).hover()
        wait_until(page, lambda: "most" in says.inner_text())
        assert [each.bounding_box() for each in tokens.all()] == boxes_before


FIND_BOXES = (
    "all => all.map(each => each.getBoundingClientRect()).map(({ left, top, right, bottom }) =>"
)
FOCUSED_LABEL = "document.activeElement.getAttribute('aria-label')"


def page_of_many_heads(trace: Trace, layers: int, heads: int, folder: Path) -> Path:
    first = explore_trace(trace).heads[0]
    places = [(f"L{row}", f"H{column}") for row in range(layers) for column in range(heads)]
    named_heads = [(row, column, replace(first, name=row + column)) for row, column in places]
    return write_page(
        replace(trace.view(), head_explorer=lambda: arrange_heads(named_heads)), folder
    )


def test_of_very_many_heads_all_are_in_the_first_sight_and_keys_lead_from_part_to_part(
    four_heads: Trace, chromium: Browser, tmp_path: Path
) -> None:
    desktop, phone = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
    path = page_of_many_heads(four_heads, 24, 5, tmp_path)
    with page_in_browser(chromium, path, "#head=L0H4", viewport=desktop) as page:
        maps = page.locator("#overview [role=gridcell]")
        wait_until(
            page, lambda: page.locator("[data-head='4']").evaluate("e => e.offsetWidth") > 10
        )
        wait_for_frames(page)
        boxes = maps.evaluate_all(f"{FIND_BOXES} [left, top, right, bottom])")
        assert len({tuple(box) for box in boxes}) == len(boxes) == 120
        assert max(box[2] for box in boxes) <= 1280
        assert max(box[3] for box in boxes) <= 800
        assert len({box[1] for box in boxes}) == 12
        matrix = not_none(page.locator("#matrix .matrix-frame").bounding_box())
        assert matrix["y"] + matrix["height"] <= 800
        page.focus("#overview [tabindex='0']")
        page.keyboard.press("ArrowRight")
        assert page.evaluate(FOCUSED_LABEL).startswith("L12H0")
        page.keyboard.press("Enter")
        wait_until(page, lambda: "head=L12H0" in page.url)
    with page_in_browser(chromium, path, "#view=overview", viewport=phone) as page:
        maps = page.locator("#overview [role=gridcell]")
        wait_until(page, lambda: maps.first.evaluate("e => e.offsetWidth") > 24)
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert len(set(maps.evaluate_all(f"{FIND_BOXES} top)"))) == 24


def test_a_film_of_many_heads_shows_those_of_one_moment_by_layer(
    chromium: Browser, tmp_path: Path
) -> None:
    text = "it was late"
    runs = [library.trace(text, layers=3, heads=6, dim=12, seed=seed) for seed in (1, 2)]
    path, phone = write_page(library.film(runs).view(), tmp_path), {"width": 400, "height": 800}
    with page_in_browser(chromium, path, "#view=overview", viewport=phone) as page:
        maps = page.locator("#overview [role=gridcell]:visible")
        wait_until(page, lambda: maps.count() == 18)
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        wait_until(page, lambda: len(set(maps.evaluate_all(f"{FIND_BOXES} top)"))) == 3)
        assert "2 of 2" in (maps.first.get_attribute("aria-label") or "")
        page.focus("#layer")
        page.keyboard.press("Home")
        wait_until(page, lambda: "1 of 2" in (maps.first.get_attribute("aria-label") or ""))
        assert maps.count() == 18
        caveat = page.locator("#caveat")
        assert caveat.evaluate("each => each.scrollWidth <= each.clientWidth")


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        (0.4183, 0, ".4183"),
        (0.4183, 1e-6, ".4183"),
        (0.4183, 2e-3, "about .42"),
        (0.0449, 5.3e-4, "about .045"),
        (3.125e-5, 0, "3.125e−05"),
        (3.125e-5, 2.1e-6, "about 3e−05"),
        (0, 0, ".0000"),
        (0, 1e-6, "about 0"),
        (-0.28, 0.3, "about −.3"),
    ],
)
def test_no_more_digits_are_written_than_are_known(
    number_page: Any, number: float, error: float, text: str
) -> None:
    assert number_page.evaluate(f"knownText({number}, {error}, {{ share: true }})") == text


@pytest.fixture(scope="module")
def number_page(chromium: Browser) -> Any:
    """An empty page with the scripts that write numbers as text."""
    page = chromium.new_page()
    script_names = ("numbers.js", "reading.js")
    texts = [
        (PAGE / "script" / name).read_text("utf-8") for name in SCRIPT_FILES if name in script_names
    ]
    page.add_script_tag(content="\n".join(texts))
    yield page
    page.close()
