"""What follows the token that is chosen: all steps of a walk, and a head on two sentences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import attnviz as library
from attnviz.analysis.inspection.two_sentences import compare_sentences
from attnviz.renderers.page import page as html_page
from attnviz.renderers.page.tables_and_steps import step_markup
from tests.browser import page_in_browser
from tests.pages_by_hand import wait_until, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCROLLS = ' tabindex="0" role="group" aria-label="scrolls"'
NORMALIZE_HTML = (
    "each => { const t = document.createElement('div'); t.innerHTML = each; return t.innerHTML }"
)


def _steps(page: Page) -> str:
    return page.locator(".walk").inner_html().replace(SCROLLS, "")


def test_all_steps_are_those_of_the_token_that_is_chosen(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = library.trace("<b> & 'am' <b>", tokenizer="spaces", heads=2)
    path = write_page(library.steps(trace).view(), tmp_path)
    blank = chromium.new_page()
    with page_in_browser(chromium, path) as page:
        page, tokens = page, page.locator("#sentence .token")
        for place in (0, 2):
            tokens.nth(place).click()
            wait_until(page, lambda n=place: page.input_value("#query")[0] == str(n + 1))  # type: ignore[misc]
            walk_view = library.steps(trace, query=str(place + 1)).view()
            markup = "".join(map(step_markup, walk_view.sections))
            expected = blank.evaluate(NORMALIZE_HTML, markup)
            wait_until(page, lambda steps=expected: _steps(page) == steps)  # type: ignore[misc]
            assert page.inner_text("h1") == page.title() == walk_view.headline
        page.keyboard.press("Escape")
        markup_of_all = "".join(map(step_markup, library.steps(trace).view().sections))
        wait_until(page, lambda: _steps(page) == blank.evaluate(NORMALIZE_HTML, markup_of_all))
    blank.close()

    monkeypatch.setattr(html_page, "MAX_STEP_LETTERS", 1)
    with page_in_browser(
        chromium, write_page(library.steps(trace, query="3").view(), tmp_path)
    ) as page:
        page.locator("#sentence .token").nth(1).click()
        lacks = page.locator(".lacks")
        wait_until(page, lambda: "--query 2 has them" in (lacks.text_content() or ""))
        assert page.inner_text("h1").startswith("How \"'am'\" gets")


def test_a_head_on_two_sentences_is_seen_twice_and_both_follow_the_same_token(
    chromium: Browser, tmp_path: Path
) -> None:
    sentences = compare_sentences(
        "the old keys near the cabinet",
        "the keys near the cabinet",
        model="agreement",
        query="cabinet",
    )
    path = write_page(sentences.view(), tmp_path)
    with page_in_browser(chromium, path, viewport={"width": 1440, "height": 900}) as page:
        page, lines = page, page.locator("#both .matrix-line")
        wait_until(page, lambda: "cabinet" in lines.nth(1).inner_text())
        names = page.locator("#both .matrix-title strong").all_inner_texts()
        assert [each.split(" · ")[1] for each in names] == ["first", "second"]
        first, second = (page.locator("#both .matrix-stuck").nth(place) for place in (0, 1))
        left, right = first.bounding_box(), second.bounding_box()
        assert left is not None
        assert right is not None
        assert left["x"] + left["width"] <= right["x"]
        assert left["width"] > 500
        second.click(position={"x": right["width"] / 2, "y": right["height"] - 12})
        page.mouse.move(1, 1)
        wait_until(page, lambda: 'Following "\u2068?' in lines.nth(0).inner_text())
        assert lines.nth(1).inner_text() == lines.nth(0).inner_text()
        files = {kind: _save_file(page, kind) for kind in ("Matrix as SVG", "Numbers as CSV")}
        numbers = files["Numbers as CSV"].splitlines()[1:]
        sides = Counter(line.split(",")[2].split(" · ")[-1] for line in numbers)
        assert sides == {"first": 7 * 7, "second": 6 * 6}
        assert files["Matrix as SVG"].count("</title>") == 2
        page.click("label:has([value=lines])")
        words = page.locator("#lines .lines-column.query .name")
        wait_until(page, lambda: words.count() == 7 and "old" in " ".join(words.all_inner_texts()))
        assert page.get_attribute("[data-head=first]", "aria-pressed") == "true"
        assert "first; lines: " in (page.text_content(".taken") or "")
        page.click("[data-head=second]")
        wait_until(
            page, lambda: words.count() == 6 and "old" not in " ".join(words.all_inner_texts())
        )
        pressed_words = page.locator("#lines .query [aria-pressed=true]").all_inner_texts()
        assert len(pressed_words) == 1
        assert pressed_words[0].startswith("6 ?")
        page.click("text=Difference")
        wait_until(page, lambda: page.locator("#matrix").is_visible())
        assert not page.locator("#both").is_visible()


def _save_file(page: Page, label: str) -> str:
    """The content of a file that the menu saves."""
    with page.expect_download() as download:
        page.evaluate(
            "(what) => document.querySelector(`[aria-label='save: ${what}']`).click()", label
        )
    return Path(download.value.path()).read_text(encoding="utf-8")
