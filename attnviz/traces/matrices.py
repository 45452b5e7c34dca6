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
from attnviz.traces.by_layer import by_layer, name_in
from attnviz.traces.fitting import in_file, refuse_misfits
from attnviz.traces.parts import GIVEN, GIVEN_NAMES, MATRICES
from attnviz.wording.words import counted

Array = Shaped[np.ndarray, "..."]

WORDS = ("tokens", "key_tokens", "memory_tokens")
SIDES = {name: part.sides for name, part in GIVEN.items()}  # what the sides of each count


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """One item of what was given; None is what was not."""

    source: str = ""  # the file, for messages
    item: int = 1
    items: int = 1  # how many the file holds
    tokens: tuple[str, ...] | None = None
    key_tokens: tuple[str, ...] | None = None
    memory_tokens: tuple[str, ...] | None = None
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
    visible: Tensor | None = None
    weights: Tensor | None = None
    kept: Tensor | None = None
    positions: Tensor | None = None  # a row for each: as many as there are tokens, or more
    memory: Tensor | None = None
    w_1: Tensor | None = None
    b_1: Tensor | None = None
    w_2: Tensor | None = None
    b_2: Tensor | None = None
    attention_gain: Tensor | None = None
    attention_shift: Tensor | None = None
    cross_gain: Tensor | None = None
    cross_shift: Tensor | None = None
    feed_forward_gain: Tensor | None = None
    feed_forward_shift: Tensor | None = None
    cross_w_query: Tensor | None = None
    cross_w_key: Tensor | None = None
    cross_w_value: Tensor | None = None
    cross_w_out: Tensor | None = None
    cross_b_query: Tensor | None = None
    cross_b_key: Tensor | None = None
    cross_b_value: Tensor | None = None
    cross_b_out: Tensor | None = None
    above: tuple[Matrices, ...] = ()  # those of the layers above the first

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Those that are given, by name."""
        found = {name: getattr(self, name) for name in GIVEN}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @property
    def of_all_layers(self) -> dict[str, Tensor]:
        """The same of every layer, those above the first by their whole names."""
        above = {
            name_in(number, name): tensor
            for number, each in enumerate(self.above, start=1)
            for name, tensor in each.tensors.items()
        }
        return self.tensors | above

    @property
    def of_cross(self) -> Matrices:
        """Those of cross-attention, under the names that an attention's own have."""
        found = {part.data: getattr(self, f"cross_{part.data}") for part in MATRICES}
        return Matrices(source=self.source, **found)

    def of_layer(self, number: int) -> Matrices:
        """Those of one layer; what may be read is the same in all."""
        if number == 0:
            return self
        own = self.above[number - 1] if number <= len(self.above) else Matrices()
        return replace(own, source=self.source, visible=self.visible)

    @property
    def anything(self) -> bool:
        """Whether anything is given at all."""
        return bool(self.above) or any(getattr(self, name) is not None for name in GIVEN_NAMES)

    @property
    def counts(self) -> dict[str, tuple[int, str]]:
        """How many tokens and keys are named, and by what."""
        named = {"token": "tokens", "key": "key_tokens", "memory": "memory_tokens"}
        found = {side: getattr(self, name) for side, name in named.items()}
        return {side: (len(each), named[side]) for side, each in found.items() if each is not None}

    @property
    def sizes(self) -> dict[str, int]:
        """How many tokens, keys, heads, … there are, by what the sides of tensors count."""
        found: dict[str, int] = {}
        for name, tensor in self.of_all_layers.items():
            found = dict(zip(_sides_of(name).split(), tensor.shape, strict=True)) | found
        return {side: count for side, (count, _) in self.counts.items()} | found

    def like(self, other: Tensor) -> Matrices:
        """The same with every tensor on another's device and in its dtype."""
        moved: dict[str, Any] = {
            name: tensor.to(other.device if tensor.dtype == torch.bool else other)
            for name, tensor in self.tensors.items()
        }
        return replace(self, **moved, above=tuple(each.like(other) for each in self.above))


def matrices(contents: Mapping[str, Any], source: str = "", item: int | None = None) -> Matrices:
    """What a mapping of names gives: tokens as words, the rest as arrays or nested lists."""
    named = by_layer(contents)
    first = _of_one_layer(named.get(0, {}), source, item)
    numbers = range(1, max(named, default=0) + 1)
    above = tuple(_of_layer_above(number, named.get(number, {}), source) for number in numbers)
    found = replace(first, above=above)
    if above:
        tensors = found.of_all_layers
        sides = {name: _sides_of(name) for name in tensors}
        refuse_misfits(tensors, sides, found.counts, source)
    return found


def _sides_of(name: str) -> str:
    """What the sides count, of any layer."""
    return SIDES[name.rpartition(".")[2]]


def _of_layer_above(number: int, contents: Mapping[str, Any], source: str) -> Matrices:
    try:
        found = _of_one_layer(contents, source)
    except AttnvizError as error:  # the line of its name could be that of another layer
        raise AttnvizError(f"layer {number}: {error}", error.hint, file=source) from None
    if found.items > 1:
        raise AttnvizError(
            f"layer {number}: there is a batch of matrices{in_file(source)}",
            "a layer has one of each for all items",
            file=source,
        )
    return replace(found, source="")


def _of_one_layer(contents: Mapping[str, Any], source: str, item: int | None = None) -> Matrices:
    """The matrices of one layer; of the first with all that is given but once."""
    for name in contents:
        if name not in GIVEN_NAMES:
            error = unknown("matrix", name, GIVEN_NAMES, about=name)
            raise error.told(f"{error} to give{in_file(source)}")
    named: dict[str, Any] = {
        name: _words(name, contents[name], source) for name in WORDS if name in contents
    }
    arrays = {name: array(name, contents[name], source) for name in GIVEN if name in contents}
    one, items = _item(arrays, item, source)
    named |= {name: _tensor(name, each) for name, each in one.items()}
    found = Matrices(
        source=source,
        item=item or 1,
        items=items,
        vocabulary=_vocabulary(contents, source),
        **named,
    )
    refuse_misfits(found.tensors, SIDES, found.counts, source)
    _refuse_blind_rows(found)
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
    odd = np.argwhere(~np.isfinite(numbers))
    if odd.size:
        place = tuple(odd[0].tolist())
        raise AttnvizError(
            f"'{name}'{in_file(source)} has {_spelled(numbers[place])} at {_place(place)}",
            "every number must be finite; what must not be read is said by 'visible'",
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
    if batched or item is None:
        return batched
    # Nothing has a side too many: what could have heads has a batch instead.
    return {name: each for name, each in arrays.items() if name in _WITH_HEADS and each.ndim == 3}


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


_WITH_HEADS = frozenset(name for name, sides in SIDES.items() if sides.startswith("head "))


def _sides(name: str) -> int:
    return len(SIDES[name].split())


def _tensor(name: str, array: Array) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if name in _WITH_HEADS and tensor.ndim == 2:
        tensor = tensor[None]
    return tensor != 0 if name == "visible" else tensor


def _refuse_blind_rows(given: Matrices) -> None:
    """Softmax over nothing is 0/0."""
    if given.visible is None:
        return
    blind = (~given.visible.any(-1)).nonzero().flatten().tolist()
    if blind:
        raise AttnvizError(
            f"row {blind[0] + 1} of 'visible'{in_file(given.source)} hides every key",
            "let each query see at least one key",
            about="visible",
            file=given.source,
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
