"""Bars of heads ranked by their mean effect on the output over many texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import isfinite, isnan

from attnviz.traces.archive import Contents
from attnviz.views.inspection.effects import (
    ABLATION_CAVEAT,
    ABLATION_OUTPUTS,
    ABLATION_WORDS,
    effect_bars,
    effects_title,
    metric_document,
    metric_phrase,
    pair_bars,
    pair_remark,
    pair_sentence,
)
from attnviz.views.settings_line import settings_line
from attnviz.views.view import Group, View, build_page, head_table, named_head_document
from attnviz.wings.corpora.effects import REPEATED_READING, CorpusEffects, MeanEffect
from attnviz.wings.corpora.head_tests import LEVEL, MIN_TEST_OBSERVATIONS, RANDOM_DRAWS
from attnviz.wings.corpora.mean_estimates import MIN_INTERVAL_OBSERVATIONS
from attnviz.wings.corpora.pairs_view import least_effect_text, p_text
from attnviz.wings.corpora.survey_view import independence_statement, repeats_statement
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.numbers import fixed_text, number_or_none, share_text
from attnviz.wording.words import as_sentence, counted, short_list

COLUMNS = {"change": "mean", "low": "low", "high": "high", "p": "p_value"}  # with their fields
MAX_NAMED_HEADS = 5
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
    parts = [counted(effects.texts, "text")]
    parts += [counted(effects.documents, "document")] * (effects.documents > 1)
    settings = " · ".join((*parts, settings_line(effects.base, ("tokens",))))
    title, *closing = map(as_sentence, corpus_sentences(effects))
    return View(
        title=title.removesuffix("."),
        headline=title.removesuffix("."),
        settings=settings,
        screen=build_page([*_groups(effects)], settings),
        picture=build_page([*_groups(effects, interval_lines=True)], settings),
        closing=tuple(closing),
        data=head_table("effects", partial(_document, effects), effects.heads, COLUMNS),
        provenance=replace(effects.provenance, command=line or (command.line if command else None)),
        command=command,
    )


def _groups(effects: CorpusEffects, *, interval_lines: bool = False) -> Iterator[Group]:
    """Yield the bars of heads, and those of pairs if there are any.

    With `interval_lines`, for a picture, intervals of heads are lines on their bars, not numbers.
    """
    heads, name = effects.heads, effects.metric_name
    bars = effect_bars(
        effects_title(effects.output, effects.options.ablation),
        {head.name: head.mean for head in heads},
        f"{TEXT_NOTES[effects.measured].format(metric=name)}, "
        f"{_mean_text(effects, interval_lines=interval_lines)}",
        tuple(" · ".join(filter(None, (_interval_text(head), _p_text(head)))) for head in heads),
    )
    if interval_lines and effects.observations[0] >= MIN_INTERVAL_OBSERVATIONS:
        intervals = [(head.low, head.high) for head in heads]
        bars = bars.with_intervals(intervals, "95 % interval of this mean", [*map(_p_text, heads)])
    yield Group("effects", (bars,))
    if effects.pairs:
        remarks = (
            (pair_remark(pair.together.mean, pair.alone), _interval_text(pair.beyond_sum))
            for pair in effects.pairs
        )
        pairs = pair_bars(
            {pair.together.name: pair.beyond_sum.mean for pair in effects.pairs},
            effects.measured,
            tuple(" · ".join(filter(None, parts)) for parts in remarks),
        )
        yield Group("pairs", (pairs,))


def _mean_text(effects: CorpusEffects, *, interval_lines: bool) -> str:
    """Return over what the bars are means, and what stands beside them."""
    observations = effects.observations
    mean = f"mean over {counted(*observations)}"
    if observations[0] < MIN_INTERVAL_OBSERVATIONS:
        return mean
    if interval_lines:
        independence = f"{observations[1]}s are taken for independent"
        return " · ".join((mean, independence, *_least_effect_clauses(effects)))
    p_value = ", p" if effects.measured == "metric" and effects.has_enough else ""
    return f"{mean} · beside each bar: the 95 % interval of that mean, of this head alone{p_value}"


def _interval_text(effect: MeanEffect) -> str:
    """Return the interval of a mean, `-0.5 to 0.6`; empty if there is none, as of few texts."""
    if isnan(effect.low):
        return ""
    return f"{fixed_text(effect.low, 2)} to {fixed_text(effect.high, 2)}"


def _p_text(effect: MeanEffect) -> str:
    """Return `p = .66` of an effect that is tested, else an empty text."""
    return "" if isnan(effect.p_value) else f"p = {p_text(effect.p_value)}"


def corpus_sentences(effects: CorpusEffects) -> Iterator[str]:
    """Yield which heads are shown to change a metric, the largest effect (first if nothing is
    tested), how sure it is, pairs, skipped and repeated texts, and a warning on ablation."""
    top, *others = effects.heads
    rank_suffix = f", the most of {len(effects.heads)} heads" if others else ""
    off = ABLATION_WORDS[effects.options.ablation]
    off += " as well" if effects.base.origin.settings.without else ""
    where, texts = f"with {top.name} {off},", counted(effects.texts, "text")
    observations = counted(*effects.observations)
    over = f"on average over {observations}" if effects.texts > 1 else "in the only text"
    if effects.measured == "metric":
        yield _test_sentence(effects)
        ends = (fixed_text(end, 2) for end in (effects.metric, effects.metric + top.mean))
        name = metric_phrase(effects.metric_name)
        yield f"{where} {name} changes from {' to '.join(ends)} {over}{rank_suffix}"
        yield from _rule_sentences(effects)
    else:
        yield f"{where} {effects.output.change_text(top.mean)} {over}{rank_suffix}"
        if others and effects.observations[0] >= MIN_INTERVAL_OBSERVATIONS:
            yield f"{top.name} changes most in {top.most} of the {texts}"
    is_part = effects.pair_texts < effects.texts
    of_pairs = f" (first {counted(effects.pair_texts, 'text')})" if is_part else ""
    for pair in effects.pairs[:1]:
        together = pair.together
        sentence = pair_sentence(together.name, together.mean, pair.alone, len(effects.pairs))
        yield f"{sentence}{of_pairs}"
    if independence := independence_statement(effects.texts, effects.documents, "text"):
        yield independence
    if effects.empty:
        yield f"{counted(effects.empty, 'empty line')} {_were(effects.empty)} skipped"
    if effects.unanswered:
        reason = "in which there is nothing to answer"
        unanswered = counted(effects.unanswered, "text")
        yield f"{unanswered} {reason} {_were(effects.unanswered)} skipped"
    if effects.repeated:
        yield repeats_statement(effects.repeated, effects.texts, "text")
    if effects.interrupted:
        yield f"stopped by Ctrl-C after {texts}"
    output = ABLATION_OUTPUTS["zero"]
    if effects.options.ablation == "mean":
        is_whole = effects.texts + effects.unanswered <= REPEATED_READING
        count = "all" if is_whole and not effects.interrupted else f"at most {REPEATED_READING:,}"
        output = f"its mean over {count} texts"
    yield ABLATION_CAVEAT.format(output=output)


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _test_sentence(effects: CorpusEffects) -> str:
    """State which heads are shown to change a metric."""
    heads, metric = effects.heads, metric_phrase(effects.metric_name)
    if not effects.has_enough:
        return (
            f"{counted(*effects.observations)} cannot show that a head changes {metric} on "
            f"average; {MIN_TEST_OBSERVATIONS} or more are needed"
        )
    changing_heads = [head.name for head in heads if head.differs_from_zero]
    number = len(changing_heads)
    named = f": {short_list(changing_heads, MAX_NAMED_HEADS)}" if changing_heads else ""
    verb = "are" if number > 1 else "is"
    start = f"{number or 'none'} of {counted(len(heads), 'head')} {verb}"
    if len(heads) == 1:
        start, named = f"{heads[0].name} is{'' if changing_heads else ' not'}", ""
    return f"{start} shown to change {metric} on average{named}"


def _rule_sentences(effects: CorpusEffects) -> Iterator[str]:
    """Yield how heads were tested, and if none is shown, how large an effect could have been."""
    tested = sum(not isnan(head.p_value) for head in effects.heads)
    if not effects.has_enough:
        return
    if not tested:
        yield f"switching {'it' if len(effects.heads) == 1 else 'any one'} off changes nothing"
        return
    noun = effects.observations[1]
    yield (
        f"a head is shown to change it if p is {share_text(LEVEL)} or less: by "
        f"{RANDOM_DRAWS:,} samples drawn from the {noun}s, corrected for {counted(tested, 'head')}"
    )
    yield from _least_effect_clauses(effects)


def _least_effect_clauses(effects: CorpusEffects) -> Iterator[str]:
    """Yield how large a change must have been, if heads are tested and none is shown to change
    anything."""
    is_tested = effects.has_enough and any(not isnan(head.p_value) for head in effects.heads)
    if is_tested and not any(head.differs_from_zero for head in effects.heads):
        least, top = effects.least_effect, effects.heads[0]
        has_example = isfinite(least) and not isnan(top.p_value)
        example = f"for {top.name}, {fixed_text(least * top.spread, 2)}" if has_example else ""
        yield least_effect_text(least, counted(*effects.observations), "change", example)


def _document(effects: CorpusEffects) -> Contents:
    return {
        "model": effects.base.origin.settings.model,
        "texts": effects.texts,
        "documents": effects.documents,
        "skipped": {"empty": effects.empty, "unanswered": effects.unanswered},
        "repeated": effects.repeated,
        "interrupted": effects.interrupted,
        "options": changed_options(effects.options),
        "conclusion": " ".join(map(as_sentence, corpus_sentences(effects))),
        "measured": effects.measured,
        "unit": effects.output.unit or None,
        "ablation": effects.options.ablation,
        "metric": metric_document(effects.metric_name, effects.metric),
        "least effect": number_or_none(effects.least_effect),
        "heads": [
            {**named_head_document(head.name), **_mean_document(head)} for head in effects.heads
        ],
        "texts of pairs": effects.pair_texts,
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
    """Return a mean as JSON data: its interval, its p value, and the change on each text."""
    numbers = {column: number_or_none(getattr(effect, name)) for column, name in COLUMNS.items()}
    return {**numbers, "changes": effect.values}
