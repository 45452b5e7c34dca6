"""Fills in a chat template, in a process of its own with little time and memory.

A template is a program of whoever wrote the model. That process runs this file, with JSON as its
standard input and output. Nothing of attnviz is imported here, so that it starts in a fraction of a
second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

MOST_ADDED_LETTERS = 1_000_000  # that a template makes of a message, beside the message itself
LONGEST_WAIT = 60  # seconds, on a machine that does much else
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Message = Mapping[str, str]  # its role and its content
CPU_SECONDS, MEMORY_BYTES = 5, 10**9
MOST_ERROR_LETTERS = 1000  # of what a template raises


class TemplateError(Exception):
    """What a template ends with instead of a text."""


def fill_in_template(tokenizer: Any, conversations: Sequence[Sequence[Message]]) -> list[str]:
    """Return each conversation as a text, up to where the answer comes.

    It is what `tokenizer.apply_chat_template` returns. TemplateError: the template fails, or takes
    too much time or memory.
    """
    try:
        template = tokenizer.get_chat_template()
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # for an odd template
        raise TemplateError(str(error)) from error
    arguments = {
        "conversations": conversations,
        "chat_template": template,
        "add_generation_prompt": True,
        **tokenizer.special_tokens_map,
    }
    longest = max(sum(len(message["content"]) for message in each) for each in conversations)
    return _fill_in(json.dumps(arguments, default=str), longest + MOST_ADDED_LETTERS)


@lru_cache(maxsize=16)
def _fill_in(arguments: str, most_letters: int) -> list[str]:
    request = {"path": sys.path, "most_letters": most_letters, "arguments": json.loads(arguments)}
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-B", __file__],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=LONGEST_WAIT,
            env=os.environ | ONE_THREAD,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"it took more than {LONGEST_WAIT} seconds"
        if isinstance(error, OSError):
            reason = "no process of Python can be started for it"
        raise TemplateError(reason) from None
    if process.returncode < 0:  # a signal ended it
        raise TemplateError(f"it takes more than {CPU_SECONDS} seconds")
    answer = json.loads(process.stdout) if process.returncode == 0 else {}
    if "texts" not in answer:
        raise TemplateError(answer.get("error", "the process for it ended early"))
    texts: list[str] = answer["texts"]
    return texts


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
    """Return the `texts` that a template makes, or the `error` that it ends with."""
    sys.path[:] = request["path"]
    from transformers.utils.chat_template_utils import render_jinja_template

    limit_work()
    try:
        texts_and_places: Any = render_jinja_template(**request["arguments"])
        if all(len(text) <= request["most_letters"] for text in texts_and_places[0]):
            return {"texts": texts_and_places[0]}
        return {"error": f"it makes more than {request['most_letters']:,} letters"}
    except MemoryError:
        return {"error": f"it takes more than {MEMORY_BYTES // 10**9} GB of memory"}
    except Exception as error:  # jinja's own, and whatever the template raises
        return {"error": str(error)[:MOST_ERROR_LETTERS]}


if __name__ == "__main__":
    json.dump(fill_in(json.load(sys.stdin)), sys.stdout)
