"""The page in a real browser, for everybody: with keys, on paper, on a phone, in any colours."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import attnviz as library
from tests.browser import page_in_browser
from tests.pages_by_hand import (
    VIEWS,
    WORDS,
    visible_ids,
    wait_for_frames,
    wait_until,
    write_page,
)
from tests.test_page import contrast

if TYPE_CHECKING:
    from playwright.sync_api import Browser


FIND_FOCUS = """() => {
    const focused = document.activeElement, ring = getComputedStyle(focused);
    const around = getComputedStyle(focused.closest("label") ?? focused);
    const seen = [ring, around].some(({ outlineStyle }) => outlineStyle !== "none");
    return [focused.id || focused.value || focused.className || focused.tagName, seen];
}"""


def test_tab_comes_to_everything_in_its_order_and_one_sees_where_it_is(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(chromium, page_path, viewport={"width": 1280, "height": 800}) as page:
        names: list[str] = []
        for _ in range(60):
            page.keyboard.press("Tab")
            name, has_ring = page.evaluate(FIND_FOCUS)
            if name == "BODY" or name in names[:1]:
                break
            assert has_ring, name
            names.append(name)
        assert names[:15] == [
            "skip", "theme", "SUMMARY", "SUMMARY", "reset", "layer", "head", "previous", "next",
            "matrix", "query", "least", "false", "special", names[14],
        ]  # fmt: skip
        assert "matrix-frame" in " ".join(names[14:])
        assert names.count("SUMMARY") >= 4  # of menus, of the table, of how it was made


def test_menus_close_with_escape_and_keys_are_explained(chromium: Browser, page_path: Path) -> None:
    with page_in_browser(chromium, page_path) as page:
        page.keyboard.press("?")
        assert page.locator("#help dd").first.is_visible()
        page.click("#copying summary")
        wait_until(page, lambda: not page.locator("#help dd").first.is_visible())
        assert page.evaluate("document.querySelectorAll('.menu[open]').length") == 1
        page.keyboard.press("Escape")
        assert page.evaluate("document.querySelectorAll('.menu[open]').length") == 0
        assert page.evaluate("document.activeElement.parentNode.id") == "copying"


def test_the_table_says_the_numbers_of_what_is_followed(
    chromium: Browser, page_path: Path, four_heads: Any
) -> None:
    with page_in_browser(chromium, page_path, "#head=L1H0&query=none") as page:
        page.click("#table summary")
        page.wait_for_selector("#table td")
        assert page.text_content("#table caption") == ("Weight in L1H0: rows attend to columns")
        assert page.locator("#table tbody tr").count() == len(WORDS)
        page.fill("#query", "3")
        page.keyboard.press("Enter")
        wait_until(page, lambda: page.locator("#table tbody td").count() == 3 * 3)
        caption = page.text_content("#table caption")
        assert caption == 'What "\u2068here\u2069" reads in L1H0 (2 more are hidden by the mask)'
        layer = four_heads.layers[1]
        weights, scores = layer.attended.weights[0], layer.attended.scores[0] * layer.scale
        rows = page.locator("#table tbody tr").all_inner_texts()
        for key, row in enumerate(rows):
            weight = f"{weights[2, key]:.4f}"[1:]
            score = f"{scores[2, key]:.4f}".replace("-", "−")
            assert row.split("\t") == [str(key + 1), WORDS[key], weight, score]


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_one_view_at_a_time_and_nothing_is_wider_than_it(
    chromium: Browser, page_path: Path, view: str
) -> None:
    phone = {"width": 360, "height": 740}
    with page_in_browser(
        chromium, page_path, f"#view={view}&query=2&cell=2-1", viewport=phone
    ) as page:
        wait_for_frames(page, 100)
        assert visible_ids(page, *VIEWS) == [view]
        assert page.is_visible("#arithmetic dl") == (view == "matrix")
        assert not page.is_visible("#query")
        page.click("#more")
        page.click("#copying summary")
        assert page.is_visible("#query")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        boxes = page.locator("#utilities *:visible, #controls *:visible").evaluate_all(
            "all => all.map(each => each.getBoundingClientRect()).map(({left, right}) => "
            "[left, right])"
        )
        assert [box for box in boxes if box[0] < 0 or box[1] > 361] == []
        page.keyboard.press("Escape")
        if view == "overview":
            page.locator("#overview [role=gridcell]").nth(2).click()
            wait_until(
                page, lambda: visible_ids(page, *VIEWS) == ["matrix"]
            )  # where the head is seen


def test_on_paper_stand_all_views_one_after_another_and_it_is_light(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(
        chromium, page_path, "#theme=dark&view=lines", color_scheme="dark"
    ) as page:
        wait_until(page, lambda: "lines" in (page.text_content("#lines .lines-says") or ""))
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visible_ids(page, *VIEWS, "controls", "utilities") == list(VIEWS)
        tops = [page.locator(f"#{name}").bounding_box() for name in VIEWS]
        assert all(box is not None and box["height"] > 20 for box in tops)
        page_color = "getComputedStyle(document.documentElement).backgroundColor"
        assert page.evaluate(page_color) == "rgb(255, 255, 255)"
        assert page.locator("#matrix svg.on-paper text").count() > 10
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert page.evaluate(page_color) == "rgb(21, 23, 28)"
        assert page.locator("#matrix svg.on-paper").count() == 0
        assert page.pdf(format="A4")[:5] == b"%PDF-"


# Every word that is seen, with its colour, and the first colour behind it.
FIND_COLORS = """() => {
    const own = (node) => getComputedStyle(node).backgroundColor;
    const behind = (node) => !node ? "rgb(255, 255, 255)"
        : own(node) !== "rgba(0, 0, 0, 0)" ? own(node) : behind(node.parentElement);
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let text = words.nextNode(); text; text = words.nextNode()) {
        const node = text.parentElement;
        if (!text.data.trim() || !node.checkVisibility() || node.closest("svg, .unseen")) continue;
        found.push([text.data.trim(), getComputedStyle(node).color, behind(node)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_that_is_seen_can_be_read(
    chromium: Browser, page_path: Path, scheme: str
) -> None:
    with page_in_browser(
        chromium, page_path, "#query=5&view=lines&cell=5-2", color_scheme=scheme
    ) as page:
        wait_for_frames(page, 100)
        page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
        words = page.evaluate(FIND_COLORS)

        assert len(words) > 80
        assert [each for each in words if contrast(*map(_hex, each[1:])) < 4.5] == []


def _hex(color: str) -> str:
    red, green, blue, *_ = map(int, re.findall(r"\d+", color))
    return f"#{red:02x}{green:02x}{blue:02x}"


def test_without_scripts_words_and_tables_are_there_and_it_says_what_is_missing(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(chromium, page_path, java_script_enabled=False) as page:
        assert page.locator("noscript p").is_visible()
        assert page.locator("#panels table").first.is_visible()
        assert not page.locator("#controls").is_visible()


def test_a_page_offers_nothing_that_does_nothing(chromium: Browser, tmp_path: Path) -> None:
    view = library.trace("I am here", tokenizer="words").view()
    one_head_path = write_page(view, tmp_path)
    with page_in_browser(chromium, one_head_path, viewport={"width": 1280, "height": 800}) as page:
        choosers = ("choose-head", "choose-view", "choose-special", "choose-scale", "choose-query")
        assert visible_ids(page, *choosers) == ["choose-scale", "choose-query"]
        assert visible_ids(page, *VIEWS) == ["sentence", "matrix", "lines"]
        assert page.locator("[value=overview]").count() == 0
    path_without_explorer = write_page(replace(view, head_explorer=None), tmp_path)
    with page_in_browser(chromium, path_without_explorer) as page:
        assert visible_ids(page, "explorer", "copying", "help", "reset", "theme") == ["theme"]
        page.select_option("#theme", "dark")
        wait_for_frames(page)
        color = page.evaluate("getComputedStyle(document.documentElement).color")
        assert color == "rgb(236, 239, 244)"


def test_a_coloured_text_says_the_number_of_each_token_by_keys_and_pointer(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "text.html"
    library.trace("I am learning this", causal=True).view(show=["received"]).save(path)
    with page_in_browser(chromium, path) as page:
        token_text = page.locator(".whole-text + .says")
        page.focus(".whole-text [data-place='0']")
        page.keyboard.press("ArrowRight")
        assert (token_text.inner_text(), token_text.get_attribute("aria-live")) == (
            "2 am: 49.05 % of all attention",
            "polite",
        )
        page.keyboard.press("End")
        assert token_text.inner_text() == "4 this: 3.23 % of all attention"
        page.hover(".whole-text [data-place='2']")
        assert (token_text.inner_text(), token_text.get_attribute("aria-live")) == (
            "3 learning: 11.17 % of all attention",
            "off",
        )
