"""The View of a long text: maps of blocks, profiles, the most attended tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attnviz.attention.long_attention import AttentionSummary
from attnviz.cells import StoredCells, unmasked_cells
from attnviz.tokens.tokens import Tokens, piece_label
from attnviz.traces.archive import summary_contents, trace_contents
from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.long_weights import StreamedWeights
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.even_spread import (
    EVEN_NOTE,
    FINDING_RATIO,
    breadth_words,
    even_remark,
    even_words,
)
from attnviz.views.grids.axes import ALL_MASKED_TEXT, AXES_NOTE, ROW_SUM_NOTE, Axis, plain_axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.long_map import LongMap, Profile
from attnviz.views.grids.scales import bar_scale, colorless_scale, logarithmic_scale, weight_scale
from attnviz.views.grids.section import Drawable
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.headline import attention_headline
from attnviz.views.notes import heads_off_notes, random_numbers_caveat
from attnviz.views.reading import attention_head_name, token_axis
from attnviz.views.settings_line import settings_line
from attnviz.views.view import (
    HEAD_COLUMNS,
    Excerpt,
    Group,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
    head_cells,
)
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import bidi_isolated, counted

SINK_SHARE = 0.2  # of all attention, from which the first token is the finding
NEEDLE_FACTOR = 50.0  # times the mean of all keys, from which another token is the finding
NEARBY_SHARE = 0.05  # of the text, up to which half of the attention is nearby
MOST_READ, MOST_ATTENDED = 10, 20  # tokens that are listed
PASSAGE_TOKENS = 4  # on either side of a token that is listed
EQUAL_TOLERANCE = 1e-6  # of weights, relative to the larger
TABLE_ROWS = 8  # of the numbers along the text on a terminal
PROFILES = (  # what is drawn along the text: the name in a summary, in words, and the unit
    ("entropy", "entropy", "bits"),
    ("mean_distance", "distance", "tokens"),
    ("on_first", "on the first token", ""),
)
QUERY_NUMBERS = (  # of each query, in data files
    *("entropy", "largest_weight", "on_first", "on_self", "on_previous", "mean_distance"),
)
MAX_LONG_MAPS = 12  # heads of a picture with true axes; more are small maps
MORE_HINT = "(--full also shows numbers along the text, and the tokens that are read most)"
NUMBER_COLUMNS = (
    *(*HEAD_COLUMNS, "token number", "token", "received", "received if even", *QUERY_NUMBERS),
    "number of the most read token",
)


@dataclass(frozen=True, eq=False)
class LongHead:
    """One head that reads a long text, with what was measured of it."""

    trace: Trace
    layer: Layer
    head: int

    @property
    def _weights(self) -> StreamedWeights:
        weights = self.layer.weights
        assert isinstance(weights, StreamedWeights)
        return weights

    @property
    def summary(self) -> AttentionSummary:
        return self._weights.summary_of(self.head)[0]

    @property
    def map_summary(self) -> tuple[AttentionSummary, int]:
        """A summary with the map of this head, and the number that the head has in it."""
        return self._weights.map_of(self.head)

    @property
    def name(self) -> str:
        """The name of the head; empty for the only one, but for that of a trained model."""
        if self.trace.trained is not None:
            return format_head_id(self.layer.layer, self.head)
        is_only = self.layer.heads == 1 and len(self.trace.attention_layers) == 1
        return "" if is_only else attention_head_name(self.trace, self.layer, self.head)

    @property
    def keys(self) -> Tokens:
        return self.trace.keys_of(self.layer)

    def numbers(self, name: str) -> Float[np.ndarray, "token"]:
        summary, index = self._weights.summary_of(self.head)
        return tensor_to_numpy(getattr(summary, name)[index]).astype(float)

    @cached_property
    def received(self) -> Float[np.ndarray, "key"]:
        """How much attention each key receives: the sum of its column."""
        return self.numbers("received")

    @cached_property
    def most_read(self) -> list[int]:
        order = np.argsort(-self.received, kind="stable")[:MOST_READ]
        return [int(position) for position in order]

    @cached_property
    def even_received(self) -> Float[np.ndarray, "key"]:
        """The same if each query attended evenly to all keys that the mask lets it attend to."""
        rule, device = self.layer.mask_rule.for_head(self.head), self.layer.inputs.device
        return tensor_to_numpy(rule.readers(*self.layer.size, device)[1]).astype(float)

    def received_share(self, position: int) -> float:
        return float(self.received[position] / max(self.received.sum(), 1e-30))

    def even_share(self, position: int) -> float:
        return float(self.even_received[position] / max(self.even_received.sum(), 1e-30))

    def received_words(self, position: int) -> str:
        """Return how what a key receives compares with an even spread."""
        return even_words(self.received_share(position), self.even_share(position))

    @cached_property
    def finding(self) -> str:
        """A sentence on what stands out: a token that much attention goes to, how near it stays,
        or how widely it is spread.
        """
        if not self.received.any():
            return "every key is masked, so no token attends to any"
        top, count = self.most_read[0], len(self.received)
        if count == 1:
            return f"{quoted_label(self.keys, 0)} is the only token, and receives all attention"
        tokens, share = counted_text(len(self.trace.tokens)), self.received_share(top)
        is_much = self.received[top] >= NEEDLE_FACTOR * self.received.mean() or (
            top == 0 and share >= SINK_SHARE
        )
        if is_much and share >= FINDING_RATIO * self.even_share(top):
            label = quoted_label(self.keys, top)
            token = f"{label}, token {top + 1:,}," if top else f"the first token, {label},"
            receives = f"{token} receives {percent_text(share)} of the attention of {tokens}"
            return f"{receives}, {self.received_words(top)}"
        distance, near_share = self._near_half()
        even_near = self._even_share_within(distance)
        if distance <= NEARBY_SHARE * count and near_share >= FINDING_RATIO * even_near:
            near = f"goes to tokens at most {distance:,} away"
            near = near if distance else "stays on the token itself"
            goes = f"{percent_text(near_share)} of the attention of {tokens} {near}"
            return f"{goes}, {even_words(near_share, even_near)}"
        entropies = self.numbers("entropy"), self.even_entropy
        broad, allowed = (float(2 ** each.mean()) for each in entropies)
        return f"attention is {breadth_words(broad, allowed, count)}"

    @cached_property
    def visible_counts(self) -> Int[np.ndarray, "query"]:
        """How many keys the mask lets each query attend to."""
        return tensor_to_numpy(self.layer.visible_counts(self.head))

    @property
    def even_entropy(self) -> Float[np.ndarray, "query"]:
        """The entropy of each row, in bits, if it were even over the keys that the mask allows."""
        bits: Float[np.ndarray, "query"] = np.log2(np.maximum(self.visible_counts, 1))
        return bits

    def _even_share_within(self, distance: int) -> float:
        """Return the share of the attention that would stay within a distance if each query
        attended evenly to all keys that the mask lets it attend to.
        """
        rule = self.layer.mask_rule.for_head(self.head)
        before, after = (
            distance if reach is None else min(reach, distance)
            for reach in (rule.before, rule.after)
        )
        near_rule = replace(rule, before=before, after=after)
        near = near_rule.visible_counts(*self.layer.size, self.layer.inputs.device)
        sees = self.visible_counts > 0
        return float((tensor_to_numpy(near)[sees] / self.visible_counts[sees]).mean())

    @property
    def headline(self) -> str:
        return self.titled(self.finding)

    def titled(self, finding: str) -> str:
        """Return a sentence as a title, after the name of one of several heads."""
        text = ": ".join(filter(None, (self.name, finding)))
        return f"{text[:1].upper()}{text[1:]}"

    @property
    def findings(self) -> tuple[str, ...]:
        """The finding, and if it is none on a token, the token that is read most, unless several
        tie.
        """
        if not self.received.any() or quoted_label(self.keys, self.most_read[0]) in self.finding:
            return (self.finding,)
        top, *others = self.most_read
        if any(np.isclose(self.received[others[:1]], self.received[top], rtol=EQUAL_TOLERANCE)):
            return (self.finding,)
        return self.finding, f"read most: {self._named(top)}, {self.received_words(top)}"

    def _near_half(self) -> tuple[int, float]:
        """Return the smallest measured distance within which half of the attention stays, and the
        share that does.
        """
        masses = self.numbers("by_distance")
        shares = masses.cumsum() / max(masses.sum(), 1e-30)
        index = min(int(np.searchsorted(shares, 0.5)), len(shares) - 1)
        assert self.summary.distance_edges is not None  # a summary has statistics
        return self.summary.distance_edges[index + 1] - 1, float(shares[index])

    def map_grid(self, *, log: bool) -> Grid:
        summary, index = self.map_summary
        hidden = tensor_to_numpy(head_mask(index, summary.hidden))
        cells = StoredCells(tensor_to_numpy(summary.pooled[index]).astype(float), hidden)
        scale = weight_scale(cells)
        height, width = summary.row_height, summary.column_width
        block = f"{height:,} × {width:,} tokens"
        is_mean = summary.pool == "mean"
        how = "weights summed over keys, averaged over queries" if is_mean else "the largest weight"
        return Grid(
            title=self.name,
            rows=block_axis("query (reads)", self.trace.tokens, height),
            columns=block_axis("key (is read)", self.keys, width),
            cells=cells,
            scale=logarithmic_scale(scale, cells.shape[1]) if log else scale,
            note=" · ".join([AXES_NOTE, *[ROW_SUM_NOTE] * (is_mean and do_rows_sum_to_one(cells))]),
            share=is_mean,
            off=(True,) * cells.shape[0] if self.head in self.layer.off else (),
            pool_note=f"one cell = {block}: {how}" if height * width > 1 else "",
            cell_size=(height, width),
        )

    def profiles(self) -> tuple[Profile, ...]:
        """Return the means of what was measured of the queries of each row of the map."""
        height = self.summary.row_height
        return tuple(
            Profile(words, unit, block_means(self.numbers(name), height))
            for name, words, unit in PROFILES
        )

    def long_map(self, paragraphs: tuple[int, ...], *, log: bool) -> LongMap:
        return LongMap(
            grid=self.map_grid(log=log),
            row_tokens=range(len(self.trace.tokens)),
            column_tokens=range(len(self.keys)),
            profiles=self.profiles(),
            paragraphs=paragraphs,
        )

    def most_read_bars(self) -> RankedBars:
        """Return the tokens that receive the most attention as bars, each with its passage."""
        shares = [self.received_share(position) for position in self.most_read]
        evens = [self.even_share(position) for position in self.most_read]
        title = self._titled("share of all attention received")
        return token_bars(self.keys, title, "share", self.most_read, shares, evens)

    def row(self, query: int) -> Float[np.ndarray, "key"]:
        """Return the exact weights of one query."""
        patch = self.layer.weights.cells("mixing", self.head).row(query)
        weights: Float[np.ndarray, "key"] = patch.values[0].astype(float)
        return weights

    def even_row(self, query: int) -> Float[np.ndarray, "key"]:
        """Return the weights of one query if it attended evenly to all keys that it sees."""
        visible = ~self.layer.weights.cells("mixing", self.head).row(query).hidden[0]
        even: Float[np.ndarray, "key"] = visible / max(1, visible.sum())
        return even

    def row_finding(self, query: int) -> str:
        """Return a sentence on the key that a query attends to most, or those that tie for it."""
        weights = self.row(query)
        top = int(weights.argmax())
        ties = int(np.isclose(weights, weights[top], rtol=EQUAL_TOLERANCE, atol=0).sum())
        token = f"{quoted_label(self.trace.tokens, query)} (token {query + 1:,})"
        share = percent_text(float(weights[top]), 1)
        if not weights[top]:
            return f"{token} attends to {ALL_MASKED_TEXT}"
        even = even_words(float(weights[top]), float(self.even_row(query)[top]))
        if ties > 1:
            return f"{token} attends most to {counted_text(ties)}, equally: {share} each, {even}"
        name = "itself" if top == query and self.keys is self.trace.tokens else self._named(top)
        return f"{token} attends most to {name}: {share}, {even}"

    def row_bars(self, query: int) -> RankedBars:
        """Return the keys that a query attends to most as bars, each with its passage."""
        title = self._titled(f"what {quoted_label(self.trace.tokens, query)} attends to")
        return attended_bars(self.keys, title, self.row(query), self.even_row(query))

    def row_table(self, query: int) -> Grid:
        """Return how much of a query's attention goes to each part of the text, as a table."""
        rows = np.stack([self.row(query), self.even_row(query)], axis=1)
        size = -(-len(rows) // TABLE_ROWS)
        sums = np.add.reduceat(rows, np.arange(0, len(rows), size))
        return Grid(
            title=" · ".join(filter(None, ("sums along the text", self.name))),
            rows=block_axis("keys", self.keys, size),
            columns=plain_axis("sum", ["weight", "if even"]),
            cells=unmasked_cells(sums),
            scale=colorless_scale("weight"),
            decimals=3,
        )

    def _named(self, position: int) -> str:
        return f"{quoted_label(self.keys, position)} (token {position + 1:,})"

    def _titled(self, title: str) -> str:
        return " · ".join(filter(None, (title, self.name)))

    def profile_table(self) -> Grid:
        """Return the profiles as a table with a few rows, for a terminal."""
        tokens = len(self.trace.tokens)
        size = -(-tokens // TABLE_ROWS)
        columns = [block_means(self.numbers(name), size) for name, *_ in PROFILES]
        names = [Profile(words, unit, column).title
                 for (_, words, unit), column in zip(PROFILES, columns, strict=True)]  # fmt: skip
        columns.insert(1, block_means(self.even_entropy, size))
        names.insert(1, "if even")
        return Grid(
            title=" · ".join(filter(None, ("means along the text", self.name))),
            rows=block_axis("queries", self.trace.tokens, size),
            columns=plain_axis("measure", names),
            cells=unmasked_cells(np.stack(columns, axis=1)),
            scale=colorless_scale("measure"),
            decimals=2,
        )


def attended_bars(
    keys: Tokens,
    title: str,
    weights: Float[np.ndarray, "key"],
    evens: Float[np.ndarray, "key"],
    most: int = MOST_ATTENDED,
) -> RankedBars:
    """Return the keys with the largest weights as bars, each with its passage."""
    order = np.argsort(-weights, kind="stable")[:most]
    chosen = [int(position) for position in order if weights[position] > 0]
    values = weights[chosen].tolist(), evens[chosen].tolist()
    return token_bars(keys, title, "weight", chosen, *values)


def token_bars(
    tokens: Tokens,
    title: str,
    measure: str,
    positions: Sequence[int],
    values: Sequence[float],
    evens: Sequence[float],
) -> RankedBars:
    """Return tokens as bars, each with its passage, and with how many times the value it has that
    even attention would give (`evens`).
    """
    numbers = tuple(f"{position + 1:,}" for position in positions)
    labels = tuple(label_at(tokens, position) for position in positions)
    cells = unmasked_cells(np.array(values)[:, None])
    grid = Grid(
        title=title,
        rows=Axis("token", "token", labels, numbers, (False,) * len(positions)),
        columns=plain_axis(measure, [measure]),
        cells=cells,
        scale=replace(bar_scale(cells), label=measure),
        note=EVEN_NOTE if positions else "",
    )
    remarks = (
        f"{even_remark(value, even)} · {passage(tokens, position)}"
        for position, value, even in zip(positions, values, evens, strict=True)
    )
    return RankedBars(grid, tuple(remarks))


def without_passages(groups: Sequence[Group]) -> list[Group]:
    """Return groups whose rankings, where there are several, have no passages beside their bars:
    side by side they have no room for them. How they compare with an even spread stays.
    """
    rankings = [each for group in groups for each in group.panels if isinstance(each, RankedBars)]
    if len(rankings) < 2:
        return [*groups]
    shorten = partial(_without_passages, sign="× even" if len(rankings) == 2 else "×")
    return [replace(group, panels=tuple(map(shorten, group.panels))) for group in groups]


def _without_passages(panel: Drawable, sign: str) -> Drawable:
    """Return a ranking whose remarks are ratios alone, such as `3.0 ×`; any other panel as it is.

    `sign`: how much of `× even` there is room for.
    """
    if not isinstance(panel, RankedBars):
        return panel
    remarks = (each.partition(" · ")[0].replace("× even", sign) for each in panel.remarks)
    grid = replace(panel.grid, note=panel.grid.note.replace("× even", sign, 1))
    return replace(panel, grid=grid, remarks=tuple(remarks))


def counted_text(tokens: int) -> str:
    """Return a number of tokens with commas: `131,072 tokens`."""
    return counted(tokens, "token").replace(str(tokens), f"{tokens:,}")


def label_at(tokens: Tokens, position: int) -> str:
    """Return the label of one token, without making those of all tokens."""
    return tokens.words[position] if tokens.words else piece_label(tokens.pieces[position])


def quoted_label(tokens: Tokens, position: int) -> str:
    return f'"{bidi_isolated(label_at(tokens, position))}"'


def passage(tokens: Tokens, position: int) -> str:
    """Return the labels of a token and of those around it, its own in brackets."""
    positions = range(len(tokens))[
        max(0, position - PASSAGE_TOKENS) : position + PASSAGE_TOKENS + 1
    ]
    text = ""
    for each in positions:
        label = label_at(tokens, each)
        text += " " * tokens.spaced[each] + (f"[{label}]" if each == position else label)
    return f"{'…' * (positions.start > 0)}{text.strip()}{'…' * (positions.stop < len(tokens))}"


def paragraph_starts(tokens: Tokens) -> tuple[int, ...]:
    """Return the positions, from 0, at which paragraphs begin: after an empty line, or in a text
    without empty lines after each line break. The first token counts where there are others.
    """
    by_breaks: dict[int, list[int]] = {1: [], 2: []}
    breaks = 0
    for position, piece in enumerate(tokens.pieces):
        if piece.strip():
            for least, starts in by_breaks.items():
                if breaks >= least:
                    starts.append(position)
            breaks = 0
        breaks += piece.count(b"\n")
    starts = by_breaks[2] or by_breaks[1]
    return (0, *starts) if starts else ()


def block_axis(title: str, tokens: Tokens, size: int) -> Axis:
    """Return an axis of blocks of `size` tokens, each named by the numbers of its tokens; labels
    are made only for blocks of one token.
    """
    if size == 1:
        return token_axis(title, tokens)
    firsts = range(1, len(tokens) + 1, size)
    spans = ((first, min(first + size - 1, len(tokens))) for first in firsts)
    numbers = tuple(f"{first}–{last}" if last > first else str(first) for first, last in spans)
    nothing = (False,) * len(firsts)
    return Axis(title, "token", ("",) * len(firsts), numbers, nothing, special=nothing)


def block_means(values: Float[np.ndarray, "token"], size: int) -> Float[np.ndarray, "row"]:
    """Return the mean of each block of `size` values; the last block may be smaller."""
    firsts = np.arange(0, len(values), size)
    counts = np.diff(np.append(firsts, len(values)))
    means: Float[np.ndarray, "row"] = np.add.reduceat(values, firsts) / counts
    return means


def long_heads(trace: Trace) -> list[LongHead]:
    """Return every head of a Trace whose weights are computed only where they are shown."""
    return [
        LongHead(trace, layer, head)
        for layer in trace.attention_layers
        for head in range(layer.heads)
    ]


def view_long(
    trace: Trace, query: int | str | None = None, *, log: bool = False, as_: str | None = None
) -> View:
    """Return the View of a Trace whose weights are computed only where they are shown; with a
    query, of its exact row. `as_` "terminal": an .svg shows what a terminal shows.
    """
    heads = long_heads(trace)
    settings, caveat = settings_line(trace), random_numbers_caveat(trace, ("weights",))
    excerpt, typed, position = None, None, None
    if query is None:
        headline = heads[0].headline
        screen, picture = map_groups(heads, log=log)
        excerpt = Excerpt(tuple(screen[:1]), MORE_HINT)
    else:
        position = trace.tokens.index(query, "query")
        finding, typed = heads[0].row_finding(position), trace.tokens.as_typed(query)
        headline = heads[0].titled(finding)
        picture = [Group("readings", tuple(head.row_bars(position) for head in heads))]
        tables = [Group("along the text", tuple(head.row_table(position) for head in heads))]
        screen = [*picture, *tables]
    return View(
        title=attention_headline(trace),
        headline=headline,
        settings=settings,
        screen=build_page(screen, settings, caveat),
        picture=build_page(without_passages(picture), settings, caveat),
        excerpt=excerpt,
        closing=heads_off_notes(trace),
        as_screen=as_ == "terminal",
        head_explorer=lambda: explore_maps(heads, position, log=log),
        data=long_text_data(trace, heads),
        provenance=trace.provenance,
        command=source_command("run", build_source(trace), query=typed, log=log or None, as_=as_),
    )


def map_groups(heads: Sequence[LongHead], *, log: bool) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, numbers along the text of a single
    head, and what is read most.
    """
    grids = Group("weights", tuple(head.map_grid(log=log) for head in heads))
    most_read = Group("most read", (heads[0].most_read_bars(),))
    if len(heads) > MAX_LONG_MAPS:
        return [grids, most_read], [grids]
    if len(heads) > 1:
        return [grids, most_read], _several_maps(heads, log=log)
    paragraphs = paragraph_starts(heads[0].keys)
    picture = [Group("weights", (heads[0].long_map(paragraphs, log=log),))]
    return [grids, Group("along the text", (heads[0].profile_table(),)), most_read], picture


def _several_maps(heads: Sequence[LongHead], *, log: bool) -> list[Group]:
    """Return a group for each layer, with the long maps of its heads on one scale."""
    starts = {id(head.keys): paragraph_starts(head.keys) for head in heads}
    long_maps = [head.long_map(starts[id(head.keys)], log=log) for head in heads]
    grids = with_common_scales([each.grid for each in long_maps])
    groups: dict[str, list[LongMap]] = {}
    for head, long_map, grid in zip(heads, long_maps, grids, strict=True):
        titled = replace(long_map, grid=grid, findings=head.findings)
        groups.setdefault(head.layer.name, []).append(titled)
    return [Group(f"weights {name}", tuple(maps)) for name, maps in groups.items()]


def explore_maps(heads: Sequence[LongHead], query: int | None = None, *, log: bool) -> HeadExplorer:
    """Return the maps of all heads, for a reader of a page to choose from; the row with a query is
    followed."""
    explored = []
    for head in heads:
        grid = head.map_grid(log=log)
        queries = axis_of_words(grid.rows)
        reads_itself = head.keys is head.trace.tokens  # then both sides are one
        head_map = HeadMap(
            name=attention_head_name(head.trace, head.layer, head.head),
            query_axis=queries,
            key_axis=queries if reads_itself else axis_of_words(grid.columns),
            weights=grid.cells,
            share=grid.share,
        )
        explored.append((head.layer.name, f"H{head.head}", head_map))
    note = " · ".join(filter(None, (AXES_NOTE, grid.pool_note)))
    row = None if query is None else query // heads[0].summary.row_height
    return arrange_heads(explored, query=row, log=log, note=note)


def axis_of_words(axis: Axis) -> Axis:
    """Return an axis whose blocks are words, as a page writes them one after another."""
    if any(axis.labels):
        return axis
    count = len(axis)
    spaced = (True,) * count
    return replace(axis, unit="block", labels=axis.numbers, numbers=("",) * count, spaced=spaced)


def long_text_data(trace: Trace, heads: Sequence[LongHead]) -> TableData:
    """Return the maps and the numbers of each token as data, with a line of the table for each
    token of each head.
    """
    return TableData(
        "long-text",
        partial(_contents, trace, heads),
        NUMBER_COLUMNS,
        partial(_token_lines, trace, heads),
    )


def _contents(trace: Trace, heads: Sequence[LongHead]) -> Mapping[str, Any]:
    """Return everything that was measured as JSON data with arrays."""
    by_layer: dict[str, list[LongHead]] = {}
    for head in heads:
        is_alone = len(head.summary.contexts) < head.layer.heads
        by_layer.setdefault(head.name if is_alone else head.layer.name, []).append(head)
    if trace.trained is None:
        contents = trace_contents(trace)
    else:  # whose vectors are not kept
        contents = {"text": trace.tokens.text, "tokens": {"ids": np.array(trace.tokens.ids)}}
    return {
        **contents,
        "tokens": {**contents["tokens"], "count": len(trace.tokens)},
        "paragraphs": np.array(paragraph_starts(trace.tokens)),
        "maps": {
            name: {
                **summary_contents(measured[0].summary),
                "received_if_even": np.stack([head.even_received for head in measured]),
            }
            for name, measured in by_layer.items()
        },
    }


def _token_lines(trace: Trace, heads: Sequence[LongHead]) -> Iterator[TableLines]:
    """Yield the table lines of each head: what each token receives, and what its row is like."""
    numbers = tuple(str(number) for number in range(1, len(trace.tokens) + 1))
    words = WordColumns((numbers, trace.tokens.labels))
    for head in heads:
        most_read = head.numbers("largest_position") + 1
        reads_itself = head.keys is trace.tokens
        unknown = np.full(len(trace.tokens), np.nan)
        received = (head.received, head.even_received) if reads_itself else (unknown, unknown)
        columns = (*received, *(head.numbers(name) for name in QUERY_NUMBERS), most_read)
        yield TableLines(head_cells(head.layer.head_name(head.head)), words, columns)
