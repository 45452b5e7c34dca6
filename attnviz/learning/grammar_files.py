"""The file of a grammar, read and checked: every error names the file and the line.

docs/learning.md has one with every key explained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import torch

from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices
from attnviz.learning.grammar import (
    MOST_WAYS,
    MOST_WORDS,
    ONE_OF,
    PREVIOUS,
    Grammar,
    Kinds,
    NoWordsError,
    Pattern,
    Reads,
    Way,
    Word,
    most_ways,
    pattern_of,
    refuse_unknown_words,
    ways,
)
from attnviz.learning.task import Reading, Task
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces import texts
from attnviz.traces.models.by_hand import Part
from attnviz.traces.settings import Settings
from attnviz.traces.texts import LinedFile, fits, in_keys
from attnviz.wording.words import counted

WORDS = ("about", "teaches", "watch", "asks", "answers")
KEYS = (*WORDS, "held_out", "words", "phrases", "sentences", "readings", "settings", "training")
NEEDED = ("asks", "answers", "watch", "words", "sentences")
OF_READING = ("of", "reads", "does")
SENTENCES = "[[sentences]]"
OF_SENTENCES = ("patterns", "times", "only")
ONLY = ("", "learned", "held out")
MOST_TIMES = 1000
MOST_KINDS = 100  # of a class of words
MOST_READINGS = 100
MOST_PLACES = 500_000  # words in all ways to put sentences together
MOST_CELLS = 20_000_000  # of the table of all lists: each is as wide as the longest
EXAMPLE = '"the {noun x as subject} {verb x}"'
SETTINGS = tuple(
    each.name
    for each in fields(Settings)
    if each.name
    not in ("tokenizer", "embeddings", "given", "item", "memory", "model", "trust_remote_code")
)

# The model of a grammar that says nothing of it: such as learns agreement.
USUAL = Settings(variant="multi-head", dim=32, heads=2, layers=2, norm="pre", positions="learned")

Classes = Mapping[str, Mapping[str, tuple[Word, ...]]]  # by name, and by kind: "" where it has none


def read(path: Path, source: str | None = None) -> Task:
    """The task of a grammar's file; or of its text, which was read before."""
    file = LinedFile(path, texts.read(path, "grammar") if source is None else source)
    whole = Part(file, texts.toml(file.text, str(path)))
    for key in whole.table:
        whole.refuse_unknown("key", key, KEYS)
    for key in NEEDED:
        if key not in whole.table:
            raise whole.error("", f"there is no '{key}'", "docs/learning.md has a whole grammar")
    grammar = _grammar(whole)
    _refuse_wide_lists(grammar, whole)
    _refuse_what_cannot_be_drawn(grammar, whole)
    task = Task(
        name=path.stem,
        about=whole.text("about"),
        teaches=whole.text("teaches"),
        asked=grammar.asks,
        vocabulary=grammar.vocabulary,
        draw=grammar.draw,
        readings=tuple(_said(whole.part("readings"))),
        watch=whole.text("watch"),
        settings=_settings(whole.part("settings")),
        longest=grammar.longest,
        source=file.text,
        **_training(whole.part("training")),
    )
    _refuse_odd_sentence(task, whole)
    return task


def _grammar(whole: Part) -> Grammar:
    classes = _classes(whole.part("words"))
    learned, measured = _sentences(whole, classes)
    every = tuple({**learned, **measured})
    names = list(dict.fromkeys(each.name for way in every for each in way if each.name))
    for key in ("asks", "answers"):
        whole.refuse_unknown("place in a sentence", whole.text(key), names, key)
    given = {each.kind: ((each.kind,),) for way in every for each in way if not each.words}
    grammar = Grammar(
        lists={
            **{(name, kind): each for name, of in classes.items() for kind, each in of.items()},
            **{("", word): each for word, each in given.items()},
        },
        ways=every,
        learned=tuple(learned.get(way, 0.0) for way in every),
        measured=tuple(measured.get(way, 0.0) for way in every),
        asks=whole.text("asks"),
        answers=whole.text("answers"),
        readings=_readings(whole.part("readings"), names),
        held_out=_held_out(whole, names),
    )
    _refuse_odd_forms(grammar, whole)
    return grammar


def _classes(words: Part) -> Classes:
    """The lists of words, and what each of them is called."""
    if not words.table:
        raise words.error("", "there are no words", 'write below [words]: noun = ["key", "door"]')
    for name, value in words.table.items():
        if isinstance(value, dict) and len(value) > MOST_KINDS:
            raise words.error(
                name, f"'{name}' has {len(value):,} kinds", f"give it {MOST_KINDS} at most"
            )
    return {
        name: {kind: _list(words.part(name), kind, each) for kind, each in value.items()}
        if isinstance(value, dict)
        else {"": _list(words, name, value)}
        for name, value in words.table.items()
    }


def _list(part: Part, key: str, value: Any) -> tuple[Word, ...]:
    """The words of a list, in tokens."""
    fits = isinstance(value, list) and bool(value) and len(value) <= MOST_WORDS
    words = fits and all(isinstance(each, str) and each.strip() for each in value)
    part.refuse_unless(words, key, 'a list of words, such as ["key", "door"]')
    found = tuple(tokenize(each, "words").labels for each in value)
    longer = next((place for place, word in enumerate(found) if len(word) != len(found[0])), None)
    if longer is not None:
        raise part.error(
            key,
            f"'{value[longer]}' is {counted(len(found[longer]), 'token')}, but '{value[0]}' is "
            f"{len(found[0])}",
            "make two lists of them: the words of one list need the same number of tokens",
        )
    twice, times = Counter(found).most_common(1)[0]
    if times > 1:
        raise part.error(key, f"'{' '.join(twice)}' occurs twice", "leave one of them out")
    return found


Ways = dict[Way, float]  # and how often each comes


def _sentences(whole: Part, classes: Classes) -> tuple[Ways, Ways]:
    """The ways of sentences that are learned from, and of those that are held out."""
    tables = whole.table["sentences"]
    listed = isinstance(tables, list) and all(isinstance(each, dict) for each in tables)
    whole.refuse_unless(listed and bool(tables), "sentences", f"tables: write {SENTENCES} for each")
    phrases = _phrases(whole.part("phrases"), classes)
    learned: Ways = {}
    measured: Ways = {}
    places = 0
    for number, table in enumerate(tables):
        part = Part(whole.file, table, SENTENCES, number)
        for key in table:
            part.refuse_unknown("key of sentences", key, OF_SENTENCES)
        only = part.one_of("only", ONLY)
        for way, share in _ways(part, phrases, classes):
            places += 1 + len(way)
            if places > MOST_PLACES:
                raise _too_many_places(part, part.line("patterns"))
            if only != "held out":
                learned[way] = learned.get(way, 0.0) + share
            if only != "learned":
                measured[way] = measured.get(way, 0.0) + share
    for found, stream in ((learned, "learned from"), (measured, "held out")):
        if not found:
            raise whole.error("sentences", f"no sentences are {stream}", "remove an 'only'")
    return learned, measured


def _phrases(part: Part, classes: Classes) -> Mapping[str, str]:
    for name, value in part.table.items():
        part.refuse_unless(isinstance(value, str), name, 'text, such as "the {noun}"')
        if name in classes:
            raise part.error(
                name, f"'{name}' is also a list of words", "give the phrase another name"
            )
    kinds, places = kinds_of(classes), 0
    for name, text in part.table.items():
        places += 1 + _pattern(text, part.table, kinds, part, partial(part.line, name)).size
        if places > MOST_PLACES:
            raise _too_many_places(part, part.line(name))
    return part.table


def _ways(part: Part, phrases: Mapping[str, str], classes: Classes) -> Iterator[tuple[Way, float]]:
    """The ways of one table, with their shares."""
    patterns = part.table.get("patterns")
    texts_ = isinstance(patterns, list) and all(isinstance(each, str) for each in patterns)
    part.refuse_unless(texts_ and bool(patterns), "patterns", f"a list of texts, such as {EXAMPLE}")
    assert patterns
    times = part.whole("times", 1, MOST_TIMES)
    kinds = kinds_of(classes)
    for text in patterns:
        pattern = _pattern(text, phrases, kinds, part, partial(_line_of_text, part, text))
        found = most_ways(pattern, kinds)
        if found > MOST_WAYS:
            raise part.file.error(
                f"there are more than {MOST_WAYS:,} ways to put this sentence together",
                "remove some of the [ ], or split it into several patterns",
                _line_of_text(part, text),
            )
        if found * pattern.size > MOST_PLACES:
            raise _too_many_places(part, _line_of_text(part, text))
        for share, way in ways(pattern, kinds):
            yield way, share * times / len(patterns)


def _too_many_places(part: Part, line: int | None) -> AttnvizError:
    return part.file.error(
        f"the patterns together have more than {MOST_PLACES:,} words",
        "make fewer sentences, or shorter ones",
        line,
    )


def kinds_of(classes: Classes) -> dict[str, tuple[str, ...]]:
    """The kinds of each class of words."""
    return {name: tuple(kind for kind in of if kind) for name, of in classes.items()}


def _pattern(
    text: str, phrases: Mapping[str, str], kinds: Kinds, part: Part, line: Callable[[], int | None]
) -> Pattern:
    """A pattern, or a phrase, as it is written on a line, which is looked for if it is odd."""
    try:
        pattern = pattern_of(text, phrases)
        refuse_unknown_words(pattern, kinds)
    except AttnvizError as error:
        raise part.file.error(str(error), error.hint, line()) from None
    return pattern


def _line_of_text(part: Part, text: str) -> int | None:
    """The first line that holds a text, from this table on."""
    start = part.line("patterns") or 1
    lines = enumerate(part.file.lines[start - 1 :], start=start)
    return next((number for number, line in lines if text in line), start)


def _readings(part: Part, names: Sequence[str]) -> dict[str, Reads]:
    """What the heads may come to do."""
    if len(part.table) > MOST_READINGS:
        raise part.error("", f"there are more than {MOST_READINGS} readings", "leave some out")
    return {name: _reads(part, name, names) for name in part.table}


def _reads(readings: Part, name: str, names: Sequence[str]) -> Reads:
    part = readings.part(name)
    for key in part.table:
        if key not in OF_READING:
            readings.refuse_unknown("key of a reading", key, OF_READING, name)
    of, reads = part.table.get("of", ""), part.table.get("reads", PREVIOUS)
    if of:
        readings.refuse_unknown("place in a sentence", str(of), names, name)
    if reads != PREVIOUS:
        readings.refuse_unknown("place to read", str(reads), [PREVIOUS, *names], name)
        if not of:
            problem = f"'{name}' names the place that is read, but not the place that reads it"
            raise readings.error(name, problem, f'write: of = "{names[0]}"')
    return Reads(of=str(of), reads=str(reads))


def _said(readings: Part) -> Iterator[Reading]:
    for name, table in readings.table.items():
        does = table.get("does", f"reads the {name}")
        readings.refuse_unless(
            isinstance(does, str), name, 'a sentence in quotes: does = "reads …"'
        )
        yield Reading(name, does)


def _held_out(whole: Part, names: Sequence[str]) -> tuple[str, ...]:
    """The places whose words make a combination; none: all of them."""
    if "held_out" not in whole.table:
        return ()
    found = whole.names("held_out")
    for name in found:
        whole.refuse_unknown("place in a sentence", name, names, "held_out")
    return found


def _refuse_wide_lists(grammar: Grammar, whole: Part) -> None:
    """All lists make one table, in which each has as much room as the longest."""
    most = max(map(len, grammar.lists.values()))
    longest = max(len(word[0]) for word in grammar.lists.values())
    if len(grammar.lists) * most * longest > MOST_CELLS:
        raise whole.error(
            "words",
            f"{len(grammar.lists):,} lists, one of them of {most:,} words, need a table of more "
            f"than {MOST_CELLS:,} numbers",
            "make the longest list shorter; every word of a sentence is a list, too",
        )


def _refuse_odd_forms(grammar: Grammar, whole: Part) -> None:
    """A word whose form is hidden has as many forms as the others, of one token each."""
    if not grammar.hides:
        return
    for words in grammar.answering:
        if len(words) != len(grammar.answering[0]) or len(words[0]) != 1:
            raise whole.error(
                "answers",
                f"the form of '{grammar.asks}' is the answer, but its lists do not match",
                "give each kind as many words, in the same order, of one token each",
            )


def _refuse_what_cannot_be_drawn(grammar: Grammar, whole: Part) -> None:
    """Every way must have words for what is learned from, and others to hold out."""
    for stream, shares in (("learned", grammar.learned), ("held out", grammar.measured)):
        ways = torch.tensor([number for number, share in enumerate(shares) if share])
        try:
            grammar.tables.sentences(0, stream, ways)
        except NoWordsError as error:
            told = " ".join(
                f"{{{each.name}}}" if each.words else each.kind for each in grammar.ways[error.way]
            )
            what = "to hold out" if stream == "held out" else "to learn from"
            raise whole.error(
                "sentences",
                f"'{told}' leaves no combination of different words {what}",
                f"give more words; one in {ONE_OF} combinations is held out",
            ) from None


def _refuse_odd_sentence(task: Task, whole: Part) -> None:
    """What is watched must be read by the model, and must not be longer than what it learned."""
    try:
        tokens = task.vocabulary.cut(task.watch)
    except AttnvizError as error:
        raise whole.error("watch", str(error), error.hint) from None
    if len(tokens) > task.longest:
        raise whole.error(
            "watch",
            f"this is {counted(len(tokens), 'token')}, but the longest sentence has {task.longest}",
            "watch a shorter one",
        )


def _settings(part: Part) -> Settings:
    """As the options of attnviz run are called, with _ for -."""
    hints = get_type_hints(Settings)
    for key, value in part.table.items():
        part.refuse_unknown("setting", key, SETTINGS)
        part.refuse_unless(fits(value, hints[key]), key, "what this setting takes")
    try:
        return replace(USUAL, **part.table)
    except AttnvizError as error:
        told = in_keys(error)
        raise part.error(error.about, str(told), told.hint) from None


def _training(part: Part) -> dict[str, Any]:
    hints = get_type_hints(Choices)
    for key, value in part.table.items():
        part.refuse_unknown("key of training", key, (*hints, "seconds"))
        part.refuse_unless(fits(value, hints.get(key, float)), key, "a number")
    chosen = {name: each for name, each in part.table.items() if name in hints}
    try:
        Choices(**chosen)
    except AttnvizError as error:
        told = in_keys(error)
        raise part.error(error.about, str(told), told.hint) from None
    return dict(part.table)
