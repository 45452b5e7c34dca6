"""What the numbers of vectors mean, where whoever wrote a model said it: names on their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.axes import Axis, dimension_axis, named_dimensions

OF_MODEL = ("dim", "context")  # sides of tensors that count the numbers of an embedding,
OF_HEAD = {"width": "asks", "head_value": "hands"}  # those of one head, and by whom they are named,
OF_ALL_HEADS = {  # and those of all heads side by side
    "query_width": "asks",
    "key_width": "asks",
    "value_width": "hands",
    "joined_width": "hands",
}


def axis_of(trace: Trace, layer: Layer, side: str, count: int, head: int = 0) -> Axis:
    """A side that counts the numbers of vectors, as the table of parts calls it; of one head."""
    names = names_of(trace, layer, side, head)
    return named_dimensions(names) if len(names) == count else dimension_axis(count)


def names_of(trace: Trace, layer: Layer, side: str, head: int = 0) -> Sequence[str]:
    """The name of each number; nothing where nobody gave any."""
    model = trace.model
    if model is None:
        return ()
    if side in OF_MODEL:
        return model.dimensions
    if side in OF_HEAD:
        of_heads: Mapping[str, Sequence[str]] = getattr(model, OF_HEAD[side])
        return of_heads.get(f"{layer.name}H{head}", ())
    if side in OF_ALL_HEADS:
        of_heads = getattr(model, OF_ALL_HEADS[side])
        return _side_by_side(of_heads, layer)
    return ()


def _side_by_side(of_heads: Mapping[str, Sequence[str]], layer: Layer) -> Sequence[str]:
    """`H0 animal`, where there are several heads."""
    return [
        f"H{head} {name}" if layer.heads > 1 else name
        for head in range(layer.heads)
        for name in of_heads.get(f"{layer.name}H{head}", ())
    ]
