"""The View of a Survey: notable heads of a corpus, a table of all heads, points."""

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
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import Axis, plain_axis, titled_axis
from attnviz.views.grids.grid import Grid, cells_without_nan
from attnviz.views.grids.points import LineTokens, Point, PointAxis, PointCloud, PointExample
from attnviz.views.grids.scales import Scale, colorless_scale
from attnviz.views.settings_line import stored_text
from attnviz.views.view import (
    HEAD_COLUMNS,
    Excerpt,
    Group,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
    head_cells,
    named_head_document,
)
from attnviz.wings.corpora.line_measures import MEASURES
from attnviz.wings.corpora.mean_estimates import MAX_COMPARED_TEXTS, MIN_INTERVAL_OBSERVATIONS
from attnviz.wings.corpora.survey import (
    GROUPS_LEVEL,
    MIN_LINES,
    MIN_PART_SHARE,
    REPEATED_TEXTS,
    REPEATED_TOKENS,
    TENTHS,
    CorpusPart,
    Estimate,
    Example,
    Survey,
    SurveyedHead,
)
from attnviz.wings.corpora.totals import SAMPLED_LINES
from attnviz.wording.commands import Command
from attnviz.wording.numbers import number_or_none, percent_text, share_text
from attnviz.wording.words import and_list, as_sentence, counted

TABLE_COLUMNS = ("mean", "from", "to", "even", "lines", "repeats", "entropy")
CSV_HEADER = (*HEAD_COLUMNS, "best", "stands out", "measure", "examples")
ESTIMATE_FIELDS = ("mean", "spread", "low", "high", "even", "lines")
TERMINAL_COLUMNS, TERMINAL_LINES = 80, 24  # that everything fits in, without --full
EXCERPT_FRAME_LINES, MIN_EXCERPT_HEADS = 7, 3  # blank lines, titles and the prompt; heads
REPEATS_NAME = "induction on random repeats"
REPEATS_ABOUT = (
    f"the induction score on {REPEATED_TEXTS} texts of {REPEATED_TOKENS} random tokens of the "
    "model's vocabulary, each occurring twice"
)
LITTLE_PHRASE = "attend broadly, to the first token or to separators"
NO_KIND = "no clear pattern"
RULE_NOTE = (
    "a head stands out if the low end of its 95 % interval is at least "
    f"{percent_text(MIN_PATTERN_EXCESS)} of the way from even attention to 1 (broad: if it is at "
    f"least {share_text(MIN_BROAD_ENTROPY)}); each interval is for one head alone, and takes "
    "{noun}s for independent"
)
GROUPS_NOTE = (
    f"two groups of lines: two patterns are each the main one on at least "
    f"{percent_text(MIN_PART_SHARE)} of the lines (and {MIN_LINES}); the mean of each is at least "
    f"{share_text(MIN_PATTERN_EXCESS)} higher on its own lines than on the other's; and so few "
    "lines are half-way between the two groups that a head whose lines have no such groups would "
    f"hardly show it: with a probability of at most {percent_text(GROUPS_LEVEL)} any head of the "
    f"model is named by chance (binomial tests on half of up to {SAMPLED_LINES} lines, corrected "
    "for the number of heads, which take lines for independent)"
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
            "survey",
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
    if survey.documents > 1:
        parts.append(f"{counted(survey.documents, 'document')} (blank lines separate them)")
    elif survey.blank_lines:
        parts.append(f"{counted(survey.blank_lines, 'blank line')} left out")
    if survey.cut_lines:
        parts.append(f"{counted(survey.cut_lines, 'line')} cut to the model's longest text")
    if survey.interrupted:
        parts.append("stopped before the end of the texts")
    return " · ".join(parts)


def survey_headline(survey: Survey) -> str:
    """Return how many heads do more than attend broadly, to the first token or to separators, in a
    line."""
    if survey.ranked[0].best is None:
        return "No token has a choice of what to attend to"
    observations, noun = survey.observations
    if observations < MIN_LINES:
        subject = "A single line" if observations == 1 else counted(observations, noun)
        return f"{subject} cannot show what stands out"
    more = sum(head.does_more for head in survey.heads)
    does = "does" if more <= 1 else "do"
    return (
        f"{more or 'None'} of {counted(len(survey.heads), 'head')} {does} more than {LITTLE_PHRASE}"
    )


def _does_text(kind: PatternKind, estimate: Estimate) -> str:
    """Return what a head does: `gives the previous token 93 % of its attention (7 % if even)`."""
    share = percent_text(max(estimate.mean, 0.0))
    if kind is BROAD_PATTERN:
        return f"attends broadly (entropy {share} of the largest possible)"
    base = percent_text(estimate.even)
    return f"gives {kind.target_phrase} {share} of its attention ({base} if even)"


def survey_sentences(survey: Survey) -> tuple[str, ...]:
    """Return sentences on the clearest head, on how many stand out, on induction, on the heads that
    do different things on two groups of lines, and on lines that repeat others."""
    statements = [_first_statement(survey), _kinds_statement(survey), _repeats_statement(survey),
                  *_part_statements(survey)]  # fmt: skip
    if survey.repeated_lines:
        statements.append(repeats_statement(survey.repeated_lines, survey.lines, "line"))
    statements.append(independence_statement(survey.lines, survey.documents, "line"))
    return tuple(as_sentence(statement) for statement in statements if statement)


def _first_statement(survey: Survey) -> str:
    """Return what the first head of the ranking does; empty if no line shows what heads do."""
    top = survey.ranked[0]
    if top.best is None:
        return ""
    does = f"{top.name} {_does_text(top.best, top.estimates[top.best.name])}"
    return does if len(survey.heads) == 1 else f"first in the table: {does}"


def independence_statement(texts: int, documents: int, noun: str) -> str:
    """Return what the intervals over the texts of a corpus take for independent; empty without
    intervals."""
    if documents > 1:
        condition = (
            f"intervals need {MIN_INTERVAL_OBSERVATIONS} or more"
            if documents < MIN_INTERVAL_OBSERVATIONS
            else "if these are paragraphs of one text, intervals may be too narrow"
        )
        return (
            f"blank lines separate {counted(documents, 'document')}, each of which counts as one "
            f"observation; {condition}"
        )
    if texts < MIN_INTERVAL_OBSERVATIONS:
        return ""
    return (
        f"intervals take {noun}s for independent: if some are of one document, separate documents "
        "by blank lines"
    )


def repeats_statement(repeated: int, texts: int, noun: str) -> str:
    """Return how many texts repeat others: `9 of 10 lines repeat an earlier one, …`."""
    among = counted(texts, noun)
    if texts > MAX_COMPARED_TEXTS:
        among = f"the first {MAX_COMPARED_TEXTS:,} {noun}s"
    caveat = ", but the intervals count them as independent"
    verb = "repeats" if repeated == 1 else "repeat"
    ending = caveat if texts >= MIN_INTERVAL_OBSERVATIONS else ""
    return f"{repeated:,} of {among} {verb} an earlier one{ending}"


def _kinds_statement(survey: Survey) -> str:
    """Return how many heads stand out, and for which pattern; empty if none does."""
    counts = Counter(head.best for head in survey.heads if head.stands_out)
    parts = [f"{kind.name} {counts[kind]}" for kind in PATTERN_KINDS if counts[kind]]
    standing = f"{sum(counts.values())} of {counted(len(survey.heads), 'head')}"
    return f"by their main pattern {standing} stand out: {and_list(parts)}" if parts else ""


def _repeats_statement(survey: Survey) -> str:
    """Return which head has the highest induction score on random tokens, and whether it is
    clear."""
    head = max(survey.heads, key=lambda head: np.nan_to_num(head.repeats.mean, nan=-1))
    estimate = head.repeats
    if math.isnan(estimate.mean):
        return ""
    numbers = f"{percent_text(estimate.mean)} ({percent_text(estimate.even)} if even)"
    is_clear = (estimate.mean - estimate.even) / (1 - estimate.even) >= MIN_PATTERN_EXCESS
    if is_clear:
        return f"{head.name} is the clearest induction head: {numbers} on repeated random tokens"
    return (
        "no head is clearly an induction head: on repeated random tokens, the highest score is "
        f"{numbers}, of {head.name}"
    )


def _part_statements(survey: Survey) -> Iterator[str]:
    """Yield which head differs most between two groups of lines, and how many others have some."""
    heads = [head for head in survey.heads if head.parts]
    if heads:
        most = max(heads, key=lambda head: min(part.mean - part.elsewhere for part in head.parts))
        yield f"{most.name} does different things on two groups of lines: {parts_text(most)}"
    if len(heads) > 1:
        yield "so does 1 other head" if len(heads) == 2 else f"so do {len(heads) - 1} other heads"
    if heads:
        yield (
            "heads are named for this if few lines lie half-way between the two groups, by a test "
            f"that names any head by chance with a probability of {percent_text(GROUPS_LEVEL)}"
        )


def parts_text(head: SurveyedHead) -> str:
    """Return the two groups of lines of a head, each with its size, first lines and pattern."""
    return "; ".join(map(_part_text, head.parts))


def _part_text(part: CorpusPart) -> str:
    """Return one group: `on 42 lines (1, 3, 4, 8, 9, …) the first token gets 76 %, against 31 % on
    the lines of the other group`."""
    target = "broad attention reaches"
    if part.kind is not BROAD_PATTERN:
        target = f"{part.kind.target_phrase} gets"
    numbers = ", ".join([*(f"{number:,}" for number in part.first_lines),
                         *["…"] * (part.lines > len(part.first_lines))])  # fmt: skip
    return (
        f"on {counted(part.lines, 'line')} ({numbers}) {target} {percent_text(part.mean)}, against "
        f"{percent_text(part.elsewhere)} on the lines of the other group"
    )


def _heads_table(survey: Survey) -> Grid:
    """Return a table with a row for each head, in the order of the ranking."""
    noun = survey.observations[1]
    rows = [_table_row(head) for head in survey.ranked]
    kinds = ["" if head.best is None else _kind_label(head) for head in survey.ranked]
    names = tuple(head.name for head in survey.ranked)
    note = (
        "of each head the pattern that it shows most (in brackets if it does not stand out): mean "
        f"over {noun}s, its 95 % interval, even attention (none for broad); lines = share of the "
        f"lines on which it is the head's main pattern; repeats = {REPEATS_NAME}; entropy in bits "
        f"· order: heads that do more than {LITTLE_PHRASE}, then others that stand out, then "
        f"the rest, each by how far they are beyond even attention · {RULE_NOTE.format(noun=noun)}"
    )
    return Grid(
        f"what heads do over all {noun}s",
        Axis("head", "head", tuple(kinds), names),
        plain_axis("measure", TABLE_COLUMNS),
        cells_without_nan(np.array(rows, dtype=float)),
        colorless_scale(f"mean over {noun}s"),
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
    even = math.nan if head.best is BROAD_PATTERN else best.even  # of which it is the most
    return [best.mean, best.low, best.high, even, head.often, head.repeats.mean, bits]


def _pattern_maps(survey: Survey) -> Iterator[Grid]:
    """Yield a map for each pattern that any line can show: a row for each layer, a column for each
    head. A note says when a head stands out."""
    layers = list(dict.fromkeys(head.head_id[0] for head in survey.heads))
    width = 1 + max(head.head_id[1] for head in survey.heads)
    noun = survey.observations[1]
    over = "tokens and lines" if noun == "line" else "tokens, lines and documents"
    notes = {  # each once below all maps
        "previous": f"share of a token's attention, averaged over {over} · "
        f"{RULE_NOTE.format(noun=noun)}",
        "broad": "broad = entropy, as a share of the largest possible",
    }
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
                note=notes.get(kind.short, ""),
            )


def point_cloud(survey: Survey) -> PointCloud:
    """Return the heads as points, which a page places by any two measures, with their examples."""
    axes = [PointAxis(measure.name, measure.about, measure.is_share) for measure in MEASURES]
    axes.append(PointAxis(REPEATS_NAME, REPEATS_ABOUT, True))
    counts = Counter(PATTERN_KINDS.index(h.best) for h in survey.heads if h.best and h.stands_out)
    first_axes = [index for index, _ in counts.most_common(2)]
    first_axes += [index for index in (0, 2) if index not in first_axes]
    kinds = [kind.name for number, kind in enumerate(PATTERN_KINDS) if counts[number]]
    examples = [example for head in survey.heads for _, example in _grouped_examples(head)]
    tokens_by_line = {example.line: example.tokens for example in examples}
    index_by_line = {number: index for index, number in enumerate(sorted(tokens_by_line))}
    return PointCloud(
        title="heads",
        axes=tuple(axes),
        first_axes=(first_axes[0], first_axes[1]),
        kinds=(*kinds, NO_KIND),
        points=tuple(_point(head, index_by_line) for head in survey.ranked),
        lines=tuple(
            LineTokens(tokens.labels, tokens.spaced) for _, tokens in sorted(tokens_by_line.items())
        ),
    )


def _point(head: SurveyedHead, index_by_line: dict[int, int]) -> Point:
    """Return a head as a point; `index_by_line`: the indices of lines by their numbers."""
    estimates = [*head.estimates.values(), head.repeats]
    values, lows, highs = (
        tuple(number_or_none(getattr(estimate, name)) for estimate in estimates)
        for name in ("mean", "low", "high")
    )
    return Point(
        name=head.name,
        kind=head.best.name if head.best and head.stands_out else NO_KIND,
        summary=head_sentences(head),
        values=values,
        lows=lows,
        highs=highs,
        examples=tuple(
            PointExample(
                group,
                f"line {example.line:,}: {share_text(example.score)}",
                index_by_line[example.line],
                example.query,
                example.key,
                share_text(example.weight),
            )
            for group, example in _grouped_examples(head)
        ),
    )


def _grouped_examples(head: SurveyedHead) -> Iterator[tuple[str, Example]]:
    """Yield the examples of a head, each with a heading: a tenth of its lines by their score, or a
    group of lines."""
    groups = max((example.tenth for example in head.examples), default=0)
    for example in head.examples:
        nth = {1: "lowest", 2: "2nd", 3: "3rd", groups: "highest"}
        name = nth.get(example.tenth, f"{example.tenth}th")
        yield f"{name} {'tenth' if groups == TENTHS else 'part'} of the lines, by score", example
    for part in head.parts:
        for example in part.examples:
            yield f"the group of {counted(part.lines, 'line')}: {part.kind.name}", example


def head_sentences(head: SurveyedHead) -> tuple[str, ...]:
    """Return what a head does, with its interval and how often; and its parts of the corpus."""
    if head.best is None:
        return (f"{head.name}: no line shows what it does.",)
    estimate = head.estimates[head.best.name]
    interval = ""
    if not math.isnan(estimate.low):
        ends = [percent_text(max(end, 0.0)) for end in (estimate.low, estimate.high)]
        interval = f"; 95 % interval {ends[0]} to {ends[1]}"
    standing = "" if head.stands_out else ", which does not stand out"
    often = "all" if head.often == 1 else f"{percent_text(head.often)} of the"
    sentences = [
        f"{head.name} {_does_text(head.best, estimate)}{standing}{interval}.",
        f"This is its main pattern on {often} {counted(estimate.lines, 'line')} that can show it.",
    ]
    if head.parts:
        sentences.append(f"It does different things on two groups of lines: {parts_text(head)}.")
    return tuple(sentences)


def _estimate_document(estimate: Estimate) -> Contents:
    return {name: number_or_none(value) for name, value in asdict(estimate).items()}


def _survey_document(survey: Survey) -> Contents:
    return {
        "model": survey.model,
        "conclusion": " ".join((as_sentence(survey_headline(survey)), *survey_sentences(survey))),
        "lines": survey.lines,
        "tokens": survey.tokens,
        "blank lines": survey.blank_lines,
        "documents": survey.documents,
        "cut lines": survey.cut_lines,
        "repeated lines": survey.repeated_lines,
        "interrupted": survey.interrupted,
        "rules": {
            "stands out": RULE_NOTE.format(noun=survey.observations[1]),
            "parts": GROUPS_NOTE,
        },
        "measures": {measure.name: measure.about for measure in MEASURES}
        | {REPEATS_NAME: REPEATS_ABOUT},
        "heads": [_head_document(head) for head in survey.heads],
    }


def _head_document(head: SurveyedHead) -> Contents:
    return {
        **named_head_document(head.name),
        "best": None if head.best is None else head.best.name,
        "stands out": head.stands_out,
        "often": number_or_none(head.often),
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
                "on the other part": part.elsewhere,
                "first lines": list(part.first_lines),
                "p": part.p_value,
                "examples": [*map(_example_document, part.examples)],
            }
            for part in head.parts
        ],
        "examples": [*map(_example_document, head.examples)],
    }


def _example_document(example: Example) -> Contents:
    return {
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


def _example_text(example: Example) -> str:
    """Return an example for a cell: `10: line 12, it → [CLS] .93`, with the tenth first."""
    query, key = (example.tokens.labels[place] for place in (example.query, example.key))
    return f"{example.tenth}: line {example.line}, {query} → {key} {share_text(example.weight)}"


def _survey_lines(survey: Survey) -> Iterator[TableLines]:
    """Yield the lines of the table: for each head a line for each measure, that of its best
    pattern with examples."""
    names = (*(measure.name for measure in MEASURES), REPEATS_NAME)
    for head in survey.heads:
        estimates = (*head.estimates.values(), head.repeats)
        columns = [
            [number_or_none(getattr(estimate, name)) for estimate in estimates]
            for name in ESTIMATE_FIELDS
        ]
        best = "" if head.best is None else head.best.name
        start = (*head_cells(head.name), best, "yes" if head.stands_out else "no")
        examples = "; ".join(map(_example_text, head.examples))
        words = WordColumns((names, tuple(examples if name == best else "" for name in names)))
        yield TableLines(start, words, tuple(columns))
