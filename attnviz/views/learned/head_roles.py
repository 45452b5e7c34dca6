"""The heads of a model that learned: weights at each moment, and what each came to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from attnviz.cells import StoredCells, unmasked_cells
from attnviz.learning.progress import Answer, Moment
from attnviz.learning.task import Reading
from attnviz.learning.training import Learned
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import Source
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.views.grids.axes import AXES_NOTE, ROW_SUM_NOTE, Axis, titled_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, bar_scale, widest_scale
from attnviz.views.reading import token_axis
from attnviz.views.view import PanelRemark, PanelTitle
from attnviz.wording.numbers import percent_text, share_text
from attnviz.wording.words import bidi_isolated

MIN_READING_SCORE = 0.5  # a head does something if this share of its attention goes to it
HeadIndex = tuple[int, int]  # layer and head


@dataclass(frozen=True, eq=False)
class LearnedHeads:
    """The heads of a trained model at every recorded moment of training, and the followed token's
    position, if any.
    """

    learned: Learned
    query: int | None = None

    @cached_property
    def trace(self) -> Trace:
        """The Trace of the watched sentence in the trained model."""
        model, text = self.learned.model, self.learned.watched.text
        settings = Settings(model=model.name, device=self.learned.settings.device)
        return trace_source(Source(text, settings, model.matrices, model=model))

    @cached_property
    def reading_scores(self) -> tuple[ReadingScores, ...]:
        return collect_reading_scores(self.learned)

    @cached_property
    def history(self) -> dict[str, np.ndarray]:
        """The step, the loss and the accuracy of each moment."""
        moments = self.learned.moments
        names = ("step", "loss", "accuracy")
        return {name: np.array([getattr(moment, name) for moment in moments]) for name in names}

    @cached_property
    def all_heads(self) -> list[HeadIndex]:
        return list_head_indices(self.learned.moments[-1])

    def important_heads(self, max_heads: int) -> list[HeadIndex]:
        """Return at most `max_heads` heads: all if they are no more, else those best at a reading,
        else the first ones.
        """
        if len(self.all_heads) <= max_heads:
            return self.all_heads
        best_heads = sorted({scores.best_head_index for scores in self.reading_scores})
        return (best_heads or self.all_heads)[:max_heads]

    def head_title(self, head: HeadIndex, moment: int = -1) -> PanelTitle:
        """Return the name of a head, with a remark for each reading at which it is the best head in
        the end: the reading's score at a moment (the last by default).
        """
        remarks = []
        for series, scores in enumerate(self.reading_scores):
            if scores.best_head_index == head:
                share = share_text(float(scores.best_scores[moment]))
                remarks.append(PanelRemark(f"{scores.task_reading.name} {share}", share, series))
        return PanelTitle(learned_head_name(*head), tuple(remarks))

    def step_label(self, moment: int) -> str:
        """Return the step of a moment: `step 1,200`."""
        return f"step {self.learned.moments[moment].step:,}"

    @cached_property
    def tokens(self) -> Tokens:
        """The watched sentence as the model receives it, with `?` where an answer is expected."""
        return self.learned.model.vocabulary.as_read(self.learned.watched)

    def answer_label(self, moment_index: int) -> str:
        """Return the answer at a moment, `? → is 62 %`; empty unless there is exactly one blank."""
        answers = self.learned.moments[moment_index].answers
        return answer_text(self.tokens, answers[0]) if len(answers) == 1 else ""

    def _with_answers(self, axis: Axis, moment_index: int) -> Axis:
        """Return the axis with the answers at a moment as labels, and room for the answers at all
        moments.
        """
        labels = list(axis.labels)
        for answer in self.learned.moments[moment_index].answers:
            labels[answer.place] = answer_text(self.tokens, answer)
        reserved = {
            answer_text(self.tokens, answer)
            for moment in self.learned.moments
            for answer in moment.answers
        }
        return replace(axis, labels=tuple(labels), reserved_labels=tuple(sorted(reserved)))

    def head_grid(self, head: HeadIndex, moment_index: int, *, answers: bool = False) -> Grid:
        """Return a Grid of the weights of a head at a moment; `answers` writes the answers of that
        moment on the query axis.
        """
        rows, weights = token_axis("query (reads)", self.tokens), self._weights(head, moment_index)
        return Grid(
            f"weights {learned_head_name(*head)} · {self.step_label(moment_index)}",
            self._with_answers(rows, moment_index) if answers else rows,
            token_axis("key (is read)", self.tokens),
            StoredCells(weights, self._masked_cells(head)),
            self._weight_scale,
            note=f"{AXES_NOTE} · {ROW_SUM_NOTE}",
            share=True,
        )

    def ringed_cell(self, heads: Sequence[HeadIndex]) -> tuple[int, int, int] | None:
        """Return the cell to ring, as index in `heads`, row and column: the blank's largest weight
        in the head best at the first reading.

        None where there is not exactly one blank, no head learned the reading, or that head is not
        shown.
        """
        answers = self.learned.moments[-1].answers
        if len(answers) != 1 or not self.reading_scores:
            return None
        best_head, score = (
            self.reading_scores[0].best_head_index,
            self.reading_scores[0].final_score,
        )
        if score < MIN_READING_SCORE or best_head not in heads:
            return None
        row = self._weights(best_head, -1)[answers[0].place]
        return heads.index(best_head), answers[0].place, int(row.argmax())

    def token_grid(self, head: HeadIndex, moment_indices: Sequence[int]) -> Grid:
        """Return a Grid of the weights of the followed token in one head, a row for each moment."""
        rows = [self._weights(head, index)[self._query_position] for index in moment_indices]
        steps = [f"{self.learned.moments[index].step:,}" for index in moment_indices]
        return self._rows_grid("step", steps, learned_head_name(*head), rows, [head] * len(rows))

    def heads_grid(self, heads: Sequence[HeadIndex], moment_index: int) -> Grid:
        """Return a Grid of the weights of the followed token at a moment, a row for each head."""
        rows = [self._weights(head, moment_index)[self._query_position] for head in heads]
        names = [learned_head_name(*head) for head in heads]
        return self._rows_grid("head", names, self.step_label(moment_index), rows, heads)

    def _rows_grid(
        self,
        unit: str,
        names: Sequence[str],
        subject: str,
        rows: list[np.ndarray],
        heads: Sequence[HeadIndex],
    ) -> Grid:
        """Return a Grid of these rows of weights of the followed token; `unit` ('step', 'head') is
        the title of the rows, `heads` give the mask of each row.
        """
        label = bidi_isolated(self.tokens.labels[self._query_position])
        hidden = np.stack([self._masked_cells(head)[self._query_position] for head in heads])
        return Grid(
            f'what "{label}" ({self._query_position + 1}) attends to · {subject}',
            titled_axis(unit, names),
            token_axis(f'key (is read by "{label}")', self.tokens),
            StoredCells(np.stack(rows), hidden),
            self._weight_scale,
            note=ROW_SUM_NOTE,
            share=True,
        )

    @property
    def _query_position(self) -> int:
        assert self.query is not None
        return self.query

    def _weights(self, head: HeadIndex, moment_index: int) -> Float[np.ndarray, "query key"]:
        layer, number = head
        return np.asarray(self.learned.moments[moment_index].weights[layer][number])

    def _masked_cells(self, head: HeadIndex) -> Bool[np.ndarray, "query key"]:
        layer, number = head
        return ~tensor_to_numpy(head_mask(number, self.trace.layers[layer].visible))

    @cached_property
    def _weight_scale(self) -> Scale:
        """One scale of weights for all moments: from 0 to 1, or for many keys to the next round
        number.
        """
        scales = [
            bar_scale(unmasked_cells(weights.reshape(-1, weights.shape[-1])))
            for moment in self.learned.moments
            for weights in moment.weights
        ]
        return widest_scale(scales)


def answer_text(tokens: Tokens, answer: Answer) -> str:
    """Return an answer with its probability: `? → is 62 %`."""
    label = bidi_isolated(tokens.labels[answer.place])
    return f"{label} → {bidi_isolated(answer.word)} {percent_text(answer.probability)}"


@dataclass(frozen=True, eq=False)
class ReadingScores:
    """The score of every head for one reading of the task (such as the subject) at every moment."""

    task_reading: Reading
    scores: Float[np.ndarray, "moment layer head"]

    @cached_property
    def best_head_index(self) -> HeadIndex:
        """Layer and head with the largest score at the last moment; the first of equal ones."""
        return _best_head_index(self.scores[-1])

    @property
    def best_scores(self) -> Float[np.ndarray, "moment"]:
        return self.scores[:, self.best_head_index[0], self.best_head_index[1]]

    @property
    def final_score(self) -> float:
        return float(self.best_scores[-1])

    def other_heads(self, min_score: float) -> dict[str, float]:
        """Return the final scores, by name of head, of all heads but the best that reach
        `min_score`.
        """
        return {
            learned_head_name(*head): float(score)
            for head, score in np.ndenumerate(self.scores[-1])
            if head != self.best_head_index and float(score) >= min_score
        }

    @property
    def best_head_label(self) -> str:
        return learned_head_name(*self.best_head_index)


def collect_reading_scores(learned: Learned) -> tuple[ReadingScores, ...]:
    """Return the scores over time of each reading of the task that could be measured at the last
    moment.
    """
    last = learned.moments[-1].scores
    return tuple(
        ReadingScores(
            reading, np.stack([moment.scores[reading.name] for moment in learned.moments])
        )
        for reading in learned.task.readings
        if reading.name in last and np.isfinite(last[reading.name]).any()
    )


def find_best_head(scores: Float[np.ndarray, "layer head"]) -> tuple[str, float]:
    best = _best_head_index(scores)
    return learned_head_name(*best), float(scores[best])


def _best_head_index(scores: Float[np.ndarray, "layer head"]) -> HeadIndex:
    layer, head = np.unravel_index(np.nanargmax(scores), scores.shape)
    return int(layer), int(head)


def learned_head_name(layer: int, head: int) -> str:
    """Return the name of a head.

    >>> learned_head_name(1, 0)
    'L1H0'
    """
    return f"L{layer}H{head}"


def list_head_indices(moment: Moment) -> list[HeadIndex]:
    return [
        (layer, head)
        for layer, weights in enumerate(moment.weights)
        for head in range(len(weights))
    ]
