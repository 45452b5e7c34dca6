"""The user's own matrices: read from TOML, JSON, .npz or .safetensors, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.machine import files
from attnviz.traces import structured_text, toml_reader
from attnviz.traces.aliases import alias_hint
from attnviz.traces.axes import AXES_KEY as AXES
from attnviz.traces.axes import GROUP, HEAD, align_arrays, split_off_axes
from attnviz.traces.given_arrays import Numbers, cell_position_text, parse_array
from attnviz.traces.layer_names import group_by_layer, layer_key
from attnviz.traces.parts import (
    GIVEN_NAMES,
    MATRIX_FILE_SUFFIXES,
    MATRIX_PARTS,
    PARTS_BY_GIVEN_NAME,
)
from attnviz.traces.shape_checks import in_file, refuse_misfits, tensor_sides
from attnviz.vectors.arrays import (
    COPIED_FLOAT_BYTES,
    read_metadata,
    read_numpy_arrays,
    read_safetensors,
)

TOKEN_LIST_NAMES = ("tokens", "key_tokens", "memory_tokens")
BOOLEAN_MASK_NAMES = ("visible", "hidden")
GIVEN_SIDES = {
    name: part.sides for name, part in PARTS_BY_GIVEN_NAME.items()
}  # what the sides of each count


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
    upper_layers: tuple[Matrices, ...] = ()  # those of the layers above the first

    @property
    def source_text(self) -> str:
        """What messages call it: the file, if it is in one."""
        return f"'{self.source}'" if self.source else "what is given"

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Those that are given, by name."""
        tensors = {name: getattr(self, name) for name in PARTS_BY_GIVEN_NAME}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    @property
    def tensors_of_all_layers(self) -> dict[str, Tensor]:
        """The same of every layer, those above the first by their whole names."""
        upper_tensors = {
            layer_key(number, name): tensor
            for number, matrices_above in enumerate(self.upper_layers, start=1)
            for name, tensor in matrices_above.tensors.items()
        }
        return self.tensors | upper_tensors

    @property
    def cross_attention(self) -> Matrices:
        """Those of cross-attention, under the names that an attention's own have."""
        cross_tensors = {part.data: getattr(self, f"cross_{part.data}") for part in MATRIX_PARTS}
        return Matrices(source=self.source, **cross_tensors)

    def for_layer(self, number: int) -> Matrices:
        """Those of one layer; what may be read is the same in all, unless each has its own."""
        if number == 0:
            return self
        layer_matrices = (
            self.upper_layers[number - 1] if number <= len(self.upper_layers) else Matrices()
        )
        masks = layer_matrices if layer_matrices.shared_masks.is_any_given else self.shared_masks
        return replace(
            layer_matrices,
            source=self.source,
            mask=masks.mask,
            visible=masks.visible,
            hidden=masks.hidden,
        )

    @property
    def is_any_given(self) -> bool:
        """Whether anything is given at all."""
        other_values = [getattr(self, name) for name in (*TOKEN_LIST_NAMES, "vocabulary")]
        return bool(self.tensors_of_all_layers) or any(value is not None for value in other_values)

    @property
    def counts(self) -> dict[str, tuple[int, str]]:
        """How many tokens and keys are named, and by what."""
        names_by_side = {"token": "tokens", "key": "key_tokens", "memory": "memory_tokens"}
        token_lists = {side: getattr(self, name) for side, name in names_by_side.items()}
        return {
            side: (len(tokens), names_by_side[side])
            for side, tokens in token_lists.items()
            if tokens is not None
        }

    @property
    def sizes(self) -> dict[str, int]:
        """How many tokens, keys, heads, … there are, by what the sides of tensors count."""
        sizes: dict[str, int] = {}
        for name, tensor in self.tensors_of_all_layers.items():
            sides = tensor_sides(_sides_of_key(name), tensor)
            sizes = dict(zip(sides, tensor.shape, strict=True)) | sizes
        for layer in (self, *self.upper_layers):
            for side, count in ((HEAD, layer.heads), (GROUP, layer.kv_heads)):
                sizes |= {} if count is None or side in sizes else {side: count}
        return {side: count for side, (count, _) in self.counts.items()} | sizes

    @property
    def shared_masks(self) -> Matrices:
        """What does not end with the first layer: who may read whom."""
        return Matrices(mask=self.mask, visible=self.visible, hidden=self.hidden)

    def like(self, other: Tensor) -> Matrices:
        """The same with every tensor on another's device and in its dtype."""
        cast_tensors: dict[str, Any] = {
            name: cast_like(name, tensor, other, self.source)
            for name, tensor in self.tensors.items()
        }
        return replace(
            self,
            **cast_tensors,
            upper_layers=tuple(layer.like(other) for layer in self.upper_layers),
        )


def cast_like(name: str, tensor: Tensor, like: Tensor, source: str) -> Tensor:
    """A tensor on another's device and in its dtype, if that can hold every number."""
    if tensor.dtype == torch.bool:
        return tensor.to(like.device)
    cast_tensor = tensor.to(like)
    overflowed = (tensor.isfinite() & ~cast_tensor.isfinite().to(tensor.device)).nonzero()
    if len(overflowed):
        indices = tuple(overflowed[0].tolist())
        dtype = str(like.dtype).removeprefix("torch.")
        raise AttnvizError(
            f"'{name}'{in_file(source)} has {tensor[indices].item():g} at {cell_position_text(indices)}, but "
            f"the largest number of {dtype} is {torch.finfo(like.dtype).max:.2g}",
            "try --dtype float64, or divide all numbers by the same factor",
            about=name,
            file=source,
        )
    return cast_tensor


def parse_matrices(
    contents: Mapping[str, Any],
    source: str = "",
    item: int | None = None,
    heads: int | None = None,
) -> Matrices:
    """What a mapping of names gives: tokens as words, the rest as arrays or nested lists.

    `item` is the one that is wanted of a batch, and `heads` how many there are, if that is said.
    """
    layers = group_by_layer(contents)
    first_layer = _parse_layer(layers.get(0, {}), source, item, heads)
    numbers = range(1, max(layers, default=0) + 1)
    heads = heads or first_layer.heads
    upper_layers = [
        _parse_upper_layer(number, layers.get(number, {}), source, heads) for number in numbers
    ]
    all_layers = replace(first_layer, upper_layers=tuple(upper_layers))
    if upper_layers:
        tensors = all_layers.tensors_of_all_layers
        sides = {name: _sides_of_key(name) for name in tensors}
        refuse_misfits(tensors, sides, all_layers.counts, source)
    return all_layers


def _sides_of_key(name: str) -> str:
    """What the sides count, of any layer."""
    return GIVEN_SIDES[name.rpartition(".")[2]]


def _parse_upper_layer(
    number: int, contents: Mapping[str, Any], source: str, heads: int | None
) -> Matrices:
    try:
        return replace(_parse_layer(contents, source, heads=heads), source="")
    except AttnvizError as error:  # the line of its name could be that of another layer
        raise AttnvizError(f"layer {number}: {error}", error.hint, file=source) from None


def _parse_layer(
    contents: Mapping[str, Any],
    source: str,
    item: int | None = None,
    heads: int | None = None,
) -> Matrices:
    """The matrices of one layer; of the first with all that is given but once."""
    contents, axes = split_off_axes(contents, source)
    _refuse_unknown_matrices(contents, source)
    token_lists: dict[str, Any] = {
        name: _parse_token_words(name, contents[name], source)
        for name in TOKEN_LIST_NAMES
        if name in contents
    }
    arrays = {
        name: parse_array(name, contents[name], part, source)
        for name, part in PARTS_BY_GIVEN_NAME.items()
        if name in contents
    }
    vocabulary = _parse_vocabulary_size(contents, source)
    without_tensors = Matrices(source=source, item=item or 1, vocabulary=vocabulary, **token_lists)
    counts = {side: count for side, (count, _) in without_tensors.counts.items()}
    aligned = align_arrays(arrays, axes, counts, item=item, heads=heads, source=source)
    layer_matrices = replace(
        without_tensors, items=aligned.items, heads=aligned.heads, kv_heads=aligned.kv_heads
    )
    tensors: dict[str, Any] = {
        name: _array_as_tensor(name, numbers) for name, numbers in aligned.arrays.items()
    }
    layer_matrices = replace(layer_matrices, **tensors)
    refuse_misfits(layer_matrices.tensors, GIVEN_SIDES, layer_matrices.counts, source)
    return _split_infinite_mask(layer_matrices)


def _refuse_unknown_matrices(contents: Mapping[str, Any], source: str) -> None:
    for name in contents:
        if name not in GIVEN_NAMES:
            error = unknown_name_error("matrix", name, GIVEN_NAMES, about=name)
            problem = f"{error} to give{in_file(source)}"
            raise AttnvizError(problem, alias_hint(name) or error.hint, about=name, file=error.file)


def _array_as_tensor(name: str, array: Numbers) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if PARTS_BY_GIVEN_NAME[name].spreads and len(tensor) == 1:  # a mask for all heads
        tensor = tensor[0]
    return tensor != 0 if name in BOOLEAN_MASK_NAMES else tensor


def _split_infinite_mask(matrices: Matrices) -> Matrices:
    """What −∞ in a mask hides is hidden, and not added: of −∞ nothing can be computed."""
    if matrices.mask is None:
        return matrices
    _refuse_binary_mask(matrices.mask, matrices.source)
    infinite: Tensor = matrices.mask.isneginf()
    if not infinite.any():
        return matrices
    hidden = infinite if matrices.hidden is None else infinite | matrices.hidden
    finite_mask = matrices.mask.masked_fill(infinite, 0) if matrices.mask[~infinite].any() else None
    return replace(matrices, mask=finite_mask, hidden=hidden)


def _refuse_binary_mask(mask: Tensor, source: str) -> None:
    """A mask of 0 and 1 says yes and no, one way or the other, and is not meant to be added."""
    if mask.any() and ((mask == 0) | (mask == 1)).all():
        raise AttnvizError(
            f"'mask'{in_file(source)} is added to the scores, but contains only 0 and 1, as if it "
            "meant yes and no",
            "give it as 'visible' (1: may be read), as 'hidden' (1: may not), or write -inf for 1",
            about="mask",
            file=source,
        )


def _parse_token_words(name: str, value: Any, source: str) -> tuple[str, ...]:
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


def _parse_vocabulary_size(contents: Mapping[str, Any], source: str) -> int | None:
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


BYTES_PER_CELL = (
    32  # bytes of what a token reads of another: its score, scaled, hidden, its weight, …
)


def read_matrices(name: str, item: int | None = None, heads: int | None = None) -> Matrices:
    """What a file gives; `item` is the one that is wanted of a batch, counted from 1.

    `heads` is how many there are, if that is said.
    """
    path = Path(name)
    contents = _read_given_file(path)
    try:
        return parse_matrices(contents, name, item, heads)
    except AttnvizError as error:
        raise toml_reader.with_line_number(error, path) from None


def _bytes_per_number(name: str) -> int:
    """What a number under this name takes, in all steps that are computed of it."""
    cells = name in PARTS_BY_GIVEN_NAME and {"token", "key"} <= {*PARTS_BY_GIVEN_NAME[name].axes}
    return BYTES_PER_CELL if cells else COPIED_FLOAT_BYTES


def _read_given_file(path: Path) -> dict[str, Any]:
    suffix = path.suffix.lower()
    if suffix not in MATRIX_FILE_SUFFIXES:
        raise AttnvizError(
            f"'{path}' is not a file of matrices",
            f"give one that ends in {', '.join(MATRIX_FILE_SUFFIXES)}",
        )
    files.refuse_missing_file(path, "take matrices from")
    if suffix == ".npz":
        return dict(read_numpy_arrays(path, texts=True, bytes_of=_bytes_per_number))
    if suffix == ".safetensors":
        metadata = read_metadata(path).items()
        axes = {
            name: axis_words for name, axis_words in metadata if f"{name}.".startswith(f"{AXES}.")
        }
        return {**read_safetensors(path, _bytes_per_number), **axes}
    text = structured_text.read_text_file(path, "file of matrices")
    is_toml = suffix == ".toml"
    contents = (
        toml_reader.parse(text, str(path))
        if is_toml
        else structured_text.parse_json_object(text, path)
    )
    if {"given", "draw", "expect"} & contents.keys():
        raise AttnvizError(
            f"'{path}' is a worked example, not a file of matrices",
            f"try: attnviz example show {path}",
        )
    return contents
