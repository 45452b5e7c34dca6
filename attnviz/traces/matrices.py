"""Matrices of one's own: what a file gives, checked against each other before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from attnviz.errors import AttnvizError, unknown
from attnviz.traces.fitting import in_file, refuse_misfits, sides_of
from attnviz.traces.parts import GIVEN, GIVEN_NAMES
from attnviz.wording.words import counted

Array = Shaped[np.ndarray, "..."]

YES_OR_NO = ("visible", "hidden")
SIDES = {name: part.sides for name, part in GIVEN.items()}  # what the sides of each count


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """One item of what was given; None is what was not."""

    source: str = ""  # the file, for messages
    item: int = 1
    items: int = 1  # how many the file holds
    tokens: tuple[str, ...] | None = None
    key_tokens: tuple[str, ...] | None = None
    vocabulary: int | None = None  # how many ids there are
    embeddings: Tensor | None = None
    w_query: Tensor | None = None
    w_key: Tensor | None = None
    w_value: Tensor | None = None
    w_out: Tensor | None = None
    b_query: Tensor | None = None
    b_key: Tensor | None = None
    b_value: Tensor | None = None
    b_out: Tensor | None = None
    queries: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    scores: Tensor | None = None
    mask: Tensor | None = None  # finite: where it was −∞ something is hidden
    visible: Tensor | None = None
    hidden: Tensor | None = None
    weights: Tensor | None = None
    kept: Tensor | None = None

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Those that are given, by name."""
        found = {name: getattr(self, name) for name in GIVEN}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @property
    def anything(self) -> bool:
        """Whether anything is given at all."""
        return any(getattr(self, name) is not None for name in GIVEN_NAMES)

    @property
    def counts(self) -> dict[str, tuple[int, str]]:
        """How many tokens and keys are named, and by what."""
        named = {"token": "tokens", "key": "key_tokens"}
        found = {side: getattr(self, name) for side, name in named.items()}
        return {side: (len(each), named[side]) for side, each in found.items() if each is not None}

    @property
    def sizes(self) -> dict[str, int]:
        """How many tokens, keys, heads, … there are, by what the sides of tensors count."""
        found: dict[str, int] = {}
        for name, tensor in self.tensors.items():
            found = dict(zip(sides_of(SIDES[name], tensor), tensor.shape, strict=True)) | found
        return {side: count for side, (count, _) in self.counts.items()} | found

    @property
    def of_every_layer(self) -> Matrices:
        """What does not end with the first layer: who may read whom."""
        return Matrices(mask=self.mask, visible=self.visible, hidden=self.hidden)

    def like(self, other: Tensor) -> Matrices:
        """The same with every tensor on another's device and in its dtype."""
        moved: dict[str, Any] = {
            name: tensor.to(other.device if tensor.dtype == torch.bool else other)
            for name, tensor in self.tensors.items()
        }
        return replace(self, **moved)


def matrices(contents: Mapping[str, Any], source: str = "", item: int | None = None) -> Matrices:
    """What a mapping of names gives: tokens as words, the rest as arrays or nested lists."""
    for name in contents:
        if name not in GIVEN_NAMES:
            error = unknown("matrix", name, GIVEN_NAMES, about=name)
            raise error.told(f"{error} to give{in_file(source)}")
    named: dict[str, Any] = {
        name: _words(name, contents[name], source)
        for name in ("tokens", "key_tokens")
        if name in contents
    }
    arrays = {name: array(name, contents[name], source) for name in GIVEN if name in contents}
    one, items = _item(arrays, item, source)
    named |= _hiding({name: _tensor(name, each) for name, each in one.items()}, source)
    found = Matrices(
        source=source,
        item=item or 1,
        items=items,
        vocabulary=_vocabulary(contents, source),
        **named,
    )
    refuse_misfits(found.tensors, SIDES, found.counts, source)
    return found


def array(name: str, value: Any, source: str) -> Array:
    """A full, finite array of numbers; what is wrong with it is said with its place."""
    refuse_ragged(name, value, source)
    found = np.asarray(value)
    if found.dtype.kind not in "fiub" or found.size == 0:
        raise AttnvizError(
            f"'{name}'{in_file(source)} is no matrix of numbers",
            "give rows of numbers: [[1, 2], …]",
            about=name,
            file=source,
        )
    numbers = found.astype(np.float64)
    hides = np.isneginf(numbers) if name == "mask" else np.zeros(1, dtype=bool)
    odd = np.argwhere(~np.isfinite(numbers) & ~hides)
    if odd.size:
        place = tuple(odd[0].tolist())
        raise AttnvizError(
            f"'{name}'{in_file(source)} has {_spelled(numbers[place])} at {_place(place)}",
            "every number must be finite, but for -inf in 'mask', which hides",
            about=name,
            file=source,
        )
    return numbers


def refuse_ragged(name: str, value: Any, source: str) -> None:
    """Rows of one matrix are as long as each other."""
    if not isinstance(value, list) or not any(isinstance(row, list) for row in value):
        return
    lengths = [len(row) if isinstance(row, list) else 0 for row in value]
    for number, length in enumerate(lengths, start=1):
        if length != lengths[0]:
            raise AttnvizError(
                f"row {number} of '{name}'{in_file(source)} has {counted(length, 'number')}, and "
                f"row 1 has {lengths[0]}",
                "every row needs as many numbers as the others",
                about=name,
                file=source,
            )
    for row in value:
        refuse_ragged(name, row, source)


def _item(arrays: dict[str, Array], item: int | None, source: str) -> tuple[dict[str, Array], int]:
    """The arrays of one item, and how many items there are."""
    batched = _batched(arrays, item)
    if not batched and item is not None:
        raise AttnvizError(
            f"--item {item} is asked for, and there is no batch{in_file(source)}",
            "leave --item out",
            about="item",
            file=source,
        )
    items = _number_of_items(batched, source)
    wanted = item or 1
    if wanted > items or wanted < 1:
        raise AttnvizError(
            f"there is no item {item}{in_file(source)}: it holds a batch of {items}",
            f"give --item 1 to {items}",
            about="item",
            file=source,
        )
    return {**arrays, **{name: each[wanted - 1] for name, each in batched.items()}}, items


def _batched(arrays: dict[str, Array], item: int | None) -> dict[str, Array]:
    """Those arrays that hold a batch."""
    batched = {name: each for name, each in arrays.items() if each.ndim == _sides(name) + 1}
    if batched:
        return batched | _masks_of_items(arrays, len(next(iter(batched.values()))))
    if item is None:
        return batched
    # Nothing has a side too many: what could have heads has a batch instead.
    return {name: each for name, each in arrays.items() if name in _WITH_HEADS and each.ndim == 3}


def _masks_of_items(arrays: dict[str, Array], items: int) -> dict[str, Array]:
    """Beside a batch, masks that are as many as its items are theirs, and not those of heads."""
    shared = {name: each for name, each in arrays.items() if name in _SHARED}
    return {name: each for name, each in shared.items() if each.ndim == 3 and len(each) == items}


def _number_of_items(batched: dict[str, Array], source: str) -> int:
    counts = {name: len(each) for name, each in batched.items()}
    first, items = next(iter(counts.items()), ("", 1))
    for name, count in counts.items():
        if count != items:
            raise AttnvizError(
                f"'{name}'{in_file(source)} is a batch of {count}, and '{first}' is one of {items}",
                "give both the same number of items",
                about=name,
                file=source,
            )
    return items


_SHARED = frozenset(name for name, part in GIVEN.items() if part.shared)
_WITH_HEADS = frozenset(name for name, sides in SIDES.items() if sides.startswith("head "))


def _sides(name: str) -> int:
    return len(SIDES[name].split())


def _tensor(name: str, array: Array) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if name in _WITH_HEADS and name not in _SHARED and tensor.ndim == 2:
        tensor = tensor[None]
    return tensor != 0 if name in YES_OR_NO else tensor


def _hiding(tensors: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    """What −∞ in a mask hides is hidden, and not added: of −∞ nothing can be computed."""
    if "mask" not in tensors:
        return tensors
    mask = tensors["mask"]
    _refuse_yes_and_no(mask, source)
    infinite = mask.isneginf()
    if not infinite.any():
        return tensors
    also = tensors.get("hidden", torch.zeros_like(infinite))
    rest = {name: each for name, each in tensors.items() if name != "mask"}
    numbers = {"mask": mask.masked_fill(infinite, 0)} if mask[~infinite].any() else {}
    return rest | numbers | {"hidden": infinite | also}


def _refuse_yes_and_no(mask: Tensor, source: str) -> None:
    """A mask of 0 and 1 says yes and no, one way or the other, and is not meant to be added."""
    if mask.any() and ((mask == 0) | (mask == 1)).all():
        raise AttnvizError(
            f"'mask'{in_file(source)} is added to the scores, and says 0 and 1 alone, as if it "
            "meant yes and no",
            "give it as 'visible' (1: may be read), as 'hidden' (1: may not), or write -inf for 1",
            about="mask",
            file=source,
        )


def _words(name: str, value: Any, source: str) -> tuple[str, ...]:
    words = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise AttnvizError(
            f"'{name}'{in_file(source)} is no list of words",
            'give words: ["I", "am", "here"]',
            about=name,
            file=source,
        )
    return tuple(words)


def _vocabulary(contents: Mapping[str, Any], source: str) -> int | None:
    if "vocabulary" not in contents:
        return None
    value = contents["vocabulary"]
    if not isinstance(value, (int, np.ndarray)) or np.size(value) != 1 or int(value) < 1:
        raise AttnvizError(
            f"'vocabulary'{in_file(source)} is no number of ids",
            "give a whole number: 20000",
            about="vocabulary",
            file=source,
        )
    return int(value)


def _spelled(number: float) -> str:
    return "NaN" if np.isnan(number) else "infinity"


def _place(place: tuple[int, ...]) -> str:
    """Counted from 1.

    >>> _place((0, 2)), _place((1, 0, 2))
    ('row 1, column 3', 'row 1, column 3 of part 2')
    """
    from_1 = [index + 1 for index in place]
    if len(from_1) == 1:
        return f"place {from_1[0]}"
    row = f"row {from_1[-2]}, column {from_1[-1]}"
    return row if len(from_1) == 2 else f"{row} of part {'.'.join(map(str, from_1[:-2]))}"
