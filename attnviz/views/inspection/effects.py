"""Heads ranked by what each changes of what a model comes to: as bars, in sentences, as data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.analysis.inspection.effects import Effect, Effects
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import side_of
from attnviz.cells import unmasked
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents
from attnviz.traces.weights import array
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale, rounded_up
from attnviz.views.inspection.data import with_more
from attnviz.views.inspection.numbers import named
from attnviz.views.view import Data, Lines, Words
from attnviz.wording.numbers import fixed_text, percent, share_text
from attnviz.wording.words import counted, isolated

TITLES = {
    "answers": "how much the answers change without each head (bits)",
    "vectors": "how far the last vectors move without each head",
}
CAVEAT = (
    "each head is switched off by itself (its output is 0) while all others stay on: heads that "
    "do the same can replace each other, and a head may matter only together with others"
)
NO_CHANGE = 5e-4  # below, nothing is told of a head


def effects_ranked(inspection: Inspection) -> Ranked:
    """A bar for each head, the one first that changes most."""
    found, tokens = inspection.effects, inspection.trace.tokens
    values = np.array([[each.mean] for each in found.heads])
    reach = rounded_up(float(values.max(initial=0)))
    grid = Grid(
        TITLES[found.measured],
        plain_axis("head", [each.name for each in found.heads]),
        plain_axis("column", ["change"]),
        unmasked(values),
        Scale("change", 0.0, reach),
        note=_note(found, tokens),
    )
    return Ranked(grid, tuple(_remark(found, each, tokens) for each in found.heads))


def _note(found: Effects, tokens: Tokens) -> str:
    count = counted(len(found.tokens), "token")
    if found.measured == "vectors":
        return f"change = length of the difference / length of the last vector, mean over {count}"
    one = _token(tokens, found.tokens[0])
    where = f"the mean over {count}" if len(found.tokens) > 1 else f"at {one}"
    return f"change = Kullback-Leibler divergence of all answers from those before, {where}"


def _remark(found: Effects, effect: Effect, tokens: Tokens) -> str:
    """What becomes of the answer that is spoken of; of vectors, which changes most."""
    if found.measured == "vectors":
        most = int(effect.amounts.argmax())
        return (
            f"most {_token(tokens, found.tokens[most])}: {share_text(float(effect.amounts[most]))}"
        )
    if effect.instead:
        return f"{isolated(effect.instead)} instead of {isolated(found.answer)}"
    return f"{isolated(found.answer)} {fixed_text(effect.likely, 2)}"


def on_effects(inspection: Inspection) -> Iterator[str]:
    """What is lost without the head that changes most; and what the numbers do not show."""
    found, tokens = inspection.effects, inspection.trace.tokens
    first, *others = found.heads
    of = f", the most of {len(found.heads)} heads" if others else ""
    off = f"with {first.name} switched off{' as well' if found.off else ''}"
    if first.mean < NO_CHANGE:
        any_one = "with any one of these heads switched off"
        yield f"{any_one if others else off}, almost nothing changes"
    elif found.measured == "vectors":
        yield f"{off}, the last vectors change by {percent(first.mean)} of their length{of}"
        cosine = share_text(first.cosine or 0.0)
        yield f"that is the mean over {counted(len(found.tokens), 'token')}; mean cosine {cosine}"
    else:
        yield f"{off}, {_answers_change(found, tokens)} by {_bits(first.mean)}{of}"
    if found.measured == "answers":
        yield _on_the_answer(found, tokens)
    yield CAVEAT


def _answers_change(found: Effects, tokens: Tokens) -> str:
    if len(found.tokens) > 1:
        return f"the answers at {len(found.tokens)} tokens change on average"
    return f"the answer at {_token(tokens, found.tokens[0])} changes"


def _on_the_answer(found: Effects, tokens: Tokens) -> str:
    """Switching off how many heads changes the answer at one place."""
    changing, heads = sum(bool(each.instead) for each in found.heads), len(found.heads)
    where = f"{'after' if found.next else 'at'} {_token(tokens, found.at)}"
    said = f"{where} the model answers {isolated(found.answer)} ({percent(found.likely)})"
    if heads == 1:
        verb = "changes" if changing else "does not change"
        return f"{said}; switching off {found.heads[0].name} {verb} that"
    if not changing:
        return f"{said}; switching off any one of these heads does not change that"
    which = f"any of the {heads} heads" if changing == heads else f"{changing} of the {heads} heads"
    if changing == 1:
        return f"{said}; only 1 of the {heads} heads changes that when it is switched off"
    return f"{said}; switching off {which}, one at a time, changes that"


def _token(tokens: Tokens, place: int) -> str:
    return named(side_of(tokens), place)


def _bits(number: float) -> str:
    return f"{fixed_text(number, 2)} bits"


def data_of_effects(inspection: Inspection) -> Data:
    """A line for each head, the one first that changes most."""
    found = inspection.effects
    header = ("head", "change", "cosine" if found.measured == "vectors" else "answer without it")
    return Data(partial(_document, inspection), header, partial(_lines, found))


def _document(inspection: Inspection) -> Contents:
    found = inspection.effects
    effects = {
        "measured": found.measured,
        "tokens": [place + 1 for place in found.tokens],
        "answer": found.answer or None,
        "likely": found.likely,
        "heads": [
            {
                "head": each.name,
                "change": each.mean,
                "changes": array(each.amounts),
                "cosines": None if each.cosines is None else array(each.cosines),
                "likely": each.likely,
                "instead": each.instead or None,
            }
            for each in found.heads
        ],
    }
    return with_more(inspection, {"effects": effects})


def _lines(found: Effects) -> Iterator[Lines]:
    names = tuple(each.name for each in found.heads)
    changes = [each.mean for each in found.heads]
    rest = [each.likely if each.cosine is None else each.cosine for each in found.heads]
    yield Lines((), Words((names,)), (changes, rest))
