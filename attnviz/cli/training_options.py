"""Options for training, in `attnviz learn` and comparisons of learning."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from attnviz.cli.help import section_option
from attnviz.cli.options import refuse_mistake
from attnviz.learning.choices import Choices
from attnviz.traces import early_checks

if TYPE_CHECKING:
    from attnviz.learning.task import Task
    from attnviz.traces.settings import Settings

LEARNING_PANEL = "Learning"
_learning_option = partial(section_option, LEARNING_PANEL)
FEED_FORWARD_OPTIONS = ("feed_forward", "activation")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options about training: --steps, --until, --batch and --rate."""

    steps: Annotated[
        int | None,
        _learning_option(
            metavar="N",
            help="Learn for N steps at most; without --until for exactly N, however accurate the "
            "model is.  [default: the task's]",
            short="Learn for N steps, however accurate the model is: --steps 1000",
            example="1000",
        ),
    ] = None
    until: Annotated[
        float | None,
        _learning_option(
            metavar="SHARE",
            help="Learn until this share of the answers is correct, on held-out sentences.  "
            "[default: the task's]",
            short="Learn until this share of answers is correct: --until 0.95",
            example="0.95",
        ),
    ] = None
    batch: Annotated[
        int | None,
        _learning_option(
            metavar="N",
            help="How many sentences each step learns from.  [default: the task's]",
            example="64",
        ),
    ] = None
    rate: Annotated[
        float | None,
        _learning_option(
            metavar="X",
            help="The learning rate (of AdamW).  [default: the task's]",
            example="0.003",
        ),
    ] = None

    @property
    def choices(self) -> Choices:
        """The options as Choices; --steps without --until asks for exactly so many steps."""
        takes_all_steps = self.steps is not None and self.until is None
        until = math.inf if takes_all_steps else self.until
        return Choices(steps=self.steps, until=until, batch=self.batch, rate=self.rate)


def task_settings_with(task: Task, typed: dict[str, Any]) -> Settings:
    """Return the task's settings, with the typed options in their place.

    A typed option of feed-forward switches feed-forward on. Refuses impossible settings, and a
    variant that is a common mistake.
    """
    refuse_mistake(typed.get("variant", ""))
    if any(name in typed for name in FEED_FORWARD_OPTIONS):
        typed = {"attention_only": False, **typed}
    settings = replace(task.settings, **typed)
    early_checks.refuse_impossible_settings(settings)
    return settings
