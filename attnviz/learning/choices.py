"""The options of a training, and checks of the folder it is saved in; no torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypedDict

from attnviz.errors import AttnvizError, cmd
from attnviz.machine import files
from attnviz.machine.atomic_files import TEMPORARY_NAME
from attnviz.traces import structured_text
from attnviz.wording.keywords import with_checked_fields
from attnviz.wording.rules import Rule, check_rules, must_be, range_rules

MAX_STEPS = 10**7
MAX_BATCH = 65_536
MAX_RATE = 1e3
MODEL_CONFIG_FILE, HISTORY_FILE = "config.json", "training.json"
ATTNVIZ_CONFIG_KEY = "attnviz"  # a key in the config of every model that attnviz wrote


@with_checked_fields
@dataclass(frozen=True, kw_only=True)
class Choices:
    """Training options; None leaves one to the task.

    >>> from attnviz import learn
    >>> learn("sort", choices=Choices(steps=2, batch=8)).choices.batch
    8
    """

    steps: int | None = None
    until: float | None = None  # the accuracy that ends training; infinity: run all steps
    batch: int | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers out of range; None is fine everywhere, and infinity for `until`."""
        check_rules(self, CHOICE_RULES)

    @property
    def in_a_file(self) -> dict[str, float | None]:
        """The choices as JSON data, with None in place of an infinite `until`."""
        return asdict(self) | {"until": None if self.until == math.inf else self.until}

    def over(self, others: Choices) -> Choices:
        """Return a copy of `others` in which every choice that is not None here takes its value
        from here."""
        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(others, **chosen)


CHOICE_RULES: tuple[Rule, ...] = (
    *range_rules("steps", 1, MAX_STEPS),
    *range_rules("batch", 1, MAX_BATCH),
    must_be(
        "until",
        "above 0 and at most 1: the share of answers that are right",
        lambda share: 0 < share <= 1 or share == math.inf,
        "{option:0.99}",
    ),
    must_be(
        "rate",
        f"above 0 and at most {MAX_RATE:g}",
        lambda rate: 0 < rate <= MAX_RATE,
        "{option:0.003}",
    ),
)


class ChoiceKeywords(TypedDict, total=False):
    """The fields of Choices as keywords."""

    steps: int | None
    until: float | None
    batch: int | None
    rate: float | None


def refuse_save_folder(folder: Path) -> None:
    """Refuse a folder that is not writable, or that contains anything but a model that attnviz
    wrote. A missing folder is fine if its parent exists; so is an empty one."""
    if files.is_file(folder):
        raise AttnvizError(f"'{folder}' is a file", "give the name of a folder, which may be new")
    files.refuse_unwritable(folder / MODEL_CONFIG_FILE)
    files.refuse_missing_folder(folder)
    if not folder.is_dir() or _is_attnviz_model(folder):
        return
    if not all(TEMPORARY_NAME.fullmatch(path.name) for path in folder.iterdir()):
        raise AttnvizError(
            f"'{folder}' contains something other than a model that attnviz wrote",
            "give the name of a new folder",
        )


def _is_attnviz_model(folder: Path) -> bool:
    """Return whether a folder has the config of a model that attnviz wrote; False if it cannot be
    read."""
    path = folder / MODEL_CONFIG_FILE
    try:
        text = structured_text.read_text_file(path, "model")
        return ATTNVIZ_CONFIG_KEY in structured_text.parse_json_object(text, path)
    except (AttnvizError, ValueError):
        return False


def refuse_missing_training(folder: Path) -> None:
    """Refuse a folder that does not exist or has no history of a training that could be
    continued."""
    if not folder.is_dir():
        raise AttnvizError(
            f"there is no folder '{folder}'", f"{cmd.learn:TASK --save FOLDER} writes one"
        )
    if not files.is_file(folder / HISTORY_FILE):
        raise AttnvizError(
            f"there is no training in '{folder}' to continue: it has no {HISTORY_FILE}",
            f"{cmd.learn:TASK --save FOLDER} writes one",
        )
