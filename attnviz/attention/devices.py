"""Where the arithmetic runs, and how much memory it has there."""

from __future__ import annotations

import torch

from attnviz.attention.variants import refuse_unknown_device
from attnviz.errors import AttnvizError
from attnviz.machine import memory


def choose_device(name: str, dtype: str) -> torch.device:
    """The device of this name; `auto` is the fastest that this machine has."""
    refuse_unknown_device(name)
    if name == "auto":
        preferred = [
            device for device in reversed(available_devices()) if supports_dtype(device, dtype)
        ]
        return torch.device("cuda" if "cuda:0" in preferred else preferred[0])
    full_name = name if ":" in name or name in ("cpu", "mps") else f"{name}:0"
    if full_name.removesuffix(":0") not in {
        device.removesuffix(":0") for device in available_devices()
    }:
        raise AttnvizError(
            f"this machine has no device '{name}'",
            f"choose one of: {', '.join(available_devices())}",
        )
    if not supports_dtype(full_name, dtype):
        raise AttnvizError(
            f"{name} cannot compute in {dtype}", "try --device cpu, or --dtype float32"
        )
    return torch.device(name)


def available_devices() -> list[str]:
    """Every device of this machine, the slowest first.

    >>> available_devices()[0]
    'cpu'
    """
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    xpu = [f"xpu:{number}" for number in range(torch.xpu.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *mps, *reversed(xpu), *reversed(cuda)]


def supports_dtype(device: str, dtype: str) -> bool:
    return not (device.startswith("mps") and dtype == "float64")


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had, or None where nobody can tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return memory.free_bytes()
