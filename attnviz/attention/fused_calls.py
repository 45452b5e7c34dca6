"""PyTorch's private attention kernels that return log-sum-exp, checked on first use.

Only kernels that compute in 32 or 64 bits are here: flash attention on CUDA and cuDNN's take 16
bits, and their weights would be wrong in the third digit. These names are no public interface of
PyTorch: where one is missing, or its numbers are not those of the plain arithmetic, callers fall
back to tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

ContextsAndLogSums = tuple[Float[Tensor, "query value_width"], Float[Tensor, "query"]]
Kernel = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def is_faster_than_tiles(device: torch.device) -> bool:
    """Return whether fused calls compute contexts faster than tiles do.

    With MKL tiles take 0.8 times as long as the CPU's kernel, which other libraries may not reach;
    on GPUs each operation on a tile waits for memory.
    """
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return device.type == "cuda" or (device.type == "cpu" and not has_mkl)


def attend(
    queries: Float[Tensor, "query width"],
    keys: Float[Tensor, "key width"],
    values: Float[Tensor, "key value_width"],
) -> ContextsAndLogSums | None:
    """Return the contexts and the log-sum-exp of each query's scores, which are query · key.

    Every query attends to every key. None if there is no kernel whose numbers are right.
    """
    kernel = _checked_kernel(queries.device.type, queries.dtype)
    return None if kernel is None else _call(kernel, queries, keys, values)


def _call(kernel: Kernel, queries: Tensor, keys: Tensor, values: Tensor) -> ContextsAndLogSums:
    """Call a kernel on one head.

    Kernels need vectors of one width, so zeros are appended; and numbers that are side by side:
    the CPU's returns memory that it never wrote for transposed queries, without an error.
    """
    width = max(keys.shape[1], values.shape[1])
    padded = (
        pad(part, (0, width - part.shape[1])).contiguous()[None, None]
        for part in (queries, keys, values)
    )
    contexts, log_sums = kernel(*padded)
    # CUDA's log-sum-exp is padded to a multiple of 32 queries.
    return contexts[0, 0, :, : values.shape[1]], log_sums.reshape(-1)[: len(queries)]


@cache
def _checked_kernel(device_type: str, dtype: torch.dtype) -> Kernel | None:
    """Return the kernel of a device if, on a few tokens, it agrees with the plain arithmetic."""
    kernel = KERNELS.get(device_type)
    if kernel is None or dtype not in TOLERANCE:
        return None
    numbers = torch.arange(3 * 70 * 20, dtype=torch.float64).mul(12.9898).sin()
    inputs = numbers.view(3, 70, 20).to(device_type, dtype)
    queries, keys, values = inputs[0, :37], inputs[1], inputs[2, :, :12]
    scores = queries @ keys.T
    expected = scores.softmax(-1) @ values, scores.logsumexp(-1)
    try:
        results = _call(kernel, queries, keys, values)
        differences = [
            (got - want).abs().max() for got, want in zip(results, expected, strict=True)
        ]
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None
    return kernel if max(differences) <= TOLERANCE[dtype] else None


def _cpu_kernel(queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the results of flash attention on a CPU, in 32 or 64 bits."""
    contexts, log_sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        queries, keys, values, 0.0, False, scale=1.0
    )
    return contexts, log_sums


def _cuda_kernel(queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the results of memory-efficient attention on a CUDA GPU, in 32 bits."""
    contexts, log_sums, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
        queries, keys, values, None, True, 0.0, False, scale=1.0
    )
    return contexts, log_sums


KERNELS: dict[str, Kernel] = {"cpu": _cpu_kernel, "cuda": _cuda_kernel}
