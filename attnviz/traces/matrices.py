"""Matrices of one's own: what a file gives, checked against each other before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from attnviz.errors import AttnvizError, unknown

Array = Shaped[np.ndarray, "..."]

SHAPES = {  # what may be given, and what its sides count; those with heads may come without
    "embeddings": "token dim",
    "w_query": "dim query_width",
    "w_key": "dim query_width",
    "w_value": "dim value_width",
    "w_out": "value_width context",
    "b_query": "query_width",
    "b_key": "query_width",
    "b_value": "value_width",
    "b_out": "context",
    "queries": "head token width",
    "keys": "head key width",
    "values": "head key head_value",
    "scores": "head token key",
    "visible": "token key",
    "weights": "head token key",  # by hand, instead of the softmax
    "kept": "head token key",  # what dropout leaves: 1 or 0 for each weight
}
NAMES = ("tokens", "key_tokens", "vocabulary", *SHAPES)


@dataclass(frozen=True, eq=False, kw_only=True)
class Given:
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
    visible: Tensor | None = None
    weights: Tensor | None = None
    kept: Tensor | None = None

    @property
    def anything(self) -> bool:
        """Whether anything is given at all."""
        return any(getattr(self, name) is not None for name in NAMES)

    @property
    def sizes(self) -> dict[str, int]:
        """How many tokens, keys, heads, … there are, by the names in SHAPES."""
        found: dict[str, int] = {}
        for name, sides in SHAPES.items():
            tensor = getattr(self, name)
            if tensor is not None:
                found = dict(zip(sides.split(), tensor.shape, strict=True)) | found
        for name, counts in (("tokens", "token"), ("key_tokens", "key")):
            if getattr(self, name) is not None:
                found.setdefault(counts, len(getattr(self, name)))
        return found

    def like(self, other: Tensor) -> Given:
        """The same with every tensor on another's device and in its dtype."""
        changed = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in SHAPES:
            if changed[name] is not None and name != "visible":
                changed[name] = changed[name].to(other)
        if self.visible is not None:
            changed["visible"] = self.visible.to(other.device)
        return Given(**changed)


NOTHING = Given()


def given(contents: Mapping[str, Any], source: str = "", item: int | None = None) -> Given:
    """What a mapping of names gives: tokens as words, the rest as arrays or nested lists."""
    for name in contents:
        if name not in NAMES:
            error = unknown("matrix", name, NAMES)
            raise AttnvizError(f"{error} to give{_in(source)}", error.hint)
    named: dict[str, Any] = {
        name: _words(name, contents[name], source) for name in NAMES[:2] if name in contents
    }
    arrays = {name: array(name, contents[name], source) for name in SHAPES if name in contents}
    one, items = _item(arrays, item, source)
    named |= {name: _tensor(name, each) for name, each in one.items()}
    made = Given(
        source=source,
        item=item or 1,
        items=items,
        vocabulary=_vocabulary(contents, source),
        **named,
    )
    _refuse_what_does_not_fit(made)
    _refuse_blind_rows(made)
    return made


def array(name: str, value: Any, source: str) -> Array:
    """A full, finite array of numbers; what is wrong with it is said with its place."""
    refuse_ragged(name, value, source)
    made = np.asarray(value)
    if made.dtype.kind not in "fiub" or made.size == 0:
        raise AttnvizError(
            f"'{name}'{_in(source)} is no matrix of numbers", "give rows of numbers: [[1, 2], …]"
        )
    made = made.astype(np.float64)
    if not np.isfinite(made).all():
        place = tuple(int(each[0]) + 1 for each in np.nonzero(~np.isfinite(made)))
        raise AttnvizError(
            f"'{name}'{_in(source)} has {_spelled(made[tuple(p - 1 for p in place)])} at "
            f"{_place(place)}",
            "every number must be finite; what must not be read is said by 'visible'",
        )
    return made


def refuse_ragged(name: str, value: Any, source: str) -> None:
    """Rows of one matrix are as long as each other."""
    if not isinstance(value, list) or not any(isinstance(row, list) for row in value):
        return
    lengths = [len(row) if isinstance(row, list) else 0 for row in value]
    for number, length in enumerate(lengths, start=1):
        if length != lengths[0]:
            raise AttnvizError(
                f"row {number} of '{name}'{_in(source)} has {_counted(length)}, and row 1 has "
                f"{lengths[0]}",
                "every row needs as many numbers as the others",
            )
    for row in value:
        refuse_ragged(name, row, source)


def shape_text(sizes: Any) -> str:
    """
    >>> shape_text((4, 3))
    '4 × 3'
    """
    return " × ".join(str(size) for size in sizes)


def _item(arrays: dict[str, Array], item: int | None, source: str) -> tuple[dict[str, Array], int]:
    """The arrays of one item, and how many items there are."""
    batched = {name: each for name, each in arrays.items() if each.ndim == _sides(name) + 1}
    if not batched and item is not None:
        # Nothing has a side too many: what could have heads has a batch instead.
        batched = {n: each for n, each in arrays.items() if n in _WITH_HEADS and each.ndim == 3}
    if not batched:
        if item is not None:
            raise AttnvizError(
                f"--item {item} is asked for, and there is no batch{_in(source)}",
                "leave --item out",
            )
        return arrays, 1
    counts = {name: len(each) for name, each in batched.items()}
    (first, items), *others = counts.items()
    for name, count in others:
        if count != items:
            raise AttnvizError(
                f"'{name}'{_in(source)} is a batch of {count}, and '{first}' is one of {items}",
                "give both the same number of items",
            )
    if not 1 <= (item or 1) <= items:
        raise AttnvizError(
            f"there is no item {item}{_in(source)}: it holds a batch of {items}",
            f"give --item 1 to {items}",
        )
    return {**arrays, **{name: each[(item or 1) - 1] for name, each in batched.items()}}, items


_WITH_HEADS = frozenset(name for name, sides in SHAPES.items() if sides.startswith("head "))


def _sides(name: str) -> int:
    return len(SHAPES[name].split())


def _tensor(name: str, array: Array) -> Tensor:
    made = torch.from_numpy(np.ascontiguousarray(array))
    if name in _WITH_HEADS and made.ndim == 2:
        made = made[None]
    return made != 0 if name == "visible" else made


def _refuse_what_does_not_fit(made: Given) -> None:
    """Sides that count the same must be equally long."""
    known: dict[str, tuple[int, str]] = {}
    if made.tokens is not None:
        known["token"] = len(made.tokens), "tokens"
    if made.key_tokens is not None:
        known["key"] = len(made.key_tokens), "key_tokens"
    for name, sides in SHAPES.items():
        tensor = getattr(made, name)
        if tensor is None:
            continue
        if tensor.ndim != _sides(name):
            raise AttnvizError(
                f"'{name}'{_in(made.source)} is {shape_text(tensor.shape)}, which is no "
                f"{_words_of(sides)}",
                "heads come first, and may be left out; a batch comes before them"
                if name in _WITH_HEADS
                else "a batch comes before them",
            )
        for side, size in zip(sides.split(), tensor.shape, strict=True):
            size_wanted, by = known.setdefault(side, (size, name))
            if size != size_wanted:
                raise _misfit(
                    made, name, known, f"by '{by}' there are {size_wanted} {_WORDS[side]}"
                )
    _refuse_other_widths(made, known)


def _refuse_other_widths(made: Given, known: Mapping[str, tuple[int, str]]) -> None:
    """Heads side by side are as wide as the matrices that make them."""
    for name, whole, width in (
        ("queries", "query_width", "width"),
        ("keys", "query_width", "width"),
        ("values", "value_width", "head_value"),
    ):
        tensor = getattr(made, name)
        if tensor is None or whole not in known:
            continue
        wanted, by = known[whole]
        if tensor.shape[0] * tensor.shape[2] != wanted:
            shape = {**known, width: (wanted // tensor.shape[0], by)}
            raise _misfit(made, name, shape, f"'{by}' makes them {wanted} wide")


def _words_of(sides: str) -> str:
    """
    >>> _words_of("head token key")
    '(heads ×) tokens × keys'
    """
    words = {"head": "(heads ×)", "token": "tokens", "key": "keys", "dim": "width"}
    parts = [words.get(side, side.replace("_", " ")) for side in sides.split()]
    return " × ".join(parts).replace("(heads ×) × ", "(heads ×) ")


def _misfit(made: Given, name: str, known: Mapping[str, tuple[int, str]], why: str) -> AttnvizError:
    tensor = getattr(made, name)
    sides = SHAPES[name].split()
    if name in _WITH_HEADS and tensor.shape[0] == 1:
        sides, found = sides[1:], tensor.shape[1:]
    else:
        found = tensor.shape
    wanted = shape_text(known[side][0] if side in known else "any" for side in sides)
    return AttnvizError(
        f"'{name}'{_in(made.source)} is {shape_text(found)}, and {wanted} is wanted", why
    )


_WORDS = {
    "token": "tokens",
    "key": "keys",
    "dim": "numbers in an embedding",
    "query_width": "numbers in queries and keys",
    "value_width": "numbers in values",
    "context": "numbers in a context vector",
    "head": "heads",
    "width": "numbers in a head's queries",
    "head_value": "numbers in a head's values",
}


def _refuse_blind_rows(made: Given) -> None:
    """Softmax over nothing is 0/0."""
    if made.visible is None:
        return
    blind = (~made.visible.any(-1)).nonzero().flatten().tolist()
    if blind:
        raise AttnvizError(
            f"row {blind[0] + 1} of 'visible'{_in(made.source)} hides every key",
            "let each query see at least one key",
        )


def _words(name: str, value: Any, source: str) -> tuple[str, ...]:
    words = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise AttnvizError(
            f"'{name}'{_in(source)} is no list of words", 'give words: ["I", "am", "here"]'
        )
    return tuple(words)


def _vocabulary(contents: Mapping[str, Any], source: str) -> int | None:
    if "vocabulary" not in contents:
        return None
    value = contents["vocabulary"]
    if not isinstance(value, (int, np.ndarray)) or np.size(value) != 1 or int(value) < 1:
        raise AttnvizError(
            f"'vocabulary'{_in(source)} is no number of ids", "give a whole number: 20000"
        )
    return int(value)


def _in(source: str) -> str:
    return f" in '{source}'" if source else ""


def _spelled(number: float) -> str:
    return "NaN" if np.isnan(number) else "infinity"


def _place(place: tuple[int, ...]) -> str:
    if len(place) == 1:
        return f"place {place[0]}"
    row = f"row {place[-2]}, column {place[-1]}"
    return row if len(place) == 2 else f"{row} of part {'.'.join(map(str, place[:-2]))}"


def _counted(length: int) -> str:
    return f"{length} number{'' if length == 1 else 's'}"
