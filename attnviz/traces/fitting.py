"""Whether tensors fit each other: sides that count the same must be equally long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError
from attnviz.wording.words import counted, shape_text

if TYPE_CHECKING:  # a lesson is read without torch
    from torch import Tensor

Known = Mapping[str, tuple[int, str]]  # how long a side is, and by whose word

WORDS = {
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
# Heads side by side are as wide as the matrices that make them.
SIDE_BY_SIDE = (
    ("queries", "query_width", "width"),
    ("keys", "key_width", "width"),
    ("values", "value_width", "head_value"),
)
HEADS_OF = {  # how many heads stand side by side in what is so wide, and how wide each is
    "query_width": ("head", "width"),
    "key_width": ("group", "width"),
    "value_width": ("group", "head_value"),
    "joined_width": ("head", "head_value"),
}
SHARED_OUT = {whole: width for whole, (_, width) in HEADS_OF.items()}  # among heads


def refuse_misfits(
    tensors: Mapping[str, Tensor], sides: Mapping[str, str], counts: Known, source: str
) -> None:
    """Refuse tensors of other sides than theirs, or of sides that are not alike."""
    known = dict(counts)
    for name, tensor in tensors.items():
        own = sides_of(sides[name], tensor)
        fits = own if tensor.ndim == len(own) else []
        refuse_other_sides(name, tensor.shape, sides[name], fits, source)
        for side, size in zip(own, tensor.shape, strict=True):
            wanted, by = known.setdefault(side, (size, name))
            if size != wanted:
                why = f"according to '{by}' there {_so_many(wanted, WORDS[side])}"
                raise _misfit(name, tensor, sides[name], known, why, source)
    _refuse_other_widths(tensors, sides, known, source)


def _so_many(count: int, words: str) -> str:
    """`are 2 heads of keys and values`, `is 1 head of keys and values`"""
    noun, *rest = words.split()
    told = " ".join([counted(count, noun.removesuffix("s")), *rest])
    return f"{'is' if count == 1 else 'are'} {told}"


def sides_of(sides: str, tensor: Tensor) -> list[str]:
    """What the sides of a tensor count; one that all heads share has no side for them."""
    names = sides.split()
    return names[1:] if names[0] in ("head", "group") and tensor.ndim == len(names) - 1 else names


def in_file(source: str) -> str:
    """The file, where a message names it."""
    return f" in '{source}'" if source else ""


def refuse_other_sides(
    name: str, shape: Sequence[int], sides: str, readings: Sequence[object], source: str
) -> None:
    """Refuse what has more or fewer sides than anything that could be read."""
    if readings:
        return
    first = sides.startswith(("head ", "group "))
    heads = "heads come first, and may be left out; " if first else ""
    raise AttnvizError(
        f"'{name}'{in_file(source)} is {shape_text(shape)}, which is not {_words_of(sides)}",
        f"{heads}a batch comes before them",
        about=name,
        file=source,
    )


def _refuse_other_widths(
    tensors: Mapping[str, Tensor], sides: Mapping[str, str], known: Known, source: str
) -> None:
    for name, whole, width in SIDE_BY_SIDE:
        if name in tensors and whole in known:
            wanted, by = known[whole]
            heads, _, own = tensors[name].shape
            if heads * own != wanted:
                shape = {**known, width: (wanted // heads, by)}
                why = f"'{by}' makes them {wanted} wide"
                raise _misfit(name, tensors[name], sides[name], shape, why, source)


def _misfit(
    name: str, tensor: Tensor, sides: str, known: Known, why: str, source: str
) -> AttnvizError:
    names, found = sides_of(sides, tensor), tuple(tensor.shape)
    if names[0] in ("head", "group") and found[0] == 1:
        names, found = names[1:], found[1:]
    wanted = shape_text(known[side][0] if side in known else "any" for side in names)
    problem = f"'{name}'{in_file(source)} is {shape_text(found)}, but should be {wanted}"
    return AttnvizError(problem, why, about=name, file=source)


def _words_of(sides: str) -> str:
    """
    >>> _words_of("head token key")
    '(heads ×) tokens × keys'
    """
    words = {
        "head": "(heads ×)",
        "group": "(heads ×)",
        "token": "tokens",
        "key": "keys",
        "dim": "width",
    }
    parts = [words.get(side, side.replace("_", " ")) for side in sides.split()]
    return " × ".join(parts).replace("(heads ×) × ", "(heads ×) ")
