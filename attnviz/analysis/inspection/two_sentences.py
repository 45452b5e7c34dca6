"""Two sentences in one trained model: paired tokens, and how each head's attention changes.

A token's row of weights is compared with the row of its counterpart in the other sentence. The
weights on tokens without a counterpart are added up to one number, so that rows still sum to 1.
Heads are ranked by the largest change of a link between tokens that both sentences share, without
special tokens. If no such link changes, as in a decoder before the word that differs, all links
count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import Map, build_maps
from attnviz.analysis.measures import divergence, normalize_rows
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE
from attnviz.errors import AttnvizError
from attnviz.tokens.token_lookup import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import source_from_text
from attnviz.traces.result import RanksHeads, Rows, Showable
from attnviz.traces.settings import SettingKeywords, Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.model_location import MINILM
from attnviz.traces.trained.tracing import UNTRUSTED_SETTINGS, reload_model, with_given_model
from attnviz.wording.keywords import replace_choices, with_checked_arguments
from attnviz.wording.numbers import share_text
from attnviz.wording.words import bidi_isolated

if TYPE_CHECKING:
    from typing_extensions import Unpack

PairRows = Float[np.ndarray, "pair key"]
DEFAULT_SENTENCE_NAMES = ("first sentence", "second sentence")
DEFAULT_WEIGHT_NAMES = ("first weights", "second weights")  # for one sentence
MIN_SHOWN_CHANGE = 5e-4  # smaller changes of weights or bits are written as 0


@dataclass(frozen=True)
class WeightChange:
    """One weight in both sentences; `query` and `key` are indices of token pairs."""

    query: int
    key: int
    before: float
    after: float

    @property
    def size(self) -> float:
        """The absolute difference between the two weights."""
        return abs(self.after - self.before)


@dataclass(frozen=True, eq=False, repr=False)
class HeadComparison:
    """A head on both sentences: the divergence of its rows, and the weights that change most."""

    first: Map
    second: Map
    divergence: float  # the mean over token pairs, in bits
    largest: WeightChange
    largest_shared: WeightChange | None  # the largest between shared tokens that are not special

    @property
    def name(self) -> str:
        return self.first.name

    def __repr__(self) -> str:
        """Return a line like `<L4H9: weight .10 → .45, 0.123 bits apart>`.

        The weight is the one that changes most between tokens that both sentences share.
        """
        change = self.largest_shared or self.largest
        weights = f"{share_text(change.before)} → {share_text(change.after)}"
        return f"<{self.name}: weight {weights}, {self.divergence:.3f} bits apart>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sentences(RanksHeads, Showable):
    """The attention of a model in two sentences by head; the head with the largest change comes
    first."""

    first: Trace
    second: Trace
    names: tuple[str, str] = DEFAULT_SENTENCE_NAMES
    rows: TokenPairs  # of queries
    columns: TokenPairs  # of keys
    heads: tuple[HeadComparison, ...]
    looking: InspectOptions
    query: int | None = None  # the only pair whose rows are compared; None compares all

    @property
    def ranking(self) -> Rows[HeadComparison]:
        """The heads, starting with the one whose attention to one token changes most."""
        return Rows(self.heads)

    @cached_property
    def shared(self) -> bool:
        """Whether heads are ranked by links between tokens that both sentences share: only if any
        changes."""
        changes = [head.largest_shared for head in self.heads if head.largest_shared]
        return any(change.size >= MIN_SHOWN_CHANGE for change in changes)

    def link(self, head: HeadComparison) -> WeightChange:
        """Return the weight change that a head is ranked by: of a link between shared tokens, or of
        any."""
        return head.largest_shared if self.shared and head.largest_shared else head.largest

    @property
    def changes(self) -> bool:
        """Whether any head attends differently in the two sentences."""
        return any(head.largest.size or head.divergence for head in self.heads)


@with_checked_arguments
def compare_sentences(
    first: str | Trace,
    second: str | Trace,
    settings: Settings | None = None,
    *,
    layer: int | str | None = None,
    head: int | str | None = None,
    query: int | str | None = None,
    command: str | None = None,
    **changes: Unpack[SettingKeywords],
) -> Sentences:
    """Compare two sentences in a trained model: `compare_sentences("too tired", "too wide")`

    Traces may also be of one sentence in two models. `changes` replace fields of the settings, such
    as `model`, which may be in memory; `layer` and `head` choose heads, and `query` compares one
    token's rows only. Refuses equal sentences, sentences without a common token, and traces with
    different heads.

    >>> from attnviz import compare_sentences
    >>> found = compare_sentences("The animal was too tired", "The animal was too wide")
    >>> found.heads[0].name  # the head with the link that changes most
    'L4H9'
    """
    looking = replace_choices(InspectOptions(), {"layer": layer, "head": head, "query": query})
    in_memory, changes = take_model_in_memory(changes)
    chosen_settings = replace_choices(settings or Settings(model=MINILM), changes)
    if isinstance(first, str) and first == second:
        raise AttnvizError("both sentences are the same", "give another one")
    model_settings = {name: getattr(chosen_settings, name) for name in UNTRUSTED_SETTINGS}
    for given, other in ((first, second), (second, first)):
        if isinstance(given, Trace) and isinstance(other, str) and given.trained is not None:
            # The other sentence must be read by the same model.
            reload_model(with_given_model(given, in_memory, model_settings))
    traces = [
        each
        if isinstance(each, Trace)
        else trace_source(
            source_from_text(each, chosen_settings, in_memory=in_memory), command=command
        )
        for each in (first, second)
    ]
    sentences = compare_traces(traces[0], traces[1], trace_names(*traces), looking)
    if traces[0].handed is None and is_one_sentence(*traces) and not sentences.changes:
        raise AttnvizError(
            "both traces are of the same sentence, and no head attends differently",
            "give another sentence, or another model's trace of this one",
        )
    return sentences


def trace_names(first: Trace, second: Trace) -> tuple[str, str]:
    """Return what two traces are called: by names of their own or of their models, if those differ.

    Otherwise "first sentence" and "second sentence", or "first weights" and "second weights" if
    both are of one sentence.
    """
    for names in zip(_candidate_names(first), _candidate_names(second), strict=True):
        if all(names) and names[0] != names[1]:
            return names
    return DEFAULT_WEIGHT_NAMES if is_one_sentence(first, second) else DEFAULT_SENTENCE_NAMES


def is_one_sentence(first: Trace, second: Trace) -> bool:
    """Return whether both traces have the same text, or the same token labels if a text is
    unknown."""
    texts = first.text, second.text
    return texts[0] == texts[1] if all(texts) else first.tokens.labels == second.tokens.labels


def _candidate_names(traced: Trace) -> tuple[str, str]:
    """Return two possible names of a trace's model, the shorter first: `checkpoint`,
    `run-1/checkpoint`. Weights that were computed elsewhere have their own name twice."""
    if traced.handed is not None:
        return traced.handed.name, traced.handed.name
    card_name = "" if traced.trained is None else traced.trained.name
    model = Path(traced.origin.settings.model or card_name)
    return model.name, "/".join(model.parts[-2:])  # run-1/checkpoint and run-2/checkpoint


def _sides_with_shared_ids(first: Trace, second: Trace) -> list[Tokens]:
    """Return the tokens of both traces and then the keys of both.

    Unless both are of one model, equal labels get equal ids, so that tokens can be paired.
    """
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
    """Compare every head of one trace with the same head of another, the largest change first.

    Refuses traces with different heads, and a query token without a counterpart.
    """
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
    """Refuse maps of two traces that do not have the same layers and heads."""
    if [head_map.name for head_map in first] != [head_map.name for head_map in second]:
        raise AttnvizError(
            f"the two traces do not have the same heads: {len(first)}, up to {first[-1].name}, and "
            f"{len(second)}, up to {second[-1].name}",
            "give two traces with the same number of layers and heads",
        )


def _find_pair(rows: TokenPairs, name: str) -> int:
    """Return the index of the pair whose token is called `name` in the first sentence, otherwise in
    the second. Refuses a token without a counterpart, and a name that neither sentence has."""
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
    """Compare a head's weights in both sentences, in all paired rows or in that of the pair
    `query`."""
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
    """Return the largest change in a band of paired rows; `start` is the number of its first
    pair."""
    row, key = divmod(int(change.argmax()), change.shape[1])
    return WeightChange(start + row, key, float(first_rows[row, key]), float(second_rows[row, key]))


def _paired_bands(
    first: Map, second: Map, rows: TokenPairs, columns: TokenPairs, query: int | None
) -> Iterator[tuple[int, PairRows, PairRows]]:
    """Yield the number of the first pair, and its rows in the first and the second map, a band of
    pairs at a time. Rows are as `_rows_with_remainder` returns them; with `query` only that pair is
    read."""
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
    """Return these rows and columns of a map, with one more column for all other keys together."""
    low, high = rows[0], rows[-1] + 1
    values = head_map.cells.window(slice(low, high), FULL_SLICE).values[np.asarray(rows) - low]
    paired_weights: PairRows = values[:, list(columns)].astype(np.float64)
    remainder = values.sum(axis=1, dtype=np.float64) - paired_weights.sum(axis=1)
    return np.column_stack([paired_weights, remainder.clip(min=0)])


def _row_divergences(first_rows: PairRows, second_rows: PairRows) -> Float[np.ndarray, "pair"]:
    """Return the Jensen-Shannon divergence of each pair of rows, in bits."""
    rows, others = (normalize_rows(torch.from_numpy(each)) for each in (first_rows, second_rows))
    divergences: Float[np.ndarray, "pair"] = divergence(rows, others).numpy()
    return divergences


@dataclass(frozen=True)
class TokenPairs:
    """Paired tokens of two sentences: their positions in each, in order."""

    tokens: Tokens
    others: Tokens
    first: tuple[int, ...]  # positions in `tokens`
    second: tuple[int, ...]  # positions in `others`

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.first)

    @cached_property
    def replaced(self) -> tuple[int, ...]:
        """The numbers of the pairs whose two tokens differ."""
        pairs = zip(self.first, self.second, strict=True)
        return tuple(
            number
            for number, (first, second) in enumerate(pairs)
            if self.tokens.ids[first] != self.others.ids[second]
        )

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """The numbers of the pairs of equal tokens that are not special."""
        special = self.tokens.special
        return tuple(
            number
            for number, position in enumerate(self.first)
            if number not in self.replaced and position not in special
        )

    def labels(self, pair: int) -> tuple[str, str]:
        """Return the labels of a pair's tokens in the first and the second sentence."""
        first, second = self.first[pair], self.second[pair]
        return bidi_isolated(self.tokens.labels[first]), bidi_isolated(self.others.labels[second])

    def name(self, pair: int) -> str:
        """Return one label for a pair: `tired`, or `tired/wide` if its tokens differ."""
        first, second = self.labels(pair)
        return f"{first}/{second}" if pair in self.replaced else first


def pair_tokens(tokens: Tokens, other_tokens: Tokens) -> TokenPairs:
    """Pair equal tokens of two sentences, and tokens that replace as many others.

    Refuses sentences without any pair.
    """
    position_pairs = list(_matching_positions(tokens, other_tokens))
    if not position_pairs:
        raise AttnvizError(
            "the two sentences have no token in common, so nothing can be compared",
            "give sentences that differ in a word or two",
        )
    first, second = zip(*position_pairs, strict=True)
    return TokenPairs(tokens, other_tokens, tuple(first), tuple(second))


def _matching_positions(tokens: Tokens, other_tokens: Tokens) -> Iterator[tuple[int, int]]:
    """Yield pairs of positions of equal tokens, and of replaced runs that have the same length."""
    matcher = SequenceMatcher(None, tokens.ids, other_tokens.ids, autojunk=False)
    for kind, *ends in matcher.get_opcodes():
        first, second = range(*ends[:2]), range(*ends[2:])
        if kind == "equal" or (kind == "replace" and len(first) == len(second)):
            yield from zip(first, second, strict=True)
