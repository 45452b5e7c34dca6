"""head_effects(): how the output changes without each head, over many texts.

Texts are read one after another and none is kept, but for the first `REPEATED_READING`: of these
the means are taken that heads write with `ablation="mean"`, and with these pairs of heads are
switched off, as both need a second reading.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from math import nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.inspection.effects import (
    EFFECT_PURPOSE,
    EffectMeasure,
    EffectMeter,
    Metric,
    OutputMeasure,
    answers_purpose,
    format_head_set,
    heads_still_on,
    pair_heads,
)
from attnviz.analysis.inspection.inspect_options import (
    EffectKeywords,
    InspectOptions,
    refuse_odd_metric,
)
from attnviz.analysis.inspection.maps import build_maps
from attnviz.errors import AttnvizError
from attnviz.machine.exit_handling import stop_on_interrupt
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import source_from_text
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.result import RanksHeads, Rows, Showable
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Provenance, Trace
from attnviz.traces.trained.ablation import ContextMeans, HeadAblation, HeadSet, RestartChecks
from attnviz.traces.trained.answers import find_answer_positions
from attnviz.traces.trained.batches import iterate_texts
from attnviz.traces.trained.forward_pass import prepare_input
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import ModelRun, no_answer_error, prepare_model_run
from attnviz.wings.corpora.head_tests import LEVEL, MIN_TEST_OBSERVATIONS, HeadTest, bootstrap_test
from attnviz.wings.corpora.mean_estimates import CorpusEstimates, RepeatedTexts
from attnviz.wings.corpora.texts import (
    Answers,
    CorpusText,
    FilledTexts,
    join_answers,
    refuse_other_answers,
)
from attnviz.wording.keywords import replace_choices, with_checked_arguments
from attnviz.wording.surfaces import naming_options, opt

if TYPE_CHECKING:
    from typing_extensions import Unpack

EFFECT_OPTIONS = ("layer", "head", "toward", "instead_of", "ablation", "pairs")
REPEATED_READING = 1_000  # texts
MAX_ROWS = 1_024  # of changes that are kept for each head; then two rows become one
LEAST_RELATIVE_SIZE = 1e-6  # of the largest change, for a test: less is rounding
OWN_ANSWERS_NAME = "logit of each text's first answer minus logit of its second"
OWN_ANSWERS_WORDS = {  # what errors call answers that a text names itself, in place of options
    "answers_purpose": "the texts name two answers each",
    "answers": "its two answers",
    "toward": "its first answer",
    "instead_of": "its second answer",
}
TextTracker = Callable[[Iterable[CorpusText]], Iterable[CorpusText]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MeanEffect:
    """The mean change over texts without one head, or without two together."""

    head_ids: HeadSet
    output: OutputMeasure
    mean: float  # over all texts, or documents, by which heads are ranked
    low: float  # the ends of its 95 % interval; NaN for few texts or documents
    high: float
    spread: float  # the standard deviation between texts, or documents
    p_value: float  # of a mean of 0, corrected for the number of heads; NaN if not tested
    most: int  # in how many texts it changes most
    values: Float[np.ndarray, "text"]  # on each text; of very many, means of 2, 4, 8 … texts

    @property
    def name(self) -> str:
        """The head's name, such as `L0H1`; of two heads, `L0H1 + L1H3`."""
        return format_head_set(self.head_ids)

    @property
    def differs_from_zero(self) -> bool:
        """Whether the metric is shown to change on average: p is at most `LEVEL`."""
        return self.p_value <= LEVEL

    def __repr__(self) -> str:
        """Return a line like `<L2H3: the answers change by 0.123 bits without it, on average>`."""
        return f"<{self.name}: {self.output.change_text(self.mean, 3)} without it, on average>"


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanPair:
    """Two heads that are switched off together."""

    together: MeanEffect
    alone: tuple[float, float]  # the mean changes without each, on the same texts
    beyond_sum: MeanEffect  # the change without both minus the sum of the changes without each


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CorpusEffects(RanksHeads, Showable):
    """The mean effects of switching off each head over many texts, largest first."""

    base: Trace  # of the first text
    options: InspectOptions
    measured: EffectMeasure
    metric_name: str = ""
    metric: float = 0.0  # of the full model, the mean over the texts or documents
    texts: int  # that were measured
    documents: int = 0  # which empty texts separate; each is an observation if there are several
    empty: int = 0  # texts that were skipped because nothing is in them
    unanswered: int = 0  # texts that were skipped because nothing in them is to be answered
    repeated: int = 0  # texts whose tokens are those of an earlier one, among the first million
    interrupted: bool = False  # whether Ctrl-C ended the measurement before the texts did
    heads: tuple[MeanEffect, ...]
    least_effect: float = nan
    """How far from 0 a mean change must be to be shown, in standard deviations of a head's changes;
    NaN if no head is tested."""
    pair_texts: int = 0  # the first texts, on which pairs were switched off
    pairs: tuple[MeanPair, ...] = ()  # the furthest from its sum comes first

    @property
    def output(self) -> OutputMeasure:
        """What is compared, in words."""
        return OutputMeasure(self.measured, self.metric_name)

    @property
    def has_enough(self) -> bool:
        """Whether there are so many texts that a head can be shown to change a metric."""
        return self.observations[0] >= MIN_TEST_OBSERVATIONS

    @property
    def observations(self) -> tuple[int, str]:
        """How many independent observations there are taken to be, and of what."""
        return (self.documents, "document") if self.documents > 1 else (self.texts, "text")

    @property
    def ranking(self) -> Rows[MeanEffect]:
        """The heads, starting with the one whose mean change is largest."""
        return Rows(self.heads)

    @property
    def provenance(self) -> Provenance:
        """The provenance of the first text's trace, without its command."""
        return replace(self.base.provenance, command=None)


@with_checked_arguments
def head_effects(
    texts: Iterable[str | tuple[str, str, str]] | str | Path,
    settings: Settings | None = None,
    *,
    metric: Metric | None = None,
    track: TextTracker = iter,
    **changes: Unpack[EffectKeywords],
) -> CorpusEffects:
    """Return how the model's output changes on average without each head, over many texts.

    `texts` are strings, or the path or name of a file with one on each line; they are read one
    after another, so that there may be any number. Each may name two answers whose logits are
    compared, `("Mary and John left. John saw", "Mary", "John")`, as the columns of a file do, with
    tabs between them. Ctrl-C ends the measurement, which then has the texts that were read so far.
    Keywords replace settings (`model="minilm"`, which is the default; `model` may be a loaded model
    of transformers, with its `tokenizer`) and options: `layer` and `head`, `toward` and
    `instead_of` (two answers that are compared in all texts), `ablation="mean"` (a head that is off
    writes its mean over the first 1,000 texts), and `pairs=5` (all pairs of the five strongest
    heads, off together on the first 1,000 texts). `metric` is a function from what the model
    returns for a text to a number; heads are tested for whether they change its mean. Texts without
    letters are skipped, and separate documents: if there are several, each is one observation.
    Texts without anything to answer are skipped where others have it. `track` is called with the
    numbered texts, to report progress. Refuses a corpus without any text, and texts that the model
    cannot read, by their number.

    >>> from attnviz import head_effects
    >>> lines = ["The animal was tired", "", "She was late"]
    >>> effects = head_effects(lines, model="minilm", layer=5)
    >>> effects.texts, effects.empty, len(effects.heads)
    (2, 1, 12)
    """
    settings_changes: dict[str, Any] = {**changes}
    own = {name: settings_changes.pop(name) for name in EFFECT_OPTIONS if name in settings_changes}
    options = replace_choices(InspectOptions(by="effect"), own)
    refuse_odd_metric(metric, options)
    in_memory, settings_changes = take_model_in_memory(settings_changes)
    chosen_settings = replace_choices(settings or Settings(model=MINILM), settings_changes)
    lines: object = texts
    if isinstance(texts, Iterable) and not isinstance(texts, str | bytes):
        lines = map(join_answers, texts)
    reading = FilledTexts(iterate_texts(lines), may_answer=True)
    first = next(reading, None)
    if first is None:
        raise AttnvizError(
            "there is no text in the corpus",
            "give a list of texts, or a file with one on each line",
        )
    given = {f"{opt.toward}": options.toward is not None, "'metric'": metric is not None}
    refuse_other_answers(first.answers, [name for name, is_given in given.items() if is_given])
    with _naming_text(first):
        source = source_from_text(first.text, chosen_settings, in_memory=in_memory)
        base = trace_source(source, kept_layers=options.layers)
    first_run = prepare_model_run(base, EFFECT_PURPOSE, "by")
    corpus = CorpusAblation(base, first_run, options, metric, first.answers is not None)
    with _naming_text(first):
        corpus.check(first)
    with stop_on_interrupt() as stopped:
        measured = corpus.measure(chain([first], reading), track, stopped)
    return replace(measured, empty=reading.blank)


@contextmanager
def _naming_text(text: CorpusText) -> Iterator[None]:
    """Begin an AttnvizError of the `with` block with the number of the text that it is about, but
    leave out those about answers that are the same for all texts."""
    try:
        with naming_options(**(OWN_ANSWERS_WORDS if text.answers is not None else {})):
            yield
    except AttnvizError as error:
        if error.about in ("toward", "instead_of") and text.answers is None:
            raise
        raise error.with_problem(f"text {text.number}: {error}") from None


class NeighbourSums:
    """Rows of numbers in their order; if there are too many, neighbours are added up."""

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[Float[np.ndarray, "set"]] = []
        self.rows_per_sum = 1

    def add(self, row: Float[np.ndarray, "set"]) -> None:
        if self.count == MAX_ROWS * self.rows_per_sum:
            self._sums = [*map(np.add, self._sums[::2], self._sums[1::2])]
            self.rows_per_sum *= 2
        if self.count % self.rows_per_sum == 0:
            self._sums.append(np.zeros_like(row))
        self._sums[-1] = self._sums[-1] + row
        self.count += 1

    @property
    def sums(self) -> Float[np.ndarray, "row set"]:
        return np.array(self._sums)

    @property
    def means(self) -> Float[np.ndarray, "set row"]:
        """The means of neighbours for each set; of few rows, the rows themselves."""
        starts = np.arange(len(self._sums)) * self.rows_per_sum
        return np.asarray(self.sums.T / np.minimum(self.rows_per_sum, self.count - starts))


class ChangeTotals:
    """Changes without each of some sets of heads on one text after another, in memory that depends
    on the sets alone."""

    def __init__(self, head_sets: Sequence[HeadSet]) -> None:
        self.head_sets = head_sets
        self._estimates = CorpusEstimates(len(head_sets))
        self._most = np.zeros(len(head_sets), dtype=int)
        self._texts, self._documents = NeighbourSums(), NeighbourSums()

    @property
    def texts(self) -> int:
        return self._texts.count

    @property
    def documents(self) -> int:
        return self._estimates.documents

    def add(self, changes: Float[np.ndarray, "set"], document: int = 0) -> None:
        """Add the changes on one text; `document`: its number, at least that of the text before."""
        self._close_documents(document)
        self._estimates.add(changes[None], [document])
        self._most[abs(changes).argmax()] += 1
        self._texts.add(changes)

    def _close_documents(self, before: int) -> None:
        for means in self._estimates.close_documents(before):
            self._documents.add(means)

    def test(self) -> HeadTest:
        """Test whether the mean change is 0, of all sets that change anything."""
        self._close_documents(sys.maxsize)
        units = self._documents if self.documents > 1 else self._texts
        sizes = np.sqrt((units.sums**2).mean(0))
        is_tested = sizes > LEAST_RELATIVE_SIZE * sizes.max()
        test = bootstrap_test(units.sums, is_tested, Settings.seed)
        # The mean of several observations varies less than each of them:
        return replace(test, least_effect=test.least_effect / sqrt(units.rows_per_sum))

    def effects(self, output: OutputMeasure, test: HeadTest | None = None) -> list[MeanEffect]:
        """Return the mean changes, with the p values of a test, if any."""
        p_values = np.full(len(self.head_sets), np.nan) if test is None else test.p_values
        estimates, values = self._estimates.units, self._texts.means
        means, spreads, (lows, highs) = (
            estimates.means(), estimates.spreads(), estimates.intervals()
        )  # fmt: skip
        return [
            MeanEffect(
                head_ids=heads,
                output=output,
                mean=float(means[place]),
                low=float(lows[place]),
                high=float(highs[place]),
                spread=float(spreads[place]),
                p_value=float(p_values[place]),
                most=int(self._most[place]),
                values=values[place],
            )
            for place, heads in enumerate(self.head_sets)
        ]


@dataclass(eq=False)
class CorpusAblation:
    """A model that reads texts one after another, without one head after another."""

    base: Trace
    first_run: ModelRun
    options: InspectOptions
    metric: Metric | None
    has_own_answers: bool = False  # whether each text names the answers that are compared
    means: ContextMeans | None = None  # that heads write which are off, over several texts
    unanswered: int = 0
    metric_estimates: CorpusEstimates = field(default_factory=partial(CorpusEstimates, 1))
    repeats: RepeatedTexts = field(default_factory=RepeatedTexts)
    checks: RestartChecks = field(default_factory=RestartChecks)  # all texts share them
    answer_ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        has_metric = self.metric is not None or self.compares_answers
        # What is compared: vectors until a text has answers.
        self.measured: EffectMeasure = "metric" if has_metric else "vectors"
        self.heads = heads_still_on(build_maps(self.base, self.options), self.first_run)

    @property
    def compares_answers(self) -> bool:
        return self.options.toward is not None or self.has_own_answers

    def check(self, first: CorpusText) -> None:
        """Refuse a metric that gives no number for the first text, and two answers of a model that
        has none."""
        positions = self.first_run.answer_positions
        if self.metric is None and self.compares_answers and positions is None:
            raise no_answer_error(self.first_run, answers_purpose(), "toward")
        if self.measured == "metric" and self.counts(self.first_run):
            meter = self._meter(self.first_run, first.answers)
            meter.metric_value(meter.full_result)

    def run(self, text: str) -> ModelRun:
        """Return the model with one text as its input."""
        model = self.first_run.model
        with quiet_transformers(), torch.no_grad():
            prepared = prepare_input(model, text, self.base.origin.settings)
        kind = prepared.model_input.kind
        positions = find_answer_positions(model, prepared.tokens, kind)
        return replace(self.first_run, model_input=prepared.model_input, answer_positions=positions)

    def counts(self, run: ModelRun) -> bool:
        """Return whether a text is measured: if answers are compared, only texts with answers."""
        positions = run.answer_positions
        has_answers = positions is not None and bool(positions.positions)
        return has_answers or self.metric is not None or self.measured == "vectors"

    def measure(
        self, texts: Iterable[CorpusText], track: TextTracker, stopped: Callable[[], bool]
    ) -> CorpusEffects:
        """Return the mean effects of all heads that the options choose, and of pairs of them; of
        the texts before Ctrl-C, if any was measured."""
        needs_means = "mean" in (self.options.ablation, *self.first_run.off.values())
        texts = iter(texts)
        first_texts = [*islice(texts, REPEATED_READING if needs_means or self.options.pairs else 0)]
        if needs_means:
            self.means = self._context_means(track(first_texts), stopped)
        totals = self._totals(track(chain(first_texts, texts)), stopped)
        if not totals.texts:
            if stopped():
                raise KeyboardInterrupt
            raise no_answer_error(self.first_run, answers_purpose(), "toward")
        output = OutputMeasure("metric", OWN_ANSWERS_NAME)
        if not self.has_own_answers:
            output = self._meter(self.first_run, None).output
        test = totals.test() if self.measured == "metric" else None
        effects = totals.effects(output, test)
        ranked = sorted(effects, key=lambda effect: -abs(effect.mean))
        again = track(first_texts) if self.options.pairs else ()
        pair_texts, pairs = self._pairs(ranked, output, again, stopped)
        return CorpusEffects(
            base=self.base,
            options=self.options,
            measured=self.measured,
            metric_name=output.metric_name,
            metric=float(self.metric_estimates.units.means()[0]),
            texts=totals.texts,
            documents=totals.documents,
            unanswered=self.unanswered,
            repeated=self.repeats.count,
            interrupted=stopped(),
            heads=tuple(ranked),
            least_effect=nan if test is None else test.least_effect,
            pair_texts=pair_texts,
            pairs=pairs,
        )

    def _context_means(
        self, texts: Iterable[CorpusText], stopped: Callable[[], bool]
    ) -> ContextMeans:
        """Return the mean context vector of each head over all tokens of these texts."""
        means = ContextMeans()
        for text in texts:
            with _naming_text(text):
                run = self.run(text.text)
            HeadAblation(run.model, run.model_input, run.answer_positions).add_contexts(means)
            if stopped():
                raise KeyboardInterrupt
        return means

    def _meter(self, run: ModelRun, answers: Answers | None) -> EffectMeter:
        """Return the meter of the effects on one text, which may have answers of its own."""
        options, answer_ids = self.options, self.answer_ids
        if answers is not None:
            options, answer_ids = replace(options, toward=answers[0], instead_of=answers[1]), {}
        return EffectMeter(
            run, options, self.metric, self.means, self.measured, self.checks, answer_ids
        )

    def _changes(
        self, meter: EffectMeter, head_sets: Sequence[HeadSet]
    ) -> Float[np.ndarray, "set"]:
        by_set = {effect.head_ids: effect.mean for effect in meter.effects_without(head_sets)}
        return np.array([by_set[head_set] for head_set in head_sets])

    def _totals(self, texts: Iterable[CorpusText], stopped: Callable[[], bool]) -> ChangeTotals:
        """Return the changes without each head over these texts, or over those before Ctrl-C.

        The first text with answers has all begin anew: texts without any are then skipped.
        """
        head_sets = [(head_id,) for head_id in self.heads]
        totals = ChangeTotals(head_sets)
        for text in texts:
            with _naming_text(text):
                run = self.run(text.text)
                positions = run.answer_positions
                if self.measured == "vectors" and positions is not None and positions.positions:
                    self.measured, self.unanswered = "answers", totals.texts
                    totals, self.repeats = ChangeTotals(head_sets), RepeatedTexts()
                if self.counts(run):
                    meter = self._meter(run, text.answers)
                    totals.add(self._changes(meter, head_sets), text.document)
                    self.repeats.add(run.model_input.ids)
                    value = meter.full_metric if self.measured == "metric" else 0.0
                    self.metric_estimates.add(np.array([[value]]), [text.document])
                else:
                    self.unanswered += 1
            if stopped():
                break
        return totals

    def _pairs(
        self,
        effects: Sequence[MeanEffect],
        output: OutputMeasure,
        texts: Iterable[CorpusText],
        stopped: Callable[[], bool],
    ) -> tuple[int, tuple[MeanPair, ...]]:
        """Return on how many of these texts all pairs of the first heads were switched off, as many
        as the options say, and what they change."""
        singles = [effect.head_ids for effect in effects[: self.options.pairs or 0]]
        pairs = pair_heads(singles)
        alone, together, beyond = ChangeTotals(singles), ChangeTotals(pairs), ChangeTotals(pairs)
        places = [[singles.index((head_id,)) for head_id in pair] for pair in pairs]
        for text in texts if pairs else ():
            if stopped():
                break
            run = self.run(text.text)
            if self.counts(run):
                meter = self._meter(run, text.answers)
                changes = self._changes(meter, [*singles, *pairs])
                of_singles, of_pairs = changes[: len(singles)], changes[len(singles) :]
                alone.add(of_singles, text.document)
                together.add(of_pairs, text.document)
                beyond.add(of_pairs - of_singles[places].sum(1), text.document)
        if not together.texts:
            return 0, ()
        means = [effect.mean for effect in alone.effects(output)]
        mean_pairs = [
            MeanPair(together=both, alone=(means[first], means[second]), beyond_sum=more)
            for both, more, (first, second) in zip(
                together.effects(output), beyond.effects(output), places, strict=True
            )
        ]
        ranked = sorted(mean_pairs, key=lambda pair: -abs(pair.beyond_sum.mean))
        return together.texts, tuple(ranked)
