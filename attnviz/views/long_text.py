"""The View of a long text: maps of blocks, profiles along the text, and what is read most."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attnviz.attention.long_attention import AttentionSummary
from attnviz.tokens.tokens import Tokens, piece_label
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import bidi_isolated

SINK_SHARE = 0.2  # of all attention, from which the first token is the finding
NEEDLE_FACTOR = 50.0  # times the mean of all keys, from which another token is the finding
NEARBY_SHARE = 0.05  # of the text, up to which half of the attention is nearby
MOST_READ = 10  # tokens that are listed
PASSAGE_TOKENS = 4  # on either side of a token that is listed
TABLE_ROWS = 8  # of the numbers along the text on a terminal


@dataclass(frozen=True, eq=False)
class LongHead:
    """One head of a layer that reads a long text, with what was measured of it."""

    trace: Trace
    layer: Layer
    head: int

    @cached_property
    def summary(self) -> AttentionSummary:
        """What was measured of all heads of the layer."""
        weights = self.layer.weights
        assert isinstance(weights, LongWeights)
        return weights.summary

    @property
    def keys(self) -> Tokens:
        """The tokens that are read."""
        return self.trace.keys_of(self.layer)

    def numbers(self, name: str) -> Float[np.ndarray, "token"]:
        """Return what was measured under this name for each query, or for each key."""
        return tensor_to_numpy(getattr(self.summary, name)[self.head]).astype(float)

    @cached_property
    def received(self) -> Float[np.ndarray, "key"]:
        """How much attention each key receives: the sum of its column."""
        return self.numbers("received")

    @cached_property
    def most_read(self) -> list[int]:
        """The positions of the keys that receive the most attention, the first of them first."""
        count = min(MOST_READ, len(self.received))
        order = np.argsort(-self.received, kind="stable")[:count]
        return [int(position) for position in order]

    def received_share(self, position: int) -> float:
        """Return the share of all attention that one key receives."""
        return float(self.received[position] / max(self.received.sum(), 1e-30))

    def finding(self) -> str:
        """Return a sentence on what stands out: a token that much attention goes to, how near it
        stays, or how widely it is spread.
        """
        tokens, first = counted_tokens(len(self.received)), self.received_share(0)
        top = next(position for position in self.most_read if position or len(self.received) == 1)
        is_needle = self.received[top] >= NEEDLE_FACTOR * self.received.mean()
        if is_needle and top and self.received_share(top) > first:
            share = percent_text(self.received_share(top))
            return f"{self._named(top)} receives {share} of the attention of {tokens}"
        if first >= SINK_SHARE:
            return f"The first token, {self._quoted(0)}, receives {percent_text(first)} of the attention of {tokens}"
        distance, share = self._near_half()
        if distance <= NEARBY_SHARE * len(self.received):
            near = counted_tokens(distance)
            return f"{percent_text(share)} of the attention stays within {near}"
        broad = round(2 ** self.numbers("entropy").mean())
        return f"Attention is spread as widely as evenly over {broad:,} of {tokens}"

    def _near_half(self) -> tuple[int, float]:
        """Return the smallest of the measured distances within which half of the attention stays,
        and the share that stays within it.
        """
        masses = tensor_to_numpy(self.summary.by_distance[self.head]).astype(float)
        shares = masses.cumsum() / max(masses.sum(), 1e-30)
        index = int(np.searchsorted(shares, 0.5))
        return int(self.summary.distance_edges[index + 1]) - 1, float(shares[index])

    def _quoted(self, position: int) -> str:
        return f'"{bidi_isolated(piece_label(self.keys.pieces[position]))}"'

    def _named(self, position: int) -> str:
        return f"{self._quoted(position)} (token {position + 1:,})"

    def passage(self, position: int) -> str:
        """Return a key with the tokens around it, itself in brackets."""
        pieces = self.keys.pieces
        start, stop = max(0, position - PASSAGE_TOKENS), position + PASSAGE_TOKENS + 1
        before, after = (
            b"".join(part).decode(errors="replace")
            for part in (pieces[start:position], pieces[position + 1 : stop])
        )
        word = pieces[position].decode(errors="replace")
        text = f"{before}{word[: len(word) - len(word.lstrip())]}[{word.strip()}]{after}"
        return f"{'…' * (start > 0)}{' '.join(text.split())}{'…' * (stop < len(pieces))}"
