"""Where the numbers of a Trace come from: one type for each kind of origin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model
from attnviz.traces.settings import AttentionKind, Positions, Settings
from attnviz.vectors.embedding_tables import FromTable


@dataclass(frozen=True, eq=False, kw_only=True)
class FromSeed:
    """A seed, and vectors of a file or a trained model where the settings name one."""

    settings: Settings
    vectors: Float[Tensor, "token dim"] | None = None
    table: FromTable | None = None  # that the vectors are rows of


@dataclass(frozen=True, eq=False, kw_only=True)
class FromMatrices:
    """Matrices of a person's own; what they leave out is drawn."""

    settings: Settings
    matrices: Matrices
    vectors: Float[Tensor, "token dim"] | None = None
    table: FromTable | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FromExample:
    """A worked example: a tutorial's numbers, as given or as drawn by its own recipe."""

    settings: Settings
    matrices: Matrices
    name: str
    mistake: str = ""
    model: Model | None = None  # whose numbers they are, where it names one


@dataclass(frozen=True, eq=False, kw_only=True)
class FromModel:
    """A model: what it learned, or what somebody wrote by hand."""

    settings: Settings  # as they were asked for; all else is the model's own
    matrices: Matrices
    model: Model
    vectors: Float[Tensor, "token dim"] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FromTransformer:
    """A trained transformer, listened to."""

    settings: Settings
    card: TrainedCard
    text: str | None = None  # which it read, whatever its decoder read beside it
    positions: Positions = "none"  # by which queries and keys are turned, where that is known,
    position_base: float = Settings.position_base  # and the base of their angles
    matrices: Matrices = field(default_factory=Matrices)
    vectors: None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FromWeights:
    """Weights that were computed elsewhere: nothing else of their attention is known."""

    name: str = ""  # of what computed them, if that is said
    stored_as: str = "float32"  # the dtype that they came in
    settings: Settings = field(default_factory=Settings)
    matrices: Matrices = field(default_factory=Matrices)  # which item of a batch they are
    vectors: None = None


Origin = FromSeed | FromMatrices | FromExample | FromModel | FromTransformer | FromWeights


def external_origin(origin: Origin) -> FromWeights | None:
    """Weights that were computed elsewhere, if they are that."""
    return origin if isinstance(origin, FromWeights) else None


def resolved_settings(origin: Origin) -> Settings:
    """The settings of a run, also those that a model decided."""
    if isinstance(origin, FromTransformer):
        position_settings: dict[str, Any] = {
            "positions": origin.positions,
            "position_base": origin.position_base,
        }
        return replace(origin.settings, **position_settings)
    model = origin_model(origin)
    return origin.settings if model is None else model.merge_settings(origin.settings)


def trained_card(origin: Origin) -> TrainedCard | None:
    """The trained transformer that was listened to."""
    return origin.card if isinstance(origin, FromTransformer) else None


def origin_model(origin: Origin) -> Model | None:
    """The model whose numbers they are."""
    return origin.model if isinstance(origin, FromModel | FromExample) else None


def origin_table(origin: Origin) -> FromTable | None:
    """The table of a trained model that the vectors are rows of, if they are."""
    return origin.table if isinstance(origin, FromSeed | FromMatrices) else None


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
    which: AttentionKind  # attention of an encoder, of a decoder, or between them
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
