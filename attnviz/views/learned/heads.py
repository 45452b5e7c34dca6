"""Which head learned what, and tables of the heads then and now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from attnviz.cells import Whole, unmasked
from attnviz.learning.progress import Answer
from attnviz.learning.task import Reading
from attnviz.learning.training import Learned, Moment
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace_of
from attnviz.traces.settings import Settings
from attnviz.traces.source import Source
from attnviz.traces.trace import Trace
from attnviz.traces.weights import array, mask_of
from attnviz.views.grids.axes import AXES_NOTE, SUM_TO_ONE, Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, bar_scale, widest
from attnviz.views.reading import token_axis
from attnviz.views.view import Name, Told
from attnviz.wording.numbers import percent, share_text
from attnviz.wording.words import isolated

DOES = 0.5  # of its weight: a head does what it puts so much on
Head = tuple[int, int]  # its layer, and its number there


@dataclass(frozen=True, eq=False)
class Shown:
    """A model that learned, and which token is followed, if one is."""

    learned: Learned
    query: int | None = None

    @cached_property
    def trace(self) -> Trace:
        """What the model does with the sentence that was watched, now that it has learned."""
        model, text = self.learned.model, self.learned.watched.text
        settings = Settings(model=model.name, device=self.learned.settings.device)
        return trace_of(Source(text, settings, model.matrices, model=model))

    @cached_property
    def found(self) -> tuple[Found, ...]:
        return found_in(self.learned)

    @cached_property
    def heads(self) -> list[Head]:
        """All of them."""
        return heads_of(self.learned.moments[-1])

    def that_matter(self, most: int) -> list[Head]:
        """All heads where they are few; else those that do something best, or the first ones."""
        if len(self.heads) <= most:
            return self.heads
        return sorted({each.best for each in self.found})[:most] or self.heads[:most]

    def name(self, head: Head, place: int = -1) -> Name:
        """A head; with what it does best of all heads in the end, and how well at a moment."""
        numbered = enumerate(self.found)
        more = [_told(each, number, place) for number, each in numbered if each.best == head]
        return Name(name_of_head(*head), tuple(more))

    def step(self, place: int) -> str:
        return f"step {self.learned.moments[place].step:,}"

    @cached_property
    def tokens(self) -> Tokens:
        """The sentence that was watched, as the model reads it: `?` where it is to answer."""
        return self.learned.model.vocabulary.as_read(self.learned.watched)

    def answer(self, place: int) -> str:
        """`? → is 62 %`: what was answered at a moment; nothing of several blanks, or none."""
        answers = self.learned.moments[place].answers
        return answer_text(self.tokens, answers[0]) if len(answers) == 1 else ""

    def _answering(self, axis: Axis, place: int) -> Axis:
        """With what is answered at a moment beside the blank, and room for all other answers."""
        answers = self.learned.moments[place].answers
        labels = list(axis.labels)
        for each in answers:
            labels[each.place] = answer_text(self.tokens, each)
        reserved = {
            answer_text(self.tokens, each)
            for moment in self.learned.moments
            for each in moment.answers
        }
        return replace(axis, labels=tuple(labels), reserved=tuple(sorted(reserved)))

    def of_head(self, head: Head, place: int, *, answers: bool = False) -> Grid:
        """Who reads whom, at a moment; with what is answered then beside the blank."""
        layer, number = head
        rows = token_axis("query (reads)", self.tokens)
        return Grid(
            f"weights {name_of_head(*head)} · {self.step(place)}",
            self._answering(rows, place) if answers else rows,
            token_axis("key (is read)", self.tokens),
            Whole(self.learned.moments[place].weights[layer][number], self._hidden(head)),
            self._scale,
            note=f"{AXES_NOTE} · {SUM_TO_ONE}",
            share=True,
        )

    def ringed(self, heads: Sequence[Head]) -> tuple[int, int, int] | None:
        """The cell that matters: what the blank comes to read, in the head that does it best.

        That is the first of the task's readings; nothing where no head comes to do it.
        """
        answers = self.learned.moments[-1].answers
        found = self.found[0] if self.found else None
        if len(answers) != 1 or found is None or found.score < DOES or found.best not in heads:
            return None
        layer, number = found.best
        row = self.learned.moments[-1].weights[layer][number][answers[0].place]
        return heads.index(found.best), answers[0].place, int(row.argmax())

    def of_token(self, head: Head, places: Sequence[int]) -> Grid:
        """What the followed token reads, a row for each moment."""
        layer, number = head
        rows = [self.learned.moments[place].weights[layer][number][self._place] for place in places]
        steps = [f"{self.learned.moments[place].step:,}" for place in places]
        return self._rows("step", steps, name_of_head(*head), rows, [head] * len(places))

    def of_heads(self, heads: Sequence[Head], place: int) -> Grid:
        """What the followed token reads at a moment, a row for each head."""
        weights = self.learned.moments[place].weights
        rows = [weights[layer][number][self._place] for layer, number in heads]
        names = [name_of_head(*head) for head in heads]
        return self._rows("head", names, self.step(place), rows, heads)

    def _rows(
        self,
        side: str,
        names: Sequence[str],
        of: str,
        rows: list[np.ndarray],
        heads: Sequence[Head],
    ) -> Grid:
        label = isolated(self.tokens.labels[self._place])
        hidden = np.stack([self._hidden(head)[self._place] for head in heads])
        return Grid(
            f'what "{label}" ({self._place + 1}) attends to · {of}',
            Axis(side, side, tuple(names), ("",) * len(names)),
            token_axis(f'key (is read by "{label}")', self.tokens),
            Whole(np.stack(rows), hidden),
            self._scale,
            note=SUM_TO_ONE,
            share=True,
        )

    @property
    def _place(self) -> int:
        assert self.query is not None
        return self.query

    def _hidden(self, head: Head) -> Bool[np.ndarray, "query key"]:
        layer, number = head
        return ~array(mask_of(number, self.trace.layers[layer].visible))

    @cached_property
    def _scale(self) -> Scale:
        """One for all moments: from 0 to 1; or, among many keys, to the next round number."""
        found = [
            bar_scale(unmasked(weights.reshape(-1, weights.shape[-1])))
            for moment in self.learned.moments
            for weights in moment.weights
        ]
        return widest(found)


def answer_text(tokens: Tokens, answer: Answer) -> str:
    """`? → is 62 %`"""
    label = isolated(tokens.labels[answer.place])
    return f"{label} → {isolated(answer.word)} {percent(answer.probability)}"


def _told(found: Found, series: int, place: int) -> Told:
    """`subject .97`"""
    share = share_text(float(found.course[place]))
    return Told(f"{found.reading.name} {share}", share, series)


@dataclass(frozen=True, eq=False)
class Found:
    """A reading, and what each head's score for it was at each moment."""

    reading: Reading
    scores: Float[np.ndarray, "moment layer head"]

    @cached_property
    def best(self) -> tuple[int, int]:
        """Layer and number of the head that does it best in the end; of equals the first."""
        return _best(self.scores[-1])

    @property
    def course(self) -> Float[np.ndarray, "moment"]:
        """The scores of the head that does it best in the end."""
        return self.scores[:, self.best[0], self.best[1]]

    @property
    def score(self) -> float:
        """That of the head that does it best."""
        return float(self.course[-1])

    def others(self, least: float) -> dict[str, float]:
        """The other heads that do it, with a score of so much at least."""
        heads = ((place, float(score)) for place, score in np.ndenumerate(self.scores[-1]))
        found = ((place, score) for place, score in heads if place != self.best and score >= least)
        return {name_of_head(layer, head): score for (layer, head), score in found}

    @property
    def head(self) -> str:
        return name_of_head(*self.best)


def found_in(learned: Learned) -> tuple[Found, ...]:
    """What became of each reading that the task has, and that there was any chance for."""
    return tuple(
        Found(reading, np.stack([each.scores[reading.name] for each in learned.moments]))
        for reading in learned.task.readings
        if _is_measured(learned.moments[-1].scores, reading.name)
    )


def _is_measured(scores: Mapping[str, np.ndarray], name: str) -> bool:
    return name in scores and bool(np.isfinite(scores[name]).any())


def best_head(scores: Float[np.ndarray, "layer head"]) -> tuple[str, float]:
    """The head that does something most, and how much."""
    best = _best(scores)
    return name_of_head(*best), float(scores[best])


def _best(scores: Float[np.ndarray, "layer head"]) -> tuple[int, int]:
    layer, head = np.unravel_index(np.nanargmax(scores), scores.shape)
    return int(layer), int(head)


def name_of_head(layer: int, head: int) -> str:
    """
    >>> name_of_head(1, 0)
    'L1H0'
    """
    return f"L{layer}H{head}"


def heads_of(moment: Moment) -> list[tuple[int, int]]:
    """Every head, by layer and number."""
    return [
        (layer, head)
        for layer, weights in enumerate(moment.weights)
        for head in range(len(weights))
    ]
