"""Titles above pictures of weights: top keys, largest weight, even rows.

Titles are about all shown heads, or about what one token attends to in them. Each table lists
findings: the first whose condition holds is the title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, starmap
from math import floor

import numpy as np

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import CellValues, Patch, StoredCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.attention_facts import MaskShape, find_mask_shape, has_symptom
from attnviz.views.conclusions.findings import Finding, choose_sentence, otherwise
from attnviz.views.conclusions.row_facts import MIN_CLEAR_LEAD, RowFacts, StrongestLink
from attnviz.views.reading import attention_head_name, quoted_token
from attnviz.wording.numbers import fixed_text, percent_text
from attnviz.wording.words import and_list, counted

MAX_EQUAL_UNEVENNESS = 0.01  # of an even share, for weights that are called equal
MAX_SLIGHT_UNEVENNESS = 0.15  # of an even share, for weights that are called almost equal
MAJORITY_SHARE = 0.5  # of a token's attention
MIN_ROWS_FOR_MOST = 3  # a title says "most tokens" only of at least so many


@dataclass(frozen=True, eq=False)
class ShownHead:
    """A head whose weights are shown; its name is empty if the model has no other head."""

    name: str
    layer: Layer
    rows: RowFacts
    keys: Tokens

    @property
    def opening(self) -> str:
        """The words `In L1H0, ` to begin a sentence; empty for a head without a name."""
        return f"In {self.name}, " if self.name else ""


@dataclass(frozen=True, eq=False)
class ShownWeights:
    """The weights in a picture: those of every active head, in all rows or in one query's."""

    trace: Trace
    heads: tuple[ShownHead, ...]
    query: int | None = None

    @property
    def tokens(self) -> Tokens:
        return self.trace.tokens

    @property
    def rows_sum_to_one(self) -> bool:
        return all(head.rows.rows_sum_to_one for head in self.heads)

    @property
    def rows_are_blind(self) -> bool:
        return all(head.rows.rows_are_blind for head in self.heads)

    @property
    def rows_with_choice(self) -> int:
        return sum(head.rows.rows_with_choice for head in self.heads)

    @property
    def unevenness(self) -> float:
        return max(head.rows.unevenness for head in self.heads)

    @property
    def mistake(self) -> str:
        """The name of the mistake that all shown heads have; empty if they have none or differ."""
        mistakes = {head.layer.mistake for head in self.heads}
        return mistakes.pop() if len(mistakes) == 1 else ""

    @property
    def is_self_attention(self) -> bool:
        """Whether all shown heads attend to tokens of the same sentence that queries come from."""
        return all(head.keys is self.tokens for head in self.heads)

    @cached_property
    def shape(self) -> MaskShape | None:
        """The shape of the mask, such as causal or a window, if all shown heads have the same.

        None if heads differ, attend to other tokens, or have weights by hand or by mistake.
        """
        by_hand = any(head.layer.attended.mixed_by in ("hand", "mistake") for head in self.heads)
        if not self.is_self_attention or by_hand:
            return None
        shapes = {find_mask_shape(head.layer.visible) for head in self.heads}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def visible_by_mask(self) -> str:
        """Which keys a token may attend to: `itself and earlier tokens`.

        Empty without a mask, and for one that no simple rule describes exactly.
        """
        shape = self.shape
        if shape is None or not shape.is_exact or shape.chunk is not None:
            return ""
        if shape.window is None:
            return "itself and earlier tokens" if shape.causal else ""
        before = shape.window - 1
        if before == 0:
            return "itself"
        if shape.causal:
            return f"itself and the {'token' if before == 1 else f'{before} tokens'} before it"
        return "itself and its neighbours" if before == 1 else f"tokens up to {before} places away"

    @property
    def has_masked_keys(self) -> bool:
        return any(head.rows.cells.has_hidden for head in self.heads)

    @cached_property
    def link(self) -> tuple[ShownHead, StrongestLink] | None:
        """The head and link with the largest weight; None if another is hardly smaller.

        Only rows with more than one visible key count.
        """
        links = [(head, link) for head in self.heads if (link := head.rows.strongest_link)]
        if not links:
            return None
        head, best = max(links, key=lambda head_and_link: head_and_link[1].weight)
        other_weights = [link.weight for _, link in links if link is not best]
        next_weight = max([best.next_weight, *other_weights])
        reads_same = percent_text(best.weight) == percent_text(next_weight)
        is_clear = best.weight - next_weight > MIN_CLEAR_LEAD and not reads_same
        return (head, best) if is_clear else None

    @property
    def asked_position(self) -> int | None:
        """The position of `query`; without one, of the answer that counts most; None if there is
        none.
        """
        prediction = self.trace.prediction
        if self.query is not None or prediction is None:
            return self.query
        return prediction.main_position

    def row(self, head: ShownHead, query: int) -> CellValues:
        """Return the attention weights of a query in a head, 0 where keys are masked.

        If only one query is shown, it is always its row, whatever `query` is.
        """
        patch = self._patch(head, query)
        weights: CellValues = np.where(patch.hidden, 0.0, patch.values)[0]
        return weights

    def has_choice(self, head: ShownHead, query: int) -> bool:
        """Return whether a query may attend to several keys in a head."""
        return int((~self._patch(head, query).hidden).sum()) > 1

    def _patch(self, head: ShownHead, query: int) -> Patch:
        return head.rows.cells.row(query if self.query is None else 0)

    @property
    def is_even(self) -> bool:
        """Whether rows sum to 1, any has several visible keys, and all weights are equal shares."""
        has_choice = self.rows_sum_to_one and self.rows_with_choice > 0
        return has_choice and self.unevenness < MAX_EQUAL_UNEVENNESS

    @property
    def depends_on_distance(self) -> bool:
        """Whether distance (ALiBi) alone decides the weights, in every shown head.

        False if queries are compared with keys, or if a mask, visible keys or scores were given.
        """
        trace = self.trace
        if not self.is_self_attention or trace.variant.compared:
            return False
        if not {"visible", "hidden", "mask", "scores"}.isdisjoint(trace.layers[0].given):
            return False
        is_biased = all(head.layer.attended.bias is not None for head in self.heads)
        return is_biased and self.rows_sum_to_one and self.rows_with_choice > 0

    @property
    def least_self_weight(self) -> float:
        """The smallest weight that a token gives itself in any head; 0 if keys are other tokens."""
        if not self.is_self_attention:
            return 0.0
        return min(head.rows.least_self_weight for head in self.heads)

    @property
    def least_mirrored_weight(self) -> float:
        """The smallest weight given to the query's mirrored position; 0 for keys of other
        tokens.
        """
        if not self.is_self_attention:
            return 0.0
        return min(head.rows.least_mirrored_weight for head in self.heads)

    @cached_property
    def column(self) -> tuple[int, int] | None:
        """The key to which most tokens attend most, and how many do.

        None if several heads are shown, if too few tokens have a choice, or if no key has a
        majority.
        """
        if len(self.heads) > 1 or self.rows_with_choice < MIN_ROWS_FOR_MOST:
            return None
        key, count = next(iter(self.heads[0].rows.favourite_keys.most_common(1)), (0, 0))
        return (key, count) if count > MAJORITY_SHARE * self.rows_with_choice else None

    @cached_property
    def similar_links(self) -> list[tuple[int, int]]:
        """Query and key of the two or three strongest links, if about equal and to one key.

        Empty if more are about equal, for several heads, and if one query is shown.
        """
        best = self.heads[0].rows.strongest_link
        if best is None or len(self.heads) > 1 or self.query is not None:
            return []
        links = self.heads[0].rows.links_near(best.weight, MIN_ROWS_FOR_MOST)
        one_key = len({key for _, key in links}) == 1
        return links if one_key and len(links) > 1 else []

    @property
    def only_keys(self) -> set[int]:
        """The keys that the one shown query may attend to, if it has at most one in each head.

        Empty if all queries are shown, if any head leaves a choice, or if heads read several
        sentences.
        """
        has_one_sentence = len({id(head.keys) for head in self.heads}) == 1
        if self.rows_with_choice or self.query is None or not has_one_sentence:
            return set()
        rows = (head.rows.cells.row(0) for head in self.heads)
        return {int(key) for row in rows for key in np.flatnonzero(~row.hidden[0])}

    @property
    def opening(self) -> str:
        """The subject and verb of a title: `Each token attends`, or `In head 1, "it" attends`."""
        if self.query is None:
            return "Each token attends"
        head_text = self.heads[0].opening if len(self.heads) == 1 else ""
        return f"{head_text}{quoted_token(self.tokens, self.query)} attends"

    def key_text(self, head: ShownHead, query: int, key: int) -> str:
        is_itself = head.keys is self.tokens and query == key
        return "itself" if is_itself else quoted_token(head.keys, key)

    def link_title(self, head: ShownHead, link: StrongestLink) -> str:
        """Return `In head 1, "this" gives "am" 74 % of its attention`."""
        query, share = link.query if self.query is None else self.query, percent_text(link.weight)
        query_text, key_text = (
            quoted_token(self.tokens, query),
            self.key_text(head, query, link.key),
        )
        return f"{head.opening}{query_text} gives {key_text} {share} of its attention"


def weights_title(trace: Trace, query: int | None = None) -> str:
    """Return the title for the weights of all heads of a trace, or for one query in them.

    Heads that are switched off do not count; if all are, the title states that.
    """
    facts = ShownWeights(trace, tuple(_active_heads(trace, query)), query)
    if not facts.heads:
        return "Every head is switched off"
    return choose_sentence(ALL_HEADS_FINDINGS if query is None else QUERY_FINDINGS, facts)


def head_weights_title(trace: Trace, layer: Layer, number: int, query: int | None = None) -> str:
    """Return the title for one head among others, or for one query in this head.

    `number` is the head's within the layer. A head that is switched off gets a title that states
    that.
    """
    if number in layer.off:
        return f"{_shown_head_name(trace, layer, number) or 'The head'} is switched off"
    return one_head_title(trace, layer, number, query)


def one_head_title(trace: Trace, layer: Layer, number: int, query: int | None = None) -> str:
    """Return the title for the weights of one head, or for one query in it, even if it is off."""
    table = HEAD_FINDINGS if query is None else QUERY_FINDINGS
    heads = (_shown_head(trace, layer, number, query),)
    return choose_sentence(table, ShownWeights(trace, heads, query))


def _active_heads(trace: Trace, query: int | None) -> Iterator[ShownHead]:
    """Yield each head of every layer that is not switched off, with all rows or the query's."""
    for layer in trace.attention_layers:
        for number in (number for number in range(layer.heads) if number not in layer.off):
            yield _shown_head(trace, layer, number, query)


def _shown_head(trace: Trace, layer: Layer, number: int, query: int | None) -> ShownHead:
    """Return a head of a layer with all its rows, or with the row of the query alone."""
    cells = layer.weights.cells("mixing", number)
    if query is not None:
        row = cells.row(query)
        cells = StoredCells(row.values, row.hidden)
    name = _shown_head_name(trace, layer, number)
    return ShownHead(name, layer, RowFacts(cells), trace.keys_of(layer))


def _shown_head_name(trace: Trace, layer: Layer, number: int) -> str:
    """Return a head's name, such as `L1H0`; empty if the trace has a single head."""
    several = sum(attention.heads for attention in trace.attention_layers) > 1
    return attention_head_name(trace, layer, number) if several else ""


def _mistake_title(facts: ShownWeights) -> str:
    """Return the shared mistake as a title, its symptoms only if every head shows them."""
    mistake = MISTAKES[facts.mistake]
    pairs = product([head.layer for head in facts.heads], mistake.symptoms)
    return f"✗ {mistake.about if all(starmap(has_symptom, pairs)) else mistake.cause}"


def _largest_weight_title(facts: ShownWeights) -> str:
    """Return the largest weight as a title, for weights whose rows do not sum to 1."""
    assert facts.link is not None
    head, link = facts.link
    query = link.query if facts.query is None else facts.query
    query_text, key_text = quoted_token(facts.tokens, query), facts.key_text(head, query, link.key)
    weight = fixed_text(link.weight, 2)
    return f"{head.opening}{query_text} gives {key_text} the largest weight, {weight}"


def _all_visible_text(facts: ShownWeights) -> str:
    """Return the keys that the mask's rule allows, else `all that it may see` or `all tokens`."""
    everything = "all that it may see" if facts.has_masked_keys else "all tokens"
    return (facts.query is None and facts.visible_by_mask) or everything


def _find_agreeing_layer(facts: ShownWeights) -> tuple[list[ShownHead], int] | None:
    """Return the heads of the last layer in which all give one key most attention, and that key.

    It is about the query shown, or the token whose answer counts most; None without one, if it can
    attend to one key only, and if no layer with several heads agrees.
    """
    position = facts.asked_position
    if position is None:
        return None
    for layer in reversed(facts.trace.layers):
        heads = [head for head in facts.heads if head.layer is layer]
        rows = [facts.row(head, position) for head in heads]
        keys = {int(row.argmax()) for row in rows}
        have_majority = all(float(row.max()) > MAJORITY_SHARE for row in rows)
        has_choice = any(facts.has_choice(head, position) for head in heads)
        if len(heads) > 1 and len(keys) == 1 and have_majority and has_choice:
            return heads, keys.pop()
    return None


def _agreeing_layer_title(facts: ShownWeights) -> str:
    """Return `"it" gives "cat" 80 % or more of its attention in both heads of layer 1`."""
    agreement, position = _find_agreeing_layer(facts), facts.asked_position
    assert agreement is not None
    assert position is not None
    heads, key = agreement
    share = _common_share_text([float(facts.row(head, position)[key]) for head in heads])
    heads_text = "both heads" if len(heads) == 2 else f"all {len(heads)} heads"
    layer_text = f" of layer {heads[0].layer.layer}" if len(facts.trace.layers) > 1 else ""
    query_text = quoted_token(facts.tokens, position)
    opening = f"{query_text} gives {facts.key_text(heads[0], position, key)}"
    return f"{opening} {share} of its attention in {heads_text}{layer_text}"


def _column_title(facts: ShownWeights) -> str:
    """Return `Most tokens attend most to "cat"`, or `All tokens …`."""
    assert facts.column is not None
    key, count = facts.column
    tokens_text = "All" if count == len(facts.tokens) else "Most"
    return f"{tokens_text} tokens attend most to {quoted_token(facts.heads[0].keys, key)}"


def _similar_links_title(facts: ShownWeights) -> str:
    """Return `"am" and "this" each give "am" 99 % of their attention`."""
    head, links = facts.heads[0], facts.similar_links
    names, key = and_list([quoted_token(facts.tokens, query) for query, _ in links]), links[0][1]
    share = _common_share_text([float(facts.row(head, query)[key]) for query, _ in links])
    return f"{names} each give {quoted_token(head.keys, key)} {share} of their attention"


def _common_share_text(weights: Sequence[float]) -> str:
    """Return weights as one share if all are written alike, else the smallest: `40 % or more`."""
    least, most = percent_text(min(weights)), percent_text(max(weights))
    return least if least == most else f"{_percent_at_least(min(weights))} or more"


def _percent_at_least(share: float) -> str:
    return percent_text(floor(100 * share) / 100)


def _plain_title(facts: ShownWeights) -> str:
    """Return a title that only states what is shown, because nothing stands out."""
    heads_text = f" in {facts.heads[0].name}" if facts.heads[0].name else ""
    if len(facts.heads) > 1:
        heads_text = f" in {counted(len(facts.heads), 'head')}"
    if facts.query is not None or len(facts.tokens) == 1:
        return f"What {quoted_token(facts.tokens, facts.query or 0)} attends to{heads_text}"
    return f"Attention between {counted(len(facts.tokens), 'token')}{heads_text}"


def _only_key_title(facts: ShownWeights) -> str:
    """Return `"it" attends only to "cat"`, for a query with a single visible key."""
    assert facts.query is not None
    key_text = facts.key_text(facts.heads[0], facts.query, *facts.only_keys)
    return f"{facts.opening} only to {key_text}"


def _asked_token_title(facts: ShownWeights) -> str:
    """Return which key gets most of the attention of the token at which the model is asked.

    Empty without such a token, if keys are another sentence's, if it can attend to one key only, or
    if no key gets more than half.
    """
    head, position = facts.heads[0], facts.asked_position
    if position is None or head.keys is not facts.tokens:
        return ""
    row = facts.row(head, position)
    key = int(row.argmax())
    if row[key] <= MAJORITY_SHARE or not facts.has_choice(head, position):
        return ""
    return facts.link_title(head, StrongestLink(position, key, float(row[key]), 0.0))


def _top_keys_title(facts: ShownWeights) -> str:
    """Return `"it" attends mostly to itself (46 %) and "crossing" (16 %)`.

    If one key gets more than half of the attention, the title is about that key alone.
    """
    assert facts.query is not None
    query, head = facts.query, facts.heads[0]
    first, second, *_ = _top_three_keys(facts)
    if first[1] > MAJORITY_SHARE:
        return facts.link_title(head, StrongestLink(query, *first, 0.0))
    first_text, second_text = (
        f"{facts.key_text(head, query, key)} ({percent_text(share)})"
        for key, share in (first, second)
    )
    return f"{facts.opening} mostly to {first_text} and {second_text}"


def _has_clear_top_keys(facts: ShownWeights) -> bool:
    """Return whether one key has more than half of a query's attention, or two keys clearly lead.

    False for several heads and for a query with a single visible key.
    """
    if len(facts.heads) > 1 or facts.rows_with_choice == 0:
        return False
    (_, first), (_, second), *other_keys = _top_three_keys(facts)
    third = other_keys[0][1] if other_keys else 0.0
    leads = min(first - second, second - third)
    is_clear = percent_text(second) != percent_text(third) and leads > MIN_CLEAR_LEAD
    return first > MAJORITY_SHARE or (first + second > MAJORITY_SHARE and is_clear)


def _top_three_keys(facts: ShownWeights) -> list[tuple[int, float]]:
    row = facts.row(facts.heads[0], 0)
    return [(int(key), float(row[key])) for key in np.argsort(-row, kind="stable")[:3]]


EVEN_FINDING: Finding[ShownWeights] = Finding(
    "equal shares",
    lambda facts: facts.is_even,
    lambda facts: f"{facts.opening} equally to {_all_visible_text(facts)}",
)
ONE_TOKEN_FINDING: Finding[ShownWeights] = Finding(
    "one token",
    lambda facts: (
        facts.is_self_attention
        and facts.rows_sum_to_one
        and len(facts.tokens) == 1
        and not facts.rows_are_blind
    ),
    lambda facts: (
        f"{quoted_token(facts.tokens, 0)} attends only to itself: there is no other token"
    ),
)
MISTAKE_FINDING: Finding[ShownWeights] = Finding(
    "a mistake", lambda facts: facts.mistake != "", _mistake_title
)
LARGEST_WEIGHT_FINDING: Finding[ShownWeights] = Finding(
    "no shares",
    lambda facts: not facts.rows_sum_to_one and facts.link is not None,
    _largest_weight_title,
)
STRONGEST_LINK_FINDING: Finding[ShownWeights] = Finding(
    "the strongest link",
    lambda facts: facts.rows_sum_to_one and facts.link is not None,
    lambda facts: facts.link_title(*facts.link) if facts.link else "",
)
ALMOST_EVEN_FINDING: Finding[ShownWeights] = Finding(
    "almost even",
    lambda facts: (
        facts.rows_sum_to_one
        and facts.rows_with_choice > 0
        and facts.unevenness < MAX_SLIGHT_UNEVENNESS
    ),
    lambda facts: f"{facts.opening} almost equally to {_all_visible_text(facts)}",
)
PLAIN_FINDING: Finding[ShownWeights] = Finding("nothing stands out", otherwise, _plain_title)


ASKED_TOKEN_FINDING: Finding[ShownWeights] = Finding(
    "what is asked",
    lambda facts: (
        len(facts.heads) == 1 and facts.rows_sum_to_one and _asked_token_title(facts) != ""
    ),
    _asked_token_title,
)


ALL_HEADS_FINDINGS: tuple[Finding[ShownWeights], ...] = (
    MISTAKE_FINDING,
    Finding(
        "everything is hidden",
        lambda facts: facts.rows_are_blind,
        lambda _: "No token attends to any: everything is hidden",
    ),
    ONE_TOKEN_FINDING,
    EVEN_FINDING,
    Finding(
        "by distance alone",
        lambda facts: facts.depends_on_distance,
        lambda _: "The nearer a token, the more attention it gets",
    ),
    Finding(
        "all heads of a layer",
        lambda facts: facts.rows_sum_to_one and _find_agreeing_layer(facts) is not None,
        _agreeing_layer_title,
    ),
    ASKED_TOKEN_FINDING,
    Finding(
        "a mask",
        lambda facts: facts.visible_by_mask != "",
        lambda facts: f"{facts.opening} only to {facts.visible_by_mask}",
    ),
    Finding(
        "nothing ahead",
        lambda facts: facts.shape is not None and facts.shape.causal,
        lambda _: "No token attends to a later one",
    ),
    LARGEST_WEIGHT_FINDING,
    ALMOST_EVEN_FINDING,
    Finding(
        "mostly itself",
        lambda facts: facts.rows_sum_to_one and facts.least_self_weight > MAJORITY_SHARE,
        lambda facts: (
            f"Each token gives itself {_percent_at_least(facts.least_self_weight)} or more of its "
            "attention"
        ),
    ),
    Finding(
        "mirrored",
        lambda facts: facts.rows_sum_to_one and facts.least_mirrored_weight > MAJORITY_SHARE,
        lambda facts: "Each token attends mostly to the one at the mirrored place",
    ),
    STRONGEST_LINK_FINDING,
    Finding(
        "links alike",
        lambda facts: facts.rows_sum_to_one and len(facts.similar_links) > 1,
        _similar_links_title,
    ),
    Finding(
        "a column", lambda facts: facts.rows_sum_to_one and facts.column is not None, _column_title
    ),
    PLAIN_FINDING,
)
HEAD_FINDINGS = (
    MISTAKE_FINDING,
    ONE_TOKEN_FINDING,
    LARGEST_WEIGHT_FINDING,
    ASKED_TOKEN_FINDING,
    STRONGEST_LINK_FINDING,
    PLAIN_FINDING,
)
QUERY_FINDINGS: tuple[Finding[ShownWeights], ...] = (
    Finding(
        "everything is hidden",
        lambda facts: facts.rows_are_blind,
        lambda facts: f"{facts.opening} to nothing: every key is masked",
    ),
    MISTAKE_FINDING,
    ONE_TOKEN_FINDING,
    Finding(
        "one key",
        lambda facts: facts.rows_sum_to_one and len(facts.only_keys) == 1,
        _only_key_title,
    ),
    EVEN_FINDING,
    LARGEST_WEIGHT_FINDING,
    ALMOST_EVEN_FINDING,
    Finding(
        "stands out",
        lambda facts: facts.rows_sum_to_one and _has_clear_top_keys(facts),
        _top_keys_title,
    ),
    Finding(
        "all heads of a layer",
        lambda facts: facts.rows_sum_to_one and _find_agreeing_layer(facts) is not None,
        _agreeing_layer_title,
    ),
    STRONGEST_LINK_FINDING,
    PLAIN_FINDING,
)
