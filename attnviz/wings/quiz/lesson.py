"""Lesson: texts, models, heads and kinds of question of a quiz; reads its files.

Nothing here needs torch, so that a mistake in a lesson is found before a model is loaded.
docs/lessons.md explains every key of a lesson file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as package_files
from pathlib import Path
from random import Random

from attnviz.errors import AttnvizError
from attnviz.traces import toml_reader as toml
from attnviz.traces.settings import LONG_TEXT_SETTINGS, Settings, untrusted_settings
from attnviz.wording.words import counted

QUESTION_KINDS: Mapping[str, str] = {  # what each kind asks, for help texts
    "row": "who reads whom in a map",
    "token": "which token another attends to most",
    "weight": "which weight a score becomes",
    "scaled": "which weights are softmax without the division by √d_k",
    "temperature": "what half the temperature does",
    "mask": "which token the mask hides",
    "visible": "how many tokens one can see",
    "value": "what another value changes",
    "order": "what another order of the words changes",
    "head": "which of two maps is the head that does this",
    "ablation": "which heads a model's answer needs",
}
DEFAULT_QUESTIONS = 6
QUESTION_LIMITS = (1, 40)
MAX_ANSWERS = 4
MAX_QUIZ_TOKENS = 32  # of a text: all of it is shown
COURSE_FILE = "course.toml"  # the lesson of a quiz without a text
NO_LESSON_SETTINGS = (
    "model",
    "tokenizer",
    "embeddings",
    "given",
    "item",
    "memory",
    "dropout",
    "trust_remote_code",
    *LONG_TEXT_SETTINGS,
)
LESSON_SETTINGS = tuple(
    name for name in Settings.__dataclass_fields__ if name not in NO_LESSON_SETTINGS
)
_TEXT = replace(toml.TEXT_TYPE, hint='write {key} = "…"')
_NAMES = replace(toml.NAMES_TYPE, hint='write {key} = ["…", "…"]')
_TEXT_OR_TEXTS = toml.ValueKind(
    lambda value: (isinstance(value, str) and bool(value)) or _NAMES.fits(value),
    "a text in quotes or a list of them",
    'write {key} = "…", or {key} = ["…", "…"], of which the seed draws one',
)
_WORD_OR_NUMBER = toml.ValueKind(
    lambda value: toml.is_whole_number(value) or (isinstance(value, str) and bool(value)),
    "a word in quotes or a number",
    'write {key} = "it", or {key} = 2 for the second token',
)
_WORDS_OR_NUMBERS = toml.ValueKind(
    lambda value: isinstance(value, list) and bool(value) and all(map(_WORD_OR_NUMBER.fits, value)),
    "a list of words and numbers",
    'write {key} = ["it", 2]',
)
LESSON_KEYS: Mapping[str, toml.ValueKind] = {
    "title": _TEXT,
    "questions": toml.int_range(*QUESTION_LIMITS),
    "seed": toml.WHOLE_NUMBER_TYPE,
    "texts": replace(toml.TABLES_TYPE, hint='write [[texts]], and below it text = "…"'),
}
TEXT_KEYS: Mapping[str, toml.ValueKind] = {
    "text": _TEXT_OR_TEXTS,
    "model": _TEXT,
    "tokenizer": _TEXT,
    **dict.fromkeys(("kinds", "heads"), _NAMES),
    "queries": _WORDS_OR_NUMBERS,
    "settings": toml.TABLE_TYPE,
    "ask": toml.TABLES_TYPE,
}
ASK_KEYS: Mapping[str, toml.ValueKind] = {
    **dict.fromkeys(("kind", "head", "question", "reason", "right"), _TEXT),
    "query": _WORD_OR_NUMBER,
    "answers": _NAMES,
}


@dataclass(frozen=True)
class OwnQuestion:
    """A question that a lesson asks itself: with a kind, its answers come from the numbers."""

    kind: str  # "" if it has answers of its own
    question: str = ""  # its wording; "" for that of the kind
    reason: str = ""  # stands before the reason that the kind gives
    head: str = ""
    query: str = ""
    answers: tuple[str, ...] = ()
    right: str = ""
    table: toml.Table | None = None  # where it is written, for errors


@dataclass(frozen=True)
class LessonText:
    """A text of a lesson, or several of which one is drawn, how it is traced, and what may be asked
    about it.
    """

    text: str
    settings: Settings
    kinds: tuple[str, ...] = tuple(QUESTION_KINDS)
    heads: tuple[str, ...] = ()  # such as L1H0; all if empty
    queries: tuple[str, ...] = ()  # words or numbers from 1; all if empty
    own: tuple[OwnQuestion, ...] = ()
    others: tuple[str, ...] = ()  # texts that may be drawn in place of the first
    table: toml.Table | None = None  # where it is written, for errors

    @property
    def all_texts(self) -> tuple[LessonText, ...]:
        """The first text and the others, each as one of its own."""
        return tuple(replace(self, text=each, others=()) for each in (self.text, *self.others))

    def drawn_texts(self, seed: str) -> tuple[LessonText, ...]:
        """Return all texts in an order that a seed draws: the first is the one to ask about."""
        texts = self.all_texts
        return tuple(Random(seed).sample(texts, len(texts)))


@dataclass(frozen=True)
class Lesson:
    """The texts of a quiz, in their order, and how many questions it has."""

    texts: tuple[LessonText, ...]
    title: str = ""
    questions: int = DEFAULT_QUESTIONS
    seed: int = Settings.seed
    is_course: bool = False  # that of attnviz itself, which nobody can change

    def with_kinds(self, kinds: tuple[str, ...]) -> Lesson:
        return replace(self, texts=tuple(replace(text, kinds=kinds, own=()) for text in self.texts))

    def with_seed(self, seed: int) -> Lesson:
        """Return the lesson with another seed, for random vectors and for the choice."""
        texts = tuple(
            replace(text, settings=replace(text.settings, seed=seed)) for text in self.texts
        )
        return replace(self, texts=texts, seed=seed)


def is_lesson(name: str) -> bool:
    return name.lower().endswith(".toml") and len(name.split()) == 1


def read_course() -> Lesson:
    """Return the lesson of a quiz without a text: from random vectors to models that learned."""
    place = package_files("attnviz.wings.quiz").joinpath(COURSE_FILE)
    table = toml.Table.read(Path(COURSE_FILE), "lesson", place.read_text("utf-8"))
    return replace(_build_lesson(table), is_course=True)


def read_lesson(path: Path) -> Lesson:
    """Return the lesson of a file; refuses unknown and missing keys, and impossible values."""
    return _build_lesson(toml.Table.read(path, "lesson"))


def _build_lesson(whole: toml.Table) -> Lesson:
    whole.check("key", LESSON_KEYS, "texts")
    seed = whole.values.get("seed", Settings.seed)
    with whole.locating_errors("seed"):
        base = Settings(seed=seed)
    return Lesson(
        texts=tuple(_build_text(table, base) for table in whole.tables("texts")),
        title=whole.text("title"),
        questions=whole.values.get("questions", DEFAULT_QUESTIONS),
        seed=seed,
    )


def _build_text(table: toml.Table, base: Settings) -> LessonText:
    """Return a text of the lesson, or several; `base` are the settings of all texts.

    Refuses own questions beside several texts: they are about one.
    """
    table.check("key", TEXT_KEYS, "text")
    own = tuple(_build_question(each) for each in table.tables("ask"))
    given = table.values["text"]
    first, *others = [given] if isinstance(given, str) else given
    if own and others:
        problem = "own questions are about one text, and 'text' gives several"
        raise table.error(problem, "give one text", "text")
    kinds = table.names("kinds")
    for kind in kinds:
        table.refuse_unknown("kind of question", kind, QUESTION_KINDS, "kinds")
    settings = table.table("settings").settings(LESSON_SETTINGS, base)
    names = {name: table.text(name) for name in ("model", "tokenizer") if name in table.values}
    with table.locating_errors(*names, options=True):
        settings = replace(settings, **untrusted_settings(names))
    return LessonText(
        text=first,
        others=tuple(others),
        settings=settings,
        kinds=kinds or (() if own else tuple(QUESTION_KINDS)),
        heads=table.names("heads"),
        queries=tuple(map(str, table.names("queries"))),
        own=own,
        table=table,
    )


def _build_question(table: toml.Table) -> OwnQuestion:
    """Return a question of the lesson's own: of a kind, or with answers."""
    table.check("key", ASK_KEYS)
    kind, answers = table.text("kind"), table.names("answers")
    if kind:
        table.refuse_unknown("kind of question", kind, QUESTION_KINDS, "kind")
        _refuse_keys(table, ("answers", "right"), f"the answers to '{kind}' come from the numbers")
    else:
        _refuse_keys(table, ("head", "query"), "they choose numbers, and no 'kind' says for what")
        _refuse_unanswered(table, answers)
    texts = {name: table.text(name) for name in ("question", "reason", "head", "query", "right")}
    return OwnQuestion(kind=kind, answers=answers, table=table, **texts)


def _refuse_keys(table: toml.Table, names: Collection[str], reason: str) -> None:
    """Refuse the first of these keys that is there."""
    for name in names:
        if name in table.values:
            raise table.error(f"'{name}' has no meaning here: {reason}", "leave it out", name)


def _refuse_unanswered(table: toml.Table, answers: Sequence[str]) -> None:
    """Refuse a question without a kind that lacks words, 2 to 4 answers, or the right one."""
    hint = f"give 'kind' ({', '.join(QUESTION_KINDS)}), or 'question', 'answers' and 'right'"
    for name in ("question", "answers", "right"):
        if name not in table.values:
            raise table.error(f"this question has neither 'kind' nor '{name}'", hint)
    if not 2 <= len(answers) <= MAX_ANSWERS:
        problem = f"'answers' has {counted(len(answers), 'answer')}"
        raise table.error(problem, f"give 2 to {MAX_ANSWERS}", "answers")
    if table.text("right") not in answers:
        raise table.error("'right' is none of the answers", "write it as in 'answers'", "right")


def refuse_long_text(tokens: int) -> None:
    """Refuse a text of more tokens than a quiz can show."""
    if tokens > MAX_QUIZ_TOKENS:
        raise AttnvizError(
            f"the text has {counted(tokens, 'token')}, and a quiz shows at most {MAX_QUIZ_TOKENS}",
            "give a shorter sentence, or each sentence as a text of its own",
        )


def refuse_question_count(count: int) -> None:
    """Refuse a number of questions outside 1 to 40."""
    low, high = QUESTION_LIMITS
    if not low <= count <= high:
        nearest = min(max(count, low), high)
        raise AttnvizError(
            f"a quiz of {count} questions was asked for, and it can have {low} to {high}",
            f"try {nearest}",
            about="questions",
        )
