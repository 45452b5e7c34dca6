"""Titles above pictures of weights: WEIGHT_FINDINGS, in order of worth.

Titles are about all shown heads, or about what one token attends to in them. The first finding
whose condition holds is the title. Of random numbers it is what the variant does, never what a word
attends to: another seed would give another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product, starmap
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import StoredCells
from attnviz.heads.head import Head
from attnviz.heads.side import token_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.answers import Prediction
from attnviz.traces.randomness import random_weight_sources
from attnviz.traces.trace import Layer, Trace
from attnviz.views.answer_tables import quoted_answer
from attnviz.views.attention_facts import MaskShape, find_mask_shape, has_symptom
from attnviz.views.conclusions.findings import Finding, choose_sentence, otherwise
from attnviz.views.conclusions.row_facts import RowFacts
from attnviz.views.grids.axes import ALL_MASKED_TEXT
from attnviz.views.heads.sentences import (
    ITSELF,
    attends_most,
    attends_to,
    gives,
    quoted_token,
    visible_keys_text,
)
from attnviz.views.reading import attention_head_name
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import and_list, bidi_isolated, counted

if TYPE_CHECKING:
    from attnviz.analysis.inspection.token_query import TokenLink

MAX_EQUAL_UNEVENNESS = 0.01  # of an even share, for weights that are called equal
MAX_SLIGHT_UNEVENNESS = 0.15  # of an even share, for weights that are called almost equal
MAJORITY_SHARE = 0.5  # of a token's attention
MAX_LISTED_ANSWERS = 8
IN_PICTURE = "the picture below the title shows what all other tokens give and get"


@dataclass(frozen=True, eq=False)
class ShownHead:
    """A head whose weights are shown; its name is empty if the model has no other head."""

    name: str
    layer: Layer
    number: int
    rows: RowFacts
    keys: Tokens

    @property
    def opening(self) -> str:
        """The words `In L0H1, ` to begin a sentence; empty for a head without a name."""
        return f"In {self.name}, " if self.name else ""

    def all_rows(self, tokens: Tokens) -> Head:
        """Return the head with the rows of all tokens, which base rates are taken from."""
        cells, rows = self.layer.weights.cells("mixing", self.number), token_side(tokens)
        columns = rows if self.keys is tokens else token_side(self.keys)
        return Head(self.name, cells, rows, columns, self.layer, self.number)


@dataclass(frozen=True, eq=False)
class ShownWeights:
    """The weights in a picture: those of every active head, or of one; in all rows or in one
    query's.
    """

    trace: Trace
    heads: tuple[ShownHead, ...]
    query: int | None = None
    of_one_head: bool = False  # although the trace may have others

    @property
    def tokens(self) -> Tokens:
        return self.trace.tokens

    @cached_property
    def is_random(self) -> bool:
        return bool(random_weight_sources(self.trace))

    @property
    def of_all(self) -> bool:
        """Whether all rows of all heads are shown, so that the title is about the attention."""
        return self.query is None and not self.of_one_head

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
    def has_choice(self) -> bool:
        """Whether rows sum to 1, and some see several keys."""
        return self.rows_sum_to_one and self.rows_with_choice > 0

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
    def telling_link(self) -> TokenLink | None:
        """The link, of one query if one is shown, whose weight exceeds its base rate most.

        None for random numbers, and where no weight says much of its own query and key.
        """
        if self.is_random or not self.has_choice:
            return None
        # for given numbers alone: random ones start without what inspects heads
        from attnviz.analysis.inspection.inspect_options import InspectOptions
        from attnviz.analysis.inspection.token_query import most_telling_link

        heads = [head.all_rows(self.tokens) for head in self.heads]
        return most_telling_link(heads, InspectOptions(), self.query)

    @property
    def asked(self) -> tuple[Prediction, int] | None:
        """The answers of a small model, and a position that asks for one: the query, or the last;
        None for other traces, for one head, and if no such position asks.
        """
        prediction = self.trace.prediction
        if prediction is None or self.trace.model is None or self.of_one_head:
            return None
        asking = [at for at in prediction.asked_positions if self.query in (None, at)]
        return (prediction, asking[-1]) if asking else None

    @cached_property
    def read_for_answer(self) -> tuple[list[ShownHead], int] | None:
        """The heads of the last layer in which any head gives another token most of the attention
        of the token that asks for an answer, and the token that most of these heads read.
        """
        if self.asked is None or not self.rows_sum_to_one:
            return None
        _, position = self.asked
        for layer in reversed(self.trace.layers):
            keys = {
                head: int(weights.argmax())
                for head in self.heads
                if head.layer is layer
                and (weights := head.rows.weights_of(position)).max() > MAJORITY_SHARE
                and weights.argmax() != position
            }
            if keys:
                key, _ = Counter(keys.values()).most_common(1)[0]
                return [head for head in keys if keys[head] == key], key
        return None

    @property
    def copies(self) -> bool:
        """Whether what is read for the answer follows an earlier copy of the token that asks."""
        if self.asked is None or self.read_for_answer is None:
            return False
        (prediction, position), (_, key) = self.asked, self.read_for_answer
        is_copy = 0 < key < position and self.tokens.ids[key - 1] == self.tokens.ids[position]
        return is_copy and prediction.predicts == "next"

    @cached_property
    def split_rows(self) -> int:
        """How many tokens attend most, by a clear lead, to different keys in different heads; 0 if
        no layer has several heads, or if they attend to different sequences."""
        several = max(sum(h.layer is head.layer for h in self.heads) for head in self.heads)
        if several < 2 or not self.of_all or not self.is_self_attention:
            return 0
        favourites = np.stack([head.rows.favourites for head in self.heads])
        return sum(len({*row.tolist()} - {-1}) > 1 for row in favourites.T)

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
        return is_biased and self.has_choice

    def least_own_weight(self, *, mirrored: bool = False) -> float:
        """Return the smallest weight that a token gives itself in any head, or the mirrored
        position; 0 if keys are other tokens.
        """
        if not self.is_self_attention:
            return 0.0
        return min(head.rows.least_own_weight(mirrored=mirrored) for head in self.heads)

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

    @property
    def reader(self) -> str:
        """The subject of a title: `Each token`, or `In head 1, "it"`."""
        opening = self.heads[0].opening if len(self.heads) == 1 else ""
        if self.query is not None:
            return f"{opening}{quoted_token(self.tokens, self.query)}"
        return f"{opening}each token" if opening else "Each token"

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
    return choose_sentence(WEIGHT_FINDINGS, shown_weights(trace, query))


def cells_in_title(trace: Trace) -> dict[str, tuple[int, int]]:
    """Return, by the name of a head, the cell of its map that the title is about: what the token
    that asks for an answer reads there. Empty under other titles."""
    facts = shown_weights(trace, None)
    if facts.asked is None:  # as of most traces: the rest takes time
        return {}
    finding = next(each for each in WEIGHT_FINDINGS if each.holds(facts))
    if finding.sentence is not _read_for_answer_title:
        return {}
    assert facts.read_for_answer is not None
    (_, row), (heads, key) = facts.asked, facts.read_for_answer
    return {head.name: (row, key) for head in heads}


def shown_weights(trace: Trace, query: int | None) -> ShownWeights:
    """Return the weights of all heads of a trace that are on, or of one query in them."""
    heads = tuple(
        _shown_head(trace, layer, number, query)
        for layer in trace.attention_layers
        for number in range(layer.heads)
        if number not in layer.off
    )
    return ShownWeights(trace, heads, query)


def head_read_for_answer(trace: Trace) -> tuple[int, Layer, int] | None:
    """Return the token that asks for an answer, and the first head that the title names for it, as
    its layer and number."""
    facts = shown_weights(trace, None)
    if facts.asked is None or facts.read_for_answer is None:
        return None
    [first, *_], _ = facts.read_for_answer
    return facts.asked[1], first.layer, first.number


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
    heads = (_shown_head(trace, layer, number, query),)
    return choose_sentence(WEIGHT_FINDINGS, ShownWeights(trace, heads, query, of_one_head=True))


def _shown_head(trace: Trace, layer: Layer, number: int, query: int | None) -> ShownHead:
    """Return a head of a layer with all its rows, or with the row of the query alone."""
    rows = RowFacts(layer.weights.cells("mixing", number))
    if query is not None:
        row = rows.cells.row(query)
        rows = RowFacts(StoredCells(row.values, row.hidden), query)
    name = _shown_head_name(trace, layer, number)
    return ShownHead(name, layer, number, rows, trace.keys_of(layer))


def _shown_head_name(trace: Trace, layer: Layer, number: int) -> str:
    """Return a head's name, such as `L1H0`; empty if the trace has a single head."""
    several = sum(attention.heads for attention in trace.attention_layers) > 1
    return attention_head_name(trace, layer, number) if several else ""


def _mistake_title(facts: ShownWeights) -> str:
    """Return the shared mistake as a title, its symptoms only if every head shows them."""
    mistake = MISTAKES[facts.mistake]
    pairs = product([head.layer for head in facts.heads], mistake.symptoms)
    return f"✗ {mistake.about if all(starmap(has_symptom, pairs)) else mistake.cause}"


def _telling_link_title(facts: ShownWeights) -> str:
    """Return `In head 1, "it" gives "animal" 95 % of its attention; the others give it 9 %`, or
    that the row is like those of others."""
    from attnviz.views.inspection.link_sentences import telling_link_sentence

    assert facts.telling_link is not None
    return telling_link_sentence(facts.telling_link)


def _read_for_answer_title(facts: ShownWeights) -> str:
    """Return `"?" attends most to "keys" in L1H0 and L1H1; the answer is "are" (99.9 %)`; of
    an earlier copy, which heads find it: `L1H0 finds the earlier "a" and reads "c" after it; …`.
    """
    assert facts.asked is not None
    assert facts.read_for_answer is not None
    (prediction, position), (heads, key) = facts.asked, facts.read_for_answer
    answer = f"the answer is {quoted_answer(prediction, position)}"
    where = and_list([head.name for head in heads])
    query_name, key_name = (quoted_token(facts.tokens, each) for each in (position, key))
    if facts.copies:
        finds, reads = ("finds", "reads") if len(heads) == 1 else ("find", "read")
        earlier = quoted_token(facts.tokens, key - 1)
        copying = f"{where or 'The head'} {finds} the earlier {earlier} and {reads} {key_name}"
        return f"{copying} after it; {answer}"
    most = attends_most(query_name, key_name)
    return f"{most}{f' in {where}' * bool(where)}; {answer}"


def _mirrored_title(facts: ShownWeights) -> str:
    """Return that tokens attend to the mirrored place, and what a model answers at all of them."""
    text = attends_to("Each token", "the one at the mirrored place", "mostly")
    prediction = facts.trace.prediction
    if prediction is None or len(prediction.asked_positions) < len(facts.tokens):
        return text
    best = [prediction.answers[prediction.best(at, 1)[0]] for at in prediction.asked_positions]
    answers = " ".join(map(bidi_isolated, best[:MAX_LISTED_ANSWERS]))
    return f"{text}; the answers: {answers}{' …' * (len(best) > MAX_LISTED_ANSWERS)}"


def _mostly_itself_title(facts: ShownWeights) -> str:
    """Return `Each token gives itself 74 % or more of its attention`, or why if vectors are
    compared with themselves."""
    least = f"{percent_text(floor(100 * facts.least_own_weight()) / 100)} or more"
    if facts.trace.variant.projected:
        return gives(facts.reader, ITSELF, least)
    return f"{facts.reader} gives itself {least}: its vector matches itself best"


def _shares_title(facts: ShownWeights) -> str:
    """Return among how many tokens attention is divided: `Each token divides its attention among
    all 4 tokens: every row sums to 1`."""
    whom = "among the tokens that it may see"
    if not facts.has_masked_keys:
        count = len(facts.heads[0].keys)
        whom = "between both tokens" if count == 2 else f"among all {counted(count, 'token')}"
    text = f"{facts.reader} divides its attention {whom}"
    if facts.of_one_head:
        return text
    return f"{text}: {'every' if facts.query is None else 'the'} row sums to 1"


def _heads_differ_title(facts: ShownWeights) -> str:
    """Return `The 4 heads differ: they disagree on what 8 of the 9 tokens attend to most`."""
    split, count = facts.split_rows, counted(len(facts.tokens), "token")
    whose = f"all {count}" if split == len(facts.tokens) else f"{split} of the {count}"
    heads = f"The {len(facts.heads)} heads differ"
    return f"{heads}: they disagree on what {whose} attend to most"


def _only_key_title(facts: ShownWeights) -> str:
    """Return `"it" attends only to "cat"`, for a query with a single visible key."""
    assert facts.query is not None
    key = facts.key_text(facts.heads[0], facts.query, *facts.only_keys)
    return attends_to(facts.reader, key, "only")


WEIGHT_FINDINGS: tuple[Finding[ShownWeights], ...] = (
    Finding(
        "all heads are off", lambda facts: not facts.heads, lambda _: "Every head is switched off"
    ),
    Finding(
        "nothing is seen",
        lambda facts: facts.rows_are_blind,
        lambda facts: attends_to(facts.reader, ALL_MASKED_TEXT),
    ),
    Finding("a mistake", lambda facts: facts.mistake != "", _mistake_title),
    Finding(
        "one token",
        lambda facts: facts.is_self_attention and facts.rows_sum_to_one and len(facts.tokens) == 1,
        lambda facts: attends_to(
            quoted_token(facts.tokens, 0), "itself: there is no other token", "only"
        ),
    ),
    Finding(
        "one key",
        lambda facts: facts.rows_sum_to_one and len(facts.only_keys) == 1,
        _only_key_title,
    ),
    Finding(
        "equal shares",
        lambda facts: facts.has_choice and facts.unevenness < MAX_SLIGHT_UNEVENNESS,
        lambda facts: attends_to(
            facts.reader,
            facts.all_visible_text,
            "equally" if facts.unevenness < MAX_EQUAL_UNEVENNESS else "almost equally",
        ),
    ),
    Finding(
        "by distance alone",
        lambda facts: facts.query is None and facts.depends_on_distance,
        lambda _: "The nearer a token, the more attention it gets",
    ),
    # What a small model is for
    Finding(
        "mirrored",
        lambda facts: (
            facts.query is None
            and not facts.is_random
            and facts.rows_sum_to_one
            and facts.least_own_weight(mirrored=True) > MAJORITY_SHARE
        ),
        _mirrored_title,
    ),
    Finding(
        "what is read for the answer",
        lambda facts: facts.read_for_answer is not None,
        _read_for_answer_title,
        amount="it names no share of attention, but how likely the answer is",
    ),
    # What stands out in numbers that mean something
    Finding(
        "no shares",
        lambda facts: not facts.rows_sum_to_one,
        lambda facts: "The weights of a row do not sum to 1 here",
    ),
    Finding(
        "a row like others",
        lambda facts: facts.telling_link is not None and facts.telling_link.is_usual,
        _telling_link_title,
        amount="the sentence of the link names what the other tokens give",
    ),
    Finding(
        "a link beyond others",
        lambda facts: facts.telling_link is not None,
        _telling_link_title,
        amount="the sentence of the link names what the other tokens give",
    ),
    # What the variant does
    Finding(
        "heads that differ",
        lambda facts: facts.has_choice and 2 * facts.split_rows > len(facts.tokens),
        _heads_differ_title,
    ),
    Finding(
        "a mask",
        lambda facts: facts.of_all and facts.visible_by_mask != "",
        lambda facts: attends_to(facts.reader, facts.visible_by_mask, "only"),
    ),
    Finding(
        "nothing ahead",
        lambda facts: facts.of_all and facts.shape is not None and facts.shape.causal,
        lambda _: "No token attends to a later one",
    ),
    Finding(
        "mostly itself",
        lambda facts: (
            facts.query is None
            and not (facts.is_random and facts.trace.variant.projected)
            and facts.rows_sum_to_one
            and facts.least_own_weight() > MAJORITY_SHARE
        ),
        _mostly_itself_title,
        amount=IN_PICTURE,
    ),
    Finding(
        "two sequences",
        lambda facts: not facts.is_self_attention,
        lambda _: "Cross-attention: queries from one sequence, keys and values from another",
    ),
    Finding(
        "positions",
        lambda facts: (
            facts.of_all and facts.trace.positions != "none" and facts.trace.variant.compared
        ),
        lambda _: "Positions count: the same tokens in another order get other weights",
    ),
    Finding(
        "layers",
        lambda facts: facts.of_all and len(facts.trace.layers) > 1,
        lambda _: "Each layer computes its weights anew, from the vectors of the layer below",
    ),
    Finding("shares of 1", lambda facts: facts.has_choice, _shares_title),
    Finding(
        "nothing stands out",
        otherwise,
        lambda facts: f"Attention between {counted(len(facts.tokens), 'token')}",
    ),
)
