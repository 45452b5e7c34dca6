"""What a model comes to in the end, beside its heads: answers, and vectors without some heads."""

from __future__ import annotations

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.views.moved import moved, moved_ranked, moved_table
from attnviz.views.prediction import answered, best_answers
from attnviz.views.switched_off import without_heads
from attnviz.views.view import Group


def ends_of(inspection: Inspection) -> tuple[Group, ...]:
    """Tables of answers, where they are asked for; and of vectors, where heads are off."""
    trace = inspection.trace
    answers = best_answers(trace) if inspection.looking.predict else None
    vectors = moved_table(trace) if trace.prediction is None else None
    named = {"prediction": answers, "moved": vectors}
    return tuple(Group(name, (table,)) for name, table in named.items() if table is not None)


def drawn_ends(inspection: Inspection) -> tuple[Group, ...]:
    """The same, to be drawn by themselves: vectors as bars."""
    bars = moved_ranked(inspection.trace)
    answers = [each for each in ends_of(inspection) if each.name == "prediction"]
    return tuple(answers) or (() if bars is None else (Group("moved", (bars,)),))


def what_comes_of_it(inspection: Inspection) -> tuple[str, ...]:
    """What is answered, where that is asked for, or heads are off; or what becomes of vectors."""
    trace = inspection.trace
    changed = without_heads(trace)
    said = answered(trace) if inspection.looking.predict or changed else ()
    return (*said, *moved(trace))
