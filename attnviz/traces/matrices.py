"""The user's own matrices: read from TOML, JSON, .npz or .safetensors, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.errors import AttnvizError, cmd, opt, unknown_name_error
from attnviz.machine import files
from attnviz.traces import structured_text, toml_reader
from attnviz.traces.array_dimensions import AXES_KEY, GROUP, HEAD, align_arrays, split_off_axes
from attnviz.traces.given_arrays import (
    Numbers,
    array_error,
    cell_position_text,
    in_file,
    parse_array,
    refuse_misfits,
    tensor_sides,
)
from attnviz.traces.matrix_names import alias_hint, group_by_layer, layer_key
from attnviz.traces.parts import (
    GIVEN_NAMES,
    MATRIX_FILE_SUFFIXES,
    MATRIX_PARTS,
    PARTS_BY_GIVEN_NAME,
)
from attnviz.vectors.arrays import (
    COPIED_FLOAT_BYTES,
    read_numpy_arrays,
    read_tensors_and_metadata,
)
from attnviz.wording.words import with_summary

TOKEN_LIST_NAMES = ("tokens", "key_tokens", "memory_tokens")
BOOLEAN_MASK_NAMES = ("visible", "hidden")
MASK_NAMES = ("mask", *BOOLEAN_MASK_NAMES)
GIVEN_SIDES = {name: part.sides for name, part in PARTS_BY_GIVEN_NAME.items()}
BYTES_PER_CELL = 32  # for each pair of tokens: its score, scaled score, mask, weight, …


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """The given matrices and tokens of one item of a batch; what is not given is None.

    The fields are layer 0; `upper_layers` hold further layers.
    """

    source: str = ""  # the file, for messages
    item: int = 1
    items: int = 1  # in the batch
    heads: int | None = None  # where matrices were given per head
    kv_heads: int | None = None  # where matrices of keys or values were given per head
    tokens: tuple[str, ...] | None = None
    key_tokens: tuple[str, ...] | None = None
    memory_tokens: tuple[str, ...] | None = None
    vocabulary: int | None = None  # number of ids
    embeddings: Tensor | None = None
    key_embeddings: Tensor | None = None  # of other tokens that keys and values are computed from
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
    mask: Tensor | None = None  # finite: where it was −∞, `hidden` is True
    visible: Tensor | None = None
    hidden: Tensor | None = None
    weights: Tensor | None = None
    kept: Tensor | None = None
    positions: Tensor | None = None  # a row per position: as many as there are tokens, or more
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
    upper_layers: tuple[Matrices, ...] = ()  # layers 1, 2, …

    @property
    def source_text(self) -> str:
        return f"'{self.source}'" if self.source else "what is given"

    def error(self, problem: str, hint: str, about: str = "") -> AttnvizError:
        """Return an error about these matrices, with the file that they were read from."""
        return AttnvizError(problem, hint, about=about, file=self.source)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The given tensors of layer 0, by name, without those of upper layers."""
        tensors = {name: getattr(self, name) for name in PARTS_BY_GIVEN_NAME}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    @property
    def tensors_of_all_layers(self) -> dict[str, Tensor]:
        """The given tensors of all layers; those of layer 1 have names like `layers.1.w_query`."""
        return self.tensors | {
            layer_key(number, name): tensor
            for number, layer in enumerate(self.upper_layers, start=1)
            for name, tensor in layer.tensors.items()
        }

    @property
    def cross_attention(self) -> Matrices:
        cross_tensors = {part.data: getattr(self, f"cross_{part.data}") for part in MATRIX_PARTS}
        return Matrices(source=self.source, **cross_tensors)

    def for_layer(self, number: int) -> Matrices:
        """Return the matrices of one layer, empty if none are given for it.

        A layer without masks gets the masks of layer 0.
        """
        if number == 0:
            return self
        layer = self.upper_layers[number - 1] if number <= len(self.upper_layers) else Matrices()
        has_masks = any(getattr(layer, name) is not None for name in MASK_NAMES)
        owner = layer if has_masks else self
        masks: dict[str, Any] = {name: getattr(owner, name) for name in MASK_NAMES}
        return replace(layer, source=self.source, **masks)

    @property
    def is_any_given(self) -> bool:
        other_values = [getattr(self, name) for name in (*TOKEN_LIST_NAMES, "vocabulary")]
        return bool(self.tensors_of_all_layers) or any(value is not None for value in other_values)

    @property
    def counts(self) -> dict[str, tuple[int, str]]:
        """The number of given tokens for each of "token", "key" and "memory", with the name of
        their list; those without a list are left out.
        """
        token_lists = zip(("token", "key", "memory"), TOKEN_LIST_NAMES, strict=True)
        return {
            side: (len(getattr(self, name)), name)
            for side, name in token_lists
            if getattr(self, name) is not None
        }

    @property
    def sizes(self) -> dict[str, int]:
        """The length of every known dimension, over all layers: {"token": 4, "head": 2, "dim": 8,
        …}.

        If tensors disagree, the first one decides.
        """
        sizes: dict[str, int] = {}
        for name, tensor in self.tensors_of_all_layers.items():
            sides = tensor_sides(_sides_of_key(name), tensor)
            sizes = dict(zip(sides, tensor.shape, strict=True)) | sizes
        for layer in (self, *self.upper_layers):
            for side, count in ((HEAD, layer.heads), (GROUP, layer.kv_heads)):
                sizes |= {} if count is None or side in sizes else {side: count}
        return {side: count for side, (count, _) in self.counts.items()} | sizes

    def like(self, other: Tensor) -> Matrices:
        """Return the matrices of all layers on another tensor's device and in its dtype.

        Refuses numbers that the dtype cannot hold.
        """
        cast_tensors: dict[str, Any] = {
            name: cast_like(name, tensor, other, self.source)
            for name, tensor in self.tensors.items()
        }
        upper_layers = tuple(layer.like(other) for layer in self.upper_layers)
        return replace(self, **cast_tensors, upper_layers=upper_layers)


def cast_like(name: str, tensor: Tensor, like: Tensor, source: str) -> Tensor:
    """Return the tensor on the device and in the dtype of `like`; bool stays bool.

    Refuses numbers that are too large for the dtype; `name` and `source` (a file) are for the
    message.
    """
    if tensor.dtype == torch.bool:
        return tensor.to(like.device)
    cast_tensor = tensor.to(like)
    overflowed = (tensor.isfinite() & ~cast_tensor.isfinite().to(tensor.device)).nonzero()
    if len(overflowed):
        indices = tuple(overflowed[0].tolist())
        number, where = tensor[indices].item(), cell_position_text(indices)
        dtype = str(like.dtype).removeprefix("torch.")
        largest = f"the largest number of {dtype} is {torch.finfo(like.dtype).max:.2g}"
        hint = f"try {opt.dtype:float64}, or divide all numbers by the same factor"
        raise array_error(name, f"has {number:g} at {where}, but {largest}", hint, source)
    return cast_tensor


def parse_matrices(
    contents: Mapping[str, Any], source: str = "", item: int | None = None, heads: int | None = None
) -> Matrices:
    """Return the matrices in a mapping by name: lists of words, arrays, nested lists.

    `item` chooses one of a batch, from 1; `heads` is the number of heads, if the user gave it.
    Refuses unknown names, values that are no numbers, and shapes that do not fit each other.
    """
    layers = group_by_layer(contents)
    first_layer = _parse_layer(layers.get(0, {}), source, item, heads)
    heads = heads or first_layer.heads
    upper_layers = [
        _parse_upper_layer(number, layers.get(number, {}), source, heads)
        for number in range(1, max(layers, default=0) + 1)
    ]
    all_layers = replace(first_layer, upper_layers=tuple(upper_layers))
    if upper_layers:
        tensors = all_layers.tensors_of_all_layers
        sides = {name: _sides_of_key(name) for name in tensors}
        refuse_misfits(tensors, sides, all_layers.counts, source)
    return all_layers


def _sides_of_key(name: str) -> str:
    """Return the dimensions ("dim query_width") of a tensor by its name; `layers.1.w_1` is as
    `w_1`.
    """
    return GIVEN_SIDES[name.rpartition(".")[2]]


def _parse_upper_layer(
    number: int, contents: Mapping[str, Any], source: str, heads: int | None
) -> Matrices:
    """Return the matrices of a layer above 0; errors begin with its number."""
    try:
        return replace(_parse_layer(contents, source, heads=heads), source="")
    except AttnvizError as error:  # without `about`, whose line could be that of another layer
        raise AttnvizError(f"layer {number}: {error}", error.hint, file=source) from None


def _parse_layer(
    contents: Mapping[str, Any], source: str, item: int | None = None, heads: int | None = None
) -> Matrices:
    """Return the checked matrices of one layer, with dimensions in the usual order and −∞ in the
    mask moved to `hidden`; of layer 0 also tokens and what is given once for all layers.
    """
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
    tensors: dict[str, Any] = {
        name: _array_as_tensor(name, numbers) for name, numbers in aligned.arrays.items()
    }
    matrices = replace(
        without_tensors,
        items=aligned.items,
        heads=aligned.heads,
        kv_heads=aligned.kv_heads,
        **tensors,
    )
    refuse_misfits(matrices.tensors, GIVEN_SIDES, matrices.counts, source)
    return _split_infinite_mask(matrices)


def _refuse_unknown_matrices(contents: Mapping[str, Any], source: str) -> None:
    """Refuse a name that no matrix has, with a hint if other programs use it."""
    for name in contents:
        if name not in GIVEN_NAMES:
            error = unknown_name_error("matrix", name, GIVEN_NAMES, about=name)
            problem = f"{error} to give{in_file(source)}"
            raise AttnvizError(problem, alias_hint(name) or error.hint, about=name, file=error.file)


def _array_as_tensor(name: str, array: Numbers) -> Tensor:
    """Return an array as a tensor: bool for `visible` and `hidden`; a single mask is a matrix."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if PARTS_BY_GIVEN_NAME[name].spreads and len(tensor) == 1:  # a mask for all heads
        tensor = tensor[0]
    return tensor != 0 if name in BOOLEAN_MASK_NAMES else tensor


def _split_infinite_mask(matrices: Matrices) -> Matrices:
    """Return the matrices with −∞ moved from the mask, which is added to scores, to `hidden`,
    because −∞ would lead to NaN; a mask that only hid keys becomes None.

    Refuses a mask that contains only 0 and 1.
    """
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
    """Refuse a mask of only 0 and 1, with some 1: it means yes and no (in unclear order), and not
    numbers to add to scores.
    """
    if mask.any() and ((mask == 0) | (mask == 1)).all():
        raise array_error(
            "mask",
            "is added to the scores, but contains only 0 and 1, as if it meant yes and no",
            "give it as 'visible' (1: may be read), as 'hidden' (1: may not), or write -inf for 1",
            source,
        )


def _parse_token_words(name: str, value: Any, source: str) -> tuple[str, ...]:
    """Return a list of tokens as a tuple; refuses other values, and empty or broken words."""
    words = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        hint = 'give words: ["I", "am", "here"]'
        raise array_error(name, "is not a list of words", hint, source)
    for number, word in enumerate(words, start=1):
        if not word or any("\ud800" <= letter <= "\udfff" for letter in word):
            fault = "half a character" if word else "empty"
            raise AttnvizError(
                f"token {number} of '{name}'{in_file(source)} is {fault}",
                "give every token a word, such as '<pad>'",
                about=name,
                file=source,
            )
    return tuple(words)


def _parse_vocabulary_size(contents: Mapping[str, Any], source: str) -> int | None:
    """Return the number of ids, None if not given; refuses all but whole numbers from 1."""
    if "vocabulary" not in contents:
        return None
    value = contents["vocabulary"]
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        value = value.item()  # safetensors holds it as a float
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value < 2**63 or value != int(value):
        hint = "give a whole number: 20000"
        raise array_error("vocabulary", "is not a number of ids", hint, source)
    return int(value)


def read_matrices(name: str, item: int | None = None, heads: int | None = None) -> Matrices:
    """Return the matrices of a .toml, .json, .npz or .safetensors file, with errors at their line.

    `item` chooses one of a batch, from 1; `heads` is the number of heads, if the user gave it.
    """
    path = Path(name)
    contents = _read_given_file(path)
    try:
        return parse_matrices(contents, name, item, heads)
    except AttnvizError as error:
        raise toml_reader.with_line_number(error, path) from None


def _bytes_per_number(name: str) -> int:
    """Return the memory that each number of this matrix takes, in all steps computed from it."""
    cells = name in PARTS_BY_GIVEN_NAME and {"token", "key"} <= {*PARTS_BY_GIVEN_NAME[name].axes}
    return BYTES_PER_CELL if cells else COPIED_FLOAT_BYTES


def _read_given_file(path: Path) -> dict[str, Any]:
    """Return the contents of a file of matrices, by name.

    Refuses other suffixes, missing files, and worked examples.
    """
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
        arrays, metadata = read_tensors_and_metadata(path, _bytes_per_number)
        prefix = f"{AXES_KEY}."
        axes = {name: each for name, each in metadata.items() if f"{name}.".startswith(prefix)}
        return {**arrays, **axes}
    text = structured_text.read_text_file(path, "file of matrices")
    if suffix == ".toml":
        contents = toml_reader.parse(text, str(path))
    else:
        contents = structured_text.parse_json_object(text, path)
    if {"given", "draw", "expect"} & contents.keys():
        raise AttnvizError(
            f"'{path}' is a worked example, not a file of matrices",
            f"try: {cmd.example:show {path}}",
        )
    return contents
