"""Two sentences in one trained model: paired tokens, and how each head's attention changes.

A row of weights is held against the row of the token that stands for it. What is read of tokens
that stand for none of the other sentence counts as one number, so that rows stay divided up.
Heads are ranked by the link that changes most between tokens that both sentences have; special
tokens do not count. Where no such link changes, as in a decoder before the word that differs, all
links count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.inspection.looking import NAMES, Looking
from attnviz.analysis.inspection.maps import Map, maps_of
from attnviz.analysis.measures import divergence, normalized
from attnviz.cells import CELLS_AT_ONCE, EVERYTHING
from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.place import MINILM
from attnviz.traces.trained.tracing import NAMED_AGAIN, model_of, named_again
from attnviz.wording.keywords import changed, of_its_kinds
from attnviz.wording.words import isolated

Rows = Float[np.ndarray, "pair key"]
SENTENCES = ("first sentence", "second sentence")
WEIGHTS = ("first weights", "second weights")  # of one sentence
LEAST = 5e-4  # of a weight, or of a bit: less is written as 0


@dataclass(frozen=True)
class Change:
    """One weight in both sentences: between which pairs of tokens it is, before and after."""

    query: int
    key: int
    before: float
    after: float

    @property
    def size(self) -> float:
        return abs(self.after - self.before)


@dataclass(frozen=True, eq=False, repr=False)
class Read:
    """A head on both sentences: how far apart its rows are, and the weights that change most."""

    first: Map
    second: Map
    apart: float  # the mean over tokens that are paired, in bits
    largest: Change
    of_same: Change | None  # the largest between tokens that both sentences have, but no special

    @property
    def name(self) -> str:
        return self.first.name

    def __repr__(self) -> str:
        return f"<Read {self.name}: {self.apart:.3f} bits apart>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sentences(Showable):
    """What a model attends to in two sentences, head by head; what changes most comes first."""

    first: Trace
    second: Trace
    names: tuple[str, str] = SENTENCES
    rows: Pairs  # of tokens that read,
    columns: Pairs  # and of those that are read
    heads: tuple[Read, ...]
    looking: Looking
    query: int | None = None  # the pair whose row alone is held against each other

    @cached_property
    def shared(self) -> bool:
        """Whether heads are ranked by links between tokens that both sentences have."""
        return any(each.of_same and each.of_same.size >= LEAST for each in self.heads)

    def link(self, read: Read) -> Change:
        """What a head is ranked by: of the weights that count, the one that changes most."""
        return read.of_same if self.shared and read.of_same else read.largest

    @property
    def changes(self) -> bool:
        """Whether any head attends differently."""
        return any(each.largest.size or each.apart for each in self.heads)


@of_its_kinds
def compare_sentences(
    first: str | Trace,
    second: str | Trace,
    settings: Settings | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    query: int | str | None = None,
    command: str | None = None,
    **changes: Any,
) -> Sentences:
    """Two sentences read by a trained model: `compare_sentences("too tired", "too wide")`

    Of traces, one sentence as two models read it will do, too.
    `changes` replace fields of the settings, of which `model` is one.

    >>> from attnviz import compare_sentences
    >>> found = compare_sentences("The animal was too tired", "The animal was too wide")
    >>> found.heads[0].name  # the head with the link that changes most
    'L4H9'
    """
    looking = changed(Looking(), {"layer": layer, "head": head, "query": query})
    chosen = changed(settings or Settings(model=MINILM), changes, also=NAMES)
    if isinstance(first, str) and first == second:
        raise AttnvizError("both sentences are the same", "give another one")
    named = {name: getattr(chosen, name) for name in NAMED_AGAIN}
    for made, beside in ((first, second), (second, first)):
        if isinstance(made, Trace) and isinstance(beside, str) and made.trained is not None:
            model_of(named_again(made, **named))  # which has to be the one that reads the other
    one, other = (
        each if isinstance(each, Trace) else trace(each, chosen, command=command)
        for each in (first, second)
    )
    found = held(one, other, names_of(one, other), looking)
    if one.handed is None and of_one_sentence(one, other) and not found.changes:
        raise AttnvizError(
            "both traces are of the same sentence, and no head attends differently",
            "give another sentence, or another model's trace of this one",
        )
    return found


def names_of(first: Trace, second: Trace) -> tuple[str, str]:
    """What two traces are called: by names of their own, or by where their models are."""
    for one, other in zip(_names(first), _names(second), strict=True):
        if one and other and one != other:
            return one, other
    return WEIGHTS if of_one_sentence(first, second) else SENTENCES


def of_one_sentence(first: Trace, second: Trace) -> bool:
    """Whether both read the same; of weights that were handed over only tokens are known."""
    texts = first.text, second.text
    return texts[0] == texts[1] if all(texts) else first.tokens.labels == second.tokens.labels


def _names(traced: Trace) -> tuple[str, str]:
    if traced.handed is not None:
        return traced.handed.name, traced.handed.name
    model = Path(traced.origin.settings.model or "")
    return model.name, "/".join(model.parts[-2:])  # run-1/checkpoint and run-2/checkpoint


def _sides(first: Trace, second: Trace) -> list[Tokens]:
    """Who reads, and what is read, of both; two vocabularies are made one, by their labels."""
    sides = [first.tokens, second.tokens, first.keys, second.keys]
    models = [None if each.handed else each.origin.settings.model for each in (first, second)]
    if models[0] is not None and models[0] == models[1]:
        return sides
    labels = dict.fromkeys(label for side in sides for label in side.labels)
    ids = {label: number for number, label in enumerate(labels)}
    return [replace(side, ids=tuple(ids[label] for label in side.labels)) for side in sides]


def held(first: Trace, second: Trace, names: tuple[str, str], looking: Looking) -> Sentences:
    """The heads of one trace against those of another."""
    tokens, others, keys, other_keys = _sides(first, second)
    rows = paired(tokens, others)
    columns = rows if first.keys is first.tokens else paired(keys, other_keys)
    query = None if looking.query is None else _place(rows, looking.query)
    maps = maps_of(first, looking), maps_of(second, looking)
    _refuse_other_heads(*maps)
    read = [_read(one, other, rows, columns, query) for one, other in zip(*maps, strict=True)]
    found = Sentences(
        first=first,
        second=second,
        names=names,
        rows=rows,
        columns=columns,
        heads=tuple(read),
        looking=looking,
        query=query,
    )
    ranked = sorted(read, key=lambda each: (-found.link(each).size, -each.apart))
    return replace(found, heads=tuple(ranked))


def _refuse_other_heads(first: tuple[Map, ...], second: tuple[Map, ...]) -> None:
    if [each.name for each in first] != [each.name for each in second]:
        raise AttnvizError(
            f"the two traces do not have the same heads: {len(first)}, up to {first[-1].name}, and "
            f"{len(second)}, up to {second[-1].name}",
            "give two traces with the same number of layers and heads",
        )


def _place(rows: Pairs, wanted: str) -> int:
    """The pair that a token is one of; in the first sentence, or else in the second."""
    try:
        place, places = find_query(rows.tokens, wanted), rows.first
    except AttnvizError:
        if not rows.others.find(wanted):
            raise
        place, places = find_query(rows.others, wanted), rows.second
    if place not in places:
        raise AttnvizError(
            f"'{wanted}' has no counterpart in the other sentence",
            "name another token, or leave --query out",
        )
    return places.index(place)


def _read(first: Map, second: Map, rows: Pairs, columns: Pairs, query: int | None) -> Read:
    """One head, a few million cells at a time."""
    apart, changes, of_same = [], [], []
    own = np.isin(np.arange(len(columns)), columns.shared)
    for start, one, other in _bands(first, second, rows, columns, query):
        apart.append(_apart(one, other))
        change = np.abs(other - one)[:, :-1]
        places = np.arange(start, start + len(change))
        alike = np.isin(places, rows.shared if query is None else query)
        changes.append(_largest(start, change, one, other))
        if alike.any() and own.any():
            same = np.where(alike[:, None] & own, change, -1)
            of_same.append(_largest(start, same, one, other))
    return Read(
        first,
        second,
        float(np.concatenate(apart).mean()),
        max(changes, key=lambda each: each.size),
        max(of_same, key=lambda each: each.size, default=None),
    )


def _largest(start: int, change: Rows, one: Rows, other: Rows) -> Change:
    """Of a band that begins at a pair the weight that changes most."""
    row, key = divmod(int(change.argmax()), change.shape[1])
    return Change(start + row, key, float(one[row, key]), float(other[row, key]))


def _bands(
    first: Map, second: Map, rows: Pairs, columns: Pairs, query: int | None
) -> Iterator[tuple[int, Rows, Rows]]:
    """Rows of both that stand for each other, with what is read of all others behind them."""
    widest = max(each.cells.shape[1] for each in (first, second))
    together = max(1, CELLS_AT_ONCE // widest) if query is None else 1
    numbers = range(len(rows)) if query is None else range(query, query + 1)
    for start in numbers[::together]:
        part = slice(start, min(start + together, numbers.stop))
        yield (
            start,
            _rows(first, rows.first[part], columns.first),
            _rows(second, rows.second[part], columns.second),
        )


def _rows(found: Map, rows: tuple[int, ...], columns: tuple[int, ...]) -> Rows:
    """Some rows, of these columns; and one more for all other tokens together."""
    low, high = rows[0], rows[-1] + 1
    values = found.cells.window(slice(low, high), EVERYTHING).values[np.asarray(rows) - low]
    kept: Rows = values[:, list(columns)].astype(np.float64)
    others = values.sum(axis=1, dtype=np.float64) - kept.sum(axis=1)
    return np.column_stack([kept, others.clip(min=0)])


def _apart(one: Rows, other: Rows) -> Float[np.ndarray, "pair"]:
    """Jensen and Shannon's divergence of each two rows, in bits."""
    both = [normalized(torch.from_numpy(each)) for each in (one, other)]
    found: Float[np.ndarray, "pair"] = divergence(both[0], both[1]).numpy()
    return found


@dataclass(frozen=True)
class Pairs:
    """Places of one sentence, and those that stand for them in the other; both in order."""

    tokens: Tokens
    others: Tokens
    first: tuple[int, ...]
    second: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def replaced(self) -> tuple[int, ...]:
        """Which of the pairs are of tokens that are not the same."""
        pairs = zip(self.first, self.second, strict=True)
        return tuple(
            number
            for number, (one, other) in enumerate(pairs)
            if self.tokens.ids[one] != self.others.ids[other]
        )

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """Which of the pairs are of one token that is in both sentences, and is not special."""
        special = self.tokens.special
        return tuple(
            number
            for number, place in enumerate(self.first)
            if number not in self.replaced and place not in special
        )

    def labels(self, pair: int) -> tuple[str, str]:
        """What stands there in each sentence."""
        one, other = self.first[pair], self.second[pair]
        return isolated(self.tokens.labels[one]), isolated(self.others.labels[other])

    def name(self, pair: int) -> str:
        """The label of both: `tired/wide`, where they are not the same token."""
        one, other = self.labels(pair)
        return f"{one}/{other}" if pair in self.replaced else one


def paired(tokens: Tokens, others: Tokens) -> Pairs:
    """The tokens of two sentences that stand for each other."""
    both = list(_places(tokens, others))
    if not both:
        raise AttnvizError(
            "the two sentences have no token in common, so nothing can be compared",
            "give sentences that differ in a word or two",
        )
    first, second = zip(*both, strict=True)
    return Pairs(tokens, others, tuple(first), tuple(second))


def _places(tokens: Tokens, others: Tokens) -> Iterator[tuple[int, int]]:
    matched = SequenceMatcher(None, tokens.ids, others.ids, autojunk=False)
    for kind, one, one_end, other, other_end in matched.get_opcodes():
        if kind == "equal" or (kind == "replace" and one_end - one == other_end - other):
            yield from zip(range(one, one_end), range(other, other_end), strict=True)
