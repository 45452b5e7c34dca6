"""`attnviz heads`: which heads of a model matter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from attnviz.cli import output
from attnviz.cli.corpus import EffectOptions, deliver_corpus_effects
from attnviz.cli.help import section_option
from attnviz.cli.options import accept_options
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import ModelOptions, TrainedOptions
from attnviz.errors import AttnvizError
from attnviz.learning.task_names import TASKS
from attnviz.renderers import suffixes
from attnviz.traces.early_checks import refuse_ranking_trained
from attnviz.traces.models.model_names import MINILM, find_model_path, shipped_names
from attnviz.traces.settings import TRAINED_ONLY_RULES, Settings
from attnviz.traces.trained.model_location import is_trained
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.rules import check_rules
from attnviz.wording.surfaces import opt

SENTENCE_OPTIONS = ("query", "full")  # the command takes no sentence
ANSWERING_MODELS = [name for name in shipped_names() if name in TASKS]

_heads_option = partial(section_option, "Heads")


@dataclass(frozen=True, kw_only=True)
class AnsweringModelOptions(ModelOptions):
    """The option --model of `attnviz heads`: a model that answers a task, or a transformer.

    Only of the first can a head that is switched off cost accuracy.
    """

    model: Annotated[
        str | None,
        section_option(
            "Model",
            "--model",
            "-m",
            metavar="NAME",
            help=f"The model whose heads are ranked: {', '.join(ANSWERING_MODELS)}, or a folder "
            "that attnviz learn --save wrote; with --texts, a trained transformer.",
            short=f"The model: {', '.join(ANSWERING_MODELS)}, or a folder that attnviz learn "
            f"wrote; with --texts a trained transformer, such as {MINILM}.",
            example="agreement",
            among=ANSWERING_MODELS,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HeadsOptions:
    """The options of `attnviz heads` about the heads: the task on which those of a model that
    learned one are tested, and which heads of a trained transformer are switched off."""

    task: Annotated[
        str | None,
        section_option(
            "Model",
            metavar="TASK",
            help=f"The task whose sentences the model is tested on: {', '.join(TASKS)}.  "
            "[default: the one that it learned]",
            among=[*TASKS],
            example="reverse",
        ),
    ] = None
    layer: Annotated[
        str | None,
        _heads_option(
            metavar="N",
            help="With --texts: only heads of this layer, from 0, or of several: 4,5.",
            example="4",
        ),
    ] = None
    head: Annotated[
        str | None,
        _heads_option(
            metavar="N",
            help="With --texts: only this head, from 0, or several: 1,11. Its name L5H11 says its "
            "layer, too.",
            example="7",
        ),
    ] = None

    @property
    def chosen_heads(self) -> dict[str, str]:
        given = {"layer": self.layer, "head": self.head}
        return {name: value for name, value in given.items() if value is not None}


@accept_options(without=SENTENCE_OPTIONS)
def heads_command(
    model: AnsweringModelOptions,
    heads_options: HeadsOptions,
    effect: EffectOptions,
    trained: TrainedOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Rank the heads of a model by the accuracy lost without each.

    The model is tested on sentences that it did not learn from, with one head off at a time.
    Beside each loss is what the head reads (attends to): weights show where a head looks, this
    shows whether it matters. With --texts: how much the output of a trained transformer changes
    without each head, on average over your own texts.

    \b
    attnviz heads --model agreement
    attnviz heads --model minilm --texts texts.txt -o heads.csv
    """
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    if model.model is None:
        model_name = next(iter(ANSWERING_MODELS), "FOLDER") if effect.texts is None else MINILM
        raise AttnvizError(
            "no model is given, so there are no heads to rank", f"try {opt.model:{model_name}}"
        )
    effect.refuse_without_texts(heads_options.chosen_heads)
    groups = (model, heads_options, effect, trained)
    command = Command(name="heads", options=changed_options(*groups))
    settings = replace(Settings(model=model.model), **vars(trained))
    if effect.texts is not None:
        refuse_task_beside_texts(model.model, heads_options.task)
        chosen = heads_options.chosen_heads | effect.changed()
        deliver_corpus_effects(command, effect.texts, settings, chosen, outputs, pictures)
        return
    refuse_ranking_trained(model.model)
    check_rules(settings, TRAINED_ONLY_RULES)
    find_model_path(model.model)

    from attnviz.analysis.head_accuracy import rank  # torch, for which errors need not wait

    output.deliver_result(rank(model.model, heads_options.task), command, outputs, pictures)


def refuse_task_beside_texts(model: str, task: str | None) -> None:
    """Refuse a model that learned a task beside --texts, and a task beside them."""
    if not is_trained(model):
        raise AttnvizError(
            f"{opt.texts} ranks the heads of a trained transformer, but '{model}' is not one",
            f"leave {opt.texts} out: the heads of '{model}' are ranked on sentences of its task",
            about="texts",
        )
    if task is not None:
        raise AttnvizError(
            f"{opt.task} and {opt.texts} are both given", "give one of them", about="task"
        )
