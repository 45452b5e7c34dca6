"""Head ablation as text and bars: heads ranked by how much the output changes without them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.analysis.inspection.effects import Effect, Effects
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import token_side
from attnviz.cells import unmasked_cells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, round_up
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.inspection.inspection_data import extended_document
from attnviz.views.inspection.map_numbers import side_label
from attnviz.views.view import TableData, TableLines, WordColumns
from attnviz.wording.numbers import fixed_text, percent_text, share_text
from attnviz.wording.words import bidi_isolated, counted

EFFECT_TITLES = {
    "answers": "how much the answers change without each head (bits)",
    "vectors": "how far the last vectors move without each head",
}
ABLATION_CAVEAT = (
    "each head is switched off by itself (its output is 0) while all others stay on: heads that "
    "do the same can replace each other, and a head may matter only together with others"
)
MIN_NOTABLE_CHANGE = 5e-4  # smaller changes are called "almost nothing"


def ranked_effects(inspection: Inspection) -> RankedBars:
    """Return a bar per head, as long as its effect, the largest first, each with a remark."""
    effects, tokens = inspection.effects, inspection.trace.tokens
    values = np.array([[effect.mean] for effect in effects.heads])
    grid = Grid(
        EFFECT_TITLES[effects.measured],
        plain_axis("head", [effect.name for effect in effects.heads]),
        plain_axis("column", ["change"]),
        unmasked_cells(values),
        Scale("change", 0.0, round_up(float(values.max(initial=0)))),
        note=_effects_note(effects, tokens),
    )
    return RankedBars(grid, tuple(_effect_remark(effects, each, tokens) for each in effects.heads))


def _effects_note(effects: Effects, tokens: Tokens) -> str:
    """Return what the bars measure, and over which tokens it is a mean."""
    over_tokens = f"mean over {counted(len(effects.tokens), 'token')}"
    if effects.measured == "vectors":
        return f"change = length of the difference / length of the last vector, {over_tokens}"
    is_single = len(effects.tokens) == 1
    scope = f"at {_token_name(tokens, effects.tokens[0])}" if is_single else f"the {over_tokens}"
    return f"change = Kullback-Leibler divergence of all answers from those before, {scope}"


def _effect_remark(effects: Effects, effect: Effect, tokens: Tokens) -> str:
    """Return the answer that replaces the model's, or else the probability that its answer keeps.

    If vectors are measured, the token whose vector moves most.
    """
    if effects.measured == "vectors":
        index = int(effect.amounts.argmax())
        amount = share_text(float(effect.amounts[index]))
        return f"most {_token_name(tokens, effects.tokens[index])}: {amount}"
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
    opening = f"with {top_effect.name} switched off{' as well' if effects.off else ''}"
    if top_effect.mean < MIN_NOTABLE_CHANGE:
        any_head_opening = "with any one of these heads switched off"
        yield f"{any_head_opening if other_effects else opening}, almost nothing changes"
    elif effects.measured == "vectors":
        change = f"{percent_text(top_effect.mean)} of their length{rank_suffix}"
        yield f"{opening}, the last vectors change by {change}"
        cosine = share_text(top_effect.cosine or 0.0)
        yield f"that is the mean over {counted(len(effects.tokens), 'token')}; mean cosine {cosine}"
    else:
        change = f"{fixed_text(top_effect.mean, 2)} bits{rank_suffix}"
        yield f"{opening}, {_changing_answers_text(effects, tokens)} by {change}"
    if effects.measured == "answers":
        yield _answer_sentence(effects, tokens)
    yield ABLATION_CAVEAT


def _changing_answers_text(effects: Effects, tokens: Tokens) -> str:
    """Return the subject and verb of a sentence: `the answer at "it" changes`."""
    if len(effects.tokens) > 1:
        return f"the answers at {len(effects.tokens)} tokens change on average"
    return f"the answer at {_token_name(tokens, effects.tokens[0])} changes"


def _answer_sentence(effects: Effects, tokens: Tokens) -> str:
    """State the model's answer at one position, and how many heads, one by one, change it."""
    changing = sum(bool(effect.other_answer) for effect in effects.heads)
    head_count, likely = len(effects.heads), percent_text(effects.likely)
    where = f"{'after' if effects.next else 'at'} {_token_name(tokens, effects.answer_position)}"
    answer = f"{where} the model answers {bidi_isolated(effects.answer)} ({likely})"
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


def _token_name(tokens: Tokens, position: int) -> str:
    """Return a token's quoted label, numbered if it occurs several times."""
    return side_label(token_side(tokens), position)


def effects_data(inspection: Inspection) -> TableData:
    """Return the effects as JSON data and a table with one line per head, the largest first."""
    effects = inspection.effects
    header = ("head", "change", "cosine" if effects.measured == "vectors" else "answer without it")
    lines = partial(_effect_lines, effects)
    return TableData(partial(_effects_document, inspection), header, lines)


def _effects_document(inspection: Inspection) -> Contents:
    """Return the Inspection as JSON data, with the effect of each head."""
    results = inspection.effects
    effects = {
        "measured": results.measured,
        "tokens": [position + 1 for position in results.tokens],
        "answer": results.answer or None,
        "likely": results.likely,
        "heads": [
            {
                "head": effect.name,
                "change": effect.mean,
                "changes": tensor_to_numpy(effect.amounts),
                "cosines": None if effect.cosines is None else tensor_to_numpy(effect.cosines),
                "likely": effect.likely,
                "instead": effect.other_answer or None,
            }
            for effect in results.heads
        ],
    }
    return extended_document(inspection, {"effects": effects})


def _effect_lines(effects: Effects) -> Iterator[TableLines]:
    """Yield all lines at once: each head's change, and its cosine or the answer's probability."""
    names = tuple(effect.name for effect in effects.heads)
    changes = [effect.mean for effect in effects.heads]
    last_column = [each.likely if each.cosine is None else each.cosine for each in effects.heads]
    yield TableLines((), WordColumns((names,)), (changes, last_column))
