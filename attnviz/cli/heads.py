"""`attnviz heads`: which heads of a model matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from attnviz.cli import output
from attnviz.cli.help import in_section
from attnviz.cli.options import accepts
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import ModelOptions
from attnviz.errors import AttnvizError
from attnviz.learning.names import TASKS
from attnviz.renderers import suffixes
from attnviz.traces.early_checks import refuse_ranking
from attnviz.traces.models.names import names, place_of
from attnviz.wording.commands import Command, chosen

OF_A_SENTENCE = ("query", "full")  # and there is none
THAT_ANSWER = [name for name in names() if name in TASKS]


@dataclass(frozen=True, kw_only=True)
class AnsweringModelOptions(ModelOptions):
    """A model that has learned to answer: of others no head can cost an answer."""

    model: Annotated[
        str | None,
        in_section(
            "Model",
            "--model",
            "-m",
            metavar="NAME",
            help=f"The model whose heads are ranked: {', '.join(THAT_ANSWER)}, or a folder that "
            "attnviz learn --save wrote.",
            short=f"The model: {', '.join(THAT_ANSWER)}, or a folder that attnviz learn wrote.",
            example="agreement",
            among=THAT_ANSWER,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HeadsOptions:
    """What the heads are tried on."""

    task: Annotated[
        str | None,
        in_section(
            "Model",
            "--task",
            metavar="TASK",
            help=f"The task whose sentences the model is tested on: {', '.join(TASKS)}.  "
            "[default: the one that it learned]",
            among=[*TASKS],
            example="reverse",
        ),
    ] = None


@accepts(AnsweringModelOptions, HeadsOptions, OutputOptions, PictureOptions, without=OF_A_SENTENCE)
def heads(
    model: AnsweringModelOptions,
    tried: HeadsOptions,
    wanted: OutputOptions,
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
    output.refuse_undeliverable(wanted, pictures, suffixes("arrays"))
    if model.model is None:
        one = next(iter(THAT_ANSWER), "FOLDER")
        raise AttnvizError("no model is given, so there are no heads to rank", f"try --model {one}")
    refuse_ranking(model.model)
    place_of(model.model)

    from attnviz.analysis.heads import rank  # torch, for which errors need not wait

    made = Command(name="heads", options=chosen(model, tried))
    line = made.also(**chosen(wanted, pictures)).line
    view = rank(model.model, tried.task).view(command=made, line=line)
    output.deliver(view, wanted, pictures)
