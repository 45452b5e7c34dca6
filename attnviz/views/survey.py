"""The View of a Survey: which heads stand out over a corpus, a table of all heads, and points."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from attnviz.analysis.inspection.patterns import (
    BROAD_PATTERN,
    MIN_BROAD_ENTROPY,
    MIN_PATTERN_EXCESS,
    PATTERN_KINDS,
    PatternKind,
)
from attnviz.analysis.line_measures import MEASURES
from attnviz.analysis.survey import (
    MIN_LINES,
    MIN_PART_SHARE,
    REPEATED_TEXTS,
    REPEATED_TOKENS,
    CorpusPart,
    Estimate,
    Survey,
    SurveyedHead,
)
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import Axis, plain_axis, titled_axis
from attnviz.views.grids.grid import Grid, cells_without_nan
from attnviz.views.grids.points import LineTokens, Point, PointAxis, PointCloud, PointExample
from attnviz.views.grids.scales import Scale, colorless_scale
from attnviz.views.settings_line import stored_text
from attnviz.views.view import (
    Excerpt,
    Group,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
)
from attnviz.wording.commands import Command
from attnviz.wording.numbers import percent_text, share_text
from attnviz.wording.words import and_list, as_sentence, counted

TABLE_COLUMNS = ("mean", "from", "to", "even", "lines", "repeats", "entropy")
CSV_HEADER = ("head", "best", "stands out", "measure")
ESTIMATE_FIELDS = ("mean", "spread", "low", "high", "even", "lines")
TERMINAL_COLUMNS, TERMINAL_LINES = 80, 24  # that everything fits in, without --full
EXCERPT_FRAME_LINES, MIN_EXCERPT_HEADS = 7, 3  # blank lines, titles and the prompt; heads
REPEATS_NAME = "induction on random repeats"
REPEATS_ABOUT = (
    f"the induction score on {REPEATED_TEXTS} texts of {REPEATED_TOKENS} random tokens of the "
    "model's vocabulary, each of them there twice"
)
MAP_NOTES = {  # each once below all maps
    "previous": "share of a token's attention, averaged over tokens and lines",
    "broad": "broad = entropy, as a share of the largest possible",
}
NO_KIND = "no clear pattern"
RULE_NOTE = (
    "a head stands out if the low end of its 95 % interval is at least "
    f"{percent_text(MIN_PATTERN_EXCESS)} of the way from even attention to 1 (broad: if it is at "
    f"least {share_text(MIN_BROAD_ENTROPY)}); each interval is for one head alone"
)


def view(survey: Survey, *, command: Command | None = None, line: str | None = None) -> View:
    """Return the View of a Survey: the heads that stand out first, and what each does.

    `command` makes the survey again; `line` is that command with the options of its output.
    """
    settings, table = _settings_line(survey), _heads_table(survey)
    headline, sentences = survey_headline(survey), survey_sentences(survey)
    count = _excerpt_heads(headline, settings, *sentences)
    excerpt = Group("heads", (replace(table.part(slice(0, count)), note=""),))
    return View(
        title=headline,
        headline=headline,
        settings=settings,
        screen=build_page([Group("heads", (table,))], settings),
        picture=build_page([Group("patterns", tuple(_pattern_maps(survey)))], settings),
        excerpt=Excerpt((excerpt,), f"--full shows all {len(survey.heads)} heads"),
        closing=sentences,
        points=partial(point_cloud, survey),
        data=TableData(
            partial(_survey_document, survey),
            (*CSV_HEADER, *ESTIMATE_FIELDS),
            partial(_survey_lines, survey),
        ),
        provenance=replace(survey.provenance, command=line or (command.line if command else None)),
        command=command,
    )


def _excerpt_heads(*texts: str) -> int:
    """Return how many heads fit into a usual terminal below and above these texts."""
    lines = sum(len(textwrap.wrap(text, TERMINAL_COLUMNS)) for text in texts)
    return max(MIN_EXCERPT_HEADS, TERMINAL_LINES - EXCERPT_FRAME_LINES - lines)


def _settings_line(survey: Survey) -> str:
    """Return a line with the model, and the numbers of lines and tokens."""
    parts = [f"model {survey.model}", counted(survey.lines, "line"),
             counted(survey.tokens, "token")]  # fmt: skip
    if stored := stored_text(survey.provenance):
        parts.append(stored)
    if survey.blank_lines:
        parts.append(f"{counted(survey.blank_lines, 'blank line')} left out")
    if survey.cut_lines:
        parts.append(f"{counted(survey.cut_lines, 'line')} cut to the model's longest text")
    if survey.interrupted:
        parts.append("stopped before the end of the texts")
    return " · ".join(parts)


def survey_headline(survey: Survey) -> str:
    """Return how many heads stand out, and what the first of them does, in a line of a terminal."""
    top, count = survey.ranked[0], len(survey.heads)
    standing = sum(head.stands_out for head in survey.heads)
    if top.best is None:
        return "No token has a choice of what to attend to"
    does = _short_does_text(top.best, top.estimates[top.best.name])
    if survey.lines < MIN_LINES:
        lines = "A single line" if survey.lines == 1 else counted(survey.lines, "line")
        return f"{lines} cannot show what stands out; {top.name} leads: {does}"
    if not standing:
        heads = "The only head does not stand" if count == 1 else f"None of {count} heads stands"
        return f"{heads} out; {top.name} leads: {does}"
    heads = "The only head stands" if count == 1 else f"{standing} of {count} heads "
    verb = "" if count == 1 else "stands" if standing == 1 else "stand"
    return f"{heads}{verb} out; {top.name} leads: {does}"


def _short_does_text(kind: PatternKind, estimate: Estimate) -> str:
    """Return what a head does in few words: `previous token 93 % (evenly 6 %)`."""
    base = "" if kind is BROAD_PATTERN else f" (evenly {percent_text(estimate.even)})"
    return f"{kind.name} {percent_text(max(estimate.mean, 0.0))}{base}"


def _does_text(kind: PatternKind, estimate: Estimate) -> str:
    """Return what a head does: `gives the previous token 93 % of its attention (evenly: 6 %)`."""
    share = percent_text(max(estimate.mean, 0.0))
    if kind is BROAD_PATTERN:
        return f"attends broadly (entropy {share} of the largest possible)"
    base = percent_text(estimate.even)
    return f"gives {kind.target_phrase} {share} of its attention (evenly: {base})"


def survey_sentences(survey: Survey) -> tuple[str, ...]:
    """Return sentences on what the heads that stand out do, on induction, and on the heads that
    behave differently in parts of the corpus."""
    statements = [_kinds_statement(survey), _repeats_statement(survey), *_part_statements(survey)]
    return tuple(as_sentence(statement) for statement in statements if statement)


def _kinds_statement(survey: Survey) -> str:
    """Return how many heads stand out for each pattern; empty if none does."""
    counts = Counter(head.best for head in survey.heads if head.stands_out)
    parts = [f"{kind.name} {counts[kind]}" for kind in PATTERN_KINDS if counts[kind]]
    return f"heads that stand out: {and_list(parts)}" if parts else ""


def _repeats_statement(survey: Survey) -> str:
    """Return which head has the highest induction score on random tokens, and whether it is
    clear."""
    head = max(survey.heads, key=lambda head: np.nan_to_num(head.repeats.mean, nan=-1))
    estimate = head.repeats
    if math.isnan(estimate.mean):
        return ""
    numbers = f"{percent_text(estimate.mean)} (evenly: {percent_text(estimate.even)})"
    is_clear = (estimate.mean - estimate.even) / (1 - estimate.even) >= MIN_PATTERN_EXCESS
    if is_clear:
        return f"on random tokens that are repeated, {head.name} does most induction: {numbers}"
    return (
        "no head does clear induction on random tokens that are repeated; the highest score is "
        f"{numbers}, of {head.name}"
    )


def _part_statements(survey: Survey) -> Iterator[str]:
    """Yield which head behaves most differently in parts of the corpus, and how many others do."""
    heads = [head for head in survey.heads if head.parts]
    if heads:
        most = max(heads, key=lambda head: min(part.mean - part.elsewhere for part in head.parts))
        yield f"{most.name} behaves differently in parts of the corpus: {parts_text(most)}"
    if len(heads) > 1:
        yield "so does 1 other head" if len(heads) == 2 else f"so do {len(heads) - 1} other heads"


def parts_text(head: SurveyedHead) -> str:
    """Return the two parts of the corpus in which a head behaves differently."""
    return " and ".join(map(_part_text, head.parts))


def _part_text(part: CorpusPart) -> str:
    """Return one part: `the first token gets 76 % on 42 % of the lines (1 to 19; 31 % on the other
    part)`."""
    target = "broad attention reaches"
    if part.kind is not BROAD_PATTERN:
        target = f"{part.kind.target_phrase} gets"
    return (
        f"{target} {percent_text(part.mean)} on {percent_text(part.share)} of the lines "
        f"({part.first_line:,} to {part.last_line:,}; {percent_text(part.elsewhere)} on the other "
        "part)"
    )


def _heads_table(survey: Survey) -> Grid:
    """Return a table with a row for each head, in the order of the ranking."""
    rows = [_table_row(head) for head in survey.ranked]
    kinds = ["" if head.best is None else _kind_label(head) for head in survey.ranked]
    names = tuple(head.name for head in survey.ranked)
    note = (
        "of each head the pattern that it shows most (in brackets if it does not stand out): mean "
        "over lines, its 95 % interval, even attention; lines = share of the lines on which it is "
        f"the head's main pattern; repeats = {REPEATS_NAME}; entropy in bits · "
        f"{RULE_NOTE}"
    )
    return Grid(
        "what heads do over all lines",
        Axis("head", "head", tuple(kinds), names),
        plain_axis("measure", TABLE_COLUMNS),
        cells_without_nan(np.array(rows, dtype=float)),
        colorless_scale("mean over lines"),
        note=note,
        decimals=2,
    )


def _kind_label(head: SurveyedHead) -> str:
    """Return the short name of a head's best pattern, in brackets if it does not stand out."""
    assert head.best is not None
    return head.best.short if head.stands_out else f"({head.best.short})"


def _table_row(head: SurveyedHead) -> list[float]:
    """Return the numbers of a head in the order of `TABLE_COLUMNS`."""
    best = head.estimates[(head.best or PATTERN_KINDS[0]).name]
    bits = head.estimates["entropy"].mean
    return [best.mean, best.low, best.high, best.even, head.often, head.repeats.mean, bits]


def _pattern_maps(survey: Survey) -> Iterator[Grid]:
    """Yield a map for each pattern that any line can show: a row for each layer, a column for each
    head."""
    layers = list(dict.fromkeys(head.head_id[0] for head in survey.heads))
    width = 1 + max(head.head_id[1] for head in survey.heads)
    for kind in PATTERN_KINDS:
        values = np.full((len(layers), width), np.nan)
        for head in survey.heads:
            values[layers.index(head.head_id[0]), head.head_id[1]] = head.estimates[kind.name].mean
        if not np.isnan(values).all():
            yield Grid(
                kind.name,
                titled_axis("layer", [f"L{layer}" for layer in layers]),
                titled_axis("head", [f"H{head}" for head in range(width)]),
                cells_without_nan(values),
                Scale("mean share", 0.0, 1.0),
                note=MAP_NOTES.get(kind.short, ""),
            )


def point_cloud(survey: Survey) -> PointCloud:
    """Return the heads as points, which a page places by any two measures, with their examples."""
    axes = [PointAxis(measure.name, measure.about, measure.is_share) for measure in MEASURES]
    axes.append(PointAxis(REPEATS_NAME, REPEATS_ABOUT, True))
    counts = Counter(PATTERN_KINDS.index(h.best) for h in survey.heads if h.best and h.stands_out)
    first_axes = [index for index, _ in counts.most_common(2)]
    first_axes += [index for index in (0, 2) if index not in first_axes]
    kinds = [kind.name for number, kind in enumerate(PATTERN_KINDS) if counts[number]]
    numbers = sorted({example.line for head in survey.heads for example in head.examples})
    tokens_by_line = {example.line: example.tokens for h in survey.heads for example in h.examples}
    index_by_line = {number: index for index, number in enumerate(numbers)}
    return PointCloud(
        title="heads",
        axes=tuple(axes),
        first_axes=(first_axes[0], first_axes[1]),
        kinds=(*kinds, NO_KIND),
        points=tuple(_point(head, index_by_line) for head in survey.ranked),
        lines=tuple(
            LineTokens(tokens_by_line[number].labels, tokens_by_line[number].spaced)
            for number in numbers
        ),
    )


def _point(head: SurveyedHead, index_by_line: dict[int, int]) -> Point:
    """Return a head as a point; `index_by_line`: the indices of lines by their numbers."""
    estimates = [*head.estimates.values(), head.repeats]
    values, lows, highs = (
        tuple(_number(getattr(estimate, name)) for estimate in estimates)
        for name in ("mean", "low", "high")
    )
    groups = max((example.tenth for example in head.examples), default=0)
    return Point(
        name=head.name,
        kind=head.best.name if head.best and head.stands_out else NO_KIND,
        summary=head_sentences(head),
        values=values,
        lows=lows,
        highs=highs,
        examples=tuple(
            PointExample(
                "the most" if example.tenth == groups else f"part {example.tenth} of {groups}",
                f"line {example.line:,}: {share_text(example.score)}",
                index_by_line[example.line],
                example.query,
                example.key,
                share_text(example.weight),
            )
            for example in head.examples
        ),
    )


def head_sentences(head: SurveyedHead) -> tuple[str, ...]:
    """Return what a head does, with its interval and how often; and its parts of the corpus."""
    if head.best is None:
        return (f"{head.name}: no line shows what it does.",)
    estimate = head.estimates[head.best.name]
    interval = ""
    if not math.isnan(estimate.low):
        interval = f"; 95 % interval {share_text(estimate.low)} to {share_text(estimate.high)}"
    standing = "" if head.stands_out else ", which does not stand out"
    sentences = [
        f"{head.name} {_does_text(head.best, estimate)}{standing}{interval}.",
        f"This is its main pattern on {percent_text(head.often)} of the "
        f"{counted(estimate.lines, 'line')} that can show it.",
    ]
    if head.parts:
        sentences.append(f"It behaves differently in parts of the corpus: {parts_text(head)}.")
    return tuple(sentences)


def _number(value: float) -> float | None:
    """Return a number, or None for NaN, which JSON lacks."""
    return None if math.isnan(value) else value


def _estimate_document(estimate: Estimate) -> Contents:
    """Return an estimate as JSON data."""
    return {name: _number(value) for name, value in asdict(estimate).items()}


def _survey_document(survey: Survey) -> Contents:
    """Return the Survey as JSON data."""
    return {
        "model": survey.model,
        "conclusion": " ".join((as_sentence(survey_headline(survey)), *survey_sentences(survey))),
        "lines": survey.lines,
        "tokens": survey.tokens,
        "blank lines": survey.blank_lines,
        "cut lines": survey.cut_lines,
        "interrupted": survey.interrupted,
        "rules": {
            "stands out": RULE_NOTE,
            "parts": "two patterns are each the main one on at least "
            f"{percent_text(MIN_PART_SHARE)} of the lines (and {MIN_LINES}), and the mean of each "
            f"is at least {share_text(MIN_PATTERN_EXCESS)} higher on its own lines",
        },
        "measures": {measure.name: measure.about for measure in MEASURES}
        | {REPEATS_NAME: REPEATS_ABOUT},
        "heads": [_head_document(head) for head in survey.heads],
    }


def _head_document(head: SurveyedHead) -> Contents:
    """Return what one head does as JSON data."""
    return {
        "head": head.name,
        "best": None if head.best is None else head.best.name,
        "stands out": head.stands_out,
        "often": _number(head.often),
        "measures": {
            name: _estimate_document(estimate)
            for name, estimate in (*head.estimates.items(), (REPEATS_NAME, head.repeats))
        },
        "parts": [
            {
                "kind": part.kind.name,
                "lines": part.lines,
                "share": part.share,
                "mean": part.mean,
                "on the others": part.elsewhere,
                "first line": part.first_line,
                "last line": part.last_line,
            }
            for part in head.parts
        ],
        "examples": [
            {
                "tenth": example.tenth,
                "line": example.line,
                "text": example.tokens.text,
                "score": example.score,
                "query": example.tokens.labels[example.query],
                "query number": example.query + 1,
                "key": example.tokens.labels[example.key],
                "key number": example.key + 1,
                "weight": example.weight,
            }
            for example in head.examples
        ],
    }


def _survey_lines(survey: Survey) -> Iterator[TableLines]:
    """Yield the lines of the table: for each head a line for each measure."""
    words = WordColumns(((*(measure.name for measure in MEASURES), REPEATS_NAME),))
    for head in survey.heads:
        estimates = (*head.estimates.values(), head.repeats)
        columns = [
            [_number(getattr(estimate, name)) for estimate in estimates] for name in ESTIMATE_FIELDS
        ]
        best = "" if head.best is None else head.best.name
        start = (head.name, best, "yes" if head.stands_out else "no")
        yield TableLines(start, words, tuple(columns))
