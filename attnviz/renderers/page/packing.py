"""Tables of numbers in few bytes, as a page keeps them.

A code is a number by its square root: of small weights, which are many, more can be told apart than
of large ones. Each row has a scale of its own. What is hidden takes no room.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from attnviz.cells import EVERYTHING, Patch

EXACT = 2**17  # cells of a page, up to which its numbers are kept as they are,
FINE = 2**19  # and with 16 bits
Table = Float[np.ndarray, "row column"]


@dataclass(frozen=True)
class Packed:
    """A table in bytes, and what one has to know to read them."""

    block: str  # base64 of zlib
    bits: int
    signed: bool
    mask: int | None  # row + this is the last column that is not hidden; None: a bit for each cell
    error: float  # how far a number may be from the one it stands for, at most

    @property
    def about(self) -> dict[str, Any]:
        """All but the bytes."""
        return {"bits": self.bits, "signed": self.signed, "mask": self.mask, "error": self.error}


def bits_of(cells: int) -> int:
    """With how many bits each number is kept, on a page of so many."""
    if cells <= EXACT:
        return 32
    return 16 if cells <= FINE else 8


def packed(patch: Patch, bits: int) -> Packed:
    """A table: what each row reaches, what is hidden, and the codes of all other cells."""
    values, seen = np.where(patch.hidden, 0, patch.values).astype(np.float32), ~patch.hidden
    signed = bool((values < 0).any())
    reach = np.abs(values).max(axis=1, initial=0)
    mask, hides = _mask(seen)
    codes = values if bits == 32 else _codes(values, reach, bits, signed=signed)
    error = 0.0 if bits == 32 else float(np.abs(_read(codes, reach, bits, signed) - values).max())
    parts = (reach.astype("<f4").tobytes(), hides, codes[seen].tobytes())
    block = base64.b64encode(zlib.compress(b"".join(parts), 6)).decode()
    return Packed(block, bits, signed, mask, error)


def _mask(seen: Bool[np.ndarray, "row column"]) -> tuple[int | None, bytes]:
    """What is hidden: a triangle, or anything else bit by bit."""
    rows, columns = seen.shape
    last = int(seen[0].sum()) - 1 if rows else 0
    offset = columns if seen.all() else last
    if (seen == (np.arange(columns) <= np.arange(rows)[:, None] + offset)).all():
        return offset, b""
    return None, np.packbits(seen, bitorder="little").tobytes()


def _codes(
    values: Table, reach: Float[np.ndarray, "row"], bits: int, *, signed: bool
) -> Shaped[np.ndarray, "row column"]:
    """The root of each number's share of what its row reaches; with a sign, of half as many."""
    most = _most(bits, signed=signed)
    shares = np.abs(values) / np.maximum(reach, np.finfo(np.float32).tiny)[:, None]
    roots = np.rint(np.sqrt(shares) * most) * np.sign(values)
    kinds = {(8, False): "<u1", (16, False): "<u2", (8, True): "<i1", (16, True): "<i2"}
    return np.asarray(roots.astype(kinds[bits, signed]))


def _read(
    codes: Shaped[np.ndarray, "row column"],
    reach: Float[np.ndarray, "row"],
    bits: int,
    signed: bool,
) -> Table:
    """What a page reads out of codes."""
    share = codes.astype(np.float32) / _most(bits, signed=signed)
    return np.asarray(np.sign(share) * share * share * reach[:, None])


def _most(bits: int, *, signed: bool) -> int:
    return (1 << bits - signed) - 1


def whole(cells: Any) -> Patch:
    """All of a table."""
    patch: Patch = cells.window(EVERYTHING, EVERYTHING)
    return patch
