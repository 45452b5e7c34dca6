"""Free memory, sizes such as 2 GB as text, and recognition of out-of-memory errors.

What needs more memory than is free is refused beforehand: waiting until the system fails takes long
and slows down every other process.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from attnviz.errors import AttnvizError
from attnviz.wording.surfaces import Mark, opt

MORE_MEMORY_HINT = "close other programs, or take a machine with more memory"
UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
PROC_FOLDER, GROUPS_FOLDER = Path("/proc"), Path("/sys/fs/cgroup")
DEFAULT_BUDGET = UNITS["GB"]  # of weights; or a quarter of the free memory, if that is less
LIBRARIES_BYTES, THREAD_BYTES = 850 * UNITS["MB"], 80 * UNITS["MB"]  # of address space
UNLIMITED_BYTES = 2**60  # control groups of version 1 give no limit as a larger number
# Files of a control group: its limit, its usage; and what the usage includes for cached files.
GROUP_FILES_V2 = ("memory.max", "memory.current", "inactive_file")
GROUP_FILES_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
OUT_OF_MEMORY_MESSAGES = re.compile(
    "can('t|not) allocate memory|not enough memory|bad_alloc|out of memory|failed to map segment"
    "|can't start new thread",
    re.IGNORECASE,
)


def free_bytes() -> int | None:
    """Return how many more bytes this process can have; None if that is not known.

    It is the least that the machine, control groups and `ulimit -v` leave; where none of these is
    known, the whole memory of the machine.
    """
    amounts = [_available_bytes(), *_free_in_groups(), _free_addresses()]
    known_amounts = [amount for amount in amounts if amount is not None]
    return max(min(known_amounts), 1) if known_amounts else _physical_bytes()


def format_size(amount: int) -> str:
    """Return a number of bytes in the largest unit that fits, from KB on.

    >>> format_size(3_500_000_000), format_size(20_000_000), format_size(100)
    ('3.5 GB', '20 MB', '0.1 KB')
    """
    unit = next((name for name in ("TB", "GB", "MB") if amount >= UNITS[name]), "KB")
    return f"{f'{amount / UNITS[unit]:,.1f}'.removesuffix('.0')} {unit}"


def format_size_limit(amount: int) -> str:
    """Return a size limit, as the user may type it, that is at least `amount` bytes.

    >>> format_size_limit(10_000_001), format_size_limit(3)
    ('20MB', '10MB')
    """
    return f"{-(-amount // UNITS['MB']) if amount > 10**8 else -(-amount // 10**7) * 10}MB"


def parse_size(size_text: str, option: Mark) -> int:
    """Return the bytes of a size that a user typed; refuse what is no size.

    >>> [parse_size(size, opt.limit) for size in ("20MB", "1.5 gb", "4096")]
    [20000000, 1500000000, 4096]
    """
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGT]?B?)\s*", size_text.upper())
    unit = "" if match is None else f"{match[2].removesuffix('B')}B"
    amount = 0 if match is None else int(float(match[1]) * UNITS[unit])
    if amount < 1:
        raise AttnvizError(
            f"{option:is '{size_text[:40]}'}, and must be a size", f"try {option:100MB}"
        )
    return amount


def memory_budget(size: str | None, free: int | None) -> int:
    """Return the bytes that weights may take: `size`, or 1 GB or a quarter of what is free."""
    if size is not None:
        return parse_size(size, opt.memory_budget)
    return DEFAULT_BUDGET if free is None else min(DEFAULT_BUDGET, free // 4)


def refuse_too_little_memory(needed: int, purpose: str, hint: str = MORE_MEMORY_HINT) -> None:
    """Refuse `purpose` ("to read 'x.npz'") if it needs more bytes than are free.

    Nothing is refused where the free memory is not known.
    """
    available = free_bytes()
    if available is not None and needed > available:
        amounts = f"takes about {format_size(needed)}, and there are {format_size(available)} free"
        raise AttnvizError(f"{purpose} {amounts}", hint)


def refuse_too_few_addresses() -> None:
    """Refuse a `ulimit -v` that is too low for the libraries: they would abort the process.

    Nothing is refused once torch is imported.
    """
    available = None if "torch" in sys.modules else _free_addresses()
    needed = LIBRARIES_BYTES + THREAD_BYTES * (_thread_count() - 1)
    if available is not None and available < needed:
        raise AttnvizError(
            f"torch, NumPy and matplotlib need about {format_size(needed)} of address space before "
            f"anything is computed, and ulimit -v leaves {format_size(available)}",
            f"raise it: ulimit -v {-(-needed // UNITS['MB']) * 2000}",
        )


def _thread_count() -> int:
    """Return how many threads a library starts: OMP_NUM_THREADS, or one for each processor."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    is_number = re.fullmatch("[1-9][0-9]{0,3}", setting)
    return int(setting) if is_number else os.cpu_count() or 1


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, (RuntimeError, ImportError)):
        return bool(OUT_OF_MEMORY_MESSAGES.search(str(error)))
    return isinstance(error, MemoryError)


def _available_bytes() -> int | None:
    """Return the available memory of the machine on Linux; None elsewhere."""
    lines = _read_system_file(PROC_FOLDER / "meminfo").splitlines()
    amounts = dict(line.split(":") for line in lines if ":" in line)
    return int(amounts["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in amounts else None


def _free_in_groups() -> Iterator[int]:
    """Yield what the memory limits of this process's control groups and their parents leave."""
    for line in _read_system_file(PROC_FOLDER / "self" / "cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        root, names = GROUPS_FOLDER / kinds, GROUP_FILES_V1 if kinds else GROUP_FILES_V2
        inner = root / path.lstrip("/")
        for group in (inner, *inner.parents):
            if group.is_relative_to(root):
                yield from _free_in_group(group, *names)


def _free_in_group(group: Path, limit_file: str, usage_file: str, cache_name: str) -> Iterator[int]:
    """Yield what one group's limit leaves, if it has one; cached files count as free."""
    limit, usage = (_read_system_file(group / name).strip() for name in (limit_file, usage_file))
    if not (limit.isdigit() and usage.isdigit()) or int(limit) >= UNLIMITED_BYTES:
        return
    lines = _read_system_file(group / "memory.stat").splitlines()
    statistics = dict(line.split() for line in lines)
    yield int(limit) - max(int(usage) - int(statistics.get(cache_name, 0)), 0)


def _free_addresses() -> int | None:
    """Return the bytes of address space that `ulimit -v` leaves; None without such a limit."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read_system_file(PROC_FOLDER / "self" / "statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * resource.getpagesize()


def _physical_bytes() -> int | None:
    """Return the machine's memory, free or not; None on Windows."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _read_system_file(path: Path) -> str:
    """Return the text of a file; "" on systems that do not have it."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
