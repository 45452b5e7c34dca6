"""Head ablation on a sentence: how a trained model's output changes without each head."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.measures import vector_changes
from attnviz.errors import AttnvizError
from attnviz.traces.settings import HeadId, format_head_id
from attnviz.traces.trace import Trace
from attnviz.traces.trained.answers import PassResult
from attnviz.traces.trained.tracing import ModelRun, prepare_model_run
from attnviz.wording.words import and_list

EffectMeasure = Literal["answers", "vectors"]  # what is compared with and without a head
HeadTracker = Callable[[Sequence[HeadId]], Iterable[HeadId]]
EFFECT_PURPOSE = "--by effect switches off the heads"
MAX_WAIT_SECONDS = 600


@dataclass(frozen=True, eq=False, kw_only=True)
class Effect:
    """The change at each measured token when one head is switched off."""

    head_id: HeadId
    amounts: Float[Tensor, "token"]  # of answers: bits; of vectors: shares of their lengths
    cosines: Float[Tensor, "token"] | None = None  # between the vectors with and without it
    likely: float = 0.0  # the probability, without it, of the full model's answer
    other_answer: str = ""  # the answer without it, if that is another one

    @property
    def name(self) -> str:
        """The head's name, such as `L0H1`."""
        return format_head_id(*self.head_id)

    @property
    def mean(self) -> float:
        """The mean change over the measured tokens, by which heads are ranked."""
        return float(self.amounts.mean())

    @property
    def cosine(self) -> float | None:
        """The mean cosine between vectors with and without the head; None where answers are
        compared."""
        return None if self.cosines is None else float(self.cosines.mean())


@dataclass(frozen=True, eq=False, kw_only=True)
class Effects:
    """The effects of switching off each head, largest first, with the full model's answer."""

    measured: EffectMeasure
    tokens: tuple[int, ...]  # positions of the measured tokens
    heads: tuple[Effect, ...]
    answer: str = ""  # the full model's answer at `answer_position`
    answer_position: int = 0
    next: bool = False  # whether the answer is the token after that position
    likely: float = 0.0  # the answer's probability
    off: tuple[HeadId, ...] = ()  # heads that are switched off throughout


def measure_effects(trace: Trace, maps: Sequence[Map], track: HeadTracker = iter) -> Effects:
    """Run the model without each head of these maps in turn, and return the effects, largest first.

    Compares answers where the model has any, otherwise the last layer's vectors. Refuses runs that
    would take more than MAX_WAIT_SECONDS, and maps whose heads are all off already.
    """
    start, model_run = time.perf_counter(), prepare_model_run(trace, EFFECT_PURPOSE, "by")
    head_ids = _heads_still_on(maps, model_run)
    full_result, answers = model_run.run_without(), model_run.answer_positions
    _refuse_long_ranking((time.perf_counter() - start) * len(head_ids), head_ids)
    without = zip(head_ids, map(model_run.run_without, track(head_ids)), strict=True)
    if full_result.logits is None or answers is None or not answers.positions:
        effects = [_effect_on_vectors(head_id, full_result, result) for head_id, result in without]
        return Effects(
            measured="vectors",
            tokens=tuple(range(len(trace.tokens))),
            heads=_rank_effects(effects),
            off=tuple(model_run.off),
        )
    return _effects_on_answers(model_run, full_result, without)


def _heads_still_on(maps: Sequence[Map], model_run: ModelRun) -> list[HeadId]:
    """Return the heads of these maps that are not switched off anyway; refuse if there are none."""
    head_ids = [
        (head_map.layer.layer, head_map.head)
        for head_map in maps
        if head_map.layer and head_map.head is not None
    ]
    heads_on = [head_id for head_id in head_ids if head_id not in model_run.off]
    if not heads_on:
        raise AttnvizError(
            f"{EFFECT_PURPOSE}, but {and_list([format_head_id(*head_id) for head_id in head_ids])} "
            f"{'is' if len(head_ids) == 1 else 'are'} already off",
            "leave --without out",
            about="by",
        )
    return heads_on


def _rank_effects(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return the effects sorted by their mean change, largest first."""
    return tuple(sorted(effects, key=lambda effect: -effect.mean))


def _effect_on_vectors(head_id: HeadId, full_result: PassResult, result: PassResult) -> Effect:
    """Return the relative change of the last layer's vectors without a head, and their cosines."""
    assert full_result.vectors is not None
    assert result.vectors is not None
    changes, cosines = vector_changes(full_result.vectors, result.vectors)
    return Effect(head_id=head_id, amounts=changes, cosines=cosines)


def _effects_on_answers(
    model_run: ModelRun, full_result: PassResult, without: Iterable[tuple[HeadId, PassResult]]
) -> Effects:
    """Return the effects of the heads on the model's probabilities of answers, largest first.

    `without` has the result of the model without each head.
    """
    answer_positions = model_run.answer_positions
    assert answer_positions is not None
    rows = [
        answer_positions.scored_positions.index(position) for position in answer_positions.positions
    ]
    answer_row = len(rows) - 1 if answer_positions.next else 0
    before = _log_shares(full_result, rows)
    answer = int(before[answer_row].argmax())
    effects = [
        _effect_on_answers(model_run, position, before, _log_shares(result, rows), answer_row)
        for position, result in without
    ]
    return Effects(
        measured="answers",
        tokens=answer_positions.positions,
        heads=_rank_effects(effects),
        answer=model_run.answer_label(answer),
        answer_position=answer_positions.positions[answer_row],
        next=answer_positions.next,
        likely=float(before[answer_row, answer].exp()),
        off=tuple(model_run.off),
    )


def _effect_on_answers(
    model_run: ModelRun,
    head_id: HeadId,
    before: Float[Tensor, "token answer"],
    after: Float[Tensor, "token answer"],
    answer_row: int,
) -> Effect:
    """Return the effect of one head, from the logarithms of the answers' probabilities with it
    (`before`) and without it (`after`). `answer_row` is the row of the answer that is shown."""
    answer, other_answer = int(before[answer_row].argmax()), int(after[answer_row].argmax())
    return Effect(
        head_id=head_id,
        amounts=divergence_bits(before, after),
        likely=float(after[answer_row, answer].exp()),
        other_answer="" if other_answer == answer else model_run.answer_label(other_answer),
    )


def divergence_bits(
    before: Float[Tensor, "token answer"], after: Float[Tensor, "token answer"]
) -> Float[Tensor, "token"]:
    """Return for each token the Kullback-Leibler divergence of `after` from `before` in bits.

    Both are natural logarithms of probabilities of answers.
    """
    bits: Tensor = (before.exp() * (before - after)).sum(-1) / log(2)
    return bits.clamp(min=0)


def _log_shares(result: PassResult, rows: Sequence[int]) -> Float[Tensor, "token answer"]:
    """Return the logarithms of the answers' probabilities at these rows of the logits."""
    assert result.logits is not None
    return result.logits[list(rows)].double().log_softmax(-1)


def _refuse_long_ranking(seconds: float, head_ids: Sequence[HeadId]) -> None:
    """Refuse to switch off each of these heads if that would take longer than MAX_WAIT_SECONDS."""
    if seconds > MAX_WAIT_SECONDS:
        raise AttnvizError(
            f"switching off each of {len(head_ids):,} heads in turn would take about "
            f"{seconds / 60:.0f} minutes",
            f"rank the heads of one layer: --layer {head_ids[-1][0]}",
            about="by",
        )
