"""What a model answers: tables, bars and sentences of its answers with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from operator import ne

import numpy as np

from attnviz.analysis.measures import vector_changes
from attnviz.cells import FULL_SLICE, unmasked_cells
from attnviz.errors import AttnvizError, opt
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.answers import Prediction
from attnviz.traces.models.vocabulary import Predicts
from attnviz.traces.origin import FromModel
from attnviz.traces.trace import Trace, refuse_weights_only
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, colorless_scale, round_up
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.notes import heads_off_names, heads_off_suffix
from attnviz.views.reading import token_axis
from attnviz.views.view import Group
from attnviz.wording.numbers import fixed_text, percent_text, share_text
from attnviz.wording.words import and_list, bidi_isolated, listed_label, or_list

RANK_TITLES = ("1st", "2nd", "3rd")  # columns of a table of answers
MIN_NAMED_PROBABILITY = 0.005  # less likely answers are not mentioned
MAX_ANSWER_BARS = 10
MAX_QUOTED_TOKENS = 20  # of a text that stands below its answers
MAX_LISTED_ANSWERS = 24  # in a sentence
MAX_NAMED_ASKING = 8  # more words or positions that ask for an answer are counted
PREDICTION_SUBJECTS: dict[Predicts, str] = {
    "next": "what follows each token",
    "here": "the answer at each position",
}
PROBABILITY_SCALE = Scale("probability", 0.0, 1.0)


def require_prediction(trace: Trace) -> Prediction:
    """Return the prediction of a trace; refuse a trace without one, with the reason why there is
    none.
    """
    if trace.prediction is not None:
        return trace.prediction
    refuse_weights_only(trace, f"{opt.predict} shows what a model answers", "predict")
    problem_start, card = f"{opt.predict} shows what a model answers, but", trace.trained
    if card is not None:
        reason, alternative = card.no_answers
        raise AttnvizError(
            f"{problem_start} '{card.name}' ({card.kind}) {reason}",
            f"leave out {opt.predict}, or {alternative}",
            about="predict",
        )
    by_model = isinstance(trace.origin, FromModel)
    raise AttnvizError(
        f"{problem_start} {'this model gives no answers' if by_model else 'there is no model'}",
        f"try {opt.model:agreement}",
        about="predict",
    )


def best_answers_grid(trace: Trace, query: int | None = None) -> Grid:
    """Return a table of the three most likely answers with probabilities: a row for each position
    that asks for an answer, or only for position `query`.

    Refuses a trace without a prediction.
    """
    prediction = require_prediction(trace)
    positions = list(prediction.asked_positions if query is None else [query])
    best = {position: prediction.best(position, len(RANK_TITLES)) for position in positions}
    ranks = len(RANK_TITLES[: len(prediction.answers)])
    answers = np.array([*best.values()], dtype=int).reshape(len(best), ranks)
    values = tensor_to_numpy(prediction.probabilities)[np.array(positions, int)[:, None], answers]
    rows = token_axis("after" if prediction.predicts == "next" else "position", trace.tokens)
    return Grid(
        f"prediction: {PREDICTION_SUBJECTS[prediction.predicts]}",
        _axis_at_positions(rows, positions),
        plain_axis("answer", RANK_TITLES[:ranks]),
        unmasked_cells(values),
        PROBABILITY_SCALE,
        note=_prediction_note(trace, prediction, query),
        words=tuple(
            tuple(_answer_cell_text(prediction, position, answer) for answer in row)
            for position, row in best.items()
        ),
        keeps_last=prediction.predicts == "next",  # whose last row says how the text goes on
    )


def _axis_at_positions(rows: Axis, positions: Sequence[int]) -> Axis:
    return replace(
        rows,
        labels=tuple(rows.labels[position] for position in positions),
        numbers=tuple(rows.numbers[position] for position in positions),
        spaced=tuple(rows.spaced[position] for position in positions),
    )


def _prediction_note(trace: Trace, prediction: Prediction, query: int | None) -> str:
    """Return the note below a table of answers: of how many answers these are the best, and which
    positions ask for one.
    """
    has_few_asking = query is None and len(prediction.asked_positions) < len(trace.tokens)
    count = prediction.answer_count or len(prediction.answers)
    parts = ["each answer with its probability"]
    parts += [f"the most likely of {count:,} answers"] if count > len(RANK_TITLES) else []
    parts += (
        [_other_positions_text(prediction)] if has_few_asking and prediction.asked_positions else []
    )
    parts += [] if query is None else unasked_position_notes(prediction, trace.tokens, query)
    return " · ".join(parts)


def _other_positions_text(prediction: Prediction) -> str:
    """Return why a table does not have a row for every position."""
    if prediction.answer_count is not None and not prediction.asking_words:
        return f"answers are computed at the last {len(prediction.asked_positions)} tokens only"
    return "no answer is asked for at the other positions"


def _answer_cell_text(prediction: Prediction, position: int, answer: int) -> str:
    """Return the label of an answer; empty where its probability is NaN, so it was not scored."""
    is_scored = not prediction.probabilities[position, answer].isnan()
    return listed_label(prediction.answers[answer]) if is_scored else ""


def ways_answers_grid(ways: Sequence[tuple[str, Trace]], query: int | None) -> Grid | None:
    """Return a table of the most likely answers, a row for each compared alternative (name and
    Trace); None unless exactly one position is asked about.
    """
    predictions = [require_prediction(trace) for _, trace in ways]
    positions = _answer_positions(predictions[0], query)
    if len(positions) != 1:
        return None
    position, ranks = positions[0], RANK_TITLES[: len(predictions[0].answers)]
    pairs = [(prediction, prediction.best(position, len(ranks))) for prediction in predictions]
    values = [tensor_to_numpy(each.probabilities[position, answers]) for each, answers in pairs]
    position_text = _answer_position_text(predictions[0], ways[0][1].tokens, position)
    return Grid(
        f"what the model answers {position_text.lower()}",
        plain_axis("way", [name for name, _ in ways]),
        plain_axis("answer", ranks),
        unmasked_cells(np.stack(values)),
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
    """Return a panel of bars for each compared alternative (name and Trace), all with the same
    answers in the same order; empty unless exactly one position is asked about.
    """
    predictions = [require_prediction(trace) for _, trace in ways]
    positions = _answer_positions(predictions[0], query)
    if len(positions) != 1:
        return ()
    position = positions[0]
    probabilities = np.stack(
        [tensor_to_numpy(each.probabilities[position]) for each in predictions]
    )
    shown_answers = {
        answer
        for prediction, row in zip(predictions, probabilities, strict=True)
        for rank, answer in enumerate(prediction.best(position, len(RANK_TITLES)))
        if row[answer] >= MIN_NAMED_PROBABILITY or (rank == 0 and not np.isnan(row[answer]))
    }
    # Sorted by the probability in the reference, then by that in the others.
    order = sorted(shown_answers, key=lambda answer: (*(-np.nan_to_num(probabilities[:, answer])),))
    axis = plain_axis("answer", [listed_label(predictions[0].answers[answer]) for answer in order])
    position_text = _answer_position_text(predictions[0], ways[0][1].tokens, position)
    note = f"bar = probability of the answer {position_text.lower()}"
    if len(ways[0][1].tokens) <= MAX_QUOTED_TOKENS:
        note += f' in "{" ".join((ways[0][1].text or "").split())}"'
    measure, remarks = plain_axis("measure", ["probability"]), ("",) * len(order)
    bars = []
    for (name, _), row in zip(ways, probabilities, strict=True):
        cells = unmasked_cells(row[order][:, None])
        grid = Grid(name, axis, measure, cells, PROBABILITY_SCALE, note=note)
        bars.append(RankedBars(grid, remarks, longest=PROBABILITY_SCALE.high))
    return tuple(bars)


def answer_flips_finding(ways: Sequence[tuple[str, Trace]], base: Trace, query: int | None) -> str:
    """Return a sentence on which heads, switched off, change the answer: `Without L1H0 and L1H1 the
    model says "is" (99 %), not "are"`; empty if no position asks for one.

    `ways` are the names of switched-off heads with the Traces; `base` is the Trace with all heads
    on.
    """
    base_prediction = require_prediction(base)
    positions = list(_answer_positions(base_prediction, query))
    if not positions:
        return ""
    base_answers = [base_prediction.best(position, 1)[0] for position in positions]
    changed, unchanged_names = list[tuple[str, Trace, int]](), list[str]()
    for name, trace in ways:
        answers = [require_prediction(trace).best(position, 1)[0] for position in positions]
        change_count = sum(map(ne, answers, base_answers))
        if trace is not base:
            changed += [(name, trace, change_count)] if change_count else []
            unchanged_names += [] if change_count else [name]
    base_answer = bidi_isolated(base_prediction.answers[base_answers[0]])
    if not changed:
        answer = quoted_answer(base_prediction, positions[0])
        noun = f"answer: {answer}" if len(positions) == 1 else "answers"
        return f"Switching off {or_list(unchanged_names)} does not change the {noun}"
    name, trace, count = changed[0]
    if len(positions) > 1:
        others = f"; {or_list(unchanged_names)} does not" if unchanged_names else ""
        return f"Switching off {name} changes {count} of the {len(positions)} answers{others}"
    answer = quoted_answer(require_prediction(trace), positions[0])
    text = f'Without {name} the model says {answer}, not "{base_answer}"'
    if not unchanged_names:
        return text
    # "Without L0H0 or L0H1" would mean without both.
    ways_alone = [f"without {each}" for each in unchanged_names]
    if and_list(unchanged_names) == name:
        ways_alone = ["without only one of them"]
    return f'{text}; {or_list(ways_alone)} it still says "{base_answer}"'


def quoted_answer(prediction: Prediction, position: int, answer: int | None = None) -> str:
    """Return an answer, by default the likeliest, with its probability: `"is" (99 %)`."""
    answer = prediction.best(position, 1)[0] if answer is None else answer
    probability = percent_text(float(prediction.probabilities[position, answer]))
    return f'"{bidi_isolated(prediction.answers[answer])}" ({probability})'


def answer_bars(trace: Trace, query: int) -> RankedBars:
    """Return the most likely answers at position `query` as bars; with heads off, remarks give the
    probability with all heads on.

    At most MAX_ANSWER_BARS are shown; beyond the first three, those under MIN_NAMED_PROBABILITY
    both with and without the heads are left out. Refuses a trace without a prediction.
    """
    prediction = require_prediction(trace)
    probabilities, before_ablation = prediction.probabilities[query], prediction.with_all_heads
    best = prediction.best(query, MAX_ANSWER_BARS)
    scored = [answer for answer in best if not probabilities[answer].isnan()]
    shown_answers = [
        answer
        for rank, answer in enumerate(scored)
        if rank < len(RANK_TITLES)
        or probabilities[answer] >= MIN_NAMED_PROBABILITY
        or (before_ablation is not None and before_ablation[query, answer] >= MIN_NAMED_PROBABILITY)
    ]
    notes = ["bar = probability of the answer"]
    if len(shown_answers) < len(scored):
        notes.append(f"all other answers: under {percent_text(MIN_NAMED_PROBABILITY)}")
    labels = [listed_label(prediction.answers[answer]) for answer in shown_answers]
    grid = Grid(
        "",
        plain_axis("answer", labels),
        plain_axis("measure", ["probability"]),
        unmasked_cells(tensor_to_numpy(probabilities)[shown_answers][:, None]),
        PROBABILITY_SCALE,
        note=" · ".join([*notes, *unasked_position_notes(prediction, trace.tokens, query)]),
    )
    if before_ablation is None:
        return RankedBars(grid, ("",) * len(shown_answers))
    before = [percent_text(float(before_ablation[query, answer])) for answer in shown_answers]
    return RankedBars(grid, tuple(f"with all heads {percent}" for percent in before))


def all_answers_grids(trace: Trace) -> list[Grid]:
    """Return one table of the probability of every answer at every position; only the best ones
    where few were kept, and none for a trace without answers.
    """
    prediction = trace.prediction
    if prediction is None:
        return []
    if prediction.answer_count is not None:  # only the likeliest of very many answers are kept
        return [best_answers_grid(trace)]
    rows = token_axis("after" if prediction.predicts == "next" else "position", trace.tokens)
    columns = plain_axis("answer", [*map(bidi_isolated, prediction.answers)])
    cells = unmasked_cells(tensor_to_numpy(prediction.probabilities))
    note = " · ".join(unasked_position_notes(prediction, trace.tokens))
    keeps_last = prediction.predicts == "next"
    scale = PROBABILITY_SCALE
    return [Grid("prediction", rows, columns, cells, scale, note, keeps_last=keeps_last)]


def answer_sentences(trace: Trace, query: int | None = None) -> tuple[str, ...]:
    """Return one sentence on the answers, or on how they change where heads are switched off, at
    position `query` if it asks for an answer; empty for a trace without answers.
    """
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
    """Return the sentence on answers as a title; empty unless heads are off or only answers are
    shown (`answers_alone`).
    """
    prediction = trace.prediction
    if prediction is None or not (answers_alone or heads_off_suffix(trace)):
        return ""
    if heads_off_suffix(trace) and prediction.with_all_heads is None:
        return ""
    return answer_sentences(trace, query)[0] if _answer_positions(prediction, query) else ""


def changed_answer_groups(trace: Trace, query: int) -> list[Group]:
    """Return the answers that the token asks for as bars, in one group, if heads are off."""
    prediction = trace.prediction
    if prediction is None or prediction.with_all_heads is None:
        return []
    if query not in prediction.asked_positions:
        return []
    bars = answer_bars(trace, query)
    title = f"the answer at {quoted_token(trace.tokens, query)}"
    return [Group("prediction", (replace(bars, grid=replace(bars.grid, title=title)),))]


def _asking_words_text(trace: Trace) -> str:
    """Return which words would ask for an answer, as in `; the and a would`; empty if none is
    known.
    """
    model, prediction = trace.model, trace.prediction
    words = () if model is None else model.vocabulary.that_ask
    words = prediction.asking_words if prediction is not None and prediction.asking_words else words
    if len(words) > MAX_NAMED_ASKING:
        return f"; {' '.join((*words[:MAX_NAMED_ASKING], '…'))} would"
    return f"; {and_list(words)} would" if words else ""


def unasked_position_notes(
    prediction: Prediction, tokens: Tokens, query: int | None = None
) -> tuple[str, ...]:
    """Return at most one note on which shown positions do not ask for an answer, since the model
    never learned to answer there; empty if all or none do, or with `query` if that one does.
    """
    positions = prediction.asked_positions
    if query is not None:
        name = quoted_token(tokens, query)
        return () if query in positions else (f"{name} does not ask for an answer",)
    if not positions or len(positions) == len(tokens):
        return ()
    if len(positions) > MAX_NAMED_ASKING:
        return (f"only {len(positions)} of the {len(tokens)} positions ask for an answer",)
    tokens_text = and_list([quoted_token(tokens, position) for position in positions])
    return (f"only {tokens_text} ask{'s' * (len(positions) == 1)} for an answer",)


def _answer_positions(prediction: Prediction, query: int | None) -> tuple[int, ...]:
    """Return the positions a sentence is about: `query` if it asks for an answer; else the last one
    that asks for a model that predicts the next token, or all that ask.
    """
    if query is not None and query in prediction.asked_positions:
        return (query,)
    return (
        prediction.asked_positions[-1:]
        if prediction.predicts == "next"
        else prediction.asked_positions
    )


def _single_answer_sentence(prediction: Prediction, trace: Trace, position: int) -> str:
    """Return the sentence on the answer at one position; with heads off, it compares with the
    answer of all heads.
    """
    position_text = _answer_position_text(prediction, trace.tokens, position)
    if prediction.with_all_heads is None:
        verb = "expects" if prediction.predicts == "next" else "answers"
        return f"{position_text} the model {verb} {_likely_answers_text(prediction, position)}"
    previous = prediction.with_all_heads[position]
    answer, previous_answer = prediction.best(position, 1)[0], int(previous.argmax())
    probability = percent_text(float(prediction.probabilities[position, answer]))
    previous_probability = percent_text(float(previous[previous_answer]))
    start = _without_heads_text(trace)
    if len(prediction.asked_positions) > 1:
        start += f", {position_text[0].lower()}{position_text[1:]},"
    label, previous_label = (
        bidi_isolated(prediction.answers[index]) for index in (answer, previous_answer)
    )
    if answer != previous_answer:
        new_answer = quoted_answer(prediction, position)
        return f'{start} the model says {new_answer}, not "{previous_label}"'
    is_same = probability == previous_probability
    change_text = "" if is_same else f", with all heads {previous_probability}"
    return f'{start} the model still says "{label}" ({probability}{change_text})'


def _without_heads_text(trace: Trace) -> str:
    """Return `Without L1H0`, the switched-off heads as the beginning of a sentence."""
    return f"Without {heads_off_names(trace)}"


def _answer_position_text(prediction: Prediction, tokens: Tokens, position: int) -> str:
    """Return the position that a sentence is about: `After "the"`, `At "?"`."""
    return f"{'After' if prediction.predicts == 'next' else 'At'} {quoted_token(tokens, position)}"


def _likely_answers_text(prediction: Prediction, position: int) -> str:
    """Return the most likely answer and up to two others worth mentioning: `"are" (92 %),
    "is" (8 %)`.
    """
    first, *others = prediction.best(position, len(RANK_TITLES))
    probabilities = prediction.probabilities[position]
    likely = [answer for answer in others if probabilities[answer] >= MIN_NAMED_PROBABILITY]
    return ", ".join(quoted_answer(prediction, position, answer) for answer in (first, *likely))


def _several_answers_sentence(
    prediction: Prediction, trace: Trace, positions: Sequence[int]
) -> str:
    """Return the sentence on the answers at several positions, with their least probability; with
    heads off, on how many of these answers change.
    """
    answers = [prediction.best(position, 1)[0] for position in positions]
    count, answers_text = len(positions), _answer_list_text(prediction, answers)
    if prediction.with_all_heads is None:
        least = min(float(prediction.probabilities[position].max()) for position in positions)
        return (
            f"At the {count} positions the model answers {answers_text} "
            f"(each {percent_text(min(99, floor(100 * least)) / 100)} or more)"
        )
    previous_answers = prediction.with_all_heads[list(positions)].argmax(-1).tolist()
    change_count, start = sum(map(ne, answers, previous_answers)), _without_heads_text(trace)
    if not change_count:
        return f"{start}: all {count} answers stay the same: {answers_text}"
    return (
        f"{start}: {change_count} of {count} answers change{'s' * (change_count == 1)}: "
        f"{answers_text} instead of {_answer_list_text(prediction, previous_answers)}"
    )


def _answer_list_text(prediction: Prediction, answers: Sequence[int]) -> str:
    """Return the labels of answers (indices) in a row; `…` stands for those after
    MAX_LISTED_ANSWERS.
    """
    labels = [listed_label(prediction.answers[answer]) for answer in answers[:MAX_LISTED_ANSWERS]]
    return " ".join(labels) + " …" * (len(answers) > MAX_LISTED_ANSWERS)


VECTOR_SHIFT_NOTE = (
    "change = length of the difference / length of the last vector with all heads on · cosine = "
    "that of the angle between the two vectors"
)
MIN_VECTOR_CHANGE = 5e-4  # relative to its length: a smaller change counts as none


def vector_shift_table(trace: Trace) -> Grid | None:
    """Return a table of how much each token's last vector changes in length and direction with
    heads off; None where all heads are on.
    """
    outputs = trace.outputs
    if outputs is None or outputs.with_all_heads is None:
        return None
    changes, cosines = vector_changes(outputs.with_all_heads, outputs.vectors)
    return Grid(
        f"last vectors{heads_off_suffix(trace)}",
        token_axis("token", trace.tokens),
        plain_axis("measure", ["change", "cosine"]),
        unmasked_cells(np.stack([tensor_to_numpy(changes), tensor_to_numpy(cosines)], axis=1)),
        colorless_scale("change"),
        note=VECTOR_SHIFT_NOTE,
        decimals=2,
    )


def vector_shift_bars(trace: Trace) -> RankedBars | None:
    """Return how much each token's last vector changes with heads off, as bars, the largest first;
    None where all heads are on.
    """
    table = vector_shift_table(trace)
    if table is None:
        return None
    numbers = table.cells.window(FULL_SLICE, FULL_SLICE).values
    order = (-numbers[:, 0]).argsort(kind="stable")
    changes, cosines = numbers[order].T
    grid = replace(
        table,
        rows=plain_axis("token", [table.rows.names[row] for row in order]),
        columns=plain_axis("measure", ["change"]),
        cells=unmasked_cells(changes[:, None]),
        scale=Scale("change", 0.0, round_up(float(changes[0]))),
    )
    return RankedBars(grid, tuple(f"cosine {fixed_text(cosine, 2)}" for cosine in cosines))


def vector_shift_sentences(trace: Trace) -> tuple[str, ...]:
    """Return one sentence on the mean and the largest change of the last vectors with heads off;
    empty for a model with answers and where all heads are on.
    """
    outputs = trace.outputs
    if outputs is None or outputs.with_all_heads is None or trace.prediction is not None:
        return ()
    changes, cosines = vector_changes(outputs.with_all_heads, outputs.vectors)
    start, most_changed = f"Without {heads_off_names(trace)}", int(changes.argmax())
    if float(changes[most_changed]) < MIN_VECTOR_CHANGE:
        return (f"{start} no last vector changes",)
    mean, largest = (percent_text(float(each)) for each in (changes.mean(), changes[most_changed]))
    if len(changes) == 1:
        return (f"{start} the last vector changes by {largest} of its length",)
    return (
        f"{start} the last vectors change by {mean} of their length on average, "
        f"that of {quoted_token(trace.tokens, most_changed)} most ({largest}); "
        f"their mean cosine with the original vectors is {share_text(float(cosines.mean()))}",
    )
