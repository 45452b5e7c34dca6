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

from attnviz.cells import FULL_SLICE, Cells, MappedCells, Patch, StoredCells
from attnviz.views.grids.grid import block_size

EXACT_BITS, FINE_BITS, COARSE_BITS, COARSEST_BITS = (
    32,
    16,
    8,
    6,
)  # bits of a number; exact ones may have 64
MAX_CELLS_BY_BITS = {
    EXACT_BITS: 2**17,
    FINE_BITS: 2**19,
}  # cells of a page, up to which there is room for so many
DEFLATE_STRATEGIES = (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY)
BITS_OF_A_BYTE = 8
MAX_SCORE_SLACK = 0.05  # of scores that are still what weights are made of
MIN_REACH = np.finfo(np.float32).tiny

CellNumbers = Shaped[np.ndarray, "cell"]
RowNumbers = Float[np.ndarray, "row"]


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedTable:
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


def bits_per_number(cells: int) -> int:
    """With how many bits each number is kept, on a page of so many."""
    return next(
        (bits for bits, max_cells in MAX_CELLS_BY_BITS.items() if cells <= max_cells), COARSE_BITS
    )


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Some rows of a table: what each reaches, a code for each cell, and how good these are."""

    reach: RowNumbers
    codes: CellNumbers
    error: float
    sums: RowNumbers | None
    slack: float | None


def pack_table(cells: Cells, bits: int, scores: Cells | None = None) -> PackedTable:
    """A table; with what makes `scores` of its numbers, where they are the softmax of those.

    It is gone through in bands of rows, of which no more is kept than what a page will hold.
    """
    finite, signed = _finite_and_signed(cells)
    if bits == EXACT_BITS or not finite:
        return _pack_exact_table(cells)
    max_code = (1 << bits - signed) - 1
    score_bands = repeat(None) if scores is None else scores.bands(BITS_OF_A_BYTE)
    coded_bands, mask_bands = [], []
    for band, score in zip(cells.bands(BITS_OF_A_BYTE), score_bands, strict=False):
        coded_bands.append(_code_rows(band, score, max_code, signed=signed))
        mask_bands.append(_mask_bits(band))
    slacks = [each.slack for each in coded_bands if each.slack is not None]
    sums = [each.sums for each in coded_bands] if len(slacks) == len(coded_bands) else []
    parts = chain((each.reach for each in coded_bands), sums, (each.codes for each in coded_bands))
    return PackedTable(
        shape=cells.shape,
        block=compress_codes(b"".join(each.tobytes() for each in parts if each is not None)),
        seen=_join_mask_bits(mask_bands),
        bits=bits,
        signed=signed,
        error=max((each.error for each in coded_bands), default=0.0),
        slack=max(slacks) if sums else None,
    )


def _finite_and_signed(cells: Cells) -> tuple[bool, bool]:
    """Whether all numbers that are seen are finite, and whether some are below 0."""
    finite, signed = True, False
    for band in cells.bands():
        numbers = band.values[~band.hidden]
        finite &= bool(np.isfinite(numbers).all())
        signed |= bool((numbers < 0).any())
    return finite, signed


def _code_rows(band: Patch, scores: Patch | None, max_code: int, *, signed: bool) -> CodedRows:
    seen, numbers = ~band.hidden, _as_floats(band.values[~band.hidden])
    reach = np.abs(np.where(seen, band.values, 0)).max(axis=1, initial=0).astype("<f4")
    reaches = np.repeat(reach, seen.sum(axis=1))
    codes = _encode_numbers(numbers, reaches, max_code, signed=signed)
    error = float(np.abs(_decode_numbers(codes, reaches, max_code) - numbers).max(initial=0))
    return CodedRows(reach, codes, error, *softmax_log_sums(band, scores, max_code))


def softmax_log_sums(
    weights: Patch, scores: Patch | None, max_code: int
) -> tuple[RowNumbers | None, float | None]:
    """The logarithm of what each row of a softmax is divided by; and how exact scores become.

    A score is the logarithm of its weight, and this: one number a row in place of one for each
    cell. There are none where weights are not the softmax of the scores.
    """
    if scores is None:
        return None, None
    seen = _as_floats(np.where(weights.hidden, 0, weights.values))
    peaks = seen.argmax(axis=1)[:, None]
    highest, score = (np.take_along_axis(each, peaks, 1) for each in (seen, scores.values))
    positive = highest[:, 0] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(positive, (score - np.log(highest))[:, 0], 0).astype("<f4")
        reliable = (seen >= highest * (0.5 / max_code) ** 2) & (seen > 0)
        errors = (
            scores.values[reliable] - np.log(seen[reliable]) - np.repeat(sums, reliable.sum(axis=1))
        )
    slack = float(np.abs(errors).max(initial=0))
    return (sums, slack) if slack <= MAX_SCORE_SLACK else (None, None)


def compress_codes(parts: bytes) -> bytes:
    """As small as codes become: what repeats in them is hardly more than runs, if even these do.

    Whoever looks for other repetitions takes ten times as long, and finds one in a hundred bytes.
    """
    return min((_deflate(parts, 6, strategy) for strategy in DEFLATE_STRATEGIES), key=len)


def compress_bits(bits: bytes) -> bytes:
    """Rows of bits are like the rows above them."""
    return _deflate(bits, 9, zlib.Z_DEFAULT_STRATEGY)


def _deflate(parts: bytes, level: int, strategy: int) -> bytes:
    compressor = zlib.compressobj(
        level, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy
    )
    return compressor.compress(parts) + compressor.flush()


def encode_base64(block: bytes) -> str:
    """Bytes as a page may hold them."""
    return base64.b64encode(block).decode()


def load_cells(cells: Cells, rows: slice = FULL_SLICE) -> StoredCells:
    """All of a table, or of some of its rows, in memory."""
    patch = cells.window(rows, FULL_SLICE)
    return StoredCells(patch.values, patch.hidden)


def _pack_exact_table(cells: Cells) -> PackedTable:
    """Every number as it is."""
    parts = [(band.values[~band.hidden], _mask_bits(band)) for band in cells.bands(BITS_OF_A_BYTE)]
    numbers = _as_floats(np.concatenate([part for part, _ in parts]))
    single = numbers.astype("<f4")
    single_is_exact = numbers.dtype == single.dtype or np.array_equal(
        single, numbers, equal_nan=True
    )
    stored = single if single_is_exact else numbers.astype("<f8")
    return PackedTable(
        shape=cells.shape,
        block=compress_codes(stored.tobytes()),
        seen=_join_mask_bits([bits for _, bits in parts]),
        bits=8 * stored.itemsize,
    )


def _as_floats(numbers: CellNumbers) -> CellNumbers:
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float32)


def _mask_bits(band: Patch) -> tuple[bool, bytes]:
    """Whether anything of a band is hidden; and a bit for each of its cells."""
    return bool(band.hidden.any()), np.packbits(~band.hidden, bitorder="little").tobytes()


def _join_mask_bits(bands: Sequence[tuple[bool, bytes]]) -> bytes:
    """The bits of all bands, whose rows are so many that each ends with a byte."""
    return b"".join(bits for _, bits in bands) if any(hides for hides, _ in bands) else b""


def _encode_numbers(
    numbers: CellNumbers, reaches: RowNumbers, max_code: int, *, signed: bool
) -> CellNumbers:
    """The root of each number's share of what its row reaches; with a sign, of half as many."""
    roots = np.abs(numbers) / np.maximum(reaches, MIN_REACH)
    roots = np.rint(np.sqrt(roots, out=roots) * max_code)
    whole_numbers = "<i" if signed else "<u"
    return np.asarray(
        (roots * np.sign(numbers) if signed else roots).astype(
            f"{whole_numbers}{1 if max_code < 2**COARSE_BITS else 2}"
        )
    )


def _decode_numbers(codes: CellNumbers, reaches: RowNumbers, max_code: int) -> CellNumbers:
    """What a page reads out of codes, to the last bit: as float32 of what doubles come to."""
    whole = codes.astype(np.float64)
    return np.asarray(
        (np.abs(whole) * whole * (reaches / np.float64(max_code**2))).astype(np.float32)
    )


THUMBNAIL_SIDE_CELLS = 32  # cells on a side


def thumbnail_cells(cells: Cells, *, share: bool) -> StoredCells:
    """A table as it is, or in blocks: what is read of each is added, where rows are divided up."""
    block_height, block_width = (block_side(count, THUMBNAIL_SIDE_CELLS) for count in cells.shape)
    if block_height == block_width == 1:
        return load_cells(cells)
    blocks = MappedCells(cells, _unmask_with_zeros).pooled(block_height, block_width, share=share)
    return StoredCells(blocks.values, blocks.hidden)


def _unmask_with_zeros(patch: Patch) -> Patch:
    """With 0 where a cell is hidden."""
    return Patch(np.where(patch.hidden, 0, patch.values), patch.hidden)


def block_side(count: int, max_cells: int) -> int:
    """How many places stand together where there is room for so many cells."""
    return 1 if count <= max_cells else block_size(count, math.ceil(count / max_cells))


def pack_thumbnails(patches: Sequence[StoredCells]) -> PackedTable:
    """A row for each of them, cell after cell; what one is shorter than another is hidden."""
    longest = max(patch.values.size for patch in patches)
    values = np.zeros((len(patches), longest), dtype=np.float32)
    hidden = np.ones((len(patches), longest), dtype=bool)
    for row, patch in enumerate(patches):
        finite = ~patch.hidden & np.isfinite(patch.values)
        values[row, : finite.size] = np.where(finite, patch.values, 0).ravel()
        hidden[row, : finite.size] = ~finite.ravel()
    return pack_table(StoredCells(values, hidden), COARSE_BITS)
