"""What became of the loss, the accuracy and the heads' scores, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.cells import Whole
from attnviz.learning.training import Learned
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale, colorless
from attnviz.views.learned.found import Found, heads_of, name_of_head
from attnviz.wording.words import counted

SCORE = "score = mean weight on the tokens that should be read"


def curves_of(
    learned: Learned, found: Sequence[Found], named: Sequence[int], until: int | None = None
) -> list[Curves]:
    """The loss; and on a second scale, from 0 to 1, accuracy and the scores of the best heads.

    The places of some moments are named below; of a film only so many moments have come.
    """
    steps = tuple(float(moment.step) for moment in learned.moments)
    places = tuple(steps[place] for place in named)
    lost = np.array([moment.loss for moment in learned.moments])
    right = np.array([moment.accuracy for moment in learned.moments])
    lines = [_curve(each.reading.name, each.course) for each in found]
    shares = (*lines, _curve("accuracy", right, plain=True))
    note = f"{SCORE} · scores and accuracy" if found else "accuracy"
    return [
        Curves("loss", "step", steps, (_curve("loss", lost, plain=True),), "", places, until),
        Curves(
            "scores and accuracy" if found else "accuracy",
            "step",
            steps,
            shares,
            f"{note} {_where(learned)}",
            places,
            until,
            reach=1.0,
        ),
    ]


def _curve(name: str, values: np.ndarray, *, plain: bool = False) -> Curve:
    return Curve(name, values, values, values, plain=plain)


def history(learned: Learned, found: Sequence[Found], shown: Sequence[int]) -> Grid:
    """The same as numbers, of a few moments: a row for each."""
    moments = [learned.moments[place] for place in shown]
    columns = {
        "loss": np.array([moment.loss for moment in moments]),
        "accuracy": np.array([moment.accuracy for moment in moments]),
        **{f"{each.head} {each.reading.name}": each.course[list(shown)] for each in found},
    }
    return Grid(
        "on the way",
        plain_axis("step", [f"step {moment.step:,}" for moment in moments]),
        plain_axis("measure", [*columns]),
        _table(np.stack([*columns.values()], axis=1)),
        colorless("measure"),
        note=f"loss on the sentences learned from · accuracy {_where(learned)}",
    )


def scores_of_heads(learned: Learned, found: Sequence[Found]) -> Grid:
    """What each head came to do: a row for each, a column for each reading."""
    heads = heads_of(learned.moments[-1])
    scores = [[each.scores[-1][head] for each in found] for head in heads]
    return Grid(
        "heads",
        plain_axis("head", [name_of_head(*head) for head in heads]),
        plain_axis("reading", [each.reading.name for each in found]),
        _table(np.array(scores, dtype=float)),
        Scale("score", 0.0, 1.0),
        note=f"{SCORE}, {_where(learned)}",
        decimals=2,
    )


def _where(learned: Learned) -> str:
    return f"in {counted(learned.held_out, 'held-out sentence')}"


def _table(values: np.ndarray) -> Whole:
    """What is no number is none."""
    return Whole(np.nan_to_num(values), np.isnan(values))
