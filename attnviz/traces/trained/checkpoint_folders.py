"""The checkpoints of a training: found by a pattern, checked, in order of steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from attnviz.errors import AttnvizError, cmd, naming_in_errors, opt
from attnviz.machine import files
from attnviz.traces.models.shipped import load_card
from attnviz.traces.trained.model_location import (
    GGUF_SUFFIX,
    is_folder,
    locate_transformer,
    refuse_unusable_folder,
)
from attnviz.wings import load_from_wing
from attnviz.wording.commands import shell_quote

STATE_FILE = "trainer_state.json"  # which transformers' Trainer writes into each checkpoint
STATE_BYTES_SEARCHED = 10**6
STEP_IN_STATE = re.compile(rb'"global_step":\s*(\d{1,15})\b')
# `checkpoint-10-fp16` is of step 10; of a name without such a word the last number counts.
STEP_IN_NAME = re.compile(r".*(?:checkpoint|ckpt|step|iter)[^\da-z]?(\d{1,15})", re.IGNORECASE)
LAST_NUMBER = re.compile(r".*?(\d{1,15})\D*\Z")
# What a name says of the blocks and parts of a GGUF file: run-100-Q4_K_M-00001-of-00002.gguf
GGUF_ENDING = re.compile(r"([-._](i?q\d\w*|b?f\d\d))?(-\d{5}-of-\d{5})?\.gguf\Z", re.IGNORECASE)
LATER_PART = re.compile(r"-(?!00001-)\d{5}-of-\d{5}\.gguf\Z", re.IGNORECASE)
PATTERN_EXAMPLE = f"{opt.checkpoints:'run/checkpoint-*'}"


@dataclass(frozen=True)
class Checkpoint:
    """A folder, or a GGUF file, with the weights of a training after some steps."""

    folder: str
    step: int
    name: str  # such as "step 1,000"


def find_checkpoints(patterns: Sequence[str]) -> tuple[Checkpoint, ...]:
    """Return the checkpoints in the folders and GGUF files that these are or that match them, in
    order of steps.

    A step is the `global_step` in trainer_state.json if all folders have one, and otherwise the
    number in its name, but for what a GGUF file's name says of its blocks and parts. Each folder is
    there once, unless it is the only one and named twice. Refuses fewer than two folders, one
    without a complete model or without a step, and two of one step.
    """
    folders: list[str] = []
    for pattern in patterns:
        is_named = _is_model_path(_without_tilde(pattern))
        matches = find_folders([pattern])
        if not matches:
            raise AttnvizError(
                f"no folder or GGUF file is called, or matches, '{_without_tilde(pattern)}'",
                f"give the folders of a training, as a pattern in quotes: {PATTERN_EXAMPLE}",
                about="checkpoints",
            )
        folders += [each for each in matches if is_named or each not in folders]
    different = {Path(folder).resolve(): folder for folder in reversed(folders)}
    folders = list(different.values()) if len(different) > 1 else folders
    if len(folders) < 2:
        raise _too_few_error(patterns, folders)
    steps = _steps_of(folders)
    for folder in dict.fromkeys(folders):
        with naming_in_errors(folder):
            _refuse_incomplete(folder)
    ordered = sorted(zip(steps, folders, strict=True))
    for (step, folder), (other_step, other) in pairwise(ordered):
        if step == other_step and not Path(folder).samefile(other):
            raise AttnvizError(
                f"'{folder}' and '{other}' are both of step {step:,}",
                f"give the checkpoints of one training; two models are compared with "
                f"{opt.model:a} {opt.model:b}",
                about="checkpoints",
            )
    seen, checkpoints = Counter[int](), []
    for step, folder in ordered:
        seen[step] += 1
        again = f" ({seen[step]})" if seen[step] > 1 else ""
        checkpoints.append(Checkpoint(folder, step, f"step {step:,}{again}"))
    return tuple(checkpoints)


def _without_tilde(pattern: str) -> str:
    """Return a path in which `~` is somebody's folder, where that is known."""
    with suppress(RuntimeError):  # there is no such user
        return str(Path(pattern).expanduser())
    return pattern


def find_folders(patterns: Sequence[str]) -> list[str]:
    """Return the folders and GGUF files that these are or that match them, in order of names for
    each pattern; of files in parts the first part."""
    return [path for pattern in patterns for path in _matching_folders(_without_tilde(pattern))]


def _matching_folders(pattern: str) -> list[str]:
    """Return the folder or GGUF file of this name; without one those that match the pattern."""
    if _is_model_path(pattern):
        return [pattern]
    base = Path(Path(pattern).anchor)
    relative = pattern.removeprefix(str(base)) if base.is_absolute() else pattern
    try:
        paths = [*map(str, base.glob(relative))] if relative else []
        return sorted(
            path for path in paths if _is_model_path(path) and not LATER_PART.search(path)
        )
    except (ValueError, NotImplementedError, OSError):  # "a**b" is no pattern; a name is too long
        return []


def _too_few_error(patterns: Sequence[str], folders: Sequence[str]) -> AttnvizError:
    """Return the error for one folder or none; the hint names checkpoints inside that folder."""
    if not folders:
        return AttnvizError(
            "no checkpoints are given",
            f"give the folders of a training: {PATTERN_EXAMPLE}",
            about="checkpoints",
        )
    folder, is_named = folders[0], folders[0] in patterns
    inside = [each for each in Path(folder).glob("*checkpoint*") if each.is_dir()]
    hint = f"give two or more; one alone is shown by {cmd.inspect:TEXT --model {folder}}"
    if inside:
        hint = f"those in it: {opt.checkpoints:{shell_quote(f'{folder}/*checkpoint*')}}"
    matching = "is given" if is_named else f"matches '{patterns[0]}'"
    return AttnvizError(
        f"only '{folder}' {matching}, and a comparison needs two checkpoints",
        hint,
        about="checkpoints",
    )


def _steps_of(folders: Sequence[str]) -> list[int]:
    """Return the step of each folder; refuse one that neither a file nor its name gives."""
    from_state = [_step_in_state(Path(folder) / STATE_FILE) for folder in folders]
    known = [step for step in from_state if step is not None]
    if len(known) == len(folders):
        return known
    steps = []
    for folder, in_state in zip(folders, from_state, strict=True):
        name = GGUF_ENDING.sub("", Path(folder).absolute().name)
        match = STEP_IN_NAME.match(name) or LAST_NUMBER.match(name)
        if match is None and in_state is None:
            raise AttnvizError(
                f"the step of '{folder}' is not known: its name has no number, and it has no "
                f"{STATE_FILE}",
                "put the step into its name, such as checkpoint-500, or leave it out",
                about="checkpoints",
            )
        steps.append(int(match[1]) if match else in_state or 0)
    return steps


def _step_in_state(path: Path) -> int | None:
    """Return the `global_step` that a trainer wrote into a file; None without it."""
    if not files.is_file(path):
        return None
    with path.open("rb") as file:
        match = STEP_IN_STATE.search(file.read(STATE_BYTES_SEARCHED))
    return int(match[1]) if match else None


def _refuse_incomplete(folder: str) -> None:
    """Refuse a folder without a whole model, of transformers or of attnviz, by headers alone."""
    location = locate_transformer(folder)
    if location is None:
        load_card(folder)
    elif location.file is not None:
        load_from_wing("refuse_unusable_gguf")(location.file)
    elif location.folder is not None:
        refuse_unusable_folder(location.folder)


def _is_model_path(path: str) -> bool:
    return is_folder(path) or (path.lower().endswith(GGUF_SUFFIX) and files.is_file(Path(path)))
