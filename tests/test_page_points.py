"""A page of a survey: heads as points, by any two measures, and the examples of one of them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser import opened
from tests.pages_by_hand import wait_until, write_page
from tests.test_survey import mixed_survey


def heading(page: Page) -> str:
    return page.inner_text("#examples h2")


def test_heads_are_points_where_their_numbers_put_them_and_show_examples(
    chromium: Browser, tmp_path: Path
) -> None:
    found = mixed_survey()
    path = write_page(found.view(), tmp_path)
    with opened(chromium, path, "#across=previous+token&up=distance") as seen:
        page = seen.page
        assert page.locator("circle.point[role=button]").count() == len(found.heads)
        circle = page.locator("circle[aria-label^='L0H2,']")
        mean = found["L0H2"].estimates["previous token"].mean
        assert abs(float(circle.get_attribute("cx") or 0) - (52 + mean * 576)) < 0.1

        page.locator("circle[aria-label^='L2H9,']").click()
        wait_until(page, lambda: heading(page) == "L2H9")
        assert "highest tenth of the lines, by score" in page.inner_text("#examples")
        best = found["L2H9"].examples[0]
        first = page.locator("#examples li").first
        assert first.locator("mark").inner_text() == best.tokens.labels[best.query]
        wait_until(page, lambda: "point=L2H9" in str(page.evaluate("location.hash")))

        page.select_option("#up", label="entropy")
        wait_until(page, lambda: "up=entropy" in str(page.evaluate("location.hash")))
        page.locator("circle[aria-label^='L2H9,']").focus()
        circles = "[...document.querySelectorAll('circle[role=button]')]"
        across = f"{circles}.map((circle) => +circle.getAttribute('cx'))"
        for key, end in (("End", "max"), ("Home", "min")):
            page.keyboard.press(key)
            focused = "+document.activeElement.getAttribute('cx')"
            assert page.evaluate(f"{focused} === Math.{end}(...{across})")
        frame = page.locator(".open-frame + .frame")
        cut = "(frame) => frame.scrollHeight > frame.clientHeight"
        assert frame.evaluate(cut)
        page.get_by_label("show all 72 heads").check()
        assert not frame.evaluate(cut)
        page.locator("circle[aria-label^='L2H9,']").focus()
        page.keyboard.press("ArrowRight")
        focused = str(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        page.keyboard.press("Enter")
        wait_until(page, lambda: heading(page) == focused.split(",")[0] != "L2H9")


def test_an_address_opens_the_head_that_it_names(chromium: Browser, tmp_path: Path) -> None:
    path = write_page(mixed_survey().view(), tmp_path)
    with opened(chromium, path, "#point=L4H5&up=no+such+measure") as seen:
        assert heading(seen.page) == "L4H5"
        assert seen.requests == [path.as_uri()]
