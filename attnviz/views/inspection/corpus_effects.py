"""Head ablation on a corpus as bars: heads ranked by their mean effect over many texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import isnan

import numpy as np

from attnviz.analysis.inspection.corpus_effects import CorpusEffects, MeanEffect
from attnviz.analysis.sign_flips import MIN_INTERVAL_OBSERVATIONS
from attnviz.traces.archive import Contents
from attnviz.views.inspection.effects import (
    ABLATION_CAVEAT,
    ABLATION_OUTPUTS,
    CORPUS_MEAN,
    EFFECT_TITLES,
    effect_bars,
    metric_document,
    metric_phrase,
    pair_bars,
    pair_remark,
    pair_sentences,
)
from attnviz.views.settings_line import settings_line
from attnviz.views.view import Group, TableData, TableLines, View, WordColumns, build_page
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.numbers import fixed_text, percent_text
from attnviz.wording.words import as_sentence, counted

HEADER = ("head", "change", "low", "high")
TEXT_NOTES = {
    "answers": "change = Kullback-Leibler divergence of all answers from those before",
    "vectors": "change = length of the difference / length of the last vector, mean over tokens",
    "metric": "change = {metric}, without the head minus with it",
}


def view(
    effects: CorpusEffects, *, command: Command | None = None, line: str | None = None
) -> View:
    """Return the View of mean effects: a bar for each head, the largest first, with intervals.

    `command` reproduces the view, if any does; `line` is that command with the options of its
    output, recorded in files instead.
    """
    base = effects.base
    without_tokens = settings_line(base, ("tokens",))
    settings = f"{counted(effects.texts, 'text')} · {without_tokens}"
    closing = tuple(map(as_sentence, corpus_sentences(effects)))
    page = build_page([*_groups(effects)], settings)
    title = closing[0].removesuffix(".")
    recorded_line = line or (command.line if command else None)
    return View(
        title=title,
        headline=title,
        settings=settings,
        screen=page,
        picture=page,
        closing=closing,
        data=TableData(partial(_document, effects), HEADER, partial(_lines, effects)),
        provenance=replace(effects.provenance, command=recorded_line),
        command=command,
    )


def _groups(effects: CorpusEffects) -> Iterator[Group]:
    """Yield the bars of heads, and those of pairs if there are any."""
    heads, name = effects.heads, effects.metric_name
    bars = effect_bars(
        EFFECT_TITLES[effects.measured].format(metric=name),
        {head.name: head.mean for head in heads},
        f"{TEXT_NOTES[effects.measured].format(metric=name)}, {_mean_text(effects)}",
        tuple(map(_interval_remark, heads)),
    )
    yield Group("effects", (bars,))
    if effects.pairs:
        remarks = (
            (pair_remark(pair.together.mean, pair.alone), _interval_remark(pair.beyond_sum))
            for pair in effects.pairs
        )
        pairs = pair_bars(
            {pair.together.name: pair.beyond_sum.mean for pair in effects.pairs},
            effects.measured,
            tuple(" · ".join(filter(None, parts)) for parts in remarks),
        )
        yield Group("pairs", (pairs,))


def _mean_text(effects: CorpusEffects) -> str:
    """Return over what the bars are means."""
    mean = f"mean over {counted(effects.texts, 'text')}"
    if effects.texts < MIN_INTERVAL_OBSERVATIONS:
        return mean
    return f"{mean} · beside each bar: a 95 % interval of that mean, from resampled texts"


def _interval_remark(effect: MeanEffect) -> str:
    """Return the interval of a mean; empty if there is none, as of few texts."""
    if isnan(effect.low):
        return ""
    return f"{fixed_text(effect.low, 2)} to {fixed_text(effect.high, 2)}"


def corpus_sentences(effects: CorpusEffects) -> Iterator[str]:
    """Yield the largest effect, how sure it is, pairs, skipped texts, and a warning on ablation."""
    top, *others = effects.heads
    rank_suffix = f", the most of {len(effects.heads)} heads" if others else ""
    off = " as well" if effects.base.origin.settings.without else ""
    where = f"with {top.name} switched off{off},"
    over = f"on average over {counted(effects.texts, 'text')}"
    if effects.measured == "metric":
        ends = (fixed_text(end, 2) for end in (effects.metric, effects.metric + top.mean))
        name = metric_phrase(effects.metric_name)
        yield f"{where} {name} changes from {' to '.join(ends)} {over}{rank_suffix}"
    elif effects.measured == "vectors":
        change = f"{percent_text(top.mean)} of their length {over}{rank_suffix}"
        yield f"{where} the last vectors change by {change}"
    else:
        yield f"{where} the answers change by {fixed_text(top.mean, 2)} bits {over}{rank_suffix}"
    if others and effects.texts >= MIN_INTERVAL_OBSERVATIONS:
        yield _interval_sentence(effects)
    yield from pair_sentences(effects.pairs)
    if effects.empty:
        yield f"{counted(effects.empty, 'empty line')} {_were(effects.empty)} skipped"
    if effects.unanswered:
        reason = "in which there is nothing to answer"
        texts = counted(effects.unanswered, "text")
        yield f"{texts} {reason} {_were(effects.unanswered)} skipped"
    if effects.unread:
        yield f"stopped before the last {counted(effects.unread, 'text')}"
    output = CORPUS_MEAN if effects.options.ablation == "mean" else ABLATION_OUTPUTS["zero"]
    yield ABLATION_CAVEAT.format(output=output)


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _interval_sentence(effects: CorpusEffects) -> str:
    """State how sure the first place is, or for a metric which heads change it at all."""
    top, head_count = effects.heads[0], len(effects.heads)
    if effects.measured == "metric":
        sure = sum(head.differs_from_zero for head in effects.heads)
        return (
            f"the 95 % intervals of {sure} of the {head_count} heads leave 0 out (those of 1 in 20 "
            "heads that change nothing would, too)"
        )
    most = np.argmax([head.values for head in effects.heads], axis=0)
    return (
        f"{top.name} changes most in {np.count_nonzero(most == 0)} of the {effects.texts} texts; "
        f"the 95 % interval of its mean is {_interval_remark(top)}"
    )


def _document(effects: CorpusEffects) -> Contents:
    """Return the effects as JSON data, with the change on each text."""
    return {
        "model": effects.base.origin.settings.model,
        "texts": effects.texts,
        "skipped": {"empty": effects.empty, "unanswered": effects.unanswered},
        "unread": effects.unread,
        "options": changed_options(effects.options),
        "conclusion": " ".join(map(as_sentence, corpus_sentences(effects))),
        "measured": effects.measured,
        "metric": metric_document(effects.metric_name, effects.metric),
        "heads": [{"head": head.name, **_mean_document(head)} for head in effects.heads],
        "pairs": [
            {
                "heads": pair.together.name,
                **_mean_document(pair.together),
                "alone": list(pair.alone),
                "beyond the sum": _mean_document(pair.beyond_sum),
            }
            for pair in effects.pairs
        ],
    }


def _mean_document(effect: MeanEffect) -> Contents:
    """Return a mean as JSON data: its interval, and the change on each text."""
    return {
        "change": effect.mean,
        "low": None if isnan(effect.low) else effect.low,
        "high": None if isnan(effect.high) else effect.high,
        "changes": effect.values,
    }


def _lines(effects: CorpusEffects) -> Iterator[TableLines]:
    """Yield all lines at once: each head's mean change and its interval."""
    heads, ends = effects.heads, [(head.low, head.high) for head in effects.heads]
    lows, highs = (
        [None if isnan(end) else end for end in column] for column in zip(*ends, strict=True)
    )
    names = WordColumns((tuple(head.name for head in heads),))
    yield TableLines((), names, ([head.mean for head in heads], lows, highs))
