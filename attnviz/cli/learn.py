"""`attnviz learn`: trains a small model, shows and saves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnviz.cli import output
from attnviz.cli.help import section_argument, section_option
from attnviz.cli.messages import print_message, print_result_line
from attnviz.cli.options import TypedOptions, accept_options, typed_command_line
from attnviz.cli.output_options import LiveOptions, OutputOptions, PictureOptions
from attnviz.cli.trace_options import AttentionOptions, BlockOptions
from attnviz.cli.training_options import LEARNING_PANEL, TrainingOptions, task_settings_with
from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices, refuse_missing_training, refuse_save_folder
from attnviz.learning.lookup import requested_task, task_of_saved_model
from attnviz.learning.task_names import LINE_PIECES, TASKS, is_task_path
from attnviz.machine import exit_handling
from attnviz.renderers import refuse_live_without_page, suffixes
from attnviz.wording.commands import shell_quote
from attnviz.wording.surfaces import cmd, opt
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.learning.progress import Progress
    from attnviz.learning.task import Task
    from attnviz.learning.training import Learned, Training
    from attnviz.views.view import View

_learning_option = partial(section_option, LEARNING_PANEL)
# A model that learns has its own vectors, and no second sentence.
EXCLUDED_LEARN_OPTIONS = ("embeddings", "dropout", "memory", "dtype")


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """The options of `attnviz learn` about what is learned, and where the model is saved."""

    task: Annotated[
        str | None,
        section_argument(
            LEARNING_PANEL,
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
        _learning_option(
            metavar="PATH",
            help="Instead of a task: learn to continue the lines of a UTF-8 file; one line in ten "
            "is held out.",
            short="Instead of a task: learn to continue lines: --file lines.txt",
            example="lines.txt",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        _learning_option(
            "--tokenizer",
            "-t",
            metavar="NAME",
            help=f"How those lines are cut into tokens: {', '.join(LINE_PIECES)}.  [default: "
            f"{next(iter(LINE_PIECES))}]",
            among=[*LINE_PIECES],
            example="chars",
        ),
    ] = None
    watch: Annotated[
        str | None,
        _learning_option(
            metavar="TEXT",
            help="The sentence whose heatmaps are drawn, in the task's own words.",
            short='The sentence that is drawn: --watch "a b c d e f g h"',
            example='"a b c d e f g h"',
        ),
    ] = None
    save: Annotated[
        Path | None,
        _learning_option(
            metavar="FOLDER",
            help="Save the model (for --model in run and steps) and everything that --from needs.",
            short="Save the model: --save my-model; then attnviz run TEXT --model my-model",
            example="my-model",
        ),
    ] = None
    from_: Annotated[
        Path | None,
        _learning_option(
            "--from",
            metavar="FOLDER",
            help="Continue the training that --save saved.",
            short="Continue a saved training: --from my-model --steps 1000",
            example="my-model",
        ),
    ] = None


@accept_options(without=EXCLUDED_LEARN_OPTIONS, of_a_task=(AttentionOptions, BlockOptions))
def learn_command(
    options: LearnOptions,
    training_options: TrainingOptions,
    attention: AttentionOptions,
    blocks: BlockOptions,
    outputs: OutputOptions,
    live: LiveOptions,
    pictures: PictureOptions,
    *,
    typed: TypedOptions,
) -> None:
    """Train a small model on a task, and watch its attention form.

    On a terminal, its heatmaps, its loss and what each head does are drawn while it learns.
    Ctrl-C ends the training early and keeps what was learned so far.

    \b
    attnviz learn reverse
    attnviz learn reverse --heads 2 --steps 200
    """
    if options.task is None and options.from_ is None and options.file is None:
        list_tasks_or_refuse(typed)
        return
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    if live.live:
        refuse_live_without_page(outputs.out)
    if options.save is not None:
        refuse_save_folder(options.save)
    start_training = begin_training if options.from_ is None else continue_training
    training = start_training(options, training_options.choices, typed.values_of(attention, blocks))
    if live.live:
        from attnviz.views.live_page import refuse_large_model

        refuse_large_model(sum(each.numel() for each in training.model.parameters.values()))
    if options.from_ is not None and not (outputs.out or outputs.json):
        _refuse_finished_training(training, options.from_)
    on_screen = not training.done and _train_watched(training, outputs, pictures)
    if options.save is not None:
        _save_training(options.save, training.progress(), quiet=outputs.quiet)
    line = typed_command_line(
        "learn", typed, options, training_options, attention, blocks, outputs, live, pictures
    )
    view = training.learned().view_for_command(query=outputs.query, command=line, live=live.live)
    _deliver_learned(training.learned(), view, outputs, pictures, on_screen=on_screen)


def _train_watched(training: Training, outputs: OutputOptions, pictures: PictureOptions) -> bool:
    """Train until it is done, or until Ctrl-C; return whether the progress was drawn on a screen.

    Refuses a --query that the watched sentence does not have.
    """
    if outputs.query is not None:
        training.task.vocabulary.as_read(training.watched).index(outputs.query, "query")

    from attnviz.cli.live import watch_training  # torch, for which errors need not wait

    with exit_handling.stop_on_interrupt() as stopped:
        return watch_training(training, stopped, outputs, pictures)


def list_tasks_or_refuse(typed: TypedOptions) -> None:
    """Print the tasks if no option was typed; refuse options without a task."""
    if typed.names:
        raise AttnvizError(
            "there is no task to learn",
            f"name one of: {', '.join(TASKS)}; {cmd.learn} lists them",
        )
    from attnviz.cli.listings import list_tasks

    list_tasks()


def begin_training(options: LearnOptions, choices: Choices, typed: dict[str, Any]) -> Training:
    """Return the training of a new model, not yet begun.

    `typed`: options in place of the task's settings. Refuses an unknown task, --file beside a task,
    and impossible settings.
    """
    request = build_task_request(options)
    task = requested_task(request)
    settings = task_settings_with(task, typed)

    from attnviz.learning.training import Training

    return Training(task, settings, choices, options.watch, asked=request)


def build_task_request(options: LearnOptions) -> dict[str, str]:
    """Return where the task comes from: {'task': name} or {'file': path, 'tokenizer': name}.

    Refuses --tokenizer without --file, and --file beside a task.
    """
    if options.file is None:
        if options.tokenizer is not None:
            raise AttnvizError(
                f"{opt.tokenizer} splits lines of your own; a task has words of its own",
                f"leave it out, or give lines with {opt.file}",
                about="tokenizer",
            )
        assert options.task is not None
        return {"task": options.task}
    if options.task is not None:
        raise AttnvizError(
            f"{opt.file} and a task are both given: {options.task}", "leave one of them out"
        )
    return {"file": str(options.file), "tokenizer": options.tokenizer or next(iter(LINE_PIECES))}


def continue_training(options: LearnOptions, choices: Choices, typed: dict[str, Any]) -> Training:
    """Return the training saved in the folder of --from, ready to continue.

    Refuses options that would change the model (`typed` except the device, --watch, --tokenizer), a
    folder without a training, and a task that is another or has changed. Choices that are not given
    are those of the saved training.
    """
    folder = options.from_
    assert folder is not None
    device_setting = {"device": typed.pop("device")} if "device" in typed else {}
    others = [name for name in ("watch", "tokenizer") if getattr(options, name) is not None]
    for name in (*typed, *others):
        raise AttnvizError(
            f"{opt.from_} continues a training with its own settings, and "
            f"{opt[name]} would change them",
            f"leave {opt[name]} out, or {opt.from_}",
        )
    refuse_missing_training(folder)

    from attnviz.learning.progress import read_progress
    from attnviz.learning.training import Training

    progress = read_progress(folder)
    request = _renew_task_request(options, progress.asked)
    if options.task is None and options.file is None:
        task = task_of_saved_model(request, progress.source, folder)
    else:
        task = requested_task(request)
    _refuse_changed_task(task, request, progress, folder)
    choices = choices.over(progress.choices)
    settings = replace(progress.model.settings, **device_setting)
    return Training(task, settings, choices, progress.watch, progress, request)


def _renew_task_request(
    options: LearnOptions, saved_request: Mapping[str, str]
) -> Mapping[str, str]:
    """Return where the saved task comes from, with the path that was typed now, if any.

    A file may have moved; another task, or a file of another name, is refused.
    """
    if options.task is None and options.file is None:
        return saved_request
    kind, typed = next(iter(build_task_request(options).items()))
    name = saved_request.get(kind, "")
    is_same_kind = kind == "file" or is_task_path(typed) is is_task_path(name)
    if not is_same_kind or Path(typed).name != Path(name).name:
        saved = saved_request.get("task", saved_request.get("file"))
        raise AttnvizError(
            f"'{options.from_}' learns '{saved}', but {typed} is given",
            f"leave {typed} out, or {opt.from_}",
        )
    return {**saved_request, kind: typed}


def _refuse_changed_task(
    task: Task, request: Mapping[str, str], progress: Progress, folder: Path
) -> None:
    """Refuse a task whose words or measures of heads differ from those of the saved training."""
    name = request.get("task", request.get("file"))
    same_words = task.vocabulary == progress.model.vocabulary
    if same_words and {reading.name for reading in task.readings} == {*progress.moments[0].scores}:
        return
    words = name if "task" in request else f"--file {name}"
    raise AttnvizError(
        f"the {'readings' if same_words else 'words'} of {name} are not those that the model in "
        f"'{folder}' learned",
        f"start a new training: {cmd.learn:{words}}",
    )


def _refuse_finished_training(training: Training, folder: Path) -> None:
    """Refuse to continue a training that is done, whether by its steps or by its accuracy."""
    if not training.done:
        return
    last = training.moments[-1]

    from attnviz.views.conclusions.learning_findings import accuracy_text

    steps, until = training.choices.steps or 0, training.choices.until or 0
    if last.step >= steps:
        problem = f"the model in '{folder}' has already learned for {counted(last.step, 'step')}"
        raise AttnvizError(problem, f"try {opt.steps:{2 * max(last.step, 1)}}")
    right_text = accuracy_text(last.accuracy, training.task.answer_noun)
    raise AttnvizError(
        f"in the model in '{folder}', {right_text} already; the goal is {until:g}",
        f"try {opt.steps:{2 * max(last.step, 1)}}, which continues whatever the accuracy is",
    )


def _deliver_learned(
    learned: Learned,
    view: View,
    outputs: OutputOptions,
    pictures: PictureOptions,
    *,
    on_screen: bool,
) -> None:
    """Write or print the view of what was learned, and its headline where no table is printed.

    `on_screen`: the training was drawn on a screen, so that without --out or --json only the
    headline is printed. A training that ended in NaN gets a note.
    """
    if outputs.out or outputs.json or not on_screen:
        output.deliver_view(view, outputs, pictures)
    if not outputs.json and (outputs.out or on_screen):
        print_result_line(view.headline)
    if learned.ended == "nan" and not outputs.quiet:
        print_message(f"note: a lower --rate than {learned.choices.rate:g} may help")


def _save_training(folder: Path, progress: Progress, *, quiet: bool) -> None:
    """Write a training into a folder; unless `quiet`, print how the model is used."""
    from attnviz.learning.progress import write_progress

    write_progress(folder, progress)
    if not quiet:
        print_message(
            f"wrote {folder}; use it with: attnviz run TEXT --model {shell_quote(str(folder))}"
        )
