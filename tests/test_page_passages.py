"""The text of a prompt in its segments on a page: coloured by what a token reads of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnviz import Inspection, inspect
from attnviz.analysis.inspection.segment_reading import SegmentReading
from attnviz.tokens.segments import texts_of_tokens
from attnviz.tokens.tokens import Tokens
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.wording.numbers import share_text
from attnviz.wording.printable import printable_text
from tests import not_none
from tests.browser import page_in_browser
from tests.pages_by_hand import trace_of_four_heads, wait_for_frames, wait_until, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

PARTS = {
    "<img src=x onerror=hit()>": "It is a cat",
    "a\u202eb": "</script> \u202e <img/onerror=hit()>",
    "question": "is it\ntired",
}
TEXT = "\n\n".join(PARTS.values())
COLORS = "all => all.map((each) => getComputedStyle(each).backgroundColor)"
RECTANGLE_OF_WORDS = """(passage) => {
  const range = document.createRange();
  range.selectNodeContents(passage.lastChild);
  const { left, top, right, bottom } = range.getBoundingClientRect();
  return [left, top, right, bottom];
}"""


@pytest.fixture(scope="module")
def inspection(small_transformer: Callable[[str], Path]) -> Inspection:
    """A prompt in three named parts, and four tokens that a model writes after it."""
    return inspect(TEXT, model=small_transformer("gpt2"), generate=4, segments=PARTS)


@pytest.fixture(scope="module")
def reading(inspection: Inspection) -> SegmentReading:
    return not_none(inspection.segments)


@pytest.fixture(scope="module")
def explorer(inspection: Inspection) -> HeadExplorer:
    return not_none(inspection.view().heads)


@pytest.fixture(scope="module")
def path(inspection: Inspection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(inspection.view(), tmp_path_factory.mktemp("page"))


def passage(page_or_part: Locator, place: int) -> Locator:
    return page_or_part.locator(f".passage[data-place='{place}']").first


def shares(reading: SegmentReading, explorer: HeadExplorer, row: int) -> list[str]:
    """What a page opens with, in the numbers of the data: the share of each segment."""
    head = explorer.heads[explorer.first].name
    names = [head.name for head in reading.heads]
    evens = reading.tables[1][row, names.index(head)]
    return [
        share_text(float(share)) if even else "hidden by the mask"
        for share, even in zip(reading.tables[0][row, names.index(head)], evens, strict=True)
    ]


def test_passages_together_are_the_text_and_the_answer(
    reading: SegmentReading, explorer: HeadExplorer
) -> None:
    text = "".join("\n".join(lines) for _, lines in explorer.passages)
    prompt = not_none(reading.trace.prompt)
    written = b"".join(reading.trace.tokens.pieces[prompt:]).decode(errors="replace")

    read = "\n".join(map(printable_text, TEXT.split("\n")))
    assert "\n".join(map(printable_text, text.split("\n"))) == read + "\n".join(
        map(printable_text, written.split("\n"))
    )
    places = [place for place, _ in explorer.passages]
    assert places[0] == 0
    assert sorted({*places}) == [*range(len(reading.segments.groups))]
    assert all(one != other for one, other in pairwise(places))


def test_a_part_of_the_text_has_the_spaces_behind_it_and_its_special_tokens() -> None:
    pieces = (b"[CLS]", b"a", b"b", b"c", b"[SEP]")
    spaced = (True, True, False, True, True)
    spans = ((0, 0), (0, 1), (1, 2), (5, 6), (0, 0))
    special = frozenset({0, 4})
    tokens = Tokens("ab \n\nc", pieces, (1, 2, 3, 4, 5), spaced, special=special, spans=spans)

    assert texts_of_tokens(tokens) == ["[CLS]", "a", "b \n\n", "c", "[SEP]"]
    assert texts_of_tokens(tokens, 3) == ["[CLS]", "a", "b \n\nc", " c", " [SEP]"]


def test_a_new_word_colours_the_text_by_what_was_read_before_it(
    path: Path, chromium: Browser, reading: SegmentReading, explorer: HeadExplorer
) -> None:
    with page_in_browser(chromium, path) as page:
        runs, buttons = page.locator(".passage"), page.locator(".generated button")
        assert buttons.count() == len(reading.queries) == 4
        colors = set()
        for row in (0, 3):
            buttons.nth(row).click()
            wait_until(
                page,
                lambda row=row: buttons.nth(row).get_attribute("aria-pressed") == "true",  # type: ignore[misc]
            )
            expected = shares(reading, explorer, row)
            for place, share in enumerate(expected):
                part = passage(page.locator("body"), place)
                name = explorer.heads[0].key_axis.labels[place]
                wait_until(
                    page,
                    lambda part=part, label=f"{name}: {share}": (  # type: ignore[misc]
                        part.get_attribute("aria-label") == label
                    ),
                )
                is_hidden = share == "hidden by the mask"
                assert ("hides" in (part.get_attribute("class") or "")) == is_hidden
                assert part.locator(".number").inner_text() == ("·" if is_hidden else share)
            colors.add(tuple(runs.evaluate_all(COLORS)))
        assert len(colors) == 2  # they are other ones
        sinks = page.locator(".passage.sink").evaluate_all(COLORS)
        assert len({*sinks}) == 1


def test_a_segment_is_followed_by_a_click_and_by_keys(
    path: Path, chromium: Browser, explorer: HeadExplorer
) -> None:
    labels = explorer.heads[0].key_axis.labels
    with page_in_browser(chromium, path) as page:
        parts = page.locator(".passages .passage")
        last = passage(page.locator("body"), labels.index("question"))
        last.click()
        wait_until(page, lambda: "followed" in (last.get_attribute("class") or ""))
        assert last.locator("button").get_attribute("aria-pressed") == "true"
        wait_until(page, lambda: "key=" in page.url)
        wait_until(page, lambda: "question" in page.inner_text(".says").partition(" is read")[0])

        page.mouse.move(1, 1)
        first = parts.locator("button").first
        first.focus()
        page.keyboard.press("End")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        second = parts.locator("button").nth(1)
        wait_until(page, lambda: second.get_attribute("aria-pressed") == "true")
        assert last.locator("button").get_attribute("aria-pressed") == "false"
        assert page.locator(".passages [tabindex='0']").count() == 1


def test_who_selects_words_of_the_text_follows_nothing(path: Path, chromium: Browser) -> None:
    with page_in_browser(chromium, path) as page:
        part = passage(page.locator("body"), 1)
        left, top, right, bottom = part.evaluate(RECTANGLE_OF_WORDS)
        y = (top + bottom) / 2
        page.mouse.move(left + 2, y)
        page.mouse.down()
        page.mouse.move(right - 2, y, steps=4)
        page.mouse.up()
        assert len(page.evaluate("String(getSelection())")) > 3
        wait_for_frames(page)
        assert page.locator(".passages [aria-pressed='true']").count() == 0

        page.mouse.click(1, 1)
        page.mouse.click(left + 4, y)  # which selects nothing
        page.mouse.move(1, 1)
        wait_until(page, lambda: "followed" in (part.get_attribute("class") or ""))


def test_no_text_and_no_name_of_a_segment_is_read_as_markup(
    path: Path, chromium: Browser, explorer: HeadExplorer
) -> None:
    names = explorer.heads[0].key_axis.labels
    assert r"a\u202eb" in names
    with page_in_browser(chromium, path) as page:
        assert page.locator("img, iframe, form").count() == 0
        text = page.locator(".passages").inner_text()
        assert "</script>" in text.replace("\n", "")
        assert r"\u202e" in text
        assert "\u202e" not in page.content()
        assert "<img src=x onerror=hit()>" in [
            re.sub(r" ?(\.\d\d|1\.0|·)$", "", name.strip())
            for name in page.locator(".passages .name").all_inner_texts()
        ]


def test_the_text_is_as_high_as_half_a_window_at_most_and_is_printed_whole(
    path: Path, chromium: Browser
) -> None:
    with page_in_browser(chromium, path, viewport={"width": 390, "height": 200}) as page:
        page.evaluate("location.hash = 'view=sentence'")
        box = page.locator(".passages")
        box.wait_for()
        high = "each => [each.clientHeight, each.scrollHeight]"
        seen, whole = box.evaluate(high)
        assert seen <= 100 < whole
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.emulate_media(media="print")
        seen, whole = box.evaluate(high)
        assert seen == whole
        assert page.locator(".passages .name").first.is_visible()


def test_only_a_page_of_segments_has_a_text_in_segments(path: Path) -> None:
    def data(page: bytes) -> dict[str, object]:
        text = re.findall(r'id="data">(.*?)</script>', page.decode(), re.S)[0]
        attention: dict[str, object] = json.loads(text)["attention"]
        return attention

    assert "passages" in data(path.read_bytes())
    assert "passages" not in data(trace_of_four_heads().view().render(".html"))
