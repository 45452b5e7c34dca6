"""The page of a quiz in a browser: answered by keyboard alone, with a score to copy."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnviz.renderers.page.tags import join_markup, tag
from attnviz.traces.settings import Settings
from attnviz.wings.quiz.lesson import Lesson, LessonText, read_course
from attnviz.wings.quiz.page import _typeset_markup
from attnviz.wings.quiz.quiz import build_quiz
from attnviz.wings.quiz.view import view
from attnviz.wings.quiz.words import build_exercise
from tests import not_none
from tests.browser import page_in_browser
from tests.pages_by_hand import write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

A4_WIDTH = 703  # pixels between the margins of a printed page
COURSE = build_quiz(read_course())
RIGHT_ANSWERS = "".join("abcd"[each.answer] for each in COURSE.questions)


def with_wrong(number: int) -> str:
    """The right answers, but for that of one question."""
    wrong = "b" if RIGHT_ANSWERS[number - 1] == "a" else "a"
    return RIGHT_ANSWERS[: number - 1] + wrong + RIGHT_ANSWERS[number:]


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(view(COURSE), tmp_path_factory.mktemp("quiz"))


@pytest.fixture
def page(chromium: Browser, page_path: Path) -> Iterator[Page]:
    viewport = {"width": 900, "height": 800}
    with page_in_browser(chromium, page_path, viewport=viewport) as opened_page:
        yield opened_page


def answer_all(page: Page, keys: str) -> None:
    """Answer the next questions with these keys: choose, check, go on."""
    for key in keys:
        for key_to_press in (key, "Enter", "Enter"):
            page.keyboard.press(key_to_press)


def test_the_page_is_small_and_does_not_tell_the_answers_at_a_glance(page_path: Path) -> None:
    text = page_path.read_text("utf-8")
    [encoded_solutions] = re.findall(r'id="solutions">([^<]*)<', text)
    solutions = json.loads(base64.b64decode(encoded_solutions))

    assert len(text) < 150_000
    assert "".join("abcd"[each["answer"]] for each in solutions) == RIGHT_ANSWERS
    assert "of its attention; the next most" in solutions[1]["solution"]
    assert "the next most" not in text
    assert "That is " not in text
    assert all(len(each["replies"]) in (0, 2, 4) for each in solutions)
    assert "Answer:" not in text


def test_minus_signs_and_subscripts_are_those_of_the_sheet_and_tokens_stay_as_they_are() -> None:
    text = view(COURSE).render(".html").decode()
    [encoded_solutions] = re.findall(r'id="solutions">([^<]*)<', text)
    solutions = json.loads(base64.b64decode(encoded_solutions))
    shown = re.findall(r">([^<]+)", text[text.index("<main") : text.index("</main>")])
    shown += [words for each in solutions for words in (*each["replies"], each["solution"])]

    assert not [words for words in shown if "d_k" in words or re.search(r"(^|[ (])-\d", words)]
    assert any("√dₖ" in words for words in shown)
    assert [words for words in shown if re.match(r"−\d\.\d\d$", words)]
    markup = _typeset_markup(join_markup([tag("th", "-1"), tag("td", "-1")]))
    assert markup == "<th>-1</th><td>−1</td>"


def test_it_is_answered_by_keys_alone_and_the_score_counts_what_was_right(
    page: Page,
) -> None:
    numbers = [str("abcd".index(letter) + 1) for letter in RIGHT_ANSWERS]
    keys = [*numbers[:2], RIGHT_ANSWERS[2], "c", *RIGHT_ANSWERS[4:]]
    # the fourth question has two answers and no c, and gets a wrong one

    for number, key in enumerate(keys, 1):
        assert page.locator("h2:visible").first.inner_text().startswith(f"{number} ")
        page.keyboard.press(key)
        if number == 4:
            assert page.locator("input:visible:checked").count() == 0
            page.keyboard.press(RIGHT_ANSWERS[3])
            page.keyboard.press(with_wrong(4)[3])  # chosen instead
        assert page.locator(".solution:visible").count() == 0
        page.keyboard.press("Enter")
        verdict = page.locator(".verdict:visible")
        assert verdict.inner_text().startswith("✗ Wrong" if number == 4 else "✓ Right")
        assert ("That row is the flatter one" in verdict.inner_text()) == (number == 4)
        assert page.evaluate("document.activeElement.className") == "verdict"
        assert page.locator(".solution:visible p:visible").count() >= 1
        page.keyboard.press("Enter")
    assert page.locator("#score").inner_text() == "9 of 10 right"
    assert page.evaluate("document.activeElement.id") == "score"
    assert page.locator("#marks li").nth(3).inner_text().endswith("✗ wrong")


def test_radio_buttons_answer_too_and_a_button_checks_them(page: Page) -> None:
    page.locator("button.check:visible").click()
    assert page.locator(".verdict:visible").inner_text() == "Choose an answer first."
    page.locator("input:visible").first.focus()
    page.keyboard.press("Space")
    for _ in range("abcd".index(RIGHT_ANSWERS[0])):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".verdict:visible").inner_text() == "✓ Right"
    page.keyboard.press(with_wrong(1)[0])  # an answer stays
    assert page.locator(".verdict:visible").inner_text() == "✓ Right"
    assert page.locator("button.place").first.get_attribute("aria-label") == "question 1, right"


def test_the_results_are_copied_as_text_and_the_quiz_starts_again(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(
        chromium, page_path, permissions=["clipboard-read", "clipboard-write"]
    ) as page:
        answer_all(page, with_wrong(1))
        page.locator("#copy").click()
        page.get_by_text("The results are copied.").wait_for()
        lines = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert lines[:3] == [
            "How attention works, in questions",
            "9 of 10 right",
            f"1. {build_exercise(COURSE.questions[0], 1).question.title} ✗ wrong",
        ]
        assert len(lines) == 12
        page.locator("#again").click()
        assert page.locator("h2:visible").inner_text().startswith("1 ")
        assert page.locator(".solution:visible").count() == 0
        page.keyboard.press(RIGHT_ANSWERS[0])
        page.keyboard.press("Enter")
        assert page.locator(".verdict:visible").inner_text() == "✓ Right"


def test_answers_outlive_a_reload_and_from_a_question_a_button_leads_back_to_the_score(
    page: Page,
) -> None:
    answer_all(page, with_wrong(1)[:2])
    page.reload()

    assert page.locator("h2:visible").inner_text().startswith("3 ")
    assert page.locator("button.place").first.inner_text() == "1 ✗"
    assert page.locator("button.to-score:visible").count() == 0
    answer_all(page, RIGHT_ANSWERS[2:])
    page.locator("button.place").nth(1).click()
    assert page.locator(".solution:visible p:visible").count() >= 1
    page.locator("button.to-score").click()
    assert page.locator("#score").inner_text() == "9 of 10 right"


def test_after_an_answer_the_whole_solution_is_in_sight_or_its_verdict_at_the_top(
    chromium: Browser, page_path: Path
) -> None:
    with page_in_browser(chromium, page_path, viewport={"width": 1280, "height": 800}) as page:
        for key in RIGHT_ANSWERS:
            page.keyboard.press(key)
            page.keyboard.press("Enter")
            verdict = page.locator(".verdict:visible").bounding_box()
            button = not_none(page.locator("button.next:visible").bounding_box())
            assert verdict is not None
            assert verdict["y"] >= 0
            assert verdict["y"] <= 20 or button["y"] + button["height"] <= 800
            page.keyboard.press("Enter")


def test_keys_with_a_modifier_choose_nothing_and_a_question_is_read_out_once(
    page: Page,
) -> None:
    for key in ("Shift+B", "Control+b", "Alt+2"):
        page.keyboard.press(key)

    assert page.locator("input:checked").count() == 0
    assert "attend" not in page.locator("legend").first.inner_text()


@pytest.mark.parametrize("width", [320, 480, 1200])
def test_nothing_is_wider_than_the_screen(chromium: Browser, page_path: Path, width: int) -> None:
    with page_in_browser(chromium, page_path, viewport={"width": width, "height": 800}) as page:
        for key in RIGHT_ANSWERS:
            page.keyboard.press(key)
            page.keyboard.press("Enter")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("Enter")


def test_on_paper_all_questions_stand_without_their_solutions(page: Page) -> None:
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    page.emulate_media(media="print")

    assert page.locator(".question:visible").count() == 10
    assert page.locator(".solution:visible, .verdict:visible, button:visible").count() == 0
    page.set_viewport_size({"width": A4_WIDTH, "height": 1000})
    maps = page.locator(".question:has(#question-9) .frame").all()
    first, second = (not_none(each.bounding_box()) for each in maps)
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]
    assert page.evaluate("document.documentElement.scrollWidth") <= A4_WIDTH


def test_words_from_strangers_are_never_markup(chromium: Browser, tmp_path: Path) -> None:
    text = '<img src=x onerror=alert(1)> </script><b>x</b> "&amp; it'
    settings = Settings(tokenizer="spaces", heads=4, dim=16)
    quiz = build_quiz(Lesson((LessonText(text, settings),), title="<i>a</i>"))
    path = write_page(view(quiz), tmp_path)

    with page_in_browser(chromium, path) as opened_page:
        opened_page.keyboard.press("1")
        opened_page.keyboard.press("Enter")
        assert opened_page.locator("img, b, i").count() == 0
        assert opened_page.locator("h1").inner_text() == "<i>a</i>"
        assert "<img" in opened_page.locator("main").inner_text()
