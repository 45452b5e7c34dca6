"""A model's prediction: logits of its answers from the last vectors."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attnviz.attention import arithmetic, block
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.model import Model, Unembedding
from attnviz.traces.models.vocabulary import Predicts
from attnviz.wording.words import with_summary


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerScoring(Unembedding):
    """The stages in which the logits of answers are computed from the last layer's outputs."""

    inputs: Float[Tensor, "token dim"]  # the last layer's outputs
    vectors: Float[Tensor, "token dim"]  # the inputs, normalised if there is a norm


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """The logits and probabilities of a model's answers, and their computation if it is known."""

    answers: tuple[str, ...]
    predicts: Predicts
    scoring: AnswerScoring | None  # None: not known for a trained transformer
    logits: Float[Tensor, "token answer"]
    probabilities: Float[Tensor, "token answer"]
    asked_positions: tuple[int, ...]  # the positions at which the model is asked for an answer
    with_all_heads: Float[Tensor, "token answer"] | None = None  # probabilities without ablation
    asking_words: tuple[str, ...] = ()  # words that ask for an answer; (): every word does
    answer_ids: tuple[int, ...] = ()  # of a trained transformer: each answer's token,
    answer_texts: tuple[str, ...] = ()  # its text with its space: " Paris"; \\xe2 of bytes alone
    answer_count: int | None = None  # number of possible answers, if only the likeliest are kept

    @property
    def main_position(self) -> int | None:
        """The position of the answer that counts most: the only one, or the last one where the
        answer continues the text; None where each of several positions has its own answer.
        """
        positions = self.asked_positions
        is_one = len(positions) == 1 or (bool(positions) and self.predicts == "next")
        return positions[-1] if is_one else None

    def best(self, position: int, count: int) -> list[int]:
        """Return the indices, in `answers`, of the `count` likeliest answers at a token's position.

        The likeliest comes first; among equals the order of `answers` counts.
        """
        order = self.probabilities[position].argsort(descending=True, stable=True)
        return order[:count].tolist()


def predict_answers(
    outputs: Float[Tensor, "token dim"], model: Model, tokens: Tokens
) -> Prediction | None:
    """Return a model's logits and probabilities of its answers at each token; None without any."""
    unembedding = model.unembedding
    if unembedding is None:
        return None
    vectors = apply_last_norm(outputs, unembedding)
    logits = answer_scores(vectors, unembedding)
    return Prediction(
        answers=model.vocabulary.answers,
        predicts=model.vocabulary.predicts,
        scoring=AnswerScoring(**vars(unembedding), inputs=outputs, vectors=vectors),
        logits=logits,
        probabilities=logits.softmax(-1),
        asked_positions=model.vocabulary.asked(tokens.ids),
    )


def apply_last_norm(outputs: block.Vectors, unembedding: Unembedding) -> block.Vectors:
    return outputs if unembedding.norm is None else block.layer_norm(outputs, unembedding.norm)


def answer_scores(
    vectors: block.Vectors, unembedding: Unembedding
) -> Float[Tensor, "*batch token answer"]:
    """Return the logit of each answer for each vector.

    The last norm must have been applied before.
    """
    return arithmetic.project(vectors, unembedding.w_answers, unembedding.b_answers)
