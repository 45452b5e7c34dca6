"""The origin of a Trace's numbers: one dataclass for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from attnviz.options.values import AttentionKind, Positions
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.card import CHANGEABLE_SETTINGS
from attnviz.traces.models.model import Model
from attnviz.traces.settings import Settings
from attnviz.vectors.embedding_tables import FromTable
from attnviz.wording.surfaces import opt
from attnviz.wording.words import with_summary

if TYPE_CHECKING:
    from attnviz.traces.trained.loading import LoadedTransformer


@dataclass(frozen=True, eq=False, kw_only=True)
class FromSeed:
    """Numbers drawn from a seed, with vectors of a file or a model where the settings name one."""

    settings: Settings
    vectors: Float[Tensor, "token dim"] | None = None
    table: FromTable | None = None  # the embedding table that the vectors are rows of


@dataclass(frozen=True, eq=False, kw_only=True)
class FromMatrices:
    """Matrices that the user gave; missing ones are drawn."""

    settings: Settings
    matrices: Matrices
    vectors: Float[Tensor, "token dim"] | None = None
    table: FromTable | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FromProgram(FromMatrices):
    """Matrices of an attention that a PyTorch program computed."""

    module: str  # in which it was heard
    operation: str  # that computed it


@dataclass(frozen=True, eq=False, kw_only=True)
class FromExample:
    """A worked example: a tutorial's numbers, given or drawn as the tutorial draws them."""

    settings: Settings
    matrices: Matrices
    name: str
    mistake: str = ""
    model: Model | None = None  # if the example names one


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class FromModel:
    """A small model that comes with attnviz, trained or written by hand."""

    settings: Settings  # as given, without those that the model decides
    matrices: Matrices
    model: Model
    vectors: Float[Tensor, "token dim"] | None = None


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class FromTransformer:
    """A trained transformer whose attention was captured."""

    settings: Settings
    card: TrainedCard
    text: str | None = None  # of the encoder, if there is one, not of its decoder
    positions: Positions = "none"  # those that rotate queries and keys, if known
    position_base: float = Settings.position_base  # of their angles
    matrices: Matrices = field(default_factory=Matrices)
    vectors: None = None
    in_memory: LoadedTransformer | None = field(default=None, repr=False)  # the caller's model

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without the caller's model, which no copy or pickle takes along."""
        return {**vars(self), "in_memory": None}


@dataclass(frozen=True, eq=False, kw_only=True)
class FromWeights:
    """Attention weights that were computed outside attnviz, without queries, keys and values."""

    name: str = ""  # of the model, if given
    stored_as: str = "float32"  # the dtype they were given in
    settings: Settings = field(default_factory=Settings)
    matrices: Matrices = field(default_factory=Matrices)  # holds `item` and `items`
    vectors: None = None


# Of which nothing was drawn from the seed: an example sets its own.
UNDRAWN_ORIGINS = FromExample | FromProgram | FromTransformer | FromWeights
Origin = FromSeed | FromMatrices | FromExample | FromModel | FromTransformer | FromWeights


def resolved_settings(origin: Origin) -> Settings:
    """Return the settings of a run with the values that a model of attnviz decided, or with the
    positions that a trained transformer uses.
    """
    if isinstance(origin, FromTransformer):
        positions, base = origin.positions, origin.position_base
        return replace(origin.settings, positions=positions, position_base=base)
    model = origin_model(origin)
    return origin.settings if model is None else model.merge_settings(origin.settings)


def is_in_memory(origin: Origin) -> bool:
    return isinstance(origin, FromTransformer) and origin.card.in_memory


def origin_model(origin: Origin) -> Model | None:
    """Return the small model of attnviz that computed the numbers; None without one."""
    return origin.model if isinstance(origin, FromModel | FromExample) else None


def is_unmodified_model(origin: Origin) -> bool:
    """Return whether no setting changes what a model's heads were trained or written to do."""
    return all(getattr(origin.settings, name) is None for name in CHANGEABLE_SETTINGS)


def origin_table(origin: Origin) -> FromTable | None:
    """Return which model's embedding table the vectors are rows of; None without one."""
    return origin.table if isinstance(origin, FromSeed | FromMatrices) else None


@dataclass(frozen=True, kw_only=True)
class TrainedCard:
    """The name, kind and size of a trained transformer, and how its attention was captured."""

    name: str
    kind: str  # bert, gpt2, llama …
    parameters: int
    layers: int  # of the captured attention
    heads: int
    kv_heads: int
    head_dim: int
    stored_as: str  # the dtype of the checkpoint
    which: AttentionKind
    eager: float | None  # largest difference of a weight from the model's own eager attention
    vectors: float | None = None  # difference of the last vectors, relative to their largest number
    compared: int = 0  # number of tokens that the differences were measured on
    fallback: bool = False  # whether the model returned the weights, and no queries were captured
    in_memory: bool = False  # whether the caller gave the model itself, and no name
    decoder_answers: bool = False  # whether its decoder, not captured, predicts tokens

    @property
    def no_answers(self) -> tuple[str, str]:
        """Why the model predicts nothing (words after its name), and a hint about what to do."""
        if self.decoder_answers:
            return f"answers in its decoder; {opt.attention} is self, the encoder's", (
                f"give {opt.attention:decoder}, or cross"
            )
        return "makes vectors and gives no answers", (
            "use a model that continues texts, or fills in a [MASK]"
        )
