"""Sentences on a head: what stands out in a whole text, in a part of it, in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.heads.head import EQUAL_TOLERANCE, Head
from attnviz.tokens.text_part import span_text
from attnviz.views.even_spread import FINDING_RATIO, breadth_words, even_words
from attnviz.views.grids.axes import ALL_MASKED_TEXT
from attnviz.views.heads.bars import MOST_READ
from attnviz.views.heads.grid import even_entropy
from attnviz.views.heads.passages import counted_text, quoted_label
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
    return f"{quoted_label(head.rows.tokens, query)} (token {query + 1:,})"


def key_text(head: Head, query: int, key: int) -> str:
    """Return a key as a sentence about a query names it: itself, or its label and number."""
    if query == key and head.reads_itself:
        return "itself"
    return f"{quoted_label(head.columns.tokens, key)} (token {key + 1:,})"


def received_words(head: Head, place: int) -> str:
    """Return how what a key receives compares with an even spread."""
    return even_words(float(head.received_shares[place]), float(head.even_shares[place]))


def whole_finding(head: Head) -> str:
    """Return a sentence on what stands out in a long text: a token that much attention goes to, how
    near it stays, or how widely it is spread.
    """
    if not head.received.any():
        return "every key is masked, so no token attends to any"
    [top], keys, count = head.most_read(1), head.columns.tokens, len(head.received)
    if count == 1:
        return f"{quoted_label(keys, 0)} is the only token, and receives all attention"
    tokens, share = counted_text(len(head.rows.tokens)), float(head.received_shares[top])
    is_much = head.received[top] >= NEEDLE_FACTOR * head.received.mean() or (
        top == 0 and share >= SINK_SHARE
    )
    if is_much and share >= FINDING_RATIO * head.even_shares[top]:
        label = quoted_label(keys, top)
        token = f"{label}, token {top + 1:,}," if top else f"the first token, {label},"
        receives = f"{token} receives {percent_text(share)} of the attention of {tokens}"
        return f"{receives}, {received_words(head, top)}"
    distance, near_share = head.near_half()
    even_near = head.even_share_within(distance)
    if distance <= NEARBY_SHARE * count and near_share >= FINDING_RATIO * even_near:
        near = (
            f"goes to tokens at most {distance:,} away" if distance else "stays on the token itself"
        )
        goes = f"{percent_text(near_share)} of the attention of {tokens} {near}"
        return f"{goes}, {even_words(near_share, even_near)}"
    entropies = head.numbers("entropy"), even_entropy(head)
    broad, allowed = (float(2 ** each.mean()) for each in entropies)
    return f"attention is {breadth_words(broad, allowed, count)}"


def whole_findings(head: Head) -> tuple[str, ...]:
    """Return the finding, and if it is none on a token, the token that is read most, unless several
    tie.
    """
    finding, (top, *others) = whole_finding(head), head.most_read(MOST_READ)
    if not head.received.any() or quoted_label(head.columns.tokens, top) in finding:
        return (finding,)
    if any(np.isclose(head.received[others[:1]], head.received[top], rtol=EQUAL_TOLERANCE)):
        return (finding,)
    most = f"{quoted_label(head.columns.tokens, top)} (token {top + 1:,})"
    return finding, f"read most: {most}, {received_words(head, top)}"


def row_finding(head: Head) -> str:
    """Return a sentence on the keys that the first query of a head attends to most."""
    facts, query = head.facts, head.rows.span[0]
    reader, share = query_text(head, query), percent_text(float(facts.largest[0]), 1)
    keys = "" if head.has_all_keys else f" of {span_text(head.columns.span)}"
    if not facts.largest[0]:
        return f"{reader} attends to {f'none{keys}' if keys else ALL_MASKED_TEXT}"
    even, ties = even_words(float(facts.largest[0]), head.even_weight(0)), int(facts.ties[0])
    if ties > 1:
        tied = f"{counted_text(ties)}{keys}, equally"
        return f"{reader} attends most to {tied}: {share} each, {even}"
    name = key_text(head, query, head.columns.span[int(facts.largest_key[0])])
    limits = f",{keys}," if keys else ""
    return f"{reader} attends most{limits} to {name}: {share}, {even}"


def part_finding(heads: Sequence[Head]) -> str:
    """Return a sentence on what stands out in a part: a key that much of the attention goes to, or
    else the largest weight; of several heads, in the one with the largest weight.
    """
    active = [each for each in heads if not each.is_off] or heads
    head = max(active, key=lambda each: each.facts.largest.max())
    readers, keys = span_text(head.rows.span), span_text(head.columns.span)
    where = f"in {head.name}, " if len(heads) > 1 else ""
    if not any(each.facts.visible.any() for each in heads):
        whom = "any token" if head.has_all_keys else keys
        return f"{readers} cannot attend to {whom}: every key shown is masked"
    received = head.facts.received
    top = int(received.argmax())
    is_single = np.isclose(received, received[top], rtol=EQUAL_TOLERANCE).sum() == 1
    share, even = float(head.received_shares[top]), float(head.even_shares[top])
    is_much = is_single and share >= MAIN_SHARE and share >= FINDING_RATIO * even
    if is_much and len(head.rows.span) > 1:
        position = head.columns.span[top]
        key = f"{quoted_label(head.columns.tokens, position)} (token {position + 1:,})"
        receives = f"receives {percent_text(share)} of the attention of {readers}"
        return f"{where}{key} {receives}, {even_words(share, even)}"
    return f"{where}{_largest_weight_text(head)}"


def _largest_weight_text(head: Head) -> str:
    """Return which weight of the part is the largest, where a query sees more than one key."""
    facts = head.facts
    has_choice = facts.all_visible > 1
    rows = has_choice if has_choice.any() else facts.all_visible > 0
    largest = np.where(rows, facts.largest, -1.0)
    top = int(largest.argmax())
    is_top = rows & np.isclose(facts.largest, largest[top], rtol=EQUAL_TOLERANCE, atol=0)
    ties = int(facts.ties[is_top].sum())
    is_limited = bool((facts.largest[~rows] > largest[top]).any())
    choice = "where more than one key is visible, " * is_limited
    of = span_text(head.rows.span) + f" on {span_text(head.columns.span)}" * (not head.has_all_keys)
    share = percent_text(float(largest[top]), 1)
    query, key = head.rows.span[top], head.columns.span[int(facts.largest_key[top])]
    pair = f"{query_text(head, query)} to {key_text(head, query, key)}"
    even = even_words(float(largest[top]), head.even_weight(top))
    start = f"{choice}the largest weight of {of} is {share}"
    if ties > 1:
        return f"{start}, for {ties:,} pairs of tokens, {pair} ({even}) among them"
    return f"{start}: {pair}, {even}"


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
        f"{' to '.join(texts)} of the attention of {span_text(limited[0].rows.span)} goes to "
        f"{span_text(limited[0].columns.span)}; the softmax runs over all keys"
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
