"""The options of comparisons: what is compared with what."""

from __future__ import annotations

from attnviz.options.option import option_group, options_under

ASPECTS = "attnviz.analysis.aspects"
comparison_option = options_under("Comparison")


@option_group(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared with what."""

    other: str | None = options_under("Text")(
        metavar="OTHER",
        help="A second sentence, compared with the first.",
        is_argument=True,
        shows_default=False,
        is_recorded=False,
    )
    learn: str | None = comparison_option(
        metavar="TASK",
        help="Instead of a text: train a small model on a task in each way, all on the same "
        "sentences: {choices}.",
        short="Compare how models learn a task: --learn reverse --by heads",
        example="reverse",
        choices="attnviz.learning.task_names:TASKS",
        is_recorded=False,
    )
    checkpoints: list[str] = comparison_option(
        [],
        metavar="FOLDERS",
        help="Compare the checkpoints of a training, in the order of their steps: several folders "
        "or .gguf files, or a pattern in quotes, such as 'run/checkpoint-*'.",
        example="'run/checkpoint-*'",
        is_path=True,
    )
    by: str | None = comparison_option(
        metavar="WHAT",
        help="What differs: {aspects:about}; with --learn {training}.  [default: scale]",
        short="What differs: {aspects}.",
        choices=f"{ASPECTS}:ASPECT_SUMMARIES",
        sources={"aspects": f"{ASPECTS}:ASPECTS", "training": f"{ASPECTS}:TRAINING_ASPECTS"},
        also="vary sweep versus vs against",
    )
    values: str | None = comparison_option(
        metavar="A,B,…",
        help="The values to compare, separated by commas.  [default: sensible ones]",
        short="The values to compare: --by dim --values 8,64",
        example="8,64",
        choices_beside=f"{ASPECTS}:values_beside",
        several=True,
    )
    reference: str | None = comparison_option(
        metavar="VALUE",
        help="The value that is subtracted from the others.  [default: the first]",
        example="scaled",
    )
    repeats: int = comparison_option(
        20,
        metavar="N",
        help="How many seeds conclusions and curves are based on; with --learn 10 by default.",
        short="How many seeds conclusions are based on, if not 20: --repeats 100",
        also="runs trials samples n-seeds seeds",
    )
    layer: int | None = comparison_option(
        metavar="N",
        help="Which layer of a model, from 0.  [default: the last; of transformers, and of two "
        "models, all]",
        example="0",
    )
    head: int | None = comparison_option(
        metavar="N",
        help="Only this head of a transformer, or of two models, from 0.  [default: all]",
        example="0",
    )
    mean: bool = comparison_option(False, help="Show the mean of the heads instead of each head.")
    curves: bool = comparison_option(False, help="Show only the curves.")

    def value_names(self) -> list[str] | None:
        """Return the values after --values, split at commas; None if the option is not given."""
        if self.values is None:
            return None
        return [value.strip() for value in self.values.split(",") if value.strip()]
