"""Fills in the chat template of a model, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnviz.traces.trained import template_process

MOST_ADDED_LETTERS = 1_000_000  # that a template makes of a message, beside the message itself
LONGEST_WAIT = 60  # seconds, on a machine that does much else
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class TemplateError(Exception):
    """What a template ends with instead of a text."""


def fill_in_template(tokenizer: Any, message: str) -> str:
    """Return a conversation that begins with a user's message, up to where the answer comes.

    It is what `tokenizer.apply_chat_template` returns. TemplateError: the template fails, or takes
    too much time or memory.
    """
    arguments = {
        "conversations": [[{"role": "user", "content": message}]],
        "chat_template": tokenizer.get_chat_template(),
        "add_generation_prompt": True,
        **tokenizer.special_tokens_map,
    }
    return _fill_in(json.dumps(arguments, default=str), len(message) + MOST_ADDED_LETTERS)


@lru_cache(maxsize=16)
def _fill_in(arguments: str, most_letters: int) -> str:
    request = {"path": sys.path, "most_letters": most_letters, "arguments": json.loads(arguments)}
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-B", str(Path(template_process.__file__))],
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
        raise TemplateError(f"it takes more than {template_process.CPU_SECONDS} seconds")
    answer = json.loads(process.stdout) if process.returncode == 0 else {}
    if "text" not in answer:
        raise TemplateError(answer.get("error", "the process for it ended early"))
    text: str = answer["text"]
    return text
