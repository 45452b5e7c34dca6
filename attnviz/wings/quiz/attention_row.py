"""AttentionRow: one query's row in a head, and whether a question about it is clear."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt
from random import Random

import numpy as np
from jaxtyping import Bool, Float

from attnviz.attention.mask_rule import MaskRule
from attnviz.cells import FULL_SLICE, Patch
from attnviz.tokens.tokens import Tokens
from attnviz.traces.origin import is_unmodified_model
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import Stage

MAX_CLEAR_EVENNESS = 0.8  # from there on no key stands out,
MAX_EVENNESS = 0.95  # and from there on all weights are nearly equal
MIN_LEAD, MIN_LEAD_RATIO = 0.1, 1.5  # of the largest weight over the next one
MAX_SHOWN_KEYS = 14  # of a row whose numbers are shown
MAX_EXPONENT = 20.0  # a score that a calculator can take to the power of e
SOFTMAX_TOLERANCE = 1e-4
BYTE_LABEL = re.compile("⟨[0-9a-f]{2}⟩")  # of a part of a letter, as `tokens.piece_label` writes it


@dataclass(frozen=True, eq=False)
class AttentionRow:
    """The weights of one query (a position) in one head of a layer."""

    trace: Trace
    layer: Layer
    head: int
    query: int
    stages: dict[Stage, Patch] = field(default_factory=dict)  # read before; shared in a head

    @property
    def head_name(self) -> str:
        return format_head_id(self.layer.layer, self.head)

    @property
    def keys(self) -> Tokens:
        return self.trace.keys_of(self.layer)

    @property
    def role(self) -> str:
        """What the card of a small model says that the head does, such as `reads the subject`;
        empty where it does not say, for tokens that it does not say it of, and if settings change
        what the head does.
        """
        model = self.trace.model
        if model is None or not is_unmodified_model(self.trace.origin):
            return ""
        is_asking = model.by_hand or self.query in model.vocabulary.asked(self.trace.tokens.ids)
        return model.heads.get(self.head_name, "") if is_asking else ""

    @property
    def has_random_vectors(self) -> bool:
        """Whether the numbers come from no model, so that only arithmetic can answer."""
        return self.trace.model is None and self.trace.trained is None

    @cached_property
    def weights(self) -> Float[np.ndarray, "key"]:
        """The weights, 0 for hidden keys."""
        return self._stage("mixing")

    @cached_property
    def visible(self) -> Bool[np.ndarray, "key"]:
        hidden = self._patch("mixing").hidden[self.query]
        return ~np.asarray(hidden, dtype=bool)

    @cached_property
    def scores(self) -> Float[np.ndarray, "key"] | None:
        """What the softmax is taken of, 0 for hidden keys; None if its softmax is not the weights.

        That is so where only weights are known, with dropout, with a sink, and for mistakes.
        """
        if self.layer.weights_alone or self.layer.attended.sink is not None:
            return None
        return self._if_softmax(self._stage("exponents"))

    @property
    def has_readable_numbers(self) -> bool:
        return len(self.keys) <= MAX_SHOWN_KEYS

    @property
    def needs_numbers(self) -> bool:
        """Whether only its scores can tell what it attends to most: the numbers are random, or no
        card says what the head does for this token.
        """
        return not self.role or self.best == self.query

    @property
    def is_written(self) -> bool:
        """Whether its query was written by hand, so that each number of it has a name."""
        model = self.trace.model
        return model is not None and model.by_hand and not self.needs_numbers

    @property
    def can_be_told(self) -> bool:
        """Whether what a question shows decides what the row attends to most: its scores, what the
        head does, or the query of a model that was written by hand.
        """
        if self.role and self.best == self.query:
            return False  # a word that its head was not written for
        if self.needs_numbers:
            return self.scores is not None and self.has_readable_numbers
        return not self.is_written or self.is_best_by_product

    @property
    def is_best_by_product(self) -> bool:
        """Whether the products of query and keys alone give the largest weight, without what is
        added for near keys.
        """
        queries, keys = self.layer.queries, self.layer.keys_of_heads
        if queries is None or keys is None or len(keys) != len(queries):
            return False
        products = (keys[self.head].float() @ queries[self.head, self.query].float()).numpy()
        others = np.delete(np.where(self.visible, products, -np.inf), self.best)
        return bool(products[self.best] >= others.max() + 1)

    @cached_property
    def unscaled(self) -> Float[np.ndarray, "key"] | None:
        """The weights without the division by √d_k; None if division by √d_k is not all that lies
        between the products and the weights.
        """
        if self.layer.weights_alone or self.layer.head_dim == 1:
            return None
        products = self._stage("scores")
        scaled = products / sqrt(self.layer.head_dim)
        return None if self._if_softmax(scaled) is None else self.softmax(products)

    def softmax(self, scores: Float[np.ndarray, "key"]) -> Float[np.ndarray, "key"]:
        """Return the softmax of scores over the visible keys, 0 for hidden ones."""
        exponents = np.where(self.visible, scores, -np.inf)
        powers = np.exp(exponents - exponents.max())
        return np.asarray(powers / powers.sum())

    def _stage(self, stage: Stage) -> Float[np.ndarray, "key"]:
        """Return the row at a stage, 0 for hidden keys."""
        row = self._patch(stage).values[self.query]
        return np.where(self.visible, row, 0.0).astype(float)

    def _patch(self, stage: Stage) -> Patch:
        """Return all rows of the head at a stage; a trained model computes them only once."""
        if stage not in self.stages:
            cells = self.layer.weights.cells(stage, self.head)
            self.stages[stage] = cells.window(FULL_SLICE, FULL_SLICE)
        return self.stages[stage]

    def _if_softmax(self, scores: Float[np.ndarray, "key"]) -> Float[np.ndarray, "key"] | None:
        """Return the scores if they are of a size to compute with, and their softmax is the
        weights; else None.
        """
        if not self.visible.any() or not (np.abs(scores) <= MAX_EXPONENT).all():
            return None
        is_softmax = np.allclose(self.softmax(scores), self.weights, rtol=0, atol=SOFTMAX_TOLERANCE)
        return scores if is_softmax else None

    @cached_property
    def plain_keys(self) -> list[int]:
        """The keys that an answer can name: no special token, and no word that is there twice."""
        return unmistakable_positions(self.keys)

    @property
    def best(self) -> int:
        return int(self.weights.argmax())

    @cached_property
    def evenness(self) -> float:
        """The entropy of the weights, as a share of the largest possible: 1 if all are equal; 1
        also where they are no shares of a row, or the query sees a single key.
        """
        shares = self.weights[self.visible]
        if len(shares) < 2 or not np.isfinite(shares).all() or abs(shares.sum() - 1) > 1e-3:
            return 1.0
        known = shares[shares > 0]
        return float(-(known * np.log(known)).sum()) / log(len(shares))

    @property
    def is_clear(self) -> bool:
        """Whether one visible key clearly has the largest weight, and the row is not nearly even;
        the key is one that an answer can name.
        """
        if self.evenness >= MAX_CLEAR_EVENNESS:
            return False
        second, first = np.sort(self.weights[self.visible])[-2:]
        leads = first - second >= MIN_LEAD and first >= MIN_LEAD_RATIO * second
        return bool(leads and self.best in self.plain_keys)


def has_plain_mask(layer: Layer) -> bool:
    """Return whether the mask can be said in a sentence: it is causal, or a window."""
    rule = layer.mask_rule
    if rule.matrix is None:
        return not rule.offset and rule.after in (0, rule.before)
    causal = MaskRule(after=0).visible(*layer.size, layer.inputs.device)
    return bool((rule.matrix == causal).all())


def unmistakable_positions(tokens: Tokens) -> list[int]:
    """Return the positions of tokens that nobody can take for another: not special, of letters or
    digits, no part of a letter, and not the same word as another one, whatever its capitals.
    """
    folded = [label.strip().casefold() for label in tokens.labels]
    counts = Counter(folded)
    return [
        position
        for position, label in enumerate(folded)
        if counts[label] == 1
        and position not in tokens.special
        and not BYTE_LABEL.search(label)
        and (any(map(str.isalnum, label)) or label == "?")
    ]


def attention_rows(
    trace: Trace, heads: Sequence[str] = (), queries: Sequence[int] | None = None
) -> Iterator[AttentionRow]:
    """Yield the row of each query in each head that is not switched off.

    `heads` (names) and `queries` (positions) choose among them; () and None choose all that an
    answer can name.
    """
    plain = unmistakable_positions(trace.tokens) if queries is None else queries
    for layer in trace.layers:
        for head in range(layer.heads):
            if head in layer.off or (heads and format_head_id(layer.layer, head) not in heads):
                continue
            stages: dict[Stage, Patch] = {}
            yield from (AttentionRow(trace, layer, head, query, stages) for query in plain)


@dataclass(frozen=True, eq=False)
class Search:
    """Where questions are looked for: some rows of a Trace, in an order that a seed decides."""

    trace: Trace
    rows: tuple[AttentionRow, ...]
    heads: tuple[AttentionRow, ...]  # a row of each head
    random: Random


def build_search(
    trace: Trace, heads: Sequence[str], queries: Sequence[int] | None, seed: str
) -> Search:
    random = Random(seed)
    rows = [*attention_rows(trace, heads, queries)]
    random.shuffle(rows)
    return Search(trace, tuple(rows), tuple(attention_rows(trace, heads, (0,))), random)
