"""The options of comparisons: what is compared with what."""

from __future__ import annotations

from attnviz.options.option import NOT_IN_PYTHON, option_group, options_under

ASPECTS = "attnviz.analysis.aspects"
comparison_option = options_under("Comparison")

# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared with what."""

    other: str | None = options_under("Text")(metavar="OTHER", is_argument=True,
        shows_default=False, is_recorded=False, help="A second sentence, compared with the first.")
    learn: str | None = comparison_option(metavar="TASK", example="reverse",
        choices="attnviz.learning.task_names:TASKS", is_recorded=False, python=NOT_IN_PYTHON,
        short="Compare how models learn a task: --learn reverse --by heads",
        help="Instead of a text: train a small model on a task in each way, all on the same "
        "sentences: {choices}.")
    checkpoints: list[str] = comparison_option([], metavar="FOLDERS", example="'run/checkpoint-*'",
        is_path=True,
        help="Compare the checkpoints of a training, in the order of their steps: several folders "
        "or .gguf files, or a pattern in quotes, such as 'run/checkpoint-*'.")
    by: str | None = comparison_option(metavar="WHAT", choices=f"{ASPECTS}:ASPECT_SUMMARIES",
        sources={"aspects": f"{ASPECTS}:ASPECTS", "training": f"{ASPECTS}:TRAINING_ASPECTS"},
        also="vary sweep versus vs against", short="What differs: {aspects}.",
        help="What differs: {aspects:about}; with --learn {training}.  [default: scale]")
    values: str | None = comparison_option(metavar="A,B,…", example="8,64",
        choices_beside=f"{ASPECTS}:values_beside", several=True,
        short="The values to compare: --by dim --values 8,64",
        help="The values to compare, separated by commas.  [default: sensible ones]")
    reference: str | None = comparison_option(metavar="VALUE", example="scaled",
        help="The value that is subtracted from the others.  [default: the first]")
    repeats: int = comparison_option(20, metavar="N", also="runs trials samples n-seeds seeds",
        short="How many seeds conclusions are based on, if not 20: --repeats 100",
        help="How many seeds conclusions and curves are based on; with --learn 10 by default.")
    layer: int | None = comparison_option(metavar="N", example="0",
        help="Which layer of a model, from 0.  [default: the last; of transformers, and of two "
        "models, all]")
    head: int | None = comparison_option(metavar="N", example="0",
        help="Only this head of a transformer, or of two models, from 0.  [default: all]")
    mean: bool = comparison_option(False, help="Show the mean of the heads instead of each head.")
    curves: bool = comparison_option(False, help="Show only the curves.")

    def value_names(self) -> list[str] | None:
        """Return the values after --values, split at commas; None if the option is not given."""
        if self.values is None:
            return None
        return [value.strip() for value in self.values.split(",") if value.strip()]
