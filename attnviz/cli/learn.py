"""`attnviz learn`: a small model is trained, watched and kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from attnviz.cli import output
from attnviz.cli.help import in_section, positional
from attnviz.cli.making import AttentionOptions, BlockOptions
from attnviz.cli.options import Typed, accepts, refuse_mistake
from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.cli.telling import say, tell
from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices
from attnviz.learning.names import TASKS, task_of
from attnviz.machine import leaving
from attnviz.renderers import suffixes
from attnviz.traces import foreseen

if TYPE_CHECKING:
    from attnviz.learning.task import Task
    from attnviz.learning.training import Learned
    from attnviz.traces.settings import Settings

LEARNING = "Learning"
# What means nothing to a model that learns: its vectors and its one sentence are its own.
WITHOUT = ("query", "full", "embeddings", "dropout", "memory", "dtype")
OF_FEED_FORWARD = ("feed_forward", "activation")


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """What is learned, how, and what is kept of it."""

    task: Annotated[
        str | None,
        positional(
            LEARNING,
            metavar="TASK",
            help=f"What is learned: {', '.join(TASKS)}.  [default: list them]",
            short=f"What is learned: {', '.join(TASKS)}; attnviz learn alone lists them.",
            show_default=False,
            among={name: row.about for name, row in TASKS.items()},
        ),
    ] = None
    watch: Annotated[
        str | None,
        in_section(
            LEARNING,
            "--watch",
            metavar="TEXT",
            help="The sentence whose heatmaps are drawn, in the task's own words.",
            short='The sentence that is drawn: --watch "a b c d e f g h"',
            example='"a b c d e f g h"',
        ),
    ] = None
    steps: Annotated[
        int | None,
        in_section(
            LEARNING,
            "--steps",
            metavar="N",
            help="Learn for N steps; without --until as many as that, however right it is.  "
            "[default: the task's]",
            short="Learn for N steps, however right it is: --steps 1000",
            example="1000",
        ),
    ] = None
    until: Annotated[
        float | None,
        in_section(
            LEARNING,
            "--until",
            metavar="SHARE",
            help="Learn until this share of the answers is right, on sentences that are held "
            "out.  [default: the task's]",
            short="Learn until so much is right: --until 0.95",
            example="0.95",
        ),
    ] = None
    batch: Annotated[
        int | None,
        in_section(
            LEARNING,
            "--batch",
            metavar="N",
            help="Learn from N sentences in a step.  [default: the task's]",
            example="64",
        ),
    ] = None
    rate: Annotated[
        float | None,
        in_section(
            LEARNING,
            "--rate",
            metavar="X",
            help="How far a step goes (AdamW's learning rate).  [default: the task's]",
            example="0.003",
        ),
    ] = None


@accepts(
    LearnOptions, AttentionOptions, BlockOptions, OutputOptions, PictureOptions, without=WITHOUT
)
def learn(
    chosen: LearnOptions,
    attention: AttentionOptions,
    blocks: BlockOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Train a small model on a task, and watch its attention form.

    On a terminal its heatmaps, its loss and what each head does are drawn while it learns.
    Ctrl-C ends it early, and keeps what was learned so far.

    \b
    attnviz learn reverse
    attnviz learn reverse --heads 2 --steps 200
    """
    if chosen.task is None:
        list_or_refuse(typed)
        return
    output.refuse_undeliverable(wanted, pictures, suffixes("arrays"))
    choices = choices_of(chosen)
    task = task_of(chosen.task)
    settings = settings_for(task, typed.of(attention, blocks))
    learned = _learned(task, settings, choices, chosen, wanted, pictures)
    _tell_of_end(learned)


def list_or_refuse(typed: Typed) -> None:
    """Without a task those that there are; options alone teach nothing."""
    if typed.names:
        raise AttnvizError(
            "there is no task to learn",
            f"name one of: {', '.join(TASKS)}; attnviz learn lists them",
        )
    from attnviz.cli.answers import tasks

    tasks()


def choices_of(chosen: LearnOptions) -> Choices:
    """Who says how many steps, and not how right it is to be, wants them all."""
    until = chosen.until
    if chosen.steps is not None and until is None:
        until = math.inf
    return Choices(steps=chosen.steps, until=until, batch=chosen.batch, rate=chosen.rate)


def settings_for(task: Task, typed: dict[str, Any]) -> Settings:
    """The task's own settings, but for what was typed."""
    refuse_mistake(typed.get("variant", ""))
    if any(name in typed for name in OF_FEED_FORWARD):
        typed = {"attention_only": False, **typed}
    settings = replace(task.settings, **typed)
    foreseen.refuse_settings(settings)
    return settings


def _learned(
    task: Task,
    settings: Settings,
    choices: Choices,
    chosen: LearnOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
) -> Learned:
    """What was learned, and was watched meanwhile."""
    from attnviz.cli.live import watched  # torch, for which errors need not wait
    from attnviz.learning.training import Training

    training = Training(task, settings, choices, chosen.watch)
    with leaving.stopping() as stopped:
        watched(training, stopped, wanted, pictures)
    return training.learned()


def _tell_of_end(learned: Learned) -> None:
    from attnviz.views.conclusions.learned import sentence_of

    say(sentence_of(learned))
    if learned.ended == "nan":
        tell(f"note: a lower --rate than {learned.choices.rate:g} may help")
