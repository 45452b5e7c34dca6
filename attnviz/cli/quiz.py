"""`attnviz quiz`: questions about attention, in the terminal, as a page or on paper."""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attnviz.analysis.quiz.lesson import (
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
from attnviz.cli import output, text_source
from attnviz.cli.help import section_argument, section_option
from attnviz.cli.messages import print_message, with_timer
from attnviz.cli.options import (
    TypedOptions,
    accept_options,
    refuse_model_conflicts,
    settings_from_options,
)
from attnviz.cli.output_options import OutputOptions, PictureOptions, look_from_options
from attnviz.cli.trace_options import AttentionOptions, ModelOptions, TextOptions
from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces import early_checks
from attnviz.traces.settings import Settings
from attnviz.wording.commands import (
    Command,
    changed_options,
    path_without_folders,
    shell_quote,
)
from attnviz.wording.surfaces import opt

if TYPE_CHECKING:
    from attnviz.analysis.quiz.quiz_from_lesson import Quiz

QUIZ_SUFFIXES = (".html", ".pdf", ".md", ".txt", ".json")
KEY_WORDS = {"key", "solution", "solutions"}  # first or last in the name of a key
PAPER_SUFFIXES = (".pdf", ".md", ".txt")  # with the answers or without; the others have them
ALLOWED_BESIDE_LESSON = ("model", "seed", "texts")
ABSENT_OPTIONS = ("query", "full", "embeddings", "dropout")
RARE_OPTIONS = (
    *("kv_heads", "head_dim", "scoring", "temperature", "soft_cap", "positions"),
    *("position_base", "device", "dtype", "points", "font", "footnote", "numbers"),
)


@dataclass(frozen=True, kw_only=True)
class QuizOptions:
    """The options of `attnviz quiz` alone: what is asked about, and how much."""

    texts: Annotated[
        list[str],
        section_argument(
            "Text",
            metavar="TEXT|LESSON",
            help="Sentences, each in quotes, or a lesson file (.toml: docs/quiz.md). Without any: "
            "a course from the arithmetic to heads of trained models.",
            short="Sentences in quotes, or a lesson file (.toml); without any, a course.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    tokenizer: Annotated[
        str,
        section_option(
            "Text",
            "--tokenizer",
            "-t",
            metavar="NAME",
            help=f"How a text is cut into tokens: {', '.join(TOKENIZERS)}.",
            among={name: tokenizer.about for name, tokenizer in TOKENIZERS.items()},
        ),
    ] = Settings.tokenizer
    questions: Annotated[
        int | None,
        section_option(
            "Questions",
            "--questions",
            "-n",
            metavar="N",
            help=f"How many questions, at most.  [default: {DEFAULT_QUESTIONS}, or the lesson's]",
            short="How many questions, at most: --questions 10",
            example="10",
        ),
    ] = None
    kind: Annotated[
        str | None,
        section_option(
            "Questions",
            metavar="KINDS",
            help="Only questions of these kinds, with commas: "
            f"{', '.join(f'{name} ({about})' for name, about in QUESTION_KINDS.items())}.",
            short=f"Only these kinds: {', '.join(QUESTION_KINDS)}.",
            example="token,mask",
            among=QUESTION_KINDS,
            several=True,
        ),
    ] = None
    answers: Annotated[
        bool,
        section_option(
            "Questions",
            "--answers",
            help="Print the solutions, too; a .pdf, .md or .txt is then the key. Without it, one "
            "is whose name begins or ends with the word key or solutions: -o sheet.pdf -o key.pdf",
            short="Print the solutions; in files: -o key.pdf, beside -o sheet.pdf",
        ),
    ] = False

    def chosen_kinds(self) -> tuple[str, ...]:
        """Return the kinds after --kind; () without it. Refuses unknown ones."""
        names = [] if self.kind is None else [name.strip() for name in self.kind.split(",")]
        for name in names:
            if name not in QUESTION_KINDS:
                raise unknown_name_error("kind of question", name, QUESTION_KINDS)
        return tuple(dict.fromkeys(names))


@accept_options(without=ABSENT_OPTIONS, rarely=RARE_OPTIONS)
def quiz_command(
    quiz_options: QuizOptions,
    model: ModelOptions,
    attention: AttentionOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: TypedOptions,
) -> None:
    """Ask questions about attention: predict first, then see the numbers.

    In a terminal one question follows another: answer with 1 to 4 or a to d. With -o quiz.html it
    is a page, with -o sheet.pdf -o key.pdf an exercise sheet and its solutions. Only questions with
    a clear answer are asked, and the same --seed asks the same ones.

    \b
    attnviz quiz
    attnviz quiz "the old keys near the cabinet" --model agreement -o quiz.html
    attnviz quiz lesson.toml -o sheet.pdf -o key.pdf
    """
    output.refuse_undeliverable(outputs, pictures, QUIZ_SUFFIXES)
    if quiz_options.questions is not None:
        refuse_question_count(quiz_options.questions)
    kinds = quiz_options.chosen_kinds()
    lesson = lesson_from_options(quiz_options, model, attention, typed)
    if quiz_options.questions is not None:
        lesson = replace(lesson, questions=quiz_options.questions)
    lesson = lesson.with_kinds(kinds) if kinds else lesson
    _refuse_untraceable(lesson)

    from attnviz.analysis.quiz.quiz_from_lesson import (
        build_quiz,
    )  # torch, for which errors need not wait

    with with_timer("looking for questions", quiet=outputs.quiet):
        quiz = build_quiz(lesson)
    line = _command_line(quiz_options, model, attention, outputs, pictures)
    for note in () if outputs.quiet else quiz.notes:
        print_message(f"note: {note}")
    _deliver(quiz, line, quiz_options, outputs, pictures)
    for text in quiz_options.texts:
        if not is_lesson(text):
            text_source.note_text_names_file(text, quiet=outputs.quiet)


def lesson_from_options(
    quiz_options: QuizOptions, model: ModelOptions, attention: AttentionOptions, typed: TypedOptions
) -> Lesson:
    """Return the lesson: that of a file, that of the texts, or without any the course.

    Refuses options that a lesson decides, except --model, which replaces its models, and --seed.
    """
    texts, typed_values = quiz_options.texts, typed.values_of(quiz_options, model, attention)
    settings = settings_from_options(
        TextOptions(tokenizer=quiz_options.tokenizer), model, attention
    )
    is_course = not texts and set(typed_values) <= {"seed", "questions", "kind", "answers"}
    lessons = [text for text in texts if is_lesson(text)]
    if not lessons and not is_course:
        refuse_model_conflicts(model.model, typed_values)
        none = TextOptions(text=None)
        given = texts or [text_source.read_text_if_needed(none, settings, "attnviz quiz") or ""]
        return Lesson(tuple(LessonText(text, settings) for text in given), seed=settings.seed)
    if len(texts) > 1:
        raise AttnvizError(f"'{lessons[0]}' is a lesson, and has texts of its own", "give it alone")
    lesson = read_lesson(Path(lessons[0])) if lessons else read_course()
    return _with_typed(lesson, model.model, typed.values_of(attention))


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


def _command_line(quiz_options: QuizOptions, *groups: object) -> str:
    options = {**changed_options(quiz_options), **changed_options(*groups)}
    texts = options.pop("texts", [])
    words = Command(name="quiz", options=options).line.removeprefix("attnviz quiz")
    shown = [path_without_folders(text) if is_lesson(text) else text for text in texts]
    return " ".join(["attnviz quiz", *map(shell_quote, shown)]) + words


def _deliver(
    quiz: Quiz,
    line: str,
    quiz_options: QuizOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Write the files of a quiz, or print it, or ask its questions if this is a terminal."""
    from attnviz.views.quiz.quiz_view import view

    sheet, key = (
        view(quiz, answers=answers, line=line).with_title(pictures.title)
        for answers in (False, True)
    )
    look = look_from_options(pictures)
    for page, is_key in ((sheet, False), (key, True)):
        paths = [path for path in outputs.out if is_key_file(path, quiz_options.answers) == is_key]
        if paths:
            remark = "with the answers" if is_key else "questions only"
            remarks = dict.fromkeys(PAPER_SUFFIXES, remark)
            output.write_view_files(page, replace(outputs, out=paths), look, remarks)
    if outputs.json:
        output.print_json(key)
    elif not outputs.out:
        if is_interactive() and not quiz_options.answers:
            from attnviz.cli.quiz_round import play_round

            play_round(sheet, outputs, pictures)
        else:
            output.print_tables(key if quiz_options.answers else sheet, outputs, pictures)


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
