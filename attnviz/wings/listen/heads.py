"""Which text and which head a matrix is of, where texts and heads are one dimension."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from attnviz.wings.listen.softmaxes import Product, positions_after


def find_order(product: Product, vectors: Tensor, count: int) -> Int[Tensor, "item head"] | None:
    """Return which of so many matrices of `vectors` [… token width] each head of each item is.

    Vectors are known to be columns of a product of tokens and a parameter: matrices of the same
    rows are heads of one text, those of the same columns are one head. None if that is not known.
    """
    is_one_matrix = len(product.right) == 1 or product.right.stride(0) == 0
    if product.learned != (False, True) or not is_one_matrix:
        return None
    places = positions_after(product.shape, product.moves, tuple(vectors.shape))
    if places is None or not places.numel() or places[..., 0].numel() % count:
        return None
    vector_places, width = places[..., 0].reshape(count, -1), product.shape[2]  # [matrix token]
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
