"""A page of a survey: heads as points, by any two measures, and the examples of one of them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser import page_in_browser
from tests.corpora.test_survey import mixed_survey
from tests.pages_by_hand import wait_until, write_page


def heading(page: Page) -> str:
    return page.inner_text("#examples h2")


def test_heads_are_points_where_their_numbers_put_them_and_show_examples(
    chromium: Browser, tmp_path: Path
) -> None:
    survey = mixed_survey()
    path = write_page(survey.view(), tmp_path)
    with page_in_browser(chromium, path, "#across=previous+token&up=distance") as page:
        assert page.locator("circle.point[role=button]").count() == len(survey.heads)
        circle = page.locator("circle[aria-label^='L0H2,']")
        mean = survey["L0H2"].estimates["previous token"].mean
        assert abs(float(circle.get_attribute("cx") or 0) - (52 + mean * 576)) < 0.1

        page.locator("circle[aria-label^='L2H9,']").click()
        wait_until(page, lambda: heading(page) == "L2H9")
        assert "highest tenth of the lines, by score" in page.inner_text("#examples")
        best = survey["L2H9"].examples[0]
        first = page.locator("#examples li").first
        assert first.locator("mark").inner_text() == best.tokens.labels[best.query]
        wait_until(page, lambda: "point=L2H9" in str(page.evaluate("location.hash")))

        page.select_option("#up", label="entropy")
        wait_until(page, lambda: "up=entropy" in str(page.evaluate("location.hash")))
        page.locator("circle[aria-label^='L2H9,']").focus()
        circles = "[...document.querySelectorAll('circle[role=button]')]"
        horizontal_places = f"{circles}.map((circle) => +circle.getAttribute('cx'))"
        for key, end in (("End", "max"), ("Home", "min")):
            page.keyboard.press(key)
            focused_name = "+document.activeElement.getAttribute('cx')"
            assert page.evaluate(f"{focused_name} === Math.{end}(...{horizontal_places})")
        frame = page.locator(".open-frame + .frame")
        overflows = "(frame) => frame.scrollHeight > frame.clientHeight"
        assert frame.evaluate(overflows)
        page.get_by_label("show all 72 heads").check()
        assert not frame.evaluate(overflows)
        page.locator("circle[aria-label^='L2H9,']").focus()
        page.keyboard.press("ArrowRight")
        focused_name = str(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        page.keyboard.press("Enter")
        wait_until(page, lambda: heading(page) == focused_name.split(",")[0] != "L2H9")


def test_an_address_opens_the_head_that_it_names(chromium: Browser, tmp_path: Path) -> None:
    path = write_page(mixed_survey().view(), tmp_path)
    with page_in_browser(chromium, path, "#point=L4H5&up=no+such+measure") as page:
        assert heading(page) == "L4H5"
