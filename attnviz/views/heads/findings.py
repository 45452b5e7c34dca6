"""Findings on a head: what stands out in a whole text, in a part of it, in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool

from attnviz.heads.head import EQUAL_TOLERANCE, Head
from attnviz.views.conclusions.findings import (
    ComparedAmount,
    Finding,
    choose_sentence,
    finding_on,
    otherwise,
)
from attnviz.views.even_spread import FINDING_RATIO, breadth_words
from attnviz.views.grids.axes import ALL_MASKED_TEXT
from attnviz.views.heads.bars import MOST_READ
from attnviz.views.heads.grid import even_entropy
from attnviz.views.heads.passages import counted_text, quoted_label
from attnviz.views.heads.sentences import (
    ITSELF,
    attends_most,
    attends_to,
    beside_even,
    numbered_name,
    receives,
    side_text,
)
from attnviz.wording.numbers import percent_text

SINK_SHARE = 0.2  # of all attention, from which the first token is the finding
NEEDLE_FACTOR = 50.0  # times the mean of all keys, from which another token is the finding
NEARBY_SHARE = 0.05  # of the text, up to which half of the attention is nearby
MAIN_SHARE = 0.2  # of the attention of several queries: a key that receives it is the finding


def headline_of(head: Head, finding: str) -> str:
    """Return a sentence as a title, after the name of one of several heads."""
    text = ": ".join(filter(None, (head.title, finding)))
    return f"{text[:1].upper()}{text[1:]}"


def query_text(head: Head, query: int) -> str:
    return numbered_name(head.rows, query)


def key_text(head: Head, query: int, key: int) -> str:
    """Return a key as a sentence about a query names it: itself, or its label and number."""
    is_itself = query == key and head.reads_itself
    return ITSELF if is_itself else numbered_name(head.columns, key)


def whole_finding(head: Head) -> str:
    """Return a sentence on what stands out in a long text: a token that much attention goes to, how
    near it stays, or how widely it is spread.
    """
    return choose_sentence(WHOLE_FINDINGS, head)


def whole_findings(head: Head) -> tuple[str, ...]:
    """Return the finding, and if it is none on a token, the token that is read most, unless several
    tie or it receives hardly more than with an even spread.
    """
    finding, (top, *others) = whole_finding(head), head.most_read(MOST_READ)
    is_known = quoted_label(head.columns.tokens, top) in finding
    if is_known or not head.received.any() or not _exceeds_even(head):
        return (finding,)
    if any(np.isclose(head.received[others[:1]], head.received[top], rtol=EQUAL_TOLERANCE)):
        return (finding,)
    most = numbered_name(head.columns, top)
    return finding, f"read most: {most}, {_top_key_amount(head).base}"


def row_finding(head: Head) -> str:
    """Return a sentence on the keys that the only query of a head attends to most."""
    return choose_sentence(ROW_FINDINGS, head)


def part_finding(heads: Sequence[Head]) -> str:
    """Return a sentence on what stands out in a part: a key that much of the attention goes to, or
    else the largest weight; of several heads, in the one with the largest weight.
    """
    active = [each for each in heads if not each.is_off] or heads
    head = max(active, key=lambda each: each.facts.largest.max())
    where = f"in {head.name}, " if len(heads) > 1 and head.facts.visible.any() else ""
    return f"{where}{choose_sentence(PART_FINDINGS, head)}"


# Amounts beside those of an even spread


def _top_key(head: Head) -> int:
    return int(head.received_shares.argmax())


def _top_key_amount(head: Head) -> ComparedAmount:
    """Return what the key receives that receives most."""
    top = _top_key(head)
    return beside_even(float(head.received_shares[top]), float(head.even_shares[top]))


def _exceeds_even(head: Head) -> bool:
    top = _top_key(head)
    return bool(head.received_shares[top] >= FINDING_RATIO * head.even_shares[top])


def _rows_with_choice(head: Head) -> Bool[np.ndarray, "query"]:
    """Return which of the rows that see a key shown see more than one key; if none does, all."""
    sees: Bool[np.ndarray, "query"] = head.facts.visible > 0
    has_choice = sees & (head.facts.all_visible > 1)
    return has_choice if has_choice.any() else sees


def _top_row(head: Head) -> int:
    """Return the row of the largest weight, where there is a choice."""
    return int(np.where(_rows_with_choice(head), head.facts.largest, -1.0).argmax())


def _largest_amount(head: Head) -> ComparedAmount:
    row = _top_row(head)
    return beside_even(float(head.facts.largest[row]), head.even_weight(row), digits=1)


def _near_amount(head: Head) -> ComparedAmount:
    """Return how much attention stays within the distance within which half of it does."""
    distance, share = head.near_half()
    return beside_even(share, head.even_share_within(distance))


# A whole long text


def _is_needle_or_sink(head: Head) -> bool:
    top = _top_key(head)
    is_sink = top == 0 and head.received_shares[top] >= SINK_SHARE
    stands_out = is_sink or head.received[top] >= NEEDLE_FACTOR * head.received.mean()
    return bool(stands_out) and _exceeds_even(head)


def _needle_text(head: Head, amount: ComparedAmount) -> str:
    top = _top_key(head)
    label = quoted_label(head.columns.tokens, top)
    token = f"{label}, token {top + 1:,}," if top else f"the first token, {label},"
    whose = f"the attention of {counted_text(len(head.rows.tokens))}"
    return receives(token, amount, whose)


def _stays_near(head: Head) -> bool:
    distance, share = head.near_half()
    is_near = distance <= NEARBY_SHARE * len(head.received)
    return is_near and share >= FINDING_RATIO * head.even_share_within(distance)


def _near_text(head: Head, amount: ComparedAmount) -> str:
    distance, _ = head.near_half()
    near = f"goes to tokens at most {distance:,} away" if distance else "stays on the token itself"
    tokens = counted_text(len(head.rows.tokens))
    return f"{amount.text} of the attention of {tokens} {near}, {amount.base}"


def _breadth_text(head: Head) -> str:
    entropies = head.numbers("entropy"), even_entropy(head)
    broad, allowed = (float(2 ** each.mean()) for each in entropies)
    return f"attention is {breadth_words(broad, allowed, len(head.received))}"


WHOLE_FINDINGS: tuple[Finding[Head], ...] = (
    Finding(
        "nothing is visible",
        lambda head: not head.received.any(),
        lambda _: "every key is masked, so no token attends to any",
    ),
    Finding(
        "the only token",
        lambda head: len(head.received) == 1,
        lambda head: (
            f"{quoted_label(head.columns.tokens, 0)} is the only token, and receives all attention"
        ),
    ),
    finding_on(_top_key_amount, "a needle or sink", _is_needle_or_sink, _needle_text),
    finding_on(_near_amount, "half stays near", _stays_near, _near_text),
    Finding("how broad", otherwise, _breadth_text),
)


# One row


def _none_text(head: Head) -> str:
    none = f"none of {side_text(head.columns)}"
    whom = ALL_MASKED_TEXT if head.has_all_keys else none
    return attends_to(query_text(head, head.rows.span[0]), whom)


def _most_text(head: Head, amount: ComparedAmount) -> str:
    """Return which key the query attends to most, or how many that tie."""
    facts, query = head.facts, head.rows.span[0]
    ties = int(facts.ties[0])
    keys = "" if head.has_all_keys else f" of {side_text(head.columns)}"
    if ties > 1:
        tied = f"{counted_text(ties, head.columns.unit)}{keys}, equally"
        return f"{attends_most(query_text(head, query), tied)}: {amount.text} each, {amount.base}"
    name = key_text(head, query, head.columns.span[int(facts.largest_key[0])])
    limits = f",{keys}," if keys else ""
    most = attends_most(query_text(head, query), name, among=limits)
    return f"{most}: {amount.text}, {amount.base}"


ROW_FINDINGS: tuple[Finding[Head], ...] = (
    Finding("a row of nothing", lambda head: not head.facts.largest[0], _none_text),
    finding_on(_largest_amount, "most of a row", otherwise, _most_text),
)


# A part


def _masked_part_text(head: Head) -> str:
    keys = f"any {head.columns.unit}" if head.has_all_keys else side_text(head.columns)
    return f"{side_text(head.rows)} cannot attend to {keys}: every key shown is masked"


def _is_main(head: Head) -> bool:
    """Return whether one key alone receives much of the attention of several queries, and more
    than with an even spread."""
    received, top = head.facts.received, _top_key(head)
    is_single = np.isclose(received, received[top], rtol=EQUAL_TOLERANCE).sum() == 1
    is_main = is_single and head.received_shares[top] >= MAIN_SHARE
    return bool(is_main) and len(head.rows.span) > 1 and _exceeds_even(head)


def _main_key_text(head: Head, amount: ComparedAmount) -> str:
    top = _top_key(head)
    key = numbered_name(head.columns, head.columns.span[top])
    whose = f"the attention of {side_text(head.rows)}"
    return receives(key, amount, whose)


def _largest_weight_text(head: Head, amount: ComparedAmount) -> str:
    """Return which weight of the part is the largest, where a query sees more than one key."""
    facts, rows, top = head.facts, _rows_with_choice(head), _top_row(head)
    largest = facts.largest[top]
    is_top = rows & np.isclose(facts.largest, largest, rtol=EQUAL_TOLERANCE, atol=0)
    ties = int(facts.ties[is_top].sum())
    choice = "where more than one key is visible, " * bool((facts.largest[~rows] > largest).any())
    of = side_text(head.rows) + f" on {side_text(head.columns)}" * (not head.has_all_keys)
    query, key = head.rows.span[top], head.columns.span[int(facts.largest_key[top])]
    pair = f"{query_text(head, query)} to {key_text(head, query, key)}"
    start = f"{choice}the largest weight of {of} is {amount.text}"
    if ties > 1:
        pairs = f"{ties:,} pairs of {head.rows.unit}s"
        return f"{start}, for {pairs}, {pair} ({amount.base}) among them"
    return f"{start}: {pair}, {amount.base}"


PART_FINDINGS: tuple[Finding[Head], ...] = (
    Finding("a part of nothing", lambda head: not head.facts.visible.any(), _masked_part_text),
    finding_on(_top_key_amount, "the main key of a part", _is_main, _main_key_text),
    finding_on(_largest_amount, "the largest weight", otherwise, _largest_weight_text),
)


# Notes


def share_notes(heads: Sequence[Head]) -> Iterator[str]:
    """Yield which share of the queries' attention lies in the part: of several heads, from the
    least to the most."""
    limited = [each for each in heads if not each.has_all_keys and each.facts.totals.any()]
    if not limited:
        return
    shares = sorted((each.share, each.name) for each in limited)
    texts = list(dict.fromkeys(percent_text(share) for share, _ in (shares[0], shares[-1])))
    if len(texts) > 1:
        texts = [f"{percent_text(share)} ({name})" for share, name in (shares[0], shares[-1])]
    yield (
        f"{' to '.join(texts)} of the attention of {side_text(limited[0].rows)} goes to "
        f"{side_text(limited[0].columns)}; the softmax runs over all keys"
    )


def blind_queries_notes(heads: Sequence[Head]) -> Iterator[str]:
    """Yield of how many queries every key of the text is masked, in all heads or in the first."""
    counts = [int((each.facts.all_visible == 0).sum()) for each in heads]
    if not any(counts):
        return
    head = heads[int(np.argmax(counts))]
    where = f"in {head.name}, " if len(heads) > 1 else ""
    number = f"{max(counts):,} {'queries attend' if max(counts) > 1 else 'query attends'}"
    yield f"{where}{number} to {ALL_MASKED_TEXT}"
