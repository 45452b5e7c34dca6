"""How a trained model's output on one sentence changes without each head."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import isfinite, log
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.measures import vector_changes
from attnviz.errors import AttnvizError
from attnviz.heads.head import Head
from attnviz.traces.settings import HeadId, format_head_id
from attnviz.traces.trace import Trace
from attnviz.traces.trained.ablation import ContextMeans, HeadAblation, HeadSet, RestartChecks
from attnviz.traces.trained.answers import PassResult, find_answer_token
from attnviz.traces.trained.captured_attention import HiddenKeys
from attnviz.traces.trained.refusals import shorten_message
from attnviz.traces.trained.tracing import ModelRun, no_answer_error, prepare_model_run
from attnviz.wording.numbers import fixed_text, percent_text
from attnviz.wording.surfaces import opt, phrase
from attnviz.wording.words import and_list, with_summary

EffectMeasure = Literal["answers", "vectors", "metric"]  # what is compared with and without heads
HeadTracker = Callable[[Sequence[Any]], Iterable[Any]]
Metric = Callable[[Any], Any]  # from what a model returns for one text to a number
EFFECT_PURPOSE = f"{opt.by:effect} switches off the heads"
BOTH_ANSWERS = f"{opt.toward} and {opt.instead_of}"
METRIC_HINT = "return one number, such as float(outputs.logits[0, -1, 5])"
MAX_WAIT_SECONDS = 600
RESTARTS_SAVE = 2  # times as long take separate passes, at least


def answers_purpose() -> str:
    """Return what needs a model's answers, as the beginning of an error."""
    return phrase("answers_purpose", f"{BOTH_ANSWERS} compare two answers")


@dataclass(frozen=True)
class OutputMeasure:
    """What of the output is compared with and without heads: its name and its unit."""

    kind: EffectMeasure
    metric_name: str = ""  # of the kind "metric"

    @property
    def name(self) -> str:
        names = {"answers": "the answers", "vectors": "the last vectors"}
        return names.get(self.kind, self.metric_name)

    @property
    def unit(self) -> str:
        """The unit of a change; empty for a metric, which has its own."""
        return {"answers": "bits", "vectors": "share of their length"}.get(self.kind, "")

    def change_text(self, change: float, decimals: int = 2) -> str:
        """Return how much it changes: `the answers change by 0.12 bits`."""
        if self.kind == "vectors":
            return f"{self.name} change by {percent_text(change, decimals - 2)} of their length"
        verb = "changes" if self.kind == "metric" else "change"
        return f"{self.name} {verb} by {fixed_text(change, decimals)} {self.unit}".rstrip()


def format_head_set(head_ids: HeadSet) -> str:
    """Return the head's name, such as `L0H1`; of several heads, `L0H1 + L1H3`."""
    return " + ".join(format_head_id(*head_id) for head_id in head_ids)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Effect:
    """The change at each measured token when one head, or a set of heads, is switched off."""

    head_ids: HeadSet
    output: OutputMeasure
    amounts: Float[Tensor, "token"]  # of answers: bits; of vectors: shares of their lengths
    cosines: Float[Tensor, "token"] | None = None  # between the vectors with and without it
    likely: float = 0.0  # the probability, without it, of the full model's answer
    other_answer: str = ""  # the answer without it, if that is another one

    @property
    def name(self) -> str:
        """The head's name, such as `L0H1`; of several heads, `L0H1 + L1H3`."""
        return format_head_set(self.head_ids)

    def __repr__(self) -> str:
        """Return a line like `<L2H3: the answers change by 0.123 bits without it>`."""
        return f"<{self.name}: {self.output.change_text(self.mean, 3)} without it>"

    @property
    def mean(self) -> float:
        """The mean change over the measured tokens, by which heads are ranked; of a metric, the
        metric without the head minus the metric with it."""
        return float(self.amounts.mean())

    @property
    def cosine(self) -> float | None:
        """The mean cosine between vectors with and without the head; None where answers are
        compared."""
        return None if self.cosines is None else float(self.cosines.mean())


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class HeadPair:
    """Two heads that are switched off together, and what each changes alone."""

    together: Effect
    alone: tuple[float, float]  # the mean changes

    @property
    def beyond_sum(self) -> float:
        return self.together.mean - sum(self.alone)


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class Effects:
    """The effects of switching off each head, largest first, with the full model's answer."""

    measured: EffectMeasure
    tokens: tuple[int, ...]  # positions of the measured tokens
    heads: tuple[Effect, ...]
    pairs: tuple[HeadPair, ...] = ()  # the furthest from its sum comes first
    answer: str = ""  # the full model's answer at `answer_position`
    answer_position: int = 0
    next: bool = False  # whether the answer is the token after that position
    likely: float = 0.0  # the answer's probability
    metric_name: str = ""
    metric: float = 0.0  # of the full model
    off: tuple[HeadId, ...] = ()  # heads that are switched off throughout

    @property
    def output(self) -> OutputMeasure:
        """What is compared, in words."""
        return OutputMeasure(self.measured, self.metric_name)


def check_effects(
    trace: Trace, maps: Sequence[Head], options: InspectOptions, metric: Metric | None
) -> None:
    """Refuse what `measure_effects` would refuse, but for its time, without any head switched off.

    A metric is computed once; other measures need no run of the model.
    """
    meter = EffectMeter(prepare_model_run(trace, EFFECT_PURPOSE, "by"), options, metric)
    heads_still_on(maps, meter.model_run)
    if metric is not None or options.toward is not None:
        meter.metric_value(meter.full_result)


def measure_effects(
    trace: Trace,
    maps: Sequence[Head],
    track: HeadTracker = iter,
    options: InspectOptions | None = None,
    metric: Metric | None = None,
) -> Effects:
    """Run the model without each head of these maps, and return the effects, largest first.

    Compares a metric if there is one (`metric`, or two answers in the options), else answers where
    the model has any, otherwise the last layer's vectors. Refuses runs that would take more than
    MAX_WAIT_SECONDS, maps whose heads are all off already, and a metric that gives no number.
    """
    start, model_run = time.perf_counter(), prepare_model_run(trace, EFFECT_PURPOSE, "by")
    head_ids = heads_still_on(maps, model_run)
    meter = EffectMeter(model_run, options or InspectOptions(), metric)
    assert meter.full_result is not None
    seconds = (time.perf_counter() - start) * len(head_ids) / RESTARTS_SAVE
    if seconds > MAX_WAIT_SECONDS:
        raise AttnvizError(
            f"switching off each of {len(head_ids):,} heads in turn would take about "
            f"{seconds / 60:.0f} minutes",
            f"rank the heads of one layer: {opt.layer:{head_ids[-1][0]}}",
            about="by",
        )
    effects = meter.effects_without([(head_id,) for head_id in head_ids], track)
    heads = tuple(sorted(effects, key=lambda effect: -abs(effect.mean)))
    strongest = heads[: meter.options.pairs or 0]
    pairs = pair_heads(effect.head_ids for effect in strongest)
    together = meter.effects_without(pairs, track)
    return meter.summary(heads, together)


def pair_heads(head_sets: Iterable[HeadSet]) -> list[HeadSet]:
    head_ids = sorted(head_id for head_set in head_sets for head_id in head_set)
    return [*combinations(head_ids, 2)]


@dataclass(eq=False)
class EffectMeter:
    """Measures how far a model's output on one text changes without some of its heads."""

    model_run: ModelRun
    options: InspectOptions
    metric: Metric | None = None
    instead: ContextMeans | None = None  # means over several texts, for heads that write their mean
    measured_as: EffectMeasure | None = None  # None: what the text allows
    checks: RestartChecks = field(default_factory=RestartChecks)
    answer_ids: dict[str, int] = field(default_factory=dict)  # of the compared answers, once known

    @cached_property
    def ablation(self) -> HeadAblation:
        """The model with the text, to be run without heads."""
        run, means = self.model_run, self.instead
        if means is None:
            off: dict[HeadId, Any] = dict(run.off)
        else:
            off = {head: means[head] if to == "mean" else to for head, to in run.off.items()}
        return HeadAblation(
            run.model,
            run.model_input,
            run.answer_positions,
            off,
            self.options.ablation if means is None or self.options.ablation == "zero" else means,
            keeps_outputs=self.metric is not None,
            checks=self.checks,
        )

    @property
    def full_result(self) -> PassResult:
        """The result with all heads but those that are off throughout."""
        return self.ablation.full_result

    @cached_property
    def measured(self) -> EffectMeasure:
        """What is compared with and without a head: a metric, answers or last vectors."""
        if self.measured_as is not None:
            return self.measured_as
        if self.metric is not None or self.options.toward is not None:
            return "metric"
        positions = self.model_run.answer_positions
        answers = self.full_result.logits is not None and positions and positions.positions
        return "answers" if answers else "vectors"

    @property
    def output(self) -> OutputMeasure:
        """What is compared, in words."""
        if self.measured != "metric":
            return OutputMeasure(self.measured)
        if self.metric is None:
            decode, ids = self.model_run.model.tokenizer.decode, self.answer_ids
            if not ids:
                self.metric_value(self.full_result)  # which finds the tokens: " the", or "the"
            texts = [decode([ids[about]]) for about in ("toward", "instead_of")]
            is_spaced = [text.startswith(" ") for text in texts]
            first, second = (  # a token with a space before it is another one than without
                f"logit of {text.strip() or 'a space'}"
                f"{' (without a space)' if any(is_spaced) and not spaced else ''}"
                for text, spaced in zip(texts, is_spaced, strict=True)
            )
            return OutputMeasure("metric", f"{first} minus {second}")
        name = getattr(self.metric, "__name__", "")
        return OutputMeasure("metric", name if name.isidentifier() else "the metric")

    def effects_without(
        self, head_sets: Sequence[HeadSet], track: HeadTracker = iter
    ) -> Iterator[Effect]:
        """Yield the effect of switching off each of these sets of heads; the order may change."""
        results = self.ablation.results_without(head_sets)
        for _, (heads, result) in zip(track(head_sets), results, strict=True):
            yield self._effect(heads, result)

    def _effect(self, heads: HeadSet, result: PassResult) -> Effect:
        if self.measured == "metric":
            change = self.metric_value(result) - self.full_metric
            amounts = torch.tensor([change], dtype=torch.float64)
            return Effect(head_ids=heads, output=self.output, amounts=amounts)
        if self.measured == "vectors":
            assert self.full_result.vectors is not None
            assert result.vectors is not None
            changes, cosines = vector_changes(self.full_result.vectors, result.vectors)
            return Effect(head_ids=heads, output=self.output, amounts=changes, cosines=cosines)
        before, after, row = self._full_shares, self._log_shares(result), self._answer_row
        answer, other_answer = int(before[row].argmax()), int(after[row].argmax())
        label = self.model_run.answer_label
        return Effect(
            head_ids=heads,
            output=self.output,
            amounts=divergence_bits(before, after),
            likely=float(after[row, answer].exp()),
            other_answer="" if other_answer == answer else label(other_answer),
        )

    @cached_property
    def full_metric(self) -> float:
        return self.metric_value(self.full_result)

    def metric_value(self, result: PassResult) -> float:
        """Return the metric of one result; refuse a metric that fails, or gives no finite number.

        Without a function, it is the logit of one answer minus that of another one.
        """
        if self.metric is None:
            toward, instead_of = self._answer_scores(result)
            return toward - instead_of
        try:
            value = self.metric(result.outputs)
            number = float(value)
        except Exception as error:  # of the caller's function
            reason = shorten_message(f"{type(error).__name__}: {error}")
            raise AttnvizError(f"metric failed: {reason}", METRIC_HINT, about="metric") from error
        if not isfinite(number):
            raise AttnvizError(f"metric returned {number}", METRIC_HINT, about="metric")
        return number

    def _answer_scores(self, result: PassResult) -> tuple[float, float]:
        """Return the logits of the answers --toward and --instead-of; refuse unknown ones, and a
        text or a model without answers."""
        run, positions = self.model_run, self.model_run.answer_positions
        if positions is None or not positions.positions or result.logits is None:
            raise no_answer_error(run, answers_purpose(), "toward")
        position = positions.positions[-1 if positions.next else 0]
        scores = result.logits[positions.scored_positions.index(position)].double()
        for about in ("toward", "instead_of"):
            if about not in self.answer_ids:
                word = getattr(self.options, about)
                self.answer_ids[about] = find_answer_token(run.model, word, scores, about)
        toward, instead_of = (self.answer_ids[about] for about in ("toward", "instead_of"))
        if toward == instead_of:
            raise AttnvizError(
                f"{phrase('answers', BOTH_ANSWERS)} are the same token, "
                f"'{run.answer_label(toward)}'",
                "name two answers",
                about="instead_of",
            )
        return float(scores[toward]), float(scores[instead_of])

    @cached_property
    def _full_shares(self) -> Float[Tensor, "token answer"]:
        return self._log_shares(self.full_result)

    def _log_shares(self, result: PassResult) -> Float[Tensor, "token answer"]:
        """Return the logarithms of the answers' probabilities at the positions of answers."""
        positions = self.model_run.answer_positions
        assert positions is not None
        assert result.logits is not None
        rows = [positions.scored_positions.index(position) for position in positions.positions]
        return result.logits[rows].double().log_softmax(-1)

    @property
    def _answer_row(self) -> int:
        """Which of the positions of answers has the answer that is shown."""
        positions = self.model_run.answer_positions
        assert positions is not None
        return len(positions.positions) - 1 if positions.next else 0

    def summary(self, heads: Sequence[Effect], together: Iterable[Effect]) -> Effects:
        """Return these effects of heads and of pairs with what the full model gives."""
        alone = {effect.head_ids: effect.mean for effect in heads}
        pairs = [
            HeadPair(together=both, alone=(alone[both.head_ids[:1]], alone[both.head_ids[1:]]))
            for both in together
        ]
        ranked = tuple(sorted(pairs, key=lambda pair: -abs(pair.beyond_sum)))
        off, positions = tuple(self.model_run.off), self.model_run.answer_positions
        summary = Effects(
            measured=self.measured, tokens=(), heads=tuple(heads), pairs=ranked, off=off
        )
        if self.measured == "metric":
            return replace(summary, metric_name=self.output.metric_name, metric=self.full_metric)
        if self.measured == "vectors":
            assert self.full_result.vectors is not None
            return replace(summary, tokens=tuple(range(len(self.full_result.vectors))))
        assert positions is not None
        row = self._answer_row
        answer = int(self._full_shares[row].argmax())
        return replace(
            summary,
            tokens=positions.positions,
            answer=self.model_run.answer_label(answer),
            answer_position=positions.positions[row],
            next=positions.next,
            likely=float(self._full_shares[row, answer].exp()),
        )


def heads_still_on(maps: Sequence[Head], model_run: ModelRun) -> list[HeadId]:
    """Return the heads of these maps that are not switched off anyway; refuse if there are none."""
    head_ids = [(head.layer.layer, head.number) for head in maps]
    heads_on = [head_id for head_id in head_ids if head_id not in model_run.off]
    if not heads_on:
        raise AttnvizError(
            f"{EFFECT_PURPOSE}, but {and_list([format_head_id(*head_id) for head_id in head_ids])} "
            f"{'is' if len(head_ids) == 1 else 'are'} already off",
            f"leave {opt.without} out",
            about="by",
        )
    return heads_on


def divergence_bits(
    before: Float[Tensor, "token answer"], after: Float[Tensor, "token answer"]
) -> Float[Tensor, "token"]:
    """Return for each token the Kullback-Leibler divergence of `after` from `before` in bits.

    Both are natural logarithms of probabilities of answers.
    """
    bits: Tensor = (before.exp() * (before - after)).sum(-1) / log(2)
    return bits.clamp(min=0)


HIDING_PURPOSE = f"{opt.without_segment} runs the model once more, without keys"


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class HiddenEffect:
    """The change of the output at one token to which some keys are hidden."""

    name: str  # of what is hidden
    heads: tuple[HeadId, ...]  # in which it is hidden
    change: float  # of the answers in bits; without answers the share of the vector's length
    answer: str = ""  # the likeliest one before; empty: the model gives none there
    likely: float = 0.0  # its probability before,
    likely_without: float = 0.0  # and after
    other_answer: str = ""  # the likeliest one after, if that is another,
    other_likely: float = 0.0  # and its probability


def measure_hidden_keys(trace: Trace, name: str, hidden: HiddenKeys) -> HiddenEffect:
    """Run the model once more with keys hidden from one query, and return what changes there."""
    run = prepare_model_run(trace, HIDING_PURPOSE, "without_segment")
    meter = EffectMeter(run, InspectOptions())
    without = replace(meter.ablation, hidden=hidden).full_result
    heads, positions = tuple(hidden.heads), meter.model_run.answer_positions
    if positions is None or hidden.query not in positions.positions:
        assert meter.full_result.vectors is not None
        assert without.vectors is not None
        changes, _ = vector_changes(meter.full_result.vectors, without.vectors)
        return HiddenEffect(name=name, heads=heads, change=float(changes[hidden.query]))
    row = positions.scored_positions.index(hidden.query)
    before, after = (
        result.logits[row].double().log_softmax(-1)  # type: ignore[index]
        for result in (meter.full_result, without)
    )
    answer, other = int(before.argmax()), int(after.argmax())
    label = meter.model_run.answer_label
    return HiddenEffect(
        name=name,
        heads=heads,
        change=float(divergence_bits(before[None], after[None])[0]),
        answer=label(answer),
        likely=float(before[answer].exp()),
        likely_without=float(after[answer].exp()),
        other_answer="" if other == answer else label(other),
        other_likely=float(after[other].exp()),
    )
