"""What a model answers: tables of answers and how likely they are, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor

import numpy as np
from torch import Tensor

from attnviz.cells import unmasked
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.models.vocabulary import Predicts
from attnviz.traces.origin import FromModel
from attnviz.traces.trace import Trace, refuse_weights_alone
from attnviz.traces.weights import array
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.views.notes import names_off, without_heads
from attnviz.views.reading import in_quotes, token_axis
from attnviz.wording.numbers import percent
from attnviz.wording.words import either, isolated, listed

RANKS = ("1st", "2nd", "3rd")  # of the answers in a table
MENTIONED = 0.005  # what is less likely is not worth a word
MOST_RANKED = 10  # answers that have bars
MOST_ANSWERS = 24  # in a sentence
MOST_ASKING = 8  # words, or places, that are named
WHAT: dict[Predicts, str] = {
    "next": "what follows each token",
    "here": "the answer at each position",
}
PROBABILITY = Scale("probability", 0.0, 1.0)


def refuse_no_prediction(trace: Trace) -> Prediction:
    """What is predicted; refused of a trace in which nothing is."""
    if trace.prediction is not None:
        return trace.prediction
    refuse_weights_alone(trace, "--predict shows what a model answers", "predict")
    told, card = "--predict shows what a model answers, but", trace.trained
    if card is not None:
        what, instead = card.no_answers
        raise AttnvizError(
            f"{told} '{card.name}' ({card.kind}) {what}",
            f"leave out --predict, or {instead}",
            about="predict",
        )
    by_model = isinstance(trace.origin, FromModel)
    raise AttnvizError(
        f"{told} {'this model gives no answers' if by_model else 'there is no model'}",
        "try --model agreement",
        about="predict",
    )


def best_answers(trace: Trace, query: int | None = None) -> Grid:
    """The most likely answers at each position that asks for one, or at the position `query`."""
    made = refuse_no_prediction(trace)
    places = list(made.asked if query is None else [query])
    best = [made.best(place, len(RANKS)) for place in places]
    ranks = len(RANKS[: len(made.answers)])
    values = array(made.probabilities)[np.array(places, int)[:, None], _as_array(best, ranks)]
    named = [[(place, each) for each in row] for place, row in zip(places, best, strict=True)]
    rows = token_axis("after" if made.predicts == "next" else "position", trace.tokens)
    return Grid(
        f"prediction: {WHAT[made.predicts]}",
        _chosen(rows, places),
        plain_axis("answer", RANKS[:ranks]),
        unmasked(values),
        PROBABILITY,
        note=_note(trace, made, query),
        words=tuple(tuple(_answer(made, *each) for each in pairs) for pairs in named),
    )


def _as_array(best: Sequence[Sequence[int]], ranks: int) -> np.ndarray:
    return np.array(best, dtype=int).reshape(len(best), ranks)


def _chosen(rows: Axis, places: Sequence[int]) -> Axis:
    return replace(
        rows,
        labels=tuple(rows.labels[place] for place in places),
        numbers=tuple(rows.numbers[place] for place in places),
        spaced=tuple(rows.spaced[place] for place in places),
    )


def _note(trace: Trace, made: Prediction, query: int | None) -> str:
    few = query is None and len(made.asked) < len(trace.tokens)
    count = made.of or len(made.answers)
    parts = ["each answer with its probability"]
    parts += [f"the most likely of {count:,} answers"] if count > len(RANKS) else []
    parts += [_of_others(made)] if few and made.asked else []
    parts += [] if query is None else unasked(made, trace.tokens, query)
    return " · ".join(parts)


def _of_others(made: Prediction) -> str:
    """Why not every place is in a table."""
    if made.of is not None and not made.asks:
        return f"answers are computed at the last {len(made.asked)} tokens only"
    return "no answer is asked for at the other positions"


def _answer(made: Prediction, place: int, answer: int) -> str:
    """An answer as it is shown; nothing where none was scored."""
    scored = not made.probabilities[place, answer].isnan()
    return isolated(made.answers[answer]) if scored else ""


def answers_of_ways(ways: Sequence[tuple[str, Trace]], query: int | None) -> Grid | None:
    """The likeliest answers at one place, a row for each way of attending; if one place asks."""
    made = [refuse_no_prediction(trace) for _, trace in ways]
    places = _places(made[0], query)
    if len(places) != 1:
        return None
    place, ranks = places[0], RANKS[: len(made[0].answers)]
    best = [each.best(place, len(ranks)) for each in made]
    pairs = list(zip(made, best, strict=True))
    return Grid(
        f"what the model answers {_where(made[0], ways[0][1].tokens, place).lower()}",
        plain_axis("way", [name for name, _ in ways]),
        plain_axis("answer", ranks),
        unmasked(np.stack([array(each.probabilities[place, order]) for each, order in pairs])),
        PROBABILITY,
        note="each answer with its probability",
        words=tuple(tuple(_answer(each, place, n) for n in order) for each, order in pairs),
    )


def answers_of_ways_ranked(
    ways: Sequence[tuple[str, Trace]], query: int | None
) -> tuple[Ranked, ...]:
    """The same as bars: for each way the same answers in the same order, on one scale."""
    made = [refuse_no_prediction(trace) for _, trace in ways]
    places = _places(made[0], query)
    if len(places) != 1:
        return ()
    place, tokens = places[0], ways[0][1].tokens
    probabilities = np.stack([array(each.probabilities[place]) for each in made])
    leading = {
        answer
        for each, row in zip(made, probabilities, strict=True)
        for rank, answer in enumerate(each.best(place, len(RANKS)))
        if row[answer] >= MENTIONED or (rank == 0 and not np.isnan(row[answer]))
    }
    # The reference's likeliest first, then the other ways': `are` before `is` in each of them.
    order = sorted(leading, key=lambda answer: (*(-np.nan_to_num(probabilities[:, answer])),))
    axis = plain_axis("answer", [isolated(made[0].answers[answer]) for answer in order])
    note = f"bar = probability of the answer {_where(made[0], tokens, place).lower()}"
    return tuple(
        Ranked(
            Grid(
                name,
                axis,
                plain_axis("measure", ["probability"]),
                unmasked(row[order][:, None]),
                PROBABILITY,
                note=note,
            ),
            ("",) * len(order),
            longest=PROBABILITY.high,
        )
        for (name, _), row in zip(ways, probabilities, strict=True)
    )


def flips(ways: Sequence[tuple[str, Trace]], base: Trace, query: int | None) -> str:
    """Which heads, switched off, change what is answered: `Switching off L1H0 and L1H1 flips …`"""
    made = refuse_no_prediction(base)
    places = list(_places(made, query))
    if not places:
        return ""
    was = [made.best(place, 1)[0] for place in places]
    changed, kept = list[tuple[str, Trace, int]](), list[str]()
    for name, trace in ways:
        now = [refuse_no_prediction(trace).best(place, 1)[0] for place in places]
        others = sum(one != other for one, other in zip(now, was, strict=True))
        if trace is not base:
            changed += [(name, trace, others)] if others else []
            kept += [] if others else [name]
    if not changed:
        answers = f"answer: {_likeliest(made, places[0])}" if len(places) == 1 else "answers"
        return f"Switching off {either(kept)} does not change the {answers}"
    name, trace, count = changed[0]
    alone = f"; {either(kept)} does not" if kept else ""
    if len(places) > 1:
        return f"Switching off {name} changes {count} of the {len(places)} answers{alone}"
    answer = _likeliest(refuse_no_prediction(trace), places[0])
    return f"Switching off {name} flips {_likeliest(made, places[0])} to {answer}{alone}"


def _likeliest(made: Prediction, place: int) -> str:
    """`are (99.9 %)`"""
    first = made.best(place, 1)[0]
    return f"{isolated(made.answers[first])} ({percent(float(made.probabilities[place, first]))})"


def answers_ranked(trace: Trace, query: int) -> Ranked:
    """The answers at one place as bars, the likeliest first; without heads beside what was."""
    made = refuse_no_prediction(trace)
    now, before = made.probabilities[query], made.with_all_heads
    scored = [each for each in made.best(query, MOST_RANKED) if not now[each].isnan()]
    best = [
        each
        for rank, each in enumerate(scored)
        if rank < len(RANKS)
        or now[each] >= MENTIONED
        or (before is not None and before[query, each] >= MENTIONED)
    ]
    left_out = [f"all other answers: under {percent(MENTIONED)}"] * (len(best) < len(scored))
    grid = Grid(
        "",
        plain_axis("answer", [isolated(made.answers[each]) for each in best]),
        plain_axis("measure", ["probability"]),
        unmasked(array(now)[best][:, None]),
        PROBABILITY,
        note=" · ".join(
            ["bar = probability of the answer", *left_out, *unasked(made, trace.tokens, query)]
        ),
    )
    was = [
        "" if before is None else f"with all heads {percent(float(before[query, each]))}"
        for each in best
    ]
    return Ranked(grid, tuple(was))


def answers_grid(
    title: str, made: Prediction, numbers: Tensor, rows: Axis, order: Sequence[int] | None = None
) -> Grid:
    """A number for each answer, the answers in their order or in another."""
    places = range(len(made.answers)) if order is None else order
    values = array(numbers)[:, list(places)]
    columns = plain_axis("answer", [isolated(made.answers[place]) for place in places])
    return Grid(title, rows, columns, unmasked(values), PROBABILITY)


def all_answers(trace: Trace) -> list[Grid]:
    """How likely every answer is at every place."""
    made = trace.prediction
    if made is None:
        return []
    if made.of is not None:  # of very many answers the likeliest are all that is kept
        return [best_answers(trace)]
    rows = token_axis("after" if made.predicts == "next" else "position", trace.tokens)
    grid = answers_grid("prediction", made, made.probabilities, rows)
    return [replace(grid, note=" · ".join(unasked(made, trace.tokens)))]


def answered(trace: Trace, query: int | None = None) -> tuple[str, ...]:
    """The answers in a sentence; with heads switched off, how they change."""
    made = trace.prediction
    if made is None:
        return ()
    places = _places(made, query)
    if not places:
        return (f"No token of this text asks the model for an answer{_words_that_ask(trace)}",)
    if len(places) > 1:
        return (_of_several(made, trace, places),)
    return (_of_one(made, trace, places[0]),)


def title_of_answers(trace: Trace, query: int | None = None, *, alone: bool = False) -> str:
    """The same as a title: where heads are off, or where answers `alone` are shown."""
    made = trace.prediction
    if made is None or not (alone or without_heads(trace)):
        return ""
    if without_heads(trace) and made.with_all_heads is None:
        return ""
    return answered(trace, query)[0] if _places(made, query) else ""


def _words_that_ask(trace: Trace) -> str:
    """Which words would ask for an answer."""
    model, made = trace.model, trace.prediction
    words = () if model is None else model.vocabulary.that_ask
    words = made.asks if made is not None and made.asks else words
    few = listed(words) if len(words) <= MOST_ASKING else " ".join((*words[:MOST_ASKING], "…"))
    return f"; {few} would" if words else ""


def unasked(made: Prediction, tokens: Tokens, query: int | None = None) -> tuple[str, ...]:
    """Which shown positions do not ask for an answer: the model never learned to answer there."""
    if query is not None:
        name = in_quotes(tokens, query)
        return () if query in made.asked else (f"{name} does not ask for an answer",)
    if not made.asked or len(made.asked) == len(tokens):
        return ()
    if len(made.asked) > MOST_ASKING:
        return (f"only {len(made.asked)} of the {len(tokens)} positions ask for an answer",)
    named = listed([in_quotes(tokens, place) for place in made.asked])
    return (f"only {named} ask{'s' * (len(made.asked) == 1)} for an answer",)


def _places(made: Prediction, query: int | None) -> tuple[int, ...]:
    """The positions a sentence is about: the followed one if it asks, the last, or all that ask."""
    if query is not None and query in made.asked:
        return (query,)
    return made.asked[-1:] if made.predicts == "next" else made.asked


def _of_one(made: Prediction, trace: Trace, place: int) -> str:
    where = _where(made, trace.tokens, place)
    if made.with_all_heads is None:
        does = "expects" if made.predicts == "next" else "answers"
        return f"{where} the model {does}: {_alternatives(made, place)}"
    now, was = made.best(place, 1)[0], int(made.with_all_heads[place].argmax())
    likely, before = (
        percent(float(each)) for each in (made.probabilities[place, now],
                                          made.with_all_heads[place, was])
    )  # fmt: skip
    named = f", {where[0].lower()}{where[1:]}" if len(made.asked) > 1 else ""
    start, said = f"{_without(trace)}{named}:", isolated(made.answers[now])
    if now != was:
        return f"{start} {said} ({likely}) instead of {isolated(made.answers[was])} ({before})"
    changed = "" if likely == before else f", with all heads {before}"
    return f"{start} still {said} ({likely}{changed})"


def _without(trace: Trace) -> str:
    return f"Without {names_off(trace)}"


def _where(made: Prediction, tokens: Tokens, place: int) -> str:
    """The position a sentence is about: `After "the"`, `At "?"`."""
    return f"{'After' if made.predicts == 'next' else 'At'} {in_quotes(tokens, place)}"


def _alternatives(made: Prediction, place: int) -> str:
    """`are (92 %), is (8 %)`: the most likely, and others that are worth mentioning."""
    first, *others = made.best(place, len(RANKS))
    told = [first, *(each for each in others if made.probabilities[place, each] >= MENTIONED)]
    return ", ".join(
        f"{isolated(made.answers[each])} ({percent(float(made.probabilities[place, each]))})"
        for each in told
    )


def _of_several(made: Prediction, trace: Trace, places: Sequence[int]) -> str:
    now = [made.best(place, 1)[0] for place in places]
    count = len(places)
    if made.with_all_heads is None:
        least = min(float(made.probabilities[place].max()) for place in places)
        return (
            f"At the {count} positions the model answers: {_listed(made, now)} "
            f"(each {percent(min(99, floor(100 * least)) / 100)} or more)"
        )
    was = made.with_all_heads[list(places)].argmax(-1).tolist()
    others = sum(one != other for one, other in zip(now, was, strict=True))
    if not others:
        return f"{_without(trace)}: all {count} answers stay the same: {_listed(made, now)}"
    return (
        f"{_without(trace)}: {others} of {count} answers change{'s' * (others == 1)}: "
        f"{_listed(made, now)} instead of {_listed(made, was)}"
    )


def _listed(made: Prediction, answers: Sequence[int]) -> str:
    more = " …" if len(answers) > MOST_ANSWERS else ""
    return " ".join(isolated(made.answers[each]) for each in answers[:MOST_ANSWERS]) + more
