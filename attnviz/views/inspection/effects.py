"""Bars of heads ranked by how much the output changes without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from attnviz.analysis.inspection.effects import (
    Effect,
    EffectMeasure,
    Effects,
    OutputMeasure,
)
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.cells import unmasked_cells
from attnviz.options.values import AblationValue
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, round_up
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.inspection.inspection_data import extended_document
from attnviz.views.view import (
    HEAD_COLUMNS,
    TableData,
    TableLines,
    WordColumns,
    head_columns,
    named_head_document,
)
from attnviz.wording.numbers import fixed_text, percent_text, share_text
from attnviz.wording.words import bidi_isolated, counted

PAIRS_TITLE = "change without two heads, minus the sum of the changes without each"
PAIR_NOTES = {
    "answers": "",
    "metric": "",
    "vectors": " · lengths of changes in different directions come to less than their sum",
}
ABLATION_CAVEAT = (
    "each head is switched off by itself (its output is {output}) while all others stay on: heads "
    "that do the same can replace each other, and a head may matter only together with others"
)
ABLATION_OUTPUTS = {"zero": "0", "mean": "its mean over the text"}
ABLATION_WORDS = {"zero": "zeroed", "mean": "replaced by its mean"}  # of a head
LOGIT_NAME = "logit of"  # with which a difference of two answers begins
MIN_FIXED_CHANGE = 0.05  # from where two decimals are enough
MIN_NOTABLE_CHANGE = 5e-4  # smaller changes are called "almost nothing"


def ranked_effects(inspection: Inspection) -> RankedBars:
    """Return a bar per head, as long as its effect, the largest first, each with a remark."""
    effects, tokens = inspection.effects, inspection.trace.tokens
    return effect_bars(
        effects_title(effects.output, inspection.options.ablation),
        {effect.name: effect.mean for effect in effects.heads},
        _effects_note(effects, tokens),
        tuple(_effect_remark(effects, each, tokens) for each in effects.heads),
    )


def effects_title(output: OutputMeasure, ablation: AblationValue) -> str:
    """Return what bars of effects show: `how much the answers change with each head zeroed (bits)`,
    `logit of Paris minus logit of London: change with each head replaced by its mean`."""
    off = f"with each head {ABLATION_WORDS[ablation]}"
    if output.kind == "metric":
        return f"{output.name}: change {off}"
    return f"how much {output.name} change {off} ({output.unit})"


def ranked_pairs(inspection: Inspection) -> RankedBars | None:
    """Return a bar per pair of heads, as long as what it changes beyond the sum; None without
    pairs."""
    effects = inspection.effects
    if not effects.pairs:
        return None
    return pair_bars(
        {pair.together.name: pair.beyond_sum for pair in effects.pairs},
        effects.measured,
        tuple(pair_remark(pair.together.mean, pair.alone) for pair in effects.pairs),
    )


def pair_bars(
    changes: Mapping[str, float], measured: EffectMeasure, remarks: tuple[str, ...]
) -> RankedBars:
    note = "the furthest from 0 first · beside each bar: the three changes"
    return effect_bars(PAIRS_TITLE, changes, f"{note}{PAIR_NOTES[measured]}", remarks, "pair")


def pair_remark(together: float, alone: tuple[float, float]) -> str:
    first, second = (fixed_text(change, 2) for change in alone)
    return f"{fixed_text(together, 2)}, alone {first} and {second}"


def effect_bars(
    title: str,
    changes: Mapping[str, float],
    note: str,
    remarks: tuple[str, ...],
    unit: str = "head",
) -> RankedBars:
    """Return a bar for each name, as long as its change is large, with a remark beside it."""
    values = np.array([[change] for change in changes.values()])
    limit = round_up(float(np.abs(values).max(initial=0)))
    is_signed = bool((values < 0).any())
    scale = Scale("change", 0.0, limit)
    if is_signed:
        scale = Scale("change", -limit, limit, "diverging")
    grid = Grid(
        title,
        plain_axis(unit, [*changes]),
        plain_axis("column", ["change"]),
        unmasked_cells(values),
        scale,
        note=note,
        decimals=2 if is_signed and limit >= MIN_FIXED_CHANGE else None,
    )
    return RankedBars(grid, remarks)


def _effects_note(effects: Effects, tokens: Tokens) -> str:
    """Return what the bars measure, and over which tokens it is a mean."""
    if effects.measured == "metric":
        return "change = its value without the head, less that with it"
    over_tokens = f"mean over {counted(len(effects.tokens), 'token')}"
    if effects.measured == "vectors":
        return f"change = length of the difference / length of the last vector, {over_tokens}"
    is_single = len(effects.tokens) == 1
    scope = f"at {quoted_token(tokens, effects.tokens[0])}" if is_single else f"the {over_tokens}"
    return f"change = Kullback-Leibler divergence of all answers from those before, {scope}"


def _effect_remark(effects: Effects, effect: Effect, tokens: Tokens) -> str:
    """Return the answer that replaces the model's, or else the probability that its answer keeps.

    If vectors are measured, the token whose vector moves most; of a metric, its value.
    """
    if effects.measured == "metric":
        return f"{fixed_text(effects.metric + effect.mean, 2)} without it"
    if effects.measured == "vectors":
        index = int(effect.amounts.argmax())
        amount = share_text(float(effect.amounts[index]))
        return f"most {quoted_token(tokens, effects.tokens[index])}: {amount}"
    if effect.other_answer:
        return f"{bidi_isolated(effect.other_answer)} instead of {bidi_isolated(effects.answer)}"
    return f"{bidi_isolated(effects.answer)} {fixed_text(effect.likely, 2)}"


def effect_sentences(inspection: Inspection) -> Iterator[str]:
    """Yield the largest effect, how many heads change the answer, and a warning on ablation.

    If no effect is notable, the first sentence states that almost nothing changes.
    """
    effects, tokens = inspection.effects, inspection.trace.tokens
    top_effect, *other_effects = effects.heads
    rank_suffix = f", the most of {len(effects.heads)} heads" if other_effects else ""
    off = ABLATION_WORDS[inspection.options.ablation]
    opening = f"with {top_effect.name} {off}{' as well' if effects.off else ''}"
    if abs(top_effect.mean) < MIN_NOTABLE_CHANGE:
        any_head_opening = f"with any one of these heads {off}"
        yield f"{any_head_opening if other_effects else opening}, almost nothing changes"
    elif effects.measured == "metric":
        ends = (fixed_text(end, 2) for end in (effects.metric, effects.metric + top_effect.mean))
        name = metric_phrase(effects.metric_name)
        yield f"{opening}, {name} changes from {' to '.join(ends)}{rank_suffix}"
    elif effects.measured == "vectors":
        yield f"{opening}, {effects.output.change_text(top_effect.mean)}{rank_suffix}"
        cosine = share_text(top_effect.cosine or 0.0)
        yield f"that is the mean over {counted(len(effects.tokens), 'token')}; mean cosine {cosine}"
    else:
        change = f"{fixed_text(top_effect.mean, 2)} {effects.output.unit}{rank_suffix}"
        yield f"{opening}, {_changing_answers_text(effects, tokens)} by {change}"
    if effects.measured == "answers":
        yield _answer_sentence(effects, tokens)
    for pair in effects.pairs[:1]:
        together = pair.together
        yield pair_sentence(together.name, together.mean, pair.alone, len(effects.pairs))
    yield ABLATION_CAVEAT.format(output=ABLATION_OUTPUTS[inspection.options.ablation])


def metric_phrase(name: str) -> str:
    """Return a metric in a sentence: `the logit of a minus the logit of b`; a name as it is."""
    return name.replace(LOGIT_NAME, f"the {LOGIT_NAME}") if name.startswith(LOGIT_NAME) else name


def pair_sentence(name: str, together: float, alone: tuple[float, float], count: int) -> str:
    """Return how far a pair of heads, the furthest of `count`, is from the sum of its heads."""
    total = sum(alone)
    beyond = together - total
    if abs(beyond) < MIN_NOTABLE_CHANGE:
        return "the change without two heads is the sum of the changes without each"
    digits = 2 if abs(beyond) >= MIN_FIXED_CHANGE else 4
    where = "above" if beyond > 0 else "below"
    rank_suffix = f", the furthest of {counted(count, 'pair')}" if count > 1 else ""
    return (
        f"without {name} the change is {fixed_text(together, digits)}, "
        f"{fixed_text(abs(beyond), digits)} {where} the sum of the changes without each "
        f"({fixed_text(total, digits)}){rank_suffix}"
    )


def _changing_answers_text(effects: Effects, tokens: Tokens) -> str:
    """Return the subject and verb of a sentence: `the answer at "it" changes`."""
    if len(effects.tokens) > 1:
        return f"the answers at {len(effects.tokens)} tokens change on average"
    return f"the answer at {quoted_token(tokens, effects.tokens[0])} changes"


def _answer_sentence(effects: Effects, tokens: Tokens) -> str:
    """State the model's answer at one position, and how many heads, one by one, change it."""
    changing = sum(bool(effect.other_answer) for effect in effects.heads)
    head_count, likely = len(effects.heads), percent_text(effects.likely)
    where = f"{'after' if effects.next else 'at'} {quoted_token(tokens, effects.answer_position)}"
    answer = f'{where} the model answers "{bidi_isolated(effects.answer)}" ({likely})'
    if head_count == 1:
        verb = "changes" if changing else "does not change"
        return f"{answer}; switching off {effects.heads[0].name} {verb} that"
    if not changing:
        return f"{answer}; switching off any one of these heads does not change that"
    if changing == 1:
        return f"{answer}; only 1 of the {head_count} heads changes that when it is switched off"
    quantifier = "any" if changing == head_count else changing
    heads_text = f"{quantifier} of the {head_count} heads"
    return f"{answer}; switching off {heads_text}, one at a time, changes that"


def effects_data(inspection: Inspection) -> TableData:
    """Return the effects as JSON data and a table with one line per head, the largest first."""
    effects = inspection.effects
    last = {"vectors": "cosine", "answers": "answer without it", "metric": "metric without it"}
    header = (*HEAD_COLUMNS, "change", last[effects.measured])
    lines = partial(_effect_lines, effects)
    return TableData("inspection", partial(_effects_document, inspection), header, lines)


def _effects_document(inspection: Inspection) -> Contents:
    results = inspection.effects
    effects = {
        "measured": results.measured,
        "unit": results.output.unit or None,
        "ablation": inspection.options.ablation,
        "tokens": [position + 1 for position in results.tokens],
        "answer": results.answer or None,
        "likely": results.likely,
        "metric": metric_document(results.metric_name, results.metric),
        "heads": [
            {
                **named_head_document(effect.name),
                "change": effect.mean,
                "changes": tensor_to_numpy(effect.amounts),
                "cosines": None if effect.cosines is None else tensor_to_numpy(effect.cosines),
                "likely": effect.likely,
                "instead": effect.other_answer or None,
            }
            for effect in results.heads
        ],
        "pairs": [
            {
                "heads": pair.together.name,
                "change": pair.together.mean,
                "alone": list(pair.alone),
                "beyond the sum": pair.beyond_sum,
            }
            for pair in results.pairs
        ],
    }
    return extended_document(inspection, {"effects": effects})


def metric_document(name: str, value: float) -> Contents | None:
    return {"name": name, "value": value} if name else None


def _effect_lines(effects: Effects) -> Iterator[TableLines]:
    """Yield all lines at once: each head's change, and its cosine, the answer's probability or the
    metric."""
    names = head_columns(effect.name for effect in effects.heads)
    changes = [effect.mean for effect in effects.heads]
    last_column = [each.likely if each.cosine is None else each.cosine for each in effects.heads]
    if effects.measured == "metric":
        last_column = [effects.metric + change for change in changes]
    yield TableLines((), WordColumns(names), (changes, last_column))
