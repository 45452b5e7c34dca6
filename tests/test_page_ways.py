"""Pages of ways that are compared, and what is said of numbers that are not wholly known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnviz.analysis.comparison import compare
from attnviz.renderers import render
from attnviz.renderers.page.page import SCRIPT_FILES
from tests.browser import opened
from tests.pages_by_hand import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = Path(__file__).parents[1] / "attnviz" / "renderers" / "page"


def test_ways_of_one_head_stand_side_by_side_and_differences_are_not_read(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    ways = compare("I am learning this", by="mask", values=["causal", "zero-scores"])
    path.write_bytes(render(ways.view(), ".html"))
    with opened(chromium, path, "#head=2", viewport={"width": 1280, "height": 800}) as seen:
        assert "All ways" in seen.page.inner_text("#overview")
        maps = seen.page.locator("#overview [role=gridcell]")
        until(seen.page, lambda: (box := maps.last.bounding_box()) is not None and box["x"] > 0)
        boxes = [box for each in maps.all() if (box := each.bounding_box())]
        assert len(boxes) == 3
        assert len({box["y"] for box in boxes}) == 1
        assert boxes == sorted(boxes, key=lambda box: box["x"])

        maps.first.focus()
        seen.page.keyboard.press("ArrowRight")
        assert seen.page.evaluate("document.activeElement.dataset.head") == "1"

        tokens, says = seen.page.locator("#sentence .token"), seen.page.locator("#sentence .says")
        before = [each.bounding_box() for each in tokens.all()]
        tokens.last.hover()
        until(seen.page, lambda: "by difference" in says.inner_text())
        assert says.inner_text().endswith("by difference: all are 0")
        tokens.nth(1).hover()
        until(seen.page, lambda: "most" in says.inner_text())
        assert [each.bounding_box() for each in tokens.all()] == before


@pytest.mark.parametrize(
    ("number", "error", "said"),
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
    words: Any, number: float, error: float, said: str
) -> None:
    assert words.evaluate(f"knownText({number}, {error}, {{ share: true }})") == said


@pytest.fixture(scope="module")
def words(chromium: Browser) -> Any:
    """A page with nothing on it, which knows how numbers are put into words."""
    page = chromium.new_page()
    named = ("numbers.js", "reading.js")
    texts = [(PAGE / "script" / name).read_text("utf-8") for name in SCRIPT_FILES if name in named]
    page.add_script_tag(content="\n".join(texts))
    yield page
    page.close()
