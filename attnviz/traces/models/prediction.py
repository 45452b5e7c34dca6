"""What a model answers: the last vectors against the vector of each answer."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attnviz.attention import arithmetic, block
from attnviz.attention.block import Norm
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.model import Model, Unembedding
from attnviz.traces.models.vocabulary import Predicts


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerScoring:
    """How answers get their scores, in the order it happens."""

    norm: Norm | None
    inputs: Float[Tensor, "token dim"]  # what the last layer made
    vectors: Float[Tensor, "token dim"]  # the same, normalised if there is a norm
    w_answers: Float[Tensor, "dim answer"]
    b_answers: Float[Tensor, "answer"] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """What is answered, and the way there from the last vectors, where it is known."""

    answers: tuple[str, ...]
    predicts: Predicts
    scoring: AnswerScoring | None  # None: a trained transformer has a way of its own
    logits: Float[Tensor, "token answer"]
    probabilities: Float[Tensor, "token answer"]
    asked: tuple[int, ...]  # the places that something is asked for
    with_all_heads: Float[Tensor, "token answer"] | None = None  # probabilities, where some are off
    asks: tuple[str, ...] = ()  # words that would ask for something; none: every one does
    of: int | None = None  # so many answers, of which the likeliest are kept

    def best(self, position: int, count: int) -> list[int]:
        """The likeliest answers at a place; of two that are as likely the first."""
        order = self.probabilities[position].argsort(descending=True, stable=True)
        best_answers: list[int] = order[:count].tolist()
        return best_answers


def predict_answers(
    outputs: Float[Tensor, "token dim"], model: Model, tokens: Tokens
) -> Prediction | None:
    """What a model answers at each token; None of one that predicts nothing."""
    unembedding = model.unembedding
    if unembedding is None:
        return None
    vectors = apply_last_norm(outputs, unembedding)
    logits = answer_scores(vectors, unembedding)
    return Prediction(
        answers=model.vocabulary.answers,
        predicts=model.vocabulary.predicts,
        scoring=AnswerScoring(
            norm=unembedding.norm,
            inputs=outputs,
            vectors=vectors,
            w_answers=unembedding.w_answers,
            b_answers=unembedding.b_answers,
        ),
        logits=logits,
        probabilities=logits.softmax(-1),
        asked=model.vocabulary.asked(tokens.ids),
    )


def apply_last_norm(
    outputs: Float[Tensor, "*batch token dim"], unembedding: Unembedding
) -> Float[Tensor, "*batch token dim"]:
    """The last vectors; of a pre-norm stack they are normalised once more."""
    return outputs if unembedding.norm is None else block.layer_norm(outputs, unembedding.norm)


def answer_scores(
    vectors: Float[Tensor, "*batch token dim"], unembedding: Unembedding
) -> Float[Tensor, "*batch token answer"]:
    """Each vector against the vector of each answer."""
    return arithmetic.project(vectors, unembedding.w_answers, unembedding.b_answers)
