"""Turns the quantized blocks of a GGUF file (2 to 8 bits) into numbers.

A block of a tensor has whole numbers of few bits, and what they are multiplied by. The formulas are
those of llama.cpp, in the same order, so that every number is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnviz.wings.gguf.file import StoredTensor

CHUNK_NUMBERS = 2**18  # dequantised at a time: what is in the processor's cache is fast
PLAIN_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_tensor(stored: StoredTensor, dtype: torch.dtype) -> Tensor:
    """Return the numbers of a tensor in a file; only its own bytes are read."""
    content = bytearray(stored.size)
    with stored.path.open("rb") as file:
        file.seek(stored.start)
        file.readinto(content)
    if stored.block.name in PLAIN_DTYPES:
        numbers = torch.frombuffer(content, dtype=PLAIN_DTYPES[stored.block.name]).to(dtype)
        return numbers.reshape(stored.shape)
    blocks = torch.frombuffer(content, dtype=torch.uint8).view(-1, stored.block.size)
    numbers = torch.empty((len(blocks), stored.block.numbers), dtype=dtype)
    dequantize, step = DEQUANTIZERS[stored.block.name], CHUNK_NUMBERS // stored.block.numbers
    for start in range(0, len(blocks), step):
        chunk = blocks[start : start + step]
        numbers[start : start + step] = dequantize(chunk).view(len(chunk), -1)
    return numbers.view(stored.shape)


def _half(blocks: Tensor, start: int) -> Tensor:
    """Return the float16 number that begins at a byte of each block: a column."""
    return blocks[:, start : start + 2].view(torch.float16).float()


def _unpack(content: Tensor, bits: int, width: int) -> Tensor:
    """Return the numbers of few bits in each row of bytes.

    Of each `width` bytes come first their lowest `bits`, then the next ones.
    """
    groups = content.contiguous().view(len(content), -1, width)
    fields = [(groups >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return torch.stack(fields, dim=2).view(len(content), -1)


def _subtract(numbers: Tensor, offset: int) -> Tensor:
    return (numbers.view(torch.int8) - offset).float()


def _dequantize_q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _subtract(_unpack(blocks[:, 2:], 4, 16), 8)


def _dequantize_q4_1(blocks: Tensor) -> Tensor:
    numbers = _unpack(blocks[:, 4:], 4, 16).float()
    return numbers.mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _dequantize_q5_0(blocks: Tensor) -> Tensor:
    numbers = _unpack(blocks[:, 6:], 4, 16) | _unpack(blocks[:, 2:6], 1, 1) << 4
    return _half(blocks, 0) * _subtract(numbers, 16)


def _dequantize_q5_1(blocks: Tensor) -> Tensor:
    numbers = _unpack(blocks[:, 8:], 4, 16) | _unpack(blocks[:, 4:8], 1, 1) << 4
    return numbers.float().mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _dequantize_q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].view(torch.int8).float()


def _dequantize_q2_k(blocks: Tensor) -> Tensor:
    scales = blocks[:, :16]
    factors = (_half(blocks, 80) * (scales & 15))[:, :, None]
    minima = (_half(blocks, 82) * (scales >> 4))[:, :, None]
    return factors * _unpack(blocks[:, 16:80], 2, 32).float().view(-1, 16, 16) - minima


def _dequantize_q3_k(blocks: Tensor) -> Tensor:
    scales = _unpack(blocks[:, 96:104], 4, 8) | _unpack(blocks[:, 104:108], 2, 4) << 4
    numbers = _unpack(blocks[:, 32:96], 2, 32) | _unpack(blocks[:, :32], 1, 32) << 2
    factors = (_half(blocks, 108) * _subtract(scales, 32))[:, :, None]
    return factors * _subtract(numbers, 4).view(-1, 16, 16)


def _scales_and_minima(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the 8 factors and 8 minima in 12 bytes of 6-bit numbers, multiplied by the block's."""
    first, second, rest = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat([first & 63, (rest & 15) | (first >> 2 & 48)], dim=1)
    minima = torch.cat([second & 63, (rest >> 4) | (second >> 2 & 48)], dim=1)
    return (_half(blocks, 0) * scales)[:, :, None], (_half(blocks, 2) * minima)[:, :, None]


def _dequantize_q4_k(blocks: Tensor) -> Tensor:
    factors, minima = _scales_and_minima(blocks)
    return factors * _unpack(blocks[:, 16:], 4, 32).float().view(-1, 8, 32) - minima


def _dequantize_q5_k(blocks: Tensor) -> Tensor:
    factors, minima = _scales_and_minima(blocks)
    numbers = _unpack(blocks[:, 48:], 4, 32) | _unpack(blocks[:, 16:48], 1, 32) << 4
    return factors * numbers.float().view(-1, 8, 32) - minima


def _dequantize_q6_k(blocks: Tensor) -> Tensor:
    numbers = _unpack(blocks[:, :128], 4, 64) | _unpack(blocks[:, 128:192], 2, 32) << 4
    factors = (_half(blocks, 208) * blocks[:, 192:208].view(torch.int8))[:, :, None]
    return factors * _subtract(numbers, 32).view(-1, 16, 16)


DEQUANTIZERS: dict[str, Callable[[Tensor], Tensor]] = {
    "Q4_0": _dequantize_q4_0,
    "Q4_1": _dequantize_q4_1,
    "Q5_0": _dequantize_q5_0,
    "Q5_1": _dequantize_q5_1,
    "Q8_0": _dequantize_q8_0,
    "Q2_K": _dequantize_q2_k,
    "Q3_K": _dequantize_q3_k,
    "Q4_K": _dequantize_q4_k,
    "Q5_K": _dequantize_q5_k,
    "Q6_K": _dequantize_q6_k,
}
