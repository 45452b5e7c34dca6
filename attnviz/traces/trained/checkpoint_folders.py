"""The checkpoints of a training: found by a pattern, checked, in order of steps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from attnviz.errors import AttnvizError, naming_in_errors
from attnviz.machine import files
from attnviz.traces.models.model_names import CONFIG_FILE
from attnviz.traces.models.shipped import load_card
from attnviz.traces.trained.model_location import (
    ADAPTER_FILE,
    GGUF_SUFFIX,
    is_folder,
    locate_transformer,
    refuse_unusable_file,
    refuse_unusable_folder,
)
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
ADAPTED_TASK = re.compile(rb'"task_type":\s*"(\w+)"')
ADAPTED_CLASSES = {
    b"CAUSAL_LM": "AutoPeftModelForCausalLM",
    b"SEQ_2_SEQ_LM": "AutoPeftModelForSeq2SeqLM",
}
PATTERN_EXAMPLE = "--checkpoints 'run/checkpoint-*'"


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
        path = str(Path(pattern).expanduser())
        if _is_model_path(path):
            folders.append(path)
        else:
            folders += [each for each in _matching_folders(path) if each not in folders]
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
                "give the checkpoints of one training; two models are compared with --model a "
                "--model b",
                about="checkpoints",
            )
    seen, checkpoints = Counter[int](), []
    for step, folder in ordered:
        seen[step] += 1
        again = f" ({seen[step]})" if seen[step] > 1 else ""
        checkpoints.append(Checkpoint(folder, step, f"step {step:,}{again}"))
    return tuple(checkpoints)


def _matching_folders(pattern: str) -> list[str]:
    """Return the folders and GGUF files that match a pattern, by name, of files in parts the first
    part; refuse a pattern that matches none."""
    base = Path(Path(pattern).anchor)
    relative = pattern.removeprefix(str(base)) if base.is_absolute() else pattern
    try:
        paths = [*map(str, base.glob(relative))] if relative else []
        matches = [path for path in paths if _is_model_path(path) and not LATER_PART.search(path)]
    except (ValueError, NotImplementedError, OSError):  # "a**b" is no pattern; a name is too long
        matches = []
    if not matches:
        raise AttnvizError(
            f"no folder or GGUF file is called, or matches, '{pattern}'",
            f"give the folders of a training, as a pattern in quotes: {PATTERN_EXAMPLE}",
            about="checkpoints",
        )
    return sorted(matches)


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
    hint = f"give two or more; one alone is shown by attnviz inspect TEXT --model {folder}"
    if inside:
        hint = f"those in it: --checkpoints {shell_quote(f'{folder}/*checkpoint*')}"
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
    adapter = Path(folder) / ADAPTER_FILE
    if files.is_file(adapter) and not files.is_file(Path(folder) / CONFIG_FILE):
        raise AttnvizError(
            f"'{folder}' has an adapter (PEFT) without the model that it changes",
            f"save both together, in another folder: {_merging_command(adapter)}",
            about="checkpoints",
        )
    location = locate_transformer(folder)
    if location is None:
        load_card(folder)
    elif location.file is not None:
        refuse_unusable_file(location.file)
    elif location.folder is not None:
        refuse_unusable_folder(location.folder)


def _merging_command(adapter: Path) -> str:
    """Return the command that saves an adapter merged into its model, with the model's tokenizer:
    `run/checkpoint-10` as `run/merged/checkpoint-10`."""
    task = ADAPTED_TASK.search(files.read_content(adapter)[:STATE_BYTES_SEARCHED])
    model_class = ADAPTED_CLASSES.get(task[1] if task else b"", "AutoPeftModel")
    source = json.dumps(str(adapter.parent))
    merged = json.dumps(str(adapter.parent.parent / "merged" / adapter.parent.name))
    code = (
        f"import peft, transformers; model = peft.{model_class}.from_pretrained({source}); "
        'base = model.peft_config["default"].base_model_name_or_path; '
        f"transformers.AutoTokenizer.from_pretrained(base).save_pretrained({merged}); "
        f"model.merge_and_unload().save_pretrained({merged})"
    )
    return f"python -c {shell_quote(code)}"


def _is_model_path(path: str) -> bool:
    return is_folder(path) or (path.lower().endswith(GGUF_SUFFIX) and files.is_file(Path(path)))
