"""Turns errors of transformers into two lines, and silences its other messages."""

from __future__ import annotations

import io
import logging
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from attnviz.errors import AttnvizError, Note, model_error, opt
from attnviz.machine import memory
from attnviz.machine.context_values import attribute_value, context_value
from attnviz.machine.panics import is_panic, silencing_panics
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.trained.model_location import INSTALL_EXTRA, ModelLocation

LoadedPart = Literal["model", "tokenizer", "text"]  # "text": the tokenizer is cutting one
LOGGER_NAMES = (
    None,
    "transformers",
    "huggingface_hub",
    "torch",
)  # those with handlers, and the root
OLDEST_TRANSFORMERS = 5  # major version, as in pyproject.toml
MAX_MESSAGE_LETTERS = 200  # of another package's message
CUSTOM_CODE_PATTERN = re.compile(
    "trust_remote_code|execute the (configuration|model|custom) ?", re.IGNORECASE
)
PICKLED_PATTERN = re.compile("weights_only|Unpickl|pickle|code execution", re.IGNORECASE)
UNKNOWN_KIND_PATTERN = re.compile(
    "model type `?'?([^`']+)`?'? but Transformers does not|Unrecognized model"
)
MISSING_PACKAGE_PATTERN = re.compile(r"pip install (?:-\S+ )*([\w.-]+)|No module named '([\w]+)")
# All that a hint may name: an error may repeat what a file says.
OPTIONAL_PACKAGES = (
    "accelerate amd-quark aqlm auto-gptq auto-round autoawq av bitsandbytes blobfile causal-conv1d "
    "compressed-tensors datasets deepspeed detectron2 eetq einops emoji faiss-cpu fbgemm-gpu "
    "flash-attn flash-linear-attention fp-quant ftfy fugashi g2p-en gguf gptqmodel hqq ipadic "
    "jieba jinja2 kernels levenshtein librosa mamba-ssm mistral-common natten nltk numba optimum "
    "optimum-quanto pandas peft phonemizer pillow protobuf pytesseract pythainlp quanto rapidfuzz "
    "rjieba sacremoses scikit-learn scipy sentencepiece spacy spqr-quant sudachipy tiktoken timm "
    "torchao torchaudio torchvision unidic unidic-lite vptq xlstm"
)
PACKAGES_OF_MODULES = {"google": "protobuf", "PIL": "pillow", "sklearn": "scikit-learn"}
OTHER_SIZES_PATTERN = re.compile("mismatched|size mismatch")
NOT_ON_HUB_PATTERN = re.compile(
    "not a local folder and is not a valid model identifier|404|Repository Not Found"
)
GATED_PATTERN = re.compile("gated|401|403|private repository")
UNREACHABLE_HUB_PATTERN = re.compile(
    "couldn't connect|offline|cached files|connection|ConnectError|NetworkError|Timeout",
    re.IGNORECASE,
)


@contextmanager
def reporting_load_errors(
    location: ModelLocation, part: LoadedPart = "model", read_from: Path | None = None
) -> Iterator[None]:
    """Raise an error of transformers inside the `with` block as an AttnvizError about the model.

    `part` is what is being loaded or done; `read_from` is a copy of the model's folder, for which
    messages name the folder. Put only calls of transformers inside: a damaged file
    makes them raise errors of any type, and an error of attnviz's own code would be hidden. A lack
    of memory is raised as it is.
    """
    try:
        with nullcontext() if part == "model" else silencing_panics():
            yield
    except AttnvizError:
        raise
    except BaseException as error:
        is_reported = isinstance(error, Exception) or is_panic(error)
        if not is_reported or memory.is_out_of_memory(error):
            raise
        copied = {} if read_from is None else {str(read_from): str(location.folder)}
        problem, hint = _load_problem_and_hint(location, part, error, copied)
    else:
        return
    raise model_error(problem, hint)


def _load_problem_and_hint(
    location: ModelLocation, part: LoadedPart, error: BaseException, copied: Mapping[str, str]
) -> tuple[str, str]:
    """Return the problem and the hint that fit an error, found by patterns in its message, in which
    `copied` folders get the names of those that they were copied from.

    A message that fits no pattern is itself the problem, shortened.
    """
    if isinstance(error, ImportError) and (cause := _first_cause(error)) is not error:
        if not isinstance(cause, ImportError):
            return (
                f"the model '{location.name}' cannot be loaded, because transformers cannot be "
                f"imported here: {shorten_message(f'{type(cause).__name__}: {cause}')}",
                "install versions of torch, torchvision and transformers that fit each other",
            )
        error = cause
    message = f"{type(error).__name__}: {error}"
    for copy, folder in copied.items():
        message = message.replace(copy, folder)
    if part == "text":
        return (
            f"the tokenizer of '{location.name}' cannot cut this text: {shorten_message(message)}",
            "save it again: tokenizer.save_pretrained(folder)",
        )
    if part == "tokenizer" and location.folder is not None:
        return (
            f"the tokenizer in '{location.folder}' could not be loaded: {shorten_message(message)}",
            "save it there again: tokenizer.save_pretrained(folder)",
        )
    if CUSTOM_CODE_PATTERN.search(message):
        return (
            f"the model '{location.name}' comes with Python code of its own, which is not run by "
            "default",
            f"read that code; if you trust it, give {opt.trust_remote_code}",
        )
    if unknown := UNKNOWN_KIND_PATTERN.search(message):
        kind = f" ('{unknown[1]}')" if unknown[1] else ""
        return (
            f"the model '{location.name}' is of a kind that transformers does not know{kind}",
            "pip install --upgrade transformers",
        )
    if package := _missing_package(error):
        problem = f"the model '{location.name}' needs {package}, not installed"
        return problem, f"pip install {package}"
    if location.file is not None:
        return (
            f"the model in '{location.file}' could not be loaded: {shorten_message(message)}",
            "convert the model again, with a newer version of llama.cpp",
        )
    if location.folder is None:
        return _hub_problem_and_hint(location, message)
    return _folder_problem_and_hint(location, message)


def _first_cause(error: BaseException) -> BaseException:
    """Return the error that was raised first, of those that led to this one."""
    return error if error.__cause__ is None else _first_cause(error.__cause__)


def _missing_package(error: BaseException) -> str | None:
    """Return which of the `OPTIONAL_PACKAGES` an import lacks; None for any other error."""
    if not isinstance(error, ImportError):
        return None
    matches = MISSING_PACKAGE_PATTERN.finditer(str(error))
    names = [(error.name or "").partition(".")[0], *(match[1] or match[2] for match in matches)]
    packages = (
        PACKAGES_OF_MODULES.get(name, name.strip(".").lower().replace("_", "-")) for name in names
    )
    return next((package for package in packages if package in OPTIONAL_PACKAGES.split()), None)


def offline_problem_and_hint(name: str) -> tuple[str, str]:
    """Return the problem and the hint for a model that is not cached when downloads are off."""
    return (
        f"the model '{name}' is not in the cache of this machine, or is incomplete there, and "
        "HF_HUB_OFFLINE is set, so nothing is downloaded",
        f"unset HF_HUB_OFFLINE; or download it elsewhere: hf download {name}",
    )


def _hub_problem_and_hint(location: ModelLocation, message: str) -> tuple[str, str]:
    """Return the problem and the hint for a model on a hub: restricted, absent, out of reach, …"""
    if GATED_PATTERN.search(message):
        return (
            f"the model '{location.name}' is restricted to certain users of the hub, or does not "
            "exist there",
            f"check the name; request access on https://huggingface.co/{location.name}, "
            "then run hf auth login",
        )
    if NOT_ON_HUB_PATTERN.search(message):
        return f"the hub has no model '{location.name}'", "check its name: owner/name"
    if UNREACHABLE_HUB_PATTERN.search(message):
        return (
            f"the model '{location.name}' is not in the cache of this machine, and the hub "
            "cannot be reached",
            "check the connection; or give a folder with the model in it",
        )
    return _unknown_problem(location, message), "check its files on the hub"


def _folder_problem_and_hint(location: ModelLocation, message: str) -> tuple[str, str]:
    """Return the problem and the hint for a folder: pickled code, weights of other sizes, …"""
    if PICKLED_PATTERN.search(message):
        return (
            f"the torch file in '{location.folder}' is refused: it holds more than numbers, which "
            "could run code, or is damaged",
            "save the weights as safetensors: model.save_pretrained(folder)",
        )
    if OTHER_SIZES_PATTERN.search(message):
        return (
            f"the config.json in '{location.folder}' gives other sizes than the weights there have",
            "copy or download the whole model again",
        )
    return _unknown_problem(location, message), "look at its config.json, or save the model again"


def _unknown_problem(location: ModelLocation, message: str) -> str:
    return f"the model '{location.name}' could not be loaded: {shorten_message(message)}"


def shorten_message(message: str) -> str:
    """Return another package's message in one line, shortened, in quotes: it may repeat a file."""
    line = " ".join(message.split()).replace('"', "'")
    return f'"{line if len(line) <= MAX_MESSAGE_LETTERS else f"{line[:MAX_MESSAGE_LETTERS]} …"}"'


def _drop_record(record: logging.LogRecord) -> bool:
    """Return False: a filter of log messages that lets none pass."""
    return False


_offline_lock = threading.RLock()


@contextmanager
def keeping_offline() -> Iterator[None]:
    """Keep transformers from asking a hub inside the `with` block, whatever a file names, and from
    asking the user, who does not see the question, whether code of the model is run.

    Other threads that enter such a block wait.
    """
    from huggingface_hub import constants
    from transformers import dynamic_module_utils

    with (
        _offline_lock,
        attribute_value(constants, "HF_HUB_OFFLINE", True),
        attribute_value(dynamic_module_utils, "TIME_OUT_REMOTE_CODE", 0),
    ):
        yield


_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence warnings, logs, progress bars and prints inside the `with` block.

    Notes of attnviz are issued after it. Nothing more is done inside another such block. Refuses if
    transformers is not installed, or too old.
    """
    if _is_quiet.get():
        yield
        return
    refuse_unusable_transformers()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about progress bars in a notebook
            from transformers.utils import logging as transformers_logging
    except ImportError:
        raise missing_extra_error() from None
    bars: Any = transformers_logging
    has_bars = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    handlers = {each for name in LOGGER_NAMES for each in logging.getLogger(name).handlers}
    for handler in handlers:
        handler.addFilter(_drop_record)
    out, err = io.StringIO(), io.StringIO()
    issued: list[warnings.WarningMessage] = []
    try:
        with (
            context_value(_is_quiet, True),
            redirect_stdout(out),
            redirect_stderr(err),
            warnings.catch_warnings(record=True) as issued,
        ):
            warnings.simplefilter("always")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(_drop_record)
        if has_bars:
            bars.enable_progress_bar()
        for note in (each for each in issued if isinstance(each.message, Note)):
            warnings.warn_explicit(note.message, Note, note.filename, note.lineno)


def refuse_unusable_transformers() -> None:
    """Refuse if transformers is not installed, or too old; neither is found out by importing it."""
    installed = transformers_version()
    if installed is None:
        raise missing_extra_error()
    if int(installed.partition(".")[0]) < OLDEST_TRANSFORMERS:
        raise AttnvizError(
            f"transformers {installed} is installed; trained models need version "
            f"{OLDEST_TRANSFORMERS} or newer",
            f'pip install --upgrade "transformers>={OLDEST_TRANSFORMERS}"',
            about="model",
        )


@lru_cache
def transformers_version() -> str | None:
    """Return the version of transformers that is installed; None if none is."""
    try:
        return version("transformers")
    except PackageNotFoundError:
        return None


def missing_extra_error() -> AttnvizError:
    """Return the error that transformers is not installed."""
    return model_error(
        f"trained models need transformers, which is not installed ({opt.model:{MINILM}})",
        INSTALL_EXTRA,
    )
