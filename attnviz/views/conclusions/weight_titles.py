"""Titles above pictures of weights: top keys, largest weight, even rows.

Titles are about all shown heads, or about what one token attends to in them. Each table lists
findings: the first whose condition holds is the title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, starmap
from math import floor

import numpy as np

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import StoredCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.attention_facts import MaskShape, find_mask_shape, has_symptom
from attnviz.views.conclusions.findings import Finding, choose_sentence, otherwise
from attnviz.views.conclusions.row_facts import MIN_CLEAR_LEAD, RowFacts, StrongestLink
from attnviz.views.grids.axes import ALL_MASKED_TEXT
from attnviz.views.heads.sentences import (
    ITSELF,
    attends_most,
    attends_to,
    gives,
    heads_text,
    quoted_token,
    visible_keys_text,
)
from attnviz.views.reading import attention_head_name
from attnviz.wording.numbers import fixed_text, percent_text
from attnviz.wording.words import and_list, counted

MAX_EQUAL_UNEVENNESS = 0.01  # of an even share, for weights that are called equal
MAX_SLIGHT_UNEVENNESS = 0.15  # of an even share, for weights that are called almost equal
MAJORITY_SHARE = 0.5  # of a token's attention
MIN_ROWS_FOR_MOST = 3  # a title says "most tokens" only of at least so many
IN_PICTURE = "the picture below the title shows what all other tokens give and get"


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


HeadLink = tuple[ShownHead, StrongestLink]


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
        return visible_keys_text(self.shape)

    @property
    def has_masked_keys(self) -> bool:
        return any(head.rows.cells.has_hidden for head in self.heads)

    @cached_property
    def link(self) -> HeadLink | None:
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

    @cached_property
    def majority_link(self) -> HeadLink | None:
        """The only shown head, and the link of the asked token to the key that gets more than half
        of its attention.

        None without such a token or key, for several heads, and if the token sees one key only.
        """
        position, head = self.asked_position, self.heads[0]
        if position is None or len(self.heads) > 1 or not self.rows_sum_to_one:
            return None
        weights = head.rows.weights_of(position)
        key, has_choice = int(weights.argmax()), len(head.rows.visible_keys(position)) > 1
        link = StrongestLink(position, key, float(weights[key]), 0.0)
        return (head, link) if link.weight > MAJORITY_SHARE and has_choice else None

    @cached_property
    def agreement(self) -> tuple[list[ShownHead], int] | None:
        """The heads of the last layer in which all give one key most of the asked token's
        attention, and that key.

        None without such a token, if it can attend to one key only, and if no layer with several
        heads agrees.
        """
        position = self.asked_position
        if position is None or not self.rows_sum_to_one:
            return None
        for layer in reversed(self.trace.layers):
            heads = [head for head in self.heads if head.layer is layer]
            rows = [head.rows.weights_of(position) for head in heads]
            keys = {int(row.argmax()) for row in rows}
            have_majority = all(float(row.max()) > MAJORITY_SHARE for row in rows)
            has_choice = any(len(head.rows.visible_keys(position)) > 1 for head in heads)
            if len(heads) > 1 and len(keys) == 1 and have_majority and has_choice:
                return heads, keys.pop()
        return None

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
        return {key for head in self.heads for key in head.rows.visible_keys(self.query)}

    @cached_property
    def top_keys(self) -> list[tuple[int, float]]:
        """The three keys to which the one shown query attends most in the first head, and their
        weights."""
        assert self.query is not None
        weights = self.heads[0].rows.weights_of(self.query)
        return [(int(key), float(weights[key])) for key in np.argsort(-weights, kind="stable")[:3]]

    @property
    def has_two_top_keys(self) -> bool:
        """Whether two keys together have more than half of the query's attention in the only head,
        and clearly more each than any other."""
        if len(self.heads) > 1 or self.rows_with_choice == 0 or not self.rows_sum_to_one:
            return False
        (_, first), (_, second), *other_keys = self.top_keys
        third = other_keys[0][1] if other_keys else 0.0
        leads = min(first - second, second - third)
        is_clear = percent_text(second) != percent_text(third) and leads > MIN_CLEAR_LEAD
        return first + second > MAJORITY_SHARE and is_clear

    @property
    def reader(self) -> str:
        """The subject of a title: `Each token`, or `In head 1, "it"`."""
        if self.query is None:
            return "Each token"
        head_text = self.heads[0].opening if len(self.heads) == 1 else ""
        return f"{head_text}{quoted_token(self.tokens, self.query)}"

    @property
    def all_visible_text(self) -> str:
        """The keys that the mask's rule allows, else `all that it may see` or `all tokens`."""
        everything = "all that it may see" if self.has_masked_keys else "all tokens"
        return (self.query is None and self.visible_by_mask) or everything

    def key_text(self, head: ShownHead, query: int, key: int) -> str:
        is_itself = head.keys is self.tokens and query == key
        return ITSELF if is_itself else quoted_token(head.keys, key)


def weights_title(trace: Trace, query: int | None = None) -> str:
    """Return the title for the weights of all heads of a trace, or for one query in them.

    Heads that are switched off do not count; if all are, the title states that.
    """
    return choose_sentence(*shown_weights(trace, query))


def shown_weights(
    trace: Trace, query: int | None
) -> tuple[tuple[Finding[ShownWeights], ...], ShownWeights]:
    """Return the table of titles for all heads of a trace that are on, and what they are about."""
    heads = tuple(
        _shown_head(trace, layer, number, query)
        for layer in trace.attention_layers
        for number in range(layer.heads)
        if number not in layer.off
    )
    table = ALL_HEADS_FINDINGS if query is None else QUERY_FINDINGS
    return table, ShownWeights(trace, heads, query)


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


def _shown_head(trace: Trace, layer: Layer, number: int, query: int | None) -> ShownHead:
    """Return a head of a layer with all its rows, or with the row of the query alone."""
    rows = RowFacts(layer.weights.cells("mixing", number))
    if query is not None:
        row = rows.cells.row(query)
        rows = RowFacts(StoredCells(row.values, row.hidden), query)
    return ShownHead(_shown_head_name(trace, layer, number), layer, rows, trace.keys_of(layer))


def _shown_head_name(trace: Trace, layer: Layer, number: int) -> str:
    """Return a head's name, such as `L1H0`; empty if the trace has a single head."""
    several = sum(attention.heads for attention in trace.attention_layers) > 1
    return attention_head_name(trace, layer, number) if several else ""


def _mistake_title(facts: ShownWeights) -> str:
    """Return the shared mistake as a title, its symptoms only if every head shows them."""
    mistake = MISTAKES[facts.mistake]
    pairs = product([head.layer for head in facts.heads], mistake.symptoms)
    return f"✗ {mistake.about if all(starmap(has_symptom, pairs)) else mistake.cause}"


def _link_names(facts: ShownWeights, head_link: HeadLink) -> tuple[str, str]:
    """Return the query of a link as the subject of a title, and its key."""
    head, link = head_link
    query_name = quoted_token(facts.tokens, link.query)
    return f"{head.opening}{query_name}", facts.key_text(head, link.query, link.key)


def _link_title(facts: ShownWeights, head_link: HeadLink | None) -> str:
    """Return `In head 1, "this" gives "am" 74 % of its attention`."""
    assert head_link is not None
    return gives(*_link_names(facts, head_link), percent_text(head_link[1].weight))


def _largest_weight_title(facts: ShownWeights) -> str:
    """Return the largest weight as a title, for weights whose rows do not sum to 1."""
    assert facts.link is not None
    query_name, key_name = _link_names(facts, facts.link)
    weight = fixed_text(facts.link[1].weight, 2)
    return f"{query_name} gives {key_name} the largest weight, {weight}"


def _agreeing_layer_title(facts: ShownWeights) -> str:
    """Return `"it" gives "cat" 80 % or more of its attention in both heads of layer 1`."""
    position = facts.asked_position
    assert facts.agreement is not None
    assert position is not None
    heads, key = facts.agreement
    share = _common_share_text([float(head.rows.weights_of(position)[key]) for head in heads])
    layer_text = f" of layer {heads[0].layer.layer}" if len(facts.trace.layers) > 1 else ""
    whom = facts.key_text(heads[0], position, key)
    text = gives(quoted_token(facts.tokens, position), whom, share)
    return f"{text} in {heads_text(len(heads), len(heads))}{layer_text}"


def _column_title(facts: ShownWeights) -> str:
    """Return `Most tokens attend most to "cat"`, or `All tokens …`."""
    assert facts.column is not None
    key, count = facts.column
    readers = f"{'All' if count == len(facts.tokens) else 'Most'} tokens"
    return attends_most(readers, quoted_token(facts.heads[0].keys, key), verb="attend")


def _similar_links_title(facts: ShownWeights) -> str:
    """Return `"am" and "this" each give "am" 99 % of their attention`."""
    head, links = facts.heads[0], facts.similar_links
    names, key = and_list([quoted_token(facts.tokens, query) for query, _ in links]), links[0][1]
    share = _common_share_text([float(head.rows.weights_of(query)[key]) for query, _ in links])
    return gives(names, quoted_token(head.keys, key), share, verb="each give", whose="their")


def _common_share_text(weights: Sequence[float]) -> str:
    """Return weights as one share if all are written alike, else the smallest: `40 % or more`."""
    least, most = percent_text(min(weights)), percent_text(max(weights))
    return least if least == most else f"{_percent_at_least(min(weights))} or more"


def _percent_at_least(share: float) -> str:
    return percent_text(floor(100 * share) / 100)


def _plain_title(facts: ShownWeights) -> str:
    """Return a title that only states what is shown, because nothing stands out."""
    where = f" in {facts.heads[0].name}" if facts.heads[0].name else ""
    if len(facts.heads) > 1:
        where = f" in {counted(len(facts.heads), 'head')}"
    if facts.query is not None or len(facts.tokens) == 1:
        return f"What {quoted_token(facts.tokens, facts.query or 0)} attends to{where}"
    return f"Attention between {counted(len(facts.tokens), 'token')}{where}"


def _only_key_title(facts: ShownWeights) -> str:
    """Return `"it" attends only to "cat"`, for a query with a single visible key."""
    assert facts.query is not None
    key = facts.key_text(facts.heads[0], facts.query, *facts.only_keys)
    return attends_to(facts.reader, key, "only")


def _two_keys_title(facts: ShownWeights) -> str:
    """Return `"it" attends mostly to itself (46 %) and "crossing" (16 %)`."""
    assert facts.query is not None
    first, second = (
        f"{facts.key_text(facts.heads[0], facts.query, key)} ({percent_text(share)})"
        for key, share in facts.top_keys[:2]
    )
    return attends_to(facts.reader, f"{first} and {second}", "mostly")


HEADS_OFF_FINDING: Finding[ShownWeights] = Finding(
    "all heads are off", lambda facts: not facts.heads, lambda _: "Every head is switched off"
)
MISTAKE_FINDING: Finding[ShownWeights] = Finding(
    "a mistake", lambda facts: facts.mistake != "", _mistake_title
)
ONE_TOKEN_FINDING: Finding[ShownWeights] = Finding(
    "one token",
    lambda facts: (
        facts.is_self_attention
        and facts.rows_sum_to_one
        and len(facts.tokens) == 1
        and not facts.rows_are_blind
    ),
    lambda facts: attends_to(
        quoted_token(facts.tokens, 0), "itself: there is no other token", "only"
    ),
)
EVEN_FINDING: Finding[ShownWeights] = Finding(
    "equal shares",
    lambda facts: facts.is_even,
    lambda facts: attends_to(facts.reader, facts.all_visible_text, "equally"),
)
AGREEING_LAYER_FINDING: Finding[ShownWeights] = Finding(
    "all heads of a layer",
    lambda facts: facts.agreement is not None,
    _agreeing_layer_title,
    amount=IN_PICTURE,
)
ASKED_TOKEN_FINDING: Finding[ShownWeights] = Finding(
    "what is asked",
    lambda facts: facts.is_self_attention and facts.majority_link is not None,
    lambda facts: _link_title(facts, facts.majority_link),
    amount=IN_PICTURE,
)
LARGEST_WEIGHT_FINDING: Finding[ShownWeights] = Finding(
    "no shares",
    lambda facts: not facts.rows_sum_to_one and facts.link is not None,
    _largest_weight_title,
)
ALMOST_EVEN_FINDING: Finding[ShownWeights] = Finding(
    "almost even",
    lambda facts: (
        facts.rows_sum_to_one
        and facts.rows_with_choice > 0
        and facts.unevenness < MAX_SLIGHT_UNEVENNESS
    ),
    lambda facts: attends_to(facts.reader, facts.all_visible_text, "almost equally"),
)
STRONGEST_LINK_FINDING: Finding[ShownWeights] = Finding(
    "the strongest link",
    lambda facts: facts.rows_sum_to_one and facts.link is not None,
    lambda facts: _link_title(facts, facts.link),
    amount=IN_PICTURE,
)
PLAIN_FINDING: Finding[ShownWeights] = Finding("nothing stands out", otherwise, _plain_title)


ALL_HEADS_FINDINGS: tuple[Finding[ShownWeights], ...] = (
    HEADS_OFF_FINDING,
    MISTAKE_FINDING,
    Finding(
        "no token sees any",
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
    AGREEING_LAYER_FINDING,
    ASKED_TOKEN_FINDING,
    Finding(
        "a mask",
        lambda facts: facts.visible_by_mask != "",
        lambda facts: attends_to(facts.reader, facts.visible_by_mask, "only"),
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
        lambda facts: gives(
            "Each token", ITSELF, f"{_percent_at_least(facts.least_self_weight)} or more"
        ),
        amount=IN_PICTURE,
    ),
    Finding(
        "mirrored",
        lambda facts: facts.rows_sum_to_one and facts.least_mirrored_weight > MAJORITY_SHARE,
        lambda facts: attends_to("Each token", "the one at the mirrored place", "mostly"),
    ),
    STRONGEST_LINK_FINDING,
    Finding(
        "links alike",
        lambda facts: facts.rows_sum_to_one and len(facts.similar_links) > 1,
        _similar_links_title,
        amount=IN_PICTURE,
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
    HEADS_OFF_FINDING,
    Finding(
        "the token sees none",
        lambda facts: facts.rows_are_blind,
        lambda facts: attends_to(facts.reader, ALL_MASKED_TEXT),
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
        "a key with most",
        lambda facts: facts.majority_link is not None,
        lambda facts: _link_title(facts, facts.majority_link),
        amount=IN_PICTURE,
    ),
    Finding(
        "two top keys", lambda facts: facts.has_two_top_keys, _two_keys_title, amount=IN_PICTURE
    ),
    AGREEING_LAYER_FINDING,
    STRONGEST_LINK_FINDING,
    PLAIN_FINDING,
)
