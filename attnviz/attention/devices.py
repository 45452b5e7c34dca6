"""Where the arithmetic runs, and whether it fits there."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from attnviz.attention.choices import refuse_unknown_device
from attnviz.errors import AttnvizError

# Scores, scaled scores and weights are kept; masking and softmax need a copy each meanwhile.
STEPS_HELD = 5


def choose(name: str, dtype: str) -> torch.device:
    """The device of this name; `auto` is the fastest that this machine has."""
    refuse_unknown_device(name)
    if name == "auto":
        preferred = [found for found in reversed(available()) if supports(found, dtype)]
        return torch.device("cuda" if "cuda:0" in preferred else preferred[0])
    wanted = name if ":" in name or name in ("cpu", "mps") else f"{name}:0"
    if wanted.removesuffix(":0") not in {found.removesuffix(":0") for found in available()}:
        raise AttnvizError(
            f"this machine has no device '{name}'", f"it has: {', '.join(available())}"
        )
    if not supports(wanted, dtype):
        raise AttnvizError(
            f"{name} cannot compute in {dtype}", "try --device cpu, or --dtype float32"
        )
    return torch.device(name)


def available() -> list[str]:
    """Every device of this machine, the slowest first.

    >>> available()[0]
    'cpu'
    """
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    xpu = [f"xpu:{number}" for number in range(torch.xpu.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *mps, *reversed(xpu), *reversed(cuda)]


def supports(device: str, dtype: str) -> bool:
    return not (device.startswith("mps") and dtype == "float64")


def refuse_too_much(
    tokens: int, heads: int, projected: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Stop before memory is filled with all steps of the weights, or with the projections.

    `projected` counts the numbers of one projection; they are drawn in float64.
    """
    cells = heads * tokens * tokens
    of_a_cell = STEPS_HELD * heads * dtype.itemsize + 2
    matrices = projected * (3 * dtype.itemsize + 3 * 8)
    needed = tokens * tokens * of_a_cell + matrices
    free = free_memory(device)
    if free is None or needed <= free:
        return
    longest = int((max(free - matrices, 0) / of_a_cell) ** 0.5)
    raise AttnvizError(
        f"{tokens:,} tokens make {cells:,} weights; all steps of them take {size(needed)}, and "
        f"{device} has {size(free)} free",
        f"give at most about {longest:,} tokens, fewer heads, or --dtype bfloat16"
        if longest
        else "try a smaller --dim or --head-dim",
    )


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had, or None where nobody can tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [amount for amount in (_available_to_linux(), _left_in_container()) if amount]
    return min(limits) if limits else _physical()


def size(amount: int) -> str:
    """
    >>> size(3_500_000_000)
    '3.5 GB'
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9)):
        if amount >= factor:
            return f"{amount / factor:,.1f} {unit}"
    return f"{amount / 10**6:,.1f} MB"


def _available_to_linux() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    amounts = dict(line.split(":") for line in lines)
    return int(amounts["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in amounts else None


def _left_in_container() -> int | None:
    """A container's own limit, which /proc/meminfo does not know of."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(int(limit) - used, 1)


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
