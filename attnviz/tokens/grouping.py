"""Grouping: the words of a text, or other groups of its tokens."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import regex

from attnviz.errors import shorten_text
from attnviz.tokens.tokens import Tokens, piece_label, piece_phrase

Groups = tuple[tuple[int, ...], ...]
# A word with its apostrophes; a Chinese character (no spaces between them); any other character.
WORD_REGEX = regex.compile(
    r"\p{Han}|[^\W\p{Han}][\w\p{M}--\p{Han}]*(?:['’][\w\p{M}--\p{Han}]+)*|\X", regex.V1
)

SENTENCE_END = regex.compile(r"[.!?…。！？]+[\"'”’»)\]]*\s*\Z")
ABBREVIATION = regex.compile(r"\b(?:\p{L}|[MD]rs?|Ms|St|vs|etc)\.\s*\Z", regex.IGNORECASE)
EMPTY_LINE = regex.compile(r"\n[^\S\n]*\n\s*\Z")
MAX_LABEL_LETTERS = 24  # of a sentence


@dataclass(frozen=True)
class Grouping:
    """Groups of the tokens of a text, in ascending order; tokens may be in none of them."""

    groups: Groups  # positions of the tokens of each
    labels: tuple[str, ...]
    numbers: tuple[int, ...]  # from 1, as in the whole text
    unit: str = "token"  # what each is

    def keep(self, tokens: frozenset[int]) -> Grouping:
        """Return the groups with only these tokens; those that lose all of theirs are left out."""
        groups = [tuple(token for token in group if token in tokens) for group in self.groups]
        remaining = [index for index, group in enumerate(groups) if group]
        return Grouping(
            tuple(groups[index] for index in remaining),
            tuple(self.labels[index] for index in remaining),
            tuple(self.numbers[index] for index in remaining),
            self.unit,
        )


def single_tokens(tokens: Tokens) -> Grouping:
    """Return each token as a group of its own."""
    positions = range(len(tokens))
    return Grouping(
        tuple((position,) for position in positions),
        tokens.labels,
        tuple(position + 1 for position in positions),
    )


@lru_cache(maxsize=4)  # called for each head
def words_of_text(tokens: Tokens) -> Grouping:
    """Return the words of a text, numbered from 1."""
    groups = group_by_word(tokens)
    labels = tuple(_word_label(tokens, group) for group in groups)
    return Grouping(groups, labels, tuple(range(1, len(groups) + 1)), "word")


def word_tokens(tokens: Tokens) -> Tokens:
    """Return the words of a text as Tokens, numbered from 0 in place of ids."""
    words = words_of_text(tokens)
    return Tokens(
        tokens.text,
        tuple(b"".join(tokens.pieces[position] for position in group) for group in words.groups),
        tuple(range(len(words.groups))),
        tuple(tokens.spaced[group[0]] for group in words.groups),
        words.labels,
        frozenset(
            index for index, group in enumerate(words.groups) if tokens.special.issuperset(group)
        ),
    )


def group_by_word(tokens: Tokens) -> Groups:
    """Return the token positions of each word; spaces and punctuation other than apostrophes
    separate words.

    >>> from attnviz.tokens.tokens import Tokens
    >>> pieces = (b"I", b"didn", b"'", b"t", b".")
    >>> spaced = (True, True, False, False, False)
    >>> group_by_word(Tokens("I didn't.", pieces, (1, 2, 3, 4, 5), spaced))
    ((0,), (1, 2, 3), (4,))
    """
    return tuple(word for run in _unspaced_runs(tokens) for word in _words_of_run(tokens, run))


def _unspaced_runs(tokens: Tokens) -> Iterator[list[int]]:
    """Yield runs of token positions without spaces between them; a special token is its own run.

    A token that is only a space belongs to the run after it.
    """
    run: list[int] = []
    for position, spaced in enumerate(tokens.spaced):
        stands_alone = position in tokens.special or position - 1 in tokens.special
        only_spaces = all(tokens.pieces[token].strip(b" ") == b"" for token in run)
        if run and (stands_alone or (spaced and not only_spaces)):
            yield run
            run = []
        run.append(position)
    if run:
        yield run


def _words_of_run(tokens: Tokens, run: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the token positions of each word of a run; a token belongs to the word in which it
    begins."""
    pieces = [tokens.pieces[position].strip() for position in run]
    text = b"".join(pieces).decode(errors="surrogateescape")
    lengths = [
        len(match.group().encode(errors="surrogateescape")) for match in WORD_REGEX.finditer(text)
    ]
    ends, starts = [*accumulate(lengths)], [0, *accumulate(map(len, pieces))]
    words: dict[int, list[int]] = {}
    for position, start in zip(run, starts, strict=False):
        word = sum(end <= start for end in ends)
        words.setdefault(word, []).append(position)
    yield from map(tuple, words.values())


def _word_label(tokens: Tokens, group: tuple[int, ...]) -> str:
    """Return the label of a word: that of its only token, or the text of all its tokens."""
    if len(group) == 1:
        return tokens.labels[group[0]]
    text = b"".join(tokens.pieces[position] for position in group)
    return piece_phrase(text.strip() or text)


@lru_cache(maxsize=4)  # called for each head
def sentences_of_text(tokens: Tokens) -> Grouping:
    """Return the sentences of a text, numbered from 1; what a tokenizer added stands by itself."""
    starts = [position for position in range(len(tokens)) if _begins_sentence(tokens, position)]
    stops = [*starts[1:], len(tokens)]
    groups = tuple(tuple(range(*span)) for span in zip(starts, stops, strict=True))
    labels = tuple(beginning_of_group(tokens, group) for group in groups)
    return Grouping(groups, labels, tuple(range(1, len(groups) + 1)), "sentence")


def _begins_sentence(tokens: Tokens, position: int) -> bool:
    """Return whether a sentence ends before a token: at an empty line, a mark such as `?`, or a
    full stop that ends no initial and no title."""
    if position == 0 or {position - 1, position} & tokens.special:
        return True
    before = b"".join(tokens.pieces[max(0, position - 6) : position]).decode(errors="replace")
    if not tokens.pieces[position].strip() or not before:
        return False
    if SENTENCE_END.search(before) is None or ABBREVIATION.search(before):
        return EMPTY_LINE.search(before) is not None
    return tokens.spaced[position] or before[-1].isspace() or before[-1] in "。！？"


def beginning_of_group(tokens: Tokens, group: tuple[int, ...]) -> str:
    """Return how a sentence, or other group of tokens, begins: `The animal didn't…`."""
    if len(group) == 1:
        return tokens.labels[group[0]]
    pieces = (b" " * tokens.spaced[each] + tokens.pieces[each] for each in group)
    return beginning_of_words(piece_label(word) for word in b"".join(pieces).split())


def beginning_of_words(words: Iterable[str]) -> str:
    text = " ".join(words)
    beginning = textwrap.shorten(text, MAX_LABEL_LETTERS, placeholder="…")
    return shorten_text(text, MAX_LABEL_LETTERS) if beginning == "…" else beginning


GROUPINGS: dict[str, Callable[[Tokens], Grouping]] = {  # by what they are
    "word": words_of_text,
    "sentence": sentences_of_text,
}
