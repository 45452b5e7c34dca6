"""TextPart: the queries and keys that `--window 1200:1300,1:400` names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attnviz.errors import AttnvizError, opt
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import counted

EXAMPLE = "1200:1300"
NEARBY_TOKENS = 100  # of the part that a hint names in place of one outside the text
_SPAN_PATTERN = re.compile(r"(\d{0,18}):(\d{0,18})|(\d{1,18})", re.ASCII)
Span = tuple[int, int | None]  # the first and the last token, from 1; None: the last of the text


@dataclass(frozen=True)
class TextPart:
    """Tokens that read and tokens that are read: numbers from 1, the last one included."""

    typed: str
    query_span: Span
    key_span: Span

    @property
    def names_keys(self) -> bool:
        """Whether keys are named; else they are all that the queries may attend to."""
        return "," in self.typed

    def queries(self, count: int, unit: str = "token") -> range:
        """Return the positions, from 0, of the queries in a text of `count` tokens, or words."""
        return self._positions(self.query_span, "the text, which has", count, unit)

    def keys(self, count: int, unit: str = "token", *, is_memory: bool = False) -> range:
        """Return the positions, from 0, of the keys; `is_memory`: they are of a second text."""
        owner = "the second text, which has" if is_memory else "the text, which has"
        return self._positions(self.key_span, owner, count, unit)

    def find_query(self, tokens: Tokens, query: int | str) -> int:
        """Return the position of a query of the part: of a word, the one in the part if only one
        is. Refuses a query outside the part.
        """
        queries, inside = self.queries(len(tokens)), list[int]()
        if isinstance(query, str):
            inside = [position for position in tokens.find(query) if position in queries]
        position = inside[0] if len(inside) == 1 else tokens.index(query, "query")
        if position not in queries:
            raise AttnvizError(
                f"'{tokens[position]}' is token {position + 1:,}, and only {span_text(queries)} "
                "are shown as queries",
                f"try {opt.query:{queries[0] + 1}}",
                about="query",
            )
        return position

    def _positions(self, span: Span, owner: str, count: int, unit: str) -> range:
        """Return a span as positions; refuse one that is not inside so many tokens."""
        first, last = span[0], count if span[1] is None else span[1]
        if first > count or last > count:
            start = first if first <= count else max(1, count - NEARBY_TOKENS + 1)
            is_query = span is self.query_span
            right = f"{start}:{count}"
            suggestion = right if is_query else f"{self.typed.partition(',')[0]},{right}"
            raise AttnvizError(
                f"{opt.part:{self.typed}} reaches beyond {owner} {counted(count, unit)}",
                f"try {opt.part:{suggestion}}",
                about="part",
            )
        return range(first - 1, last)


def parse_part(typed: str) -> TextPart:
    """Return the part that a text names: `queries` or `queries,keys`, each first:last.

    An end that is left out is that of the text. Refuses anything else.

    >>> part = parse_part("1200:1300,:400")
    >>> part.queries(5000), part.keys(5000)
    (range(1199, 1300), range(0, 400))
    """
    spans = [_SPAN_PATTERN.fullmatch(word.strip()) for word in typed.split(",")]
    if len(spans) > 2 or None in spans:
        raise AttnvizError(
            f"'{typed}' names no part of a text, as {EXAMPLE} (queries) and {EXAMPLE},1:400 "
            "(queries, keys) do",
            f"try {opt.part:{EXAMPLE}}",
            about="part",
        )
    query_span, key_span = [
        *(_parse_span(typed, span) for span in spans if span is not None),
        (1, None),
    ][:2]
    return TextPart(typed, query_span, key_span)


def _parse_span(typed: str, span: re.Match[str]) -> Span:
    """Return the first and the last token of a span; 0 begins at the first token, as 1 does.

    Refuses a span that ends before it begins.
    """
    start = max(int(span[1] or span[3] or 1), 1)
    last = int(span[2] or span[3]) if span[2] or span[3] else None
    if last is not None and last < start:
        reason = f"it ends at {last}, before {start}" if last else "tokens count from 1"
        raise AttnvizError(
            f"{opt.part:{typed}} holds no tokens: {reason}",
            f"try {opt.part:{f'{last}:{start}' if last else '1:1'}}",
            about="part",
        )
    return start, last


def span_text(positions: range) -> str:
    """Return tokens by their numbers, from 1: `tokens 1,200–1,300`, `token 7`."""
    first, last = positions[0] + 1, positions[-1] + 1
    return f"token {first:,}" if first == last else f"tokens {first:,}–{last:,}"
