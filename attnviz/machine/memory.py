"""How much memory there still is, how amounts of it are written, and whether it ran out.

What takes more than there is, is refused before it is tried: whoever waits for the system to say
so waits long, and takes it from everybody else.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from attnviz.errors import AttnvizError

MORE_MEMORY_HINT = "close other programs, or take a machine with more memory"
UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
PROC_FOLDER, GROUPS_FOLDER = Path("/proc"), Path("/sys/fs/cgroup")
LIBRARIES_BYTES, THREAD_BYTES = 850 * UNITS["MB"], 80 * UNITS["MB"]  # addresses that they take
UNLIMITED_BYTES = 2**60  # what the first version of control groups says where there is no limit
OUT_OF_MEMORY_MESSAGES = re.compile(
    "can('t|not) allocate memory|not enough memory|bad_alloc|out of memory|failed to map segment"
    "|can't start new thread",
    re.IGNORECASE,
)


def free_bytes() -> int | None:
    """Bytes that this process can still have, or None where nobody can tell."""
    amounts = [_available_bytes(), *_free_in_groups(), _free_addresses()]
    known_amounts = [amount for amount in amounts if amount is not None]
    return max(min(known_amounts), 1) if known_amounts else _physical_bytes()


def format_size(amount: int) -> str:
    """
    >>> format_size(3_500_000_000), format_size(20_000_000), format_size(100)
    ('3.5 GB', '20 MB', '0.1 KB')
    """
    unit = next((name for name in ("TB", "GB", "MB") if amount >= UNITS[name]), "KB")
    return f"{f'{amount / UNITS[unit]:,.1f}'.removesuffix('.0')} {unit}"


def format_size_limit(amount: int) -> str:
    """A size that is large enough, as it is typed.

    >>> format_size_limit(10_000_001), format_size_limit(3)
    ('20MB', '10MB')
    """
    return f"{-(-amount // UNITS['MB']) if amount > 10**8 else -(-amount // 10**7) * 10}MB"


def parse_size(size_text: str, name: str) -> int:
    """Bytes of what somebody wrote as a size.

    >>> parse_size("20MB", "--limit"), parse_size("1.5 gb", "--limit"), parse_size("4096", "--limit")
    (20000000, 1500000000, 4096)
    """
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGT]?B?)\s*", size_text.upper())
    unit = "" if match is None else f"{match[2].removesuffix('B')}B"
    amount = 0 if match is None else int(float(match[1]) * UNITS[unit])
    if amount < 1:
        raise AttnvizError(f"{name} is '{size_text[:40]}', and must be a size", f"try {name} 100MB")
    return amount


def refuse_too_little_memory(needed: int, purpose: str, hint: str = MORE_MEMORY_HINT) -> None:
    """Stop before memory is filled with what can only be there as a whole."""
    available = free_bytes()
    if available is not None and needed > available:
        raise AttnvizError(
            f"{purpose} takes about {format_size(needed)}, and there are {format_size(available)} free",
            hint,
        )


def refuse_too_few_addresses() -> None:
    """Stop where `ulimit -v` leaves the libraries no room: they would end the process, unasked."""
    available = None if "torch" in sys.modules else _free_addresses()
    needed = LIBRARIES_BYTES + THREAD_BYTES * (_thread_count() - 1)
    if available is not None and available < needed:
        raise AttnvizError(
            f"torch, NumPy and matplotlib need about {format_size(needed)} of address space before "
            f"anything is computed, and ulimit -v leaves {format_size(available)}",
            f"raise it: ulimit -v {-(-needed // UNITS['MB']) * 2000}",
        )


def _thread_count() -> int:
    """How many a library starts, unless it is told how many."""
    thread_setting = os.environ.get("OMP_NUM_THREADS", "")
    return (
        int(thread_setting)
        if re.fullmatch("[1-9][0-9]{0,3}", thread_setting)
        else os.cpu_count() or 1
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, in whoever's words."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    has_message = isinstance(error, (RuntimeError, ImportError)) and OUT_OF_MEMORY_MESSAGES.search(
        str(error)
    )
    return isinstance(error, MemoryError) or bool(has_message)


def _available_bytes() -> int | None:
    lines = _read_system_file(PROC_FOLDER / "meminfo").splitlines()
    amounts = dict(line.split(":") for line in lines if ":" in line)
    return int(amounts["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in amounts else None


def _free_in_groups() -> Iterator[int]:
    """What the limits of the control groups leave that this process is in, and those around it."""
    for line in _read_system_file(PROC_FOLDER / "self" / "cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        root, names = (
            (GROUPS_FOLDER, GROUP_FILES_V2)
            if not kinds
            else (GROUPS_FOLDER / "memory", GROUP_FILES_V1)
        )
        inner = root / path.lstrip("/")
        for group in (inner, *inner.parents):
            if group.is_relative_to(root):
                yield from _free_in_group(group, *names)


GROUP_FILES_V2 = ("memory.max", "memory.current", "inactive_file")
GROUP_FILES_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _free_in_group(group: Path, limit_file: str, usage_file: str, cache_name: str) -> Iterator[int]:
    """What one group leaves; files that are only cached make room for whoever needs it."""
    limit, usage = (
        _read_system_file(group / limit_file).strip(),
        _read_system_file(group / usage_file).strip(),
    )
    if not (limit.isdigit() and usage.isdigit()) or int(limit) >= UNLIMITED_BYTES:
        return
    statistics = dict(
        line.split() for line in _read_system_file(group / "memory.stat").splitlines()
    )
    yield int(limit) - max(int(usage) - int(statistics.get(cache_name, 0)), 0)


def _free_addresses() -> int | None:
    """What `ulimit -v` leaves of addresses, some of which have no memory behind them."""
    try:
        import resource  # which Windows has not
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read_system_file(PROC_FOLDER / "self" / "statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * resource.getpagesize()


def _physical_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _read_system_file(path: Path) -> str:
    """A file that not every system has."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
