"""Segments: a text in parts, such as paragraphs, cut by the offsets of the whole."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from attnviz.errors import AttnvizError, opt, shorten_text
from attnviz.tokens.grouping import Grouping, beginning_of_words, sentences_of_text
from attnviz.tokens.tokens import Tokens, piece_label
from attnviz.wording.words import counted

ANSWER, REST, TEMPLATE, SINK = OWN_NAMES = "answer", "rest", "template", "sink"
PARAGRAPH_START = re.compile(r"(?:\A|\n[^\S\n]*\n)\s*(?=\S)")
LINE_START = re.compile(r"(?:\A|\n)\s*(?=\S)")
MAX_QUOTED_LETTERS = 40
Part = tuple[str, int, int]  # a name, and the letters where the part begins and ends
NamedSegments = Mapping[str, str | range]  # texts, or positions of tokens from 0


@dataclass(frozen=True)
class Segments(Grouping):
    """The parts of a text, which together have all of its tokens, but special ones where the parts
    have no names; a token across a border belongs to the part in which it begins."""

    crossing: int = 0  # how many tokens begin in one part and end in another
    is_named: bool = True  # whether the labels are names; else they are how each part begins


@dataclass(frozen=True)
class TextAsRead:
    """What a model read before it wrote any token, and the letters of each token in it, without
    the spaces around them: none of a blank token."""

    tokens: Tokens
    text: str
    spans: tuple[range, ...]

    @classmethod
    def of_tokens(cls, tokens: Tokens, count: int) -> TextAsRead:
        """Return the first `count` tokens in the text that they were cut from; where it is not
        known where in it they are, in all pieces together."""
        text, spans = tokens.read or tokens.text, tokens.spans[:count]
        if not spans:
            text, spans = _text_of_pieces(tokens, count)
        visible, end = list[range](), 0
        for start, stop in spans:
            letters = text[start:stop]
            start += len(letters) - len(letters.lstrip())
            visible.append(
                range(start, start + len(letters.strip())) if letters else range(end, end)
            )
            end = visible[-1].stop
        return cls(tokens, text, tuple(visible))

    def parts_from(self, starts: Iterable[int]) -> list[Part]:
        """Return parts without names that begin at these letters, each up to the next one."""
        borders = [*starts, len(self.text)]
        return [("", *ends) for ends in pairwise(borders)]

    def find(self, name: str, part: str | range, others: Sequence[Part]) -> Part:
        """Return where a part is that is named by its text or its tokens: a text that others have
        taken is looked for behind them."""
        if name in OWN_NAMES:
            raise _segment_error(f"'{name}' is what another segment is called")
        if isinstance(part, range):
            if not part or part.start < 0 or part.stop > len(self.spans):
                raise _segment_error(
                    f"tokens {part.start + 1} to {part.stop} of '{name}' are not in the text, "
                    f"which has {counted(len(self.spans), 'token')}"
                )
            stop = len(self.text)
            if part.stop < len(self.spans):
                stop = self.spans[part.stop].start
            return name, self.spans[part.start].start, stop
        words = part.strip()
        if not words:
            raise _segment_error(f"the segment '{name}' is empty")
        start = self.text.find(words)
        while any(start < other_stop and other_start < start + len(words)
                  for _, other_start, other_stop in others) and start >= 0:  # fmt: skip
            start = self.text.find(words, start + 1)
        if start < 0:
            quotation = shorten_text(" ".join(part.split()), MAX_QUOTED_LETTERS)
            where = "only where another segment is" if words in self.text else "not in the text"
            raise _segment_error(f"'{name}' is {where}: \"{quotation}\"")
        return name, start, start + len(words)

    def groups(self, parts: Sequence[Part]) -> tuple[list[list[int]], int]:
        """Return the tokens of each part, and last those of none; and how many cross a border.

        A blank token goes with the one before it, a special token with none.
        """
        starts = [start for _, start, _ in parts]
        borders = sorted({border for _, *ends in parts for border in ends})
        groups: list[list[int]] = [[] for _ in range(len(parts) + 1)]
        own, crossing = 0, 0
        for position, span in enumerate(self.spans):
            if position in self.tokens.special:
                own = len(parts)
            elif span:
                own = bisect_right(starts, span.start) - 1
                if own < 0 or span.start >= parts[own][2]:
                    own = len(parts)
                next_border = bisect_right(borders, span.start)
                crossing += next_border < len(borders) and borders[next_border] < span.stop
            groups[own].append(position)
        return groups, crossing


def _text_of_pieces(tokens: Tokens, count: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the first tokens as a text, and the letters of each in it."""
    text, spans = list[str](), list[tuple[int, int]]()
    end = 0
    for piece, spaced in zip(tokens.pieces[:count], tokens.spaced, strict=False):
        letters = piece.decode(errors="surrogateescape")
        is_apart = spaced and text and not (text[-1][-1:].isspace() or letters[:1].isspace())
        text.append(" " * bool(is_apart) + letters)
        spans.append((end + bool(is_apart), end + len(text[-1])))
        end += len(text[-1])
    return "".join(text), tuple(spans)


def texts_of_tokens(tokens: Tokens, prompt: int | None = None) -> list[str]:
    """Return the text in a part for each token, which has the spaces and line breaks behind it.

    A special token that is not in the text has its piece, and so has what the model wrote after the
    first `prompt` tokens.
    """
    read = TextAsRead.of_tokens(tokens, len(tokens) if prompt is None else prompt)
    starts = [0, *(span.start for span in read.spans[1:]), len(read.text)]
    texts = [read.text[slice(*ends)] for ends in pairwise(starts)]
    pieces = [piece.decode(errors="replace") for piece in tokens.pieces]
    for position in tokens.special.intersection(range(len(texts))):
        if not texts[position].strip():
            texts[position] = pieces[position] + texts[position]
    for piece, spaced in [*zip(pieces, tokens.spaced, strict=True)][len(texts) :]:
        has_space = not spaced or piece[:1].isspace() or texts[-1][-1:].isspace()
        texts.append(piece if has_space else f" {piece}")
    texts[0] = texts[0].removeprefix(" ")
    return texts


@lru_cache(maxsize=4)
def _cut_automatically(tokens: Tokens, kind: str, count: int) -> Segments:
    read = TextAsRead.of_tokens(tokens, count)
    parts = SEGMENT_KINDS[kind](read)
    if kind == "roles":
        return _segments(read, parts, "role", TEMPLATE)
    return _segments(read, parts, kind.removesuffix("s"), is_named=False)


def cut_into_segments(
    tokens: Tokens, choice: str | NamedSegments, prompt: int | None = None
) -> Segments:
    """Return the parts of a text: those of a kind (SEGMENT_KINDS), or those that are named by their
    texts or tokens. What the model wrote after the first `prompt` tokens is a part of its own.

    Refuses names of what is not there, of nothing, or of parts that overlap; and a single part.
    """
    count = len(tokens) if prompt is None else prompt
    if isinstance(choice, str):
        segments = _cut_automatically(tokens, choice, count)
    else:
        read, parts = TextAsRead.of_tokens(tokens, count), list[Part]()
        for name, part in choice.items():
            parts.append(read.find(name, part, parts))
        segments = _segments(read, sorted(parts, key=lambda part: part[1]), "segment", REST)
    if len(segments.groups) < 2:
        other_kind = "parts.toml" if segments.unit == "sentence" else "sentences"
        raise AttnvizError(
            f"the text is one {segments.unit}: there is nothing to compare it with",
            f"give a longer text, or cut it in another way: {opt.segments:{other_kind}}",
            about="segments",
        )
    return segments


def _segments(
    read: TextAsRead, parts: Sequence[Part], unit: str, rest: str = "", *, is_named: bool = True
) -> Segments:
    """Return the tokens of these parts; refuse parts that overlap, or in which no token begins."""
    for (name, _, stop), (other, start, _) in pairwise(parts):
        if start < stop:
            raise _segment_error(f"the segments '{name}' and '{other}' overlap")
    groups, crossing = read.groups(parts)
    names = [name for name, _, _ in parts]
    for name, group in zip(names, groups, strict=False):
        if is_named and not group:
            raise _segment_error(f"no token begins in '{name}'")
    new_tokens = range(len(read.spans), len(read.tokens))
    labels_and_groups = [*zip(names, groups, strict=False), *[(rest, groups[-1])] * is_named]
    if not is_named:
        words = (map(piece_label, read.text[start:stop].encode(errors="replace").split())
                 for _, start, stop in parts)  # fmt: skip
        labels_and_groups = [*zip(map(beginning_of_words, words), groups, strict=False)]
    labels_and_groups.append((ANSWER, [*new_tokens]))
    labels_and_groups = sorted(
        ((name, group) for name, group in labels_and_groups if group), key=lambda each: each[1]
    )
    return Segments(
        tuple(tuple(group) for _, group in labels_and_groups),
        tuple(name for name, _ in labels_and_groups),
        tuple(range(1, len(labels_and_groups) + 1)),
        unit,
        crossing,
        is_named,
    )


def _role_parts(read: TextAsRead) -> list[Part]:
    """Return the messages of a conversation by the roles of who wrote them, numbered where there
    are several of one."""
    roles = read.tokens.roles
    if not roles or read.tokens.read != read.text:
        raise AttnvizError(
            f"{opt.segments:roles} are the messages of a conversation, and this text is none",
            f"give a list of messages as the text, with {opt.chat}",
            about="segments",
        )
    names, parts = [name for name, _, _ in roles], list[Part]()
    for index, (name, start, stop) in enumerate(roles):
        number = f" {names[: index + 1].count(name)}" if names.count(name) > 1 else ""
        parts.append((f"{name}{number}", start, stop))
    return parts


def _sentence_parts(read: TextAsRead) -> list[Part]:
    groups = sentences_of_text(read.tokens).groups
    starts = [group[0] for group in groups if not read.tokens.special.issuperset(group)]
    return read.parts_from(read.spans[start].start for start in starts if start < len(read.spans))


def _parts_at(starts: re.Pattern[str]) -> Callable[[TextAsRead], list[Part]]:
    return lambda read: read.parts_from(match.end() for match in starts.finditer(read.text))


SEGMENT_KINDS: dict[str, Callable[[TextAsRead], list[Part]]] = {
    "sentences": _sentence_parts,
    "lines": _parts_at(LINE_START),
    "paragraphs": _parts_at(PARAGRAPH_START),
    "roles": _role_parts,
}


def _segment_error(problem: str) -> AttnvizError:
    hint = "give texts that are there word for word, or numbers of tokens, each in one segment"
    return AttnvizError(problem, hint, about="segments")
