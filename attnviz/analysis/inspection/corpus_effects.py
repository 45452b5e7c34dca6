"""Head ablation on a corpus: how the output changes without each head, over many texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import copysign
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.inspection.effects import (
    ANSWER_PURPOSE,
    EFFECT_PURPOSE,
    EffectMeasure,
    EffectMeter,
    HeadTracker,
    Metric,
    heads_still_on,
    pair_heads,
)
from attnviz.analysis.inspection.inspect_options import (
    InspectKeywords,
    InspectOptions,
    refuse_odd_metric,
)
from attnviz.analysis.inspection.maps import build_maps
from attnviz.analysis.sign_flips import bootstrap_intervals
from attnviz.errors import AttnvizError
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import source_from_text
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, format_head_id
from attnviz.traces.trace import Provenance, Trace
from attnviz.traces.trained.ablation import ContextMeans, HeadAblation, HeadSet, RestartChecks
from attnviz.traces.trained.answers import find_answer_positions
from attnviz.traces.trained.forward_pass import prepare_input
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import ModelRun, no_answer_error, prepare_model_run
from attnviz.wording.keywords import replace_choices, with_checked_arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

EFFECT_OPTIONS = ("layer", "head", "toward", "instead_of", "ablation", "pairs")
NumberedText = tuple[int, str]  # from 1, as lines of a file are


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanEffect:
    """The change on each text, and on average, without one head or without two together."""

    head_ids: HeadSet
    values: Float[np.ndarray, "text"]
    low: float  # ends of the 95 % interval of the mean; NaN for fewer than five texts
    high: float

    @property
    def name(self) -> str:
        """The head's name, such as `L0H1`; of two heads, `L0H1 + L1H3`."""
        return " + ".join(format_head_id(*head_id) for head_id in self.head_ids)

    @property
    def mean(self) -> float:
        """The mean change over all texts, by which heads are ranked."""
        return float(self.values.mean())

    @property
    def differs_from_zero(self) -> bool:
        """Whether the 95 % interval of the mean leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanPair:
    """Two heads that are switched off together."""

    together: MeanEffect
    alone: tuple[float, float]  # the mean changes without each
    beyond_sum: MeanEffect  # the change without both minus the sum of the changes without each

    @property
    def beyond_size(self) -> float:
        """Its mean, positive where both together change more than each for itself."""
        return copysign(self.beyond_sum.mean, self.beyond_sum.mean * sum(self.alone))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CorpusEffects(Showable):
    """The mean effects of switching off each head over many texts, largest first."""

    base: Trace  # of the first text
    options: InspectOptions
    measured: EffectMeasure
    metric_name: str = ""
    metric: float = 0.0  # of the full model, the mean over the texts
    texts: int  # that were measured
    empty: int = 0  # texts that were skipped because nothing is in them
    unanswered: int = 0  # texts that were skipped because nothing in them is to be answered
    unread: int = 0  # texts that were left when Ctrl-C ended the measurement
    heads: tuple[MeanEffect, ...]
    pairs: tuple[MeanPair, ...] = ()  # those that change most beyond their sum come first

    @property
    def provenance(self) -> Provenance:
        """The provenance of the first text's trace, without its command."""
        return replace(self.base.provenance, command=None)


@with_checked_arguments
def head_effects(
    texts: Iterable[str],
    settings: Settings | None = None,
    *,
    metric: Metric | None = None,
    track: HeadTracker = iter,
    **changes: Unpack[InspectKeywords],
) -> CorpusEffects:
    """Return how the model's output changes on average without each head, over many texts.

    `changes` replace settings (`model="minilm"`, which is the default; `model` may be a loaded
    model of transformers, with its `tokenizer`) and options: `layer` and
    `head`, `toward` and `instead_of` (two answers whose logits are compared), `ablation="mean"` (a
    head that is off writes its mean over all texts), and `pairs=5` (all pairs of the five strongest
    heads). `metric` is a function from what the model returns for a text to a number. Texts without
    letters are skipped. Refuses a corpus without any text, and texts that the model cannot read, by
    their number.

    >>> from attnviz import head_effects
    >>> lines = ["The animal was tired", "", "She was late"]
    >>> effects = head_effects(lines, model="minilm", layer=5)
    >>> effects.texts, effects.empty, len(effects.heads)
    (2, 1, 12)
    """
    given: dict[str, Any] = {**changes}
    own = {name: given.pop(name) for name in EFFECT_OPTIONS if name in given}
    options = replace_choices(InspectOptions(by="effect"), own)
    refuse_odd_metric(metric, options)
    in_memory, given = take_model_in_memory(given)
    base_settings = settings or Settings(model=MINILM)
    chosen_settings = replace_choices(base_settings, given)
    all_texts = [*enumerate(texts, 1)]
    filled = [(number, text) for number, text in all_texts if text.strip()]
    if not filled:
        raise AttnvizError(
            "there is no text in the corpus",
            "give a list of texts, or a file with one on each line",
        )
    with _naming_text(filled[0]):
        source = source_from_text(filled[0][1], chosen_settings, in_memory=in_memory)
        base = trace_source(source, kept_layers=options.layers)
    corpus = Corpus(base, prepare_model_run(base, EFFECT_PURPOSE, "by"), options, metric, filled)
    return corpus.measure(track, len(all_texts) - len(filled))


@contextmanager
def _naming_text(text: NumberedText) -> Iterator[None]:
    """Begin an AttnvizError of the `with` block with the number of the text that it is about, but
    leave out those about answers, which are the same for all texts."""
    try:
        yield
    except AttnvizError as error:
        if error.about in ("toward", "instead_of"):
            raise
        raise error.with_problem(f"text {text[0]}: {error}") from None


@dataclass(eq=False)
class Corpus:
    """Texts that a model reads one after another, without one head after another."""

    base: Trace
    first_run: ModelRun
    options: InspectOptions
    metric: Metric | None
    numbered_texts: Sequence[NumberedText]

    def run(self, text: str) -> ModelRun:
        """Return the model with one text as its input."""
        model = self.first_run.model
        with quiet_transformers(), torch.no_grad():
            prepared = prepare_input(model, text, self.base.origin.settings)
        kind = prepared.model_input.kind
        positions = find_answer_positions(model, prepared.tokens, kind)
        return replace(self.first_run, model_input=prepared.model_input, answer_positions=positions)

    @cached_property
    def answering_texts(self) -> list[NumberedText]:
        """The texts in which the model answers something; refuses those that it cannot read."""
        texts = []
        for text in self.numbered_texts:
            with _naming_text(text):
                positions = self.run(text[1]).answer_positions
            texts += [text] if positions is not None and positions.positions else []
        return texts

    @cached_property
    def measured(self) -> EffectMeasure:
        """What is compared: answers where any text has some."""
        if self.metric is not None or self.options.toward is not None:
            return "metric"
        return "answers" if self.answering_texts else "vectors"

    @cached_property
    def texts(self) -> Sequence[NumberedText]:
        """The texts that are measured; refuses two answers if the model answers in no text."""
        if self.metric is not None or self.measured == "vectors":
            return self.numbered_texts
        if not self.answering_texts:
            raise no_answer_error(self.first_run, ANSWER_PURPOSE, "toward")
        return self.answering_texts

    def measure(self, track: HeadTracker, empty: int) -> CorpusEffects:
        """Return the mean effects of all heads that the options choose, and of pairs of them.

        `empty`: how many texts were skipped before.
        """
        chosen = heads_still_on(build_maps(self.base, self.options), self.first_run)
        heads = [(head_id,) for head_id in chosen]
        needs_means = "mean" in (self.options.ablation, *self.first_run.off.values())
        means = self._context_means(track) if needs_means else None
        meter = self._meters(means)
        values, metrics = self._values(heads, meter, track)
        ranked = sorted(_mean_effects(heads, values), key=lambda effect: -abs(effect.mean))
        return CorpusEffects(
            base=self.base,
            options=self.options,
            measured=self.measured,
            metric_name=meter(self.texts[0][1]).metric_name,
            metric=float(np.mean(metrics)) if metrics else 0.0,
            texts=len(values),
            empty=empty,
            unanswered=len(self.numbered_texts) - len(self.texts),
            unread=len(self.texts) - len(values),
            heads=tuple(ranked),
            pairs=() if len(values) < len(self.texts) else self._pairs(ranked, meter, track),
        )

    def _context_means(self, track: HeadTracker) -> ContextMeans:
        """Return the mean context vector of each head over all tokens of all texts."""
        means = ContextMeans()
        for text in track(self.texts):
            run = self.run(text[1])
            HeadAblation(run.model, run.model_input, run.answer_positions).add_contexts(means)
        return means

    def _meters(self, means: ContextMeans | None) -> Callable[[str], EffectMeter]:
        """Return a function from a text to what measures effects on it; all texts share checks."""
        checks, answer_ids = RestartChecks(), dict[str, int]()
        return lambda text: EffectMeter(
            self.run(text), self.options, self.metric, means, self.measured, checks, answer_ids
        )

    def _values(
        self,
        head_sets: Sequence[HeadSet],
        meter: Callable[[str], EffectMeter],
        track: HeadTracker,
    ) -> tuple[Float[np.ndarray, "text set"], list[float]]:
        """Return the change on each text without each set of heads, and the full model's metric.

        After Ctrl-C, these are of the texts before; without any, KeyboardInterrupt is raised.
        """
        values, metrics = [], []
        try:
            for text in track(self.texts):
                with _naming_text(text):
                    meter_of_text = meter(text[1])
                    effects = meter_of_text.effects_without(head_sets)
                    by_set = {effect.head_ids: effect.mean for effect in effects}
                    metrics += [meter_of_text.full_metric] if self.measured == "metric" else []
                values.append([by_set[head_set] for head_set in head_sets])
        except KeyboardInterrupt:
            if not values:
                raise
        return np.array(values), metrics[: len(values)]

    def _pairs(
        self,
        effects: Sequence[MeanEffect],
        meter: Callable[[str], EffectMeter],
        track: HeadTracker,
    ) -> tuple[MeanPair, ...]:
        """Return all pairs of the first heads, as many as the options say."""
        alone = {effect.head_ids: effect for effect in effects[: self.options.pairs or 0]}
        pairs = pair_heads(alone)
        if not pairs:
            return ()
        values, _ = self._values(pairs, meter, track)
        if len(values) < len(self.texts):
            return ()
        singles = [(alone[pair[:1]], alone[pair[1:]]) for pair in pairs]
        sums = np.stack([first.values + second.values for first, second in singles], axis=1)
        both = zip(
            _mean_effects(pairs, values), singles, _mean_effects(pairs, values - sums), strict=True
        )
        mean_pairs = [
            MeanPair(together=together, alone=(first.mean, second.mean), beyond_sum=beyond)
            for together, (first, second), beyond in both
        ]
        return tuple(sorted(mean_pairs, key=lambda pair: -pair.beyond_size))


def _mean_effects(
    head_sets: Collection[HeadSet], values: Float[np.ndarray, "text set"]
) -> list[MeanEffect]:
    """Return the changes without each set of heads, with the intervals of their means."""
    lows, highs = bootstrap_intervals(values, Settings.seed).tolist()
    columns = zip(head_sets, values.T, lows, highs, strict=True)
    return [MeanEffect(head_ids=heads, values=each, low=low, high=high)
            for heads, each, low, high in columns]  # fmt: skip
