"""Which head learned what, and tables of the heads then and now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from attnviz.cells import StoredCells, unmasked_cells
from attnviz.learning.progress import Answer
from attnviz.learning.task import Reading
from attnviz.learning.training import Learned, Moment
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace_source
from attnviz.traces.settings import Settings
from attnviz.traces.source import Source
from attnviz.traces.trace import Trace
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.views.grids.axes import AXES_NOTE, ROW_SUM_NOTE, Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, bar_scale, widest_scale
from attnviz.views.reading import token_axis
from attnviz.views.view import PanelRemark, PanelTitle
from attnviz.wording.numbers import percent_text, share_text
from attnviz.wording.words import bidi_isolated

MIN_READING_SCORE = 0.5  # of its weight: a head does what it puts so much on
HeadIndex = tuple[int, int]  # its layer, and its number there


@dataclass(frozen=True, eq=False)
class LearnedHeads:
    """A model that learned, and which token is followed, if one is."""

    learned: Learned
    query: int | None = None

    @cached_property
    def trace(self) -> Trace:
        """What the model does with the sentence that was watched, now that it has learned."""
        model, text = self.learned.model, self.learned.watched.text
        settings = Settings(model=model.name, device=self.learned.settings.device)
        return trace_source(Source(text, settings, model.matrices, model=model))

    @cached_property
    def reading_scores(self) -> tuple[ReadingScores, ...]:
        return collect_reading_scores(self.learned)

    @cached_property
    def all_heads(self) -> list[HeadIndex]:
        """All of them."""
        return list_head_indices(self.learned.moments[-1])

    def important_heads(self, max_heads: int) -> list[HeadIndex]:
        """All heads where they are few; else those that do something best, or the first ones."""
        if len(self.all_heads) <= max_heads:
            return self.all_heads
        return (
            sorted({scores.best_head_index for scores in self.reading_scores})[:max_heads]
            or self.all_heads[:max_heads]
        )

    def head_title(self, head: HeadIndex, moment: int = -1) -> PanelTitle:
        """A head; with what it does best of all heads in the end, and how well at a moment."""
        numbered_scores = enumerate(self.reading_scores)
        remarks = [
            _reading_remark(scores, number, moment)
            for number, scores in numbered_scores
            if scores.best_head_index == head
        ]
        return PanelTitle(learned_head_name(*head), tuple(remarks))

    def step_label(self, moment: int) -> str:
        return f"step {self.learned.moments[moment].step:,}"

    @cached_property
    def tokens(self) -> Tokens:
        """The sentence that was watched, as the model reads it: `?` where it is to answer."""
        return self.learned.model.vocabulary.as_read(self.learned.watched)

    def answer_label(self, moment_index: int) -> str:
        """`? → is 62 %`: what was answered at a moment; nothing of several blanks, or none."""
        answers = self.learned.moments[moment_index].answers
        return answer_text(self.tokens, answers[0]) if len(answers) == 1 else ""

    def _with_answers(self, axis: Axis, moment_index: int) -> Axis:
        """With what is answered at a moment beside the blank, and room for all other answers."""
        answers = self.learned.moments[moment_index].answers
        labels = list(axis.labels)
        for answer in answers:
            labels[answer.place] = answer_text(self.tokens, answer)
        reserved = {
            answer_text(self.tokens, answer)
            for moment in self.learned.moments
            for answer in moment.answers
        }
        return replace(axis, labels=tuple(labels), reserved=tuple(sorted(reserved)))

    def head_grid(self, head: HeadIndex, moment_index: int, *, answers: bool = False) -> Grid:
        """Who reads whom, at a moment; with what is answered then beside the blank."""
        layer, number = head
        rows = token_axis("query (reads)", self.tokens)
        return Grid(
            f"weights {learned_head_name(*head)} · {self.step_label(moment_index)}",
            self._with_answers(rows, moment_index) if answers else rows,
            token_axis("key (is read)", self.tokens),
            StoredCells(
                self.learned.moments[moment_index].weights[layer][number], self._masked_cells(head)
            ),
            self._weight_scale,
            note=f"{AXES_NOTE} · {ROW_SUM_NOTE}",
            share=True,
        )

    def ringed_cell(self, heads: Sequence[HeadIndex]) -> tuple[int, int, int] | None:
        """The cell that matters: what the blank comes to read, in the head that does it best.

        That is the first of the task's readings; nothing where no head comes to do it.
        """
        answers = self.learned.moments[-1].answers
        first_reading = self.reading_scores[0] if self.reading_scores else None
        if (
            len(answers) != 1
            or first_reading is None
            or first_reading.final_score < MIN_READING_SCORE
            or first_reading.best_head_index not in heads
        ):
            return None
        layer, number = first_reading.best_head_index
        row = self.learned.moments[-1].weights[layer][number][answers[0].place]
        return heads.index(first_reading.best_head_index), answers[0].place, int(row.argmax())

    def token_grid(self, head: HeadIndex, moment_indices: Sequence[int]) -> Grid:
        """What the followed token reads, a row for each moment."""
        layer, number = head
        rows = [
            self.learned.moments[moment_index].weights[layer][number][self._query_position]
            for moment_index in moment_indices
        ]
        steps = [f"{self.learned.moments[moment_index].step:,}" for moment_index in moment_indices]
        return self._rows_grid(
            "step", steps, learned_head_name(*head), rows, [head] * len(moment_indices)
        )

    def heads_grid(self, heads: Sequence[HeadIndex], moment_index: int) -> Grid:
        """What the followed token reads at a moment, a row for each head."""
        weights = self.learned.moments[moment_index].weights
        rows = [weights[layer][number][self._query_position] for layer, number in heads]
        names = [learned_head_name(*head) for head in heads]
        return self._rows_grid("head", names, self.step_label(moment_index), rows, heads)

    def _rows_grid(
        self,
        side: str,
        names: Sequence[str],
        subject: str,
        rows: list[np.ndarray],
        heads: Sequence[HeadIndex],
    ) -> Grid:
        label = bidi_isolated(self.tokens.labels[self._query_position])
        hidden = np.stack([self._masked_cells(head)[self._query_position] for head in heads])
        return Grid(
            f'what "{label}" ({self._query_position + 1}) attends to · {subject}',
            Axis(side, side, tuple(names), ("",) * len(names)),
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

    def _masked_cells(self, head: HeadIndex) -> Bool[np.ndarray, "query key"]:
        layer, number = head
        return ~tensor_to_numpy(head_mask(number, self.trace.layers[layer].visible))

    @cached_property
    def _weight_scale(self) -> Scale:
        """One for all moments: from 0 to 1; or, among many keys, to the next round number."""
        scales = [
            bar_scale(unmasked_cells(weights.reshape(-1, weights.shape[-1])))
            for moment in self.learned.moments
            for weights in moment.weights
        ]
        return widest_scale(scales)


def answer_text(tokens: Tokens, answer: Answer) -> str:
    """`? → is 62 %`"""
    label = bidi_isolated(tokens.labels[answer.place])
    return f"{label} → {bidi_isolated(answer.word)} {percent_text(answer.probability)}"


def _reading_remark(scores: ReadingScores, series: int, moment_index: int) -> PanelRemark:
    """`subject .97`"""
    share = share_text(float(scores.best_scores[moment_index]))
    return PanelRemark(f"{scores.reading.name} {share}", share, series)


@dataclass(frozen=True, eq=False)
class ReadingScores:
    """A reading, and what each head's score for it was at each moment."""

    reading: Reading
    scores: Float[np.ndarray, "moment layer head"]

    @cached_property
    def best_head_index(self) -> tuple[int, int]:
        """Layer and number of the head that does it best in the end; of equals the first."""
        return _best_head_index(self.scores[-1])

    @property
    def best_scores(self) -> Float[np.ndarray, "moment"]:
        """The scores of the head that does it best in the end."""
        return self.scores[:, self.best_head_index[0], self.best_head_index[1]]

    @property
    def final_score(self) -> float:
        """That of the head that does it best."""
        return float(self.best_scores[-1])

    def other_heads(self, min_score: float) -> dict[str, float]:
        """The other heads that do it, with a score of so much at least."""
        heads = (
            (head_index, float(score)) for head_index, score in np.ndenumerate(self.scores[-1])
        )
        matches = (
            (head_index, score)
            for head_index, score in heads
            if head_index != self.best_head_index and score >= min_score
        )
        return {learned_head_name(layer, head): score for (layer, head), score in matches}

    @property
    def best_head_label(self) -> str:
        return learned_head_name(*self.best_head_index)


def collect_reading_scores(learned: Learned) -> tuple[ReadingScores, ...]:
    """What became of each reading that the task has, and that there was any chance for."""
    return tuple(
        ReadingScores(
            reading, np.stack([moment.scores[reading.name] for moment in learned.moments])
        )
        for reading in learned.task.readings
        if _is_measured(learned.moments[-1].scores, reading.name)
    )


def _is_measured(scores: Mapping[str, np.ndarray], name: str) -> bool:
    return name in scores and bool(np.isfinite(scores[name]).any())


def find_best_head(scores: Float[np.ndarray, "layer head"]) -> tuple[str, float]:
    """The head that does something most, and how much."""
    best = _best_head_index(scores)
    return learned_head_name(*best), float(scores[best])


def _best_head_index(scores: Float[np.ndarray, "layer head"]) -> tuple[int, int]:
    layer, head = np.unravel_index(np.nanargmax(scores), scores.shape)
    return int(layer), int(head)


def learned_head_name(layer: int, head: int) -> str:
    """
    >>> learned_head_name(1, 0)
    'L1H0'
    """
    return f"L{layer}H{head}"


def list_head_indices(moment: Moment) -> list[tuple[int, int]]:
    """Every head, by layer and number."""
    return [
        (layer, head)
        for layer, weights in enumerate(moment.weights)
        for head in range(len(weights))
    ]
