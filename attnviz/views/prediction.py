"""What a model answers: tables of answers and how likely they are, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor

import numpy as np
from torch import Tensor

from attnviz.cells import unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.models.vocabulary import Predicts
from attnviz.traces.origin import FromModel
from attnviz.traces.trace import Trace, refuse_weights_only
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.scales import Scale
from attnviz.views.notes import heads_off_names, heads_off_suffix
from attnviz.views.reading import quoted_token, token_axis
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import and_list, bidi_isolated, or_list

RANK_TITLES = ("1st", "2nd", "3rd")  # of the answers in a table
MIN_NAMED_PROBABILITY = 0.005  # what is less likely is not worth a word
MAX_ANSWER_BARS = 10  # answers that have bars
MAX_LISTED_ANSWERS = 24  # in a sentence
MAX_NAMED_ASKING = 8  # words, or places, that are named
PREDICTION_SUBJECTS: dict[Predicts, str] = {
    "next": "what follows each token",
    "here": "the answer at each position",
}
PROBABILITY_SCALE = Scale("probability", 0.0, 1.0)


def require_prediction(trace: Trace) -> Prediction:
    """What is predicted; refused of a trace in which nothing is."""
    if trace.prediction is not None:
        return trace.prediction
    refuse_weights_only(trace, "--predict shows what a model answers", "predict")
    problem_start, card = "--predict shows what a model answers, but", trace.trained
    if card is not None:
        reason, alternative = card.no_answers
        raise AttnvizError(
            f"{problem_start} '{card.name}' ({card.kind}) {reason}",
            f"leave out --predict, or {alternative}",
            about="predict",
        )
    by_model = isinstance(trace.origin, FromModel)
    raise AttnvizError(
        f"{problem_start} {'this model gives no answers' if by_model else 'there is no model'}",
        "try --model agreement",
        about="predict",
    )


def best_answers_grid(trace: Trace, query: int | None = None) -> Grid:
    """The most likely answers at each position that asks for one, or at the position `query`."""
    prediction = require_prediction(trace)
    positions = list(prediction.asked if query is None else [query])
    best = [prediction.best(position, len(RANK_TITLES)) for position in positions]
    ranks = len(RANK_TITLES[: len(prediction.answers)])
    values = tensor_to_numpy(prediction.probabilities)[
        np.array(positions, int)[:, None], _answer_index_array(best, ranks)
    ]
    positioned_answers = [
        [(position, answer) for answer in row]
        for position, row in zip(positions, best, strict=True)
    ]
    rows = token_axis("after" if prediction.predicts == "next" else "position", trace.tokens)
    return Grid(
        f"prediction: {PREDICTION_SUBJECTS[prediction.predicts]}",
        _axis_at_positions(rows, positions),
        plain_axis("answer", RANK_TITLES[:ranks]),
        unmasked_cells(values),
        PROBABILITY_SCALE,
        note=_prediction_note(trace, prediction, query),
        words=tuple(
            tuple(_answer_cell_text(prediction, *answer) for answer in pairs)
            for pairs in positioned_answers
        ),
    )


def _answer_index_array(best: Sequence[Sequence[int]], ranks: int) -> np.ndarray:
    return np.array(best, dtype=int).reshape(len(best), ranks)


def _axis_at_positions(rows: Axis, positions: Sequence[int]) -> Axis:
    return replace(
        rows,
        labels=tuple(rows.labels[position] for position in positions),
        numbers=tuple(rows.numbers[position] for position in positions),
        spaced=tuple(rows.spaced[position] for position in positions),
    )


def _prediction_note(trace: Trace, prediction: Prediction, query: int | None) -> str:
    has_few_asking = query is None and len(prediction.asked) < len(trace.tokens)
    count = prediction.of or len(prediction.answers)
    parts = ["each answer with its probability"]
    parts += [f"the most likely of {count:,} answers"] if count > len(RANK_TITLES) else []
    parts += [_other_positions_text(prediction)] if has_few_asking and prediction.asked else []
    parts += [] if query is None else unasked_position_notes(prediction, trace.tokens, query)
    return " · ".join(parts)


def _other_positions_text(prediction: Prediction) -> str:
    """Why not every place is in a table."""
    if prediction.of is not None and not prediction.asks:
        return f"answers are computed at the last {len(prediction.asked)} tokens only"
    return "no answer is asked for at the other positions"


def _answer_cell_text(prediction: Prediction, position: int, answer: int) -> str:
    """An answer as it is shown; nothing where none was scored."""
    is_scored = not prediction.probabilities[position, answer].isnan()
    return bidi_isolated(prediction.answers[answer]) if is_scored else ""


def ways_answers_grid(ways: Sequence[tuple[str, Trace]], query: int | None) -> Grid | None:
    """The likeliest answers at one place, a row for each way of attending; if one place asks."""
    predictions = [require_prediction(trace) for _, trace in ways]
    positions = _answer_positions(predictions[0], query)
    if len(positions) != 1:
        return None
    position, ranks = positions[0], RANK_TITLES[: len(predictions[0].answers)]
    best = [prediction.best(position, len(ranks)) for prediction in predictions]
    pairs = list(zip(predictions, best, strict=True))
    return Grid(
        f"what the model answers {_answer_position_text(predictions[0], ways[0][1].tokens, position).lower()}",
        plain_axis("way", [name for name, _ in ways]),
        plain_axis("answer", ranks),
        unmasked_cells(
            np.stack(
                [
                    tensor_to_numpy(prediction.probabilities[position, answers])
                    for prediction, answers in pairs
                ]
            )
        ),
        PROBABILITY_SCALE,
        note="each answer with its probability",
        words=tuple(
            tuple(_answer_cell_text(prediction, position, answer) for answer in answers)
            for prediction, answers in pairs
        ),
    )


def ways_answer_bars(
    ways: Sequence[tuple[str, Trace]], query: int | None
) -> tuple[RankedBars, ...]:
    """The same as bars: for each way the same answers in the same order, on one scale."""
    predictions = [require_prediction(trace) for _, trace in ways]
    positions = _answer_positions(predictions[0], query)
    if len(positions) != 1:
        return ()
    position, tokens = positions[0], ways[0][1].tokens
    probabilities = np.stack(
        [tensor_to_numpy(prediction.probabilities[position]) for prediction in predictions]
    )
    shown_answers = {
        answer
        for prediction, row in zip(predictions, probabilities, strict=True)
        for rank, answer in enumerate(prediction.best(position, len(RANK_TITLES)))
        if row[answer] >= MIN_NAMED_PROBABILITY or (rank == 0 and not np.isnan(row[answer]))
    }
    # The reference's likeliest first, then the other ways': `are` before `is` in each of them.
    order = sorted(shown_answers, key=lambda answer: (*(-np.nan_to_num(probabilities[:, answer])),))
    axis = plain_axis("answer", [bidi_isolated(predictions[0].answers[answer]) for answer in order])
    note = f"bar = probability of the answer {_answer_position_text(predictions[0], tokens, position).lower()}"
    return tuple(
        RankedBars(
            Grid(
                name,
                axis,
                plain_axis("measure", ["probability"]),
                unmasked_cells(row[order][:, None]),
                PROBABILITY_SCALE,
                note=note,
            ),
            ("",) * len(order),
            longest=PROBABILITY_SCALE.high,
        )
        for (name, _), row in zip(ways, probabilities, strict=True)
    )


def answer_flips_finding(ways: Sequence[tuple[str, Trace]], base: Trace, query: int | None) -> str:
    """Which heads, switched off, change what is answered: `Switching off L1H0 and L1H1 flips …`"""
    base_prediction = require_prediction(base)
    positions = list(_answer_positions(base_prediction, query))
    if not positions:
        return ""
    base_answers = [base_prediction.best(position, 1)[0] for position in positions]
    changed, unchanged_names = list[tuple[str, Trace, int]](), list[str]()
    for name, trace in ways:
        new_answers = [require_prediction(trace).best(position, 1)[0] for position in positions]
        change_count = sum(
            new_answer != base_answer
            for new_answer, base_answer in zip(new_answers, base_answers, strict=True)
        )
        if trace is not base:
            changed += [(name, trace, change_count)] if change_count else []
            unchanged_names += [] if change_count else [name]
    if not changed:
        answers = (
            f"answer: {_likeliest_answer_text(base_prediction, positions[0])}"
            if len(positions) == 1
            else "answers"
        )
        return f"Switching off {or_list(unchanged_names)} does not change the {answers}"
    name, trace, count = changed[0]
    unchanged_clause = f"; {or_list(unchanged_names)} does not" if unchanged_names else ""
    if len(positions) > 1:
        return f"Switching off {name} changes {count} of the {len(positions)} answers{unchanged_clause}"
    answer = _likeliest_answer_text(require_prediction(trace), positions[0])
    return f"Switching off {name} flips {_likeliest_answer_text(base_prediction, positions[0])} to {answer}{unchanged_clause}"


def _likeliest_answer_text(prediction: Prediction, position: int) -> str:
    """`are (99.9 %)`"""
    likeliest = prediction.best(position, 1)[0]
    return f"{bidi_isolated(prediction.answers[likeliest])} ({percent_text(float(prediction.probabilities[position, likeliest]))})"


def answer_bars(trace: Trace, query: int) -> RankedBars:
    """The answers at one place as bars, the likeliest first; without heads beside what was."""
    prediction = require_prediction(trace)
    probabilities, before_ablation = prediction.probabilities[query], prediction.with_all_heads
    scored = [
        answer
        for answer in prediction.best(query, MAX_ANSWER_BARS)
        if not probabilities[answer].isnan()
    ]
    shown_answers = [
        answer
        for rank, answer in enumerate(scored)
        if rank < len(RANK_TITLES)
        or probabilities[answer] >= MIN_NAMED_PROBABILITY
        or (before_ablation is not None and before_ablation[query, answer] >= MIN_NAMED_PROBABILITY)
    ]
    omitted_note = [f"all other answers: under {percent_text(MIN_NAMED_PROBABILITY)}"] * (
        len(shown_answers) < len(scored)
    )
    grid = Grid(
        "",
        plain_axis(
            "answer", [bidi_isolated(prediction.answers[answer]) for answer in shown_answers]
        ),
        plain_axis("measure", ["probability"]),
        unmasked_cells(tensor_to_numpy(probabilities)[shown_answers][:, None]),
        PROBABILITY_SCALE,
        note=" · ".join(
            [
                "bar = probability of the answer",
                *omitted_note,
                *unasked_position_notes(prediction, trace.tokens, query),
            ]
        ),
    )
    remarks = [
        ""
        if before_ablation is None
        else f"with all heads {percent_text(float(before_ablation[query, answer]))}"
        for answer in shown_answers
    ]
    return RankedBars(grid, tuple(remarks))


def answers_grid(
    title: str,
    prediction: Prediction,
    numbers: Tensor,
    rows: Axis,
    order: Sequence[int] | None = None,
) -> Grid:
    """A number for each answer, the answers in their order or in another."""
    answers = range(len(prediction.answers)) if order is None else order
    values = tensor_to_numpy(numbers)[:, list(answers)]
    columns = plain_axis(
        "answer", [bidi_isolated(prediction.answers[answer]) for answer in answers]
    )
    return Grid(title, rows, columns, unmasked_cells(values), PROBABILITY_SCALE)


def all_answers_grids(trace: Trace) -> list[Grid]:
    """How likely every answer is at every place."""
    prediction = trace.prediction
    if prediction is None:
        return []
    if prediction.of is not None:  # of very many answers the likeliest are all that is kept
        return [best_answers_grid(trace)]
    rows = token_axis("after" if prediction.predicts == "next" else "position", trace.tokens)
    grid = answers_grid("prediction", prediction, prediction.probabilities, rows)
    return [replace(grid, note=" · ".join(unasked_position_notes(prediction, trace.tokens)))]


def answer_sentences(trace: Trace, query: int | None = None) -> tuple[str, ...]:
    """The answers in a sentence; with heads switched off, how they change."""
    prediction = trace.prediction
    if prediction is None:
        return ()
    positions = _answer_positions(prediction, query)
    if not positions:
        return (f"No token of this text asks the model for an answer{_asking_words_text(trace)}",)
    if len(positions) > 1:
        return (_several_answers_sentence(prediction, trace, positions),)
    return (_single_answer_sentence(prediction, trace, positions[0]),)


def answers_title(trace: Trace, query: int | None = None, *, answers_alone: bool = False) -> str:
    """The same as a title: where heads are off, or where answers `answers_alone` are shown."""
    prediction = trace.prediction
    if prediction is None or not (answers_alone or heads_off_suffix(trace)):
        return ""
    if heads_off_suffix(trace) and prediction.with_all_heads is None:
        return ""
    return answer_sentences(trace, query)[0] if _answer_positions(prediction, query) else ""


def _asking_words_text(trace: Trace) -> str:
    """Which words would ask for an answer."""
    model, prediction = trace.model, trace.prediction
    words = () if model is None else model.vocabulary.that_ask
    words = prediction.asks if prediction is not None and prediction.asks else words
    words_text = (
        and_list(words)
        if len(words) <= MAX_NAMED_ASKING
        else " ".join((*words[:MAX_NAMED_ASKING], "…"))
    )
    return f"; {words_text} would" if words else ""


def unasked_position_notes(
    prediction: Prediction, tokens: Tokens, query: int | None = None
) -> tuple[str, ...]:
    """Which shown positions do not ask for an answer: the model never learned to answer there."""
    if query is not None:
        name = quoted_token(tokens, query)
        return () if query in prediction.asked else (f"{name} does not ask for an answer",)
    if not prediction.asked or len(prediction.asked) == len(tokens):
        return ()
    if len(prediction.asked) > MAX_NAMED_ASKING:
        return (f"only {len(prediction.asked)} of the {len(tokens)} positions ask for an answer",)
    tokens_text = and_list([quoted_token(tokens, position) for position in prediction.asked])
    return (f"only {tokens_text} ask{'s' * (len(prediction.asked) == 1)} for an answer",)


def _answer_positions(prediction: Prediction, query: int | None) -> tuple[int, ...]:
    """The positions a sentence is about: the followed one if it asks, the last, or all that ask."""
    if query is not None and query in prediction.asked:
        return (query,)
    return prediction.asked[-1:] if prediction.predicts == "next" else prediction.asked


def _single_answer_sentence(prediction: Prediction, trace: Trace, position: int) -> str:
    position_text = _answer_position_text(prediction, trace.tokens, position)
    if prediction.with_all_heads is None:
        verb = "expects" if prediction.predicts == "next" else "answers"
        return f"{position_text} the model {verb}: {_likely_answers_text(prediction, position)}"
    answer, previous_answer = (
        prediction.best(position, 1)[0],
        int(prediction.with_all_heads[position].argmax()),
    )
    probability_text, previous_text = (
        percent_text(float(probability)) for probability in (prediction.probabilities[position, answer],
                                          prediction.with_all_heads[position, previous_answer])
    )  # fmt: skip
    position_clause = (
        f", {position_text[0].lower()}{position_text[1:]}" if len(prediction.asked) > 1 else ""
    )
    start, answer_label = (
        f"{_without_heads_text(trace)}{position_clause}:",
        bidi_isolated(prediction.answers[answer]),
    )
    if answer != previous_answer:
        return f"{start} {answer_label} ({probability_text}) instead of {bidi_isolated(prediction.answers[previous_answer])} ({previous_text})"
    change_text = "" if probability_text == previous_text else f", with all heads {previous_text}"
    return f"{start} still {answer_label} ({probability_text}{change_text})"


def _without_heads_text(trace: Trace) -> str:
    return f"Without {heads_off_names(trace)}"


def _answer_position_text(prediction: Prediction, tokens: Tokens, position: int) -> str:
    """The position a sentence is about: `After "the"`, `At "?"`."""
    return f"{'After' if prediction.predicts == 'next' else 'At'} {quoted_token(tokens, position)}"


def _likely_answers_text(prediction: Prediction, position: int) -> str:
    """`are (92 %), is (8 %)`: the most likely, and others that are worth mentioning."""
    first, *others = prediction.best(position, len(RANK_TITLES))
    answers = [
        first,
        *(
            answer
            for answer in others
            if prediction.probabilities[position, answer] >= MIN_NAMED_PROBABILITY
        ),
    ]
    return ", ".join(
        f"{bidi_isolated(prediction.answers[answer])} ({percent_text(float(prediction.probabilities[position, answer]))})"
        for answer in answers
    )


def _several_answers_sentence(
    prediction: Prediction, trace: Trace, positions: Sequence[int]
) -> str:
    answers = [prediction.best(position, 1)[0] for position in positions]
    count = len(positions)
    if prediction.with_all_heads is None:
        least = min(float(prediction.probabilities[position].max()) for position in positions)
        return (
            f"At the {count} positions the model answers: {_answer_list_text(prediction, answers)} "
            f"(each {percent_text(min(99, floor(100 * least)) / 100)} or more)"
        )
    previous_answers = prediction.with_all_heads[list(positions)].argmax(-1).tolist()
    change_count = sum(
        answer != previous_answer
        for answer, previous_answer in zip(answers, previous_answers, strict=True)
    )
    if not change_count:
        return f"{_without_heads_text(trace)}: all {count} answers stay the same: {_answer_list_text(prediction, answers)}"
    return (
        f"{_without_heads_text(trace)}: {change_count} of {count} answers change{'s' * (change_count == 1)}: "
        f"{_answer_list_text(prediction, answers)} instead of {_answer_list_text(prediction, previous_answers)}"
    )


def _answer_list_text(prediction: Prediction, answers: Sequence[int]) -> str:
    ellipsis = " …" if len(answers) > MAX_LISTED_ANSWERS else ""
    return (
        " ".join(
            bidi_isolated(prediction.answers[answer]) for answer in answers[:MAX_LISTED_ANSWERS]
        )
        + ellipsis
    )
