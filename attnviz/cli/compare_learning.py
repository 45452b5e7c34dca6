"""`attnviz compare --learn`: a task, learned in several ways from the same sentences."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attnviz.analysis.aspects import LEARNERS, refuse_learning_by
from attnviz.cli import output
from attnviz.cli.messages import tell, with_bar
from attnviz.cli.options import Typed, line_as_typed
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import AttentionOptions, BlockOptions
from attnviz.cli.training_options import TeachingOptions, settings_for
from attnviz.errors import AttnvizError
from attnviz.learning.lookup import task_of
from attnviz.machine import leaving
from attnviz.traces.early_checks import OF_A_TRAINED_MODEL
from attnviz.wording.commands import option
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.cli.compare import ComparisonOptions
    from attnviz.learning.task import Task
    from attnviz.traces.settings import Settings

# What is compared are curves, of models whose words and vectors are the task's.
MEANS_NOTHING = (
    "text", "other", "file", "tokenizer", "trace", "model", "given", "item", "embeddings",
    "reference", "mean", "curves", "query", "full", "dropout", "dtype", "layer", "head",
    *OF_A_TRAINED_MODEL,
)  # fmt: skip
OF_WIDTH = ("dim", "head_dim")
FIRST_STEPS = 5  # which tell how long all will take
LONG = 90.0  # seconds


def compare_learning(
    chosen: ComparisonOptions,
    attention: AttentionOptions,
    blocks: BlockOptions,
    teaching: TeachingOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    typed: Typed,
) -> None:
    """Train, and show what came of it; Ctrl-C shows what there is by then."""
    refuse_others(typed)
    repeats = chosen.repeats if "repeats" in typed.names else LEARNERS
    by = chosen.by or "scale"
    refuse_learning_by(by, repeats)
    assert chosen.learn is not None
    choices, task = teaching.choices, task_of(chosen.learn)
    settings = settings_of(task, by, typed.of(attention, blocks))

    from attnviz.analysis import learning  # torch, for which errors need not wait

    with leaving.stopping() as stopped:
        learned = learning.compare_learning(
            task,
            settings,
            by=by,
            values=chosen.names(),
            repeats=repeats,
            choices=choices,
            named=chosen.learn,
            track=tracked(stopped, quiet=wanted.quiet),
        )
    line = line_as_typed("compare", typed, chosen, attention, blocks, teaching, wanted, pictures)
    output.deliver(learned.view(command=line), wanted, pictures)


def refuse_others(typed: Typed) -> None:
    """What nobody would take into account."""
    for name in MEANS_NOTHING:
        if name in typed.names:
            called = name.upper() if name in ("text", "other") else option(name)
            raise AttnvizError(
                f"--learn trains on sentences of its own, so {called} cannot be given",
                f"leave {called} out, or --learn",
            )


def settings_of(task: Task, by: str, typed: dict[str, Any]) -> Settings:
    """The task's own, but for what was typed; wide heads, unless a width was."""
    settings = settings_for(task, typed)
    if by != "scale" or any(name in typed for name in OF_WIDTH):
        return settings

    from attnviz.analysis.learning import with_wide_heads

    return with_wide_heads(settings)


def tracked(
    stopped: Callable[[], bool], *, quiet: bool
) -> Callable[[Sequence[int]], Iterable[int]]:
    """Steps until somebody stops them; with a bar on standard error, if somebody may see it."""

    def until_stopped(steps: Sequence[int]) -> Iterator[int]:
        started = time.perf_counter()
        for step in with_bar(steps, told="learning", quiet=quiet):
            if stopped():
                return
            if step == FIRST_STEPS + 1 and not quiet:
                note_of_time((time.perf_counter() - started) * len(steps) / FIRST_STEPS)
            yield step

    return until_stopped


def note_of_time(seconds: float) -> None:
    """Say so before anybody waits for minutes."""
    if seconds >= LONG:
        tell(
            f"note: this takes up to {counted(math.ceil(seconds / 60), 'minute')}; fewer "
            "--repeats or --steps take less time, and Ctrl-C shows the results so far"
        )
