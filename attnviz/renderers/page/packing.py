"""Packs tables of numbers into few bytes, and draws thumbnails of heads.

A code is the square root of a number, so that small weights, of which there are many, differ more
finely than large ones. Each row has its own scale. Hidden cells take no space.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attnviz.cells import Cells, MappedCells, Patch, StoredCells
from attnviz.views.grids.grid import block_size

EXACT_BITS, FINE_BITS, COARSE_BITS, COARSEST_BITS = 32, 16, 8, 6  # exact numbers may have 64
MAX_CELLS_BY_BITS = {EXACT_BITS: 2**17, FINE_BITS: 2**19}  # of all tables of a page
DEFLATE_STRATEGIES = (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY)
BITS_OF_A_BYTE = 8
FIXED_POINT_BITS = 24  # of the numbers of a model, with their signs
MAX_SCORE_SLACK = 0.05  # the error up to which scores are computed from weights
MIN_REACH = np.finfo(np.float32).tiny
THUMBNAIL_SIDE_CELLS = 32

CellNumbers = Shaped[np.ndarray, "cell"]
RowNumbers = Float[np.ndarray, "row"]


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedTable:
    """A table of numbers as compressed bytes, and what is needed to unpack them."""

    shape: tuple[int, int]
    block: bytes  # the reach of each row, what makes scores of weights, and codes; compressed
    mask_bits: bytes  # a bit for each cell; empty if none is hidden
    bits: int
    signed: bool = False
    error: float = 0.0  # the largest error of a number
    slack: float | None = None  # the largest error of a score; None: there are no scores

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the table as JSON data: all but the bytes."""
        names = ("bits", "signed", "error", "slack")
        facts = {name: getattr(self, name) for name in names}
        return {"rows": self.shape[0], "columns": self.shape[1], **facts}


def bits_per_number(cells: int) -> int:
    """Return how many bits a number gets on a page with `cells` cells in all: 32, 16 or 8."""
    fitting_bits = (bits for bits, max_cells in MAX_CELLS_BY_BITS.items() if cells <= max_cells)
    return next(fitting_bits, COARSE_BITS)


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Some rows of a table: the largest number of each, codes, and the largest errors.

    `sums`: what makes scores of weights, None if they are not stored; `slack`: the error of scores.
    """

    reach: RowNumbers
    codes: CellNumbers
    error: float
    sums: RowNumbers | None
    slack: float | None


def pack_table(cells: Cells, bits: int, scores: Cells | None = None) -> PackedTable:
    """Return a table packed with `bits` bits for each visible number.

    32 bits, and tables with a number that is not finite, keep numbers exact. Otherwise, if `scores`
    are given and the table is their softmax, a number for each row is stored, by which scores are
    computed from weights. The table is read in bands, of which only packed bytes are kept.
    """
    finite, signed = _finite_and_signed(cells)
    if bits == EXACT_BITS or not finite:
        return _pack_exact_table(cells)
    max_code = (1 << bits - signed) - 1
    score_bands = repeat(None) if scores is None else scores.bands(BITS_OF_A_BYTE)
    coded_bands, mask_bands = [], []
    for patch, score in zip(cells.bands(BITS_OF_A_BYTE), score_bands, strict=False):
        coded_bands.append(_code_rows(patch, score, max_code, signed=signed))
        mask_bands.append(_mask_bits(patch))
    slacks = [band.slack for band in coded_bands if band.slack is not None]
    sums = [band.sums for band in coded_bands] if len(slacks) == len(coded_bands) else []
    parts = chain((band.reach for band in coded_bands), sums, (band.codes for band in coded_bands))
    return PackedTable(
        shape=cells.shape,
        block=compress_codes(b"".join(part.tobytes() for part in parts if part is not None)),
        mask_bits=_join_mask_bits(mask_bands),
        bits=bits,
        signed=signed,
        error=max((band.error for band in coded_bands), default=0.0),
        slack=max(slacks) if sums else None,
    )


def _finite_and_signed(cells: Cells) -> tuple[bool, bool]:
    """Return whether all visible numbers are finite, and whether any is below 0."""
    finite, signed = True, False
    for band in cells.bands():
        numbers = band.values[~band.hidden]
        finite &= bool(np.isfinite(numbers).all())
        signed |= bool((numbers < 0).any())
    return finite, signed


def _code_rows(band: Patch, scores: Patch | None, max_code: int, *, signed: bool) -> CodedRows:
    """Return the codes of some rows, with the largest errors of numbers and of scores.

    Codes reach from 0, or from -max_code if `signed`, to max_code.
    """
    is_visible, numbers = ~band.hidden, _as_floats(band.values[~band.hidden])
    reach = np.abs(np.where(is_visible, band.values, 0)).max(axis=1, initial=0).astype("<f4")
    reaches = np.repeat(reach, is_visible.sum(axis=1))
    codes = _encode_numbers(numbers, reaches, max_code, signed=signed)
    error = float(np.abs(_decode_numbers(codes, reaches, max_code) - numbers).max(initial=0))
    return CodedRows(reach, codes, error, *softmax_log_sums(band, scores, max_code))


def softmax_log_sums(
    weights: Patch, scores: Patch | None, max_code: int
) -> tuple[RowNumbers | None, float | None]:
    """Return the logarithm of each row's softmax denominator, and the largest error of scores.

    A score is the logarithm of its weight plus this sum: one number per row replaces one per cell.
    Without scores, or if the weights are not their softmax, (None, None) comes back.
    """
    if scores is None:
        return None, None
    visible = _as_floats(np.where(weights.hidden, 0, weights.values))
    peaks = visible.argmax(axis=1)[:, None]
    highest, score = (np.take_along_axis(cells, peaks, 1) for cells in (visible, scores.values))
    positive = highest[:, 0] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(positive, (score - np.log(highest))[:, 0], 0).astype("<f4")
        reliable = (visible >= highest * (0.5 / max_code) ** 2) & (visible > 0)
        errors = (
            scores.values[reliable]
            - np.log(visible[reliable])
            - np.repeat(sums, reliable.sum(axis=1))
        )
    slack = float(np.abs(errors).max(initial=0))
    return (sums, slack) if slack <= MAX_SCORE_SLACK else (None, None)


def compress_codes(parts: bytes) -> bytes:
    """Return bytes deflated by the better of two fast strategies.

    They look for runs, or for nothing; a search for other repetitions takes ten times as long and
    saves about 1 %.
    """
    return min((_deflate(parts, 6, strategy) for strategy in DEFLATE_STRATEGIES), key=len)


def compress_bits(bits: bytes) -> bytes:
    """Return deflated bits of a mask, whose rows are much like those above them."""
    return _deflate(bits, 9, zlib.Z_DEFAULT_STRATEGY)


def _deflate(parts: bytes, level: int, strategy: int) -> bytes:
    """Return bytes as a zlib stream, compressed with zlib's `level` and `strategy`."""
    compressor = zlib.compressobj(
        level, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy
    )
    return compressor.compress(parts) + compressor.flush()


def pack_fixed_point(
    tensors: Iterable[np.ndarray], bits: int = FIXED_POINT_BITS
) -> tuple[bytes, list[int]]:
    """Return all numbers in so many bits, compressed, and for each tensor the power of two of a
    step.

    The bytes of a number stand apart, first the high one of all, which compresses. The error of a
    number is at most a 2^bits-th part of the largest of its tensor, rounded up to a power of two.
    """
    codes, exponents = [np.zeros(0, dtype=np.int64)], []
    for tensor in tensors:
        numbers = tensor.astype(np.float64).ravel()
        reach = float(np.abs(numbers).max(initial=0))
        exponent = (math.frexp(reach * (1 + 2.0 ** (1 - bits)))[1] if reach else 0) - bits + 1
        codes.append(np.rint(numbers * 2.0**-exponent).astype(np.int64))
        exponents.append(exponent)
    joined = np.concatenate(codes)
    planes = [
        (joined >> shift & 255).astype(np.uint8).tobytes() for shift in range(bits - 8, -1, -8)
    ]
    return compress_codes(b"".join(planes)), exponents


def pack_float_planes(tensors: Iterable[np.ndarray]) -> bytes:
    """Return all numbers as float32, compressed: first the high byte of each, then the others."""
    joined = np.concatenate([tensor.astype("<f4").ravel() for tensor in tensors] or [np.zeros(0)])
    return compress_codes(joined.astype("<f4").view(np.uint8).reshape(-1, 4)[:, ::-1].T.tobytes())


def encode_base64(block: bytes) -> str:
    return base64.b64encode(block).decode()


def _pack_exact_table(cells: Cells) -> PackedTable:
    """Return a packed table of exact numbers: float32 if that loses nothing, else float64."""
    parts = [(band.values[~band.hidden], _mask_bits(band)) for band in cells.bands(BITS_OF_A_BYTE)]
    numbers = _as_floats(np.concatenate([part for part, _ in parts]))
    stored = numbers.astype("<f4")
    if numbers.dtype != stored.dtype and not np.array_equal(stored, numbers, equal_nan=True):
        stored = numbers.astype("<f8")
    return PackedTable(
        shape=cells.shape,
        block=compress_codes(stored.tobytes()),
        mask_bits=_join_mask_bits([bits for _, bits in parts]),
        bits=8 * stored.itemsize,
    )


def _as_floats(numbers: CellNumbers) -> CellNumbers:
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float32)


def _mask_bits(band: Patch) -> tuple[bool, bytes]:
    """Return whether any cell of a band is hidden, and a bit for each cell (1: visible)."""
    return bool(band.hidden.any()), np.packbits(~band.hidden, bitorder="little").tobytes()


def _join_mask_bits(bands: Sequence[tuple[bool, bytes]]) -> bytes:
    """Return the bits of all bands, each of which fills whole bytes; b'' if nothing is hidden."""
    return b"".join(bits for _, bits in bands) if any(hides for hides, _ in bands) else b""


def _encode_numbers(
    numbers: CellNumbers, reaches: RowNumbers, max_code: int, *, signed: bool
) -> CellNumbers:
    """Return the code of each number: √(size / largest size in its row) · max_code, rounded.

    `signed`: the code has the number's sign. `reaches`: that largest size, for each number.
    """
    roots = np.abs(numbers) / np.maximum(reaches, MIN_REACH)
    roots = np.rint(np.sqrt(roots, out=roots) * max_code)
    dtype = f"{'<i' if signed else '<u'}{1 if max_code < 2**COARSE_BITS else 2}"
    return np.asarray((roots * np.sign(numbers) if signed else roots).astype(dtype))


def _decode_numbers(codes: CellNumbers, reaches: RowNumbers, max_code: int) -> CellNumbers:
    """Return the numbers that the page's script computes from codes, exactly, as float32.

    A number is ±(code / max_code)² times the largest size in its row (`reaches`, for each number).
    """
    whole = codes.astype(np.float64)
    numbers = np.abs(whole) * whole * (reaches / np.float64(max_code**2))
    return np.asarray(numbers.astype(np.float32))


def unpack_vectors(table: PackedTable) -> Float[np.ndarray, "row column"]:
    """Return the numbers of a table that hides none, as the page's script unpacks them."""
    (rows, columns), packed = table.shape, zlib.decompress(table.block)
    if table.bits >= EXACT_BITS:
        exact = np.frombuffer(packed, f"<f{table.bits // BITS_OF_A_BYTE}")
        return np.asarray(exact.reshape(rows, columns), dtype=np.float64)
    reaches = np.repeat(np.frombuffer(packed, "<f4", rows), columns)
    kind = f"<{'i' if table.signed else 'u'}{table.bits // BITS_OF_A_BYTE}"
    codes = np.frombuffer(packed, kind, offset=reaches.itemsize * rows)
    numbers = _decode_numbers(codes, reaches, (1 << table.bits - table.signed) - 1)
    return numbers.reshape(rows, columns).astype(np.float64)


def thumbnail_cells(cells: Cells, *, share: bool) -> StoredCells:
    """Return a table in at most 32 by 32 cells: a small one as it is, a large one pooled.

    `share`: the weights in a block of keys are added, not averaged.
    """
    block_height, block_width = (block_side(count, THUMBNAIL_SIDE_CELLS) for count in cells.shape)
    if block_height == block_width == 1:
        return cells.stored()
    zeroed = MappedCells(cells, lambda p: Patch(np.where(p.hidden, 0, p.values), p.hidden))
    blocks = zeroed.pooled(block_height, block_width, share=share)
    return StoredCells(blocks.values, blocks.hidden)


def block_side(count: int, max_cells: int) -> int:
    """Return how many cells make a block along an axis of `count` cells.

    At most `max_cells` blocks are left; 1 if there are no more cells than that.
    """
    return 1 if count <= max_cells else block_size(count, math.ceil(count / max_cells))


def pack_thumbnails(patches: Sequence[StoredCells]) -> PackedTable:
    """Return the thumbnails as one packed table, a row for each, ending in hidden cells."""
    longest = max(patch.values.size for patch in patches)
    values = np.zeros((len(patches), longest), dtype=np.float32)
    hidden = np.ones((len(patches), longest), dtype=bool)
    for row, patch in enumerate(patches):
        finite = ~patch.hidden & np.isfinite(patch.values)
        values[row, : finite.size] = np.where(finite, patch.values, 0).ravel()
        hidden[row, : finite.size] = ~finite.ravel()
    return pack_table(StoredCells(values, hidden), COARSE_BITS)
