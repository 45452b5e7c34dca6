"""The user's own matrices: read from TOML, JSON, .npz or .safetensors, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.errors import AttnvizError, unknown
from attnviz.machine import files
from attnviz.traces import texts, toml_reader
from attnviz.traces.aliases import meant
from attnviz.traces.arrays import Numbers, array, place_told
from attnviz.traces.axes import GROUP, HEAD, in_order, separated
from attnviz.traces.axes import NAME as AXES
from attnviz.traces.by_layer import by_layer, name_in
from attnviz.traces.fitting import in_file, refuse_misfits, sides_of
from attnviz.traces.parts import GIVEN, GIVEN_NAMES, MATRICES, READERS
from attnviz.vectors.arrays import IN_FULL, numpy_arrays, safetensors_arrays, safetensors_words

WORDS = ("tokens", "key_tokens", "memory_tokens")
YES_OR_NO = ("visible", "hidden")
SIDES = {name: part.sides for name, part in GIVEN.items()}  # what the sides of each count


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """One item of what was given; None is what was not."""

    source: str = ""  # the file, for messages
    item: int = 1
    items: int = 1  # how many the file holds
    heads: int | None = None  # how many there are, where matrices of each stand side by side
    kv_heads: int | None = None  # and of those that make keys and values
    tokens: tuple[str, ...] | None = None
    key_tokens: tuple[str, ...] | None = None
    memory_tokens: tuple[str, ...] | None = None
    vocabulary: int | None = None  # how many ids there are
    embeddings: Tensor | None = None
    key_embeddings: Tensor | None = None  # of other tokens, that keys and values are made of
    w_query: Tensor | None = None
    w_key: Tensor | None = None
    w_value: Tensor | None = None
    w_score: Tensor | None = None
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
    cross_w_score: Tensor | None = None
    cross_w_out: Tensor | None = None
    cross_b_query: Tensor | None = None
    cross_b_key: Tensor | None = None
    cross_b_value: Tensor | None = None
    cross_b_out: Tensor | None = None
    above: tuple[Matrices, ...] = ()  # those of the layers above the first

    @property
    def called(self) -> str:
        """What messages call it: the file, if it is in one."""
        return f"'{self.source}'" if self.source else "what is given"

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
        """Those of one layer; what may be read is the same in all, unless each has its own."""
        if number == 0:
            return self
        own = self.above[number - 1] if number <= len(self.above) else Matrices()
        seen = own if own.of_every_layer.anything else self.of_every_layer
        return replace(
            own, source=self.source, mask=seen.mask, visible=seen.visible, hidden=seen.hidden
        )

    @property
    def anything(self) -> bool:
        """Whether anything is given at all."""
        others = [getattr(self, name) for name in (*WORDS, "vocabulary")]
        return bool(self.of_all_layers) or any(each is not None for each in others)

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
            sides = sides_of(_sides_in_full(name), tensor)
            found = dict(zip(sides, tensor.shape, strict=True)) | found
        for each in (self, *self.above):
            for side, count in ((HEAD, each.heads), (GROUP, each.kv_heads)):
                found |= {} if count is None or side in found else {side: count}
        return {side: count for side, (count, _) in self.counts.items()} | found

    @property
    def of_every_layer(self) -> Matrices:
        """What does not end with the first layer: who may read whom."""
        return Matrices(mask=self.mask, visible=self.visible, hidden=self.hidden)

    def like(self, other: Tensor) -> Matrices:
        """The same with every tensor on another's device and in its dtype."""
        moved: dict[str, Any] = {
            name: held(name, tensor, other, self.source) for name, tensor in self.tensors.items()
        }
        return replace(self, **moved, above=tuple(each.like(other) for each in self.above))


def held(name: str, tensor: Tensor, like: Tensor, source: str) -> Tensor:
    """A tensor on another's device and in its dtype, if that can hold every number."""
    if tensor.dtype == torch.bool:
        return tensor.to(like.device)
    moved = tensor.to(like)
    lost = (tensor.isfinite() & ~moved.isfinite().to(tensor.device)).nonzero()
    if len(lost):
        place = tuple(lost[0].tolist())
        dtype = str(like.dtype).removeprefix("torch.")
        raise AttnvizError(
            f"'{name}'{in_file(source)} has {tensor[place].item():g} at {place_told(place)}, but "
            f"the largest number of {dtype} is {torch.finfo(like.dtype).max:.2g}",
            "try --dtype float64, or divide all numbers by the same factor",
            about=name,
            file=source,
        )
    return moved


def matrices(
    contents: Mapping[str, Any],
    source: str = "",
    item: int | None = None,
    heads: int | None = None,
) -> Matrices:
    """What a mapping of names gives: tokens as words, the rest as arrays or nested lists.

    `item` is the one that is wanted of a batch, and `heads` how many there are, if that is said.
    """
    layers = by_layer(contents)
    first = _of_one_layer(layers.get(0, {}), source, item, heads)
    numbers = range(1, max(layers, default=0) + 1)
    heads = heads or first.heads
    above = [_above(number, layers.get(number, {}), source, heads) for number in numbers]
    found = replace(first, above=tuple(above))
    if above:
        tensors = found.of_all_layers
        sides = {name: _sides_in_full(name) for name in tensors}
        refuse_misfits(tensors, sides, found.counts, source)
    return found


def _sides_in_full(name: str) -> str:
    """What the sides count, of any layer."""
    return SIDES[name.rpartition(".")[2]]


def _above(number: int, contents: Mapping[str, Any], source: str, heads: int | None) -> Matrices:
    try:
        return replace(_of_one_layer(contents, source, heads=heads), source="")
    except AttnvizError as error:  # the line of its name could be that of another layer
        raise AttnvizError(f"layer {number}: {error}", error.hint, file=source) from None


def _of_one_layer(
    contents: Mapping[str, Any],
    source: str,
    item: int | None = None,
    heads: int | None = None,
) -> Matrices:
    """The matrices of one layer; of the first with all that is given but once."""
    contents, axes = separated(contents, source)
    _refuse_unknown(contents, source)
    named: dict[str, Any] = {
        name: _words(name, contents[name], source) for name in WORDS if name in contents
    }
    arrays = {
        name: array(name, contents[name], part, source)
        for name, part in GIVEN.items()
        if name in contents
    }
    vocabulary = _vocabulary(contents, source)
    blank = Matrices(source=source, item=item or 1, vocabulary=vocabulary, **named)
    counts = {side: count for side, (count, _) in blank.counts.items()}
    one = in_order(arrays, axes, counts, item=item, heads=heads, source=source)
    found = replace(blank, items=one.items, heads=one.heads, kv_heads=one.kv_heads)
    tensors: dict[str, Any] = {name: _tensor(name, each) for name, each in one.arrays.items()}
    found = replace(found, **tensors)
    refuse_misfits(found.tensors, SIDES, found.counts, source)
    return _hiding(found)


def _refuse_unknown(contents: Mapping[str, Any], source: str) -> None:
    for name in contents:
        if name not in GIVEN_NAMES:
            error = unknown("matrix", name, GIVEN_NAMES, about=name)
            problem = f"{error} to give{in_file(source)}"
            raise AttnvizError(problem, meant(name) or error.hint, about=name, file=error.file)


def _tensor(name: str, array: Numbers) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if GIVEN[name].spreads and len(tensor) == 1:  # a mask for all heads
        tensor = tensor[0]
    return tensor != 0 if name in YES_OR_NO else tensor


def _hiding(given: Matrices) -> Matrices:
    """What −∞ in a mask hides is hidden, and not added: of −∞ nothing can be computed."""
    if given.mask is None:
        return given
    _refuse_yes_and_no(given.mask, given.source)
    infinite: Tensor = given.mask.isneginf()
    if not infinite.any():
        return given
    hidden = infinite if given.hidden is None else infinite | given.hidden
    rest = given.mask.masked_fill(infinite, 0) if given.mask[~infinite].any() else None
    return replace(given, mask=rest, hidden=hidden)


def _refuse_yes_and_no(mask: Tensor, source: str) -> None:
    """A mask of 0 and 1 says yes and no, one way or the other, and is not meant to be added."""
    if mask.any() and ((mask == 0) | (mask == 1)).all():
        raise AttnvizError(
            f"'mask'{in_file(source)} is added to the scores, but contains only 0 and 1, as if it "
            "meant yes and no",
            "give it as 'visible' (1: may be read), as 'hidden' (1: may not), or write -inf for 1",
            about="mask",
            file=source,
        )


def _words(name: str, value: Any, source: str) -> tuple[str, ...]:
    words = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise AttnvizError(
            f"'{name}'{in_file(source)} is not a list of words",
            'give words: ["I", "am", "here"]',
            about=name,
            file=source,
        )
    for number, word in enumerate(words, start=1):
        if not word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise AttnvizError(
                f"token {number} of '{name}'{in_file(source)} is "
                + ("half a character" if word else "empty"),
                "give every token a word, such as '<pad>'",
                about=name,
                file=source,
            )
    return tuple(words)


def _vocabulary(contents: Mapping[str, Any], source: str) -> int | None:
    if "vocabulary" not in contents:
        return None
    value = contents["vocabulary"]
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        value = value.item()  # safetensors has floats alone
    if isinstance(value, bool) or not _is_count(value):
        raise AttnvizError(
            f"'vocabulary'{in_file(source)} is not a number of ids",
            "give a whole number: 20000",
            about="vocabulary",
            file=source,
        )
    return int(value)


def _is_count(value: Any) -> bool:
    """A whole number from 1 that a file of 64 bits can hold."""
    return isinstance(value, (int, float)) and 1 <= value < 2**63 and value == int(value)


OF_A_CELL = 32  # bytes of what a token reads of another: its score, scaled, hidden, its weight, …


def read(name: str, item: int | None = None, heads: int | None = None) -> Matrices:
    """What a file gives; `item` is the one that is wanted of a batch, counted from 1.

    `heads` is how many there are, if that is said.
    """
    path = Path(name)
    contents = _contents(path)
    try:
        return matrices(contents, name, item, heads)
    except AttnvizError as error:
        raise toml_reader.located(error, path) from None


def _bytes_of(name: str) -> int:
    """What a number under this name takes, in all steps that are computed of it."""
    cells = name in GIVEN and {"token", "key"} <= {*GIVEN[name].axes}
    return OF_A_CELL if cells else IN_FULL


def _contents(path: Path) -> dict[str, Any]:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise AttnvizError(
            f"'{path}' is not a file of matrices", f"give one that ends in {', '.join(READERS)}"
        )
    files.refuse_missing(path, "take matrices from")
    if suffix == ".npz":
        return dict(numpy_arrays(path, texts=True, bytes_of=_bytes_of))
    if suffix == ".safetensors":
        beside = safetensors_words(path).items()
        axes = {name: words for name, words in beside if f"{name}.".startswith(f"{AXES}.")}
        return {**safetensors_arrays(path, _bytes_of), **axes}
    text = texts.read(path, "file of matrices")
    toml = suffix == ".toml"
    contents = toml_reader.parse(text, str(path)) if toml else texts.json_object(text, path)
    if {"given", "draw", "expect"} & contents.keys():
        raise AttnvizError(
            f"'{path}' is a worked example, not a file of matrices",
            f"try: attnviz example show {path}",
        )
    return contents
