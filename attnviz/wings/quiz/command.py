"""`attnviz quiz`: questions about attention, in the terminal, as a page or on paper."""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.cli import output, text_source
from attnviz.cli.messages import print_message, with_timer
from attnviz.cli.options import accept_options, refuse_model_conflicts, settings_from_options
from attnviz.errors import AttnvizError, opt, unknown_name_error
from attnviz.options.option import CommandOptions, option_class, option_group, options_under
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import (
    AttentionOptions,
    ModelOptions,
    NumberOptions,
    SourceOptions,
    text_option,
)
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings
from attnviz.wings.quiz.lesson import (
    DEFAULT_QUESTIONS,
    QUESTION_KINDS,
    Lesson,
    LessonText,
    is_lesson,
    read_course,
    read_lesson,
    refuse_long_text,
    refuse_question_count,
)
from attnviz.wording.commands import (
    Command,
    changed_options,
    path_without_folders,
    shell_quote,
)

if TYPE_CHECKING:
    from attnviz.wings.quiz.quiz import Quiz

QUIZ_SUFFIXES = (".html", ".pdf", ".md", ".txt", ".json")
KEY_WORDS = {"key", "solution", "solutions"}  # first or last in the name of a key
PAPER_SUFFIXES = (".pdf", ".md", ".txt")  # with the answers or without; the others have them
ALLOWED_BESIDE_LESSON = ("model", "seed", "texts")
ABSENT_OPTIONS = ("query", "full", "embeddings", "dropout")
RARE_OPTIONS = (
    *("kv_heads", "head_dim", "scoring", "temperature", "soft_cap", "positions"),
    *("position_base", "device", "dtype", "points", "font", "footnote", "numbers"),
)
question_option = options_under("Questions")


@option_group(frozen=True, kw_only=True)
class QuestionOptions:
    """What is asked about, and how much."""

    texts: list[str] = text_option(
        [],
        metavar="TEXT|LESSON",
        help="Sentences, each in quotes, or a lesson file (.toml: docs/lessons.md). Without any: a "
        "course from the arithmetic to heads of trained models.",
        short="Sentences in quotes, or a lesson file (.toml); without any, a course.",
        is_argument=True,
        is_read=True,
        shows_default=False,
    )
    tokenizer: str = text_option(
        Settings.tokenizer,
        "--tokenizer",
        "-t",
        metavar="NAME",
        help="How a text is cut into tokens: {choices}.",
        choices=TOKENIZERS,
    )
    questions: int | None = question_option(
        None,
        "--questions",
        "-n",
        metavar="N",
        help="How many questions, at most.  [default: {count}, or the lesson's]",
        short="How many questions, at most: --questions 10",
        example="10",
        sources={"count": (DEFAULT_QUESTIONS,)},
    )
    kind: str | None = question_option(
        metavar="KINDS",
        help="Only questions of these kinds, with commas: {choices:about}.",
        short="Only these kinds: {choices}.",
        example="token,mask",
        choices=QUESTION_KINDS,
        several=True,
    )
    answers: bool = question_option(
        False,
        help="Print the solutions, too; a .pdf, .md or .txt is then the key. Without it, one is "
        "whose name begins or ends with the word key or solutions: -o sheet.pdf -o key.pdf",
        short="Print the solutions; in files: -o key.pdf, beside -o sheet.pdf",
    )

    def chosen_kinds(self) -> tuple[str, ...]:
        """Return the kinds after --kind; () without it. Refuses unknown ones."""
        names = [] if self.kind is None else [name.strip() for name in self.kind.split(",")]
        for name in names:
            if name not in QUESTION_KINDS:
                raise unknown_name_error("kind of question", name, QUESTION_KINDS)
        return tuple(dict.fromkeys(names))


@option_class(frozen=True, kw_only=True)
class QuizOptions(
    QuestionOptions, ModelOptions, AttentionOptions, NumberOptions, DeliveryOptions, CommandOptions
):
    """The options of `attnviz quiz`."""


@accept_options(without=ABSENT_OPTIONS, rarely=RARE_OPTIONS)
def quiz_command(options: QuizOptions) -> None:
    """Ask questions about attention: predict first, then see the numbers.

    In a terminal one question follows another: answer with 1 to 4 or a to d. With -o quiz.html it
    is a page, with -o sheet.pdf -o key.pdf an exercise sheet and its solutions. Only questions with
    a clear answer are asked, and the same --seed asks the same ones.

    \b
    attnviz quiz
    attnviz quiz "the old keys near the cabinet" --model agreement -o quiz.html
    attnviz quiz lesson.toml -o sheet.pdf -o key.pdf
    """
    output.refuse_undeliverable(options, QUIZ_SUFFIXES)
    if options.questions is not None:
        refuse_question_count(options.questions)
    kinds = options.chosen_kinds()
    lesson = lesson_from_options(options)
    if options.questions is not None:
        lesson = replace(lesson, questions=options.questions)
    lesson = lesson.with_kinds(kinds) if kinds else lesson
    _refuse_untraceable(lesson)

    from attnviz.wings.quiz.quiz import build_quiz  # torch, for which errors need not wait

    with with_timer("looking for questions", quiet=options.quiet):
        quiz = build_quiz(lesson)
    for note in () if options.quiet else quiz.notes:
        print_message(f"note: {note}")
    _deliver(quiz, _command_line(options), options)
    for text in options.texts:
        if not is_lesson(text):
            text_source.note_text_names_file(text, quiet=options.quiet)


def lesson_from_options(options: QuizOptions) -> Lesson:
    """Return the lesson: that of a file, that of the texts, or without any the course.

    Refuses options that a lesson decides, except --model, which replaces its models, and --seed.
    """
    texts = options.texts
    typed = options.typed_values(QuestionOptions, ModelOptions, AttentionOptions, NumberOptions)
    settings = settings_from_options(options)
    is_course = not texts and set(typed) <= {"seed", "questions", "kind", "answers"}
    lessons = [text for text in texts if is_lesson(text)]
    if not lessons and not is_course:
        refuse_model_conflicts(options.model, typed)
        none = SourceOptions()
        given = texts or [text_source.read_text_if_needed(none, settings, "attnviz quiz") or ""]
        return Lesson(tuple(LessonText(text, settings) for text in given), seed=settings.seed)
    if len(texts) > 1:
        raise AttnvizError(f"'{lessons[0]}' is a lesson, and has texts of its own", "give it alone")
    lesson = read_lesson(Path(lessons[0])) if lessons else read_course()
    typed = options.typed_values(AttentionOptions, NumberOptions)
    return _with_typed(lesson, options.model, typed)


def _with_typed(lesson: Lesson, model: str | None, typed: dict[str, object]) -> Lesson:
    """Return a lesson with the typed --model in place of its models, and the typed --seed."""
    for name in typed:
        if name not in ALLOWED_BESIDE_LESSON:
            raise AttnvizError(
                f"the lesson says how its texts are traced, and {opt[name]} does, too",
                f"leave {opt[name]} out, or write it below [texts.settings]",
            )
    if model is not None:
        texts = tuple(
            replace(text, settings=replace(text.settings, model=model))
            if text.settings.model is not None
            else text
            for text in lesson.texts
        )
        lesson = replace(lesson, texts=texts)
    seed = typed.get("seed")
    return lesson.with_seed(seed) if isinstance(seed, int) else lesson


def _refuse_untraceable(lesson: Lesson) -> None:
    """Refuse impossible settings and texts before torch is loaded."""
    for text in (each for slot in lesson.texts for each in slot.all_texts):
        locating = nullcontext() if text.table is None else text.table.locating_errors("text")
        with locating:
            early_checks.refuse_impossible_settings(text.settings)
            tokens = early_checks.refuse_unusable_text(text.text, text.settings)
            refuse_long_text(0 if tokens is None else len(tokens))


def _command_line(options: QuizOptions) -> str:
    changed = changed_options(options)
    texts = changed.pop("texts", [])
    words = Command(name="quiz", options=changed).line.removeprefix("attnviz quiz")
    shown = [path_without_folders(text) if is_lesson(text) else text for text in texts]
    return " ".join(["attnviz quiz", *map(shell_quote, shown)]) + words


def _deliver(quiz: Quiz, line: str, options: QuizOptions) -> None:
    """Write the files of a quiz, or print it, or ask its questions if this is a terminal."""
    from attnviz.wings.quiz.view import view

    sheet, key = (
        view(quiz, answers=answers, line=line).with_title(options.title)
        for answers in (False, True)
    )
    look = output.look_from_options(options)
    for page, is_key in ((sheet, False), (key, True)):
        paths = [path for path in options.out if is_key_file(path, options.answers) == is_key]
        if paths:
            remark = "with the answers" if is_key else "questions only"
            remarks = dict.fromkeys(PAPER_SUFFIXES, remark)
            output.write_view_files(page, replace(options, out=paths), look, remarks)
    if options.json:
        output.print_json(key)
    elif not options.out:
        if is_interactive() and not options.answers:
            from attnviz.wings.quiz.round import play_round

            play_round(sheet, options)
        else:
            output.print_tables(key if options.answers else sheet, options)


def is_key_file(path: Path, answers: bool) -> bool:
    """Return whether a file holds the solutions: with --answers, or if the first or the last word
    of its name is one for a key.

    >>> [is_key_file(Path(name), False) for name in ("key2.pdf", "week-3-solutions.md")]
    [True, True]
    >>> [is_key_file(Path(name), False) for name in ("answer-sheet.pdf", "keys-and-queries.pdf")]
    [False, False]
    """
    words = re.findall(r"[^\W\d_]+", path.stem.lower())
    return answers or not KEY_WORDS.isdisjoint((*words[:1], *words[-1:]))


def is_interactive() -> bool:
    """Return whether questions can be asked: input and output are a terminal with a screen."""
    has_screen = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and has_screen
