"""`attnviz heads`: which heads of a model matter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attnviz.cli import output
from attnviz.cli.options import accept_options, changed_beside_output
from attnviz.errors import AttnvizError, opt
from attnviz.learning.task_names import TASKS
from attnviz.options.heads import EffectOptions, SwitchingOptions, TestedTaskOptions
from attnviz.options.option import CommandOptions, option_class, options_under, shared
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import TrainedOptions
from attnviz.renderers import suffixes
from attnviz.traces.early_checks import refuse_ranking_trained
from attnviz.traces.models.model_names import MINILM, find_model_path, shipped_names
from attnviz.traces.settings import TRAINED_ONLY_RULES, Settings
from attnviz.traces.trained.model_location import is_trained
from attnviz.wings import load_from_wing
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.rules import check_rules

SENTENCE_OPTIONS = ("query", "full")  # the command takes no sentence
model_option, heads_option = options_under("Model"), options_under("Heads")


def answering_models() -> list[str]:
    """Return the models that come with attnviz and answer a task: others lose no accuracy."""
    return [name for name in shipped_names() if name in TASKS]


@option_class(frozen=True, kw_only=True)
class HeadsOptions(
    TestedTaskOptions, EffectOptions, TrainedOptions, DeliveryOptions, CommandOptions
):
    """The options of `attnviz heads`."""

    model: str | None = model_option(
        None,
        "--model",
        "-m",
        metavar="NAME",
        help="The model whose heads are ranked: {choices}, or a folder that attnviz learn --save "
        "wrote; with --texts, a trained transformer.",
        short="The model: {choices}, or a folder that attnviz learn wrote; with --texts a trained "
        "transformer, such as minilm.",
        example="agreement",
        choices="attnviz.cli.heads:answering_models",
        is_path=True,
        is_read=True,
    )
    layer: str | None = heads_option(
        metavar="N",
        help="With --texts: only heads of this layer, from 0, or of several: 4,5.",
        example="4",
    )
    head: str | None = heads_option(
        metavar="N",
        help="With --texts: only this head, from 0, or several: 1,11. Its name L5H11 says its "
        "layer, too.",
        example="7",
    )

    @property
    def chosen_heads(self) -> dict[str, str]:
        given = {"layer": self.layer, "head": self.head}
        return {name: value for name, value in given.items() if value is not None}


@accept_options(without=SENTENCE_OPTIONS)
def heads_command(options: HeadsOptions) -> None:
    """Rank the heads of a model by the accuracy lost without each.

    The model is tested on sentences that it did not learn from, with one head off at a time.
    Beside each loss is what the head reads (attends to): weights show where a head looks, this
    shows whether it matters. With --texts: how much the output of a trained transformer changes
    without each head, on average over your own texts.

    \b
    attnviz heads --model agreement
    attnviz heads --model minilm --texts texts.txt -o heads.csv
    """
    output.refuse_undeliverable(options, suffixes("arrays"))
    if options.model is None:
        model_name = next(iter(answering_models()), "FOLDER") if options.texts is None else MINILM
        raise AttnvizError(
            "no model is given, so there are no heads to rank", f"try {opt.model:{model_name}}"
        )
    switching = changed_options(options, SwitchingOptions)
    refuse_without_texts(options.texts, [*options.chosen_heads, *switching])
    command = Command(name="heads", options=changed_beside_output(options))
    settings = shared(options, Settings)
    if options.texts is not None:
        refuse_task_beside_texts(options.model, options.task)
        chosen = options.chosen_heads | switching
        deliver_corpus_effects = load_from_wing("deliver_corpus_effects")
        deliver_corpus_effects(command, options.texts, settings, chosen, options)
        return
    refuse_ranking_trained(options.model)
    check_rules(settings, TRAINED_ONLY_RULES)
    find_model_path(options.model)

    from attnviz.analysis.head_accuracy import rank  # torch, for which errors need not wait

    output.deliver_result(rank(options.model, options.task), command, options)


def refuse_without_texts(texts: Path | None, names: Iterable[str]) -> None:
    """Refuse options that only mean something with texts of one's own, if none are given."""
    for name in names if texts is None else ():
        raise AttnvizError(
            f"{opt[name]} is about switching heads off on texts, and none are given",
            f"give a file with a text on each line: {opt.texts:texts.txt}",
            about=name,
        )


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
