"""The steps from the last vectors of a model to what it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from attnviz.traces.models.prediction import Prediction, Scoring
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import axis_of
from attnviz.views.prediction import PROBABILITY, answered, best_answers, unasked
from attnviz.views.reading import token_axis
from attnviz.views.steps import block, sums
from attnviz.views.steps.scene import Scene, count_of
from attnviz.wording.sums import TERMS
from attnviz.wording.words import isolated

ANSWER = "answer"  # what columns count


def answers(here: Scene) -> Iterator[Section]:
    """What follows the last layer of a model that answers, not yet numbered."""
    made = here.trace.prediction
    if made is None:
        return
    if made.scoring is None:
        yield _likeliest(here, made)
        return
    order = made.best(here.followed, len(made.answers))
    yield from _last_norm(here, made.scoring)
    yield _scores(here, made, made.scoring, order)
    yield _shares(here, made, order)


def _last_norm(here: Scene, scoring: Scoring) -> Iterator[Section]:
    if scoring.norm is not None:
        vectors = (scoring.inputs, scoring.vectors)
        section = block.normed(here, vectors, scoring.norm, "", "last-norm")
        yield replace(section, about=f"{_whose(here)}{section.about}", title="last LayerNorm")


def _whose(here: Scene) -> str:
    """Which layer the vectors come from, where the steps before were those of another one."""
    last = here.trace.layers[-1].layer
    return "" if here.layer.layer == last else f"The vectors are the outputs of layer {last}. "


def _scores(here: Scene, made: Prediction, scoring: Scoring, order: Sequence[int]) -> Section:
    bias = scoring.b_answers is not None
    count = {"w_answers": scoring.w_answers}
    if scoring.b_answers is not None:
        count["b_answers"] = scoring.b_answers
    whose = "" if scoring.norm is not None else _whose(here)
    return Section(
        number="",
        name="logits",
        title="scores of the answers",
        about=f"{whose}Each score is the dot product of a vector and an answer's vector, a column "
        "of w_answers: the larger the score, the more likely the answer.",
        shapes=f"vectors {here.size(scoring.vectors)} · w_answers {here.size(scoring.w_answers)} → "
        f"scores {here.size(made.logits)}",
        formula=f"scores = x W_answers{' + b_answers' * bias}",
        tex=r"x W_\mathrm{answers}" + r" + b_\mathrm{answers}" * bias,
        grids=(
            _by_answer(_matrix(here, scoring), made, order),
            _of_tokens(here, "scores", made.logits, made, order),
        ),
        sums=sums.scores_of_answers(here, made, scoring, _written(here, order)),
        remarks=(count_of(here, count), *_left_out(here, order)),
    )


def _likeliest(here: Scene, made: Prediction) -> Section:
    """What a transformer answers, where only its most likely answers are kept."""
    return Section(
        number="",
        name="prediction",
        title="prediction",
        about="The model computes a score for each answer from its last vectors, in its own way, "
        f"and a softmax turns the scores into the probabilities of {made.of:,} answers.",
        shapes=f"vectors of {here.size(made.probabilities[:, 0])} tokens → {made.of:,} answers",
        formula="probability = exp(score) / sum of exp(scores in its row)",
        tex=r"p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}",
        grids=(best_answers(here.trace, here.asked.query),),
        remarks=answered(here.trace, here.asked.query),
    )


def _shares(here: Scene, made: Prediction, order: Sequence[int]) -> Section:
    shares = _of_tokens(here, "prediction", made.probabilities, made, order)
    return Section(
        number="",
        name="prediction",
        title="prediction",
        about="A softmax turns the scores into the probability of each answer. Each row of "
        "probabilities sums to 1.",
        shapes=f"probabilities {here.size(made.probabilities)}",
        formula="probability = exp(score) / sum of exp(scores in its row)",
        tex=r"p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}",
        grids=(replace(shares, scale=PROBABILITY),),
        sums=sums.shares_of_answers(here, made, _written(here, order)),
        remarks=(
            *unasked(made, here.trace.tokens, here.asked.query),
            *answered(here.trace, here.asked.query),
            *_left_out(here, order),
        ),
    )


def _matrix(here: Scene, scoring: Scoring) -> Grid:
    """A row for each number of a vector, by its name where it has one."""
    rows = axis_of(here.trace, here.layer, "dim", len(scoring.w_answers))
    return here.grid("w_answers", scoring.w_answers, replace(rows, title=""), side=ANSWER)


def _of_tokens(
    here: Scene, title: str, numbers: Tensor, made: Prediction, order: Sequence[int]
) -> Grid:
    rows = token_axis("token", here.trace.tokens)
    return _by_answer(here.grid(title, numbers, rows, side=ANSWER, followed=True), made, order)


def _by_answer(grid: Grid, made: Prediction, order: Sequence[int]) -> Grid:
    """With a column for each answer, what the followed token answers first."""
    labels = [isolated(made.answers[place]) for place in order]
    values = grid.with_values(grid.values[:, list(order)])
    return replace(values, columns=plain_axis(ANSWER, labels))


def _written(here: Scene, order: Sequence[int]) -> Sequence[int]:
    return order if here.asked.full else order[:TERMS]


def _left_out(here: Scene, order: Sequence[int]) -> tuple[str, ...]:
    """What is not written out, if anything is."""
    if here.asked.query is None or len(_written(here, order)) == len(order):
        return ()
    return (
        f"written out: the {TERMS} most likely of {len(order)} answers "
        "(--full writes out everything)",
    )
