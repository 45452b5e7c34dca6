"""Sums over the lines of a corpus for every head; memory does not grow with the lines.

Sums over lines give means, spreads and intervals, so that no line has to be kept. Some lines are
kept as examples: a sample that is the same for all heads, and those on which a head does most of
something. Every random number depends on the number of its line only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from jaxtyping import Float, Int

from attnviz.tokens.tokens import Tokens
from attnviz.traces.trained.batches import TextBatch
from attnviz.vectors.random_numbers import draw_uniform
from attnviz.wings.corpora.line_measures import KINDS, MEASURES, LineMeasures
from attnviz.wings.corpora.mean_estimates import CorpusEstimates, MeanEstimates, RepeatedTexts

SAMPLED_LINES = 400
TOP_LINES = 3  # on which a head does most of something
FIRST_LINES, NO_LINE = 5, np.iinfo(int).max  # numbers that are kept of the lines of a group
IS_SHARE = np.array([measure.is_share for measure in MEASURES])
HeadNumbers = Float[np.ndarray, "head measure"]


@dataclass(frozen=True, eq=False)
class KeptLine:
    """A line that is kept as an example, with what each head does on it."""

    number: int
    tokens: Tokens
    scores: Float[np.ndarray, "head measure"]
    kinds: Int[np.ndarray, "head"]  # each head's main pattern; -1: none
    pairs: Float[np.ndarray, "head pattern 3"]


class CorpusTotals:
    """Sums over the lines of a corpus, to which batches of lines are added."""

    def __init__(self, heads: int, seed: int) -> None:
        self.seed = seed
        self.lines = self.tokens = 0
        # Of what heads do, and of even attention where a line shows what they do:
        self.all_estimates = CorpusEstimates(2, heads, len(MEASURES))
        self.repeats = RepeatedTexts()
        # For each main kind (the last one is none) the lines where it is one, and sums over them:
        self.kind_counts = np.zeros((heads, KINDS + 1))
        self.kind_sums = np.zeros((heads, KINDS + 1, KINDS))
        self.first_lines = np.full((FIRST_LINES, heads, KINDS + 1), NO_LINE)
        self.top_scores = np.full((TOP_LINES, heads, KINDS), -np.inf)
        self.top_numbers = np.full((TOP_LINES, heads, KINDS), -1)
        self.sample: dict[int, tuple[float, KeptLine]] = {}
        self.top_texts: dict[int, Tokens] = {}

    def add(self, batch: TextBatch, measured: LineMeasures, documents: Sequence[int] = ()) -> None:
        """Add the lines of a batch, each with the number of its document, if any."""
        numbers, scores = np.array(batch.numbers), measured.scores.astype(np.float64)
        self.lines += len(numbers)
        self.tokens += sum(map(len, batch.tokens))
        for tokens in batch.tokens:
            self.repeats.add(tokens.ids)
        even = np.where(np.isnan(scores), np.nan, np.nan_to_num(measured.even))
        self.all_estimates.add(np.stack([scores, even], 1), documents)
        self._add_kinds(numbers, measured.kinds, np.nan_to_num(scores[..., :KINDS]))
        self._keep_top_lines(batch, scores[..., :KINDS])
        self._sample_lines(batch, measured)

    def _add_kinds(
        self,
        numbers: Int[np.ndarray, "line"],
        kinds: Int[np.ndarray, "line head"],
        scores: Float[np.ndarray, "line head kind"],
    ) -> None:
        """Add to the sums over the lines that have the same main kind."""
        is_kind = kinds[..., None] == [*range(KINDS), -1]  # line head kind
        self.kind_counts += is_kind.sum(0)
        self.kind_sums += np.einsum("lhk,lhm->hkm", is_kind.astype(np.float64), scores)
        of_kinds = np.where(is_kind, numbers[:, None, None], NO_LINE)
        self.first_lines = np.sort([*self.first_lines, *of_kinds], axis=0)[:FIRST_LINES]

    def _keep_top_lines(
        self, batch: TextBatch, scores: Float[np.ndarray, "line head kind"]
    ) -> None:
        """Keep the lines with the highest scores; of equal ones the earlier line."""
        shape = (len(scores), *scores.shape[1:])
        numbers = np.broadcast_to(np.array(batch.numbers)[:, None, None], shape)
        all_scores = np.concatenate([self.top_scores, np.nan_to_num(scores, nan=-np.inf)])
        all_numbers = np.concatenate([self.top_numbers, numbers])
        order = np.lexsort((all_numbers, -all_scores), axis=0)[:TOP_LINES]
        self.top_scores = np.take_along_axis(all_scores, order, 0)
        self.top_numbers = np.take_along_axis(all_numbers, order, 0)
        texts = self.top_texts | dict(zip(batch.numbers, batch.tokens, strict=True))
        wanted = set(np.unique(self.top_numbers).tolist())
        self.top_texts = {number: texts[number] for number in texts if number in wanted}

    def _sample_lines(self, batch: TextBatch, measured: LineMeasures) -> None:
        """Keep a random sample of all lines: those with the lowest of random numbers."""
        draws = draw_uniform((self.seed,), "sample", batch.numbers, 1)[0, :, 0].tolist()
        limit = np.inf
        if len(self.sample) >= SAMPLED_LINES:
            limit = max(draw for draw, _ in self.sample.values())
        for place, draw in enumerate(draws):
            if draw < limit:
                self.sample[batch.numbers[place]] = draw, kept_line(batch, measured, place)
        lowest = sorted(self.sample.items(), key=lambda item: item[1][0])[:SAMPLED_LINES]
        self.sample = dict(lowest)

    @property
    def counts(self) -> HeadNumbers:
        """How many lines can show each measure of each head."""
        return np.asarray(self.all_estimates.of_lines.counts[0])

    @property
    def estimates(self) -> MeanEstimates:
        """The estimates over documents, if there are several, or lines."""
        return self.all_estimates.units

    def group_p_value(self, head: int, kinds: tuple[int, int]) -> float:
        """Return the p value of two groups of lines: those with each of two main kinds of a head.

        A random half of the sampled lines, of equal ones only one, says where the groups are, and
        the other half is tested.
        """
        drawn = [line for _, line in sorted(self.sample.values(), key=lambda item: item[0])]
        lines = {line.tokens.ids: line for line in drawn}.values()
        scores = np.array([line.scores[head, [*kinds]] for line in lines]).reshape(-1, 2)
        differences, main = scores[:, 0] - scores[:, 1], np.array([x.kinds[head] for x in lines])
        first, second = (differences[::2][main[::2] == kind] for kind in kinds)
        return valley_p_value(first, second, differences[1::2])

    def intervals(self) -> Float[np.ndarray, "2 head measure"]:
        """Return the ends of the 95 % interval of each mean; NaN for few lines or documents."""
        return self.estimates.intervals()[:, 0]

    def even_means(self) -> HeadNumbers:
        """Return the means of even attention; NaN where no line shows it."""
        return np.where(IS_SHARE, self.estimates.means()[1], np.nan)


def kept_line(batch: TextBatch, measured: LineMeasures, place: int) -> KeptLine:
    """Return a line of a batch as an example."""
    scores, kinds = measured.scores[place].astype(np.float32), measured.kinds[place].copy()
    pairs = measured.pairs[place].copy()
    return KeptLine(batch.numbers[place], batch.tokens[place], scores, kinds, pairs)


def valley_p_value(
    first: Float[np.ndarray, "*"], second: Float[np.ndarray, "*"], tested: Float[np.ndarray, "*"]
) -> float:
    """Return how likely so few of the `tested` numbers lie between two groups if they have a single
    peak.

    Three windows, a third of the groups' distance wide, are around the medians of the groups and
    half-way between them. With a single peak, wherever it is, a number is at least as likely to be
    in the middle window as in one of the others. So the p value is the larger of two binomial
    tests, each of the middle against one side.
    """
    if not (len(first) and len(second)):
        return 1.0
    ends = np.median(first), np.median(second)
    centers = np.array([ends[0], sum(ends) / 2, ends[1]])
    is_inside = abs(tested[:, None] - centers) < abs(ends[0] - ends[1]) / 6
    one, middle, other = map(int, is_inside.sum(0))
    return max(_at_most(middle, middle + side) for side in (one, other))


def _at_most(count: int, tosses: int) -> float:
    """Return the probability of at most so many heads in tosses of a fair coin."""
    return sum(comb(tosses, heads) for heads in range(count + 1)) / 2.0**tosses


def line_batch(lines: Sequence[tuple[int, Tokens]]) -> TextBatch:
    numbers, tokens = zip(*lines, strict=True)
    return TextBatch(numbers, tokens, 0)
