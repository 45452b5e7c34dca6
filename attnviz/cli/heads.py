"""`attnviz heads`: which heads of a model matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from attnviz.cli import output
from attnviz.cli.help import section_option
from attnviz.cli.options import accept_options
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import ModelOptions
from attnviz.errors import AttnvizError
from attnviz.learning.task_names import TASKS
from attnviz.renderers import suffixes
from attnviz.traces.early_checks import refuse_ranking_trained
from attnviz.traces.models.model_names import find_model_path, shipped_names
from attnviz.wording.commands import Command, changed_options

SENTENCE_OPTIONS = ("query", "full")  # the command takes no sentence
ANSWERING_MODELS = [name for name in shipped_names() if name in TASKS]


@dataclass(frozen=True, kw_only=True)
class AnsweringModelOptions(ModelOptions):
    """The option --model of `attnviz heads`: a model that answers a task.

    Only of such a model can a head that is switched off cost accuracy.
    """

    model: Annotated[
        str | None,
        section_option(
            "Model",
            "--model",
            "-m",
            metavar="NAME",
            help=f"The model whose heads are ranked: {', '.join(ANSWERING_MODELS)}, or a folder "
            "that attnviz learn --save wrote.",
            short=f"The model: {', '.join(ANSWERING_MODELS)}, or a folder that attnviz learn "
            "wrote.",
            example="agreement",
            among=ANSWERING_MODELS,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HeadsOptions:
    """The option --task of `attnviz heads`: the task on which the heads are tested."""

    task: Annotated[
        str | None,
        section_option(
            "Model",
            "--task",
            metavar="TASK",
            help=f"The task whose sentences the model is tested on: {', '.join(TASKS)}.  "
            "[default: the one that it learned]",
            among=[*TASKS],
            example="reverse",
        ),
    ] = None


@accept_options(without=SENTENCE_OPTIONS)
def heads_command(
    model: AnsweringModelOptions,
    heads_options: HeadsOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Rank the heads of a model by the accuracy lost without each.

    The model is tested on sentences that it did not learn from, with one head off at a time.
    Beside each loss is what the head reads (attends to): weights show where a head looks, this
    shows whether it matters.

    \b
    attnviz heads --model agreement
    attnviz heads --model my-model -o heads.csv
    """
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    if model.model is None:
        model_name = next(iter(ANSWERING_MODELS), "FOLDER")
        raise AttnvizError(
            "no model is given, so there are no heads to rank", f"try --model {model_name}"
        )
    refuse_ranking_trained(model.model)
    find_model_path(model.model)

    from attnviz.analysis.head_accuracy import rank  # torch, for which errors need not wait

    command = Command(name="heads", options=changed_options(model, heads_options))
    line = command.with_options(**changed_options(outputs, pictures)).line
    view = rank(model.model, heads_options.task).view_for_command(command=command, line=line)
    output.deliver_view(view, outputs, pictures)
