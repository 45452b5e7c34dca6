"""Which text and which head a matrix is of, where texts and heads are one dimension."""

from __future__ import annotations

import torch
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
    vector_places, width = places[..., 0], lineage.shape[2]  # [matrix token]
    starts, rows = vector_places[:, 0], vector_places // width
    columns = starts % width
    heads = len(set(columns.tolist()))
    if len(set(starts.tolist())) < len(starts) or len(starts) % heads:
        return None  # several heads share vectors
    order = starts.argsort().view(-1, heads)
    expected = rows[order[:, :1]] * width + columns[order[:1], None]
    # Rows of one head that are apart may be those of other heads, split before the product.
    is_sure = heads > 1 or bool((rows.diff() == 1).all())
    return order if is_sure and torch.equal(vector_places[order], expected) else None
