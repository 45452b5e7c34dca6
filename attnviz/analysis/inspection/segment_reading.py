"""SegmentReading: how much the answer reads of each part of a prompt, in each head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import maps_of_heads
from attnviz.analysis.inspection.patterns import (
    MIN_PATTERN_EXCESS,
    MIN_SAMPLED_QUERIES,
    is_majority,
    most_attended_keys,
    sampled_queries,
)
from attnviz.cells import FULL_SLICE
from attnviz.errors import AttnvizError, opt, unknown_name_error
from attnviz.heads.changes import sum_groups
from attnviz.heads.head import Head
from attnviz.machine import files
from attnviz.tokens.grouping import Grouping, Groups
from attnviz.tokens.segments import (
    ANSWER,
    REST,
    SINK,
    TEMPLATE,
    NamedSegments,
    Segments,
    cut_into_segments,
)
from attnviz.traces import toml_reader
from attnviz.traces.randomness import random_weight_sources
from attnviz.traces.trace import Trace
from attnviz.traces.trained.captured_attention import HiddenKeys
from attnviz.wording.words import with_summary

if TYPE_CHECKING:
    from attnviz.analysis.inspection.effects import HiddenEffect

NO_MESSAGES = ("", REST, TEMPLATE, ANSWER, "system")  # labels of what cannot be the question
SINK_HEADS_SHARE = 0.05  # of the heads: in so many, most tokens read a key of the sink most
LEAST_ROOM = 1e-9  # between a base rate and 1, by which an excess is divided
MIN_LIFT = 0.1  # above its base rate, of a share that stands out
NEARBY_TOKENS = 16  # before the query: read by many heads wherever they stand
SEGMENTS_SUFFIX = ".toml"

Shares = Float[np.ndarray, "query head segment"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SegmentLink:
    """How much one token reads of one segment in one head, beside what it is compared with."""

    name: str  # of the head
    head: int
    query: int
    segment: int
    share: float
    even: float  # if the token attended evenly to all keys that it sees
    others: float  # the mean of other tokens that see all of the segment; NaN if there are none

    @property
    def base(self) -> float:
        """The larger of even and others; 1 where no other token sees the segment, since a head may
        read whatever is there."""
        return 1.0 if np.isnan(self.others) else max(self.even, self.others)

    @property
    def lift(self) -> float:
        return self.share - self.base

    @property
    def excess(self) -> float:
        """How much of the way from its base rate to 1 the share is."""
        return self.lift / max(1 - self.base, LEAST_ROOM)

    @property
    def stands_out(self) -> bool:
        return self.excess >= MIN_PATTERN_EXCESS and self.lift >= MIN_LIFT


@with_summary
@dataclass(frozen=True, eq=False)
class SegmentReading:
    """What some tokens of a text read of its segments: of each head a share for each segment.

    The sink comes first: the first token, and keys that most tokens read most.
    """

    trace: Trace
    heads: tuple[Head, ...]
    all_heads: tuple[Head, ...]  # of the model, by which the sink is found
    text_segments: Segments  # of the keys
    queries: tuple[int, ...]

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """The positions of the first token, of special ones in no segment, and of keys that most
        tokens read most in at least one of twenty heads."""
        count = len(self.heads[0].rows)
        rows = slice(0, count, -(-count // MIN_SAMPLED_QUERIES))
        heads_by_key = np.zeros(len(self.heads[0].columns))
        for head in self.all_heads:
            patch = head.cells.window(rows, FULL_SLICE)
            keys = most_attended_keys(patch.values[(~patch.hidden).sum(1) > 1])
            for key, queries in zip(*np.unique(keys, return_counts=True), strict=True):
                heads_by_key[key] += key >= 0 and is_majority(queries, len(keys))
        is_sink = heads_by_key >= max(1, SINK_HEADS_SHARE * len(self.all_heads))
        is_sink[[0, *({*range(len(is_sink))} - {*self._number_of_token})]] = True
        return tuple(np.flatnonzero(is_sink).tolist())

    @cached_property
    def segments(self) -> Grouping:
        """The sink, and what the sink leaves of each segment."""
        keys = frozenset(range(len(self.heads[0].columns)))
        rest = self.text_segments.keep(keys - frozenset(self.sinks))
        return replace(
            rest,
            groups=(self.sinks, *rest.groups),
            labels=(SINK, *rest.labels),
            numbers=(0, *rest.numbers),
        )

    @cached_property
    def own_segments(self) -> tuple[frozenset[int], ...]:
        """The segments that are not asked about, of each query: the sink, and those where it and
        the question stand, which many heads read whatever is there."""
        return tuple(frozenset((0, *self._own_of(query))) for query in self.queries)

    def _own_of(self, query: int) -> list[int]:
        if not self.heads[0].reads_itself:
            return []
        number_of, last = self._number_of_token, query
        if self.trace.prompt is not None:
            last = min(query, self.trace.prompt - 1)
        own = {number_of.get(query), number_of.get(last)}
        labels = ("", *self.text_segments.labels)
        messages = [each for each, label in enumerate(labels) if label not in NO_MESSAGES]
        if self.trace.tokens.read and len(messages) > 1:  # a template ends behind the last one
            earlier = (number_of.get(token, 0) for token in range(last, -1, -1))
            own.add(next((each for each in earlier if each in messages), 0))
        return [index for index, number in enumerate(self.segments.numbers) if number in own]

    @cached_property
    def tables(self) -> tuple[Shares, Shares, Float[np.ndarray, "head segment"]]:
        """The share that each query gives each segment in each head; that of an even spread; and
        the mean share of the other tokens that see all of it."""
        per_head = [self._read_head(head) for head in self.heads]
        shares, evens, others = (np.stack(numbers) for numbers in zip(*per_head, strict=True))
        return shares.swapaxes(0, 1), evens.swapaxes(0, 1), others

    def _read_head(self, head: Head) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        own = [_shares_of_rows(head, slice(query, query + 1), self.segments.groups)
               for query in self.queries]  # fmt: skip
        shares, visible = (np.concatenate(rows) for rows in zip(*own, strict=True))
        evens = visible / np.maximum(visible.sum(1, keepdims=True), 1)
        rows = sampled_queries(len(head.rows))
        other_shares, visible = _shares_of_rows(head, rows, self.segments.groups)
        counts = self._is_other & (visible == [*map(len, self.segments.groups)])
        with np.errstate(invalid="ignore"):
            others = (other_shares * counts).sum(0) / counts.sum(0)
        return shares, evens, others

    @cached_property
    def _is_other(self) -> Bool[np.ndarray, "query segment"]:
        """Which of the measured rows are other tokens for which segment: not in it, not asked
        about, and not written by the model."""
        count = len(self.heads[0].rows)
        prompt = count if self.trace.prompt is None else self.trace.prompt
        number_of = self._number_of_token if self.heads[0].reads_itself else {}
        places = range(count)[sampled_queries(count)]
        is_counted = np.array([each < prompt and each not in self.queries for each in places])
        numbers = np.array([number_of.get(place, -1) for place in places])
        is_elsewhere = numbers[:, None] != np.array(self.segments.numbers)
        return np.asarray(is_counted[:, None] & is_elsewhere)

    @cached_property
    def _number_of_token(self) -> dict[int, int]:
        text = self.text_segments
        pairs = zip(text.numbers, text.groups, strict=True)
        return {token: number for number, group in pairs for token in group}

    def link(self, query: int, head: int, segment: int) -> SegmentLink:
        """Return what a query reads of a segment in a head, all by their indices."""
        shares, evens, others = self.tables
        return SegmentLink(
            name=self.heads[head].name,
            head=head,
            query=query,
            segment=segment,
            share=float(shares[query, head, segment]),
            even=float(evens[query, head, segment]),
            others=float(others[head, segment]),
        )

    @cached_property
    def links(self) -> tuple[tuple[SegmentLink, ...], ...]:
        """For each query the segment of each head that it reads most above its base rate, the
        clearest first; none where it sees no segment but those that are not asked about."""
        shares, evens, others = self.tables
        bases = np.where(np.isnan(others), 1, np.fmax(evens, others))
        excesses = (shares - bases) / np.maximum(1 - bases, LEAST_ROOM)
        links = []
        for query, own in enumerate(self.own_segments):
            visible = np.flatnonzero(evens[query].any(axis=0)).tolist()
            candidates = [index for index in visible if index not in own]
            best = excesses[query][:, candidates].argmax(1) if candidates else ()
            of_heads = [
                self.link(query, head, candidates[index]) for head, index in enumerate(best)
            ]
            links.append(tuple(sorted(of_heads, key=lambda link: -link.excess)))
        return tuple(links)

    @cached_property
    def clearest(self) -> SegmentLink | None:
        """The link furthest above its base rate, of all queries, heads and segments."""
        firsts = [links[0] for links in self.links if links]
        return max(firsts, key=lambda link: link.excess, default=None)

    @property
    def query(self) -> int:
        """The index of the query that is shown where there are several."""
        return 0 if self.clearest is None else self.clearest.query

    def mean_shares(self, query: int) -> Float[np.ndarray, "segment"]:
        return np.asarray(self.tables[0][query].mean(axis=0))

    @cached_property
    def layer_shares(self) -> dict[int, Float[np.ndarray, "segment"]]:
        """The mean share of each segment over the heads of each layer, of the query shown."""
        rows: dict[int, list[np.ndarray]] = {}
        for head, shares in zip(self.heads, self.tables[0][self.query], strict=True):
            rows.setdefault(head.layer.layer, []).append(shares)
        return {layer: np.mean(shares, axis=0) for layer, shares in rows.items()}

    def effect_without(self, name: int | str) -> HiddenEffect:
        """Return how the output changes at the query shown if no head of these reads a segment
        there; refuse a name that no segment has."""
        from attnviz.analysis.inspection.effects import measure_hidden_keys

        heads = [(head.layer.layer, head.number) for head in self.heads]
        keys = self.segments.groups[self.segment_named(name)]
        hidden = HiddenKeys(self.queries[self.query], keys, heads)
        return measure_hidden_keys(self.trace, str(name), hidden)

    def segment_named(self, name: int | str) -> int:
        """Return the index of the segment with a name or a number; refuse what none or several
        have."""
        numbers = [*map(str, self.segments.numbers)]
        matches = [index for index, label in enumerate(self.segments.labels) if label == str(name)]
        if not matches and not self.text_segments.is_named and str(name) in numbers[1:]:
            matches = [numbers.index(str(name))]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise AttnvizError(
                f"'{name}' are {len(matches)} segments",
                f"give the number of one: {opt.without_segment:{numbers[matches[0]]}}",
                about="without_segment",
            )
        raise unknown_name_error(
            "segment", str(name), self.segments.labels, about="without_segment"
        )

    def passage_token(self, link: SegmentLink) -> int | None:
        """Return the token of a link's segment that is read most; None if all are near the query,
        where many heads read whatever is there."""
        head, query = self.heads[link.head], self.queries[link.query]
        row = head.cells.row(query).values[0]
        near = range(query - NEARBY_TOKENS + 1, query + 1) if head.reads_itself else ()
        tokens = [token for token in self.segments.groups[link.segment] if token not in near]
        return max(tokens, key=lambda token: float(row[token]), default=None)


def _shares_of_rows(
    head: Head, rows: slice, groups: Groups
) -> tuple[Float[np.ndarray, "query segment"], Float[np.ndarray, "query segment"]]:
    """Return the sum of the weights on each group of keys, and how many of its keys are visible.

    What a model gives to no key, but to a score of its own, goes to the first group, the sink.
    """
    patch = head.cells.window(rows, FULL_SLICE)
    members = np.concatenate(groups)
    each_row = tuple((row,) for row in range(len(patch.values)))
    shares = sum_groups(patch.values[:, members].astype(np.float64), each_row, groups)
    visible = sum_groups(~patch.hidden[:, members], each_row, groups)
    totals = patch.values.sum(1, dtype=np.float64)
    shares[:, 0] += np.where(totals > 0, np.maximum(1 - totals, 0), 0)
    return shares, visible


def read_segments(
    trace: Trace, heads: tuple[Head, ...], chosen: str | Mapping[str, Any], query: int | None
) -> SegmentReading:
    """Return what a token reads of the segments; by default the last one, or each that came before
    one that the model wrote."""
    all_heads = maps_of_heads(trace, InspectOptions())
    if random_weight_sources(trace):
        raise AttnvizError(
            f"{opt.segments} shows what a model reads, and the numbers here are random",
            f"give a model that was trained: {opt.model:smollm2}",
            about="segments",
        )
    keys = heads[0].columns.tokens
    prompt = trace.prompt if heads[0].reads_itself else None
    segments = cut_into_segments(keys, segment_choice(chosen), prompt)
    rows = heads[0].rows.tokens
    if query is not None:
        queries: Sequence[int] = (query,)
    elif trace.prompt is not None:
        queries = range(trace.prompt - 1, len(rows) - 1)
    else:
        queries = [token for token in range(len(rows)) if token not in rows.special][-1:]
    return SegmentReading(trace, heads, all_heads, segments, tuple(queries or (len(rows) - 1,)))


def segment_choice(chosen: str | Mapping[str, Any]) -> str | NamedSegments:
    """Return a kind of segments, or those that a mapping or a TOML file names; refuse a segment
    that is neither a text nor some tokens in a row."""
    if isinstance(chosen, str) and not chosen.endswith(SEGMENTS_SUFFIX):
        return chosen
    example = "range(11, 80)"
    if isinstance(chosen, str):
        contents = toml_reader.parse(files.read_text(Path(chosen)), chosen)
        chosen, example = (
            {name: _span_of_pair(value) for name, value in contents.items()},
            "[12, 80]",
        )
    for name, value in chosen.items():
        is_span = isinstance(value, range) and value.step == 1
        if not isinstance(name, str) or not (is_span or isinstance(value, str)):
            raise AttnvizError(
                f"the segment '{name}' is {value!r}, and should be a text or some tokens",
                f'write its words, such as "It slept.", or its tokens: {example}',
                about="segments",
            )
    return dict(chosen)


def _span_of_pair(value: object) -> object:
    """Return the first and the last token of a file, from 1, as a range; any other value as it
    is."""
    if not isinstance(value, list) or [*map(type, value)] != [int, int]:
        return value
    return range(value[0] - 1, value[1])
