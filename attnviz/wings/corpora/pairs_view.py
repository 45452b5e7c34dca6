"""The View of MinimalPairs: which heads follow the meaning when one word changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil, floor, isfinite, isinf

import numpy as np

from attnviz.cells import unmasked_cells
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.settings_line import stored_text
from attnviz.views.view import Group, View, build_page, head_table, named_head_document
from attnviz.wings.corpora.head_tests import (
    LEVEL,
    MIN_TEST_OBSERVATIONS,
    flips_text,
    smallest_p_value,
)
from attnviz.wings.corpora.mean_estimates import MIN_INTERVAL_OBSERVATIONS
from attnviz.wings.corpora.pair_file import COLUMNS
from attnviz.wings.corpora.pairs import MIN_SHIFT, MinimalPairs, PairedHead
from attnviz.wording.commands import Command
from attnviz.wording.numbers import (
    SUM_ROUNDING,
    fixed_text,
    number_or_none,
    percent_text,
    share_text,
)
from attnviz.wording.words import as_sentence, counted, short_list

TABLE_FIELDS = {
    **{name: name for name in ("shift", "low", "high")},
    **{"p": "p_value", "p alone": "p_alone"},
    **{name: name for name in ("follows", "meant", "other", "toward", "pairs")},
}
MAX_NAMED_HEADS = 3
SHIFT_ABOUT = (
    "weight from the token to a candidate in the sentence where it is meant, minus its weight in "
    "the sentence where the other candidate is; the mean of both candidates, then of all pairs"
)


def view(result: MinimalPairs, *, command: Command | None = None, line: str | None = None) -> View:
    """Return the View of MinimalPairs: a bar for each head, those that pass the test first.

    `command` makes the result again; `line` is that command with the options of its output.
    """
    counts = counted(len(result.pairs), "minimal pair"), counted(len(result.heads), "head")
    parts = (f"model {result.model}", *counts, stored_text(result.provenance))
    settings, bars = " · ".join(filter(None, parts)), _shift_bars(result)
    return View(
        title=pairs_headline(result),
        headline=pairs_headline(result),
        settings=settings,
        screen=build_page([Group("heads", (bars,))], settings),
        picture=build_page([Group("heads", (_with_interval_lines(bars, result),))], settings),
        closing=pair_sentences(result),
        data=head_table("pairs", partial(_pairs_document, result), result.heads, TABLE_FIELDS),
        provenance=replace(result.provenance, command=line or (command.line if command else None)),
        command=command,
    )


def pairs_headline(result: MinimalPairs) -> str:
    """Return how many heads follow the meaning, and which most; or that there are too few pairs to
    show it of any."""
    heads, following = result.heads, result.following
    pairs = counted(len(result.pairs), "pair")
    if not result.has_enough:
        return (
            f"{pairs} cannot show that a head follows the meaning; {MIN_TEST_OBSERVATIONS} or more "
            "are needed"
        )
    if not following:
        which = "The only head is not" if len(heads) == 1 else f"None of {len(heads)} heads is"
        return f"{which} shown to follow the meaning in {pairs}"
    top = following[0]
    by = f"{percent_text(top.shift, 1)} of its attention"
    if len(following) == 1:
        which = "The only head" if len(heads) == 1 else f"One of {len(heads)} heads"
        return f"{which} follows the meaning in {pairs}: {top.name} moves {by}"
    return (
        f"{len(following)} of {len(heads)} heads follow the meaning in {pairs}; {top.name} moves "
        f"most, {by}"
    )


def pair_sentences(result: MinimalPairs) -> tuple[str, ...]:
    """Return sentences on the head that moves most, on heads that move away from what is meant, and
    on the rule by which a head counts."""
    top, opposing = result.heads[0], result.opposing
    p_clause = f" (p = {p_text(top.p_value)})" if top.is_tested else ""
    sentences = [
        f"In {top.name}, a candidate gets {percent_text(top.meant, 1)} of the token's attention "
        f"where it is meant, and {percent_text(top.other, 1)} where the other one is{p_clause}."
    ]
    if opposing:
        names = short_list([head.name for head in opposing], MAX_NAMED_HEADS)
        verb = "moves" if len(opposing) == 1 else "move"
        sentences.append(f"{names} {verb} away from the candidate that is meant.")
    sentences.append(_rule_sentence(result))
    return (*sentences, *map(as_sentence, _least_effect_clauses(result)))


def _least_effect_clauses(result: MinimalPairs) -> Iterator[str]:
    """Yield how large a shift must have been, if heads are tested and none passes."""
    top, least = result.heads[0], result.least_effect
    if result.has_enough and result.tested and not any(head.passes for head in result.heads):
        has_example = top.is_tested and isfinite(least)
        of_top = percent_text(least * float(np.std(top.shifts, ddof=1)), 1) if has_example else ""
        example = f"for {top.name}, {of_top}" if has_example else ""
        yield least_effect_text(least, counted(len(result.pairs), "pair"), "shift", example)


def least_effect_text(least: float, observations: str, mean: str, example: str = "") -> str:
    """Return how large a mean must be to be shown; `example` says how much that is for one head.

    It is rounded down, so that no smaller mean is shown.

    >>> least_effect_text(1.219, "12 pairs", "shift").partition(" only ")[2]
    "if it is 1.21 standard deviations of the head's shifts or more"
    """
    if isinf(least):
        return f"with {observations}, no mean {mean} could have been shown, however large"
    least_text = f"{floor(100 * least) / 100:.2f}"
    sizes = f"it is {least_text} standard deviations of the head's {mean}s or more"
    suffix = f" ({example})" if example else ""
    return f"with {observations}, a mean {mean} is shown only if {sizes}{suffix}"


def p_text(value: float) -> str:
    """Return a p value in two digits or more, rounded up, so that none looks smaller than it is.

    >>> p_text(0.0312), p_text(0.0501), p_text(0.0004), p_text(0.656), p_text(1.0)
    ('.032', '.051', '.0004', '.66', '1.0')
    """
    digits = 2 if value >= 0.1 else 3 if value >= 0.01 else 4
    rounded = ceil(value * 10**digits - SUM_ROUNDING) / 10**digits
    return f"{rounded:.1f}" if rounded >= 1 else f"{rounded:.{digits}f}"[1:]


def _rule_sentence(result: MinimalPairs) -> str:
    """Return when a head counts as one that follows the meaning, and how p was computed."""
    pairs, tested = len(result.pairs), len(result.tested)
    rule = (
        f"A head follows the meaning if it moves {percent_text(MIN_SHIFT)} of the token's "
        f"attention or more toward what is meant, with p of {share_text(LEVEL)} or less"
    )
    if not tested:
        return f"{rule}; none moves so much, so none is tested."
    test = (
        f"p: by {flips_text(pairs)} of the pairs' signs, corrected for the "
        f"{counted(tested, 'head')} that {'moves' if tested == 1 else 'move'} so much in either "
        "direction; pairs are taken for independent"
    )
    if not result.has_enough:
        test += (
            f"; with {counted(pairs, 'pair')} it cannot be below {p_text(smallest_p_value(pairs))}"
        )
    return f"{rule} ({test})."


def _shift_bars(result: MinimalPairs) -> RankedBars:
    """Return a bar for each head: its shift in per cent of the token's attention."""
    shifts = unmasked_cells(np.array([[100 * head.shift] for head in result.heads]))
    has_intervals = len(result.pairs) >= MIN_INTERVAL_OBSERVATIONS
    beside = [
        "weight where meant, where not",
        "95 % interval of this head alone" if has_intervals else "",
        "pairs toward",
        "p",
    ]
    grid = Grid(
        "shift toward the candidate that is meant, in % of the token's attention",
        plain_axis("head", [head.name for head in result.heads]),
        plain_axis("measure", ["shift"]),
        shifts,
        centred_scale("shift (%)", shifts),
        note=f"at each bar: {' · '.join(filter(None, beside))} (– = moves too little for a test)",
        decimals=1,
    )
    return RankedBars(grid, tuple(_head_remark(head) for head in result.heads))


def _with_interval_lines(bars: RankedBars, result: MinimalPairs) -> RankedBars:
    """Return the bars for a picture: intervals as lines, and p alone beside those that are
    tested.
    """
    if len(result.pairs) < MIN_INTERVAL_OBSERVATIONS:
        return bars
    notes = ["p: corrected for the number of heads that are tested"] * bool(result.tested)
    notes += ["pairs are taken for independent", *_least_effect_clauses(result)]
    return replace(bars, grid=replace(bars.grid, note=" · ".join(notes))).with_intervals(
        [(100 * head.low, 100 * head.high) for head in result.heads],
        "95 % interval of this head alone",
        [f"p = {p_text(head.p_value)}" if head.is_tested else "" for head in result.heads],
    )


def _head_remark(head: PairedHead) -> str:
    """Return what stands beside a bar: `37, 33 % · 0.5 to 8.6 · 9 of 12 · p .66`."""
    meant, other = (fixed_text(100 * weight, 1) for weight in (head.meant, head.other))
    ends = [fixed_text(100 * end, 1) for end in (head.low, head.high)]
    interval = "" if np.isnan(head.low) else " to ".join(ends)
    p_value = f"p {p_text(head.p_value)}" if head.is_tested else "p –"
    toward = f"{head.toward} of {len(head.shifts)}"
    return " · ".join(filter(None, (f"{meant}, {other}", interval, toward, p_value)))


def _pairs_document(result: MinimalPairs) -> Contents:
    return {
        "model": result.model,
        "conclusion": pairs_headline(result),
        "sentences": pair_sentences(result),
        "shift": SHIFT_ABOUT,
        "level": LEVEL,
        "least shift": MIN_SHIFT,
        "least pairs": MIN_TEST_OBSERVATIONS,
        "least effect": number_or_none(result.least_effect),
        "pairs": [dict(zip(COLUMNS, pair.cells, strict=True)) for pair in result.pairs],
        "heads": [
            {
                **named_head_document(head.name),
                "shift": head.shift,
                "interval": None if np.isnan(head.low) else [head.low, head.high],
                "p": number_or_none(head.p_value),
                "p alone": number_or_none(head.p_alone),
                "follows": head.follows,
                "meant": head.meant,
                "other": head.other,
                "shifts": head.shifts,
            }
            for head in result.heads
        ],
    }
