"""Where the numbers of a Trace come from; one type for each kind of origin."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model
from attnviz.traces.settings import Settings


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """A seed, and vectors of a file where the settings name one."""

    settings: Settings
    vectors: Float[Tensor, "token dim"] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Given:
    """Matrices of a person's own; what they leave out is drawn."""

    settings: Settings
    matrices: Matrices
    vectors: Float[Tensor, "token dim"] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FromExample:
    """A worked example: a tutorial's numbers, as given or as drawn by its own recipe."""

    settings: Settings
    matrices: Matrices
    name: str
    mistake: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class FromModel:
    """A model: what it learned, or what somebody wrote by hand."""

    settings: Settings  # as they were asked for; all else is the model's own
    matrices: Matrices
    model: Model
    vectors: Float[Tensor, "token dim"] | None = None

    @property
    def decided(self) -> Settings:
        """As they turned out."""
        return self.model.chosen(self.settings)


Origin = Drawn | Given | FromExample | FromModel


def decided(origin: Origin) -> Settings:
    """The settings of a run, also those that a model decided."""
    return origin.decided if isinstance(origin, FromModel) else origin.settings
