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

from attnviz.cells import EVERYTHING, Cells, Patch

EXACT, FINE, COARSE, COARSEST = 32, 16, 8, 6  # bits of a number; exact ones may have 64
FEW = {EXACT: 2**17, FINE: 2**19}  # cells of a page, up to which there is room for so many
STRATEGIES = (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY)
LARGEST_SLACK = 0.05  # of scores that are still what weights are made of
TINIEST = np.finfo(np.float32).tiny

Numbers = Shaped[np.ndarray, "cell"]
Rows = Float[np.ndarray, "row"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """A table in bytes, and what one has to know to read them."""

    shape: tuple[int, int]
    block: bytes  # what each row reaches, what is added to make scores, and codes; compressed
    seen: bytes  # a bit for each cell; none where nothing is hidden
    bits: int
    signed: bool = False
    error: float = 0.0  # how far a number may be from the one it stands for, at most
    slack: float | None = None  # the same of scores, where codes are exact; None: there are none

    @property
    def about(self) -> dict[str, Any]:
        """All but the bytes."""
        rows, columns = self.shape
        return {
            "rows": rows,
            "columns": columns,
            "bits": self.bits,
            "signed": self.signed,
            "error": self.error,
            "slack": self.slack,
        }


def bits_of(cells: int) -> int:
    """With how many bits each number is kept, on a page of so many."""
    return next((bits for bits, few in FEW.items() if cells <= few), COARSE)


def packed(patch: Patch, bits: int, scores: Patch | None = None) -> Packed:
    """A table; with what makes `scores` of its numbers, where they are the softmax of those."""
    seen, numbers = ~patch.hidden, _floats(patch.values[~patch.hidden])
    if bits == EXACT or not np.isfinite(numbers).all():
        return _exact(numbers, seen)
    reach = np.abs(np.where(seen, patch.values, 0)).max(axis=1, initial=0).astype("<f4")
    signed = bool((numbers < 0).any())
    most = (1 << bits - signed) - 1
    reaches = np.repeat(reach, seen.sum(axis=1))
    codes = _codes(numbers, reaches, most, signed=signed)
    sums, slack = (None, None) if scores is None else sums_of(patch, scores, most)
    parts = (reach, codes) if sums is None else (reach, sums, codes)
    return Packed(
        shape=(len(seen), seen.shape[1]),
        block=compressed(b"".join(each.tobytes() for each in parts)),
        seen=_bits(seen),
        bits=bits,
        signed=signed,
        error=float(np.abs(_read(codes, reaches, most) - numbers).max(initial=0)),
        slack=slack,
    )


def sums_of(weights: Patch, scores: Patch, most: int) -> tuple[Rows | None, float | None]:
    """The logarithm of what each row of a softmax is divided by; and how exact scores become.

    A score is the logarithm of its weight, and this: one number a row in place of one for each
    cell. There are none where weights are not the softmax of the scores.
    """
    seen = _floats(np.where(weights.hidden, 0, weights.values))
    peaks = seen.argmax(axis=1)[:, None]
    highest, score = (np.take_along_axis(each, peaks, 1) for each in (seen, scores.values))
    read = highest[:, 0] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(read, (score - np.log(highest))[:, 0], 0).astype("<f4")
        known = (seen >= highest * (0.5 / most) ** 2) & (seen > 0)
        off = scores.values[known] - np.log(seen[known]) - np.repeat(sums, known.sum(axis=1))
    slack = float(np.abs(off).max(initial=0))
    return (sums, slack) if slack <= LARGEST_SLACK else (None, None)


def compressed(parts: bytes) -> bytes:
    """As small as codes become: what repeats in them is hardly more than runs, if even these do.

    Whoever looks for other repetitions takes ten times as long, and finds one in a hundred bytes.
    """
    return min((_deflated(parts, 6, strategy) for strategy in STRATEGIES), key=len)


def compressed_bits(bits: bytes) -> bytes:
    """Rows of bits are like the rows above them."""
    return _deflated(bits, 9, zlib.Z_DEFAULT_STRATEGY)


def _deflated(parts: bytes, level: int, strategy: int) -> bytes:
    made = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    return made.compress(parts) + made.flush()


def text_of(block: bytes) -> str:
    """Bytes as a page may hold them."""
    return base64.b64encode(block).decode()


def whole(cells: Cells) -> Patch:
    """All of a table."""
    return cells.window(EVERYTHING, EVERYTHING)


def _exact(numbers: Numbers, seen: Bool[np.ndarray, "row column"]) -> Packed:
    """Every number as it is."""
    single = numbers.astype("<f4")
    same = numbers.dtype == single.dtype or np.array_equal(single, numbers, equal_nan=True)
    kept = single if same else numbers.astype("<f8")
    return Packed(
        shape=(len(seen), seen.shape[1]),
        block=compressed(kept.tobytes()),
        seen=_bits(seen),
        bits=8 * kept.itemsize,
    )


def _floats(numbers: Numbers) -> Numbers:
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float32)


def _bits(seen: Bool[np.ndarray, "row column"]) -> bytes:
    return b"" if seen.all() else np.packbits(seen, bitorder="little").tobytes()


def _codes(numbers: Numbers, reaches: Rows, most: int, *, signed: bool) -> Numbers:
    """The root of each number's share of what its row reaches; with a sign, of half as many."""
    roots = np.abs(numbers) / np.maximum(reaches, TINIEST)
    roots = np.rint(np.sqrt(roots, out=roots) * most)
    whole_numbers = "<i" if signed else "<u"
    return np.asarray(
        (roots * np.sign(numbers) if signed else roots).astype(
            f"{whole_numbers}{1 if most < 2**COARSE else 2}"
        )
    )


def _read(codes: Numbers, reaches: Rows, most: int) -> Numbers:
    """What a page reads out of codes, to the last bit: as float32 of what doubles come to."""
    whole = codes.astype(np.float64)
    return np.asarray((np.abs(whole) * whole * (reaches / np.float64(most**2))).astype(np.float32))
