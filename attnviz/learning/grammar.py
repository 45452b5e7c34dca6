"""Grammars: words, sentence patterns and wanted answers, from which sentences are drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, permutations, product
from math import perm, prod

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from attnviz.errors import AttnvizError, refuse_unknown_name, unknown_name_error
from attnviz.learning.task import NO_TOKEN, Examples
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.vectors.random_numbers import draw_uniform

ListKey = tuple[str, str]  # a class of words and a kind; or "" and a fixed word
WordTokens = tuple[str, ...]
SlotIds = Int[Tensor, "sentence slot"]
Kinds = Mapping[str, Sequence[str]]  # the kinds of each class; none if it is one plain list

PREVIOUS_TOKEN = "previous"  # in a reading rule: the token before
BLANK_WORD = "?"  # typed in place of a word whose form is asked for
HELD_OUT_COMBINATIONS = 5  # one in so many combinations of words is held out
MAX_LIST_WORDS = 100_000
MAX_REDRAWS = 1000
PATTERN_PARTS = re.compile(r"\{[^{}]*\}|[\[\]{}]|[^\s\[\]{}]+")
SLOT_PATTERN = re.compile(r"([\w-]+)(?: ([\w-]+))??(?: as ([\w-]+))?")
KIND_LETTER = re.compile(r"[a-z]")
MAX_WAYS = 20_000  # to fill in one sentence pattern
MAX_PATTERN_PARTS = 1000  # words, slots and brackets of a pattern after its phrases are filled in
MAX_NESTED_PHRASES = 20  # and brackets in brackets


@dataclass(frozen=True, kw_only=True)
class ReadingRule:
    """The rule of what a head may learn: each slot `of` attends to the nearest slot `reads` before
    it."""

    of: str  # empty: every token
    reads: str  # or PREVIOUS_TOKEN


@dataclass(frozen=True, eq=False, kw_only=True)
class Grammar:
    """Lists of words, the sentence patterns filled in with them, and at which slots answers are
    wanted."""

    lists: Mapping[ListKey, tuple[WordTokens, ...]]
    ways: tuple[SentenceWay, ...]
    training_shares: tuple[float, ...]  # the share of each filled-in pattern in training
    held_out_shares: tuple[float, ...]  # and in held-out sentences
    asks: str  # the name of the slots at which an answer is asked for
    answers: str  # the name of the slots whose words are answers
    readings: Mapping[str, ReadingRule]
    held_out: tuple[str, ...]  # slots whose combinations of words are either trained on or held out

    @property
    def hides_forms(self) -> bool:
        """Whether the answer wanted is the form of the word itself, which the model must not
        see."""
        return self.asks == self.answers

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """All words and answers; the forms of a word whose form is the answer count as one word."""
        spelled = self._spelled_forms
        all_tokens = [token for words in self.lists.values() for word in words for token in word]
        asking_words = (word[-1] for words in self._lists_of_slots(self.asks) for word in words)
        return Vocabulary(
            tokenizer="words",
            words=tuple(dict.fromkeys(spelled.get(token, token) for token in all_tokens)),
            answers=tuple(dict.fromkeys(word[-1] for words in self.answer_lists for word in words)),
            predicts="here",
            spelled=spelled,
            asks=BLANK_WORD if self.hides_forms else "",
            asking=() if self.hides_forms else tuple(dict.fromkeys(asking_words)),
        )

    @cached_property
    def answer_lists(self) -> list[tuple[WordTokens, ...]]:
        return self._lists_of_slots(self.answers)

    def _lists_of_slots(self, name: str) -> list[tuple[WordTokens, ...]]:
        slots = (slot for way in self.ways for slot in way if slot.name == name)
        return [self.lists[key] for key in dict.fromkeys((slot.words, slot.kind) for slot in slots)]

    @property
    def _spelled_forms(self) -> dict[str, str]:
        """For each form of a word whose form is the answer, the first form, which the model gets
        instead. The blank "?" is one of the forms; empty if the answers are other words."""
        if not self.hides_forms:
            return {}
        first, *others = self.answer_lists
        forms = {
            form[-1]: word[-1]
            for word, *forms in zip(first, *others, strict=True)
            for form in forms
            if form != word
        }
        return {BLANK_WORD: first[0][-1], **forms}

    @cached_property
    def longest(self) -> int:
        return max(sum(self.tokens_of(slot) for slot in way) for way in self.ways)

    def tokens_of(self, filled: FilledSlot) -> int:
        return len(self.lists[filled.words, filled.kind][0])

    @cached_property
    def tables(self) -> GrammarTables:
        return build_tables(self)

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Draw `count` sentences with a seed; held-out ones have other combinations of words."""
        return self.tables.draw(seed, count, held_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class GrammarTables:
    """A grammar as tables of numbers, so that thousands of sentences are drawn at once.

    List 0 is padding after the end of a sentence; its only word has no meaning.
    """

    training_shares: Float64[Tensor, "way"]  # cumulative shares
    held_out_shares: Float64[Tensor, "way"]
    ids: Int[Tensor, "list word token"]
    answers: Int[Tensor, "list word"]
    sizes: Int[Tensor, "list"]
    lists: Int[Tensor, "way slot"]
    held_out: Bool[Tensor, "way slot"]  # whether it belongs to the held-out combination
    slot: Int[Tensor, "way token"]
    part: Int[Tensor, "way token"]  # which token of its word
    answer_slots: Int[Tensor, "way token"]  # the slot whose word is the answer, or NO_TOKEN
    readings: Mapping[str, Int[Tensor, "way token"]]

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Draw `count` sentences, each filled-in pattern as often as its share."""
        stream = "held out" if held_out else "learned"
        chance = draw_uniform([seed], f"{stream} ways", range(count), 1).flatten()
        shares = self.held_out_shares if held_out else self.training_shares
        return self.sentences(seed, stream, torch.searchsorted(shares, chance, right=True))

    def sentences(self, seed: int, stream: str, ways: Int[Tensor, "sentence"]) -> Examples:
        """Draw words for each of these filled-in patterns (`ways`).

        `stream` is "learned" or "held out". Raises NoWordsError if no combination fits.
        """
        words = self._draw_words(seed, stream, ways)
        lists, slot, answered = self.lists[ways], self.slot[ways], self.answer_slots[ways]
        answered_slots = answered.clamp(min=0)
        answers = self.answers[lists.gather(1, answered_slots), words.gather(1, answered_slots)]
        return Examples(
            ids=self.ids[lists.gather(1, slot), words.gather(1, slot), self.part[ways]],
            answers=torch.where(answered == NO_TOKEN, NO_TOKEN, answers),
            readings={name: reading[ways] for name, reading in self.readings.items()},
        )

    def _draw_words(self, seed: int, stream: str, ways: Int[Tensor, "sentence"]) -> SlotIds:
        """Draw a word for each slot until no word repeats in a sentence and the combination fits
        the stream. Raises NoWordsError after MAX_REDRAWS attempts."""
        sizes = self.sizes[self.lists[ways]]
        words = torch.zeros_like(sizes)
        rows = torch.arange(len(ways))
        for attempt in range(MAX_REDRAWS):
            numbers = draw_uniform([seed], f"{stream} {attempt}", rows.tolist(), sizes.shape[1])[0]
            words[rows] = (numbers * sizes[rows]).long()
            rows = rows[~self._are_fitting(ways[rows], words[rows], stream)]
            if not len(rows):
                return words
        raise NoWordsError(int(ways[rows[0]]), stream)

    def _are_fitting(
        self, ways: Int[Tensor, "sentence"], words: SlotIds, stream: str
    ) -> Bool[Tensor, "sentence"]:
        """Return for each sentence whether no word of its lists repeats, and its combination of
        words belongs to the stream ("learned" or "held out")."""
        lists = self.lists[ways]
        held_out = (words * self.held_out[ways]).sum(1) % HELD_OUT_COMBINATIONS == 0
        # Fixed words may repeat.
        unique_keys = -1 - torch.arange(lists.shape[1])
        word_keys = torch.where(self.sizes[lists] > 1, lists * MAX_LIST_WORDS + words, unique_keys)
        ordered = word_keys.sort(1).values
        has_repeats = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return (held_out == (stream == "held out")) & ~has_repeats


class NoWordsError(Exception):
    """The error that no combination of words fits a filled-in pattern in one of the streams."""

    def __init__(self, way: int, stream: str) -> None:
        super().__init__(f"{way} {stream}")
        self.way, self.stream = way, stream


def build_tables(grammar: Grammar) -> GrammarTables:
    numbers = {key: number for number, key in enumerate(grammar.lists, start=1)}
    rows = [_way_rows(grammar, way, numbers) for way in grammar.ways]
    slots = 1 + max(map(len, grammar.ways))

    def table(name: str, filler: int, width: int) -> Tensor:
        padded = [row[name] + [filler] * (width - len(row[name])) for row in rows]
        return torch.tensor(padded)

    return GrammarTables(
        training_shares=_cumulative_shares(grammar.training_shares),
        held_out_shares=_cumulative_shares(grammar.held_out_shares),
        **_list_tables(grammar),
        lists=table("lists", 0, slots),
        held_out=table("held out", 0, slots).bool(),
        slot=table("slot", slots - 1, grammar.longest),
        part=table("part", 0, grammar.longest),
        answer_slots=table("answered", NO_TOKEN, grammar.longest),
        readings={
            name: table(f"reading {name}", NO_TOKEN, grammar.longest) for name in grammar.readings
        },
    )


def _list_tables(grammar: Grammar) -> dict[str, Tensor]:
    """Return the token ids of each word in each list, its number as an answer, and the sizes of the
    lists."""
    vocabulary, lists = grammar.vocabulary, list(grammar.lists.values())
    answers = {answer: number for number, answer in enumerate(vocabulary.answers)}
    most, longest = max(map(len, lists)), max(len(word) for words in lists for word in words)
    ids = torch.zeros(1 + len(lists), most, longest, dtype=torch.long)
    answering = torch.full((1 + len(lists), most), NO_TOKEN)
    for row, words in enumerate(lists, start=1):
        for column, word in enumerate(words):
            ids[row, column, : len(word)] = torch.tensor([vocabulary.ids[token] for token in word])
            answering[row, column] = answers.get(word[-1], NO_TOKEN)
    sizes = torch.tensor([1, *map(len, lists)])
    return {"ids": ids, "answers": answering, "sizes": sizes}


def _way_rows(
    grammar: Grammar, way: SentenceWay, numbers: Mapping[ListKey, int]
) -> dict[str, list[int]]:
    """Return the rows of one filled-in pattern in the tables, by the table's name.

    `numbers` has the number of each list of words.
    """
    sizes = [grammar.tokens_of(slot) for slot in way]
    ends = [end - 1 for end in accumulate(sizes)]  # the last token of each slot
    combined = {*grammar.held_out} or {slot.name for slot in way if slot.words}
    answered, nearest = [NO_TOKEN] * sum(sizes), NO_TOKEN
    for number, slot in enumerate(way):
        nearest = number if slot.name == grammar.answers else nearest
        if slot.name == grammar.asks:
            answered[ends[number]] = nearest
    readings = {name: _read_positions(way, ends, rule) for name, rule in grammar.readings.items()}
    return {
        "lists": [numbers[slot.words, slot.kind] for slot in way],
        "held out": [int(slot.name in combined) for slot in way],
        "slot": [number for number, size in enumerate(sizes) for _ in range(size)],
        "part": [part for size in sizes for part in range(size)],
        "answered": answered,
        **{f"reading {name}": targets for name, targets in readings.items()},
    }


def _read_positions(way: SentenceWay, ends: Sequence[int], rule: ReadingRule) -> list[int]:
    """Return the position that each token of a filled-in pattern attends to by a rule, or NO_TOKEN.

    `ends` has the position of each slot's last token, which attends and is attended to.
    """
    tokens = ends[-1] + 1
    previous = list(range(NO_TOKEN, tokens - 1))
    if not rule.of:
        return previous
    targets, nearest = [NO_TOKEN] * tokens, NO_TOKEN
    for slot, end in zip(way, ends, strict=True):
        if slot.name == rule.of:
            targets[end] = previous[end] if rule.reads == PREVIOUS_TOKEN else nearest
        if slot.name == rule.reads:
            nearest = end
    return targets


def _cumulative_shares(shares: Sequence[float]) -> Float64[Tensor, "way"]:
    cumulative = torch.tensor(shares, dtype=torch.float64).cumsum(0)
    return cumulative / cumulative[-1]


@dataclass(frozen=True)
class Slot:
    """A slot of a pattern for a word of a class, such as `{noun x as subject}`."""

    words: str  # the class
    kind: str  # a kind, a letter that stands for one, or empty for any
    name: str  # in readings


@dataclass(frozen=True)
class FilledSlot:
    """A slot with its kind of word chosen, or a fixed word."""

    words: str  # the class; empty for a fixed word
    kind: str  # of that class, or the fixed word
    name: str = ""


PatternItem = str | Slot | tuple["PatternItem", ...]  # a tuple is optional
SentenceWay = tuple[FilledSlot, ...]


@dataclass(frozen=True)
class Pattern:
    """A parsed sentence pattern, with its phrases filled in."""

    items: tuple[PatternItem, ...]
    size: int  # the number of its words, slots and brackets

    @property
    def slots(self) -> Iterator[Slot]:
        return _all_slots(self.items)


def _all_slots(items: tuple[PatternItem, ...]) -> Iterator[Slot]:
    """Yield all slots of these items, including those in optional parts."""
    for item in items:
        if isinstance(item, Slot):
            yield item
        elif isinstance(item, tuple):
            yield from _all_slots(item)


def parse_pattern(text: str, phrases: Mapping[str, str]) -> Pattern:
    """Parse the text of a pattern, with each `{phrase}` replaced by the pattern it names.

    Refuses unbalanced brackets, phrases that contain themselves, and patterns that are too long or
    too deep.
    """
    parts = list(islice(_pattern_parts(text, phrases, ()), MAX_PATTERN_PARTS + 1))
    if len(parts) > MAX_PATTERN_PARTS:
        raise AttnvizError(
            f"this sentence has more than {MAX_PATTERN_PARTS:,} words once its phrases are "
            "filled in",
            "make shorter sentences",
        )
    items, closed = _parse_items(iter(parts), 0)
    if closed:
        raise AttnvizError("there is a ] without a [", "write [ before what may be missing")
    return Pattern(items, len(parts))


def _pattern_parts(text: str, phrases: Mapping[str, str], within: tuple[str, ...]) -> Iterator[str]:
    """Yield the words, slots and brackets of a pattern with its phrases filled in.

    It is a generator, so that the caller can stop when a pattern becomes too long. `within` has the
    names of the phrases that surround the text.
    """
    for part in PATTERN_PARTS.findall(text):
        name = part[1:-1] if part.endswith("}") else ""
        if name not in phrases:
            yield part
            continue
        if name in within:
            raise AttnvizError("a phrase contains itself", "use words, or other phrases")
        if len(within) == MAX_NESTED_PHRASES:
            raise AttnvizError(
                f"phrases are nested more than {MAX_NESTED_PHRASES} deep",
                "write some of them out in words",
            )
        yield from _pattern_parts(phrases[name], phrases, (*within, name))


def _parse_items(parts: Iterator[str], depth: int) -> tuple[tuple[PatternItem, ...], bool]:
    """Return the pattern items up to the next ], nested ones as tuples, and whether there was a ].

    Refuses a [ without a ], too deep nesting, and slots that cannot be parsed.
    """
    items: list[PatternItem] = []
    for part in parts:
        if part == "]":
            return tuple(items), True
        if part == "[":
            if depth == MAX_NESTED_PHRASES:
                raise AttnvizError(
                    f"[ ] are nested more than {MAX_NESTED_PHRASES} deep", "leave some of them out"
                )
            inner, closed = _parse_items(parts, depth + 1)
            if not closed:
                raise AttnvizError("there is a [ without a ]", "write ] after what may be missing")
            items.append(inner)
        elif part[0] in "{}":
            items.append(_parse_slot(part))
        else:
            items.extend(tokenize(part, "words").labels)
    return tuple(items), False


def _parse_slot(part: str) -> Slot:
    """Return the slot of a text such as `{noun x as subject}`, which is named after its class by
    default."""
    match = SLOT_PATTERN.fullmatch(part[1:-1].strip())
    if part in ("{", "}") or match is None:
        raise AttnvizError(
            f"'{part}' is not a place for a word", "write {noun}, {noun x} or {noun x as subject}"
        )
    words, kind, name = match.groups(default="")
    return Slot(words, kind, name or words)


def refuse_unknown_words(pattern: Pattern, kinds: Kinds) -> None:
    """Refuse slots for unknown classes or kinds of words, and letters that cannot stand for
    kinds."""
    slots = list(pattern.slots)
    for slot in slots:
        refuse_unknown_name("list of words", slot.words, kinds, from_file=True)
        if slot.kind and not kinds[slot.words]:
            raise AttnvizError(
                f"'{slot.words}' is a single list, but '{slot.kind}' stands for a kind",
                f"write {{{slot.words}}}, or give its kinds a list each",
            )
        if slot.kind and not is_kind_letter(slot.kind) and slot.kind not in kinds[slot.words]:
            raise unknown_name_error(
                f"kind of '{slot.words}'", slot.kind, kinds[slot.words], from_file=True
            )
    _refuse_kind_letters([slot for slot in slots if is_kind_letter(slot.kind)], kinds)


def _refuse_kind_letters(slots: Sequence[Slot], kinds: Kinds) -> None:
    """Refuse letters for classes with different kinds, and more letters than there are kinds."""
    for slot in slots:
        one, other = kinds[slots[0].words], kinds[slot.words]
        if set(one) != set(other):
            raise AttnvizError(
                f"a letter stands for a kind of '{slots[0].words}' ({', '.join(one)}) and of "
                f"'{slot.words}' ({', '.join(other)})",
                "give both lists the same kinds",
            )
    letters = {slot.kind for slot in slots}
    if slots and len(letters) > len(kinds[slots[0].words]):
        raise AttnvizError(
            f"{len(letters)} letters stand for different kinds, but there are only "
            f"{len(kinds[slots[0].words])}",
            "write the same letter where it may be the same kind",
        )


def is_kind_letter(kind: str) -> bool:
    """Return whether a slot's kind is a single letter from a to z, which stands for any kind."""
    return KIND_LETTER.fullmatch(kind) is not None


def max_way_count(pattern: Pattern, kinds: Kinds) -> int:
    """Return an upper bound for the number of sentences of slots that a pattern expands to."""
    slots = list(pattern.slots)
    letters = {slot.kind for slot in slots if is_kind_letter(slot.kind)}
    common = next((len(kinds[slot.words]) for slot in slots if slot.kind in letters), 0)
    free = prod(len(kinds[slot.words]) or 1 for slot in slots if not slot.kind)
    return _max_expansions(pattern.items) * perm(common, len(letters)) * free


def _max_expansions(items: tuple[PatternItem, ...]) -> int:
    """Return the largest possible number of choices of optional parts."""
    return prod(1 + _max_expansions(item) for item in items if isinstance(item, tuple))


def expand_pattern(pattern: Pattern, kinds: Kinds) -> Iterator[tuple[float, SentenceWay]]:
    """Yield all choices of optional parts and kinds of words of a pattern, each with its share.

    Every choice of optional parts has the same share, which its choices of kinds divide equally.
    """
    expanded = list(_expand_optional(pattern.items))
    for items in expanded:
        ways = list(_choose_kinds(items, kinds))
        yield from ((1 / len(expanded) / len(ways), way) for way in ways)


def _expand_optional(items: tuple[PatternItem, ...]) -> Iterator[tuple[str | Slot, ...]]:
    """Yield the items with and without each optional part, in all combinations."""
    choices = [
        [(), *_expand_optional(item)] if isinstance(item, tuple) else [(item,)] for item in items
    ]
    for choice in product(*choices):
        yield tuple(item_part for part in choice for item_part in part)


def _choose_kinds(items: tuple[str | Slot, ...], kinds: Kinds) -> Iterator[SentenceWay]:
    """Yield the items with each choice of kinds of words; different letters stand for different
    kinds."""
    slots = [item for item in items if isinstance(item, Slot)]
    letters = sorted({slot.kind for slot in slots if is_kind_letter(slot.kind)})
    common = next((kinds[slot.words] for slot in slots if slot.kind in letters), ())
    free = [kinds[slot.words] for slot in slots if not slot.kind and kinds[slot.words]]
    for chosen_kinds, free_kinds in product(permutations(common, len(letters)), product(*free)):
        kind_by_letter = dict(zip(letters, chosen_kinds, strict=True))
        yield _fill_slots(items, kinds, kind_by_letter, iter(free_kinds))


def _fill_slots(
    items: tuple[str | Slot, ...], kinds: Kinds, letters: Mapping[str, str], free: Iterator[str]
) -> SentenceWay:
    """Return the items with kinds chosen: `letters` has the kind of each letter, and `free` yields
    the kinds of the slots that leave it open."""
    way = []
    for item in items:
        if isinstance(item, str):
            way.append(FilledSlot("", item))
        elif not item.kind:
            way.append(FilledSlot(item.words, next(free) if kinds[item.words] else "", item.name))
        else:
            way.append(FilledSlot(item.words, letters.get(item.kind, item.kind), item.name))
    return tuple(way)
