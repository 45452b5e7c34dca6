"""Reads and checks the TOML of a grammar; docs/learning.md explains every key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attnviz.learning.choices import Choices
from attnviz.learning.grammar import (
    HELD_OUT_COMBINATIONS,
    MAX_LIST_WORDS,
    MAX_WAYS,
    PREVIOUS_TOKEN,
    Grammar,
    Kinds,
    NoWordsError,
    Pattern,
    ReadingRule,
    SentenceWay,
    WordTokens,
    expand_pattern,
    max_way_count,
    parse_pattern,
    refuse_unknown_words,
)
from attnviz.learning.task import TWO_LAYERS, Reading, Task
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces import toml_reader as toml
from attnviz.traces.settings import Settings
from attnviz.wording.words import counted

TEXT_KEYS = ("about", "teaches", "watch", "asks", "answers")
REQUIRED_GRAMMAR_KEYS = ("asks", "answers", "watch", "words", "sentences")
GRAMMAR_KEYS: Mapping[str, toml.ValueKind] = {
    **dict.fromkeys(
        TEXT_KEYS,
        replace(toml.TEXT_TYPE, hint='write {key} = "…": docs/learning.md has a whole grammar'),
    ),
    "held_out": toml.NAMES_TYPE,
    "words": replace(toml.TABLE_TYPE, hint='write below [words]: noun = ["key", "door"]'),
    "sentences": toml.TABLES_TYPE,
    **dict.fromkeys(("phrases", "readings", "settings", "training"), toml.TABLE_TYPE),
}
READING_KEYS: Mapping[str, toml.ValueKind] = dict.fromkeys(("of", "reads", "does"), toml.TEXT_TYPE)
SENTENCES_KEYS: Mapping[str, toml.ValueKind] = {
    "patterns": toml.ValueKind(
        lambda value: toml.is_list(value, str),
        "a list of texts",
        'write {key} = ["the {noun x as subject} {verb x}"]',
    ),
    "times": toml.int_range(0, 1000),
    "only": toml.one_word_of("", "learned", "held out"),
}
MAX_KINDS = 100  # of a class of words
MAX_READINGS = 100
MAX_WAY_WORDS = 500_000  # in all filled-in patterns
MAX_LIST_CELLS = 20_000_000  # of the table of all lists, each padded to the longest
GRAMMAR_TEXT_KEYS = toml.ValueKind(
    lambda value: (
        toml.is_list(value, str) and len(value) <= MAX_LIST_WORDS and all(map(str.strip, value))
    ),
    'a list of words, such as ["key", "door"]',
)
PHRASE_TYPE = replace(toml.TEXT_TYPE, phrase='text, such as "the {noun}"')
NO_GRAMMAR_SETTINGS = ("tokenizer", "embeddings", "given", "item", "memory", "model")
GRAMMAR_SETTINGS = tuple(
    name
    for name in Settings.__dataclass_fields__
    if name not in (*NO_GRAMMAR_SETTINGS, "trust_remote_code")
)
# The model that learns agreement well.
WordClasses = Mapping[str, Mapping[str, tuple[WordTokens, ...]]]
WayShares = dict[SentenceWay, float]  # how often each filled-in pattern occurs


def read_grammar_task(path: Path, source: str | None = None) -> Task:
    """Return the task of a grammar file, or of its text `source` if that was read before.

    Refuses unknown and missing keys, sentences that cannot be drawn, and a watched sentence that is
    too long.
    """
    whole = toml.Table.read(path, "grammar", source)
    whole.check("key", GRAMMAR_KEYS, *REQUIRED_GRAMMAR_KEYS)
    grammar = _read_grammar(whole)
    _refuse_wide_lists(grammar, whole)
    _refuse_impossible_sentences(grammar, whole)
    readings = whole.table("readings").values.items()
    task = Task(
        name=path.stem,
        about=whole.text("about"),
        teaches=whole.text("teaches"),
        answer_noun=grammar.asks,
        vocabulary=grammar.vocabulary,
        draw=grammar.draw,
        readings=tuple(Reading(name, of.get("does", f"reads the {name}")) for name, of in readings),
        watch=whole.text("watch"),
        settings=whole.table("settings").settings(GRAMMAR_SETTINGS, TWO_LAYERS),
        longest=grammar.longest,
        source=whole.file.text,
        **_training_choices(whole.table("training")),
    )
    with whole.locating_errors("watch"):
        tokens = task.vocabulary.cut(task.watch)
    if len(tokens) > task.longest:
        raise whole.error(
            f"this is {counted(len(tokens), 'token')}, but the longest sentence has {task.longest}",
            "watch a shorter one",
            "watch",
        )
    return task


def _read_grammar(whole: toml.Table) -> Grammar:
    """Return the grammar of a whole file; refuse names of slots and classes that it does not
    define."""
    classes = _word_classes(whole.table("words"))
    learned, measured = _read_sentences(whole, classes)
    every = tuple({**learned, **measured})
    slots = [slot for way in every for slot in way]
    names = list(dict.fromkeys(slot.name for slot in slots if slot.name))
    for key in ("asks", "answers"):
        whole.refuse_unknown("place in a sentence", whole.text(key), names, key, from_file=True)
    held_out = whole.names("held_out")
    for name in held_out:
        whole.refuse_unknown("place in a sentence", name, names, "held_out", from_file=True)
    by_kind = {(name, kind): words for name, of in classes.items() for kind, words in of.items()}
    grammar = Grammar(
        lists=by_kind | {("", slot.kind): ((slot.kind,),) for slot in slots if not slot.words},
        ways=every,
        training_shares=tuple(learned.get(way, 0.0) for way in every),
        held_out_shares=tuple(measured.get(way, 0.0) for way in every),
        asks=whole.text("asks"),
        answers=whole.text("answers"),
        readings=_read_readings(whole.table("readings"), names),
        held_out=held_out,
    )
    _refuse_unmatched_forms(grammar, whole)
    return grammar


def _word_classes(words: toml.Table) -> WordClasses:
    """Return the lists of words of a grammar by class ("noun") and kind ("singular").

    A class that is one plain list has the kind "".
    """
    if not words.values:
        raise words.error("there are no words", GRAMMAR_KEYS["words"].hint)
    for name, value in words.values.items():
        if isinstance(value, dict) and len(value) > MAX_KINDS:
            problem = f"'{name}' has {len(value):,} kinds"
            raise words.error(problem, f"give it {MAX_KINDS} at most", name)
    return {
        name: {kind: _list_of_words(words.table(name), kind) for kind in value}
        if isinstance(value, dict)
        else {"": _list_of_words(words, name)}
        for name, value in words.values.items()
    }


def _list_of_words(table: toml.Table, key: str) -> tuple[WordTokens, ...]:
    """Return the tokens of each word in a list.

    Refuses words with different numbers of tokens, and a word that occurs twice.
    """
    table.refuse_misfit(key, GRAMMAR_TEXT_KEYS)
    words = table.values[key]
    tokens = tuple(tokenize(word, "words").labels for word in words)
    for word, cut in zip(words, tokens, strict=True):
        if len(cut) != len(tokens[0]):
            raise table.error(
                f"'{word}' is {counted(len(cut), 'token')}, but '{words[0]}' is {len(tokens[0])}",
                "make two lists of them: the words of one list need the same number of tokens",
                key,
            )
    table.refuse_twice(Counter(map(" ".join, tokens)), key, "occurs twice")
    return tokens


def _read_sentences(whole: toml.Table, classes: WordClasses) -> tuple[WayShares, WayShares]:
    """Return all filled-in sentence patterns with how often each occurs: in training, and held out.

    Refuses patterns with too many words in all, and a file without sentences for one of the two.
    """
    kinds = {name: tuple(kind for kind in of if kind) for name, of in classes.items()}
    phrases = _read_phrases(whole.table("phrases"), kinds)
    learned: WayShares = {}
    measured: WayShares = {}
    words = 0
    for table in whole.tables("sentences"):
        table.check("key of sentences", SENTENCES_KEYS, "patterns")
        only = table.values.get("only")
        for way, share in _weighted_ways(table, phrases, kinds):
            words += 1 + len(way)
            _refuse_many_words(words, table, "patterns")
            if only != "held out":
                learned[way] = learned.get(way, 0.0) + share
            if only != "learned":
                measured[way] = measured.get(way, 0.0) + share
    for shares, stream in ((learned, "learned from"), (measured, "held out")):
        if not shares:
            raise whole.error(f"no sentences are {stream}", "remove an 'only'", "sentences")
    return learned, measured


def _read_phrases(table: toml.Table, kinds: Kinds) -> Mapping[str, str]:
    """Return the phrases by name, each a pattern that others can contain; refuse names of word
    lists and phrases that cannot be parsed."""
    for name in table.values:
        table.refuse_misfit(name, PHRASE_TYPE)
        if name in kinds:
            problem = f"'{name}' is also a list of words"
            raise table.error(problem, "give the phrase another name", name)
    words = 0
    for name, text in table.values.items():
        words += 1 + _read_pattern(text, table.values, kinds, table, name).size
        _refuse_many_words(words, table, name)
    return table.values


def _weighted_ways(
    table: toml.Table, phrases: Mapping[str, str], kinds: Kinds
) -> Iterator[tuple[SentenceWay, float]]:
    """Yield the filled-in patterns of one [[sentences]] table, each with how often it occurs.

    The shares of a table sum to its `times`, which is 1 by default. Refuses a pattern that expands
    to more than MAX_WAYS.
    """
    patterns = table.values["patterns"]
    for number, text in enumerate(patterns):
        pattern = _read_pattern(text, phrases, kinds, table, "patterns", number)
        most = max_way_count(pattern, kinds)
        if most > MAX_WAYS:
            raise table.error(
                f"there are more than {MAX_WAYS:,} ways to put this sentence together",
                "remove some of the [ ], or split it into several patterns",
                "patterns",
                number,
            )
        _refuse_many_words(most * pattern.size, table, "patterns", number)
        for share, way in expand_pattern(pattern, kinds):
            yield way, share * table.values.get("times", 1) / len(patterns)


def _refuse_many_words(words: int, table: toml.Table, *keys: str | int) -> None:
    """Refuse more than MAX_WAY_WORDS words in all filled-in patterns; `keys` locate the pattern in
    the table."""
    if words > MAX_WAY_WORDS:
        raise table.error(
            f"the patterns together have more than {MAX_WAY_WORDS:,} words",
            "make fewer sentences, or shorter ones",
            *keys,
        )


def _read_pattern(
    text: str, phrases: Mapping[str, str], kinds: Kinds, table: toml.Table, *keys: str | int
) -> Pattern:
    """Parse a pattern or phrase; errors give its line in the file, found by `keys`.

    Refuses unknown classes and kinds of words.
    """
    with table.locating_errors(*keys):
        pattern = parse_pattern(text, phrases)
        refuse_unknown_words(pattern, kinds)
    return pattern


def _read_readings(table: toml.Table, names: Sequence[str]) -> dict[str, ReadingRule]:
    """Return the rules of what heads may learn to attend to, by name.

    Refuses names of slots that no sentence has, and a rule that says which slot is attended to but
    not from where.
    """
    if len(table.values) > MAX_READINGS:
        raise table.error(f"there are more than {MAX_READINGS} readings", "leave some out")
    rules = {}
    for name in table.values:
        table.refuse_misfit(name, toml.TABLE_TYPE)
        part = table.table(name)
        part.check("key of a reading", READING_KEYS)
        of, reads = part.values.get("of", ""), part.values.get("reads", PREVIOUS_TOKEN)
        if of:
            part.refuse_unknown("place in a sentence", of, names, "of", from_file=True)
        part.refuse_unknown(
            "place to read", reads, [PREVIOUS_TOKEN, *names], "reads", from_file=True
        )
        if reads != PREVIOUS_TOKEN and not of:
            problem = f"'{name}' names the place that is read, but not the place that reads it"
            raise table.error(problem, f'write: of = "{names[0]}"', name)
        rules[name] = ReadingRule(of=of, reads=reads)
    return rules


def _refuse_wide_lists(grammar: Grammar, whole: toml.Table) -> None:
    """Refuse lists that would need too large a table, in which each is padded to the longest."""
    lists, most_words = len(grammar.lists), max(map(len, grammar.lists.values()))
    longest = max(len(words[0]) for words in grammar.lists.values())
    if lists * most_words * longest > MAX_LIST_CELLS:
        raise whole.error(
            f"{lists:,} lists, one of them of {most_words:,} words, need a table of more than "
            f"{MAX_LIST_CELLS:,} numbers",
            "make the longest list shorter; every word of a sentence is a list, too",
            "words",
        )


def _refuse_unmatched_forms(grammar: Grammar, whole: toml.Table) -> None:
    """Refuse answers that are forms of the blank word itself unless their lists match word by word,
    with one token each."""
    if not grammar.hides_forms:
        return
    for words in grammar.answer_lists:
        if len(words) != len(grammar.answer_lists[0]) or len(words[0]) != 1:
            raise whole.error(
                f"the form of '{grammar.asks}' is the answer, but its lists do not match",
                "give each kind as many words, in the same order, of one token each",
                "answers",
            )


def _refuse_impossible_sentences(grammar: Grammar, whole: toml.Table) -> None:
    """Refuse a filled-in pattern without enough different words for its training or held-out
    sentences."""
    for stream, shares in (
        ("learned", grammar.training_shares),
        ("held out", grammar.held_out_shares),
    ):
        ways = torch.tensor([number for number, share in enumerate(shares) if share])
        try:
            grammar.tables.sentences(0, stream, ways)
        except NoWordsError as error:
            way = grammar.ways[error.way]
            sentence = " ".join(f"{{{slot.name}}}" if slot.words else slot.kind for slot in way)
            what = "to hold out" if stream == "held out" else "to learn from"
            raise whole.error(
                f"'{sentence}' leaves no combination of different words {what}",
                f"give more words; one in {HELD_OUT_COMBINATIONS} combinations is held out",
                "sentences",
            ) from None


def _training_choices(table: toml.Table) -> dict[str, Any]:
    """Return the values of [training] as fields of a Task; refuse unknown keys and values out of
    range."""
    kinds = {**toml.kinds_by_class(Choices), "seconds": toml.NUMBER_TYPE}
    table.check("key of training", kinds)
    with table.locating_errors(options=True):
        Choices(**{name: each for name, each in table.values.items() if name != "seconds"})
    return dict(table.values)
