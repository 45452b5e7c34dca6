"""The device that the arithmetic runs on, and its free memory."""

from __future__ import annotations

import torch

from attnviz.attention.variants import refuse_unknown_device
from attnviz.errors import AttnvizError, opt
from attnviz.machine import memory


def choose_device(name: str, dtype: str) -> torch.device:
    """Return the device of this name; `auto` is the fastest one that supports the dtype.

    Refuses an unknown name, a device that this machine does not have, and one that cannot compute
    in `dtype`.
    """
    refuse_unknown_device(name)
    devices = available_devices()
    if name == "auto":
        usable = [device for device in reversed(devices) if supports_dtype(device, dtype)]
        return torch.device("cuda" if "cuda:0" in usable else usable[0])
    if name.removesuffix(":0") not in {device.removesuffix(":0") for device in devices}:
        raise AttnvizError(
            f"this machine has no device '{name}'", f"choose one of: {', '.join(devices)}"
        )
    if not supports_dtype(name, dtype):
        raise AttnvizError(
            f"{name} cannot compute in {dtype}", f"try {opt.device:cpu}, or {opt.dtype:float32}"
        )
    return torch.device(name)


def available_devices() -> list[str]:
    """Return the names of this machine's devices, the slowest first.

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
    """Return the free bytes of a CUDA GPU, else of main memory; None if that is not known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return memory.free_bytes()
