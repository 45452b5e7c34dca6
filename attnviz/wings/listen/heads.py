"""Which text and which head a matrix is of, where texts and heads are one dimension."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from attnviz.wings.listen.softmaxes import Lineage, Product, positions_after


def find_order(lineage: Lineage | None, vectors: Tensor) -> Int[Tensor, "item head"] | None:
    """Return which of the matrices of `vectors` [matrix token width] each head of each item is.

    Vectors are known to be columns of a product of tokens and a parameter: matrices of the same
    rows are heads of one text, those of the same columns are one head. None if that is not known.
    """
    if not isinstance(lineage, Product) or lineage.learned != (False, True):
        return None
    is_one_parameter = len(lineage.right) == 1 or lineage.right.stride(0) == 0
    places = positions_after(lineage.shape, lineage.moves, tuple(vectors.shape))
    if not is_one_parameter or places is None or not places.numel():
        return None
    firsts, width = places[..., 0], lineage.shape[2]  # first numbers of vectors: [matrix token]
    rows, columns = firsts // width, firsts % width
    heads = len(set(columns[:, 0].tolist()))
    if len(firsts) % heads:
        return None
    order = firsts[:, 0].argsort().view(-1, heads)
    are_texts = bool((rows[order] == rows[order[:, :1]]).all())
    are_heads = bool((columns[order] == columns[order[:1], :1]).all())
    are_distinct = len(set(rows[order[:, 0], 0].tolist())) == len(order)
    return order if are_texts and are_heads and are_distinct else None
