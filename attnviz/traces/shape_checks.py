"""Checks that tensors fit each other: sides that count the same must be equally long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError
from attnviz.wording.words import counted, shape_text

if TYPE_CHECKING:  # a lesson is read without torch
    from torch import Tensor

KnownSizes = Mapping[str, tuple[int, str]]  # length by side, and the tensor that it is known from

SIDE_DESCRIPTIONS = {
    "token": "tokens",
    "key": "keys",
    "dim": "numbers in an embedding",
    "query_width": "numbers in queries",
    "key_width": "numbers in keys",
    "value_width": "numbers in values",
    "joined_width": "numbers in joined heads",
    "group": "heads of keys and values",
    "context": "numbers in a context vector",
    "head": "heads",
    "width": "numbers in a head's queries",
    "head_value": "numbers in a head's values",
    "hidden": "numbers in a hidden vector",
    "position": "positions",
    "memory": "tokens of the memory",
    "answer": "answers",
}
JOINED_AND_HEAD_WIDTHS = (  # tensor, side of all heads together, side of one head
    ("queries", "query_width", "width"),
    ("keys", "key_width", "width"),
    ("values", "value_width", "head_value"),
)
HEAD_SIDES_BY_WIDTH = {  # a joined width is the product of these sides
    "query_width": ("head", "width"),
    "key_width": ("group", "width"),
    "value_width": ("group", "head_value"),
    "joined_width": ("head", "head_value"),
}
HEAD_WIDTH_BY_WIDTH = {joined: width for joined, (_, width) in HEAD_SIDES_BY_WIDTH.items()}


def refuse_misfits(
    tensors: Mapping[str, Tensor], sides: Mapping[str, str], counts: KnownSizes, source: str
) -> None:
    """Refuse tensors with a wrong number of sides, or with sides of different lengths."""
    known_sizes = dict(counts)
    for name, tensor in tensors.items():
        own_sides = tensor_sides(sides[name], tensor)
        fitting_sides = own_sides if tensor.ndim == len(own_sides) else []
        refuse_other_sides(name, tensor.shape, sides[name], fitting_sides, source)
        for side, size in zip(own_sides, tensor.shape, strict=True):
            expected_size, first_name = known_sizes.setdefault(side, (size, name))
            if size != expected_size:
                count = _count_with_verb(expected_size, SIDE_DESCRIPTIONS[side])
                reason = f"according to '{first_name}' there {count}"
                raise _misfit_error(name, tensor, sides[name], known_sizes, reason, source)
    _refuse_misfit_head_widths(tensors, sides, known_sizes, source)


def _count_with_verb(count: int, words: str) -> str:
    """
    >>> _count_with_verb(2, "heads of keys and values"), _count_with_verb(1, "answers")
    ('are 2 heads of keys and values', 'is 1 answer')
    """
    noun, *other_words = words.split()
    verb = "is" if count == 1 else "are"
    return " ".join([verb, counted(count, noun.removesuffix("s")), *other_words])


def tensor_sides(sides: str, tensor: Tensor) -> list[str]:
    """Returns what the sides of a tensor count, without the side for heads if it has none."""
    names = sides.split()
    return names[1:] if names[0] in ("head", "group") and tensor.ndim == len(names) - 1 else names


def in_file(source: str) -> str:
    """Returns " in 'file.toml'" for messages; "" without a file."""
    return f" in '{source}'" if source else ""


def refuse_other_sides(
    name: str, shape: Sequence[int], sides: str, readings: Sequence[object], source: str
) -> None:
    """Refuse an array whose number of sides allows no reading."""
    if readings:
        return
    starts_with_heads = sides.startswith(("head ", "group "))
    heads_hint = "heads come first, and may be left out; " if starts_with_heads else ""
    raise AttnvizError(
        f"'{name}'{in_file(source)} is {shape_text(shape)}, which is not {_sides_text(sides)}",
        f"{heads_hint}a batch comes before them",
        about=name,
        file=source,
    )


def _refuse_misfit_head_widths(
    tensors: Mapping[str, Tensor], sides: Mapping[str, str], known_sizes: KnownSizes, source: str
) -> None:
    for name, joined_side, head_side in JOINED_AND_HEAD_WIDTHS:
        if name in tensors and joined_side in known_sizes:
            joined_width, maker = known_sizes[joined_side]
            heads, _, head_width = tensors[name].shape
            if heads * head_width != joined_width:
                shape = {**known_sizes, head_side: (joined_width // heads, maker)}
                reason = f"'{maker}' makes them {joined_width} wide"
                raise _misfit_error(name, tensors[name], sides[name], shape, reason, source)


def _misfit_error(
    name: str, tensor: Tensor, sides: str, known_sizes: KnownSizes, reason: str, source: str
) -> AttnvizError:
    names, shape = tensor_sides(sides, tensor), tuple(tensor.shape)
    if names[0] in ("head", "group") and shape[0] == 1:
        names, shape = names[1:], shape[1:]
    expected_shape = shape_text(
        known_sizes[side][0] if side in known_sizes else "any" for side in names
    )
    problem = f"'{name}'{in_file(source)} is {shape_text(shape)}, but should be {expected_shape}"
    return AttnvizError(problem, reason, about=name, file=source)


def _sides_text(sides: str) -> str:
    """
    >>> _sides_text("head token key")
    '(heads ×) tokens × keys'
    """
    heads = "(heads ×)"
    words = {"head": heads, "group": heads, "token": "tokens", "key": "keys", "dim": "width"}
    parts = [words.get(side, side.replace("_", " ")) for side in sides.split()]
    return " × ".join(parts).replace("(heads ×) × ", "(heads ×) ")
