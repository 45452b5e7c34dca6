"""`attnviz compare --learn`: one task learned with several settings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attnviz.analysis.aspects import DEFAULT_TRAINING_SEEDS, refuse_learning_by
from attnviz.cli import output
from attnviz.cli.compare_options import CompareOptions
from attnviz.cli.messages import print_message, with_progress_bar
from attnviz.cli.options import typed_command_line
from attnviz.cli.training_options import choices_from_options, task_settings_with
from attnviz.learning.lookup import task_of
from attnviz.machine import exit_handling
from attnviz.options.traces import AttentionOptions, BlockOptions, NumberOptions
from attnviz.traces.settings import TRAINED_ONLY_SETTINGS
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.learning.task import Task
    from attnviz.traces.settings import Settings

# Curves of training are compared, of models whose words and vectors are the task's.
REFUSED_WITH_LEARN = (
    "text", "other", "file", "tokenizer", "trace", "checkpoints", "model", "given", "item",
    "embeddings", "reference", "mean", "curves", "query", "full", "dropout", "dtype", "layer",
    "head", "segments",
    *TRAINED_ONLY_SETTINGS,
)  # fmt: skip
WIDTH_OPTIONS = ("dim", "head_dim")
TIMED_STEPS = 5  # from which the time of all steps is estimated
LONG_TRAINING_SECONDS = 90.0


def deliver_learning_comparison(options: CompareOptions) -> None:
    """Train a model for each compared value and seed, and show the comparison.

    Ctrl-C shows what is learned so far.
    """
    repeats = options.repeats if "repeats" in options.typed else DEFAULT_TRAINING_SEEDS
    by = options.by or "scale"
    refuse_learning_by(by, repeats)
    assert options.learn is not None
    choices, task = choices_from_options(options), task_of(options.learn)
    typed = options.typed_values(AttentionOptions, NumberOptions, BlockOptions)
    settings = compared_task_settings(task, by, typed)

    from attnviz.analysis import learning_comparison  # torch, for which errors need not wait

    with exit_handling.stop_on_interrupt() as stopped:
        comparison = learning_comparison.compare_learning(
            task,
            settings,
            by=by,
            values=options.value_names(),
            repeats=repeats,
            choices=choices,
            named=options.learn,
            track=steps_until_stopped(stopped, quiet=options.quiet),
        )
    line = typed_command_line("compare", options)
    output.deliver_view(comparison.view_for_command(command=line), options)


def compared_task_settings(task: Task, by: str, typed: dict[str, Any]) -> Settings:
    """Return the task's settings, with the typed options in their place.

    If scales are compared (`by` 'scale') and no width was typed, the heads become wide: scaling
    makes no difference in narrow ones.
    """
    settings = task_settings_with(task, typed)
    if by != "scale" or any(name in typed for name in WIDTH_OPTIONS):
        return settings

    from attnviz.analysis.learning_comparison import with_wide_heads

    return with_wide_heads(settings)


def steps_until_stopped(
    stopped: Callable[[], bool], *, quiet: bool
) -> Callable[[Sequence[int]], Iterable[int]]:
    """Return a function that yields given steps, with a progress bar, until `stopped()` is true.

    After the first steps a training that will take minutes is announced, unless `quiet`.
    """

    def until_stopped(steps: Sequence[int]) -> Iterator[int]:
        started = time.perf_counter()
        for step in with_progress_bar(steps, label="learning", quiet=quiet):
            if stopped():
                return
            if step == TIMED_STEPS + 1 and not quiet:
                note_long_training((time.perf_counter() - started) * len(steps) / TIMED_STEPS)
            yield step

    return until_stopped


def note_long_training(seconds: float) -> None:
    """Print how many minutes a training takes, if it takes 90 seconds or more."""
    if seconds >= LONG_TRAINING_SECONDS:
        print_message(
            f"note: this takes up to {counted(math.ceil(seconds / 60), 'minute')}; fewer "
            "--repeats or --steps take less time, and Ctrl-C shows the results so far"
        )
