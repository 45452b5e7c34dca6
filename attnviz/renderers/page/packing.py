"""Tables of numbers in few bytes, and all heads small, as a page stores them.

A code is a number by its square root: of small weights, which are many, more can be told apart than
of large ones. Each row has a scale of its own. What is hidden takes no room.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attnviz.cells import EVERYTHING, Cells, Changed, Patch, Whole
from attnviz.views.grids.grid import block_size

EXACT, FINE, COARSE, COARSEST = 32, 16, 8, 6  # bits of a number; exact ones may have 64
FEW = {EXACT: 2**17, FINE: 2**19}  # cells of a page, up to which there is room for so many
STRATEGIES = (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY)
BITS_OF_A_BYTE = 8
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


@dataclass(frozen=True, eq=False)
class Coded:
    """Some rows of a table: what each reaches, a code for each cell, and how good these are."""

    reach: Rows
    codes: Numbers
    error: float
    sums: Rows | None
    slack: float | None


def packed(cells: Cells, bits: int, scores: Cells | None = None) -> Packed:
    """A table; with what makes `scores` of its numbers, where they are the softmax of those.

    It is gone through in bands of rows, of which no more is kept than what a page will hold.
    """
    finite, signed = _kind(cells)
    if bits == EXACT or not finite:
        return _exact(cells)
    most = (1 << bits - signed) - 1
    beside = repeat(None) if scores is None else scores.bands(BITS_OF_A_BYTE)
    coded, seen = [], []
    for band, score in zip(cells.bands(BITS_OF_A_BYTE), beside, strict=False):
        coded.append(_coded(band, score, most, signed=signed))
        seen.append(_bits(band))
    slacks = [each.slack for each in coded if each.slack is not None]
    sums = [each.sums for each in coded] if len(slacks) == len(coded) else []
    parts = chain((each.reach for each in coded), sums, (each.codes for each in coded))
    return Packed(
        shape=cells.shape,
        block=compressed(b"".join(each.tobytes() for each in parts if each is not None)),
        seen=_mask(seen),
        bits=bits,
        signed=signed,
        error=max((each.error for each in coded), default=0.0),
        slack=max(slacks) if sums else None,
    )


def _kind(cells: Cells) -> tuple[bool, bool]:
    """Whether all numbers that are seen are finite, and whether some are below 0."""
    finite, signed = True, False
    for band in cells.bands():
        numbers = band.values[~band.hidden]
        finite &= bool(np.isfinite(numbers).all())
        signed |= bool((numbers < 0).any())
    return finite, signed


def _coded(band: Patch, scores: Patch | None, most: int, *, signed: bool) -> Coded:
    seen, numbers = ~band.hidden, _floats(band.values[~band.hidden])
    reach = np.abs(np.where(seen, band.values, 0)).max(axis=1, initial=0).astype("<f4")
    reaches = np.repeat(reach, seen.sum(axis=1))
    codes = _codes(numbers, reaches, most, signed=signed)
    error = float(np.abs(_read(codes, reaches, most) - numbers).max(initial=0))
    return Coded(reach, codes, error, *sums_of(band, scores, most))


def sums_of(weights: Patch, scores: Patch | None, most: int) -> tuple[Rows | None, float | None]:
    """The logarithm of what each row of a softmax is divided by; and how exact scores become.

    A score is the logarithm of its weight, and this: one number a row in place of one for each
    cell. There are none where weights are not the softmax of the scores.
    """
    if scores is None:
        return None, None
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


def whole(cells: Cells, rows: slice = EVERYTHING) -> Whole:
    """All of a table, or of some of its rows, in memory."""
    patch = cells.window(rows, EVERYTHING)
    return Whole(patch.values, patch.hidden)


def _exact(cells: Cells) -> Packed:
    """Every number as it is."""
    parts = [(band.values[~band.hidden], _bits(band)) for band in cells.bands(BITS_OF_A_BYTE)]
    numbers = _floats(np.concatenate([part for part, _ in parts]))
    single = numbers.astype("<f4")
    same = numbers.dtype == single.dtype or np.array_equal(single, numbers, equal_nan=True)
    kept = single if same else numbers.astype("<f8")
    return Packed(
        shape=cells.shape,
        block=compressed(kept.tobytes()),
        seen=_mask([bits for _, bits in parts]),
        bits=8 * kept.itemsize,
    )


def _floats(numbers: Numbers) -> Numbers:
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float32)


def _bits(band: Patch) -> tuple[bool, bytes]:
    """Whether anything of a band is hidden; and a bit for each of its cells."""
    return bool(band.hidden.any()), np.packbits(~band.hidden, bitorder="little").tobytes()


def _mask(bands: Sequence[tuple[bool, bytes]]) -> bytes:
    """The bits of all bands, whose rows are so many that each ends with a byte."""
    return b"".join(bits for _, bits in bands) if any(hides for hides, _ in bands) else b""


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


FINEST = 32  # cells on a side


def small(cells: Cells, *, share: bool) -> Whole:
    """A table as it is, or in blocks: what is read of each is added, where rows are divided up."""
    high, wide = (block_of(count, FINEST) for count in cells.shape)
    if high == wide == 1:
        return whole(cells)
    blocks = Changed(cells, _nothing_hidden).pooled(high, wide, share=share)
    return Whole(blocks.values, blocks.hidden)


def _nothing_hidden(patch: Patch) -> Patch:
    """With 0 where a cell is hidden."""
    return Patch(np.where(patch.hidden, 0, patch.values), patch.hidden)


def block_of(count: int, most: int) -> int:
    """How many places stand together where there is room for so many cells."""
    return 1 if count <= most else block_size(count, math.ceil(count / most))


def together(patches: Sequence[Whole]) -> Packed:
    """A row for each of them, cell after cell; what one is shorter than another is hidden."""
    longest = max(patch.values.size for patch in patches)
    values = np.zeros((len(patches), longest), dtype=np.float32)
    hidden = np.ones((len(patches), longest), dtype=bool)
    for row, patch in enumerate(patches):
        known = ~patch.hidden & np.isfinite(patch.values)
        values[row, : known.size] = np.where(known, patch.values, 0).ravel()
        hidden[row, : known.size] = ~known.ravel()
    return packed(Whole(values, hidden), COARSE)
