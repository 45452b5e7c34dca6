"""The options of training: how long, how fast, on what, and where the model is saved."""

from __future__ import annotations

from pathlib import Path

from attnviz.options.option import NOT_IN_PYTHON, option_group, options_under

TASKS = "attnviz.learning.task_names:TASKS"
LINE_PIECES = "attnviz.learning.task_names:LINE_PIECES"
learning_option = options_under("Learning")

# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class TrainingOptions:
    """How long a model learns, from how many sentences at a time, and how fast."""

    steps: int | None = learning_option(metavar="N", example="1000", is_recorded=False,
        also="epochs iterations iters max-steps n-steps",
        short="Learn for N steps, however accurate the model is: --steps 1000",
        help="Learn for N steps at most; without --until for exactly N, however accurate the "
        "model is.  [default: the task's]")
    until: float | None = learning_option(metavar="SHARE", example="0.95", is_recorded=False,
        also="accuracy target patience stop-at",
        short="Learn until this share of answers is correct: --until 0.95",
        help="Learn until this share of the answers is correct, on held-out sentences.  [default: "
        "the task's]")
    batch: int | None = learning_option(metavar="N", example="64", is_recorded=False,
        also="batch-size", help="How many sentences each step learns from.  [default: the task's]")
    rate: float | None = learning_option(metavar="X", example="0.003", is_recorded=False,
        also="lr learning-rate", help="The learning rate (of AdamW).  [default: the task's]")


@option_group(frozen=True, kw_only=True)
class LearnOptions:
    """What is learned, and where the model is saved."""

    task: str | None = learning_option(metavar="TASK", choices=TASKS, is_argument=True,
        shows_default=False, is_read=True, is_recorded=False,
        short="The task: {choices}, or a grammar of your own; without it, they are listed.",
        help="The task: {choices}; or your own: a grammar (mine.toml).  [default: list the tasks]")
    file: Path | None = learning_option(metavar="PATH", example="lines.txt", is_path=True,
        is_read=True, python="Path(",
        short="Instead of a task: learn to continue lines: --file lines.txt",
        help="Instead of a task: learn to continue the lines of a UTF-8 file; one line in ten is "
        "held out.")
    tokenizer: str | None = learning_option(None, "--tokenizer", "-t", metavar="NAME",
        choices=LINE_PIECES, example="chars",
        help="How those lines are cut into tokens: {choices}.  [default: words]")
    watch: str | None = learning_option(metavar="TEXT", example='"a b c d e f g h"',
        is_recorded=False, also="example-sentence probe",
        short='The sentence that is drawn: --watch "a b c d e f g h"',
        help="The sentence whose heatmaps are drawn, in the task's own words.")
    save: Path | None = learning_option(metavar="FOLDER", example="my-model", is_path=True,
        is_read=True, is_recorded=False, python=NOT_IN_PYTHON,
        short="Save the model: --save my-model; then attnviz run TEXT --model my-model",
        help="Save the model (for --model in run and steps) and everything that --from needs.")
    from_: Path | None = learning_option(None, "--from", metavar="FOLDER", example="my-model",
        is_path=True, is_read=True, is_recorded=False, python=NOT_IN_PYTHON,
        also="resume continue restart",
        short="Continue a saved training: --from my-model --steps 1000",
        help="Continue the training that --save saved.")
