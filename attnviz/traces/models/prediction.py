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
class Scoring:
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
    scoring: Scoring | None  # None: a trained transformer has a way of its own
    logits: Float[Tensor, "token answer"]
    probabilities: Float[Tensor, "token answer"]
    asked: tuple[int, ...]  # the places that something is asked for
    with_all_heads: Float[Tensor, "token answer"] | None = None  # probabilities, where some are off
    asks: tuple[str, ...] = ()  # words that would ask for something; none: every one does
    of: int | None = None  # so many answers, of which the likeliest are kept

    def best(self, place: int, count: int) -> list[int]:
        """The likeliest answers at a place; of two that are as likely the first."""
        likeliest = self.probabilities[place].argsort(descending=True, stable=True)
        found: list[int] = likeliest[:count].tolist()
        return found


def predicted(
    outputs: Float[Tensor, "token dim"], model: Model, tokens: Tokens
) -> Prediction | None:
    """What a model answers at each token; None of one that predicts nothing."""
    last = model.unembedding
    if last is None:
        return None
    vectors = normed(outputs, last)
    logits = scores_of_answers(vectors, last)
    return Prediction(
        answers=model.vocabulary.answers,
        predicts=model.vocabulary.predicts,
        scoring=Scoring(
            norm=last.norm,
            inputs=outputs,
            vectors=vectors,
            w_answers=last.w_answers,
            b_answers=last.b_answers,
        ),
        logits=logits,
        probabilities=logits.softmax(-1),
        asked=model.vocabulary.asked(tokens.ids),
    )


def normed(
    outputs: Float[Tensor, "*batch token dim"], last: Unembedding
) -> Float[Tensor, "*batch token dim"]:
    """The last vectors; of a pre-norm stack they are normalised once more."""
    return outputs if last.norm is None else block.layer_norm(outputs, last.norm)


def scores_of_answers(
    vectors: Float[Tensor, "*batch token dim"], last: Unembedding
) -> Float[Tensor, "*batch token answer"]:
    """Each vector against the vector of each answer."""
    return arithmetic.project(vectors, last.w_answers, last.b_answers)
