"""The steps from the last vectors of a model to its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from attnviz.traces.models.answers import AnswerScoring, Prediction
from attnviz.views.answer_tables import (
    PROBABILITY_SCALE,
    answer_sentences,
    best_answers_grid,
    unasked_position_notes,
)
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.origin_words import vector_axis
from attnviz.views.reading import token_axis
from attnviz.views.steps import block_steps, step_sums
from attnviz.views.steps.scene import Scene, parameter_count_text
from attnviz.views.steps.step_selection import STEPS
from attnviz.wording.sums import MAX_TERMS
from attnviz.wording.words import listed_label

ANSWER_SIDE = "answer"


def answer_steps(scene: Scene) -> Iterator[Section]:
    """Yield the steps after the last layer, not yet numbered; nothing for a model without answers.

    If only the best answers were kept, it is one step instead of norm, scores and probabilities.
    """
    prediction = scene.trace.prediction
    if prediction is None:
        return
    if prediction.scoring is None:
        yield _top_answers_step(scene, prediction)
        return
    order = prediction.best(scene.followed_query, len(prediction.answers))
    yield from _last_norm_step(scene, prediction.scoring)
    yield _answer_scores_step(scene, prediction, prediction.scoring, order)
    yield _probabilities_step(scene, prediction, order)


def _last_norm_step(scene: Scene, scoring: AnswerScoring) -> Iterator[Section]:
    """Yield the LayerNorm before the scores of answers; nothing in a model without it."""
    if scoring.norm is not None:
        vectors = (scoring.inputs, scoring.vectors)
        section = block_steps.layer_norm_step(scene, vectors, scoring.norm, "", "last-norm")
        about = f"{_vectors_origin_text(scene)}{section.about}"
        yield replace(section, about=about, title="last LayerNorm")


def _vectors_origin_text(scene: Scene) -> str:
    """Return `The vectors are the outputs of layer 3. ` if a lower layer is shown; else empty."""
    last_layer = scene.trace.layers[-1].layer
    is_last = scene.layer.layer == last_layer
    return "" if is_last else f"The vectors are the outputs of layer {last_layer}. "


def _answer_scores_step(
    scene: Scene, prediction: Prediction, scoring: AnswerScoring, order: Sequence[int]
) -> Section:
    """Return the step from vectors to the scores of answers; `order` sorts answers in tables."""
    has_bias = scoring.b_answers is not None
    matrices = {"w_answers": scoring.w_answers}
    if scoring.b_answers is not None:
        matrices["b_answers"] = scoring.b_answers
    origin = "" if scoring.norm is not None else _vectors_origin_text(scene)
    sizes = map(scene.size_text, (scoring.vectors, scoring.w_answers, prediction.logits))
    rows = replace(vector_axis(scene.trace, scene.layer, "dim", len(scoring.w_answers)), title="")
    matrix_grid = scene.grid("w_answers", scoring.w_answers, rows, side=ANSWER_SIDE)
    return Section(
        *STEPS["logits"],
        about=f"{origin}Each score is the dot product of a vector and an answer's vector, a column "
        "of w_answers: the larger the score, the more likely the answer.",
        shapes="vectors {} · w_answers {} → scores {}".format(*sizes),
        formula=f"scores = x W_answers{' + b_answers' * has_bias}",
        tex=r"x W_\mathrm{answers}" + r" + b_\mathrm{answers}" * has_bias,
        grids=(
            _with_answer_columns(matrix_grid, prediction, order),
            _token_answers_grid(scene, "scores", prediction.logits, prediction, order),
        ),
        sums=step_sums.answer_score_sums(
            scene, prediction, scoring, _written_answers(scene, order)
        ),
        remarks=(parameter_count_text(scene, matrices), *_unwritten_answers_note(scene, order)),
    )


def _top_answers_step(scene: Scene, prediction: Prediction) -> Section:
    """Return the one step of a transformer of whose answers only the most likely were kept."""
    tokens_size = scene.size_text(prediction.probabilities[:, 0])
    answers_text = f"{prediction.answer_count:,} answers"
    return Section(
        *STEPS["prediction"],
        about="The model computes a score for each answer from its last vectors, in its own way, "
        f"and a softmax turns the scores into the probabilities of {answers_text}.",
        shapes=f"vectors of {tokens_size} tokens → {answers_text}",
        formula="probability = exp(score) / sum of exp(scores in its row)",
        tex=r"p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}",
        grids=(best_answers_grid(scene.trace, scene.options.query),),
        remarks=answer_sentences(scene.trace, scene.options.query),
    )


def _probabilities_step(scene: Scene, prediction: Prediction, order: Sequence[int]) -> Section:
    """Return the softmax over the scores of answers; `order` sorts the answers in tables."""
    probabilities = prediction.probabilities
    grid = _token_answers_grid(scene, "prediction", probabilities, prediction, order)
    return Section(
        *STEPS["prediction"],
        about="A softmax turns the scores into the probability of each answer. Each row of "
        "probabilities sums to 1.",
        shapes=f"probabilities {scene.size_text(probabilities)}",
        formula="probability = exp(score) / sum of exp(scores in its row)",
        tex=r"p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}",
        grids=(replace(grid, scale=PROBABILITY_SCALE),),
        sums=step_sums.answer_probability_sums(scene, prediction, _written_answers(scene, order)),
        remarks=(
            *unasked_position_notes(prediction, scene.trace.tokens, scene.options.query),
            *answer_sentences(scene.trace, scene.options.query),
            *_unwritten_answers_note(scene, order),
        ),
    )


def _token_answers_grid(
    scene: Scene, title: str, numbers: Tensor, prediction: Prediction, order: Sequence[int]
) -> Grid:
    """Return a table of `numbers` with a row per token and a column per answer, in this order.

    If a query is followed, it has only that query's row.
    """
    rows = token_axis("token", scene.trace.tokens)
    grid = scene.grid(title, numbers, rows, side=ANSWER_SIDE, followed=True)
    return _with_answer_columns(grid, prediction, order)


def _with_answer_columns(grid: Grid, prediction: Prediction, order: Sequence[int]) -> Grid:
    """Return the grid with its columns in this order of answers, and the answers as labels."""
    labels = [listed_label(prediction.answers[answer]) for answer in order]
    values = grid.with_values(grid.values[:, list(order)])
    return replace(values, columns=plain_axis(ANSWER_SIDE, labels))


def _written_answers(scene: Scene, order: Sequence[int]) -> Sequence[int]:
    return order if scene.options.full else order[:MAX_TERMS]


def _unwritten_answers_note(scene: Scene, order: Sequence[int]) -> tuple[str, ...]:
    """Return how many answers are written out; empty if all are, or if no token is followed."""
    if scene.options.query is None or len(_written_answers(scene, order)) == len(order):
        return ()
    answers_text = f"the {MAX_TERMS} most likely of {len(order)} answers"
    return (f"written out: {answers_text} (--full writes out everything)",)
