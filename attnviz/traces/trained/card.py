"""What is known of a trained transformer, and can be told without its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.traces.settings import Which


@dataclass(frozen=True, kw_only=True)
class TrainedCard:
    """What kind of model it is, how large, and how it was listened to."""

    name: str
    kind: str  # bert, gpt2, llama …
    parameters: int
    layers: int  # of the attention that is looked at
    heads: int
    kv_heads: int
    head_dim: int
    stored_as: str  # the dtype of the checkpoint
    which: Which  # attention of an encoder, of a decoder, or between them
    eager: float | None  # how far a weight is, at most, from the model's own eager attention,
    vectors: float | None = None  # and the last vectors, relative to the largest number there,
    compared: int = 0  # on so many tokens
    fallback: bool = False  # whether the weights are the model's own, and no queries were heard
    decoder_answers: bool = False  # whether its decoder, which is not looked at, predicts tokens

    @property
    def no_answers(self) -> tuple[str, str]:
        """What is said of it where nothing is predicted, and what can be done about that."""
        if self.decoder_answers:
            return "answers in its decoder; --attention is self, the encoder's", (
                "give --attention decoder, or cross"
            )
        return "makes vectors and gives no answers", (
            "use a model that continues texts, or fills in a [MASK]"
        )
