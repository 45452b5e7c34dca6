"""What each head does: the strongest heads of every pattern, and sentences on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.patterns import (
    BROAD_PATTERN,
    COLUMN_PATTERN,
    MIN_BROAD_ENTROPY,
    MIN_PATTERN_EXCESS,
    PATTERN_KINDS,
    HeadPatterns,
    PatternKind,
)
from attnviz.analysis.inspection.token_query import most_telling_link
from attnviz.cells import unmasked_cells
from attnviz.options.values import Weigh
from attnviz.traces.archive import Contents
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale
from attnviz.views.heads.sentences import heads_text
from attnviz.views.inspection.heatmap import BROAD_NOTE
from attnviz.views.inspection.link_sentences import telling_link_sentence
from attnviz.views.inspection.map_numbers import side_label
from attnviz.views.view import (
    HEAD_COLUMNS,
    TableData,
    TableLines,
    WordColumns,
    head_columns,
    named_head_document,
)
from attnviz.wording.numbers import percent_text, share_text
from attnviz.wording.words import and_list, as_sentence, counted

RANK_LABELS = ("1st", "2nd", "3rd", "4th", "5th")
SHARE_SCALE = Scale("share", 0.0, 1.0)
MIN_TOKENS_WITHOUT_NOTE = 5  # tokens: the note says if a mean is over fewer
SHARE_NOTES: dict[Weigh, str] = {
    "weight": "each head with its share of a token's attention",
    "norm": "each head with its share of a token's weight × length",
    "gradient": "by weight alone: each head with its share of a token's attention",
}
WEIGH_OPENINGS: dict[Weigh, tuple[str, ...]] = {  # before a sentence on what heads do
    "weight": (),
    "norm": ("by weight × length",),
    "gradient": ("by weight alone",),
}
REMAINDER_PHRASE = "of what is left"  # where tokens are hidden
STANDS_OUT_NOTE = (
    "a head is of a kind if its score is above that of even attention by at least "
    f"{percent_text(MIN_PATTERN_EXCESS)} of what is missing there to 1"
)
BROAD_RULE_NOTE = f"broad: its entropy is at least {share_text(MIN_BROAD_ENTROPY)} of the largest"
COLUMN_NOTE = (
    "column = one token, neither the first nor a separator, that most tokens give their largest "
    "weight"
)


def heads_table(inspection: Inspection) -> Grid | None:
    """Return a table of up to five strongest heads of each kind, beside a head with even attention.

    Rows are kinds, such as attention to the previous token; None if no head can show any.
    """
    patterns = inspection.patterns
    kinds = [kind for kind in PATTERN_KINDS if patterns.strongest(kind)]
    best_heads = [patterns.strongest(kind)[: len(RANK_LABELS)] for kind in kinds]
    ranks = RANK_LABELS[: len(patterns.names)]
    if not kinds:
        return None
    values = np.full((len(kinds), len(ranks) + 1), np.nan)  # masks may leave few that can show it
    for row, (kind, heads) in enumerate(zip(kinds, best_heads, strict=True)):
        # the mean, because masks may differ between heads
        values[row, 0] = float(np.nanmean(patterns.even_scores[:, PATTERN_KINDS.index(kind)]))
        values[row, 1 : len(heads) + 1] = [patterns.score(head, kind) for head in heads]
    names = [[patterns.names[head] for head in heads] for heads in best_heads]
    return Grid(
        "what heads do",
        plain_axis("kind", [_with_unit_of_map(kind.name, inspection) for kind in kinds]),
        plain_axis("rank", ["even", *ranks]),
        unmasked_cells(values),
        SHARE_SCALE,
        note=_with_unit_of_map(_kinds_note(patterns, inspection.options), inspection),
        decimals=2,
        words=tuple(("", *heads, *[""] * (len(ranks) - len(heads))) for heads in names),
    )


def _kinds_note(patterns: HeadPatterns, looking: InspectOptions) -> str:
    """Return the note below the table: what scores mean, and which kinds few tokens can show.

    Kinds that no head shows are explained, too, and so is a sample of tokens.
    """
    share_note = f"{SHARE_NOTES[looking.weigh]}{f' {REMAINDER_PHRASE}' if looking.hides else ''}"
    parts = [
        f"{share_note}, averaged over the tokens that can show it",
        "even = a head that attends to all tokens equally",
        STANDS_OUT_NOTE,
        *([COLUMN_NOTE] if patterns.strongest(COLUMN_PATTERN) else []),
        *([BROAD_NOTE] if patterns.strongest(BROAD_PATTERN) else []),
    ]
    parts += [
        f"{kind.short}: {kind.why_absent}" for kind in PATTERN_KINDS if not patterns.strongest(kind)
    ]
    parts += [
        f"{kind.short}: only {counted(rows, 'token')} of {patterns.sampled_count:,} can show it"
        for kind, rows in zip(PATTERN_KINDS, patterns.showing_counts.tolist(), strict=True)
        if 0 < rows < min(MIN_TOKENS_WITHOUT_NOTE, patterns.sampled_count - 1)
    ]
    if patterns.sampled_count < patterns.tokens:
        parts.append(f"{patterns.sampled_count:,} of the {patterns.tokens:,} tokens were sampled")
    return " · ".join(parts)


def _with_unit_of_map(text: str, inspection: Inspection) -> str:
    return text.replace("token", inspection.options.unit)


def head_kind_sentences(inspection: Inspection) -> tuple[str, ...]:
    """Return a sentence on the strongest head of each kind, and one on what most heads do.

    For a single head only what it does. Empty if no head belongs to any kind.
    """
    patterns, looking = inspection.patterns, inspection.options
    strongest_heads = _strongest_heads(patterns)
    if len(patterns.names) == 1:
        text = head_kind_text(inspection, 0)
        return (as_sentence(text),) if text else ()
    if not strongest_heads:
        return ()
    parts = [
        _strongest_head_phrase(inspection, *pair, with_verb=not rank)
        for rank, pair in enumerate(strongest_heads)
    ]
    common_text = _with_unit_of_map(_common_kind_text(patterns), inspection)
    statements = filter(None, (and_list(parts), common_text))
    return tuple(as_sentence(f"{_weigh_opening(looking)}{statement}") for statement in statements)


def _strongest_heads(patterns: HeadPatterns) -> list[tuple[PatternKind, int]]:
    return [(kind, heads[0]) for kind in PATTERN_KINDS if (heads := patterns.heads_of_kind(kind))]


def _weigh_opening(looking: InspectOptions) -> str:
    """Return the opening `by weight × length, of what is left, ` for --weigh and hidden tokens.

    Empty for plain weights of all tokens.
    """
    parts = (*WEIGH_OPENINGS[looking.weigh], *((REMAINDER_PHRASE,) if looking.hides else ()))
    return "".join(f"{part}, " for part in parts)


def head_flags(inspection: Inspection) -> tuple[Flag, ...]:
    """Return a flag for the strongest head of each kind, which marks it in the overview."""
    patterns = inspection.patterns
    return tuple(
        Flag(
            head,
            f"column {read_target_text(inspection, head, kind)}"
            if kind is COLUMN_PATTERN
            else _with_unit_of_map(kind.name, inspection),
            kind.short,
            share_text(patterns.score(head, kind)),
            patterns.kinds.count(kind),
        )
        for kind, head in _strongest_heads(patterns)
    )


def flag_indices(inspection: Inspection) -> tuple[int | None, ...]:
    """Return for each head the index of its kind among `head_flags`; None for one without kind."""
    kinds = [kind for kind, _ in _strongest_heads(inspection.patterns)]
    return tuple(None if kind is None else kinds.index(kind) for kind in inspection.patterns.kinds)


def read_target_text(inspection: Inspection, head: int, kind: PatternKind) -> str:
    """Return what a head of a kind attends to: `the previous token`, or its column's token."""
    patterns = inspection.patterns
    key = patterns.columns[head]
    if kind is COLUMN_PATTERN and key is not None:
        return side_label(patterns.keys, key)
    return _with_unit_of_map(kind.target_phrase, inspection)


def head_kind_text(inspection: Inspection, head: int) -> str:
    """Describe one head: `L5H11: most tokens attend to "animal" (41 % on average)`.

    Empty for a head that belongs to no kind.
    """
    patterns, looking = inspection.patterns, inspection.options
    kind, name = _dominant_kind(patterns, head), patterns.names[head]
    if kind is None:
        return ""
    opening, score_text = _weigh_opening(looking), percent_text(patterns.score(head, kind))
    if kind is BROAD_PATTERN:
        return f"{opening}{_strongest_head_phrase(inspection, kind, head, with_verb=True)}"
    target = read_target_text(inspection, head, kind)
    if not kind.one_key or not patterns.is_most_attended(head, kind):
        return f"{opening}{name} attends to {target} ({score_text} on average)"
    statement = f"most {looking.unit}s attend to {target}"
    subject = f"{opening}{statement} in {name}" if opening else f"{name}: {statement}"
    return f"{subject} ({score_text} on average)"


def head_kind_title(inspection: Inspection, head: int) -> str:
    """Describe one head as a title; of a head of no kind, its most telling link, or `What tokens
    attend to in L5H11`.
    """
    name, unit = inspection.patterns.names[head], inspection.options.unit
    text, link = head_kind_text(inspection, head), None
    if not text and inspection.options.weigh == "weight" and unit != "sentence":
        link = most_telling_link((inspection.maps[head],), inspection.options)
    if link is not None:
        return telling_link_sentence(link)
    text = text or f"what {unit}s attend to in {name}"
    return f"{text[0].upper()}{text[1:]}"


def _dominant_kind(patterns: HeadPatterns, head: int) -> PatternKind | None:
    """Return a head's main kind; without one, that of the one key to which most tokens attend.

    None if there is neither.
    """
    columns = (
        kind for kind in PATTERN_KINDS if kind.one_key and patterns.is_most_attended(head, kind)
    )
    return patterns.kinds[head] or next(columns, None)


def _strongest_head_phrase(
    inspection: Inspection, kind: PatternKind, head: int, *, with_verb: bool
) -> str:
    """Return `L0H2 attends to the previous token (98 %)`; `with_verb` adds `attends`."""
    patterns, verb = inspection.patterns, "attends " * with_verb
    name, score = patterns.names[head], percent_text(patterns.score(head, kind))
    if kind is BROAD_PATTERN:
        return f"{name} attends broadly (entropy {score} of the largest possible)"
    return f"{name} {verb}to {read_target_text(inspection, head, kind)} ({score})"


def _common_kind_text(patterns: HeadPatterns) -> str:
    """State what most heads do, by the kind with most heads; empty if no kind has two."""
    heads, (kind, count) = len(patterns.names), common_kind(patterns)
    if count < 2:
        return ""
    if kind is BROAD_PATTERN:
        stands_out = any(each not in (None, BROAD_PATTERN) for each in patterns.kinds)
        rest = "" if stands_out else ": nothing stands out"
        return f"{heads_text(count, heads)} attend broadly{rest}"
    return f"{heads_text(count, heads)} attend mostly to {kind.target_phrase}"


def common_kind(patterns: HeadPatterns) -> tuple[PatternKind, int]:
    """Return the kind that most heads are of, with the number of heads that do mostly that."""
    counts = {
        kind: sum(
            kind is BROAD_PATTERN or patterns.is_most_attended(head, kind)
            for head in patterns.heads_of_kind(kind)
        )
        for kind in PATTERN_KINDS
    }
    return max(counts.items(), key=lambda item: item[1])


def head_kinds_data(inspection: Inspection) -> TableData:
    header = (*HEAD_COLUMNS, "kind", "column", *(kind.name for kind in PATTERN_KINDS))
    lines = partial(_head_kind_lines, inspection.patterns)
    return TableData("inspection", partial(head_kinds_document, inspection), header, lines)


def head_kinds_document(inspection: Inspection) -> Contents:
    """Return what kinds there are, and the kind and scores of each head, as JSON data."""
    patterns = inspection.patterns
    return {
        "kinds": [
            {"kind": kind.name, "about": kind.about, "tokens": rows}
            for kind, rows in zip(PATTERN_KINDS, patterns.showing_counts.tolist(), strict=True)
        ],
        "stands out from": MIN_PATTERN_EXCESS,
        "heads": [_head_scores_document(patterns, head) for head in range(len(patterns.names))],
    }


def _head_scores_document(patterns: HeadPatterns, head: int) -> Contents:
    """Return one head's kind, column and scores as JSON data, with the scores of even attention."""
    kind = patterns.kinds[head]
    return {
        **named_head_document(patterns.names[head]),
        "kind": None if kind is None else kind.name,
        "column": _column_text(patterns, head) or None,
        "scores": _numbers_by_kind(patterns.scores[head]),
        "even": _numbers_by_kind(patterns.even_scores[head]),
    }


def _column_text(patterns: HeadPatterns, head: int) -> str:
    """Return the one token that most tokens attend to in a head: `3 animal`; empty if none."""
    key = patterns.columns[head]
    return "" if key is None else f"{patterns.keys.numbers[key]} {patterns.keys.labels[key]}"


def _numbers_by_kind(numbers: np.ndarray) -> dict[str, float | None]:
    """Return the numbers by the name of their kind; NaN becomes None."""
    return {
        kind.name: number for kind, number in zip(PATTERN_KINDS, nan_to_none(numbers), strict=True)
    }


def nan_to_none(numbers: np.ndarray) -> list[float | None]:
    """Return the numbers as a list in which NaN is None, as JSON needs."""
    return [None if math.isnan(number) else number for number in numbers.tolist()]


def _head_kind_lines(patterns: HeadPatterns) -> Iterator[TableLines]:
    """Yield all lines of the table at once: head, kind, column token, and a score for each kind."""
    kinds = tuple("" if kind is None else kind.name for kind in patterns.kinds)
    keys = tuple(_column_text(patterns, head) for head in range(len(patterns.names)))
    columns = tuple(map(nan_to_none, patterns.scores.T))
    yield TableLines((), WordColumns((*head_columns(patterns.names), kinds, keys)), columns)
