"""The program that fills in a chat template, with little time and memory.

A template is a program of whoever wrote the model. Standard input and output are JSON. Nothing of
attnviz is imported here: the process starts in a fraction of a second.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

CPU_SECONDS, MEMORY_BYTES = 5, 10**9
MOST_ERROR_LETTERS = 1000  # of what a template raises


def limit_work() -> None:
    """Have the system end this process if it takes more; Windows has no such limits."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
    with suppress(OSError):  # only Linux says how many addresses are in use
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY_BYTES
    for kind, most in limits.items():
        soft, hard = resource.getrlimit(kind)
        bounds = [each for each in (soft, hard, most) if each != resource.RLIM_INFINITY]
        resource.setrlimit(kind, (min(bounds), hard))


def fill_in(request: dict[str, Any]) -> dict[str, Any]:
    """Return the `text` that a template makes, or the `error` that it ends with."""
    sys.path[:] = request["path"]
    from transformers.utils.chat_template_utils import render_jinja_template

    limit_work()
    try:
        texts_and_places: Any = render_jinja_template(**request["arguments"])
        text = texts_and_places[0][0]
        if len(text) <= request["most_letters"]:
            return {"text": text}
        return {"error": f"it makes more than {request['most_letters']:,} letters"}
    except MemoryError:
        return {"error": f"it takes more than {MEMORY_BYTES // 10**9} GB of memory"}
    except Exception as error:  # jinja's own, and whatever the template raises
        return {"error": str(error)[:MOST_ERROR_LETTERS]}


if __name__ == "__main__":
    json.dump(fill_in(json.load(sys.stdin)), sys.stdout)
