"""Heads ranked by what each changes of what a model comes to: as bars, in sentences, as data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.analysis.inspection.effects import Effect, Effects
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.cells import unmasked
from attnviz.tokens.tokens import Tokens
from attnviz.traces.document import Contents
from attnviz.traces.weights import array
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale, rounded_up
from attnviz.views.inspection.data import with_more
from attnviz.views.view import Data, Lines, Words
from attnviz.wording.numbers import fixed_text, share_text
from attnviz.wording.words import counted, isolated

TITLES = {
    "answers": "how many bits answers change by without each head",
    "vectors": "how far vectors move without each head",
}
CAVEAT = (
    "each head hands on 0 by itself, while all others go on: those that do the same can stand in "
    "for each other, and a head may matter only together with others"
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
    return Ranked(grid, tuple(_remark(found, each, tokens) for each in found.heads), reach)


def _note(found: Effects, tokens: Tokens) -> str:
    count = counted(len(found.tokens), "token")
    if found.measured == "vectors":
        return (
            f"change = length of the difference / length of the last vector, averaged over {count}"
        )
    one = _token(tokens, found.tokens[0])
    where = f"the mean over {count}" if len(found.tokens) > 1 else f"at {one}"
    return f"change = how far all answers diverge from what they were (Kullback-Leibler), {where}"


def _remark(found: Effects, effect: Effect, tokens: Tokens) -> str:
    """What becomes of the answer that is spoken of; of vectors, which moves most."""
    if found.measured == "vectors":
        most = int(effect.amounts.argmax())
        return (
            f"most {_token(tokens, found.tokens[most])}: {share_text(float(effect.amounts[most]))}"
        )
    if effect.instead:
        return f"{isolated(effect.instead)}, not {isolated(found.answer)}"
    return f"{isolated(found.answer)} {fixed_text(effect.likely, 2)}"


def on_effects(inspection: Inspection) -> Iterator[str]:
    """What is lost without the head that changes most; and what the numbers do not show."""
    found, tokens = inspection.effects, inspection.trace.tokens
    first, *others = found.heads
    of = f", the most of {len(found.heads)} heads" if others else ""
    without = f"without {first.name}{', too,' if found.off else ''}"  # beside those that are off
    if first.mean < NO_CHANGE:
        which = "without any one of these heads" if others else without
        yield f"{which} next to nothing changes"
    elif found.measured == "vectors":
        yield (
            f"{without} the vectors of the tokens move by {share_text(first.mean)} of their "
            f"length in the mean{of}; the cosine with what they were is "
            f"{share_text(first.cosine or 0.0)}"
        )
    else:
        yield f"{without} {_answers_change(found, tokens)} by {_bits(first.mean)}{of}"
    if found.measured == "answers":
        yield _on_the_answer(found, tokens)
    yield CAVEAT


def _answers_change(found: Effects, tokens: Tokens) -> str:
    if len(found.tokens) > 1:
        return f"what is answered at {len(found.tokens)} tokens changes, in the mean,"
    return f"what is answered at {_token(tokens, found.tokens[0])} changes"


def _on_the_answer(found: Effects, tokens: Tokens) -> str:
    """In the absence of how many heads another answer is given at one place."""
    others = sum(bool(each.instead) for each in found.heads)
    where = _token(tokens, found.at)
    said = f"after {where} comes" if found.next else f"the place {where} answers"
    said += f" {isolated(found.answer)} ({fixed_text(found.likely, 2)})"
    heads = len(found.heads)
    if heads == 1:
        return f"{said}; {'something else' if others else 'the same'} without {found.heads[0].name}"
    if not others:
        return f"{said}; the same whichever of these heads is off"
    if others == heads:
        return f"{said}; each of the {heads} heads is needed for that"
    one, several = f"1 of the {heads} heads is", f"each of {others} of the {heads} heads is"
    return f"{said}; {one if others == 1 else several} needed for that"


def _token(tokens: Tokens, place: int) -> str:
    return f'"{isolated(tokens.labels[place])}" ({place + 1})'


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
