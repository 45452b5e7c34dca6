"""Options of training as choices and settings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnviz.cli.options import refuse_mistake
from attnviz.learning.choices import Choices
from attnviz.options.option import shared
from attnviz.options.training import TrainingOptions
from attnviz.traces import early_checks

if TYPE_CHECKING:
    from attnviz.learning.task import Task
    from attnviz.traces.settings import Settings

FEED_FORWARD_OPTIONS = ("feed_forward", "activation")


def choices_from_options(options: TrainingOptions) -> Choices:
    """Return the options as Choices; --steps without --until asks for exactly so many steps."""
    takes_all_steps = options.steps is not None and options.until is None
    return shared(options, Choices, until=math.inf if takes_all_steps else options.until)


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
