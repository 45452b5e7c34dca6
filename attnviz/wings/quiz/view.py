"""The View of a Quiz: its questions, or its solutions with their reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from attnviz.traces.trace import join_provenances
from attnviz.views.grids.exercise import LETTERS, Exercise, ExerciseSheet
from attnviz.views.grids.section import Section
from attnviz.views.view import Group, TableData, TableLines, View, WordColumns, build_page
from attnviz.wings.quiz.questions import Question
from attnviz.wings.quiz.quiz import Quiz
from attnviz.wings.quiz.words import build_exercise
from attnviz.wording.commands import Command
from attnviz.wording.words import and_list, counted

SOFTMAX_NOTE = "Softmax: exp of each score, divided by their sum; a calculator helps with exp."
SOFTMAX_KINDS = ("weight", "temperature")
ROW_NOTE = "Each row shows how one token divides its attention"
HEAD_NAME = re.compile(r"\bL(\d+)H(\d+)\b")
SUM_TOLERANCE = 1e-3  # of the weights of a row, which may be stored in 16 bits
COLUMNS = ("question", "kind", "sentence", "model", "head", "token", "asked", "answer")


def view(
    quiz: Quiz, *, answers: bool = False, command: Command | None = None, line: str | None = None
) -> View:
    """Return the View of a quiz; with `answers` it is the sheet of solutions.

    `command` makes the quiz again; `line` is that command with the options of its output.
    """
    exercises = tuple(
        build_exercise(question, number, quiz.seed)
        for number, question in enumerate(quiz.questions, 1)
    )
    title = quiz.title or "Attention in questions"
    headline = f"{title}: solutions" if answers else title
    sections = Group("questions", tuple(_sections(exercises, answers)))
    note = _note(quiz, exercises)
    page = build_page([sections], _settings(quiz), note)
    sheet = ExerciseSheet(exercises, answers)
    right = f"Answers: {' · '.join(sheet.right_letters)}." if answers else ""
    screen = replace(page, caveat=" ".join(filter(None, (right, note))))
    provenance = join_provenances([trace.provenance for trace in quiz.traces])
    return View(
        title=headline,
        headline=headline,
        settings=_settings(quiz),
        screen=screen,
        picture=page,
        sheet=sheet,
        data=TableData(
            "quiz",
            partial(_quiz_document, quiz, exercises),
            COLUMNS,
            partial(_quiz_lines, quiz, exercises),
        ),
        provenance=replace(provenance, command=line or (command.line if command else None)),
        command=command,
    )


def _settings(quiz: Quiz) -> str:
    """Return the line of settings: how many questions, which models, and the seed."""
    names = list(dict.fromkeys(_asked_model_name(question) for question in quiz.questions))
    models = [name for name in names if name]
    count, noun = counted(len(quiz.questions), "question"), "models" if len(models) > 1 else "model"
    models_text = f"{noun} {and_list(models)}" if models else ""
    seed = f"seed {quiz.seed}" if any(question.row for question in quiz.questions) else ""
    return " · ".join(filter(None, (count, models_text, seed)))


def _note(quiz: Quiz, exercises: Sequence[Exercise]) -> str:
    """Return that vectors are random, if some are; what softmax is, where one is to be computed;
    what a row is; that it sums to 1 where those of all questions do; and what the first name of a
    head means. Nothing of questions that are about no attention, and nothing on rows where a
    question asks what they are.
    """
    rows = [question.row for question in quiz.questions if question.row is not None]
    if not rows:
        return ""
    do_sum = all(abs(row.weights.sum() - 1) <= SUM_TOLERANCE for row in rows)
    heads = [HEAD_NAME.search(exercise.question.title) for exercise in exercises]
    first = next(filter(None, heads), None)
    head_note = (
        f"{first[0]}: layer {first[1]}, head {first[2]} (both count from 0)." if first else ""
    )
    row_note = f"{ROW_NOTE}{'; it sums to 1' if do_sum else ''}."
    asks_row = any(question.kind == "row" for question in quiz.questions)
    random_rows = [row for row in rows if row.has_random_vectors]
    where = " where no model is named" if len(random_rows) < len(rows) else ""
    has_seed = any(row.trace.origin.settings.seed == quiz.seed for row in random_rows)
    random_note = f"Random vectors{where}." if has_seed else ""
    has_softmax = any(question.kind in SOFTMAX_KINDS for question in quiz.questions)
    softmax_note = SOFTMAX_NOTE if has_softmax else ""
    notes = (random_note, softmax_note, "" if asks_row else row_note, head_note)
    return " ".join(filter(None, notes))


def _asked_model_name(question: Question) -> str:
    """Return the name of the model that a question is about; empty for random vectors."""
    if question.row is None:
        return ""
    model = question.row.trace.trained or question.row.trace.model
    return "" if model is None else model.name


def _sections(exercises: tuple[Exercise, ...], answers: bool) -> Iterator[Section]:
    """Yield each question with its answers; with `answers`, its solution below it."""
    for exercise in exercises:
        yield exercise.question
        if answers:
            yield exercise.solution_alone


def _quiz_document(quiz: Quiz, exercises: tuple[Exercise, ...]) -> dict[str, Any]:
    """Return the quiz as JSON data, with the numbers of the row that each question is about."""
    pairs = zip(quiz.questions, exercises, strict=True)
    return {
        "title": quiz.title,
        "seed": quiz.seed,
        "questions": [_question_document(*pair) for pair in pairs],
    }


def _question_document(question: Question, exercise: Exercise) -> dict[str, Any]:
    row = question.row
    numbers = {} if row is None else {
        "sentence": row.trace.tokens.text,
        "model": _asked_model_name(question) or None,
        "head": row.head_name,
        "token": row.query + 1,
        "tokens": list(row.keys.labels),
        "weights": row.weights.tolist(),
        "visible": row.visible.tolist(),
    }  # fmt: skip
    return {
        "kind": question.kind,
        "question": exercise.question.title,
        "about": exercise.question.about,
        "answers": list(exercise.options),
        "right": LETTERS[exercise.answer],
        "replies": list(exercise.replies),
        "reason": exercise.solution.about,
        "arithmetic": [each.text for each in exercise.solution.sums],
        **numbers,
    }


def _quiz_lines(quiz: Quiz, exercises: tuple[Exercise, ...]) -> Iterator[TableLines]:
    rows = []
    for question, exercise in zip(quiz.questions, exercises, strict=True):
        row = question.row
        place = ("",) * 4
        if row is not None:
            text, label = row.trace.tokens.text, row.trace.tokens.labels[row.query]
            place = (text, _asked_model_name(question), row.head_name, label)
        asked = exercise.question.title, exercise.right_option
        rows.append((exercise.question.number, question.kind, *place, *asked))
    yield TableLines((), WordColumns(tuple(zip(*rows, strict=True))), ())
