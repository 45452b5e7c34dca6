"""The View of the attention that each token receives: coloured text, the top tokens.

Sums of columns are compared with those of an even spread, because a mask gives some tokens more
readers than others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.cells import StoredCells, unmasked_cells
from attnviz.errors import AttnvizError, opt
from attnviz.heads.head import EQUAL_TOLERANCE, Head
from attnviz.heads.side import Side, token_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.drawing_ways import RECEIVED_RULES
from attnviz.views.even_spread import FINDING_RATIO, SAME_RATIO, even_words, ratio_to_even
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import MAX_FULL_SCALE_KEYS, Scale, round_up, widest_scale
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.heads.bars import MOST_READ, bars_with_words, token_bars, without_passages
from attnviz.views.heads.data import token_columns
from attnviz.views.heads.grid import side_axis, whole_heads
from attnviz.views.heads.passages import (
    counted_text,
    paragraph_starts,
    quoted_label,
    running_text,
    tokens_around,
)
from attnviz.views.notes import heads_off_notes
from attnviz.views.trace_choices import TraceChoices, shared_fields
from attnviz.views.view import HEAD_COLUMNS, Excerpt, Group, TableData, TableLines, View, head_cells
from attnviz.wording.numbers import significant_text
from attnviz.wording.printable import PERCENT
from attnviz.wording.rules import check_rules

MAX_HEADS = 4  # heads that are shown one by one; of more, their mean
MAX_TEXT_TOKENS = 5000  # a longer text is shown in excerpts
COLUMN_TOKENS = 600  # of a picture, in which a text stands in columns or on pages
EXCERPTS, EXCERPT_TOKENS = 3, 60  # of a long text; tokens on either side of one read most
SCREEN_TOKENS = 20  # the same on a screen without room for the text
PASSAGES, FIRST_TOKENS = 10, 8  # that a long text is divided into; tokens that name one
COLOR_QUANTILE = 0.98  # of all shares; the end of the scale of colours
TEXT_DIGITS = 4  # of the numbers of a page's tokens
MEASURE = "% of all attention"
TOKEN_MEASURE = "% of the attention to tokens"  # where a sink, which is no token, takes a part
COLUMNS = (
    *(*HEAD_COLUMNS, "token number", "token", "received", "share"),
    *("readers", "mean weight", "share if even"),
)


@dataclass(frozen=True, eq=False)
class ReceivedAttention:
    """How much attention the tokens of a text receive, in one head or on average in several."""

    name: str  # `head 1`, `mean of 72 heads`; empty for the only head
    table_name: str  # in a data file: `L0H1`, `mean of 72 heads`
    tokens: Tokens
    sums: Float[np.ndarray, "key"]  # of columns of weights
    readers: Float[np.ndarray, "key"]  # queries that may attend to each token
    even_sums: Float[np.ndarray, "key"]  # the sums if each query attended evenly
    has_sink: bool
    is_off: bool

    @cached_property
    def shares(self) -> Float[np.ndarray, "key"]:
        return self.sums / (self.sums.sum() or 1.0)

    @cached_property
    def even_shares(self) -> Float[np.ndarray, "key"]:
        return self.even_sums / (self.even_sums.sum() or 1.0)

    @cached_property
    def most_read(self) -> list[int]:
        order = np.argsort(-self.shares, kind="stable")[:MOST_READ]
        return [int(position) for position in order if self.shares[position] > 0]

    @property
    def is_long(self) -> bool:
        return len(self.tokens) > MAX_TEXT_TOKENS

    @property
    def measure(self) -> str:
        """What the shares are shares of, in percent."""
        return TOKEN_MEASURE if self.has_sink else MEASURE

    @cached_property
    def scale(self) -> Scale:
        """The scale of colours: to a round number, which in long texts a few tokens exceed."""
        percents = 100 * self.shares
        largest = high = float(percents.max(initial=0))
        if largest and len(percents) > MAX_FULL_SCALE_KEYS:
            high = float(np.quantile(percents[percents > 0], COLOR_QUANTILE))
        high = round_up(high)
        return Scale(self.measure, 0.0, high, is_exceeded=largest > high * (1 + EQUAL_TOLERANCE))

    @cached_property
    def named_token(self) -> int:
        """The token of the title: the one that receives most; or, if that is no finding because the
        mask alone gives it nearly as much, the one most above even among those read most."""
        top = self.most_read[0]
        if self._ratio(top) >= FINDING_RATIO:
            return top
        return max(self.most_read, key=self._ratio)

    def _ratio(self, position: int) -> float:
        """Return how many times an even spread a token receives; infinity if that is nothing."""
        ratio = ratio_to_even(float(self.shares[position]), float(self.even_shares[position]))
        return math.inf if ratio is None else ratio

    @cached_property
    def finding(self) -> str:
        """A sentence on the token that receives most, or on those that tie for it; or, if the mask
        alone gives it nearly as much, on the one most above even among those read most."""
        if not self.most_read:
            return "every key is masked, so no token receives attention"
        top, count = self.named_token, len(self.tokens)
        if count == 1:
            return f"{quoted_label(self.tokens, 0)} is the only token, and receives all attention"
        share = f"{received_text(float(self.shares[top]))} {self.measure.removeprefix('% ')}"
        largest = self.shares[self.most_read[0]]
        ties = int(np.isclose(self.shares, largest, rtol=EQUAL_TOLERANCE, atol=0).sum())
        if ties == count:
            return f"all {counted_text(count)} receive the same: {share} each"
        if np.allclose(self.shares, self.even_shares, rtol=SAME_RATIO, atol=0):
            return "every token receives about as much as with an even spread"
        if self._ratio(top) < FINDING_RATIO:
            read = len(self.most_read)
            none = f"none of the {read} tokens that are read most" if read < count else "no token"
            return f"{none} receives as much as {FINDING_RATIO} times an even spread"
        even = even_words(float(self.shares[top]), float(self.even_shares[top]))
        if ties > 1 and top == self.most_read[0]:
            return f"{counted_text(ties)} receive most, equally: {share} each, {even}"
        token = f"{quoted_label(self.tokens, top)} (token {top + 1:,})"
        if top == self.most_read[0]:
            return f"{token} receives most: {share}, {even}"
        return f"{token} receives {even}: {share}"

    @cached_property
    def readers_note(self) -> str:
        """A sentence on how many queries may attend to each token; empty for a single token."""
        low, high = self.readers.min(), self.readers.max()
        if len(self.tokens) == 1:
            return ""
        if low == high:
            even = received_text(1 / len(self.tokens))
            return f"every token has the same {low:,.0f} readers; an even spread gives each {even}"
        if (np.diff(self.readers) <= 0).all():
            numbers = f"token 1 has {high:,.0f}, the last {low:,.0f}"
            return f"under this mask earlier tokens have more readers: {numbers}"
        return f"under this mask some have more readers: a token has {low:,.0f} to {high:,.0f}"

    def ranking(self) -> RankedBars:
        """Return the tokens that receive the most as bars, each with its passage."""
        shares = (each[self.most_read].tolist() for each in (self.shares, self.even_shares))
        title = self._title(f"read most: {self.measure}")
        return self._in_percent(
            token_bars(self.tokens, title, self.measure, self.most_read, *shares)
        )

    def passages(self) -> RankedBars:
        """Return how much the parts of the text receive as bars, in the order of the text."""
        spans = text_parts(self.tokens)
        numbers = tuple(f"{span[0] + 1:,}–{span[-1] + 1:,}" for span in spans)
        rows = Axis("tokens", "part", ("",) * len(spans), numbers, (False,) * len(spans))
        beginnings = [
            f"{running_text(self.tokens, span[:FIRST_TOKENS]).strip()}…" for span in spans
        ]
        sums = ([float(each[span.start : span.stop].sum()) for span in spans]
                for each in (self.shares, self.even_shares))  # fmt: skip
        title = self._title(f"along the text: {self.measure}")
        return self._in_percent(bars_with_words(title, self.measure, rows, beginnings, *sums))

    def _title(self, title: str) -> str:
        return " · ".join(filter(None, (title, self.name)))

    def _in_percent(self, bars: RankedBars) -> RankedBars:
        """Return bars of shares as bars of percents."""
        percents = 100 * bars.grid.values
        grid = replace(
            bars.grid,
            cells=unmasked_cells(percents),
            scale=Scale(self.measure, 0.0, round_up(float(percents.max(initial=0)))),
            decimals=_decimals(percents),
            off=(True,) * len(percents) if self.is_off else (),
        )
        return replace(bars, grid=grid)

    def text(self, positions: range, scale: Scale, *, is_whole: bool = False) -> Sentence:
        """Return some tokens as text, coloured by what each receives."""
        side = Side(self.tokens, positions)
        numbers = tuple(f"{position + 1:,}" for position in positions)
        percents = 100 * self.shares[None, side.as_slice]
        hidden = (self.readers[None, side.as_slice] == 0) & (percents == 0)
        grid = Grid(
            title=self._title("" if is_whole else f"tokens {numbers[0]}–{numbers[-1]}"),
            rows=plain_axis("head", [self.name]),
            columns=replace(side_axis("token", side), numbers=numbers),
            cells=StoredCells(percents, hidden),
            scale=scale,
            decimals=_decimals(percents, TEXT_DIGITS),
            off=(True,) if self.is_off else (),
        )
        return Sentence(grid, None, has_bars=False, is_whole_text=True)

    def excerpts(self) -> list[range]:
        """Return the parts of a long text around what is read most, in the order of the text."""
        spans: list[range] = []
        for position in self.most_read:
            span = tokens_around(self.tokens, position, EXCERPT_TOKENS)
            near = [each for each in spans if each.start < span.stop and span.start < each.stop]
            if near or len(spans) < EXCERPTS:
                joined = [span, *near]
                first, last = min(each.start for each in joined), max(each.stop for each in joined)
                spans = [each for each in spans if each not in near] + [range(first, last)]
        return sorted(spans, key=lambda each: each.start)

    def columns(self) -> list[range]:
        """Return the parts of a text that stand in columns of a picture."""
        count = len(self.tokens)
        size = -(-count // -(-count // COLUMN_TOKENS))
        return Side(self.tokens, range(count), size).blocks


def view_received(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of how much attention each token receives.

    Up to MAX_HEADS heads are shown one by one, and of more their mean.
    """
    check_rules(choices, RECEIVED_RULES)
    received = received_attention(trace)
    strongest = max(received, key=lambda each: each.shares.max(initial=0))
    finding = ": ".join(filter(None, (strongest.name, strongest.finding)))
    rankings = Group("most read", tuple(each.ranking() for each in received if each.most_read))
    scale = widest_scale([each.scale for each in received])
    screen, picture = _text_groups(received, scale)
    top = strongest.named_token if strongest.most_read else 0
    near = range(max(top - SCREEN_TOKENS, 0), min(top + SCREEN_TOKENS, len(strongest.tokens)))
    is_long = any(each.is_long for each in received)
    more = "more of the text, and what its parts receive"
    hint = f"(--full {f'also shows {more}' if is_long else 'shows the whole text'})"
    notes = dict.fromkeys(each.readers_note for each in received)
    groups, options = [rankings, *screen], {"show": "received", "as_": choices.as_}
    return View(
        **shared_fields(trace, groups, without_passages([*picture, rankings]), options),
        headline=f"{finding[:1].upper()}{finding[1:]}",
        closing=(*filter(None, notes), *heads_off_notes(trace)),
        excerpt=Excerpt((rankings, Group("text", (strongest.text(near, scale),))), hint),
        as_screen=choices.as_ == "terminal",
        data=TableData(
            "received",
            partial(_received_contents, trace, received),
            COLUMNS,
            partial(_received_lines, received),
        ),
    )


def _text_groups(
    received: Sequence[ReceivedAttention], scale: Scale
) -> tuple[list[Group], list[Group]]:
    """Return the groups with the text for a screen, and for a picture: the whole text, in a picture
    in columns, or excerpts of a long one and what its parts receive.
    """
    screen, picture, passages = list[Sentence](), list[Sentence](), list[RankedBars]()
    for each in received:
        whole = range(len(each.tokens))
        spans = each.excerpts() if each.is_long else [whole]
        columns = spans if each.is_long else each.columns()
        screen += [each.text(span, scale, is_whole=span == whole) for span in spans]
        picture += [each.text(span, scale, is_whole=span == whole) for span in columns]
        passages += [each.passages()] if each.is_long else []
    parts = [Group("along the text", tuple(passages))] if passages else []
    return [*parts, Group("text", tuple(screen))], [Group("text", tuple(picture)), *parts]


def received_attention(trace: Trace) -> list[ReceivedAttention]:
    """Return what tokens receive in each head, or if there are many the mean of the heads that read
    the same text.
    """
    heads = whole_heads(trace)
    if len(heads) <= MAX_HEADS:
        return [_received_in([head], is_only=len(heads) == 1) for head in heads]
    texts: dict[int, list[Head]] = {}
    for head in heads:
        texts.setdefault(id(head.columns.tokens), []).append(head)
    return [_received_in(readers) for readers in texts.values()]


def _received_in(heads: Sequence[Head], *, is_only: bool = False) -> ReceivedAttention:
    """Return the mean of what tokens receive in some heads that read the same text."""
    first, tokens, count = heads[0], heads[0].columns.tokens, len(heads)
    name, table_name = first.name, first.layer.head_name(first.number)
    if count > 1:
        table_name = f"mean of {count} heads"
        name = f"{table_name}{' that read the second text' * (first.layer.memory is not None)}"
    sums = readers = even_sums = np.zeros(len(tokens))
    for head in heads:  # one after another: those of all together could be large
        rule, device = head.layer.mask_rule.for_head(head.number), head.layer.inputs.device
        read, even = map(tensor_to_numpy, rule.readers(*head.layer.size, device))
        sums, readers = sums + _column_sums(head) / count, readers + read / count
        even_sums = even_sums + even / count
    return ReceivedAttention(
        name="" if is_only else name,
        table_name=table_name,
        tokens=tokens,
        sums=sums,
        readers=readers,
        even_sums=even_sums,
        has_sink=any(head.layer.attended.sink is not None for head in heads),
        is_off=count == 1 and first.is_off,
    )


def _column_sums(head: Head) -> Float[np.ndarray, "key"]:
    """Return how much each key receives; refuses negative weights, which are no shares."""
    if head.layer.long_weights is not None:
        return head.numbers("received")
    sums = np.zeros(len(head.columns.tokens))
    for band in head.table.bands():
        sums += band.values.sum(0, dtype=np.float64)
        if band.values.min(initial=0) < 0:
            raise AttnvizError(
                "some weights are negative, so that no token receives a share of them",
                f"use {opt.show:weights}",
                about="show",
            )
    return sums


def text_parts(tokens: Tokens) -> list[range]:
    """Return the text in about PASSAGES parts that begin where paragraphs do, or in parts of one
    size if it has no paragraphs.
    """
    count = len(tokens)
    size = count / PASSAGES
    starts = paragraph_starts(tokens) or range(0, count, math.ceil(size))
    bounds = [0]
    for start in starts:
        if start - bounds[-1] >= size and count - start >= size / 4:
            bounds.append(start)
    return [range(*pair) for pair in pairwise([*bounds, count])]


def received_text(share: float) -> str:
    """Return a share in percent, with two significant digits or more.

    >>> [received_text(share).replace("\\u00a0", " ") for share in (0.4123, 0.00021, 1.0)]
    ['41 %', '0.021 %', '100 %']
    """
    percents = 100 * share
    digits = f"{percents:.0f}" if percents >= 10 else significant_text(percents, 2)
    return f"{digits}{PERCENT}"


def _decimals(percents: Float[np.ndarray, "..."], digits: int = 2) -> int:
    """Return the decimals that write the largest of these with so many significant digits; with one
    more where that shows the smallest.
    """
    largest, smallest = float(percents.max(initial=0)), float(percents.min(initial=100))
    decimals = 1 if not largest else max(1, digits - 1 - math.floor(math.log10(largest)))
    return decimals + (0 < smallest < 0.5 * 10.0**-decimals)


def _received_contents(trace: Trace, received: Sequence[ReceivedAttention]) -> Mapping[str, Any]:
    return {
        "tokens": {"ids": np.array(trace.tokens.ids), "count": len(trace.tokens)},
        "received": {
            each.name or "attention": {
                "tokens": list(each.tokens.labels),
                "received": each.sums,
                "share": each.shares,
                "readers": each.readers,
                "share_if_even": each.even_shares,
            }
            for each in received
        },
    }


def _received_lines(received: Sequence[ReceivedAttention]) -> Iterator[TableLines]:
    for each in received:
        words = token_columns(token_side(each.tokens))
        means = each.sums / np.maximum(each.readers, 1)
        columns = (each.sums, each.shares, each.readers, means, each.even_shares)
        yield TableLines(head_cells(each.table_name), words, columns)
