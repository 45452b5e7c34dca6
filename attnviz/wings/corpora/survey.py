"""survey(): what each head of a transformer does over a corpus of texts.

A head's best pattern is the one whose mean over the lines is furthest beyond even attention, as in
a single sentence. It stands out if that is clear even at the lower end of its interval. It has two
groups of lines if two patterns are each its main one on many lines, the lines of each show clearly
more of it than those of the other, and few lines are between them. Lines of a head that does one
thing, more or less, differ as well when they are sorted by what it does on them; so the last
condition is a test, whose p value is corrected for the number of heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, Int

from attnviz.analysis.inspection.patterns import (
    BROAD_PATTERN,
    MIN_BROAD_ENTROPY,
    MIN_PATTERN_EXCESS,
    PATTERN_KINDS,
    PatternKind,
    strongest_kinds,
)
from attnviz.errors import AttnvizError, model_error
from attnviz.machine.exit_handling import stop_on_interrupt
from attnviz.tokens.tokens import Tokens
from attnviz.traces.early_checks import from_first_text
from attnviz.traces.result import NamedHead, RanksHeads, Rows, Showable
from attnviz.traces.settings import HeadId, Settings, TextsKeywords, format_head_id
from attnviz.traces.trace import Provenance
from attnviz.traces.trained import batches
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import (
    max_token_count,
    reporting_tokenizer_errors,
    tokenizer_spelling,
    tokens_of_ids,
)
from attnviz.traces.trained.tracing import transformer_provenance
from attnviz.vectors.random_numbers import draw_uniform
from attnviz.wings.corpora.line_measures import (
    ANY_PAIR,
    BROAD,
    KINDS,
    MEASURES,
    BatchTokens,
    LineMeasures,
    join_layers,
)
from attnviz.wings.corpora.mean_estimates import MIN_INTERVAL_OBSERVATIONS
from attnviz.wings.corpora.texts import FilledTexts
from attnviz.wings.corpora.totals import NO_LINE, CorpusTotals, KeptLine, kept_line, line_batch
from attnviz.wording.keywords import built_by, with_checked_arguments
from attnviz.wording.numbers import share_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

REPEATED_TOKENS, REPEATED_TEXTS = 20, 5  # random tokens, which are there twice; and such texts
MIN_LINES = MIN_INTERVAL_OBSERVATIONS  # below, no interval, and nothing stands out
MIN_PART_SHARE = 0.2  # of the lines, for a group of lines
GROUPS_LEVEL = 0.05  # the chance to find groups in any head of a model whose heads have none
TENTHS = 10
MEASURE_NAMES = tuple(measure.name for measure in MEASURES)
INDUCTION = MEASURE_NAMES.index("induction")
LITTLE = ("first", "separators", "broad")  # patterns that say little
LineTracker = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True)
class Estimate:
    """A measure of a head over the lines that can show it, or over documents, if there are several;
    NaN for what is not known."""

    mean: float  # over lines, or over documents, of which each is the mean over its lines
    spread: float  # the standard deviation between them
    low: float  # the ends of the 95 % interval of the mean
    high: float
    even: float  # the mean for a head that attends to all visible tokens alike
    lines: int


@dataclass(frozen=True)
class CorpusPart:
    """One of two groups of lines: those on which one pattern is a head's main one."""

    kind: PatternKind
    lines: int
    share: float  # of all lines
    mean: float  # of this pattern's score, on these lines
    elsewhere: float  # the same on the lines of the other group
    first_lines: tuple[int, ...]  # numbers of the first of them, from 1, as in the file
    p_value: float  # of both groups, corrected for the number of heads
    examples: tuple[Example, ...]  # those with most of the pattern


@dataclass(frozen=True, eq=False)
class Example:
    """A line on which a head does much or little of its best pattern, with a pair of tokens."""

    tenth: int  # of the lines by their score, from 1 (lowest) to the number of tenths
    line: int  # from 1, as in the file
    tokens: Tokens
    score: float
    query: int
    key: int
    weight: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SurveyedHead(NamedHead):
    """What one head does over a corpus."""

    estimates: Mapping[str, Estimate]  # by the name of the measure
    best: PatternKind | None  # the pattern it shows most, clear or not; None: no line shows any
    kind: PatternKind | None  # `best`, if that is clear
    stands_out: bool
    often: float  # the share of the lines that can show `best` on which it is the main pattern
    repeats: Estimate  # the induction score on random tokens that are there twice
    parts: tuple[CorpusPart, ...]  # two groups of lines on which it does different things, or ()
    examples: tuple[Example, ...]  # the lines with most of its best pattern first

    def __repr__(self) -> str:
        """Return a line like `<L0H2: previous token .98, evenly .14>`."""
        estimate = self.estimate
        if self.best is None or estimate is None:
            return f"<{self.name}: no pattern>"
        shares = f"{share_text(estimate.mean)}, evenly {share_text(estimate.even)}"
        return f"<{self.name}: {self.best.name} {shares}>"

    @property
    def does_more(self) -> bool:
        """Whether it stands out by more than broad attention, or attention to the first token or to
        separators."""
        return self.stands_out and self.best is not None and self.best.short not in LITTLE

    @property
    def estimate(self) -> Estimate | None:
        return None if self.best is None else self.estimates[self.best.name]

    @property
    def excess(self) -> float:
        """How far its best pattern is beyond even attention, as a share of the most possible; for
        broad attention how far it is from the least that counts. -1 without a pattern."""
        return -1.0 if self.best is None else _excess(self.best, self.estimates[self.best.name])


@built_by('survey(["…"])')
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Survey(RanksHeads, Showable):
    """What the heads of a model do over a corpus; `heads` are in the order of the model.

    >>> from attnviz import survey
    >>> survey(["She is not here yet.", "It is late."])["L0H2"].estimates["previous token"].lines
    2
    """

    heads: tuple[SurveyedHead, ...]
    model: str
    lines: int
    tokens: int
    blank_lines: int
    documents: int  # which blank lines separate; each is an observation if there are several
    cut_lines: int  # lost their last tokens, as the model has no positions for them
    repeated_lines: int  # whose tokens are those of an earlier line, among the first million
    interrupted: bool  # whether Ctrl-C ended the survey before the corpus did
    provenance: Provenance

    @property
    def observations(self) -> tuple[int, str]:
        """How many independent observations there are taken to be, and of what."""
        return (self.documents, "document") if self.documents > 1 else (self.lines, "line")

    @property
    def head_rows(self) -> tuple[SurveyedHead, ...]:
        """The heads in the order of the model."""
        return self.heads

    @property
    def ranking(self) -> Rows[SurveyedHead]:
        """The heads with those that stand out first."""
        return Rows(self.ranked)

    @cached_property
    def ranked(self) -> tuple[SurveyedHead, ...]:
        """The heads that do more than attend broadly, to the first token or to separators, then
        others that stand out, then the rest; each by how far its best pattern is beyond even
        attention."""
        order = sorted(self.heads, key=lambda h: (not h.does_more, not h.stands_out, -h.excess))
        return tuple(order)


@with_checked_arguments
def survey(
    texts: Iterable[str] | str | Path,
    settings: Settings | None = None,
    *,
    track: LineTracker = iter,
    command: str | None = None,
    **changes: Unpack[TextsKeywords],
) -> Survey:
    """Return what each head of a transformer does over texts: `survey(["It is late.", …])`

    `texts` are strings, or the path or name of a file with one text per line; they are read one
    after another, so that there may be millions. Blank ones separate documents: if there are
    several, means and intervals are over documents, not lines. Blank ones are counted, and so are
    those whose end is left out because the model has no positions for it. Ctrl-C ends the survey,
    which then has the texts that were read so far. Keywords replace fields of the settings, such
    as `model`, which may be a loaded one with its `tokenizer`; `seed` draws the sample of lines and
    the random tokens. `track` is called with the numbers of the lines as they are done, to report
    progress. Refuses a single string, texts that are all blank (before the model is loaded), and a
    model that is no transformer.

    >>> from attnviz import survey
    >>> found = survey(["The animal was tired.", "It is late, and she is not here yet."] * 3)
    >>> found["L0H2"].best.name, found.lines
    ('previous token', 6)
    """
    lines = from_first_text(batches.iterate_texts(texts))
    model, settings = batches.model_for_texts(settings, changes, "a survey is")
    reading = _Reading(model, settings.seed)
    with stop_on_interrupt() as stopped:
        interrupted = any(stopped() for _ in track(reading.read(lines)))
    return reading.result(interrupted, settings, command)


def induction_on_repeats(
    model: LoadedTransformer, seed: int, *, captured: bool
) -> dict[str, tuple[float, float]]:
    """Return for each head its induction score on random tokens that are there twice, and that of
    even attention, by its name. `captured`: whether the model's attention is captured exactly."""
    reading = _Reading(model, seed, captured)
    repeats = reading.repeats
    means, even = (
        n[:, INDUCTION].tolist() for n in (repeats.estimates.means()[0], repeats.even_means())
    )
    names = [format_head_id(*head) for head in reading.head_ids]
    return dict(zip(names, zip(means, even, strict=True), strict=True))


@dataclass(frozen=True)
class LineGroups:
    """Two main patterns of a head, and the mean of each on the lines of each."""

    kinds: tuple[int, int]  # indices in PATTERN_KINDS
    means: Float[np.ndarray, "group=2 pattern=2"]
    p_value: float


class _Reading:
    """A model while it reads a corpus, and what its heads have done so far."""

    def __init__(self, model: LoadedTransformer, seed: int, captured: bool | None = None) -> None:
        self.model, self.seed = model, seed
        repeated = _repeated_tokens(model, seed)
        self.captured = (
            batches.captures_exactly(model, repeated[0].ids) if captured is None else captured
        )
        measured = self._measure(line_batch([*enumerate(repeated)]))
        self.head_ids = self.layer_heads
        self.repeats = CorpusTotals(len(self.head_ids), seed)
        self.repeats.add(line_batch([*enumerate(repeated)]), measured)
        self.totals = CorpusTotals(len(self.head_ids), seed)
        self.cut_lines = 0
        self.texts = FilledTexts(())
        self.documents: dict[int, int] = {}  # of the lines that were read and not yet measured
        self.is_new_chunk = False  # whether all lines that were read have been measured

    def read(self, texts: Iterable[str]) -> Iterator[int]:
        """Add all texts to the totals; yield the numbers of those of a batch once it is added."""
        self.texts = FilledTexts(texts)
        for batch in batches.make_batches(self.model, self._numbered_lines(), truncate=True):
            documents = [self.documents[number] for number in batch.numbers]
            self.totals.add(batch, self._measure(batch), documents)
            self.is_new_chunk = True
            self.cut_lines += batch.cut
            yield from batch.numbers

    def _numbered_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the texts that are not blank with their numbers from 0, and note their documents.

        Batches are made of many lines at once; when those that follow are asked for, all earlier
        ones have been measured, and no line will be added to the documents before.
        """
        for line in self.texts:
            if self.is_new_chunk:
                self.is_new_chunk = False
                self.documents.clear()
                self.totals.all_estimates.close_documents(before=line.document)
            self.documents[line.number - 1] = line.document
            yield line.number - 1, line.text

    def _measure(self, batch: batches.TextBatch) -> LineMeasures:
        """Return what all heads do on the lines of a batch, and note which heads there are."""
        tokens, layers = BatchTokens.of_lines(batch.tokens), list[LineMeasures]()
        self.layer_heads: list[HeadId] = []

        def visit(layer: batches.LayerWeights) -> None:
            layers.append(tokens.measure(layer))
            self.layer_heads += layer.head_ids

        batches.visit_layers(self.model, batch.ids, visit, captured=self.captured)
        return join_layers(layers)

    def result(self, interrupted: bool, settings: Settings, command: str | None) -> Survey:
        """Return the survey; refuse a corpus without a single token."""
        if not self.totals.lines:
            raise AttnvizError(
                "the model's tokenizer makes no token of any text", "give other texts",
                about="texts",
            )  # fmt: skip
        numbers = _corpus_estimates(self.totals)
        repeats = _corpus_estimates(self.repeats)[:, INDUCTION]
        best = self._best_kinds(numbers[..., 0], numbers[..., 4])
        groups = [self._line_groups(head) for head in range(len(self.head_ids))]
        kept_lines = self._kept_lines(best, groups)
        return Survey(
            heads=tuple(
                self._surveyed_head(
                    head, int(best[head]), numbers[head], repeats[head], kept_lines, groups[head]
                )
                for head in range(len(self.head_ids))
            ),
            model=self.model.name,
            lines=self.totals.lines,
            tokens=self.totals.tokens,
            blank_lines=self.texts.blank,
            documents=self.totals.all_estimates.documents,
            cut_lines=self.cut_lines,
            repeated_lines=self.totals.repeats.count,
            interrupted=interrupted,
            provenance=transformer_provenance(
                settings, self.model, {"seed": settings.seed}, command
            ),
        )

    def _best_kinds(
        self, means: Float[np.ndarray, "head measure"], even: Float[np.ndarray, "head measure"]
    ) -> Int[np.ndarray, "head"]:
        """Return for each head the index of the pattern that it shows most: the main one, or if
        none is clear that with the largest excess; -1 if no pattern can be seen."""
        enough = self.totals.counts[:, :KINDS] >= min(MIN_LINES, self.totals.lines)
        scores = np.where(enough, means[:, :KINDS], np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            excess = (scores - even[:, :KINDS]) / (1 - even[:, :KINDS])
        excess[:, BROAD] = np.nan
        known_excess = np.nan_to_num(excess, nan=-np.inf)
        without = np.where(np.isnan(excess).all(1), -1, known_excess.argmax(1))
        clear = strongest_kinds(excess, scores)
        return np.where(clear >= 0, clear, without)

    def _kept_lines(
        self, best: Int[np.ndarray, "head"], groups: Sequence[LineGroups | None]
    ) -> dict[int, KeptLine]:
        """Return the lines that examples are taken from, by number: the sample, and those on which
        a head does most of its best pattern, or of those of its groups, which are read again."""
        lines_by_number = {number: line for number, (_, line) in self.totals.sample.items()}
        head_kinds = {(head, int(kind)) for head, kind in enumerate(best) if kind >= 0}
        head_kinds |= {
            (head, kind) for head, each in enumerate(groups) if each for kind in each.kinds
        }
        tops = [self.totals.top_numbers[:, head, kind].tolist() for head, kind in head_kinds]
        top = {number for numbers in tops for number in numbers}
        wanted = top - {-1, *lines_by_number}
        texts = [(number, self.totals.top_texts[number], False) for number in sorted(wanted)]
        for batch in batches.group_lines(self.model, texts):
            measured = self._measure(batch)
            for place, number in enumerate(batch.numbers):
                lines_by_number[number] = kept_line(batch, measured, place)
        return lines_by_number

    def _surveyed_head(
        self,
        head: int,
        best: int,
        numbers: Float[np.ndarray, "measure 6"],
        repeats: Float[np.ndarray, "6"],
        kept_lines: Mapping[int, KeptLine],
        groups: LineGroups | None,
    ) -> SurveyedHead:
        """Return what a head, given by its index, does; `best`: the index of its best pattern."""
        kind = None if best < 0 else PATTERN_KINDS[best]
        estimates = dict(zip(MEASURE_NAMES, map(_estimate, numbers), strict=True))
        estimate = None if kind is None else estimates[kind.name]
        often = self.totals.kind_counts[head, best] / estimate.lines if estimate else np.nan
        return SurveyedHead(
            head_id=self.head_ids[head],
            estimates=estimates,
            best=kind,
            kind=kind if kind and _is_clear(kind, estimates[kind.name], "mean") else None,
            stands_out=kind is not None and _is_clear(kind, estimates[kind.name], "low"),
            often=float(often),
            repeats=_estimate(repeats),
            parts=() if groups is None else self._parts(head, groups, kept_lines),
            examples=() if kind is None else self._examples(head, best, kept_lines),
        )

    def _line_groups(self, head: int) -> LineGroups | None:
        """Return the two groups of lines on which a head does different things; None if it has none
        by the rule at the top of this file."""
        counts, sums = self.totals.kind_counts[head], self.totals.kind_sums[head]
        large = (counts >= max(MIN_LINES, MIN_PART_SHARE * self.totals.lines))[:KINDS]
        by_size = sorted(np.flatnonzero(large).tolist(), key=lambda kind: -counts[kind])
        for kinds in combinations(by_size, 2):
            means = sums[np.ix_(kinds, kinds)] / counts[[*kinds], None]  # group pattern
            if (np.diag(means) - np.diag(means[::-1]) >= MIN_PATTERN_EXCESS).all():
                p_value = min(1.0, self.totals.group_p_value(head, kinds) * len(self.head_ids))
                return LineGroups(kinds, means, p_value) if p_value <= GROUPS_LEVEL else None
        return None

    def _parts(
        self, head: int, groups: LineGroups, kept_lines: Mapping[int, KeptLine]
    ) -> tuple[CorpusPart, ...]:
        totals = self.totals
        return tuple(
            CorpusPart(
                kind=PATTERN_KINDS[kind],
                lines=int(totals.kind_counts[head, kind]),
                share=float(totals.kind_counts[head, kind] / totals.lines),
                mean=float(groups.means[place, place]),
                elsewhere=float(groups.means[1 - place, place]),
                first_lines=tuple(
                    number + 1 for number in totals.first_lines[:, head, kind].tolist()
                    if number != NO_LINE
                ),
                p_value=groups.p_value,
                examples=tuple(
                    _example(TENTHS, kept_lines[number], head, kind)
                    for number in totals.top_numbers[:, head, kind].tolist() if number >= 0
                ),
            )
            for place, kind in enumerate(groups.kinds)
        )  # fmt: skip

    def _examples(
        self, head: int, best: int, kept_lines: Mapping[int, KeptLine]
    ) -> tuple[Example, ...]:
        """Return the lines on which a head does most of a pattern, and then from each lower tenth
        of the sampled lines the one in its middle."""
        numbers = [number for number in self.totals.sample
                   if np.isfinite(kept_lines[number].scores[head, best])]  # fmt: skip
        numbers.sort(key=lambda number: (kept_lines[number].scores[head, best], -number))
        groups = np.array_split(numbers, min(TENTHS, len(numbers)))
        top = [number for number in self.totals.top_numbers[:, head, best].tolist() if number >= 0]
        chosen = [(len(groups), number) for number in top]
        chosen += [
            (tenth, int(groups[tenth - 1][len(groups[tenth - 1]) // 2]))
            for tenth in range(len(groups) - 1, 0, -1)
        ]
        return tuple(
            _example(tenth, kept_lines[number], head, best)
            for tenth, number in chosen
            if tenth == len(groups) or number not in top
        )


def _example(tenth: int, line: KeptLine, head: int, best: int) -> Example:
    """Return a line as an example of what a head does; `best`: the index of its best pattern."""
    query, key, weight = line.pairs[head, min(best, ANY_PAIR)].tolist()
    score = float(line.scores[head, best])
    return Example(tenth, line.number + 1, line.tokens, score, int(query), int(key), weight)


def _estimate(numbers: Float[np.ndarray, "6"]) -> Estimate:
    mean, spread, low, high, even, lines = numbers.tolist()
    return Estimate(mean, spread, low, high, even, int(lines))


def _corpus_estimates(totals: CorpusTotals) -> Float[np.ndarray, "head measure 6"]:
    means, spreads = totals.estimates.means()[0], totals.estimates.spreads()[0]
    return np.stack([means, spreads, *totals.intervals(), totals.even_means(), totals.counts], -1)


def _excess(kind: PatternKind, estimate: Estimate, end: Literal["mean", "low"] = "mean") -> float:
    """Return how far the mean of a pattern, or the low end of its interval, is beyond even
    attention; of the broad pattern, beyond the least that counts as broad."""
    base = MIN_BROAD_ENTROPY if kind is BROAD_PATTERN else estimate.even
    value = estimate.mean if end == "mean" else estimate.low
    return (value - base) / (1 - base)


def _is_clear(kind: PatternKind, estimate: Estimate, end: Literal["mean", "low"]) -> bool:
    least = 0 if kind is BROAD_PATTERN else MIN_PATTERN_EXCESS
    return _excess(kind, estimate, end) >= least


def _repeated_tokens(model: LoadedTransformer, seed: int) -> list[Tokens]:
    """Return texts of random tokens of the model's vocabulary, each of them there twice in the same
    order, between the special tokens that the tokenizer adds to any text."""
    spelling = tokenizer_spelling(model.tokenizer)
    size = min(model.model.get_input_embeddings().num_embeddings, len(model.tokenizer))
    left_out = {*spelling.special_ids, spelling.unknown_id}
    ids = np.array([number for number in range(size) if number not in left_out], dtype=int)
    if not len(ids):
        raise model_error(
            f"the tokenizer of '{model.name}' has only special tokens, which are no words",
            "use the tokenizer of the original model",
        )
    with reporting_tokenizer_errors(model):
        encoded = model.tokenizer("a", return_special_tokens_mask=True)
    marks = encoded["special_tokens_mask"]
    added = [number for number, mark in zip(encoded["input_ids"], marks, strict=True) if mark]
    before = marks.index(0) if 0 in marks else len(marks)
    longest = max_token_count(model) or 2 * REPEATED_TOKENS + len(added)
    count = max(1, min(REPEATED_TOKENS, (longest - len(added)) // 2))
    draws = draw_uniform((seed,), "repeats", range(REPEATED_TEXTS), count)[0].numpy()
    return [
        tokens_of_ids(model, (*added[:before], *drawn, *drawn, *added[before:]))
        for drawn in ids[(draws * len(ids)).astype(int)].tolist()
    ]
