"""`attnviz learn`: trains a small model, shows and saves it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.cli import output
from attnviz.cli.messages import print_message, print_result_line
from attnviz.cli.options import accept_options, typed_command_line
from attnviz.cli.training_options import choices_from_options, task_settings_with
from attnviz.errors import AttnvizError, cmd, opt
from attnviz.learning.choices import Choices, refuse_missing_training, refuse_save_folder
from attnviz.learning.lookup import requested_task, task_of_saved_model
from attnviz.learning.task_names import LINE_PIECES, TASKS, is_task_path
from attnviz.machine import exit_handling
from attnviz.options.option import CommandOptions, option_class
from attnviz.options.output import DeliveryOptions, LiveOptions
from attnviz.options.traces import AttentionOptions, BlockOptions, NumberOptions
from attnviz.options.training import LearnOptions, TrainingOptions
from attnviz.renderers import refuse_live_without_page, suffixes
from attnviz.wording.commands import shell_quote
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from attnviz.learning.progress import Progress
    from attnviz.learning.task import Task
    from attnviz.learning.training import Learned, Training
    from attnviz.views.view import View

SETTING_GROUPS = (AttentionOptions, NumberOptions, BlockOptions)
# A model that learns has its own vectors, and no second sentence.
EXCLUDED_LEARN_OPTIONS = ("embeddings", "dropout", "memory", "dtype")


@option_class(frozen=True, kw_only=True)
class LearnCommandOptions(
    LearnOptions,
    TrainingOptions,
    AttentionOptions,
    NumberOptions,
    BlockOptions,
    DeliveryOptions,
    LiveOptions,
    CommandOptions,
):
    """The options of `attnviz learn`."""


@accept_options(without=EXCLUDED_LEARN_OPTIONS, of_a_task=SETTING_GROUPS)
def learn_command(options: LearnCommandOptions) -> None:
    """Train a small model on a task, and watch its attention form.

    On a terminal, its heatmaps, its loss and what each head does are drawn while it learns.
    Ctrl-C ends the training early and keeps what was learned so far.

    \b
    attnviz learn reverse
    attnviz learn reverse --heads 2 --steps 200
    """
    if options.task is None and options.from_ is None and options.file is None:
        list_tasks_or_refuse(options.typed)
        return
    output.refuse_undeliverable(options, suffixes("arrays"))
    if options.live:
        refuse_live_without_page(options.out)
    if options.save is not None:
        refuse_save_folder(options.save)
    training = _prepare_training(options)
    on_screen = not training.done and _train_watched(training, options)
    if options.save is not None:
        _save_training(options.save, training.progress(), quiet=options.quiet)
    line = typed_command_line("learn", options)
    view = training.learned().view_for_command(query=options.query, command=line, live=options.live)
    _deliver_learned(training.learned(), view, options, on_screen=on_screen)


def _prepare_training(options: LearnCommandOptions) -> Training:
    """Return a new training, or the one that is continued; refuse one that is already done, and a
    model that is too large for a page."""
    start_training = begin_training if options.from_ is None else continue_training
    choices, typed = choices_from_options(options), options.typed_values(*SETTING_GROUPS)
    training = start_training(options, choices, typed)
    if options.live:
        from attnviz.views.live_page import refuse_large_model

        refuse_large_model(sum(each.numel() for each in training.model.parameters.values()))
    if options.from_ is not None and not (options.out or options.json):
        _refuse_finished_training(training, options.from_)
    return training


def _train_watched(training: Training, options: LearnCommandOptions) -> bool:
    """Train until it is done, or until Ctrl-C; return whether the progress was drawn on a screen.

    Refuses a --query that the watched sentence does not have.
    """
    if options.query is not None:
        training.task.vocabulary.as_read(training.watched).index(options.query, "query")

    from attnviz.cli.live import watch_training  # torch, for which errors need not wait

    with exit_handling.stop_on_interrupt() as stopped:
        return watch_training(training, stopped, options)


def list_tasks_or_refuse(typed: Collection[str]) -> None:
    """Print the tasks if no option was typed; refuse options without a task."""
    if typed:
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
    learned: Learned, view: View, options: DeliveryOptions, *, on_screen: bool
) -> None:
    """Write or print the view of what was learned, and its headline where no table is printed.

    `on_screen`: the training was drawn on a screen, so that without --out or --json only the
    headline is printed. A training that ended in NaN gets a note.
    """
    if options.out or options.json or not on_screen:
        output.deliver_view(view, options)
    if not options.json and (options.out or on_screen):
        print_result_line(view.headline)
    if learned.ended == "nan" and not options.quiet:
        print_message(f"note: a lower --rate than {learned.choices.rate:g} may help")


def _save_training(folder: Path, progress: Progress, *, quiet: bool) -> None:
    """Write a training into a folder; unless `quiet`, print how the model is used."""
    from attnviz.learning.progress import write_progress

    write_progress(folder, progress)
    if not quiet:
        print_message(
            f"wrote {folder}; use it with: attnviz run TEXT --model {shell_quote(str(folder))}"
        )
