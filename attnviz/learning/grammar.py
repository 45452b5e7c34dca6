"""A grammar: words, patterns of sentences, and what is asked; many sentences at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, permutations, product
from math import perm, prod

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.learning.task import NO_TOKEN, Examples
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.vectors.random_numbers import draw_uniform

ListKey = tuple[str, str]  # a class of words and one of its kinds; or "", and a word that is given
WordTokens = tuple[str, ...]  # its tokens
SlotIds = Int[Tensor, "sentence slot"]

PREVIOUS_TOKEN = "previous"  # what a place can read that has no name
BLANK_WORD = "?"  # stands for a word whose form is asked for
HELD_OUT_COMBINATIONS = 5  # combinations of words is held out
MAX_LIST_WORDS = 100_000  # in a list
MAX_REDRAWS = 1000  # times that words are drawn again


@dataclass(frozen=True, kw_only=True)
class ReadingRule:
    """What a head may come to do: a place of this name reads the nearest of that before it."""

    of: str  # empty: every token
    reads: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Grammar:
    """Words, the ways to put them together, and what is asked where."""

    lists: Mapping[ListKey, tuple[WordTokens, ...]]
    ways: tuple[SentenceWay, ...]
    learned: tuple[float, ...]  # how often each of them comes where it is learned from,
    measured: tuple[float, ...]  # and where it is held out
    asks: str  # the places that are asked about
    answers: str  # the places whose words are answers; the same: then their forms are hidden
    readings: Mapping[str, ReadingRule]
    held_out: tuple[str, ...]  # whose words come together either there or in what is learned from

    @property
    def hides_forms(self) -> bool:
        """Whether the model does not see in which form a word stands that is asked about."""
        return self.asks == self.answers

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Every word; one that is asked about is one word in all its forms."""
        spelled = self._spelled_forms
        all_tokens = [token for words in self.lists.values() for word in words for token in word]
        return Vocabulary(
            tokenizer="words",
            words=tuple(dict.fromkeys(spelled.get(token, token) for token in all_tokens)),
            answers=tuple(dict.fromkeys(word[-1] for words in self.answer_lists for word in words)),
            predicts="here",
            spelled=spelled,
            asks=BLANK_WORD if self.hides_forms else "",
            asking=() if self.hides_forms else self._asking_words,
        )

    @cached_property
    def answer_lists(self) -> list[tuple[WordTokens, ...]]:
        """The lists of words that are answers."""
        answer_slots = (slot for way in self.ways for slot in way if slot.name == self.answers)
        return [
            self.lists[key]
            for key in dict.fromkeys((slot.words, slot.kind) for slot in answer_slots)
        ]

    @property
    def _asking_words(self) -> tuple[str, ...]:
        """The words that ask for an answer elsewhere in the sentence."""
        asking_slots = (slot for way in self.ways for slot in way if slot.name == self.asks)
        keys = dict.fromkeys((slot.words, slot.kind) for slot in asking_slots)
        return tuple(dict.fromkeys(word[-1] for key in keys for word in self.lists[key]))

    @property
    def _spelled_forms(self) -> dict[str, str]:
        """What the model reads in place of each form of a word whose form is asked for."""
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
        """The most tokens of a sentence."""
        return max(sum(self.tokens_of(slot) for slot in way) for way in self.ways)

    def tokens_of(self, filled: FilledSlot) -> int:
        """How many tokens every word has that can stand there."""
        return len(self.lists[filled.words, filled.kind][0])

    @cached_property
    def tables(self) -> GrammarTables:
        """The same as numbers, made once."""
        return build_tables(self)

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Sentences of a seed; what is held out has other combinations of words."""
        return self.tables.draw(seed, count, held_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class GrammarTables:
    """A grammar as tables of numbers, so that thousands of sentences are drawn at once.

    List 0 stands behind the end of a sentence; its one word has no meaning.
    """

    learned: Float64[Tensor, "way"]  # how much of all comes in this way, or one before it
    measured: Float64[Tensor, "way"]
    ids: Int[Tensor, "list word token"]
    answers: Int[Tensor, "list word"]
    sizes: Int[Tensor, "list"]
    lists: Int[Tensor, "way slot"]
    held_out: Bool[Tensor, "way slot"]  # whether it belongs to the combination
    slot: Int[Tensor, "way token"]
    part: Int[Tensor, "way token"]  # which token of its word
    answered: Int[Tensor, "way token"]  # the slot whose word is the answer, or NOTHING
    readings: Mapping[str, Int[Tensor, "way token"]]

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Sentences; each way as often as its share."""
        stream = "held out" if held_out else "learned"
        chance = draw_uniform([seed], f"{stream} ways", range(count), 1).flatten()
        shares = self.measured if held_out else self.learned
        return self.sentences(seed, stream, torch.searchsorted(shares, chance, right=True))

    def sentences(self, seed: int, stream: str, ways: Int[Tensor, "sentence"]) -> Examples:
        """A sentence of each of these ways."""
        words = self._draw_words(seed, stream, ways)
        lists, slot, answered = self.lists[ways], self.slot[ways], self.answered[ways]
        answered_slots = answered.clamp(min=0)
        answers = self.answers[lists.gather(1, answered_slots), words.gather(1, answered_slots)]
        return Examples(
            ids=self.ids[lists.gather(1, slot), words.gather(1, slot), self.part[ways]],
            answers=torch.where(answered == NO_TOKEN, NO_TOKEN, answers),
            readings={name: reading[ways] for name, reading in self.readings.items()},
        )

    def _draw_words(self, seed: int, stream: str, ways: Int[Tensor, "sentence"]) -> SlotIds:
        """The word of each slot; drawn again where one comes twice, or is not of this stream."""
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
        lists = self.lists[ways]
        held_out = (words * self.held_out[ways]).sum(1) % HELD_OUT_COMBINATIONS == 0
        # A word that always stands there may come as often as it likes.
        unique_keys = -1 - torch.arange(lists.shape[1])
        word_keys = torch.where(self.sizes[lists] > 1, lists * MAX_LIST_WORDS + words, unique_keys)
        ordered = word_keys.sort(1).values
        has_repeats = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return (held_out == (stream == "held out")) & ~has_repeats


class NoWordsError(Exception):
    """A way in which no words can be put together for one of the streams."""

    def __init__(self, way: int, stream: str) -> None:
        super().__init__(f"{way} {stream}")
        self.way, self.stream = way, stream


def build_tables(grammar: Grammar) -> GrammarTables:
    """The tables of a grammar."""
    numbers = {key: number for number, key in enumerate(grammar.lists, start=1)}
    rows = [_way_rows(grammar, way, numbers) for way in grammar.ways]
    slots = 1 + max(map(len, grammar.ways))

    def table(name: str, filler: int, width: int) -> Tensor:
        return torch.tensor([_pad_numbers(row[name], filler, width) for row in rows])

    return GrammarTables(
        learned=_cumulative_shares(grammar.learned),
        measured=_cumulative_shares(grammar.measured),
        **_list_tables(grammar),
        lists=table("lists", 0, slots),
        held_out=table("held out", 0, slots).bool(),
        slot=table("slot", slots - 1, grammar.longest),
        part=table("part", 0, grammar.longest),
        answered=table("answered", NO_TOKEN, grammar.longest),
        readings={
            name: table(f"reading {name}", NO_TOKEN, grammar.longest) for name in grammar.readings
        },
    )


def _list_tables(grammar: Grammar) -> dict[str, Tensor]:
    """The ids of the words of each list, and the answers that they are."""
    words, lists = grammar.vocabulary, list(grammar.lists.values())
    answers = {answer: number for number, answer in enumerate(words.answers)}
    max_words, longest = max(map(len, lists)), max(len(word) for each in lists for word in each)
    ids = torch.zeros(1 + len(lists), max_words, longest, dtype=torch.long)
    answering = torch.full((1 + len(lists), max_words), NO_TOKEN)
    for number, each in enumerate(lists, start=1):
        for word_number, word in enumerate(each):
            ids[number, word_number, : len(word)] = torch.tensor(
                [words.ids[token] for token in word]
            )
            answering[number, word_number] = answers.get(word[-1], NO_TOKEN)
    sizes = torch.tensor([1, *map(len, lists)])
    return {"ids": ids, "answers": answering, "sizes": sizes}


def _way_rows(
    grammar: Grammar, way: SentenceWay, numbers: Mapping[ListKey, int]
) -> dict[str, list[int]]:
    """A way as rows of numbers."""
    sizes = [grammar.tokens_of(filled_slot) for filled_slot in way]
    ends = [end - 1 for end in accumulate(sizes)]  # the last token of each slot
    combined_names = {*grammar.held_out} or {
        filled_slot.name for filled_slot in way if filled_slot.words
    }
    answered, nearest = [NO_TOKEN] * sum(sizes), NO_TOKEN
    for slot, filled_slot in enumerate(way):
        nearest = slot if filled_slot.name == grammar.answers else nearest
        if filled_slot.name == grammar.asks:
            answered[ends[slot]] = nearest
    return {
        "lists": [numbers[filled_slot.words, filled_slot.kind] for filled_slot in way],
        "held out": [int(filled_slot.name in combined_names) for filled_slot in way],
        "slot": [slot for slot, size in enumerate(sizes) for _ in range(size)],
        "part": [part for size in sizes for part in range(size)],
        "answered": answered,
        **{
            f"reading {n}": _read_positions(way, ends, filled_slot)
            for n, filled_slot in grammar.readings.items()
        },
    }


def _read_positions(way: SentenceWay, ends: Sequence[int], reads: ReadingRule) -> list[int]:
    """Which token each token reads."""
    tokens = ends[-1] + 1
    previous = list(range(NO_TOKEN, tokens - 1))
    if not reads.of:
        return previous
    targets, nearest = [NO_TOKEN] * tokens, NO_TOKEN
    for filled_slot, end in zip(way, ends, strict=True):
        if filled_slot.name == reads.of:
            targets[end] = previous[end] if reads.reads == PREVIOUS_TOKEN else nearest
        if filled_slot.name == reads.reads:
            nearest = end
    return targets


def _cumulative_shares(shares: Sequence[float]) -> Float64[Tensor, "way"]:
    cumulative = torch.tensor(shares, dtype=torch.float64).cumsum(0)
    return cumulative / cumulative[-1]


def _pad_numbers(numbers: Iterable[int], filler: int, width: int) -> list[int]:
    numbers = list(numbers)
    return numbers + [filler] * (width - len(numbers))


PATTERN_PARTS = re.compile(r"\{[^{}]*\}|[\[\]{}]|[^\s\[\]{}]+")
SLOT_PATTERN = re.compile(r"([\w-]+)(?: ([\w-]+))??(?: as ([\w-]+))?")
KIND_LETTER = re.compile(r"[a-z]")
MAX_WAYS = 20_000  # in which sentences may be put together
MAX_PATTERN_PARTS = 1000  # words, places and brackets of a pattern, once its phrases are put in
MAX_NESTED_PHRASES = 20  # phrases in phrases, and brackets in brackets

Kinds = Mapping[str, Sequence[str]]  # of each class of words; none where it is one plain list


@dataclass(frozen=True)
class Slot:
    """A place that is filled with a word of a class."""

    words: str
    kind: str  # a letter that stands for one, or a kind; empty where any will do
    name: str  # what readings call it


@dataclass(frozen=True)
class FilledSlot:
    """A place whose kind of word is settled; or a word that stands there always."""

    words: str  # a class; empty where the word is given
    kind: str  # of that class; or the word itself
    name: str = ""


PatternItem = str | Slot | tuple["PatternItem", ...]  # what is in a tuple may be missing
SentenceWay = tuple[FilledSlot, ...]


@dataclass(frozen=True)
class Pattern:
    """What a pattern says, read."""

    items: tuple[PatternItem, ...]
    size: int  # how many words, places and brackets it is written with

    @property
    def slots(self) -> Iterator[Slot]:
        """Every slot in it, also those that may be missing."""
        return _all_slots(self.items)


def _all_slots(items: tuple[PatternItem, ...]) -> Iterator[Slot]:
    for item in items:
        if isinstance(item, Slot):
            yield item
        elif isinstance(item, tuple):
            yield from _all_slots(item)


def parse_pattern(text: str, phrases: Mapping[str, str]) -> Pattern:
    """A pattern as it is written; `{phrase}` stands for a pattern of its own."""
    parts = list(islice(_pattern_parts(text, phrases, ()), MAX_PATTERN_PARTS + 1))
    if len(parts) > MAX_PATTERN_PARTS:
        raise AttnvizError(
            f"this sentence has more than {MAX_PATTERN_PARTS:,} words once its phrases are filled in",
            "make shorter sentences",
        )
    items, closed = _parse_items(iter(parts), 0)
    if closed:
        raise AttnvizError("there is a ] without a [", "write [ before what may be missing")
    return Pattern(items, len(parts))


def _pattern_parts(text: str, phrases: Mapping[str, str], within: tuple[str, ...]) -> Iterator[str]:
    """What a pattern is written with; in place of the name of a phrase what that is written with.

    One part after the other, so that nobody has to wait for the end of what is too long.
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
    """What stands before the next ], and whether there is one."""
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
    match = SLOT_PATTERN.fullmatch(part[1:-1].strip())
    if part in ("{", "}") or match is None:
        raise AttnvizError(
            f"'{part}' is not a place for a word", "write {noun}, {noun x} or {noun x as subject}"
        )
    words, kind, name = match.groups(default="")
    return Slot(words, kind, name or words)


def refuse_unknown_words(pattern: Pattern, kinds: Kinds) -> None:
    """Refuse a place for words, or for a kind of them, that there are none of."""
    slots = list(pattern.slots)
    for slot in slots:
        if slot.words not in kinds:
            raise unknown_name_error("list of words", slot.words, kinds)
        if slot.kind and not kinds[slot.words]:
            raise AttnvizError(
                f"'{slot.words}' is a single list, but '{slot.kind}' stands for a kind",
                f"write {{{slot.words}}}, or give its kinds a list each",
            )
        if slot.kind and not is_kind_letter(slot.kind) and slot.kind not in kinds[slot.words]:
            raise unknown_name_error(f"kind of '{slot.words}'", slot.kind, kinds[slot.words])
    _refuse_kind_letters([slot for slot in slots if is_kind_letter(slot.kind)], kinds)


def _refuse_kind_letters(slots: Sequence[Slot], kinds: Kinds) -> None:
    """What letters stand for must be the same everywhere, and there must be enough of it."""
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
    """Whether it stands for a kind."""
    return KIND_LETTER.fullmatch(kind) is not None


def max_way_count(pattern: Pattern, kinds: Kinds) -> int:
    """How many things a pattern can become, at most."""
    slots = list(pattern.slots)
    letters = {slot.kind for slot in slots if is_kind_letter(slot.kind)}
    common = next((len(kinds[slot.words]) for slot in slots if slot.kind in letters), 0)
    free = prod(len(kinds[slot.words]) or 1 for slot in slots if not slot.kind)
    return _max_expansions(pattern.items) * perm(common, len(letters)) * free


def _max_expansions(items: tuple[PatternItem, ...]) -> int:
    return prod(1 + _max_expansions(item) for item in items if isinstance(item, tuple))


def expand_pattern(pattern: Pattern, kinds: Kinds) -> Iterator[tuple[float, SentenceWay]]:
    """Everything that a pattern can become, and how large a share of it each is."""
    expanded = list(_expand_optional(pattern.items))
    for items in expanded:
        item_ways = list(_choose_kinds(items, kinds))
        for way in item_ways:
            yield 1 / len(expanded) / len(item_ways), way


def _expand_optional(items: tuple[PatternItem, ...]) -> Iterator[tuple[str | Slot, ...]]:
    """With and without each part that may be missing."""
    choices = [
        [(), *_expand_optional(item)] if isinstance(item, tuple) else [(item,)] for item in items
    ]
    for choice in product(*choices):
        yield tuple(item_part for part in choice for item_part in part)


def _choose_kinds(items: tuple[str | Slot, ...], kinds: Kinds) -> Iterator[SentenceWay]:
    """With each choice of kinds: those of different letters differ, those of none are free."""
    slots = [item for item in items if isinstance(item, Slot)]
    letters = sorted({slot.kind for slot in slots if is_kind_letter(slot.kind)})
    common = next((kinds[slot.words] for slot in slots if slot.kind in letters), ())
    free = [kinds[slot.words] for slot in slots if not slot.kind and kinds[slot.words]]
    for chosen_kinds, free_kinds in product(permutations(common, len(letters)), product(*free)):
        yield _fill_slots(
            items, kinds, dict(zip(letters, chosen_kinds, strict=True)), iter(free_kinds)
        )


def _fill_slots(
    items: tuple[str | Slot, ...], kinds: Kinds, letters: Mapping[str, str], free: Iterator[str]
) -> SentenceWay:
    way = []
    for item in items:
        if isinstance(item, str):
            way.append(FilledSlot("", item))
        elif not item.kind:
            way.append(FilledSlot(item.words, next(free) if kinds[item.words] else "", item.name))
        else:
            way.append(FilledSlot(item.words, letters.get(item.kind, item.kind), item.name))
    return tuple(way)
