"""What every head does on each line of a corpus: pattern scores, entropy, distance.

The lines of a batch are measured at once, by the arithmetic that measures a single sentence
(`inspection/patterns.py`); padding counts as masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attnviz.analysis.inspection.patterns import (
    BROAD_PATTERN,
    COLUMN_PATTERN,
    KEY_PATTERNS,
    PATTERN_KINDS,
    KeyMasks,
    breadth_totals,
    enough_showing,
    find_columns,
    join_totals,
    key_masks,
    key_totals,
    most_attended_keys,
    pattern_tokens_of_sides,
    pattern_totals,
    strongest_kinds,
    sum_rows,
)
from attnviz.heads.side import token_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trained.batches import LayerWeights

LineScores = Float[np.ndarray, "line head measure"]
LinePairs = Float[np.ndarray, "line head pattern 3"]  # query, key, weight


@dataclass(frozen=True)
class Measure:
    """A number that says something of a head on a line."""

    name: str
    about: str
    is_share: bool = True  # whether it lies between 0 and 1


MEASURES: tuple[Measure, ...] = (
    *(Measure(kind.name, kind.about) for kind in PATTERN_KINDS),
    Measure(
        "sinks together",
        "the share that goes to the first token, punctuation, new lines and tokens that the "
        "tokenizer added, except the token itself",
    ),
    Measure("entropy", "the entropy of a token's attention, in bits", is_share=False),
    Measure("distance", "how many tokens away the attention goes, on average", is_share=False),
)
BROAD, COLUMN = PATTERN_KINDS.index(BROAD_PATTERN), PATTERN_KINDS.index(COLUMN_PATTERN)
KINDS, SINKS, ENTROPY, DISTANCE = len(PATTERN_KINDS), *range(len(PATTERN_KINDS), len(MEASURES))
SINK_PATTERNS = [kind.short in ("first", "separators") for kind in KEY_PATTERNS]
ANY_PAIR = len(KEY_PATTERNS)  # the index of the largest weight of all, among the pairs of a head


@dataclass(frozen=True, eq=False)
class LineMeasures:
    """What heads do on some lines; NaN where a line cannot show it."""

    scores: LineScores
    even: LineScores  # of attention to all visible keys alike; NaN for entropy and distance
    kinds: Int[np.ndarray, "line head"]  # main patterns, in PATTERN_KINDS; -1: none
    pairs: LinePairs  # for each key pattern, and for any, the pair with the largest weight


@dataclass(frozen=True, eq=False)
class BatchTokens:
    """What is known of the tokens of some lines, padded to one length, before any weight is."""

    masks: KeyMasks  # those of KEY_PATTERNS, and that of sinks
    steps: Float[np.ndarray, "query key"]  # how many tokens apart
    may_be_column: Bool[np.ndarray, "line key"]
    is_token: Bool[np.ndarray, "line token"]  # not padding
    # The pairs of tokens that belong to patterns, in the order of lines and patterns:
    pair_places: tuple[Int[np.ndarray, "pair"], ...]  # line, query, key
    pair_group: Int[np.ndarray, "pair"]  # line × patterns + pattern

    @classmethod
    def of_lines(cls, lines: Sequence[Tokens]) -> BatchTokens:
        """Return what is known of these lines."""
        longest = max(map(len, lines))
        masks = np.zeros((len(lines), longest, longest, len(KEY_PATTERNS) + 1), dtype=np.float32)
        may_be_column = np.zeros((len(lines), longest), dtype=bool)
        for number, tokens in enumerate(lines):
            side, count = token_side(tokens), len(tokens)
            line_tokens = pattern_tokens_of_sides(side, side, same_text=True)
            line_masks = key_masks(np.arange(count), line_tokens)
            masks[number, :count, :count, :-1] = line_masks
            masks[number, :count, :count, -1] = line_masks[..., SINK_PATTERNS].any(-1)
            may_be_column[number, :count] = line_tokens.may_be_column
        position = np.arange(longest)
        lines_of, patterns, queries, keys = np.nonzero(masks[..., :-1].transpose(0, 3, 1, 2))
        return cls(
            masks=masks,
            steps=np.abs(position[:, None] - position).astype(np.float32),
            may_be_column=may_be_column,
            is_token=position < np.array([len(tokens) for tokens in lines])[:, None],
            pair_places=(lines_of, queries, keys),
            pair_group=lines_of * len(KEY_PATTERNS) + patterns,
        )

    def measure(self, layer: LayerWeights) -> LineMeasures:
        """Return what the heads of a layer do on these lines."""
        weights = layer.weights.float().cpu().numpy()
        is_visible = layer.visible.cpu().numpy() & self.is_token[:, None, :, None]
        values = np.ascontiguousarray(weights.transpose(0, 2, 1, 3))
        visible = is_visible.transpose(0, 2, 1, 3).astype(np.float32)
        largest = most_attended_keys(values)
        by_mask = pattern_totals(values, visible, largest, self.masks)
        breadth = breadth_totals(values, visible)
        by_key = key_totals(values, visible, largest)
        columns = find_columns(by_key, self.may_be_column)
        totals = join_totals(by_mask[..., :-1], breadth, by_key, columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            patterns, even = totals[:2] / totals[2]
            sinks, even_sinks = by_mask[:2, ..., -1] / by_mask[2, ..., -1]
            entropy = breadth[1] / breadth[2]
            distance = self._distance_sums(values, visible) / breadth[2]
            excess = (patterns - even) / (1 - even)
        excess[..., BROAD] = np.nan
        can_show = enough_showing(totals[2], self.is_token.sum(1)[:, None, None])
        kinds = strongest_kinds(np.where(can_show, excess, np.nan), patterns)
        for numbers in (patterns, even):  # a line without a column has 0 of it
            numbers[..., COLUMN] = np.where(
                breadth[2] > 0, np.nan_to_num(numbers[..., COLUMN]), np.nan
            )
        unknown = np.full_like(entropy, np.nan)
        return LineMeasures(
            scores=_joined(patterns, sinks, entropy, distance),
            even=_joined(even, even_sinks, unknown, unknown),
            kinds=kinds,
            pairs=self._largest_pairs(weights * is_visible),
        )

    def _distance_sums(
        self,
        values: Float[np.ndarray, "line query head key"],
        visible: Float[np.ndarray, "line query #head key"],
    ) -> Float[np.ndarray, "line head"]:
        """Return the mean distance of each token's attention, summed over tokens with a choice."""
        row_sums = sum_rows(values)
        has_choice = (sum_rows(visible) > 1) & (row_sums > 0)
        distances = np.einsum("lqhk,qk->lqh", values, self.steps)
        means = np.where(has_choice, distances / np.where(has_choice, row_sums, 1), 0)
        return np.asarray(means.sum(1))

    def _largest_pairs(self, weights: Float[np.ndarray, "line head query key"]) -> LinePairs:
        """Return for each line and head the pair with the largest weight in each pattern, and of
        all pairs; weight 0 where a line has no pair of a pattern."""
        lines, heads, _, keys = weights.shape
        pairs = np.zeros((lines, heads, len(KEY_PATTERNS) + 1, 3), dtype=np.float32)
        flat = weights.reshape(lines, heads, -1)
        best = flat.argmax(-1)
        pairs[:, :, ANY_PAIR] = np.stack(
            [best // keys, best % keys, np.take_along_axis(flat, best[..., None], -1)[..., 0]], -1
        )
        group, first = np.unique(self.pair_group, return_index=True)
        if len(group):
            line, query, key = self.pair_places
            of_pairs = weights[line, :, query, key]  # pair head
            most = np.maximum.reduceat(of_pairs, first)
            sizes = np.diff([*first, len(of_pairs)])
            place = np.arange(len(of_pairs))[:, None]
            is_most = of_pairs == np.repeat(most, sizes, axis=0)
            chosen = np.minimum.reduceat(np.where(is_most, place, len(of_pairs)), first)
            places = np.stack([query[chosen], key[chosen], most], -1)
            pairs[group // len(KEY_PATTERNS), :, group % len(KEY_PATTERNS)] = places
        return pairs


def _joined(
    patterns: Float[np.ndarray, "line head kind"], *others: Float[np.ndarray, "line head"]
) -> LineScores:
    return np.concatenate([patterns, np.stack(others, axis=-1)], axis=-1)


def join_layers(layers: Sequence[LineMeasures]) -> LineMeasures:
    """Return the measures of the heads of several layers as those of one."""
    return LineMeasures(
        *(
            np.concatenate([getattr(layer, name) for layer in layers], axis=1)
            for name in LineMeasures.__dataclass_fields__
        )
    )
