"""The choices about a training, and the folder that it is saved in; without torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.machine.writing import UNFINISHED
from attnviz.traces import texts
from attnviz.wording.commands import option

MOST_STEPS = 10**7
LARGEST_BATCH = 65_536
LARGEST_RATE = 1e3


@dataclass(frozen=True, kw_only=True)
class Choices:
    """None leaves it to the task.

    >>> from attnviz import Choices, learn
    >>> learn("sort", choices=Choices(steps=2, batch=8)).choices.batch
    8
    """

    steps: int | None = None
    until: float | None = None  # infinite: every step, however right it is
    batch: int | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        _refuse_beyond("steps", self.steps, 1, MOST_STEPS)
        _refuse_beyond("batch", self.batch, 1, LARGEST_BATCH)
        if self.until is not None and not (0 < self.until <= 1 or self.until == math.inf):
            raise AttnvizError(
                f"--until is {self.until:g}, and must be above 0 and at most 1: the share of "
                "answers that are right",
                "try --until 0.99",
                about="until",
            )
        if self.rate is not None and not 0 < self.rate <= LARGEST_RATE:
            raise AttnvizError(
                f"--rate is {self.rate:g}, and must be above 0 and at most {LARGEST_RATE:g}",
                "try --rate 0.003",
                about="rate",
            )

    @property
    def in_a_file(self) -> dict[str, float | None]:
        """By name, where there is no number for every step: until nothing."""
        return asdict(self) | {"until": None if self.until == math.inf else self.until}

    def over(self, others: Choices) -> Choices:
        """These, and of the others what these leave open."""
        own = {name: each for name, each in asdict(self).items() if each is not None}
        return replace(others, **own)


def _refuse_beyond(name: str, value: int | None, lowest: int, highest: int) -> None:
    if value is None or lowest <= value <= highest:
        return
    raise AttnvizError(
        f"{option(name)} is {value}, and must be from {lowest} to {highest:,}",
        f"try {option(name)} {lowest if value < lowest else highest}",
        about=name,
    )


CONFIG, HISTORY = "config.json", "training.json"
OURS = "attnviz"  # a name in the config of every model of ours


def refuse_place(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, or would take the place of something."""
    if files.is_file(folder):
        raise AttnvizError(f"'{folder}' is a file", "give the name of a folder, which may be new")
    files.refuse_unwritable(folder / CONFIG)
    files.refuse_missing_folder(folder)
    if not folder.is_dir() or _is_ours(folder):
        return
    if not all(UNFINISHED.fullmatch(each.name) for each in folder.iterdir()):
        raise AttnvizError(
            f"'{folder}' contains something other than a model that attnviz wrote",
            "give the name of a new folder",
        )


def _is_ours(folder: Path) -> bool:
    try:
        return OURS in texts.json_object(texts.read(folder / CONFIG, "model"), folder / CONFIG)
    except (AttnvizError, ValueError):
        return False


def refuse_missing(folder: Path) -> None:
    """Refuse a folder in which there is no training that could go on."""
    if not folder.is_dir():
        raise AttnvizError(
            f"there is no folder '{folder}'", "attnviz learn TASK --save FOLDER writes one"
        )
    if not files.is_file(folder / HISTORY):
        raise AttnvizError(
            f"there is no training in '{folder}' to continue: it has no {HISTORY}",
            "attnviz learn TASK --save FOLDER writes one",
        )
