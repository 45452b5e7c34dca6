"""The options about heads: which are shown, how, and what is measured with heads switched off."""

from __future__ import annotations

from pathlib import Path

from attnviz.options.option import option_group, options_under
from attnviz.options.values import AblationValue, By, Draw, Merge, Rank, Weigh

INSPECT_OPTIONS = "attnviz.analysis.inspection.inspect_options"
heads_option = options_under("Heads")


@option_group(frozen=True, kw_only=True)
class LookingOptions:
    """Which heads of a trained model are shown, and how."""

    layer: int | str | None = heads_option(  # its number; of several: "4,5"
        metavar="N",
        help="Only this layer, from 0, or several: 4,5.",
        short="One layer; with --head one head of it: --layer 4 --head 7",
        example="4",
    )
    head: int | str | None = heads_option(  # its number, or its name; of several: "1,L5H11"
        metavar="N",
        help="Only this head, from 0, or several: 1,11. Its name L5H11 says its layer, too.",
        example="7",
    )
    source: int | str | None = heads_option(
        None,
        "--from",
        metavar="TOKEN",
        help="Rank the heads by how much this token attends to --to.",
        short="Rank the heads by one link: --from it --to animal",
        example="it",
        is_token=True,
    )
    to: int | str | None = heads_option(
        metavar="TOKEN",
        help="The token that --from attends to.",
        example="animal",
        is_token=True,
    )
    rank: Rank = heads_option(
        "lift",
        metavar="HOW",
        help="How --from sorts heads: {choices:about; }.",
        choices=f"{INSPECT_OPTIONS}:RANK_DESCRIPTIONS",
    )
    by: By = heads_option(
        "pattern",
        metavar="KIND",
        help="What heads are ranked by: {choices:about; }.",
        choices=f"{INSPECT_OPTIONS}:BY_DESCRIPTIONS",
    )
    merge: Merge | None = heads_option(
        metavar="HOW",
        help="Several heads as one: {choices:about; }.",
        example="mean",
        choices=f"{INSPECT_OPTIONS}:MERGE_DESCRIPTIONS",
    )
    weigh: Weigh = heads_option(
        "weight",
        metavar="HOW",
        help="Each weight as it is (weight); times the length of the vector it passes on (norm); "
        "times the gradient of a prediction (gradient).",
        choices=f"{INSPECT_OPTIONS}:WEIGH_DESCRIPTIONS",
    )
    hide_special: bool = heads_option(
        False, help="Leave out tokens that the tokenizer added, such as [CLS]."
    )
    hide_first: bool = heads_option(False, help="Leave out the first token, which is often a sink.")
    renormalise: bool = heads_option(False, help="Scale what is left so that rows sum to 1.")
    words: bool = heads_option(False, help="Combine the pieces of each word.")
    by_sentence: bool = heads_option(False, help="A row and a column for each sentence.")
    part: str | None = heads_option(
        None,
        "--window",
        metavar="A:B",
        help="Only these rows of the maps and, after a comma, only these columns: 3:8,1:2.",
        example="3:5",
    )
    predict: bool = heads_option(False, help="Also show what the model answers.")
    as_: Draw | None = heads_option(
        None,
        "--as",
        metavar="WAY",
        help="How weights are drawn: {choices:about}.",
        short="Draw lines between words: --layer 5 --head 11 --as arcs",
        choices=f"{INSPECT_OPTIONS}:DRAW_DESCRIPTIONS",
    )


@option_group(frozen=True, kw_only=True)
class CheckOptions:
    """Whether the numbers of a trained model are checked."""

    verify: bool = heads_option(
        False,
        help="Check the numbers, also against the model's own attention.",
        python="-",
    )


@option_group(frozen=True, kw_only=True)
class SwitchingOptions:
    """What is compared when heads are switched off, and in which way."""

    toward: str | None = heads_option(
        metavar="TOKEN",
        help="The answer whose logit, minus that of --instead-of, heads change; or whose gradient "
        "--weigh gradient takes.  [default: the most likely one]",
        example="tired",
    )
    instead_of: str | None = heads_option(
        metavar="TOKEN", help="The answer that --toward is compared with.", example="wide"
    )
    ablation: AblationValue = heads_option(
        "zero",
        metavar="HOW",
        help="What a head that is switched off writes: {choices:about; }.",
        choices=f"{INSPECT_OPTIONS}:ABLATION_DESCRIPTIONS",
    )
    pairs: int | None = heads_option(
        metavar="N", help="Also switch off all pairs of the N strongest heads.", example="4"
    )


@option_group(frozen=True, kw_only=True)
class TextsOptions:
    """The texts on which heads are switched off."""

    texts: Path | None = heads_option(
        metavar="PATH",
        help="Switch the heads of a trained transformer off on many texts: a UTF-8 file with one "
        "on each line, perhaps followed by two answers whose logits are compared, with tabs "
        "between. Blank lines separate documents.",
        short="Switch heads off on many texts, one on each line of a file: --texts texts.txt",
        example="texts.txt",
        is_path=True,
        is_read=True,
        is_recorded=False,
        python="Path(",
    )


@option_group(frozen=True, kw_only=True)
class EffectOptions(TextsOptions, SwitchingOptions):
    """Switching heads off: on which texts, what is compared, in which way."""


@option_group(frozen=True, kw_only=True)
class TestedTaskOptions:
    """The task on whose sentences a model is tested, with one head off at a time."""

    task: str | None = options_under("Model")(
        metavar="TASK",
        help="The task whose sentences the model is tested on: {choices}.  [default: the one that "
        "it learned]",
        choices="attnviz.learning.task_names:TASKS",
        example="reverse",
        is_recorded=False,
    )
