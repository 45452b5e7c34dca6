"""A grammar: words, patterns of sentences, and what is asked of them; drawn many at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count as from_

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning.patterns import Filled, Way
from attnviz.learning.task import NOTHING, Examples
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.vectors.drawn import uniform

List = tuple[str, str]  # a class of words and one of its kinds; or "", and a word given
Word = tuple[str, ...]  # its tokens

PREVIOUS = "previous"  # what can be read beside a place that has a name
ASKS = "?"  # stands for a word that is asked for
ONE_OF = 5  # combinations of words is held out
PATIENCE = 1000  # times that words are drawn again


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What a head may come to do: which place reads which."""

    place: str  # empty: every token
    reads: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Grammar:
    """Words, the ways to put them together, and what is asked where."""

    lists: Mapping[List, tuple[Word, ...]]
    ways: tuple[Way, ...]
    shares: tuple[float, ...]  # how often each comes
    asks: str  # the place that is filled in
    answers: str  # the place whose word is the answer; itself: then its word is hidden
    readings: Mapping[str, Reads]
    apart: tuple[str, ...]  # places, whose words come together in what is held out or elsewhere

    @property
    def hides(self) -> bool:
        """Whether the model may not see which form of a word stands where it is asked."""
        return self.asks == self.answers

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Every word; those that are asked for are one word in all their forms."""
        spelled = self._spelled
        every = [token for words in self.lists.values() for word in words for token in word]
        return Vocabulary(
            tokenizer="words",
            words=tuple(dict.fromkeys(spelled.get(token, token) for token in every)),
            answers=tuple(dict.fromkeys(word[-1] for each in self._asked for word in each)),
            predicts="here",
            spelled=spelled,
            asks=ASKS if self.hides else "",
        )

    @property
    def _asked(self) -> list[tuple[Word, ...]]:
        """The lists of words that are answers."""
        keys = dict.fromkeys((f.words, f.kind) for w in self.ways for f in w if f.name == self.answers)
        return [self.lists[key] for key in keys]

    @property
    def _spelled(self) -> dict[str, str]:
        """What the model reads in place of each form of a word that is asked for: its first."""
        if not self.hides:
            return {}
        first, *others = self._asked
        forms = zip(first, *others, strict=True)
        spelled = {form[-1]: one[-1] for one, *rest in forms for form in rest}
        return {ASKS: first[0][-1]} | {form: one for form, one in spelled.items() if form != one}

    @cached_property
    def longest(self) -> int:
        """The most tokens of a sentence."""
        return max(map(self._length, self.ways))

    def _length(self, way: Way) -> int:
        return sum(self._tokens(each) for each in way)

    def _tokens(self, filled: Filled) -> int:
        return len(self.lists[filled.words, filled.kind][0])

    @cached_property
    def _tables(self) -> _Tables:
        return tables_of(self)

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Sentences of a seed. A combination of words is held out, or learned from; never both."""
        return self._tables.draw(seed, count, held_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Tables:
    """A grammar as tables, so that thousands of sentences are drawn at once."""

    shares: Float[Tensor, "way"]
    ids: Int[Tensor, "list word token"]
    answers: Int[Tensor, "list word"]
    sizes: Int[Tensor, "list"]
    list_of_slot: Int[Tensor, "way slot"]  # list 0 holds nothing but one word of no meaning
    apart: Bool[Tensor, "way slot"]
    slot: Int[Tensor, "way token"]
    token: Int[Tensor, "way token"]  # which of its word
    answered_by: Int[Tensor, "way token"]  # the slot, or NOTHING
    readings: Mapping[str, Int[Tensor, "way token"]]

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        stream = "held out" if held_out else "learned"
        chance = uniform([seed], f"{stream} ways", range(count), 1)[0, :, 0]
        way = torch.searchsorted(self.shares.cumsum(0), chance, right=True).clamp(max=len(self.shares)-1)
        lists = self.list_of_slot[way]
        words = self._words(seed, stream, way, held_out)
        slot, answered = self.slot[way], self.answered_by[way]
        of_token = lists.gather(1, slot), words.gather(1, slot)
        by = answered.clamp(min=0)
        answers = self.answers[lists.gather(1, by), words.gather(1, by)]
        return Examples(
            self.ids[(*of_token, self.token[way])],
            torch.where(answered == NOTHING, NOTHING, answers),
            {name: each[way] for name, each in self.readings.items()},
        )

    def _words(self, seed, stream, way, held_out):
        """The word of each slot; drawn again where one comes twice, or what is not wanted."""
        sizes = self.sizes[self.list_of_slot[way]]
        words = torch.zeros_like(sizes)
        rows = torch.arange(len(way))
        for attempt in range(PATIENCE):
            chance = uniform([seed], f"{stream} words {attempt}", rows.tolist(), sizes.shape[1])[0]
            words[rows] = (chance * sizes[rows]).long()
            rows = rows[~self._are_wanted(way[rows], words[rows], held_out)]
            if not len(rows):
                return words
        raise AttnvizError("no", "no")

    def _are_wanted(self, way, words, held_out):
        lists = self.list_of_slot[way]
        together = (words * self.apart[way]).sum(1) % ONE_OF == 0
        # A word that stands there always may come as often as it likes.
        several = self.sizes[lists] > 1
        alike = torch.where(several, lists * 100000 + words, -1 - torch.arange(lists.shape[1]))
        ordered = alike.sort(1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return (together == held_out) & ~twice


def tables_of(grammar: Grammar) -> _Tables:
    keys = list(grammar.lists)
    number = {key: place for place, key in enumerate(keys, start=1)}
    words = grammar.vocabulary
    answer_ids = {w: i for i, w in enumerate(words.answers)}
    most = max(map(len, grammar.lists.values()))
    widest = max(len(each[0]) for each in grammar.lists.values())
    ids = torch.zeros(len(keys) + 1, most, widest, dtype=torch.long)
    answers = torch.full((len(keys) + 1, most), NOTHING)
    sizes = torch.ones(len(keys) + 1, dtype=torch.long)
    for key, each in grammar.lists.items():
        sizes[number[key]] = len(each)
        for w, word in enumerate(each):
            for t, token in enumerate(word):
                ids[number[key], w, t] = words.ids[token]
            answers[number[key], w] = answer_ids.get(word[-1], NOTHING)
    most_slots = max(map(len, grammar.ways)) + 1
    W, P = len(grammar.ways), grammar.longest
    los = torch.zeros(W, most_slots, dtype=torch.long)
    apart = torch.zeros(W, most_slots, dtype=torch.bool)
    slot = torch.full((W, P), most_slots - 1)
    token = torch.zeros(W, P, dtype=torch.long)
    answered = torch.full((W, P), NOTHING)
    readings = {name: torch.full((W, P), NOTHING) for name in grammar.readings}
    for w, way in enumerate(grammar.ways):
        p = 0
        last = {}
        last_slot = {}
        ends = {}
        for s, f in enumerate(way):
            los[w, s] = number[f.words, f.kind]
            apart[w, s] = f.name in grammar.apart if grammar.apart else bool(f.words)
            for t in range(grammar._tokens(f)):
                slot[w, p] = s; token[w, p] = t
                for name, r in grammar.readings.items():
                    if r.reads == PREVIOUS and p and (not r.place or r.place == f.name):
                        readings[name][w, p] = p - 1
                p += 1
            last_slot[f.name] = s
            if f.name == grammar.asks:
                answered[w, p - 1] = last_slot[grammar.answers]
            for name, r in grammar.readings.items():
                if r.place and f.name == r.place and r.reads in last:
                    readings[name][w, p - 1] = last[r.reads]
            if f.name:
                last[f.name] = p - 1
    return _Tables(shares=torch.tensor(grammar.shares, dtype=torch.float64), ids=ids, answers=answers, sizes=sizes, list_of_slot=los, apart=apart, slot=slot, token=token, answered_by=answered, readings=readings)
