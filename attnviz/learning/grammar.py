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

from attnviz.errors import AttnvizError, unknown
from attnviz.learning.task import NOTHING, Examples
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.vectors.drawn import uniform

List = tuple[str, str]  # a class of words and one of its kinds; or "", and a word that is given
Word = tuple[str, ...]  # its tokens
Ids = Int[Tensor, "sentence slot"]

PREVIOUS = "previous"  # what a place can read that has no name
ASKS = "?"  # stands for a word whose form is asked for
ONE_OF = 5  # combinations of words is held out
MOST_WORDS = 100_000  # in a list
PATIENCE = 1000  # times that words are drawn again


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What a head may come to do: a place of this name reads the nearest of that before it."""

    of: str  # empty: every token
    reads: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Grammar:
    """Words, the ways to put them together, and what is asked where."""

    lists: Mapping[List, tuple[Word, ...]]
    ways: tuple[Way, ...]
    learned: tuple[float, ...]  # how often each of them comes where it is learned from,
    measured: tuple[float, ...]  # and where it is held out
    asks: str  # the places that are asked about
    answers: str  # the places whose words are answers; the same: then their forms are hidden
    readings: Mapping[str, Reads]
    held_out: tuple[str, ...]  # whose words come together either there or in what is learned from

    @property
    def hides(self) -> bool:
        """Whether the model does not see in which form a word stands that is asked about."""
        return self.asks == self.answers

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Every word; one that is asked about is one word in all its forms."""
        spelled = self._spelled
        every = [token for words in self.lists.values() for word in words for token in word]
        return Vocabulary(
            tokenizer="words",
            words=tuple(dict.fromkeys(spelled.get(token, token) for token in every)),
            answers=tuple(dict.fromkeys(word[-1] for words in self.answering for word in words)),
            predicts="here",
            spelled=spelled,
            asks=ASKS if self.hides else "",
            asking=() if self.hides else self._asking,
        )

    @cached_property
    def answering(self) -> list[tuple[Word, ...]]:
        """The lists of words that are answers."""
        filled = (each for way in self.ways for each in way if each.name == self.answers)
        return [
            self.lists[key] for key in dict.fromkeys((each.words, each.kind) for each in filled)
        ]

    @property
    def _asking(self) -> tuple[str, ...]:
        """The words that ask for an answer elsewhere in the sentence."""
        filled = (each for way in self.ways for each in way if each.name == self.asks)
        keys = dict.fromkeys((each.words, each.kind) for each in filled)
        return tuple(dict.fromkeys(word[-1] for key in keys for word in self.lists[key]))

    @property
    def _spelled(self) -> dict[str, str]:
        """What the model reads in place of each form of a word whose form is asked for."""
        if not self.hides:
            return {}
        first, *others = self.answering
        forms = {
            form[-1]: word[-1]
            for word, *forms in zip(first, *others, strict=True)
            for form in forms
            if form != word
        }
        return {ASKS: first[0][-1], **forms}

    @cached_property
    def longest(self) -> int:
        """The most tokens of a sentence."""
        return max(sum(self.tokens_of(each) for each in way) for way in self.ways)

    def tokens_of(self, filled: Filled) -> int:
        """How many tokens every word has that can stand there."""
        return len(self.lists[filled.words, filled.kind][0])

    @cached_property
    def tables(self) -> Tables:
        """The same as numbers, made once."""
        return tables_of(self)

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Sentences of a seed; what is held out has other combinations of words."""
        return self.tables.draw(seed, count, held_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tables:
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
        chance = uniform([seed], f"{stream} ways", range(count), 1).flatten()
        shares = self.measured if held_out else self.learned
        return self.sentences(seed, stream, torch.searchsorted(shares, chance, right=True))

    def sentences(self, seed: int, stream: str, ways: Int[Tensor, "sentence"]) -> Examples:
        """A sentence of each of these ways."""
        words = self._words(seed, stream, ways)
        lists, slot, answered = self.lists[ways], self.slot[ways], self.answered[ways]
        known = answered.clamp(min=0)
        answers = self.answers[lists.gather(1, known), words.gather(1, known)]
        return Examples(
            ids=self.ids[lists.gather(1, slot), words.gather(1, slot), self.part[ways]],
            answers=torch.where(answered == NOTHING, NOTHING, answers),
            readings={name: each[ways] for name, each in self.readings.items()},
        )

    def _words(self, seed: int, stream: str, ways: Int[Tensor, "sentence"]) -> Ids:
        """The word of each slot; drawn again where one comes twice, or is not of this stream."""
        sizes = self.sizes[self.lists[ways]]
        words = torch.zeros_like(sizes)
        rows = torch.arange(len(ways))
        for attempt in range(PATIENCE):
            numbers = uniform([seed], f"{stream} {attempt}", rows.tolist(), sizes.shape[1])[0]
            words[rows] = (numbers * sizes[rows]).long()
            rows = rows[~self._fit(ways[rows], words[rows], stream)]
            if not len(rows):
                return words
        raise NoWordsError(int(ways[rows[0]]), stream)

    def _fit(
        self, ways: Int[Tensor, "sentence"], words: Ids, stream: str
    ) -> Bool[Tensor, "sentence"]:
        lists = self.lists[ways]
        held_out = (words * self.held_out[ways]).sum(1) % ONE_OF == 0
        # A word that always stands there may come as often as it likes.
        others = -1 - torch.arange(lists.shape[1])
        alike = torch.where(self.sizes[lists] > 1, lists * MOST_WORDS + words, others)
        ordered = alike.sort(1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return (held_out == (stream == "held out")) & ~twice


class NoWordsError(Exception):
    """A way in which no words can be put together for one of the streams."""

    def __init__(self, way: int, stream: str) -> None:
        super().__init__(f"{way} {stream}")
        self.way, self.stream = way, stream


def tables_of(grammar: Grammar) -> Tables:
    """The tables of a grammar."""
    numbers = {key: number for number, key in enumerate(grammar.lists, start=1)}
    rows = [_row(grammar, way, numbers) for way in grammar.ways]
    slots = 1 + max(map(len, grammar.ways))

    def table(name: str, filler: int, width: int) -> Tensor:
        return torch.tensor([_filled_up(row[name], filler, width) for row in rows])

    return Tables(
        learned=_added_up(grammar.learned),
        measured=_added_up(grammar.measured),
        **_of_lists(grammar),
        lists=table("lists", 0, slots),
        held_out=table("held out", 0, slots).bool(),
        slot=table("slot", slots - 1, grammar.longest),
        part=table("part", 0, grammar.longest),
        answered=table("answered", NOTHING, grammar.longest),
        readings={
            name: table(f"reading {name}", NOTHING, grammar.longest) for name in grammar.readings
        },
    )


def _of_lists(grammar: Grammar) -> dict[str, Tensor]:
    """The ids of the words of each list, and the answers that they are."""
    words, lists = grammar.vocabulary, list(grammar.lists.values())
    answers = {answer: number for number, answer in enumerate(words.answers)}
    most, longest = max(map(len, lists)), max(len(word) for each in lists for word in each)
    ids = torch.zeros(1 + len(lists), most, longest, dtype=torch.long)
    answering = torch.full((1 + len(lists), most), NOTHING)
    for number, each in enumerate(lists, start=1):
        for place, word in enumerate(each):
            ids[number, place, : len(word)] = torch.tensor([words.ids[token] for token in word])
            answering[number, place] = answers.get(word[-1], NOTHING)
    sizes = torch.tensor([1, *map(len, lists)])
    return {"ids": ids, "answers": answering, "sizes": sizes}


def _row(grammar: Grammar, way: Way, numbers: Mapping[List, int]) -> dict[str, list[int]]:
    """A way as rows of numbers."""
    sizes = [grammar.tokens_of(each) for each in way]
    ends = [end - 1 for end in accumulate(sizes)]  # the last token of each slot
    together = {*grammar.held_out} or {each.name for each in way if each.words}
    answered, nearest = [NOTHING] * sum(sizes), NOTHING
    for slot, each in enumerate(way):
        nearest = slot if each.name == grammar.answers else nearest
        if each.name == grammar.asks:
            answered[ends[slot]] = nearest
    return {
        "lists": [numbers[each.words, each.kind] for each in way],
        "held out": [int(each.name in together) for each in way],
        "slot": [slot for slot, size in enumerate(sizes) for _ in range(size)],
        "part": [part for size in sizes for part in range(size)],
        "answered": answered,
        **{f"reading {n}": _read(way, ends, each) for n, each in grammar.readings.items()},
    }


def _read(way: Way, ends: Sequence[int], reads: Reads) -> list[int]:
    """Which token each token reads."""
    tokens = ends[-1] + 1
    previous = list(range(NOTHING, tokens - 1))
    if not reads.of:
        return previous
    found, nearest = [NOTHING] * tokens, NOTHING
    for each, end in zip(way, ends, strict=True):
        if each.name == reads.of:
            found[end] = previous[end] if reads.reads == PREVIOUS else nearest
        if each.name == reads.reads:
            nearest = end
    return found


def _added_up(shares: Sequence[float]) -> Float64[Tensor, "way"]:
    added = torch.tensor(shares, dtype=torch.float64).cumsum(0)
    return added / added[-1]


def _filled_up(numbers: Iterable[int], filler: int, width: int) -> list[int]:
    numbers = list(numbers)
    return numbers + [filler] * (width - len(numbers))


PARTS = re.compile(r"\{[^{}]*\}|[\[\]{}]|[^\s\[\]{}]+")
SLOT = re.compile(r"([\w-]+)(?: ([\w-]+))??(?: as ([\w-]+))?")
LETTER = re.compile(r"[a-z]")
MOST_WAYS = 20_000  # in which sentences may be put together
MOST_PARTS = 1000  # words, places and brackets of a pattern, once its phrases are put in
DEEPEST = 20  # phrases in phrases, and brackets in brackets

Kinds = Mapping[str, Sequence[str]]  # of each class of words; none where it is one plain list


@dataclass(frozen=True)
class Slot:
    """A place that is filled with a word of a class."""

    words: str
    kind: str  # a letter that stands for one, or a kind; empty where any will do
    name: str  # what readings call it


@dataclass(frozen=True)
class Filled:
    """A place whose kind of word is settled; or a word that stands there always."""

    words: str  # a class; empty where the word is given
    kind: str  # of that class; or the word itself
    name: str = ""


Item = str | Slot | tuple["Item", ...]  # what is in a tuple may be missing
Way = tuple[Filled, ...]


@dataclass(frozen=True)
class Pattern:
    """What a pattern says, read."""

    items: tuple[Item, ...]
    size: int  # how many words, places and brackets it is written with

    @property
    def slots(self) -> Iterator[Slot]:
        """Every slot in it, also those that may be missing."""
        return _slots(self.items)


def _slots(items: tuple[Item, ...]) -> Iterator[Slot]:
    for item in items:
        if isinstance(item, Slot):
            yield item
        elif isinstance(item, tuple):
            yield from _slots(item)


def pattern_of(text: str, phrases: Mapping[str, str]) -> Pattern:
    """A pattern as it is written; `{phrase}` stands for a pattern of its own."""
    parts = list(islice(_parts(text, phrases, ()), MOST_PARTS + 1))
    if len(parts) > MOST_PARTS:
        raise AttnvizError(
            f"this sentence has more than {MOST_PARTS:,} words once its phrases are filled in",
            "make shorter sentences",
        )
    items, closed = _items(iter(parts), 0)
    if closed:
        raise AttnvizError("there is a ] without a [", "write [ before what may be missing")
    return Pattern(items, len(parts))


def _parts(text: str, phrases: Mapping[str, str], within: tuple[str, ...]) -> Iterator[str]:
    """What a pattern is written with; in place of the name of a phrase what that is written with.

    One part after the other, so that nobody has to wait for the end of what is too long.
    """
    for part in PARTS.findall(text):
        name = part[1:-1] if part.endswith("}") else ""
        if name not in phrases:
            yield part
            continue
        if name in within:
            raise AttnvizError("a phrase contains itself", "use words, or other phrases")
        if len(within) == DEEPEST:
            raise AttnvizError(
                f"phrases are nested more than {DEEPEST} deep", "write some of them out in words"
            )
        yield from _parts(phrases[name], phrases, (*within, name))


def _items(parts: Iterator[str], depth: int) -> tuple[tuple[Item, ...], bool]:
    """What stands before the next ], and whether there is one."""
    found: list[Item] = []
    for part in parts:
        if part == "]":
            return tuple(found), True
        if part == "[":
            if depth == DEEPEST:
                raise AttnvizError(
                    f"[ ] are nested more than {DEEPEST} deep", "leave some of them out"
                )
            inner, closed = _items(parts, depth + 1)
            if not closed:
                raise AttnvizError("there is a [ without a ]", "write ] after what may be missing")
            found.append(inner)
        elif part[0] in "{}":
            found.append(_slot(part))
        else:
            found.extend(tokenize(part, "words").labels)
    return tuple(found), False


def _slot(part: str) -> Slot:
    match = SLOT.fullmatch(part[1:-1].strip())
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
            raise unknown("list of words", slot.words, kinds)
        if slot.kind and not kinds[slot.words]:
            raise AttnvizError(
                f"'{slot.words}' is a single list, but '{slot.kind}' stands for a kind",
                f"write {{{slot.words}}}, or give its kinds a list each",
            )
        if slot.kind and not is_letter(slot.kind) and slot.kind not in kinds[slot.words]:
            raise unknown(f"kind of '{slot.words}'", slot.kind, kinds[slot.words])
    _refuse_odd_letters([slot for slot in slots if is_letter(slot.kind)], kinds)


def _refuse_odd_letters(slots: Sequence[Slot], kinds: Kinds) -> None:
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


def is_letter(kind: str) -> bool:
    """Whether it stands for a kind."""
    return LETTER.fullmatch(kind) is not None


def most_ways(pattern: Pattern, kinds: Kinds) -> int:
    """How many things a pattern can become, at most."""
    slots = list(pattern.slots)
    letters = {slot.kind for slot in slots if is_letter(slot.kind)}
    common = next((len(kinds[slot.words]) for slot in slots if slot.kind in letters), 0)
    free = prod(len(kinds[slot.words]) or 1 for slot in slots if not slot.kind)
    return _most_expanded(pattern.items) * perm(common, len(letters)) * free


def _most_expanded(items: tuple[Item, ...]) -> int:
    return prod(1 + _most_expanded(item) for item in items if isinstance(item, tuple))


def ways(pattern: Pattern, kinds: Kinds) -> Iterator[tuple[float, Way]]:
    """Everything that a pattern can become, and how large a share of it each is."""
    expanded = list(_expanded(pattern.items))
    for items in expanded:
        settled = list(_settled(items, kinds))
        for way in settled:
            yield 1 / len(expanded) / len(settled), way


def _expanded(items: tuple[Item, ...]) -> Iterator[tuple[str | Slot, ...]]:
    """With and without each part that may be missing."""
    choices = [[(), *_expanded(item)] if isinstance(item, tuple) else [(item,)] for item in items]
    for chosen in product(*choices):
        yield tuple(each for part in chosen for each in part)


def _settled(items: tuple[str | Slot, ...], kinds: Kinds) -> Iterator[Way]:
    """With each choice of kinds: those of different letters differ, those of none are free."""
    slots = [item for item in items if isinstance(item, Slot)]
    letters = sorted({slot.kind for slot in slots if is_letter(slot.kind)})
    common = next((kinds[slot.words] for slot in slots if slot.kind in letters), ())
    free = [kinds[slot.words] for slot in slots if not slot.kind and kinds[slot.words]]
    for chosen, others in product(permutations(common, len(letters)), product(*free)):
        yield _filled(items, kinds, dict(zip(letters, chosen, strict=True)), iter(others))


def _filled(
    items: tuple[str | Slot, ...], kinds: Kinds, letters: Mapping[str, str], free: Iterator[str]
) -> Way:
    found = []
    for item in items:
        if isinstance(item, str):
            found.append(Filled("", item))
        elif not item.kind:
            found.append(Filled(item.words, next(free) if kinds[item.words] else "", item.name))
        else:
            found.append(Filled(item.words, letters.get(item.kind, item.kind), item.name))
    return tuple(found)
