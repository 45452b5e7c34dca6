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

CLOSE_OTHERS = "close other programs, or take a machine with more memory"
UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
LIBRARIES, OF_A_THREAD = 850 * UNITS["MB"], 80 * UNITS["MB"]  # addresses that they take
UNLIMITED = 2**60  # what the first version of control groups says where there is no limit
RAN_OUT = re.compile(
    "can('t|not) allocate memory|not enough memory|bad_alloc|out of memory|failed to map segment"
    "|can't start new thread",
    re.IGNORECASE,
)


def free() -> int | None:
    """Bytes that this process can still have, or None where nobody can tell."""
    found = [_available_to_linux(), *_left_in_groups(), _left_of_own_limit()]
    known = [amount for amount in found if amount is not None]
    return max(min(known), 1) if known else _physical()


def size(amount: int) -> str:
    """
    >>> size(3_500_000_000), size(20_000_000), size(100)
    ('3.5 GB', '20 MB', '0.1 KB')
    """
    unit = next((name for name in ("TB", "GB", "MB") if amount >= UNITS[name]), "KB")
    return f"{f'{amount / UNITS[unit]:,.1f}'.removesuffix('.0')} {unit}"


def roomy(amount: int) -> str:
    """A size that is large enough, as it is typed.

    >>> roomy(10_000_001), roomy(3)
    ('20MB', '10MB')
    """
    return f"{-(-amount // UNITS['MB']) if amount > 10**8 else -(-amount // 10**7) * 10}MB"


def amount_of(written: str, name: str) -> int:
    """Bytes of what somebody wrote as a size.

    >>> amount_of("20MB", "--limit"), amount_of("1.5 gb", "--limit"), amount_of("4096", "--limit")
    (20000000, 1500000000, 4096)
    """
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGT]?B?)\s*", written.upper())
    unit = "" if found is None else f"{found[2].removesuffix('B')}B"
    amount = 0 if found is None else int(float(found[1]) * UNITS[unit])
    if amount < 1:
        raise AttnvizError(f"{name} is '{written[:40]}', and must be a size", f"try {name} 100MB")
    return amount


def refuse_more(needed: int, purpose: str, hint: str = CLOSE_OTHERS) -> None:
    """Stop before memory is filled with what can only be there as a whole."""
    left = free()
    if left is not None and needed > left:
        raise AttnvizError(
            f"{purpose} takes about {size(needed)}, and there are {size(left)} free",
            hint,
        )


def refuse_to_start() -> None:
    """Stop where `ulimit -v` leaves the libraries no room: they would end the process, unasked."""
    left = None if "torch" in sys.modules else _left_of_own_limit()
    needed = LIBRARIES + OF_A_THREAD * (_threads() - 1)
    if left is not None and left < needed:
        raise AttnvizError(
            f"torch, NumPy and matplotlib need about {size(needed)} of address space before "
            f"anything is computed, and ulimit -v leaves {size(left)}",
            f"raise it: ulimit -v {-(-needed // UNITS['MB']) * 2000}",
        )


def _threads() -> int:
    """How many a library starts, unless it is told how many."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if re.fullmatch("[1-9][0-9]{0,3}", said) else os.cpu_count() or 1


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, in whoever's words."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = isinstance(error, (RuntimeError, ImportError)) and RAN_OUT.search(str(error))
    return isinstance(error, MemoryError) or bool(told)


def _available_to_linux() -> int | None:
    lines = _read(PROC / "meminfo").splitlines()
    amounts = dict(line.split(":") for line in lines if ":" in line)
    return int(amounts["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in amounts else None


def _left_in_groups() -> Iterator[int]:
    """What the limits of the control groups leave that this process is in, and those around it."""
    for line in _read(PROC / "self" / "cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        root, names = (GROUPS, V2) if not kinds else (GROUPS / "memory", V1)
        inner = root / path.lstrip("/")
        for group in (inner, *inner.parents):
            if group.is_relative_to(root):
                yield from _left_in(group, *names)


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left_in(group: Path, limited: str, used: str, cached: str) -> Iterator[int]:
    """What one group leaves; files that are only cached make room for whoever needs it."""
    limit, usage = _read(group / limited).strip(), _read(group / used).strip()
    if not (limit.isdigit() and usage.isdigit()) or int(limit) >= UNLIMITED:
        return
    told = dict(line.split() for line in _read(group / "memory.stat").splitlines())
    yield int(limit) - max(int(usage) - int(told.get(cached, 0)), 0)


def _left_of_own_limit() -> int | None:
    """What `ulimit -v` leaves of addresses, some of which have no memory behind them."""
    try:
        import resource  # which Windows has not
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(PROC / "self" / "statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * resource.getpagesize()


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _read(path: Path) -> str:
    """A file that not every system has."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
