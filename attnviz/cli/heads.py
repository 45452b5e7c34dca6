"""`attnviz heads`: which heads of a model matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from attnviz.cli import output
from attnviz.cli.help import in_section
from attnviz.cli.making import ModelOptions
from attnviz.cli.options import accepts
from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError
from attnviz.learning.names import TASKS
from attnviz.renderers import suffixes
from attnviz.traces.models.names import names, place_of
from attnviz.traces.trained.asked import refuse_ranking
from attnviz.wording.commands import Command, chosen

OF_A_SENTENCE = ("query", "full")  # and there is none


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


@accepts(ModelOptions, HeadsOptions, OutputOptions, PictureOptions, without=OF_A_SENTENCE)
def heads(
    model: ModelOptions, tried: HeadsOptions, wanted: OutputOptions, pictures: PictureOptions
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
        raise AttnvizError(
            "no model is given, so there are no heads to rank", f"try --model {_one()}"
        )
    refuse_ranking(model.model)
    place_of(model.model)

    from attnviz.analysis.heads import rank  # torch, for which errors need not wait

    made = Command(name="heads", options=chosen(model, tried))
    output.deliver(rank(model.model, tried.task).view(command=made), wanted, pictures)


def _one() -> str:
    """A model that answers, if one comes with attnviz."""
    return next((name for name in names() if name in TASKS), "FOLDER")
