"""A quiz as one HTML page: questions to answer, solutions and a score."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import partial
from html import escape
from string import Template

from attnviz.renderers import Look
from attnviz.renderers.colors import DEFAULT_THEME
from attnviz.renderers.page.page import (
    content_security_policy,
    join_scripts,
    provenance_details,
    read_page_file,
)
from attnviz.renderers.page.tables_and_steps import MASKED_NOTE, table_markup
from attnviz.renderers.page.tags import NO_MARKUP, Markup, empty_tag, join_markup, tag
from attnviz.renderers.page.theming import theme_rules
from attnviz.renderers.wrapping import align_sums
from attnviz.views.grids.description import has_masked_cells
from attnviz.views.grids.exercise import Exercise
from attnviz.views.grids.section import Section
from attnviz.views.view import View
from attnviz.wording.numbers import typeset
from attnviz.wording.printable import exact_json

PAGE_SCRIPTS = ("script/elements.js", "script/markup.js")
TABLE_NAME_OR_WORDS = re.compile("<th[^>]*>[^<]*|(?<=>)[^<]+")
PAGE_STYLES = ("style/style.css", "style/panels.css", "style/paper.css")

read_quiz_file = partial(read_page_file, package="attnviz.wings.quiz")


def quiz_html(view: View, look: Look) -> Iterator[bytes]:
    """Yield the bytes of the page of a quiz.

    The solutions are in it as base64, so that nobody reads them by accident; it is no encryption.
    """
    assert view.sheet is not None, "a quiz has a sheet of exercises"
    exercises = view.sheet.exercises
    style = theme_rules(look.colors) + "".join(map(read_page_file, PAGE_STYLES))
    style += read_quiz_file("quiz.css")
    script = join_scripts(PAGE_SCRIPTS, read_quiz_file("quiz.js"))
    theme = "" if look.theme == DEFAULT_THEME else f' class="{look.theme}"'
    title = view.headline if view.has_chosen_title else view.title
    words = {
        "policy": content_security_policy(style, script),
        "theme": theme,
        "title": escape(title),
        "settings": escape(view.settings),
        "note": escape(view.screen.caveat),
        "signs": f" {MASKED_NOTE}." if _has_masks(exercises) else "",
        "questions": _typeset_markup(join_markup(map(_question_markup, exercises))),
        "solutions": _encoded_solutions(exercises),
        "made": provenance_details(view),
        "style": style,
        "script": script,
    }
    yield Template(read_quiz_file("quiz.html")).substitute(words).encode()


def _has_masks(exercises: tuple[Exercise, ...]) -> bool:
    return any(
        has_masked_cells((*exercise.question.grids, *exercise.solution.grids))
        for exercise in exercises
    )


def _typeset_markup(markup: Markup) -> Markup:
    """Return markup with its words typeset as on paper, but for the names in tables: tokens."""

    def set_words(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith("<th") else typeset(match[0])

    return Markup(TABLE_NAME_OR_WORDS.sub(set_words, markup))


def _question_markup(exercise: Exercise) -> Markup:
    section = exercise.question
    name = f"question-{section.number}"
    answers = [
        _answer_markup(name, index, option)
        for index, option in enumerate(exercise.lettered_options)
    ]
    return tag(
        "section",
        tag("h2", section.heading, id=name, tabindex=-1),
        *_section_body(section),
        tag("fieldset", tag("legend", "Your answer", class_="unseen"), *answers),
        tag("div", class_="verdict", role="status", tabindex=-1),
        tag("div", class_="solution", hidden=True),
        class_="question",
    )


def _answer_markup(name: str, index: int, option: str) -> Markup:
    button = empty_tag("input", type="radio", name_=name, value=index)
    return tag("label", button, tag("span", option), class_="answer")


def _section_body(section: Section) -> Iterator[Markup]:
    """Yield the words of a section, its tables, and its sums written out."""
    yield tag("p", section.about) if section.about else NO_MARKUP
    tables = [table_markup(grid, section.grids, grid.title) for grid in section.tables]
    yield tag("div", *tables, class_="beside") if tables else NO_MARKUP
    sums = [tag("span", line) for line in align_sums(section.sums)]
    yield tag("pre", *sums) if sums else NO_MARKUP


def _encoded_solutions(exercises: tuple[Exercise, ...]) -> str:
    """Return the right answer, the replies to wrong ones, and the solution of each question, as
    JSON in base64.
    """
    solutions = [
        {
            "answer": exercise.answer,
            "replies": [*map(typeset, exercise.replies)],
            "solution": _typeset_markup(join_markup([
                tag("p", exercise.solution.title, class_="right-answer"),
                *_section_body(exercise.solution),
            ])),
        }
        for exercise in exercises
    ]  # fmt: skip
    return base64.b64encode(exact_json(solutions).encode()).decode()
