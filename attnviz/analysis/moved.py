"""How far vectors move, and how far they turn, when something about a model is changed."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import cosine_similarity

Vectors = Float[Tensor, "token dim"]


def changes_of(
    before: Vectors, after: Vectors
) -> tuple[Float[Tensor, "token"], Float[Tensor, "token"]]:
    """The length of each difference over that of the vector; and the cosine of both."""
    one, other = before.double(), after.double()
    lengths: Tensor = vector_norm(other - one, dim=-1) / vector_norm(one, dim=-1)
    return lengths, cosine_similarity(one, other, dim=-1)
