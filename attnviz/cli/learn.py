"""`attnviz learn`: a small model is trained, watched and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnviz.cli import output
from attnviz.cli.help import in_section, positional
from attnviz.cli.messages import say, tell
from attnviz.cli.options import Typed, accepts, line_as_typed
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import AttentionOptions, BlockOptions
from attnviz.cli.training_options import LEARNING, TeachingOptions, settings_for
from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices, refuse_missing, refuse_place
from attnviz.learning.lookup import task_asked, task_of_folder
from attnviz.learning.names import CUT, TASKS, is_path
from attnviz.machine import leaving
from attnviz.renderers import suffixes
from attnviz.tokens.finding import find_query
from attnviz.wording.commands import option, quoted
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.learning.progress import Progress
    from attnviz.learning.task import Task
    from attnviz.learning.training import Learned, Training

# What means nothing to a model that learns: its vectors and its one sentence are its own.
WITHOUT = ("embeddings", "dropout", "memory", "dtype")


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """What is learned, and what is kept of it."""

    task: Annotated[
        str | None,
        positional(
            LEARNING,
            metavar="TASK",
            help=f"The task: {', '.join(TASKS)}; or your own: a Python file or a grammar (mine.py, "
            "mine.toml).  [default: list the tasks]",
            short=f"The task: {', '.join(TASKS)}, or a file of your own; without it, they are "
            "listed.",
            show_default=False,
            among={name: row.about for name, row in TASKS.items()},
        ),
    ] = None
    file: Annotated[
        Path | None,
        in_section(
            LEARNING,
            "--file",
            metavar="PATH",
            help="Instead of a task: learn to continue the lines of a UTF-8 file; one line in ten "
            "is held out.",
            short="Instead of a task: learn to continue lines: --file lines.txt",
            example="lines.txt",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        in_section(
            LEARNING,
            "--tokenizer",
            "-t",
            metavar="NAME",
            help=f"How those lines are cut into tokens: {', '.join(CUT)}.  [default: "
            f"{next(iter(CUT))}]",
            among=[*CUT],
            example="chars",
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
    save: Annotated[
        Path | None,
        in_section(
            LEARNING,
            "--save",
            metavar="FOLDER",
            help="Save the model (for --model in run and steps) and everything that --from needs.",
            short="Save the model: --save my-model; then attnviz run TEXT --model my-model",
            example="my-model",
        ),
    ] = None
    from_: Annotated[
        Path | None,
        in_section(
            LEARNING,
            "--from",
            metavar="FOLDER",
            help="Continue the training that --save saved.",
            short="Continue a saved training: --from my-model --steps 1000",
            example="my-model",
        ),
    ] = None


@accepts(
    LearnOptions,
    TeachingOptions,
    AttentionOptions,
    BlockOptions,
    OutputOptions,
    PictureOptions,
    without=WITHOUT,
    of_a_task=(AttentionOptions, BlockOptions),
)
def learn(
    chosen: LearnOptions,
    teaching: TeachingOptions,
    attention: AttentionOptions,
    blocks: BlockOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Train a small model on a task, and watch its attention form.

    On a terminal, its heatmaps, its loss and what each head does are drawn while it learns.
    Ctrl-C ends the training early and keeps what was learned so far.

    \b
    attnviz learn reverse
    attnviz learn reverse --heads 2 --steps 200
    """
    if chosen.task is None and chosen.from_ is None and chosen.file is None:
        list_or_refuse(typed)
        return
    output.refuse_undeliverable(wanted, pictures, suffixes("arrays"))
    if chosen.save is not None:
        refuse_place(chosen.save)
    begun = begin if chosen.from_ is None else go_on
    training = begun(chosen, teaching.choices, typed.of(attention, blocks))
    if chosen.from_ is not None and not (wanted.out or wanted.json):
        _refuse_what_is_done(training, chosen.from_)
    on_screen = not training.done and _watched(training, wanted, pictures)
    if chosen.save is not None:
        _save(chosen.save, training.progress(), quiet=wanted.quiet)
    line = line_as_typed("learn", typed, chosen, teaching, attention, blocks, wanted, pictures)
    _deliver(training.learned(), line, wanted, pictures, on_screen=on_screen)


def _watched(training: Training, wanted: OutputOptions, pictures: PictureOptions) -> bool:
    """Learn, until Ctrl-C at most; and whether it was seen on a screen."""
    if wanted.query is not None:
        find_query(training.task.vocabulary.as_read(training.watched), wanted.query)

    from attnviz.cli.live import watched  # torch, for which errors need not wait

    with leaving.stopping() as stopped:
        return watched(training, stopped, wanted, pictures)


def list_or_refuse(typed: Typed) -> None:
    """Without a task those that there are; options alone teach nothing."""
    if typed.names:
        raise AttnvizError(
            "there is no task to learn",
            f"name one of: {', '.join(TASKS)}; attnviz learn lists them",
        )
    from attnviz.cli.answers import tasks

    tasks()


def begin(chosen: LearnOptions, choices: Choices, typed: dict[str, Any]) -> Training:
    """A model that has not learned anything yet."""
    asked = asked_for(chosen)
    task = task_asked(asked)
    settings = settings_for(task, typed)

    from attnviz.learning.training import Training

    return Training(task, settings, choices, chosen.watch, asked=asked)


def asked_for(chosen: LearnOptions) -> dict[str, str]:
    """Where the task is from: its name, or a file of lines."""
    if chosen.file is None:
        if chosen.tokenizer is not None:
            raise AttnvizError(
                "--tokenizer splits lines of your own; a task has words of its own",
                "leave it out, or give lines with --file",
                about="tokenizer",
            )
        assert chosen.task is not None
        return {"task": chosen.task}
    if chosen.task is not None:
        raise AttnvizError(
            f"--file and a task are both given: {chosen.task}",
            "leave one of them out",
        )
    return {"file": str(chosen.file), "tokenizer": chosen.tokenizer or next(iter(CUT))}


def go_on(chosen: LearnOptions, choices: Choices, options: dict[str, Any]) -> Training:
    """A model that was written while it learned; whatever would make it another is refused."""
    folder = chosen.from_
    assert folder is not None
    elsewhere = {"device": options.pop("device")} if "device" in options else {}
    others = [name for name in ("watch", "tokenizer") if getattr(chosen, name) is not None]
    for name in (*options, *others):
        raise AttnvizError(
            f"--from continues a training with its own settings, and {option(name)} would change "
            "them",
            f"leave {option(name)} out, or --from",
        )
    refuse_missing(folder)

    from attnviz.learning.progress import read
    from attnviz.learning.training import Training

    since = read(folder)
    asked = _asked_again(chosen, since.asked)
    typed = chosen.task is not None or chosen.file is not None
    task = task_asked(asked) if typed else task_of_folder(asked, since.source, folder)
    _refuse_another(task, asked, since, folder)
    choices = choices.over(since.choices)
    settings = replace(since.model.settings, **elsewhere)
    return Training(task, settings, choices, since.watch, since, asked)


def _asked_again(chosen: LearnOptions, since: Mapping[str, str]) -> Mapping[str, str]:
    """Where the task is from, and if somebody names it again, where it is now."""
    if chosen.task is None and chosen.file is None:
        return since
    kind, typed = next(iter(asked_for(chosen).items()))
    name = since.get(kind, "")
    own = kind == "file" or is_path(typed) is is_path(name)
    if not own or Path(typed).name != Path(name).name:
        raise AttnvizError(
            f"'{chosen.from_}' learns {since.get('task', since.get('file'))}, but {typed} is given",
            f"leave {typed} out, or --from",
        )
    return {**since, kind: typed}


def _refuse_another(task: Task, asked: Mapping[str, str], since: Progress, folder: Path) -> None:
    """Refuse a file that has changed since: with other words, or other things that are measured."""
    name = asked.get("task", asked.get("file"))
    words = task.vocabulary == since.model.vocabulary
    if words and {each.name for each in task.readings} == {*since.moments[0].scores}:
        return
    raise AttnvizError(
        f"the {'readings' if words else 'words'} of {name} are not those that the model in "
        f"'{folder}' learned",
        f"start a new training: attnviz learn {'' if 'task' in asked else '--file '}{name}",
    )


def _refuse_what_is_done(training: Training, folder: Path) -> None:
    """Who asks for no file wants more to be learned, and there is nothing left to learn."""
    last = training.moments[-1]
    if not training.done:
        return

    from attnviz.views.conclusions.learned import how_right

    steps, until = training.choices.steps or 0, training.choices.until or 0
    if last.step >= steps:
        problem = f"the model in '{folder}' has already learned for {counted(last.step, 'step')}"
        raise AttnvizError(problem, f"try --steps {2 * max(last.step, 1)}")
    raise AttnvizError(
        f"in the model in '{folder}', {how_right(last.accuracy, training.task.asked)} already; "
        f"the goal is {until:g}",
        f"try --steps {2 * max(last.step, 1)}, which continues whatever the accuracy is",
    )


def _deliver(
    learned: Learned,
    line: str,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    on_screen: bool,
) -> None:
    """What came of it: where it was watched on a screen, all but a sentence is there already."""
    view = learned.view(query=wanted.query, command=line)
    if wanted.out or wanted.json or not on_screen:
        output.deliver(view, wanted, pictures)
    if not wanted.json and (wanted.out or on_screen):
        say(view.headline)
    if learned.ended == "nan" and not wanted.quiet:
        tell(f"note: a lower --rate than {learned.choices.rate:g} may help")


def _save(folder: Path, progress: Progress, *, quiet: bool) -> None:
    from attnviz.learning.progress import write

    write(folder, progress)
    if not quiet:
        tell(f"wrote {folder}; use it with: attnviz run TEXT --model {quoted(str(folder))}")
