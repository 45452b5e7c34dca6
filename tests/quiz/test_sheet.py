"""Exercise sheets on paper: nothing is cut, and the key has what the sheet leaves out."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from attnviz.renderers import Look
from attnviz.renderers.picture.glyphs import fixed_settings
from attnviz.renderers.picture.items import Block, Layout, Words
from attnviz.renderers.picture.page_frame import Captions, words_have_room
from attnviz.traces.settings import Settings
from attnviz.wings.quiz.lesson import Lesson, LessonText, OwnQuestion, read_course
from attnviz.wings.quiz.quiz import Quiz, build_quiz
from attnviz.wings.quiz.sheet import exercise_layouts
from attnviz.wings.quiz.view import view
from tests import not_none, run_process

LONG_WORDS = "a head that reads " + "very " * 30 + "far"
course = cache(lambda: build_quiz(read_course()))


@cache
def long_quiz() -> Quiz:
    """Long answers, long titles, a text of many tokens, and two heads on it."""
    answers = (LONG_WORDS, "no", "yes", "maybe")
    own_question = OwnQuestion("", LONG_WORDS, LONG_WORDS, answers=answers, right="yes")
    text = " ".join(f"word{number}" for number in range(30))
    texts = (
        LessonText(
            text, Settings(heads=4, dim=32, tokenizer="words", causal=True), own=(own_question,)
        ),
        LessonText("the old keys near the small cabinet", Settings(model="agreement")),
    )
    return build_quiz(Lesson(texts, LONG_WORDS, questions=14))


def pages_of(quiz: Quiz, look: Look, *, answers: bool) -> list[Layout]:
    quiz_view = view(quiz, answers=answers)
    sheet = not_none(quiz_view.sheet)
    captions = Captions(quiz_view.headline, quiz_view.picture.caveat, quiz_view.settings)
    with fixed_settings(sheet.exercises, captions):
        return exercise_layouts(sheet, captions, look)


LOOKS = {"A4": Look(), "letter, large": Look(size=(8.5, 11.0), text_size="large"),
         "wide, small": Look(size=(11.69, 8.27), text_size="small")}  # fmt: skip


@pytest.mark.slow_table("pictures", keep=1)
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
@pytest.mark.parametrize("answers", [False, True], ids=["sheet", "key"])
@pytest.mark.parametrize("quiz", [course, long_quiz])
def test_everything_stands_on_the_page_and_nothing_on_anything_else(
    quiz: Callable[[], Quiz], answers: bool, look: Look
) -> None:
    for page in pages_of(quiz(), look, answers=answers):
        page_width, page_height = page.size
        assert words_have_room(page)
        boxes = [each.box for each in page.panels] + [each.box for each in page.items_of(Block)]
        for left, bottom, box_width, box_height in boxes:
            assert left >= 0
            assert bottom >= 0.3
            assert left + box_width <= page_width
            assert bottom + box_height <= page_height
        assert min(each.size for each in page.items_of(Words)) >= 6.5


def test_each_question_has_a_box_for_each_answer_and_the_key_ticks_one() -> None:
    sheet, key = (pages_of(course(), Look(), answers=answers) for answers in (False, True))

    for pages, arithmetic_boxes in ((sheet, 4), (key, 0)):
        assert sum(len(page.items_of(Block)) for page in pages) == 8 * 4 + 2 * 2 + arithmetic_boxes
    ticks = [each for page in key for each in page.words if each.text == "✓"]
    assert len(ticks) == 10
    assert not [each for page in sheet for each in page.words if each.text == "✓"]


def test_a_question_is_not_divided_if_it_fits_on_a_page() -> None:
    for page in pages_of(course(), Look(), answers=True):
        texts = [each.text for each in page.words]
        titles = [each for each in texts if re.match(r"\d+ \w+ .*\?$", each)]
        assert len(titles) == len([each for each in texts if each == "✓"])


@pytest.mark.slow("formats")
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")
def test_the_words_of_the_files_are_text_and_solutions_are_in_the_key_alone(
    tmp_path: Path,
) -> None:
    texts = []
    for answers in (False, True):
        path = tmp_path / "quiz.pdf"
        view(course(), answers=answers).save(path)
        process = run_process(["pdftotext", "-layout", str(path), "-"])
        texts.append(process.stdout)
    sheet, key = texts
    first = not_none(view(course()).sheet).exercises[0]

    assert "Name" in sheet
    assert all(option in sheet for option in first.lettered_options)
    assert "page 1 of 3" in sheet
    assert re.search(r"score\(\w+, \w+\)\s+= [-−]?[0-9.]+·", key)
    assert "The largest score gets the largest weight." in key
    assert "gets the largest weight" not in sheet
    assert "Name" not in key


@pytest.mark.slow("formats")
def test_the_same_quiz_is_the_same_bytes() -> None:
    assert view(course()).render(".pdf") == view(course()).render(".pdf")


def test_the_course_and_its_key_fill_three_pages_each() -> None:
    for answers in (False, True):
        pages = pages_of(course(), Look(), answers=answers)
        titles = [[each for each in page.words if re.match(r"\d+ \w+ .*\?$", each.text)]
                  for page in pages]  # fmt: skip
        assert [len(each) >= 3 for each in titles] == [True] * 3
        for page in pages[:-1]:
            lowest = min(each.y for each in page.words if "page" not in each.text)
            assert lowest <= 0.15 * page.size[1]
