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

from attnviz.analysis.inspection.inspect_options import INSPECT_OPTION_NAMES, InspectOptions
from attnviz.analysis.inspection.maps import Map, build_maps
from attnviz.analysis.measures import divergence, normalize_rows
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE
from attnviz.errors import AttnvizError
from attnviz.tokens.token_lookup import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.model_location import MINILM
from attnviz.traces.trained.tracing import UNTRUSTED_SETTINGS, reload_model, with_named_model
from attnviz.wording.keywords import replace_choices, with_checked_arguments
from attnviz.wording.words import bidi_isolated

PairRows = Float[np.ndarray, "pair key"]
DEFAULT_SENTENCE_NAMES = ("first sentence", "second sentence")
DEFAULT_WEIGHT_NAMES = ("first weights", "second weights")  # of one sentence
MIN_SHOWN_CHANGE = 5e-4  # of a weight, or of a bit: less is written as 0


@dataclass(frozen=True)
class WeightChange:
    """One weight in both sentences: between which pairs of tokens it is, before and after."""

    query: int
    key: int
    before: float
    after: float

    @property
    def size(self) -> float:
        return abs(self.after - self.before)


@dataclass(frozen=True, eq=False, repr=False)
class HeadComparison:
    """A head on both sentences: how far apart its rows are, and the weights that change most."""

    first: Map
    second: Map
    divergence: float  # the mean over tokens that are paired, in bits
    largest: WeightChange
    largest_shared: (
        WeightChange | None
    )  # the largest between tokens that both sentences have, but no special

    @property
    def name(self) -> str:
        return self.first.name

    def __repr__(self) -> str:
        return f"<Read {self.name}: {self.divergence:.3f} bits apart>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sentences(Showable):
    """What a model attends to in two sentences, head by head; what changes most comes first."""

    first: Trace
    second: Trace
    names: tuple[str, str] = DEFAULT_SENTENCE_NAMES
    rows: TokenPairs  # of tokens that read,
    columns: TokenPairs  # and of those that are read
    heads: tuple[HeadComparison, ...]
    looking: InspectOptions
    query: int | None = None  # the pair whose row alone is held against each other

    @cached_property
    def shared(self) -> bool:
        """Whether heads are ranked by links between tokens that both sentences have."""
        return any(
            head.largest_shared and head.largest_shared.size >= MIN_SHOWN_CHANGE
            for head in self.heads
        )

    def link(self, head: HeadComparison) -> WeightChange:
        """What a head is ranked by: of the weights that count, the one that changes most."""
        return head.largest_shared if self.shared and head.largest_shared else head.largest

    @property
    def changes(self) -> bool:
        """Whether any head attends differently."""
        return any(head.largest.size or head.divergence for head in self.heads)


@with_checked_arguments
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
    looking = replace_choices(InspectOptions(), {"layer": layer, "head": head, "query": query})
    chosen_settings = replace_choices(
        settings or Settings(model=MINILM), changes, other_names=INSPECT_OPTION_NAMES
    )
    if isinstance(first, str) and first == second:
        raise AttnvizError("both sentences are the same", "give another one")
    model_settings = {name: getattr(chosen_settings, name) for name in UNTRUSTED_SETTINGS}
    for given_trace, other_text in ((first, second), (second, first)):
        if (
            isinstance(given_trace, Trace)
            and isinstance(other_text, str)
            and given_trace.trained is not None
        ):
            reload_model(
                with_named_model(given_trace, **model_settings)
            )  # which has to be the one that reads the other
    first_trace, second_trace = (
        source if isinstance(source, Trace) else trace(source, chosen_settings, command=command)
        for source in (first, second)
    )
    sentences = compare_traces(
        first_trace, second_trace, trace_names(first_trace, second_trace), looking
    )
    if (
        first_trace.handed is None
        and is_one_sentence(first_trace, second_trace)
        and not sentences.changes
    ):
        raise AttnvizError(
            "both traces are of the same sentence, and no head attends differently",
            "give another sentence, or another model's trace of this one",
        )
    return sentences


def trace_names(first: Trace, second: Trace) -> tuple[str, str]:
    """What two traces are called: by names of their own, or by where their models are."""
    for first_name, second_name in zip(
        _candidate_names(first), _candidate_names(second), strict=True
    ):
        if first_name and second_name and first_name != second_name:
            return first_name, second_name
    return DEFAULT_WEIGHT_NAMES if is_one_sentence(first, second) else DEFAULT_SENTENCE_NAMES


def is_one_sentence(first: Trace, second: Trace) -> bool:
    """Whether both read the same; of weights that were handed over only tokens are known."""
    texts = first.text, second.text
    return texts[0] == texts[1] if all(texts) else first.tokens.labels == second.tokens.labels


def _candidate_names(traced: Trace) -> tuple[str, str]:
    if traced.handed is not None:
        return traced.handed.name, traced.handed.name
    model = Path(traced.origin.settings.model or "")
    return model.name, "/".join(model.parts[-2:])  # run-1/checkpoint and run-2/checkpoint


def _sides_with_shared_ids(first: Trace, second: Trace) -> list[Tokens]:
    """Who reads, and what is read, of both; two vocabularies are made one, by their labels."""
    sides = [first.tokens, second.tokens, first.keys, second.keys]
    models = [None if traced.handed else traced.origin.settings.model for traced in (first, second)]
    if models[0] is not None and models[0] == models[1]:
        return sides
    labels = dict.fromkeys(label for side in sides for label in side.labels)
    ids = {label: number for number, label in enumerate(labels)}
    return [replace(side, ids=tuple(ids[label] for label in side.labels)) for side in sides]


def compare_traces(
    first: Trace, second: Trace, names: tuple[str, str], options: InspectOptions
) -> Sentences:
    """The heads of one trace against those of another."""
    tokens, other_tokens, keys, other_keys = _sides_with_shared_ids(first, second)
    rows = pair_tokens(tokens, other_tokens)
    columns = rows if first.keys is first.tokens else pair_tokens(keys, other_keys)
    query = None if options.query is None else _find_pair(rows, options.query)
    maps = build_maps(first, options), build_maps(second, options)
    _refuse_other_heads(*maps)
    heads = [
        _compare_head(first_map, second_map, rows, columns, query)
        for first_map, second_map in zip(*maps, strict=True)
    ]
    sentences = Sentences(
        first=first,
        second=second,
        names=names,
        rows=rows,
        columns=columns,
        heads=tuple(heads),
        looking=options,
        query=query,
    )
    ranked = sorted(heads, key=lambda head: (-sentences.link(head).size, -head.divergence))
    return replace(sentences, heads=tuple(ranked))


def _refuse_other_heads(first: tuple[Map, ...], second: tuple[Map, ...]) -> None:
    if [head_map.name for head_map in first] != [head_map.name for head_map in second]:
        raise AttnvizError(
            f"the two traces do not have the same heads: {len(first)}, up to {first[-1].name}, and "
            f"{len(second)}, up to {second[-1].name}",
            "give two traces with the same number of layers and heads",
        )


def _find_pair(rows: TokenPairs, name: str) -> int:
    """The pair that a token is one of; in the first sentence, or else in the second."""
    try:
        position, positions = find_query(rows.tokens, name), rows.first
    except AttnvizError:
        if not rows.others.find(name):
            raise
        position, positions = find_query(rows.others, name), rows.second
    if position not in positions:
        raise AttnvizError(
            f"'{name}' has no counterpart in the other sentence",
            "name another token, or leave --query out",
        )
    return positions.index(position)


def _compare_head(
    first: Map, second: Map, rows: TokenPairs, columns: TokenPairs, query: int | None
) -> HeadComparison:
    """One head, a few million cells at a time."""
    divergences, changes, shared_changes = [], [], []
    is_shared_key = np.isin(np.arange(len(columns)), columns.shared)
    for start, first_rows, second_rows in _paired_bands(first, second, rows, columns, query):
        divergences.append(_row_divergences(first_rows, second_rows))
        change = np.abs(second_rows - first_rows)[:, :-1]
        pair_numbers = np.arange(start, start + len(change))
        is_shared_query = np.isin(pair_numbers, rows.shared if query is None else query)
        changes.append(_largest_in_band(start, change, first_rows, second_rows))
        if is_shared_query.any() and is_shared_key.any():
            shared_change = np.where(is_shared_query[:, None] & is_shared_key, change, -1)
            shared_changes.append(_largest_in_band(start, shared_change, first_rows, second_rows))
    return HeadComparison(
        first,
        second,
        float(np.concatenate(divergences).mean()),
        max(changes, key=lambda weight_change: weight_change.size),
        max(shared_changes, key=lambda weight_change: weight_change.size, default=None),
    )


def _largest_in_band(
    start: int, change: PairRows, first_rows: PairRows, second_rows: PairRows
) -> WeightChange:
    """Of a band that begins at a pair the weight that changes most."""
    row, key = divmod(int(change.argmax()), change.shape[1])
    return WeightChange(start + row, key, float(first_rows[row, key]), float(second_rows[row, key]))


def _paired_bands(
    first: Map, second: Map, rows: TokenPairs, columns: TokenPairs, query: int | None
) -> Iterator[tuple[int, PairRows, PairRows]]:
    """Rows of both that stand for each other, with what is read of all others behind them."""
    widest = max(head_map.cells.shape[1] for head_map in (first, second))
    rows_at_once = max(1, CELLS_PER_BAND // widest) if query is None else 1
    numbers = range(len(rows)) if query is None else range(query, query + 1)
    for start in numbers[::rows_at_once]:
        part = slice(start, min(start + rows_at_once, numbers.stop))
        yield (
            start,
            _rows_with_remainder(first, rows.first[part], columns.first),
            _rows_with_remainder(second, rows.second[part], columns.second),
        )


def _rows_with_remainder(
    head_map: Map, rows: tuple[int, ...], columns: tuple[int, ...]
) -> PairRows:
    """Some rows, of these columns; and one more for all other tokens together."""
    low, high = rows[0], rows[-1] + 1
    values = head_map.cells.window(slice(low, high), FULL_SLICE).values[np.asarray(rows) - low]
    paired_weights: PairRows = values[:, list(columns)].astype(np.float64)
    remainder = values.sum(axis=1, dtype=np.float64) - paired_weights.sum(axis=1)
    return np.column_stack([paired_weights, remainder.clip(min=0)])


def _row_divergences(first_rows: PairRows, second_rows: PairRows) -> Float[np.ndarray, "pair"]:
    """Jensen and Shannon's divergence of each two rows, in bits."""
    normalized_rows = [normalize_rows(torch.from_numpy(rows)) for rows in (first_rows, second_rows)]
    divergences: Float[np.ndarray, "pair"] = divergence(
        normalized_rows[0], normalized_rows[1]
    ).numpy()
    return divergences


@dataclass(frozen=True)
class TokenPairs:
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
            for number, (first, second) in enumerate(pairs)
            if self.tokens.ids[first] != self.others.ids[second]
        )

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """Which of the pairs are of one token that is in both sentences, and is not special."""
        special = self.tokens.special
        return tuple(
            number
            for number, position in enumerate(self.first)
            if number not in self.replaced and position not in special
        )

    def labels(self, pair: int) -> tuple[str, str]:
        """What stands there in each sentence."""
        first, second = self.first[pair], self.second[pair]
        return bidi_isolated(self.tokens.labels[first]), bidi_isolated(self.others.labels[second])

    def name(self, pair: int) -> str:
        """The label of both: `tired/wide`, where they are not the same token."""
        first, second = self.labels(pair)
        return f"{first}/{second}" if pair in self.replaced else first


def pair_tokens(tokens: Tokens, other_tokens: Tokens) -> TokenPairs:
    """The tokens of two sentences that stand for each other."""
    position_pairs = list(_matching_positions(tokens, other_tokens))
    if not position_pairs:
        raise AttnvizError(
            "the two sentences have no token in common, so nothing can be compared",
            "give sentences that differ in a word or two",
        )
    first, second = zip(*position_pairs, strict=True)
    return TokenPairs(tokens, other_tokens, tuple(first), tuple(second))


def _matching_positions(tokens: Tokens, other_tokens: Tokens) -> Iterator[tuple[int, int]]:
    matcher = SequenceMatcher(None, tokens.ids, other_tokens.ids, autojunk=False)
    for kind, first_start, first_end, second_start, second_end in matcher.get_opcodes():
        if kind == "equal" or (
            kind == "replace" and first_end - first_start == second_end - second_start
        ):
            yield from zip(
                range(first_start, first_end), range(second_start, second_end), strict=True
            )
