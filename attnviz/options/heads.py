"""The options of heads of a model: which are shown, how, and what switching them off measures."""

from __future__ import annotations

from pathlib import Path

from attnviz.options.option import NOT_IN_PYTHON, option_group, options_under
from attnviz.options.values import AblationValue, By, Draw, Merge, Rank, Weigh

INSPECT_OPTIONS = "attnviz.analysis.inspection.inspect_options"
heads_option = options_under("Heads")

# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class LookingOptions:
    """Which heads of a trained model are shown, and how."""

    # its number; of several: "4,5"
    layer: int | str | None = heads_option(metavar="N", example="4",
        short="One layer; with --head one head of it: --layer 4 --head 7",
        help="Only this layer, from 0, or several: 4,5.")
    # its number, or its name; of several: "1,L5H11"
    head: int | str | None = heads_option(metavar="N", example="7",
        help="Only this head, from 0, or several: 1,11. Its name L5H11 says its layer, too.")
    source: int | str | None = heads_option(None, "--from", metavar="TOKEN", example="it",
        is_token=True, short="Rank the heads by one link: --from it --to animal",
        help="Rank the heads by how much this token attends to --to.")
    to: int | str | None = heads_option(metavar="TOKEN", example="animal", is_token=True,
        help="The token that --from attends to.")
    rank: Rank = heads_option("lift", metavar="HOW", choices=f"{INSPECT_OPTIONS}:RANK_DESCRIPTIONS",
        help="How --from sorts heads: {choices:about; }.")
    by: By = heads_option("pattern", metavar="KIND", choices=f"{INSPECT_OPTIONS}:BY_DESCRIPTIONS",
        help="What heads are ranked by: {choices:about; }.")
    merge: Merge | None = heads_option(metavar="HOW", example="mean",
        choices=f"{INSPECT_OPTIONS}:MERGE_DESCRIPTIONS",
        help="Several heads as one: {choices:about; }.")
    weigh: Weigh = heads_option("weight", metavar="HOW",
        choices=f"{INSPECT_OPTIONS}:WEIGH_DESCRIPTIONS",
        help="Each weight as it is (weight); times the length of the vector it passes on (norm); "
        "times the gradient of a prediction (gradient).")
    hide_special: bool = heads_option(False,
        help="Leave out tokens that the tokenizer added, such as [CLS].")
    hide_first: bool = heads_option(False, help="Leave out the first token, which is often a sink.")
    renormalise: bool = heads_option(False, help="Scale what is left so that rows sum to 1.")
    words: bool = heads_option(False, help="Combine the pieces of each word.")
    by_sentence: bool = heads_option(False, help="A row and a column for each sentence.")
    without_segment: int | str | None = heads_option(metavar="NAME", example='"document B"',
        help="Also hide this segment from the token that reads it, in the chosen heads, and show "
        "how the answer changes.")
    part: str | None = heads_option(None, "--window", metavar="A:B", example="3:5",
        help="Only these rows of the maps and, after a comma, only these columns: 3:8,1:2.")
    predict: bool = heads_option(False, help="Also show what the model answers.")
    as_: Draw | None = heads_option(None, "--as", metavar="WAY",
        choices=f"{INSPECT_OPTIONS}:DRAW_DESCRIPTIONS",
        short="Draw lines between words: --layer 5 --head 11 --as arcs",
        help="How weights are drawn: {choices:about}.")


@option_group(frozen=True, kw_only=True)
class SegmentOptions:
    """The parts of a prompt of which it is shown how much is read."""

    segments: str | None = heads_option(metavar="KIND", example="paragraphs", is_path=True,
        choices="attnviz.tokens.segments:SEGMENT_KINDS", shows_default=False,
        also="documents passages chunks roles sections",
        short="Which part of a prompt the answer reads: --segments paragraphs",
        help="How much the last token, or --query, reads of each part of the text: of {choices:or} "
        "(of a conversation), or of those that a .toml file names.")
    document: list[Path] = heads_option([], metavar="PATH", example="a.txt", is_path=True,
        is_read=True, python=NOT_IN_PYTHON,
        help="Put this file before the text, as a segment of its name. Several: give it again.")


@option_group(frozen=True, kw_only=True)
class CheckOptions:
    """Whether the numbers of a trained model are checked."""

    verify: bool = heads_option(False, python=NOT_IN_PYTHON,
        help="Check the numbers, also against the model's own attention.")


@option_group(frozen=True, kw_only=True)
class SwitchingOptions:
    """What is compared when heads are switched off, and in which way."""

    toward: str | None = heads_option(metavar="TOKEN", example="tired",
        help="The answer whose logit, minus that of --instead-of, heads change; or whose gradient "
        "--weigh gradient takes.  [default: the most likely one]")
    instead_of: str | None = heads_option(metavar="TOKEN", example="wide",
        help="The answer that --toward is compared with.")
    ablation: AblationValue = heads_option("zero", metavar="HOW",
        choices=f"{INSPECT_OPTIONS}:ABLATION_DESCRIPTIONS",
        help="What a head that is switched off writes: {choices:about; }.")
    pairs: int | None = heads_option(metavar="N", example="4",
        help="Also switch off all pairs of the N strongest heads.")


@option_group(frozen=True, kw_only=True)
class TextsOptions:
    """The texts on which heads are switched off."""

    texts: Path | None = heads_option(metavar="PATH", example="texts.txt", is_path=True,
        is_read=True, is_recorded=False, python="Path(",
        short="Switch heads off on many texts, one on each line of a file: --texts texts.txt",
        help="Switch the heads of a trained transformer off on many texts: a UTF-8 file with one "
        "on each line, perhaps followed by two answers whose logits are compared, with tabs "
        "between. Blank lines separate documents.")


@option_group(frozen=True, kw_only=True)
class EffectOptions(TextsOptions, SwitchingOptions):
    """Switching heads off: on which texts, what is compared, in which way."""


@option_group(frozen=True, kw_only=True)
class TestedTaskOptions:
    """The task on whose sentences a model is tested, with one head off at a time."""

    task: str | None = options_under("Model")(metavar="TASK",
        choices="attnviz.learning.task_names:TASKS", example="reverse", is_recorded=False,
        help="The task whose sentences the model is tested on: {choices}.  [default: the one that "
        "it learned]")
