"""Tasks made of lines of text: the next token of each line is predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning.task import NO_TOKEN, TWO_LAYERS, Examples, Reading, Task
from attnviz.learning.task_names import LINE_PIECES
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces import structured_text
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.vectors.random_numbers import draw_uniform
from attnviz.wording.words import counted

LineRows = Int[Tensor, "line token"]
MAX_LINE_TOKENS = 256
HELD_OUT_LINE_INTERVAL = 10  # one in so many lines is held out
END_SIGNS = ("↵", "⏎", "end of line")  # the first that is no token of a line marks its end
MAX_WATCHED_TOKENS = 12  # preferred length of the watched line
MAX_EXAMINED_LINES = 1000  # held-out lines that are searched for readings
READING_LINE_INTERVAL = 8  # a reading is measured if it occurs in one of so many lines
READING_SENTENCES = {
    "previous": "reads the token before",
    "first": "reads the first token",
    "same": "reads the same token before",
    "after same": "reads what followed the same token before",
}


@dataclass(frozen=True, eq=False)
class EncodedLines:
    """The ids of all lines in one tensor, with the start and size of each line."""

    ids: Int[Tensor, "id"]
    starts: Int[Tensor, "line"]
    sizes: Int[Tensor, "line"]

    def line_batch(
        self, line_numbers: Int[Tensor, "line"], longest: int, end: int
    ) -> tuple[LineRows, LineRows]:
        """Return the token ids of some lines, padded with 0, and the token that follows each token.

        The last token of a line is followed by `end`, and padding by NO_TOKEN.
        """
        positions = torch.arange(longest + 1).expand(len(line_numbers), -1)
        sizes, starts = self.sizes[line_numbers, None], self.starts[line_numbers, None]
        ids = self.ids[torch.where(positions < sizes, starts + positions, 0)]
        follows = ids.masked_fill(positions == sizes, end).masked_fill(positions > sizes, NO_TOKEN)
        return ids.masked_fill(positions >= sizes, 0)[:, :-1], follows[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class LineDataset:
    """The lines to train on and the held-out ones, with the readings that are measured."""

    training_lines: EncodedLines
    held_out_lines: EncodedLines  # held out
    longest: int
    end: int  # the answer after the last token
    readings: tuple[str, ...]  # those that occur often enough to be measured

    def draw(self, seed: int, count: int, held_out: bool) -> Examples:
        """Draw lines uniformly; if there are no more held-out lines than `count`, return each
        once."""
        part = self.held_out_lines if held_out else self.training_lines
        if held_out and len(part.sizes) <= count:
            return self.examples(part, torch.arange(len(part.sizes)))
        stream = f"lines {'held out' if held_out else 'learned'}"
        chance = draw_uniform([seed], stream, range(count), 1).flatten()
        return self.examples(part, (chance * len(part.sizes)).long())

    def examples(self, part: EncodedLines, line_numbers: Int[Tensor, "line"]) -> Examples:
        """Return the examples of these lines of one part, without readings that are too rare."""
        ids, answers = part.line_batch(line_numbers, self.longest, self.end)
        readings = readings_in(ids, answers != NO_TOKEN)
        return Examples(ids, answers, {name: readings[name] for name in self.readings})


def task_of_lines(path: Path, tokenizer: str, source: str | None = None) -> Task:
    """Return the task of predicting the next token in the lines of a file, or of its text `source`.

    One in ten lines is held out. Refuses fewer than two different lines, and lines of too many
    tokens.
    """
    text = structured_text.read_text_file(path, "text") if source is None else source
    tokens_by_line = _tokenize_lines(text, path, tokenizer)
    learned, measured = _hold_out_lines([*tokens_by_line], path)
    words = tuple(dict.fromkeys(label for labels in tokens_by_line.values() for label in labels))
    lines = _encode_line_dataset(
        [tokens_by_line[line] for line in learned],
        [tokens_by_line[line] for line in measured],
        words,
    )
    piece = LINE_PIECES[tokenizer]
    end_sign = next(sign for sign in END_SIGNS if sign not in words)
    all_lines = (*measured, *tokens_by_line)
    short = (line for line in all_lines if len(tokens_by_line[line]) <= MAX_WATCHED_TOKENS)
    return Task(
        name=path.stem,
        about=f"the lines of {path.name}, {piece} by {piece}",
        teaches=f"the next {piece} is predicted at every place",
        answer_noun=piece,
        vocabulary=Vocabulary(
            tokenizer=tokenizer, words=words, answers=(*words, end_sign), predicts="next"
        ),
        draw=lines.draw,
        readings=tuple(Reading(name, READING_SENTENCES[name]) for name in lines.readings),
        watch=next(short, measured[0]),
        settings=replace(TWO_LAYERS, dim=64, heads=4),
        longest=lines.longest,
        batch=32,
        seconds=30,
        source=text,
    )


def _tokenize_lines(source: str, path: Path, tokenizer: str) -> dict[str, tuple[str, ...]]:
    """Return the tokens of every different line that is not blank, by line.

    Refuses a line of more than MAX_LINE_TOKENS tokens.
    """
    tokens_by_line: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(source.splitlines(), start=1):
        text = line.strip()
        if text and text not in tokens_by_line:
            tokens = tokens_by_line[text] = tokenize(text, tokenizer).labels
            if len(tokens) > MAX_LINE_TOKENS:
                raise AttnvizError(
                    f"line {number} of '{path}' has {counted(len(tokens), 'token')}, but there are "
                    f"only {MAX_LINE_TOKENS} positions",
                    "split it into shorter lines",
                    file=str(path),
                )
    return tokens_by_line


def _hold_out_lines(lines: Sequence[str], path: Path) -> tuple[list[str], list[str]]:
    """Return the lines to train on and the held-out ones: every tenth, or the last of fewer than
    ten. Refuses fewer than two lines."""
    if len(lines) < 2:
        problem = "there is nothing" if not lines else "there is only one line"
        raise AttnvizError(
            f"'{path}': {problem} to learn from",
            "give at least two different lines; one is held out, to see what was learned",
            file=str(path),
        )
    interval = min(HELD_OUT_LINE_INTERVAL, len(lines))
    training_lines = [line for number, line in enumerate(lines, start=1) if number % interval]
    return training_lines, [*lines[interval - 1 :: interval]]


def _encode_line_dataset(
    learned: Sequence[Sequence[str]], measured: Sequence[Sequence[str]], words: Sequence[str]
) -> LineDataset:
    """Return the lines as token ids, with only those readings that occur in enough of the held-out
    lines. `learned` and `measured` (held out) are lines of tokens; a token's id is its index in
    `words`."""
    numbers = {word: number for number, word in enumerate(words)}
    lines = LineDataset(
        training_lines=_encode_lines(learned, numbers),
        held_out_lines=_encode_lines(measured, numbers),
        longest=max(map(len, [*learned, *measured])),
        end=len(words),
        readings=tuple(READING_SENTENCES),
    )
    examined = torch.arange(min(len(measured), MAX_EXAMINED_LINES))
    readings = lines.examples(lines.held_out_lines, examined).readings
    shares = {name: (read != NO_TOKEN).any(1).double().mean() for name, read in readings.items()}
    frequent = [name for name, share in shares.items() if share >= 1 / READING_LINE_INTERVAL]
    return replace(lines, readings=tuple(frequent))


def _encode_lines(lines: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> EncodedLines:
    """Return lines of tokens as ids; `numbers` has the id of each token."""
    sizes = [len(line) for line in lines]
    return EncodedLines(
        ids=torch.tensor([numbers[label] for line in lines for label in line]),
        starts=torch.tensor([0, *accumulate(sizes)][:-1]),
        sizes=torch.tensor(sizes),
    )


def readings_in(ids: LineRows, has_token: Bool[Tensor, "line token"]) -> dict[str, LineRows]:
    """Return for each reading the position that each token would attend to, or NO_TOKEN.

    The readings are "previous", "first", "same" and "after same"; tokens without `has_token` attend
    to nothing.
    """
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    same = _previous_same_token(ids)
    after = torch.where((same != NO_TOKEN) & (same + 1 < positions), same + 1, NO_TOKEN)
    first = torch.where(positions == 0, NO_TOKEN, 0)
    targets = {"previous": positions - 1, "first": first, "same": same, "after same": after}
    return {name: torch.where(has_token, read, NO_TOKEN) for name, read in targets.items()}


def _previous_same_token(ids: LineRows) -> LineRows:
    """Return the position of the nearest equal token before each token, or NO_TOKEN."""
    order = ids.argsort(stable=True, dim=1)
    ordered = ids.gather(1, order)
    previous = torch.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], NO_TOKEN)
    no_previous = torch.full_like(order[:, :1], NO_TOKEN)
    return torch.empty_like(ids).scatter_(1, order, torch.cat([no_previous, previous], 1))
