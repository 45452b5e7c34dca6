"""Texts of a corpus: numbered, in documents, perhaps each with two answers of its own.

Nothing here needs torch, so that a mistake in a file is found before a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from attnviz.errors import AttnvizError

Answers = tuple[str, str]
ANSWER_COLUMNS = ("text", "answer", "other answer")
COLUMNS_HINT = f"give every text two answers, with tabs between: {', '.join(ANSWER_COLUMNS)}"


class CorpusText(NamedTuple):
    """One text that is not blank."""

    number: int  # from 1, as lines of a file are
    text: str
    document: int  # from 0
    answers: Answers | None = None  # whose logits are compared, if the text names them


class FilledTexts(Iterator[CorpusText]):
    """The texts in which there is something; counts the blank ones, which separate documents.

    `may_answer`: a text may be followed by two answers, with tabs between. Then refuses texts of
    which only some are.
    """

    def __init__(self, texts: Iterable[str], *, may_answer: bool = False) -> None:
        self._numbered_texts = enumerate(texts, 1)
        self._documents = 0  # that have begun
        self._is_between = True  # whether the next text begins a document
        self._may_answer = may_answer
        self._first: CorpusText | None = None
        self.blank = 0

    def __next__(self) -> CorpusText:
        for number, text in self._numbered_texts:
            if text.strip():
                self._documents += self._is_between
                self._is_between = False
                return self._read(CorpusText(number, text, self._documents - 1))
            self.blank += 1
            self._is_between = True
        raise StopIteration

    def _read(self, line: CorpusText) -> CorpusText:
        """Return a line of the corpus as a text, with its answers if it has any."""
        text, answers = split_answers(line.text) if self._may_answer else (line.text, None)
        self._first = first = self._first or line._replace(answers=answers)
        if (answers is None) != (first.answers is None):
            has, had = ("no", "two") if answers is None else ("two", "none")
            raise AttnvizError(
                f"text {line.number} has {has} answers of its own, but text {first.number} has "
                f"{had}",
                COLUMNS_HINT,
                about="texts",
            )
        return line._replace(text=text, answers=answers)


def split_answers(line: str) -> tuple[str, Answers | None]:
    """Return the text of a line and its two answers; a line without three columns is a text.

    >>> split_answers("Mary and John went out. John saw\\tMary\\tJohn")
    ('Mary and John went out. John saw', ('Mary', 'John'))
    """
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != len(ANSWER_COLUMNS) or not all(cells):
        return line, None
    text, answer, other_answer = cells
    return text, (answer, other_answer)


def join_answers(row: object) -> object:
    """Return a row of three strings, the text and its answers, as one line; anything else as it
    is."""
    if not isinstance(row, tuple | list) or len(row) != len(ANSWER_COLUMNS):
        return row
    are_cells = all(isinstance(cell, str) and cell.strip() and "\t" not in cell for cell in row)
    return "\t".join(row) if are_cells else row


def refuse_other_answers(answers: Answers | None, chosen: Sequence[str]) -> None:
    """Refuse `chosen`, options and keywords that say what is compared, beside answers of texts."""
    if answers is not None and chosen:
        names = " and ".join(chosen)
        raise AttnvizError(
            f"the texts name their own answers, and {names} {'is' if len(chosen) == 1 else 'are'} "
            "given as well",
            f"leave {names} out, or give texts without columns",
            about="texts",
        )
