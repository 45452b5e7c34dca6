"""Exact rows of a page that shows blocks of tokens: what one token of each attends to.

Where there are many heads, several rows of the map share a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from attnviz.heads.head import Head
from attnviz.tokens.text_part import span_text
from attnviz.views.grids.section import Section
from attnviz.views.heads.bars import row_bars
from attnviz.views.heads.findings import query_text, row_finding
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import as_sentence, counted

MAX_KEYS = 10  # of a row that are listed
MAX_LISTED_KEYS = 6000  # of all rows and heads: about 400 kB in a page
CERTAIN = 1 - 1e-6  # a weight that is 100 %
MAX_HEADS = 12  # of which a page has rows
StepsOfRow = Callable[[int], tuple[str, tuple[Section, ...]]]


def exact_rows(heads: Sequence[Head], height: int, query: int | None = None) -> StepsOfRow:
    """Return a function that gives the title and the exact rows, of each head, for a row of a map
    of `height` queries.

    Stored is the query whose largest weight, in any head, exceeds that of its neighbours; `query`:
    the position of one that is stored in any case.
    """
    weights = np.max([_largest_weights(head) for head in heads], axis=0)
    queries, heads = heads[0].rows.span, heads[:MAX_HEADS]
    rows = -(-len(queries) // height)
    step = height * max(1, -(-rows * len(heads) * MAX_KEYS // MAX_LISTED_KEYS))
    telling = np.where(weights < CERTAIN, weights, -1.0)  # an only key has all of the attention

    def steps_of_row(row: int) -> tuple[str, tuple[Section, ...]]:
        first = row * height // step * step
        span = queries[first : first + step]
        best = int(telling[first : first + step].argmax())
        position = span[best] if query is None or query not in span else query
        parts = [head.part(range(position, position + 1), head.columns.span) for head in heads]
        others = weights[first : first + step]
        about = ""
        if len(span) > 1 and position == span[best]:
            where = " in any head" if len(heads) > 1 else ""
            apart = ", apart from those with 100 %" if others.max() > others[best] else ""
            about = f"No other of {span_text(span)} has a larger weight{where}{apart}."
        name = f"{parts[0].name}: " if len(parts) > 1 else ""
        sections = tuple(_exact_row(part, about, is_only=len(parts) == 1) for part in parts)
        return as_sentence(f"{name}{row_finding(parts[0])}").removesuffix("."), sections

    return steps_of_row


def _largest_weights(head: Head) -> Float[np.ndarray, "query"]:
    return head.numbers("largest_weight") if head.is_measured else head.facts.largest


def _exact_row(part: Head, about: str, *, is_only: bool) -> Section:
    """Return the exact row of the only query of a part as a section: the keys with most weight."""
    bars = row_bars(part, MAX_KEYS)
    listed, title = float(bars.grid.values.sum()), f"What {query_text(part, part.rows.span[0])}"
    if listed:
        weights = counted(len(bars.grid.rows), "largest weight")
        about = f"{about} Its {weights} sum to {percent_text(listed)}."
    return Section(
        number="",
        name=f"row {part.name}",
        title=f"{title} attends to{'' if is_only else f' in {part.name}'}",
        about=about.strip(),
        remarks=() if listed else (as_sentence(row_finding(part)),),
        ranking=bars if listed else None,
    )
